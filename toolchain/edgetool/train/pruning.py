"""Structured pruning: remove whole channels from a Keras model. In the child process only.

Groups of units that can replace each other are ranked, and the lowest-ranked units are removed. The model is then
rebuilt without them, with the remaining weights.

Channels are traced through the layers of a model, including nested models and shared layers. There is a rule for each
layer and operation: which weights its channels index, and where the channels go. A rule receives a LayerCall, and
records in the layer's LayerFacts which channels can only be removed together. The rules cover layers with weights,
activations, layers that rearrange the same elements, layers that merge tensors, and operations that are not layers (x +
y, x * 0.5, keras.ops.relu(x)).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.convert.float_model import explain_keras_error
from edgetool.convert.request import PRUNING_METHODS
from edgetool.errors import InternalError, UnsupportedModelError, UsageError

Symbols = npt.NDArray[np.int64]
# For each channel, the reason why its value is not zero when all its parameters are zero; None if it is zero then.
NonzeroReasons = npt.NDArray[np.object_]


class Channels:
    """The channels of a model as symbols: which must be removed together, and why some must stay."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._reasons: dict[int, str] = {}

    def new(self, count: int) -> Symbols:
        """Return new symbols."""
        first = len(self._parents)
        self._parents.extend(range(first, first + count))
        return np.arange(first, first + count, dtype=np.int64)

    def frozen(self, count: int, reason: str) -> Symbols:
        """Return new symbols that must stay."""
        symbols = self.new(count)
        self.freeze(symbols, reason)
        return symbols

    def root(self, symbol: int) -> int:
        """Return the representative of the symbols tied to this one: the oldest."""
        parents = self._parents
        while parents[symbol] != symbol:
            parents[symbol] = parents[parents[symbol]]
            symbol = parents[symbol]
        return symbol

    def roots(self, symbols: Symbols) -> Symbols:
        """Return the root of each symbol."""
        return np.fromiter((self.root(int(symbol)) for symbol in symbols), dtype=np.int64, count=len(symbols))

    def tie(self, left: Symbols, right: Symbols) -> None:
        """Tie the channels of two equally long axes, so that they are removed in pairs."""
        for a, b in set(zip(left.tolist(), right.tolist(), strict=True)):
            first, second = sorted((self.root(a), self.root(b)))
            if first == second:
                continue
            self._parents[second] = first
            reason = self._reasons.pop(second, None)
            if reason is not None:
                self._reasons.setdefault(first, reason)

    def freeze(self, symbols: Symbols, reason: str, *, overrides: bool = False) -> None:
        """Keep these channels. The first reason is reported, unless a later one `overrides` it."""
        for symbol in set(symbols.tolist()):
            root = self.root(symbol)
            if overrides or root not in self._reasons:
                self._reasons[root] = reason

    def reason(self, symbol: int) -> str | None:
        """Return why this channel stays; None if it can be removed."""
        return self._reasons.get(self.root(symbol))


@dataclass(frozen=True, slots=True)
class Signal:
    """A tensor with the axis of its channels.

    spec: the symbolic tensor, with the batch. axis: the axis of the channels, without the batch; None if no channel
    can be removed, and origin then describes where the tensor comes from. symbols: one per index of that axis.
    nonzero_reasons: for each of them None, or the reason why its value is not zero when all parameters of that
    channel are zero.
    """

    spec: Any
    axis: int | None
    symbols: Symbols
    nonzero_reasons: NonzeroReasons
    origin: str = ""

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape without the batch."""
        return tuple(self.spec.shape[1:])


def opaque(spec: Any, origin: str) -> Signal:
    """Return a tensor whose channels cannot be removed."""
    return Signal(spec, None, np.zeros(0, np.int64), no_nonzero_reasons(0), origin)


def no_nonzero_reasons(count: int) -> NonzeroReasons:
    """Return None for each of these channels: they are zero when all their parameters are zero."""
    return np.full(count, None, dtype=object)


def sum_nonzero_reasons(operands: Sequence[NonzeroReasons]) -> NonzeroReasons:
    """Return the reasons for a sum: per channel, that of the first term that has one."""
    result = operands[0].copy()
    for reasons in operands[1:]:
        for index in np.flatnonzero(reasons != None):  # noqa: E711
            if result[index] is None:
                result[index] = reasons[index]
    return result


def product_nonzero_reasons(operands: Sequence[NonzeroReasons]) -> NonzeroReasons:
    """Return the reasons for a product: None for a channel if any factor is zero."""
    result = operands[0].copy()
    for reasons in operands[1:]:
        result[reasons == None] = None  # noqa: E711
    return result


@dataclass(slots=True)
class LayerFacts:
    """What pruning needs to rebuild a layer, from all its calls.

    label: its name, with the names of the models around it if it is not unique. weights: (position in
    layer.weights, axis) -> the channels along that axis. sizes: key of its configuration -> the position in that
    entry, None for the entry itself, and the channels that it counts. output_channels: the channels that the layer
    produces, if it can lose outputs. kernel: position and axis of the weight that produces them. scale: position of
    a batch normalization's gamma. kept_reason: why a layer with parameters keeps its size. untracked: whether the
    channels of some call could not be tracked.
    """

    layer: Any
    label: str
    weights: dict[tuple[int, int], Symbols] = field(default_factory=dict)
    sizes: dict[str, tuple[int | None, Symbols]] = field(default_factory=dict)
    output_channels: Symbols | None = None
    kernel: tuple[int, int] = (0, 0)
    scale: int | None = None
    kept_reason: str = ""
    untracked: bool = False

    @property
    def kind(self) -> str:
        """The name of the layer's class."""
        return type(self.layer).__name__

    def __str__(self) -> str:
        return f"{self.label!r} ({self.kind})"


