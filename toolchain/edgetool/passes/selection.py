"""SELECT, REDUCE_ANY, ONE_HOT, BUCKETIZE and TOPK_V2, which TFLM lacks, by comparisons and choices that it has.

SELECT, REDUCE_ANY, ONE_HOT and BUCKETIZE, which TensorFlow Lite Micro lacks, by comparisons and choices it has.

TOPK_V2, which TensorFlow Lite Micro lacks: an element's place is the number of elements that come before it.
"""

from __future__ import annotations

from math import prod

import numpy as np

from edgetool.model.draft import STORED, Array, Draft
from edgetool.model.types import DType, Operator, Tensor
from edgetool.passes.elementwise import dequantized, is_quantized, quantized
from edgetool.passes.rewrite import Applied, Context, Rewrite, Steps

MAX_DIMENSIONS = 4  # of comparisons whose inputs differ in shape
INTEGERS = frozenset({DType.INT32})


def _select(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """SELECT_V2; its condition may be as long as the outermost axis, or the one value for all."""
    condition, chosen, other = operator.inputs
    rank = len(draft.tensors[chosen].shape)
    steps = Steps(draft, operator)
    size = draft.tensors[condition].shape
    if len(size) == 1 and rank > 1 and draft.tensors[condition].shape != draft.tensors[chosen].shape:
        condition = steps.reshape(condition, (*size, *(1,) * (rank - 1)))
    shape = draft.tensors[operator.outputs[0]].shape
    result = steps.step("SELECT_V2", [condition, chosen, other], shape, like=operator.outputs[0])
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("select-v2", result)


def _select_integers(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """other + (chosen - other) * condition, the condition being 0 or 1: wrapping around keeps it exact."""
    condition, chosen, other = operator.inputs
    output = draft.tensors[operator.outputs[0]]
    shapes = [draft.tensors[tensor].shape for tensor in operator.inputs]
    if output.dtype not in INTEGERS or any(shape not in ((), output.shape) for shape in shapes):
        return None
    steps = Steps(draft, operator)
    zero_or_one = steps.cast(condition, output.dtype)
    difference = _known_difference(draft, chosen, other)
    if difference is None:
        difference = steps.step("SUB", [chosen, other], _broadcast(shapes[1:]), like=operator.outputs[0])
    shape = _broadcast([shapes[0], draft.tensors[difference].shape])
    added = steps.step("MUL", [zero_or_one, difference], shape, like=operator.outputs[0])
    result = steps.step("ADD", [other, added], output.shape, like=operator.outputs[0])
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("select-integers", result)


def _known_difference(draft: Draft, chosen: int, other: int) -> int | None:
    """The constant by which `chosen` was made from `other`, as an index that counts from the end is."""
    made = draft.producer(chosen)
    plain = made is not None and made.options is not None and made.options["fused_activation_function"] == "NONE"
    if made is None or made.code != "ADD" or not plain or other not in made.inputs:
        return None
    (added,) = [tensor for tensor in made.inputs if tensor != other] or (other,)
    return added if draft.values(added) is not None and draft.tensors[added].shape == () else None


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    return np.broadcast_shapes(*shapes)


def _reduce_any(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Some are true when not all are false."""
    source, axes = operator.inputs
    shape, result = (draft.tensors[tensor].shape for tensor in (source, operator.outputs[0]))
    steps = Steps(draft, operator)
    keep = bool(operator.options["keep_dims"]) if operator.options else False
    inverted = steps.step("LOGICAL_NOT", [source], shape, like=source)
    none = steps.step("REDUCE_ALL", [inverted, axes], result, like=source, keep_dims=keep)
    some = steps.step("LOGICAL_NOT", [none], result, like=source)
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("reduce-any", some)


def _one_hot(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Each index compared with 0, 1, ...: where they are equal the one value, else the other.

    The values are taken by what they mean: converters give them scales of their own.
    """
    indices, depth, on, off = operator.inputs
    output = draft.tensors[operator.outputs[0]]
    count, values = draft.values(depth), [_meant(draft, tensor, output) for tensor in (on, off)]
    if count is None or operator.options is None or any(value is None for value in values):
        return None
    steps = Steps(draft, operator)
    indices = _as_int32(steps, indices)
    shape = draft.tensors[indices].shape
    axis = operator.options.integer("axis") % len(output.shape)
    outer, inner = prod(shape[:axis]), prod(shape[axis:])
    classes = np.arange(int(count.reshape(-1)[0]), dtype=np.int32).reshape(1, -1, 1)
    merged = (outer, classes.size, inner)
    inputs = [steps.reshape(indices, (outer, 1, inner)), steps.constant(classes)]
    is_class = steps.step("EQUAL", inputs, merged, like=indices, dtype=DType.BOOL)
    chosen = [
        steps.draft.constant("one_hot/value", np.asarray(value), output.quantization, output.dtype) for value in values
    ]
    result = steps.step("SELECT_V2", [is_class, *chosen], merged, like=operator.outputs[0])
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("one-hot", result)


def _meant(draft: Draft, tensor: int, output: Tensor) -> Array | None:
    """A constant of one element in the type and scale of the result."""
    value, own = draft.values(tensor), draft.tensors[tensor]
    if value is None or own.per_tensor == output.per_tensor or not (is_quantized(own) and is_quantized(output)):
        return value
    return quantized(dequantized(value, own), output).astype(value.dtype)


def _as_int32(steps: Steps, indices: int) -> int:
    """The indices before they were made int64, which are too large for a class where int32 cannot hold them."""
    draft = steps.draft
    cast = draft.producer(indices)
    if draft.tensors[indices].dtype is not DType.INT64 or cast is None or cast.code != "CAST":
        return indices
    (source,) = cast.inputs
    return source if draft.tensors[source].dtype is DType.INT32 else steps.cast(source, DType.INT32)


def _bucketize(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """How many boundaries are not above the value: comparisons, added up as floats."""
    source = operator.inputs[0]
    boundaries = operator.options["boundaries"] if operator.options else None
    if not isinstance(boundaries, tuple) or not boundaries or draft.tensors[source].dtype is not DType.FLOAT32:
        return None
    count = draft.tensors[source].element_count
    grid = (count, len(boundaries))
    steps = Steps(draft, operator)
    limits = steps.constant(np.array([boundaries], np.float32))
    above = steps.step(
        "GREATER_EQUAL", [steps.reshape(source, (count, 1)), limits], grid, like=source, dtype=DType.BOOL
    )
    total = steps.step("SUM", [steps.cast(above, DType.FLOAT32), steps.constant([1])], (count,), like=source)
    result = steps.cast(total, DType.INT32)
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("bucketize", result)


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
    """Compare all pairs; equal elements keep their order, as TOPK_V2 has it."""
    source = operator.inputs[0]
    tensor, k = draft.tensors[source], draft.values(operator.inputs[1])
    size, rows = tensor.shape[-1], prod(tensor.shape[:-1])
    if k is None or tensor.dtype not in RANKED or rows * size * size > MAX_PAIRS:
        return None
    count = int(k.reshape(-1)[0])
    steps = Steps(draft, operator)
    across = steps.reshape(source, (rows, 1, size))
    pairs = (rows, size, size)
    inputs = [across, steps.reshape(source, (rows, size, 1))]
    above = steps.step("GREATER", inputs, pairs, like=source, dtype=DType.BOOL)
    equal = steps.step("EQUAL", inputs, pairs, like=source, dtype=DType.BOOL)
    earlier = steps.constant(np.tri(size, k=-1, dtype=np.bool_).reshape(1, size, size))
    tied = steps.step("LOGICAL_AND", [equal, earlier], pairs, like=equal)
    before = steps.cast(steps.step("LOGICAL_OR", [above, tied], pairs, like=above), DType.FLOAT32)
    places = steps.step("SUM", [before, steps.constant([2])], (rows, size), like=before)
    order = steps.constant(np.arange(count, dtype=np.float32).reshape(1, count, 1))
    grid = (rows, count, size)
    is_there = steps.step("EQUAL", [steps.reshape(places, (rows, 1, size)), order], grid, like=above)
    lowest = -np.inf if tensor.dtype is DType.FLOAT32 else np.iinfo(STORED[tensor.dtype]).min
    nothing = draft.constant("top_k/lowest", np.asarray(lowest, STORED[tensor.dtype]), tensor.quantization)
    chosen = steps.step("SELECT_V2", [is_there, across, nothing], grid, like=source)
    values = steps.step("REDUCE_MAX", [chosen, steps.constant([2])], (rows, count), like=source)
    found = [steps.cast(is_there, DType.FLOAT32), steps.constant([2])]
    indices = steps.step("ARG_MAX", found, (rows, count), like=source, dtype=DType.INT32, output_type="INT32")
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("top-k", values, indices)


RANKING_RULES = (
    Rewrite(
        "top-k",
        "replaced by comparisons of all pairs: TensorFlow Lite Micro does not support TOPK_V2",
        _top_k,
        frozenset({"TOPK_V2"}),
    ),
)
