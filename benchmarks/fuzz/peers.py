"""The same files for edgetool, LiteRT and Vela, as a table.

    python -m benchmarks.fuzz.peers [--inputs 6000] [--seed 1] [--vela-python PATH] [--state build/fuzz]

LiteRT opens a file and allocates its tensors, Vela reads it, edgetool does everything that it does with a model. Each
works in a process of its own that may take 4 GiB and 10 seconds for a file. Vela needs an environment of its own:

    python -m venv build/vela && build/vela/bin/pip install ethos-u-vela
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.fuzz.inputs import ROOT
from benchmarks.fuzz.run import Plan, run
from benchmarks.fuzz.tally import Tally

NAMES = {
    "edgetool": "edgetool: reader, planner, emitter",
    "litert": "LiteRT",
    "litert-reference": "LiteRT, reference kernels",
    "vela": "Vela's reader",
}
ENDED = {"died": "crash", "hangs": "hang", "AlarmError": "hang", "slow": "over 1 s"}
STALL_SECONDS = 10.0
HEAD = "| program | accepted | clean refusal | of these by exiting | raw exception | crash | hang | over 1 s | memory |"


def row(name: str, total: Tally) -> str:
    """A program's line of the table."""
    ended = [ENDED.get(breach["kind"], "raw") for breach in total.breaches]
    slow = ended.count("over 1 s")  # these ended well all the same, and are among the others
    figures = (
        total.accepted,
        sum(total.refused.values()),
        total.refused["exit"],
        ended.count("raw"),
        ended.count("crash"),
        ended.count("hang"),
        slow,
    )
    return f"| {NAMES[name]} | {' | '.join(f'{figure:,}' for figure in figures)} | {total.largest[0] / 1e6:,.0f} MB |"


def main() -> int:
    """Run them one after the other and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=6_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "fuzz-peers")
    parser.add_argument("--vela-python", type=Path, default=ROOT / "build" / "vela" / "bin" / "python")
    given = parser.parse_args()
    print(HEAD)
    print("|---" * HEAD.count(" | ") + "|---|")
    for name in NAMES:
        if name == "vela" and not given.vela_python.exists():
            print(f"Vela is left out: there is no {given.vela_python}", file=sys.stderr)
            continue
        python = str(given.vela_python) if name == "vela" else sys.executable
        plan = Plan(name, 0, given.inputs, given.seed, given.jobs, given.state, python, STALL_SECONDS)
        print(row(name, run(plan)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
