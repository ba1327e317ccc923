"""Removal of channels that no output depends on: constant ones, whose effect moves into a bias, and unread ones.

The range of each channel follows from the weights: if the smallest and the largest accumulator give the same quantized
value, then the channel has that value for every input. Only the int8 operators in FAMILIES are followed; every channel
that another operator reads or writes stays. A channel is an index of the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from edgetool.model.draft import Array, Draft
from edgetool.model.types import DType, Operator
from edgetool.passes.elementwise import is_quantized
from edgetool.passes.rewrite import ACTIVATIONS, fused_activation
from edgetool.passes.validation import is_consistent

Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

INT8 = (-128, 127)
INT32_MAX = (1 << 31) - 1
# The operators with weights, and the axis of their weights that has the output's channels.
OUTPUT_AXES = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
# Far more than float32 scales and the rounding of a 31-bit multiplier can change a real value by.
RELATIVE_ERROR = 1e-5


@dataclass(frozen=True, slots=True)
class RemovedChannels:
    """The channels that one operator no longer computes: its label, its output's name, and the number of channels."""

    operator_label: str
    tensor_name: str
    removed: int
    channels: int


@dataclass(frozen=True, slots=True)
class _Range:
    """The smallest and the largest value of each channel, both quantized."""

    low: Integers
    high: Integers

    @property
    def is_constant(self) -> Flags:
        return np.asarray(self.low == self.high)


@dataclass(frozen=True, slots=True)
class _Link:
    """Channels of an output that are computed from one channel of a source each: `positions` from `channels`."""

    source: int
    positions: Integers
    channels: Integers


@dataclass(frozen=True, slots=True)
class _Family:
    """What the pass knows about an operator.

    is_followed: whether its operands are of the kind that the other functions expect. range_after: the range of its
    output for those of its sources. links: the channels that depend on each other; None if each output channel depends
    on all input channels, by weights. without: the operator on the channels that stay; None if it does not change.
    """

    is_followed: Callable[[Draft, Operator], bool]
    range_after: Callable[[Draft, Operator, Sequence[_Range]], _Range]
    links: Callable[[Draft, Operator], tuple[_Link, ...]] | None
    without: Callable[[Draft, Operator, Mapping[int, Flags], Mapping[int, _Range]], Operator] | None = None


def remove_dead_channels(draft: Draft) -> list[RemovedChannels]:
    """Remove the channels of a subgraph that are constant or unread, if its outputs stay the same bit for bit.

    A constant channel that a convolution reads is added to the bias; if that convolution pads its input, the channel
    must have the value of the padding. A channel is removed only from all operators at once, and at least one stays.

    Returns:
        The operators with fewer channels, in execution order.
    """
    followed = {operator.index for operator in draft.operators if _is_followed(draft, operator)}
    ranges = _ranges(draft, followed)
    kept = _kept_channels(draft, followed, ranges)
    changed = [
        operator
        for operator in draft.operators
        if operator.index in followed
        and not all(kept[tensor].all() for tensor in (*_sources(operator), operator.outputs[0]))
    ]
    for operator in changed:
        without = FAMILIES[operator.code].without
        if without is not None:
            draft.replace(operator, without(draft, operator, kept, ranges))
    removed = []
    for operator in changed:
        output, flags = draft.tensors[operator.outputs[0]], kept[operator.outputs[0]]
        if flags.all():
            continue
        shape = (*output.shape[:-1], int(flags.sum()))
        signature = (*output.shape_signature[:-1], shape[-1]) if output.shape_signature else ()
        draft.tensors[output.index] = replace(output, shape=shape, shape_signature=signature)
        removed.append(RemovedChannels(operator.label, output.name, int((~flags).sum()), len(flags)))
    return removed


def _sources(operator: Operator) -> tuple[int, ...]:
    """Return the inputs that are not constants."""
    return operator.inputs if operator.code in {"ADD", "CONCATENATION"} else operator.inputs[:1]


