"""The loops of TFLM's broadcast: as many, one in the other, as the shapes cannot do without.

Source: broadcast_loop.h and select.h, which go through the dimensions from the last one and join a dimension to the
loop before it where every operand goes on in the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod

Shape = tuple[int, ...]
AT_ONCE = 4  # numbers that memcpy copies in a turn


@dataclass(frozen=True, slots=True)
class Level:
    """A loop: its turns, and by how many elements each operand goes on in a turn; 0 for one that stands still."""

    turns: int
    steps: tuple[int, ...]


def nest(operands: Sequence[Shape], result: Shape) -> tuple[Level, ...]:
    """The loops, innermost first."""
    levels: list[Level] = []
    passed = [1] * len(operands)
    for made, *sizes in zip_longest(reversed(result), *(reversed(shape) for shape in operands), fillvalue=1):
        steps = tuple(0 if size == 1 != made else step for size, step in zip(sizes, passed, strict=True))
        if levels and (made == 1 or _goes_on(levels[-1], steps, passed)):
            levels[-1] = Level(levels[-1].turns * made, levels[-1].steps)
        else:
            levels.append(Level(made, steps))
        passed = [step * size for step, size in zip(passed, sizes, strict=True)]
    return tuple(levels)


def _goes_on(inner: Level, steps: Sequence[int], passed: Sequence[int]) -> bool:
    return all(
        step == (0 if before == 0 else expected)
        for before, step, expected in zip(inner.steps, steps, passed, strict=True)
    )


def calls(levels: Sequence[Level]) -> tuple[int, int, int]:
    """How often the function that runs a loop is called: for the innermost, for that around it, for those further out.

    It calls itself for the loop inside.
    """
    deeper = [prod(level.turns for level in levels[depth:]) for depth in range(1, len(levels) + 1)]
    return (deeper[0] if deeper else 1), sum(deeper[1:2]), sum(deeper[2:])


def copied_shapes(*shapes: Shape) -> dict[str, int]:
    """The dimensions of shapes that are copied: those of few are copied one by one, four at once."""
    return {
        "own dimension": sum(map(len, shapes)),
        "short dimension": sum(len(shape) for shape in shapes if len(shape) < AT_ONCE),
    }


def arranged(shapes: Sequence[Shape], result: Shape, levels: Sequence[Level]) -> dict[str, int]:
    """The loops that arrange the others: shapes are copied and filled up with ones, then gone through.

    A dimension of one is joined to another loop without a look at the operands.
    """
    return {
        "dimension": max(map(len, (*shapes, result))),
        **copied_shapes(*shapes, result),
        "level": len(levels),
        "joined": max(sum(size != 1 for size in result) - len(levels), 0),
    }


def binary_loops(first: Shape, second: Shape, result: Shape) -> dict[str, int]:
    """The loops of a function of two operands that broadcast.

    The innermost is another one where an operand stands still: there that operand is looked at once a row.
    """
    levels = nest((first, second), result)
    rows, planes, blocks = calls(levels)
    kind = _kind(levels)
    return {
        **arranged((first, second), result, levels),
        "block": blocks,
        "plane": planes,
        f"row of {kind}": rows,
        f"element of {kind}": prod(level.turns for level in levels),
    }


def _kind(levels: Sequence[Level]) -> str:
    if not levels or all(levels[0].steps):
        return "both"
    return "the second" if levels[0].steps[0] == 0 else "the first"


def extended(shape: Shape, rank: int) -> Shape:
    """The shape with ones in front up to a rank."""
    return (1,) * (rank - len(shape)) + shape


def alike(first: Shape, second: Shape) -> bool:
    """Whether shapes are the same but for ones in front: no broadcast for ProcessBroadcastShapes."""
    rank = max(len(first), len(second))
    return extended(first, rank) == extended(second, rank)
