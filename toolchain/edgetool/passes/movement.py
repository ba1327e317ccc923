"""Rewrites of operators that move data and that the runtime lacks, or has for fewer inputs, ranks and types.

RESHAPE where it does nothing, and operators that are a RESHAPE. Data stays where it is in all of them.

Chains of RESHAPE and TILE that repeat the rows and columns of an image are RESIZE_NEAREST_NEIGHBOR.

CONCATENATION of more inputs than the kernel takes.

TILE, which TensorFlow Lite Micro lacks, and BROADCAST_TO of more dimensions than its kernel takes.

TRANSPOSE of more dimensions than kernels take: axes that stay together are one, and what is left goes in steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod

import numpy as np
import numpy.typing as npt

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Operator, Tensor
from edgetool.passes.rewrite import Applied, Context, Rewrite, Steps, applied
from edgetool.passes.validation import is_consistent


def same_values(first: Tensor, second: Tensor) -> bool:
    """Whether equal elements of two tensors mean the same."""
    if first.dtype is not second.dtype:
        return False
    one, other = first.quantization, second.quantization
    if one is None or other is None:
        return one is other
    return (one.scales, one.zero_points, one.axis) == (other.scales, other.zero_points, other.axis)


def _merge(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """RESHAPE of a RESHAPE takes what the first one took."""
    before = draft.producer(operator.inputs[0])
    if before is None or before.code != "RESHAPE" or not is_consistent(draft, before):
        return None
    if not draft.is_before(before, operator):
        return None
    source = draft.tensors[before.inputs[0]]
    if source.is_variable or not same_values(source, draft.tensors[operator.inputs[0]]):
        return None
    record = applied("merge-reshapes", draft, operator)
    draft.replace(operator, replace(operator, inputs=(before.inputs[0], *operator.inputs[1:])))
    return record


def _remove(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """RESHAPE to the shape that is there."""
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    if source.shape != output.shape or source.is_variable or not same_values(source, output):
        return None
    record = applied("remove-reshape", draft, operator)
    return record if bypass(draft, operator) else None


def bypass(draft: Draft, operator: Operator) -> bool:
    """Leave out an operator whose output is its first input; False where the graph needs both tensors."""
    source, output = operator.inputs[0], operator.outputs[0]
    if output not in draft.outputs:
        draft.redirect(output, source)
        draft.replace(operator)
        return True
    maker = draft.producer(source)
    if maker is None or source in draft.outputs:
        return False
    draft.redirect(source, output)
    draft.replace(maker, replace(maker, outputs=tuple(output if made == source else made for made in maker.outputs)))
    draft.replace(operator)
    return True


def _as_reshape(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """EXPAND_DIMS or SQUEEZE of a type that their kernels lack."""
    steps = Steps(draft, operator)
    result = steps.reshape(operator.inputs[0], draft.tensors[operator.outputs[0]].shape)
    return steps.finish("as-reshape", result)


RESHAPE_RULES = (
    Rewrite("merge-reshapes", "", _merge, frozenset({"RESHAPE"}), wanted=True),
    Rewrite("remove-reshape", "", _remove, frozenset({"RESHAPE"}), wanted=True),
    Rewrite(
        "as-reshape",
        "replaced by RESHAPE, which supports every type",
        _as_reshape,
        frozenset({"EXPAND_DIMS", "SQUEEZE"}),
    ),
)


Index = npt.NDArray[np.int64]

LONGEST_CHAIN = 8
MAX_ELEMENTS = 1 << 24


def _upsample(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """The longest chain from this operator on whose result is an upsampling of the image before it.

    Which element of the image each element of the result is decides that, not the form of the chain.
    """
    source = operator.inputs[0]
    before = draft.producer(source)
    if before is not None and before.code == "RESHAPE" and is_consistent(draft, before):
        source = before.inputs[0]
    image = draft.tensors[source]
    if len(image.shape) != 4 or not 0 < image.element_count <= MAX_ELEMENTS:
        return None
    index = np.arange(image.element_count).reshape(draft.tensors[operator.inputs[0]].shape)
    last, at = None, operator
    for _ in range(LONGEST_CHAIN):
        moved = _moved(draft, at, index)
        if moved is None:
            break
        index = moved
        if _is_upsampled(index, image.shape):
            last = at
        readers = draft.consumers(at.outputs[0])
        if len(readers) != 1 or at.outputs[0] in draft.outputs:
            break
        at = readers[0]
    if last is None:
        return None
    steps = Steps(draft, last)
    shape = draft.tensors[last.outputs[0]].shape
    size = steps.constant([shape[1], shape[2]])
    resized = steps.step("RESIZE_NEAREST_NEIGHBOR", [source, size], shape, like=source, half_pixel_centers=True)
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return replace(steps.finish("upsample", resized), operator_label=operator.label)


def _moved(draft: Draft, operator: Operator, index: Index) -> Index | None:
    """Where the elements of an operator's result come from, as it moves them; None where it does something else."""
    if (
        not is_consistent(draft, operator)
        or (output := draft.tensors[operator.outputs[0]]).element_count > MAX_ELEMENTS
    ):
        return None
    if operator.code in {"RESHAPE", "EXPAND_DIMS", "SQUEEZE"}:
        return index.reshape(output.shape)
    if operator.code == "BROADCAST_TO":
        return np.broadcast_to(index, output.shape)
    values = draft.values(operator.inputs[1]) if operator.code in {"TILE", "TRANSPOSE"} else None
    if values is None:
        return None
    return np.tile(index, values) if operator.code == "TILE" else np.transpose(index, values)


