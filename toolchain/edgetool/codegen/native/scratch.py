"""Scratch against speed: which operators may have kernels that need scratch only to be faster.

A tuned kernel costs memory only where its step needs more than the arena has anyway. So the choice is a limit of the
memory at a step: an operator has its tuned kernel if that stays within the limit, and its lean kernel otherwise.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.plan import native_problem
from edgetool.codegen.native.program import Step
from edgetool.memory.bound import live_bytes

MAX_CHOICES = 8  # each takes a search for a layout


def kernel_choices(tuned: NativeProgram, lean: NativeProgram) -> tuple[NativeProgram, ...]:
    """Return programs that need more and more memory for more and more tuned kernels; the last is the tuned one.

    Args:
        tuned: The program with tuned kernels.
        lean: The same with lean kernels, its operators in the same order.

    The first needs no more than the lean program: bounds of live bytes decide, not layouts. There are at most
    MAX_CHOICES.
    """
    needs = _needs(tuned, lean)
    floor = max((size for _, size in live_bytes(native_problem(lean))), default=0)
    limits = [floor, *sorted({size for size in needs.values() if size > floor})]
    if len(limits) > MAX_CHOICES:
        last = len(limits) - 1
        limits = [limits[last * i // (MAX_CHOICES - 1)] for i in range(MAX_CHOICES)]
    return tuple(
        with_lean_kernels(tuned, lean, frozenset(operator for operator, size in needs.items() if size > limit))
        for limit in limits
    )


def with_lean_kernels(tuned: NativeProgram, lean: NativeProgram, operators: frozenset[int]) -> NativeProgram:
    """Return the tuned program with the lean kernels of some operators."""
    if not operators:
        return tuned
    replacements = _by_operator(lean)
    steps: list[Step] = []
    for operator, own in _by_operator(tuned).items():
        steps += replacements[operator] if operator in operators else own
    return replace(tuned, steps=tuple(steps))


def _needs(tuned: NativeProgram, lean: NativeProgram) -> dict[int, int]:
    """Return the bytes that are live at the tuned kernels of operators whose lean ones need less scratch."""
    live = live_bytes(native_problem(tuned))
    positions = [position for position, _ in live]
    scratch = {operator: _scratch(steps) for operator, steps in _by_operator(lean).items()}
    saving = {operator for operator, steps in _by_operator(tuned).items() if _scratch(steps) > scratch[operator]}
    needs: dict[int, int] = {}
    for position, step in enumerate(tuned.steps):
        if step.operator in saving:
            size = live[bisect_right(positions, position) - 1][1]
            needs[step.operator] = max(size, needs.get(step.operator, 0))
    return needs


def _scratch(steps: list[Step]) -> int:
    return max(step.scratch_bytes for step in steps)


def _by_operator(program: NativeProgram) -> dict[int, list[Step]]:
    steps: dict[int, list[Step]] = {}
    for step in program.steps:
        steps.setdefault(step.operator, []).append(step)
    return steps
