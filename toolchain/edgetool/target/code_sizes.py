"""The bytes of code that registrations of operators keep in a firmware, measured for each core and build of TFLM.

targets/runtimes/code contains a list of the registrations of a runtime, and a table for each core. A row of a table has
the registrations, as numbers in that list, that keep a group of sections, and the bytes of the group in each build. A
program contains a group once if it has any of its registrations, and a group without registrations always.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from edgetool.errors import TargetError
from edgetool.target.tables import targets_folder
from edgetool.target.types import CLibrary, Kernels, Optimization

Part = Literal["library", "program"]
LOG = "DebugLog"  # the entry for TFLM's own log, which formats with vsnprintf
REGISTRATION_COLUMNS = ("operator", "method", "function", "header", "symbols")
ROW_COLUMNS = ("part", "registrations")
_PARTS: Mapping[str, Part] = {"library": "library", "program": "program"}
MAX_BYTES = 2**24
FOLDER = "targets/runtimes/code"


@dataclass(frozen=True, slots=True)
class CodeBuild:
    """How TFLM was built: its kernels, how the compiler optimized them, and the C library that the program links.

    The optimization is that of the kernels; TFLM's Makefile optimizes the rest for size.
    """

    kernels: Kernels
    optimization: Optimization = "O2"
    c_library: CLibrary = "newlib"

    def __str__(self) -> str:
        """Return the name of the column: "cmsis-nn O2 newlib"."""
        return f"{self.kernels} {self.optimization} {self.c_library}"


@dataclass(frozen=True, slots=True)
class VersionFactor:
    """The size of the code with a version of TFLM relative to the measured one, and the band relative to that size."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Registered:
    """A registration: a method of the op resolver, and the function that it is given for type-specific kernels, or "".

    header: The header that declares the function.
    symbols: What the program needs for it from TFLM. For the entry without an operator: what every program needs.
    """

    operator: str
    method: str
    function: str = ""
    header: str = ""
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeRow:
    """A group of sections: its part of the firmware, the numbers of its registrations, and its bytes in each build.

    part: "library" for TFLM and its kernels, "program" for the runner, start-up code and C library. A size is negative
    if these registrations load a file instead of another one, which a second row counts for them, too.
    """

    part: Part
    registrations: frozenset[int]
    bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CodeSizes:
    """The table of a core. builds: the columns, "KERNELS OPTIMIZATION C-LIBRARY"; conditions: what they depend on."""

    registrations: tuple[Registered, ...]
    builds: tuple[str, ...]
    rows: tuple[CodeRow, ...]
    conditions: Mapping[str, str]

    def number(self, operator: str, function: str | None = None) -> int | None:
        """Return the number of a registration; None if the table does not have it."""
        for number, item in enumerate(self.registrations):
            if (item.operator, item.function) == (operator, function or ""):
                return number
        return None

    def bytes_of(self, numbers: Collection[int], build: CodeBuild, part: Part | None = None) -> int:
        """Return the bytes of a firmware with these registrations, or of a part of it."""
        chosen, column = frozenset(numbers), self.builds.index(str(build))
        return sum(
            row.bytes[column]
            for row in self.rows
            if part in (None, row.part) and (not row.registrations or not chosen.isdisjoint(row.registrations))
        )

    def basis(self, build: CodeBuild) -> str:
        """Return what the bytes depend on: "cmsis-nn, cortex-m7, arm-none-eabi-gcc 12.2.1 -O2, newlib"."""
        core, compiler = self.conditions["core"], self.conditions["compiler"]
        return f"{build.kernels}, {core}, {compiler} -{build.optimization}, {build.c_library}"


@cache
def load_version_factors() -> Mapping[tuple[str, str], VersionFactor]:
    """Return the factors of all versions of TFLM, by the names of version and kernels."""
    text = targets_folder().joinpath("runtimes", "code", "versions.csv").read_text(encoding="ascii")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("# "))
    return {
        (row["runtime"], row["kernels"]): VersionFactor(*(float(row[name]) for name in ("value", "low", "high")))
        for row in rows
    }


