"""What the user allows a model to need: limits, memory budgets, and growth over the lock file."""

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
from edgetool.target.types import Target

# The arena alone; the arena with the reserve for stack and application; the model with the reserve for code.
BudgetedMemory = Literal["arena", "ram", "flash"]
SUBJECTS: Mapping[BudgetedMemory, str] = {
    "arena": "the arena",
    "ram": "the arena plus the RAM reserve",
    "flash": "the model plus the flash reserve",
}

BUDGET_EXPECTED = 'a budget such as "64KiB", "256KiB:flash" or, in a TOML file, {size = "256KiB", of = "flash"}'


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """A threshold in bytes, its size as the user wrote it, and the memory that it applies to."""

    text: str
    bytes: int
    of: BudgetedMemory = "arena"


def parse_budget(value: object) -> MemoryBudget:
    """Parse "64KiB", "64KiB:ram", 65536 or {size = "64KiB", of = "ram"}. Raises UsageError."""
    if isinstance(value, Mapping):
        unknown = sorted(str(key) for key in value if key not in ("size", "of"))
        if unknown or "size" not in value:
            what = f"unknown key {unknown[0]!r}" if unknown else "the key 'size' is missing"
            raise UsageError(f"{what}: write {BUDGET_EXPECTED}")
        size, of = _size_text(value["size"]), value.get("of", "arena")
    else:
        size, colon, of = _size_text(value).partition(":")
        of = of.strip() if colon else "arena"
    kind = next((kind for kind in get_args(BudgetedMemory) if kind == of), None)
    if kind is None:
        raise UsageError(f"a budget applies to {', '.join(get_args(BudgetedMemory))}, not to {_shown(of)}")
    return MemoryBudget(size.strip(), parse_size(size), kind)


def _size_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UsageError(f"{_shown(value)} is not {BUDGET_EXPECTED}")
    return str(value)


def _shown(value: object) -> str:
    """Return a value as TOML writes it: 'true', '1.5', 'kib'; lists and tables by their kind."""
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, Mapping):
        return "a table"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{text[:40]!r}"


def budget_names(budgets: Sequence[MemoryBudget]) -> tuple[str, ...]:
    """Return the names under which violations are reported: "violates_64kib", "violates_65536b" for a bare number.

    If two names are the same, that of a budget for RAM or flash ends in "_ram" or "_flash".
    """
    plain = [_plain_name(budget.text) for budget in budgets]
    return tuple(
        name if budget.of == "arena" or plain.count(name) == 1 else f"{name}_{budget.of}"
        for name, budget in zip(plain, budgets, strict=True)
    )


def _plain_name(text: str) -> str:
    number, unit = re.fullmatch(r"([0-9.]+) ?([A-Za-z]*)", text.strip()).groups()  # type: ignore[union-attr]  # parsed
    return f"violates_{number}{unit.lower() or 'b'}"


def reported_budgets(budgets: tuple[MemoryBudget, ...], active: MemoryBudget | None) -> tuple[MemoryBudget, ...]:
    """Return the budgets that are reported: the tracked ones, then the active one."""
    return budgets if active is None else (*budgets, active)


def memory_use(
    arena_bytes: int, model_bytes: int, *, reserve_bytes: int = 0, reserve_flash_bytes: int = 0
) -> dict[BudgetedMemory, int]:
    """Return the bytes that budgets are compared with."""
    return {"arena": arena_bytes, "ram": arena_bytes + reserve_bytes, "flash": model_bytes + reserve_flash_bytes}


def judge_budgets(
    budgets: Sequence[MemoryBudget], used: Mapping[BudgetedMemory, int], *, exact: bool = True
) -> tuple[BudgetInfo, ...]:
    """Return each budget once, violated if its memory use is strictly larger.

    If the arena is only a lower bound (not exact), the violation of a budget that it does not exceed is unknown: None.
    """
    return tuple(infos[_violated(budget, used[budget.of], exact=exact)] for budget, infos in _once(tuple(budgets)))


