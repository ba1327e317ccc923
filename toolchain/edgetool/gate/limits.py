"""What the user allows a model to need.

Budgets of memory: thresholds that are tracked, each under a name that tells its size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal, get_args

from edgetool.errors import UsageError
from edgetool.report.document import BudgetInfo
from edgetool.target.quantity import parse_size

# The arena alone; RAM is the arena and the reserve for stack and application, flash the model and that for code.
Of = Literal["arena", "ram", "flash"]
WHAT: Mapping[Of, str] = {
    "arena": "the arena",
    "ram": "the arena plus the RAM reserve",
    "flash": "the model plus the flash reserve",
}

EXPECTED = 'a budget such as "64KiB", "256KiB:flash" or, in a TOML file, {size = "256KiB", of = "flash"}'


@dataclass(frozen=True, slots=True)
class Budget:
    """A threshold in bytes, its size as the user wrote it, and what it is of."""

    text: str
    bytes: int
    of: Of = "arena"


def parse_budget(value: object) -> Budget:
    """The budget of "64KiB", "64KiB:ram", 65536 or {size = "64KiB", of = "ram"}. Raises UsageError."""
    if isinstance(value, Mapping):
        unknown = sorted(str(key) for key in value if key not in ("size", "of"))
        if unknown or "size" not in value:
            what = f"unknown key {unknown[0]!r}" if unknown else "the key 'size' is missing"
            raise UsageError(f"{what}: write {EXPECTED}")
        size, of = _size_text(value["size"]), value.get("of", "arena")
    else:
        size, colon, of = _size_text(value).partition(":")
        of = of.strip() if colon else "arena"
    kind = next((kind for kind in get_args(Of) if kind == of), None)
    if kind is None:
        raise UsageError(f"a budget applies to {', '.join(get_args(Of))}, not to {_told(of)}")
    return Budget(size.strip(), parse_size(size), kind)


def _size_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UsageError(f"{_told(value)} is not {EXPECTED}")
    return str(value)


def _told(value: object) -> str:
    """A value as the user knows it: 'true', '1.5', 'kib'; lists and tables by what they are."""
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, Mapping):
        return "a table"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{text[:40]!r}"


def budget_names(budgets: Sequence[Budget]) -> tuple[str, ...]:
    """ "violates_64kib" of "64KiB", "violates_65536b" of "65536"; where two would be called the same, the one that is
    not of the arena ends in "_ram" or "_flash"."""
    plain = [_plain_name(budget.text) for budget in budgets]
    return tuple(
        name if budget.of == "arena" or plain.count(name) == 1 else f"{name}_{budget.of}"
        for name, budget in zip(plain, budgets, strict=True)
    )


def _plain_name(text: str) -> str:
    number, unit = re.fullmatch(r"([0-9.]+) ?([A-Za-z]*)", text.strip()).groups()  # type: ignore[union-attr]  # parsed
    return f"violates_{number}{unit.lower() or 'b'}"


def judge_budgets(budgets: Sequence[Budget], used: Mapping[Of, int], *, exact: bool = True) -> tuple[BudgetInfo, ...]:
    """Each budget once, violated where what it is of is strictly larger.

    Where the arena is only a lower bound (not exact), a budget that this does not exceed may be violated or not: None.
    """
    return tuple(told[_violated(budget, used[budget.of], exact=exact)] for budget, told in _once(tuple(budgets)))


@lru_cache(maxsize=16)
def _once(budgets: tuple[Budget, ...]) -> tuple[tuple[Budget, Mapping[bool | None, BudgetInfo]], ...]:
    """Each budget once, with what is told of it by whether it is violated.

    Thousands of models may be judged by the same budgets, one after another.
    """
    distinct: dict[tuple[str, Of], Budget] = {}
    for budget in budgets:
        distinct.setdefault((_plain_name(budget.text), budget.of), budget)
    kept = tuple(distinct.values())
    return tuple(
        (budget, {told: BudgetInfo(budget.text, budget.bytes, told, budget.of, name) for told in (True, False, None)})
        for budget, name in zip(kept, budget_names(kept), strict=True)
    )


def _violated(budget: Budget, used_bytes: int, *, exact: bool) -> bool | None:
    violated = used_bytes > budget.bytes
    return violated if violated or exact or budget.of == "flash" else None


MAX_CHARACTERS = 40
PERCENT_EXPECTED = "percent such as 2% or 0.5%"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits beside those of the target's memories; None is none.

    reserve_bytes are kept free in the arena's region for stack and application, reserve_flash_bytes in the model's for
    code. max_accuracy_loss is in percentage points. budgets are tracked, active_budget rejects.
    """

    reserve_bytes: int = 0
    reserve_flash_bytes: int = 0
    max_latency_ms: float | None = None
    max_arena_bytes: int | None = None
    max_accuracy_loss: float | None = None
    budgets: tuple[Budget, ...] = ()
    active_budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class Allowance:
    """By how much a figure may be larger than the locked one: a share of it in percent, or bytes where that is more."""

    percent: float = 0.0
    bytes: int = 0

    def of_bytes(self, before: int) -> int:
        """The bytes that a size may grow by, of the percentage as it was written: 0.29 % of 100,000 are 290."""
        return max(self.bytes, int(before * Decimal(repr(self.percent)) / 100))

    def of_time(self, before: float) -> float:
        """The time that another may grow by: bytes say nothing of it."""
        return before * self.percent / 100

    def __str__(self) -> str:
        parts = [f"{self.percent:g} %"] if self.percent or not self.bytes else []
        return " or ".join([*parts, *([f"{self.bytes:,} B"] if self.bytes else [])])


def parse_percent(text: str) -> float:
    """Percent of "2%" or "0.5 %". Raises UsageError."""
    match = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?) ?%", text.strip()) if len(text) <= MAX_CHARACTERS else None
    if match is None:
        raise UsageError(f"{text.strip()[:MAX_CHARACTERS]!r} is not {PERCENT_EXPECTED}")
    return float(match[1])


def parse_allowance(text: str) -> Allowance:
    """The allowance of "2%" or "4KiB", never of a bare number, which may mean either. Raises UsageError."""
    if re.fullmatch(r"[0-9.]+", text.strip()):
        number = text.strip()[:MAX_CHARACTERS]
        raise UsageError(f"{number!r} is ambiguous (percent or bytes?): write {number}% or {number}B")
    if text.strip().endswith("%"):
        return Allowance(percent=parse_percent(text))
    return Allowance(bytes=parse_size(text))