@dataclass(frozen=True, slots=True)
class LayerCall:
    """A call of a layer. arguments: positional ones, tensors as Signals. specs: the symbolic tensors of its outputs."""

    keras: Any
    facts: LayerFacts
    channels: Channels
    arguments: tuple[Any, ...]
    specs: tuple[Any, ...]

    @property
    def layer(self) -> Any:
        """The layer that is called."""
        return self.facts.layer

    def along(self, signal: Signal, axis: int) -> Symbols:
        """Return the channels of a tensor along an axis; frozen ones if it has none there."""
        if signal.axis == axis:
            return signal.symbols
        reason = f"linked by {self.facts} to {signal.origin}, whose channels cannot be removed"
        if signal.axis is not None:
            reason = f"{self.facts} operates along an axis other than the channel axis"
            self.channels.freeze(signal.symbols, reason)
        return self.channels.frozen(signal.shape[axis] or 0, reason)

    def consumed(self, signal: Signal, axis: int) -> Symbols:
        """Return the channels along an axis for a kernel that sums over them.

        A channel stays if it would still add a constant to the sum with all its parameters at zero.
        """
        symbols = self.along(signal, axis)
        if signal.axis == axis:
            reasons = signal.nonzero_reasons
            for index in np.flatnonzero(reasons != None):  # noqa: E711
                reason = f"{reasons[index]}, so a removed channel would still contribute a constant to {self.facts}"
                self.channels.freeze(symbols[index : index + 1], reason)
        return symbols

    def index(self, weight: Any, axis: int, symbols: Symbols) -> tuple[int, int]:
        """Record that an axis of a weight (from the front) is indexed by these channels; return position and axis."""
        position = next(index for index, other in enumerate(self.layer.weights) if other is weight)
        known = self.facts.weights.setdefault((position, axis), symbols)
        self.channels.tie(known, symbols)
        return position, axis

    def size(self, key: str, position: int | None, symbols: Symbols) -> None:
        """Record that an entry of the configuration counts these channels. Calls that disagree freeze theirs."""
        before, known = self.facts.sizes.setdefault(key, (position, symbols))
        if before == position and len(known) == len(symbols):
            self.channels.tie(known, symbols)
            return
        for channels in (known, symbols):
            self.channels.freeze(channels, f"{self.facts} is shared by calls with different channels")

    def make(self, count: int) -> Symbols:
        """Return the channels that this layer produces: the same in every call."""
        if self.facts.output_channels is None:
            self.facts.output_channels = self.channels.new(count)
        return self.facts.output_channels

    def output(self, axis: int, symbols: Symbols, reasons: NonzeroReasons | None = None) -> list[Signal]:
        """Return the only output of the layer."""
        reasons = no_nonzero_reasons(len(symbols)) if reasons is None else reasons
        return [Signal(self.specs[0], axis, symbols, reasons)]

    def untrack(self, signals: Sequence[Signal], why: str = "through which channels cannot be tracked") -> list[Signal]:
        """Freeze the inputs, and return outputs without removable channels."""
        self.facts.untracked = True
        for signal in signals:
            self.channels.freeze(signal.symbols, f"feeds {self.facts}, {why}")
        return self.unknown(signals)

    def unknown(self, signals: Sequence[Signal] = ()) -> list[Signal]:
        """Return outputs without removable channels; the origin of a layer without weights is its first input."""
        origin = f"the output of {self.facts}"
        if signals and signals[0].axis is None and not getattr(self.layer, "weights", ()):
            origin = signals[0].origin
        return [opaque(spec, origin) for spec in self.specs]


# Functions of keras.activations that operate on each element separately.
ELEMENTWISE = frozenset(
    "linear relu relu6 leaky_relu elu selu celu gelu silu hard_silu tanh hard_tanh tanh_shrink hard_shrink soft_shrink "
    "softsign soft_sign squareplus sparse_plus sparse_sigmoid mish softplus sigmoid hard_sigmoid log_sigmoid "
    "exponential".split()
)
# Layers without weights that do so too.
ELEMENTWISE_LAYERS = frozenset(["ReLU", "LeakyReLU", "ELU", "Activation"])


def name_of(function: Any) -> str:
    """Return the name of an activation in messages."""
    return str(getattr(function, "__name__", None) or getattr(function, "name", type(function).__name__))


def is_elementwise(keras: Any, function: Any) -> bool:
    """Return whether this is a function or layer of Keras that applies the same function to each element."""
    kind = type(function).__name__
    if kind in ELEMENTWISE_LAYERS and type(function) is getattr(keras.layers, kind):
        return kind != "Activation" or is_elementwise(keras, function.activation)
    name = getattr(function, "__name__", "")
    return name in ELEMENTWISE and function is getattr(keras.activations, name, None)


def keeps_zero(keras: Any, function: Any) -> bool:
    """Return whether the function maps 0 to 0, by calling it."""
    return not keras.ops.convert_to_numpy(function(keras.ops.zeros((1, 1)))).any()


