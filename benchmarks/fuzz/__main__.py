"""Broken and odd model files through reader, planner, estimate, writer, emitter and report.

    python -m benchmarks.fuzz [--inputs 1000000] [--first 0] [--seed 1] [--jobs 2] [--state build/fuzz]
    python -m benchmarks.fuzz --replay NUMBER [--seed 1]

Every input is either refused by an error of ours, or served: then the checker accepts its layout, the written file
reads back equal, C files and report are plain text. Anything else, more than a second of CPU time or more than 200 MB
of memory beyond the baseline is a breach: it is printed, its file is kept in the state folder, and the exit status is
1. Interrupted (Ctrl-C, SIGTERM, SIGKILL), the same command goes on where it was. Linux only.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import NoReturn

from benchmarks.fuzz.inputs import ROOT, inputs
from benchmarks.fuzz.judge import judge, way_of
from benchmarks.fuzz.run import Plan, run
from benchmarks.fuzz.tally import Tally

MAX_EXTRA_BYTES = 200_000_000
SHOWN = 20


def summary(total: Tally) -> str:
    """The figures of a run, a line each."""
    refused = ", ".join(f"{name} {count:,}" for name, count in sorted(total.refused.items()))
    return "\n".join(
        (
            f"inputs    {total.count:,}",
            f"accepted  {total.accepted:,}",
            f"refused   {sum(total.refused.values()):,} ({refused})",
            f"breaches  {len(total.breaches):,}",
            f"slowest   {total.slowest[0]:.3f} s of CPU time (input {total.slowest[1]})",
            f"memory    {total.largest[0] / 1e6:.1f} MB above the baseline (input {total.largest[1]})",
            f"CPU time  {total.seconds:,.0f} s",
        )
    )


def main() -> int:
    """Run, keep what failed, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--replay", type=int)
    given = parser.parse_args()
    if given.replay is not None:
        print(judge(inputs(given.seed)[given.replay], way_of(given.replay)) or "accepted")
        return 0
    signal.signal(signal.SIGTERM, _interrupt)
    plan = Plan("edgetool", given.first, given.inputs, given.seed, given.jobs, given.state)

    def tell(total: Tally, seconds_each: float) -> None:
        minutes = seconds_each * (plan.count - total.count) / 60
        text = f"{total.count:,} of {plan.count:,}, {len(total.breaches)} breaches, {minutes:.0f} minutes left"
        print(f"\r{text}   ", end="", file=sys.stderr, flush=True)

    try:
        total = run(plan, tell)
    except KeyboardInterrupt:
        print("\nstopped: the same command goes on from here", file=sys.stderr)
        return 130
    print(file=sys.stderr)
    _keep(total, plan)
    print(summary(total))
    return int(bool(total.breaches) or total.largest[0] > MAX_EXTRA_BYTES)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _keep(total: Tally, plan: Plan) -> None:
    """Each failing input as a file named by its number."""
    source = inputs(plan.seed)
    for breach in total.breaches:
        (plan.state / f"{plan.seed}-{breach['number']}.tflite").write_bytes(source[breach["number"]])
    for breach in total.breaches[:SHOWN]:
        print(f"input {breach['number']}: {breach['kind']}: {breach['text']}")


if __name__ == "__main__":
    sys.exit(main())
