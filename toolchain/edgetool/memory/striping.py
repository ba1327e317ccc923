"""Which regions of a model to run in stripes, and in how many, so that its arena becomes small.

Estimates of the live bytes and of the cost of each region are enough to combine regions: for a limit on the live bytes,
the best combination is a shortest path through the operators, whose steps are an operator or a region in N stripes
within the limit. Its length is what the copies cost in the tail; the extra multiply-accumulates are within the budget.
The limits themselves are those of the steps. The combinations with the smallest estimated arenas, and changes to the
best of them, are then planned as they would be written, and the exact arenas are compared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from copy import copy as shallow_copy
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, product, takewhile
from math import inf
from typing import TypeVar

from edgetool.errors import UnsupportedModelError
from edgetool.memory.account import ArenaAccount, Prepared, account_plan, head_problem, prepare
from edgetool.memory.bound import live_bytes
from edgetool.memory.layout.solve import quick_offsets
from edgetool.memory.overlaps import operator_overlaps
from edgetool.memory.planner import Plan, PlanRequest, plan_memory, tensor_offsets
from edgetool.memory.problem import Effort, LayoutProblem, aligned
from edgetool.memory.views import view_offsets, view_problem
from edgetool.model.types import Graph, Model, Operator
from edgetool.model.views import View, with_views
from edgetool.operators.call import arena_bytes
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.overlap import InputOverlap
from edgetool.operators.registry import operator_costs
from edgetool.operators.rows import ROWS
from edgetool.passes.pixel_order import in_pixel_order, pointwise, with_pixel_order
from edgetool.passes.stripes import Copy, Interface, Region, RowGraph, Striped, row_bytes, stripe, taken_rows
from edgetool.target.platform import Platform

STRIPES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28)
GROWTHS = (-20, -10, -5, 0, 5, 10, 20)  # of each stripe, in percent
MAX_OPERATORS = 20  # of a region
MAX_LIMITS = 60  # limits on the live bytes for which combinations are computed
MAX_LABELS = 12  # partial combinations per operator, by tail and multiply-accumulates
TRIED, IMPROVED = 20, 60  # combinations whose arena is computed: by estimate, and changes to some
STARTS, CHANGES = 4, 12  # combinations by estimate of which some changes are tried, and their number for each
TRIAL_NODES = 60_000  # search nodes for the layout of each
FINALISTS, FINALIST_NODES = 5, 250_000  # the combinations that are compared again, by better layouts
FINAL_NODES = 400_000  # search nodes for the layout of the best one
SIMILAR = 3  # to a combination of which more is expected, if it does not fit
FRONT_STEP = 0.01  # the share by which an arena on the front is smaller than the one before
Cost = TypeVar("Cost", "_Label", "_Step")
NO_ROOM = 2**62  # for a tail: more than any head
VIEWS_PER_COPY = 2  # tensors of a copy: its output, and on average a view


@dataclass(frozen=True, slots=True)
class _Step:
    """A region with its estimated live bytes, the bytes of its copies in the tail, and extra multiply-accumulates."""

    region: Region
    live_bytes: int
    tail_bytes: int
    extra_macs: int


@dataclass(frozen=True, slots=True)
class _Span:
    """A region without the number of stripes: the tensors that it reads from outside and that are kept, the bytes of
    others that are live throughout, and those that it must not reach beside them to be of use.
    """

    interface: Interface
    kept: frozenset[int]
    outside: int
    highest: int


@dataclass(frozen=True, slots=True)
class _Label:
    """A combination of regions up to some operator."""

    tail_bytes: int
    extra_macs: int
    regions: tuple[Region, ...] = ()


@dataclass(frozen=True, slots=True)
class StripedPlan:
    """A model in stripes, or only with 1x1 convolutions in pixel order, the regions, and its memory plan."""

    striped: Striped
    model: Model
    regions: tuple[Region, ...]
    plan: Plan

    @property
    def step(self) -> str:
        """What makes the arena smaller, as in reports."""
        return "stripes" if self.regions else "pixel-order"

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
    custom: Mapping[str, OperatorEntry] | None = None,
) -> StripedPlan | None:
    """Return the plan with the smallest arena of those that compute some regions in stripes; None if that of the model
    without stripes is as small. The arguments are those of StripePlanner.
    """
    planner = StripePlanner(model, base, platform, request, max_extra_macs=max_extra_macs, custom=custom)
    return planner.smallest(effort)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A combination of regions with the bytes that count in a quick layout, and its cost."""

    regions: tuple[Region, ...]
    size_bytes: int
    extra_macs: int


