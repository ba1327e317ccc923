"""What is to be said of operators that the runtime has, but not as the model uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgetool.finding import Finding
from edgetool.memory.account import ArenaAccount
from edgetool.model.types import Model
from edgetool.operators.legality import Illegal, IllegalKind, illegal_operators
from edgetool.operators.types import OperatorEntry
from edgetool.target.types import Target

NAMED = 6  # operators that a message names

# What becomes of the model on the device, by kind; a missing operator is told of elsewhere.
RULES: dict[IllegalKind, tuple[str, str]] = {
    "type": ("operator-type-not-in-runtime", "the device will reject the model"),
    "limit": ("operator-limit-in-runtime", "the device will reject the model, or compute nothing"),
    "scales": ("operator-scales-in-runtime", "the outputs will be wrong on the device"),
}


def legality_findings(
    model: Model, target: Target, custom: Mapping[str, OperatorEntry] | None, account: ArenaAccount | None
) -> tuple[list[Finding], frozenset[tuple[int, int]]]:
    """One finding for each reason; and the operators by (subgraph, index) whose types were the reason.

    Limits that the arena's account knows for a refusal of AllocateTensors are left to it.
    """
    refused = {
        (item.subgraph, item.operator)
        for item in (account.unaccounted if account is not None else ())
        if item.refusal is not None
    }
    groups: dict[tuple[IllegalKind, str], list[Illegal]] = {}
    for item in illegal_operators(model, target.runtime, custom, kernels=target.kernels):
        known = item.kind == "limit" and (item.subgraph, item.operator.index) in refused
        if item.kind in RULES and not known:
            groups.setdefault((item.kind, item.why), []).append(item)
    findings = [
        Finding(
            RULES[kind][0],
            "error",
            f"in {target.runtime.name}, {why}: {RULES[kind][1]} ({_places(items)})",
        )
        for (kind, why), items in groups.items()
    ]
    typed = frozenset(
        (item.subgraph, item.operator.index) for (kind, _), items in groups.items() if kind == "type" for item in items
    )
    return findings, typed


def _places(items: Sequence[Illegal]) -> str:
    """As in "operators 3, 7 and 2 more"; those of other subgraphs as "1:4"."""
    names = [f"{item.subgraph}:{item.operator.index}" if item.subgraph else str(item.operator.index) for item in items]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"operator{'s' * (len(names) > 1)} {', '.join(names[:NAMED])}{more}"
