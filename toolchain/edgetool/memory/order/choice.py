"""The operator orders of a model that are worth a layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgetool.memory.bound import lower_bound
from edgetool.memory.effort import Effort
from edgetool.memory.lifetimes import DEAD, Timeline
from edgetool.memory.order.edges import order_problem
from edgetool.memory.order.solve import candidates, solve_order
from edgetool.memory.order.state import reachable_subgraphs
from edgetool.memory.order.types import OrderProblem, OrderResult
from edgetool.memory.plan_options import OrderStrategy
from edgetool.memory.types import LayoutProblem
from edgetool.model.metadata import keeps_own_plan
from edgetool.model.types import Model


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
