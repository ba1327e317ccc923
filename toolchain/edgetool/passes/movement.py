"""Rewrites of operators that move data: RESHAPE, upsampling, CONCATENATION, TILE, BROADCAST_TO and TRANSPOSE.

RESHAPE is removed if it has no effect, and replaces EXPAND_DIMS and SQUEEZE. Chains of RESHAPE and TILE that repeat the
rows and columns of an image become RESIZE_NEAREST_NEIGHBOR. CONCATENATION of more inputs than the kernel supports
becomes a tree. TILE, which TensorFlow Lite Micro does not support, and BROADCAST_TO of too many dimensions become
BROADCAST_TO of merged axes, or CONCATENATION. TRANSPOSE of too many dimensions is split: axes that stay adjacent are
merged, and the rest is a sequence of exchanges.
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
from edgetool.passes.rewrite import Applied, Context, OperatorBuilder, Rewrite, applied
from edgetool.passes.validation import is_consistent


def same_values(first: Tensor, second: Tensor) -> bool:
    """Return whether equal elements of two tensors represent the same values."""
    if first.dtype is not second.dtype:
        return False
    one, other = first.quantization, second.quantization
    if one is None or other is None:
        return one is other
    return (one.scales, one.zero_points, one.axis) == (other.scales, other.zero_points, other.axis)


def producer_alike(draft: Draft, operator: Operator) -> Operator | None:
    """Return the operator that moves the input of this one, if it has the same code and its own input is available."""
    before = draft.producer(operator.inputs[0])
    if before is None or before.code != operator.code or not is_consistent(draft, before):
        return None
    if not draft.is_before(before, operator):
        return None
    source = draft.tensors[before.inputs[0]]
    if source.is_variable or not same_values(source, draft.tensors[operator.inputs[0]]):
        return None
    return before


def merge_reshapes(draft: Draft, operator: Operator) -> Applied | None:
    """Let a RESHAPE of a RESHAPE read the input of the first one."""
    before = producer_alike(draft, operator)
    if before is None:
        return None
    record = applied("merge-reshapes", draft, operator)
    draft.replace(operator, replace(operator, inputs=(before.inputs[0], *operator.inputs[1:])))
    return record


def _merge(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    return merge_reshapes(draft, operator)


def _remove(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Remove a RESHAPE to the same shape."""
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    if source.shape != output.shape or source.is_variable or not same_values(source, output):
        return None
    record = applied("remove-reshape", draft, operator)
    return record if bypass(draft, operator) else None


def bypass(draft: Draft, operator: Operator, source: int | None = None) -> bool:
    """Remove an operator whose output equals `source`, its first input unless given.

    Returns:
        False if the graph needs both tensors.
    """
    source, output = operator.inputs[0] if source is None else source, operator.outputs[0]
    if output not in draft.outputs:
        draft.redirect(output, source)
        draft.replace(operator)
        return True
    producer = draft.producer(source)
    if producer is None or source in draft.outputs:
        return False
    draft.redirect(source, output)
    draft.replace(
        producer, replace(producer, outputs=tuple(output if old == source else old for old in producer.outputs))
    )
    draft.replace(operator)
    return True


