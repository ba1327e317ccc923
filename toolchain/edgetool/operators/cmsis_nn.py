"""CMSIS-NN: the sizes of its scratch buffers, and the loops that its kernels share.

The sizes are in bytes, and are those that the *_get_buffer_size functions return as built by GCC or LLVM (built with
Arm's compiler, some return different sizes). The functions choose by the processor's extensions, not by the code that
will run. BATCH_MATMUL uses the size of a fully connected layer; an LSTM has no such function. Sources:

- convolutions: arm_convolve_get_buffer_sizes_s8.c, _s16.c, arm_depthwise_conv_get_buffer_sizes_s8.c, _s4.c,
  arm_transpose_conv_get_buffer_sizes_s8.c, arm_nnsupportfunctions.h
- matrix products and pooling: arm_fully_connected_get_buffer_sizes_s8.c, _s16.c, arm_svdf_get_buffer_sizes_s8.c,
  arm_avgpool_get_buffer_sizes_s8.c, _s16.c, arm_convolve_get_buffer_sizes_s8.c

The loops are those of

- copies and fills of bytes, by the C library or by CMSIS-NN's own vector loops, and of windows copied out of images;
- matrix products of convolutions, of rows of the input and channels of the output over a depth. Sources:
  arm_nn_mat_mult_nt_t_s8.c, arm_nn_mat_mult_kernel_s8_s16.c, arm_convolve_s8.c;
- products of one vector and a matrix, in dense and recurrent layers, of units over a depth. Sources:
  arm_nn_vec_mat_mult_t_s8.c and its variants _per_ch_s8, _s16, _s16_s16, _s4, _svdf_s8, and
  arm_nn_vec_mat_mul_result_acc_s8_s16.c;
- the convolution that the wrappers for 8-bit and 4-bit weights choose, and the pointwise one, which they share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Literal

from edgetool.model.types import DType
from edgetool.operators import loops as library
from edgetool.operators.call import Call
from edgetool.operators.loops import Axis, LoopCounts, Loops, Windows, combined, nested, repeated
from edgetool.operators.overlap import Window
from edgetool.target.platform import Platform

INT16_BYTES = 2
INT32_BYTES = 4
COLUMNS_AT_ONCE = 4  # columns of im2col that MVE multiplies together
MVE_BYTES = 16
MAX_FAST_COLUMN = 512  # elements of a window that versions before "int16-columns" collect
CHANNELS_AT_ONCE = 124  # CH_IN_BLOCK_MVE
EFFICIENT_REVERSAL_CHANNELS = 16  # REVERSE_TCOL_EFFICIENT_THRESHOLD
REVERSAL_STRIDE = 2
ROWS_AT_ONCE = 4  # rows that the vector extension's matrix product processes together
OUTPUTS_AT_ONCE = 2  # output channels that the matrix product without it processes together


@dataclass(frozen=True, slots=True)
class Convolution:
    """The sizes of a convolution in elements; pad_* is the padding before the first row and column.

    kernel_channels: the channels that one filter reads, which are fewer than in_channels in a grouped convolution.
    """

    batch: int
    in_height: int
    in_width: int
    in_channels: int
    out_height: int
    out_width: int
    out_channels: int
    kernel_height: int
    kernel_width: int
    kernel_channels: int
    stride_height: int
    stride_width: int
    dilation_height: int = 1
    dilation_width: int = 1
    pad_height: int = 0
    pad_width: int = 0

    @property
    def column(self) -> int:
        """The number of elements of a window, over all channels even if the convolution is grouped."""
        return self.in_channels * self.kernel_height * self.kernel_width

    @property
    def window(self) -> Window:
        """The same sizes for the distance between output and input."""
        return Window(
            batches=self.batch,
            height=self.in_height,
            width=self.in_width,
            channels=self.in_channels,
            output_height=self.out_height,
            output_width=self.out_width,
            output_channels=self.out_channels,
            taps_y=self.kernel_height,
            taps_x=self.kernel_width,
            stride_y=self.stride_height,
            stride_x=self.stride_width,
            dilation_y=self.dilation_height,
            dilation_x=self.dilation_width,
            pad_y=self.pad_height,
            pad_x=self.pad_width,
        )

    @property
    def undilated(self) -> bool:
        """Whether the kernel's elements are adjacent."""
        return self.dilation_height == self.dilation_width == 1


