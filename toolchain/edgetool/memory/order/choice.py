"""The operator orders of a model that are worth a layout.

The operators of the main graph are ordered by their tensors and by the state that they share: variables, resources,
tables and random numbers fix the relative order of their readers and writers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from edgetool.memory.bound import lower_bound
from edgetool.memory.lifetimes import DEAD, Timeline, called_subgraphs
from edgetool.memory.order.solve import OrderStrategy, candidates, solve_order
from edgetool.memory.order.types import OrderProblem, OrderResult
from edgetool.memory.problem import Buffer, Effort, LayoutProblem, Lifetime
from edgetool.model.metadata import keeps_own_plan
from edgetool.model.types import Graph, Model, Operator
from edgetool.operators.registry import CUSTOM_OPERATORS

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


def order_problem(model: Model, problem: LayoutProblem, spans: Mapping[tuple[int, int], Lifetime]) -> OrderProblem:
    """Return the main graph's operators with the buffers of the head, and every edge that preserves the model's
    results.

    problem: the buffers of the head, including scratch if the build is known. spans: the positions at which each
    (subgraph, operator) runs. An operator that runs subgraphs needs their maximum live bytes as scratch. Positions in
    the result are those of Graph.operators. Variable tensors are only in `after`: they keep their contents from run to
    run, so that an operator may read what a later one wrote in the previous run.
    """
    graph = model.main
    sizes = [0] * len(graph.tensors)
    scratch = [0] * len(graph.operators)
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
    """The request for orders: a model, the buffers of its head in the original order, and the strategy."""

    model: Model
    problem: LayoutProblem
    times: Timeline
    strategy: OrderStrategy
    effort: Effort


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
    problem = order_problem(search.model, search.problem, search.times.operators)
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
    """Whether more than one operator of the main graph runs the same subgraph."""
    runs = Counter(index for operator in model.main.operators for index in reachable_subgraphs(model, operator))
    return any(count > 1 for count in runs.values())


def _reads_unwritten(search: OrderSearch) -> bool:
    """Whether the main graph, or the reader of its outputs, reads a tensor of the head before it is written."""
    graph = search.model.main
    written = set(graph.inputs)
    unwritten: set[int] = set()
    for operator in graph.operators:
        unwritten.update(set(operator.inputs) - written)
        written.update(operator.outputs)
    unwritten.update(set(graph.outputs) - written)
    return any(b.subgraph == 0 and b.tensor in unwritten and b.operator < 0 for b in search.problem.buffers)


def _contained(search: OrderSearch) -> bool:
    """Whether each tensor of a subgraph is live only while an operator of the main graph runs that subgraph."""
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
