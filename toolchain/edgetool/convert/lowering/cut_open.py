"""Open a model at its cuts for the converter, and insert the cut layers into the converted graph.

The cut model has further inputs and outputs, with samples for the inputs. After the conversion they are joined again:

- The state of a stateful layer becomes a variable tensor, which persists from one invocation to the next. The graph
  reads it, and as its last step writes the layer's new state. TFLM and TensorFlow Lite set a variable to its zero at
  AllocateTensors and on a reset, as Keras does.
- An LSTM becomes one UNIDIRECTIONAL_SEQUENCE_LSTM, whose states are variable tensors. For a layer that starts each
  sequence at zero, the graph itself writes zeros into them first, so that every runner of the file is right. Sources
  for tensors and scales: unidirectional_sequence_lstm.cc and lstm_eval.cc of TensorFlow Lite and TFLM. TensorFlow's own
  fusion is not used: it limits the cell state to 10, and calibrates with states left from other samples.

Each operator then gets a bias in its own scale. With int16 activations, TensorFlow's converter keeps one constant for
the bias of a layer that is called more than once, as each step of an unrolled GRU is, in the scale of the first call.
Kernels read it in the product of the scales of input and weights, whatever its own scale is.
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
    """The model without these inputs and outputs of its one signature, and the tensors that they were."""
    signature = model.signatures[0]
    gone_in, gone_out = set(inputs), set(outputs)
    tensors = {name: tensor for name, tensor in signature.inputs if name in gone_in}
    tensors |= {name: tensor for name, tensor in signature.outputs if name in gone_out}
    missing = (gone_in | gone_out) - tensors.keys()
    if missing:
        raise ConversionError(
            f"TensorFlow's converter dropped {', '.join(sorted(missing))}, needed to connect a recurrent layer to the "
            "rest of the model",
            fix="use --rnn unrolled",
        )
    kept = replace(
        signature,
        inputs=tuple(pair for pair in signature.inputs if pair[0] not in gone_in),
        outputs=tuple(pair for pair in signature.outputs if pair[0] not in gone_out),
    )
    main = replace(
        model.main,
        inputs=tuple(t for t in model.main.inputs if t not in {tensors[name] for name in gone_in}),
        outputs=_kept_outputs(model, kept),
    )
    return replace(model, signatures=(kept, *model.signatures[1:]), subgraphs=(main, *model.subgraphs[1:])), tensors


def _kept_outputs(model: Model, kept: Signature) -> tuple[int, ...]:
    """The graph's outputs that the signature still names, once for each name: where a value is both an own output and a
    cut end, the converter makes one tensor or two of it, and both names may be of the first."""
    return tuple(sorted((tensor for _, tensor in kept.outputs), key=model.main.outputs.index))


def inner_inputs(draft: Draft, port: int) -> list[int]:
    """The tensors that stand for a cut input in the graph's own type: behind QUANTIZE where the ends have another."""
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
    """The tensor that stands for a cut output in the graph's own type."""
    maker = draft.producer(port)
    if maker is None or maker.code not in CONVERSIONS:
        return port
    source = maker.inputs[0]
    changes = draft.tensors[source].dtype in INTEGERS and draft.tensors[port].dtype not in INTEGERS
    if not changes:
        return port
    if port not in draft.outputs and not draft.consumers(port):
        draft.replace(maker)
    return source


def copy(draft: Draft, source: int, result: int) -> Operator:
    """A RESHAPE from one tensor to another of as many elements and of the same kind: it copies them."""
    shape = draft.tensors[result].shape
    sizes = draft.constant(f"{draft.tensors[result].name}/shape", np.array(shape, np.int32))
    return draft.make("RESHAPE", [source, sizes], [result], new_shape=shape)


@dataclass(frozen=True, slots=True)
class GraphEdit:
    """Operators that a joint needs, and those that it makes needless."""

    new: tuple[Operator, ...] = ()
    gone: tuple[Operator, ...] = ()


