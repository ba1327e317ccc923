"""What the user asks of a check beside models and targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from edgetool.gate.limits import Allowance, Limits

LOCK_NAME = "edgetool.lock"


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Limits, the lock file and how it is used, and the reports of convert that tell the accuracy.

    update: write the lock. locked: nothing may differ from it. reports: without any, NAME.json beside each model.
    """

    limits: Limits = field(default_factory=Limits)
    allowance: Allowance = field(default_factory=Allowance)
    lock: Path = Path(LOCK_NAME)
    update: bool = False
    locked: bool = False
    reports: tuple[Path, ...] = ()
    custom_operators: Path | None = None
