"""What the user allows a model to need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from edgetool.errors import UsageError
from edgetool.gate.budgets import Budget
from edgetool.target.quantity import parse_size

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