def _is_followed(draft: Draft, operator: Operator) -> bool:
    """Return whether the pass knows which input channels each output channel of the operator depends on."""
    family = FAMILIES.get(operator.code)
    if family is None or len(operator.outputs) != 1 or not is_consistent(draft, operator):
        return False
    if min(_sources(operator)) < 0:
        return False
    for index in (*_sources(operator), operator.outputs[0]):
        tensor = draft.tensors[index]
        is_known = tensor.dtype is DType.INT8 and is_quantized(tensor) and len(tensor.shape) >= 2
        if not is_known or not tensor.element_count or tensor.is_variable or tensor.data is not None:
            return False
    return fused_activation(operator) in ACTIVATIONS and family.is_followed(draft, operator)


def _same_scale(draft: Draft, operator: Operator) -> bool:
    scales = {draft.tensors[index].per_tensor for index in (*_sources(operator), operator.outputs[0])}
    return len(scales) == 1


def _pads_only_the_image(draft: Draft, operator: Operator) -> bool:
    paddings = draft.values(operator.inputs[1]) if len(operator.inputs) == 2 and operator.inputs[1] >= 0 else None
    is_image = paddings is not None and paddings.shape == (4, 2) and not paddings[[0, 3]].any()
    return is_image and _same_scale(draft, operator)


def _pools_images(draft: Draft, operator: Operator) -> bool:
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    return (
        operator.options is not None
        and len(source.shape) == len(output.shape) == 4
        and source.shape[-1] == output.shape[-1]
        and source.quantization == output.quantization
    )


def _keeps_channels(draft: Draft, operator: Operator) -> bool:
    """Return whether MEAN reduces known axes other than the last one."""
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    axes = draft.values(operator.inputs[1]) if operator.inputs[1] >= 0 else None
    rank = len(source.shape)
    return (
        axes is not None
        and axes.size > 0
        and all(int(axis) % rank != rank - 1 for axis in axes.reshape(-1))
        and output.shape[-1] == source.shape[-1]
    )


def _repeats_channels(draft: Draft, operator: Operator) -> bool:
    """Return whether each row of a RESHAPE's output consists of rows of its input, and its shape is known."""
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    if not _same_scale(draft, operator) or output.shape[-1] % source.shape[-1]:
        return False
    shape = draft.values(operator.inputs[1]) if len(operator.inputs) > 1 and operator.inputs[1] >= 0 else None
    return len(operator.inputs) == 1 or (shape is not None and shape.shape == (len(output.shape),))


def _adds_channels(draft: Draft, operator: Operator) -> bool:
    return len({draft.tensors[index].shape for index in (*operator.inputs, *operator.outputs)}) == 1


def _joins_channels(draft: Draft, operator: Operator) -> bool:
    return _same_scale(draft, operator) and fused_activation(operator) == "NONE"


def _has_known_weights(draft: Draft, operator: Operator) -> bool:
    """Return whether a convolution has constant symmetric int8 weights, one group, and as many biases as channels.

    The weights of FULLY_CONNECTED may be those of several pixels.
    """
    if operator.options is None or operator.inputs[1] < 0:
        return False
    weights, codes = draft.tensors[operator.inputs[1]], draft.values(operator.inputs[1])
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    channels, depth, quantization = output.shape[-1], source.shape[-1], weights.quantization
    if codes is None or weights.dtype is not DType.INT8 or quantization is None:
        return False
    if quantization.details is not None or any(quantization.zero_points):
        return False
    if not all(0 < scale < math.inf for scale in quantization.scales):
        return False
    axis = OUTPUT_AXES[operator.code]
    if len(quantization.scales) not in {1, channels} or (quantization.per_channel and quantization.axis != axis):
        return False
    if operator.code == "FULLY_CONNECTED":
        is_plain = operator.options.text("weights_format") == "DEFAULT"
        if not is_plain or codes.ndim != 2 or codes.shape[0] != channels or codes.shape[1] % depth:
            return False
    else:
        expected = (channels, depth) if axis == 0 else (1, channels)
        if codes.ndim != 4 or len(source.shape) != 4 or (codes.shape[0], codes.shape[3]) != expected:
            return False
        if axis == 3 and depth != channels:
            return False
    bias = operator.inputs[2] if len(operator.inputs) > 2 else -1
    if bias < 0:
        return True
    values = draft.values(bias)
    return values is not None and draft.tensors[bias].dtype is DType.INT32 and values.shape == (channels,)


