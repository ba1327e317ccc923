"""From a model to its judged layout, and to the arena that it needs on a build of TFLM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgetool.memory.account import (
    Offsets,
    Prepared,
    account_plan,
    head_problem,
    prepare,
    realised_layout,
)
from edgetool.memory.account_types import ArenaAccount
from edgetool.memory.bound import lower_bound
from edgetool.memory.checker import require_sound
from edgetool.memory.greedy import candidates, solve_greedy
from edgetool.memory.lifetimes import Timeline, layout_problem, timeline
from edgetool.memory.offline_plan import fixed_offsets, judged_layout, keeps_own_plan
from edgetool.memory.types import Layout, LayoutProblem
from edgetool.model.types import Model
from edgetool.operators.types import OperatorEntry
from edgetool.target.platform import Platform

# Whose offsets a plan holds: the input file's, ours, or nobody's, so that TFLM's own planner decides at run time.
Planner = Literal["file", "edgetool", "runtime"]
Wanted = Literal["best", "as in file", "anew"]


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The order in which operators of the main graph run, when buffers live, and where they lie.

    offsets is the offline plan, by (subgraph, tensor); None where `planner` is the runtime. layout holds what TFLM
    makes of it, for the buffers of the problem: tensors and, on a known build, scratch. account is the arena with this
    plan and stock the arena without any; both None where the build is not known.
    """

    order: tuple[int, ...]
    timeline: Timeline
    problem: LayoutProblem
    layout: Layout
    planner: Planner
    offsets: Offsets | None
    account: ArenaAccount | None = None
    stock: ArenaAccount | None = None


def plan_memory(
    model: Model,
    platform: Platform | None = None,
    *,
    custom: Mapping[str, OperatorEntry] | None = None,
    wanted: Wanted = "best",
) -> MemoryPlan:
    """The memory plan of the model in its own operator order; a layout of ours has passed the checker.

    wanted: "best" honours a plan in the file and makes one where there is none; "as in file" takes the file as it is;
    "anew" ignores a plan in the file, unless compiled operators rely on it. A plan of ours is used only where the arena
    needs no more with it than without. Raises InvalidModelError for an unsafe plan in the file.
    """
    times = timeline(model)
    order = tuple(operator.index for operator in model.main.operators)
    honoured = wanted != "anew" or keeps_own_plan(model)
    in_file = fixed_offsets(model, times) if honoured else {}
    if platform is None:
        problem, layout, offsets = _plan_tensors(model, times, in_file, wanted)
        return MemoryPlan(order, times, problem, layout, _planner(in_file, offsets), offsets)
    prepared = prepare(model, platform, custom=custom)
    stock = account_plan(prepared)
    if in_file:
        account, offsets = account_plan(prepared, in_file), in_file
    elif wanted == "as in file":
        account, offsets = stock, None
    else:
        account, offsets = _best(prepared, stock)
    layout = judged_layout(model, account.problem, account.layout)
    planner = _planner(in_file, offsets)
    if planner == "edgetool":
        require_sound(account.problem, layout)
    return MemoryPlan(order, times, account.problem, layout, planner, offsets, account, stock)


def _planner(in_file: Offsets, offsets: Offsets | None) -> Planner:
    if in_file:
        return "file"
    return "runtime" if offsets is None else "edgetool"


def _plan_tensors(
    model: Model, times: Timeline, in_file: Offsets, wanted: Wanted
) -> tuple[LayoutProblem, Layout, Offsets | None]:
    """The plan of the tensors alone, where no build says which scratch buffers come on top."""
    problem = layout_problem(model, times, fixed=in_file)
    if in_file:
        return problem, judged_layout(model, problem, realised_layout(problem, in_file)), in_file
    if wanted == "as in file":
        return problem, realised_layout(problem), None
    layout = require_sound(problem, solve_greedy(problem))
    return problem, layout, _tensor_offsets(model, problem, layout.offsets)


def _best(prepared: Prepared, stock: ArenaAccount) -> tuple[ArenaAccount, Offsets | None]:
    """The plan whose realised head is lowest; TFLM's own planner where no plan does as well."""
    problem = head_problem(prepared)
    bound = lower_bound(problem)
    best: tuple[int, Offsets] | None = None
    for candidate in candidates(problem):
        offsets = _tensor_offsets(prepared.model, problem, candidate)
        height = realised_layout(problem, offsets).height
        if best is None or height < best[0]:
            best = (height, offsets)
        if height == bound:
            break
    if best is None or not best[1]:
        return stock, None
    account = account_plan(prepared, best[1])
    worse = (account.bytes, account.used_bytes) > (stock.bytes, stock.used_bytes)
    return (stock, None) if worse else (account, best[1])


def _tensor_offsets(model: Model, problem: LayoutProblem, offsets: tuple[int, ...]) -> Offsets:
    """What the offline plan fixes of a layout: its tensors, less those that TFLM would confuse with variables."""
    kept = set(_confused_with_variables(model))
    return {
        (buffer.subgraph, buffer.tensor): offset
        for buffer, offset in zip(problem.buffers, offsets, strict=True)
        if not buffer.is_scratch and (buffer.subgraph, buffer.tensor) not in kept
    }


def _confused_with_variables(model: Model) -> list[tuple[int, int]]:
    """Tensors whose offset TFLM takes for that of a variable tensor of a later subgraph, which then gets no memory.

    MicroAllocator::AllocateVariables looks into the plan by the variable's index within its own subgraph.
    """
    keys = model.tensor_keys
    return [keys[tensor.index] for graph in model.subgraphs[1:] for tensor in graph.tensors if tensor.is_variable]
