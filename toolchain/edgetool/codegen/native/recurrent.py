"""Recurrent operators and resource variables as native kernels: what a model keeps between invocations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, isfinite, log2

import numpy as np

from edgetool.codegen.native.convolution import bias_of
from edgetool.codegen.native.fixed_point import (
    Multiplier,
    Reach,
    layer_scales,
    quantize_multiplier,
    reach_of_weights,
    wide_scales,
)
from edgetool.codegen.native.program import Constant, RowInput, Step, StepOverlap, describe
from edgetool.codegen.native.site import RANGES, Array, Lowering, Site, element_bytes
from edgetool.model.types import DType, Tensor
from edgetool.operators.call import scale, zero_point
from edgetool.operators.overlap import Window, conv_distance
from edgetool.operators.recurrent import BIASES, CELL, GATE_INPUT_SCALE, HIDDEN, STATE, WEIGHTS

# The positions of the weights and biases of a gate, in the kernel's order: forget, input, candidate, output.
GATE_ORDER = (1, 0, 2, 3)
GATES = 4
WORD = 4  # bytes
SOME = 8  # filters whose products edgetool_svdf_s8 computes before it writes outputs
GATE_OUTPUT_SCALE = 2.0**-15
CELL_UNBOUNDED = 32768
# The cell state times 3 << MAX_TANH_LEFT stays within 32 bits, and so does the rounding of a right shift.
MAX_TANH_LEFT, MAX_TANH_RIGHT = 14, 30
# TFLM's sigmoid_table_uint16 (common.h) is one higher there than the nearest integer.
RAISED = (
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46, 49,
    50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
)  # fmt: skip


def _svdf(site: Site) -> Iterator[Step]:
    source, features, times = site.input(0), site.input(1), site.input(2)
    state, output = site.input(STATE), site.output()
    site.require(source.dtype is DType.INT8, f"{source.dtype.name} is not supported")
    site.require(state.dtype is times.dtype, "its state and its time weights have different types")
    # Prepare reads the scale of a bias that is omitted.
    site.require(site.optional(3) is not None, "its bias is omitted")
    rank = site.option("rank", 0)
    (batches, depth), (filters, memory) = source.shape, times.shape
    units = filters // rank
    site.require(memory > 0, "its filters have no memory")
    weights, time_weights = site.constant(1).reshape(filters, depth), site.constant(2)
    low, high = RANGES[state.dtype]
    to_state = quantize_multiplier(scale(source) * scale(features) / scale(state))
    to_output = quantize_multiplier(scale(state) * scale(times) / scale(output))
    site.require(to_output.shift < 0, "the scale of its output is too small")
    zero = zero_point(state)
    site.require(low <= zero <= high, "the zero point of its state is outside the type")
    reach = reach_of_weights(time_weights.reshape(units, rank * memory), low - zero, high - zero)
    scales = layer_scales(
        [to_output] * units, bias_of(site, 3, units), reach, zero_point(output), *RANGES[output.dtype]
    )
    wide = state.dtype is DType.INT16
    yield Step(
        operator=site.operator.index,
        kernel="edgetool_svdf_s8",
        op=describe(
            "edgetool_svdf_s8",
            weights=Constant("uint32_t", np.pad(weights, ((0, 0), (0, -depth % WORD))).tobytes(), "weights"),
            offsets=_array("int32_t", -zero_point(source) * weights.astype(np.int64).sum(axis=1), "offsets"),
            times_s8=None if wide else _array("int8_t", time_weights, "time weights"),
            times_s16=_array("int16_t", time_weights, "time weights") if wide else None,
            scales=scales.constant,
            multiplier=to_state.value,
            batches=batches,
            depth=depth,
            units=units,
            rank=rank,
            memory=memory,
            left=to_state.left,
            right=to_state.right,
            shift=scales.shift,
            zero_point=zero_point(output),
            state_zero_point=zero,
        ),
        inputs=(RowInput(site.index(0), row_bytes=source.size_bytes),),
        output=site.operator.outputs[0],
        row_bytes=output.size_bytes,
        scratch_bytes=-(-depth // WORD) * WORD,
        states=(site.index(STATE),),
        overlaps=(StepOverlap(0, _svdf_distance(source, output, rank)),),
    )


def _svdf_distance(source: Tensor, output: Tensor, rank: int) -> int:
    """Return the distance of a kernel that reads a batch of the input once for each SOME filters."""
    (batches, depth), units = source.shape, output.shape[-1]
    written = (units * rank - 1) // SOME * SOME // rank  # units of a batch before its input is read for the last time
    return max(0, written, (batches - 1) * (units - depth) + written)


def sigmoid_table() -> Constant:
    """Return TFLM's table of sigmoid(i / 24) in units of 2^-16, of which int16 operators interpolate."""
    values = [round(2**16 / (1 + exp(-i / 24))) + (i in RAISED) for i in range(256)]
    return _array("uint16_t", np.array(values), "sigmoid")


