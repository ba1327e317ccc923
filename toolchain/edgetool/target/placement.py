"""What placement was measured to cost: the packaged table targets/placement.csv."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from edgetool.errors import TargetError
from edgetool.target.package import data

Placement = Literal["arena-in-external-ram", "constants-in-external-flash"]

PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
COLUMNS = ("placement", "mcu", "core", "factor", "measured", "document", "verified")
WHERE = "targets/placement.csv"


@dataclass(frozen=True, slots=True)
class PlacementEffect:
    """A measured time by the one that instructions and the core's own speed account for.

    mcu: the chip's name, or how it begins. measured: on what. verified: whether the document was read.
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
    """The packaged table. Raises TargetError for a broken one."""
    return parse_placement_effects(data().joinpath("placement.csv").read_text(encoding="utf-8"), where=WHERE)


def parse_placement_effects(text: str, *, where: str) -> tuple[PlacementEffect, ...]:
    """The effects of a CSV text. Raises TargetError naming line and column."""
    try:
        rows = list(csv.reader(text.splitlines(), strict=True))
    except csv.Error as error:
        raise TargetError(f"is not valid CSV: {error}", where=where) from None
    if not rows or tuple(rows[0]) != COLUMNS:
        raise TargetError(f"the header must be {','.join(COLUMNS)}", where=f"{where}:1")
    return tuple(_effect(row, f"{where}:{number}") for number, row in enumerate(rows[1:], 2))


def _effect(row: list[str], where: str) -> PlacementEffect:
    if len(row) != len(COLUMNS) or not all(cell and cell == cell.strip() for cell in row):
        raise TargetError(f"a row must have {len(COLUMNS)} cells, none of them empty", where=where)
    word, mcu, core, factor, measured, document, verified = row
    placement = next((known for known in PLACEMENTS if known == word), None)
    if placement is None:
        raise TargetError(f"placement: {word[:80]!r} is not one of {', '.join(PLACEMENTS)}", where=where)
    if verified not in ("true", "false"):
        raise TargetError(f"verified: {verified[:80]!r} is neither true nor false", where=where)
    return PlacementEffect(placement, mcu, core, _factor(factor, where), measured, document, verified == "true")


def _factor(text: str, where: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not (math.isfinite(factor) and 1 <= factor <= 1000):
        raise TargetError(f"factor: {text[:80]!r} is not a number from 1 to 1000", where=where)
    return factor
