"""Removal of channels that no output depends on: constant ones, whose effect moves into a bias, and unread ones.

The range of each channel follows from the weights: if the smallest and the largest accumulator give the same quantized
value, then the channel has that value for every input. Only int8 convolutions, depthwise convolutions, pooling and
padding are followed; every channel that another operator reads or writes stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from edgetool.model.draft import Array, Draft
from edgetool.model.metadata import keeps_own_plan
from edgetool.model.types import DType, Model, Operator
from edgetool.model.views import VIEWS_METADATA_NAME
from edgetool.passes.validation import is_consistent, is_in_order

Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

INT8 = (-128, 127)
INT32_MAX = (1 << 31) - 1
# Activation functions as ranges of real values.
ACTIVATIONS: dict[str, tuple[float, float]] = {
    "NONE": (-math.inf, math.inf),
    "RELU": (0.0, math.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}
POOLING = frozenset({"AVERAGE_POOL_2D", "MAX_POOL_2D"})
CHANNEL_WISE = POOLING | {"DEPTHWISE_CONV_2D", "PAD"}
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
class Trimmed:
    """The model, and the operators with fewer channels in execution order; if there are none, it is the input model."""

    model: Model
    removed: tuple[RemovedChannels, ...]


@dataclass(frozen=True, slots=True)
class _Range:
    """The smallest and the largest value of each channel, both quantized."""

    low: Integers
    high: Integers

    @property
    def is_constant(self) -> Flags:
        return np.asarray(self.low == self.high)


def remove_dead_channels(model: Model) -> Trimmed:
    """Return the model without channels that are constant or unread, where its outputs stay the same bit for bit.

    A constant channel that a convolution reads is added to the bias; if that convolution pads its input, the channel
    must have the value of the padding. A channel is removed only from all operators at once, and at least one stays.
    A model in stripes, or compiled for an accelerator, does not change. An offline plan is removed if anything changed.
    """
    if keeps_own_plan(model) or any(entry.name == VIEWS_METADATA_NAME for entry in model.metadata):
        return Trimmed(model, ())
    removed: list[RemovedChannels] = []
    for subgraph in range(len(model.subgraphs)):
        draft = Draft(model, subgraph)
        changes = _trim(draft) if is_in_order(draft) else []
        if changes:
            model = draft.finish()
            removed += changes
    return Trimmed(model, tuple(removed))


def _trim(draft: Draft) -> list[RemovedChannels]:
    followed = {operator.index for operator in draft.operators if _is_followed(draft, operator)}
    ranges = _ranges(draft, followed)
    kept = _kept_channels(draft, followed, ranges)
    changed = [
        operator
        for operator in draft.operators
        if operator.index in followed and not (kept[operator.inputs[0]].all() and kept[operator.outputs[0]].all())
    ]
    for operator in changed:
        draft.replace(operator, _without_channels(draft, operator, kept, ranges))
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


def _is_followed(draft: Draft, operator: Operator) -> bool:
    """Return whether the pass knows which input channels each output channel of the operator depends on."""
    if operator.code not in CHANNEL_WISE | {"CONV_2D"} or len(operator.outputs) != 1:
        return False
    if not is_consistent(draft, operator) or min(operator.inputs[:2]) < 0:
        return False
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    if any(len(t.shape) != 4 or t.dtype is not DType.INT8 or t.per_tensor is None for t in (source, output)):
        return False
    if source.is_variable or output.is_variable or source.data is not None:
        return False
    if operator.code == "PAD":
        return _pads_only_the_image(draft, operator)
    if operator.options is None or operator.options.text("fused_activation_function") not in ACTIVATIONS:
        return False
    if operator.code in POOLING:
        return source.shape[-1] == output.shape[-1] and source.quantization == output.quantization
    return _has_known_weights(draft, operator)


def _pads_only_the_image(draft: Draft, operator: Operator) -> bool:
    paddings = draft.values(operator.inputs[1]) if len(operator.inputs) == 2 else None
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    same_scale = source.per_tensor == output.per_tensor
    return paddings is not None and paddings.shape == (4, 2) and not paddings[[0, 3]].any() and same_scale


def _has_known_weights(draft: Draft, operator: Operator) -> bool:
    """Return whether a convolution has constant symmetric int8 weights, one group, and as many biases as channels."""
    weights, codes = draft.tensors[operator.inputs[1]], draft.values(operator.inputs[1])
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    channels, quantization = output.shape[-1], weights.quantization
    if codes is None or codes.ndim != 4 or weights.dtype is not DType.INT8 or quantization is None:
        return False
    if quantization.details is not None or any(quantization.zero_points):
        return False
    axis = 0 if operator.code == "CONV_2D" else 3
    if len(quantization.scales) not in {1, channels} or (quantization.per_channel and quantization.axis != axis):
        return False
    expected = (channels, source.shape[-1]) if axis == 0 else (1, channels)
    if (codes.shape[0], codes.shape[3]) != expected or (axis == 3 and source.shape[-1] != channels):
        return False
    bias = operator.inputs[2] if len(operator.inputs) > 2 else -1
    if bias < 0:
        return True
    values = draft.values(bias)
    return values is not None and draft.tensors[bias].dtype is DType.INT32 and values.shape == (channels,)


def _ranges(draft: Draft, followed: set[int]) -> dict[int, _Range]:
    """Return the range of each rank-4 int8 tensor of which a followed operator reads or writes channels."""
    ranges: dict[int, _Range] = {}
    for operator in draft.operators:
        if operator.index not in followed:
            continue
        source, output = operator.inputs[0], operator.outputs[0]
        if source not in ranges:
            ranges[source] = _full_range(draft.tensors[source].shape[-1])
        ranges[output] = _range_after(draft, operator, ranges[source])
    return ranges


def _full_range(channels: int) -> _Range:
    return _Range(np.full(channels, INT8[0], np.int64), np.full(channels, INT8[1], np.int64))


def _range_after(draft: Draft, operator: Operator, source: _Range) -> _Range:
    output = draft.tensors[operator.outputs[0]]
    assert output.per_tensor is not None
    if operator.code == "PAD":
        zero_point = output.per_tensor[1]
        return _Range(np.minimum(source.low, zero_point), np.maximum(source.high, zero_point))
    limits = _activation_limits(operator, output.per_tensor)
    if limits is None:
        return _full_range(output.shape[-1])
    if operator.code in POOLING:
        return _Range(np.clip(source.low, *limits), np.clip(source.high, *limits))
    low, high = _accumulators(draft, operator, source)
    real = _scales(draft, operator) / output.per_tensor[0]
    zero_point = output.per_tensor[1]
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
    assert operator.options is not None
    limits = list(INT8)
    real = ACTIVATIONS[operator.options.text("fused_activation_function")]
    for i, value in enumerate(real):
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
    quantization = draft.tensors[operator.inputs[0]].per_tensor
    assert quantization is not None
    low, high = source.low - quantization[1], source.high - quantization[1]
    if _may_pad(draft, operator):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    positive, negative = np.maximum(weights, 0), np.minimum(weights, 0)
    axes = (1, 2, 3) if operator.code == "CONV_2D" else (0, 1, 2)
    bias = _bias(draft, operator)
    return (
        bias + (positive * low + negative * high).sum(axis=axes),
        bias + (positive * high + negative * low).sum(axis=axes),
    )


def _weights(draft: Draft, operator: Operator) -> Integers:
    values = draft.values(operator.inputs[1])
    assert values is not None
    return values.astype(np.int64)


def _bias(draft: Draft, operator: Operator) -> Integers:
    bias = operator.inputs[2] if len(operator.inputs) > 2 else -1
    values = draft.values(bias)
    channels = draft.tensors[operator.outputs[0]].shape[-1]
    return np.zeros(channels, np.int64) if values is None else values.astype(np.int64)


def _scales(draft: Draft, operator: Operator) -> npt.NDArray[np.float64]:
    """Return the scale of each output channel's accumulators."""
    source, weights = draft.tensors[operator.inputs[0]], draft.tensors[operator.inputs[1]]
    assert source.per_tensor is not None
    assert weights.quantization is not None
    channels = draft.tensors[operator.outputs[0]].shape[-1]
    return np.broadcast_to(np.asarray(weights.quantization.scales, np.float64), channels) * source.per_tensor[0]