def _lstm(site: Site) -> Iterator[Step]:
    source, hidden, cell, output = site.input(0), site.input(HIDDEN), site.input(CELL), site.output()
    site.require(source.dtype in (DType.INT8, DType.INT16), f"{source.dtype.name} is not supported")
    site.require(cell.dtype is DType.INT16, f"a cell state of type {cell.dtype.name} is not supported")
    site.require(site.option("fused_activation_function") == "TANH", "only the activation TANH is supported")
    site.require(len(source.shape) == 3, "only inputs with three dimensions are supported")
    site.require(site.index(HIDDEN) != site.index(CELL), "both states are the same tensor")
    time_major = bool(site.option("time_major", False))
    (steps, batches) = source.shape[:2] if time_major else source.shape[1::-1]
    depth, units = source.shape[2], hidden.shape[1]
    gates = [_gate(site, position, units) for position in GATE_ORDER]
    sums = [item for gate in gates for item in gate]
    wide = source.dtype is DType.INT16
    products = [
        GATE_OUTPUT_SCALE * scale(cell) / scale(cell),
        GATE_OUTPUT_SCALE**2 / scale(cell),
        GATE_OUTPUT_SCALE**2 / scale(hidden),
    ]
    multipliers = [item.multiplier for item in sums] + [quantize_multiplier(real) for real in products]
    site.require(multipliers[-1].shift <= 0, "the scale of its hidden state is too small")
    offsets = np.stack([item.offsets for item in sums], axis=1).reshape(-1)
    tanh_shift = 12 + _scale_power(site, cell)
    site.require(-MAX_TANH_RIGHT <= tanh_shift <= MAX_TANH_LEFT, "the scale of its cell state is out of range")
    yield Step(
        operator=site.operator.index,
        kernel="edgetool_lstm",
        op=describe(
            "edgetool_lstm",
            weights=_array("int8_t", np.stack([_joined(gate) for gate in gates], axis=1), "weights"),
            offsets=None if wide else _array("int32_t", offsets, "offsets"),
            scales=_wide_scales(site, sums, units) if wide else None,
            sigmoid=sigmoid_table(),
            rows=steps * batches,
            batches=batches,
            depth=depth,
            units=units,
            multipliers=tuple(item.value for item in multipliers),
            left=tuple(item.left for item in multipliers),
            right=tuple(item.right for item in multipliers),
            time_major=int(time_major),
            tanh_left=max(tanh_shift, 0),
            tanh_right=max(-tanh_shift, 0),
            clip=_cell_clip(site, cell),
            zero_point=zero_point(hidden),
        ),
        inputs=(RowInput(site.index(0), row_bytes=source.size_bytes),),
        output=site.operator.outputs[0],
        row_bytes=output.size_bytes,
        states=(site.index(HIDDEN), site.index(CELL)),
        overlaps=(StepOverlap(0, _sequence_distance(source, output)),),
    )


