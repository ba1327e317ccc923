"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV as native kernels.

Weights of int8 and int4 become int8, scales one edgetool_scale for each output channel. Sources: conv.cc,
depthwise_conv.cc, transpose_conv.cc, their _common.cc and the kernels in integer_ops/.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from edgetool.codegen.native.fixed_point import (
    SIGN,
    Multiplier,
    Reach,
    Scales,
    double_rounding_scales,
    layer_scales,
    quantize_multiplier,
    reach_of_weights,
    sign_scales,
    wide_scales,
)
from edgetool.codegen.native.products import product_scales
from edgetool.codegen.native.program import Constant, FieldValue, RowInput, Step, StepOverlap, describe
from edgetool.codegen.native.site import RANGES, Array, Lowering, Site, fused_range
from edgetool.model.types import DType, Tensor
from edgetool.operators.call import scale, zero_point
from edgetool.operators.overlap import Window, banded_distance, channelwise_distance, conv_distance


@dataclass(frozen=True, slots=True)
class Operands:
    """The positions of a convolution's inputs, the axis of its weights' output channels, and its bias types by input.

    bias_types: for activations of int16, of which only int32 makes the sums 32 bits wide.
    """

    source: int
    weights: int
    bias: int
    axis: int
    bias_types: tuple[DType, ...]


CONV = Operands(0, 1, 2, 0, (DType.INT32, DType.INT64))
DEPTHWISE = Operands(0, 1, 2, 3, (DType.INT64,))
# The widest images of tuned kernels.
MAX_WIDTH = 2**16 - 1
# What edgetool_conv2d_tiled_s8 computes at once, and the pointers to rows that a call may have on the stack.
CHANNELS, TAPS, PIXELS, MAX_ROW_POINTERS = 2, 4, 4, 40
# What pixels take that do not fill a group, by their number, as a share of the last number, that of a full group: up to
# two are computed one by one.
REST_COSTS = (0, 6, 12, 10, 10)
# The pointers of kernels that compute rows one after the other.
FEW_ROW_POINTERS = 16
# The shift of the products of edgetool_conv2d_tiled_s8, with which nearly all layers have some, and the largest one of
# its form "sign".
TILED_SHIFT, MAX_SIGN_SHIFT = 3, 22
# Groups that it can have.
MAX_GROUPS = 255
# Rows of taps of at most this many bytes are first put together if some are outside the input, for which the pixel
# outside has as many.
ASIDE = 16
# What edgetool_depthwise_tiled_s8 has at once: planes of channels, their bytes, the words of a column, output bytes of
# a band, what a number of columns is best a multiple of, and the fewest of them.
PLANES, PLANE_BYTES, COLUMN, BAND_BYTES, TILE_UNIT, LEAST_TILE = 4, 6656, 8, 6144, 6, 4
# The most pairs of tap rows unless taps are 3 x 3, the fewest taps then, the fewest products of a channel and band that
# are worth planes, with taps of 3 x 3 and with others, and what is in scratch to keep the stack small.
MAX_PAIRS, LEAST_TAPS, LEAST_PRODUCTS_3X3, LEAST_PRODUCTS, SECTION_WORDS = 4, 4, 50, 80, 64
LEAN_CONV = "edgetool_conv2d_lean_s8"
# Pairs of channels that it computes at once, the taps or words that need no scratch, and the fewest taps and products
# of a pixel with which two pixels at once are about as fast as four of edgetool_conv2d_tiled_s8.
BLOCK, PLACES, TAPS_OF_TWO, PRODUCTS_OF_TWO = 4, 10, 33, 2048
# The pixels of a call that it computes faster than four at once, those up to which it does so with any channels, but in
# groups with at most this many outside blocks or half of all, and the share of these up to which it does so with other
# pixels, as a divisor.
FEW_PIXELS, ALONE, FEW_SLOW, MOST_SLOW = (1, 2, 3, 5, 6), 2, 3, 4
# With any pixels: the most channels by whether the core has DSP instructions, the most with as few taps as FEW_TAPS
# without them, and the fewest taps in several rows for one channel.
FEW_CHANNELS, MORE_CHANNELS, FEW_TAPS, MANY_TAPS = {True: 2, False: 3}, 7, 8, 64
# The fewest input channels of a group, and codes beside each other, with which one output channel has the plain kernel.
LEAST_DEPTH, LEAST_RUN = 10, 30
# The most input channels of edgetool_depthwise_few_s8.
FEW_INPUTS = 32


TRANSPOSE = Operands(2, 1, 3, 0, (DType.INT16, DType.INT64))


def window_of(site: Site, taps_y: int, taps_x: int) -> Window:
    """Return the window of a convolution or pooling operator, with the padding of a PAD before it."""
    source, output = site.input(0), site.output()
    stride_y, stride_x = site.option("stride_h", 1), site.option("stride_w", 1)
    dilation_y, dilation_x = site.option("dilation_h_factor", 1), site.option("dilation_w_factor", 1)
    pad_y = pad_x = 0
    if site.option("padding") == "SAME":
        padded_height, padded_width = _unfolded_sides(site)
        pad_y = _same_padding(padded_height, stride_y, dilation_y, taps_y)
        pad_x = _same_padding(padded_width, stride_x, dilation_x, taps_x)
    return Window(
        batches=output.shape[0],
        height=source.shape[1],
        width=source.shape[2],
        channels=source.shape[3],
        output_height=output.shape[1],
        output_width=output.shape[2],
        output_channels=output.shape[3],
        taps_y=taps_y,
        taps_x=taps_x,
        stride_y=stride_y,
        stride_x=stride_x,
        dilation_y=dilation_y,
        dilation_x=dilation_x,
        pad_y=pad_y + site.pad_top,
        pad_x=pad_x + site.pad_left,
    )


def _unfolded_sides(site: Site) -> tuple[int, int]:
    """Return height and width of the tensor that the .tflite gives the operator: the PAD's output if it is folded."""
    original = site.graph.operators[site.operator.index].inputs[0]
    shape = site.graph.tensors[original].shape
    return shape[1], shape[2]


