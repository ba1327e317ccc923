"""From a model to its judged order and layout, and to the arena that it needs on a build of TFLM.

Constants as buffers, for firmware that loads them from slow memory when an operator needs them.

The offsets of a model's tensors that make the head lowest, as TFLM will realise it.

An offline plan fixes tensors alone: TFLM's own planner fits scratch buffers around them, the largest first. So a
layout of tensors and scratch together bounds what can be reached, and what counts is the layout that comes back.

Judges the offline memory plan of a model file: TFLM follows any plan, safe or not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edgetool.errors import InvalidModelError
from edgetool.memory.account import ArenaAccount, Prepared, account_plan, head_problem, prepare, tflm_layout
from edgetool.memory.bound import lower_bound
from edgetool.memory.checker import check_layout, require_valid
from edgetool.memory.effort import Effort
from edgetool.memory.layout.solve import solve
from edgetool.memory.lifetimes import Timeline, layout_problem, timeline
from edgetool.memory.order.choice import OrderSearch, orders_to_try
from edgetool.memory.order.evaluate import moved_operators
from edgetool.memory.plan_options import PlanOptions, Wanted
from edgetool.memory.sharing.plan import SharedLayout, shared_offsets
from edgetool.memory.types import Buffer, Layout, LayoutProblem, Lifetime, Proof
from edgetool.model.edit import in_order
from edgetool.model.metadata import COMPILED_OPERATORS, METADATA_NAME, keeps_own_plan, unjudged_offsets
from edgetool.model.types import Model
from edgetool.operators.call import arena_bytes
from edgetool.operators.entry import OperatorEntry
from edgetool.target.platform import Platform

# A variable tensor that the plan moves to the head keeps its contents only where nothing else ever lies.
_ALWAYS = Lifetime(-2, 2**31)


def fixed_offsets(model: Model, times: Timeline) -> dict[tuple[int, int], int]:
    """The offsets by (subgraph, tensor) that the file's own plan fixes, judged; empty when it has none.

    Offsets of constants and of empty tensors mean nothing and are left out. Raises InvalidModelError when two live
    tensors overlap in it, an offset is negative or unaligned, or a variable tensor would lose its contents or its
    memory: TFLM would follow it all the same.
    """
    offsets = unjudged_offsets(model)
    if not offsets:
        return {}
    fixed = [
        replace(buffer, lifetime=_ALWAYS)
        if model.subgraphs[buffer.subgraph].tensors[buffer.tensor].is_variable
        else buffer
        for buffer in layout_problem(model, times, fixed=offsets).buffers
        if (buffer.subgraph, buffer.tensor) in offsets
    ]
    placed = tuple(offsets[b.subgraph, b.tensor] for b in fixed)
    height = max((offset + b.aligned_bytes for offset, b in zip(placed, fixed, strict=True)), default=0)
    problems = [
        violation.message
        for violation in check_layout(LayoutProblem(tuple(fixed)), Layout(placed, height, 0, "none"))
        if violation.rule != "overlap" or not _may_overlap(model, *(fixed[i] for i in violation.buffers))
    ]
    problems += _variables_without_memory(model, offsets)
    if problems:
        raise InvalidModelError(
            f"the plan is unsafe: {problems[0]}",
            where=f"metadata {METADATA_NAME}",
            fix="create a new plan with --replan",
            details=tuple(problems[1:6]),
        )
    return {(b.subgraph, b.tensor): offset for b, offset in zip(fixed, placed, strict=True)}


def _variables_without_memory(model: Model, offsets: Mapping[tuple[int, int], int]) -> list[str]:
    """Variables of later subgraphs that TFLM gives no memory: it looks up their offset as if they were in the first."""
    keys = model.tensor_keys
    return [
        f"the variable {tensor.name!r} (tensor {tensor.index} of subgraph {graph.index}) would get no memory"
        for graph in model.subgraphs[1:]
        for tensor in graph.tensors
        if tensor.is_variable and (graph.index, tensor.index) not in offsets and keys[tensor.index] in offsets
    ]


def judged_layout(model: Model, problem: LayoutProblem, layout: Layout) -> Layout:
    """The layout with the bound that holds for it: compiled operators lay tensors over each other.

    Where they do, the largest tensor is all that is certain.
    """
    if not keeps_own_plan(model):
        return layout
    bound = max((b.aligned_bytes for b in problem.buffers), default=0)
    return Layout(layout.offsets, layout.height, bound, "bound met" if layout.height == bound else "none")


def _may_overlap(model: Model, first: Buffer, second: Buffer) -> bool:
    """Operands of one compiled operator: its compiler laid them over each other on purpose."""
    if first.subgraph != second.subgraph:
        return False
    return any(
        {first.tensor, second.tensor} <= {*op.inputs, *op.outputs}
        for op in model.subgraphs[first.subgraph].operators
        if op.custom_code in COMPILED_OPERATORS
    )


def constant_buffers(model: Model, times: Timeline) -> Iterator[Buffer]:
    """One buffer for each use of a constant by an operator that runs, alive only there.

    A constant that two operators use is loaded twice. `operator` names the one for which it is loaded.
    """
    for graph in model.subgraphs:
        for operator in graph.operators:
            lifetime = times.operators.get((graph.index, operator.index))
            for index in dict.fromkeys(i for i in operator.inputs if i >= 0):
                tensor = graph.tensors[index]
                if lifetime is not None and tensor.is_constant and arena_bytes(tensor) > 0:
                    yield Buffer(graph.index, index, tensor.name, arena_bytes(tensor), lifetime, operator.index)


Offsets = Mapping[tuple[int, int], int]


def place(model: Model, problem: LayoutProblem, options: PlanOptions) -> tuple[Offsets, Layout]:
    """Offsets by (subgraph, tensor) for an offline plan, and the layout that TFLM makes of them.

    The layout's lower bound and proof hold for the head that any plan of this operator order could reach.
    """
    joint = solve(problem, options.effort, strategy=options.strategy)
    best: tuple[Offsets, Layout] | None = None
    for layout in _tries(problem, joint, options):
        offsets = tensor_offsets(model, problem, layout)
        realised = tflm_layout(problem, offsets)
        if best is None or realised.height < best[1].height:
            best = offsets, realised
        if best[1].height <= joint.height:
            break
    assert best is not None
    offsets, realised = best
    proof: Proof = "none"
    if realised.height == joint.lower_bound:
        # What the search could not reach, TFLM's own fit of scratch may: the bound that it meets may be the search's.
        found: Proof = "bound met" if joint.lower_bound == realised.lower_bound else "search exhausted"
        proof = found if joint.proof == "none" else joint.proof
    return offsets, replace(realised, lower_bound=joint.lower_bound, proof=proof)


def place_shared(model: Model, problem: LayoutProblem, options: PlanOptions) -> tuple[SharedLayout, Offsets, Layout]:
    """Shared whole buffers one after another, the offsets that this gives, and the layout that TFLM makes of them."""
    assert options.sharing is not None
    shared = shared_offsets(problem, options.sharing, options.effort)
    offsets = tensor_offsets(model, problem, shared.offsets)
    return shared, offsets, tflm_layout(problem, offsets)


def _tries(problem: LayoutProblem, joint: Layout, options: PlanOptions) -> Iterator[tuple[int, ...]]:
    """Layouts to realise, made when asked for: the best one, then such as leave scratch no choice."""
    yield joint.offsets
    if options.strategy != "optimal":
        return
    if any(buffer.is_scratch for buffer in problem.buffers):
        yield _with_joined_scratch(problem, options)
    yield solve(problem, options.effort, strategy="greedy").offsets


def _with_joined_scratch(problem: LayoutProblem, options: PlanOptions) -> tuple[int, ...]:
    """A layout in which the scratch of each operator lies together: however TFLM fits it in there, there is room."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, buffer in enumerate(problem.buffers):
        groups[(buffer.subgraph, buffer.operator) if buffer.is_scratch else (-1, index)].append(index)
    members = list(groups.values())
    joined = LayoutProblem(tuple(_joined([problem.buffers[index] for index in group]) for group in members))
    layout = solve(joined, options.effort, strategy=options.strategy)
    offsets = [0] * len(problem.buffers)
    for group, start in zip(members, layout.offsets, strict=True):
        for index in group:
            offsets[index] = start
            start += problem.buffers[index].aligned_bytes
    return tuple(offsets)


