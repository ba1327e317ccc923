"""Plan the memory of a model: operator order, layout of the head, and the arena that TFLM needs with them.

An offline plan fixes the offsets of tensors only: TFLM's own planner places the scratch buffers around them, the
largest first. So a layout of tensors and scratch buffers together is the best that an offline plan can achieve, and the
actual layout is the one that TFLM makes from the plan.

Layouts are computed for several operator orders. The operators of the main graph are ordered by their tensors and by
the state that they share: variables, resources, tables and random numbers fix the relative order of their readers and
writers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.memory.account import ArenaAccount, Prepared, Sharing, account_plan, head_problem, prepare, tflm_layout
from edgetool.memory.bound import lower_bound
from edgetool.memory.checker import check_layout, require_valid
from edgetool.memory.layout.solve import LayoutStrategy, solve
from edgetool.memory.lifetimes import DEAD, Timeline, called_subgraphs, layout_problem, timeline
from edgetool.memory.order.evaluate import OrderProblem, OrderResult, moved_operators
from edgetool.memory.order.solve import OrderStrategy, candidates, solve_order
from edgetool.memory.overlaps import (
    OperatorOverlaps,
    OverlappingTensors,
    operator_overlaps,
    overlapping_tensors,
    permissions,
    permitted,
    shareable_bytes,
    without_aliases,
)
from edgetool.memory.problem import Buffer, Effort, Layout, LayoutProblem, Lifetime, Proof
from edgetool.memory.views import view_offsets, view_problem
from edgetool.model.edit import in_order
from edgetool.model.metadata import COMPILED_OPERATORS, METADATA_NAME, keeps_own_plan, unchecked_offsets
from edgetool.model.types import Graph, Model, Operator
from edgetool.model.views import VIEWS_METADATA_NAME, View, views_of
from edgetool.operators.call import arena_bytes
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import CUSTOM_OPERATORS
from edgetool.target.platform import Platform

if TYPE_CHECKING:
    from edgetool.memory.sharing.assign import SharedLayout
    from edgetool.memory.sharing.types import Algorithm


# Readers of the same state may be reordered; a writer keeps its position.
Access = Literal["read", "write"]

# A resource variable by its shared name, or the state that all operators of a kind share.
SharedState = tuple[str, str]
HANDLES: SharedState = ("all", "numbers of resource variables")
VARIABLES: SharedState = ("all", "resource variables")
TABLES: SharedState = ("all", "hash tables")
RANDOM: SharedState = ("all", "random numbers")
CUSTOM: SharedState = ("all", "what custom operators may share")
SUBGRAPHS: SharedState = ("all", "state within subgraphs")
RUN: SharedState = ("all", "whether the run goes on")

# Until it has enough data, CIRCULAR_BUFFER ends the run (circular_buffer.cc returns kTfLiteAbort): operators before it
# run more often than those after it.
ENDS_RUNS = frozenset(["CIRCULAR_BUFFER"])

STATEFUL_CODES: Mapping[str, SharedState] = {
    "CALL_ONCE": VARIABLES,
    "VAR_HANDLE": HANDLES,  # TFLM numbers variables in the order of their handles.
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"), TABLES),
    **dict.fromkeys(("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "STABLEHLO_RNG_BIT_GENERATOR"), RANDOM),
}


def variable_names(graph: Graph) -> dict[int, str]:
    """Return the shared names of the resource variables of a graph, by the tensor that is their handle."""
    return {
        operator.outputs[0]: operator.options.text("shared_name")
        for operator in graph.operators
        if operator.code == "VAR_HANDLE" and operator.outputs and operator.options is not None
    }


def accesses(model: Model, operator: Operator, names: Mapping[int, str]) -> Iterator[tuple[SharedState, Access]]:
    """Yield the state that an operator reads or writes. names: the variables of its graph, by handle.

    A variable whose handle comes from elsewhere may be any. Custom operators that are not TFLM's may share unknown
    state, and control flow writes everything that its subgraphs may access. TFLM's custom operators may have internal
    state (those for signals do), which matters if several operators run the subgraph that contains them.
    """
    yield from _direct_accesses(operator, names)
    graphs = [model.subgraphs[index] for index in reachable_subgraphs(model, operator)]
    inside = [inner for graph in graphs for inner in graph.operators]
    touched = {result for inner in inside for result in _direct_accesses(inner, {})} - {(RUN, "read")}
    for state in sorted({state for state, _ in touched}):
        yield state, "write"
    if any(inner.code == "CUSTOM" for inner in inside) or any(t.is_variable for graph in graphs for t in graph.tensors):
        yield SUBGRAPHS, "write"


def _direct_accesses(operator: Operator, names: Mapping[int, str]) -> Iterator[tuple[SharedState, Access]]:
    """Yield the operator's accesses without those of the subgraphs that it runs."""
    yield RUN, "write" if operator.custom_code in ENDS_RUNS else "read"
    if operator.code in ("READ_VARIABLE", "ASSIGN_VARIABLE"):
        name = names.get(operator.inputs[0]) if operator.inputs else None
        if name is None:
            yield VARIABLES, "write"
        else:
            yield VARIABLES, "read"
            yield ("variable", name), "read" if operator.code == "READ_VARIABLE" else "write"
    elif operator.code in STATEFUL_CODES:
        yield STATEFUL_CODES[operator.code], "write"
    elif operator.code == "CUSTOM" and operator.custom_code not in CUSTOM_OPERATORS:
        yield CUSTOM, "write"