def has_certified_order(call: Call) -> bool:
    """Return whether the order in which kernels for int8 read and write was certified for this version of CMSIS-NN.

    That is the version of the newest runtime, 4ab83cc3.
    """
    return call.required_input(0).dtype == DType.INT8 and not call.platform.missing


def convolve_s8(c: Convolution, platform: Platform) -> int:
    """Return the im2col buffer's size for int8 or int4 filters (arm_convolve_wrapper_s8_get_buffer_size)."""
    if is_1x1(c, grouped=not platform.has("grouped-pointwise")):
        return 0
    if platform.mve and is_1xn(c):
        return _convolve_1xn_s8(c, platform)
    return _im2col_s8(c, platform)


def convolve_s16(c: Convolution, platform: Platform) -> int:
    """Return the im2col buffer's size for int16 (arm_convolve_wrapper_s16_get_buffer_size)."""
    if not platform.has("int16-columns"):
        collects = platform.dsp and not platform.mve and c.column < MAX_FAST_COLUMN and c.undilated
        return 2 * c.column * INT16_BYTES if collects else 0
    if platform.mve:
        return COLUMNS_AT_ONCE * _round_up(c.column * INT16_BYTES, MVE_BYTES)
    return 2 * c.column * INT16_BYTES


def depthwise_s8(c: Convolution, platform: Platform) -> int:
    """Return the buffer's size for int8 (arm_depthwise_conv_wrapper_s8_get_buffer_size); kernel_channels is 1.

    MVE runs a depthwise convolution of one channel into several as a convolution with reversed filters.
    TFLM does not set the strides (depthwise_conv.cc), from which CMSIS-NN would recognize 1xN windows. Whether it
    recognizes them depends on the contents of the stack, so the larger size is returned.
    """
    reverses = platform.mve and platform.has("one-channel-depthwise")
    if reverses and c.in_channels == 1 and c.out_channels > 1:
        im2col = 0 if is_1x1(c) else _im2col_s8(c, platform)
        return im2col + c.out_channels * c.kernel_height * c.kernel_width
    if not is_optimized_depthwise(c):
        return 0
    if platform.mve:
        return _depthwise_blocks(c)
    small = c.kernel_height == c.kernel_width == 3 and c.pad_height <= 1 and c.pad_width <= 1
    return 0 if small or not platform.dsp else c.column * INT16_BYTES


def depthwise_s4(c: Convolution, *, mve: bool) -> int:
    """Return the buffer's size for int4 filters (arm_depthwise_conv_wrapper_s4_get_buffer_size)."""
    if not is_optimized_depthwise(c):
        return 0
    return _depthwise_blocks(c) if mve else c.column * INT16_BYTES


def transpose_s8(c: Convolution, platform: Platform) -> int:
    """Return the buffer's size for int8 (arm_transpose_conv_s8_get_buffer_size).

    It is an im2col buffer if it runs as a convolution, and rows of accumulators otherwise. The width of these rows uses
    the vertical stride instead of the horizontal one, as in CMSIS-NN.
    """
    if _uses_reversed_filter(c):
        return _im2col_s8(c, platform)
    width = (c.in_width - 1) * c.stride_width + max(c.kernel_width, c.stride_height)
    return width * c.out_channels * max(c.kernel_height, c.stride_height) * INT32_BYTES


def transpose_reversed_filter_s8(c: Convolution) -> int:
    """Return the size of the reversed filter (arm_transpose_conv_s8_get_reverse_conv_buffer_size)."""
    return c.column * c.out_channels if _uses_reversed_filter(c) else 0


def is_1x1(c: Convolution, *, grouped: bool = False) -> bool:
    """Return whether it is a product of pixels; `grouped`: even if a filter reads only some of the channels."""
    unpadded = c.pad_height == c.pad_width == 0
    pointwise = unpadded and c.kernel_height == c.kernel_width == 1 and c.undilated
    return pointwise and (grouped or c.in_channels == c.kernel_channels)


