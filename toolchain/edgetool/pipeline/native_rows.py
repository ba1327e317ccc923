"""Plans of rows for native code: the smallest one, and faster ones that take more memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from edgetool.codegen.native.loops.registry import code_of, program_loops
from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.plan import in_program_order, memory_apart
from edgetool.codegen.native.row_plan import NativeRows, RowVariants, faster_rows, smallest_rows
from edgetool.estimate.native import StepWork, count_native_operators
from edgetool.model.types import Model
from edgetool.operators.registry import operator_costs
from edgetool.target.types import Target

# The memory of faster plans, as multiples of the smallest one: where kernels for tensors take over is different in
# every model.
STEPS = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0)


def row_choices(
    model: Model,
    orders: Sequence[Sequence[int]],
    target: Target,
    below: int | None,
    extensions: Mapping[str, bool],
    *,
    fed: Sequence[int] = (),
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[NativeRows, ...]:
    """Return plans that take more and more memory for fewer and fewer instructions.

    Args:
        model: The model.
        orders: Orders of the operators, by their indices, to choose the best segments from.
        target: A target whose instructions are known.
        below: Plans that take as much, or more, are left out, unless it is None.
        extensions: Those of the core, as for lower.
        fed: The inputs that the application hands over by rows, as tensors of the main graph.
        stopped: Whether to end the search.
    """
    small, rows, whole = (
        lower(model, row_wise=row_wise, lean=lean, **extensions)
        for row_wise, lean in ((True, True), (True, False), (False, False))
    )
    bases = [smallest_rows(in_program_order(small, tuple(order)), fed, stopped=stopped) for order in orders]
    number = min(range(len(bases)), key=lambda i: bases[i].plan.memory_bytes)
    base, order = bases[number], tuple(orders[number])
    smallest = base.plan.memory_bytes
    if below is not None and smallest >= below:
        return ()
    variants = RowVariants(*(in_program_order(program, order) for program in (small, rows, whole)))
    costs = [operator_instructions(program, target) for program in (small, rows, whole)]
    choices: list[NativeRows] = []
    fewest: int | None = None
    for factor in STEPS:
        limit = int(factor * smallest)
        if below is not None and limit >= below:
            break
        choice = faster_rows(base, variants, costs, limit)
        count = sum(operator_instructions(choice.program, target).values())
        if fewest is None or count < fewest:
            choices.append(choice)
            fewest = count
    return tuple(choices)


def operator_instructions(program: NativeProgram, target: Target) -> dict[int, int]:
    """Return the instructions of each operator in one inference; 0 where they are unknown."""
    loops = program_loops(program, memory_apart(program), code_of(target.core))
    works = [StepWork(item.operator, item.kernel, item.counts, item.constant_reads) for item in loops]
    counted = count_native_operators(operator_costs(program.model), works, target)
    return {item.cost.index: item.executed.instructions or 0 for item in counted if item.cost.subgraph == 0}
