"""How much smaller an arena gets at most when one of its buffers shrinks: until another moment sets it."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.gate.anatomy import (
    INVOKE,
    Alive,
    OperatorId,
    alive_at,
    buffer_name,
    busiest_position,
    operator_ids,
    running_at,
)
from edgetool.memory.account_types import ArenaAccount
from edgetool.memory.bound import live_bytes
from edgetool.memory.lifetimes import Timeline
from edgetool.memory.types import aligned
from edgetool.model.types import Model

TRIED = 8
# What reading, listing and planning take grows with the number of tensors and operators, not with their sizes.
FEWER = "use fewer tensors and operators: AllocateTensors keeps a record for each"


@dataclass(frozen=True, slots=True)
class Saving:
    """At most so many bytes less by doing `what`; then `then` sets the arena, "" where still the same moment."""

    what: str
    bytes: int
    then: str


def best_saving(model: Model, account: ArenaAccount, times: Timeline) -> Saving | None:
    """Of the largest buffers alive at the peak the one by which most can be saved, even if it were gone.

    Of what only AllocateTensors takes at once, the next highest moment is the limit. None where nothing is saved.
    """
    ids = operator_ids(model)
    moments = [(peak.bytes, peak.when) for peak in account.peaks if peak != account.peak and peak.when != INVOKE]
    if account.peak.when != INVOKE:
        moments.append((aligned(account.used_bytes), INVOKE))
    next_bytes, next_moment = max(moments, default=(0, "nothing else"))
    if account.peak.when != INVOKE:
        saved = account.bytes - next_bytes
        operator = account.peak.operator
        remedy = FEWER if operator is None else f"change operator {operator}, whose Prepare temporarily needs that much"
        return Saving(remedy, saved, next_moment) if saved > 0 else None
    position = busiest_position(account.problem)
    steps = live_bytes(account.problem)
    found: list[Saving] = []
    for buffer in alive_at(account.problem, position)[:TRIED]:
        without = [
            (size - buffer.aligned_bytes * (buffer.lifetime.first <= start <= buffer.lifetime.last), start)
            for start, size in steps
        ]
        live, at = max(without, key=lambda item: (item[0], item[1] == position))
        left, then = aligned(live + account.tail_bytes), _at(running_at(at, times, ids))
        if at == position:
            then = ""
        if next_bytes > left:
            left, then = next_bytes, next_moment
        what = Alive(buffer_name(buffer), buffer.aligned_bytes, ids.get((buffer.subgraph, buffer.operator)))
        found.append(Saving(f"shrink {what} ({buffer.aligned_bytes:,} B)", account.bytes - left, then))
    best = max(found, key=lambda item: item.bytes, default=None)
    return best if best is not None and best.bytes > 0 else None


def _at(operator: OperatorId | None) -> str:
    return "data that is live before the first operator" if operator is None else str(operator)
