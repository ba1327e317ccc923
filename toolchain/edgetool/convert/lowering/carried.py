"""Turns the cut states of stateful layers into variable tensors, which live from one invocation to the next.

The graph reads a state in the variable and, as its last step, writes what the layer left into it. TFLM and TensorFlow
Lite set a variable to its zero at AllocateTensors and in their resets, as Keras begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgetool.convert.lowering.ports import INTEGERS, append, inner_inputs, inner_output, shaped_source, without_ports
from edgetool.model.edit import Draft
from edgetool.model.types import DType, Model, Operator

BROADCAST_VERSION = 2
DEQUANTIZE_VERSION = 2
REQUANTIZE_VERSIONS = {DType.INT8: 2, DType.INT16: 3}
# What TensorFlow Lite may give the memory of its input.
VIEWS = frozenset(["RESHAPE", "EXPAND_DIMS", "SQUEEZE"])
End = tuple[int, tuple[int, ...]]  # the tensor of a cut output, and the shape of the state that it becomes


def carry_states(model: Model, pairs: tuple[tuple[str, str, str], ...]) -> Model:
    """The model with each state in a variable tensor.

    pairs: the name of the variable, and those of the signature's input that reads the state and of its output that has
    it afterwards. Raises ConversionError when the converter did not keep them.
    """
    model, ports = without_ports(model, [pair[1] for pair in pairs], [pair[2] for pair in pairs])
    draft = Draft(model)
    states = [_variable(draft, name, ports[given]) for name, given, _ in pairs]
    shapes = [draft.tensors[state].shape for state in states]
    ends = [(ports[taken], shape) for (*_, taken), shape in zip(pairs, shapes, strict=True)]
    made = _sources(draft, ends)
    sources = [made[end] for end in ends]
    # All writers come last, after every reader, and after copies of the states that others are made of.
    sources = [_kept(draft, source) if _shows(draft, source, states) else source for source in sources]
    for source, state in zip(sources, states, strict=True):
        append(draft, _writer(draft, source, state))
    return draft.finish()


def _variable(draft: Draft, name: str, port: int) -> int:
    first, *others = inner_inputs(draft, port)
    for other in others:
        draft.redirect(other, first)
    draft.tensors[first] = replace(draft.tensors[first], name=name, is_variable=True, shape_signature=())
    return first


def _sources(draft: Draft, ends: Sequence[End]) -> dict[End, int]:
    """What each cut end was made of, in the shape of its state; one end may be what several states become."""
    inner = {port: inner_output(draft, port) for port in dict.fromkeys(port for port, _ in ends)}
    changes = {(port, shape): shaped_source(draft, inner[port], shape) for port, shape in dict.fromkeys(ends)}
    for _, change in changes.values():
        for operator in change.new:
            append(draft, operator)
    gone = {operator.index: operator for _, change in changes.values() for operator in change.gone}
    needed = {operator.inputs[0] for _, change in changes.values() for operator in change.new}
    for operator in gone.values():
        if operator.outputs[0] not in needed:
            draft.replace(operator)
    return {end: source for end, (source, _) in changes.items()}


def _shows(draft: Draft, tensor: int, states: Sequence[int]) -> bool:
    """Whether the tensor is a state, or may lie in the memory of one."""
    while tensor not in states:
        maker = draft.producer(tensor)
        if maker is None or maker.code not in VIEWS:
            return False
        tensor = maker.inputs[0]
    return True


def _kept(draft: Draft, state: int) -> int:
    """What a state holds before anything is written."""
    tensor = draft.tensors[state]
    result = draft.tensor(f"{tensor.name}/before", tensor.shape, tensor.dtype, tensor.quantization)
    append(draft, _writer(draft, state, result))
    return result


def _writer(draft: Draft, source: int, state: int) -> Operator:
    """What writes the state, and fits its scale. A copy by RESHAPE would leave TensorFlow Lite's variables without
    memory."""
    made, kept = draft.tensors[source], draft.tensors[state]
    if kept.dtype in INTEGERS:  # from float where the converter left what makes it in float
        return draft.make("QUANTIZE", [source], [state], version=REQUANTIZE_VERSIONS.get(made.dtype, 1))
    if made.dtype in INTEGERS:
        return draft.make("DEQUANTIZE", [source], [state], version=DEQUANTIZE_VERSION)
    sizes = draft.constant(f"{kept.name}/shape", np.array(kept.shape, np.int32))
    return draft.make("BROADCAST_TO", [source, sizes], [state], version=BROADCAST_VERSION)
