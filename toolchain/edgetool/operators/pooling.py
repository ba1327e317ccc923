"""Pooling: Prepare and loop counts.

Sources of Prepare: pooling_common.cc, l2_pool_2d.cc and cmsis_nn/pooling.cc. Prepare does not detect a fused activation
whose range cannot be represented.

Sources of the loop counts: reference/pooling.h, reference/integer_ops/pooling.h, arm_avgpool_s8.c, arm_avgpool_s16.c,
arm_max_pool_s8.c, arm_max_pool_s16.c. Floats and L2_POOL_2D have no kernel in CMSIS-NN. The count varies by one
instruction, depending on which of two values is larger and on the sign of a sum; the mean is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edgetool.model.rules import windows
from edgetool.model.types import DType
from edgetool.operators import cmsis_nn
from edgetool.operators.call import (
    QUANTIZED_TYPES,
    Call,
    PrepareRule,
    Request,
    dimensions_copy,
    float32,
    input_rank,
    input_type,
    integer_option,
    output_rank,
    require,
    same_output_type,
    scale,
    scratch,
    zero_point,
)
from edgetool.operators.entry import entries
from edgetool.operators.loops import Axis, LoopCounts, LoopRule, Loops, Offsets, combined, memcpy_loops, window_axis
from edgetool.operators.overlap import (
    InputOverlap,
    OverlapRules,
    Window,
    channelwise_distance,
    pixelwise_distance,
    window_overlap,
)
from edgetool.operators.rows import RowRule, pooling_rows

SCALE_TOLERANCE = 1e-6


def _prepare_pool(call: Call) -> Iterator[Request]:
    source, result = call.required_input(0), call.required_output()
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    input_type(0, DType.FLOAT32, *QUANTIZED_TYPES)(call)
    if source.dtype in QUANTIZED_TYPES and call.platform.has("pooling-scales-checked"):
        same_scale = abs(float32(scale(source) - scale(result))) <= SCALE_TOLERANCE
        same_quantization = same_scale and zero_point(source) == zero_point(result)
        require(call, same_quantization, "requires an output quantized like the input")


def _prepare_average_pool(call: Call) -> Iterator[Request]:
    """Yield the requests of AVERAGE_POOL_2D; CMSIS-NN's kernel requests both tensors once more."""
    yield from _prepare_pool(call)
    if not call.platform.cmsis_nn:
        return
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    source, result = call.required_input(0), call.required_output()
    if source.dtype in QUANTIZED_TYPES:
        channels = min((*source.shape[3:4], *result.shape[3:4]), default=0)
        size = cmsis_nn.average_pool(channels, dsp=call.platform.dsp, mve=call.platform.mve)
        if size > 0:
            yield scratch("accumulators", size)


def _prepare_l2_pool(call: Call) -> Iterator[Request]:
    """Yield the requests of L2_POOL_2D, which computes the output's size; TFLM treats size 0 as a dynamic tensor."""
    yield from call.temporary_outputs(0)
    yield from call.temporary_inputs(0)
    for condition in (input_rank(0, 4), output_rank(0, 4), same_output_type, input_type(0, DType.FLOAT32)):
        condition(call)
    yield dimensions_copy(call.required_output())
    for dimension, side in ((1, "h"), (2, "w")):
        size = call.required_input(0).shape[dimension]
        window = integer_option(call, "filter_height" if side == "h" else "filter_width")
        stride = integer_option(call, f"stride_{side}")
        output_size = windows(call.option("padding"), size, window, stride) if min(window, stride) > 0 else 0
        require(call, output_size > 0, f"cannot produce an output from {size} elements with a window of {window}")


PREPARE: dict[str, PrepareRule] = {
    "AVERAGE_POOL_2D": _prepare_average_pool,
    "L2_POOL_2D": _prepare_l2_pool,
    "MAX_POOL_2D": _prepare_pool,
}


