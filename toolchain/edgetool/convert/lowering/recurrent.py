"""Lower recurrent layers to one operator if the runtime has it, or to a copy for each time step; never to a loop.

The states of stateful layers become variable tensors of the .tflite. The steps of TimeDistributed become a batch; Keras
would unroll it into slices of any rank and a PACK.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from edgetool.convert.lowering.context import FunctionContext, Lower, LowerContext, LowerFunction, children, places
from edgetool.convert.lowering.cuts import LstmCut, StateCut
from edgetool.convert.request import INTEGER


def stored_states(layer: Any) -> list[Any]:
    """Return the variables with the states of a stateful layer, in Keras's order; none before it is built."""
    return _flat(getattr(layer, "states", None))


def _flat(states: Any) -> list[Any]:
    if isinstance(states, list | tuple):
        return [variable for state in states for variable in _flat(state)]
    return [] if states is None else [states]


def reset_of(model: Any) -> Callable[[], None] | None:
    """Return a function that resets the states of a keras.Model to zeros; None for a model without stateful layers."""
    layers = [place.layer for place in places(model) if getattr(place.layer, "stateful", False)]
    variables = [variable for layer in layers for variable in stored_states(layer)]
    if not variables:
        return None

    def reset() -> None:
        for variable in variables:
            variable.assign(variable * 0)

    return reset


# Layers that TFLM runs only with a batch of 1, or that keep state from call to call.
SINGLE_BATCH_LAYERS = frozenset(
    "RNN SimpleRNN LSTM GRU Bidirectional ConvLSTM1D ConvLSTM2D ConvLSTM3D StackedRNNCells TimeDistributed".split()
)