def _is_upsampled(index: Index, image: tuple[int, ...]) -> bool:
    """Whether an array of indices into an image (N, H, W, C) has each row and column that often in a row."""
    batch, height, width, channels = image
    if index.ndim != 4 or index.shape[::3] != (batch, channels):
        return False
    rows, columns = _nearest(height, index.shape[1]), _nearest(width, index.shape[2])
    expected = np.arange(batch * height * width * channels).reshape(image)[:, rows][:, :, columns]
    return np.array_equal(index, expected)


def _nearest(size: int, resized: int) -> Index:
    """The row that RESIZE_NEAREST_NEIGHBOR takes for each of its own, in float32 as its kernels compute it.

    Source: GetNearestNeighbor in resize_nearest_neighbor.h (TensorFlow Lite), with half_pixel_centers.
    """
    scale = np.float32(size) / np.float32(resized)
    places = np.floor((np.arange(resized, dtype=np.float32) + np.float32(0.5)) * scale)
    nearest: Index = np.minimum(places.astype(np.int64), size - 1)
    return nearest


UPSAMPLING_RULES = (
    Rewrite(
        "upsample",
        "replaced by RESIZE_NEAREST_NEIGHBOR: TensorFlow Lite Micro does not support TILE",
        _upsample,
        frozenset({"TILE"}),
    ),
)


def concatenate(steps: Steps, tensors: Sequence[int], axis: int) -> int:
    """The tensors one after the other along an axis, by one operator; a single one as it is."""
    if len(tensors) == 1:
        return tensors[0]
    shape = list(steps.draft.tensors[tensors[0]].shape)
    shape[axis] = sum(steps.draft.tensors[tensor].shape[axis] for tensor in tensors)
    return steps.step("CONCATENATION", tensors, shape, like=tensors[0], version=2, axis=axis)


def join(steps: Steps, tensors: Sequence[int], axis: int, context: Context) -> int:
    """The tensors one after the other along an axis, by a tree of operators of as many inputs as each may have.

    As few as possible are joined before the last one, each of which is copied once more.
    """
    most = context.runtime.limit("CONCATENATION", "inputs") or len(tensors)
    while len(tensors) > most:
        joined, rest, excess = [], list(tensors), len(tensors) - most
        while excess > 0 and len(rest) > 1:
            group, rest = rest[: min(most, excess + 1)], rest[min(most, excess + 1) :]
            joined.append(concatenate(steps, group, axis))
            excess -= len(group) - 1
        tensors = [*joined, *rest]
    return concatenate(steps, tensors, axis)


