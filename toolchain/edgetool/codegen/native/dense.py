"""FULLY_CONNECTED and BATCH_MATMUL as native kernels.

Weights of int8 and int4 become int8, in the order in which edgetool_dense_s8 reads those of four units at once. The
units of a layer whose weights have one scale share one edgetool_scale, and have one int32 each. Sources:
fully_connected.cc, batch_matmul.cc, their _common.cc, integer_ops/fully_connected.h and batch_matmul.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from edgetool.codegen.native.convolution import (
    FEW_PIXELS,
    MAX_WIDTH,
    FoldedSums,
    bias_of,
    convolution_step,
    has_int32_sums,
    int16_scales,
    is_best_by_pixels,
)
from edgetool.codegen.native.fixed_point import (
    Multiplier,
    Reach,
    layer_scales,
    quantize_multiplier,
    reach_of_weights,
    wide_scales,
)
from edgetool.codegen.native.program import Constant, FieldValue, RowInput, Step, StepOverlap, describe
from edgetool.codegen.native.site import RANGES, Array, Lowering, Site, fused_range
from edgetool.codegen.native.vector import conv_step, dense_step, product_scales, vector_scales
from edgetool.model.types import DType, Tensor
from edgetool.operators.call import is_per_channel, scale, zero_point
from edgetool.operators.overlap import Window, conv_distance

MAX_BAND = 8  # rows of a dense layer per call
GROUP = 4  # units that edgetool_dense_s8 computes at once
# When rows are pixels of a convolution, as counted: the depth up to which a row is in registers with Helium, the units
# from which on kernels compute blocks of them, and the largest odd numbers of units and of rows that are too few for
# pairs.
SHORT_DEPTH, MANY_UNITS, FEW_UNITS, FEW_ROWS = 32, 8, 3, 5
MAX_GROUPED_DEPTH = 2**15 - 1  # their sums without the correction for unsigned weights fit 32 bits


def _rows_window(rows: int, depth: int, units: int) -> Window:
    """Return a dense layer as a pointwise convolution, whose pixels are its rows."""
    return Window(
        batches=1, height=1, width=rows, channels=depth, output_height=1, output_width=rows, output_channels=units
    )


def _shared_multiplier(site: Site, left: Tensor, right: Tensor) -> Multiplier:
    """Return the multiplier of a product of scales, computed in double as the builds that are compared do.

    The snapshot of August 2026 rounds the product to float32 (GetQuantizedConvolutionMultipler): results differ only
    where a sum is scaled to a half exactly.
    """
    return quantize_multiplier(scale(left) * scale(right) / scale(site.output()))


def _unit_multipliers(site: Site, units: int) -> list[Multiplier]:
    """Return the multiplier of each unit of FULLY_CONNECTED (CalculateOpDataFullyConnected)."""
    source, weights = site.input(0), site.input(1)
    quantization = weights.quantization
    if quantization is None or not is_per_channel(weights):
        return [_shared_multiplier(site, source, weights)] * units
    site.require(len(quantization.scales) >= units, "its weights have fewer scales than units")
    reals = (scale(source) * item / scale(site.output()) for item in quantization.scales[:units])
    return [quantize_multiplier(real) for real in reals]


def _fully_connected(site: Site) -> Iterator[Step]:
    source, weights, output = site.input(0), site.input(1), site.output()
    known = {(DType.INT8, DType.INT8), (DType.INT8, DType.INT4), (DType.INT16, DType.INT8)}
    names = f"{source.dtype.name} with weights of {weights.dtype.name}"
    site.require((source.dtype, weights.dtype) in known and output.dtype is source.dtype, f"{names} is not supported")
    site.require(len(weights.shape) >= 2 and len(output.shape) >= 1, "a shape has too few dimensions")
    units, depth = output.shape[-1], weights.shape[-1]
    fits = units <= weights.element_count // max(1, depth)
    site.require(fits and units * depth > 0, f"it cannot produce {units} units with weights of shape {weights.shape}")
    rows = output.element_count // units
    site.require(rows * depth <= source.element_count, f"it cannot multiply {source.shape} and {weights.shape}")
    if weights.data is None:
        yield _computed_weights(site, rows, depth, units)
        return
    filters = site.constant(1).reshape(-1, depth)[:units].astype(np.int8)
    multipliers = _unit_multipliers(site, units)
    zero = 0 if is_per_channel(weights) else zero_point(weights)
    if source.dtype is DType.INT16:
        yield _dense_s16(site, rows, filters, multipliers, zero)
        return
    shared = None if is_per_channel(weights) else multipliers[0]
    yield _dense_s8(site, rows, filters, bias_of(site, 2, units), shared or multipliers, zero)


def _dense_s8(
    site: Site, rows: int, filters: Array, bias: Array, multipliers: Multiplier | list[Multiplier], zero: int
) -> Step:
    """Return the step of a product with constant weights.

    Args:
        site: The operator.
        rows: The number of rows of the first input.
        filters: The weights as (units, depth).
        bias: What is added to the sum of each unit.
        multipliers: One for each unit, or one of all units.
        zero: The zero point of the weights.
    """
    source, output, (units, depth) = site.input(0), site.output(), filters.shape
    shifted = filters.astype(np.int64) - zero if zero else filters
    offsets = bias - zero_point(source) * shifted.sum(axis=1, dtype=np.int64)
    reach = reach_of_weights(shifted)
    parts = [reach_of_weights(filters), reach_of_weights(np.full((1, depth), zero))]
    none = np.zeros(1, np.int64)
    fits = reach.fits(offsets) and all(part.fits(none) for part in parts)
    site.require(fits, "its sums may exceed 32 bits")
    if zero == 0 and not site.row_wise and not site.plain and _is_best_as_pixels(site, rows, depth, units):
        each = multipliers if isinstance(multipliers, list) else [multipliers] * units
        return _pointwise(site, rows, filters, FoldedSums(each, offsets, reach))
    if site.vector:
        step = dense_step(site, rows, filters, offsets, multipliers, zero)
        if step is not None:
            return step
    code_range = (zero_point(output), *fused_range(site, output))
    grouped = _grouped_units(units, depth, dsp=site.dsp)
    merged = 1 if site.row_wise else rows
    values: dict[str, FieldValue]
    if isinstance(multipliers, list):
        scales = layer_scales(multipliers, offsets, reach, *code_range)
        values = {"scale_step": 1}
    else:
        every = Reach((reach.low + offsets).min(keepdims=True), (reach.high + offsets).max(keepdims=True))
        scales = layer_scales([multipliers], none, every, *code_range)
        padded = np.pad(offsets, (0, max(0, grouped - units))).astype("<i4")
        values = {"offsets": Constant("int32_t", padded.tobytes(), "bias and input zero point")}
    zero_of_output, low, high = code_range
    return Step(
        operator=site.operator.index,
        kernel="edgetool_dense_s8",
        op=describe(
            "edgetool_dense_s8",
            weights=_packed(filters, grouped),
            scales=scales.constant,
            rows=merged,
            depth=depth,
            units=units,
            grouped=grouped,
            shift=scales.shift,
            weights_zero_point=zero,
            zero_point=zero_of_output,
            low=low,
            high=high,
            **values,
        ),
        inputs=(RowInput(site.index(0), row_bytes=merged * depth, rows=rows // merged),),
        output=site.operator.outputs[0],
        row_bytes=merged * units,
        rows=rows // merged,
        scratch_bytes=2 * _padded(depth),
        band=min(rows // merged, MAX_BAND),
        overlaps=(StepOverlap(0, conv_distance(_rows_window(rows, depth, units))),),
    )


def _is_best_as_pixels(site: Site, rows: int, depth: int, units: int) -> bool:
    """Return whether a product of several rows has fewer instructions as a convolution, whose pixels they are.

    The kernels of convolutions compute several pixels at once, those of dense layers several units.
    """
    if rows == 1 or max(rows, depth, units) > MAX_WIDTH:
        return False
    if site.vector:
        return depth <= SHORT_DEPTH or (rows > 2 and units > MANY_UNITS)
    if rows not in FEW_PIXELS and not is_best_by_pixels(site, _rows_window(rows, depth, units), 1, units):
        return True
    # Two pixels and two channels at once: with DSP instructions, few units of dense layers are as fast.
    is_paired = not site.dsp or units % 2 == 0 or units > FEW_UNITS
    return is_paired and units < MANY_UNITS and (rows % 2 == 0 or rows > FEW_ROWS)


def _pointwise(site: Site, rows: int, filters: Array, sums: FoldedSums) -> Step:
    """Return the step of a product with constant weights and several rows, which are the pixels of a convolution."""
    units, depth = filters.shape
    window, weights = _rows_window(rows, depth, units), filters.reshape(units, 1, 1, depth)
    if site.vector:
        vector = vector_scales(site, sums.multipliers, sums.offsets)
        if vector is not None:
            return conv_step(site, window, weights, vector)
    code_range = (zero_point(site.output()), *fused_range(site, site.output()))
    scales = layer_scales(sums.multipliers, sums.offsets, sums.reach, *code_range)
    return convolution_step(site, window, weights, scales, sums)


def _grouped_units(units: int, depth: int, *, dsp: bool) -> int:
    """Return the units of edgetool_dense_s8 in groups of four, the last of which may have a unit of zeros."""
    if depth > MAX_GROUPED_DEPTH:
        return 0
    # Three units are a group with one of zeros, unless they are all: without DSP, the fourth one takes more time.
    return (units + 1) // GROUP * GROUP if dsp or units > GROUP else units // GROUP * GROUP


def _padded(depth: int) -> int:
    """Return the codes of a row of weights, which consists of whole words."""
    return -(-depth // 4) * 4


def _packed(filters: Array, grouped: int) -> Constant:
    """Return weights of shape (units, depth) as edgetool_dense_s8.h explains, the first units in groups."""
    units, depth = filters.shape
    missing = max(0, grouped - units)
    rows = np.pad(filters, ((0, missing), (0, _padded(depth) - depth))).view(np.uint8)
    # The axes are group, pair of units, unit, four codes, half of a word, and whether the code's place is odd.
    fours = rows[:grouped].reshape(grouped // GROUP, 2, 2, rows.shape[1] // 4, 2, 2).transpose(0, 3, 5, 1, 4, 2).copy()
    fours[..., 0] ^= 0x80  # 128 more, without a sign
    return Constant("uint32_t", fours.tobytes() + rows[grouped:].tobytes(), "weights")


def _dense_s16(site: Site, rows: int, filters: Array, multipliers: list[Multiplier], zero: int) -> Step:
    """Return the step of a product of int16 with constant weights of int8; see _dense_s8."""
    output, (units, depth) = site.output(), filters.shape
    shifted = filters.astype(np.int64) - zero
    bias = bias_of(site, 2, units, (DType.INT32, DType.INT64))
    offsets = bias - zero_point(site.input(0)) * shifted.sum(axis=1)
    scales = int16_scales(site, multipliers, offsets, shifted, narrow=has_int32_sums(site, 2))
    low, high = fused_range(site, output)
    return Step(
        operator=site.operator.index,
        kernel="edgetool_dense_s16",
        op=describe(
            "edgetool_dense_s16",
            weights=Constant("int8_t", filters.tobytes(), "weights"),
            scales=scales.constant,
            depth=depth,
            units=units,
            shift=scales.shift,
            weights_zero_point=zero,
            zero_point=zero_point(output),
            low=low,
            high=high,
        ),
        inputs=(RowInput(site.index(0), row_bytes=2 * depth, rows=rows),),
        output=site.operator.outputs[0],
        row_bytes=2 * units,
        rows=rows,
        overlaps=(StepOverlap(0, conv_distance(_rows_window(rows, depth, units), element_bytes=2)),),
    )


def _computed_weights(site: Site, rows: int, depth: int, units: int) -> Step:
    """Return the step of FULLY_CONNECTED with weights that the model computes: a product of two matrices."""
    site.require(site.input(0).dtype is DType.INT8, "its weights are not constant")
    per_channel = is_per_channel(site.input(1))
    site.require(not per_channel, "its weights are not constant and have a scale for each unit")
    site.require(site.input(1).dtype is DType.INT8, "its weights are int4 and not constant")
    bias = bias_of(site, 2, units)
    values: dict[str, FieldValue] = {}
    if bias.any():
        values["bias"] = Constant("int32_t", bias.astype("<i4").tobytes(), "bias")
    return _product(
        site,
        bias,
        StepOverlap(0, conv_distance(_rows_window(rows, depth, units))),
        batches=(1, 1, 1),
        rows=rows,
        columns=units,
        depth=depth,
        left_row_step=depth,
        left_depth_step=1,
        right_column_step=depth,
        right_depth_step=1,
        **values,
    )


def _product(site: Site, terms: Array, *overlaps: StepOverlap, **values: FieldValue) -> Step:
    """Return the step of a product of two tensors.

    Args:
        site: The operator.
        terms: What the kernel adds to the sums.
        overlaps: How the output may share bytes with the operands.
        values: The fields of the descriptor for shapes and bias.
    """
    left, right, output = site.input(0), site.input(1), site.output()
    depth = values["depth"]
    assert isinstance(depth, int)
    multiplier = _shared_multiplier(site, left, right)
    order = [0, 1]
    if values["columns"] == 1 and output.dtype is DType.INT8:
        # One row times several columns takes less time.
        values, left, right, order = _turned(values), right, left, [1, 0]
    low, high = fused_range(site, output)
    if output.dtype is DType.INT8:
        extremes = [_code_range(left), _code_range(right)]
        products = [depth * a * b for a in extremes[0] for b in extremes[1]]
        reach = Reach(np.array([min(products) + terms.min()]), np.array([max(products) + terms.max()]))
        none = np.zeros(1, np.int64)
        site.require(reach.fits(none) and reach.fits(-terms), "its sums may exceed 32 bits")
        scales = layer_scales([multiplier], none, reach, zero_point(output), low, high)
        zeros = {"left": left, "right": right}
        values |= {f"{side}_zero_point": zero_point(tensor) for side, tensor in zeros.items()}
        values |= {"zero_point": zero_point(output)}
        vector = product_scales(site, multiplier) if site.vector and not site.lean else None
        if vector is not None:
            values |= vector
            kernel, scratch = "edgetool_batch_matmul_vector_s8", _vector_scratch(values)
        else:
            has_scratch = not site.lean
            values |= {"scale": scales.constant, "shift": scales.shift, "has_scratch": int(has_scratch)}
            # A word, and four words for each four elements, of which some may be needed before or behind a row.
            scratch = (4 + 16 * ((depth + 9) // 4)) * has_scratch
            kernel = "edgetool_batch_matmul_s8"
    else:
        symmetric = all(zero_point(tensor) == 0 for tensor in (left, right, output))
        site.require(symmetric, "a zero point is not 0")
        limit = np.array([depth << 30])
        wide = wide_scales([multiplier], np.zeros(1, np.int64), Reach(-limit, limit))
        if wide is None:
            site.refuse("its sums or multipliers are too large")
        values |= {"scale": wide.constant, "shift": wide.shift}
        kernel, scratch = "edgetool_batch_matmul_s16", 0
    return Step(
        operator=site.operator.index,
        kernel=kernel,
        op=describe(kernel, low=low, high=high, **values),
        inputs=tuple(RowInput(site.index(i), row_bytes=site.input(i).size_bytes) for i in order),
        output=site.operator.outputs[0],
        row_bytes=output.size_bytes,
        scratch_bytes=scratch,
        overlaps=tuple(replace(overlap, input=order.index(overlap.input)) for overlap in overlaps),
    )


def _turned(values: dict[str, FieldValue]) -> dict[str, FieldValue]:
    """Return the fields of a product with one column for one that has its operands turned and exchanged: one row."""
    rows, bias = values["rows"], values.get("bias")
    assert isinstance(rows, int)
    turned = {
        "rows": 1,
        "columns": rows,
        "left_row_step": values["right_column_step"],
        "left_depth_step": values["right_depth_step"],
        "right_column_step": values["left_row_step"],
        "right_depth_step": values["left_depth_step"],
        **{
            f"{a}_steps": values[f"{b}_steps"]
            for a, b in (("left", "right"), ("right", "left"))
            if f"{b}_steps" in values
        },
    }
    if isinstance(bias, Constant):
        turned["bias"] = replace(bias, data=bias.data * rows)
    return values | turned


def _vector_scratch(values: dict[str, FieldValue]) -> int:
    """Return the scratch of edgetool_batch_matmul_vector_s8 in bytes."""
    columns, depth, *steps = (values[name] for name in ("columns", "depth", "right_depth_step", "left_depth_step"))
    assert isinstance(columns, int)
    assert isinstance(depth, int)
    right, left = (step != 1 for step in steps)
    return 4 * _padded(columns) + _padded(depth * (columns * right + left))


def _code_range(tensor: Tensor) -> tuple[int, int]:
    """Return the smallest and largest code of a tensor without its zero point."""
    low, high = RANGES[tensor.dtype]
    return low - zero_point(tensor), high - zero_point(tensor)


def _batch_matmul(site: Site) -> Iterator[Step]:
    left, right, output = site.input(0), site.input(1), site.output()
    types = {left.dtype, right.dtype, output.dtype}
    site.require(types in ({DType.INT8}, {DType.INT16}), f"{left.dtype.name} is not supported")
    ranks = [len(left.shape), len(right.shape)]
    site.require(min(ranks) >= 2 and max(ranks) <= 5 and output.element_count > 0, f"its operands have ranks {ranks}")
    adj_x, adj_y = bool(site.option("adj_x", False)), bool(site.option("adj_y", False))
    first, second = ((1,) * (5 - len(tensor.shape)) + tensor.shape for tensor in (left, right))
    rows, depth = first[:2:-1] if adj_x else first[3:]
    columns, right_depth = second[3:] if adj_y else second[:2:-1]
    batches = tuple(max(a, b) for a, b in zip(first[:3], second[:3], strict=True))
    matching = depth == right_depth and prod(batches) * rows * columns == output.element_count
    broadcast = all(
        side in (1, total) for shape in (first, second) for side, total in zip(shape, batches, strict=False)
    )
    site.require(matching and broadcast, f"it cannot multiply the shapes {left.shape} and {right.shape}")
    count = prod(batches)
    if right.data is not None and prod(second[:3]) == 1 and not adj_x and left.dtype is DType.INT8:
        matrix = site.constant(1).reshape(second[3:])
        filters = np.ascontiguousarray(matrix if adj_y else matrix.T)
        multiplier = _shared_multiplier(site, left, right)
        yield _dense_s8(site, count * rows, filters, np.zeros(columns, np.int64), multiplier, zero_point(right))
        return
    element = output.dtype.bits // 8
    overlaps = []
    if first[:3] == batches:
        # The left operand is read row by row, or once for each batch if its rows are columns.
        units = (count, rows * depth, rows * columns) if adj_x else (count * rows, depth, columns)
        overlaps.append(StepOverlap(0, conv_distance(_rows_window(*units), element_bytes=element)))
    if second[:3] == batches:
        window = _rows_window(count, depth * columns, rows * columns)
        overlaps.append(StepOverlap(1, conv_distance(window, element_bytes=element)))
    yield _product(
        site,
        np.zeros(1, np.int64),
        *overlaps,
        batches=batches,
        left_steps=_batch_steps(first),
        right_steps=_batch_steps(second),
        rows=rows,
        columns=columns,
        depth=depth,
        left_row_step=1 if adj_x else depth,
        left_depth_step=rows if adj_x else 1,
        right_column_step=depth if adj_y else 1,
        right_depth_step=1 if adj_y else columns,
    )


def _batch_steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many elements the next index of each batch axis is away, 0 if the axis repeats."""
    return tuple(0 if side == 1 else prod(shape[axis + 1 :]) for axis, side in enumerate(shape[:3]))


LOWERINGS: dict[str, Lowering] = {"BATCH_MATMUL": _batch_matmul, "FULLY_CONNECTED": _fully_connected}