class StripePlanner:
    """Plans of a model in stripes, which share the estimates of regions and the arenas of combinations.

    The effort of a search is that of the final layouts; its end also ends the search for regions.

    Args:
        model: The model without views, in the order of the base plan, with operators numbered in this order.
        base: Its plan without stripes.
        platform: The build that it is for.
        request: The options of the plan.
        max_extra_macs: The limit on extra multiply-accumulates, as a share of those of the model.
        tail_room: None if the arena is to be small. If head and tail are in different memories, the bytes of the tail
            at most: the head is then to be small.
        custom: Entries of operators that the user describes.
    """

    def __init__(
        self,
        model: Model,
        base: Plan,
        platform: Platform,
        request: PlanRequest,
        *,
        max_extra_macs: float,
        tail_room: int | None = None,
        custom: Mapping[str, OperatorEntry] | None = None,
    ) -> None:
        self._platform, self._custom, self._tail_room = platform, custom, tail_room
        self._base_bytes = 0 if base.account is None else counted_bytes(base.account, tail_room)
        self._request = replace(request, order="original", file_plan="replace", shrink=False)
        self._macs = sum(cost.macs for cost in operator_costs(model, custom))
        self._trials: dict[tuple[Region, ...], _Trial] = {}
        self._finalists: dict[tuple[Region, ...], tuple[ArenaAccount, Mapping[tuple[int, int], int]]] = {}
        self._overlaps: dict[object, tuple[InputOverlap, ...]] = {}
        budget = int(self._macs * max_extra_macs) if base.account is not None and len(model.subgraphs) == 1 else -1
        # The 1x1 convolutions that all run in pixel order during the search.
        self._ordered = self._gaining(model) if budget >= 0 and request.overlap else frozenset()
        self._model = with_pixel_order(model, self._ordered)
        if self._ordered:
            effort = Effort(node_limit=TRIAL_NODES)
            base = plan_memory(self._model, platform, self._request, effort, custom=custom)
        self._search = None if budget < 0 else _Search(self._model, base, budget, tail_room, custom)

    def _gaining(self, model: Model) -> frozenset[int]:
        """Return the 1x1 convolutions whose output may overlap their input only in pixel order, by index."""
        changed = with_pixel_order(model, pointwise(model.main))
        before, after = (operator_overlaps(item, self._platform, self._overlaps) for item in (model, changed))
        return frozenset(after.keys() - before.keys())

    @property
    def least_live_bytes(self) -> int:
        """The fewest live bytes that any regions need within the budget. Where regions follow each other, the lowest
        layout is often higher.
        """
        return 0 if self._search is None else min(self._search.limits(), default=0)

    def smallest(self, effort: Effort, capacity: int | None = None) -> StripedPlan | None:
        """Return the plan with the smallest arena, None if that of the model without stripes is as small.

        capacity: an arena that is small enough, in bytes: the search ends at the first one.
        """
        if self._search is None:
            return None
        enough = 0 if capacity is None else capacity
        finalists = sorted(self._explored(self._search, effort, enough), key=lambda trial: trial.size_bytes)[:FINALISTS]
        if finalists and (finalists[0].size_bytes <= enough or effort.stops_rows()):
            del finalists[1:]
        else:
            finalists.sort(key=lambda trial: self._size(self._finalist(trial.regions)[0]))
        for trial in finalists:
            planned = self._planned(trial.regions, effort)
            if planned is not None:
                return planned if self._planned_size(planned) < self._base_bytes else None
        return None

    def leanest(self, effort: Effort, capacity: int) -> StripedPlan | None:
        """Return a plan that fits a capacity in bytes, with few extra multiply-accumulates; if none is found, the
        smallest one, as `smallest` does.

        The budget grows step by step. Each step is a combination whose estimated arena is smaller than those of all
        cheaper ones.
        """
        search = self._search
        steps = [] if search is None else [*self._without_regions(), *search.front()]
        for regions, following in pairwise([*steps, ()]):
            assert search is not None
            limit = search.extra_macs(following) if following else search.budget
            for made in (regions, *search.similar(regions, limit)[:SIMILAR]):
                if effort.stops_rows() or search.estimate(made) > capacity:
                    continue
                if self._trial(made).size_bytes <= capacity:
                    planned = self._planned(made, effort)
                    if planned is not None and self._planned_size(planned) <= capacity:
                        return planned
        return self.smallest(effort, capacity)

    def front(self, effort: Effort, budgets: Sequence[float]) -> tuple[StripedPlan, ...]:
        """Return plans with more and more extra multiply-accumulates, each with an arena that is smaller than the one
        before: by at least the share FRONT_STEP, except for the smallest one.

        budgets: shares of the multiply-accumulates for which the smallest arena is searched for, besides combinations
        that are good by estimate.
        """
        if self._search is None:
            return ()
        for regions in (*self._without_regions(), *self._search.front()):
            if not effort.stops_rows():
                self._trial(regions)
        for budget in sorted({min(self._search.budget, int(self._macs * share)) for share in budgets}, reverse=True):
            self._explored(self._search.within(budget), effort, 0)
        plans: list[StripedPlan] = []
        trials = sorted(self._affordable(self._search), key=lambda trial: (trial.extra_macs, trial.size_bytes))
        smallest = min(trials, key=lambda trial: trial.size_bytes, default=None)
        for trial in trials:
            before = self._planned_size(plans[-1]) if plans else self._base_bytes
            limit = before - 1 if trial is smallest else before * (1 - FRONT_STEP)
            planned = self._planned(trial.regions, effort) if trial.size_bytes <= limit else None
            if planned is not None and self._planned_size(planned) <= limit:
                plans.append(planned)
        return tuple(plans)

    def _explored(self, search: _Search, effort: Effort, enough: int) -> list[_Trial]:
        """Return trials within the budget of a search: the best combinations by estimate, changes to some of them, and
        changes to the one with the smallest arena, again and again, until an arena is small enough.
        """
        most = len(self._trials) + TRIED + IMPROVED
        best = min(self._affordable(search), key=lambda trial: trial.size_bytes, default=None)

        def is_over() -> bool:
            is_enough = best is not None and best.size_bytes <= enough
            return is_enough or len(self._trials) >= most or effort.stops_rows()

        def better(regions: tuple[Region, ...]) -> _Trial | None:
            """Return the trial if its arena is smaller; often, the estimate shows that it is not."""
            if best is not None and search.estimate(regions) >= best.size_bytes:
                return None
            trial = self._trial(regions)
            is_smaller = best is None or trial.size_bytes < best.size_bytes
            return trial if is_smaller and trial.extra_macs <= search.budget else None

        first = [*self._without_regions(), *search.combinations()[:TRIED]]
        changes = (made for start in first[:STARTS] for made in islice(search.changed(start), CHANGES))
        for regions in takewhile(lambda _: not is_over(), chain(first, changes)):
            best = better(regions) or best
        following = best
        while following is not None and not is_over():
            candidates = takewhile(lambda _: not is_over(), search.changed(following.regions))
            following = next(filter(None, map(better, candidates)), None)
            best = following or best
        return self._affordable(search)

    def _without_regions(self) -> Sequence[tuple[Region, ...]]:
        """Return the combination without any regions if it differs from the base plan."""
        return ((),) if self._ordered else ()

    def _affordable(self, search: _Search) -> list[_Trial]:
        """Return the trials within the budget of a search."""
        return [
            trial
            for trial in self._trials.values()
            if trial.extra_macs <= search.budget and search.steps.keys() >= {*trial.regions}
        ]

    def _trial(self, regions: tuple[Region, ...]) -> _Trial:
        """Return the arena with a quick layout, which is computed once."""
        if regions not in self._trials:
            striped = stripe(self._model, regions)
            account, _ = self._quick(striped.model, striped.views, TRIAL_NODES)
            self._trials[regions] = _Trial(regions, self._size(account), striped.extra_macs)
        return self._trials[regions]

    def _finalist(self, regions: tuple[Region, ...]) -> tuple[ArenaAccount, Mapping[tuple[int, int], int]]:
        """Return the arena and the offsets with a better layout, which is computed once."""
        if regions not in self._finalists:
            striped = stripe(self._model, regions)
            self._finalists[regions] = self._quick(striped.model, striped.views, FINALIST_NODES)
        return self._finalists[regions]

    def _size(self, account: ArenaAccount) -> int:
        return counted_bytes(account, self._tail_room)

    def _planned_size(self, planned: StripedPlan) -> int:
        assert planned.plan.account is not None
        return self._size(planned.plan.account)

    def _quick(
        self, model: Model, views: Sequence[View], nodes: int
    ) -> tuple[ArenaAccount, Mapping[tuple[int, int], int]]:
        """Return the arena and the offsets of the best layout that is found in a number of search nodes."""
        prepared, problem = self._problem(model, views)
        offsets = view_offsets(views, tensor_offsets(model, problem, quick_offsets(problem, nodes)))
        # Bounds of the whole problem, in which nothing overlaps, are quick, and have no effect.
        return account_plan(prepared, offsets), offsets

    def _problem(self, model: Model, views: Sequence[View]) -> tuple[Prepared, LayoutProblem]:
        """Return what the kernels of a model in stripes request, and what of it may overlap."""
        prepared = prepare(model, self._platform, custom=self._custom)
        overlaps = operator_overlaps(model, self._platform, self._overlaps) if self._request.overlap else {}
        whole, keep_inputs = head_problem(prepared), self._request.keep_inputs
        return prepared, view_problem(model, views, whole, prepared.times, overlaps, keep_inputs=keep_inputs)

    def _planned(self, regions: tuple[Region, ...], effort: Effort) -> StripedPlan | None:
        """Return the plan as it would be written, None if TFLM would place scratch buffers in tensors with views."""
        # The number of layouts is limited: as in plans of rows, time only ends the search on slow machines.
        nodes = FINAL_NODES if effort.node_limit is None else effort.node_limit
        effort = replace(effort, node_limit=nodes, stop=effort.stops_rows)
        striped = stripe(self._model, regions)
        model = self._faster(striped, regions) if self._ordered else striped.model
        made = with_views(model, striped.views) if regions else model
        try:
            plan = plan_memory(made, self._platform, self._request, effort, custom=self._custom)
        except UnsupportedModelError:
            return None
        return StripedPlan(striped, made, regions, plan)

    def _faster(self, striped: Striped, regions: tuple[Region, ...]) -> Model:
        """Return the model with only those 1x1 convolutions in pixel order that its arena needs: those that would
        otherwise need more live bytes, or if that is not enough, also those whose output shares bytes with their input.
        """
        model, views, graph = striped.model, striped.views, striped.model.main
        ordered = in_pixel_order(graph)
        account, offsets = self._finalist(regions)
        _, problem = self._problem(with_pixel_order(model, ordered, enabled=False), views)
        live = _live_per_operator(problem, len(graph.operators))
        needed = {index for index in ordered if live[index] > account.head_bytes}
        made = with_pixel_order(model, ordered - needed, enabled=False)
        if self._size(self._quick(made, views, FINALIST_NODES)[0]) <= self._size(account):
            return made
        # These permit the same offsets.
        sharing = {index for index in ordered if _shares_bytes(graph, graph.operators[index], offsets)}
        return with_pixel_order(model, ordered - needed - sharing, enabled=False)


