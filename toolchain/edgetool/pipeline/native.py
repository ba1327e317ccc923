"""Models as generated C: choices of kernels and of rows, their memory, and what an inference on a target takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetool.codegen.native.code_size import rows_code, tensors_code
from edgetool.codegen.native.files import constant_bytes
from edgetool.codegen.native.loops.registry import code_of, program_loops
from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.plan import ALIGNMENT, NativeMemory, in_program_order, native_problem, place_buffers
from edgetool.codegen.native.row_plan import NativeRows, rows_memory
from edgetool.codegen.native.row_tables import row_tables
from edgetool.codegen.native.rows import takeable_outputs
from edgetool.codegen.native.scratch import kernel_choices
from edgetool.codegen.native.stack import stack_bounds
from edgetool.errors import EdgetoolError, FailedCheckError, UnsupportedModelError, UsageError
from edgetool.estimate.flash import CodeSize
from edgetool.estimate.latency import CountedOperator
from edgetool.estimate.native import StepWork, count_native_operators, estimate_native, is_estimated
from edgetool.figure import Figure, in_text
from edgetool.finding import Finding
from edgetool.memory.account import ArenaAccount, Peak
from edgetool.memory.bound import lower_bound
from edgetool.memory.checker import require_valid
from edgetool.memory.lifetimes import layout_problem, timeline
from edgetool.memory.planner import FIRST_NODES, OrderSearch, Plan, PlanRequest, orders_to_try
from edgetool.memory.problem import Effort, LayoutProblem, Lifetime, Proof
from edgetool.memory.several import NoChoice
from edgetool.model.edit import without_metadata
from edgetool.model.metadata import METADATA_NAME
from edgetool.model.types import Model
from edgetool.model.views import views_of
from edgetool.operators.legality import unsupported_operators
from edgetool.pipeline.analysis import Analysis, analyse
from edgetool.pipeline.native_places import (
    UNKNOWN_COST,
    PlacedArena,
    load_savings,
    no_room,
    place_arena,
    require_tensors,
)
from edgetool.pipeline.native_row_places import place_rows_of
from edgetool.pipeline.native_rows import (
    KnownRows,
    known_sum,
    model_macs,
    program_costs,
    row_choices,
    rows_info,
    shrinking_budgets,
)
from edgetool.pipeline.output import check_writable, write_file
from edgetool.pipeline.planning import Deadline, search_findings
from edgetool.pipeline.reporting import Described, report
from edgetool.pipeline.source import Source, open_tflite
from edgetool.pipeline.targets import NATIVE
from edgetool.report.document import FlashInfo, KernelChoiceInfo, LinkedRuntime, PlacedInfo, Report, StackInfo
from edgetool.report.rows_picture import rows_svg
from edgetool.target.load import MAX_EXTRA_MACS, load_runtime, load_target, with_memories
from edgetool.target.native_places import NativePlaces, read_native_places
from edgetool.target.places import AUTO
from edgetool.target.places import OPTION as PLACE
from edgetool.target.types import Target

ALTERNATIVE_SECONDS = 2.0  # for the search for a plan that is only an alternative
MAX_SLOWDOWN = 0.04  # the share of the instructions that less memory may cost, unless the user sets a budget
TYPICAL_CORE = "cortex-m4"  # decides between kernels for cores without counts

_Extensions = tuple[bool, ...]
# The core, whether instructions are counted for it, whether rows of inputs and outputs are handed over, what may be
# computed again, the most weights per row, and the new rows of each inference.
_Counts = tuple[str, bool, bool, bool, float | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class NativePlan:
    """A model as steps in the best operator order, with the offsets of its buffers.

    plan: the same for reports: positions are those of operators, and the arena is exact. rows: where each row is and
    when it is computed, if rows are planned instead of tensors; `memory` then describes the step that needs the most.
    placed: the memories of its buffers, if the arena is in several.
    """

    program: NativeProgram
    memory: NativeMemory
    plan: Plan
    rows: NativeRows | None = None
    placed: PlacedArena | None = None


def require_native(model: Model, name: str, target: Target | None = None) -> NativeProgram:
    """Return the steps of a model that TFLM's reference kernels accept, with the kernels for the target's core, if any.

    Raises:
        UnsupportedModelError: TFLM rejects an operator, or the native runtime lacks it.
    """
    if views_of(model):
        raise UnsupportedModelError(
            "the model is in stripes, which only TFLM follows; native code needs less memory without them",
            where=name,
            fix="use the model from which the stripes were made",
        )
    reference = load_runtime(load_runtime(NATIVE).reference)
    for item in unsupported_operators(model, reference, kernels="reference"):
        raise UnsupportedModelError(
            f"TFLM, whose outputs native code has, cannot run {item.operator.label}: {item.why}",
            where=f"{name}: operator {item.operator.index}",
            fix="convert the model again",
        )
    for operator in model.main.operators:
        if operator.code in ("IF", "WHILE"):
            raise UnsupportedModelError(
                f"native code has no control flow, which {operator.label} needs",
                where=f"{name}: operator {operator.index}",
                fix="use one of TFLM's runtimes",
            )
    try:
        return lower(model, **_extensions(target))
    except UnsupportedModelError as error:
        raise UnsupportedModelError(error.what, where=f"{name}: {error.where}", fix=error.fix) from error


def _extensions(target: Target | None) -> dict[str, bool]:
    """Return which extensions of the core the kernels may need: without a target, those of most cores."""
    return {} if target is None else {"vector": target.core.mve, "dsp": target.core.dsp}


def plan_program(program: NativeProgram, request: PlanRequest, effort: Effort) -> NativePlan:
    """Return the steps in the order with the smallest arena, among the orders that the request allows."""
    model, strategy = program.model, request.strategy or "optimal"
    times = timeline(model)
    search = OrderSearch(model, layout_problem(model, times), times, request.order or "optimal", effort.for_order)
    # As in memory/planner.py: a first layout of each order that can be better, then the whole effort for the best.
    first = replace(effort, node_limit=min(FIRST_NODES, effort.node_limit or FIRST_NODES))
    best: tuple[NativeProgram, NativeMemory, tuple[int, ...]] | None = None
    tried = 0
    for result in orders_to_try(search):
        order = tuple(model.main.operators[position].index for position in result.order)
        ordered = in_program_order(program, order)
        tried += 1
        if best is not None and lower_bound(native_problem(ordered)) >= best[1].arena_bytes:
            continue
        memory = place_buffers(ordered, first, strategy=strategy)
        if best is None or memory.arena_bytes < best[1].arena_bytes:
            best = ordered, memory, order
        if best[1].layout.optimal and best[1].arena_bytes <= _largest_step(best[0]):
            break
    assert best is not None
    ordered, memory, order = best
    if not memory.layout.optimal:
        again = place_buffers(ordered, effort, strategy=strategy)
        memory = min(again, memory, key=lambda item: (item.arena_bytes, -item.layout.lower_bound))
    require_valid(memory.problem, memory.layout)
    return NativePlan(ordered, memory, _plan(ordered, memory, order, single=tried == 1))


def _largest_step(program: NativeProgram) -> int:
    """Return the bytes of the largest tensor: no order and no layout can take less."""
    return max((buffer.aligned_bytes for buffer in native_problem(program).buffers), default=0)


def _plan(program: NativeProgram, memory: NativeMemory, order: tuple[int, ...], *, single: bool) -> Plan:
    """Return the plan as reports describe it: buffers are live at operators instead of steps."""
    place = {operator: position for position, operator in enumerate(order)}
    positions = [place[step.operator] for step in program.steps]
    last = len(order)

    def at_operator(position: int) -> int:
        return position if position < 0 else last if position >= len(positions) else positions[position]

    buffers = tuple(
        replace(
            buffer,
            lifetime=Lifetime(at_operator(buffer.lifetime.first), at_operator(buffer.lifetime.last)),
            operator=program.steps[buffer.operator].operator if buffer.operator >= 0 else -1,
        )
        for buffer in memory.problem.buffers
    )
    problem = LayoutProblem(buffers, memory.problem.overlaps)
    layout = memory.layout
    peak = Peak("Invoke", memory.arena_bytes, 0, alignment=ALIGNMENT)
    account = ArenaAccount(memory.arena_bytes, 0, peak, (peak,), (), problem, layout)
    proof: Proof = layout.proof if single else "none"
    return Plan(
        order=order,
        timeline=timeline(program.model),
        problem=problem,
        layout=layout,
        planner="edgetool",
        offsets={(0, tensor): offset for tensor, offset in memory.tensors.items()},
        account=account,
        order_proof=proof,
    )


@dataclass(frozen=True, slots=True)
class NativeModel:
    """A .tflite as native code for a target, if any, with its analysis.

    choices: plans with more and more tuned kernels, each of which takes more memory than the one before; one of them is
    `planned`. findings: what was done to make it fit, on request.
    """

    source: Source
    planned: NativePlan
    analysis: Analysis
    choices: tuple[NativePlan, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def places(self) -> tuple[PlacedInfo, ...]:
        """What each memory holds, if the arena is in several."""
        placed = self.planned.placed
        return () if placed is None else placed.parts(constant_bytes(self.planned.program))


def native_model(
    source: Source,
    target: Target | None,
    request: PlanRequest | None = None,
    deadline: Deadline | None = None,
    place: str | None = None,
) -> NativeModel:
    """Lower and plan a model; a memory plan for TFLM in its file does not matter.

    Args:
        source: The model.
        target: The target, if any.
        request: How to plan.
        deadline: The end of the search; by default, its node limit.
        place: The memories of the arena (target/native_places.py); by default, it is in one.

    Raises:
        UnsupportedModelError: The native runtime does not support an operator.
        UsageError: The request has an option that only TFLM's plans have, or is to make it fit unknown memory, or a
            stream; or `place` is not possible.
        TargetError: The target has no memory that `place` names.
        FailedCheckError: It is to make it fit, or to place it, and nothing does.
    """
    request = request or PlanRequest()
    of_tflm = {
        "--sharing": request.sharing is not None,
        "--constants-in-ram": request.constants_in_ram,
        "--keep-inputs": request.keep_inputs,
    }
    for option in (name for name, is_set in of_tflm.items() if is_set):
        raise UsageError(f"{option} does not apply to native code", fix="omit it, or use one of TFLM's runtimes")
    if request.shrink and target is not None and target.incremental is not None:
        raise UsageError(
            "--incremental and --shrink cannot be combined: a stream stores rows so that none is computed again",
            where=target.name,
            fix="omit --incremental or --shrink",
        )
    effort = Effort(seed=request.seed) if deadline is None else deadline.effort(request.seed)
    plain = without_metadata(source.model, METADATA_NAME)
    if place is not None:
        return _placed_model(source, plain, target, request, effort, place)
    if request.shrink:
        target, choices = _shrunk(plain, source.name, target, request, effort)
    else:
        choices = plan_choices(plain, source.name, target, request, effort)
    planned = choose(choices, target, request, effort)
    counted, code = (
        (None, None) if target is None else (counted_operators(planned, target), native_code(planned, target))
    )
    findings = (_shrunk_finding(planned, choices, target),) if request.shrink and target is not None else ()
    return NativeModel(source, planned, _analysis(source, target, planned, counted, code), choices, findings)


def _placed_model(
    source: Source,
    model: Model,
    target: Target | None,
    request: PlanRequest,
    effort: Effort,
    place: str,
    plans: tuple[NativePlan, ...] | None = None,
) -> NativeModel:
    """Return the fastest choice of kernels whose buffers fit in the memories, or that takes the fewest bytes of one.

    plans: the choices for the target, if they are known.
    """
    if target is None:
        raise UsageError(f"{PLACE} names memories of a target", fix="specify one with --target")
    if request.shrink:
        raise UsageError(
            f"--shrink makes the arena fit one memory, and {PLACE} names several", fix=f"omit {PLACE} or --shrink"
        )
    places = read_native_places(place, target)
    plans = _within_budget(plans or plan_choices(model, source.name, target, request, effort), target)
    require_tensors([name for plan in plans for name in _placeable(plan)], places)
    constants = None if places.constants is None else places.constants.name
    on_constants = with_memories(target, model=constants)
    choices, proven = [], True
    for plan in plans:
        placed = _placed_plan(plan, places, on_constants, effort)
        if isinstance(placed, NoChoice):
            proven = proven and placed.proven
        elif placed is not None:
            choices.append(placed)
    if not choices:
        raise no_room(plans[0].memory.arena_bytes, places, source.name, target, proven=proven)

    def rank(planned: NativePlan) -> tuple[float, ...]:
        """Return the bytes to minimize, those that move through memories of unknown speed, and the time."""
        placed = planned.placed
        assert placed is not None
        on_target = placed.on(target)
        counted = counted_operators(planned, on_target)
        cycles = None if counted is None else estimate_native(model, on_target, counted).cycles
        if cycles is None:
            cycles = instructions_of(planned, _counted_target(target))
        height = 0 if placed.lowest is None else placed.lowest.height
        return height, placed.choice.cost // UNKNOWN_COST, cycles or 0, placed.choice.cost

    planned = min(choices, key=rank)
    assert planned.placed is not None
    on_target = planned.placed.on(target)
    counted, code = counted_operators(planned, on_target), native_code(planned, on_target)
    analysis = planned.placed.judged(
        _analysis(source, on_target, planned, counted, code), constant_bytes(planned.program)
    )
    return NativeModel(source, planned, analysis, tuple(choices))


def _within_budget(plans: tuple[NativePlan, ...], target: Target) -> tuple[NativePlan, ...]:
    """Return the plans within the target's scratch budget: all, if it has none."""
    budget = target.scratch_budget_bytes
    return tuple(
        plan for plan in plans if budget is None or plan.memory.arena_bytes <= plans[0].memory.arena_bytes + budget
    )