def reachable_subgraphs(model: Model, operator: Operator) -> list[int]:
    """Return the subgraphs that the operator runs, directly or not. A timeline has shown that there is no cycle."""
    result: list[int] = []
    waiting = list(called_subgraphs(operator))
    while waiting:
        index = waiting.pop()
        if index not in result:
            result.append(index)
            waiting += [called for inner in model.subgraphs[index].operators for called in called_subgraphs(inner)]
    return result


def order_problem(
    model: Model,
    problem: LayoutProblem,
    spans: Mapping[tuple[int, int], Lifetime],
    shareable: Mapping[int, int] = MappingProxyType({}),
) -> OrderProblem:
    """Return the main graph's operators with the buffers of the head, and every edge that preserves the model's
    results.

    problem: the buffers of the head, including scratch if the build is known. spans: the positions at which each
    (subgraph, operator) runs. An operator that runs subgraphs needs their maximum live bytes as scratch. shareable: the
    bytes that the operands of an operator may share, by its index. Positions in the result are those of
    Graph.operators. Variable tensors are only in `after`: they keep their contents from run to run, so that an operator
    may read what a later one wrote in the previous run.
    """
    graph = model.main
    sizes = [0] * len(graph.tensors)
    scratch = [-shareable.get(operator.index, 0) for operator in graph.operators]
    position = {operator.index: place for place, operator in enumerate(graph.operators)}
    inner: list[Buffer] = []
    for buffer in problem.buffers:
        if buffer.subgraph != 0:
            inner.append(buffer)
        elif buffer.operator >= 0:
            scratch[position[buffer.operator]] += buffer.aligned_bytes
        else:
            sizes[buffer.tensor] = buffer.aligned_bytes
    for place, operator in enumerate(graph.operators):
        if inner and called_subgraphs(operator):
            span = spans[0, operator.index]
            scratch[place] += lower_bound(
                LayoutProblem(tuple(_within(b, span) for b in inner if b.lifetime.overlaps(span)))
            )
    return OrderProblem(
        sizes=tuple(sizes),
        reads=tuple(_data_tensors(graph, op.inputs) for op in graph.operators),
        writes=tuple(_data_tensors(graph, op.outputs) for op in graph.operators),
        after=state_edges(model),
        scratch=tuple(scratch),
        inputs=graph.inputs,
        outputs=graph.outputs,
    )


def _data_tensors(graph: Graph, tensors: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i for i in dict.fromkeys(tensors) if i >= 0 and not graph.tensors[i].is_variable)


def _within(buffer: Buffer, span: Lifetime) -> Buffer:
    times = buffer.lifetime
    return replace(buffer, lifetime=Lifetime(max(times.first, span.first), min(times.last, span.last)))


def state_edges(model: Model) -> tuple[tuple[int, ...], ...]:
    """Return the predecessors of each operator of the main graph because of state.

    State is accessed in the original order: variables, resources, tensors with several writers.
    """
    graph = model.main
    names = variable_names(graph)
    writer: dict[SharedState | int, int] = {}
    readers: dict[SharedState | int, list[int]] = defaultdict(list)
    after: list[tuple[int, ...]] = []
    for place, operator in enumerate(graph.operators):
        before: set[int] = set()
        reads: set[SharedState | int] = {i for i in operator.inputs if i >= 0}
        writes: set[SharedState | int] = {i for i in operator.outputs if i >= 0}
        # An operator with a variable tensor as an input may change it.
        writes |= {i for i in operator.inputs if i >= 0 and graph.tensors[i].is_variable}
        for state, access in accesses(model, operator, names):
            (reads if access == "read" else writes).add(state)
        for item in reads | writes:
            if item in writer:
                before.add(writer[item])
        for item in writes:
            before.update(readers.pop(item, ()))
            writer[item] = place
        for item in reads - writes:
            readers[item].append(place)
        after.append(tuple(sorted(before - {place})))
    return tuple(after)


