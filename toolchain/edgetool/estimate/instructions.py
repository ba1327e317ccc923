"""Executed instructions of an operator: how often its kernel's loops turn, times what a turn executes."""

from __future__ import annotations

from collections.abc import Mapping

from edgetool.operators.kernel import Call, KernelRefusal
from edgetool.operators.work.registry import work_of

# Instructions of one turn, by operator and path, then by loop.
InstructionTable = Mapping[tuple[str, str], Mapping[str, float]]

CALL = "call"  # the loop that every path has: it turns once


def instructions_of(call: Call, table: InstructionTable) -> int | None:
    """The executed instructions of one run of the operator; None where no rule or no counted path is known.

    Nor are there any of an operator that its kernel refuses: findings tell that.
    """
    try:
        work = work_of(call)
    except KernelRefusal:
        return None
    if work is None:
        return None
    turn = table.get((call.operator.label, work.path))
    if turn is None:
        return None
    return round(turn.get(CALL, 0.0) + sum(turn.get(loop, 0.0) * turns for loop, turns in work.loops.items()))