def shaped_source(draft: Draft, flat: int, shape: tuple[int, ...]) -> tuple[int, GraphEdit]:
    """The tensor of this shape that the flat one is made of, or one that is made of it."""
    tensor, maker = draft.tensors[flat], draft.producer(flat)
    if maker is not None and maker.code == "RESHAPE" and draft.tensors[maker.inputs[0]].shape == shape:
        needless = flat not in draft.outputs and not draft.consumers(flat)
        return maker.inputs[0], GraphEdit(gone=(maker,) if needless else ())
    if tensor.shape == shape:
        return flat, GraphEdit()
    shaped = draft.tensor(f"{tensor.name}/shaped", shape, tensor.dtype, tensor.quantization)
    return shaped, GraphEdit(new=(copy(draft, flat, shaped),))


def append(draft: Draft, operator: Operator) -> None:
    """Put an operator after all others."""
    draft.insert_after(draft.operators[-1], operator)


def in_dependency_order(model: Model) -> Model:
    """The model with each operator of its main graph after those whose results it reads, otherwise as they stand."""
    waiting = list(model.main.operators)
    made_later = {output for operator in waiting for output in operator.outputs}
    order: list[int] = []
    while waiting:
        ready = next(operator for operator in waiting if not made_later & set(operator.inputs))
        waiting.remove(ready)
        made_later -= set(ready.outputs)
        order.append(ready.index)
    return renumbered(in_order(model, order))


BROADCAST_VERSION = 2
DEQUANTIZE_VERSION = 2
REQUANTIZE_VERSIONS = {DType.INT8: 2, DType.INT16: 3}
# What TensorFlow Lite may give the memory of its input.
VIEWS = frozenset(["RESHAPE", "EXPAND_DIMS", "SQUEEZE"])
StatePort = tuple[int, tuple[int, ...]]  # the tensor of a cut output, and the shape of the state that it becomes


def add_state_variables(model: Model, pairs: tuple[tuple[str, str, str], ...]) -> Model:
    """The model with each state in a variable tensor.

    pairs: the name of the variable, and those of the signature's input that reads the state and of its output that has
    it afterwards. Raises ConversionError when the converter did not keep them.
    """
    model, ports = without_ports(model, [pair[1] for pair in pairs], [pair[2] for pair in pairs])
    draft = Draft(model)
    states = [_state_variable(draft, name, ports[given]) for name, given, _ in pairs]
    shapes = [draft.tensors[state].shape for state in states]
    ends = [(ports[taken], shape) for (*_, taken), shape in zip(pairs, shapes, strict=True)]
    made = _sources(draft, ends)
    sources = [made[end] for end in ends]
    # All writers come last, after every reader, and after copies of the states that others are made of.
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


def _aliases_state(draft: Draft, tensor: int, states: Sequence[int]) -> bool:
    """Whether the tensor is a state, or may lie in the memory of one."""
    while tensor not in states:
        maker = draft.producer(tensor)
        if maker is None or maker.code not in VIEWS:
            return False
        tensor = maker.inputs[0]
    return True


def _saved_state(draft: Draft, state: int) -> int:
    """What a state holds before anything is written."""
    tensor = draft.tensors[state]
    result = draft.tensor(f"{tensor.name}/before", tensor.shape, tensor.dtype, tensor.quantization)
    append(draft, _write(draft, state, result))
    return result


def _write(draft: Draft, source: int, state: int) -> Operator:
    """What writes the state, and fits its scale. A copy by RESHAPE would leave TensorFlow Lite's variables without
    memory."""
    made, kept = draft.tensors[source], draft.tensors[state]
    if kept.dtype in INTEGERS:  # from float where the converter left what makes it in float
        return draft.make("QUANTIZE", [source], [state], version=REQUANTIZE_VERSIONS.get(made.dtype, 1))
    if made.dtype in INTEGERS:
        return draft.make("DEQUANTIZE", [source], [state], version=DEQUANTIZE_VERSION)
    sizes = draft.constant(f"{kept.name}/shape", np.array(kept.shape, np.int32))
    return draft.make("BROADCAST_TO", [source, sizes], [state], version=BROADCAST_VERSION)


Floats = npt.NDArray[np.float32]

INT8_LARGEST = 127
BIAS_LARGEST = 2**30
HIDDEN, CELL = 18, 19  # where the operator takes its states
CELL_BITS = 15  # of its fraction, when the state stays below 1
LARGEST_CELL_BITS = 6  # of its integer part, for which the kernels have a tanh
CELL_MARGIN = 1.25  # for inputs that the samples do not show: at most one of 16 bits