def _ranges(draft: Draft, followed: set[int]) -> dict[int, _Range]:
    """Return the range of each tensor of which a followed operator reads or writes channels."""
    ranges: dict[int, _Range] = {}
    for operator in draft.operators:
        if operator.index not in followed:
            continue
        for source in _sources(operator):
            ranges.setdefault(source, _full_range(draft.tensors[source].shape[-1]))
        before = [ranges[source] for source in _sources(operator)]
        ranges[operator.outputs[0]] = FAMILIES[operator.code].range_after(draft, operator, before)
    return ranges


def _full_range(channels: int) -> _Range:
    return _Range(np.full(channels, INT8[0], np.int64), np.full(channels, INT8[1], np.int64))


def _quantization(draft: Draft, tensor: int) -> tuple[float, int]:
    """Return the scale and the zero point of a tensor of a followed operator."""
    quantization = draft.tensors[tensor].per_tensor
    assert quantization is not None
    return quantization


def _padded_range(draft: Draft, operator: Operator, sources: Sequence[_Range]) -> _Range:
    zero_point = _quantization(draft, operator.outputs[0])[1]
    return _Range(np.minimum(sources[0].low, zero_point), np.maximum(sources[0].high, zero_point))


def _pooled_range(draft: Draft, operator: Operator, sources: Sequence[_Range]) -> _Range:
    limits = _activation_limits(operator, _quantization(draft, operator.outputs[0]))
    if limits is None:
        return _full_range(len(sources[0].low))
    return _Range(np.clip(sources[0].low, *limits), np.clip(sources[0].high, *limits))


def _mean_range(draft: Draft, operator: Operator, sources: Sequence[_Range]) -> _Range:
    """Return zero for channels that are zero: kernels round other means in different ways."""
    zero_point = _quantization(draft, operator.inputs[0])[1]
    is_zero = (sources[0].low == zero_point) & (sources[0].high == zero_point)
    full, result = _full_range(len(is_zero)), _quantization(draft, operator.outputs[0])[1]
    return _Range(np.where(is_zero, result, full.low), np.where(is_zero, result, full.high))


def _added_range(draft: Draft, operator: Operator, sources: Sequence[_Range]) -> _Range:
    """Return the range of a sum, with the error of its fixed-point arithmetic.

    Kernels scale both inputs to twice the larger scale in steps of 2^-20, and then the sum to the output: each of
    these three steps rounds by at most one unit. Source: PrepareAdd in add.cc, with left_shift 20.
    """
    scale, zero_point = _quantization(draft, operator.outputs[0])
    limits = _activation_limits(operator, (scale, zero_point))
    if limits is None:
        return _full_range(len(sources[0].low))
    inputs = [_quantization(draft, tensor) for tensor in operator.inputs]
    unit = 2 * max(each for each, _ in inputs) / 2**20 / scale
    ends = []
    for side, values in ((-1, [source.low for source in sources]), (1, [source.high for source in sources])):
        pairs = zip(values, inputs, strict=True)
        total = np.sum([(value - zero) * (each / scale) for value, (each, zero) in pairs], axis=0)
        margin = 4 * unit + np.abs(total) * RELATIVE_ERROR
        ends.append(np.asarray(np.clip(np.rint(total + side * margin) + zero_point, *limits), np.int64))
    return _Range(ends[0], ends[1])


def _linked_range(draft: Draft, operator: Operator, sources: Sequence[_Range]) -> _Range:
    """Return the range of an output whose elements are those of its sources."""
    channels = draft.tensors[operator.outputs[0]].shape[-1]
    full = _full_range(channels)
    low, high = full.high, full.low
    for link, source in zip(_links(draft, operator), sources, strict=True):
        low[link.positions] = np.minimum(low[link.positions], source.low[link.channels])
        high[link.positions] = np.maximum(high[link.positions], source.high[link.channels])
    return _Range(low, high)


