"""Convolutions of int8 with int4 filters by CMSIS-NN: two weights in a byte.

Sources: arm_convolve_wrapper_s4.c, arm_convolve_1x1_s4.c, arm_convolve_s4.c, arm_convolve_even_s4.c,
arm_convolve_1_x_n_s4.c, arm_nn_mat_mult_nt_t_s4.c, arm_nn_mat_mult_kernel_s4_s16.c.
"""

from __future__ import annotations

from edgetool.operators.work.convolution_int8 import row_ends
from edgetool.operators.work.convolution_paths import pointwise, way_of
from edgetool.operators.work.loops import Loops, named, nested, repeated, together
from edgetool.operators.work.memory import copies, fills
from edgetool.operators.work.types import Work
from edgetool.operators.work.vector_matrix import packed_rows
from edgetool.operators.work.windows import Windows
from edgetool.target.platform import Platform

CHANNELS_AT_ONCE = 4
COLUMNS_AT_ONCE = 4  # with MVE; else 2
INT16_BYTES = 2
WIDE_BLOCKS_BELOW = 3  # rows: fewer are multiplied in blocks of 32


def convolve_int4(w: Windows, platform: Platform) -> Work:
    """arm_convolve_wrapper_s4."""
    match way_of(w, platform):
        case "pointwise":
            return pointwise("int4", _product, w, platform)
        case "one row":
            return _one_row(w, platform)
        case "windows":
            even = platform.mve and w.kernel * w.in_channels % 2 == 0
            return Work("int4 even windows" if even else "int4 windows", _windows(w, platform, even=even))


def _one_row(w: Windows, platform: Platform) -> Work:
    """Windows that reach into the padding are multiplied one by one, over what lies inside."""
    ends, axis = row_ends(w.columns), w.columns
    if ends is None or sum(ends) > axis.outputs:
        return Work("int4 1xN refused", {}, gives_up=True)
    left, right = ends
    border = (*axis.starts[:left], *axis.starts[axis.outputs - right :])
    inside = [min(start + axis.kernel, axis.size) - max(start, 0) for start in border]
    image = together(
        {"image": 1},
        _product(axis.outputs - left - right, w.out_channels, axis.kernel * w.in_channels, platform),
        *(named("border", _product(1, w.out_channels, taps * w.in_channels, platform)) for taps in inside),
    )
    return Work("int4 1xN", repeated(w.batch, image))


def _windows(w: Windows, platform: Platform, *, even: bool) -> Loops:
    moved = _packed_columns(w, platform, even=even) if platform.mve else _wide_columns(w, platform)
    frame = {"image": 1, "output row": w.rows.outputs, "window": w.positions, "window row": w.positions * w.rows.kernel}
    return repeated(w.batch, together(frame, moved))


def _packed_columns(w: Windows, platform: Platform, *, even: bool) -> Loops:
    """Four columns of int8 at once; those of an even depth with their elements taken apart into even and odd ones."""
    depth = w.kernel * w.in_channels
    blocks, rest = divmod(w.positions, COLUMNS_AT_ONCE)
    return together(
        copies(w.inside, w.in_channels, platform),
        fills(w.taps - w.inside, w.in_channels, platform),
        repeated(blocks, {"block": 1, **_product(COLUMNS_AT_ONCE, w.out_channels, depth, platform, even=even)}),
        {"block": int(rest > 0), **_product(rest, w.out_channels, depth, platform, even=even)},
        {"taken apart by 32": w.positions * (depth // 32) if even else 0},
    )


def _wide_columns(w: Windows, platform: Platform) -> Loops:
    """Two columns of int16 at once."""
    four, rest = divmod(w.in_channels, 4) if platform.dsp else (0, w.in_channels)
    return together(
        repeated(w.inside, {"widened": 1, "widened by 4": four, "widened by 1": rest}),
        fills(w.taps - w.inside, w.in_channels * INT16_BYTES, platform),
        _kernel(w.positions, w.out_channels, w.kernel * w.in_channels, platform),
    )


def _product(rows: int, channels: int, depth: int, platform: Platform, *, even: bool = False) -> Loops:
    """arm_nn_mat_mult_nt_t_s4, and with MVE its variant for even depths."""
    if platform.mve:
        return _vectors(rows, channels, depth, even=even)
    inner = {"by 2": depth // 2, "odd": depth % 2}
    if platform.dsp:
        inner = {"by 16": depth // 16, "by 4": depth % 16 // 4, "by 2": depth % 4 // 2, "odd": depth % 2}
    fours, rest = divmod(channels, CHANNELS_AT_ONCE)
    return together(
        {"4 channels": fours, "last channel": rest},
        repeated(fours * (rows // 2), nested("2x4", inner)),
        repeated(fours * (rows % 2), nested("1x4", inner)),
        repeated(rest * (rows // 2), nested("2x1", inner)),
        repeated(rest * (rows % 2), nested("1x1", inner)),
    )


def _vectors(rows: int, channels: int, depth: int, *, even: bool) -> Loops:
    """Four rows at once, then those left over. Every other channel may begin in the middle of a byte."""
    blocks, rest = divmod(rows, 4)
    tiles: list[Loops] = [{"4 rows": blocks, "last rows": int(rest > 0)}]
    for size, turns in ((4, blocks), (rest, 1)):
        if size:
            first, second = packed_rows(depth, wide=even or size < WIDE_BLOCKS_BELOW)
            tile = together(
                repeated((channels + 1) // 2, nested(f"{size}x1", first)),
                repeated(channels // 2, nested(f"{size}x1", second)),
            )
            tiles.append(repeated(turns, tile))
    written = {"4 channels written": channels // 4, "last channel written": channels % 4} if rest == 1 else {}
    return together(*tiles, written)


def _kernel(columns: int, channels: int, depth: int, platform: Platform) -> Loops:
    """arm_nn_mat_mult_kernel_s4_s16: two columns by four channels; the last column alone."""
    inner = {"by 2": depth // 2, "odd": depth % 2}
    if platform.dsp:
        inner = {"by 4": depth // 4, "by 2": depth % 4 // 2, "odd": depth % 2}
    fours, rest = divmod(channels, CHANNELS_AT_ONCE)
    pairs = columns // 2
    return together(
        {"column pair": pairs},
        repeated(pairs * fours, nested("2x4", inner)),
        repeated(pairs * rest, nested("2x1", inner)),
        repeated(columns % 2 * channels, nested("last column", inner)),
    )
