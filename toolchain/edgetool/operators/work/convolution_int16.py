"""Convolutions of int16 by CMSIS-NN: windows copied to columns as they are.

Sources: conv.cc, arm_convolve_s16.c, arm_nn_mat_mult_kernel_s16.c, arm_nn_mat_mult_nt_t_s16.c.
"""

from __future__ import annotations

from dataclasses import replace

from edgetool.model.types import DType, Tensor
from edgetool.operators.work.loops import Loops, nested, repeated, together
from edgetool.operators.work.memory import copied_windows
from edgetool.operators.work.types import Work
from edgetool.operators.work.windows import Windows
from edgetool.target.platform import Platform

INT16_BYTES = 2
NARROW_SUMS = 512  # MAX_COL_COUNT: products that an int32 can hold
COLUMNS_AT_ONCE = 4


def convolve_int16(w: Windows, platform: Platform, bias: Tensor | None) -> Work:
    """arm_convolve_s16. A bias of int64 makes the sums beyond 512 products, and the rescaling, 64 bits wide."""
    wide = bias is not None and bias.dtype == DType.INT64
    depth = w.kernel * w.in_channels
    narrow = min(depth, NARROW_SUMS) if wide else depth
    product = _vectors if platform.mve else _pairs
    image = together(
        {"image": 1, "output row": w.rows.outputs, "window": w.positions, "window row": w.positions * w.rows.kernel},
        copied_windows(replace(w, filter_channels=w.in_channels), INT16_BYTES, platform),
        product(w.positions, w.out_channels, narrow, depth - narrow, platform),
    )
    return Work("int16" if wide else "int16 with int32 sums", repeated(w.batch, image))


def _pairs(columns: int, channels: int, narrow: int, wide: int, platform: Platform) -> Loops:
    """Two columns by two channels; the last column alone, all of it in 32 bits."""
    depth = narrow + wide
    inner = {"by 4": narrow // 4, "by 1": narrow % 4, "by 1 wide": wide}
    last = {"by 4": depth // 4, "by 1": depth % 4}
    if not platform.dsp:
        inner, last = {"by 1": narrow, "by 1 wide": wide}, {"by 1": depth}
    return together(
        {"column pair": columns // 2, "column pair of channels": columns // 2 * (channels > 1)},
        repeated(columns // 2 * (channels // 2), nested("2x2", inner)),
        repeated(columns // 2 * (channels % 2), nested("2x1", inner)),
        repeated(columns % 2 * channels, nested("last column", last)),
    )


def _vectors(columns: int, channels: int, narrow: int, wide: int, _: Platform) -> Loops:
    blocks, rest = divmod(columns, COLUMNS_AT_ONCE)
    return together(
        {"block": blocks + (rest > 0)},
        repeated(blocks * channels, {"4x1": 1, "4x1 by 8": -(-narrow // 8), "4x1 by 1 wide": wide}),
        repeated(rest * channels, {"1x1": 1, "1x1 by 4": -(-narrow // 4), "1x1 by 1 wide": wide}),
        repeated(rest, {"last column": 1, "last column 4 channels": channels // 4, "last channel": channels % 4}),
    )
