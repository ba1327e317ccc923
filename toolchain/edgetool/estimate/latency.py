"""Cycles and time of an inference: executed instructions times cycles per instruction, plus the wait for constants.

An operator's executed instructions are the iterations of its kernel's loops (operators/registry.py) times the counted
instructions per iteration (targets/cores/instructions). The band of a time is that of the timing, widened for each
operator by anything that the measurements behind the timing do not cover.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from edgetool.estimate.memory_speed import MemorySpeeds, Stall, Traffic, speeds_of
from edgetool.estimate.types import Basis, Bound, Estimate, OperatorEstimate, Validation
from edgetool.figure import Figure
from edgetool.model.loops import subgraph_runs
from edgetool.model.types import DType, Model
from edgetool.operators import esp_nn
from edgetool.operators.call import Call, KernelRefusal
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import OperatorCost, constant_reads, input_reads, loop_counts_of, operator_costs
from edgetool.target.platform import platform_of
from edgetool.target.tables import Placement, load_instructions, load_placement_effects
from edgetool.target.types import Kernels, Precision, Target, Timing

# Instructions of one iteration, by operator and path, then by loop.
InstructionTable = Mapping[tuple[str, str], Mapping[str, float]]

CALL = "call"  # a pseudo-loop that every path runs exactly once


@dataclass(frozen=True, slots=True)
class ExecutedInstructions:
    """The instructions of one run of an operator, None if there is no rule or no counted path.

    gives_up: its kernel does not write the output.
    """

    instructions: int | None = None
    gives_up: bool = False


def executed_instructions(call: Call, table: InstructionTable) -> ExecutedInstructions:
    """Return the instructions of one run of the operator; unknown if its kernel rejects it, which findings report."""
    try:
        work = loop_counts_of(call)
    except KernelRefusal:
        return ExecutedInstructions()
    if work is None:
        return ExecutedInstructions()
    per_iteration = table.get((call.operator.label, work.path))
    if per_iteration is None:
        return ExecutedInstructions(None, work.gives_up)
    in_loops = sum(per_iteration.get(loop, 0.0) * iterations for loop, iterations in work.loops.items())
    total = per_iteration.get(CALL, 0.0) + in_loops
    return ExecutedInstructions(round(total), work.gives_up)


# An operator for which only the bytes are known takes at least the time of moving them; published kernels without
# multiply-accumulates take up to about a hundred times that (a table of exponentials, a division per element).
BYTES_BAND = (1.0, 100.0)
# Operators of a type without measurements on the core. On the Cortex-M4, which has some, float32 takes 0.8 to 1.5 times
# the time that int8 models predict, including the longer latency of its unit, and int16 0.95 to 1.4 times.
TYPE_BAND = (0.6, 2.0)
# The shares of the time above which such operators, or repeated reads of constants over a serial bus, affect the
# status.
NOTABLE_SHARE, DOMINANT_SHARE = 0.1, 0.5


# The range of the waits for an external memory that published times imply, as factors of those that follow from its
# timing: eight models of ST's zoo in the SDRAM of the STM32H747 (benchmarks/latency/memories.py).
EXTERNAL_STALL_BAND = (0.6, 3.0)


# Published times of ESP-NN are of one network (its convolutions and pooling), and operators differ.
ESP_NN_BAND = (0.4, 2.5)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Factors by which an operator's time is multiplied in addition to the timing's band, for its own uncertainty."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class StallShares:
    """The shares of an operator's cycles in waits whose cost was not measured on the board.

    reread: for repeated reads of constants. external: for other accesses to external memories.
    """

    reread: float
    external: float


def uncertainty_of(
    precision: Precision,
    modelled: bool,
    target: Target,
    shares: StallShares,
    placement: float | None,
) -> Uncertainty:
    """Return the uncertainty of one operator.

    modelled: its instructions are known. placement: the measured cost of a memory whose wait is not counted.
    """
    if not modelled:
        return Uncertainty(*BYTES_BAND)
    low, high = target.core.float_band if precision == "float32" else (1.0, 1.0)
    if not _measured(precision, target.timing):
        low, high = TYPE_BAND
    least, most = EXTERNAL_STALL_BAND
    low *= 1 - shares.reread - (1 - least) * shares.external
    high *= 1 + (most - 1) * shares.external
    return Uncertainty(low, high * (placement or 1.0))


def stall_shares(stall: Stall, cycles: float, target: Target) -> StallShares:
    """Return the shares of waits in the cycles of an operator; a timing measured on the board includes others."""
    if not cycles:
        return StallShares(0.0, 0.0)
    flash, timing = target.flash_region, target.timing
    is_external = flash is not None and flash.kind == "external-flash"
    constants = stall.constants if is_external and not (timing is not None and timing.includes_flash) else 0.0
    external = 0.0 if target.is_calibrated else stall.arena + constants
    return StallShares(stall.rereads / cycles, external / cycles)


def _measured(precision: Precision, timing: Timing | None) -> bool:
    return timing is None or not timing.types or precision in timing.types


def uncounted_placement(target: Target, speeds: MemorySpeeds) -> float | None:
    """Return the largest published factor of a memory that the target uses and whose wait its profile does not state.

    A timing that was measured on the board includes that wait.
    """
    if target.is_calibrated:
        return None
    arena, model = target.arena_region, target.flash_region
    placements: list[Placement] = []
    if arena is not None and arena.kind == "external-ram" and not speeds.arena_stall:
        placements.append("arena-in-external-ram")
    includes_flash = target.timing is not None and target.timing.includes_flash
    if model is not None and model.kind == "external-flash" and not speeds.constant_stall and not includes_flash:
        placements.append("constants-in-external-flash")
    return max((_published(placement) for placement in placements), default=None)


@cache
def _published(placement: Placement) -> float:
    return max((effect.factor for effect in load_placement_effects() if effect.placement == placement), default=1.0)


def validation_of(
    target: Target,
    operators: Sequence[OperatorEstimate],
    reread_cycles: Sequence[float],
    placement: float | None,
) -> tuple[Validation, str]:
    """Return the status of the whole estimate and its basis: those of the timing, unless the model differs from its
    basis.
    """
    timing = target.timing
    if timing is None:
        if target.bandwidth_gbps is None:
            return "none", f"the speed of {target.name} is unknown"
        return "bandwidth only", f"{target.name} is described only by its memory bandwidth"
    status: Validation = timing.status
    reasons = [timing.basis]
    total = sum(item.cycles for item in operators) or 1
    others = [item for item in operators if not _measured(item.precision, timing)]
    share = sum(item.cycles for item in others) / total
    if share > NOTABLE_SHARE:
        names = " and ".join(sorted({item.precision for item in others}))
        reasons.append(f"no {names} model was measured")
        status = "unvalidated" if share > DOMINANT_SHARE else _at_most_extrapolated(status)
    factor = target.esp_nn_factor
    if factor is not None:
        reasons.append(f"ESP-NN's kernels take {factor.factor:g} times the time of these ({factor.basis})")
        status = "unvalidated"
    if sum(reread_cycles) / total > NOTABLE_SHARE:
        reasons.append("repeated reads of constants over the serial bus were not measured separately")
        status = _at_most_extrapolated(status)
    if placement is not None:
        reasons.append("the time does not include waiting for off-chip memory")
        status = "unvalidated"
    return status, "; ".join(reasons)


def _at_most_extrapolated(status: Validation) -> Validation:
    return "extrapolated" if status == "calibrated" else status


@dataclass(frozen=True, slots=True)
class CountedOperator:
    """The counts of one operator for a build of TFLM and an instruction table, for any board with these.

    constant_reads, input_reads: how many times it reads its constants and its inputs in a run; runs: how many times it
    runs in an inference. in_esp_nn: whether ESP-NN's kernel runs it. activation_stall_cycles: how long the core waits
    for its activations; by default, it is that of the arena's memory.
    """

    cost: OperatorCost
    executed: ExecutedInstructions
    is_float: bool
    constant_reads: int
    runs: int
    in_esp_nn: bool = False
    activation_stall_cycles: float | None = None
    input_reads: int = 1


def instruction_table(target: Target) -> tuple[str, Kernels] | None:
    """Return the core and the kernels whose instruction table holds for the target; None if it has no timing."""
    core = target.core.instructions
    # ESP-NN's own instructions were not counted: its time is a share of that of the reference kernels.
    kernels = "reference" if target.kernels == "esp-nn" else target.kernels
    return None if target.timing is None or core is None else (core, kernels)


def count_operators(
    model: Model, target: Target, costs: Iterable[OperatorCost], custom: Mapping[str, OperatorEntry] | None = None
) -> tuple[CountedOperator, ...]:
    """Count every operator's instructions: the part of an estimate that targets with the same build and table share.

    costs: the costs of all operators of the model. custom: entries of operators that the user describes, by custom
    code. Raises TargetError for an invalid table.
    """
    named = instruction_table(target)
    table = None if named is None else load_instructions(*named)
    platform = platform_of(target)
    runs = subgraph_runs(model)
    # Operators of a planned model keep the indices that they had before.
    operators = [{operator.index: operator for operator in graph.operators} for graph in model.subgraphs]
    counted = []
    for cost in costs:
        graph = model.subgraphs[cost.subgraph]
        call = Call(model, graph, operators[cost.subgraph][cost.index], platform, {})
        described = call.operator.label in (custom or {})  # the user's kernel, not TFLM's
        executed = ExecutedInstructions() if table is None or described else executed_instructions(call, table)
        times = runs[cost.subgraph]
        counted.append(
            CountedOperator(
                cost,
                executed,
                _is_float(call),
                constant_reads(call),
                1 if times is None else times,
                in_esp_nn=not described and esp_nn.build_of(call) is not None,
                input_reads=input_reads(call),
            )
        )
    return tuple(counted)


def estimate_model(
    model: Model,
    target: Target,
    custom: Mapping[str, OperatorEntry] | None = None,
    *,
    counted: Sequence[CountedOperator] | None = None,
) -> Estimate:
    """Estimate cycles and time of one inference; a loop with an unknown number of iterations counts once.

    custom: entries of operators that the user describes, by custom code. counted: the result of count_operators for a
    target with the same build and table. Raises TargetError for an invalid table.
    """
    timing, speeds = target.timing, speeds_of(target)
    placement = uncounted_placement(target, speeds)
    counted_operators = (
        count_operators(model, target, operator_costs(model, custom), custom) if counted is None else counted
    )
    timed = [_operator(item, target, speeds, placement) for item in counted_operators]
    operators = tuple(item for item, _, _ in timed)
    cycles = sum(item.cycles for item in operators)
    parameter_bytes = sum(item.parameter_bytes for item in operators)
    activation_bytes = sum(item.activation_bytes for item in operators)
    waiting = sum(item.stall_cycles for item in operators)
    validation, basis = validation_of(target, operators, [reread for _, _, reread in timed], placement)
    latency = None
    if timing is not None:
        latency = _latency(operators, [uncertainty for _, uncertainty, _ in timed], timing, speeds, basis)
    return Estimate(
        latency_ms=latency,
        cycles=None if timing is None else cycles,
        instructions=sum(item.instructions or 0 for item in operators),
        macs=sum(item.macs for item in operators),
        parameter_bytes=parameter_bytes,
        activation_bytes=activation_bytes,
        configured_bandwidth_gbps=speeds.gbps(parameter_bytes, activation_bytes),
        bound=_bound(cycles, max(speeds.cycles(parameter_bytes, activation_bytes), waiting)),
        validation=validation,
        basis=basis,
        operators=operators,
        not_modelled=tuple(item.operator for item in operators if item.basis == "bytes"),
    )


def _is_float(call: Call) -> bool:
    output = call.output()
    return output is not None and output.dtype is DType.FLOAT32


def _operator(
    counted: CountedOperator, target: Target, speeds: MemorySpeeds, placement: float | None
) -> tuple[OperatorEstimate, Uncertainty, float]:
    """Return the estimate, its uncertainty, and the cycles that repeated reads of constants take in all runs."""
    cost, runs, instructions, timing = counted.cost, counted.runs, counted.executed.instructions, target.timing
    transfer = speeds.cycles(cost.parameter_bytes, cost.activation_bytes)
    traffic = Traffic(
        cost.parameter_bytes,
        cost.activation_bytes - cost.output_bytes,
        cost.output_bytes,
        counted.constant_reads,
        counted.input_reads,
    )
    waits = speeds.stall(traffic)
    if counted.activation_stall_cycles is not None:
        waits = replace(waits, arena=counted.activation_stall_cycles)
    stall = waits.cycles
    modelled = timing is not None and instructions is not None
    factor = target.esp_nn_factor if counted.in_esp_nn else None
    cycles, low, high = transfer, 1.0, 1.0
    if timing is not None and instructions is not None:
        weight = target.core.float_factor if counted.is_float else 1.0
        if factor is not None:
            weight *= factor.factor
        cycles = instructions * timing.cpi * weight + stall
        low, high = timing.operator_low, timing.operator_high
    reread_cycles = waits.rereads if modelled else 0.0
    uncertainty = uncertainty_of(cost.precision, modelled, target, stall_shares(waits, cycles, target), placement)
    if modelled and factor is not None:
        uncertainty = Uncertainty(
            uncertainty.low * ESP_NN_BAND[0] * factor.low / factor.factor,
            uncertainty.high * ESP_NN_BAND[1] * factor.high / factor.factor,
        )
    total = round(cycles * runs)
    ms, cold_ms = total / speeds.clock_hz * 1e3, speeds.cold_cycles * runs / speeds.clock_hz * 1e3
    basis: Basis = "instructions" if modelled else "bytes"
    item = OperatorEstimate(
        index=cost.index,
        subgraph=cost.subgraph,
        operator=cost.operator,
        precision=cost.precision,
        macs=cost.macs * runs,
        parameter_bytes=cost.parameter_bytes * runs,
        activation_bytes=cost.activation_bytes * runs,
        footprint_bytes=cost.memory_bytes,
        runs=runs,
        instructions=None if instructions is None else instructions * runs,
        cycles=total,
        stall_cycles=round(stall * runs) if modelled else 0,
        ms=Figure(ms, low * uncertainty.low * ms, high * uncertainty.high * ms + cold_ms, "ms", basis),
        bound=_bound(cycles, max(transfer, stall)),
        basis=basis,
        gives_up=counted.executed.gives_up,
    )
    return item, uncertainty, reread_cycles * runs


def _latency(
    operators: Sequence[OperatorEstimate],
    uncertainties: Sequence[Uncertainty],
    timing: Timing,
    speeds: MemorySpeeds,
    basis: str,
) -> Figure:
    """Return the sum; its band is that of the timing, widened by the operators' uncertainties and by cold code."""
    value = low = high = 0.0
    for item, uncertainty in zip(operators, uncertainties, strict=True):
        ms = item.cycles / speeds.clock_hz * 1e3
        modelled = item.basis == "instructions"
        value += ms
        low += ms * uncertainty.low * (timing.low if modelled else 1.0)
        high += ms * uncertainty.high * (timing.high if modelled else 1.0)
        high += speeds.cold_cycles * item.runs / speeds.clock_hz * 1e3
    return Figure(value, low, high, "ms", basis)


def _bound(cycles: float, transfer: float) -> Bound:
    """Return "memory" if moving the bytes alone takes more than half of the time."""
    return "memory" if 2 * transfer > cycles else "compute"
