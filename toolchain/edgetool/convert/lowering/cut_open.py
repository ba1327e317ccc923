"""Open a model at its cuts for the converter, and insert the cut layers into the converted graph.

The cut model has further inputs and outputs, with samples for the inputs. After the conversion they are joined again:

- The state of a stateful layer becomes a variable tensor, which persists from one invocation to the next. The graph
  reads it, and as its last step writes the layer's new state. TFLM and TensorFlow Lite set a variable to its zero at
  AllocateTensors and on a reset, as Keras does.
- An LSTM becomes one UNIDIRECTIONAL_SEQUENCE_LSTM, whose states are variable tensors. For a layer that starts each
  sequence at zero, the graph itself writes zeros into them first, so that every interpreter computes the right result.
  Sources for tensors and scales: unidirectional_sequence_lstm.cc and lstm_eval.cc of TensorFlow Lite and TFLM.
  TensorFlow's own fusion is not used: it limits the cell state to 10, and calibrates with the states that other samples
  have left.

Each operator then gets a bias with the correct scale. With int16 activations, TensorFlow's converter keeps one constant
for the bias of a layer that is called more than once, as each step of an unrolled GRU is, in the scale of the first
call. Kernels read it in the product of the scales of input and weights, whatever its own scale is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool import child
from edgetool.convert.float_model import FloatModel
from edgetool.convert.lowering.cuts import Cuts, LstmCut, RecordedCall
from edgetool.convert.request import INTEGER
from edgetool.convert.samples import Array, InputSpec
from edgetool.errors import ConversionError, UnsupportedModelError
from edgetool.model.draft import STORED, Draft
from edgetool.model.edit import in_order, renumbered
from edgetool.model.reader import read_model
from edgetool.model.types import CONVERSIONS, DType, Model, Operator, Quantization, Signature, Tensor
from edgetool.model.writer import write_model

INTEGERS = (DType.INT8, DType.INT16)


def without_ports(model: Model, inputs: Iterable[str], outputs: Iterable[str]) -> tuple[Model, dict[str, int]]:
    """Remove these inputs and outputs of the only signature; return the model, and their tensors by name."""
    signature = model.signatures[0]
    removed_inputs, removed_outputs = set(inputs), set(outputs)
    tensors = {name: tensor for name, tensor in signature.inputs if name in removed_inputs}
    tensors |= {name: tensor for name, tensor in signature.outputs if name in removed_outputs}
    missing = (removed_inputs | removed_outputs) - tensors.keys()
    if missing:
        raise ConversionError(
            f"TensorFlow's converter dropped {', '.join(sorted(missing))}, needed to connect a recurrent layer to the "
            "rest of the model",
            fix="use --rnn unrolled",
        )
    kept = replace(
        signature,
        inputs=tuple(pair for pair in signature.inputs if pair[0] not in removed_inputs),
        outputs=tuple(pair for pair in signature.outputs if pair[0] not in removed_outputs),
    )
    main = replace(
        model.main,
        inputs=tuple(t for t in model.main.inputs if t not in {tensors[name] for name in removed_inputs}),
        outputs=_kept_outputs(model, kept),
    )
    return replace(model, signatures=(kept, *model.signatures[1:]), subgraphs=(main, *model.subgraphs[1:])), tensors


def _kept_outputs(model: Model, kept: Signature) -> tuple[int, ...]:
    """Return the graph's outputs that the signature still names, once for each name.

    If a value is both an output of the model and of a cut, the converter creates one tensor or two for it, and both
    names can refer to the first.
    """
    return tuple(sorted((tensor for _, tensor in kept.outputs), key=model.main.outputs.index))


def inner_inputs(draft: Draft, port: int) -> list[int]:
    """Return the tensors of a cut input in the type of the graph: after QUANTIZE if the input has another type."""
    readers = draft.consumers(port)
    if draft.tensors[port].dtype in INTEGERS or not any(reader.code == "QUANTIZE" for reader in readers):
        return [port]
    if any(reader.code != "QUANTIZE" for reader in readers):
        raise ConversionError(
            f"the value {draft.tensors[port].name!r} of a recurrent layer is used both as float and as integer",
            fix="use --io int8, or --rnn unrolled",
        )
    for reader in readers:
        draft.replace(reader)
    return [reader.outputs[0] for reader in readers]


def inner_output(draft: Draft, port: int) -> int:
    """Return the tensor of a cut output in the type of the graph."""
    producer = draft.producer(port)
    if producer is None or producer.code not in CONVERSIONS:
        return port
    source = producer.inputs[0]
    is_dequantized = draft.tensors[source].dtype in INTEGERS and draft.tensors[port].dtype not in INTEGERS
    if not is_dequantized:
        return port
    if port not in draft.outputs and not draft.consumers(port):
        draft.replace(producer)
    return source


def copy(draft: Draft, source: int, result: int) -> Operator:
    """Return a RESHAPE that copies a tensor to another one with the same type and number of elements."""
    shape = draft.tensors[result].shape
    sizes = draft.constant(f"{draft.tensors[result].name}/shape", np.array(shape, np.int32))
    return draft.make("RESHAPE", [source, sizes], [result], new_shape=shape)


@dataclass(frozen=True, slots=True)
class GraphEdit:
    """Operators to add in order to connect a cut layer, and operators that are then unused."""

    new: tuple[Operator, ...] = ()
    unused: tuple[Operator, ...] = ()


def shaped_source(draft: Draft, flat: int, shape: tuple[int, ...]) -> tuple[int, GraphEdit]:
    """Return a tensor with this shape and the elements of `flat`: the one from which it was reshaped, or a new one."""
    tensor, producer = draft.tensors[flat], draft.producer(flat)
    if producer is not None and producer.code == "RESHAPE" and draft.tensors[producer.inputs[0]].shape == shape:
        is_unused = flat not in draft.outputs and not draft.consumers(flat)
        return producer.inputs[0], GraphEdit(unused=(producer,) if is_unused else ())
    if tensor.shape == shape:
        return flat, GraphEdit()
    shaped = draft.tensor(f"{tensor.name}/shaped", shape, tensor.dtype, tensor.quantization)
    return shaped, GraphEdit(new=(copy(draft, flat, shaped),))


def append(draft: Draft, operator: Operator) -> None:
    """Insert an operator after all others."""
    draft.insert_after(draft.operators[-1], operator)


def in_dependency_order(model: Model) -> Model:
    """Move each operator of the main graph after those whose results it reads, and keep the order otherwise."""
    waiting = list(model.main.operators)
    not_computed = {output for operator in waiting for output in operator.outputs}
    order: list[int] = []
    while waiting:
        ready = next(operator for operator in waiting if not not_computed & set(operator.inputs))
        waiting.remove(ready)
        not_computed -= set(ready.outputs)
        order.append(ready.index)
    return renumbered(in_order(model, order))


BROADCAST_VERSION = 2
DEQUANTIZE_VERSION = 2
REQUANTIZE_VERSIONS = {DType.INT8: 2, DType.INT16: 3}
# Operators whose output may share the memory of their input in TensorFlow Lite.
VIEWS = frozenset(["RESHAPE", "EXPAND_DIMS", "SQUEEZE"])
StatePort = tuple[int, tuple[int, ...]]  # the tensor of a cut output, and the shape of the state that it becomes


def add_state_variables(model: Model, pairs: tuple[tuple[str, str, str], ...]) -> Model:
    """Return the model with each state in a variable tensor.

    Args:
        pairs: for each state, the name of the variable, of the signature's input that reads the state, and of its
            output with the new state.

    Raises ConversionError if the converter did not keep these inputs and outputs.
    """
    model, ports = without_ports(model, [pair[1] for pair in pairs], [pair[2] for pair in pairs])
    draft = Draft(model)
    states = [_state_variable(draft, name, ports[input_name]) for name, input_name, _ in pairs]
    shapes = [draft.tensors[state].shape for state in states]
    ends = [(ports[output_name], shape) for (*_, output_name), shape in zip(pairs, shapes, strict=True)]
    sources_by_end = _sources(draft, ends)
    sources = [sources_by_end[end] for end in ends]
    # States are written last: after every reader, and after copies of states that become other states.
    sources = [_saved_state(draft, source) if _aliases_state(draft, source, states) else source for source in sources]
    for source, state in zip(sources, states, strict=True):
        append(draft, _write(draft, source, state))
    return draft.finish()


def _state_variable(draft: Draft, name: str, port: int) -> int:
    first, *others = inner_inputs(draft, port)
    for other in others:
        draft.redirect(other, first)
    draft.tensors[first] = replace(draft.tensors[first], name=name, is_variable=True, shape_signature=())
    return first


def _sources(draft: Draft, ends: Sequence[StatePort]) -> dict[StatePort, int]:
    """Return the tensor of each new state in its shape; one cut output can be the new value of several states."""
    inner = {port: inner_output(draft, port) for port in dict.fromkeys(port for port, _ in ends)}
    edits = {(port, shape): shaped_source(draft, inner[port], shape) for port, shape in dict.fromkeys(ends)}
    for _, edit in edits.values():
        for operator in edit.new:
            append(draft, operator)
    unused = {operator.index: operator for _, edit in edits.values() for operator in edit.unused}
    needed = {operator.inputs[0] for _, edit in edits.values() for operator in edit.new}
    for operator in unused.values():
        if operator.outputs[0] not in needed:
            draft.replace(operator)
    return {end: source for end, (source, _) in edits.items()}


def _aliases_state(draft: Draft, tensor: int, states: Sequence[int]) -> bool:
    """Return whether the tensor is a state, or may share the memory of one."""
    while tensor not in states:
        producer = draft.producer(tensor)
        if producer is None or producer.code not in VIEWS:
            return False
        tensor = producer.inputs[0]
    return True


def _saved_state(draft: Draft, state: int) -> int:
    """Return a copy of a state, created before any state is written."""
    tensor = draft.tensors[state]
    result = draft.tensor(f"{tensor.name}/before", tensor.shape, tensor.dtype, tensor.quantization)
    append(draft, _write(draft, state, result))
    return result


def _write(draft: Draft, source: int, state: int) -> Operator:
    """Return an operator that writes the state in its type and scale.

    If RESHAPE copied it, TensorFlow Lite would not allocate memory for the variable.
    """
    source_tensor, state_tensor = draft.tensors[source], draft.tensors[state]
    if state_tensor.dtype in INTEGERS:  # the source is float if the converter left its producer in float
        return draft.make("QUANTIZE", [source], [state], version=REQUANTIZE_VERSIONS.get(source_tensor.dtype, 1))
    if source_tensor.dtype in INTEGERS:
        return draft.make("DEQUANTIZE", [source], [state], version=DEQUANTIZE_VERSION)
    sizes = draft.constant(f"{state_tensor.name}/shape", np.array(state_tensor.shape, np.int32))
    return draft.make("BROADCAST_TO", [source, sizes], [state], version=BROADCAST_VERSION)


Floats = npt.NDArray[np.float32]

MAX_INT8 = 127
MAX_BIAS = 2**30
HIDDEN, CELL = 18, 19  # positions of the states among the inputs of the operator
CELL_BITS = 15  # of the fraction of a cell state below 1
MAX_CELL_BITS = 6  # of the integer part, for which the kernels have a tanh
CELL_MARGIN = 1.25  # for inputs that differ from the samples; costs at most one of 16 bits


def run_lstm(cut: LstmCut, sequences: Floats) -> tuple[Floats, float]:
    """Return the outputs (N, steps, units) of the layer for sequences (N, steps, features), and the largest cell state.

    A stateful layer reads the sequences as one long sequence.
    """
    count, steps, features = sequences.shape
    inputs = sequences.reshape(1, count * steps, features) if cut.stateful else sequences
    hidden = np.zeros((len(inputs), cut.units), np.float32)
    cell, largest = hidden, 0.0
    outputs = np.empty((*inputs.shape[:2], cut.units), np.float32)
    for step in range(inputs.shape[1]):
        gates = inputs[:, step] @ cut.kernel + hidden @ cut.recurrent + cut.bias
        input_gate, forget, candidate, output_gate = np.split(gates, 4, axis=1)
        cell = _sigmoid(forget) * cell + _sigmoid(input_gate) * np.tanh(candidate)
        hidden = _sigmoid(output_gate) * np.tanh(cell)
        outputs[:, step] = hidden
        largest = max(largest, float(np.abs(cell).max()))
    return outputs.reshape(count, steps, cut.units), largest


def _sigmoid(values: Floats) -> Floats:
    result: Floats = 0.5 * (np.tanh(0.5 * values) + 1)
    return result


def cell_bits(largest: float) -> int | None:
    """Return the bits of the integer part of a cell state up to `largest`; None if the kernels do not support it."""
    bits = max(0, math.ceil(math.log2(max(largest, 2.0**-CELL_BITS) * CELL_MARGIN)))
    return bits if bits <= MAX_CELL_BITS else None


def join_lstm(model: Model, cut: LstmCut, cut_input: str, cut_output: str, largest: float) -> Model:
    """Insert the LSTM operator between the model's output `cut_output` and its input `cut_input`.

    Args:
        cut_input, cut_output: names in the signature. Both tensors are flat: they have the elements of (1, steps,
            units) and of (1, steps, features).
        largest: the largest value of the cell state.

    Raises ConversionError if the converter did not keep this input and output.
    """
    model, ports = without_ports(model, [cut_input], [cut_output])
    draft = Draft(model)
    first, *others = inner_inputs(draft, ports[cut_input])
    for other in others:
        draft.redirect(other, first)
    flat, features = inner_output(draft, ports[cut_output]), cut.kernel.shape[0]
    source, before = shaped_source(draft, flat, (1, draft.tensors[flat].element_count // features, features))
    result, after = _result(draft, first, cut)
    lstm = _operator(draft, cut, source, result, largest)
    states = () if cut.stateful else (lstm.inputs[HIDDEN], lstm.inputs[CELL])
    for operator in (*before.new, *(_zeroed(draft, state) for state in states), lstm, *after.new):
        append(draft, operator)
    for operator in (*before.unused, *after.unused):
        draft.replace(operator)
    return in_dependency_order(draft.finish())


def _result(draft: Draft, flat: int, cut: LstmCut) -> tuple[int, GraphEdit]:
    """Return the tensor (1, steps, units) to which the graph reshapes the flat one, or a new one copied to it."""
    tensor, readers = draft.tensors[flat], draft.consumers(flat)
    shape = (1, tensor.element_count // cut.units, cut.units)
    if tensor.shape == shape:
        return flat, GraphEdit()
    if flat not in draft.outputs and [reader.code for reader in readers] == ["RESHAPE"]:
        reshaped = readers[0].outputs[0]
        if draft.tensors[reshaped].shape == shape:
            return reshaped, GraphEdit(unused=(readers[0],))
    shaped = draft.tensor(f"{cut.name}/outputs", shape, tensor.dtype, tensor.quantization)
    return shaped, GraphEdit(new=(copy(draft, shaped, flat),))


def _operator(draft: Draft, cut: LstmCut, source: int, result: int, largest: float) -> Operator:
    """Return the LSTM operator from `source` to `result`, with new variable tensors for its states."""
    input_tensor, output_tensor = draft.tensors[source], draft.tensors[result]
    parts = np.split(cut.bias, 4)
    # A 32-bit bias has the product of the scales of input and weights, which must be large enough for its values.
    min_scales = [0.0] * 8
    if input_tensor.quantization is not None:
        input_scale = input_tensor.quantization.scales[0]
        min_scales[:4] = [float(np.abs(part).max()) / (MAX_BIAS * input_scale) for part in parts]
    weights = [part.T for whole in (cut.kernel, cut.recurrent) for part in np.split(whole, 4, axis=1)]
    tensors = [
        _weights(draft, f"{cut.name}/weights_{i}", part, input_tensor.dtype, min_scales[i])
        for i, part in enumerate(weights)
    ]
    biases = [
        _bias(draft, f"{cut.name}/bias_{i}", part, input_tensor, draft.tensors[tensors[i]])
        for i, part in enumerate(parts)
    ]
    hidden = _variable(draft, f"{cut.name}/hidden_state", cut.units, output_tensor.dtype, output_tensor.quantization)
    cell = _variable(draft, f"{cut.name}/cell_state", cut.units, *_cell_type(cut, output_tensor.dtype, largest))
    absent = -1
    operator = draft.make(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [source, *tensors, *[absent] * 3, *biases, *[absent] * 2, hidden, cell, *[absent] * 4],
        [result],
        fused_activation_function="TANH",
        cell_clip=0.0,
        proj_clip=0.0,
    )
    return replace(operator, intermediates=_intermediates(draft, cut, output_tensor))


def _zeroed(draft: Draft, state: int) -> Operator:
    """Return an operator that writes zero to a state.

    TensorFlow Lite would copy a constant only once and not in every run, and TFLM's FILL does not support int16.
    """
    tensor = draft.tensors[state]
    zero = tensor.quantization.zero_points[0] if tensor.quantization is not None else 0
    sizes = draft.constant(f"{tensor.name}/shape", np.array(tensor.shape, np.int32))
    value = draft.constant(f"{tensor.name}/start", np.full((1, 1), zero, STORED[tensor.dtype]), tensor.quantization)
    return draft.make("BROADCAST_TO", [value, sizes], [state], version=2)


def _cell_type(cut: LstmCut, dtype: DType, largest: float) -> tuple[DType, Quantization | None]:
    """Return type and quantization of the cell state; its scale is a power of two, so that the kernels can shift."""
    if dtype not in INTEGERS:
        return dtype, None
    bits = cell_bits(largest)
    if bits is None:
        raise ConversionError(
            f"the cell state of layer {cut.name!r} (LSTM) reaches {largest:.0f}, which is too large for the operator",
            fix="use --rnn unrolled, or other calibration data",
        )
    return DType.INT16, Quantization((2.0 ** (bits - CELL_BITS),), (0,), 0)


def _weights(draft: Draft, name: str, values: Floats, dtype: DType, min_scale: float) -> int:
    if dtype not in INTEGERS:
        return draft.constant(name, np.ascontiguousarray(values))
    largest = float(np.abs(values).max()) or 1.0
    scale = float(np.float32(max(largest / MAX_INT8, min_scale)))
    stored = np.clip(np.rint(values / scale), -MAX_INT8, MAX_INT8).astype(np.int8)
    return draft.constant(name, stored, Quantization((scale,), (0,), 0))


def _bias(draft: Draft, name: str, values: Floats, source: Tensor, weights: Tensor) -> int:
    """Add the bias of a gate. It is added to sums of input times weight, so it has the product of their scales."""
    if weights.quantization is None or source.quantization is None:
        return draft.constant(name, values)
    scale = float(np.float32(source.quantization.scales[0] * weights.quantization.scales[0]))
    limits = np.iinfo(np.int32)
    stored = np.clip(np.rint(values.astype(np.float64) / scale), limits.min, limits.max).astype(np.int32)
    return draft.constant(name, stored, Quantization((scale,), (0,), 0))


def _variable(draft: Draft, name: str, units: int, dtype: DType, quantization: Quantization | None) -> int:
    index = draft.tensor(name, (1, units), dtype, quantization)
    draft.tensors[index] = replace(draft.tensors[index], is_variable=True)
    return index


def _intermediates(draft: Draft, cut: LstmCut, result: Tensor) -> tuple[int, ...]:
    """Return the intermediate tensors that TensorFlow Lite requires for an integer LSTM: the scale of the hidden state.

    TFLM does not read them, and fails if any of them has elements.
    """
    if result.dtype not in INTEGERS:
        return ()
    gates = [draft.tensor(f"{cut.name}/intermediate_{i}", (0,), DType.FLOAT32) for i in range(4)]
    return (*gates, draft.tensor(f"{cut.name}/intermediate_4", (0,), result.dtype, result.quantization))


# The positions of input, weights and bias among the inputs of operators.
OPERAND_POSITIONS = {
    "CONV_2D": (0, 1, 2),
    "DEPTHWISE_CONV_2D": (0, 1, 2),
    "FULLY_CONNECTED": (0, 1, 2),
    "TRANSPOSE_CONV": (2, 1, 3),
}
RELATIVE_TOLERANCE = 1e-4  # for products of float32 numbers


def requantize_biases(model: Model) -> Model:
    """Requantize biases of the main graph to the scale in which kernels read them; return `model` if all match."""
    draft, changed = Draft(model), False
    for operator in tuple(draft.operators):
        requantized = _with_requantized_bias(draft, operator)
        if requantized is not None:
            draft.replace(operator, requantized)
            changed = True
    return draft.finish() if changed else model


def _with_requantized_bias(draft: Draft, operator: Operator) -> Operator | None:
    positions = OPERAND_POSITIONS.get(operator.code)
    if positions is None or len(operator.inputs) <= positions[2] or operator.inputs[positions[2]] < 0:
        return None
    source, weights, bias = (draft.tensors[operator.inputs[position]] for position in positions)
    if source.quantization is None or weights.quantization is None or bias.quantization is None or bias.data is None:
        return None
    product = _scales(source.quantization)[0] * _scales(weights.quantization)
    kernel_scales = product.astype(np.float32).astype(np.float64)  # as the file stores them
    bias_scales = _scales(bias.quantization)
    if not bias_scales.size or np.allclose(kernel_scales, bias_scales, rtol=RELATIVE_TOLERANCE, atol=0):
        return None
    kind = STORED[bias.dtype]
    values = np.frombuffer(bias.data, np.dtype(kind).newbyteorder("<")) * bias_scales
    limits = np.iinfo(kind)
    stored = np.clip(np.rint(values / kernel_scales), limits.min, limits.max).astype(kind).reshape(bias.shape)
    scales = tuple(float(scale) for scale in kernel_scales)
    requantized = draft.constant(f"{bias.name}/{operator.index}", stored, Quantization(scales, (0,) * len(scales), 0))
    inputs = list(operator.inputs)
    inputs[positions[2]] = requantized
    return replace(operator, inputs=tuple(inputs))


def _scales(quantization: Quantization) -> npt.NDArray[np.float64]:
    return np.asarray(quantization.scales, np.float64)


PROGRESS_STEPS = 20
# The ranks of the inputs and outputs of cuts, which no other tensor has. So a RESHAPE connects an input directly with
# an output of another cut or of the model. The converter would leave a tensor that is both input and output in float.
CUT_INPUT_RANK, CUT_OUTPUT_RANK = 5, 6


@dataclass(frozen=True, slots=True)
class CutModel:
    """A cut model for the converter.

    samples: those of the model, and for each new input an array (N, ...). join: inserts the cut layers into the
    converted .tflite. fused: the layers that become one operator. notes: one sentence for each layer that cannot, and
    for each state that persists.
    """

    model: FloatModel
    samples: list[Any]
    join: Callable[[bytes], bytes]
    fused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _CutEnds:
    """A cut: its layer, and shapes and samples of the graph inputs that replace the layer's results."""

    name: str
    shapes: tuple[tuple[int, ...], ...]  # with batch, as in the call of the layer
    flat: bool
    samples: tuple[Array, ...]
    largest: float = 0.0


