"""What an arena is made of, at the moment that sets its size and operator by operator.

How much smaller an arena gets at most when one of its buffers shrinks: until another moment sets it.

What sets a figure that is too large, the largest first, and what would lower it, in figures where we have any.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetool.gate.text import duration, percent
from edgetool.memory.account import ArenaAccount, Peak
from edgetool.memory.bound import live_bytes
from edgetool.memory.lifetimes import Timeline
from edgetool.memory.types import Buffer, LayoutProblem, Lifetime, aligned
from edgetool.model.types import Model
from edgetool.report.document import EstimateInfo, Report
from edgetool.target.types import ARENA_KINDS, Target

if TYPE_CHECKING:
    from edgetool.memory.planner import MemoryPlan

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


NAMED = 5
LEAST_SHARE = 0.01  # of the time: what is not worth naming is below
# Advice on an estimate that other judgements tell, or that needs another command.
ELSEWHERE = ("make it fit", "time a run", "measure a run")
WORTH = 0.02  # of the arena: what other kernels save is worth their time from here on


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Other arenas of the same model; None if there is none, or none was computed.

    planned_bytes: with a plan by edgetool; proven: no order and no layout needs less. kernels and kernels_bytes: with
    the other kernels. saving: the largest saving by shrinking one buffer. replan: the file contains a plan already.
    """

    planned_bytes: int | None = None
    proven: bool = False
    replan: bool = False
    kernels: str | None = None
    kernels_bytes: int | None = None
    saving: Saving | None = None


def alternatives(
    saving: Saving | None,
    *,
    planned: MemoryPlan | None,
    replan: bool,
    kernels: str | None,
    with_kernels: ArenaAccount | None,
) -> Alternatives:
    """Return the alternatives for an arena.

    planned: a plan by edgetool, None if the file's own plan must be kept. with_kernels: the account with the other
    kernels, None if there are none.
    """
    account = None if planned is None else planned.account
    # If the head does not set the arena, the smallest head does not prove the smallest arena.
    in_invoke = account is not None and account.peak.when == INVOKE
    proven = planned is not None and in_invoke and planned.layout.optimal and planned.order_proof != "none"
    comparable = None if with_kernels is None or with_kernels.is_lower_bound else with_kernels
    return Alternatives(
        planned_bytes=None if account is None else account.bytes,
        proven=proven,
        replan=replan,
        kernels=None if comparable is None else kernels,
        kernels_bytes=None if comparable is None else comparable.bytes,
        saving=saving,
    )


def producers(model: Model, account: ArenaAccount) -> dict[str, str]:
    """Return what produces each tensor, by its name, as a phrase; names that several tensors have are omitted."""
    outputs = {
        (graph.index, index): f", output of operator {operator.index} {operator.label}"
        for graph in model.subgraphs
        for operator in graph.operators
        for index in operator.outputs
    }
    phrases = {(graph.index, index): ", an input" for graph in model.subgraphs for index in graph.inputs} | outputs
    tensors = [buffer for buffer in account.problem.buffers if not buffer.is_scratch]
    count = Counter(buffer_name(buffer) for buffer in tensors)
    return {
        name: phrase
        for buffer in tensors
        if count[name := buffer_name(buffer)] == 1 and (phrase := phrases.get((buffer.subgraph, buffer.tensor)))
    }


@dataclass(frozen=True, slots=True)
class Reasons:
    """The causes of a figure, the largest first, and advice on how to lower it.

    elsewhere: other memories that are large enough, which help if the limit is the size of a memory.
    """

    causes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


def arena_reasons(
    report: Report, target: Target, anatomy: Anatomy, others: Alternatives, *, made_by: Mapping[str, str], reserve: int
) -> Reasons:
    """Return the reasons for the size of an arena.

    made_by: what produces each tensor, as a phrase by its name. reserve: bytes to keep free in the arena's region.
    """
    return Reasons(
        tuple(_arena_causes(anatomy, made_by)),
        tuple(_arena_advice(report, target, anatomy, others)),
        _roomier_regions(target, anatomy.bytes + reserve),
    )