def is_1xn(c: Convolution) -> bool:
    """Return whether it runs over single rows, where MVE reads the input in place (arm_convolve_1_x_n_s8)."""
    flat = c.in_height == c.kernel_height == 1 and c.dilation_width == 1
    return flat and c.stride_width * c.in_channels % 4 == 0 and c.in_channels == c.kernel_channels


def _convolve_1xn_s8(c: Convolution, platform: Platform) -> int:
    """Return the size of padded windows at both ends of a row; that of im2col if they overlap."""
    if not platform.has("padded-rows"):
        return 0
    total = (c.out_width - 1) * c.stride_width + c.kernel_width - c.in_width
    asymmetric = total % 2 if total >= 0 else -(-total % 2)  # the remainder has the sign that it has in C
    right = _padded_windows(c.pad_width + asymmetric, c.stride_width)
    left = _padded_windows(c.pad_width, c.stride_width)
    if left + right > c.out_width:
        return _im2col_s8(c, platform)
    if not platform.has("int16-columns"):
        return 0
    after = right if asymmetric else c.pad_width
    return c.in_channels * max(c.kernel_width + c.pad_width, c.kernel_width - 1 + after)


def _padded_windows(pad: int, stride: int) -> int:
    if pad == 0:
        return 0
    return max(1, ceil(pad / stride)) if stride else 1


def _im2col_s8(c: Convolution, platform: Platform) -> int:
    if platform.mve:
        lanes = MVE_BYTES if platform.has("int16-columns") else MVE_BYTES // 2
        return COLUMNS_AT_ONCE * _round_up(c.column, lanes)
    return 2 * _round_up(c.column, 4 if platform.has("columns-of-four") else 1) * INT16_BYTES


def is_optimized_depthwise(c: Convolution) -> bool:
    """Return whether it runs as arm_depthwise_conv_s8_opt, or as the kernel for 3x3 windows."""
    return c.in_channels == c.out_channels and c.batch == 1 and c.undilated


def _depthwise_blocks(c: Convolution) -> int:
    return COLUMNS_AT_ONCE * CHANNELS_AT_ONCE * c.kernel_height * c.kernel_width


def _uses_reversed_filter(c: Convolution) -> bool:
    small = c.stride_height <= REVERSAL_STRIDE and c.stride_width <= REVERSAL_STRIDE
    return small and c.in_channels > EFFICIENT_REVERSAL_CHANNELS


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def fully_connected_s8(outputs: int, *, mve: bool) -> int:
    """Return the size of one sum per row of weights (arm_fully_connected_s8_get_buffer_size).

    int16 inputs and int4 weights need no buffer.
    """
    return INT32_BYTES * outputs if mve else 0


def svdf_s8(filters: int, *, mve: bool) -> int:
    """Return the size of one sum per row of feature weights (arm_svdf_s8_get_buffer_size)."""
    return INT32_BYTES * filters if mve else 0


def average_pool(channels: int, *, dsp: bool, mve: bool) -> int:
    """Return the size of one accumulator per channel (arm_avgpool_s8_get_buffer_size and the identical _s16)."""
    return INT32_BYTES * channels if dsp and not mve else 0


WORD = 4
LANES = 16