def _links(draft: Draft, operator: Operator) -> tuple[_Link, ...]:
    """Return the channels that an operator connects; channels of the output repeat those of a smaller source."""
    output = draft.tensors[operator.outputs[0]]
    sources = [draft.tensors[index] for index in _sources(operator)]
    if operator.code != "CONCATENATION" or operator.options is None or not _is_last_axis(operator, len(output.shape)):
        positions = np.arange(output.shape[-1])
        return tuple(_Link(source.index, positions, positions % source.shape[-1]) for source in sources)
    links, first = [], 0
    for source in sources:
        channels = np.arange(source.shape[-1])
        links.append(_Link(source.index, first + channels, channels))
        first += len(channels)
    return tuple(links)


def _is_last_axis(operator: Operator, rank: int) -> bool:
    return operator.options is not None and operator.options.integer("axis") % rank == rank - 1


def _weighted_range(draft: Draft, operator: Operator, sources: Sequence[_Range]) -> _Range:
    output = draft.tensors[operator.outputs[0]]
    scale, zero_point = _quantization(draft, operator.outputs[0])
    limits = _activation_limits(operator, (scale, zero_point))
    if limits is None:
        return _full_range(output.shape[-1])
    low, high = _accumulators(draft, operator, sources[0])
    real = _scales(draft, operator) / scale
    exponents = np.frexp(real)[1]
    # Kernels shift accumulators left by a positive exponent, in 32 bits.
    largest = np.maximum(np.abs(low), np.abs(high)) * np.exp2(np.maximum(exponents, 0))
    if not np.all(largest <= INT32_MAX):
        return _full_range(output.shape[-1])
    # They shift right by a negative one, after a first rounding that moves the value by at most half of this.
    first_rounding = np.exp2(np.minimum(exponents, 0))

    def outward(accumulators: Integers, side: int) -> Integers:
        values = accumulators * real
        margin = first_rounding + np.abs(values) * RELATIVE_ERROR
        rounded = np.clip(np.rint(values + side * margin) + zero_point, *limits)
        return np.asarray(rounded, np.int64)

    return _Range(outward(low, -1), outward(high, 1))


def _activation_limits(operator: Operator, quantization: tuple[float, int]) -> tuple[int, int] | None:
    """Return the limits of quantized outputs; None if rounding leaves one uncertain."""
    scale, zero_point = quantization
    limits = list(INT8)
    for i, value in enumerate(ACTIVATIONS[fused_activation(operator)]):
        if math.isinf(value):
            continue
        steps = value / scale
        if abs(steps - math.floor(steps) - 0.5) <= RELATIVE_ERROR * max(1.0, abs(steps)):
            return None
        limits[i] = min(max(zero_point + round(steps), INT8[0]), INT8[1])
    return limits[0], limits[1]


def _accumulators(draft: Draft, operator: Operator, source: _Range) -> tuple[Integers, Integers]:
    """Return the smallest and the largest accumulator of each output channel; padding counts as zero."""
    weights = _weights(draft, operator)
    zero_point = _quantization(draft, operator.inputs[0])[1]
    low, high = source.low - zero_point, source.high - zero_point
    if _may_pad(draft, operator):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    positive, negative = np.maximum(weights, 0), np.minimum(weights, 0)
    axes = tuple(axis for axis in range(4) if axis != OUTPUT_AXES[operator.code])
    bias = _bias(draft, operator)
    return (
        bias + (positive * low + negative * high).sum(axis=axes),
        bias + (positive * high + negative * low).sum(axis=axes),
    )


def _weights(draft: Draft, operator: Operator) -> Integers:
    """Return the weights in four dimensions: those of FULLY_CONNECTED are of one row of pixels."""
    values = draft.values(operator.inputs[1])
    assert values is not None
    if operator.code == "FULLY_CONNECTED":
        values = values.reshape(len(values), 1, -1, draft.tensors[operator.inputs[0]].shape[-1])
    return values.astype(np.int64)


def _bias(draft: Draft, operator: Operator) -> Integers:
    bias = operator.inputs[2] if len(operator.inputs) > 2 else -1
    values = draft.values(bias)
    channels = draft.tensors[operator.outputs[0]].shape[-1]
    return np.zeros(channels, np.int64) if values is None else values.astype(np.int64)


