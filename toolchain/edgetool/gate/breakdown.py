"""The contents of an arena, at the moment that determines its size and for each operator."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from edgetool.memory.account import ArenaAccount, Peak
from edgetool.memory.bound import live_bytes
from edgetool.memory.lifetimes import Timeline
from edgetool.memory.problem import Buffer, LayoutProblem, Lifetime
from edgetool.model.types import Model

INVOKE = "Invoke"
LONGEST_NAME = 120
LONGEST_NAME_SHOWN = 60


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
    """An operator's part: its bytes in the tail, its scratch, and the maximum live bytes of the head while it runs.

    constants are the bytes of weights that it reads, ns its time in nanoseconds; 0 if that is not estimated.
    """

    operator: OperatorId
    tail: int
    scratch: int
    live: int
    constants: int = 0
    ns: int = 0


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """Live bytes at the peak of the head: those of a tensor, by its name, or the scratch of an operator."""

    name: str
    bytes: int
    scratch_of: OperatorId | None = None

    def __str__(self) -> str:
        return f"{self.scratch_of} scratch" if self.scratch_of is not None else f"tensor {_shown(self.name)}"


@dataclass(frozen=True, slots=True)
class ArenaBreakdown:
    """The arena: `moment` determines its size, with peak_head and peak_tail bytes on its two sides.

    moment is "Invoke" or a step of AllocateTensors ("planning"), and `during` the operator if it is a Prepare. busiest
    is the operator at which the head's live bytes reach their maximum, None before the first one; alive lists these
    bytes, the largest first. tflm_parts: the parts of the tail that TFLM itself needs.
    """

    bytes: int
    moment: str
    during: OperatorId | None
    peak_head: int
    peak_tail: int
    head_bytes: int
    tail_bytes: int
    busiest: OperatorId | None
    alive: tuple[LiveBuffer, ...]
    tflm_parts: tuple[tuple[str, int], ...]
    operators: tuple[OperatorPart, ...]

    @property
    def moment_text(self) -> str:
        """The moment in words: "Prepare of operator 7 CONV_2D"."""
        return self.moment if self.during is None else f"Prepare of {self.during}"

    @property
    def alive_bytes(self) -> int:
        """The maximum live bytes of the head."""
        return sum(item.bytes for item in self.alive)

    @property
    def gap_bytes(self) -> int:
        """The gaps between tensors in the layout at the peak; below 0 if tensors overlap."""
        return self.head_bytes - self.alive_bytes


def breakdown_of(model: Model, account: ArenaAccount, times: Timeline) -> ArenaBreakdown:
    """Return the breakdown of an arena."""
    ids = operator_ids(model)
    live = _live_at(account.problem)
    position = busiest_position(account.problem)
    tails: Counter[tuple[int, int]] = Counter()
    of_tflm: Counter[str] = Counter()
    for row in account.rows:
        if row.operator is not None and row.subgraph is not None:
            tails[row.subgraph, row.operator] += row.bytes
        else:
            of_tflm[f"subgraph {row.subgraph}: {row.part}" if row.subgraph else row.part] += row.bytes
    scratch: Counter[tuple[int, int]] = Counter()
    for buffer in account.problem.buffers:
        if buffer.is_scratch:
            scratch[buffer.subgraph, buffer.operator] += buffer.aligned_bytes
    peak = account.peak
    return ArenaBreakdown(
        bytes=account.bytes,
        moment="Prepare" if peak.operator is not None else peak.when,
        during=_of_peak(peak, ids),
        peak_head=peak.head_bytes,
        peak_tail=peak.tail_bytes,
        head_bytes=account.head_bytes,
        tail_bytes=account.tail_bytes,
        busiest=running_at(position, times, ids),
        alive=_alive(account.problem, position, ids),
        tflm_parts=tuple(sorted((name, size) for name, size in of_tflm.items())),
        operators=tuple(
            OperatorPart(ids[key], tails[key], scratch[key], live(times.operators.get(key))) for key in sorted(ids)
        ),
    )


def operator_ids(model: Model) -> Ids:
    """Return every operator by (subgraph, index)."""
    return {
        (graph.index, op.index): OperatorId(graph.index, op.index, _short(op.label))
        for graph in model.subgraphs
        for op in graph.operators
    }


def busiest_position(problem: LayoutProblem) -> int:
    """Return the first position at which the head's live bytes reach their maximum; -1 for an empty head."""
    position, _ = max(live_bytes(problem), key=lambda item: item[1], default=(-1, 0))
    return position


def running_at(position: int, times: Timeline, ids: Ids) -> OperatorId | None:
    """Return the innermost operator that runs at a position; None before the first."""
    spans = [
        (span.last - span.first, key) for key, span in times.operators.items() if span.first <= position <= span.last
    ]
    return ids[min(spans)[1]] if spans else None


def _of_peak(peak: Peak, ids: Ids) -> OperatorId | None:
    return None if peak.operator is None else ids[peak.subgraph or 0, peak.operator]


def _live_at(problem: LayoutProblem) -> Callable[[Lifetime | None], int]:
    """Return a function for the maximum live bytes in a span; 0 for an operator that never runs."""
    steps = live_bytes(problem)
    starts = [position for position, _ in steps]

    def maximum(span: Lifetime | None) -> int:
        if span is None or span.last < 0:
            return 0
        first = max(bisect_right(starts, span.first) - 1, 0)
        return max((size for _, size in steps[first : bisect_right(starts, span.last)]), default=0)

    return maximum


def alive_at(problem: LayoutProblem, position: int) -> list[Buffer]:
    """Return the buffers that are alive at a position and not empty, the largest first."""
    alive = [b for b in problem.buffers if b.lifetime.first <= position <= b.lifetime.last and b.aligned_bytes]
    return sorted(alive, key=lambda buffer: -buffer.aligned_bytes)


def _alive(problem: LayoutProblem, position: int, ids: Ids) -> tuple[LiveBuffer, ...]:
    """Return the live bytes at a position, the largest first, by unique names; an operator's scratch is one item."""
    scratch: Counter[OperatorId] = Counter()
    tensors: dict[str, int] = {}
    for buffer in alive_at(problem, position):
        if buffer.is_scratch:
            scratch[ids[buffer.subgraph, buffer.operator]] += buffer.aligned_bytes
        else:
            tensors[_unused(buffer_name(buffer), tensors)] = buffer.aligned_bytes
    items = [LiveBuffer(name, size) for name, size in tensors.items()]
    items += [LiveBuffer(str(operator), size, operator) for operator, size in scratch.items()]
    return tuple(sorted(items, key=lambda item: (-item.bytes, item.name)))


def buffer_name(buffer: Buffer) -> str:
    """Return the tensor's name, with the subgraph if it is not the main one."""
    place = f"subgraph {buffer.subgraph}: " if buffer.subgraph else ""
    return place + (_short(buffer.name) or f"{buffer.tensor} without a name")


def _unused(name: str, names: dict[str, int]) -> str:
    number, unused = 1, name
    while unused in names:
        number += 1
        unused = f"{name} ({number})"
    return unused


def _short(name: str, limit: int = LONGEST_NAME) -> str:
    """Cut the middle of a long name: in a file, one may take a megabyte."""
    if len(name) <= limit:
        return name
    half = (limit - 3) // 2
    return f"{name[:half]}...{name[-half:]}"


def _shown(name: str) -> str:
    """Return a tensor's name for messages; TensorFlow's name lists all layers that were fused into one."""
    return _short(name.partition(";")[0] or name, LONGEST_NAME_SHOWN)