@dataclass(frozen=True, slots=True)
class OrderSearch:
    """The request for orders: a model, the buffers of its head in the original order, and the strategy.

    overlaps: what operators may overlap in the layout.
    """

    model: Model
    problem: LayoutProblem
    times: Timeline
    strategy: OrderStrategy
    effort: Effort
    overlaps: OperatorOverlaps = field(default_factory=dict)


def orders_to_try(search: OrderSearch) -> Iterator[OrderResult]:
    """Yield orders by position in the main graph, the one with the fewest live bytes first, computed on demand.

    The best order by live bytes may need a higher layout, so others follow. A lower bound of 0 means none: nothing
    was searched, or several operators run the same subgraph, so that live bytes depend on all of them. If a tensor is
    read before it is written, the result depends on its previous contents: only the original order is tried.
    """
    count = len(search.model.main.operators)
    live = lower_bound(search.problem)
    original = OrderResult(tuple(range(count)), live, 0, "none")
    if count < 2:
        yield replace(original, lower_bound=live, proof="search exhausted")
        return
    if search.strategy == "original" or keeps_own_plan(search.model) or _reads_unwritten(search):
        yield original
        return
    shareable = shareable_bytes(search.problem, search.model, search.overlaps)
    problem = order_problem(search.model, search.problem, search.times.operators, shareable)
    dead = lower_bound(LayoutProblem(tuple(b for b in search.problem.buffers if b.lifetime == DEAD)))
    bound_is_valid = not _shared_subgraphs(search.model) and _contained(search)
    for result in _results(problem, search):
        bound = max(result.lower_bound, dead) if bound_is_valid else 0
        yield replace(result, lower_bound=bound, proof=result.proof if bound_is_valid else "none")


def _results(problem: OrderProblem, search: OrderSearch) -> Iterator[OrderResult]:
    if search.strategy == "optimal":
        yield from candidates(problem, search.effort)
    else:
        yield solve_order(problem, search.effort, strategy=search.strategy)


def _shared_subgraphs(model: Model) -> bool:
    """Return whether more than one operator of the main graph runs the same subgraph."""
    runs = Counter(index for operator in model.main.operators for index in reachable_subgraphs(model, operator))
    return any(count > 1 for count in runs.values())


def _reads_unwritten(search: OrderSearch) -> bool:
    """Return whether the main graph, or the reader of its outputs, reads a tensor of the head before it is written."""
    graph = search.model.main
    written = set(graph.inputs)
    unwritten: set[int] = set()
    for operator in graph.operators:
        unwritten.update(set(operator.inputs) - written)
        written.update(operator.outputs)
    unwritten.update(set(graph.outputs) - written)
    return any(b.subgraph == 0 and b.tensor in unwritten and b.operator < 0 for b in search.problem.buffers)


def _contained(search: OrderSearch) -> bool:
    """Return whether each tensor of a subgraph is live only while an operator of the main graph runs that subgraph."""
    spans = {
        index: search.times.operators[0, operator.index]
        for operator in search.model.main.operators
        for index in reachable_subgraphs(search.model, operator)
    }
    return all(
        spans[b.subgraph].first <= b.lifetime.first and b.lifetime.last <= spans[b.subgraph].last
        for b in search.problem.buffers
        if b.subgraph in spans and b.lifetime != DEAD
    )