def flatten(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through Flatten: one channel becomes several positions of the only axis.

    Channels-first data is not tracked, because Keras transposes it first.
    """
    if call.layer.data_format == "channels_first" and len(signal.shape) > 1:
        return call.untrack([signal])
    reshaped = _reshaped_channels(signal, tuple(call.specs[0].shape[1:]))
    if reshaped is None:
        return call.untrack([signal])
    return call.output(*reshaped)


def reshape(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through Reshape, if they vary along only one axis of the result."""
    reshaped = _reshaped_channels(signal, tuple(call.specs[0].shape[1:]))
    if reshaped is None:
        call.size("target_shape", None, np.zeros(0, np.int64))
        return call.untrack([signal], "which distributes its channels over several axes")
    call.size("target_shape", reshaped[0], reshaped[1])
    return call.output(*reshaped)


def permute(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through Permute, whose dims are the original axes (from 1) of the axes of the result."""
    if signal.axis is None:
        return call.unknown([signal])
    return call.output(call.layer.dims.index(signal.axis + 1), signal.symbols, signal.nonzero_reasons)


def repeat_vector(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through RepeatVector: (C) becomes (n, C)."""
    return call.unknown([signal]) if signal.axis is None else call.output(1, signal.symbols, signal.nonzero_reasons)


def _reshaped_channels(signal: Signal, shape: tuple[int | None, ...]) -> tuple[int, Symbols, NonzeroReasons] | None:
    """Return the only axis of the new shape along which channels vary, with its channels and reasons; or None."""
    sizes = tuple(size for size in shape if size is not None)
    if signal.axis is None or None in signal.shape or len(sizes) != len(shape):
        return None
    symbols: Symbols = _per_element(signal.symbols, signal).reshape(sizes)
    reasons: NonzeroReasons = _per_element(signal.nonzero_reasons, signal).reshape(sizes)
    for axis in reversed(range(symbols.ndim)):
        rows = np.moveaxis(symbols, axis, 0).reshape(sizes[axis], -1)
        if rows.size and (rows == rows[:, :1]).all():
            axis_reasons = no_nonzero_reasons(sizes[axis])
            for index, row in enumerate(np.moveaxis(reasons, axis, 0).reshape(rows.shape)):
                axis_reasons[index] = next((value for value in row if value is not None), None)
            return axis, rows[:, 0].copy(), axis_reasons
    return None


def _per_element(values: npt.NDArray[Any], signal: Signal) -> npt.NDArray[Any]:
    """Return the values along the channel axis as one value per element of the tensor."""
    along = values.reshape([-1 if axis == signal.axis else 1 for axis in range(len(signal.shape))])
    return np.broadcast_to(along, tuple(size or 0 for size in signal.shape))


LayerRule = Callable[[LayerCall, Signal], list[Signal]]


def channel_axis(layer: Any, signal: Signal) -> int:
    """Return the axis that the layer treats as channels, without the batch."""
    return 0 if getattr(layer, "data_format", "channels_last") == "channels_first" else len(signal.shape) - 1


def _activated(call: LayerCall, axis: int, symbols: Symbols, before: NonzeroReasons | None = None) -> list[Signal]:
    """Return the output of a layer that applies its activation to these channels, with the reasons `before` it."""
    function = call.layer.activation
    reasons = no_nonzero_reasons(len(symbols)) if before is None else before.copy()
    if function is None:
        return call.output(axis, symbols, reasons)
    if not is_elementwise(call.keras, function):
        call.channels.freeze(symbols, f"activation {name_of(function)!r} of {call.facts} may mix channels")
    elif not keeps_zero(call.keras, function):
        reasons[reasons == None] = f"activation {name_of(function)!r} of {call.facts} does not map 0 to 0"  # noqa: E711
    return call.output(axis, symbols, reasons)


def _output_channels(call: LayerCall, kernel: Any, axis: int, *, count: str) -> Symbols:
    """Return new channels along an axis of the kernel, and of the bias; an entry of the configuration counts them."""
    output_channels = call.make(int(kernel.shape[axis]))
    call.facts.kernel = call.index(kernel, axis, output_channels)
    if getattr(call.layer, "bias", None) is not None:
        call.index(call.layer.bias, 0, output_channels)
    call.size(count, None, output_channels)
    return output_channels


def _convolution(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through kernels (..., in, out)."""
    layer, axis = call.layer, channel_axis(call.layer, signal)
    output_channels = _output_channels(call, layer.kernel, len(layer.kernel.shape) - 1, count="filters")
    if layer.groups > 1:
        call.channels.freeze(output_channels, "it is a grouped convolution")
        call.channels.freeze(signal.symbols, f"feeds {call.facts}, a grouped convolution")
    else:
        call.index(layer.kernel, len(layer.kernel.shape) - 2, call.consumed(signal, axis))
    return _activated(call, axis, output_channels)


def _transposed_convolution(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through kernels (..., out, in)."""
    layer, axis = call.layer, channel_axis(call.layer, signal)
    output_channels = _output_channels(call, layer.kernel, len(layer.kernel.shape) - 2, count="filters")
    call.index(layer.kernel, len(layer.kernel.shape) - 1, call.consumed(signal, axis))
    return _activated(call, axis, output_channels)


def _depthwise(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through kernels (..., in, multiplier).

    A removed channel is removed together with its kernel, so no reason of the input remains.
    """
    layer, axis = call.layer, channel_axis(call.layer, signal)
    symbols = call.along(signal, axis)
    call.index(layer.kernel, len(layer.kernel.shape) - 2, symbols)
    spread = np.repeat(symbols, layer.depth_multiplier)
    if layer.bias is not None:
        call.index(layer.bias, 0, spread)
    return _activated(call, axis, spread)


def _separable(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through kernels (..., in, multiplier) (depthwise) and (..., in * multiplier, out) (pointwise)."""
    layer, axis = call.layer, channel_axis(call.layer, signal)
    symbols = call.along(signal, axis)
    rank = len(layer.depthwise_kernel.shape)
    call.index(layer.depthwise_kernel, rank - 2, symbols)
    call.index(layer.pointwise_kernel, rank - 2, np.repeat(symbols, layer.depth_multiplier))
    return _activated(call, axis, _output_channels(call, layer.pointwise_kernel, rank - 1, count="filters"))


def _dense(call: LayerCall, signal: Signal) -> list[Signal]:
    axis = len(signal.shape) - 1
    call.index(call.layer.kernel, 0, call.consumed(signal, axis))
    return _activated(call, axis, _output_channels(call, call.layer.kernel, 1, count="units"))


def _embedding(call: LayerCall, signal: Signal) -> list[Signal]:
    """Create the channels of an embedding, with a row per index; the indices are unknown."""
    output_channels = _output_channels(call, call.layer.embeddings, 1, count="output_dim")
    return call.output(len(signal.shape), output_channels)


def _recurrent(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow removed channels into a recurrent layer, whose units are not pruned."""
    if signal.axis is not None:
        symbols = call.consumed(signal, len(signal.shape) - 1)
        inner = (
            (call.layer.forward_layer, call.layer.backward_layer)
            if hasattr(call.layer, "forward_layer")
            else (call.layer,)
        )
        if not all(type(layer).__name__ in RECURRENT for layer in inner):
            return call.untrack([signal])
        for layer in inner:
            call.index(layer.cell.kernel, 0, symbols)
    call.facts.kept_reason = f"the units of {call.facts.kind} layers are not pruned"
    return call.unknown()


def _batch_normalization(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through the four weights of each. With a scale, a removed channel is zero for any input."""
    layer = call.layer
    axis = layer.axis - 1 if layer.axis > 0 else len(signal.shape) + layer.axis
    if signal.axis not in (None, axis):
        return call.untrack([signal], "which normalizes along a different axis")
    symbols = call.along(signal, axis)
    for weight in layer.weights:
        call.index(weight, 0, symbols)
    if layer.scale:
        call.facts.scale = next(index for index, weight in enumerate(layer.weights) if weight is layer.gamma)
    return call.output(axis, symbols, None if layer.scale or signal.axis is None else signal.nonzero_reasons)


def _prelu(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through a slope for each element, or one along each shared axis."""
    alpha = call.layer.alpha
    for axis, size in enumerate(alpha.shape):
        if size != 1 and signal.axis in (None, axis):
            call.index(alpha, axis, call.along(signal, axis))
    return _unchanged(call, signal)


def _unchanged(call: LayerCall, signal: Signal) -> list[Signal]:
    """Return the same channels along the same axis."""
    if signal.axis is None:
        return call.unknown([signal])
    return call.output(signal.axis, signal.symbols, signal.nonzero_reasons)


def elementwise(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through an activation that is a separate layer or operation."""
    function = call.layer.activation if call.facts.kind == "Activation" else call.layer
    if call.facts.kind == "Activation" and not is_elementwise(call.keras, function):
        return call.untrack([signal], f"whose activation {name_of(function)!r} may mix channels")
    if signal.axis is None:
        return call.unknown([signal])
    reasons = signal.nonzero_reasons.copy()
    if not keeps_zero(call.keras, function):
        reasons[reasons == None] = f"{call.facts} does not map 0 to 0"  # noqa: E711
    return call.output(signal.axis, signal.symbols, reasons)


def _rescaling(call: LayerCall, signal: Signal) -> list[Signal]:
    if not np.isscalar(call.layer.scale) or not np.isscalar(call.layer.offset):
        return call.untrack([signal])
    return elementwise(call, signal)


def _spatial(call: LayerCall, signal: Signal) -> list[Signal]:
    """Follow channels through a layer that pools, pads, crops or repeats within each channel.

    A global pooling layer without keepdims drops the other axes.
    """
    axis = channel_axis(call.layer, signal)
    if signal.axis != axis:
        return call.untrack([signal])
    return call.output(min(axis, len(call.specs[0].shape) - 2), signal.symbols, signal.nonzero_reasons)


RECURRENT = ("LSTM", "GRU", "SimpleRNN")


def _numbered(pattern: str, rule: LayerRule, dimensions: str = "123") -> dict[str, LayerRule]:
    return {pattern.format(dimension): rule for dimension in dimensions}


# Class of keras.layers -> its rule. Classes without a rule freeze the channels of their inputs.
RULES: dict[str, LayerRule] = {
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


MergeRule = Callable[[LayerCall, Sequence[Signal]], list[Signal]]


def _sum(call: LayerCall, signals: Sequence[Signal]) -> list[Signal]:
    """Follow channels through any function of several tensors that maps zeros to zero."""
    return _elementwise(call, signals, sum_nonzero_reasons)


def _multiply(call: LayerCall, signals: Sequence[Signal]) -> list[Signal]:
    return _elementwise(call, signals, product_nonzero_reasons)


def _elementwise(
    call: LayerCall, signals: Sequence[Signal], combine: Callable[[Sequence[NonzeroReasons]], NonzeroReasons]
) -> list[Signal]:
    """Tie channels that are combined. Tensors with fewer axes or of size 1 are broadcast, aligned at the last axis."""
    shape = tuple(call.specs[0].shape[1:])
    signals_by_axis = [(signal.axis - len(signal.shape), signal) for signal in signals if signal.axis is not None]
    axes = {axis for axis, signal in signals_by_axis if signal.shape[axis] != 1} or {
        axis for axis, _ in signals_by_axis
    }
    if not axes:
        return call.unknown(signals)
    if len(axes) != 1 or shape[max(axes)] is None:
        return call.untrack(signals, "which combines channels along different axes")
    axis = axes.pop()
    size = shape[axis]
    full = [signal for signal in signals if len(signal.shape) >= -axis and signal.shape[axis] == size]
    broadcast = [signal for signal in signals if not any(signal is other for other in full)]
    for signal in broadcast:
        call.channels.freeze(signal.symbols, f"{call.facts} broadcasts it over all channels")
    along = [call.along(signal, len(signal.shape) + axis) for signal in full]
    for symbols in along[1:]:
        call.channels.tie(along[0], symbols)
    reasons = combine(
        [signal.nonzero_reasons if signal.axis is not None else _frozen(len(along[0])) for signal in full]
    )
    if broadcast and combine is sum_nonzero_reasons:
        reasons[reasons == None] = f"{call.facts} adds a value to every channel"  # noqa: E711
    return call.output(len(shape) + axis, along[0], reasons)


def _frozen(count: int) -> NonzeroReasons:
    """Return the reasons for a tensor whose channels cannot be removed."""
    return np.full(count, "it is merged with a tensor that is not pruned", dtype=object)


def _concatenate(call: LayerCall, signals: Sequence[Signal]) -> list[Signal]:
    """Concatenate channels along their axis, or tie them if tensors are concatenated along another one."""
    rank = len(signals[0].shape)
    joined = call.layer.axis - 1 if call.layer.axis > 0 else rank + call.layer.axis
    axes = {signal.axis for signal in signals if signal.axis is not None}
    if not axes:
        return call.unknown(signals)
    axis = max(axes)
    if len(axes) != 1 or joined < 0 or any(signal.shape[axis] is None for signal in signals):
        return call.untrack(signals, "which combines channels along different axes")
    along = [call.along(signal, axis) for signal in signals]
    operands = [
        signal.nonzero_reasons if signal.axis is not None else _frozen(len(symbols))
        for signal, symbols in zip(signals, along, strict=True)
    ]
    if joined == axis:
        return call.output(axis, np.concatenate(along), np.concatenate(operands))
    for symbols in along[1:]:
        call.channels.tie(along[0], symbols)
    return call.output(axis, along[0], sum_nonzero_reasons(operands))


# Class of keras.layers -> its rule.
MERGES: dict[str, MergeRule] = {
    **dict.fromkeys(("Add", "Subtract", "Average", "Maximum", "Minimum"), _sum),
    "Multiply": _multiply,
    "Concatenate": _concatenate,
}


# Classes in keras.src.ops.
TWO_TENSORS = frozenset(["Add", "Subtract", "Multiply", "Maximum", "Minimum"])
SCALED = frozenset(["Multiply", "Divide", "TrueDivide"])
SHIFTED = frozenset(["Add", "Subtract", "Maximum", "Minimum"])
ONE_TENSOR = frozenset(
    "Relu Relu6 LeakyRelu Elu Selu Gelu Silu HardSilu Tanh Sigmoid HardSigmoid Softplus Abs Absolute Negative".split()
)


def operation(call: LayerCall, signals: list[Signal]) -> list[Signal]:
    """Follow channels through an operation of Keras; unknown operations freeze the channels of their inputs."""
    kind = call.facts.kind
    if kind in TWO_TENSORS and len(signals) == 2 and len(signals[0].shape) == len(signals[1].shape):
        return MERGES[kind](call, signals)
    if kind in ONE_TENSOR and len(signals) == 1:
        return elementwise(call, signals[0])
    if len(signals) == 1 and len(call.arguments) == 2 and signals[0].axis is not None:
        first, second = call.arguments
        scalar = second if first is signals[0] else first
        if isinstance(scalar, int | float):
            if kind in SCALED and (first is signals[0] or kind == "Multiply"):
                return call.output(signals[0].axis, signals[0].symbols, signals[0].nonzero_reasons)
            if kind in SHIFTED:
                reasons = signals[0].nonzero_reasons.copy()
                reasons[reasons == None] = f"{call.facts} adds a value to every channel"  # noqa: E711
                return call.output(signals[0].axis, signals[0].symbols, reasons)
    return call.untrack(signals)


SEPARATOR = "/"


@dataclass(slots=True)
class Trace:
    """The channels of a model, and facts about each layer and nested model by id, in order of first calls."""

    channels: Channels
    facts: dict[int, LayerFacts] = field(default_factory=dict)


def graph_of(keras: Any, model: Any) -> Any:
    """Return the functional graph of a functional or sequential model.

    Raises UnsupportedModelError for a model without one.
    """
    graph = getattr(model, "_functional", None) if isinstance(model, keras.Sequential) else model
    if graph is None or not is_model(keras, model):
        raise UnsupportedModelError(
            f"model {model.name!r} ({type(model).__name__}) has no layer graph that pruning can trace",
            where=f"model {model.name!r}",
            fix="build it as a Sequential model with an Input, or as a functional model: keras.Model(inputs, outputs)",
        )
    return graph


def is_model(keras: Any, layer: Any) -> bool:
    """Return whether a layer is a model that computes only what its graph contains."""
    if not isinstance(layer, keras.Model):
        return False
    caller = next(base for base in type(layer).__mro__ if "call" in vars(base))
    has_graph = hasattr(layer, "_run_through_graph") or getattr(layer, "_functional", None) is not None
    return has_graph and is_keras_class(caller)


def is_keras_class(kind: type) -> bool:
    """Return whether a class is part of Keras."""
    return kind.__module__.startswith("keras.")


def layers_of(keras: Any, model: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every operation of the graph with its path of names; nested models before their operations."""
    for layer in graph_of(keras, model).operations:
        path = (*prefix, layer.name)
        yield path, layer
        if is_model(keras, layer):
            yield from layers_of(keras, layer, path)


def trace(keras: Any, model: Any, exclude: Sequence[str]) -> Trace:
    """Follow the channels from the model's inputs to its outputs, which stay.

    exclude: patterns of the names of layers that keep their channels.
    """
    return _Tracer(keras, model, exclude).run(model)


class _Tracer:
    def __init__(self, keras: Any, model: Any, exclude: Sequence[str]) -> None:
        self._keras = keras
        self._result = Trace(Channels())
        self._excluded: dict[int, str] = {}
        paths: dict[int, tuple[str, ...]] = {}
        names: dict[str, set[int]] = {}
        for path, layer in layers_of(keras, model):
            paths.setdefault(id(layer), path)
            names.setdefault(layer.name, set()).add(id(layer))
            for pattern in exclude:
                if any(matches(pattern, path[:length]) for length in range(1, len(path) + 1)):
                    self._excluded.setdefault(id(layer), pattern)
        self._labels = {
            key: path[-1] if len(names[path[-1]]) == 1 else SEPARATOR.join(path) for key, path in paths.items()
        }

    def run(self, model: Any) -> Trace:
        channels = self._result.channels
        inputs = [
            opaque(tensor, f"the model's input {tensor.name!r}") for tensor in graph_of(self._keras, model).inputs
        ]
        for signal in self._run(model, inputs):
            channels.freeze(signal.symbols, "its output is the model's output", overrides=True)
        for facts in self._result.facts.values():
            if facts.untracked:
                known = (*facts.weights.values(), *(symbols for _, symbols in facts.sizes.values()))
                for symbols in known:
                    channels.freeze(symbols, f"one of the calls of {facts} cannot be tracked")
        return self._result

    def _run(self, model: Any, signals: Sequence[Signal]) -> list[Signal]:
        graph = graph_of(self._keras, model)
        outputs = graph._run_through_graph(list(signals), call_fn=self._call_layer)
        return [item for item in self._keras.tree.flatten(outputs) if isinstance(item, Signal)]

    def _call_layer(self, layer: Any, *arguments: Any, **named: Any) -> list[Signal]:
        keras = self._keras
        facts = self._result.facts.setdefault(id(layer), LayerFacts(layer, self._labels[id(layer)]))
        signals = [item for item in keras.tree.flatten((arguments, named)) if isinstance(item, Signal)]
        if is_model(keras, layer) and len(signals) == len(layer.inputs):
            return self._nested(facts, signals)
        symbolic = keras.tree.map_structure(lambda item: item.spec if isinstance(item, Signal) else item, arguments)
        options = keras.tree.map_structure(lambda item: item.spec if isinstance(item, Signal) else item, named)
        specs = keras.tree.flatten(layer.compute_output_spec(*symbolic, **options))
        call = LayerCall(keras, facts, self._result.channels, arguments, tuple(specs))
        outputs = _apply(call, signals)
        if id(layer) in self._excluded:
            self._exclude(facts, outputs)
        return outputs

    def _nested(self, facts: LayerFacts, signals: Sequence[Signal]) -> list[Signal]:
        """Inline a nested model, whose inputs must have the same channels in every call."""
        call = LayerCall(self._keras, facts, self._result.channels, (), ())
        for number, signal in enumerate(signals):
            call.size(input_key(number), signal.axis, signal.symbols)
        return self._run(facts.layer, signals)

    def _exclude(self, facts: LayerFacts, outputs: Sequence[Signal]) -> None:
        reason = f"{facts} is excluded by {self._excluded[id(facts.layer)]!r}"
        if facts.output_channels is not None:
            self._result.channels.freeze(
                facts.output_channels, f"excluded by {self._excluded[id(facts.layer)]!r}", overrides=True
            )
        for signal in outputs:
            self._result.channels.freeze(signal.symbols, reason)


def input_key(number: int) -> str:
    """Return the key in LayerFacts.sizes for the channels of a nested model's input."""
    return f"input {number}"


def matches(pattern: str, path: Sequence[str]) -> bool:
    """Return whether a pattern matches the layer at the end of the path, by its name or by the whole path."""
    return fnmatchcase(path[-1], pattern) or fnmatchcase(SEPARATOR.join(path), pattern)


def _apply(call: LayerCall, signals: list[Signal]) -> list[Signal]:
    layer, kind = call.layer, call.facts.kind
    if not isinstance(layer, call.keras.layers.Layer):
        return operation(call, signals) if is_keras_class(type(layer)) else call.untrack(signals)
    known = type(layer) is getattr(call.keras.layers, kind, None) and not _is_altered(layer)
    if known and kind in RULES and len(signals) == 1:
        return RULES[kind](call, signals[0])
    if known and kind in MERGES and signals:
        return MERGES[kind](call, signals)
    if kind != "Normalization" and any(len(weight.shape) > 1 for weight in layer.weights):
        call.facts.kept_reason = f"{kind} layers are not pruned"
    return call.untrack(signals)


def _is_altered(layer: Any) -> bool:
    """Return whether the layer's weights differ from those of its class: quantized, or with low-rank additions."""
    return bool(getattr(layer, "lora_enabled", False) or getattr(layer, "quantization_mode", None))


@dataclass(frozen=True, slots=True)
class ChannelGroup:
    """Units produced by the same layers. A unit is a symbol for channels that are removed together."""

    producers: tuple[LayerFacts, ...]
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The units to remove, by their symbols. notes: about the ranking, for the user."""

    removed: frozenset[int]
    notes: tuple[str, ...]


def producers(trace: Trace) -> tuple[LayerFacts, ...]:
    """Return the layers that produce channels, in order of their first calls."""
    return tuple(facts for facts in trace.facts.values() if facts.output_channels is not None)


def layer_units(trace: Trace, facts: LayerFacts) -> Symbols:
    """Return the unit of each of a layer's output channels."""
    return trace.channels.roots(facts.output_channels) if facts.output_channels is not None else np.zeros(0, np.int64)


def groups(trace: Trace) -> tuple[ChannelGroup, ...]:
    """Return the groups that can lose units."""
    by_unit: dict[int, list[int]] = {}
    layers = producers(trace)
    for number, facts in enumerate(layers):
        for unit in dict.fromkeys(layer_units(trace, facts).tolist()):
            if trace.channels.reason(unit) is None:
                by_unit.setdefault(unit, []).append(number)
    members: dict[tuple[int, ...], list[int]] = {}
    for unit, numbers in by_unit.items():
        members.setdefault(tuple(numbers), []).append(unit)
    return tuple(
        ChannelGroup(tuple(layers[number] for number in numbers), tuple(sorted(units)))
        for numbers, units in members.items()
    )


def count_to_remove(level: float, units: int) -> int:
    """Return how many units a fraction below 1 removes, using its exact decimal value; at least one unit stays."""
    return math.floor(Fraction(repr(float(level))) * units)


def choose(trace: Trace, level: float, method: str) -> Choice:
    """Choose the lowest-ranked units of every group; a higher level removes a superset.

    l1: the sum over the layers of a group of the L1 norm of the unit's part of the kernel, over the layer's mean for
    one channel (Li et al., Pruning Filters for Efficient ConvNets, 2017). batch-norm: the sum of |gamma| of the unit
    (Liu et al., Network Slimming, 2017), or l1 for a group in which a unit has none. Ties are broken by channel
    order.
    """
    norms = {id(facts): _norms(facts) for facts in producers(trace)}
    gammas = _gammas(trace) if method == "batch-norm" else {}
    removed: list[int] = []
    without: list[str] = []
    for group in groups(trace):
        scores = dict.fromkeys(group.units, 0.0)
        if gammas and all(unit in gammas for unit in group.units):
            scores = {unit: gammas[unit] for unit in group.units}
        else:
            without.extend(facts.label for facts in group.producers)
            for facts in group.producers:
                for unit, norm in zip(layer_units(trace, facts).tolist(), norms[id(facts)], strict=True):
                    if unit in scores:
                        scores[unit] += float(norm)
        ranked = sorted(group.units, key=lambda unit: (scores[unit], unit))
        removed.extend(ranked[: count_to_remove(level, len(ranked))])
    notes: tuple[str, ...] = ()
    if method == "batch-norm" and without:
        notes = (f"ranked by L1 norm because there is no batch normalization with a scale: {format_names(without)}",)
    return Choice(frozenset(removed), notes)


def _norms(facts: LayerFacts) -> Sequence[float]:
    """Return the L1 norm of each output channel's part of the kernel, relative to their mean."""
    position, axis = facts.kernel
    kernel = np.abs(np.asarray(facts.layer.weights[position], dtype=np.float64))
    sums = kernel.sum(axis=tuple(place for place in range(kernel.ndim) if place != axis))
    mean = sums.mean()
    result: list[float] = (sums / mean if mean > 0 else sums).tolist()
    return result


def _gammas(trace: Trace) -> dict[int, float]:
    result: dict[int, float] = {}
    for facts in trace.facts.values():
        if facts.scale is None:
            continue
        units = trace.channels.roots(facts.weights[facts.scale, 0])
        values = np.abs(np.asarray(facts.layer.weights[facts.scale], dtype=np.float64))
        for unit, value in zip(units.tolist(), values.tolist(), strict=True):
            result[unit] = result.get(unit, 0.0) + value
    return result


def format_names(names: Sequence[str], shown: int = 6) -> str:
    """Return some of the names, and the number of the others."""
    unique = list(dict.fromkeys(names))
    text = ", ".join(repr(name) for name in unique[:shown])
    return text if len(unique) <= shown else f"{text} and {len(unique) - shown} more"


def rebuild(keras: Any, model: Any, trace: Trace, removed: frozenset[int]) -> Any:
    """Build a new model of the same structure and names; the given one stays as it is.

    Raises UnsupportedModelError naming a layer that cannot be rebuilt from its configuration.
    """
    return _Rebuilder(keras, trace, removed).run(model)


class _Rebuilder:
    def __init__(self, keras: Any, trace: Trace, removed: frozenset[int]) -> None:
        self._keras = keras
        self._trace = trace
        self._removed = np.array(sorted(removed), dtype=np.int64)
        self._rebuilt: dict[int, Any] = {}

    def run(self, model: Any) -> Any:
        """Return the new model, with its weights and the same trainable flags."""
        result = self._model(model)
        pairs = [(self._trace.facts[key], new) for key, new in self._rebuilt.items() if key in self._trace.facts]
        result.trainable = model.trainable
        # Setting the flag of a model sets it for all its layers: models first, outer ones before inner ones.
        for facts, new in sorted(pairs, key=lambda pair: not is_model(self._keras, pair[0].layer)):
            if hasattr(new, "trainable"):
                new.trainable = facts.layer.trainable
        for facts, new in pairs:
            if hasattr(facts.layer, "weights") and not is_model(self._keras, facts.layer):
                self._copy_weights(facts, new)
        return result

    def _kept_indices(self, symbols: Symbols) -> Any:
        """Return the indices of the channels that stay."""
        return np.flatnonzero(~np.isin(self._trace.channels.roots(symbols), self._removed))

    def _model(self, model: Any, facts: LayerFacts | None = None) -> Any:
        keras, graph = self._keras, graph_of(self._keras, model)
        shapes = [self._input_shape(tensor, number, facts) for number, tensor in enumerate(graph.inputs)]
        tensors = [
            keras.Input(
                batch_shape=shape,
                dtype=tensor.dtype,
                name=tensor._keras_history.operation.name,
                sparse=tensor.sparse,
                optional=getattr(tensor._keras_history.operation, "optional", False),
            )
            for shape, tensor in zip(shapes, graph.inputs, strict=True)
        ]
        if isinstance(model, keras.Sequential):
            return keras.Sequential([*tensors, *map(self._layer, model.layers)], name=model.name)
        inputs = keras.tree.pack_sequence_as(graph._inputs_struct, tensors)
        return keras.Model(inputs, graph._run_through_graph(tensors, operation_fn=self._layer), name=model.name)

    def _input_shape(self, tensor: Any, number: int, facts: LayerFacts | None) -> list[int | None]:
        shape = list(tensor.shape)
        known = facts.sizes.get(input_key(number)) if facts is not None else None
        if known is not None and known[0] is not None:
            shape[known[0] + 1] = len(self._kept_indices(known[1]))
        return shape

    def _layer(self, layer: Any) -> Any:
        if id(layer) not in self._rebuilt:
            facts = self._trace.facts.get(id(layer))
            if is_model(self._keras, layer):
                self._rebuilt[id(layer)] = None  # before its layers
                self._rebuilt[id(layer)] = self._model(layer, facts)
            else:
                self._rebuilt[id(layer)] = self._rebuild_layer(layer, facts)
        return self._rebuilt[id(layer)]

    def _rebuild_layer(self, layer: Any, facts: LayerFacts | None) -> Any:
        config = _unbuilt(layer.get_config())
        if facts is not None and self._loses_channels(facts):
            for key, (position, symbols) in facts.sizes.items():
                if position is None and len(symbols):
                    config[key] = len(self._kept_indices(symbols))
                elif position is not None:
                    sizes = list(config[key])
                    sizes[position] = len(self._kept_indices(symbols))
                    config[key] = tuple(sizes)
            # Their values are overwritten; a constant of the old shape would not fit.
            config |= {key: "zeros" for key in config if key.endswith("_initializer")}
        custom_objects: dict[str, Any] = {type(layer).__name__: type(layer)}
        activation: Any = getattr(layer, "activation", None)
        if hasattr(activation, "__name__"):
            custom_objects[activation.__name__] = activation
        safe_mode = self._keras.src.saving.serialization_lib.SafeModeScope
        try:
            # Safe mode has no purpose here: the code of the layer was loaded with the model.
            with safe_mode(False), self._keras.saving.custom_object_scope(custom_objects):
                return type(layer).from_config(config)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise UnsupportedModelError(
                f"cannot be rebuilt from its configuration: {explain_keras_error(error)[0]}",
                where=f"layer {layer.name!r} ({type(layer).__name__})",
                fix="define get_config in its class so that it returns the arguments of the constructor",
            ) from error

    def _loses_channels(self, facts: LayerFacts) -> bool:
        known = (*facts.weights.values(), *(symbols for _, symbols in facts.sizes.values()))
        return any(len(self._kept_indices(symbols)) < len(symbols) for symbols in known)

    def _copy_weights(self, facts: LayerFacts, new: Any) -> None:
        old = [np.asarray(weight) for weight in facts.layer.weights]
        values = []
        for position, value in enumerate(old):
            kept = [np.arange(size) for size in value.shape]
            for axis in range(value.ndim):
                symbols = facts.weights.get((position, axis))
                if symbols is not None:
                    kept[axis] = self._kept_indices(symbols)
            values.append(value[np.ix_(*kept)] if kept else value)
        shapes = [tuple(weight.shape) for weight in new.weights]
        if shapes != [value.shape for value in values]:
            raise InternalError(
                f"after pruning, the weights of {facts} have the shapes {[value.shape for value in values]} "
                f"instead of {shapes}"
            )
        new.set_weights(values)
        if values and hasattr(new, "finalize_state"):
            new.finalize_state()


def _unbuilt(value: Any) -> Any:
    """Return a configuration without the shapes that wrapped layers were built for."""
    if isinstance(value, dict):
        return {key: _unbuilt(item) for key, item in value.items() if key != "build_config"}
    return [_unbuilt(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class UnprunedLayer:
    """A layer that keeps all channels, or some that the level would remove, and why."""

    layer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Pruned:
    """A pruned model.

    model: a new Keras model. removed: the indices of removed output channels, ascending, by the name of the layer that
    produced them. left_alone: layers that keep channels in spite of the level. parameters: the number in the new model,
    including those that are not trained; original_parameters: in the original. notes: for the user.
    """

    model: Any
    removed: dict[str, tuple[int, ...]]
    left_alone: tuple[UnprunedLayer, ...]
    parameters: int
    original_parameters: int
    notes: tuple[str, ...]


def prune(
    keras: Any,
    model: Any,
    level: float,
    *,
    method: str = "l1",
    exclude: Sequence[str] = (),
    allow_missing: bool = False,
) -> Pruned:
    """Remove floor(level * n) of the n channels of every group of layers that must keep the same channels.

    The result equals the original with all parameters of the removed channels (kernels, biases and batch normalization)
    set to zero; level 0 is the identity.

    Args:
        level: a fraction from 0 to less than 1.
        method: l1 or batch-norm.
        exclude: names of layers that keep their channels, or patterns with * and ?.
        allow_missing: add a note for a pattern that no layer matches, instead of an error.

    Raises UsageError for an invalid level, an unknown method or a pattern that no layer matches,
    UnsupportedModelError for a model without a graph of layers.
    """
    if not 0 <= level < 1:  # also rejects NaN
        raise UsageError(
            f"{level} is not a valid pruning level", fix="use the fraction of channels to remove: 0 to less than 1"
        )
    if method not in PRUNING_METHODS:
        raise UsageError(f"unknown pruning method {method!r}", fix=f"use {' or '.join(PRUNING_METHODS)}")
    paths = [path for path, _ in layers_of(keras, model)]
    lacking = [pattern for pattern in exclude if not any(matches(pattern, path) for path in paths)]
    if lacking and not allow_missing:
        raise _no_layer(lacking[0], paths)
    traced = trace(keras, model, exclude)
    choice = choose(traced, level, method)
    result = rebuild(keras, model, traced, choice.removed)
    shapes, before = ([tuple(tensor.shape) for tensor in each.outputs] for each in (result, model))
    if shapes != before:
        raise InternalError(f"pruning changed the outputs of model {model.name!r} from {before} to {shapes}")
    removed = _removed(traced, choice.removed)
    notes = (*choice.notes, *(f"exclude: there is no layer named {pattern!r}" for pattern in lacking))
    if level > 0 and not removed:
        notes = (*notes, "no channel can be removed at this level, so no layer was pruned")
    return Pruned(
        model=result,
        removed=removed,
        left_alone=_left_alone(traced, level) if level > 0 else (),
        parameters=int(result.count_params()),
        original_parameters=int(model.count_params()),
        notes=notes,
    )


def _no_layer(pattern: str, paths: Sequence[tuple[str, ...]]) -> UsageError:
    names = sorted({path[-1] for path in paths} | {SEPARATOR.join(path) for path in paths})
    near = difflib.get_close_matches(pattern, names, 3)
    return UsageError(
        f"there is no layer named {pattern!r}",
        where="exclude",
        fix=f"did you mean {' or '.join(map(repr, near))}?" if near else f"the layers are {', '.join(names[:8])}",
    )


def _removed(traced: Trace, units: frozenset[int]) -> dict[str, tuple[int, ...]]:
    removed_units = np.array(sorted(units), dtype=np.int64)
    indices = {
        facts.label: tuple(np.flatnonzero(np.isin(layer_units(traced, facts), removed_units)).tolist())
        for facts in producers(traced)
    }
    return {label: channels for label, channels in indices.items() if channels}


def _left_alone(traced: Trace, level: float) -> tuple[UnprunedLayer, ...]:
    """Return the layers that keep channels, in order of their first calls."""
    few = {
        unit: len(group.units)
        for group in groups(traced)
        if not count_to_remove(level, len(group.units))
        for unit in group.units
    }
    result: list[UnprunedLayer] = []
    for facts in traced.facts.values():
        if facts.kept_reason:
            result.append(UnprunedLayer(facts.label, facts.kept_reason))
        if facts.output_channels is None:
            continue
        reasons: dict[str, int] = {}
        for unit in layer_units(traced, facts).tolist():
            reason = traced.channels.reason(unit)
            if reason is None and unit in few:
                reason = f"{level:.12g} of {few[unit]} channels rounds down to zero"
            if reason is not None:
                reasons[reason] = reasons.get(reason, 0) + 1
        for reason, count in reasons.items():
            share = "" if count == len(facts.output_channels) else f"{count} of {len(facts.output_channels)} channels: "
            result.append(UnprunedLayer(facts.label, share + reason))
    return tuple(result)