def run_lstm(cut: LstmCut, sequences: Floats) -> tuple[Floats, float]:
    """The outputs (N, steps, units) of the layer for sequences (N, steps, features), and its largest cell state.

    A stateful layer takes the sequences as one that goes on.
    """
    count, steps, features = sequences.shape
    walked = sequences.reshape(1, count * steps, features) if cut.stateful else sequences
    hidden = np.zeros((len(walked), cut.units), np.float32)
    cell, largest = hidden, 0.0
    outputs = np.empty((*walked.shape[:2], cut.units), np.float32)
    for step in range(walked.shape[1]):
        gates = walked[:, step] @ cut.kernel + hidden @ cut.recurrent + cut.bias
        into, forget, candidate, out = np.split(gates, 4, axis=1)
        cell = _sigmoid(forget) * cell + _sigmoid(into) * np.tanh(candidate)
        hidden = _sigmoid(out) * np.tanh(cell)
        outputs[:, step] = hidden
        largest = max(largest, float(np.abs(cell).max()))
    return outputs.reshape(count, steps, cut.units), largest


def _sigmoid(values: Floats) -> Floats:
    result: Floats = 0.5 * (np.tanh(0.5 * values) + 1)
    return result


def cell_bits(largest: float) -> int | None:
    """Bits of the integer part of a cell state that reaches `largest`; None when the kernels have not so many."""
    bits = max(0, math.ceil(math.log2(max(largest, 2.0**-CELL_BITS) * CELL_MARGIN)))
    return bits if bits <= LARGEST_CELL_BITS else None


