"""Replace SELECT, REDUCE_ANY, ONE_HOT, BUCKETIZE and TOPK_V2 with comparisons and SELECT_V2.

TFLM does not support the replaced operators.

In TOPK_V2, the position of an element is the number of elements that come before it.
"""

from __future__ import annotations

from math import prod

import numpy as np

from edgetool.model.draft import STORED, Array, Draft
from edgetool.model.types import DType, Operator, Tensor
from edgetool.passes.elementwise import dequantized, is_quantized, quantized
from edgetool.passes.rewrite import Applied, Context, OperatorBuilder, Rewrite

MAX_DIMENSIONS = 4  # of comparisons whose inputs differ in shape
INTEGERS = frozenset({DType.INT32})


def _select(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Use SELECT_V2; the condition may have one element for each index of the outermost axis, or only one."""
    condition, chosen, other = operator.inputs
    rank = len(draft.tensors[chosen].shape)
    builder = OperatorBuilder(draft, operator)
    size = draft.tensors[condition].shape
    if len(size) == 1 and rank > 1 and draft.tensors[condition].shape != draft.tensors[chosen].shape:
        condition = builder.reshape(condition, (*size, *(1,) * (rank - 1)))
    shape = draft.tensors[operator.outputs[0]].shape
    result = builder.add("SELECT_V2", [condition, chosen, other], shape, like=operator.outputs[0])
    if not builder.is_supported(context):
        return None
    return builder.finish("select-v2", result)


def _select_integers(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Return other + (chosen - other) * condition, with a condition of 0 or 1: exact, because integers wrap around."""
    condition, chosen, other = operator.inputs
    output = draft.tensors[operator.outputs[0]]
    shapes = [draft.tensors[tensor].shape for tensor in operator.inputs]
    if output.dtype not in INTEGERS or any(shape not in ((), output.shape) for shape in shapes):
        return None
    builder = OperatorBuilder(draft, operator)
    zero_or_one = builder.cast(condition, output.dtype)
    difference = _constant_difference(draft, chosen, other)
    if difference is None:
        difference = builder.add("SUB", [chosen, other], _broadcast(shapes[1:]), like=operator.outputs[0])
    shape = _broadcast([shapes[0], draft.tensors[difference].shape])
    added = builder.add("MUL", [zero_or_one, difference], shape, like=operator.outputs[0])
    result = builder.add("ADD", [other, added], output.shape, like=operator.outputs[0])
    if not builder.is_supported(context):
        return None
    return builder.finish("select-integers", result)


def _constant_difference(draft: Draft, chosen: int, other: int) -> int | None:
    """Return the constant that was added to `other` to get `chosen`, as for an index that counts from the end."""
    producer = draft.producer(chosen)
    plain = (
        producer is not None
        and producer.options is not None
        and producer.options["fused_activation_function"] == "NONE"
    )
    if producer is None or producer.code != "ADD" or not plain or other not in producer.inputs:
        return None
    (added,) = [tensor for tensor in producer.inputs if tensor != other] or (other,)
    return added if draft.values(added) is not None and draft.tensors[added].shape == () else None


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    return np.broadcast_shapes(*shapes)


def _reduce_any(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Compute that not all elements are false."""
    source, axes = operator.inputs
    shape, result = (draft.tensors[tensor].shape for tensor in (source, operator.outputs[0]))
    builder = OperatorBuilder(draft, operator)
    keep = bool(operator.options["keep_dims"]) if operator.options else False
    inverted = builder.add("LOGICAL_NOT", [source], shape, like=source)
    none = builder.add("REDUCE_ALL", [inverted, axes], result, like=source, keep_dims=keep)
    some = builder.add("LOGICAL_NOT", [none], result, like=source)
    if not builder.is_supported(context):
        return None
    return builder.finish("reduce-any", some)


def _one_hot(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Compare each index with 0, 1, ..., and select the on or off value.

    The values are converted to the scale of the output, because converters give them separate scales.
    """
    indices, depth, on, off = operator.inputs
    output = draft.tensors[operator.outputs[0]]
    count, values = draft.values(depth), [_in_scale_of(draft, tensor, output) for tensor in (on, off)]
    if count is None or operator.options is None or any(value is None for value in values):
        return None
    builder = OperatorBuilder(draft, operator)
    indices = _as_int32(builder, indices)
    shape = draft.tensors[indices].shape
    axis = operator.options.integer("axis") % len(output.shape)
    outer, inner = prod(shape[:axis]), prod(shape[axis:])
    classes = np.arange(int(count.reshape(-1)[0]), dtype=np.int32).reshape(1, -1, 1)
    merged = (outer, classes.size, inner)
    inputs = [builder.reshape(indices, (outer, 1, inner)), builder.constant(classes)]
    is_class = builder.add("EQUAL", inputs, merged, like=indices, dtype=DType.BOOL)
    chosen = [
        builder.draft.constant("one_hot/value", np.asarray(value), output.quantization, output.dtype)
        for value in values
    ]
    result = builder.add("SELECT_V2", [is_class, *chosen], merged, like=operator.outputs[0])
    if not builder.is_supported(context):
        return None
    return builder.finish("one-hot", result)


def _in_scale_of(draft: Draft, tensor: int, output: Tensor) -> Array | None:
    """Return a constant of one element in the type and scale of the result."""
    value, value_tensor = draft.values(tensor), draft.tensors[tensor]
    if (
        value is None
        or value_tensor.per_tensor == output.per_tensor
        or not (is_quantized(value_tensor) and is_quantized(output))
    ):
        return value
    return quantized(dequantized(value, value_tensor), output).astype(value.dtype)


def _as_int32(builder: OperatorBuilder, indices: int) -> int:
    """Return the indices before a cast to int64; those that int32 cannot represent are too large for a class anyway."""
    draft = builder.draft
    cast = draft.producer(indices)
    if draft.tensors[indices].dtype is not DType.INT64 or cast is None or cast.code != "CAST":
        return indices
    (source,) = cast.inputs
    return source if draft.tensors[source].dtype is DType.INT32 else builder.cast(source, DType.INT32)


def _bucketize(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Count the boundaries that are not above the value: comparisons, summed as floats."""
    source = operator.inputs[0]
    boundaries = operator.options["boundaries"] if operator.options else None
    if not isinstance(boundaries, tuple) or not boundaries or draft.tensors[source].dtype is not DType.FLOAT32:
        return None
    count = draft.tensors[source].element_count
    grid = (count, len(boundaries))
    builder = OperatorBuilder(draft, operator)
    limits = builder.constant(np.array([boundaries], np.float32))
    above = builder.add(
        "GREATER_EQUAL", [builder.reshape(source, (count, 1)), limits], grid, like=source, dtype=DType.BOOL
    )
    total = builder.add("SUM", [builder.cast(above, DType.FLOAT32), builder.constant([1])], (count,), like=source)
    result = builder.cast(total, DType.INT32)
    if not builder.is_supported(context):
        return None
    return builder.finish("bucketize", result)


CHOICE_RULES = (
    Rewrite(
        "select-v2",
        "replaced by SELECT_V2: TensorFlow Lite Micro does not support SELECT",
        _select,
        frozenset({"SELECT"}),
    ),
    Rewrite(
        "select-integers",
        "replaced by arithmetic: TensorFlow Lite Micro's SELECT_V2 does not support unquantized integers",
        _select_integers,
        frozenset({"SELECT", "SELECT_V2"}),
    ),
    Rewrite(
        "reduce-any",
        "replaced by LOGICAL_NOT and REDUCE_ALL: TensorFlow Lite Micro does not support REDUCE_ANY",
        _reduce_any,
        frozenset({"REDUCE_ANY"}),
    ),
    Rewrite(
        "one-hot",
        "replaced by EQUAL and SELECT_V2: TensorFlow Lite Micro does not support ONE_HOT",
        _one_hot,
        frozenset({"ONE_HOT"}),
    ),
    Rewrite(
        "bucketize",
        "replaced by a sum of comparisons: TensorFlow Lite Micro does not support BUCKETIZE",
        _bucketize,
        frozenset({"BUCKETIZE"}),
    ),
)


MAX_PAIRS = 4096  # each of which takes up to four bytes of the arena
RANKED = frozenset({DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.UINT8})


def _top_k(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Compare all pairs; equal elements keep their order, as in TOPK_V2."""
    source = operator.inputs[0]
    tensor, k = draft.tensors[source], draft.values(operator.inputs[1])
    size, rows = tensor.shape[-1], prod(tensor.shape[:-1])
    if k is None or tensor.dtype not in RANKED or rows * size * size > MAX_PAIRS:
        return None
    count = int(k.reshape(-1)[0])
    builder = OperatorBuilder(draft, operator)
    across = builder.reshape(source, (rows, 1, size))
    pairs = (rows, size, size)
    inputs = [across, builder.reshape(source, (rows, size, 1))]
    above = builder.add("GREATER", inputs, pairs, like=source, dtype=DType.BOOL)
    equal = builder.add("EQUAL", inputs, pairs, like=source, dtype=DType.BOOL)
    earlier = builder.constant(np.tri(size, k=-1, dtype=np.bool_).reshape(1, size, size))
    tied = builder.add("LOGICAL_AND", [equal, earlier], pairs, like=equal)
    before = builder.cast(builder.add("LOGICAL_OR", [above, tied], pairs, like=above), DType.FLOAT32)
    places = builder.add("SUM", [before, builder.constant([2])], (rows, size), like=before)
    order = builder.constant(np.arange(count, dtype=np.float32).reshape(1, count, 1))
    grid = (rows, count, size)
    is_there = builder.add("EQUAL", [builder.reshape(places, (rows, 1, size)), order], grid, like=above)
    lowest = -np.inf if tensor.dtype is DType.FLOAT32 else np.iinfo(STORED[tensor.dtype]).min
    nothing = draft.constant("top_k/lowest", np.asarray(lowest, STORED[tensor.dtype]), tensor.quantization)
    chosen = builder.add("SELECT_V2", [is_there, across, nothing], grid, like=source)
    values = builder.add("REDUCE_MAX", [chosen, builder.constant([2])], (rows, count), like=source)
    matches = [builder.cast(is_there, DType.FLOAT32), builder.constant([2])]
    indices = builder.add("ARG_MAX", matches, (rows, count), like=source, dtype=DType.INT32, output_type="INT32")
    if not builder.is_supported(context):
        return None
    return builder.finish("top-k", values, indices)


RANKING_RULES = (
    Rewrite(
        "top-k",
        "replaced by comparisons of all pairs: TensorFlow Lite Micro does not support TOPK_V2",
        _top_k,
        frozenset({"TOPK_V2"}),
    ),
)
