"""Follow the channels of a model through its layers, including nested models and shared layers.

There is a rule for each layer and operation: which weights its channels index, and where the channels go. The rules
cover layers with weights, activations, layers that rearrange the same elements, layers that merge tensors, and
operations that are not layers (x + y, x * 0.5, keras.ops.relu(x)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.errors import UnsupportedModelError
from edgetool.train.pruning.channels import (
    Channels,
    LayerCall,
    LayerFacts,
    NonzeroReasons,
    Signal,
    Symbols,
    no_nonzero_reasons,
    opaque,
    product_nonzero_reasons,
    sum_nonzero_reasons,
)

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