def open_cuts(
    tf: Any,
    model: FloatModel,
    cuts: Cuts,
    samples: Sequence[Any],
    quantize: str,
    progress: child.Progress,
) -> CutModel:
    """Cut the model open at the layers in `cuts`.

    Raises UnsupportedModelError naming a layer whose state cannot be kept, or that cannot become one operator although
    the user requires it.
    """
    if not cuts:
        return CutModel(model, list(samples), _with_requantized_biases)
    notes = _drop_unsuitable(cuts, _recorded(tf, model, cuts, samples, 1, lambda step: None))
    count = len(samples[0]) if quantize in INTEGER else 1
    calls_by_layer = _recorded(tf, model, cuts, samples, count, progress)
    ends = _lstm_cuts(cuts, calls_by_layer, notes, quantize)
    if any(
        cut.name not in calls_by_layer for cut in cuts.separate_states
    ):  # _lstm_cuts dropped LSTMs, whose states were not recorded
        calls_by_layer = _recorded(tf, model, cuts, samples, count, progress)
    ends += _state_cuts(cuts, calls_by_layer, count)
    if not ends:
        return CutModel(model, list(samples), _with_requantized_biases, notes=tuple(notes))
    opened = _opened_model(tf, model, cuts, ends)
    names = _end_names(model, opened)
    lstms = dict(cuts.lstms)

    def join(content: bytes) -> bytes:
        result = read_model(content)
        pairs = iter(names)
        states: list[tuple[str, str, str]] = []
        for end in ends:
            end_pairs = [next(pairs) for _ in end.shapes]
            if end.name in lstms:
                result = join_lstm(result, lstms[end.name], *end_pairs[0], end.largest)
            else:
                states += [(f"{end.name}/state_{i}", *pair) for i, pair in enumerate(end_pairs)]
        return _with_requantized_biases(write_model(add_state_variables(result, tuple(states)) if states else result))

    stateful = [end.name for end in ends if _keeps_state(cuts, end)]
    notes += [f"layer {name!r} keeps its state from one invocation to the next" for name in stateful]
    arrays = [*samples, *(array for end in ends for array in end.samples)]
    return CutModel(opened, arrays, join, tuple(lstms), tuple(notes))


