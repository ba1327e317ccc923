"""Rules for layers of one input: which weights their channels index, and where the channels go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgetool.train.pruning.activation import is_elementwise, keeps_zero, name_of
from edgetool.train.pruning.call import Call
from edgetool.train.pruning.channels import Residue, Signal, Symbols, no_residue
from edgetool.train.pruning.shapes import flatten, permute, repeat_vector, reshape

Rule = Callable[[Call, Signal], list[Signal]]


def channel_axis(layer: Any, signal: Signal) -> int:
    """Where the layer takes the channels to be, the batch not counted."""
    return 0 if getattr(layer, "data_format", "channels_last") == "channels_first" else len(signal.shape) - 1


def _activated(call: Call, axis: int, symbols: Symbols, left: Residue | None = None) -> list[Signal]:
    """The output of a layer that applies its own activation to these channels."""
    function = call.layer.activation
    residue = no_residue(len(symbols)) if left is None else left.copy()
    if function is None:
        return call.output(axis, symbols, residue)
    if not is_elementwise(call.keras, function):
        call.channels.freeze(symbols, f"activation {name_of(function)!r} of {call.facts} may mix channels")
    elif not keeps_zero(call.keras, function):
        residue[residue == None] = f"activation {name_of(function)!r} of {call.facts} does not map 0 to 0"  # noqa: E711
    return call.output(axis, symbols, residue)


def _makes_channels(call: Call, kernel: Any, axis: int, *, count: str) -> Symbols:
    """New channels along an axis of the kernel and of the bias, counted by an entry of the configuration."""
    made = call.make(int(kernel.shape[axis]))
    call.facts.kernel = call.index(kernel, axis, made)
    if getattr(call.layer, "bias", None) is not None:
        call.index(call.layer.bias, 0, made)
    call.size(count, None, made)
    return made


def _convolution(call: Call, signal: Signal) -> list[Signal]:
    """Kernels (..., in, out)."""
    layer, axis = call.layer, channel_axis(call.layer, signal)
    made = _makes_channels(call, layer.kernel, len(layer.kernel.shape) - 1, count="filters")
    if layer.groups > 1:
        call.channels.freeze(made, "it is a grouped convolution")
        call.channels.freeze(signal.symbols, f"feeds {call.facts}, a grouped convolution")
    else:
        call.index(layer.kernel, len(layer.kernel.shape) - 2, call.consumed(signal, axis))
    return _activated(call, axis, made)


def _transposed_convolution(call: Call, signal: Signal) -> list[Signal]:
    """Kernels (..., out, in)."""
    layer, axis = call.layer, channel_axis(call.layer, signal)
    made = _makes_channels(call, layer.kernel, len(layer.kernel.shape) - 2, count="filters")
    call.index(layer.kernel, len(layer.kernel.shape) - 1, call.consumed(signal, axis))
    return _activated(call, axis, made)


def _depthwise(call: Call, signal: Signal) -> list[Signal]:
    """Kernels (..., in, multiplier): a removed channel takes its kernel with it, so whatever came in is gone."""
    layer, axis = call.layer, channel_axis(call.layer, signal)
    symbols = call.along(signal, axis)
    call.index(layer.kernel, len(layer.kernel.shape) - 2, symbols)
    spread = np.repeat(symbols, layer.depth_multiplier)
    if layer.bias is not None:
        call.index(layer.bias, 0, spread)
    return _activated(call, axis, spread)


def _separable(call: Call, signal: Signal) -> list[Signal]:
    """A depthwise kernel (..., in, multiplier) and a pointwise one (..., in * multiplier, out)."""
    layer, axis = call.layer, channel_axis(call.layer, signal)
    symbols = call.along(signal, axis)
    rank = len(layer.depthwise_kernel.shape)
    call.index(layer.depthwise_kernel, rank - 2, symbols)
    call.index(layer.pointwise_kernel, rank - 2, np.repeat(symbols, layer.depth_multiplier))
    return _activated(call, axis, _makes_channels(call, layer.pointwise_kernel, rank - 1, count="filters"))


def _dense(call: Call, signal: Signal) -> list[Signal]:
    axis = len(signal.shape) - 1
    call.index(call.layer.kernel, 0, call.consumed(signal, axis))
    return _activated(call, axis, _makes_channels(call, call.layer.kernel, 1, count="units"))


def _embedding(call: Call, signal: Signal) -> list[Signal]:
    """A row per word: nothing is known of the indices."""
    made = _makes_channels(call, call.layer.embeddings, 1, count="output_dim")
    return call.output(len(signal.shape), made)


def _recurrent(call: Call, signal: Signal) -> list[Signal]:
    """Takes removed channels; its own units stay."""
    if signal.axis is not None:
        symbols = call.consumed(signal, len(signal.shape) - 1)
        inner = (
            (call.layer.forward_layer, call.layer.backward_layer)
            if hasattr(call.layer, "forward_layer")
            else (call.layer,)
        )
        if not all(type(layer).__name__ in RECURRENT for layer in inner):
            return call.give_up([signal])
        for layer in inner:
            call.index(layer.cell.kernel, 0, symbols)
    call.facts.whole = f"the units of {call.facts.kind} layers are not pruned"
    return call.unknown()


def _batch_normalization(call: Call, signal: Signal) -> list[Signal]:
    """Four weights per channel. With a scale, a removed channel is zero whatever came in."""
    layer = call.layer
    axis = layer.axis - 1 if layer.axis > 0 else len(signal.shape) + layer.axis
    if signal.axis not in (None, axis):
        return call.give_up([signal], "which normalizes along a different axis")
    symbols = call.along(signal, axis)
    for weight in layer.weights:
        call.index(weight, 0, symbols)
    if layer.scale:
        call.facts.scale = next(place for place, own in enumerate(layer.weights) if own is layer.gamma)
    return call.output(axis, symbols, None if layer.scale or signal.axis is None else signal.residue)


def _prelu(call: Call, signal: Signal) -> list[Signal]:
    """A slope per element, or one along each shared axis."""
    alpha = call.layer.alpha
    for axis, size in enumerate(alpha.shape):
        if size != 1 and signal.axis in (None, axis):
            call.index(alpha, axis, call.along(signal, axis))
    return _unchanged(call, signal)


def _unchanged(call: Call, signal: Signal) -> list[Signal]:
    """The same channels along the same axis."""
    if signal.axis is None:
        return call.unknown([signal])
    return call.output(signal.axis, signal.symbols, signal.residue)


def elementwise(call: Call, signal: Signal) -> list[Signal]:
    """An activation that is a layer or an operation of its own."""
    function = call.layer.activation if call.facts.kind == "Activation" else call.layer
    if call.facts.kind == "Activation" and not is_elementwise(call.keras, function):
        return call.give_up([signal], f"whose activation {name_of(function)!r} may mix channels")
    if signal.axis is None:
        return call.unknown([signal])
    residue = signal.residue.copy()
    if not keeps_zero(call.keras, function):
        residue[residue == None] = f"{call.facts} does not map 0 to 0"  # noqa: E711
    return call.output(signal.axis, signal.symbols, residue)


def _rescaling(call: Call, signal: Signal) -> list[Signal]:
    if not np.isscalar(call.layer.scale) or not np.isscalar(call.layer.offset):
        return call.give_up([signal])
    return elementwise(call, signal)


def _spatial(call: Call, signal: Signal) -> list[Signal]:
    """Pools, pads, crops or repeats within each channel; a global one without keepdims drops the other axes."""
    axis = channel_axis(call.layer, signal)
    if signal.axis != axis:
        return call.give_up([signal])
    return call.output(min(axis, len(call.specs[0].shape) - 2), signal.symbols, signal.residue)


RECURRENT = ("LSTM", "GRU", "SimpleRNN")


def _numbered(pattern: str, rule: Rule, dimensions: str = "123") -> dict[str, Rule]:
    return {pattern.format(dimension): rule for dimension in dimensions}


# Class of keras.layers -> its rule. A class that is not here freezes what goes into it.
RULES: dict[str, Rule] = {
    **_numbered("Conv{}D", _convolution),
    **_numbered("Conv{}DTranspose", _transposed_convolution),
    **_numbered("DepthwiseConv{}D", _depthwise, "12"),
    **_numbered("SeparableConv{}D", _separable, "12"),
    "Dense": _dense,
    "Embedding": _embedding,
    **dict.fromkeys((*RECURRENT, "Bidirectional"), _recurrent),
    "BatchNormalization": _batch_normalization,
    "PReLU": _prelu,
    **dict.fromkeys(("ReLU", "LeakyReLU", "ELU", "Activation"), elementwise),
    **dict.fromkeys(("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"), _unchanged),
    **dict.fromkeys(
        ("AlphaDropout", "GaussianNoise", "GaussianDropout", "ActivityRegularization", "Identity"), _unchanged
    ),
    "Rescaling": _rescaling,
    **_numbered("MaxPooling{}D", _spatial),
    **_numbered("AveragePooling{}D", _spatial),
    **_numbered("GlobalMaxPooling{}D", _spatial),
    **_numbered("GlobalAveragePooling{}D", _spatial),
    **_numbered("ZeroPadding{}D", _spatial),
    **_numbered("Cropping{}D", _spatial),
    **_numbered("UpSampling{}D", _spatial),
    "Flatten": flatten,
    "Reshape": reshape,
    "Permute": permute,
    "RepeatVector": repeat_vector,
}