def _placeable(plan: NativePlan) -> list[str]:
    """Return the names of the tensors that have a memory of their own."""
    if plan.rows is not None:
        return [tensor.name for tensor in plan.rows.problem.tensors]
    return [buffer.name for buffer in plan.memory.problem.buffers if buffer.tensor >= 0]


def _placed_plan(
    plan: NativePlan, places: NativePlaces, target: Target, effort: Effort
) -> NativePlan | NoChoice | None:
    """Return a plan in several memories; None if it has no buffer for one of the tensors that are placed.

    target: the target with its constants where they shall be.
    """
    if not places.tensors.keys() <= {*_placeable(plan)}:
        return None
    if plan.rows is not None:
        moved = place_rows_of(plan.rows, places, effort.stops_rows)
        if isinstance(moved, NoChoice):
            return moved
        rows, placed = moved
        return replace(_planned_rows(rows), placed=placed)
    found = place_arena(plan.program, places, effort, load_savings(plan.program, target))
    if isinstance(found, NoChoice):
        return found
    described = _plan(found.program, found.memory, plan.plan.order, single=False)
    return NativePlan(found.program, found.memory, described, placed=found)


def _shrunk(
    model: Model, name: str, target: Target | None, request: PlanRequest, effort: Effort
) -> tuple[Target, tuple[NativePlan, ...]]:
    """Return the choices of which one fits the target, with the smallest budget of extra multiply-accumulates.

    The target has that budget; its own one is the largest.
    """
    capacity = None if target is None else target.sram_bytes
    if target is None or capacity is None:
        raise UsageError(
            "--shrink makes the arena fit the memory of a target, and none is known",
            fix="specify a board with --target, or a size with --sram",
        )
    plans, known = _tensor_choices(model, name, target, request, effort), KnownRows()
    choices = _with_rows(model, name, plans, replace(target, max_extra_macs=None), request, effort, known)
    if choices[0].memory.arena_bytes <= capacity:
        return replace(target, max_extra_macs=None), choices
    most = float(MAX_EXTRA_MACS) if target.max_extra_macs is None else target.max_extra_macs
    fed = _fed_inputs(plans[-1].program) if target.row_input else ()
    taken = () if choices[0].rows is None else choices[0].rows.taken
    order = choices[0].plan.order
    for percent in shrinking_budgets(model, order, fed, taken, capacity, most, effort.stops_rows):
        tried = replace(target, max_extra_macs=percent)
        choices = _with_rows(model, name, plans, tried, request, effort, known)
        if choices[0].memory.arena_bytes <= capacity:
            return tried, choices
    smallest = choices[0]
    text = (
        f"the smallest arena takes {smallest.memory.arena_bytes:,} bytes{_extra_text(smallest)}, and {capacity:,} exist"
    )
    further = "" if target.row_input else ", or hand the inputs over row by row with --row-input"
    raise FailedCheckError(text, where=f"{name} on {target.name}", fix=f"choose a target with more memory{further}")