DEFAULT_SECONDS = 10.0
# Offsets in an offline plan, by (subgraph, tensor).
Offsets = Mapping[tuple[int, int], int]
# How to treat a plan in the file. "use": use it, or make one if there is none. "only": use it, or leave planning to
# TFLM. "replace": make a new plan unless compiled operators rely on the one in the file.
FilePlan = Literal["use", "only", "replace"]
# The origin of a plan's offsets: the input file, edgetool, or none, so that TFLM's own planner decides at run time.
Planner = Literal["file", "edgetool", "runtime"]
# Nodes for the first layout of each order: if the layout of one order is hard to find, another order may have an
# equally low one that is easy to find. The best of them then gets the whole effort.
FIRST_NODES = 10_000
# A variable tensor that the plan moves to the head keeps its contents only if nothing else ever shares its bytes.
_ALWAYS = Lifetime(-2, 2**31)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The user's options for a memory plan. If order and strategy are None, the best are searched for.

    sharing: whole buffers that tensors share, one after another, instead of a layout. constants_in_ram: constants are
    buffers too, live while an operator uses them, for firmware that loads them from slow memory. time_limit: seconds
    for the search. shrink: whether to do what it takes to make the arena fit the target: rows instead of tensors, then
    more and more multiply-accumulates that are computed again. keep_inputs: whether nothing may overwrite an input
    of the model while an operator still reads it. overlap: whether outputs may overlap inputs that die. max_extra_macs:
    how many multiply-accumulates stripes on TFLM may compute again, in percent; None for no stripes, or with shrink,
    for as many as it takes. Planning itself ignores it.
    """

    order: OrderStrategy | None = None
    strategy: LayoutStrategy | None = None
    sharing: Algorithm | None = None
    constants_in_ram: bool = False
    time_limit: float = DEFAULT_SECONDS
    seed: int = 0
    file_plan: FilePlan = "use"
    shrink: bool = False
    keep_inputs: bool = False
    overlap: bool = True
    max_extra_macs: float | None = None

    @property
    def permits_stripes(self) -> bool:
        """Whether a plan for TFLM may compute regions of the model in stripes."""
        return self.shrink or self.max_extra_macs is not None

    def as_options(self) -> dict[str, object]:
        """Return the options of the JSON document, without `file_plan`, which commands name differently."""
        return {
            "order": self.order or "optimal",
            "strategy": self.strategy or "optimal",
            "sharing": self.sharing,
            "constants_in_ram": self.constants_in_ram,
            "plan_time_limit": self.time_limit,
            "plan_seed": self.seed,
            "shrink": self.shrink,
            "keep_inputs": self.keep_inputs,
            "max_extra_macs": self.max_extra_macs,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """The order in which operators of the main graph run, when buffers are live, and their offsets.

    order: indices of the input file, by position. offsets: the offline plan; None if `planner` is the runtime, or if
    constants are placed in RAM, which TFLM does not support. layout: TFLM's layout with this plan, for the buffers of
    the problem: tensors and, for a known build, scratch buffers. account: the arena with this plan. stock: the arena
    with TFLM's own planner. Both are None if the build is not known. live_lower_bound: a lower bound for every order,
    if orders were searched; order_proof: how it was established that this order is optimal. shared: the whole buffers
    that tensors share, on request.
    """

    order: tuple[int, ...]
    timeline: Timeline
    problem: LayoutProblem
    layout: Layout
    planner: Planner
    offsets: Offsets | None
    account: ArenaAccount | None = None
    stock: ArenaAccount | None = None
    live_lower_bound: int | None = None
    order_proof: Proof = "none"
    constants_in_ram: bool = False
    shared: SharedLayout | None = None

    @property
    def live_bytes(self) -> int:
        """The most bytes live at once in this order."""
        return lower_bound(self.problem)

    @property
    def overlapping(self) -> tuple[OverlappingTensors, ...]:
        """The outputs that share bytes with an input of their operator."""
        return overlapping_tensors(self.problem, self.layout.offsets)

    @property
    def moved(self) -> int:
        """The minimum number of operators to move to turn the input file's order into this one."""
        return moved_operators(self.order)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The arguments of plan_memory, and the values derived from them for the order in the file."""

    model: Model
    platform: Platform | None
    custom: Mapping[str, OperatorEntry] | None
    request: PlanRequest
    effort: Effort
    times: Timeline
    prepared: Prepared | None
    overlaps: OperatorOverlaps
    views: tuple[View, ...] = ()

    @property
    def order(self) -> tuple[int, ...]:
        """The order in the file."""
        return tuple(operator.index for operator in self.model.main.operators)


def plan_memory(
    model: Model,
    platform: Platform | None = None,
    request: PlanRequest | None = None,
    effort: Effort | None = None,
    *,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> Plan:
    """Return the memory plan of the model; a layout that edgetool made has passed the checker.

    A plan that edgetool made is used only if the arena needs no more with it than without, or if sharing is requested.
    The effort limits the search. The request's time limit is not applied here, but by the caller, which has a clock.
    Raises InvalidModelError for an unsafe plan in the file, UnsupportedModelError for control flow that never ends.
    """
    request, effort = request or PlanRequest(), effort or Effort()
    prepared = None if platform is None else prepare(model, platform, custom=custom)
    times = timeline(model) if prepared is None else prepared.times
    uses_file_plan = request.file_plan != "replace" or keeps_own_plan(model)
    fixed = fixed_offsets(model, times, platform) if uses_file_plan else {}
    is_given = bool(fixed) or request.file_plan == "only"
    overlaps = (
        operator_overlaps(model, platform) if fixed or (not is_given and _may_overlap_in(request, platform)) else {}
    )
    inputs = _Inputs(model, platform, custom, request, effort, times, prepared, overlaps, views_of(model))
    return _plan_in_file(inputs, fixed) if is_given else _best_plan(inputs)


def _may_overlap_in(request: PlanRequest, platform: Platform | None) -> bool:
    """Return whether outputs may overlap inputs in a new plan: for a known build, unless whole buffers are shared."""
    is_layout = request.sharing is None and not request.constants_in_ram and request.strategy != "tflm"
    return request.overlap and is_layout and platform is not None


def renumbered_plan(
    plan: Plan, model: Model, platform: Platform, *, custom: Mapping[str, OperatorEntry] | None = None
) -> Plan:
    """Return the plan with the operator indices of the model that holds it, numbered in the plan's order."""
    prepared = prepare(model, platform, custom=custom)
    fixed = fixed_offsets(model, prepared.times, platform)
    sharing = _sharing_in_file(model, prepared.times, operator_overlaps(model, platform), fixed)
    account = account_plan(prepared, fixed, sharing)
    order = tuple(operator.index for operator in model.main.operators)
    return replace(plan, order=order, timeline=prepared.times, problem=account.problem, account=account)


