"""The package's data besides profiles, by folder and name: instructions of loops, and factors of other runtimes.

targets/placement.csv contains the measured effect of placing the arena or constants in external memory.
"""

from __future__ import annotations

import csv
import io
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from edgetool.errors import TargetError
from edgetool.target.types import Core, Kernels, RuntimeFactor


def targets_folder() -> Path:
    """Return the folder targets/, wherever it is installed."""
    return Path(import_module("edgetool.targets").__path__[0])


def profile_document(kind: str, name: str) -> dict[str, Any]:
    """Return the parsed TOML of a packaged profile, whose name is one of profile_names(kind)."""
    return tomllib.loads(targets_folder().joinpath(kind, f"{name}.toml").read_text(encoding="utf-8"))


@cache
def profile_names(kind: str) -> tuple[str, ...]:
    """Return the names of the packaged profiles in a folder, sorted by the numbers in them."""
    files = (entry.name for entry in targets_folder().joinpath(kind).iterdir())
    return tuple(
        sorted((name.removesuffix(".toml") for name in files if name.endswith(".toml")), key=_natural_sort_key)
    )


def _natural_sort_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts cortex-m7 before cortex-m33."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


LoopInstructions = Mapping[tuple[str, str], Mapping[str, float]]

INSTRUCTION_COLUMNS = ("operator", "path", "loop", "instructions")
FACTOR_COLUMNS = ("runtime", "core", "factor", "low", "high", "rows", "basis")
# An instruction table's largest entry is a call that clears a buffer; a runtime is never this much slower or faster.
INSTRUCTIONS_RANGE = (0.0, 1e9)
FACTOR_RANGE = (0.01, 100.0)
ROWS_RANGE = (1, 10**6)


@cache
def load_instructions(core_name: str, kernels: Kernels | Literal["native"]) -> LoopInstructions:
    """Return the executed instructions per iteration of each loop, by (operator, path) and then by loop.

    Raises TargetError if there is no such table.

    Args:
        core_name: the core of the table, Core.instructions; for native code, native_core.
        kernels: the kernel set, or native code, whose operators are its kernels.
    """
    where = f"targets/cores/instructions/{core_name}.{kernels}.csv"
    if core_name not in profile_names("cores"):
        raise TargetError(f"unknown core {core_name[:80]!r}", where=where)
    file = targets_folder().joinpath("cores", "instructions", f"{core_name}.{kernels}.csv")
    if not file.is_file():
        raise TargetError(f"there is no table for {core_name} with {kernels} kernels", where=where)
    return parse_instructions(file.read_text(encoding="utf-8"), where=where)


def native_core(core: Core) -> str | None:
    """Return the core whose table of native code applies to a core: its own, or else that of a core with its ABI.

    None if no instructions of native code were counted on any such core.
    """
    folder = targets_folder().joinpath("cores", "instructions")
    if folder.joinpath(f"{core.name}.native.csv").is_file():
        return core.name
    other = core.instructions
    if other is None or profile_document("cores", other)["abi"] != core.abi:
        return None
    return other if folder.joinpath(f"{other}.native.csv").is_file() else None


@cache
def load_factors() -> tuple[RuntimeFactor, ...]:
    """Return how other runtimes compare with TFLM and CMSIS-NN, per core, in the order of targets/factors.csv."""
    where = "targets/factors.csv"
    return parse_factors(targets_folder().joinpath("factors.csv").read_text(encoding="utf-8"), where=where)


def parse_instructions(text: str, *, where: str) -> LoopInstructions:
    """Return the table of a CSV text. Raises TargetError with file and line if it is incomplete or not finite."""
    instructions: dict[tuple[str, str], dict[str, float]] = {}
    for line, row in _csv_rows(text, INSTRUCTION_COLUMNS, where):
        operator, path, loop, figure = row
        loops = instructions.setdefault((operator, path), {})
        if loop in loops:
            raise TargetError(f"{operator}, {path}, {loop} is listed twice", where=line)
        loops[loop] = _parse_number(figure, "instructions", INSTRUCTIONS_RANGE, line)
    return MappingProxyType({key: MappingProxyType(loops) for key, loops in instructions.items()})


