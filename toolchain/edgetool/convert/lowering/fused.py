"""Puts LSTM layers that were cut out into a converted graph, each as one UNIDIRECTIONAL_SEQUENCE_LSTM.

The operator keeps its state in variable tensors, from one invocation to the next. For a layer that starts each sequence
at zero, the graph itself writes the start into them first, so that any runner of the file is right.

Sources: unidirectional_sequence_lstm.cc and lstm_eval.cc of TensorFlow Lite and TFLM for tensors and scales.
TensorFlow's own fusion is not used: it limits the cell state to 10, and calibrates with states left from other samples.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgetool.convert.lowering.cuts import LstmCut
from edgetool.convert.lowering.ports import (
    INTEGERS,
    Change,
    append,
    copy,
    in_dependency_order,
    inner_inputs,
    inner_output,
    shaped_source,
    without_ports,
)
from edgetool.errors import ConversionError
from edgetool.model.edit import STORED, Draft
from edgetool.model.types import DType, Model, Operator, Quantization, Tensor

Array = npt.NDArray[np.float32]

INT8_LARGEST = 127
BIAS_LARGEST = 2**30
HIDDEN, CELL = 18, 19  # where the operator takes its states
CELL_BITS = 15  # of its fraction, when the state stays below 1
LARGEST_CELL_BITS = 6  # of its integer part, for which the kernels have a tanh
CELL_MARGIN = 1.25  # for inputs that the samples do not show: at most one of 16 bits


def run_lstm(cut: LstmCut, sequences: Array) -> tuple[Array, float]:
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


def _sigmoid(values: Array) -> Array:
    result: Array = 0.5 * (np.tanh(0.5 * values) + 1)
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


def _result(draft: Draft, flat: int, cut: LstmCut) -> tuple[int, Change]:
    """The tensor (1, steps, units) that the graph makes of the flat one, or one of which the flat one is made."""
    tensor, readers = draft.tensors[flat], draft.consumers(flat)
    shape = (1, tensor.element_count // cut.units, cut.units)
    if tensor.shape == shape:
        return flat, Change()
    if flat not in draft.outputs and [reader.code for reader in readers] == ["RESHAPE"]:
        made = readers[0].outputs[0]
        if draft.tensors[made].shape == shape:
            return made, Change(gone=(readers[0],))
    shaped = draft.tensor(f"{cut.name}/outputs", shape, tensor.dtype, tensor.quantization)
    return shaped, Change(new=(copy(draft, shaped, flat),))


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


def _weights(draft: Draft, name: str, values: Array, dtype: DType, least_scale: float) -> int:
    if dtype not in INTEGERS:
        return draft.constant(name, np.ascontiguousarray(values))
    largest = float(np.abs(values).max()) or 1.0
    scale = float(np.float32(max(largest / INT8_LARGEST, least_scale)))
    stored = np.clip(np.rint(values / scale), -INT8_LARGEST, INT8_LARGEST).astype(np.int8)
    return draft.constant(name, stored, Quantization((scale,), (0,), 0))


def _bias(draft: Draft, name: str, values: Array, source: Tensor, weights: Tensor) -> int:
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