def _plan_in_file(inputs: _Inputs, fixed: Offsets) -> Plan:
    planner: Planner = "file" if fixed else "runtime"
    if inputs.views and not fixed:
        raise InvalidModelError(
            "tensors are parts of others, but no memory plan places them there",
            where=f"metadata {VIEWS_METADATA_NAME}",
            fix="create a plan with 'edgetool plan -o'",
        )
    account = stock = None
    sharing = _sharing_in_file(inputs.model, inputs.times, inputs.overlaps, fixed)
    if inputs.prepared is None:
        whole = layout_problem(inputs.model, inputs.times, fixed=fixed)
        problem = sharing(whole)
        layout = tflm_layout(problem, fixed, whole)
    else:
        stock = account_plan(inputs.prepared)
        account = account_plan(inputs.prepared, fixed, sharing) if fixed else stock
        problem, layout = account.problem, account.layout
    if inputs.views:
        stock = None  # without the plan, TFLM would not compute the same
    if keeps_own_plan(inputs.model):
        layout = _with_certain_bound(problem, layout)
    return Plan(inputs.order, inputs.times, problem, layout, planner, fixed or None, account, stock)


def _sharing_in_file(model: Model, times: Timeline, overlaps: OperatorOverlaps, fixed: Offsets) -> Sharing:
    """Return what may share bytes in the plan of a file."""
    if views := views_of(model):
        return lambda problem: view_problem(model, views, problem, times, overlaps)
    allowed = permissions(model, times, overlaps)
    return lambda problem: permitted(problem, allowed, offsets=fixed)


def _with_certain_bound(problem: LayoutProblem, layout: Layout) -> Layout:
    """Replace the lower bound with the size of the largest tensor, because compiled operators overlap tensors
    intentionally.
    """
    bound = max((buffer.aligned_bytes for buffer in problem.buffers), default=0)
    return Layout(layout.offsets, layout.height, bound, "bound met" if layout.height == bound else "none")


def _best_plan(inputs: _Inputs) -> Plan:
    """Return the best plan of all orders to try, or that of TFLM's own planner if none is as good."""
    stock = None
    if inputs.prepared is not None and not inputs.request.constants_in_ram:
        stock = account_plan(inputs.prepared)
    original_order, effort = inputs.order, inputs.effort
    first = replace(effort, node_limit=min(FIRST_NODES, effort.node_limit or FIRST_NODES))
    best: Plan | None = None
    for result in orders_to_try(_order_search(inputs)):
        order = tuple(original_order[position] for position in result.order)
        if (
            best is not None
            and _head_decides(best)
            and result.peak_bytes > best.layout.height
            and order != original_order
        ):
            continue
        plan = _plan_in_order(inputs, order, first)
        if result.lower_bound:
            meets_bound = plan.live_bytes == result.lower_bound
            proof: Proof = "none" if not meets_bound else result.proof if result.proof != "none" else "bound met"
            plan = replace(plan, live_lower_bound=result.lower_bound, order_proof=proof)
        if best is None or _cost(plan) < _cost(best):
            best = plan
        if _is_minimal(best):
            break
    assert best is not None
    if (best.layout if best.shared is None else best.shared).proof == "none":
        again = replace(
            _plan_in_order(inputs, best.order, effort),
            live_lower_bound=best.live_lower_bound,
            order_proof=best.order_proof,
        )
        best = min(again, best, key=lambda plan: (_cost(plan), -plan.layout.lower_bound))
    if inputs.views:
        return best  # without a plan, TFLM would not compute the same
    if stock is not None and best.account is not None and best.shared is None:
        worse = (best.account.bytes, best.account.used_bytes) > (stock.bytes, stock.used_bytes)
        if worse or not best.offsets:
            return Plan(original_order, inputs.times, stock.problem, stock.layout, "runtime", None, stock, stock)
    return replace(best, stock=stock)


