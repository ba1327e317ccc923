"""The form of an operator's entry: everything that edgetool knows about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from edgetool.model.types import Graph, Operator
from edgetool.operators.call import Call, Condition, PrepareRule, nothing
from edgetool.operators.loops import WorkRule

MacRule = Callable[[Operator, Graph], int]
PassesRule = Callable[[Call], int]
NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """What edgetool knows of one TFLite operator.

    macs: its multiply-accumulates for one run, from shapes alone (padding counts as if it were data, as is customary);
    None for an operator that does none.
    prepare: what its kernel asks of the arena; None where that is not known, so that an arena with it is only
    bounded from below. init: what Init asks for beside the OpData that the runtime's profile describes.
    loops: what its kernel repeats in one run; None where no estimate is made of it.
    bounds: what keeps the kernel within its tensors, where neither Prepare nor the file's reader looks: without it,
    Eval reads or writes past a tensor, divides by 0 or never ends. Values count only where the file holds them; where
    they decide what is read, the file must. Sources: the kernels of the same names.
    passes: how often the kernel reads its constants from one end to the other; None for once.
    resolver_method: what registers it, where no runtime's profile says so.
    """

    code: str
    macs: MacRule | None = None
    prepare: PrepareRule | None = None
    init: PrepareRule = nothing
    loops: WorkRule | None = None
    bounds: Condition | None = None
    passes: PassesRule | None = None
    resolver_method: str | None = None


def entries(
    *,
    prepare: Mapping[str, PrepareRule],
    loops: Mapping[str, WorkRule],
    macs: Mapping[str, MacRule] = NONE,
    init: Mapping[str, PrepareRule] = NONE,
    bounds: Mapping[str, Condition] = NONE,
    passes: Mapping[str, PassesRule] = NONE,
) -> tuple[OperatorEntry, ...]:
    """The entries of a family from its tables by operator (custom code, for custom operators), sorted."""
    return tuple(
        OperatorEntry(
            code,
            macs.get(code),
            prepare.get(code),
            init.get(code, nothing),
            loops.get(code),
            bounds.get(code),
            passes.get(code),
        )
        for code in sorted({*prepare, *loops, *macs, *init, *bounds, *passes})
    )
