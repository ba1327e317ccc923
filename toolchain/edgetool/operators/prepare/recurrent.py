"""Operators that keep a state between runs: what their kernels ask for in Prepare.

Sources: svdf_common.cc, unidirectional_sequence_lstm.cc, lstm_eval.cc, lstm_eval_common.cc, lstm_shared.h and their
counterparts in cmsis_nn/.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, PrepareRule, Request, persistent, scratch
from edgetool.operators.prepare import cmsis_dense_buffers
from edgetool.operators.prepare.inspection import demand, input_rank, input_type, integer, output_rank, output_type
from edgetool.operators.prepare.multipliers import weight_multipliers
from edgetool.operators.prepare.quantization import float32, scale

FLOAT_BYTES = INT32_BYTES = 4
INT64_BYTES = 8

SVDF_INPUTS = 5
BIAS_TOLERANCE = 1e-5

LSTM_INPUTS = 24
HIDDEN, CELL = 18, 19
WEIGHTS, BIASES = range(1, 9), range(12, 16)
ABSENT = (9, 10, 11, 16, 17, 20, 21, 22, 23)  # peepholes, projection, layer norms
GATES = (2, 1, 3, 4)  # forget, input, cell, output: weights of the input; those of the state come 4 later
GATE_INPUT_SCALE = 2.0**-12
BUFFERS, CMSIS_BUFFERS = 4, 3
KERNEL_SUMS = 8


def _svdf(call: Call) -> Iterator[Request]:
    source, features, times = (call.required_input(position) for position in range(3))
    state, result = call.required_input(4), call.required_output()
    yield from call.temporary_inputs(0, 1, 2, 3, 4)
    demand(call, len(call.operator.inputs) == SVDF_INPUTS, f"requires exactly {SVDF_INPUTS} inputs")
    for position in (0, 1, 2, 4):
        input_rank(position, 2)(call)
    filters, memory = features.shape[0], times.shape[1]
    rank = integer(call, "rank")
    demand(call, rank != 0 and filters % rank == 0, f"does not support {filters} filters with a rank of {rank}")
    input_type(0, DType.FLOAT32, DType.INT8)(call)
    demand(call, len(call.operator.outputs) == 1, "has only one output")
    yield from call.temporary_outputs(0)
    output_rank(0, 2)(call)
    batch, units = source.shape[0], filters // rank
    bias = call.input(3)
    # The kernel gives the bias back in any case, as a null pointer.
    demand(call, bias is not None, "crashes if the bias is omitted")
    shapes = (
        result.shape == (batch, units)
        and features.shape[1] == source.shape[1]
        and times.shape[0] == filters
        and state.shape == (batch, memory * filters)
        and (bias is None or bias.shape[:1] == (units,))
    )
    demand(call, shapes, "has tensors with incompatible shapes")
    demand(call, state.is_variable, "requires a variable tensor as its state")
    if source.dtype == DType.FLOAT32:
        for position in (1, 2, 3, 4):
            input_type(position, DType.FLOAT32)(call)
        output_type(0, DType.FLOAT32)(call)
        yield scratch("results of the filters", FLOAT_BYTES * batch * filters)
        return
    _check_quantized_svdf(call)
    yield scratch("results of the filters", INT32_BYTES * batch * filters)
    yield scratch("results of the units", INT32_BYTES * batch * units)
    size = cmsis_dense_buffers.svdf_s8(filters, mve=call.platform.mve) if call.platform.cmsis_nn else 0
    if size > 0:
        demand(call, features.is_constant, "with CMSIS-NN kernels requires constant feature weights")
        yield persistent("sums of weights", size)


def _check_quantized_svdf(call: Call) -> None:
    types = {1: (DType.INT8,), 2: (DType.INT16, DType.INT8), 3: (DType.INT32,), 4: (DType.INT16, DType.INT8)}
    for position, taken in types.items():
        input_type(position, *taken)(call)
    output_type(0, DType.INT8)(call)
    times, bias, state = (scale(call.required_input(position)) for position in (2, 3, 4))
    product = float32(state * times)
    near = abs(bias - product) < BIAS_TOLERANCE
    demand(call, near, "requires the bias scale to be the product of the state scale and the time weight scale")


def _lstm(call: Call) -> Iterator[Request]:
    """Only Keras' LSTM: no peepholes, projection or layer norms. Its intermediates are not looked at."""
    inputs, outputs = len(call.operator.inputs), len(call.operator.outputs)
    demand(call, inputs == LSTM_INPUTS and outputs == 1, f"requires exactly {LSTM_INPUTS} inputs and one output")
    yield from call.temporary_inputs(*range(LSTM_INPUTS))
    yield from call.temporary_outputs(0)
    _check_lstm_tensors(call)
    source, hidden, cell = (call.required_input(position) for position in (0, HIDDEN, CELL))
    demand(call, len(source.shape) >= 3, f"does not support an input with {len(source.shape)} dimensions")
    demand(call, len(hidden.shape) >= 2, f"does not support a hidden state with {len(hidden.shape)} dimensions")
    batch = source.shape[1 if call.option("time_major", False) else 0]
    units = hidden.shape[1]
    _check_lstm_shapes(call, batch, units)
    input_type(CELL, DType.FLOAT32, DType.INT16)(call)
    if cell.dtype == DType.INT16:
        yield from _gates(call)
    buffers = BUFFERS
    if call.platform.cmsis_nn and cell.dtype == DType.INT16 and source.dtype in (DType.INT8, DType.INT16):
        buffers = CMSIS_BUFFERS
        width = INT32_BYTES if source.dtype == DType.INT8 else INT64_BYTES
        for _ in range(KERNEL_SUMS):
            yield persistent("sums of weights", width * units)
    for _ in range(buffers):
        yield scratch("gate", batch * units * cell.dtype.bits // 8)


def _check_lstm_tensors(call: Call) -> None:
    source, hidden, cell, result = (*(call.required_input(i) for i in (0, HIDDEN, CELL)), call.required_output())
    demand(call, hidden.is_variable and cell.is_variable, "requires variable tensors as its states")
    demand(
        call, hidden.dtype == source.dtype == result.dtype, "requires the same type for input, hidden state and output"
    )
    for what, positions in (("weights", WEIGHTS), ("biases", BIASES)):
        tensors = [call.required_input(position) for position in positions]
        demand(call, len({tensor.dtype for tensor in tensors}) == 1, f"requires the same type for all {what}")
        constant = all(tensor.is_constant for tensor in tensors)
        demand(call, constant or not call.platform.cmsis_nn, f"with CMSIS-NN kernels requires constant {what}")
    present = [position for position in ABSENT if call.input(position) is not None]
    demand(call, not present, f"does not support peepholes, projection or layer norm (inputs {present})")


def _check_lstm_shapes(call: Call, batch: int, units: int) -> None:
    source, hidden, cell = (call.required_input(position).shape for position in (0, HIDDEN, CELL))
    fits = all(call.required_input(i).shape == (units, source[2] if i < 5 else units) for i in WEIGHTS)
    fits = fits and all(call.required_input(i).shape == (units,) for i in BIASES)
    fits = fits and call.required_output().shape == (*source[:2], units)
    fits = (
        fits and call.required_input(HIDDEN).element_count == call.required_input(CELL).element_count == batch * units
    )
    demand(call, fits, f"has tensors whose shapes do not match an input of {source} and states of {hidden}, {cell}")


def _gates(call: Call) -> Iterator[Request]:
    """Two matrix products for each gate (PrepareGateParametersInteger). Their biases' scales are not checked."""
    source, hidden = call.required_input(0), call.required_input(HIDDEN)
    for position in GATES:
        for operand, weights in ((source, position), (hidden, position + 4)):
            yield from weight_multipliers(call, operand, call.required_input(weights), None, GATE_INPUT_SCALE)


RULES: dict[str, PrepareRule] = {
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}