def _concatenation(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """A tree of them; the scales are equal already where the operator has a quantized type."""
    options = operator.options
    most = context.runtime.limit("CONCATENATION", "inputs")
    if options is None or options["fused_activation_function"] != "NONE" or most is None:
        return None
    if len(operator.inputs) <= most:
        return None
    axis = options.integer("axis") % max(1, len(draft.tensors[operator.outputs[0]].shape))
    steps = Steps(draft, operator)
    result = join(steps, operator.inputs, axis, context)
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("split-concatenation", result)


JOIN_RULES = (
    Rewrite(
        "split-concatenation",
        "split: TensorFlow Lite Micro can concatenate at most ten tensors at a time",
        _concatenation,
        frozenset({"CONCATENATION"}),
    ),
)


# Axes from the outermost on: whether it is repeated, from size 1, and how long it becomes.
Axes = list[tuple[bool, int]]


def broadcast_axes(shape: Sequence[int], multiples: Sequence[int]) -> Axes:
    """TILE as a broadcast: before each axis stands one of size 1 that is repeated, and all others stay.

    Neighbours of one kind are one axis, those of size 1 are left out: [4, 1, 6] times [1, 2, 3] is 4, x6 and 6.
    """
    return _merged(
        axis for size, times in zip(shape, multiples, strict=True) for axis in ((True, times), (False, size))
    )


def _merged(axes: Iterable[tuple[bool, int]]) -> Axes:
    kept = [axis for axis in axes if axis[1] != 1]
    return [(repeated, prod(size for _, size in group)) for repeated, group in groupby(kept, lambda axis: axis[0])]


def _multiples(draft: Draft, operator: Operator) -> tuple[int, ...] | None:
    """How often each axis of the input is repeated, None where that is not known or the result is empty."""
    shape, output = draft.tensors[operator.inputs[0]].shape, draft.tensors[operator.outputs[0]]
    if output.element_count == 0:
        return None
    if operator.code == "BROADCAST_TO":
        shape = (1,) * (len(output.shape) - len(shape)) + shape
        return tuple(after // before for before, after in zip(shape, output.shape, strict=True))
    values = draft.values(operator.inputs[1])
    return None if values is None else tuple(int(times) for times in values)


def _broadcast(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """One BROADCAST_TO, or several where the axes are more than it takes, with RESHAPE around them."""
    source, output = operator.inputs[0], draft.tensors[operator.outputs[0]]
    multiples = _multiples(draft, operator)
    most = context.runtime.limit("BROADCAST_TO", "dimensions") or len(output.shape) + 1
    if multiples is None or most < 3:
        return None
    shape = (1,) * (len(output.shape) - len(draft.tensors[source].shape)) + draft.tensors[source].shape
    steps = Steps(draft, operator)
    repeats_ones = all(size == 1 for size, times in zip(shape, multiples, strict=True) if times != 1)
    if len(shape) <= most and repeats_ones:
        result = _broadcast_to(steps, source, output.shape)
    else:
        result = _broadcast_in_turn(steps, source, broadcast_axes(shape, multiples), most)
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("repeat-broadcast", result)


def _broadcast_in_turn(steps: Steps, tensor: int, axes: Axes, most: int) -> int:
    """Repeat the innermost axes first, as many at a time as one operator takes."""
    while any(repeated for repeated, _ in axes):
        inner = axes if len(axes) <= most else axes[1 - most :]
        outer = axes[: len(axes) - len(inner)]
        lead = [prod(size for repeated, size in outer if not repeated)] if outer else []
        tensor = steps.reshape(tensor, [*lead, *(1 if repeated else size for repeated, size in inner)])
        tensor = _broadcast_to(steps, tensor, [*lead, *(size for _, size in inner)])
        axes = _merged([*outer, (False, prod(size for _, size in inner))])
    return tensor


def _broadcast_to(steps: Steps, tensor: int, shape: Sequence[int]) -> int:
    version = 3 if steps.draft.tensors[tensor].dtype is DType.INT16 else 2
    return steps.step("BROADCAST_TO", [tensor, steps.constant(list(shape))], shape, like=tensor, version=version)


def _concatenate(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """CONCATENATION of the tensor with itself, axis by axis, for a runtime without BROADCAST_TO."""
    multiples = _multiples(draft, operator)
    if multiples is None:
        return None
    steps = Steps(draft, operator)
    shape = draft.tensors[operator.inputs[0]].shape
    result = steps.reshape(operator.inputs[0], (1,) * (len(multiples) - len(shape)) + shape)
    for axis, times in reversed(tuple(enumerate(multiples))):
        result = _times(steps, result, axis, times, context)
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("repeat-concatenate", result)


def _times(steps: Steps, tensor: int, axis: int, times: int, context: Context) -> int:
    """The tensor `times` times along the axis: tens of tens of them, as it were."""
    most = context.runtime.limit("CONCATENATION", "inputs") or times
    whole, rest = divmod(times, most)
    if not whole:
        return concatenate(steps, [tensor] * times, axis)
    many = _times(steps, concatenate(steps, [tensor] * most, axis), axis, whole, context)
    return join(steps, [many, *[tensor] * rest], axis, context)


_CODES = frozenset({"TILE", "BROADCAST_TO"})
REPEAT_RULES = (
    Rewrite(
        "repeat-broadcast",
        "replaced by BROADCAST_TO with at most five dimensions, which TensorFlow Lite Micro supports",
        _broadcast,
        _CODES,
    ),
    Rewrite(
        "repeat-concatenate",
        "replaced by CONCATENATION of the tensor with itself: the runtime supports neither TILE nor BROADCAST_TO",
        _concatenate,
        _CODES,
    ),
)


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


TRANSPOSE_RULES = (
    Rewrite(
        "transpose",
        "replaced by RESHAPE and a TRANSPOSE with no more dimensions than TensorFlow Lite Micro supports",
        _transpose,
        frozenset({"TRANSPOSE"}),
    ),
)
