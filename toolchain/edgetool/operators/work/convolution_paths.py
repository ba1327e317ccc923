"""Which way CMSIS-NN's wrappers of convolutions with weights of 8 and 4 bits go, and the way that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from edgetool.operators.work.loops import Loops, repeated
from edgetool.operators.work.types import Work
from edgetool.operators.work.windows import Windows
from edgetool.target.platform import Platform

Way = Literal["pointwise", "one row", "windows"]
# From rows, channels, depth and build to the loops of a matrix product.
Product = Callable[[int, int, int, Platform], Loops]


def way_of(w: Windows, platform: Platform) -> Way:
    """arm_convolve_wrapper_s8.c and arm_convolve_wrapper_s4.c."""
    ungrouped = w.in_channels == w.filter_channels
    if w.kernel == 1 and not w.padded and not w.dilated and ungrouped:
        return "pointwise"
    flat = w.rows.size == w.rows.kernel == w.columns.dilation == 1
    if platform.mve and flat and ungrouped and w.columns.stride * w.in_channels % 4 == 0:
        return "one row"
    return "windows"


def pointwise(kind: str, product: Product, w: Windows, platform: Platform) -> Work:
    """The product of the image as it is; with a stride, row by row. kind begins the name of the path."""
    if w.rows.stride == w.columns.stride == 1:
        pixels = w.batch * w.rows.size * w.columns.size
        return Work(f"{kind} 1x1", product(pixels, w.out_channels, w.in_channels, platform))
    row = {"output row": 1, **product(w.columns.outputs, w.out_channels, w.in_channels, platform)}
    return Work(f"{kind} 1x1 strided", repeated(w.batch * w.rows.outputs, row))
