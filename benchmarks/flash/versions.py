"""How large the code of other versions of TFLM is, relative to that of the measured one.

The libraries of all versions are compiled in the same way, for one core. For random sets of registrations and those of
models, the factor is that of the library's part of a firmware; the rest of the firmware is the same.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.flash.program import library_files
from benchmarks.flash.sets import registrations_of

from edgetool.archive.link import Linker
from edgetool.estimate.flash import library_code
from edgetool.pipeline.registrations import registrations_of as registrations_of_model
from edgetool.pipeline.source import open_tflite
from edgetool.target.code_sizes import CodeBuild, CodeSizes, Registered
from edgetool.target.load import DEFAULT_RUNTIME, list_runtimes, load_runtime
from edgetool.target.types import Kernels

CORE = "cortex-m7"
SETS = 40
TABLE_ERROR = 0.01  # of the measured version's table, in linked.csv
COUNTS = (1, 2, 3, 4, 6, 8, 12)


def factors(
    libraries: Path, kernels: Kernels, sizes: CodeSizes, models: Sequence[Path]
) -> Iterator[tuple[str, str, float, float, float]]:
    """Yield version, kernels, and the median, smallest and largest factor; the last two relative to the median."""
    build = CodeBuild(kernels)
    newest = Linker(library_files(libraries / f"{DEFAULT_RUNTIME}-{kernels}.a"))
    for name in list_runtimes():
        path = libraries / f"{name}-{kernels}.a"
        if not path.is_file():
            continue
        linker = Linker(library_files(path))
        values = []
        for chosen in _sets(name, kernels, models):
            own = library_code(linker, sizes.registrations, None, build, chosen, path.name)
            other = library_code(newest, sizes.registrations, None, build, chosen, path.name)
            if own.uncounted or other.uncounted:
                continue
            numbers = [number for item in chosen if (number := sizes.number(item.operator, item.function)) is not None]
            rest = sizes.bytes_of(numbers, build, "program")
            library = sizes.bytes_of(numbers, build, "library")
            values.append((library * own.figure.value / other.figure.value + rest) / (library + rest))
        middle = median(values)
        low, high = min(values) / middle, max(values) / middle
        yield name, kernels, middle, low * (1 - TABLE_ERROR), high * (1 + TABLE_ERROR)


def _sets(runtime: str, kernels: Kernels, models: Sequence[Path]) -> Iterator[list[Registered]]:
    version = load_runtime(runtime)
    known = [item for item in registrations_of(version) if item.method and not item.function]
    random = Random(f"{runtime}/{kernels}")
    for _ in range(SETS):
        yield random.sample(known, random.choice(COUNTS))
    for path in models:
        yield [
            Registered(item.operator, item.method or "", item.function or "")
            for item in registrations_of_model(open_tflite(path).model, version, kernels, {})
        ]


def write(path: Path, conditions: str, rows: Sequence[tuple[str, str, float, float, float]]) -> None:
    """Write the table of the package."""
    with path.open("w", newline="", encoding="ascii") as file:
        file.write(f"# {conditions}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("runtime", "kernels", "value", "low", "high"))
        writer.writerows((name, kernels, *(f"{value:.3f}" for value in values)) for name, kernels, *values in rows)