def _time_distributed(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    tf, inner = context.tf, layer.layer
    as_batch = not SINGLE_BATCH_LAYERS & set(_class_names(inner))

    def call(inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        masked = mask is not None and getattr(inner, "_call_has_mask_arg", False)
        if masked or not inputs.shape.is_fully_defined():
            return context.original(inputs, training=training, mask=mask)
        batch, steps, *rest = inputs.shape.as_list()
        options = {"training": training} if getattr(inner, "_call_has_training_arg", False) else {}
        if as_batch:
            return _split_batch(tf, inner.call(tf.reshape(inputs, (batch * steps, *rest)), **options), batch, steps)
        flat = tf.reshape(inputs, (batch, steps, -1))
        outputs = [
            tf.expand_dims(inner.call(tf.reshape(flat[:, step], (batch, *rest)), **options), 1) for step in range(steps)
        ]
        return tf.concat(outputs, 1)

    return call


def _split_batch(tf: Any, outputs: Any, batch: int, steps: int) -> Any:
    return tf.reshape(outputs, (batch, steps, *outputs.shape[1:]))


def _class_names(layer: Any) -> list[str]:
    return [
        *(kind.__name__ for kind in type(layer).__mro__),
        *(name for child in children(layer) for name in _class_names(child)),
    ]


TIME_DISTRIBUTED_RULES: dict[str, Lower] = {"TimeDistributed": _time_distributed}


# About 16 operators and 8 KB of flash for each step of an LSTM or GRU: 2 MB, more than most microcontrollers have.
MAX_STEPS = 256
CONVOLUTIONAL = ("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "ConvLSTM", "ConvRNN")
SHORTEN = "shorten the sequence, or make the layer stateful and feed it a few time steps at a time"
# Schemes for which TensorFlow Lite and TFLM have one operator for a whole LSTM.
FUSED_SCHEMES = frozenset(["int8", "float32"])


def _recurrent(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    """Lower a layer to a copy for each time step; the state of a stateful layer is cut out.

    In float it may stay a loop, which TFLM can run. In integer schemes TensorFlow leaves loops in float, or crashes
    when it calibrates them.
    """
    if context.options.rnn == "fused":
        context.refuse("cannot be converted to a single operator: only LSTM can", "use --rnn auto or --rnn unrolled")
    if layer.stateful:
        return _with_separate_state(context, layer)
    may_loop = context.options.quantize not in INTEGER and context.options.rnn == "auto"
    return None if may_loop else _unrolled(context, layer)


def _lstm(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    """Cut out an LSTM, to become one operator, if it can; otherwise lower it as any other recurrent layer."""
    obstacle = "--rnn unrolled was specified" if context.options.rnn == "unrolled" else _obstacle(context, layer)
    required = context.options.rnn == "fused"
    if obstacle is not None:
        if required:
            context.refuse(f"cannot be converted to one operator: {obstacle}", "use --rnn auto or --rnn unrolled")
        return _recurrent(context, layer)
    name, cuts = context.scope, context.cuts
    cell = layer.cell
    kernel, recurrent = (weights.numpy().astype(np.float32) for weights in (cell.kernel, cell.recurrent_kernel))
    bias = cell.bias.numpy().astype(np.float32) if layer.use_bias else np.zeros(kernel.shape[1], np.float32)
    cuts.lstms[name] = LstmCut(name, kernel, recurrent, bias, bool(layer.stateful), required)
    plain = _with_separate_state(context, layer) if layer.stateful else _unrolled(context, layer)

    def call(sequence: Any, *args: Any, **kwargs: Any) -> Any:
        mode = cuts.mode(name)
        if mode == "off" or name not in cuts.lstms:
            return plain(sequence, *args, **kwargs)
        if mode == "recording":
            outputs = plain(sequence, *args, **kwargs)
            cuts.record(name, _in_time_order(context, layer, sequence), outputs, obstacle=_call_obstacle(args, kwargs))
            return outputs
        cuts.set_cut_outputs(name, _in_time_order(context, layer, sequence))
        (outputs,) = cuts.cut_inputs(name)
        return outputs if layer.return_sequences else outputs[:, -1]

    return call


def _in_time_order(context: LowerContext, layer: Any, sequence: Any) -> Any:
    """Return the sequence, (batch, steps, features), in the order in which the layer reads it."""
    if getattr(layer, "time_major", False):
        sequence = context.tf.transpose(sequence, (1, 0, 2))
    if not layer.go_backwards:
        return sequence
    return (
        _flipped(context.tf, sequence, 1) if context.options.quantize in INTEGER else context.tf.reverse(sequence, [1])
    )


def _flip(context: FunctionContext) -> Callable[..., Any]:
    """Lower flip, which Bidirectional applies to the outputs of its backward layer."""

    def flip(x: Any, axis: Any = None) -> Any:
        is_static = isinstance(axis, int) and getattr(x, "shape", None) is not None and x.shape[axis] is not None
        if context.options.quantize not in INTEGER or not is_static:
            return context.original(x, axis=axis)
        return _flipped(context.tf, x, axis)

    return flip


def _flipped(tf: Any, x: Any, axis: int) -> Any:
    """Reverse a tensor with GATHER.

    The converter would give the output of REVERSE_V2 a different scale from its input if a CONCATENATION after it
    requires that, but no kernel then converts the values.
    """
    return tf.gather(x, np.arange(x.shape[axis])[::-1].astype(np.int32), axis=axis)


def _obstacle(context: LowerContext, layer: Any) -> str | None:
    """Return why the configuration of this LSTM prevents it from becoming one operator, None if it does not."""
    if context.options.quantize not in FUSED_SCHEMES:
        return f"TensorFlow Lite has no such operator for {context.options.quantize}"
    cell = type(layer.cell)
    if cell.__name__ != "LSTMCell" or not cell.__module__.startswith(("keras.", "tf_keras.")):
        return "it uses a custom cell"
    names = [getattr(function, "__name__", "") for function in (layer.activation, layer.recurrent_activation)]
    if names != ["tanh", "sigmoid"]:
        return f"its activations are {names[0]} and {names[1]}, not tanh and sigmoid"
    if layer.return_state:
        return "it passes its state to other layers"
    if getattr(layer, "time_major", False):
        return "its first dimension is the time step"
    return None


def _call_obstacle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return why this call of an LSTM prevents it from becoming one operator, None if it does not."""
    arguments = dict(zip(("initial_state", "mask"), args, strict=False)) | kwargs
    if arguments.get("initial_state") is not None:
        return "another layer provides its state"
    if arguments.get("mask") is not None:
        return "its sequence is masked"
    return None


def _unrolled(context: LowerContext, layer: Any) -> Callable[..., Any]:
    """Return the layer's own call with a copy for each step; while values are recorded, with its loop."""
    original, cuts, name = context.original, context.cuts, context.scope

    def call(sequence: Any, *args: Any, **kwargs: Any) -> Any:
        if cuts.mode(name) == "recording":
            return original(sequence, *args, **kwargs)
        _check_steps(context, sequence.shape[0 if getattr(layer, "time_major", False) else 1])
        with _unrolled_inference(layer):
            return original(sequence, *args, **kwargs)

    return call


def _with_separate_state(context: LowerContext, layer: Any) -> Callable[..., Any]:
    """Return the layer's own call with its states cut out."""
    original, cuts, name = context.original, context.cuts, context.scope
    states = stored_states(layer)
    if not states or any(state.shape[0] != 1 for state in states):
        context.refuse(
            f"keeps a state for a batch of {states[0].shape[0] if states else 'unknown size'}",
            "build the model with batch_shape=(1, steps, features)",
        )
    cuts.states[name] = StateCut(name, tuple(tuple(int(size) for size in state.shape) for state in states))
    unrolled = _unrolled(context, layer)

    def call(sequence: Any, *args: Any, **kwargs: Any) -> Any:
        mode = cuts.mode(name)
        if mode == "recording" and name not in cuts.lstms:
            is_eager = hasattr(sequence, "numpy")
            obstacle = None if is_eager else "another layer calls it in a separate graph"
            cuts.record(name, *(state.numpy() for state in stored_states(layer) if is_eager), obstacle=obstacle)
        if mode != "open":
            return original(sequence, *args, **kwargs)
        before = context.tf.nest.pack_sequence_as(layer.states, list(cuts.cut_inputs(name)))
        arguments = dict(zip(("initial_state", "mask", "training"), args, strict=False)) | kwargs
        with _changed_attributes(layer, stateful=False, return_state=True):
            output, *after = unrolled(sequence, **{**arguments, "initial_state": before})
        cuts.set_cut_outputs(name, *context.tf.nest.flatten(after))
        return (output, *after) if layer.return_state else output

    return call


def _only_loops(context: LowerContext, layer: Any) -> None:
    """Reject a layer that cannot be unrolled, unless it can stay a loop: in float and without persistent state."""
    if layer.stateful or context.options.quantize in INTEGER:
        context.refuse("from tf_keras can only run in a loop", "save the model with Keras 3, or use --quantize float32")


def _bidirectional(context: LowerContext, layer: Any) -> None:
    """Reject stateful layers; otherwise, the two inner layers are lowered separately."""
    if layer.forward_layer.stateful:
        context.refuse(
            "cannot keep its state from one invocation to the next: its backward layer needs the end of a sequence "
            "that has no end",
            "make the wrapped layer stateless, or use it without Bidirectional",
        )


def _check_steps(context: LowerContext, steps: int | None) -> None:
    if steps is None:
        context.refuse("takes sequences of variable length", "use an input with a fixed number of time steps")
    if steps > MAX_STEPS:
        context.refuse(f"would become {steps} copies, one for each time step; the limit is {MAX_STEPS}", SHORTEN)


@contextlib.contextmanager
def _unrolled_inference(layer: Any) -> Iterator[None]:
    """Unroll the layer within the block, and disable dropout, which creates random masks even at inference."""
    with contextlib.ExitStack() as changes:
        changes.enter_context(_changed_attributes(layer, unroll=True, _could_use_gpu_kernel=False))
        for cell in _cells(layer.cell):
            changes.enter_context(_changed_attributes(cell, dropout=0.0, recurrent_dropout=0.0))
        yield


def _cells(cell: Any) -> list[Any]:
    """Return the cell, or all cells of a stack."""
    stacked = getattr(cell, "cells", None)
    return [inner for item in stacked for inner in _cells(item)] if stacked else [cell]


@contextlib.contextmanager
def _changed_attributes(owner: Any, **values: Any) -> Iterator[None]:
    """Change those of the attributes that the owner has within the block."""
    old = {name: getattr(owner, name) for name in values if hasattr(owner, name)}
    try:
        for name in old:
            setattr(owner, name, values[name])
        yield
    finally:
        for name, value in old.items():
            setattr(owner, name, value)


RULES: dict[str, Lower] = {
    "LSTM": _lstm,
    "Bidirectional": _bidirectional,
    **dict.fromkeys(("GRU", "SimpleRNN", "RNN", *CONVOLUTIONAL), _recurrent),
}
FUNCTIONS: dict[str, LowerFunction] = {"numpy.flip": _flip}
# tf_keras's layers have the same attributes, but its convolutional ones always loop.
TF_KERAS_RULES: dict[str, Lower] = RULES | dict.fromkeys(CONVOLUTIONAL, _only_loops)