def _extra_text(planned: NativePlan) -> str:
    """Return what a plan computes again, as the end of a phrase."""
    if planned.rows is None or not planned.rows.extra_macs:
        return ""
    percent = 100 * planned.rows.extra_macs / model_macs(planned.program.model)
    return f" with {percent:.1f} % extra multiply-accumulates"


def _shrunk_finding(planned: NativePlan, choices: Sequence[NativePlan], target: Target) -> Finding:
    """State how the plan fits, and what it costs beside the fastest choice."""
    form = "tensors" if planned.rows is None else "rows"
    size = f"{planned.memory.arena_bytes:,} of {target.sram_bytes or 0:,} bytes"
    text = f"--shrink plans {form}{_extra_text(planned)}: the arena takes {size}"
    counts = [instructions_of(item, _counted_target(target)) for item in (planned, choices[-1])]
    if counts[0] is not None and counts[1]:
        text += f", and an inference {counts[0] / counts[1]:.2f} times the instructions of the largest plan"
    return Finding("shrunk", text, where=target.name)


def plan_choices(
    model: Model, name: str, target: Target | None, request: PlanRequest, effort: Effort
) -> tuple[NativePlan, ...]:
    """Return plans with more and more tuned kernels, each of which takes more memory than the one before.

    The first plan rows instead of tensors, if that takes less; all do if inputs or outputs are handed over by rows. The
    last has all tuned kernels. Raises UnsupportedModelError as require_native does.
    """
    plans = _tensor_choices(model, name, target, request, effort)
    return _with_rows(model, name, plans, target, request, effort, {})


