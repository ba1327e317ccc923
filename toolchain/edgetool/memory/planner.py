"""From a model to its judged layout."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.memory.bound import Peak, peak
from edgetool.memory.checker import require_sound
from edgetool.memory.greedy import solve_greedy
from edgetool.memory.lifetimes import Timeline, layout_problem, timeline
from edgetool.memory.offline_plan import compiled_layout
from edgetool.memory.types import Layout, LayoutProblem
from edgetool.model.types import Model


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The order in which operators of the main graph run, when tensors live, and where they lie."""

    order: tuple[int, ...]
    timeline: Timeline
    problem: LayoutProblem
    layout: Layout
    peak: Peak


def plan_memory(model: Model) -> MemoryPlan:
    """The memory plan of the model in its own operator order; the layout has passed the checker.

    Where the file holds compiled operators, its own plan is taken as it is.
    """
    times = timeline(model)
    problem = layout_problem(model, times)
    layout = compiled_layout(model, problem) or require_sound(problem, solve_greedy(problem))
    order = tuple(operator.index for operator in model.main.operators)
    return MemoryPlan(order, times, problem, layout, peak(problem))
