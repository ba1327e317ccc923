"""Which regions of a model to run in stripes, and in how many, so that its arena becomes small.

Estimates of the live bytes and of the cost of each region are enough to combine regions: for a limit on the live bytes,
the best combination is a shortest path through the operators, whose steps are an operator or a region in N stripes
within the limit. Its length is what the copies cost in the tail; the extra multiply-accumulates are within the budget.
The limits themselves are those of the steps. The combinations with the smallest estimated arenas, and changes to the
best of them, are then planned as they would be written, and the exact arenas are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from edgetool.errors import UnsupportedModelError
from edgetool.memory.account import account_plan, head_problem, prepare
from edgetool.memory.bound import live_bytes
from edgetool.memory.layout.solve import quick_offsets
from edgetool.memory.overlaps import OperatorOverlaps, operator_overlaps
from edgetool.memory.planner import Plan, PlanRequest, plan_memory, tensor_offsets
from edgetool.memory.problem import Effort, aligned
from edgetool.memory.views import view_offsets, view_problem
from edgetool.model.types import Graph, Model
from edgetool.model.views import with_views
from edgetool.operators.call import arena_bytes
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import operator_costs
from edgetool.passes.stripes import Copy, Region, RowGraph, Striped, row_bytes, stripe
from edgetool.target.platform import Platform

STRIPES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
MAX_OPERATORS = 16  # of a region
MAX_LIMITS = 60  # limits on the live bytes for which combinations are computed
MAX_LABELS = 12  # partial combinations per operator, by tail and multiply-accumulates
TRIED, IMPROVED = 16, 36  # combinations whose arena is computed: by estimate, and changes to the best one
TRIAL_ORDERS = 300  # of the buffers, for the layout of each
FINALISTS, FINAL_ORDERS = 4, 2_000  # the combinations that are compared again, by better layouts
FINAL_NODES = 200_000  # search nodes for the layout of the best one
NEVER = 2**62
VIEWS_PER_COPY = 2  # tensors of a copy: its output, and on average a view


@dataclass(frozen=True, slots=True)
class _Step:
    """A region with its estimated live bytes, the bytes of its copies in the tail, and extra multiply-accumulates."""

    region: Region
    live_bytes: int
    tail_bytes: int
    extra_macs: int


@dataclass(frozen=True, slots=True)
class _Label:
    """A combination of regions up to some operator."""

    tail_bytes: int
    extra_macs: int
    regions: tuple[Region, ...] = ()
    live_bytes: int = 0


@dataclass(frozen=True, slots=True)
class StripedPlan:
    """A model in stripes, the regions, and its memory plan."""

    striped: Striped
    model: Model
    regions: tuple[Region, ...]
    plan: Plan

    @property
    def arena_bytes(self) -> int:
        """The size of the arena."""
        assert self.plan.account is not None
        return self.plan.account.bytes


def plan_stripes(
    model: Model,
    base: Plan,
    platform: Platform,
    request: PlanRequest,
    effort: Effort,
    *,
    max_extra_macs: float,
    capacity: int | None = None,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> StripedPlan | None:
    """Return the plan with the smallest arena of those that compute some regions in stripes; None if that of the model
    without stripes is as small.

    Args:
        model: The model without views, in the order of the base plan, with operators numbered in this order.
        base: Its plan without stripes.
        platform: The build that it is for.
        request: The options of the plan.
        effort: The effort of the final layout; its end also ends the search for regions.
        max_extra_macs: The limit on extra multiply-accumulates, as a share of those of the model.
        capacity: An arena that is small enough, in bytes: the search ends at the first one.
        custom: Entries of operators that the user describes.
    """
    if base.account is None or len(model.subgraphs) > 1:
        return None
    total = sum(cost.macs for cost in operator_costs(model, custom))
    search = _Search(model, base, int(total * max_extra_macs), custom)

    known: dict[tuple[Region, ...], int] = {}

    def arena(regions: tuple[Region, ...]) -> int:
        """Return the size of the arena with a quick layout."""
        if regions not in known:
            known[regions] = trial(regions, TRIAL_ORDERS)
        return known[regions]

    def trial(regions: tuple[Region, ...], orders: int) -> int:
        return search.trial_bytes(regions, platform, overlaps_of, orders, keep_inputs=request.keep_inputs)

    def overlaps_of(made: Model) -> OperatorOverlaps:
        return operator_overlaps(made, platform) if request.overlap else {}

    tried = search.combinations()[:TRIED]
    best = min(tried, key=arena, default=())
    enough = 0 if capacity is None else capacity
    while best and arena(best) > enough and len(known) < TRIED + IMPROVED and not effort.stops_rows():
        better = next((made for made in search.changed(best) if arena(made) < arena(best)), None)
        if better is None:
            break
        best = better
    if not best or arena(best) >= NEVER:
        return None
    finalists = sorted(known, key=arena)[:FINALISTS]
    options = replace(request, order="original", file_plan="replace", shrink=False)
    # The number of layouts is limited: as in plans of rows, time only ends the search on slow machines.
    nodes = FINAL_NODES if effort.node_limit is None else effort.node_limit
    effort = replace(effort, node_limit=nodes, stop=effort.stops_rows)
    for regions in sorted(finalists, key=lambda made: trial(made, FINAL_ORDERS)):
        striped = stripe(model, regions)
        made = with_views(striped.model, striped.views)
        try:
            plan = plan_memory(made, platform, options, effort, custom=custom)
        except UnsupportedModelError:
            continue  # TFLM would place scratch buffers in tensors with views: others may leave it more room
        final = StripedPlan(striped, made, regions, plan)
        return final if final.arena_bytes < base.account.bytes else None
    return None


class _Search:
    """The estimates of all regions, and their combinations."""

    def __init__(
        self, model: Model, base: Plan, budget: int, custom: Mapping[str, OperatorEntry] | None = None
    ) -> None:
        assert base.account is not None
        self.model = model
        self.custom = custom
        self.graph: Graph = model.main
        self.rows = RowGraph(self.graph)
        self.budget = budget
        self.arena_bytes = base.account.bytes
        self.tail_bytes = base.account.tail_bytes
        self.live = _live_per_operator(base, len(self.graph.operators))
        self.macs = [cost.macs for cost in operator_costs(model) if cost.subgraph == 0]
        self.tails = [0] * len(self.graph.operators)
        for row in base.account.rows:
            if row.section == "tail" and row.subgraph == 0 and row.operator is not None:
                self.tails[row.operator] += row.bytes
        nodes = {"NodeAndRegistration array": 0, "TfLiteEvalTensor array": 0}
        for row in base.account.rows:
            if row.part in nodes and row.subgraph == 0:
                nodes[row.part] = row.requested_bytes // row.count
        self.copy_bytes = nodes["NodeAndRegistration array"] + VIEWS_PER_COPY * nodes["TfLiteEvalTensor array"]
        self.shared = [self._shared(position, base) for position in range(len(self.graph.operators))]
        self.steps: dict[Region, _Step] = {}
        for step in self._steps():
            self.steps[step.region] = step

    def _shared(self, position: int, base: Plan) -> int:
        """Return the bytes by which input and output exceed the larger of both although they overlap."""
        operator = self.graph.operators[position]
        sizes = {
            buffer.tensor: buffer.aligned_bytes
            for buffer in base.problem.buffers
            if buffer.subgraph == 0 and buffer.operator < 0
        }
        tensors = [b.tensor for b in base.problem.buffers]
        output = operator.outputs[0] if operator.outputs else -1
        inputs = [index for index in operator.inputs if index in sizes]
        if output not in sizes or not inputs:
            return 0
        alone = min(sizes[inputs[0]], sizes[output])
        distances = [
            item.min_distance
            for item in base.problem.overlaps
            if tensors[item.first] in inputs and tensors[item.second] == output
        ]
        if not distances:
            return alone
        union = max(sizes[output], sizes[inputs[0]] + min(distances))
        return min(alone, union - max(sizes[inputs[0]], sizes[output]))

    def _steps(self) -> Iterator[_Step]:
        """Yield the regions that need fewer live bytes than their operators one after another, and fit the budget."""
        count = len(self.graph.operators)
        for last in range(count):
            if not self.rows.inputs[last]:
                continue
            first = last
            starts = []
            while first > 0 and last - first < MAX_OPERATORS - 1 and self.rows.inputs[first - 1]:
                first -= 1
                if self.rows.interface(first, last) is not None:
                    starts.append(first)
            for start in starts:
                highest = max(self.live[start : last + 1])
                for stripes in STRIPES:
                    step = self._step(Region(start, last, stripes))
                    if step is None:
                        break
                    if step.live_bytes < highest and step.extra_macs <= self.budget:
                        yield step

    def _step(self, region: Region) -> _Step | None:
        copies = self.rows.copies(region)
        if copies is None:
            return None
        macs = tail = 0
        for copy in (copy for stripe_copies in copies for copy in stripe_copies):
            macs += self.macs[copy.operator] * copy.rows.count // self.rows.height(copy.operator)
            tail += self.tails[copy.operator] + self.copy_bytes
        span = range(region.first, region.last + 1)
        macs -= sum(self.macs[position] for position in span)
        tail -= sum(self.tails[position] + self.copy_bytes for position in span)
        return _Step(region, self._region_live(region, copies), tail, macs)

    def _region_live(self, region: Region, copies: Sequence[Sequence[Copy]]) -> int:
        """Return the estimated maximum of live bytes in a region."""
        graph, tensors = self.graph, self.graph.tensors
        interface = self.rows.interface(region.first, region.last)
        assert interface is not None
        readers = {
            source: [position for position, op in enumerate(graph.operators) if source in op.inputs]
            for source in interface.sources
        }
        kept = {source for source, found in readers.items() if found[-1] > region.last or source in graph.outputs}
        in_order = [copy for stripe_copies in copies for copy in stripe_copies]
        # The first row of each source that each copy, or one behind it, reads.
        lowest = {source: tensors[source].shape[1] for source in interface.sources}
        remaining = [dict(lowest)]
        for copy in reversed(in_order):
            for place, item in copy.inputs:
                index = graph.operators[copy.operator].inputs[place]
                if index in lowest:
                    lowest[index] = min(lowest[index], item.first)
            remaining.append({source: 0 if source in kept else row for source, row in lowest.items()})
        remaining.reverse()
        remaining[-1] |= dict.fromkeys(kept, 0)
        maximum = at = done = 0
        for stripe_copies in copies:
            last_reader = {
                graph.operators[copy.operator].inputs[place]: copy.operator
                for copy in stripe_copies
                for place, _ in copy.inputs
            }
            alive: dict[int, int] = {}
            for copy in stripe_copies:
                operator = graph.operators[copy.operator]
                output = operator.outputs[0]
                made = copy.rows.count * row_bytes(tensors[output])
                now, after = remaining[at], remaining[at + 1]
                unread = sum((tensors[s].shape[1] - row) * row_bytes(tensors[s]) for s, row in now.items())
                dying = [alive.get(index, 0) for index in operator.inputs if last_reader.get(index) == copy.operator]
                dying += [
                    (after[index] - now[index]) * row_bytes(tensors[index]) for index in operator.inputs if index in now
                ]
                smaller = min(made, max(dying, default=0))
                live = done + unread + sum(alive.values()) + made - smaller
                maximum = max(maximum, live + min(self.shared[copy.operator], smaller))
                for index in operator.inputs:
                    if last_reader.get(index) == copy.operator:
                        alive.pop(index, None)
                if output == interface.result:
                    done += made
                else:
                    alive[output] = aligned(made)
                at += 1
        return maximum + self._outside(region, {*interface.sources, interface.result})

    def _outside(self, region: Region, ends: set[int]) -> int:
        """Return the bytes of other tensors that are live throughout a region."""
        graph = self.graph
        before = {index for op in graph.operators[: region.first] for index in op.outputs} | {*graph.inputs}
        after = {index for op in graph.operators[region.last + 1 :] for index in op.inputs} | {*graph.outputs}
        return sum(aligned(arena_bytes(graph.tensors[index])) for index in (before & after) - ends if index >= 0)

    def trial_bytes(
        self,
        regions: tuple[Region, ...],
        platform: Platform,
        overlaps_of: Callable[[Model], OperatorOverlaps],
        orders: int,
        *,
        keep_inputs: bool,
    ) -> int:
        """Return the size of the arena with a quick layout, NEVER if there is none or if the regions exceed the
        budget.
        """
        striped = stripe(self.model, regions)
        if striped.extra_macs > self.budget:
            return NEVER
        model, views = striped.model, striped.views
        prepared = prepare(model, platform, custom=self.custom)
        whole = head_problem(prepared)
        problem = view_problem(model, views, whole, prepared.times, overlaps_of(model), keep_inputs=keep_inputs)
        offsets = view_offsets(views, tensor_offsets(model, problem, quick_offsets(problem, orders)))
        # Bounds of the whole problem, in which nothing overlaps, are quick, and have no effect.
        realised = account_plan(prepared, offsets)
        return realised.bytes

    def combinations(self) -> list[tuple[Region, ...]]:
        """Return combinations of regions by their estimated arena, the smallest first."""
        limits = sorted({step.live_bytes for step in self.steps.values()} | {*self.live})
        limits = limits[:: max(1, len(limits) // MAX_LIMITS)]
        found: dict[tuple[Region, ...], int] = {(region,): self._estimate(step) for region, step in self.steps.items()}
        for limit in limits:
            for label in self._path(limit):
                if label.regions:
                    found[label.regions] = self.tail_bytes + label.tail_bytes + label.live_bytes
        return sorted((r for r in found if found[r] < self.arena_bytes), key=lambda r: (found[r], len(r)))

    def _estimate(self, step: _Step) -> int:
        """Return the estimated arena with a single region."""
        outside = [*self.live[: step.region.first], *self.live[step.region.last + 1 :]]
        return self.tail_bytes + step.tail_bytes + max([step.live_bytes, *outside])

    def _path(self, limit: int) -> list[_Label]:
        """Return the best combinations with at most this number of live bytes."""
        by_end: dict[int, list[_Step]] = {}
        for step in self.steps.values():
            if step.live_bytes <= limit:
                by_end.setdefault(step.region.last + 1, []).append(step)
        labels: list[list[_Label]] = [[_Label(0, 0)]]
        for position in range(1, len(self.graph.operators) + 1):
            live = self.live[position - 1]
            reached = [
                replace(label, live_bytes=max(label.live_bytes, live))
                for label in (labels[position - 1] if live <= limit else ())
            ]
            for step in by_end.get(position, ()):
                reached += [
                    _Label(
                        label.tail_bytes + step.tail_bytes,
                        label.extra_macs + step.extra_macs,
                        (*label.regions, step.region),
                        max(label.live_bytes, step.live_bytes),
                    )
                    for label in labels[step.region.first]
                    if label.extra_macs + step.extra_macs <= self.budget
                ]
            labels.append(_undominated(reached))
        return labels[-1]

    def changed(self, regions: tuple[Region, ...]) -> Iterator[tuple[Region, ...]]:
        """Yield combinations in which one region has other ends or another number of stripes."""
        for place, region in enumerate(regions):
            others = (*regions[:place], *regions[place + 1 :])
            yield from (others,) if others else ()
            near = [
                step
                for step in self.steps.values()
                if (step.region.first == region.first) + (step.region.last == region.last)
                + (step.region.stripes == region.stripes) == 2
            ]  # fmt: skip
            near.sort(key=lambda step: step.live_bytes + step.tail_bytes)
            for step in near:
                made = tuple(sorted((*others, step.region), key=lambda item: item.first))
                if all(one.last < other.first for one, other in pairwise(made)):
                    yield made


def _undominated(labels: list[_Label]) -> list[_Label]:
    """Return the labels of which no other one is better in both respects, those with the smallest tails."""
    result: list[_Label] = []
    for label in sorted(labels, key=lambda label: (label.tail_bytes, label.extra_macs)):
        if all(label.extra_macs < other.extra_macs for other in result):
            result.append(label)
    return result[:MAX_LABELS]


def _live_per_operator(plan: Plan, count: int) -> list[int]:
    """Return the live bytes at each operator."""
    result = [0] * count
    changes = live_bytes(plan.problem)
    for (start, live), (end, _) in pairwise([*changes, (count, 0)]):
        for position in range(max(start, 0), min(end, count)):
            result[position] = live
    return result