def _tensor_choices(
    model: Model, name: str, target: Target | None, request: PlanRequest, effort: Effort
) -> tuple[NativePlan, ...]:
    """Return the choices that plan tensors, which depend on the target's extensions alone."""
    tuned = plan_program(require_native(model, name, target), request, effort)
    lean = lower(model, **_extensions(target), lean=True)
    order, proven = tuned.plan.order, tuned.plan.order_proof != "none"
    first = replace(effort, node_limit=min(FIRST_NODES, effort.node_limit or FIRST_NODES))
    plans = [tuned]
    for program in reversed(kernel_choices(tuned.program, in_program_order(lean, order))[:-1]):
        memory = place_buffers(program, first, strategy=request.strategy or "optimal")
        if memory.arena_bytes < plans[0].memory.arena_bytes:
            require_valid(memory.problem, memory.layout)
            plans.insert(0, NativePlan(program, memory, _plan(program, memory, order, single=proven)))
    return tuple(plans)


def _with_rows(
    model: Model,
    name: str,
    plans: tuple[NativePlan, ...],
    target: Target | None,
    request: PlanRequest,
    effort: Effort,
    known: KnownRows,
) -> tuple[NativePlan, ...]:
    """Return the choices that plan rows, and those that plan tensors unless rows are handed over.

    known: the smallest plans of rows so far, to which new ones are added. Raises UnsupportedModelError if the target's
    inferences shall compute only what new rows change, and the model has no rows that stay.
    """
    order = plans[-1].plan.order
    hop = None if target is None else target.incremental
    fed = _fed_inputs(plans[-1].program) if target is not None and (target.row_input or hop is not None) else ()
    taken: tuple[int, ...] = ()
    if target is not None and target.row_output:
        # Where programs for tensors have views, those for rows have copies, which can be taken.
        taken = takeable_outputs(lower(model, **_extensions(target), row_wise=True))
    is_given = request.order in ("original", "breadth-first", "longest-path")
    orders = [order] if is_given else list(dict.fromkeys((_file_order(model), order)))
    try:
        by_rows = row_choices(
            model,
            plans[-1].program,
            orders,
            replace(
                _counted_target(target),
                max_weights_per_row_bytes=None if target is None else target.most_weights_per_row,
            ),
            None if fed or taken else plans[0].memory.arena_bytes,
            _extensions(target),
            fed=fed,
            taken=taken,
            hop=hop,
            max_extra_macs=None if target is None else target.max_extra_macs,
            stopped=effort.stops_rows,
            known=known,
        )
    except UnsupportedModelError as error:
        raise UnsupportedModelError(error.what, where=f"{name}: {error.where}", fix=error.fix) from error
    planned = [_planned_rows(rows) for rows in by_rows]
    return tuple(planned if fed or taken else [*planned, *plans])