def _same_padding(side: int, stride: int, dilation: int, taps: int) -> int:
    """Return the padding in front (ComputePadding, padding.h)."""
    effective = (taps - 1) * dilation + 1
    return max(0, ((-(-side // stride) - 1) * stride + effective - side) // 2)


def conv_multipliers(site: Site, source: Tensor, weights: Tensor, channels: int) -> list[float]:
    """Return the real multiplier of each channel (PopulateConvolutionQuantizationParams, kernel_util.cc)."""
    quantization, output = weights.quantization, site.output()
    site.require(quantization is not None and len(quantization.scales) in (1, channels), "its weights have no scales")
    assert quantization is not None
    scales = quantization.scales * channels if len(quantization.scales) == 1 else quantization.scales
    before, after = scale(source), scale(output)
    return [before * item / after for item in scales]


def bias_of(site: Site, position: int, channels: int, types: tuple[DType, ...] = (DType.INT32,)) -> Array:
    """Return the bias as int64, 0 if it is omitted."""
    tensor = site.optional(position)
    if tensor is None:
        return np.zeros(channels, np.int64)
    site.require(tensor.dtype in types, f"its bias is of type {tensor.dtype.name}")
    site.require(tensor.element_count == channels, "its bias is not one number for each channel")
    return site.constant(position).reshape(-1).astype(np.int64)


def zero_pixel(source: Tensor) -> Constant:
    """Return one pixel of the input's zero point, for taps outside the input."""
    code = zero_point(source)
    return Constant("int8_t", np.full(source.shape[-1], code, np.int8).tobytes(), "a pixel outside the input")


def has_int32_sums(site: Site, position: int) -> bool:
    """Return whether a layer with int16 activations sums in 32 bits, which its bias decides."""
    bias = site.optional(position)
    name = site.option("quantized_bias_type", "FLOAT32") if bias is None else bias.dtype.name
    return bool(name == "INT32")


def weights_of(site: Site, operands: Operands) -> Array:
    """Return the weights as int8, after a check of types and shapes, which TFLM's kernels rely on."""
    source, output = site.input(operands.source), site.output()
    types = (source.dtype, site.input(operands.weights).dtype)
    known = {(DType.INT8, DType.INT8), (DType.INT8, DType.INT4), (DType.INT16, DType.INT8)}
    names = f"{source.dtype.name} with weights of {types[1].name}"
    site.require(types in known and output.dtype is source.dtype, f"{names} is not supported")
    weights = site.constant(operands.weights)
    shapes = (source.shape, weights.shape, output.shape)
    site.require(all(len(shape) == 4 and all(shape) for shape in shapes), "a shape does not have 4 dimensions")
    matching = weights.shape[operands.axis] == output.shape[3] and source.shape[0] == output.shape[0]
    site.require(matching, f"it cannot multiply the shapes {source.shape} and {weights.shape}")
    return weights.astype(np.int8)


@dataclass(frozen=True, slots=True)
class FoldedSums:
    """The sums of a layer that multiplies codes as they are.

    multipliers: of each output channel. offsets: what is added to each sum, the bias and what the zero point makes.
    reach: what each sum can be without it.
    """

    multipliers: list[Multiplier]
    offsets: Array
    reach: Reach


def folded_sums(site: Site, flat: Array) -> FoldedSums:
    """Return the sums of an int8 convolution with weights of shape (output channels, products)."""
    multipliers, zero = _multipliers(site, CONV, len(flat)), zero_point(site.input(CONV.source))
    offsets = bias_of(site, CONV.bias, len(flat)) - zero * flat.sum(axis=1, dtype=np.int64)
    return FoldedSums(multipliers, offsets, reach_of_weights(flat))


def _multipliers(site: Site, operands: Operands, channels: int) -> list[Multiplier]:
    reals = conv_multipliers(site, site.input(operands.source), site.input(operands.weights), channels)
    return [quantize_multiplier(real) for real in reals]


def _channel_scales(site: Site, operands: Operands, flat: Array, sums: FoldedSums | None) -> Scales:
    """Return the scales of a convolution.

    Args:
        site: The operator.
        operands: Where its operands are.
        flat: The weights as (output channels, products).
        sums: Those of a kernel of int8 that multiplies codes as they are; None of others.
    """
    source, channels = site.input(operands.source), len(flat)
    code_range = (zero_point(site.output()), *fused_range(site, site.output()))
    if sums is not None:
        site.require(sums.reach.fits(sums.offsets), "its sums may exceed 32 bits")
        return layer_scales(sums.multipliers, sums.offsets, sums.reach, *code_range)
    multipliers = _multipliers(site, operands, channels)
    if source.dtype is DType.INT16:
        bias = bias_of(site, operands.bias, channels, operands.bias_types)
        return int16_scales(site, multipliers, bias, flat, narrow=operands == CONV and has_int32_sums(site, 2))
    bias, zero, (low, high) = bias_of(site, operands.bias, channels), zero_point(source), RANGES[DType.INT8]
    reach = reach_of_weights(flat, low - zero, high - zero)
    site.require(reach.fits(bias), "its sums may exceed 32 bits")
    return layer_scales(multipliers, bias, reach, *code_range)


def int16_scales(site: Site, multipliers: list[Multiplier], offsets: Array, flat: Array, *, narrow: bool) -> Scales:
    """Return the scales of a layer with int16 activations; narrow: TFLM's kernel sums in 32 bits."""
    reach = reach_of_weights(flat, *RANGES[DType.INT16])
    if narrow:
        site.require(reach.fits(offsets), "its sums may exceed 32 bits")
        return double_rounding_scales(multipliers, offsets)
    scales = wide_scales(multipliers, offsets, reach)
    if scales is None:
        site.refuse("its sums or multipliers are too large")
    return scales


def window_fields(window: Window) -> dict[str, FieldValue]:
    """Return the fields that the descriptors of all kernels with windows have."""
    names = "output_width", "taps_y", "taps_x", "stride_x", "pad_x"
    return {"input_width": window.width, **{name: getattr(window, name) for name in names}}


def _step(
    site: Site,
    kernel: str,
    window: Window,
    overlaps: tuple[StepOverlap, ...],
    source: RowInput,
    **values: FieldValue,
) -> Step:
    """Return the step of a convolution; the values are the fields that only its kernel has."""
    output, element = site.output(), site.output().dtype.bits // 8
    low, high = fused_range(site, output)
    if element == 1:
        values["zero_point"] = zero_point(output)
    return Step(
        operator=site.operator.index,
        kernel=kernel,
        op=describe(
            kernel,
            low=low,
            high=high,
            **window_fields(window),
            **values,
        ),
        inputs=(source,),
        output=site.operator.outputs[0],
        row_bytes=window.output_width * window.output_channels * element,
        rows=window.output_height,
        batches=window.batches,
        overlaps=overlaps,
    )


def _suffix(site: Site) -> str:
    return "s8" if site.output().dtype is DType.INT8 else "s16"


def _conv_2d(site: Site) -> Iterator[Step]:
    filters = weights_of(site, CONV)
    if site.output().dtype is DType.INT8 and _is_best_depthwise(site.input(CONV.source).shape[3], filters):
        yield depthwise_step(site, filters.transpose(3, 1, 2, 0))
    else:
        yield _convolution(site, filters)


def _is_best_depthwise(inputs: int, filters: Array) -> bool:
    """Return whether groups of one input channel have fewer instructions with the kernels of depthwise convolutions.

    These do not copy the taps of each group, but are slow with the outputs of an input that are not in fours.
    """
    outputs, _, _, depth = filters.shape
    multiplier, rest = divmod(outputs, inputs)
    return bool(depth == 1 < inputs and rest == 0 and (multiplier <= PLANES or multiplier % PLANES == 0))


def _convolution(site: Site, filters: Array) -> Step:
    """Return the step of a convolution with weights of shape (output channels, taps y, taps x, input channels)."""
    channels, taps_y, taps_x, depth = filters.shape
    window = window_of(site, taps_y, taps_x)
    groups = window.channels // depth
    matching = groups * depth == window.channels and channels % groups == 0
    site.require(matching, f"it cannot multiply {window.channels} channels and weights of shape {filters.shape}")
    window, filters = without_taps_outside(window, filters)
    flat = filters.reshape(channels, -1)
    sums = folded_sums(site, flat) if site.output().dtype is DType.INT8 else None
    scales = _channel_scales(site, CONV, flat, sums)
    return convolution_step(site, window, filters, scales, sums)


def convolution_step(site: Site, rows: Window, filters: Array, scales: Scales, sums: FoldedSums | None) -> Step:
    """Return the step of a convolution without taps that are never in the input.

    Args:
        site: The operator.
        rows: Its window.
        filters: The weights, of shape (output channels, taps y, taps x, input channels of a group).
        scales: Those of the kernels for all shapes.
        sums: What the other kernels of int8 scale.
    """
    channels, _, _, depth = filters.shape
    window, groups = in_one_row(site, rows), rows.channels // depth
    flat = filters.reshape(channels, -1)
    element, is_narrow_s8 = site.output().dtype.bits // 8, _is_narrow_s8(site, window, groups)
    is_plain = site.plain or (channels == groups and _is_best_plain(window, groups, dsp=site.dsp))
    stream = None
    if sums is not None and is_narrow_s8 and not is_plain:
        shift, numbers = _tiled_scales(site, scales, sums)
        pixels = _pixels_at_once(site, window, flat.shape[1], channels // groups, shift)
        if (
            site.lean
            or pixels == 2
            or is_best_by_pixels(site, window if groups == 1 else rows, groups, channels // groups)
        ):
            stream = paired_weights(flat, numbers, groups)
    is_tiled = is_narrow_s8 and not site.lean and not is_plain and stream is None
    if is_tiled and groups > 1:
        # A group of channels is written in all rows of a band before the next one is read.
        window = rows
        overlaps = [StepOverlap(0, banded_distance(window, _conv_band(site, window)))]
    else:
        overlaps = conv_overlaps(site, window)
    band = _conv_band(site, window) if is_tiled or stream is not None else 1
    kernel, scratch = f"edgetool_conv2d_{_suffix(site)}", 0
    special: dict[str, FieldValue]
    if stream is not None:
        kernel, scratch = LEAN_CONV, _lean_scratch(window, depth, pixels)
    elif is_tiled:
        # The taps of four pixels as int16.
        kernel, scratch = "edgetool_conv2d_tiled_s8", 8 * _up(flat.shape[1], TAPS)
        # The taps of a row follow each other in the input, or only those of a pixel.
        is_apart = groups > 1 or window.dilation_x > 1
        runs = filters.reshape(channels, window.taps_y * window.taps_x if is_apart else window.taps_y, -1)
        split = (np.split(item, groups) for item in (runs, numbers))
        stream = b"".join(tiled_weights(*item) for item in zip(*split, strict=True))
    if stream is not None:
        special = {
            "weights": Constant("uint32_t", stream, "weights and scales"),
            "zero_pixel": _zero_words(site, ASIDE),
            "shift": shift,
            "groups": groups,
            "depth": depth,
            "filters": channels // groups,
        }
        if kernel == LEAN_CONV:
            special["pixels"] = pixels
    else:
        weights = Constant("int8_t", flat.tobytes(), "weights")
        if element == 1:
            # In words, which are read as such if they can be.
            weights = Constant("uint32_t", flat.tobytes().ljust(_up(flat.size, 4), b"\0"), "weights")
        special = {"groups": groups, "weights": weights, "scales": scales.constant, "shift": scales.shift}
        special |= {"input_channels": window.channels, "output_channels": channels}
        if element == 1:
            special["zero_pixel"] = zero_pixel(site.input(0))
    return replace(
        _step(
            site,
            kernel,
            window,
            tuple(overlaps),
            window_rows(site.index(0), window, element),
            dilation_x=window.dilation_x,
            **special,
        ),
        scratch_bytes=scratch,
        # Its columns, without which it computes one pixel at once.
        can_be_bare=kernel == LEAN_CONV and pixels == 2 and scratch == _column_bytes(window, depth),
        band=min(band, window.output_height),
    )


def in_one_row(site: Site, window: Window) -> Window:
    """Return a window with all pixels in one row, if the planner does not need its rows and a kernel can have it."""
    row = window if site.row_wise else window.flattened()
    # The kernels of int16 have wider images, but no longer steps.
    widest = max(row.width, row.output_width) if site.output().dtype is DType.INT8 else row.stride_x
    return row if widest <= MAX_WIDTH else window


def conv_overlaps(site: Site, window: Window) -> list[StepOverlap]:
    """Return how the output of a kernel that computes pixel by pixel may share memory with its input."""
    element = site.output().dtype.bits // 8
    overlaps = [StepOverlap(0, conv_distance(window, element_bytes=element))]
    if window.is_pointwise and not site.row_wise and window.batches * window.height == 1:
        distance = conv_distance(window, descending=True, element_bytes=element)
        overlaps.append(StepOverlap(0, distance, descending=True))
    return overlaps


def _conv_band(site: Site, window: Window) -> int:
    """Return the number of rows per call with which the kernel's groups of pixels take the fewest instructions."""
    most = 1 if site.row_wise else min(PIXELS, window.output_height, MAX_ROW_POINTERS // window.taps_y)

    def cost(rows: int) -> int:
        groups, rest = divmod(rows * window.output_width, PIXELS)
        return groups * REST_COSTS[-1] + REST_COSTS[rest]

    def total(band: int) -> int:
        calls, rows = divmod(window.output_height, band)
        return calls * cost(band) + cost(rows)

    return min(range(1, most + 1), key=total, default=1)


def is_best_by_pixels(site: Site, window: Window, groups: int, filters: int) -> bool:
    """Return whether edgetool_conv2d_lean_s8 has fewer instructions than edgetool_conv2d_tiled_s8.

    The latter computes four pixels at once, and those of incomplete groups alone or more often. It copies all taps,
    which only many channels are worth. The former computes eight channels at once, and others slowly.
    """
    pixels = window.output_width * min(_conv_band(site, window), window.output_height)
    slow = filters % (BLOCK * CHANNELS)
    if pixels == 1 or (pixels <= ALONE and (groups == 1 or slow <= FEW_SLOW or 2 * slow <= filters)):
        return True
    are_blocks = slow * MOST_SLOW <= filters
    if pixels in FEW_PIXELS and (are_blocks or (groups == 1 and filters <= CHANNELS)):
        return True
    if not (is_inside(window) and groups == window.dilation_x == window.dilation_y == 1):
        return False
    taps = window.taps_y * window.taps_x * window.channels
    if window.taps_y > 1:
        return filters == 1 and taps >= MANY_TAPS
    return filters <= (MORE_CHANNELS if taps <= FEW_TAPS and not site.dsp else FEW_CHANNELS[site.dsp])


def _is_best_plain(window: Window, groups: int, *, dsp: bool) -> bool:
    """Return whether edgetool_conv2d_s8 has the fewest instructions for groups of a single output channel.

    The other kernels copy all taps, and compute two channels at once.
    """
    depth = window.channels // groups
    if groups > 1:
        return not dsp and depth >= LEAST_DEPTH
    is_copied = window.taps_y > 1 or not is_inside(window)
    # With DSP, whole words of codes are what the other kernels are fast with.
    return depth >= LEAST_DEPTH and window.taps_x * depth >= LEAST_RUN and is_copied and (not dsp or depth % 4 != 0)


def is_inside(window: Window) -> bool:
    """Return whether all taps of all pixels are inside the input, if they are not dilated."""
    down = (window.output_height - 1) * window.stride_y + window.taps_y <= window.height and window.pad_y == 0
    return down and (window.output_width - 1) * window.stride_x + window.taps_x <= window.width and window.pad_x == 0


def _is_narrow_s8(site: Site, window: Window, groups: int) -> bool:
    """Return whether a CONV_2D is one that the fast kernels can describe."""
    return site.output().dtype is DType.INT8 and groups <= MAX_GROUPS and is_narrow(window)


def is_narrow(window: Window) -> bool:
    """Return whether a tuned kernel can have the widths of a window."""
    return max(window.width, window.output_width) <= MAX_WIDTH


def _tiled_scales(site: Site, scales: Scales, sums: FoldedSums) -> tuple[int, Array]:
    """Return how edgetool_conv2d_tiled_s8 scales sums, and the numbers that each channel has for it: see its header."""
    products = product_scales(scales, sums.reach, *fused_range(site, site.output()), shift=TILED_SHIFT)
    if products is None:
        products = _rounding_scales(sums)
    multiplier, low, high = np.frombuffer(products.constant.data, "<i4").reshape(-1, 3).T.astype(np.int64)
    numbers = [low, multiplier, high]
    if products.shift == SIGN:
        numbers[2:] = [(1 << high - 1) + (zero_point(site.output()) << high), high]
    return products.shift, np.stack(numbers, axis=1)


def _rounding_scales(sums: FoldedSums) -> Scales:
    """Return the scales of a layer without lines: those of the form "sign" if it is exact, else double roundings."""
    signs = None
    if max(item.right for item in sums.multipliers) <= MAX_SIGN_SHIFT:
        signs = sign_scales(sums.multipliers, sums.offsets, sums.reach)
    return signs or double_rounding_scales(sums.multipliers, sums.offsets)


def tiled_weights(rows: Array, numbers: Array) -> bytes:
    """Return weights (channels, rows, taps) and numbers of each channel as edgetool_conv2d_tiled_s8 reads them."""
    whole = rows.shape[2] // TAPS * TAPS
    flat = np.concatenate([part.reshape(len(rows), -1) for part in (rows[:, :, :whole], rows[:, :, whole:])], axis=1)
    channels, taps = (_up(count, unit) for count, unit in zip(flat.shape, (CHANNELS, TAPS), strict=True))
    padded = np.zeros((channels, taps), np.int8)
    padded[: flat.shape[0], : flat.shape[1]] = flat
    # Taps are counted as (tap / 4, tap / 2 % 2, tap % 2).
    words = padded.reshape(-1, CHANNELS, taps // TAPS, 2, 2).transpose(0, 2, 4, 3, 1).reshape(channels // CHANNELS, -1)
    words = np.ascontiguousarray(words).view("<u4")
    table = np.zeros((channels, numbers.shape[1]), np.int64)
    table[: len(numbers)] = numbers
    table = _low_words(table, channels)
    starts, ends = table[:, 0].reshape(-1, CHANNELS), table[:, 1:].reshape(len(words), -1)
    return np.concatenate([starts, words, ends], axis=1).tobytes()


def paired_weights(flat: Array, numbers: Array, groups: int) -> bytes | None:
    """Return weights (channels, taps) and numbers of each channel as edgetool_conv2d_lean_s8 reads them.

    None if a pair of weights is no number of 16 bits, or if a second sum of a pair may have more than 24 bits.
    """
    pairs = list(zip(np.split(flat, groups), np.split(numbers, groups), strict=True))
    if not all(fits_pairs(weights, table[:, 0]) for weights, table in pairs):
        return None
    return b"".join(_blocks(*item) for item in pairs)


def fits_pairs(flat: Array, starts: Array) -> bool:
    """Return whether edgetool_conv2d_lean_s8 can have these weights (channels, taps) of a group, and starts of sums.

    A pair of weights is a number of 16 bits, and the second sum of a pair is one of 24 bits: see its header.
    """
    reach = reach_of_weights(flat)
    low, high = np.asarray(reach.low)[1::2] + starts[1::2], np.asarray(reach.high)[1::2] + starts[1::2]
    first, second = flat[0::2][: len(low)], flat[1::2]
    return bool(((first >= 0) | (second > -128)).all() and (low >= -(2**23)).all() and (high < 2**23).all())


def _pixels_at_once(site: Site, window: Window, taps: int, filters: int, shift: int) -> int:
    """Return how many pixels edgetool_conv2d_lean_s8 computes at once, if it computes the layer.

    For two, it needs scratch: half as much as edgetool_conv2d_tiled_s8.
    """
    can_be_two = site.dsp and window.output_width > 1 and filters % (BLOCK * CHANNELS) == 0 and shift <= SIGN
    is_long = taps >= TAPS_OF_TWO and taps * filters >= PRODUCTS_OF_TWO
    return 2 if can_be_two and is_long and site.row_wise and not site.lean else 1


def _lean_scratch(window: Window, depth: int, pixels: int) -> int:
    """Return the bytes of scratch of edgetool_conv2d_lean_s8: addresses of taps, or their codes, and columns."""
    taps = window.taps_y * window.taps_x
    words = -(-taps * depth // TAPS)
    columns = _column_bytes(window, depth) if pixels == 2 else 0
    if depth % TAPS == 0:
        return columns + (8 * taps + 4 if taps > PLACES else 0)
    return columns + (words * TAPS if words > PLACES else 0)


def _column_bytes(window: Window, depth: int) -> int:
    """Return the bytes of the taps of two pixels as int16."""
    return 16 * -(-window.taps_y * window.taps_x * depth // TAPS)


def _blocks(flat: Array, numbers: Array) -> bytes:
    """Return weights (channels, taps) and numbers of a group in blocks of channels."""
    channels, taps = (_up(count, unit) for count, unit in zip(flat.shape, (CHANNELS, TAPS), strict=True))
    padded = np.zeros((channels, taps), "<i2")
    padded[: flat.shape[0], : flat.shape[1]] = flat
    table = np.zeros((channels, numbers.shape[1]), np.int64)
    table[: len(numbers)] = numbers
    both = padded[0::2] + 256 * padded[1::2]
    # Taps are counted as (tap / 4, tap / 2 % 2, tap % 2).
    words = np.ascontiguousarray(both.reshape(-1, taps // TAPS, 2, 2).transpose(0, 1, 3, 2)).view("<u4")
    words = words[..., 0]
    starts, ends = table[:, 0].reshape(-1, CHANNELS), table[:, 1:].reshape(len(words), -1)
    starts = starts @ np.array(((1, 1), (0, 256)))
    whole = len(flat) // (BLOCK * CHANNELS) * BLOCK
    # Those of even taps of two pairs, then those of odd ones; and those of single pairs.
    of_blocks = words[:whole].reshape(-1, BLOCK // 2, 2, taps // TAPS, 2).transpose(0, 3, 1, 4, 2)
    parts = (starts[:whole], of_blocks, ends[:whole]), (starts[whole:], words[whole:], ends[whole:])
    tables = (
        (_low_words(first, len(middle)), middle.reshape(len(middle), -1), _low_words(last, len(middle)))
        for first, middle, last in parts
        if len(middle)
    )
    return b"".join(np.concatenate(table, axis=1).tobytes() for table in tables)


def _low_words(values: Array, rows: int) -> Array:
    """Return the lower 32 bits of numbers, as rows."""
    return (values & 0xFFFFFFFF).astype("<u4").reshape(rows, -1)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _depthwise_conv_2d(site: Site) -> Iterator[Step]:
    filters, source = weights_of(site, DEPTHWISE), site.input(DEPTHWISE.source)
    one, _, _, channels = filters.shape
    matching = one == 1 and channels == source.shape[3] * site.option("depth_multiplier", 0)
    site.require(matching, f"it cannot multiply {source.shape[3]} channels and weights of shape {filters.shape}")
    yield depthwise_step(site, filters)


def depthwise_step(site: Site, filters: Array) -> Step:
    """Return the step of a convolution of each channel by itself, with weights (1, taps y, taps x, output channels)."""
    original, (_, taps_y, taps_x, channels) = filters, filters.shape
    window = window_of(site, taps_y, taps_x)
    multiplier = channels // window.channels
    element = site.output().dtype.bits // 8
    window, filters = without_taps_outside(window, filters)
    # All outputs that read the only channel are those of a convolution, which computes at least two at once.
    is_alone = element == 1 and window.channels == 1 and (multiplier > 1 or site.dsp)
    is_few = element == 1 and not site.plain and _is_best_with_few(window, dsp=site.dsp, is_alone=is_alone)
    if is_alone and multiplier > 1 and not is_few:
        return _convolution(site, original.transpose(3, 1, 2, 0))
    flat = filters.reshape(-1, channels).T
    sums = folded_sums(site, flat) if element == 1 else None
    scales = _channel_scales(site, DEPTHWISE, flat, sums)
    source = window_rows(site.index(0), window, element)
    if sums is None:
        return _step(
            site,
            "edgetool_depthwise_s16",
            window,
            (StepOverlap(0, channelwise_distance(window, element_bytes=element)),),
            source,
            weights=Constant("int8_t", filters.tobytes(), "weights"),
            scales=scales.constant,
            shift=scales.shift,
            input_channels=window.channels,
            depth_multiplier=multiplier,
            dilation_x=window.dilation_x,
        )
    tuned = _tuned_depthwise(site, window, filters, scales, sums.reach) if multiplier == 1 and not site.plain else None
    if tuned is None and is_alone and not is_few:
        tuned = _convolution(site, original.transpose(3, 1, 2, 0))
    if tuned is not None:
        return tuned
    scales = product_scales(scales, sums.reach, *fused_range(site, site.output())) or _rounding_scales(sums)
    if is_few:
        return _few_depthwise(site, window, source, flat, scales)
    step = _step(
        site,
        "edgetool_depthwise_s8",
        window,
        (StepOverlap(0, channelwise_distance(window)),),
        source,
        weights=Constant("uint32_t", four_channels(flat), "weights"),
        zero_pixel=_zero_words(site),
        scales=scales.constant,
        shift=scales.shift,
        input_channels=window.channels,
        depth_multiplier=multiplier,
        dilation_x=window.dilation_x,
    )
    # The addresses of all taps.
    scratch = 8 * window.taps_y * window.taps_x + 4
    return replace(step, scratch_bytes=scratch, band=few_rows(window, row_wise=site.row_wise))


def _is_best_with_few(window: Window, *, dsp: bool, is_alone: bool) -> bool:
    """Return whether edgetool_depthwise_few_s8 has fewer instructions than other kernels, among layers of few channels.

    Networks of many channels have other layers with edgetool_depthwise_s8, so that another kernel would only be more
    code.
    """
    few, other = depthwise_instructions(window, dsp=dsp, is_alone=is_alone)
    return window.channels <= FEW_INPUTS and few < other


def depthwise_instructions(window: Window, *, dsp: bool, is_alone: bool) -> tuple[float, float]:
    """Return roughly the instructions of edgetool_depthwise_few_s8, and those of edgetool_depthwise_s8.

    The former reads only taps inside the input, but multiplies them one by one. is_alone: compare with the kernels of a
    convolution instead, which copy all taps of a pixel and multiply them for two outputs at once.
    """
    down = _inside(window.output_height, window.height, window.taps_y, window.stride_y, window.dilation_y, window.pad_y)
    across = _inside(window.output_width, window.width, window.taps_x, window.stride_x, window.dilation_x, window.pad_x)
    pixels, taps = window.output_height * window.output_width, window.taps_y * window.taps_x
    rows, products = int(down.sum()) * window.output_width, int(down.sum()) * int(across.sum())
    outside = pixels - int(down.all(axis=0).sum()) * int(across.all(axis=0).sum())
    outputs, multiplier = window.output_channels, window.output_channels // window.channels
    fours = outputs // PLANES if multiplier == 1 or multiplier % PLANES == 0 else 0
    ones = outputs - PLANES * fours
    # Instructions as they were counted on Cortex-M4 and M3; fours of the same input have one code for each tap.
    four, one = (66, 38) if dsp else (95, 44)
    inside = 15 * rows + 20 * products if multiplier == 1 else 10 * rows + 15 * products
    inside_of_one = 5 * rows + (5 if window.taps_x <= 3 else 6) * products
    few = pixels * (45 + fours * four + ones * one) + fours * inside + ones * inside_of_one
    if is_alone:
        pairs = -(-outputs // CHANNELS) * ((14 + 2.2 * taps) if dsp else (30 + 4.4 * taps))
        return few, 300 + pixels * (42 + 29 * window.taps_y + pairs) + taps * (15 * outside + 3.4 * pixels)
    each = 100 + fours * (four - 10 + 15 * taps) + ones * (one + 6.4 * taps)
    return few, pixels * each + 10 * taps * outside


def _few_depthwise(site: Site, window: Window, source: RowInput, flat: Array, scales: Scales) -> Step:
    """Return the step of a layer of few channels, whose weights are (output channels, taps)."""
    multiplier = window.output_channels // window.channels
    table = np.frombuffer(scales.constant.data, "<u4").reshape(len(flat), -1).astype(np.int64)
    # Sums of codes without the zero point begin with what the sums of codes lack.
    table[:, 1] += zero_point(site.input(0)) * flat.sum(axis=1, dtype=np.int64)
    starts = (table & 0xFFFFFFFF).astype("<u4").tobytes()
    fours = len(flat) // PLANES * PLANES if multiplier == 1 or multiplier % PLANES == 0 else 0
    weights = four_channels(flat[:fours]) + flat[fours:].tobytes()
    step = _step(
        site,
        "edgetool_depthwise_few_s8",
        window,
        (StepOverlap(0, channelwise_distance(window)),),
        source,
        weights=Constant("int8_t", weights, "weights"),
        scales=replace(scales.constant, data=starts),
        shift=scales.shift,
        input_channels=window.channels,
        depth_multiplier=multiplier,
        dilation_x=window.dilation_x,
        input_zero_point=zero_point(site.input(0)),
    )
    return replace(step, band=few_rows(window, row_wise=site.row_wise))


def few_rows(window: Window, *, row_wise: bool) -> int:
    """Return the rows per call of a kernel that computes them one after the other: calls have instructions, too."""
    return 1 if row_wise else max(1, min(window.output_height, FEW_ROW_POINTERS // window.taps_y))


def _tuned_depthwise(site: Site, window: Window, filters: Array, scales: Scales, reach: Reach) -> Step | None:
    """Return the step of an int8 layer without depth multiplier that has a kernel of its own, None of others."""
    source, limits = window_rows(site.index(0), window), fused_range(site, site.output())
    tuned = site.dsp and not site.lean
    if _is_3x3(window) and (site.dsp or window.channels % PLANES == 0):
        # With DSP, planes are for several rows.
        tiling = DepthwiseTiling.of(window, row_wise=site.row_wise, is_3x3=True) if tuned else None
        products = product_scales(scales, reach, *limits, shift=0)
        if products is not None and tiling is not None and tiling.band > 1:
            return _tiled_depthwise(site, window, source, filters[0], products, tiling)
        if products is not None:
            return _depthwise_3x3(site, window, source, filters[0], products)
    # Without DSP, other layers have fewer instructions pixel by pixel.
    tiling = DepthwiseTiling.of(window, row_wise=site.row_wise, is_3x3=False) if tuned else None
    products = product_scales(scales, reach, *limits, shift=2) if tiling is not None else None
    if tiling is None or products is None:
        return None
    return _tiled_depthwise(site, window, source, filters[0], products, tiling)


def without_taps_outside(window: Window, filters: Array) -> tuple[Window, Array]:
    """Return a window, and weights of shape (any, taps y, taps x, any), without taps that are never in the input."""
    first_y, end_y = _taps_inside(
        window.output_height, window.height, window.taps_y, window.stride_y, window.dilation_y, window.pad_y
    )
    first_x, end_x = _taps_inside(
        window.output_width, window.width, window.taps_x, window.stride_x, window.dilation_x, window.pad_x
    )
    smaller = replace(
        window,
        taps_y=end_y - first_y,
        taps_x=end_x - first_x,
        dilation_y=window.dilation_y if end_y - first_y > 1 else 1,
        dilation_x=window.dilation_x if end_x - first_x > 1 else 1,
        pad_y=window.pad_y - first_y * window.dilation_y,
        pad_x=window.pad_x - first_x * window.dilation_x,
    )
    return smaller, filters[:, first_y:end_y, first_x:end_x]


def _taps_inside(outputs: int, side: int, taps: int, stride: int, dilation: int, pad: int) -> tuple[int, int]:
    """Return the first tap along one axis that is in the input for an output, and that behind the last one."""
    is_inside = _inside(outputs, side, taps, stride, dilation, pad)
    inside = np.flatnonzero(is_inside.any(axis=1)).tolist()
    # Kernels have no negative padding.
    return (min(inside[0], pad // dilation), inside[-1] + 1) if inside else (0, taps)


def _inside(outputs: int, side: int, taps: int, stride: int, dilation: int, pad: int) -> Array:
    """Return whether taps are in the input along one axis, as (taps, outputs)."""
    places = np.arange(taps)[:, None] * dilation + np.arange(outputs) * stride - pad
    return (places >= 0) & (places < side)


def _zero_words(site: Site, least: int = 4) -> Constant:
    """Return a pixel outside the input, repeated to whole words of at least `least` bytes."""
    outside = zero_pixel(site.input(0)).data
    return Constant("uint32_t", outside[:1] * _up(max(least, len(outside)), 4), "a pixel outside the input")


def _is_3x3(window: Window) -> bool:
    """Return whether edgetool_depthwise_3x3_s8 can have a window: see its header."""
    sides = (
        (window.height, window.output_height, window.stride_y, window.pad_y),
        (window.width, window.output_width, window.stride_x, window.pad_x),
    )
    taps = (window.taps_y, window.taps_x, window.dilation_y, window.dilation_x)
    are_near = all(pad <= 1 and side >= 2 and (count - 1) * step - pad + 2 <= side for side, count, step, pad in sides)
    return taps == (3, 3, 1, 1) and window.stride_x <= 2 and are_near and is_narrow(window)


def _depthwise_3x3(site: Site, window: Window, source: RowInput, filters: Array, scales: Scales) -> Step:
    """Return the step of a layer with windows of 3 x 3 and the kernel that computes single rows."""
    kernel = "edgetool_depthwise_3x3_s8"
    low, high = fused_range(site, site.output())
    return Step(
        operator=site.operator.index,
        kernel=kernel,
        op=describe(
            kernel,
            weights=Constant("uint32_t", channels_of_3x3(filters, scales), "weights and scales"),
            zero_pixel=_zero_words(site),
            input_channels=window.channels,
            low=low,
            high=high,
            **window_fields(window),
        ),
        inputs=(source,),
        output=site.operator.outputs[0],
        row_bytes=window.output_width * window.output_channels,
        rows=window.output_height,
        batches=window.batches,
        band=few_rows(window, row_wise=site.row_wise),
        overlaps=(StepOverlap(0, channelwise_distance(window)),),
    )


def _tiled_depthwise(
    site: Site, window: Window, source: RowInput, filters: Array, scales: Scales, tiling: DepthwiseTiling
) -> Step:
    """Return the step of a layer with planes."""
    kernel = "edgetool_depthwise_tiled_s8"
    low, high = fused_range(site, site.output())
    weights = weights_of_3x3(filters) if tiling.is_3x3 else weights_in_pairs(filters, tiling.pairs)
    return Step(
        operator=site.operator.index,
        kernel=kernel,
        op=describe(
            kernel,
            weights=Constant("uint32_t", weights, "weights"),
            scales=scales.constant,
            zero_pixel=_zero_words(site),
            tile=tiling.tile,
            groups=tiling.groups,
            input_channels=window.channels,
            words=tiling.words(window),
            pairs=tiling.pairs,
            advance=tiling.advance,
            is_3x3=int(tiling.is_3x3),
            low=low,
            high=high,
            **window_fields(window),
        ),
        inputs=(source,),
        output=site.operator.outputs[0],
        row_bytes=window.output_width * window.output_channels,
        rows=window.output_height,
        batches=window.batches,
        scratch_bytes=tiling.scratch_bytes(window),
        band=tiling.band,
        overlaps=(StepOverlap(0, banded_distance(window, tiling.band)),),
    )


def in_smaller_section(step: Step) -> Step | None:
    """Return a step with planes of half as many rows, which are a call, or columns if there are no fewer rows.

    None if it cannot, and of other steps. It needs less scratch, and with fewer rows per call, its output may overlap
    its input further.
    """
    fields = {name: value for name, value in step.op.values if isinstance(value, int)}
    rows = 2 if fields.get("advance") == 1 else 1  # of a group
    band = _up(-(-step.band // 2), rows)
    if step.kernel != "edgetool_depthwise_tiled_s8":
        return None
    tile = fields["tile"]
    if not 1 < band < step.band:
        band, tile = step.band, _up(-(-tile // 2), 2)
        if not LEAST_TILE <= tile < fields["tile"]:
            return None
    (item,) = step.inputs
    window = Window(
        batches=step.batches,
        height=item.rows,
        width=fields["input_width"],
        channels=fields["input_channels"],
        output_height=step.rows,
        output_width=fields["output_width"],
        output_channels=fields["input_channels"],
        taps_y=item.taps,
        taps_x=fields["taps_x"],
        stride_y=item.stride,
        stride_x=fields["stride_x"],
        dilation_y=item.dilation,
        dilation_x=1,
        pad_y=item.pad,
        pad_x=fields["pad_x"],
    )
    groups = -(-band // rows)
    is_3x3, advance, pairs = (fields[name] for name in ("is_3x3", "advance", "pairs"))
    tiling = DepthwiseTiling(bool(is_3x3), advance, pairs, groups, tile, band)
    smaller = {"groups": groups, "tile": tile}
    values = tuple((name, smaller.get(name, value)) for name, value in step.op.values)
    return replace(
        step,
        op=replace(step.op, values=values),
        scratch_bytes=tiling.scratch_bytes(window),
        band=band,
        overlaps=(StepOverlap(0, banded_distance(window, band)),),
    )


@dataclass(frozen=True, slots=True)
class DepthwiseTiling:
    """How edgetool_depthwise_tiled_s8 computes a layer: see its header. band: the number of output rows per call."""

    is_3x3: bool
    advance: int
    pairs: int
    groups: int
    tile: int
    band: int

    @classmethod
    def of(cls, window: Window, *, row_wise: bool, is_3x3: bool) -> DepthwiseTiling | None:
        """Return as many rows in a band as planes, pointers and the cost of an overlap allow.

        None if the layer has another kernel, or too few products. is_3x3: whether it shall have weights of 3 x 3 taps.
        """
        taps_y, width = window.taps_y, window.output_width
        advance = window.stride_y if window.dilation_y == 1 and window.stride_y <= min(2, taps_y) else 0
        rows = 2 if advance == 1 else 1
        pairs = max(2, taps_y // 2 + 1 if advance == 1 else -(-taps_y // 2))
        most = min(window.output_height, MAX_ROW_POINTERS // taps_y, BAND_BYTES // (width * window.output_channels))
        most = 1 if row_wise or not advance else max(1, most)
        has_weights = (taps_y, window.taps_x, advance, window.stride_x) == (3, 3, 1, 1)
        if not is_3x3:
            has_weights = pairs <= MAX_PAIRS and width > 1 and taps_y * window.taps_x >= LEAST_TAPS
        products, least = taps_y * window.taps_x * width * most, LEAST_PRODUCTS_3X3 if is_3x3 else LEAST_PRODUCTS
        if window.dilation_x != 1 or products < least or not has_weights or not is_narrow(window):
            return None
        # Bands of similar size, in whole groups.
        most = min(most, (COLUMN - pairs + 1) * rows)
        count = -(-window.output_height // most)
        band = min(_up(-(-window.output_height // count), rows), most)
        groups = -(-band // rows)
        # A column of outputs has some of the planes and, unless taps are 3 x 3, of the list.
        column = 4 * PLANES * COLUMN
        bytes_each = column * window.stride_x + (0 if is_3x3 else 8 * groups * rows)
        tile = (PLANE_BYTES - column * (window.taps_x - window.stride_x)) // bytes_each
        if tile < min(width, TILE_UNIT):
            return None
        return cls(is_3x3, advance, pairs, groups, width if tile >= width else tile // TILE_UNIT * TILE_UNIT, band)

    def words(self, window: Window) -> int:
        """Return the words of weights of a channel."""
        return 3 if self.is_3x3 else -(-window.taps_x * self.pairs // 2)

    def scratch_bytes(self, window: Window) -> int:
        """Return the bytes of the planes or, without DSP, of the table of addresses, whichever is larger."""
        columns, words = (self.tile - 1) * window.stride_x + window.taps_x, self.words(window)
        planes = SECTION_WORDS + 4 * (self.groups + self.pairs) + PLANES * columns * COLUMN
        if self.is_3x3:
            return 4 * planes
        outputs = self.groups * (2 if self.advance == 1 else 1) * self.tile
        return 4 * max(planes + 4 * words + 2 * outputs + 16, 8 * words + 1)


def channels_of_3x3(filters: Array, scales: Scales) -> bytes:
    """Return weights of shape (3, 3, channels) and scales as edgetool_depthwise_3x3_s8 reads them: see its header."""
    places = ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (1, 2), (2, 1), (2, 2))
    codes = np.stack([filters[place] for place in places], axis=1).astype(np.int8)
    channels = len(codes)
    last = (codes[:, 8].astype(np.int64) & 0xFFFF) + (channels << 16)
    words = np.column_stack([np.ascontiguousarray(codes[:, :8]).view("<u4"), last.astype("<u4")])
    multiplier, low, high = np.frombuffer(scales.constant.data, "<u4").reshape(channels, 3).T
    return np.column_stack([words, low, multiplier, high]).astype("<u4").tobytes()


def weights_of_3x3(filters: Array) -> bytes:
    """Return weights of shape (3, 3, channels) as edgetool_depthwise_tiled_s8 reads them: see its header."""
    words = _whole_fours(filters)[[0, 1, 1, 2]]
    return words.reshape(4, 3, -1, PLANES).transpose(2, 1, 3, 0).tobytes()


def weights_in_pairs(filters: Array, pairs: int) -> bytes:
    """Return weights of shape (taps y, taps x, channels) as edgetool_depthwise_tiled_s8 reads them: see its header."""
    filters = _whole_fours(filters)
    taps_y, taps_x, channels = filters.shape
    rows = np.zeros((2 * pairs, taps_x, channels), np.int8)
    rows[:taps_y] = filters
    # The two taps of each pair, by column and pair.
    entries = rows.reshape(pairs, 2, taps_x, channels).transpose(2, 0, 1, 3).reshape(-1, 2, channels)
    padded = np.zeros((_up(len(entries), 2), 2, channels), np.int8)
    padded[: len(entries)] = entries
    # Entries are counted as (word, first or second one of a word).
    words = padded.reshape(-1, 2, 2, channels // PLANES, PLANES)
    return words.transpose(3, 0, 4, 2, 1).tobytes()


def _whole_fours(filters: Array) -> Array:
    """Return weights with a multiple of four channels."""
    return np.pad(filters, [(0, 0), (0, 0), (0, -filters.shape[2] % PLANES)])


def four_channels(flat: Array) -> bytes:
    """Return weights of shape (channels, taps) as edgetool_depthwise_s8 reads them: see its header."""
    padded = np.zeros((_up(len(flat), 4), flat.shape[1]), np.int8)
    padded[: len(flat)] = flat
    return padded.reshape(-1, 4, flat.shape[1]).transpose(0, 2, 1).tobytes()


def _transpose_conv(site: Site) -> Iterator[Step]:
    filters = weights_of(site, TRANSPOSE)
    channels, taps_y, taps_x, depth = filters.shape
    source, output = site.input(TRANSPOSE.source), site.output()
    site.require(depth == source.shape[3], f"it cannot multiply the shapes {source.shape} and {filters.shape}")
    scales = _channel_scales(site, TRANSPOSE, filters.reshape(channels, -1), None)
    stride_y, stride_x = site.option("stride_h", 1), site.option("stride_w", 1)
    same = site.option("padding") == "SAME"
    window = Window(
        batches=output.shape[0],
        height=source.shape[1],
        width=source.shape[2],
        channels=depth,
        output_height=output.shape[1],
        output_width=output.shape[2],
        output_channels=channels,
        taps_y=taps_y,
        taps_x=taps_x,
        stride_y=stride_y,
        stride_x=stride_x,
        pad_y=_same_padding(output.shape[1], stride_y, 1, taps_y) if same else 0,
        pad_x=_same_padding(output.shape[2], stride_x, 1, taps_x) if same else 0,
        transposed=True,
    )
    input_rows = -(-taps_y // stride_y)
    element = output.dtype.bits // 8
    zero: dict[str, FieldValue] = {} if element == 2 else {"input_zero_point": zero_point(source)}
    yield _step(
        site,
        f"edgetool_transpose_conv_{_suffix(site)}",
        window,
        (StepOverlap(0, conv_distance(window, element_bytes=element)),),
        RowInput(
            site.index(TRANSPOSE.source),
            row_bytes=window.width * depth * element,
            rows=window.height,
            taps=input_rows,
            dilation=stride_y,
            pad=(input_rows - 1) * stride_y - window.pad_y,
            divisor=stride_y,
        ),
        weights=Constant("int8_t", filters.tobytes(), "weights"),
        scales=scales.constant,
        shift=scales.shift,
        input_rows=input_rows,
        input_channels=depth,
        output_channels=channels,
        stride_y=stride_y,
        pad_y=window.pad_y,
        **zero,
    )


def window_rows(source: int, window: Window, element_bytes: int = 1) -> RowInput:
    """Return the rows of a window's input."""
    return RowInput(
        source,
        row_bytes=window.width * window.channels * element_bytes,
        rows=window.height,
        taps=window.taps_y,
        stride=window.stride_y,
        dilation=window.dilation_y,
        pad=window.pad_y,
    )


LOWERINGS: dict[str, Lowering] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "TRANSPOSE_CONV": _transpose_conv,
}