def _scales(draft: Draft, operator: Operator) -> npt.NDArray[np.float64]:
    """Return the scale of each output channel's accumulators."""
    weights = draft.tensors[operator.inputs[1]]
    assert weights.quantization is not None
    channels = draft.tensors[operator.outputs[0]].shape[-1]
    scales = np.broadcast_to(np.asarray(weights.quantization.scales, np.float64), channels)
    return scales * _quantization(draft, operator.inputs[0])[0]


def _may_pad(draft: Draft, operator: Operator) -> bool:
    if operator.code == "FULLY_CONNECTED":
        return False
    height, width = draft.tensors[operator.inputs[1]].shape[1:3]
    assert operator.options is not None
    return operator.options.text("padding") != "VALID" and (height, width) != (1, 1)


def _kept_channels(draft: Draft, followed: set[int], ranges: Mapping[int, _Range]) -> dict[int, Flags]:
    """Return the channels that must stay, by tensor: the smallest set in which every reader has what it needs."""
    kept: dict[int, Flags] = {}
    for tensor in ranges:
        producer = draft.producer(tensor)
        is_free = producer is not None and producer.index in followed and tensor not in draft.outputs
        is_free = is_free and all(_follows(reader, tensor, followed) for reader in draft.consumers(tensor))
        kept[tensor] = np.full(len(ranges[tensor].low), not is_free)
    operators = [operator for operator in reversed(draft.operators) if operator.index in followed]
    changed = True
    while changed:
        before = sum(int(flags.sum()) for flags in kept.values())
        for operator in operators:
            _keep_operands(draft, operator, kept, ranges)
        changed = sum(int(flags.sum()) for flags in kept.values()) > before
        for flags in kept.values() if not changed else ():
            if not flags.any():  # a tensor needs at least one channel
                flags[0] = changed = True
    return kept


def _follows(reader: Operator, tensor: int, followed: set[int]) -> bool:
    """Return whether the pass follows the reader, and the tensor is none of its constants."""
    return reader.index in followed and tensor not in reader.inputs[len(_sources(reader)) :]


def _keep_operands(draft: Draft, operator: Operator, kept: dict[int, Flags], ranges: Mapping[int, _Range]) -> None:
    """Mark the channels that the operator needs, or that it connects with channels that must stay."""
    output, links = operator.outputs[0], FAMILIES[operator.code].links
    if links is None:
        source = operator.inputs[0]
        kept[source] = kept[source] | _needed(draft, operator, kept[output], ranges[source])
        return
    for link in links(draft, operator):
        kept[output][link.positions] |= kept[link.source][link.channels]
        np.logical_or.at(kept[link.source], link.channels, kept[output][link.positions])


def _needed(draft: Draft, operator: Operator, kept_outputs: Flags, source: _Range) -> Flags:
    """Return the input channels that a convolution cannot do without: those that it weighs and that may vary.

    A constant channel is needed too if padding replaces it, or if the bias would exceed int32.
    """
    weights = _weights(draft, operator)[kept_outputs]
    is_constant = source.is_constant
    zero_point = _quantization(draft, operator.inputs[0])[1]
    if _may_pad(draft, operator):
        is_constant = is_constant & (source.low == zero_point)
    folded = np.abs(weights).sum(axis=(1, 2)) * np.abs(source.low - zero_point)
    largest = np.abs(_bias(draft, operator)[kept_outputs]) + folded[:, is_constant].sum(axis=1)
    if (largest > INT32_MAX).any():
        is_constant = np.zeros_like(is_constant)
    return np.asarray(weights.any(axis=(0, 1, 2)) & ~is_constant)


