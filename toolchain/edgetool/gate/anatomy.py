"""What an arena is made of, at the moment that sets its size and operator by operator.

How much smaller an arena gets at most when one of its buffers shrinks: until another moment sets it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from edgetool.memory.account import ArenaAccount, Peak
from edgetool.memory.bound import live_bytes
from edgetool.memory.lifetimes import Timeline
from edgetool.memory.types import Buffer, LayoutProblem, Lifetime, aligned
from edgetool.model.types import Model

INVOKE = "Invoke"
LONGEST_NAME = 120
LONGEST_TOLD = 60


@dataclass(frozen=True, slots=True, order=True)
class OperatorId:
    """An operator of the file."""

    subgraph: int
    index: int
    label: str

    def __str__(self) -> str:
        place = f"subgraph {self.subgraph}: " if self.subgraph else ""
        return f"{place}operator {self.index} {self.label}"


Ids = dict[tuple[int, int], OperatorId]


@dataclass(frozen=True, slots=True)
class OperatorPart:
    """An operator's part: what it keeps in the tail, its scratch, and the most of the head that is alive with it.

    constants are the bytes of weights that it reads, ns its time in nanoseconds; 0 where that is not estimated.
    """

    operator: OperatorId
    tail: int
    scratch: int
    live: int
    constants: int = 0
    ns: int = 0


@dataclass(frozen=True, slots=True)
class Alive:
    """Bytes of the head that are alive where most are: a tensor's (by name), or an operator's scratch."""

    name: str
    bytes: int
    scratch_of: OperatorId | None = None

    def __str__(self) -> str:
        return f"{self.scratch_of} scratch" if self.scratch_of is not None else f"tensor {_told(self.name)}"


@dataclass(frozen=True, slots=True)
class Anatomy:
    """The arena: `moment` sets its size, with peak_head and peak_tail bytes on both sides.

    moment is "Invoke", or what AllocateTensors does ("planning"), then of `during` where that is a Prepare. busiest is
    the operator with which most of the head is alive, None before the first one; alive, the largest first, says what.
    own: TFLM's own parts of the tail.
    """

    bytes: int
    moment: str
    during: OperatorId | None
    peak_head: int
    peak_tail: int
    head_bytes: int
    tail_bytes: int
    busiest: OperatorId | None
    alive: tuple[Alive, ...]
    own: tuple[tuple[str, int], ...]
    operators: tuple[OperatorPart, ...]

    @property
    def moment_text(self) -> str:
        """As in "Prepare of operator 7 CONV_2D"."""
        return self.moment if self.during is None else f"Prepare of {self.during}"

    @property
    def alive_bytes(self) -> int:
        """The most of the head that is alive at once."""
        return sum(item.bytes for item in self.alive)

    @property
    def gap_bytes(self) -> int:
        """What the layout leaves between tensors there; below 0 where tensors lie over each other."""
        return self.head_bytes - self.alive_bytes


def anatomy_of(model: Model, account: ArenaAccount, times: Timeline) -> Anatomy:
    """The anatomy of an account."""
    ids = operator_ids(model)
    live = _live_at(account.problem)
    position = busiest_position(account.problem)
    tails: Counter[tuple[int, int]] = Counter()
    own: Counter[str] = Counter()
    for row in account.rows:
        if row.operator is not None and row.subgraph is not None:
            tails[row.subgraph, row.operator] += row.bytes
        else:
            own[f"subgraph {row.subgraph}: {row.part}" if row.subgraph else row.part] += row.bytes
    scratch: Counter[tuple[int, int]] = Counter()
    for buffer in account.problem.buffers:
        if buffer.is_scratch:
            scratch[buffer.subgraph, buffer.operator] += buffer.aligned_bytes
    peak = account.peak
    return Anatomy(
        bytes=account.bytes,
        moment="Prepare" if peak.operator is not None else peak.when,
        during=_of_peak(peak, ids),
        peak_head=peak.head_bytes,
        peak_tail=peak.tail_bytes,
        head_bytes=account.head_bytes,
        tail_bytes=account.tail_bytes,
        busiest=running_at(position, times, ids),
        alive=_alive(account.problem, position, ids),
        own=tuple(sorted((name, size) for name, size in own.items())),
        operators=tuple(
            OperatorPart(ids[key], tails[key], scratch[key], live(times.operators.get(key))) for key in sorted(ids)
        ),
    )


def operator_ids(model: Model) -> Ids:
    """Every operator by (subgraph, index)."""
    return {
        (graph.index, op.index): OperatorId(graph.index, op.index, _short(op.label))
        for graph in model.subgraphs
        for op in graph.operators
    }


def busiest_position(problem: LayoutProblem) -> int:
    """The first position at which most bytes of the head are alive; -1 for an empty head."""
    position, _ = max(live_bytes(problem), key=lambda item: item[1], default=(-1, 0))
    return position


def running_at(position: int, times: Timeline, ids: Ids) -> OperatorId | None:
    """The operator that runs at a position, the innermost one; None before the first."""
    spans = [
        (span.last - span.first, key) for key, span in times.operators.items() if span.first <= position <= span.last
    ]
    return ids[min(spans)[1]] if spans else None


def _of_peak(peak: Peak, ids: Ids) -> OperatorId | None:
    return None if peak.operator is None else ids[peak.subgraph or 0, peak.operator]


def _live_at(problem: LayoutProblem) -> Callable[[Lifetime | None], int]:
    """The most bytes alive at any position of a span; 0 for an operator that never runs."""
    steps = live_bytes(problem)
    starts = [position for position, _ in steps]

    def most(span: Lifetime | None) -> int:
        if span is None or span.last < 0:
            return 0
        first = max(bisect_right(starts, span.first) - 1, 0)
        return max((size for _, size in steps[first : bisect_right(starts, span.last)]), default=0)

    return most


def alive_at(problem: LayoutProblem, position: int) -> list[Buffer]:
    """The buffers that are alive at a position and not empty, the largest first."""
    found = [b for b in problem.buffers if b.lifetime.first <= position <= b.lifetime.last and b.aligned_bytes]
    return sorted(found, key=lambda buffer: -buffer.aligned_bytes)


def _alive(problem: LayoutProblem, position: int, ids: Ids) -> tuple[Alive, ...]:
    """The largest first. Scratch of one operator is one item; a name that occurs twice is numbered."""
    scratch: Counter[OperatorId] = Counter()
    tensors: dict[str, int] = {}
    for buffer in alive_at(problem, position):
        if buffer.is_scratch:
            scratch[ids[buffer.subgraph, buffer.operator]] += buffer.aligned_bytes
        else:
            tensors[_unused(buffer_name(buffer), tensors)] = buffer.aligned_bytes
    found = [Alive(name, size) for name, size in tensors.items()]
    found += [Alive(str(operator), size, operator) for operator, size in scratch.items()]
    return tuple(sorted(found, key=lambda item: (-item.bytes, item.name)))


def buffer_name(buffer: Buffer) -> str:
    """The tensor's name, of another subgraph with its number."""
    place = f"subgraph {buffer.subgraph}: " if buffer.subgraph else ""
    return place + (_short(buffer.name) or f"{buffer.tensor} without a name")


def _unused(name: str, taken: dict[str, int]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name} ({number})"
    return found


def _short(name: str, limit: int = LONGEST_NAME) -> str:
    """A name without its middle: a file may hold one of a megabyte."""
    if len(name) <= limit:
        return name
    half = (limit - 3) // 2
    return f"{name[:half]}...{name[-half:]}"


def _told(name: str) -> str:
    """What a sentence calls a tensor: TensorFlow names one after all the layers that it fused into it."""
    return _short(name.partition(";")[0] or name, LONGEST_TOLD)


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
