"""Operators of int8 on cores with Helium (MVE), whose kernels compute vectors.

These kernels keep TFLM's double rounding: Helium rounds as SaturatingRoundingDoublingHighMul does, and shifts right
with rounding half up, so that rounding half away from zero needs 1 less for negative sums. Not even that is needed
if all negative results are clamped to the zero point, as with RELU.

What the kernels do not cover has those of other cores: convolutions with more than 255 groups, multipliers of one half
or more, weights of convolutions that are computed, depthwise convolutions with several outputs for each of several
inputs, additions with broadcasting or without a line, averages and sums of very many codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import lcm, prod

import numpy as np

from edgetool.codegen.native import arithmetic, convolution, normalization, pooling, reduction
from edgetool.codegen.native.fixed_point import DOUBLE_ROUNDING, Multiplier, quantize_multiplier, reach_of_weights
from edgetool.codegen.native.program import Constant, FieldValue, RowInput, Step, StepOverlap, describe
from edgetool.codegen.native.site import Array, Lowered, Lowering, Site, fused_range
from edgetool.model.types import DType
from edgetool.operators.call import zero_point
from edgetool.operators.overlap import Window, banded_distance, channelwise_distance, conv_distance

WORDS, LANES, BYTES = 4, 8, 16  # lanes of a vector
PIXELS, GROUP = 3, 6  # which edgetool_conv2d_vector_s8 computes at once, and what its tiles are best multiples of
MAX_PERIOD = 48  # lanes of edgetool_depthwise_3x3_vector_s8, unless a pixel has more channels
MAX_VECTORS = 4  # of a window of edgetool_depthwise_vector_s8
MAX_AVERAGED = 2048  # codes, of edgetool_average_pool_vector_s8
INT8_BITS = 8
MAX_DIFFERENCE = 255  # of a code from a zero point
TILE_BYTES, LEAN_BYTES = 3072, 512  # the most scratch of a tile, of tuned and of lean kernels


@dataclass(frozen=True, slots=True)
class VectorScales:
    """The bias and scales of a layer's channels.

    is_signed: whether the kernel rounds negative sums.
    """

    bias: Array
    multipliers: Array
    shifts: Array
    is_signed: bool

    def repeated(self) -> VectorScales:
        """Return the scales of each channel four times, for groups of one."""
        bias, multipliers, shifts = (np.repeat(array, WORDS) for array in (self.bias, self.multipliers, self.shifts))
        return VectorScales(bias, multipliers, shifts, self.is_signed)

    def table(self, groups: int) -> Constant:
        """Return the biases, multipliers and shifts of each block of four channels of a group."""
        arrays = np.stack([self.bias, self.multipliers, self.shifts], axis=1)
        blocks = [_blocks(array, WORDS).transpose(0, 2, 1) for array in np.split(arrays, groups)]
        return _words(np.concatenate(blocks), "biases, multipliers and shifts")


def _blocks(values: Array, size: int) -> Array:
    """Return an array in blocks of a size, the last one filled with zeros."""
    padded = np.zeros((-(-len(values) // size) * size, *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    return padded.reshape(-1, size, *values.shape[1:])


def _words(values: Array, what: str) -> Constant:
    return Constant("int32_t", values.astype("<i4").tobytes(), what)


def vector_scales(site: Site, multipliers: list[Multiplier], bias: Array) -> VectorScales | None:
    """Return the scales of a layer; None if its kernel would need a left shift, or no shift for signed outputs."""
    low, _ = fused_range(site, site.output())
    is_signed = low < zero_point(site.output())
    shifts = np.array([item.shift if item.value else min(item.shift, -1) for item in multipliers], np.int64)
    if shifts.max(initial=-1) > (-1 if is_signed else 0) or any(item.value < 0 for item in multipliers):
        return None
    return VectorScales(bias, np.array([item.value for item in multipliers], np.int64), shifts, is_signed)


def _convolution_scales(site: Site, operands: convolution.Operands, flat: Array) -> VectorScales | None:
    """Return the scales of a convolution with weights of shape (output channels, products)."""
    source, channels = site.input(operands.source), len(flat)
    reals = convolution.conv_multipliers(site, source, site.input(operands.weights), channels)
    offsets = convolution.bias_of(site, operands.bias, channels) - zero_point(source) * flat.astype(np.int64).sum(
        axis=1
    )
    site.require(reach_of_weights(flat).fits(offsets), "its sums may exceed 32 bits")
    return vector_scales(site, [quantize_multiplier(real) for real in reals], offsets)


def _is_int8(site: Site) -> bool:
    return site.output().dtype is DType.INT8


def _clamp(site: Site) -> dict[str, FieldValue]:
    low, high = fused_range(site, site.output())
    return {"zero_point": zero_point(site.output()), "low": low, "high": high}


def _rows_of_vectors(weights: Array) -> bytes:
    """Return weights of shape (channels, products) for edgetool_conv2d_vector_s8: see its header."""
    rows = weights if len(weights) == 1 else _blocks(weights, WORDS).reshape(-1, weights.shape[1])
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % BYTES if rows.shape[1] <= 2 * BYTES else 0))).tobytes()


def _window_step(
    site: Site, kernel: str, window: Window, overlaps: list[StepOverlap], scratch: int, **values: FieldValue
) -> Step:
    """Return the step of a kernel for windows."""
    return Step(
        operator=site.operator.index,
        kernel=kernel,
        op=describe(
            kernel,
            dilation_x=window.dilation_x,
            outside=zero_point(site.input(0)),
            **convolution.window_fields(window),
            **_clamp(site),
            **values,
        ),
        inputs=(convolution.window_rows(site.index(0), window),),
        output=site.operator.outputs[0],
        row_bytes=window.output_width * window.output_channels,
        rows=window.output_height,
        batches=window.batches,
        scratch_bytes=-(-scratch // WORDS) * WORDS,
        overlaps=tuple(overlaps),
    )


def conv_step(site: Site, window: Window, filters: Array, scales: VectorScales) -> Step:
    """Return the step of a convolution with weights (output channels, tap y, tap x, input channels of a group)."""
    channels, depth = len(filters), filters.shape[3]
    groups = window.channels // depth
    flat = filters.transpose(0, 2, 1, 3).reshape(channels, -1)
    if groups == 1:
        window = convolution.in_one_row(site, window)
        overlaps = [item for item in convolution.conv_overlaps(site, window) if channels > 1 or not item.descending]
    else:
        overlaps = [StepOverlap(0, banded_distance(window, 1))]
    tile, scratch = _conv_tile(replace(window, channels=depth), LEAN_BYTES if site.lean else TILE_BYTES)
    is_direct = _is_direct(window, groups)
    if is_direct:
        scratch = PIXELS * flat.shape[1] if flat.shape[1] > 2 * BYTES else 0
    weights = b"".join(_rows_of_vectors(group) for group in np.split(flat, groups))
    step = _window_step(
        site,
        "edgetool_conv2d_vector_s8",
        window,
        overlaps,
        scratch,
        tile=tile,
        weights=Constant("int8_t", weights, "weights"),
        depth=depth,
        filters=channels // groups,
        groups=groups,
        is_direct=int(is_direct),
        scales=(scales.repeated() if channels == groups else scales).table(groups),
        is_signed=int(scales.is_signed),
    )
    # Groups of channels are complete in a band one after the other.
    return replace(step, band=convolution.few_rows(window, row_wise=site.row_wise or groups > 1))


def _is_direct(window: Window, groups: int) -> bool:
    """Return whether the taps of each pixel follow each other in the input, and are all inside it."""
    ends = (
        (window.output_height - 1) * window.stride_y - window.pad_y + window.taps_y <= window.height,
        (window.output_width - 1) * window.stride_x - window.pad_x + window.taps_x <= window.width,
    )
    follow = window.taps_x == 1 or (groups == 1 and window.dilation_x == 1)
    return window.taps_y == 1 and (window.pad_y, window.pad_x) == (0, 0) and all(ends) and follow


def _conv_tile(window: Window, limit: int) -> tuple[int, int]:
    """Return the columns of a tile of edgetool_conv2d_vector_s8, whole groups of pixels, and its bytes of scratch."""
    column, taps = window.taps_y * window.channels, window.taps_x
    step = window.stride_x if window.dilation_x == 1 else taps
    most = max((limit - BYTES - taps * column) // (step * column) + 1, 1)
    tile = window.output_width if most >= window.output_width else max(most // GROUP * GROUP, min(most, PIXELS))
    return tile, _conv_scratch(tile, column, taps, window.stride_x, window.dilation_x)


def _conv_scratch(tile: int, column: int, taps: int, stride: int, dilation: int) -> int:
    """Return the bytes of scratch of edgetool_conv2d_vector_s8 for a tile. column: the bytes of a column of taps."""
    step = stride if dilation == 1 else taps
    return BYTES + ((tile - 1) * step + taps) * column


def _depthwise_scratch(tile: int, groups: int, vectors: int, stride: int, dilation: int) -> int:
    """Return the bytes of scratch of edgetool_depthwise_vector_s8 for a tile."""
    return BYTES + 4 * BYTES * groups * ((tile - 1) * stride + (WORDS * vectors // groups - 1) * dilation + 1)


def in_fewer_columns(step: Step) -> Step | None:
    """Return a step whose kernel copies half as many columns to scratch at once; None if it cannot, and of others."""
    fields = {name: value for name, value in step.op.values if isinstance(value, int)}
    is_conv = step.kernel == "edgetool_conv2d_vector_s8" and not fields["is_direct"]
    if not is_conv and step.kernel != "edgetool_depthwise_vector_s8":
        return None
    tile = -(-fields["tile"] // (2 * GROUP)) * GROUP
    if tile >= fields["tile"]:
        return None
    taps, stride, dilation = fields["taps_x"], fields["stride_x"], fields["dilation_x"]
    if is_conv:
        scratch = _conv_scratch(tile, fields["taps_y"] * fields["depth"], taps, stride, dilation)
    else:
        scratch = _depthwise_scratch(tile, fields["groups"], fields["vectors"], stride, dilation)
    values = tuple((name, tile if name == "tile" else value) for name, value in step.op.values)
    return replace(step, op=replace(step.op, values=values), scratch_bytes=-(-scratch // WORDS) * WORDS)


def _along_x(site: Site, window: Window) -> Window:
    """Return the window of an image of one column as one of a row, if the planner does not need its rows."""
    if site.row_wise or (window.width, window.output_width, window.taps_x, window.pad_x) != (1, 1, 1, 0):
        return window
    turned = replace(
        window,
        height=1,
        width=window.height,
        output_height=1,
        output_width=window.output_height,
        taps_y=1,
        taps_x=window.taps_y,
        stride_y=1,
        stride_x=window.stride_y,
        dilation_y=1,
        dilation_x=window.dilation_y,
        pad_y=0,
        pad_x=window.pad_y,
    )
    return turned if convolution.is_narrow(turned) else window


def _conv_2d(site: Site) -> Iterator[Lowered]:
    if _is_int8(site):
        filters = convolution.weights_of(site, convolution.CONV)
        channels, taps_y, taps_x, depth = filters.shape
        window = convolution.window_of(site, taps_y, taps_x)
        groups = window.channels // depth
        is_grouped = groups * depth == window.channels and channels % groups == 0 and groups <= convolution.MAX_GROUPS
        if is_grouped and depth == 1 < groups:
            # Kernels of depthwise convolutions do not copy the rows of each group.
            each = filters.transpose(3, 1, 2, 0)
            yield _depthwise(site, each) or convolution.depthwise_step(site, each)
            return
        if is_grouped and convolution.is_narrow(_along_x(site, window)):
            window, filters = convolution.without_taps_outside(window, filters)
            scales = _convolution_scales(site, convolution.CONV, filters.reshape(channels, -1))
            if scales is not None:
                window = _along_x(site, window)
                yield conv_step(site, window, filters.reshape(channels, window.taps_y, window.taps_x, depth), scales)
                return
    yield from convolution.LOWERINGS["CONV_2D"](site)


def _depthwise_conv_2d(site: Site) -> Iterator[Lowered]:
    if _is_int8(site):
        filters = convolution.weights_of(site, convolution.DEPTHWISE)
        one, _, _, channels = filters.shape
        if one == 1 and channels == site.input(0).shape[3] * site.option("depth_multiplier", 0):
            step = _depthwise(site, filters)
            if step is not None:
                yield step
                return
    yield from convolution.LOWERINGS["DEPTHWISE_CONV_2D"](site)


def _depthwise(site: Site, filters: Array) -> Step | None:
    """Return the step of a convolution of each channel by itself, with weights (1, taps y, taps x, output channels).

    None if edgetool's other kernels compute it.
    """
    _, taps_y, taps_x, channels = filters.shape
    window = convolution.window_of(site, taps_y, taps_x)
    multiplier = channels // window.channels
    if not convolution.is_narrow(_along_x(site, window)):
        return None
    window, filters = convolution.without_taps_outside(window, filters)
    window = _along_x(site, window)
    flat = np.ascontiguousarray(filters.reshape(-1, channels).T)
    scales = _convolution_scales(site, convolution.DEPTHWISE, flat)
    if scales is None:
        return None
    is_alone = window.channels == 1 and (multiplier == 1 or _is_direct(window, 1))
    if is_alone or (multiplier > 1 and _is_best_grouped(window)):
        # All outputs of a channel are those of a group in a convolution.
        return conv_step(site, window, flat.reshape(channels, window.taps_y, window.taps_x, 1), scales)
    return _depthwise_step(site, window, flat, scales) if multiplier == 1 else None


def _is_best_grouped(window: Window) -> bool:
    """Return whether a depthwise convolution with several outputs for each input has fewer instructions as groups.

    Its instructions are those of edgetool_conv2d_vector_s8, roughly as counted, which copies each row for each group.
    """
    if window.channels > convolution.MAX_GROUPS:
        return False
    width, taps_y, taps_x = window.output_width, window.taps_y, window.taps_x
    rows = window.batches * window.output_height * window.channels
    copies, columns = (1, (width - 1) * window.stride_x + taps_x) if window.dilation_x == 1 else (width, taps_x)
    blocks = -(-window.output_channels // (window.channels * WORDS))
    pixels = 2 if BYTES < taps_y * taps_x <= 2 * BYTES else PIXELS
    grouped = rows * (120 + copies * (120 + taps_y * (17 + 10 * columns)) + -(-width // pixels) * (7 + 64 * blocks))
    return grouped < min(convolution.depthwise_instructions(window, dsp=True, is_alone=window.channels == 1))


def _depthwise_step(site: Site, window: Window, flat: Array, scales: VectorScales) -> Step:
    """Return the step of a depthwise convolution with weights of shape (channels, taps)."""
    channels = len(flat)
    groups = next(count for count in (1, 2, 4, 8) if window.taps_y <= WORDS * count or count == 8)
    vectors = -(-window.taps_x * groups // WORDS)
    vectors = 3 if vectors == 2 else vectors
    fits = groups <= WORDS and vectors <= MAX_VECTORS
    taps, width = window.taps_y * window.taps_x, window.output_width
    # The instructions of a row, roughly.
    in_lanes = width * (-(-channels // LANES) * (10 * taps + 40) + 60)
    in_words = channels * (20 + -(-width // WORDS) * (10 * vectors + 18)) + 450
    geometry = (window.taps_y, window.taps_x, window.stride_y, window.stride_x, window.dilation_y, window.dilation_x)
    paired = geometry == (3, 3, 1, 1, 1, 1)
    column, reach = 64 * groups, (WORDS * vectors // groups - 1) * window.dilation_x + 1
    most = (LEAN_BYTES if site.lean else TILE_BYTES) // column - reach
    tile = min(width, max(1, most // window.stride_x) // 2 * 2 or 1)
    if _is_3x3(window, flat) and (site.row_wise or site.lean or _is_best_3x3(window, tile, paired=paired)):
        return _3x3_step(site, window, flat, scales)
    if not fits or (in_lanes < in_words and not (paired and width > 2)):
        return _lanes_step(site, window, flat, scales)
    words = np.zeros((channels, vectors * WORDS, WORDS), np.int8)
    filters = np.zeros((channels, window.taps_x, groups * WORDS), np.int8)
    filters[:, :, : window.taps_y] = flat.reshape(channels, window.taps_y, window.taps_x).transpose(0, 2, 1)
    words[:, : window.taps_x * groups] = filters.reshape(channels, -1, WORDS)
    table = np.stack([scales.bias, scales.multipliers, scales.shifts], axis=1)
    band = 2 if paired and not site.row_wise else 1
    step = _window_step(
        site,
        "edgetool_depthwise_vector_s8",
        window,
        [StepOverlap(0, banded_distance(window, band))],
        _depthwise_scratch(tile, groups, vectors, window.stride_x, window.dilation_x),
        weights=Constant("int8_t", bytes(WORDS) + words.tobytes(), "weights"),
        scales=_words(table, "biases, multipliers and shifts"),
        channels=channels,
        tile=tile,
        groups=groups,
        vectors=vectors,
        paired=int(paired),
        is_signed=int(scales.is_signed),
    )
    return replace(step, band=min(band, window.output_height))


def _lanes_step(site: Site, window: Window, flat: Array, scales: VectorScales) -> Step:
    """Return the step of a depthwise convolution with the kernel that has channels in the lanes of vectors."""
    # Even channels, then odd ones.
    arrays = (scales.bias, scales.multipliers, scales.shifts)
    table = np.stack([_blocks(item, LANES).reshape(-1, WORDS, 2).transpose(0, 2, 1) for item in arrays], axis=1)
    low, high = fused_range(site, site.output())
    kernel, zero = "edgetool_depthwise_lanes_s8", convolution.zero_pixel(site.input(0))
    return Step(
        operator=site.operator.index,
        kernel=kernel,
        op=describe(
            kernel,
            weights=Constant("int8_t", _blocks(flat, LANES).transpose(0, 2, 1).tobytes(), "weights"),
            scales=_words(table, "biases, multipliers and shifts"),
            zero_pixel=zero,
            input_channels=window.channels,
            dilation_x=window.dilation_x,
            zero_point=zero_point(site.output()),
            low=low,
            high=high,
            **convolution.window_fields(window),
        ),
        inputs=(convolution.window_rows(site.index(0), window),),
        output=site.operator.outputs[0],
        row_bytes=window.output_width * window.output_channels,
        rows=window.output_height,
        batches=window.batches,
        scratch_bytes=8 * window.taps_y * window.taps_x + 4,
        band=convolution.few_rows(window, row_wise=site.row_wise),
        overlaps=(StepOverlap(0, channelwise_distance(window)),),
    )


def _is_3x3(window: Window, flat: Array) -> bool:
    """Return whether edgetool_depthwise_3x3_vector_s8 can have a window, and weights of shape (channels, taps)."""
    if (window.taps_y, window.taps_x) != (3, 3) or window.channels % WORDS:
        return False
    # Its sums of two products have 16 bits, which only two weights of -128 can exceed.
    pairs = flat[:, :-1].astype(np.int64).reshape(len(flat), -1, 2).sum(axis=2)
    return bool((pairs > -256).all())


def _is_best_3x3(window: Window, tile: int, *, paired: bool) -> bool:
    """Return whether edgetool_depthwise_3x3_vector_s8 has fewer instructions, roughly as counted.

    Args:
        window: The geometry.
        tile: The columns that edgetool_depthwise_vector_s8 copies to scratch at once.
        paired: Whether that kernel computes two rows at once.
    """
    channels, width, period = window.channels, window.output_width, _period(window)
    vectors, tiles = -(-channels // BYTES), -(-width // tile)
    outside = min(width, -(-2 * window.pad_x // window.stride_x))
    periods = -(-(width - outside) * channels // period)
    in_blocks = 118 * (periods * -(-period // BYTES) + outside * vectors) + 12 * periods + 100 * outside + 220
    copies = tiles * (200 + 150 * vectors) + 15 * vectors * (width * window.stride_x + 2 * tiles) + 200
    if paired and window.output_height > 1:
        return in_blocks < (copies + channels * (16 * tiles + 19 * -(-width // 2))) / 2
    return in_blocks < copies + channels * (13 * tiles + 24 * -(-width // WORDS))


def _period(window: Window) -> int:
    """Return the lanes of edgetool_depthwise_3x3_vector_s8: outputs after which its table starts again."""
    channels = window.channels
    if window.stride_x > 1:
        return channels
    # Few periods have few instructions: as many outputs as a row and a small table have, in whole vectors.
    whole, most = lcm(channels, BYTES), min(window.output_width * channels, MAX_PERIOD)
    return max(most // whole * whole, channels)


def _3x3_step(site: Site, window: Window, flat: Array, scales: VectorScales) -> Step:
    """Return the step of a depthwise convolution with the kernel for windows of 3 by 3."""
    channels, lanes = window.channels, _period(window)
    of_lanes = np.arange(lanes) % channels
    # Sums of four channels each: 0, 4, 8, 12, then 2, 6, 10, 14, then the odd ones.
    bias, multipliers, shifts = (
        _blocks(item[of_lanes], BYTES).reshape(-1, WORDS, 2, 2).transpose(0, 3, 2, 1).reshape(-1, WORDS, WORDS)
        for item in (scales.bias, scales.multipliers, scales.shifts)
    )
    weights = np.ascontiguousarray(_blocks(flat[of_lanes], BYTES).transpose(0, 2, 1)).view("<i4")
    blocks = len(bias)
    parts = [bias, weights, np.stack([multipliers, shifts], axis=2)]
    table = np.concatenate([part.reshape(blocks, -1).astype(np.int64) for part in parts], axis=1)
    kernel = "edgetool_depthwise_3x3_vector_s8"
    return Step(
        operator=site.operator.index,
        kernel=kernel,
        op=describe(
            kernel,
            table=_words(table, "biases, weights, multipliers and shifts"),
            zero_pixel=convolution.zero_pixel(site.input(0)),
            input_channels=channels,
            lanes=lanes,
            dilation_x=window.dilation_x,
            is_signed=int(scales.is_signed),
            **_clamp(site),
            **convolution.window_fields(window),
        ),
        inputs=(convolution.window_rows(site.index(0), window),),
        output=site.operator.outputs[0],
        row_bytes=window.output_width * channels,
        rows=window.output_height,
        batches=window.batches,
        band=convolution.few_rows(window, row_wise=site.row_wise),
        overlaps=(StepOverlap(0, channelwise_distance(window)),),
    )


def dense_step(
    site: Site, rows: int, filters: Array, bias: Array, multipliers: Multiplier | list[Multiplier], zero: int
) -> Step | None:
    """Return the step of a product with weights of shape (units, depth); None if its kernel does not cover the scales.

    Args:
        site: The operator.
        rows: The number of rows of the first input.
        filters: The weights.
        bias: What is added to the sum of each unit.
        multipliers: One for each unit, or one of all units.
        zero: The zero point of the weights.
    """
    units, depth = filters.shape
    merged = 1 if site.row_wise else rows
    if units == 1:
        bias = np.repeat(bias, merged)
        multipliers = multipliers if isinstance(multipliers, Multiplier) else multipliers[0]
    shared = isinstance(multipliers, Multiplier)
    scales = vector_scales(site, [multipliers] * WORDS if isinstance(multipliers, Multiplier) else multipliers, bias)
    if scales is None:
        return None
    tables = np.stack([_blocks(array, WORDS) for array in (scales.multipliers, scales.shifts)], axis=1)
    window = Window(
        batches=1, height=1, width=rows, channels=depth, output_height=1, output_width=rows, output_channels=units
    )
    return Step(
        operator=site.operator.index,
        kernel="edgetool_dense_vector_s8",
        op=describe(
            "edgetool_dense_vector_s8",
            weights=Constant("int8_t", filters.tobytes(), "weights"),
            bias=_words(_blocks(scales.bias, WORDS), "bias and input zero point"),
            scales=_words(tables, "multipliers and shifts"),
            rows=merged,
            depth=depth,
            units=units,
            scale_step=0 if shared else 2 * WORDS,
            weights_zero_point=zero,
            **_clamp(site),
        ),
        inputs=(RowInput(site.index(0), row_bytes=merged * depth, rows=rows // merged),),
        output=site.operator.outputs[0],
        row_bytes=merged * units,
        rows=rows // merged,
        overlaps=(StepOverlap(0, conv_distance(window)),),
    )


def product_scales(site: Site, multiplier: Multiplier) -> dict[str, FieldValue] | None:
    """Return the fields for the scale of edgetool_batch_matmul_vector_s8; None if it does not cover the scale."""
    scales = vector_scales(site, [multiplier] * WORDS, np.zeros(WORDS, np.int64))
    if scales is None:
        return None
    return {"scales": _words(np.stack([scales.multipliers, scales.shifts]), "multipliers and shifts")}


def _instead(plain: Lowering, kernel: str, vector: Callable[[Site, Step], Step]) -> Lowering:
    """Return a lowering with other steps for those with one of its kernels."""

    def lowering(site: Site) -> Iterator[Lowered]:
        for item in plain(site):
            yield vector(site, item) if isinstance(item, Step) and item.kernel == kernel else item

    return lowering


def _vector_add(_: Site, step: Step) -> Step:
    """Return the step of an addition with the kernel for vectors if it has a line and operands without broadcasting."""
    fields = dict(step.op.values)
    assert isinstance(fields["loops"], Constant)
    loops, run, *steps = np.frombuffer(fields["loops"].data, "<u4").tolist()
    if loops or steps != [1, 1] or fields["shift"] == DOUBLE_ROUNDING:
        return step
    values = {name: fields[name] for name in ("numbers", "shift", "low", "high")}
    return replace(step, kernel="edgetool_add_vector_s8", op=describe("edgetool_add_vector_s8", count=run, **values))


def _vector_mul(site: Site, step: Step) -> Step:
    """Return the step of a multiplication with the kernel for vectors if its scale is below one half."""
    multiplier = arithmetic.product_multiplier(site)
    if not multiplier.right or multiplier.value < 0:
        return step
    fields = dict(step.op.values)
    values = {name: fields[name] for name in ("loops", "zero_points", "zero_point", "low", "high")}
    scale = {"multiplier": multiplier.value, "shift": -multiplier.right}
    return replace(step, kernel="edgetool_mul_vector_s8", op=describe("edgetool_mul_vector_s8", **scale, **values))


def _vector_average(site: Site, step: Step) -> Step:
    """Return the step of pooling with the kernel for vectors if its windows have few enough pixels inside the image."""
    _, height, width, _ = site.input(0).shape
    rows, columns = min(site.option("filter_height", 0), height), min(site.option("filter_width", 0), width)
    return _with_kernel(step, "edgetool_average_pool_vector_s8") if rows * columns <= MAX_AVERAGED else step


def _vector_max(_: Site, step: Step) -> Step:
    return _with_kernel(step, "edgetool_max_pool_vector_s8")


def _vector_softmax(_: Site, step: Step) -> Step:
    """Return the step of SOFTMAX with the kernel for vectors if its output is int8; 0 follows its exponentials."""
    fields = dict(step.op.values)
    table = fields["exponentials"]
    assert isinstance(table, Constant)
    if fields["output_bits"] != INT8_BITS:
        return step
    values = {name: fields[name] for name in ("depth", "vectors", "count")}
    values["exponentials"] = replace(table, data=table.data + bytes(WORDS))
    return replace(step, kernel="edgetool_softmax_vector_s8", op=describe("edgetool_softmax_vector_s8", **values))


def _vector_sum(_: Site, step: Step) -> Step:
    """Return the step of MEAN or SUM with the kernel for vectors if no sum may exceed 32 bits."""
    fields = dict(step.op.values)
    reduced = fields["reduced_count"]
    assert isinstance(reduced, tuple)
    numbers = {name: value for name, value in fields.items() if isinstance(value, int)}
    left, right, offset = (numbers[name] for name in ("left", "right", "offset"))
    is_small = step.inputs[0].taps * prod(reduced) * MAX_DIFFERENCE << left < 2**31 - 2**16
    if not is_small or numbers["multiplier"] < 0:
        return step
    values = {name: value for name, value in fields.items() if name not in ("left", "right")}
    values |= {"offset": (offset + 2**31) % 2**32 - 2**31, "shift": left - right}
    return replace(step, kernel="edgetool_sum_vector_s8", op=describe("edgetool_sum_vector_s8", **values))


def _with_kernel(step: Step, kernel: str) -> Step:
    """Return a step with another kernel, whose descriptor has the same fields."""
    return replace(step, kernel=kernel, op=describe(kernel, **dict(step.op.values)))


LOWERINGS: dict[str, Lowering] = {
    "ADD": _instead(arithmetic.LOWERINGS["ADD"], "edgetool_add_s8", _vector_add),
    "AVERAGE_POOL_2D": _instead(pooling.LOWERINGS["AVERAGE_POOL_2D"], "edgetool_average_pool_s8", _vector_average),
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "MAX_POOL_2D": _instead(pooling.LOWERINGS["MAX_POOL_2D"], "edgetool_max_pool_s8", _vector_max),
    "MEAN": _instead(reduction.LOWERINGS["MEAN"], "edgetool_sum_s8", _vector_sum),
    "MUL": _instead(arithmetic.LOWERINGS["MUL"], "edgetool_mul_s8", _vector_mul),
    "SOFTMAX": _instead(normalization.LOWERINGS["SOFTMAX"], "edgetool_softmax_s8", _vector_softmax),
    "SUB": _instead(arithmetic.LOWERINGS["SUB"], "edgetool_add_s8", _vector_add),
    "SUM": _instead(reduction.LOWERINGS["SUM"], "edgetool_sum_s8", _vector_sum),
}