def _convolution_without(
    draft: Draft, operator: Operator, kept: Mapping[int, Flags], ranges: Mapping[int, _Range]
) -> Operator:
    """Return a convolution on the channels that stay; its bias has the effect of the removed constants."""
    source, output = kept[operator.inputs[0]], kept[operator.outputs[0]]
    weights, bias = _weights(draft, operator), _bias(draft, operator)
    constants = ranges[operator.inputs[0]].low - _quantization(draft, operator.inputs[0])[1]
    bias = bias + (weights.sum(axis=(1, 2)) * constants)[:, ~source].sum(1)
    weights = weights[output][..., source]
    if operator.code == "FULLY_CONNECTED":
        weights = weights.reshape(len(weights), -1)
    return _with_weights(draft, operator, weights, bias, output)


def _depthwise_without(
    draft: Draft, operator: Operator, kept: Mapping[int, Flags], ranges: Mapping[int, _Range]
) -> Operator:
    output = kept[operator.outputs[0]]
    return _with_weights(draft, operator, _weights(draft, operator)[..., output], _bias(draft, operator), output)


def _with_weights(draft: Draft, operator: Operator, weights: Integers, bias: Integers, output: Flags) -> Operator:
    """Return the operator with these weights, and with the biases of the output channels that stay."""
    inputs = list(operator.inputs)
    inputs[1] = _constant(draft, operator.inputs[1], weights, output)
    had_bias = len(inputs) > 2 and inputs[2] >= 0
    if had_bias:
        inputs[2] = _constant(draft, inputs[2], bias[output], output)
    elif bias[output].any():
        name = draft.tensors[operator.outputs[0]].name
        inputs[2:] = [draft.constant(f"{name}/bias", bias[output], None, DType.INT32)]
    return replace(operator, inputs=tuple(inputs))


def _reshape_without(
    draft: Draft, operator: Operator, kept: Mapping[int, Flags], ranges: Mapping[int, _Range]
) -> Operator:
    """Return a RESHAPE to the channels that stay; a size of -1 remains."""
    size = int(kept[operator.outputs[0]].sum())

    def resized(shape: Sequence[Any]) -> tuple[int, ...]:
        return tuple(shape) if not shape or shape[-1] < 0 else (*shape[:-1], size)

    inputs, options = operator.inputs, operator.options
    if len(inputs) > 1:
        values = draft.values(inputs[1])
        assert values is not None
        shape = draft.tensors[inputs[1]]
        inputs = (inputs[0], draft.constant(shape.name, resized(values.tolist()), None, shape.dtype))
    if options is not None and isinstance(new_shape := options["new_shape"], tuple):
        options = replace(options, fields=(("new_shape", resized(new_shape)),))
    return replace(operator, inputs=inputs, options=options)


def _constant(draft: Draft, old: int, values: Array, output: Flags) -> int:
    """Return a constant of the old one's name and type, with the scales of the channels that stay."""
    tensor = draft.tensors[old]
    quantization = tensor.quantization
    if quantization is not None:
        quantization = replace(
            quantization,
            scales=_selected(quantization.scales, output),
            zero_points=_selected(quantization.zero_points, output),
            minimum=_selected(quantization.minimum, output),
            maximum=_selected(quantization.maximum, output),
        )
    return draft.constant(tensor.name, values, quantization, tensor.dtype)


def _selected(values: Sequence[Any], output: Flags) -> tuple[Any, ...]:
    if len(values) != len(output):
        return tuple(values)
    return tuple(value for value, stays in zip(values, output, strict=True) if stays)


_POOLING = _Family(_pools_images, _pooled_range, _links)
FAMILIES: Mapping[str, _Family] = {
    "ADD": _Family(_adds_channels, _added_range, _links),
    "AVERAGE_POOL_2D": _POOLING,
    "CONCATENATION": _Family(_joins_channels, _linked_range, _links),
    "CONV_2D": _Family(_has_known_weights, _weighted_range, None, _convolution_without),
    "DEPTHWISE_CONV_2D": _Family(_has_known_weights, _weighted_range, _links, _depthwise_without),
    "FULLY_CONNECTED": _Family(_has_known_weights, _weighted_range, None, _convolution_without),
    "MAX_POOL_2D": _POOLING,
    "MEAN": _Family(_keeps_channels, _mean_range, _links),
    "PAD": _Family(_pads_only_the_image, _padded_range, _links),
    "RESHAPE": _Family(_repeats_channels, _linked_range, _links, _reshape_without),
}
