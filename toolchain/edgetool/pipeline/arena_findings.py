"""What is to be said of an arena's account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from edgetool.finding import Finding
from edgetool.memory.account import ArenaAccount
from edgetool.memory.planner import MemoryPlan
from edgetool.target.types import Target

NAMES_SHOWN = 6
MOST_BYTES = 2**31 - 1  # offsets and sizes in TFLM's planner are int (greedy_memory_planner.cc)


def arena_findings(plan: MemoryPlan, target: Target | None, *, told: Collection[tuple[int, int]] = ()) -> list[Finding]:
    """Why the arena is not exact, where it is not, and on what the figures rest where they were not measured.

    told: operators by (subgraph, index) that another finding says the device refuses.
    """
    account = plan.account
    if plan.constants_in_ram:
        return []
    if account is None or target is None:
        text = (
            "the exact arena size depends on the core and its kernels: without a target, only a lower bound of "
            f"{plan.layout.height:,} bytes is known; specify one with --target"
        )
        return [Finding("arena-lower-bound", "note", text)]
    findings = _refusals(account, target, told)
    unknown = Counter(item.label for item in account.unaccounted if item.refusal is None)
    if unknown:
        text = (
            f"the allocations of {counted(unknown)} are unknown: the arena of {account.bytes:,} bytes is a lower bound"
        )
        findings.append(Finding("arena-lower-bound", "warning", text))
    if account.bytes > MOST_BYTES:
        text = f"the arena of {account.bytes:,} bytes is more than TFLM can plan: its planner uses 32-bit sizes"
        findings.append(Finding("arena-too-large", "error", text))
    abi = target.runtime.abi(target.core.abi)
    if target.kernels not in abi.measured:
        text = (
            f"the arena size is derived, not measured: {target.kernels} kernels were not measured on the {abi.name} ABI"
        )
        findings.append(Finding("arena-derived", "note", text))
    if target.usual_kernels is not None:
        text = (
            f"the arena and the estimate are for the {target.kernels} kernels; with {target.usual_kernels}, which "
            f"{target.name} usually uses, scratch buffers and speed differ"
        )
        findings.append(Finding("kernels-not-modelled", "warning", text))
    return findings


def _refusals(account: ArenaAccount, target: Target, told: Collection[tuple[int, int]]) -> list[Finding]:
    """One finding for each reason, with the operators and tensors that it concerns."""
    refused: dict[str, list[str]] = {}
    for item in account.unaccounted:
        if item.refusal is not None and (item.subgraph, item.operator) not in told:
            where = item.label if item.operator is None else f"operator {item.operator} ({item.label})"
            if item.subgraph:
                where += f" of subgraph {item.subgraph}"
            refused.setdefault(item.refusal, []).append(where)
    return [
        Finding(
            "kernel-refuses",
            "error",
            f"AllocateTensors will fail with {target.kernels} kernels: {refusal}"
            + (f" ({len(places)} times)" if len(places) > 1 else ""),
            places[0] if len(places) == 1 else f"{places[0]} and others",
        )
        for refusal, places in refused.items()
    ]


def counted(names: Counter[str]) -> str:
    """As in "GELU (2x), TILE (1x) and 3 more"; names that files give to custom operators are no terminal's orders."""
    shown = ", ".join(f"{_visible(name)} ({count}x)" for name, count in names.most_common(NAMES_SHOWN))
    left = len(names) - NAMES_SHOWN
    return f"{shown} and {left} more" if left > 0 else shown


def _visible(name: str) -> str:
    return name if name.isprintable() else f"{name!a}"