def _fed_inputs(program: NativeProgram) -> tuple[int, ...]:
    """Return the inputs that can be handed over by rows: those that are computed with, and not state."""
    tensors, states = program.graph.tensors, {index for step in program.steps for index in step.states}
    return tuple(
        index
        for index in dict.fromkeys(program.graph.inputs)
        if program.places[index].constant is None and not tensors[index].is_variable and index not in states
    )


def _file_order(model: Model) -> tuple[int, ...]:
    return tuple(operator.index for operator in model.main.operators)


def _planned_rows(rows: NativeRows) -> NativePlan:
    """Return a plan of rows with its order of operators, which are those of the file where nothing runs."""
    memory = rows_memory(rows)
    order = tuple(dict.fromkeys([*(step.operator for step in rows.program.steps), *_file_order(rows.program.model)]))
    return NativePlan(rows.program, memory, _plan(rows.program, memory, order, single=True), rows)


def choose(choices: tuple[NativePlan, ...], target: Target | None, request: PlanRequest, effort: Effort) -> NativePlan:
    """Return the choice with the fewest instructions within the target's scratch budget, its layout searched in full.

    Without a budget, it is the one that takes the least memory of those with hardly more than the fewest instructions.
    If the instructions of a choice are unknown, it is the one with the most tuned kernels.
    """
    counts = [instructions_of(choice, _counted_target(target)) for choice in choices]
    return _in_full(choices[_best_choice(choices, counts, target)], request, effort)