def parse_factors(text: str, *, where: str) -> tuple[RuntimeFactor, ...]:
    """Return the factors of a CSV text. Raises TargetError with file and line for an invalid row."""
    factors: dict[tuple[str, str], RuntimeFactor] = {}
    for line, (runtime, core, factor, low, high, rows, basis) in _csv_rows(text, FACTOR_COLUMNS, where):
        if core not in profile_names("cores"):
            raise TargetError(f"core: unknown core {core[:80]!r}", where=line)
        if (runtime, core) in factors:
            raise TargetError(f"{runtime} on {core} is listed twice", where=line)
        item = RuntimeFactor(
            runtime=runtime,
            core=core,
            factor=_parse_number(factor, "factor", FACTOR_RANGE, line),
            low=_parse_number(low, "low", FACTOR_RANGE, line),
            high=_parse_number(high, "high", FACTOR_RANGE, line),
            rows=int(_parse_number(rows, "rows", ROWS_RANGE, line)),
            basis=basis,
        )
        if not item.low <= item.factor <= item.high:
            raise TargetError("factor is not between low and high", where=line)
        factors[runtime, core] = item
    return tuple(factors.values())


def _csv_rows(text: str, columns: tuple[str, ...], where: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each row with its location for errors, "file:line". Raises TargetError for an invalid header or width."""
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        header = next(reader, [])
        if tuple(header) != columns:
            raise TargetError(f"the header must be {','.join(columns)}", where=f"{where}:1")
        for row in reader:
            line = f"{where}:{reader.line_num}"
            if len(row) != len(columns) or not all(cell and cell == cell.strip() for cell in row):
                raise TargetError(f"a row must have {len(columns)} cells, none of them empty", where=line)
            yield line, row
    except csv.Error as error:
        raise TargetError(f"is not valid CSV: {error}", where=f"{where}:{reader.line_num}") from None


def _parse_number(text: str, column: str, limits: tuple[float, float], line: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise TargetError(f"{column}: {text[:80]!r} is not a number", where=line) from None
    low, high = limits
    if not math.isfinite(value) or not low <= value <= high:
        raise TargetError(f"{column}: {value:g} is outside the range {low:g} to {high:g}", where=line)
    return value


Placement = Literal["arena-in-external-ram", "constants-in-external-flash"]

PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
PLACEMENT_COLUMNS = ("placement", "mcu", "core", "factor", "measured", "document", "verified")
PLACEMENT_FILE = "targets/placement.csv"


@dataclass(frozen=True, slots=True)
class PlacementEffect:
    """A measured time divided by the one that instructions and the core's own speed account for.

    mcu: the chip's name, or its beginning. measured: the model, and what was placed where. verified: whether the
    document was read.
    """

    placement: Placement
    mcu: str
    core: str
    factor: float
    measured: str
    document: str
    verified: bool


@cache
def load_placement_effects() -> tuple[PlacementEffect, ...]:
    """Return the packaged table. Raises TargetError if it is invalid."""
    return parse_placement_effects(
        targets_folder().joinpath("placement.csv").read_text(encoding="utf-8"), where=PLACEMENT_FILE
    )


def parse_placement_effects(text: str, *, where: str) -> tuple[PlacementEffect, ...]:
    """Return the effects of a CSV text. Raises TargetError with line and column."""
    try:
        rows = list(csv.reader(text.splitlines(), strict=True))
    except csv.Error as error:
        raise TargetError(f"is not valid CSV: {error}", where=where) from None
    if not rows or tuple(rows[0]) != PLACEMENT_COLUMNS:
        raise TargetError(f"the header must be {','.join(PLACEMENT_COLUMNS)}", where=f"{where}:1")
    return tuple(_parse_effect(row, f"{where}:{number}") for number, row in enumerate(rows[1:], 2))


def _parse_effect(row: list[str], where: str) -> PlacementEffect:
    if len(row) != len(PLACEMENT_COLUMNS) or not all(cell and cell == cell.strip() for cell in row):
        raise TargetError(f"a row must have {len(PLACEMENT_COLUMNS)} cells, none of them empty", where=where)
    word, mcu, core, factor, measured, document, verified = row
    placement = next((known for known in PLACEMENTS if known == word), None)
    if placement is None:
        raise TargetError(f"placement: {word[:80]!r} is not one of {', '.join(PLACEMENTS)}", where=where)
    if verified not in ("true", "false"):
        raise TargetError(f"verified: {verified[:80]!r} is neither true nor false", where=where)
    return PlacementEffect(placement, mcu, core, _parse_factor(factor, where), measured, document, verified == "true")


def _parse_factor(text: str, where: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not (math.isfinite(factor) and 1 <= factor <= 1000):
        raise TargetError(f"factor: {text[:80]!r} is not a number from 1 to 1000", where=where)
    return factor
