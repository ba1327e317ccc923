"""AVERAGE_POOL_2D and MAX_POOL_2D as native kernels.

A window that covers a whole image is one row. If rows of images stay apart, a window over all of them is computed from
sums of rows, if that takes less memory. Sources: pooling_common.cc and
integer_ops/pooling.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from edgetool.codegen.native.convolution import window_fields, window_of, window_rows
from edgetool.codegen.native.program import Step, StepOverlap, describe
from edgetool.codegen.native.site import RANGES, Lowering, Site, fused_range
from edgetool.codegen.native.sums import SummedRows, summed_rows_steps
from edgetool.model.rules import windows
from edgetool.model.types import DType
from edgetool.operators.overlap import Window, channelwise_distance

MAX_ROWS, MAX_PADDING = 2**16 - 1, 2**15 - 1  # of a RowInput
SUFFIXES = {DType.INT8: "s8", DType.INT16: "s16"}


def _window(site: Site) -> Window:
    """Return the window, after a check that it reads what TFLM's kernel reads, and at least one pixel for each output.

    The kernel divides the sum of a window by its number of pixels; it fails if there are none.
    """
    source, output = site.input(0), site.output()
    site.require(source.dtype in SUFFIXES and output.dtype is source.dtype, f"{source.dtype.name} is not supported")
    shapes = (source.shape, output.shape)
    site.require(all(len(shape) == 4 and all(shape) for shape in shapes), "a shape does not have 4 dimensions")
    taps_y, taps_x = site.option("filter_height", 0), site.option("filter_width", 0)
    strides = site.option("stride_h", 0), site.option("stride_w", 0)
    site.require(min(taps_y, taps_x, *strides) > 0, "its window or its stride is 0")
    padding = site.option("padding")
    sides = zip(source.shape[1:3], (taps_y, taps_x), strides, strict=True)
    expected = (source.shape[0], *(windows(padding, *side) for side in sides), source.shape[3])
    site.require(output.shape == expected, f"its output has the shape {output.shape}, not {expected}")
    window = window_of(site, taps_y, taps_x)
    fits = max(taps_y, window.stride_y) <= MAX_ROWS and window.pad_y <= MAX_PADDING
    site.require(fits, f"its window has {taps_y} rows")
    low, high = RANGES[source.dtype]
    site.require(taps_y * taps_x * (high - low) < 2**31, f"its window has {taps_y} x {taps_x} pixels")
    if window.output_height * window.output_width == 1 and not site.row_wise:
        return _whole_image(window)
    return window


def _whole_image(window: Window) -> Window:
    """Return the window of an image's only output with all pixels in one row, if it covers the whole image."""
    covers_rows = window.taps_y - window.pad_y >= window.height
    covers_columns = window.taps_x - window.pad_x >= window.width
    if not (covers_rows and covers_columns):
        return window
    pixels = window.height * window.width
    return replace(window, height=1, width=pixels, taps_y=1, taps_x=pixels, stride_y=1, pad_y=0, pad_x=0)


def _summed_rows(site: Site, window: Window) -> SummedRows | None:
    """Return how windows over the whole height are computed row by row; None if it is not possible, or saves nothing.

    All windows have the same number of pixels: either there is one, or all are inside the image.
    """
    covers_rows = window.output_height == 1 and window.taps_y - window.pad_y >= window.height
    end = (window.output_width - 1) * window.stride_x + window.taps_x - window.pad_x
    is_inside = window.output_width == 1 or (window.pad_x == 0 and end <= window.width)
    if not (site.can_add_rows and covers_rows and is_inside):
        return None
    channels = window.channels
    columns = min(window.taps_x - window.pad_x, window.width)
    summed = SummedRows(
        rows=window.height,
        row_bytes=window.width * channels,
        kept=((window.output_width, window.stride_x * channels), (channels, 1)),
        reduced=((1, 0), (columns, channels)),
    )
    return summed if summed.saves_memory else None


def _pool(kind: str) -> Lowering:
    def lowering(site: Site) -> Iterator[Step]:
        window, output = _window(site), site.output()
        kernel = f"edgetool_{kind}_pool_{SUFFIXES[output.dtype]}"
        low, high = fused_range(site, output)
        element = output.dtype.bits // 8
        summed = _summed_rows(site, window) if kind == "average" else None
        if summed is not None:
            pixels = summed.rows * summed.reduced[1][0]
            yield from summed_rows_steps(site, summed, pixels=pixels, low=low, high=high)
            return
        yield Step(
            operator=site.operator.index,
            kernel=kernel,
            op=describe(
                kernel,
                channels=window.channels,
                low=low,
                high=high,
                **window_fields(window),
            ),
            inputs=(window_rows(site.index(0), window, element),),
            output=site.operator.outputs[0],
            row_bytes=window.output_width * window.channels * element,
            rows=window.output_height,
            batches=window.batches,
            overlaps=(StepOverlap(0, channelwise_distance(window, element_bytes=element)),),
        )

    return lowering


LOWERINGS: dict[str, Lowering] = {"AVERAGE_POOL_2D": _pool("average"), "MAX_POOL_2D": _pool("max")}
