"""From a model to the problem of ordering the operators of its main graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from edgetool.memory.bound import lower_bound
from edgetool.memory.lifetimes import called_subgraphs
from edgetool.memory.order.state import State, accesses, variable_names
from edgetool.memory.order.types import OrderProblem
from edgetool.memory.types import Buffer, LayoutProblem, Lifetime
from edgetool.model.types import Graph, Model


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
