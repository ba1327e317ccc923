"""Normalizations of float32 graphs in the form that stays accurate in int8, as for Keras models.

- A normalization by channel that no convolution absorbs becomes a depthwise convolution of size 1, which has a scale
  for each channel and rounds once.
- A layer normalization subtracts the mean first. Written as x * inverse - mean * inverse, it is a difference of large
  numbers. Over at most 16 values it becomes L2_NORMALIZATION, which does not round in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgetool.model.draft import Array, Draft
from edgetool.model.types import DType, Model, Operator, Tensor
from edgetool.passes.elementwise import apply, is_function
from edgetool.passes.float_forms import channel_affine
from edgetool.passes.legalize import dead_operators
from edgetool.passes.rewrite import OperatorBuilder, fused_activation
from edgetool.passes.validation import is_consistent, is_in_order

# L2_NORMALIZATION squares, sums and divides without rounding in between, but its results are multiples of 1/128, and n
# values are each about 1/sqrt(n). Measured: it is more accurate up to this number of values.
MAX_L2_VALUES = 16
# TFLM keeps a multiplier and a shift for each channel of a convolution in the arena. Together they may occupy this
# fraction (1/8) of the largest normalized tensor.
BYTES_PER_CHANNEL = 8
LARGEST_TENSOR_DIVISOR = 8
IMAGE_RANK = 4
MAX_ELEMENTS = 1 << 16  # of a tensor for which the function of a graph is evaluated
TOLERANCE = 1e-4


def normalize_accurately(model: Model, use_l2: bool) -> Model:
    """Return the model with its normalizations rewritten; itself if there are none.

    use_l2: whether L2_NORMALIZATION computes in int8; int16 needs no better form.
    """
    draft = Draft(model)
    if not is_in_order(draft):
        return model
    changed = [_normalize_layer(draft, each, use_l2) for each in _layer_normalizations(draft)]
    changed += list(_normalize_channels(draft))
    if not any(changed):
        return model
    while dead := dead_operators(draft):
        for operator in dead:
            draft.replace(operator)
    return draft.finish()


# By channel


def _normalize_channels(draft: Draft) -> Iterator[bool]:
    """Replace a product and a sum by a convolution, in order, as long as memory allows; yield True for each."""
    ends = [
        operator for operator in draft.operators if operator.code in ("ADD", "SUB") and _is_by_channel(draft, operator)
    ]
    available = max((draft.tensors[end.outputs[0]].element_count for end in ends), default=0) // LARGEST_TENSOR_DIVISOR
    for end in ends:
        output = draft.tensors[end.outputs[0]]
        available -= BYTES_PER_CHANNEL * output.shape[-1]
        affine = channel_affine(draft, end)
        if affine is None or available < 0:
            continue
        builder = OperatorBuilder(draft, end)
        weights = builder.constant(affine.factor.reshape(1, 1, 1, -1))
        inputs = [affine.source, weights, builder.constant(affine.offset)]
        result = builder.add(
            "DEPTHWISE_CONV_2D",
            inputs,
            output.shape,
            like=affine.source,
            padding="VALID",
            stride_w=1,
            stride_h=1,
            depth_multiplier=1,
            fused_activation_function=fused_activation(end),
        )
        builder.finish("by-channel", result)
        yield True


def _is_by_channel(draft: Draft, operator: Operator) -> bool:
    """Return whether it is the last of operators that normalize images, with factors that differ."""
    output = draft.tensors[operator.outputs[0]]
    affine = channel_affine(draft, operator)
    if affine is None or len(affine.operators) < 2 or len(output.shape) != IMAGE_RANK:
        return False
    if any(_continues(draft, reader, operator) for reader in draft.consumers(operator.outputs[0])):
        return False
    is_one = [len(np.unique(values)) == 1 for values in (affine.factor, affine.offset)]
    return not all(is_one) and (affine.factor != 1).any()


def _continues(draft: Draft, reader: Operator, operator: Operator) -> bool:
    """Return whether the chain that ends at `operator` goes on in a reader of it."""
    affine = channel_affine(draft, reader)
    return affine is not None and any(each.index == operator.index for each in affine.operators)


# Layers


@dataclass(frozen=True, slots=True)
class _LayerNormalization:
    """source, mean, inverse: the tensors x, its mean over the axes, and 1 / sqrt(its variance + epsilon).

    last: the operator that computes (x - mean) * inverse * scale + shift.
    """

    source: Tensor
    mean: Tensor
    inverse: Tensor
    axes: tuple[int, ...]
    epsilon: float
    last: Operator
    scale: Array
    shift: Array


def _layer_normalizations(draft: Draft) -> list[_LayerNormalization]:
    candidates = [_layer_normalization(draft, operator) for operator in draft.operators if operator.code == "RSQRT"]
    return [each for each in candidates if each is not None]


def _layer_normalization(draft: Draft, rsqrt: Operator) -> _LayerNormalization | None:
    """Return the normalization that an RSQRT of a variance belongs to."""
    variance, epsilon = rsqrt.inputs[0], 0.0
    producer = draft.producer(variance)
    if producer is not None and producer.code == "ADD":
        values = [draft.values(index) for index in producer.inputs]
        place = 0 if values[0] is not None else 1
        constant = values[place]
        if constant is None or constant.size != 1 or fused_activation(producer) != "NONE":
            return None
        epsilon, variance = float(constant.reshape(-1)[0]), producer.inputs[1 - place]
        producer = draft.producer(variance)
    axes = None if producer is None else _mean_axes(draft, producer)
    if producer is None or not axes:
        return None
    centred = _source_of_square(draft, producer.inputs[0])
    if centred is None:
        return None
    source, mean = centred
    mean_of = draft.producer(mean)
    if mean_of is None or mean_of.inputs[0] != source or _mean_axes(draft, mean_of) != axes:
        return None
    tensors = (draft.tensors[source], draft.tensors[mean], draft.tensors[rsqrt.outputs[0]])
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(tensors[0].shape))
    if tensors[1].shape != kept or tensors[2].shape != kept or tensors[0].element_count > MAX_ELEMENTS:
        return None
    return _last_operator(draft, tensors, axes, epsilon)


def _mean_axes(draft: Draft, operator: Operator) -> tuple[int, ...] | None:
    """Return the axes of more than one element over which a MEAN is computed."""
    if operator.code != "MEAN" or not is_consistent(draft, operator):
        return None
    values, shape = draft.values(operator.inputs[1]), draft.tensors[operator.inputs[0]].shape
    if values is None or draft.tensors[operator.inputs[0]].dtype is not DType.FLOAT32:
        return None
    return tuple(sorted({int(axis) % len(shape) for axis in values.reshape(-1) if shape[axis] != 1}))


def _source_of_square(draft: Draft, tensor: int) -> tuple[int, int] | None:
    """Return x and m if the tensor is (x - m) ** 2."""
    operator = draft.producer(tensor)
    if operator is None or fused_activation(operator) != "NONE":
        return None
    if operator.code == "SQUARED_DIFFERENCE":
        return operator.inputs[0], operator.inputs[1]
    if operator.code not in ("MUL", "SQUARE") or len(set(operator.inputs)) != 1:
        return None
    difference = draft.producer(operator.inputs[0])
    if difference is None or difference.code != "SUB" or fused_activation(difference) != "NONE":
        return None
    return difference.inputs[0], difference.inputs[1]


def _last_operator(
    draft: Draft, tensors: tuple[Tensor, Tensor, Tensor], axes: tuple[int, ...], epsilon: float
) -> _LayerNormalization | None:
    """Return the normalization with the last operator whose result is the normalized source, scaled and shifted.

    The graph is evaluated for numbers in place of the source, its mean and the inverse: random ones, and the limits of
    n normalized values, which are -sqrt(n) and sqrt(n), so that clamps are no part of it unless they have no effect.
    """
    source, mean, inverse = tensors
    random = np.random.default_rng(0)
    zero, one = np.zeros(source.shape), np.ones(source.shape)
    still = (np.zeros(mean.shape), np.ones(mean.shape))
    numbers = (random.normal(size=source.shape), random.normal(size=mean.shape), random.uniform(0.5, 2, mean.shape))
    limit = one * math.sqrt(source.element_count / mean.element_count)
    cases = ((zero, *still), (one, *still), numbers, (limit, *still), (-limit, *still))
    given = [dict(zip((each.index for each in tensors), values, strict=True)) for values in cases]
    best = None
    for operator in draft.operators:
        if not is_function(operator) or any(operator.outputs[0] in values for values in given):
            continue
        if any(index not in given[0] and draft.values(index) is None for index in operator.inputs):
            continue
        for values in given:
            inputs = [values[index] if index in values else draft.values(index) for index in operator.inputs]
            values[operator.outputs[0]] = apply(operator, *(np.asarray(each, np.float64) for each in inputs))
        at_zero, at_one, *results = (values[operator.outputs[0]] for values in given)
        if at_one.shape != source.shape:
            continue
        scale, shift = at_one - at_zero, at_zero
        expected = [(x - middle) * factor * scale + shift for x, middle, factor in cases[2:]]
        if np.isfinite(results).all() and np.allclose(results, expected, rtol=TOLERANCE, atol=TOLERANCE):
            best = _LayerNormalization(source, mean, inverse, axes, epsilon, operator, scale, shift)
    return best


def _normalize_layer(draft: Draft, each: _LayerNormalization, use_l2: bool) -> bool:
    """Subtract the mean, divide by the root mean square, then scale and shift."""
    operator = draft.operator(each.last.index)
    if operator is None:
        return False
    builder, shape, like = OperatorBuilder(draft, operator), each.source.shape, each.source.index
    result = builder.add("SUB", [like, each.mean.index], shape, like=like)
    scale = each.scale
    if use_l2 and each.axes == (len(shape) - 1,) and shape[-1] <= MAX_L2_VALUES:
        count = shape[-1]
        root = math.sqrt(count)
        # Add n * epsilon to the sum of squares, as the square of an additional value.
        more = builder.constant(np.full((*shape[:-1], 1), root * math.sqrt(each.epsilon), np.float32))
        longer = (*shape[:-1], count + 1)
        result = builder.add("CONCATENATION", [result, more], longer, like=like, axis=len(shape) - 1)
        result = builder.add("L2_NORMALIZATION", [result], longer, like=like)
        begin, size = builder.constant([0] * len(shape)), builder.constant(list(shape))
        result = builder.add("SLICE", [result, begin, size], shape, like=like)
        scale = scale * root
    else:
        square = builder.add("MUL", [result, result], shape, like=like)
        axes = builder.constant(list(each.axes))
        kept = each.mean.shape
        variance = builder.add("MEAN", [square, axes], kept, like=like, keep_dims=True)
        if each.epsilon:
            variance = builder.add("ADD", [variance, builder.constant(np.float32(each.epsilon))], kept, like=like)
        result = builder.add("MUL", [result, builder.add("RSQRT", [variance], kept, like=like)], shape, like=like)
    for code, values, neutral in (("MUL", scale, 1), ("ADD", each.shift, 0)):
        narrow = _narrow(values)
        if (np.abs(narrow - neutral) > TOLERANCE).any():
            result = builder.add(code, [result, builder.constant(narrow.astype(np.float32))], shape, like=like)
    builder.finish("normalize-layer", result)
    return True


def _narrow(values: Array) -> Array:
    """Return the values without the axes along which they are the same."""
    for axis, size in enumerate(values.shape):
        first = np.take(values, [0], axis)
        if size > 1 and np.allclose(values, first, rtol=1e-6, atol=1e-7):
            values = first
    while values.ndim > 1 and values.shape[0] == 1:
        values = values[0]
    return values
