"""The form of an operator's entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgetool.model.types import Graph, Operator

Rule = Callable[[Operator, Graph], int]


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """What edgetool knows of one TFLite operator.

    macs: its multiply-accumulates for one run; None for an operator that does none.
    """

    code: str
    macs: Rule | None = None
