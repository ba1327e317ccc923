"""The operator orders of a model that are worth a layout.

What operators share beside the tensors that they hand on: state, which fixes their order.

From a model to the problem of ordering the operators of its main graph.
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

# Readers of a piece of state may change places; a writer keeps its own.
Access = Literal["read", "write"]

# A resource variable by its shared name, or what all operators of a kind share.
State = tuple[str, str]
HANDLES: State = ("all", "numbers of resource variables")
VARIABLES: State = ("all", "resource variables")
TABLES: State = ("all", "hash tables")
RANDOM: State = ("all", "random numbers")
CUSTOM: State = ("all", "what custom operators may share")
SUBGRAPHS: State = ("all", "state within subgraphs")
RUN: State = ("all", "whether the run goes on")

# Until it has seen enough, CIRCULAR_BUFFER ends the run (circular_buffer.cc returns kTfLiteAbort): what stands before
# it runs more often than what stands after it.
ENDS_RUNS = frozenset(["CIRCULAR_BUFFER"])

STATEFUL_CODES: Mapping[str, State] = {
    "CALL_ONCE": VARIABLES,
    "VAR_HANDLE": HANDLES,  # TFLM numbers variables in the order of their handles.
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"), TABLES),
    **dict.fromkeys(("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "STABLEHLO_RNG_BIT_GENERATOR"), RANDOM),
}


def variable_names(graph: Graph) -> dict[int, str]:
    """The shared names of the resource variables of a graph, by the tensor that is their handle."""
    return {
        operator.outputs[0]: operator.options.text("shared_name")
        for operator in graph.operators
        if operator.code == "VAR_HANDLE" and operator.outputs and operator.options is not None
    }


def accesses(model: Model, operator: Operator, names: Mapping[int, str]) -> Iterator[tuple[State, Access]]:
    """The state that an operator reads or writes. names: the variables of its graph, by handle.

    A variable whose handle comes from elsewhere may be any. Custom operators that are none of TFLM's own may share
    what nobody knows of, and control flow writes all that its subgraphs may touch. TFLM's own custom operators may keep
    state of their own (those for signals do), which matters where several operators run the subgraph that they are in.
    """
    yield from _own_accesses(operator, names)
    graphs = [model.subgraphs[index] for index in reachable_subgraphs(model, operator)]
    inside = [inner for graph in graphs for inner in graph.operators]
    touched = {found for inner in inside for found in _own_accesses(inner, {})} - {(RUN, "read")}
    for state in sorted({state for state, _ in touched}):
        yield state, "write"
    if any(inner.code == "CUSTOM" for inner in inside) or any(t.is_variable for graph in graphs for t in graph.tensors):
        yield SUBGRAPHS, "write"


def _own_accesses(operator: Operator, names: Mapping[int, str]) -> Iterator[tuple[State, Access]]:
    """What it touches itself, without the subgraphs that it runs."""
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
    """The subgraphs that the operator runs, directly or not. A timeline has shown that there is no circle."""
    found: list[int] = []
    waiting = list(called_subgraphs(operator))
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.append(index)
            waiting += [called for inner in model.subgraphs[index].operators for called in called_subgraphs(inner)]
    return found


def order_problem(model: Model, problem: LayoutProblem, spans: Mapping[tuple[int, int], Lifetime]) -> OrderProblem:
    """The main graph's operators with the buffers of the head, and every edge that keeps the model's results.

    problem: the buffers of the head, scratch included where the build is known. spans: the positions at which each
    (subgraph, operator) runs. An operator that runs subgraphs needs the most that is alive in them as scratch of its
    own. Positions in the result are those of Graph.operators. Variable tensors are in `after` alone: they keep their
    contents from run to run, so that an operator may read what a later one wrote in the run before.
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
        reads=tuple(_handed_on(graph, op.inputs) for op in graph.operators),
        writes=tuple(_handed_on(graph, op.outputs) for op in graph.operators),
        after=state_edges(model),
        scratch=tuple(scratch),
        inputs=graph.inputs,
        outputs=graph.outputs,
    )


def _handed_on(graph: Graph, tensors: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i for i in dict.fromkeys(tensors) if i >= 0 and not graph.tensors[i].is_variable)


