"""Executed instructions of an operator: how often its kernel's loops turn, times what a turn executes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetool.operators.kernel import Call, KernelRefusal
from edgetool.operators.work.registry import work_of

# Instructions of one turn, by operator and path, then by loop.
InstructionTable = Mapping[tuple[str, str], Mapping[str, float]]

CALL = "call"  # the loop that every path has: it turns once


@dataclass(frozen=True, slots=True)
class Executed:
    """What one run of an operator executes; instructions is None where no rule or no counted path is known.

    gives_up: its kernel leaves the output unwritten.
    """

    instructions: int | None = None
    gives_up: bool = False


def executed_of(call: Call, table: InstructionTable) -> Executed:
    """What one run of the operator executes; nothing is known of one that its kernel refuses: findings tell that."""
    try:
        work = work_of(call)
    except KernelRefusal:
        return Executed()
    if work is None:
        return Executed()
    turn = table.get((call.operator.label, work.path))
    if turn is None:
        return Executed(None, work.gives_up)
    total = turn.get(CALL, 0.0) + sum(turn.get(loop, 0.0) * turns for loop, turns in work.loops.items())
    return Executed(round(total), work.gives_up)
