"""What came of some inputs: what a worker answers, and what a run sums up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """slowest and largest: the most seconds and extra bytes, and whose they were."""

    count: int = 0
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    breaches: list[dict[str, Any]] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)
    largest: tuple[int, int] = (0, -1)
    seconds: float = 0.0

    def add(self, block: dict[str, Any]) -> None:
        """Count a block in, as its worker answered it."""
        self.count += block["count"]
        self.accepted += block["accepted"]
        self.refused.update(block["refused"])
        self.breaches += block["breaches"]
        self.slowest = max(self.slowest, tuple(block["slowest"]))
        self.largest = max(self.largest, tuple(block["largest"]))
        self.seconds += block["seconds"]
