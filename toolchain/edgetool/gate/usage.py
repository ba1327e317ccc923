"""The share of memory that each model uses on each target, as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetool.gate.said import gate_of
from edgetool.report.document import Report

NO_LIMIT = "-"


@dataclass(frozen=True, slots=True)
class Usage:
    """Arena and model as shares of their limits ("84 %", ">=84 %" for a lower bound, "-" without a limit)."""

    arena: str
    flash: str
    passed: bool

    def __str__(self) -> str:
        """As in "84 % / 10 %"; "-" if neither has a limit."""
        return NO_LIMIT if self.arena == self.flash == NO_LIMIT else f"{self.arena} / {self.flash}"


@dataclass(frozen=True, slots=True)
class Matrix:
    """A row of cells for each model, with a cell for each target; None if a model was not checked on the target."""

    models: tuple[str, ...]
    targets: tuple[str, ...]
    cells: tuple[tuple[Usage | None, ...], ...]


def usage(report: Report) -> Usage:
    """Return the shares against the limits that were checked, which are the memories less what is reserved."""
    return Usage(_share(report, "arena"), _share(report, "flash"), gate_of(report).passed)


def usage_matrix(reports: Sequence[Report]) -> Matrix:
    """Return the matrix; several targets of one name are told apart by their order."""
    rows: dict[str, dict[tuple[str, int], Usage]] = {}
    columns: dict[tuple[str, int], None] = {}
    for report in reports:
        row = rows.setdefault(gate_of(report).path, {})
        name = "-" if report.target is None else report.target.name
        column = (name, sum(known == name for known, _ in row))
        row[column] = usage(report)
        columns[column] = None
    cells = tuple(tuple(row.get(column) for column in columns) for row in rows.values())
    return Matrix(tuple(rows), tuple(name for name, _ in columns), cells)


def _share(report: Report, rule: str) -> str:
    """In whole percent, so that 100 % is neither rounded up nor down to."""
    item = next((item for item in gate_of(report).judgements if item.rule == rule), None)
    if item is None or item.value is None or item.limit is None:
        return NO_LIMIT
    if (item.value > item.limit and 200 * item.value < 201 * item.limit) or item.limit <= 0:
        return ">100 %"
    is_lower_bound = rule == "arena" and report.arena is not None and report.arena.is_lower_bound
    least = ">=" if is_lower_bound else ""
    share = 100 * item.value / item.limit
    if 0 < share < 0.5 and not least:
        return "<1 %"
    return "<100 %" if 99.5 <= share < 100 and not least else f"{least}{share:.0f} %"
