"""Cycles and time of an inference: executed instructions times cycles per instruction, and the wait for constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgetool.estimate.instructions import Executed, InstructionTable, executed_of
from edgetool.estimate.memory_speed import Speeds, speeds_of
from edgetool.estimate.types import Basis, Bound, Estimate, OperatorEstimate, Validation
from edgetool.figure import Figure
from edgetool.model.loops import subgraph_runs
from edgetool.model.types import DType, Model
from edgetool.operators.cost import OperatorCost, operator_costs
from edgetool.operators.kernel import Call
from edgetool.operators.types import OperatorEntry
from edgetool.operators.work.passes import constant_passes
from edgetool.target.instructions import load_instructions
from edgetool.target.platform import platform_of
from edgetool.target.types import Target, Timing

# An operator of which only the bytes are known takes at least the time of moving them; published kernels without
# multiply-accumulates take up to some hundred times that (a table of exponentials, a division per element).
BYTES_BAND = (1.0, 100.0)
# Why no time is told, by whether the memory bandwidth is known.
NO_TIME = {True: "{} is described by its memory bandwidth alone", False: "nothing is known of the speed of {}"}


def estimate_model(model: Model, target: Target, custom: Mapping[str, OperatorEntry] | None = None) -> Estimate:
    """Cycles and time of one inference; a loop whose number of turns is not known turns once.

    custom: entries of operators that the user describes, by custom code. Raises TargetError for a broken table.
    """
    timing, speeds = target.timing, speeds_of(target)
    table = None if timing is None or target.core.instructions is None else _table(target)
    platform = platform_of(target)
    runs = subgraph_runs(model)
    operators = []
    for cost in operator_costs(model, custom):
        graph = model.subgraphs[cost.subgraph]
        call = Call(model, graph, graph.operators[cost.index], platform, {})
        described = call.operator.label in (custom or {})  # the user's own kernel: what TFLM's executes says nothing
        executed = Executed() if table is None or described else executed_of(call, table)
        times = runs[cost.subgraph]
        stall = speeds.stall_cycles(cost.parameter_bytes, cost.activation_bytes, constant_passes(call))
        weight = target.core.float_factor if _is_float(call) else 1.0
        once = 1 if times is None else times
        operators.append(_operator(cost, executed, timing, speeds, weight=weight, stall=stall, runs=once))
    cycles = sum(item.cycles for item in operators)
    parameter_bytes = sum(item.parameter_bytes for item in operators)
    activation_bytes = sum(item.activation_bytes for item in operators)
    waiting = sum(item.stall_cycles for item in operators)
    return Estimate(
        latency_ms=None if timing is None else _latency(operators, timing, speeds),
        cycles=None if timing is None else cycles,
        instructions=sum(item.instructions or 0 for item in operators),
        macs=sum(item.macs for item in operators),
        parameter_bytes=parameter_bytes,
        activation_bytes=activation_bytes,
        configured_bandwidth_gbps=speeds.gbps(parameter_bytes, activation_bytes),
        bound=_bound(cycles, max(speeds.cycles(parameter_bytes, activation_bytes), waiting)),
        validation=_validation(target),
        basis=timing.basis if timing is not None else NO_TIME[target.bandwidth_gbps is not None].format(target.name),
        operators=tuple(operators),
        not_modelled=tuple(item.operator for item in operators if item.basis == "bytes"),
    )


def _validation(target: Target) -> Validation:
    if target.timing is not None:
        return target.timing.status
    return "none" if target.bandwidth_gbps is None else "bandwidth only"


def _table(target: Target) -> InstructionTable:
    return load_instructions(target.core.instructions or target.core.name, target.kernels)


def _is_float(call: Call) -> bool:
    output = call.output()
    return output is not None and output.dtype is DType.FLOAT32


def _operator(
    cost: OperatorCost,
    executed: Executed,
    timing: Timing | None,
    speeds: Speeds,
    *,
    weight: float,
    stall: float,
    runs: int,
) -> OperatorEstimate:
    """weight: the cycles that its instructions take, relative to the timing's. stall: the cycles it waits in a run."""
    instructions = executed.instructions
    transfer = speeds.cycles(cost.parameter_bytes, cost.activation_bytes)
    basis: Basis = "bytes" if timing is None or instructions is None else "instructions"
    if timing is None or instructions is None:
        cycles, (low, high) = transfer, BYTES_BAND
    else:
        cycles = instructions * timing.cpi * weight + stall
        low, high = timing.operator_low, timing.operator_high
    total = round(cycles * runs)
    ms, cold_ms = total / speeds.clock_hz * 1e3, speeds.left_cold * runs / speeds.clock_hz * 1e3
    return OperatorEstimate(
        index=cost.index,
        subgraph=cost.subgraph,
        operator=cost.operator,
        macs=cost.macs * runs,
        parameter_bytes=cost.parameter_bytes * runs,
        activation_bytes=cost.activation_bytes * runs,
        footprint_bytes=cost.memory_bytes,
        runs=runs,
        instructions=None if instructions is None else instructions * runs,
        cycles=total,
        stall_cycles=round(stall * runs) if basis == "instructions" else 0,
        ms=Figure(ms, low * ms, high * ms + cold_ms, "ms", basis),
        bound=_bound(cycles, max(transfer, stall)),
        basis=basis,
        gives_up=executed.gives_up,
    )


def _latency(operators: Sequence[OperatorEstimate], timing: Timing, speeds: Speeds) -> Figure:
    """The sum; its band is the timing's, wider by cold code and by operators of which only the bytes are known."""
    value = low = high = 0.0
    for item in operators:
        ms = item.cycles / speeds.clock_hz * 1e3
        modelled = item.basis == "instructions"
        value += ms
        low += ms * (timing.low if modelled else BYTES_BAND[0])
        high += ms * (timing.high if modelled else BYTES_BAND[1])
        high += speeds.left_cold * item.runs / speeds.clock_hz * 1e3
    return Figure(value, low, high, "ms", timing.basis)


def _bound(cycles: float, transfer: float) -> Bound:
    """Memory where moving the bytes alone takes more than half of the time."""
    return "memory" if 2 * transfer > cycles else "compute"
