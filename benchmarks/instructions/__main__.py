"""python -m benchmarks.instructions export DIR [ROOM...] | fit | quality [ROOM...] | heldout DATA

export writes the counted models as .tflite files DIR/ROOM/CASE.tflite: whoever runs them on a TFLM of their own can
count again. fit makes the tables of targets/cores/instructions from the counts. quality tells how well the rules fit
the counts: per operator and path the number of cases, and the median and largest error over all builds. heldout
compares with the counts of whole models in DATA/latency (other people's models, in no fit): per build and kind of
operator, those over 1 % of their model.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import median

from benchmarks.instructions.cases import cases, rooms
from benchmarks.instructions.fit import fit, points, predicted, write_all
from benchmarks.instructions.heldout import compared
from benchmarks.instructions.measured import BUILDS, KERNELS

from edgetool.model.writer import write_model


def export(folder: Path, wanted: list[str]) -> None:
    for room in wanted:
        (folder / room).mkdir(parents=True, exist_ok=True)
        for name, make in cases(room).items():
            (folder / room / f"{name}.tflite").write_bytes(write_model(make()))


def quality(wanted: list[str]) -> None:
    for kernels in KERNELS:
        errors: dict[tuple[str, str], list[tuple[float, str, str]]] = defaultdict(list)
        for core, _ in [build for build in BUILDS if build[1] == kernels]:
            for room in wanted:
                for key, counted in points(room, core, kernels).items():
                    table = fit(counted)
                    errors[key] += [
                        (abs(predicted(point.loops, table) / point.instructions - 1), point.case, core)
                        for point in counted
                    ]
        print(f"{kernels}: operator, path, points, median %, largest % (case, core)")
        for key in sorted(errors):
            worst = max(errors[key])
            middle = median(error for error, _, _ in errors[key])
            print(f"  {key[0]:26} {key[1]:28} {len(errors[key]):5} {middle:8.2%} {worst[0]:8.2%} {worst[1]} {worst[2]}")


def heldout(data: Path) -> None:
    for (core, kernels), rows in sorted(compared(data).items()):
        kinds: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for row in rows:
            if row.share > 0.01:
                kinds[row.operator].append((row.error, f"{row.model}#{row.index}"))
        everything = [item for items in kinds.values() for item in items]
        for kind, items in [*sorted(kinds.items()), ("all", everything)]:
            ordered = sorted(items)
            ninth = ordered[int(0.9 * (len(ordered) - 1))][0]
            worst = ordered[-1]
            print(
                f"{core:14} {kernels:9} {kind:26} n {len(items):4}  median {median(e for e, _ in items):7.2%}"
                f"  p90 {ninth:7.2%}  max {worst[0]:7.2%} {worst[1]}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["export", "fit", "quality", "heldout"])
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    match given.verb:
        case "export":
            export(Path(given.words[0]), given.words[1:] or list(rooms()))
        case "fit":
            write_all()
        case "quality":
            quality(given.words or list(rooms()))
        case "heldout":
            heldout(Path(given.words[0]))


if __name__ == "__main__":
    main()