VECTOR_BYTES = 16
WORD_BYTES = FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Pool:
    """A pooling operator: its batches, the windows along both sides, its channels and the bytes of an element."""

    batches: int
    down: Axis
    across: Axis
    channels: int
    element_bytes: int

    @property
    def output_rows(self) -> int:
        """The number of rows of the output."""
        return self.batches * self.down.outputs

    @property
    def pixels(self) -> int:
        """The number of pixels of the output, which is also that of the windows."""
        return self.batches * self.down.outputs * self.across.outputs

    @property
    def window_rows(self) -> int:
        """The number of rows of all windows that are inside the image."""
        return self.batches * self.down.inside * self.across.outputs

    @property
    def window_pixels(self) -> int:
        """The number of pixels of all windows that are inside the image."""
        return self.batches * self.down.inside * self.across.inside

    @property
    def pixel_bytes(self) -> int:
        """The bytes of all channels of a pixel."""
        return self.channels * self.element_bytes

    @property
    def vectors(self) -> int:
        """The number of vectors of a pixel."""
        return -(-self.pixel_bytes // VECTOR_BYTES)

    @property
    def batch_bytes(self) -> int:
        """The bytes of the output of one image."""
        return self.down.outputs * self.across.outputs * self.pixel_bytes


def _pool_of(call: Call) -> Pool:
    """Return the pooling of the call.

    Raises KernelRefusal if the tensors are not images: the kernel does not check this, and would go out of bounds.
    """
    for check in (input_rank(0, 4), output_rank(0, 4)):
        check(call)
    source, result = call.required_input(0), call.required_output()
    down, across = (
        window_axis(
            source.shape[dimension],
            integer_option(call, window),
            integer_option(call, stride),
            1,
            result.shape[dimension],
        )
        for dimension, window, stride in ((1, "filter_height", "stride_h"), (2, "filter_width", "stride_w"))
    )
    return Pool(result.shape[0], down, across, result.shape[3], source.dtype.bits // 8)


def _each_output(pool: Pool) -> Loops:
    """Return the loops of a kernel that iterates over the window of each element of the output."""
    exact = _powers_of_two(pool.down) * _powers_of_two(pool.across) * pool.batches
    return {
        "line": pool.output_rows,
        "pixel": pool.pixels,
        "output": pool.pixels * pool.channels,
        # Without a floating-point unit, division by a power of two takes fewer instructions.
        "long division": (pool.pixels - exact) * pool.channels * (pool.element_bytes == FLOAT_BYTES),
        "window row": pool.window_rows * pool.channels,
        "window element": pool.window_pixels * pool.channels,
    }


def _powers_of_two(side: Axis) -> int:
    """Return how many windows along a side have a power-of-two number of elements inside the image."""
    sizes = (min(start + side.kernel, side.size) - max(start, 0) for start in side.starts)
    return sum(size.bit_count() == 1 for size in sizes)


def _each_output_unclipped(pool: Pool) -> Loops:
    """Return the loops of a kernel that iterates over the whole window of each element, and checks every position."""
    outputs = pool.pixels * pool.channels
    return {
        "line": pool.output_rows,
        "pixel": pool.pixels,
        "output": outputs,
        "whole window row": outputs * pool.down.kernel,
        "whole window element": outputs * pool.down.kernel * pool.across.kernel,
        "window element": pool.window_pixels * pool.channels,
    }


def _each_pixel(pool: Pool) -> Loops:
    """Return the loops of a kernel that copies the first pixel of a window, and sums all channels together."""
    return {
        "line": pool.output_rows,
        "pixel": pool.pixels,
        "window row": pool.window_rows,
        "window place": pool.window_pixels,
        "output": pool.pixels * pool.channels,
        "window element": pool.window_pixels * pool.channels,
    }


def _each_vector(pool: Pool) -> Loops:
    """Return the loops of a kernel that iterates over the window of each vector of channels."""
    return {
        "line": pool.output_rows,
        "pixel": pool.pixels,
        "vector": pool.pixels * pool.vectors,
        "window row": pool.window_rows * pool.vectors,
        "window vector": pool.window_pixels * pool.vectors,
    }


def _vector_maximum(pool: Pool) -> Loops:
    """Return the loops of a kernel that copies the first pixel of a window, and compares the others with it.

    int16 is copied by the C library.
    """
    others = pool.window_pixels - pool.pixels
    by_vector = {"copied vector": pool.pixels * pool.vectors}
    return combined(
        {
            "line": pool.output_rows,
            "pixel": pool.pixels,
            "window row": pool.window_rows,
            "compared place": others,
            "compared vector": others * pool.vectors,
            "clamped vector": pool.batches * -(-pool.batch_bytes // VECTOR_BYTES),
        },
        by_vector if pool.element_bytes == 1 else memcpy_loops(pool.pixel_bytes, *_first_offsets(pool)),
    )


def _scalar_maximum(pool: Pool) -> Loops:
    """Return the loops of a kernel that copies the first pixel of a window, and compares the others word by word."""
    others = pool.window_pixels - pool.pixels
    words, rest = divmod(pool.pixel_bytes, WORD_BYTES)
    clamped, single = divmod(pool.batch_bytes, WORD_BYTES)
    return combined(
        {
            "line": pool.output_rows,
            "pixel": pool.pixels,
            "window row": pool.window_rows,
            "compared place": others,
            "compared words": others * (words > 0),
            "compared word": others * words,
            "compared elements": others * (rest > 0),
            "compared element": others * (rest // pool.element_bytes),
            "clamped word": pool.batches * clamped,
            "clamped element": pool.batches * (single // pool.element_bytes),
        },
        memcpy_loops(pool.pixel_bytes, *_first_offsets(pool)),
    )


def _first_offsets(pool: Pool) -> tuple[Offsets, Offsets, Offsets]:
    """Return the offsets of output pixels and of their windows' first pixels, for images, rows and columns."""
    size, output_width, width = pool.pixel_bytes, pool.across.outputs, pool.across.size
    return (
        [(position * pool.batch_bytes, position * pool.down.size * width * size) for position in range(pool.batches)],
        [(position * output_width * size, max(top, 0) * width * size) for position, top in enumerate(pool.down.starts)],
        [(position * size, max(left, 0) * size) for position, left in enumerate(pool.across.starts)],
    )


PoolLoops = Callable[[Pool], Loops]


def _loop_rule(vector: PoolLoops, dsp: PoolLoops, plain: dict[DType, PoolLoops]) -> LoopRule:
    """Return the loop rule of an operator, given CMSIS-NN's loops.

    Args:
        vector: the loops with MVE.
        dsp: the loops with the DSP extension.
        plain: the loops with neither, by type; other types run the reference kernel.
    """

    def rule(call: Call) -> LoopCounts:
        dtype, pool, build = call.required_input(0).dtype, _pool_of(call), call.platform
        if not build.cmsis_nn or dtype not in plain:
            return LoopCounts(dtype.name.lower(), _each_output(pool))
        loops = vector if build.mve else dsp if build.dsp else plain[dtype]
        return LoopCounts(f"{dtype.name.lower()} CMSIS-NN", loops(pool))

    return rule


LOOPS: dict[str, LoopRule] = {
    "AVERAGE_POOL_2D": _loop_rule(
        _each_vector, _each_pixel, {DType.INT8: _each_output_unclipped, DType.INT16: _each_output}
    ),
    "L2_POOL_2D": _loop_rule(_each_output, _each_output, {}),
    "MAX_POOL_2D": _loop_rule(
        _vector_maximum, _scalar_maximum, {DType.INT8: _scalar_maximum, DType.INT16: _scalar_maximum}
    ),
}


def _window(call: Call) -> Window:
    pool, source = _pool_of(call), call.required_input(0)
    return Window(
        batches=pool.batches,
        height=pool.down.size,
        width=pool.across.size,
        channels=source.shape[3],
        output_height=pool.down.outputs,
        output_width=pool.across.outputs,
        output_channels=pool.channels,
        taps_y=pool.down.kernel,
        taps_x=pool.across.kernel,
        stride_y=pool.down.stride,
        stride_x=pool.across.stride,
        pad_y=pool.down.pad,
        pad_x=pool.across.pad,
    )


def _reference_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input: one output is computed after another (reference/pooling.h, reference/integer_ops/pooling.h)."""
    yield from window_overlap(call, _window(call), channelwise_distance)


def _cmsis_average_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input of int8: arm_avgpool_s8 sums a pixel, or 16 channels of it, before it writes them."""
    if cmsis_nn.has_certified_order(call):
        yield from window_overlap(call, _window(call), channelwise_distance)


def _cmsis_maximum_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input of int8: arm_max_pool_s8 copies a window's first pixel to the output, and compares the others."""
    if cmsis_nn.has_certified_order(call):
        yield from window_overlap(call, _window(call), pixelwise_distance)


OVERLAPS: dict[str, OverlapRules] = {
    "AVERAGE_POOL_2D": {"reference": _reference_overlap, "cmsis-nn": _cmsis_average_overlap},
    "L2_POOL_2D": {"reference": _reference_overlap},
    "MAX_POOL_2D": {"reference": _reference_overlap, "cmsis-nn": _cmsis_maximum_overlap},
}
ROWS: dict[str, RowRule] = dict.fromkeys(OVERLAPS, pooling_rows)


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, overlaps=OVERLAPS, rows=ROWS)