def _within(buffer: Buffer, span: Lifetime) -> Buffer:
    times = buffer.lifetime
    return replace(buffer, lifetime=Lifetime(max(times.first, span.first), min(times.last, span.last)))


def state_edges(model: Model) -> tuple[tuple[int, ...], ...]:
    """What must have run before each operator of the main graph, beside those that first write what it reads.

    State is touched in the original order: variables, resources, tensors that more than one operator writes.
    """
    graph = model.main
    names = variable_names(graph)
    writer: dict[State | int, int] = {}
    readers: dict[State | int, list[int]] = defaultdict(list)
    after: list[tuple[int, ...]] = []
    for place, operator in enumerate(graph.operators):
        before: set[int] = set()
        reads: set[State | int] = {i for i in operator.inputs if i >= 0}
        writes: set[State | int] = {i for i in operator.outputs if i >= 0}
        # Whoever takes a variable tensor may change it.
        writes |= {i for i in operator.inputs if i >= 0 and graph.tensors[i].is_variable}
        for state, access in accesses(model, operator, names):
            (reads if access == "read" else writes).add(state)
        for thing in reads | writes:
            if thing in writer:
                before.add(writer[thing])
        for thing in writes:
            before.update(readers.pop(thing, ()))
            writer[thing] = place
        for thing in reads - writes:
            readers[thing].append(place)
        after.append(tuple(sorted(before - {place})))
    return tuple(after)


@dataclass(frozen=True, slots=True)
class OrderSearch:
    """A model, the buffers of its head in its own order, and what is wanted of its order."""

    model: Model
    problem: LayoutProblem
    times: Timeline
    strategy: OrderStrategy
    effort: Effort


def orders_to_try(search: OrderSearch) -> Iterator[OrderResult]:
    """Orders by position in the main graph, the one with the least live bytes first, found when asked for.

    The best order by live bytes may need the higher layout, so others follow. A lower bound of 0 stands for none:
    nothing was searched, or a subgraph that several operators run makes live bytes depend on all of them. Where
    something is read that nothing has written before, the result depends on what lies there: only the own order is
    tried.
    """
    count = len(search.model.main.operators)
    live = lower_bound(search.problem)
    own = OrderResult(tuple(range(count)), live, 0, "none")
    if count < 2:
        yield replace(own, lower_bound=live, proof="search exhausted")
        return
    if search.strategy == "original" or keeps_own_plan(search.model) or _reads_unwritten(search):
        yield own
        return
    problem = order_problem(search.model, search.problem, search.times.operators)
    dead = lower_bound(LayoutProblem(tuple(b for b in search.problem.buffers if b.lifetime == DEAD)))
    known = not _shared_subgraphs(search.model) and _contained(search)
    for result in _found(problem, search):
        bound = max(result.lower_bound, dead) if known else 0
        yield replace(result, lower_bound=bound, proof=result.proof if known else "none")


def _found(problem: OrderProblem, search: OrderSearch) -> Iterator[OrderResult]:
    if search.strategy == "optimal":
        yield from candidates(problem, search.effort)
    else:
        yield solve_order(problem, search.effort, strategy=search.strategy)


def _shared_subgraphs(model: Model) -> bool:
    """Whether more than one operator of the main graph runs the same subgraph."""
    runs = Counter(index for operator in model.main.operators for index in reachable_subgraphs(model, operator))
    return any(count > 1 for count in runs.values())


def _reads_unwritten(search: OrderSearch) -> bool:
    """Whether the main graph, or who takes its outputs, reads a tensor of the head before anything is in it."""
    graph = search.model.main
    written = set(graph.inputs)
    unwritten: set[int] = set()
    for operator in graph.operators:
        unwritten.update(set(operator.inputs) - written)
        written.update(operator.outputs)
    unwritten.update(set(graph.outputs) - written)
    return any(b.subgraph == 0 and b.tensor in unwritten and b.operator < 0 for b in search.problem.buffers)


def _contained(search: OrderSearch) -> bool:
    """Whether each tensor of a subgraph is alive only while an operator of the main graph runs that subgraph."""
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