def _best_choice(choices: Sequence[NativePlan], counts: Sequence[int | None], target: Target | None) -> int:
    """Return the number of the choice for the target. counts: the instructions of each choice."""
    budget = None if target is None else target.scratch_budget_bytes
    sram = None if target is None else target.sram_bytes
    arenas = [choice.memory.arena_bytes for choice in choices]
    allowed = [i for i, arena in enumerate(arenas) if budget is None or arena <= arenas[0] + budget]
    if sram is not None:
        # What does not fit is no choice, unless nothing does.
        allowed = [i for i in allowed if arenas[i] <= sram] or allowed[:1]
    known = {i: count for i in allowed if (count := counts[i]) is not None}
    if len(known) < len(allowed):
        return allowed[-1]
    most = min(known.values()) * (1 + (MAX_SLOWDOWN if budget is None else 0))
    return next(i for i, count in known.items() if count <= most)


def _in_full(chosen: NativePlan, request: PlanRequest, effort: Effort) -> NativePlan:
    """Return a choice with its layout searched in full."""
    if chosen.memory.layout.optimal or chosen.rows is not None:
        return chosen
    memory = place_buffers(chosen.program, effort, strategy=request.strategy or "optimal")
    if memory.arena_bytes > chosen.memory.arena_bytes:
        return chosen
    proven = chosen.plan.order_proof != "none"
    return NativePlan(chosen.program, memory, _plan(chosen.program, memory, chosen.plan.order, single=proven))


def _counted_target(target: Target | None) -> Target:
    """Return the target, or one that stands for it because the instructions of native code are unknown on it."""
    if target is not None and is_estimated(target):
        return target
    return load_target(TYPICAL_CORE).with_overrides(runtime=NATIVE)


def instructions_of(planned: NativePlan, target: Target) -> int | None:
    """Return the executed instructions of an inference; None if those of an operator are unknown on the target."""
    return known_sum(item.executed.instructions for item in counted_operators(planned, target) or ())


def _analysis(
    source: Source,
    target: Target | None,
    planned: NativePlan,
    counted: tuple[CountedOperator, ...] | None,
    code: CodeSize | None,
) -> Analysis:
    return analyse(
        source,
        target,
        plan=planned.plan,
        with_estimate=False,
        counted=counted,
        flash_bytes=constant_bytes(planned.program),
        code=code,
    )


def _counts_of(target: Target) -> _Counts:
    """Return what the choices on a target depend on."""
    return (
        *(target.core.name, is_estimated(target)),
        *(target.row_input, target.row_output, target.max_extra_macs, target.most_weights_per_row),
        target.incremental,
    )