def _is_minimal(plan: Plan) -> bool:
    """Return whether no order and no layout needs less; this is not known if the head does not determine the arena."""
    return plan.layout.height == plan.live_lower_bound and _head_decides(plan)


def _head_decides(plan: Plan) -> bool:
    """Return whether the head determines the arena; if not, more live bytes do not imply a larger arena."""
    return plan.account is None or plan.account.peak.when == "Invoke"


def _cost(plan: Plan) -> tuple[int, int, int, int]:
    """Return what is minimized: the arena, the live bytes, the bytes that AllocateTensors uses, the operators moved."""
    size, used = plan.layout.height, 0
    if plan.account is not None:
        size, used = plan.account.bytes, plan.account.used_bytes
    return size, plan.live_bytes, used, plan.moved


def _order_search(inputs: _Inputs) -> OrderSearch:
    problem = _head(inputs, inputs.model, inputs.times, inputs.prepared)
    strategy = "original" if inputs.views else inputs.request.order or "optimal"
    return OrderSearch(inputs.model, problem, inputs.times, strategy, inputs.effort.for_order, inputs.overlaps)


def _head(inputs: _Inputs, model: Model, times: Timeline, prepared: Prepared | None) -> LayoutProblem:
    """Return the buffers to place: tensors, scratch buffers if the build is known, and constants on request."""
    return _sharing(inputs, model, times)(_planned_by_tflm(inputs, model, times, prepared))


def _planned_by_tflm(inputs: _Inputs, model: Model, times: Timeline, prepared: Prepared | None) -> LayoutProblem:
    """Return the buffers of the head, views among them, and constants on request."""
    problem = layout_problem(model, times) if prepared is None else head_problem(prepared)
    constants = constant_buffers(model, times) if inputs.request.constants_in_ram else ()
    return LayoutProblem((*problem.buffers, *constants))


def _sharing(inputs: _Inputs, model: Model, times: Timeline, offsets: Offsets | None = None) -> Sharing:
    """Return what may share bytes in a new plan, and with its offsets, what does."""
    keep_inputs = inputs.request.keep_inputs
    if inputs.views:
        return lambda problem: view_problem(
            model, inputs.views, problem, times, inputs.overlaps, keep_inputs=keep_inputs
        )
    allowed = permissions(model, times, inputs.overlaps, keep_inputs=keep_inputs)
    excluded = _mistaken_for_variables(model)
    return lambda problem: permitted(problem, allowed, excluded=excluded, offsets=offsets)


def constant_buffers(model: Model, times: Timeline) -> Iterator[Buffer]:
    """Yield one buffer for each use of a constant by an operator that runs, live only there.

    A constant that two operators use is loaded twice. The buffer's `operator` is the one for which it is loaded.
    """
    for graph in model.subgraphs:
        for operator in graph.operators:
            lifetime = times.operators.get((graph.index, operator.index))
            for index in dict.fromkeys(i for i in operator.inputs if i >= 0):
                tensor = graph.tensors[index]
                if lifetime is not None and tensor.is_constant and arena_bytes(tensor) > 0:
                    yield Buffer(graph.index, index, tensor.name, arena_bytes(tensor), lifetime, operator.index)


def _plan_in_order(inputs: _Inputs, order: tuple[int, ...], effort: Effort) -> Plan:
    """Return a plan for an order, whose layout has passed the checker."""
    request = inputs.request
    model, times, prepared = inputs.model, inputs.times, inputs.prepared
    if order != inputs.order:
        model = in_order(model, order)
        prepared = None if inputs.platform is None else prepare(model, inputs.platform, custom=inputs.custom)
        times = timeline(model) if prepared is None else prepared.times
    problem = _head(inputs, model, times, prepared)
    strategy = request.strategy or "optimal"
    if request.constants_in_ram:
        layout = require_valid(problem, solve(problem, effort, strategy=strategy))
        return Plan(order, times, problem, layout, "edgetool", None, constants_in_ram=True)
    shared, whole = None, _planned_by_tflm(inputs, model, times, prepared)
    if request.sharing is None:
        offsets, layout = place_tensors(model, problem, effort, strategy, views=inputs.views, whole=whole)
    else:
        # A request for sharing is rare, and its modules take time to import.
        from edgetool.memory.sharing.assign import shared_offsets

        shared = shared_offsets(problem, request.sharing, effort)
        offsets = view_offsets(inputs.views, tensor_offsets(model, problem, shared.offsets))
        layout = tflm_layout(problem, offsets, whole)
    require_valid(problem, layout)
    account = None if prepared is None else account_plan(prepared, offsets, _sharing(inputs, model, times, offsets))
    return Plan(order, times, problem, layout, "edgetool", offsets, account, shared=shared)


