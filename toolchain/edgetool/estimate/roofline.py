"""A plain roofline: each operator takes the longer of its arithmetic and its memory traffic."""

from __future__ import annotations

from collections.abc import Mapping

from edgetool.estimate.types import Bound, Estimate, OperatorEstimate
from edgetool.figure import Figure
from edgetool.model.types import Model
from edgetool.operators.cost import OperatorCost, operator_costs
from edgetool.operators.types import OperatorEntry
from edgetool.target.types import Target

VALIDATION = "unvalidated"

# A roofline knows neither kernels nor caches. Published MLPerf Tiny results of TFLM and microTVM with CMSIS-NN on
# Cortex-M4, M33 and M85 took 1.7 to 4.5 times as long; reference kernels execute 3 to 23 times the instructions of
# CMSIS-NN. Factors of the band, by kernel set.
BANDS: dict[str, tuple[float, float]] = {"cmsis-nn": (0.8, 5.0), "reference": (0.8, 120.0)}


def estimate_model(model: Model, target: Target, custom: Mapping[str, OperatorEntry] | None = None) -> Estimate:
    """Cycles and time of one inference, each operator of every subgraph run once.

    An operator costs max(macs / macs_per_cycle, bytes / bytes_per_cycle); both rates are the core's. custom: entries
    of operators that the user describes, by custom code.
    """
    core = target.core
    operators = tuple(_estimate_operator(cost, target) for cost in operator_costs(model, custom))
    cycles = sum(item.cycles for item in operators)
    compute_cycles = sum(item.cycles for item in operators if item.bound == "compute")
    parameter_bytes = sum(item.parameter_bytes for item in operators)
    activation_bytes = sum(item.activation_bytes for item in operators)
    return Estimate(
        latency_ms=_time(cycles, target),
        cycles=cycles,
        macs=sum(item.macs for item in operators),
        parameter_bytes=parameter_bytes,
        activation_bytes=activation_bytes,
        bytes_moved=parameter_bytes + activation_bytes,
        configured_bandwidth_gbps=core.bytes_per_cycle * target.clock_hz / 1e9,
        bound="compute" if 2 * compute_cycles >= cycles else "memory",
        validation=VALIDATION,
        operators=operators,
    )


def _estimate_operator(cost: OperatorCost, target: Target) -> OperatorEstimate:
    core = target.core
    compute = cost.macs / core.macs_per_cycle(cost.precision)
    memory = cost.memory_bytes / core.bytes_per_cycle
    bound: Bound = "compute" if compute >= memory else "memory"
    cycles = round(max(compute, memory))
    return OperatorEstimate(
        index=cost.index,
        subgraph=cost.subgraph,
        operator=cost.operator,
        macs=cost.macs,
        parameter_bytes=cost.parameter_bytes,
        activation_bytes=cost.activation_bytes,
        memory_bytes=cost.memory_bytes,
        cycles=cycles,
        ms=_time(cycles, target),
        bound=bound,
    )


def _time(cycles: int, target: Target) -> Figure:
    value = cycles / target.clock_hz * 1e3
    low, high = BANDS[target.kernels]
    return Figure(value, low * value, high * value, "ms", f"{VALIDATION} roofline of {target.core.name}")