def _joined(buffers: list[Buffer]) -> Buffer:
    return replace(buffers[0], size_bytes=sum(buffer.aligned_bytes for buffer in buffers))


def tensor_offsets(model: Model, problem: LayoutProblem, offsets: Sequence[int]) -> Offsets:
    """What an offline plan fixes of a layout: its tensors, less those that TFLM would confuse with variables."""
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


# Whose offsets a plan holds: the input file's, ours, or nobody's, so that TFLM's own planner decides at run time.
Planner = Literal["file", "edgetool", "runtime"]
# Nodes for the first layout of each order: where one is hard, another order may have an easy one that is as low. The
# best of them then gets the whole effort.
FIRST_NODES = 10_000


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The order in which operators of the main graph run, when buffers live, and where they lie.

    order: indices of the input file, by position. offsets is the offline plan, by (subgraph, tensor); None where
    `planner` is the runtime, or where constants lie in RAM, which TFLM does not know. layout holds what TFLM makes of
    it, for the buffers of the problem: tensors and, on a known build, scratch. account is the arena with this plan and
    stock the arena of the file as it came without any; both None where the build is not known. live_lower_bound is what
    no order can beat, where an order was searched, and order_proof how it is known that this one is the best. shared:
    the whole buffers that tensors share, where that was asked for.
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
        """The most bytes alive at once in this order."""
        return lower_bound(self.problem)

    @property
    def moved(self) -> int:
        """How few operators must be moved to turn the input file's order into this one."""
        return moved_operators(self.order)