def _may_pad(draft: Draft, operator: Operator) -> bool:
    height, width = draft.tensors[operator.inputs[1]].shape[1:3]
    assert operator.options is not None
    return operator.options.text("padding") != "VALID" and (height, width) != (1, 1)


def _kept_channels(draft: Draft, followed: set[int], ranges: dict[int, _Range]) -> dict[int, Flags]:
    """Return the channels that must stay, by tensor: the smallest set in which every reader has what it needs."""
    kept: dict[int, Flags] = {}
    for tensor in ranges:
        producer = draft.producer(tensor)
        is_free = producer is not None and producer.index in followed and tensor not in draft.outputs
        is_free = is_free and all(reader.index in followed for reader in draft.consumers(tensor))
        kept[tensor] = np.full(len(ranges[tensor].low), not is_free)
    changed = True
    while changed:
        changed = False
        for operator in reversed(draft.operators):
            if operator.index not in followed:
                continue
            source, output = operator.inputs[0], operator.outputs[0]
            if operator.code in CHANNEL_WISE:
                updates = {source: kept[source] | kept[output], output: kept[source] | kept[output]}
            else:
                updates = {source: kept[source] | _needed(draft, operator, kept[output], ranges[source])}
            for tensor, flags in updates.items():
                changed = changed or bool((flags != kept[tensor]).any())
                kept[tensor] = flags
        for flags in kept.values() if not changed else ():
            if not flags.any():  # a tensor needs at least one channel
                flags[0] = changed = True
    return kept


