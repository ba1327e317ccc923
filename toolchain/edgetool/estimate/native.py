"""Executed instructions of native code: the loops of its steps, times the counted instructions per iteration.

An operator's instructions are those of the steps that it became: 0 if it became a view of another tensor, or if the
steps of another operator compute it. Cycles, waits for memory and bands are those of the board, as for TFLM
(latency.py). Unless the board was calibrated for native code, they were measured with TFLM's kernels, and the status is
at most "extrapolated".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from edgetool.errors import TargetError
from edgetool.estimate.latency import CALL, CountedOperator, ExecutedInstructions, InstructionTable, estimate_model
from edgetool.estimate.types import Estimate
from edgetool.model.types import Model
from edgetool.operators.loops import LoopCounts
from edgetool.operators.registry import OperatorCost
from edgetool.target.tables import load_instructions, native_core
from edgetool.target.types import Target

BASIS = "cycles per instruction are those of TFLM's kernels: native code was not measured on the board"


@dataclass(frozen=True, slots=True)
class StepWork:
    """What a step of native code executes in one inference.

    operator: the index of the operator that it belongs to. kernel: its function. counts: its loop counts, None if they
    are unknown. constant_reads: how many times it reads its constants.
    """

    operator: int
    kernel: str
    counts: LoopCounts | None
    constant_reads: int = 1


def is_estimated(target: Target) -> bool:
    """Return whether the instructions of native code were counted on the target's core, or on one like it."""
    return target.timing is not None and native_core(target.core) is not None


def require_estimated(target: Target) -> None:
    """Raise TargetError if the time of native code cannot be estimated on the target's core."""
    if not is_estimated(target):
        raise TargetError(
            f"the time of native code on {target.core.name} is unknown: its instructions were not counted on this core",
            where=target.name,
            fix="use one of TFLM's runtimes, or a target with a Cortex-M or a 32-bit RISC-V core",
        )


def step_instructions(kernel: str, counts: LoopCounts | None, table: InstructionTable) -> int | None:
    """Return the instructions of a step in one inference; None if its path through the kernel was not counted."""
    per_iteration = None if counts is None else table.get((kernel, counts.path))
    if counts is None or per_iteration is None:
        return None
    in_loops = sum(per_iteration.get(loop, 0.0) * iterations for loop, iterations in counts.loops.items())
    return round(per_iteration.get(CALL, 0.0) + in_loops)


def count_native_operators(
    costs: Iterable[OperatorCost], steps: Sequence[StepWork], target: Target
) -> tuple[CountedOperator, ...]:
    """Count every operator's instructions. Operators without a step execute nothing and move no bytes.

    Args:
        costs: The costs of all operators of the model.
        steps: The steps of its native code.
        target: A target for which is_estimated is true.

    Raises TargetError for an invalid table.
    """
    instructions = native_instructions(steps, target)
    reads: dict[int, int] = {}
    for step in steps:
        reads[step.operator] = max(step.constant_reads, reads.get(step.operator, 1))
    counted = []
    for cost in costs:
        has_steps = cost.subgraph == 0 and cost.index in instructions
        number, constant_reads = (instructions[cost.index], reads[cost.index]) if has_steps else (0, 1)
        cost = cost if has_steps else replace(cost, parameter_bytes=0, activation_bytes=0, output_bytes=0)
        executed = ExecutedInstructions(number)
        counted.append(CountedOperator(cost, executed, is_float=False, constant_reads=constant_reads, runs=1))
    return tuple(counted)


def native_instructions(steps: Iterable[StepWork], target: Target) -> dict[int, int | None]:
    """Return the instructions in one inference of each operator that has steps; None if those of a step are unknown.

    Raises TargetError for an invalid table.
    """
    core = native_core(target.core)
    table: InstructionTable = {} if core is None else load_instructions(core, "native")
    instructions: dict[int, int | None] = {}
    for step in steps:
        before, number = instructions.get(step.operator, 0), step_instructions(step.kernel, step.counts, table)
        instructions[step.operator] = None if before is None or number is None else before + number
    return instructions


def estimate_native(model: Model, target: Target, counted: Sequence[CountedOperator]) -> Estimate:
    """Estimate cycles and time of one inference of native code.

    counted: the result of count_native_operators.
    """
    estimate = estimate_model(model, target, counted=counted)
    if target.timing is not None and target.timing.kernels == "native":
        return estimate
    latency = estimate.latency_ms
    basis = f"{estimate.basis}; {BASIS}"
    return replace(
        estimate,
        validation="extrapolated" if estimate.validation == "calibrated" else estimate.validation,
        basis=basis,
        latency_ms=None if latency is None else replace(latency, basis=basis),
    )