def place_tensors(
    model: Model,
    problem: LayoutProblem,
    effort: Effort,
    strategy: LayoutStrategy = "optimal",
    *,
    views: Sequence[View] = (),
    whole: LayoutProblem | None = None,
) -> tuple[Offsets, Layout]:
    """Return the offsets of an offline plan, and the layout that TFLM makes from them.

    The layout's lower bound and proof hold for the head that any plan of this operator order could reach.

    Args:
        model: The model in this order.
        problem: The buffers to place.
        effort: The effort of each search.
        strategy: The strategy of the search.
        views: The tensors that are parts of others.
        whole: The buffers that TFLM plans, views among them.
    """
    joint = solve(problem, effort, strategy=strategy)
    best: tuple[Offsets, Layout] | None = None
    for layout in _layouts(problem, joint, effort, strategy):
        offsets: Offsets = view_offsets(views, tensor_offsets(model, problem, layout))
        realised = tflm_layout(problem, offsets, whole)
        if views and check_layout(problem, realised):
            continue  # TFLM knows neither that views are not aligned, nor that their parents keep what is in them
        if best is None or realised.height < best[1].height:
            best = offsets, realised
        if best[1].height <= joint.height:
            break
    if best is None:
        raise UnsupportedModelError(
            "TFLM would place scratch buffers in tensors with views, or at offsets that are no multiples of 16 bytes",
            where=f"metadata {VIEWS_METADATA_NAME}",
            fix="use other stripes, or a target whose kernels need no scratch buffers",
        )
    chosen, realised = best
    bounded = _bound_of_any_offsets(problem, joint, effort, strategy)
    proof: Proof = "none"
    if realised.height == bounded.lower_bound:
        # TFLM may place scratch buffers better than the search did, and reach a bound that the search did not reach.
        realised_proof: Proof = "bound met" if bounded.lower_bound == realised.lower_bound else "search exhausted"
        proof = realised_proof if bounded.proof == "none" else bounded.proof
    return chosen, replace(realised, lower_bound=bounded.lower_bound, proof=proof)


def _bound_of_any_offsets(problem: LayoutProblem, joint: Layout, effort: Effort, strategy: LayoutStrategy) -> Layout:
    """Return a layout whose bound also holds for plans that give the tensors of an alias different offsets."""
    if all(buffer.alias is None for buffer in problem.buffers):
        return joint
    relaxed = without_aliases(problem)
    easy = lower_bound(relaxed)
    if joint.height == easy or not joint.optimal:
        return replace(joint, lower_bound=easy, proof="bound met" if joint.height == easy else "none")
    return solve(relaxed, effort, strategy=strategy)


def _layouts(
    problem: LayoutProblem, joint: Layout, effort: Effort, strategy: LayoutStrategy
) -> Iterator[tuple[int, ...]]:
    """Yield layouts from which TFLM makes its own: the best one, then those that leave scratch buffers no choice."""
    yield joint.offsets
    if strategy != "optimal":
        return
    if any(buffer.is_scratch for buffer in problem.buffers):
        yield _with_joined_scratch(problem, effort)
    yield solve(problem, effort, strategy="greedy").offsets


