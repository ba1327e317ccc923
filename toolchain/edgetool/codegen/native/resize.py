"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR as native kernels.

Rows: image rows, whose input rows are a ratio of two integers; RESIZE_NEAREST_NEIGHBOR computes them in float32, and
where that differs from the ratio, an image is one row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgetool.codegen.native.movement import is_unused, whole_element
from edgetool.codegen.native.program import RowInput, Step, describe
from edgetool.codegen.native.selection import table_step
from edgetool.codegen.native.site import Array, Lowered, Lowering, Site
from edgetool.model.types import DType

ONE = 1 << 10  # the fixed-point unit of positions


def _modes(site: Site) -> tuple[bool, bool]:
    """Return whether the corners are aligned and whether pixels have their centers at halves; check the shapes."""
    source, output = site.input(0), site.output()
    sizes = site.constant(1).reshape(-1).tolist()
    site.require(
        output.shape == (source.shape[0], *sizes, source.shape[3]), "its output has another shape than it computes"
    )
    site.require(source.element_count > 0, "its input is empty")
    return bool(site.option("align_corners", False)), bool(site.option("half_pixel_centers", False))


def fixed_scale(size: int, result: int, *, align: bool, half: bool) -> tuple[int, int]:
    """Return the distance of two output positions in the input and the first position, in units of 1 / 1024.

    Source: ResizeBilinearInteger (resize_bilinear.h).
    """
    count, steps = (size - 1, result - 1) if align and result > 1 else (size, result)
    scale = (ONE * count + steps // 2) // steps
    return scale, scale // 2 - ONE // 2 if half else 0


def nearest(size: int, result: int, *, align: bool, half: bool) -> Array:
    """Return the input position of each output position (GetNearestNeighbor, resize_nearest_neighbor.h)."""
    count, steps = (size - 1, result - 1) if align and result > 1 else (size, result)
    scale = np.float32(count) / np.float32(steps)
    places = ((np.arange(result).astype(np.float32) + np.float32(0.5 if half else 0)) * scale).astype(np.float64)
    return np.minimum(np.floor(places + (0.5 if align else 0)).astype(np.int64), size - 1)


def nearest_ratio(size: int, result: int, *, align: bool, half: bool) -> tuple[int, int, int]:
    """Return (stride, pad, divisor): output position p reads floor((p * stride - pad) / divisor), without rounding."""
    count, steps = (size - 1, result - 1) if align and result > 1 else (size, result)
    stride, pad, divisor = 2 * count, -(count if half else 0) - (steps if align else 0), 2 * steps
    common = int(np.gcd.reduce([stride, pad, divisor]))
    return stride // common, pad // common, divisor // common


def _resize_nearest(site: Site) -> Iterator[Lowered]:
    align, half = _modes(site)
    source, index = site.input(0), site.operator.outputs[0]
    if is_unused(site, index):
        return
    batches, height, width, channels = source.shape
    _, rows, columns, _ = site.output().shape
    element = whole_element(site, source)
    pixel = channels * element
    y, x = (nearest(*sides, align=align, half=half) for sides in ((height, rows), (width, columns)))
    stride, pad, divisor = nearest_ratio(height, rows, align=align, half=half)
    row_bytes = width * pixel
    inner = [x * pixel, np.arange(pixel)]
    if np.array_equal(y, (np.arange(rows) * stride - pad) // divisor) and max(stride, divisor, -pad) < 2**15:
        image = RowInput(site.index(0), row_bytes, rows=height, stride=stride, pad=pad, divisor=divisor)
        yield table_step(site, index, image, inner, 1, rows=rows, batches=batches)
        return
    image = RowInput(site.index(0), height * row_bytes)
    yield table_step(site, index, image, [y * row_bytes, *inner], 1, batches=batches)


def _resize_bilinear(site: Site) -> Iterator[Lowered]:
    align, half = _modes(site)
    source, output, index = site.input(0), site.output(), site.operator.outputs[0]
    site.require(source.dtype is DType.INT8, f"{source.dtype.name} is not supported")
    if is_unused(site, index):
        return
    batches, height, width, channels = source.shape
    _, rows, columns, _ = output.shape
    scale_y, offset_y = fixed_scale(height, rows, align=align, half=half)
    scale_x, offset_x = fixed_scale(width, columns, align=align, half=half)
    last_y, last_x = (rows - 1) * scale_y + offset_y, (columns - 1) * scale_x + offset_x
    site.require(last_y < height * ONE and last_x < width * ONE, "TFLM reads outside its input")
    site.require(scale_y < 2**16, "it shrinks the height to less than a 64th")
    yield Step(
        operator=site.operator.index,
        kernel="edgetool_resize_bilinear_s8",
        op=describe(
            "edgetool_resize_bilinear_s8",
            scale_y=scale_y,
            offset_y=offset_y,
            scale_x=scale_x,
            offset_x=offset_x,
            input_width=width,
            output_width=columns,
            channels=channels,
        ),
        inputs=(
            RowInput(
                site.index(0),
                width * channels,
                rows=height,
                taps=2,
                stride=scale_y,
                dilation=ONE,
                pad=-offset_y,
                divisor=ONE,
            ),
        ),
        output=index,
        row_bytes=columns * channels,
        rows=rows,
        batches=batches,
    )


LOWERINGS: dict[str, Lowering] = {"RESIZE_BILINEAR": _resize_bilinear, "RESIZE_NEAREST_NEIGHBOR": _resize_nearest}
