"""TRANSPOSE of more dimensions than kernels take: axes that stay together are one, and what is left goes in steps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from edgetool.model.edit import Draft
from edgetool.model.types import Operator
from edgetool.passes.rewrite import Applied, Context, Rewrite
from edgetool.passes.steps import Steps


def merged(shape: Sequence[int], permutation: Sequence[int]) -> tuple[list[int], list[int]]:
    """A shape and permutation with the same effect and the fewest axes.

    Axes of one element are left out; those that follow each other before and after are one.
    """
    kept = [axis for axis in permutation if shape[axis] != 1]
    rank = {axis: place for place, axis in enumerate(sorted(kept))}
    sizes = [shape[axis] for axis in sorted(kept)]
    groups: list[list[int]] = []
    for axis in (rank[axis] for axis in kept):
        if groups and groups[-1][-1] + 1 == axis:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    order = sorted(groups)
    return [prod(sizes[axis] for axis in group) for group in order], [order.index(group) for group in groups]


def moves(sizes: Sequence[int], permutation: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """The permutation as exchanges of two neighbouring blocks: (outer, first, second, inner) elements each.

    Each brings the next axis, with those that follow it already, to its place.
    """
    now = list(range(len(sizes)))
    exchanges = []
    for place, axis in enumerate(permutation):
        at = now.index(axis)
        if at == place:
            continue
        end = at + 1
        while end < len(now) and place + end - at < len(now) and now[end] == permutation[place + end - at]:
            end += 1
        blocks = (now[:place], now[place:at], now[at:end], now[end:])
        outer, first, second, inner = (prod(sizes[axis] for axis in block) for block in blocks)
        exchanges.append((outer, first, second, inner))
        now = [*blocks[0], *blocks[2], *blocks[1], *blocks[3]]
    return exchanges


def _transpose(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    values = draft.values(operator.inputs[1])
    if values is None or output.element_count == 0:
        return None
    sizes, permutation = merged(source.shape, [int(axis) for axis in values])
    for plan in ([(sizes, permutation)], [_exchange(move) for move in moves(sizes, permutation)]):
        steps = Steps(draft, operator)
        result = operator.inputs[0]
        for shape, order in plan:
            if order == sorted(order):
                continue
            inputs = [steps.reshape(result, shape), steps.constant(order)]
            result = steps.step("TRANSPOSE", inputs, [shape[axis] for axis in order], like=result, version=2)
        if all(context.legal(draft, made) for made in steps.made):
            return steps.finish("transpose", result)
    return None


def _exchange(move: tuple[int, int, int, int]) -> tuple[list[int], list[int]]:
    return merged(move, (0, 2, 1, 3))


RULES = (
    Rewrite(
        "transpose",
        "replaced by RESHAPE and a TRANSPOSE with no more dimensions than TensorFlow Lite Micro supports",
        _transpose,
        frozenset({"TRANSPOSE"}),
    ),
)