@cache
def load_registrations(runtime: str) -> tuple[Registered, ...]:
    """Return the registrations of a runtime that tables refer to; none if it has no tables."""
    file = targets_folder().joinpath("runtimes", "code", f"{runtime}.csv")
    return parse_registrations(file.read_text(encoding="ascii")) if file.is_file() else ()


@cache
def load_code_sizes(runtime: str, core: str) -> CodeSizes | None:
    """Return the table of a core for a runtime, by their names; None if there is none."""
    file = targets_folder().joinpath("runtimes", "code", f"{runtime}.{core}.csv")
    if not file.is_file():
        return None
    text = file.read_text(encoding="ascii")
    return parse_code_sizes(load_registrations(runtime), text, where=f"{FOLDER}/{file.name}")


def parse_registrations(text: str) -> tuple[Registered, ...]:
    """Return the registrations of a CSV file."""
    return tuple(
        Registered(row["operator"], row["method"], row["function"], row["header"], tuple(row["symbols"].split()))
        for row in csv.DictReader(io.StringIO(text))
    )


def parse_code_sizes(known: tuple[Registered, ...], table: str, *, where: str) -> CodeSizes:
    """Return a core's table from the text of its CSV file. Raises TargetError if it is not valid."""
    lines = table.splitlines()
    comments = [line.removeprefix("# ").partition(": ") for line in lines if line.startswith("# ")]
    header, *cells = (line.split(",") for line in lines if not line.startswith("# "))
    if tuple(header[: len(ROW_COLUMNS)]) != ROW_COLUMNS:
        raise TargetError(f"does not begin with the columns {', '.join(ROW_COLUMNS)}", where=where)
    rows = []
    for number, row in enumerate(cells, 1):
        try:
            rows.append(_row(row, len(header), len(known)))
        except ValueError as error:
            raise TargetError(f"row {number} is not valid: {error}", where=where) from None
    builds = tuple(header[len(ROW_COLUMNS) :])
    return CodeSizes(known, builds, tuple(rows), {name: value for name, _, value in comments})


def _row(row: list[str], columns: int, count: int) -> CodeRow:
    if len(row) != columns:
        raise ValueError(f"it has {len(row)} cells instead of {columns}")
    part, numbers = _PARTS.get(row[0]), _numbers(row[1])
    if part is None:
        raise ValueError(f"{row[0][:20]!r} is no part of a firmware")
    if any(not 0 < number < count for number in numbers):
        raise ValueError("it has a registration that does not exist")
    sizes = tuple([int(cell or 0) for cell in row[len(ROW_COLUMNS) :]])
    if max(map(abs, sizes)) > MAX_BYTES:
        raise ValueError(f"its sizes are not at most {MAX_BYTES:,} bytes")
    return CodeRow(part, numbers, sizes)


def _numbers(text: str) -> frozenset[int]:
    numbers: list[int] = []
    for item in text.split():
        first, dash, last = item.partition("-")
        numbers += range(int(first), int(last) + 1) if dash else (int(first),)
    return frozenset(numbers)


def format_code_sizes(sizes: CodeSizes) -> tuple[str, str]:
    """Return the registrations and the rows as CSV, which parse_code_sizes reads."""
    registrations, table = io.StringIO(), io.StringIO()
    writer = csv.writer(registrations, lineterminator="\n")
    writer.writerow(REGISTRATION_COLUMNS)
    for item in sizes.registrations:
        writer.writerow((item.operator, item.method, item.function, item.header, " ".join(item.symbols)))
    table.writelines(f"# {name}: {value}\n" for name, value in sizes.conditions.items())
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow((*ROW_COLUMNS, *sizes.builds))
    for row in sorted(sizes.rows, key=lambda row: (row.part, len(row.registrations), sorted(row.registrations))):
        writer.writerow((row.part, _ranges(sorted(row.registrations)), *(size or "" for size in row.bytes)))
    return registrations.getvalue(), table.getvalue()


def _ranges(numbers: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