@dataclass(frozen=True, slots=True)
class _GateSum:
    """One of the two sums of a gate. weights: (units, products). offsets: bias and zero point, for each unit."""

    weights: Array
    offsets: Array
    multiplier: Multiplier


def _gate(site: Site, gate: int, units: int) -> tuple[_GateSum, _GateSum]:
    """Return the sums of a gate over the input and over the hidden state (CreateGateParams, lstm_eval_common.cc)."""
    bias = site.constant(BIASES[gate]).reshape(units).astype(np.int64)
    result = []
    for source, position, added in ((0, gate, bias), (HIDDEN, GATES + gate, np.zeros(units, np.int64))):
        operand, tensor = site.input(source), site.input(WEIGHTS[position])
        scales = () if tensor.quantization is None else tensor.quantization.scales
        site.require(tensor.dtype is DType.INT8, f"weights of type {tensor.dtype.name} are not supported")
        # TFLM leaves the multiplier of weights with several scales undefined, and adds a zero point.
        site.require(len(scales) == 1 and zero_point(tensor) == 0, "its weights have several scales or a zero point")
        weights = site.constant(WEIGHTS[position]).reshape(units, -1)
        offsets = added - zero_point(operand) * weights.astype(np.int64).sum(axis=1)
        real = scale(operand) * scale(tensor) / GATE_INPUT_SCALE
        result.append(_GateSum(weights, offsets, quantize_multiplier(real)))
    return result[0], result[1]


def _joined(gate: tuple[_GateSum, _GateSum]) -> Array:
    return np.concatenate([item.weights for item in gate], axis=1)


def _wide_scales(site: Site, sums: list[_GateSum], units: int) -> Constant:
    """Return the scales of all units and sums, for int16."""
    reaches = [reach_of_weights(item.weights, *RANGES[DType.INT16]) for item in sums]
    reach = Reach(
        np.stack([item.low for item in reaches], axis=1).reshape(-1),
        np.stack([item.high for item in reaches], axis=1).reshape(-1),
    )
    offsets = np.stack([item.offsets for item in sums], axis=1).reshape(-1)
    scales = wide_scales([item.multiplier for item in sums] * units, offsets, reach)
    if scales is None:
        site.refuse("TFLM's arithmetic overflows with its weights, biases and scales")
    return scales.constant


def _scale_power(site: Site, cell: Tensor) -> int:
    """Return the power of two that is nearest to the scale of the cell state (CheckedLog2, quantization_util.cc)."""
    exact = log2(scale(cell)) if scale(cell) > 0 else float("nan")
    site.require(
        isfinite(exact) and abs(exact - round(exact)) < 0.499, "the scale of its cell state is no power of two"
    )
    return round(exact)


def _cell_clip(site: Site, cell: Tensor) -> int:
    """Return the largest code of the cell state (CreateLstmCellStateInfo, lstm_eval_common.cc)."""
    clip = float(site.option("cell_clip", 0.0))
    return int(min(clip / scale(cell), 32767.0)) if clip > 0 else CELL_UNBOUNDED


def _array(c_type: str, values: Array, what: str) -> Constant:
    types = {"int8_t": "i1", "int16_t": "<i2", "uint16_t": "<u2", "int32_t": "<i4", "int64_t": "<i8"}
    return Constant(c_type, np.ascontiguousarray(values).astype(types[c_type]).tobytes(), what)


def _sequence_distance(source: Tensor, output: Tensor) -> int:
    """Return the distance for kernels that read one row of the last axis while they write the output's row."""
    depth, units = source.shape[-1], output.shape[-1]
    rows = output.element_count // max(units, 1)
    window = Window(1, 1, rows, depth, 1, rows, units)
    return conv_distance(window, element_bytes=element_bytes(source))


LOWERINGS: dict[str, Lowering] = {"SVDF": _svdf, "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm}