@dataclass(frozen=True, slots=True)
class _Case:
    model: Model
    platform: Platform | None
    custom: Mapping[str, OperatorEntry] | None
    options: PlanOptions
    times: Timeline
    prepared: Prepared | None

    @property
    def order(self) -> tuple[int, ...]:
        """The file's own."""
        return tuple(operator.index for operator in self.model.main.operators)


def plan_memory(
    model: Model,
    platform: Platform | None = None,
    *,
    custom: Mapping[str, OperatorEntry] | None = None,
    wanted: Wanted = "best",
    options: PlanOptions | None = None,
) -> MemoryPlan:
    """The memory plan of the model; a layout of ours has passed the checker.

    A plan of ours is used only where the arena needs no more with it than without, or where sharing is asked for.
    Raises InvalidModelError for an unsafe plan in the file, UnsupportedModelError for control flow that never ends.
    """
    prepared = None if platform is None else prepare(model, platform, custom=custom)
    times = timeline(model) if prepared is None else prepared.times
    case = _Case(model, platform, custom, options or PlanOptions(), times, prepared)
    honoured = wanted != "anew" or keeps_own_plan(model)
    in_file = fixed_offsets(model, times) if honoured else {}
    return _as_in_file(case, in_file) if in_file or wanted == "as in file" else _made(case)


def as_written(
    plan: MemoryPlan, model: Model, platform: Platform, *, custom: Mapping[str, OperatorEntry] | None = None
) -> MemoryPlan:
    """The plan with the operator indices of the model that holds it, numbered in the plan's order."""
    filed = plan_memory(model, platform, custom=custom, wanted="as in file")
    return replace(plan, order=filed.order, timeline=filed.timeline, problem=filed.problem, account=filed.account)


def _as_in_file(case: _Case, in_file: Offsets) -> MemoryPlan:
    planner: Planner = "file" if in_file else "runtime"
    account = stock = None
    if case.prepared is None:
        problem = layout_problem(case.model, case.times, fixed=in_file)
        layout = tflm_layout(problem, in_file)
    else:
        stock = account_plan(case.prepared)
        account = account_plan(case.prepared, in_file) if in_file else stock
        problem, layout = account.problem, account.layout
    judged = judged_layout(case.model, problem, layout)
    return MemoryPlan(case.order, case.times, problem, judged, planner, in_file or None, account, stock)