class SharedNative:
    """Analyse one model as native code on many targets, which share what does not depend on what differs."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._model = without_metadata(source.model, METADATA_NAME)
        self._tensors: dict[_Extensions, tuple[NativePlan, ...]] = {}
        self._rows: KnownRows = {}
        self._choices: dict[_Counts, tuple[tuple[NativePlan, ...], list[int | None]]] = {}
        self._plans: dict[
            tuple[_Counts, int], tuple[NativePlan, tuple[CountedOperator, ...] | None, CodeSize | None]
        ] = {}

    def on(self, target: Target) -> Analysis:
        """Analyse the model on the target, as native_model does; raise the same errors."""
        request, effort = PlanRequest(), Effort()
        kind, (choices, counts) = _counts_of(target), self._all_on(target)
        number = _best_choice(choices, counts, target)
        if (kind, number) not in self._plans:
            planned = _in_full(choices[number], request, effort)
            self._plans[kind, number] = planned, counted_operators(planned, target), native_code(planned, target)
        return _analysis(self._source, target, *self._plans[kind, number])

    def in_places(self, target: Target) -> NativeModel | None:
        """Return the model in the fastest memories of the target; None if it fits in none of them."""
        try:
            return _placed_model(
                self._source, self._model, target, PlanRequest(), Effort(), AUTO, self._all_on(target)[0]
            )
        except FailedCheckError:
            return None

    def _all_on(self, target: Target) -> tuple[tuple[NativePlan, ...], list[int | None]]:
        """Return the choices on the target, and the instructions of each."""
        kind = _counts_of(target)
        if kind not in self._choices:
            choices = self._choices_on(target, PlanRequest(), Effort())
            self._choices[kind] = choices, [instructions_of(choice, _counted_target(target)) for choice in choices]
        return self._choices[kind]

    def _choices_on(self, target: Target, request: PlanRequest, effort: Effort) -> tuple[NativePlan, ...]:
        extensions = tuple(_extensions(target).values())
        if extensions not in self._tensors:
            plans = _tensor_choices(self._model, self._source.name, target, request, effort)
            self._tensors[extensions] = plans
        plans = self._tensors[extensions]
        return _with_rows(self._model, self._source.name, plans, target, request, effort, self._rows)


def counted_operators(planned: NativePlan, target: Target) -> tuple[CountedOperator, ...] | None:
    """Return the executed instructions of each operator; None if they are unknown on the target's core."""
    if not is_estimated(target):
        return None
    loops = program_loops(planned.program, planned.memory, code_of(target.core))
    works = [StepWork(item.operator, item.kernel, item.counts, item.constant_reads) for item in loops]
    counted = count_native_operators(program_costs(planned.program), works, target)
    if planned.placed is None:
        return counted
    waiting = planned.placed.waiting_cycles
    return tuple(
        replace(item, activation_stall_cycles=waiting.get(item.cost.index, 0.0) if item.cost.subgraph == 0 else 0.0)
        for item in counted
    )


def native_code(planned: NativePlan, target: Target) -> CodeSize | None:
    """Return the size of the generated code for the target's core at -O2; None if none was measured for it."""
    if planned.placed is not None:
        return None
    if planned.rows is None:
        codes = tensors_code(planned.program, planned.memory, target.core.name)
    else:
        tables = row_tables("model", planned.program, planned.rows.problem, planned.rows.plan, None)
        codes = rows_code(planned.program, tables, target.core.name)
    if not codes:
        return None
    first, *others = codes
    library = f", with {first.library_bytes:,} B of its libraries" if first.library_bytes else ""
    figure = Figure(
        first.total_bytes,
        first.total_bytes - first.error_bytes,
        first.total_bytes + first.error_bytes,
        "B",
        f"{NATIVE}, {first.core}, {first.compiler} {first.level}{library}",
    )
    return CodeSize(figure, alternatives=tuple((item.level, item.total_bytes) for item in others))


def smaller_findings(source: Source, target: Target) -> tuple[Finding, ...]:
    """Report what the model would need as native code, if that is supported and its arena fits the target."""
    try:
        model = native_model(source, target.with_overrides(runtime=NATIVE), deadline=Deadline(ALTERNATIVE_SECONDS))
    except EdgetoolError:
        return ()
    fit, account, estimate = model.analysis.fit, model.analysis.plan.account, model.analysis.estimate
    if fit is None or fit.arena_fits is False or account is None:
        return ()
    latency = None if estimate is None else estimate.latency_ms
    time = "" if latency is None else f", and an inference takes about {in_text(latency.value)} ms"
    text = (
        f"native code (--runtime native) needs an arena of {account.bytes:,} bytes and {fit.model_bytes:,} bytes of "
        f"constants{time}"
    )
    return (Finding("native-code-smaller", text, where=target.name),)