@lru_cache(maxsize=16)
def _once(budgets: tuple[MemoryBudget, ...]) -> tuple[tuple[MemoryBudget, Mapping[bool | None, BudgetInfo]], ...]:
    """Return each budget once, with its entry in the document for every outcome.

    Sweeps judge thousands of models by the same budgets.
    """
    distinct: dict[tuple[str, BudgetedMemory], MemoryBudget] = {}
    for budget in budgets:
        distinct.setdefault((_plain_name(budget.text), budget.of), budget)
    kept = tuple(distinct.values())
    return tuple(
        (
            budget,
            {violated: BudgetInfo(budget.text, budget.bytes, violated, budget.of, name) for violated in VIOLATIONS},
        )
        for budget, name in zip(kept, budget_names(kept), strict=True)
    )


VIOLATIONS = (True, False, None)


def _violated(budget: MemoryBudget, used_bytes: int, *, exact: bool) -> bool | None:
    violated = used_bytes > budget.bytes
    return violated if violated or exact or budget.of == "flash" else None


MAX_CHARACTERS = 40
PERCENT_EXPECTED = "percent such as 2% or 0.5%"


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits that the user sets in addition to the target's memories; None is no limit.

    reserve_bytes are kept free in the arena's region for stack and application, and reserve_flash_bytes in the model's
    region for code. max_accuracy_loss is in percentage points, and max_extra_macs in percent of the model's
    multiply-accumulates. budgets are reported; active_budget also rejects.
    """

    reserve_bytes: int = 0
    reserve_flash_bytes: int = 0
    max_latency_ms: float | None = None
    max_arena_bytes: int | None = None
    max_accuracy_loss: float | None = None
    max_extra_macs: float | None = None
    budgets: tuple[MemoryBudget, ...] = ()
    active_budget: MemoryBudget | None = None


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much larger than the locked figure a figure may be: by the larger of a percentage and a number of bytes."""

    percent: float = 0.0
    bytes: int = 0

    def of_bytes(self, before: int) -> int:
        """Return the bytes that a size may grow by. The percentage counts as written: 0.29 % of 100,000 are 290."""
        return max(self.bytes, int(before * Decimal(repr(self.percent)) / 100))

    def of_time(self, before: float) -> float:
        """Return how much a time may grow, in its unit; an allowance in bytes does not apply to times."""
        return before * self.percent / 100

    def __str__(self) -> str:
        parts = [f"{self.percent:g} %"] if self.percent or not self.bytes else []
        return " or ".join([*parts, *([f"{self.bytes:,} B"] if self.bytes else [])])


def largest_allowance(allowances: Sequence[Allowance]) -> Allowance:
    """Return the allowance that applies if several are given; without any, nothing may grow."""
    return Allowance(
        max((item.percent for item in allowances), default=0.0),
        max((item.bytes for item in allowances), default=0),
    )


def parse_percent(text: str) -> float:
    """Parse "2%" or "0.5 %". Raises UsageError."""
    match = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?) ?%", text.strip()) if len(text) <= MAX_CHARACTERS else None
    if match is None:
        raise UsageError(f"{text.strip()[:MAX_CHARACTERS]!r} is not {PERCENT_EXPECTED}")
    return float(match[1])


def parse_allowance(text: str) -> Allowance:
    """Parse "2%" or "4KiB". Raises UsageError, also for a bare number, which is ambiguous."""
    if re.fullmatch(r"[0-9.]+", text.strip()):
        number = text.strip()[:MAX_CHARACTERS]
        raise UsageError(f"{number!r} is ambiguous (percent or bytes?): write {number}% or {number}B")
    if text.strip().endswith("%"):
        return Allowance(percent=parse_percent(text))
    return Allowance(bytes=parse_size(text))


def check_reserves(target: Target, limits: ModelLimits) -> None:
    """Raise UsageError if the target's memory is too small for a reserve, or unknown and no budget includes it."""
    budgets = {budget.of for budget in reported_budgets(limits.budgets, limits.active_budget)}
    for option, reserve, size, memory, of, remedy in (
        ("--reserve", limits.reserve_bytes, target.sram_bytes, "RAM", "ram", "--sram"),
        ("--reserve-flash", limits.reserve_flash_bytes, target.flash_bytes, "flash", "flash", "--flash"),
    ):
        if reserve and size is None and of not in budgets:
            raise UsageError(
                f"{option} reserves memory, but the {memory} size of {target.name} is unknown",
                fix=f"name a board, or specify {remedy}",
            )
        if size is not None and reserve >= size:
            raise UsageError(
                f"{option} of {reserve:,} B leaves nothing of the {size:,} B of {memory} on {target.name}",
                fix="specify less",
            )