class _Search:
    """The estimates of all regions, and their combinations."""

    def __init__(
        self,
        model: Model,
        base: Plan,
        budget: int,
        tail_room: int | None = None,
        custom: Mapping[str, OperatorEntry] | None = None,
    ) -> None:
        assert base.account is not None
        self.model = model
        self.custom = custom
        self.graph: Graph = model.main
        self.rows = RowGraph(self.graph)
        self.budget = budget
        self.tail_room = tail_room
        self.size_bytes = counted_bytes(base.account, tail_room)
        self.tail_bytes = base.account.tail_bytes
        self.live = _live_per_operator(base.problem, len(self.graph.operators))
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
        self.row_bytes = {
            index: row_bytes(self.graph.tensors[index])
            for operator, images in zip(self.graph.operators, self.rows.inputs, strict=True)
            if images
            for index in (operator.outputs[0], *(operator.inputs[item.input] for item in images))
        }
        self.lives = _lives(self.graph)
        # The tensors that each operator is the last to read.
        self.dying = [
            tuple(i for i in dict.fromkeys(operator.inputs) if i in self.lives and self.lives[i][1] == position)
            for position, operator in enumerate(self.graph.operators)
        ]
        self.steps: dict[Region, _Step] = {}
        # A region helps to stay within a limit only if more bytes are live at one of its operators.
        upper = max(self.live, default=0)
        while upper:
            self.steps |= {step.region: step for step in self._steps(upper // 2, upper)}
            upper //= 2
            if self.limits()[0] >= upper:
                break
        self._estimates: dict[tuple[Region, ...], int] = {}

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

    def _steps(self, lower: int, upper: int) -> Iterator[_Step]:
        """Yield the regions that need fewer live bytes than their operators one after another, and fit the budget.

        lower, upper: the most live bytes of these operators are more than `lower`, but no more than `upper`.
        """
        for last in range(len(self.graph.operators)):
            spans = {
                first: span for first, span in self._spans(last).items() if lower < span.outside + span.highest <= upper
            }
            growths = {first: {0, self._growth(span)} for first, span in spans.items()}
            for stripes, keeps, growth in product(STRIPES, (False, True), sorted({*chain(*growths.values())})):
                region = Region(min(first for first in spans if growth in growths[first]), last, stripes, keeps, growth)
                macs = tail = 0
                is_kept = False
                for first, copies in self.rows.growing(region):
                    made = [stripe_copies[-1] for stripe_copies in copies]
                    rows = sum(copy.rows.count for copy in made)
                    macs += self.macs[first] * rows // self.rows.height(first) - self.macs[first]
                    # RESHAPE moves results, and rows that are kept twice; PAD frames what is read.
                    others = sum(
                        (copy.moved is not None) + 2 * (copy.kept is not None) + (copy.framed is not None)
                        for copy in made
                    )
                    tail += (self.tails[first] + self.copy_bytes) * (stripes - 1) + self.copy_bytes * others
                    is_kept = is_kept or others > 0
                    if growth in growths.get(first, ()) and macs <= self.budget and is_kept >= keeps:
                        live = self._region_live(spans[first], copies)
                        if live is not None:
                            yield _Step(replace(region, first=first), live, tail, macs)

    def _growth(self, span: _Span) -> int:
        """Return by how many percent each stripe may be higher than the one before, if as many bytes are live in all:
        as more of what the region reads has died than it has written, or lower, if it is the other way round.
        """
        tensors = self.graph.tensors
        dying = sum(tensors[index].size_bytes for index in span.interface.sources if index not in span.kept)
        results = sum(tensors[index].size_bytes for index in span.interface.results)
        ideal = 100 * (dying - results) / span.highest
        return min(GROWTHS, key=lambda growth: abs(growth - ideal))

    def _spans(self, last: int) -> dict[int, _Span]:
        """Return the regions with this last operator that may need fewer live bytes, by their first operator."""
        result = {}
        for first in range(last, max(-1, last - MAX_OPERATORS), -1):
            if not self.rows.inputs[first]:
                break
            interface = self.rows.interface(first, last) if first < last else None
            if interface is None:
                continue
            kept = {index for index in interface.sources if self.lives[index][1] > last}
            ends = {*interface.sources, *interface.results}
            outside = sum(
                aligned(arena_bytes(self.graph.tensors[index]))
                for index, (start, end) in self.lives.items()
                if start < first and end > last and index not in ends
            )
            # At the start, all of what the region reads is there, and at the end, all of what it writes.
            sources = sum(self.graph.tensors[index].size_bytes for index in interface.sources)
            results = sum(self.graph.tensors[index].size_bytes for index in interface.results)
            highest = max(self.live[first : last + 1]) - outside
            if max(sources, results) < highest:
                result[first] = _Span(interface, frozenset(kept), outside, highest)
        return result

    def _region_live(self, span: _Span, copies: Sequence[Sequence[Copy]]) -> int | None:
        """Return the estimated maximum of live bytes in a region, None if it is no lower than without stripes.

        copies: those of each stripe, the last one first.
        """
        tensors, operators = self.graph.tensors, self.graph.operators
        # The bytes of the sources that each copy, or one behind it, reads, and the most of one that it reads for the
        # last time.
        lowest = {index: tensors[index].shape[ROWS] for index in span.interface.sources if index not in span.kept}
        unread = sum(tensors[index].size_bytes for index in span.kept)
        reads = []
        for copy in (copy for stripe_copies in reversed(copies) for copy in stripe_copies):
            freed = 0
            for place, item in copy.inputs:
                index = operators[copy.operator].inputs[place]
                if item.first < lowest.get(index, 0):
                    read = (lowest[index] - item.first) * self.row_bytes[index]
                    lowest[index] = item.first
                    unread += read
                    freed = max(freed, read)
            reads.append((unread, freed))
        taken = taken_rows(self.graph, copies)
        maximum = done = 0
        parked: dict[int, int] = {}  # what waits for the next stripe
        for number, stripe_copies in enumerate(copies):
            alive: dict[int, int] = {}
            inside = sum(parked.values())
            for copy in reversed(stripe_copies):
                unread, dying = reads.pop()
                if not copy.rows.count:
                    continue
                output = operators[copy.operator].outputs[0]
                made = copy.held.count * self.row_bytes[output]
                framed = 0 if copy.framed is None else self._framed_bytes(copy)
                if copy.keeps_first:
                    inside -= parked.pop(output, 0)
                live = done + unread + inside + made + framed
                for index in self.dying[copy.operator]:
                    if index in alive:
                        size = alive.pop(index)
                        rows = taken[number].get(index)
                        waiting = 0 if rows is None else rows.count * self.row_bytes[index]
                        dying = max(dying, size - waiting)
                        inside -= size - waiting
                        parked |= {index: waiting} if waiting else {}
                if framed:
                    maximum = max(maximum, live - made)
                    live, dying = live - dying, framed
                smaller = min(made, dying)
                maximum = max(maximum, live - smaller + min(self.shared[copy.operator], smaller))
                if output in span.interface.results:
                    done += copy.written.count * self.row_bytes[output]
                    if copy.moved is not None:
                        maximum = max(maximum, made + done + unread + inside)
                else:
                    alive[output] = aligned(made)
                    inside += alive[output]
                    inside -= parked.pop(output, 0)
                if maximum >= span.highest:
                    return None
        return maximum + span.outside

    def _framed_bytes(self, copy: Copy) -> int:
        """Return the bytes that a copy reads with the rows and columns that a PAD adds."""
        assert copy.framed is not None
        (place, rows), *_ = copy.inputs
        source = self.graph.tensors[self.graph.operators[copy.operator].inputs[place]]
        top, left = (sum(sides) for sides in copy.framed)
        return (rows.count + top) * (source.shape[2] + left) * (self.row_bytes[source.index] // source.shape[2])

    def combinations(self) -> list[tuple[Region, ...]]:
        """Return combinations of regions by their estimated arena, the smallest first."""
        limits = self.limits()
        limits = limits[:: max(1, len(limits) // MAX_LIMITS)]
        found: set[tuple[Region, ...]] = {(region,) for region in self.steps}
        for limit in limits:
            found |= {label.regions for label in self._path(limit) if label.regions}
        useful = [regions for regions in found if self.estimate(regions) < self.size_bytes]
        return sorted(useful, key=lambda regions: (self.estimate(regions), len(regions), regions))

    def within(self, budget: int) -> _Search:
        """Return the same search with a smaller budget."""
        result = shallow_copy(self)
        result.budget = budget
        result.steps = {region: step for region, step in self.steps.items() if step.extra_macs <= budget}
        return result

    def front(self) -> list[tuple[Region, ...]]:
        """Return combinations with more and more extra multiply-accumulates, and smaller and smaller estimated
        arenas.
        """
        result: list[tuple[Region, ...]] = []
        for regions in sorted(self.combinations(), key=lambda made: (self.extra_macs(made), self.estimate(made))):
            if not result or self.estimate(regions) < self.estimate(result[-1]):
                result.append(regions)
        return result

    def similar(self, regions: tuple[Region, ...], budget: int) -> list[tuple[Region, ...]]:
        """Return changed combinations within a budget, those with the smallest estimated arenas first."""
        return sorted((made for made in self.changed(regions) if self.extra_macs(made) <= budget), key=self.estimate)

    def extra_macs(self, regions: tuple[Region, ...]) -> int:
        """Return the estimated extra multiply-accumulates with these regions."""
        return sum(self.steps[region].extra_macs for region in regions)

    def limits(self) -> list[int]:
        """Return the live bytes that may be the maximum with regions within the budget, in ascending order: those of
        the steps, from the least with which there is a path on.
        """
        limits = sorted({step.live_bytes for step in self.steps.values()} | {*self.live})
        return limits[bisect_left(limits, True, key=self._is_reachable) :]

    def _is_reachable(self, limit: int) -> bool:
        """Return whether there are regions within the budget that need at most this number of live bytes."""
        extra_macs: list[float] = [0]  # the least up to each operator
        by_end = self._by_end(limit)
        for position, live in enumerate(self.live):
            ways = [extra_macs[position]] if live <= limit else []
            ways += [extra_macs[step.region.first] + step.extra_macs for step in by_end.get(position + 1, ())]
            extra_macs.append(min(ways, default=inf))
        return extra_macs[-1] <= self.budget

    def _by_end(self, limit: int) -> dict[int, list[_Step]]:
        """Return the steps with at most this number of live bytes, by the position behind their last operator."""
        by_end: dict[int, list[_Step]] = {}
        for step in self.steps.values():
            if step.live_bytes <= limit:
                by_end.setdefault(step.region.last + 1, []).append(step)
        return by_end

    def estimate(self, regions: tuple[Region, ...]) -> int:
        """Return the estimated arena with these regions, which few layouts reach."""
        if regions not in self._estimates:
            steps = [self.steps[region] for region in regions]
            inside = {position for region in regions for position in range(region.first, region.last + 1)}
            outside = [live for position, live in enumerate(self.live) if position not in inside]
            tail = self.tail_bytes + sum(step.tail_bytes for step in steps)
            head = max([*outside, *(step.live_bytes for step in steps)])
            self._estimates[regions] = _counted(head, tail, head + tail, self.tail_room)
        return self._estimates[regions]

    def _path(self, limit: int) -> list[_Label]:
        """Return the best combinations with at most this number of live bytes."""
        by_end = self._by_end(limit)
        labels: list[list[_Label]] = [[_Label(0, 0)]]
        for position in range(1, len(self.graph.operators) + 1):
            reached = labels[position - 1] if self.live[position - 1] <= limit else []
            steps = by_end.get(position, ())
            made = [
                _Label(
                    label.tail_bytes + step.tail_bytes,
                    label.extra_macs + step.extra_macs,
                    (*label.regions, step.region),
                )
                for first in sorted({step.region.first for step in steps})
                for step in _undominated([step for step in steps if step.region.first == first])
                for label in labels[first]
                if label.extra_macs + step.extra_macs <= self.budget
            ]
            labels.append(_undominated([*reached, *made])[:MAX_LABELS] if made else reached)
        return labels[-1]

    def changed(self, regions: tuple[Region, ...]) -> Iterator[tuple[Region, ...]]:
        """Yield combinations in which one region has other ends or another number of stripes, is missing, or has
        another one next to it; those with the smallest estimated arenas first.

        A region next to another one may need no fewer live bytes, but lets the tensor between the two lie elsewhere.
        """
        found: set[tuple[Region, ...]] = set()
        for place, region in enumerate(regions):
            others = (*regions[:place], *regions[place + 1 :])
            found |= {others} if others else set()
            for near in self.steps:
                same = (near.first == region.first) + (near.last == region.last) + (near.stripes == region.stripes)
                is_next = near.first == region.last + 1 or near.last == region.first - 1
                kept = others if same == 2 else regions
                made = tuple(sorted((*kept, near))) if same == 2 or is_next else regions
                if all(one.last < other.first for one, other in pairwise(made)):
                    found.add(made)
        affordable = [made for made in found if self.extra_macs(made) <= self.budget]
        yield from sorted(affordable, key=lambda made: (self.estimate(made), made))


def counted_bytes(account: ArenaAccount, tail_room: int | None) -> int:
    """Return the bytes that are to be few: of the arena, or with room for a tail elsewhere, of the head; NO_ROOM if the
    tail is larger.
    """
    return _counted(account.head_bytes, account.tail_bytes, account.bytes, tail_room)


def _counted(head_bytes: int, tail_bytes: int, arena_bytes: int, tail_room: int | None) -> int:
    if tail_room is None:
        return arena_bytes
    return head_bytes if tail_bytes <= tail_room else NO_ROOM


def _undominated(costs: list[Cost]) -> list[Cost]:
    """Return those of which no other one is better in tail and multiply-accumulates, the smallest tails first."""
    result: list[Cost] = []
    for cost in sorted(costs, key=lambda cost: (cost.tail_bytes, cost.extra_macs)):
        if not result or cost.extra_macs < result[-1].extra_macs:
            result.append(cost)
    return result


def _lives(graph: Graph) -> dict[int, tuple[int, int]]:
    """Return the positions of the operators that write a tensor and that read it last, of all that are not constant."""
    starts = dict.fromkeys(graph.inputs, -1)
    for position, operator in enumerate(graph.operators):
        starts |= {index: position for index in operator.outputs if index not in starts}
    ends = dict(starts)
    for position, operator in enumerate(graph.operators):
        ends |= {index: position for index in operator.inputs if index in starts}
    ends |= {index: len(graph.operators) for index in graph.outputs if index in starts}
    return {index: (start, ends[index]) for index, start in starts.items() if index >= 0}


def _shares_bytes(graph: Graph, operator: Operator, offsets: Mapping[tuple[int, int], int]) -> bool:
    """Return whether the output of an operator shares bytes with its first input; not if either has no offset."""
    tensors = [graph.tensors[index] for index in (operator.inputs[0], operator.outputs[0])]
    places = [(offsets[0, item.index], item.size_bytes) for item in tensors if (0, item.index) in offsets]
    return len(places) == len(tensors) and max(start for start, _ in places) < min(map(sum, places))


def _live_per_operator(problem: LayoutProblem, count: int) -> list[int]:
    """Return the live bytes at each operator."""
    result = [0] * count
    changes = live_bytes(problem)
    for (start, live), (end, _) in pairwise([*changes, (count, 0)]):
        for position in range(max(start, 0), min(end, count)):
            result[position] = live
    return result
