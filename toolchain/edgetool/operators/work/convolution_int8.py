"""Convolutions of int8 with int8 filters by CMSIS-NN: which kernel runs, and how often its loops turn.

Sources: arm_convolve_wrapper_s8.c, arm_convolve_1x1_s8.c, arm_convolve_1x1_s8_fast.c, arm_convolve_1_x_n_s8.c and
arm_convolve_s8.c.
"""

from __future__ import annotations

from edgetool.operators.work.convolution_paths import pointwise, way_of
from edgetool.operators.work.loops import Loops, repeated, together
from edgetool.operators.work.matrix import product_s8, product_s16
from edgetool.operators.work.memory import copied_windows, copies, fills
from edgetool.operators.work.types import Work
from edgetool.operators.work.windows import Axis, Windows
from edgetool.target.platform import Platform

COLUMNS_AT_ONCE = 4  # columns of im2col that MVE multiplies together


def convolve_int8(w: Windows, platform: Platform) -> Work:
    """The matrix product of the image as it is, or of windows copied out of it."""
    match way_of(w, platform):
        case "pointwise":
            return pointwise("int8", product_s8, w, platform)
        case "one row":
            return _one_row(w, platform)
        case "windows":
            return _windows(w, platform)


def _one_row(w: Windows, platform: Platform) -> Work:
    """A 1xN window on MVE: only those that reach into the padding are copied out."""
    axis, depth = w.columns, w.columns.kernel * w.in_channels
    ends = row_ends(axis)
    if ends is None:
        return Work("int8 1xN refused", {}, gives_up=True)
    left, right = ends
    if left + right > axis.outputs:
        return _windows(w, platform)
    parts = (left, axis.outputs - left - right, right)
    image = together(
        {"image": 1},
        copies(1, depth, platform),
        copies(1, depth - w.in_channels, platform),
        fills(2, axis.pad * w.in_channels, platform),
        *(product_s8(rows, w.out_channels, depth, platform) for rows in parts),
    )
    return Work("int8 1xN", repeated(w.batch, image))


def row_ends(axis: Axis) -> tuple[int, int] | None:
    """The windows that arm_convolve_1_x_n_s8 pads left and right; None where it gives up, without a result."""
    total = (axis.outputs - 1) * axis.stride + axis.kernel - axis.size
    odd = total % 2 if total >= 0 else -(-total % 2)  # the remainder's sign is C's
    if 2 * axis.pad + odd != total:
        return None
    return _reached(axis.pad, axis.stride), _reached(axis.pad + odd, axis.stride)


def _reached(pad: int, stride: int) -> int:
    return max(1, (pad + stride - 1) // stride) if pad else 0


def _windows(w: Windows, platform: Platform) -> Work:
    """arm_convolve_s8: windows copied to columns, two (four with MVE) columns multiplied at once."""
    groups = w.in_channels // w.filter_channels
    channels, depth = w.out_channels // groups, w.kernel * w.filter_channels
    group = together(
        {"group": 1, "output row": w.rows.outputs, "window": w.positions, "window row": w.positions * w.rows.kernel},
        columns_product(w.positions, channels, depth, platform),
    )
    image = together(repeated(groups, group), copied_windows(w, 1, platform))
    return Work("int8 windows" if groups == 1 else "int8 grouped windows", repeated(w.batch, image))


def columns_product(columns: int, channels: int, depth: int, platform: Platform) -> Loops:
    """Copied columns times all channels; widened to int16 first, but for MVE."""
    if not platform.mve:
        return together(product_s16(columns, channels, depth, platform), _widened(columns, depth, platform))
    blocks, rest = divmod(columns, COLUMNS_AT_ONCE)
    return together(
        repeated(blocks, {"block": 1, **product_s8(COLUMNS_AT_ONCE, channels, depth, platform)}),
        {"block": int(rest > 0), **product_s8(rest, channels, depth, platform)},
    )


def _widened(columns: int, depth: int, platform: Platform) -> Loops:
    """Columns of int8 to int16."""
    if not platform.dsp:
        return {"widened by 1": columns * depth}
    return {"widened by 4": columns * (depth // 4), "widened by 1": columns * (depth % 4)}
