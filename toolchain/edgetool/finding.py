"""What a user should know about a result that is not an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation.

    rule: its stable name, kebab-case ("uncalibrated", "model-too-large").
    message: one sentence for a person.
    where: the operator, tensor or file concerned, or None.
    """

    rule: str
    level: Level
    message: str
    where: str | None = None
