"""CMSIS-NN's buffers of matrix products and of pooling, in bytes: what its *_get_buffer_size functions return.

Sources: arm_fully_connected_get_buffer_sizes_s8.c, _s16.c, arm_svdf_get_buffer_sizes_s8.c,
arm_avgpool_get_buffer_sizes_s8.c, _s16.c, arm_convolve_get_buffer_sizes_s8.c, as built by GCC or LLVM.
BATCH_MATMUL takes the size of a fully connected layer; an LSTM has no such function.
"""

from __future__ import annotations

INT32_BYTES = 4


def fully_connected_s8(outputs: int, *, mve: bool) -> int:
    """The sum of each row of weights (arm_fully_connected_s8_get_buffer_size); int16 and int4 weights need none."""
    return INT32_BYTES * outputs if mve else 0


def svdf_s8(filters: int, *, mve: bool) -> int:
    """The sum of each row of feature weights (arm_svdf_s8_get_buffer_size)."""
    return INT32_BYTES * filters if mve else 0


def average_pool(channels: int, *, dsp: bool, mve: bool) -> int:
    """An accumulator for each channel (arm_avgpool_s8_get_buffer_size and _s16, which are alike)."""
    return INT32_BYTES * channels if dsp and not mve else 0