def join_lstm(model: Model, cut: LstmCut, given: str, taken: str, largest: float) -> Model:
    """The model with the operator between its output `taken` and its input `given` (names of the signature).

    largest: the cell state's largest value. Both are flat: their elements are those of (1, steps, features or units).
    Raises ConversionError when the converter did not keep the ends.
    """
    model, ports = without_ports(model, [given], [taken])
    draft = Draft(model)
    first, *others = inner_inputs(draft, ports[given])
    for other in others:
        draft.redirect(other, first)
    flat, features = inner_output(draft, ports[taken]), cut.kernel.shape[0]
    source, before = shaped_source(draft, flat, (1, draft.tensors[flat].element_count // features, features))
    result, after = _result(draft, first, cut)
    lstm = _operator(draft, cut, source, result, largest)
    states = () if cut.stateful else (lstm.inputs[HIDDEN], lstm.inputs[CELL])
    for operator in (*before.new, *(_start(draft, state) for state in states), lstm, *after.new):
        append(draft, operator)
    for operator in (*before.gone, *after.gone):
        draft.replace(operator)
    return in_dependency_order(draft.finish())


def _result(draft: Draft, flat: int, cut: LstmCut) -> tuple[int, GraphEdit]:
    """The tensor (1, steps, units) that the graph makes of the flat one, or one of which the flat one is made."""
    tensor, readers = draft.tensors[flat], draft.consumers(flat)
    shape = (1, tensor.element_count // cut.units, cut.units)
    if tensor.shape == shape:
        return flat, GraphEdit()
    if flat not in draft.outputs and [reader.code for reader in readers] == ["RESHAPE"]:
        made = readers[0].outputs[0]
        if draft.tensors[made].shape == shape:
            return made, GraphEdit(gone=(readers[0],))
    shaped = draft.tensor(f"{cut.name}/outputs", shape, tensor.dtype, tensor.quantization)
    return shaped, GraphEdit(new=(copy(draft, shaped, flat),))


def _operator(draft: Draft, cut: LstmCut, source: int, result: int, largest: float) -> Operator:
    """The LSTM from `source` to `result`, with states of its own."""
    given, made = draft.tensors[source], draft.tensors[result]
    parts = np.split(cut.bias, 4)
    # A bias is a number of 32 bits in the scale of input times weight: that must not be too fine for it.
    least = [0.0] * 8
    if given.quantization is not None:
        least[:4] = [float(np.abs(part).max()) / (BIAS_LARGEST * given.quantization.scales[0]) for part in parts]
    weights = [part.T for whole in (cut.kernel, cut.recurrent) for part in np.split(whole, 4, axis=1)]
    tensors = [
        _weights(draft, f"{cut.name}/weights_{i}", part, given.dtype, least[i]) for i, part in enumerate(weights)
    ]
    biases = [
        _bias(draft, f"{cut.name}/bias_{i}", part, given, draft.tensors[tensors[i]]) for i, part in enumerate(parts)
    ]
    hidden = _variable(draft, f"{cut.name}/hidden_state", cut.units, made.dtype, made.quantization)
    cell = _variable(draft, f"{cut.name}/cell_state", cut.units, *_cell_kind(cut, made.dtype, largest))
    absent = -1
    operator = draft.make(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [source, *tensors, *[absent] * 3, *biases, *[absent] * 2, hidden, cell, *[absent] * 4],
        [result],
        fused_activation_function="TANH",
        cell_clip=0.0,
        proj_clip=0.0,
    )
    return replace(operator, intermediates=_intermediates(draft, cut, made))


def _start(draft: Draft, state: int) -> Operator:
    """What writes zero into a state: TensorFlow Lite copies constants once and not in every run, and FILL of TFLM lacks
    int16."""
    tensor = draft.tensors[state]
    zero = tensor.quantization.zero_points[0] if tensor.quantization is not None else 0
    sizes = draft.constant(f"{tensor.name}/shape", np.array(tensor.shape, np.int32))
    value = draft.constant(f"{tensor.name}/start", np.full((1, 1), zero, STORED[tensor.dtype]), tensor.quantization)
    return draft.make("BROADCAST_TO", [value, sizes], [state], version=2)


def _cell_kind(cut: LstmCut, dtype: DType, largest: float) -> tuple[DType, Quantization | None]:
    """Type and scale of the cell state: a power of two, so that the kernels can shift."""
    if dtype not in INTEGERS:
        return dtype, None
    bits = cell_bits(largest)
    if bits is None:
        raise ConversionError(
            f"the cell state of layer {cut.name!r} (LSTM) reaches {largest:.0f}, which is too large for the operator",
            fix="use --rnn unrolled, or other calibration data",
        )
    return DType.INT16, Quantization((2.0 ** (bits - CELL_BITS),), (0,), 0)


def _weights(draft: Draft, name: str, values: Floats, dtype: DType, least_scale: float) -> int:
    if dtype not in INTEGERS:
        return draft.constant(name, np.ascontiguousarray(values))
    largest = float(np.abs(values).max()) or 1.0
    scale = float(np.float32(max(largest / INT8_LARGEST, least_scale)))
    stored = np.clip(np.rint(values / scale), -INT8_LARGEST, INT8_LARGEST).astype(np.int8)
    return draft.constant(name, stored, Quantization((scale,), (0,), 0))


def _bias(draft: Draft, name: str, values: Floats, source: Tensor, weights: Tensor) -> int:
    """The bias of a gate: it is added to sums of input times weight, and so has the product of their scales."""
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
    """What TensorFlow Lite wants of an integer LSTM beside its inputs, the hidden state's scale.

    TFLM does not look at them, and fails at any that has elements.
    """
    if result.dtype not in INTEGERS:
        return ()
    gates = [draft.tensor(f"{cut.name}/intermediate_{i}", (0,), DType.FLOAT32) for i in range(4)]
    return (*gates, draft.tensor(f"{cut.name}/intermediate_4", (0,), result.dtype, result.quantization))


# Where operators take input, weights and bias.
OPERAND_POSITIONS = {
    "CONV_2D": (0, 1, 2),
    "DEPTHWISE_CONV_2D": (0, 1, 2),
    "FULLY_CONNECTED": (0, 1, 2),
    "TRANSPOSE_CONV": (2, 1, 3),
}
RELATIVE_TOLERANCE = 1e-4  # relative: products of float32 numbers


def requantize_biases(model: Model) -> Model:
    """The model with every bias of the main graph in the scale in which kernels read it; itself where all are."""
    draft, changed = Draft(model), False
    for operator in tuple(draft.operators):
        requantized = _with_requantized_bias(draft, operator)
        if requantized is not None:
            draft.replace(operator, requantized)
            changed = True
    return draft.finish() if changed else model


def _with_requantized_bias(draft: Draft, operator: Operator) -> Operator | None:
    places = OPERAND_POSITIONS.get(operator.code)
    if places is None or len(operator.inputs) <= places[2] or operator.inputs[places[2]] < 0:
        return None
    source, weights, bias = (draft.tensors[operator.inputs[place]] for place in places)
    if source.quantization is None or weights.quantization is None or bias.quantization is None or bias.data is None:
        return None
    product = _scales(source.quantization)[0] * _scales(weights.quantization)
    read = product.astype(np.float32).astype(np.float64)  # as the file stores it
    written = _scales(bias.quantization)
    if not written.size or np.allclose(read, written, rtol=RELATIVE_TOLERANCE, atol=0):
        return None
    kind = STORED[bias.dtype]
    values = np.frombuffer(bias.data, np.dtype(kind).newbyteorder("<")) * written
    limits = np.iinfo(kind)
    stored = np.clip(np.rint(values / read), limits.min, limits.max).astype(kind).reshape(bias.shape)
    scales = tuple(float(scale) for scale in read)
    own = draft.constant(f"{bias.name}/{operator.index}", stored, Quantization(scales, (0,) * len(scales), 0))
    inputs = list(operator.inputs)
    inputs[places[2]] = own
    return replace(operator, inputs=tuple(inputs))


def _scales(quantization: Quantization) -> npt.NDArray[np.float64]:
    return np.asarray(quantization.scales, np.float64)


PROGRESS_STEPS = 20
# Ranks of a cut's two ends, which nothing else has: what goes straight from one layer's end to another's, or to the
# model's own, is then a RESHAPE. The converter would leave a tensor that is an input and an output at once in float.
GIVEN_RANK, TAKEN_RANK = 5, 6


@dataclass(frozen=True, slots=True)
class CutModel:
    """What the converter gets instead of a model, and what makes its .tflite that of the model.

    samples: those of the model, and for each new input an array (N, ...). fused: the layers that become one operator.
    notes: one sentence for each layer that could not, and for each state that is carried.
    """

    model: FloatModel
    samples: list[Any]
    join: Callable[[bytes], bytes]
    fused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _CutEnds:
    """A cut: its layer, the shapes of what its layer gives and takes in the graph, and samples of what it gives."""

    name: str
    shapes: tuple[tuple[int, ...], ...]  # with batch, as the layer's call has them
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
    """Cut the model open where `cuts` says so.

    Raises UnsupportedModelError naming a layer whose state cannot be carried, or that was to be one operator and
    cannot.
    """
    if not cuts:
        return CutModel(model, list(samples), _with_requantized_biases)
    notes = _drop_unsuitable(cuts, _recorded(tf, model, cuts, samples, 1, lambda step: None))
    count = len(samples[0]) if quantize in INTEGER else 1
    calls_by_layer = _recorded(tf, model, cuts, samples, count, progress)
    ends = _lstm_cuts(cuts, calls_by_layer, notes, quantize)
    if any(cut.name not in calls_by_layer for cut in cuts.separate_states):  # a large cell state has just decided so
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
            own = [next(pairs) for _ in end.shapes]
            if end.name in lstms:
                result = join_lstm(result, lstms[end.name], *own[0], end.largest)
            else:
                states += [(f"{end.name}/state_{i}", *pair) for i, pair in enumerate(own)]
        return _with_requantized_biases(write_model(add_state_variables(result, tuple(states)) if states else result))

    stateful = [end.name for end in ends if _keeps_state(cuts, end)]
    notes += [f"layer {name!r} keeps its state from one invocation to the next" for name in stateful]
    arrays = [*samples, *(array for end in ends for array in end.samples)]
    return CutModel(opened, arrays, join, tuple(lstms), tuple(notes))


def _with_requantized_biases(content: bytes) -> bytes:
    """The file with what the converter gets wrong in layers that are called more than once."""
    model = read_model(content)
    requantized = requantize_biases(model)
    return content if requantized is model else write_model(requantized)


def _keeps_state(cuts: Cuts, end: _CutEnds) -> bool:
    return end.name not in cuts.lstms or cuts.lstms[end.name].stateful


def _recorded(
    tf: Any, model: FloatModel, cuts: Cuts, samples: Sequence[Any], count: int, progress: child.Progress
) -> dict[str, list[RecordedCall]]:
    """What passes the cuts, one sample at a time and in their order; the state is at its start before and after."""
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
    """Drop the LSTMs that the first sample shows to be no single operator; sentences about them."""
    obstacles = {cut.name: _obstacle(calls_by_layer.get(cut.name, [])) for cut in cuts.lstms.values()}
    return [_drop(cuts, cuts.lstms[name], obstacle) for name, obstacle in obstacles.items() if obstacle is not None]


def _drop(cuts: Cuts, cut: LstmCut, obstacle: str) -> str:
    del cuts.lstms[cut.name]
    if cut.demanded:
        raise UnsupportedModelError(
            f"layer {cut.name!r} (LSTM) cannot be converted to one operator: {obstacle}",
            fix="use --rnn auto or --rnn unrolled",
        )
    return f"layer {cut.name!r} (LSTM) was unrolled: {obstacle}"


def _obstacle(calls: list[RecordedCall]) -> str | None:
    """Why a layer that was called like this cannot be cut."""
    if len(calls) != 1:
        return f"the model calls it {len(calls)} times"
    (passing,) = calls
    if any(not hasattr(value, "__array__") for value in passing.values):
        return "another layer calls it in a separate graph"
    if any(np.shape(value)[0] != 1 for value in passing.values):
        return "another layer calls it with a batch size other than 1"
    return passing.obstacle


def _lstm_cuts(
    cuts: Cuts, calls_by_layer: dict[str, list[RecordedCall]], notes: list[str], quantize: str
) -> list[_CutEnds]:
    ends = []
    for name, cut in tuple(cuts.lstms.items()):
        sequences = np.concatenate([np.asarray(passing.values[0], np.float32) for passing in calls_by_layer[name]])
        outputs, largest = run_lstm(cut, sequences)
        keras_outputs = np.concatenate([np.asarray(passing.values[1], np.float32) for passing in calls_by_layer[name]])
        off = np.abs((outputs if keras_outputs.ndim == outputs.ndim else outputs[:, -1]) - keras_outputs).max()
        if not off <= RELATIVE_TOLERANCE:
            notes.append(_drop(cuts, cut, f"its output differs from that of an LSTM by {off:.1g}"))
            continue
        if quantize in INTEGER and cell_bits(largest) is None:
            notes.append(_drop(cuts, cut, f"its cell state reaches {largest:.0f}, which is too large for the operator"))
            continue
        shape = (1, *outputs.shape[1:])
        samples = outputs.reshape(len(outputs), *_flat_shape(shape, GIVEN_RANK)[1:])
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
        columns = zip(*(passing.values for passing in calls), strict=True)
        samples = tuple(np.concatenate(column).astype(np.float32) for column in columns)
        ends.append(_CutEnds(cut.name, cut.shapes, False, samples))
    return ends


def _opened_model(tf: Any, model: FloatModel, cuts: Cuts, ends: Sequence[_CutEnds]) -> FloatModel:
    """The model with what its cut layers give as further inputs, and what they take as further outputs."""
    count = len(model.specs)
    call = model.traced or model.call
    specs = [
        InputSpec(f"{end.name}_given_{i}", (_flat_shape(shape, GIVEN_RANK) if end.flat else shape)[1:], "float32")
        for end in ends
        for i, shape in enumerate(end.shapes)
    ]

    def opened(tensors: Sequence[Any]) -> list[Any]:
        rest = iter(tensors[count:])
        given = {end.name: tuple(tf.reshape(next(rest), shape) for shape in end.shapes) for end in ends}
        with cuts.opened(given) as taken:
            results = list(call(tensors[:count]))
        for end in ends:
            results += [tf.reshape(value, _flat_shape(value.shape, TAKEN_RANK)) for value in taken[end.name]]
        return results

    return replace(
        model,
        specs=(*model.specs, *specs),
        output_names=(*model.output_names, *(spec.name.replace("_given_", "_taken_") for spec in specs)),
        call=opened,
        traced=None,
    )


def _flat_shape(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """The shape of as many elements, in a row."""
    return (1, prod(shape), *[1] * (rank - 2))


def _end_names(model: FloatModel, opened: FloatModel) -> list[tuple[str, str]]:
    """What the signature of the cut model calls each new input, and the output that belongs to it."""
    inputs = opened.signature_inputs[len(model.specs) :]
    outputs = opened.signature_outputs[len(model.output_names) :]
    return list(zip(inputs, outputs, strict=True))