def cmsis_copy_loops(count: int, size: int, platform: Platform) -> Loops:
    """Return the loops of `count` copies of `size` bytes each; the first one is word-aligned in source and target."""
    if platform.mve:
        return {"copy": count, "copied 16": count * -(-size // LANES)}
    return library.strided_memcpy_loops(size, count, (0, size), (0, size))


def cmsis_fill_loops(count: int, size: int, platform: Platform, offset: int = 0) -> Loops:
    """Return the loops of `count` fills of `size` bytes each, at addresses with the alignment of the offset."""
    if platform.mve:
        return {"fill": count, "filled 16": count * -(-size // LANES)}
    return repeated(count, library.memset_loops(size, offset))


def im2col_loops(w: Windows, element_bytes: int, platform: Platform, columns: int = 2) -> Loops:
    """Return the loops that copy all windows of one image to `columns` adjacent columns, and fill the padding.

    Args:
        element_bytes: the bytes of one channel. A filter of a grouped convolution reads only its own channels.
    """
    size, groups = w.filter_channels * element_bytes, w.in_channels // w.filter_channels
    if platform.mve or size % WORD == 0:
        inside, padding = groups * w.inside, groups * (w.taps - w.inside)
        return combined(cmsis_copy_loops(inside, size, platform), cmsis_fill_loops(padding, size, platform))
    copies, fills = _copy_alignments(w, size, element_bytes, columns)
    return combined(
        *(repeated(times, library.memcpy_loops(size, [place])) for place, times in copies.items()),
        *(repeated(times, library.memset_loops(size, target)) for target, times in fills.items()),
    )


def _copy_alignments(
    w: Windows, size: int, element_bytes: int, columns: int
) -> tuple[Counter[tuple[int, int]], Counter[int]]:
    """Return the number of copies by alignment of target and source, and of fills by that of the target."""
    copies: Counter[tuple[int, int]] = Counter()
    fills: Counter[int] = Counter()
    pixel, window = w.in_channels * element_bytes, w.kernel * size
    rows: Counter[tuple[int, int, int | None]] = Counter()
    for y, start in enumerate(w.rows.starts):
        for tap in range(w.rows.kernel):
            row = start + tap * w.rows.dilation
            first = row * w.columns.size * pixel % WORD if 0 <= row < w.rows.size else None
            rows[y * w.columns.outputs % columns, tap * w.columns.kernel * size % WORD, first] += 1
    for (column, target, first), times in rows.items():
        for (target_offset, source), count in _row_alignments(w.columns, column, columns, window, size, pixel).items():
            if first is None or source is None:
                fills[(target + target_offset) % WORD] += times * count * (w.in_channels // w.filter_channels)
                continue
            for group in range(w.in_channels // w.filter_channels):
                copies[(target + target_offset) % WORD, (first + source + group * size) % WORD] += times * count
    return copies, fills


def _row_alignments(
    axis: Axis, column: int, columns: int, window: int, size: int, pixel: int
) -> Counter[tuple[int, int | None]]:
    """Return the same along a row of windows, relative to the row's start; the source is None in the padding."""
    alignments: Counter[tuple[int, int | None]] = Counter()
    for x, start in enumerate(axis.starts):
        base = (column + x) % columns * window
        for tap in range(axis.kernel):
            position = start + tap * axis.dilation
            source = position * pixel % WORD if 0 <= position < axis.size else None
            alignments[(base + tap * size) % WORD, source] += 1
    return alignments


VECTOR = 4  # int32 elements
UNROLLED = 16


def product_s8(rows: int, channels: int, depth: int, platform: Platform) -> Loops:
    """Return the loops of a product of int8 rows and int8 weights (arm_nn_mat_mult_nt_t_s8)."""
    if platform.mve:
        return _vector_tiles(rows, channels, depth)
    pairs = channels // 2
    tile = _unrolled_loops(depth) if platform.dsp else {"by 1": depth}
    return combined(
        {"any channel pair": pairs > 0, "channel pair": pairs, "weight sum": pairs * depth},
        {"channel pair of rows": pairs * (rows > 1)},
        repeated(pairs * (rows // 2), nested("2x2", tile)),
        repeated(pairs * (rows % 2), nested("1x2", tile)),
        repeated(channels % 2, {"last channel": 1, "1x1": rows, "1x1 by 1": rows * depth}),
    )


def biased_tiles(call: Call, rows: int, channels: int) -> Loops:
    """Return the loops that add a bias, if there is one.

    It is added once per channel, per tile (MVE) or per result, depending on kernel and core.
    """
    if call.input(2) is None:
        return {}
    tiles = rows // 4 + rows % 4
    return {"biased channel": channels, "biased tile": tiles * channels, "biased output": rows * channels}


def product_s16(columns: int, channels: int, depth: int, platform: Platform) -> Loops:
    """Return the loops of a product of columns widened to int16, two at a time (arm_nn_mat_mult_kernel_s8_s16)."""
    row = {"by 4": depth // 4, "by 1": depth % 4} if platform.dsp else {"by 1": depth}
    return combined(
        {"column pair": columns // 2, "column pair of channels": columns // 2 * (channels > 1)},
        repeated(columns // 2 * (channels // 2), nested("2x2", row)),
        repeated(columns // 2 * (channels % 2), nested("2x1", row)),
        repeated(columns % 2 * channels, nested("last column", row)),
    )


def _vector_tiles(rows: int, channels: int, depth: int) -> Loops:
    """Return the loops of a product of four rows at a time.

    The results of a remaining row are written four channels at a time.
    """
    blocks, rest = divmod(rows, 4)
    steps = -(-depth // LANES)
    fours, last = divmod(channels, VECTOR)
    return combined(
        {"any 4 rows": int(blocks > 0), "4 rows": blocks, "any last row": int(rest > 0), "last row": rest},
        repeated(blocks * channels, {"4x1": 1, "4x1 by 16": steps}),
        repeated(rest * channels, {"1x1": 1, "1x1 by 16": steps}),
        repeated(rest, {"4 channels": fours, "last channel": last, "any last channel": int(last > 0)}),
    )


def _unrolled_loops(depth: int) -> Loops:
    return {"by 16": depth // UNROLLED, "by 4": depth % UNROLLED // 4, "by 1": depth % 4}


COMPILER_UNROLL = 8  # iterations of a loop that GCC unrolls into one, if the kernel asks for it
NARROW_SUMS = 512  # MAX_COL_COUNT: products of int16 and int8 that an int32 can hold


def grouped_units(units: int, group_size: int, inner: Loops) -> Loops:
    """Return the loops of units in groups, and of the remaining ones one by one, all over the same inner loops."""
    group_name, last_name = f"{group_size} units", "last unit"
    groups, rest = divmod(units, group_size)
    return combined(
        {f"any {group_name}": int(groups > 0), "any last unit": int(rest > 0)},
        repeated(groups, nested(group_name, inner)),
        repeated(rest, nested(last_name, inner)),
    )


def vector_product_s8(units: int, depth: int, platform: Platform, *, unrolled: bool = True) -> Loops:
    """Return the loops of int8 times int8; only in dense layers, the compiler unrolls the loop over four elements."""
    if platform.mve:
        return grouped_units(units, 4, {"by 16": -(-depth // LANES)})
    if not platform.dsp:
        return grouped_units(units, 3, {"by 1": depth})
    quads = depth // 4
    unrolled_quads = quads // COMPILER_UNROLL if unrolled else 0
    other_quads = quads - unrolled_quads * COMPILER_UNROLL
    product = grouped_units(units, 2, {"by 32": unrolled_quads, "by 4": other_quads, "by 1": depth % 4})
    # Without a remainder, the compiler's loop is entered in another way.
    without_rest = int(unrolled_quads > 0 and not other_quads)
    return combined(product, {"2 units whole": units // 2 * without_rest, "last unit whole": units % 2 * without_rest})


def vector_product_s16(units: int, depth: int, platform: Platform) -> Loops:
    """Return the loops of int16 times int8; with DSP or MVE, the first 512 products are summed in 32 bits."""
    narrow = min(depth, NARROW_SUMS)
    if platform.mve:
        return grouped_units(units, 4, {"by 8": -(-narrow // 8), "by 1": depth - narrow})
    if not platform.dsp:
        return {"unit": units, "unit by 1": units * depth}
    return grouped_units(units, 2, {"by 4": narrow // 4, "by 1": depth - narrow // 4 * 4})


def vector_product_s4(units: int, depth: int, platform: Platform) -> Loops:
    """Return the loops of int8 times int4: a byte has two elements, and two rows of odd depth share one."""
    if platform.mve:
        return _packed_unit_loops(units, depth)
    if platform.dsp:
        inner = {"by 4": depth // 4, "by 2": depth % 4 // 2, "odd": depth % 2}
    else:
        inner = {"by 2": depth // 2, "odd": depth % 2}
    return grouped_units(units, 4, inner)


def _packed_unit_loops(units: int, depth: int) -> Loops:
    """Return the loops of groups of four units, processed as two pairs, and of the rest, which is not vectorized.

    The second pair may begin within a byte.
    """
    first, second = packed_row_loops(depth, wide=True)
    fours, rest = divmod(units, 4)
    single = {"by 32": depth // 32, "by 16": depth % 32 // 16, "by 4": depth % 16 // 4, "by 2": depth % 4 // 2}
    return combined(
        {"any 4 units": int(fours > 0), "any last unit": int(rest > 0)},
        repeated(fours, nested("2 units", first)),
        repeated(fours, nested("2 more units", second)),
        repeated(rest, nested("last unit", single)),
        {"last unit odd": (rest + 1) // 2 * (depth % 2)},
    )


def packed_row_loops(depth: int, *, wide: bool) -> tuple[Loops, Loops]:
    """Return the vector loops of a row of int4 that begins at a byte, and of one that begins within a byte.

    If no row begins within a byte, both are the same.
    """
    blocks = {"by 32": depth // 32, "by 16": depth % 32 // 16} if wide else {"by 16": depth // 16}
    rest = depth % LANES
    first = blocks | {"rest": int(rest > 0)}
    return first, blocks | {"rest": int(rest > 1), "odd": 1} if depth % 2 else first


def vector_product_svdf(units: int, depth: int, platform: Platform) -> Loops:
    """Return the loops of int8 times int8 into a state of int16."""
    if platform.mve:
        return grouped_units(units, 3, {"by 16": -(-depth // LANES)})
    if not platform.dsp:
        return grouped_units(units, 3, {"by 1": depth})
    quads, rest = {"by 16": depth // 16, "by 4": depth % 16 // 4}, {"by 1": depth % 4}
    return combined(
        {"any 2 units": int(units > 1)},
        repeated(units // 2, nested("2 units", quads | rest)),
        repeated(units % 2, nested("last unit", {"by 4": depth // 4} | rest)),
    )


ConvolutionPath = Literal["pointwise", "one row", "windows"]
# The loops of a matrix product, from its rows, channels, depth and build.
Product = Callable[[int, int, int, Platform], Loops]


def convolution_path(w: Windows, platform: Platform) -> ConvolutionPath:
    """Return the path that arm_convolve_wrapper_s8.c and arm_convolve_wrapper_s4.c choose."""
    ungrouped = w.in_channels == w.filter_channels
    if w.kernel == 1 and not w.padded and not w.dilated and ungrouped:
        return "pointwise"
    flat = w.rows.size == w.rows.kernel == w.columns.dilation == 1
    if platform.mve and flat and ungrouped and w.columns.stride * w.in_channels % 4 == 0:
        return "one row"
    return "windows"


def pointwise_loops(kind: str, product: Product, w: Windows, platform: Platform) -> LoopCounts:
    """Return the loops of the product with the image itself; with a stride, row by row.

    Args:
        kind: the beginning of the path's name.
    """
    if w.rows.stride == w.columns.stride == 1:
        pixels = w.batch * w.rows.size * w.columns.size
        return LoopCounts(f"{kind} 1x1", product(pixels, w.out_channels, w.in_channels, platform))
    row = {"output row": 1, **product(w.columns.outputs, w.out_channels, w.in_channels, platform)}
    return LoopCounts(f"{kind} 1x1 strided", repeated(w.batch * w.rows.outputs, row))


def uses_cmsis_nn(call: Call) -> bool:
    """Return whether CMSIS-NN runs the operator: float32 uses the reference kernels in every build."""
    source = call.input(0)
    return call.platform.cmsis_nn and source is not None and source.dtype is not DType.FLOAT32


def product_weight_reads(call: Call, rows: int) -> int:
    """Return how many times a matrix product reads its weights.

    They are read in the outer loop, once, but with MVE the outer loop is over groups of the input's rows.
    """
    return rows // ROWS_AT_ONCE + rows % ROWS_AT_ONCE if call.platform.mve else 1


def product_input_reads(call: Call, channels: int) -> int:
    """Return how many times a matrix product reads its input: once for every two output channels.

    The loop over them is the outer one, but with MVE, the outer loop is over groups of the input's rows.
    """
    return 1 if call.platform.mve else -(-channels // OUTPUTS_AT_ONCE)
