"""Matrix products of CMSIS-NN's convolutions: rows of input by channels of output, over a depth.

Sources: arm_nn_mat_mult_nt_t_s8.c, arm_nn_mat_mult_kernel_s8_s16.c, arm_convolve_s8.c.
"""

from __future__ import annotations

from edgetool.operators.kernel import Call
from edgetool.operators.work.loops import Loops, nested, repeated, together
from edgetool.target.platform import Platform

LANES = 16  # int8 elements of a vector of MVE
VECTOR = 4  # int32 elements
UNROLLED = 16


def product_s8(rows: int, channels: int, depth: int, platform: Platform) -> Loops:
    """Rows and weights both as int8: arm_nn_mat_mult_nt_t_s8."""
    if platform.mve:
        return _vectors(rows, channels, depth)
    pairs = channels // 2
    tile = _unrolled(depth) if platform.dsp else {"by 1": depth}
    return together(
        {"any channel pair": pairs > 0, "channel pair": pairs, "weight sum": pairs * depth},
        {"channel pair of rows": pairs * (rows > 1)},
        repeated(pairs * (rows // 2), nested("2x2", tile)),
        repeated(pairs * (rows % 2), nested("1x2", tile)),
        repeated(channels % 2, {"last channel": 1, "1x1": rows, "1x1 by 1": rows * depth}),
    )


def biased_tiles(call: Call, rows: int, channels: int) -> Loops:
    """Where a bias is added: once for each channel, each tile of MVE, or each result, by the kernel and the core."""
    if call.input(2) is None:
        return {}
    tiles = rows // 4 + rows % 4
    return {"biased channel": channels, "biased tile": tiles * channels, "biased output": rows * channels}


def product_s16(columns: int, channels: int, depth: int, platform: Platform) -> Loops:
    """Columns widened to int16, two at a time; the last of an odd number alone: arm_nn_mat_mult_kernel_s8_s16."""
    row = {"by 4": depth // 4, "by 1": depth % 4} if platform.dsp else {"by 1": depth}
    return together(
        {"column pair": columns // 2, "column pair of channels": columns // 2 * (channels > 1)},
        repeated(columns // 2 * (channels // 2), nested("2x2", row)),
        repeated(columns // 2 * (channels % 2), nested("2x1", row)),
        repeated(columns % 2 * channels, nested("last column", row)),
    )


def _vectors(rows: int, channels: int, depth: int) -> Loops:
    """Four rows at once; the results of a row left over four channels at once."""
    blocks, rest = divmod(rows, 4)
    steps = -(-depth // LANES)
    fours, last = divmod(channels, VECTOR)
    return together(
        {"any 4 rows": int(blocks > 0), "4 rows": blocks, "any last row": int(rest > 0), "last row": rest},
        repeated(blocks * channels, {"4x1": 1, "4x1 by 16": steps}),
        repeated(rest * channels, {"1x1": 1, "1x1 by 16": steps}),
        repeated(rest, {"4 channels": fours, "last channel": last, "any last channel": int(last > 0)}),
    )


def _unrolled(depth: int) -> Loops:
    return {"by 16": depth // UNROLLED, "by 4": depth % UNROLLED // 4, "by 1": depth % 4}