def _needed(draft: Draft, operator: Operator, kept_outputs: Flags, source: _Range) -> Flags:
    """Return the input channels that a convolution cannot do without: those that it weighs and that may vary.

    A constant channel is needed too if padding replaces it, or if the bias would exceed int32.
    """
    weights = _weights(draft, operator)[kept_outputs]
    is_constant = source.is_constant
    quantization = draft.tensors[operator.inputs[0]].per_tensor
    assert quantization is not None
    if _may_pad(draft, operator):
        is_constant = is_constant & (source.low == quantization[1])
    folded = np.abs(weights).sum(axis=(1, 2)) * np.abs(source.low - quantization[1])
    largest = np.abs(_bias(draft, operator)[kept_outputs]) + folded[:, is_constant].sum(axis=1)
    if (largest > INT32_MAX).any():
        is_constant = np.zeros_like(is_constant)
    return np.asarray(weights.any(axis=(0, 1, 2)) & ~is_constant)


def _without_channels(draft: Draft, operator: Operator, kept: dict[int, Flags], ranges: dict[int, _Range]) -> Operator:
    """Return the operator on the channels that stay."""
    inputs = list(operator.inputs)
    if operator.code not in {"CONV_2D", "DEPTHWISE_CONV_2D"}:
        return operator
    source, output = kept[operator.inputs[0]], kept[operator.outputs[0]]
    weights, bias = _weights(draft, operator), _bias(draft, operator)
    if operator.code == "CONV_2D":
        quantization = draft.tensors[operator.inputs[0]].per_tensor
        assert quantization is not None
        bias = bias + (weights.sum(axis=(1, 2)) * (ranges[operator.inputs[0]].low - quantization[1]))[:, ~source].sum(1)
        weights = weights[output][..., source]
    else:
        weights = weights[..., output]
    inputs[1] = _constant(draft, operator.inputs[1], weights, output)
    had_bias = len(inputs) > 2 and inputs[2] >= 0
    if had_bias:
        inputs[2] = _constant(draft, inputs[2], bias[output], output)
    elif bias[output].any():
        name = draft.tensors[operator.outputs[0]].name
        inputs[2:] = [draft.constant(f"{name}/bias", bias[output], None, DType.INT32)]
    return replace(operator, inputs=tuple(inputs))


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
