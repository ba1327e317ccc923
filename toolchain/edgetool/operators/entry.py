"""The form of an operator's entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgetool.model.types import Graph, Operator
from edgetool.operators.call import PrepareRule, nothing

Rule = Callable[[Operator, Graph], int]


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """What edgetool knows of one TFLite operator.

    macs: its multiply-accumulates for one run; None for an operator that does none.
    prepare: what its kernel asks of the arena; None where that is not known, so that an arena with it is only
    bounded from below. init: what Init asks for beside the OpData that the runtime's profile describes.
    resolver_method: what registers it, where no runtime's profile says so.
    """

    code: str
    macs: Rule | None = None
    prepare: PrepareRule | None = None
    init: PrepareRule = nothing
    resolver_method: str | None = None
