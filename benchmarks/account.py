"""Measure how long the account of a large model takes, compared with reading it.

    python -m benchmarks.account [--operators 600] [--rounds 11]

The model is a generated chain of convolutions with a residual connection at every third one. The figures are medians of
CPU time in milliseconds, and their ratio to the time of reading the same file.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from tests.model.builders import Builder

from edgetool.memory.account import account_model
from edgetool.memory.planner import plan_memory
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of


def residual_chain(operators: int) -> Model:
    """Return a chain of convolutions of 8 x 8 x 8 tensors, in which every third operator adds the result three
    operators before."""
    build = Builder(seed=1)
    first = x = earlier = build.activation([1, 8, 8, 8])
    for index in range(operators):
        if index % 3 == 2:
            x = earlier = build.add(x, earlier)
        else:
            x = build.conv(x, 8, kernel=3 if index % 2 else 1)
    return build.model([first], [x])


def median_ms(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append(1e3 * (time.process_time() - started))
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    blob = write_model(residual_chain(arguments.operators))
    model = read_model(blob)
    platform = platform_of(load_target("cortex-m7"))
    reading = median_ms(lambda: read_model(blob), arguments.rounds)
    print(f"{arguments.operators} operators, {len(blob):,} bytes")
    for name, work in (
        ("read", lambda: read_model(blob)),
        ("account", lambda: account_model(model, platform)),
        ("plan", lambda: plan_memory(model, platform)),
    ):
        taken = median_ms(work, arguments.rounds)
        print(f"{name:<8} {taken:8.1f} ms  {taken / reading:5.1f} x reading")


if __name__ == "__main__":
    main()