def flash_reasons(report: Report, target: Target, *, reserve: int) -> Reasons:
    """Return the reasons for the size of a model: the weights of its operators."""
    advice = [
        f"convert to {row['precision']}: a model of about {row['model_bytes']:,} B"
        for row in _lower_precisions(report.estimate, "model_bytes", report.model.bytes)
    ]
    room = report.model.bytes + reserve
    outside = [item for item in target.regions if item.kind == "external-flash" and item != target.flash_region]
    outside = [item for item in outside if item.size_bytes >= room]
    elsewhere = tuple(f"link the model into {item.name} ({item.size_bytes:,} B)" for item in outside)
    if report.estimate is None:
        return Reasons((), tuple(advice), elsewhere)
    heavy = sorted(report.estimate.operators, key=lambda item: -item.parameter_bytes // max(item.runs, 1))
    weights = [(item.parameter_bytes // max(item.runs, 1), f"{item.index} {item.operator}") for item in heavy[:NAMED]]
    causes = [f"{size:,} B: weights of operator {name}" for size, name in weights if size]
    if causes:
        advice.append(f"use fewer channels or layers, starting with operator {weights[0][1]}")
    return Reasons(tuple(causes), tuple(advice), elsewhere)


def latency_reasons(report: Report) -> Reasons:
    """Return the reasons for a latency: the slowest operators."""
    estimate = report.estimate
    if estimate is None or estimate.latency_ms is None:
        return Reasons()
    total = sum(item.ms.value for item in estimate.operators)
    slowest = sorted(estimate.operators, key=lambda item: -item.ms.value)[:NAMED]
    slowest = [item for item in slowest if item.ms.value >= LEAST_SHARE * total]
    causes = [
        f"{duration(item.ms.value)}: operator {item.index} {item.operator} ({percent(item.ms.value, total)})"
        for item in slowest
    ]
    advice = [text for text in estimate.verdict.advice if not text.startswith(ELSEWHERE)]
    return Reasons(tuple(causes), tuple(advice))


def _arena_causes(anatomy: Anatomy, made_by: Mapping[str, str]) -> list[str]:
    tail = _tail_text(anatomy)
    if anatomy.moment != INVOKE:
        causes = [
            (anatomy.peak_head, f"head memory used during {anatomy.moment_text} in AllocateTensors, not in Invoke"),
            (anatomy.peak_tail, tail),
        ]
        return [f"{size:,} B: {text}" for size, text in sorted(causes, reverse=True) if size]
    where = "the model's inputs" if anatomy.busiest is None else str(anatomy.busiest)
    lap = f", {-anatomy.gap_bytes:,} B of which overlap" if anatomy.gap_bytes < 0 else ""
    causes = [(item.bytes, f"{item}{made_by.get(item.name, '')}") for item in anatomy.alive[:NAMED]]
    left = anatomy.alive[NAMED:]
    if left:
        causes.append((sum(item.bytes for item in left), f"{len(left)} smaller tensors and scratch buffers"))
    causes.append((anatomy.tail_bytes, tail))
    if anatomy.gap_bytes > 0:
        causes.append((anatomy.gap_bytes, "gaps between tensors in the layout"))
    return [
        f"{where}, where {anatomy.alive_bytes:,} B are live at the same time{lap}",
        *(f"{size:,} B: {text}" for size, text in sorted(causes, key=lambda item: -item[0]) if size),
    ]


def _tail_text(anatomy: Anatomy) -> str:
    most = max(anatomy.operators, key=lambda part: part.tail, default=None)
    text = "persistent data of TFLM and its kernels"
    return text if most is None or not most.tail else f"{text}, mostly for {most.operator} ({most.tail:,} B)"


def _arena_advice(report: Report, target: Target, anatomy: Anatomy, others: Alternatives) -> list[str]:
    advice = []
    if others.planned_bytes is not None and others.planned_bytes < anatomy.bytes:
        less = anatomy.bytes - others.planned_bytes
        best = "; no operator order or layout needs less" if others.proven else ""
        options = f"--target {target.name}{' --replan' if others.replan else ''}"
        advice.append(
            f"'edgetool plan {options} -o NEW.tflite' writes a plan into the file: an arena of "
            f"{others.planned_bytes:,} B, {less:,} B less{best}"
        )
    elif others.proven:
        advice.append("no operator order or layout needs less: make the model smaller")
    if others.kernels_bytes is not None and others.kernels_bytes < (1 - WORTH) * anatomy.bytes:
        slower = ", but slower inference" if others.kernels == "reference" else ""
        advice.append(
            f"use the {others.kernels} kernels (--kernels {others.kernels}): an arena of {others.kernels_bytes:,} B, "
            f"{anatomy.bytes - others.kernels_bytes:,} B less{slower}"
        )
    advice += [
        f"convert to {row['precision']}: an arena of about {row['arena_bytes']:,} B"
        for row in _lower_precisions(report.estimate, "arena_bytes", anatomy.bytes)
    ]
    if others.saving is not None:
        saving = others.saving
        effect = (
            f"this saves at most {saving.bytes:,} B; beyond that, {saving.then} determines the arena size"
            if saving.then
            else "the arena shrinks by no more than the tensor does"
        )
        advice.append(f"{saving.what}: {effect}")
    elif anatomy.moment == INVOKE and anatomy.busiest is not None:
        advice.append(f"use fewer channels or a smaller input, starting with {anatomy.busiest}")
    return advice


def _roomier_regions(target: Target, room_bytes: int) -> tuple[str, ...]:
    return tuple(
        f"place the arena in the {region.size_bytes:,} B of {region.name} (--arena-region {region.name})"
        for region in target.regions
        if region.kind in ARENA_KINDS and region != target.arena_region and region.size_bytes >= room_bytes
    )


def _lower_precisions(estimate: EstimateInfo | None, figure: str, own: int) -> Sequence[dict[str, object]]:
    """The rows of the precision table below the model's own that TFLM runs and that need less."""
    table = {} if estimate is None else estimate.precision_tradeoffs
    rows, precision = table.get("rows"), table.get("own")
    if not isinstance(rows, list) or precision is None:
        return []
    place = [row["precision"] for row in rows].index(precision)
    return [row for row in rows[place + 1 :] if row["stock_tflm"] and row[figure] is not None and row[figure] < own]
