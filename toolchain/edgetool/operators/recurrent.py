"""Operators that keep a state between runs: MACs, Prepare, loop counts and constant reads.

Sources of Prepare: svdf_common.cc, unidirectional_sequence_lstm.cc, lstm_eval.cc, lstm_eval_common.cc, lstm_shared.h
and their counterparts in cmsis_nn/.

Sources of the loop counts: svdf_common.cc, lstm_eval.h, lstm_eval.cc, unidirectional_sequence_lstm.cc and CMSIS-NN's
arm_svdf_s8.c, arm_svdf_state_s16_s8.c, arm_lstm_unidirectional_s8.c, _s16.c, arm_nn_lstm_step_s8.c, _s16.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from edgetool.model.types import DType, Graph, Operator
from edgetool.operators import cmsis_nn
from edgetool.operators.call import (
    INT32_BYTES,
    Call,
    PrepareRule,
    Request,
    float32,
    input_rank,
    input_shapes,
    input_type,
    integer_option,
    integers,
    output_rank,
    output_type,
    persistent,
    require,
    scale,
    scratch,
    tensor_at,
    weight_multipliers,
    zero_point,
)
from edgetool.operators.cmsis_nn import (
    cmsis_fill_loops,
    vector_product_s8,
    vector_product_s16,
    vector_product_svdf,
)
from edgetool.operators.entry import KernelFault, MacRule, ReadsRule, entries
from edgetool.operators.loops import LoopCounts, LoopRule, Loops, combined, prefixed, repeated
from edgetool.target.platform import Platform

FLOAT_BYTES = 4
INT64_BYTES = 8

BIAS_TOLERANCE = 1e-5

LSTM_INPUTS = 24
HIDDEN, CELL = 18, 19
WEIGHTS, BIASES = range(1, 9), range(12, 16)
UNSUPPORTED_INPUTS = (9, 10, 11, 16, 17, 20, 21, 22, 23)  # peepholes, projection, layer norms
GATES = (2, 1, 3, 4)  # forget, input, cell, output: the input's weights; the state's weights are 4 positions later
GATE_INPUT_SCALE = 2.0**-12
HIDDEN_INTERMEDIATE = 4  # of the intermediate tensors, the one that describes the hidden state
GATE_BUFFERS, CMSIS_GATE_BUFFERS = 4, 3
WEIGHT_SUMS = 8


def _prepare_svdf(call: Call) -> Iterator[Request]:
    source, features, times = (call.required_input(position) for position in range(3))
    state, result = call.required_input(4), call.required_output()
    yield from call.temporary_inputs(0, 1, 2, 3, 4)
    for position in (0, 1, 2, 4):
        input_rank(position, 2)(call)
    filters, memory = features.shape[0], times.shape[1]
    rank = integer_option(call, "rank")
    require(call, rank != 0 and filters % rank == 0, f"does not support {filters} filters with a rank of {rank}")
    input_type(0, DType.FLOAT32, DType.INT8)(call)
    yield from call.temporary_outputs(0)
    output_rank(0, 2)(call)
    batch, units = source.shape[0], filters // rank
    bias = call.input(3)
    # The kernel releases the bias even if it is omitted, and then passes a null pointer.
    require(call, bias is not None, "crashes if the bias is omitted")
    shapes = (
        result.shape == (batch, units)
        and features.shape[1] == source.shape[1]
        and times.shape[0] == filters
        and state.shape == (batch, memory * filters)
        and (bias is None or bias.shape[:1] == (units,))
    )
    require(call, shapes, "has tensors with incompatible shapes")
    require(call, state.is_variable, "requires a variable tensor as its state")
    if source.dtype == DType.FLOAT32:
        for position in (1, 2, 3, 4):
            input_type(position, DType.FLOAT32)(call)
        output_type(0, DType.FLOAT32)(call)
        yield scratch("results of the filters", FLOAT_BYTES * batch * filters)
        return
    _check_quantized_svdf(call)
    yield scratch("results of the filters", INT32_BYTES * batch * filters)
    yield scratch("results of the units", INT32_BYTES * batch * units)
    kept = call.platform.cmsis_nn and call.platform.has("kept-sums-of-weights")
    size = cmsis_nn.svdf_s8(filters, mve=call.platform.mve) if kept else 0
    if size > 0:
        constant = features.is_constant or not call.platform.has("constant-weights-of-cmsis-nn")
        require(call, constant, "with CMSIS-NN kernels requires constant feature weights")
        yield persistent("sums of weights", size)


def _check_quantized_svdf(call: Call) -> None:
    types = {1: (DType.INT8,), 2: (DType.INT16, DType.INT8), 3: (DType.INT32,), 4: (DType.INT16, DType.INT8)}
    for position, supported in types.items():
        input_type(position, *supported)(call)
    output_type(0, DType.INT8)(call)
    times, bias, state = (scale(call.required_input(position)) for position in (2, 3, 4))
    product = float32(state * times)
    is_close = abs(bias - product) < BIAS_TOLERANCE
    require(call, is_close, "requires the bias scale to be the product of the state scale and the time weight scale")


def _prepare_lstm(call: Call) -> Iterator[Request]:
    """Yield the requests of UNIDIRECTIONAL_SEQUENCE_LSTM.

    Only Keras' LSTM is supported: no peepholes, projection or layer norms. Its intermediates are not requested.
    """
    inputs = len(call.operator.inputs)
    require(call, inputs == LSTM_INPUTS, f"requires exactly {LSTM_INPUTS} inputs and one output")
    yield from call.temporary_inputs(*range(LSTM_INPUTS))
    yield from call.temporary_outputs(0)
    _check_lstm_tensors(call)
    source, hidden, cell = (call.required_input(position) for position in (0, HIDDEN, CELL))
    require(call, len(source.shape) >= 3, f"does not support an input with {len(source.shape)} dimensions")
    require(call, len(hidden.shape) >= 2, f"does not support a hidden state with {len(hidden.shape)} dimensions")
    batch = source.shape[1 if call.option("time_major", False) else 0]
    units = hidden.shape[1]
    _check_lstm_shapes(call, batch, units)
    input_type(CELL, DType.FLOAT32, DType.INT16)(call)
    if cell.dtype == DType.INT16:
        yield from _gate_requests(call)
    buffers = GATE_BUFFERS
    types = (DType.INT8, DType.INT16) if call.platform.has("int16-lstm-of-cmsis-nn") else (DType.INT8,)
    if call.platform.cmsis_nn and cell.dtype == DType.INT16 and source.dtype in types:
        if call.platform.has("lstm-with-three-gates"):
            buffers = CMSIS_GATE_BUFFERS
        else:
            described = len(call.operator.intermediates) > HIDDEN_INTERMEDIATE
            require(call, described, "with CMSIS-NN kernels requires intermediate tensors")
        width = INT32_BYTES if source.dtype == DType.INT8 else INT64_BYTES
        for _ in range(WEIGHT_SUMS):
            yield persistent("sums of weights", width * units)
    for _ in range(buffers):
        yield scratch("gate", batch * units * cell.dtype.bits // 8)


def _check_lstm_tensors(call: Call) -> None:
    source, hidden, cell, result = (*(call.required_input(i) for i in (0, HIDDEN, CELL)), call.required_output())
    require(call, hidden.is_variable and cell.is_variable, "requires variable tensors as its states")
    require(
        call, hidden.dtype == source.dtype == result.dtype, "requires the same type for input, hidden state and output"
    )
    for what, positions in (("weights", WEIGHTS), ("biases", BIASES)):
        tensors = [call.required_input(position) for position in positions]
        require(call, len({tensor.dtype for tensor in tensors}) == 1, f"requires the same type for all {what}")
        constant = all(tensor.is_constant for tensor in tensors)
        required = call.platform.cmsis_nn and call.platform.has("constant-weights-of-cmsis-nn")
        require(call, constant or not required, f"with CMSIS-NN kernels requires constant {what}")
    present = [position for position in UNSUPPORTED_INPUTS if call.input(position) is not None]
    require(call, not present, f"does not support peepholes, projection or layer norm (inputs {present})")


def _check_lstm_shapes(call: Call, batch: int, units: int) -> None:
    source, hidden, cell = (call.required_input(position).shape for position in (0, HIDDEN, CELL))
    fits = all(call.required_input(i).shape == (units, source[2] if i < 5 else units) for i in WEIGHTS)
    fits = fits and all(call.required_input(i).shape == (units,) for i in BIASES)
    fits = fits and call.required_output().shape == (*source[:2], units)
    fits = (
        fits and call.required_input(HIDDEN).element_count == call.required_input(CELL).element_count == batch * units
    )
    require(call, fits, f"has tensors whose shapes do not match an input of {source} and states of {hidden}, {cell}")


def _gate_requests(call: Call) -> Iterator[Request]:
    """Yield the requests of two matrix products per gate (PrepareGateParametersInteger).

    The scales of the biases are not checked.
    """
    source, hidden = call.required_input(0), call.required_input(HIDDEN)
    for position in GATES:
        for operand, weights in ((source, position), (hidden, position + 4)):
            yield from weight_multipliers(call, operand, call.required_input(weights), None, GATE_INPUT_SCALE)


PREPARE: dict[str, PrepareRule] = {
    "SVDF": _prepare_svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _prepare_lstm,
}


GATE_COUNT = 4
INT16_BYTES = 2


def _svdf_loops(call: Call) -> LoopCounts:
    source, features, times = (call.required_input(position) for position in range(3))
    batch, depth = source.shape
    filters, memory = features.shape[0], times.shape[1]
    units = filters // max(integer_option(call, "rank"), 1)
    cells = batch * filters * memory
    state = {DType.INT8: "int8", DType.INT16: "int16"}.get(times.dtype, "float32")
    if not call.platform.cmsis_nn or state == "float32":
        loops = {
            "batch": batch,
            "state shifted": cells,
            "filter": batch * filters,
            "product": batch * filters * depth,
            "state product": cells,
            "unit": batch * units,
        }
        return LoopCounts("reference float32" if state == "float32" else f"reference int8, {state} state", loops)
    product = vector_product_s8 if state == "int8" else vector_product_svdf
    loops = combined(
        {"state shifted": cells, "batch": batch, "unit": batch * units, "filter": batch * filters},
        repeated(batch, product(filters, depth, call.platform)),
        repeated(batch * filters, prefixed("filter", _time_loops(memory, state, call.platform))),
        {"4 units written": -(-batch * units // 4) if call.platform.mve else 0},
    )
    # With a rank of 1, the bias is added in a separate loop.
    return LoopCounts(f"int8, {state} state" + (", rank 1" if units == filters else ""), loops)


def _time_loops(memory: int, state: str, platform: Platform) -> Loops:
    if not platform.dsp or platform.mve:
        return {"by 1": memory}
    step = 4 if state == "int8" else 2
    return {f"by {step}": memory // step, "by 1": memory % step}


def _lstm_loops(call: Call) -> LoopCounts:
    """Return the loops of an LSTM, whose steps run four gates over input and hidden state.

    If the input is time-major, a step processes all batches at once.
    """
    source, hidden = call.required_input(0), call.required_input(HIDDEN)
    time_major = bool(call.option("time_major", False))
    steps, batch = source.shape[:2] if time_major else source.shape[1::-1]
    depth, units = source.shape[2], hidden.shape[1]
    runs, at_once = (steps, batch) if time_major else (steps * batch, 1)
    cells = units * at_once
    dtype = source.dtype.name.lower()
    first_steps = 1 if time_major else batch  # the number of steps that begin a sequence
    if not call.platform.cmsis_nn or source.dtype == DType.FLOAT32:
        step = {"step": 1, "row": at_once, "cell": cells, "product": GATE_COUNT * cells * depth}
        hidden_steps = repeated(runs - first_steps, {"product": GATE_COUNT * cells * units})
        # The first run starts with a hidden state of zeros, which software multiplies in fewer steps.
        zeros = {"product of zeros": first_steps * GATE_COUNT * cells * units}
        return LoopCounts(f"reference {dtype}", combined(repeated(runs, step), hidden_steps, zeros))
    # The first step of each sequence has no hidden state, and so no product with it.
    product = _gate_s8 if source.dtype == DType.INT8 else vector_product_s16
    step = combined(
        {"step": 1, "cell": cells, "cells by 2": cells // 2, "last cell": cells % 2, "cells by 4": -(-cells // 4)},
        repeated(at_once, {"row": 1, "row by 2": units // 2, "row last": units % 2, "row by 4": -(-units // 4)}),
        cmsis_fill_loops(GATE_COUNT, cells * INT16_BYTES, call.platform),
        repeated(GATE_COUNT * at_once, product(units, depth, call.platform)),
    )
    hidden_steps = {"hidden step": 1, **repeated(GATE_COUNT * at_once, product(units, units, call.platform))}
    sequences = {"sequence": batch, "sequence cell": batch * units} if not time_major else {}
    return LoopCounts(dtype, combined(sequences, repeated(runs, step), repeated(runs - first_steps, hidden_steps)))


def _gate_s8(units: int, depth: int, platform: Platform) -> Loops:
    return vector_product_s8(units, depth, platform, unrolled=False)


LOOPS: dict[str, LoopRule] = {
    "SVDF": _svdf_loops,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm_loops,
}


def _svdf_macs(operator: Operator, graph: Graph) -> int:
    """Return batch x (feature weights + time weights): each weight is used once per step."""
    shapes = input_shapes(operator, graph, 0, 1, 2)
    return prod(shapes[0][:-1]) * (prod(shapes[1]) + prod(shapes[2])) if shapes else 0


def _recurrent_macs(operator: Operator, graph: Graph) -> int:
    """Return steps x batch x matrix weights: each weight of every gate's matrices is used once per step.

    The data is [steps or batch, batch or steps, features], or [batch, features] for a single step.
    """
    data = tensor_at(operator, graph, 0)
    weights = 0
    for position in range(1, len(operator.inputs)):
        tensor = tensor_at(operator, graph, position)
        if tensor is not None and tensor.is_constant and len(tensor.shape) == 2:
            weights += tensor.element_count
    return prod(data.shape[:-1]) * weights if data is not None else 0


MACS: dict[str, MacRule] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": _recurrent_macs,
    "BIDIRECTIONAL_SEQUENCE_RNN": _recurrent_macs,
    "LSTM": _recurrent_macs,
    "RNN": _recurrent_macs,
    "SVDF": _svdf_macs,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _recurrent_macs,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _recurrent_macs,
}


def _lstm_constant_reads(call: Call) -> int:
    """Return one read per step of each sequence."""
    source = call.input(0)
    return 1 if source is None or len(source.shape) != 3 else source.shape[0] * source.shape[1]


CONSTANT_READS: dict[str, ReadsRule] = {"UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm_constant_reads}


STATE = 4


def _wraps_state(call: Call) -> bool:
    """Return whether the int8 state of an SVDF can be wrong.

    arm_svdf_s8 ignores the zero point of the state, and clamps what it stores there to the range of int16: values
    beyond int8 wrap around. Whether they occur depends on the input; the feature weights limit them.
    """
    source, weights, state = call.required_input(0), call.required_input(1), call.required_input(STATE)
    if state.dtype is not DType.INT8:
        return False
    if zero_point(state) != 0 or not weights.is_constant or not scale(state):
        return True
    low, high = -128 - zero_point(source), 127 - zero_point(source)
    values, depth = integers(weights), weights.shape[-1]
    factor = scale(source) * scale(weights) / scale(state)
    for first in range(0, len(values), depth):
        row = values[first : first + depth]
        largest = sum(value * (high if value > 0 else low) for value in row)
        smallest = sum(value * (low if value > 0 else high) for value in row)
        if largest * factor >= 127.5 or smallest * factor < -128.5:
            return True
    return False


def _reads_absent_bias(call: Call) -> bool:
    return call.required_input(STATE).dtype is DType.INT16 and call.input(3) is None


FAULTS: dict[str, tuple[KernelFault, ...]] = {
    "SVDF": (
        KernelFault(
            name="svdf-int8-state",
            kernels=("cmsis-nn",),
            applies=_wraps_state,
            condition="with an int8 state",
            effect="does not saturate its int8 state, whose values wrap around, and ignores its zero point",
            remedy="use an int16 state, or the reference kernel",
            source="arm_svdf_s8.c, cmsis_nn/svdf.cc",
            fixed_by="",
            wrong="int8/0",
            right="int8/36",
        ),
        KernelFault(
            name="svdf-without-bias",
            kernels=("reference", "cmsis-nn"),
            applies=_reads_absent_bias,
            condition="with an int16 state and without a bias",
            effect="reads the bias, which is absent",
            remedy="add a bias of zeros",
            source="svdf_common.cc",
            fixed_by="",
            wrong="int8-int16/3",
            right="int8-int16/0",
        ),
    ),
}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, macs=MACS, constant_reads=CONSTANT_READS, faults=FAULTS)
