"""CMSIS-NN's scratch buffers of convolutions, in bytes: what its *_get_buffer_size functions return.

Sources: arm_convolve_get_buffer_sizes_s8.c, _s16.c, arm_depthwise_conv_get_buffer_sizes_s8.c, _s4.c,
arm_transpose_conv_get_buffer_sizes_s8.c, arm_nnsupportfunctions.h, as built by GCC or LLVM (Arm's own compiler
gets other sizes for some). They choose by the processor's extensions, not by what will run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

INT16_BYTES = 2
INT32_BYTES = 4
COLUMNS_AT_ONCE = 4  # columns of im2col that MVE multiplies together
MVE_BYTES = 16
CHANNELS_AT_ONCE = 124  # CH_IN_BLOCK_MVE
EFFICIENT_REVERSAL_CHANNELS = 16  # REVERSE_TCOL_EFFICIENT_THRESHOLD
REVERSAL_STRIDE = 2


@dataclass(frozen=True, slots=True)
class Convolution:
    """The sizes of a convolution; in elements, and pad_* in front of the first row and column.

    kernel_channels: those that one filter sees, fewer than in_channels when grouped.
    """

    batch: int
    in_height: int
    in_width: int
    in_channels: int
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
        """The elements of a window, over all channels even when grouped."""
        return self.in_channels * self.kernel_height * self.kernel_width

    @property
    def undilated(self) -> bool:
        """Whether the kernel's elements lie side by side."""
        return self.dilation_height == self.dilation_width == 1


def convolve_s8(c: Convolution, *, mve: bool) -> int:
    """im2col of int8 (arm_convolve_wrapper_s8_get_buffer_size; for int4 filters as well)."""
    if _is_1x1(c):
        return 0
    if mve and _is_1xn(c):
        return _convolve_1xn_s8(c)
    return _columns_s8(c, mve=mve)


def convolve_s16(c: Convolution, *, mve: bool) -> int:
    """im2col of int16 (arm_convolve_wrapper_s16_get_buffer_size)."""
    if mve:
        return COLUMNS_AT_ONCE * _up(c.column * INT16_BYTES, MVE_BYTES)
    return 2 * c.column * INT16_BYTES


def depthwise_s8(c: Convolution, *, dsp: bool, mve: bool) -> int:
    """Columns of int8 (arm_depthwise_conv_wrapper_s8_get_buffer_size); kernel_channels is 1.

    MVE runs a depthwise convolution of one channel into several as a convolution with filters turned around.
    TFLM does not set the strides (depthwise_conv.cc), by which CMSIS-NN would tell 1xN windows from others: whether
    it finds them is left to what lies on the stack, so the answer is the larger one.
    """
    if mve and c.in_channels == 1 and c.out_channels > 1:
        im2col = 0 if _is_1x1(c) else _columns_s8(c, mve=True)
        return im2col + c.out_channels * c.kernel_height * c.kernel_width
    if not _is_optimized_depthwise(c):
        return 0
    if mve:
        return _blocks(c)
    small = c.kernel_height == c.kernel_width == 3 and c.pad_height <= 1 and c.pad_width <= 1
    return 0 if small or not dsp else c.column * INT16_BYTES


def depthwise_s4(c: Convolution, *, mve: bool) -> int:
    """Columns for int4 filters (arm_depthwise_conv_wrapper_s4_get_buffer_size)."""
    if not _is_optimized_depthwise(c):
        return 0
    return _blocks(c) if mve else c.column * INT16_BYTES


def transpose_s8(c: Convolution, *, mve: bool) -> int:
    """im2col of int8 where it runs as a convolution, else rows of accumulators (arm_transpose_conv_s8_get_buffer_size).

    The rows' width takes the vertical stride for the horizontal one, as CMSIS-NN does.
    """
    if _reverses(c):
        return _columns_s8(c, mve=mve)
    width = (c.in_width - 1) * c.stride_width + max(c.kernel_width, c.stride_height)
    return width * c.out_channels * max(c.kernel_height, c.stride_height) * INT32_BYTES


def transpose_reversed_filter_s8(c: Convolution) -> int:
    """The filter turned around (arm_transpose_conv_s8_get_reverse_conv_buffer_size)."""
    return c.column * c.out_channels if _reverses(c) else 0


def _is_1x1(c: Convolution) -> bool:
    unpadded = c.pad_height == c.pad_width == 0
    return unpadded and c.kernel_height == c.kernel_width == 1 and c.undilated and c.in_channels == c.kernel_channels


def _is_1xn(c: Convolution) -> bool:
    flat = c.in_height == c.kernel_height == 1 and c.dilation_width == 1
    return flat and c.stride_width * c.in_channels % 4 == 0 and c.in_channels == c.kernel_channels


def _convolve_1xn_s8(c: Convolution) -> int:
    """Padded windows at both ends of a row; general im2col where a row is all ends."""
    total = (c.out_width - 1) * c.stride_width + c.kernel_width - c.in_width
    asymmetric = total % 2 if total >= 0 else -(-total % 2)  # the remainder's sign is C's
    right = _padded_windows(c.pad_width + asymmetric, c.stride_width)
    left = _padded_windows(c.pad_width, c.stride_width)
    if left + right > c.out_width:
        return _columns_s8(c, mve=True)
    after = right if asymmetric else c.pad_width
    return c.in_channels * max(c.kernel_width + c.pad_width, c.kernel_width - 1 + after)


def _padded_windows(pad: int, stride: int) -> int:
    if pad == 0:
        return 0
    return max(1, ceil(pad / stride)) if stride else 1


def _columns_s8(c: Convolution, *, mve: bool) -> int:
    if mve:
        return COLUMNS_AT_ONCE * _up(c.column, MVE_BYTES)
    return 2 * _up(c.column, 4) * INT16_BYTES


def _is_optimized_depthwise(c: Convolution) -> bool:
    return c.in_channels == c.out_channels and c.batch == 1 and c.undilated


def _blocks(c: Convolution) -> int:
    return COLUMNS_AT_ONCE * CHANNELS_AT_ONCE * c.kernel_height * c.kernel_width


def _reverses(c: Convolution) -> bool:
    small = c.stride_height <= REVERSAL_STRIDE and c.stride_width <= REVERSAL_STRIDE
    return small and c.in_channels > EFFICIENT_REVERSAL_CHANNELS


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