def _as_reshape(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Replace EXPAND_DIMS or SQUEEZE of a type that its kernel does not support."""
    builder = OperatorBuilder(draft, operator)
    result = builder.reshape(operator.inputs[0], draft.tensors[operator.outputs[0]].shape)
    return builder.finish("as-reshape", result)


RESHAPE_RULES = (
    Rewrite("merge-reshapes", "", _merge, frozenset({"RESHAPE"}), always=True),
    Rewrite("remove-reshape", "", _remove, frozenset({"RESHAPE"}), always=True),
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
    """Replace the longest chain that starts at this operator and produces an upsampled image.

    Indices of the image are moved through the chain, so the decision depends on its effect, not on its form.
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
    builder = OperatorBuilder(draft, last)
    shape = draft.tensors[last.outputs[0]].shape
    size = builder.constant([shape[1], shape[2]])
    resized = builder.add("RESIZE_NEAREST_NEIGHBOR", [source, size], shape, like=source, half_pixel_centers=True)
    if not builder.is_supported(context):
        return None
    return replace(builder.finish("upsample", resized), operator_label=operator.label)


def _moved(draft: Draft, operator: Operator, index: Index) -> Index | None:
    """Return the indices as the operator moves them; None if it does not just move elements."""
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
    """Return whether an array of indices into an image (N, H, W, C) repeats its rows and columns."""
    batch, height, width, channels = image
    if index.ndim != 4 or index.shape[::3] != (batch, channels):
        return False
    rows, columns = _nearest(height, index.shape[1]), _nearest(width, index.shape[2])
    expected = np.arange(batch * height * width * channels).reshape(image)[:, rows][:, :, columns]
    return np.array_equal(index, expected)


def _nearest(size: int, resized: int) -> Index:
    """Return the source row of each row of RESIZE_NEAREST_NEIGHBOR, in float32 as its kernels compute it.

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


def concatenate(builder: OperatorBuilder, tensors: Sequence[int], axis: int) -> int:
    """Concatenate the tensors along an axis by one operator; return a single one unchanged."""
    if len(tensors) == 1:
        return tensors[0]
    shape = list(builder.draft.tensors[tensors[0]].shape)
    shape[axis] = sum(builder.draft.tensors[tensor].shape[axis] for tensor in tensors)
    return builder.add("CONCATENATION", tensors, shape, like=tensors[0], version=2, axis=axis)


def join(builder: OperatorBuilder, tensors: Sequence[int], axis: int, context: Context) -> int:
    """Concatenate the tensors along an axis by a tree of operators with as many inputs as each supports.

    As few as possible are joined before the last one, because these are copied once more.
    """
    limit = context.runtime.limit("CONCATENATION", "inputs") or len(tensors)
    while len(tensors) > limit:
        joined, rest, remaining = [], list(tensors), len(tensors) - limit
        while remaining > 0 and len(rest) > 1:
            group, rest = rest[: min(limit, remaining + 1)], rest[min(limit, remaining + 1) :]
            joined.append(concatenate(builder, group, axis))
            remaining -= len(group) - 1
        tensors = [*joined, *rest]
    return concatenate(builder, tensors, axis)


def _concatenation(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Split into a tree; the scales are equal already if the operator has a quantized type."""
    options = operator.options
    limit = context.runtime.limit("CONCATENATION", "inputs")
    if options is None or options["fused_activation_function"] != "NONE" or limit is None:
        return None
    if len(operator.inputs) <= limit:
        return None
    axis = options.integer("axis") % max(1, len(draft.tensors[operator.outputs[0]].shape))
    builder = OperatorBuilder(draft, operator)
    result = join(builder, operator.inputs, axis, context)
    if not builder.is_supported(context):
        return None
    return builder.finish("split-concatenation", result)


JOIN_RULES = (
    Rewrite(
        "split-concatenation",
        "split: TensorFlow Lite Micro can concatenate at most ten tensors at a time",
        _concatenation,
        frozenset({"CONCATENATION"}),
    ),
)


# Axes from the outermost on: whether the axis is repeated (from size 1), and its resulting size.
Axes = list[tuple[bool, int]]


def broadcast_axes(shape: Sequence[int], multiples: Sequence[int]) -> Axes:
    """Return TILE as a broadcast: before each axis, insert one of size 1 that is repeated.

    Adjacent axes of one kind are merged, and those of size 1 left out: [4, 1, 6] times [1, 2, 3] is 4, x6 and 6.
    """
    return _merge_repeated(
        axis for size, times in zip(shape, multiples, strict=True) for axis in ((True, times), (False, size))
    )


def _merge_repeated(axes: Iterable[tuple[bool, int]]) -> Axes:
    axes_kept = [axis for axis in axes if axis[1] != 1]
    return [(repeated, prod(size for _, size in group)) for repeated, group in groupby(axes_kept, lambda axis: axis[0])]


def _multiples(draft: Draft, operator: Operator) -> tuple[int, ...] | None:
    """Return how many times each axis of the input is repeated, None if that is unknown or the result is empty."""
    shape, output = draft.tensors[operator.inputs[0]].shape, draft.tensors[operator.outputs[0]]
    if output.element_count == 0:
        return None
    if operator.code == "BROADCAST_TO":
        shape = (1,) * (len(output.shape) - len(shape)) + shape
        return tuple(after // before for before, after in zip(shape, output.shape, strict=True))
    values = draft.values(operator.inputs[1])
    return None if values is None else tuple(int(times) for times in values)


def _broadcast(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Use one BROADCAST_TO, or several with RESHAPE around them if there are more axes than it supports."""
    source, output = operator.inputs[0], draft.tensors[operator.outputs[0]]
    multiples = _multiples(draft, operator)
    limit = context.runtime.limit("BROADCAST_TO", "dimensions") or len(output.shape) + 1
    if multiples is None or limit < 3:
        return None
    shape = (1,) * (len(output.shape) - len(draft.tensors[source].shape)) + draft.tensors[source].shape
    builder = OperatorBuilder(draft, operator)
    repeats_ones = all(size == 1 for size, times in zip(shape, multiples, strict=True) if times != 1)
    if len(shape) <= limit and repeats_ones:
        result = _broadcast_to(builder, source, output.shape)
    else:
        result = _broadcast_in_turn(builder, source, broadcast_axes(shape, multiples), limit)
    if not builder.is_supported(context):
        return None
    return builder.finish("repeat-broadcast", result)


def _broadcast_in_turn(builder: OperatorBuilder, tensor: int, axes: Axes, limit: int) -> int:
    """Repeat the innermost axes first, as many at a time as one operator supports."""
    while any(repeated for repeated, _ in axes):
        inner = axes if len(axes) <= limit else axes[1 - limit :]
        outer = axes[: len(axes) - len(inner)]
        lead = [prod(size for repeated, size in outer if not repeated)] if outer else []
        tensor = builder.reshape(tensor, [*lead, *(1 if repeated else size for repeated, size in inner)])
        tensor = _broadcast_to(builder, tensor, [*lead, *(size for _, size in inner)])
        axes = _merge_repeated([*outer, (False, prod(size for _, size in inner))])
    return tensor


def _broadcast_to(builder: OperatorBuilder, tensor: int, shape: Sequence[int]) -> int:
    version = 3 if builder.draft.tensors[tensor].dtype is DType.INT16 else 2
    return builder.add("BROADCAST_TO", [tensor, builder.constant(list(shape))], shape, like=tensor, version=version)


def _concatenate(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Concatenate the tensor with itself, axis by axis, for a runtime without BROADCAST_TO."""
    multiples = _multiples(draft, operator)
    if multiples is None:
        return None
    builder = OperatorBuilder(draft, operator)
    shape = draft.tensors[operator.inputs[0]].shape
    result = builder.reshape(operator.inputs[0], (1,) * (len(multiples) - len(shape)) + shape)
    for axis, times in reversed(tuple(enumerate(multiples))):
        result = _repeat_along(builder, result, axis, times, context)
    if not builder.is_supported(context):
        return None
    return builder.finish("repeat-concatenate", result)


def _repeat_along(builder: OperatorBuilder, tensor: int, axis: int, times: int, context: Context) -> int:
    """Repeat the tensor along the axis, by operators that concatenate as many as each supports, recursively."""
    limit = context.runtime.limit("CONCATENATION", "inputs") or times
    whole, rest = divmod(times, limit)
    if not whole:
        return concatenate(builder, [tensor] * times, axis)
    many = _repeat_along(builder, concatenate(builder, [tensor] * limit, axis), axis, whole, context)
    return join(builder, [many, *[tensor] * rest], axis, context)


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


def merge_axes(shape: Sequence[int], permutation: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return a shape and permutation with the same effect and the fewest axes.

    Axes of one element are left out; axes that are adjacent before and after are merged.
    """
    axes_kept = [axis for axis in permutation if shape[axis] != 1]
    rank = {axis: place for place, axis in enumerate(sorted(axes_kept))}
    sizes = [shape[axis] for axis in sorted(axes_kept)]
    groups: list[list[int]] = []
    for axis in (rank[axis] for axis in axes_kept):
        if groups and groups[-1][-1] + 1 == axis:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    order = sorted(groups)
    return [prod(sizes[axis] for axis in group) for group in order], [order.index(group) for group in groups]


def block_exchanges(sizes: Sequence[int], permutation: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return the permutation as exchanges of two adjacent blocks: (outer, first, second, inner) elements each.

    Each moves the next axis to its place, with those that already follow it.
    """
    current = list(range(len(sizes)))
    exchanges = []
    for place, axis in enumerate(permutation):
        at = current.index(axis)
        if at == place:
            continue
        end = at + 1
        while end < len(current) and place + end - at < len(current) and current[end] == permutation[place + end - at]:
            end += 1
        blocks = (current[:place], current[place:at], current[at:end], current[end:])
        outer, first, second, inner = (prod(sizes[axis] for axis in block) for block in blocks)
        exchanges.append((outer, first, second, inner))
        current = [*blocks[0], *blocks[2], *blocks[1], *blocks[3]]
    return exchanges


def _transpose(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    values = draft.values(operator.inputs[1])
    if values is None or output.element_count == 0:
        return None
    sizes, permutation = merge_axes(source.shape, [int(axis) for axis in values])
    for plan in ([(sizes, permutation)], [_exchange(exchange) for exchange in block_exchanges(sizes, permutation)]):
        builder = OperatorBuilder(draft, operator)
        result = operator.inputs[0]
        for shape, order in plan:
            if order == sorted(order):
                continue
            inputs = [builder.reshape(result, shape), builder.constant(order)]
            result = builder.add("TRANSPOSE", inputs, [shape[axis] for axis in order], like=result, version=2)
        if builder.is_supported(context):
            return builder.finish("transpose", result)
    return None


def _exchange(exchange: tuple[int, int, int, int]) -> tuple[list[int], list[int]]:
    return merge_axes(exchange, (0, 2, 1, 3))


TRANSPOSE_RULES = (
    Rewrite(
        "transpose",
        "replaced by RESHAPE and a TRANSPOSE with no more dimensions than TensorFlow Lite Micro supports",
        _transpose,
        frozenset({"TRANSPOSE"}),
    ),
)
