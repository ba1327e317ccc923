"""Compare shared whole buffers with an arena of offsets, on real models.

    python -m benchmarks.sharing DATA [--nodes 50000]

DATA is a folder with layout/models/*.csv (id, lower, upper, size; half-open lifetimes) and models/mlperf/*.tflite.
baseline: separate memory for every tensor; greedy and dynamic: the two assignments to whole buffers; bound: a lower
bound on every assignment; offsets: the best layout in one arena, without scratch. All figures are in bytes; the CPU
seconds are those of dynamic programming.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path

from edgetool.memory.layout.solve import solve
from edgetool.memory.lifetimes import layout_problem, timeline
from edgetool.memory.problem import Buffer, Effort, LayoutProblem, Lifetime
from edgetool.memory.sharing.assign import shared_offsets
from edgetool.model.reader import read_model

INSTANCES = ("nasnet_mobile", "densenet121", "resnet50", "tiny_ad01", "tiny_ic", "tiny_kws", "tiny_sww", "tiny_vww")
LINE = "{:<28} {:>7} {:>10} {:>9} {:>9} {:>9} {:>7} {:<16} {:>9} {:>7}"


def problems(data: Path) -> Iterator[tuple[str, LayoutProblem]]:
    """Return the models by name."""
    for name in INSTANCES:
        with (data / "layout" / "models" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        yield (
            name,
            LayoutProblem(
                tuple(
                    Buffer(0, i, row["id"], int(row["size"]), Lifetime(int(row["lower"]), int(row["upper"]) - 1))
                    for i, row in enumerate(rows)
                )
            ),
        )
    for path in sorted((data / "models" / "mlperf").glob("*.tflite")):
        model = read_model(path.read_bytes())
        yield path.name, layout_problem(model, timeline(model))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--nodes", type=int, default=50_000, help="states that the dynamic programming may look at")
    arguments = parser.parse_args()
    titles = ("model", "tensors", "baseline", "greedy", "dynamic", "bound", "buffers", "proof", "offsets", "CPU s")
    print(LINE.format(*titles))
    for name, problem in problems(arguments.data):
        greedy = shared_offsets(problem, "greedy")
        started = time.process_time()
        best = shared_offsets(problem, "dynamic-programming", Effort(node_limit=arguments.nodes))
        seconds = time.process_time() - started
        layout = solve(problem)
        if best.optimized_bytes > greedy.optimized_bytes:
            raise SystemExit(f"{name}: dynamic programming takes more than greedy")
        if layout.height > best.optimized_bytes:
            raise SystemExit(f"{name}: the layout takes more than whole buffers")
        numbers = (best.baseline_bytes, greedy.optimized_bytes, best.optimized_bytes, best.lower_bound)
        print(
            LINE.format(
                name,
                len(problem.buffers),
                *(f"{number}" for number in numbers),
                len(best.sizes),
                "cut short" if best.cut_short else best.proof,
                layout.height,
                f"{seconds:.2f}",
            )
        )


if __name__ == "__main__":
    main()