def _with_joined_scratch(problem: LayoutProblem, effort: Effort) -> tuple[int, ...]:
    """Place the scratch buffers of each operator next to each other: they fit there however TFLM orders them."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, buffer in enumerate(problem.buffers):
        groups[(buffer.subgraph, buffer.operator) if buffer.is_scratch else (-1, index)].append(index)
    members = list(groups.values())
    place = {index: number for number, group in enumerate(members) for index in group}
    joined = LayoutProblem(
        tuple(_joined([problem.buffers[index] for index in group]) for group in members),
        # How far a single scratch buffer may overlap says nothing about all of them.
        tuple(
            replace(item, first=place[item.first], second=place[item.second])
            for item in problem.overlaps
            if not any(problem.buffers[index].is_scratch for index in (item.first, item.second))
        ),
    )
    layout = solve(joined, effort)
    offsets = [0] * len(problem.buffers)
    for group, start in zip(members, layout.offsets, strict=True):
        for index in group:
            offsets[index] = start
            start += problem.buffers[index].aligned_bytes
    return tuple(offsets)


def _joined(buffers: list[Buffer]) -> Buffer:
    return replace(buffers[0], size_bytes=sum(buffer.aligned_bytes for buffer in buffers))


def tensor_offsets(model: Model, problem: LayoutProblem, offsets: Sequence[int]) -> Offsets:
    """Return what an offline plan fixes: tensors, except those that TFLM would mistake for variables."""
    excluded = _mistaken_for_variables(model)
    return {
        (buffer.subgraph, buffer.tensor): offset
        for buffer, offset in zip(problem.buffers, offsets, strict=True)
        if not buffer.is_scratch and (buffer.subgraph, buffer.tensor) not in excluded
    }


def _mistaken_for_variables(model: Model) -> set[tuple[int, int]]:
    """Return the tensors whose offset TFLM takes for that of a variable of a later subgraph, which gets no memory.

    MicroAllocator::AllocateVariables looks up the plan by the variable's index within its own subgraph.
    """
    keys = model.tensor_keys
    return {keys[tensor.index] for graph in model.subgraphs[1:] for tensor in graph.tensors if tensor.is_variable}


def fixed_offsets(model: Model, times: Timeline, platform: Platform | None = None) -> Offsets:
    """Return the offsets that the plan in the file fixes, after a check; empty if it has none.

    Offsets of constants and of empty tensors have no effect and are omitted. Tensors may overlap as far as the kernels
    of the platform permit, by default the reference kernels. Raises InvalidModelError if other live tensors overlap in
    the plan, an offset is negative or unaligned, or a variable tensor would lose its contents or its
    memory: TFLM follows any plan, safe or not.
    """
    offsets = unchecked_offsets(model)
    if not offsets:
        return {}
    fixed = [
        replace(buffer, lifetime=_ALWAYS)
        if model.subgraphs[buffer.subgraph].tensors[buffer.tensor].is_variable
        else buffer
        for buffer in layout_problem(model, times, fixed=offsets).buffers
        if (buffer.subgraph, buffer.tensor) in offsets
    ]
    sharing = _sharing_in_file(model, times, operator_overlaps(model, platform), offsets)
    problem = sharing(LayoutProblem(tuple(fixed)))
    placed = tuple(offsets[b.subgraph, b.tensor] for b in problem.buffers)
    height = max((offset + b.aligned_bytes for offset, b in zip(placed, problem.buffers, strict=True)), default=0)
    problems = [
        violation.message
        for violation in check_layout(problem, Layout(placed, height, 0, "none"))
        if violation.rule != "overlap" or not _may_overlap(model, *(problem.buffers[i] for i in violation.buffers))
    ]
    problems += _views_elsewhere(model, offsets)
    problems += _variables_without_memory(model, offsets)
    if problems:
        raise InvalidModelError(
            f"the plan is unsafe: {problems[0]}",
            where=f"metadata {METADATA_NAME}",
            fix="create a new plan with --replan",
            details=tuple(problems[1:6]),
        )
    return {(b.subgraph, b.tensor): offsets[b.subgraph, b.tensor] for b in fixed}


def _views_elsewhere(model: Model, offsets: Mapping[tuple[int, int], int]) -> list[str]:
    """Describe views that are not in their parents."""
    return [
        f"tensor {view.tensor} is not {view.offset} bytes behind tensor {view.parent}, of which it is a part"
        for view in views_of(model)
        if offsets.get((0, view.tensor), -1) != offsets.get((0, view.parent), -1) + view.offset
        or (0, view.parent) not in offsets
    ]


def _variables_without_memory(model: Model, offsets: Mapping[tuple[int, int], int]) -> list[str]:
    """Describe variables of later subgraphs that get no memory: TFLM looks up their offsets in the first subgraph."""
    keys = model.tensor_keys
    return [
        f"the variable {tensor.name!r} (tensor {tensor.index} of subgraph {graph.index}) would get no memory"
        for graph in model.subgraphs[1:]
        for tensor in graph.tensors
        if tensor.is_variable and (graph.index, tensor.index) not in offsets and keys[tensor.index] in offsets
    ]


def _may_overlap(model: Model, first: Buffer, second: Buffer) -> bool:
    """Return whether both are operands of one compiled operator, whose compiler overlapped them intentionally."""
    if first.subgraph != second.subgraph:
        return False
    return any(
        {first.tensor, second.tensor} <= {*op.inputs, *op.outputs}
        for op in model.subgraphs[first.subgraph].operators
        if op.custom_code in COMPILED_OPERATORS
    )
