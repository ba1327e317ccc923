"""Programs that a linker has linked for sets of registrations, compared with what the tables state for these."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from random import Random

from benchmarks.flash.program import Sources, firmware, library_files
from benchmarks.flash.sets import as_registration

from edgetool.archive.link import Linker
from edgetool.estimate.flash import library_code
from edgetool.pipeline.registrations import registrations_of
from edgetool.pipeline.source import open_tflite
from edgetool.target.code_sizes import LOG, CodeBuild, CodeSizes, Registered
from edgetool.target.load import load_target
from edgetool.target.types import Kernels

MEASURED = Path(__file__).parent / "measured" / "linked.csv"
# The model whose runner and main.cc every program has.
BASE = Path(__file__).parents[2] / "examples" / "keyword_spotting" / "keyword_spotting.tflite"
COUNTS = (0, 1, 2, 3, 4, 6, 8, 12, 20)
TYPED_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Row:
    """A program, its size, and what the table and the library state of it.

    what: the seed of its random set, or the name of a model. registrations: the numbers in the table.
    """

    core: str
    build: str
    what: str
    registrations: str
    linked_bytes: int
    table_bytes: int
    library_bytes: int

    @property
    def error(self) -> float:
        """The error of the table, relative to the linked program."""
        return self.table_bytes / self.linked_bytes - 1

    @property
    def library_error(self) -> float:
        """The error of what is counted in the library, relative to the linked program."""
        return self.library_bytes / self.linked_bytes - 1


def measure(
    sizes: CodeSizes, core: str, sources: Sources, libraries: Path, count: int, models: Sequence[Path]
) -> list[Row]:
    """Return a row for each set and build."""
    rows = []
    builds = [_parsed(name) for name in sizes.builds]
    paths = {build: (libraries / f"{build.kernels}-{build.optimization}.a").resolve() for build in builds}
    linkers = {path: Linker(library_files(path)) for path in set(paths.values())}
    for kernels in dict.fromkeys(build.kernels for build in builds):
        with tempfile.TemporaryDirectory() as folder:
            program = firmware(BASE, core, kernels, sources, Path(folder))
            for what, chosen in _sets(sizes, core, kernels, count, models):
                program.register([as_registration(item) for item in chosen])
                numbers = sorted(sizes.registrations.index(item) for item in chosen)
                for build in (each for each in builds if each.kernels == kernels):
                    path = paths[build]
                    linked = program.flash_bytes(program.link(path, build.c_library))
                    counted = library_code(linkers[path], sizes.registrations, sizes, build, chosen, path.name)
                    sums = (linked, sizes.bytes_of(numbers, build), round(counted.figure.value))
                    rows.append(Row(core, str(build), what, " ".join(map(str, numbers)), *sums))
    return rows


def build_of(row: Row) -> CodeBuild:
    """Return the build of a program."""
    return _parsed(row.build)


def _parsed(name: str) -> CodeBuild:
    kernels, optimization, c_library = name.split()
    return CodeBuild(kernels, optimization, c_library)  # type: ignore[arg-type]  # the names of a table


def _sets(
    sizes: CodeSizes, core: str, kernels: Kernels, count: int, models: Sequence[Path]
) -> Iterator[tuple[str, list[Registered]]]:
    general = [item for item in sizes.registrations if item.method and not item.function]
    typed = [item for item in sizes.registrations if item.function and kernels == "cmsis-nn"]
    for number in range(count):
        seed = f"{core}/{kernels}/{number}"
        random = Random(seed)
        chosen = random.sample(general, random.choice(COUNTS))
        for place, item in enumerate(chosen):
            specific = [each for each in typed if each.operator == item.operator]
            if specific and random.random() < TYPED_SHARE:
                chosen[place] = random.choice(specific)
        yield seed, chosen
    target = load_target(core)
    for path in models:
        registered = registrations_of(open_tflite(path).model, target.runtime, kernels, {})
        numbers = [sizes.number(item.operator, item.function) for item in registered]
        yield path.stem, [sizes.registrations[number] for number in numbers if number is not None]


def write(path: Path, sizes: CodeSizes, rows: Sequence[Row]) -> None:
    """Replace the rows of the core in the table; the conditions are those of its table of sizes."""
    others = [row for row in read(path) if row.core != rows[0].core] if path.exists() else []
    with path.open("w", newline="", encoding="ascii") as file:
        for name in ("tflm", "cmsis-nn", "compiler", "libraries"):
            file.write(f"# {name}: {sizes.conditions[name]}\n")
        file.write(f"# set: Random(what); the log {LOG} prints formats as they are\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows(astuple(row) for row in sorted([*others, *rows], key=lambda row: row.core))


def read(path: Path = MEASURED) -> list[Row]:
    """Return the rows of the table."""
    with path.open(encoding="ascii") as file:
        table = csv.DictReader(line for line in file if not line.startswith("# "))
        return [
            Row(
                *(row["core"], row["build"], row["what"], row["registrations"]),
                linked_bytes=int(row["linked_bytes"]),
                table_bytes=int(row["table_bytes"]),
                library_bytes=int(row["library_bytes"]),
            )
            for row in table
        ]