def _with_requantized_biases(content: bytes) -> bytes:
    """Return the file with biases requantized, which the converter gets wrong for layers called more than once."""
    model = read_model(content)
    requantized = requantize_biases(model)
    return content if requantized is model else write_model(requantized)


def _keeps_state(cuts: Cuts, end: _CutEnds) -> bool:
    return end.name not in cuts.lstms or cuts.lstms[end.name].stateful


def _recorded(
    tf: Any, model: FloatModel, cuts: Cuts, samples: Sequence[Any], count: int, progress: child.Progress
) -> dict[str, list[RecordedCall]]:
    """Run the samples one by one and return the recorded calls by layer. The state is reset before and afterwards."""
    call = model.traced or model.call
    if model.reset is not None:
        model.reset()
    with cuts.recording() as calls_by_layer:
        for index in range(count):
            if index % max(1, count // PROGRESS_STEPS) == 0:
                progress(f"running the float model for its recurrent layers {index + 1}/{count}")
            call([tf.constant(array[index : index + 1]) for array in samples])
    if model.reset is not None:
        model.reset()
    return calls_by_layer


def _drop_unsuitable(cuts: Cuts, calls_by_layer: dict[str, list[RecordedCall]]) -> list[str]:
    """Drop the LSTMs that cannot be one operator according to the first sample; return notes about them."""
    obstacles = {cut.name: _obstacle(calls_by_layer.get(cut.name, [])) for cut in cuts.lstms.values()}
    return [_drop(cuts, cuts.lstms[name], obstacle) for name, obstacle in obstacles.items() if obstacle is not None]


def _drop(cuts: Cuts, cut: LstmCut, obstacle: str) -> str:
    del cuts.lstms[cut.name]
    if cut.required:
        raise UnsupportedModelError(
            f"layer {cut.name!r} (LSTM) cannot be converted to one operator: {obstacle}",
            fix="use --rnn auto or --rnn unrolled",
        )
    return f"layer {cut.name!r} (LSTM) was unrolled: {obstacle}"


def _obstacle(calls: list[RecordedCall]) -> str | None:
    """Return the reason why a layer with these calls cannot be cut, None if it can."""
    if len(calls) != 1:
        return f"the model calls it {len(calls)} times"
    (recorded,) = calls
    if any(not hasattr(value, "__array__") for value in recorded.values):
        return "another layer calls it in a separate graph"
    if any(np.shape(value)[0] != 1 for value in recorded.values):
        return "another layer calls it with a batch size other than 1"
    return recorded.obstacle


def _lstm_cuts(
    cuts: Cuts, calls_by_layer: dict[str, list[RecordedCall]], notes: list[str], quantize: str
) -> list[_CutEnds]:
    ends = []
    for name, cut in tuple(cuts.lstms.items()):
        sequences = np.concatenate([np.asarray(recorded.values[0], np.float32) for recorded in calls_by_layer[name]])
        outputs, largest = run_lstm(cut, sequences)
        keras_outputs = np.concatenate(
            [np.asarray(recorded.values[1], np.float32) for recorded in calls_by_layer[name]]
        )
        error = np.abs((outputs if keras_outputs.ndim == outputs.ndim else outputs[:, -1]) - keras_outputs).max()
        if not error <= RELATIVE_TOLERANCE:
            notes.append(_drop(cuts, cut, f"its output differs from that of an LSTM by {error:.1g}"))
            continue
        if quantize in INTEGER and cell_bits(largest) is None:
            notes.append(_drop(cuts, cut, f"its cell state reaches {largest:.0f}, which is too large for the operator"))
            continue
        shape = (1, *outputs.shape[1:])
        samples = outputs.reshape(len(outputs), *_flat_shape(shape, CUT_INPUT_RANK)[1:])
        ends.append(_CutEnds(name, (shape,), True, (samples,), largest))
    return ends


def _state_cuts(cuts: Cuts, calls_by_layer: dict[str, list[RecordedCall]], count: int) -> list[_CutEnds]:
    ends = []
    for cut in cuts.separate_states:
        calls = calls_by_layer.get(cut.name, [])
        obstacle = _obstacle(calls[: len(calls) // count])
        if obstacle is not None:
            raise UnsupportedModelError(
                f"layer {cut.name!r} cannot keep its state: {obstacle}",
                fix="call a stateful layer only once, outside other layers",
            )
        columns = zip(*(recorded.values for recorded in calls), strict=True)
        samples = tuple(np.concatenate(column).astype(np.float32) for column in columns)
        ends.append(_CutEnds(cut.name, cut.shapes, False, samples))
    return ends


def _opened_model(tf: Any, model: FloatModel, cuts: Cuts, ends: Sequence[_CutEnds]) -> FloatModel:
    """Return the model with additional inputs for the results of cut layers, and outputs for what these layers read."""
    count = len(model.specs)
    call = model.traced or model.call
    specs = [
        InputSpec(f"{end.name}_given_{i}", (_flat_shape(shape, CUT_INPUT_RANK) if end.flat else shape)[1:], "float32")
        for end in ends
        for i, shape in enumerate(end.shapes)
    ]

    def opened(tensors: Sequence[Any]) -> list[Any]:
        rest = iter(tensors[count:])
        cut_inputs = {end.name: tuple(tf.reshape(next(rest), shape) for shape in end.shapes) for end in ends}
        with cuts.opened(cut_inputs) as cut_outputs:
            results = list(call(tensors[:count]))
        for end in ends:
            results += [tf.reshape(value, _flat_shape(value.shape, CUT_OUTPUT_RANK)) for value in cut_outputs[end.name]]
        return results

    return replace(
        model,
        specs=(*model.specs, *specs),
        output_names=(*model.output_names, *(spec.name.replace("_given_", "_taken_") for spec in specs)),
        call=opened,
        traced=None,
    )


def _flat_shape(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return a shape of this rank with the same number of elements along the second axis."""
    return (1, prod(shape), *[1] * (rank - 2))


def _end_names(model: FloatModel, opened: FloatModel) -> list[tuple[str, str]]:
    """Return the signature's names of each new input and the corresponding output of the cut model."""
    inputs = opened.signature_inputs[len(model.specs) :]
    outputs = opened.signature_outputs[len(model.output_names) :]
    return list(zip(inputs, outputs, strict=True))
