"""From a model to its judged layout."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.memory.checker import require_sound
from edgetool.memory.greedy import solve_greedy
from edgetool.memory.lifetimes import Timeline, layout_problem, timeline
from edgetool.memory.offline_plan import keeps_own_plan, layout_in_file
from edgetool.memory.types import Layout, LayoutProblem
from edgetool.model.types import Model


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The order in which operators of the main graph run, when tensors live, and where they lie."""

    order: tuple[int, ...]
    timeline: Timeline
    problem: LayoutProblem
    layout: Layout


def plan_memory(model: Model, *, as_in_file: bool = False) -> MemoryPlan:
    """The memory plan of the model in its own operator order; the layout has passed the checker.

    With as_in_file, or where compiled operators rely on it, the file's own plan is taken as it is.
    """
    times = timeline(model)
    problem = layout_problem(model, times)
    kept = layout_in_file(model, problem) if as_in_file or keeps_own_plan(model) else None
    layout = kept or require_sound(problem, solve_greedy(problem))
    order = tuple(operator.index for operator in model.main.operators)
    return MemoryPlan(order, times, problem, layout)