def _made(case: _Case) -> MemoryPlan:
    """The best plan of those that the orders to try give; TFLM's own planner where none does as well."""
    stock = None
    if case.prepared is not None and not case.options.constants_in_ram:
        stock = account_plan(case.prepared)
    own = case.order
    effort = case.options.effort
    first = replace(effort, node_limit=min(FIRST_NODES, effort.node_limit or FIRST_NODES))
    best: MemoryPlan | None = None
    for result in orders_to_try(_order_search(case)):
        order = tuple(own[position] for position in result.order)
        if best is not None and _head_decides(best) and result.peak_bytes > best.layout.height and order != own:
            continue
        plan = _attempt(case, order, first)
        if result.lower_bound:
            met = plan.live_bytes == result.lower_bound
            proof: Proof = "none" if not met else result.proof if result.proof != "none" else "bound met"
            plan = replace(plan, live_lower_bound=result.lower_bound, order_proof=proof)
        if best is None or _cost(plan) < _cost(best):
            best = plan
        if _least(best):
            break
    assert best is not None
    if (best.layout if best.shared is None else best.shared).proof == "none":
        again = replace(
            _attempt(case, best.order, effort), live_lower_bound=best.live_lower_bound, order_proof=best.order_proof
        )
        best = min(again, best, key=lambda plan: (_cost(plan), -plan.layout.lower_bound))
    if stock is not None and best.account is not None and best.shared is None:
        worse = (best.account.bytes, best.account.used_bytes) > (stock.bytes, stock.used_bytes)
        if worse or not best.offsets:
            return MemoryPlan(case.order, case.times, stock.problem, stock.layout, "runtime", None, stock, stock)
    return replace(best, stock=stock)


def _least(plan: MemoryPlan) -> bool:
    """Whether no order and no layout need less; where the head does not set the arena, that is not known."""
    return plan.layout.height == plan.live_lower_bound and _head_decides(plan)


def _head_decides(plan: MemoryPlan) -> bool:
    """Whether a higher head makes the arena larger: else an order with more alive may need less of it."""
    return plan.account is None or plan.account.peak.when == "Invoke"


def _cost(plan: MemoryPlan) -> tuple[int, int, int, int]:
    """What is to be least: the arena, then the bytes alive, then what AllocateTensors uses, then what was moved."""
    size, used = plan.layout.height, 0
    if plan.account is not None:
        size, used = plan.account.bytes, plan.account.used_bytes
    return size, plan.live_bytes, used, plan.moved


def _order_search(case: _Case) -> OrderSearch:
    problem = _head(case, case.model, case.times, case.prepared)
    options = case.options
    return OrderSearch(case.model, problem, case.times, options.order, options.order_effort or options.effort)


def _head(case: _Case, model: Model, times: Timeline, prepared: Prepared | None) -> LayoutProblem:
    """The buffers to place: tensors, scratch where the build is known, and constants where they are wanted."""
    problem = layout_problem(model, times) if prepared is None else head_problem(prepared)
    constants = constant_buffers(model, times) if case.options.constants_in_ram else ()
    return LayoutProblem((*problem.buffers, *constants))


def _attempt(case: _Case, order: tuple[int, ...], effort: Effort) -> MemoryPlan:
    """The plan of ours for an order, judged by the checker."""
    options = replace(case.options, effort=effort)
    model, times, prepared = case.model, case.times, case.prepared
    if order != case.order:
        model = in_order(model, order)
        prepared = None if case.platform is None else prepare(model, case.platform, custom=case.custom)
        times = timeline(model) if prepared is None else prepared.times
    problem = _head(case, model, times, prepared)
    if options.constants_in_ram:
        layout = require_valid(problem, solve(problem, effort, strategy=options.strategy))
        return MemoryPlan(order, times, problem, layout, "edgetool", None, constants_in_ram=True)
    shared = None
    if options.sharing is None:
        offsets, layout = place(model, problem, options)
    else:
        shared, offsets, layout = place_shared(model, problem, options)
    require_valid(problem, layout)
    account = None if prepared is None else account_plan(prepared, offsets)
    return MemoryPlan(order, times, problem, layout, "edgetool", offsets, account, shared=shared)