def plan_native(
    path: Path,
    target: Target | None,
    *,
    request: PlanRequest | None = None,
    deadline: Deadline | None = None,
    picture: Path | None = None,
    force: bool = False,
    described: list[Described] | None = None,
    place: str | None = None,
) -> Report:
    """Plan the memory of a .tflite as native code.

    Args:
        path: The .tflite.
        target: The target, if any.
        request: How to plan.
        deadline: The end of the search; by default, at the time limit of the request.
        picture: An .svg file to write, with the rows over time.
        force: Whether to replace an existing picture.
        described: Where to add the model with its analysis, for drawings.
        place: As for native_model.

    Raises the same errors as native_model, and:
        UsageError: There is no picture of the plan, because it has whole tensors.
        OutputError: The picture cannot be written.
    """
    request = request or PlanRequest()
    if picture is not None:
        check_writable(picture.parent, (picture.name,), force=force, inputs=(path,), option="--rows-svg")
    deadline = deadline or Deadline(request.time_limit)
    model = native_model(open_tflite(path), target, request, deadline, place)
    findings = (*model.findings, *search_findings(model.planned.plan, deadline, "see --time-limit"))
    options: dict[str, object] = {"command": "plan", "runtime": NATIVE, **request.as_options(), "place": place}
    if picture is not None:
        rows = model.planned.rows
        if rows is None:
            raise UsageError(
                "--rows-svg draws a plan of rows, and this plan has whole tensors",
                fix="add --scratch-budget 0 for the smallest plan, --row-input or --row-output",
            )
        svg = rows_svg(rows.problem, rows.plan, rows.cuts, title=model.source.name)
        write_file(picture, svg.encode("utf-8"), force=force, inputs=(path,), option="--rows-svg")
    planned = native_report(model, report(model.source, model.analysis, options=options, findings=findings))
    if described is not None:
        described.append(Described(model.source, model.analysis, planned, model))
    return planned


def native_report(model: NativeModel, planned: Report) -> Report:
    """Return the report with the runtime and what the model takes in flash."""
    runtime = LinkedRuntime(NATIVE, load_runtime(NATIVE).reference, ("it has no interpreter and no op resolver",))
    target = model.analysis.target
    core, row_wise = None if target is None else target.core.name, model.planned.rows is not None
    placed = model.planned.placed
    bounds = stack_bounds(model.planned.program, core, row_wise=row_wise, placed=placed is not None)
    constants = constant_bytes(model.planned.program)
    return replace(
        planned,
        runtime=runtime,
        flash=FlashInfo(constants) if planned.flash is None else replace(planned.flash, model_bytes=constants),
        stack=tuple(StackInfo(item.compiler, item.core, item.level, item.stack_bytes) for item in bounds),
        kernel_choices=_choice_infos(model),
        rows=None if model.planned.rows is None else rows_info(model.planned.rows),
        places=model.places,
        arena_placement=None if placed is None else placed.info,
    )


def _choice_infos(model: NativeModel) -> tuple[KernelChoiceInfo, ...]:
    """Return the choices by their memory, without those that are not faster than a smaller one; none if one is left."""
    target = model.analysis.target
    infos: list[KernelChoiceInfo] = []
    for choice in model.choices:
        is_chosen = choice.program is model.planned.program
        instructions = None if target is None else instructions_of(choice, target)
        fewest = min((info.instructions for info in infos if info.instructions is not None), default=None)
        if is_chosen or fewest is None or instructions is None or instructions < fewest:
            scratch = max((step.scratch_bytes for step in choice.program.steps), default=0)
            rows = choice.rows
            by_rows = rows is not None, rows is not None and bool(rows.fed), rows is not None and bool(rows.taken)
            extra = 0 if rows is None else rows.extra_macs
            infos.append(
                KernelChoiceInfo(
                    choice.memory.arena_bytes, scratch, instructions, is_chosen, *by_rows, extra_macs=extra
                )
            )
    return tuple(infos) if len(infos) > 1 else ()
