"""Pooling: MACs, Prepare, loop counts and bounds.

Sources of Prepare: pooling_common.cc, l2_pool_2d.cc and cmsis_nn/pooling.cc. A range that the fused activation cannot
have is not noticed here.

Sources of the loop counts: reference/pooling.h, reference/integer_ops/pooling.h, arm_avgpool_s8.c, arm_avgpool_s16.c,
arm_max_pool_s8.c, arm_max_pool_s16.c. Floats and L2_POOL_2D have no kernel in CMSIS-NN. Which of two values is larger,
and the sign of a sum, cost an instruction more or less: the mean is counted.
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

SCALE_TOLERANCE = 1e-6


def _prepare_pool(call: Call) -> Iterator[Request]:
    source, result = call.required_input(0), call.required_output()
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    input_type(0, DType.FLOAT32, *QUANTIZED_TYPES)(call)
    if source.dtype in QUANTIZED_TYPES:
        near = abs(float32(scale(source) - scale(result))) <= SCALE_TOLERANCE
        alike = near and zero_point(source) == zero_point(result)
        require(call, alike, "requires an output quantized like the input")


def _prepare_average_pool(call: Call) -> Iterator[Request]:
    """CMSIS-NN's looks at both tensors once more."""
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
    """The output's size is calculated; one of 0 is taken for a dynamic tensor."""
    yield from call.temporary_outputs(0)
    yield from call.temporary_inputs(0)
    for condition in (input_rank(0, 4), output_rank(0, 4), same_output_type, input_type(0, DType.FLOAT32)):
        condition(call)
    yield dimensions_copy(call.required_output())
    for dimension, side in ((1, "h"), (2, "w")):
        size = call.required_input(0).shape[dimension]
        window = integer_option(call, "filter_height" if side == "h" else "filter_width")
        stride = integer_option(call, f"stride_{side}")
        made = windows(call.option("padding"), size, window, stride) if min(window, stride) > 0 else 0
        require(call, made > 0, f"cannot produce an output from {size} elements with a window of {window}")


PREPARE: dict[str, PrepareRule] = {
    "AVERAGE_POOL_2D": _prepare_average_pool,
    "L2_POOL_2D": _prepare_l2_pool,
    "MAX_POOL_2D": _prepare_pool,
}


VECTOR_BYTES = 16
WORD_BYTES = FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Pool:
    """A pooling: its images, the windows down and across, and the elements of a pixel."""

    batches: int
    down: Axis
    across: Axis
    channels: int
    element_bytes: int

    @property
    def lines(self) -> int:
        """The rows of the output."""
        return self.batches * self.down.outputs

    @property
    def pixels(self) -> int:
        """The pixels of the output, and so the windows."""
        return self.batches * self.down.outputs * self.across.outputs

    @property
    def rows(self) -> int:
        """The rows of all windows that lie inside the image."""
        return self.batches * self.down.inside * self.across.outputs

    @property
    def places(self) -> int:
        """The pixels of all windows that lie inside the image."""
        return self.batches * self.down.inside * self.across.inside

    @property
    def pixel_bytes(self) -> int:
        """The bytes of all channels of a pixel."""
        return self.channels * self.element_bytes

    @property
    def vectors(self) -> int:
        """The vectors of a pixel."""
        return -(-self.pixel_bytes // VECTOR_BYTES)

    @property
    def batch_bytes(self) -> int:
        """The bytes that one image becomes."""
        return self.down.outputs * self.across.outputs * self.pixel_bytes


def _pool_of(call: Call) -> Pool:
    """Raises KernelRefusal for other than images: the kernel does not ask, and would run wild."""
    for fits in (input_rank(0, 4), output_rank(0, 4)):
        fits(call)
    source, result = call.required_input(0), call.required_output()
    down, across = (
        window_axis(source.shape[at], integer_option(call, window), integer_option(call, stride), 1, result.shape[at])
        for at, window, stride in ((1, "filter_height", "stride_h"), (2, "filter_width", "stride_w"))
    )
    return Pool(result.shape[0], down, across, result.shape[3], source.dtype.bits // 8)


def _each_output(pool: Pool) -> Loops:
    """Every element of the output walks through its own window."""
    whole = _powers_of_two(pool.down) * _powers_of_two(pool.across) * pool.batches
    return {
        "line": pool.lines,
        "pixel": pool.pixels,
        "output": pool.pixels * pool.channels,
        # Without a floating-point unit, it takes longer to divide by other numbers than powers of two.
        "long division": (pool.pixels - whole) * pool.channels * (pool.element_bytes == FLOAT_BYTES),
        "window row": pool.rows * pool.channels,
        "window element": pool.places * pool.channels,
    }


def _powers_of_two(side: Axis) -> int:
    """The windows along a side that are so long inside the image."""
    sizes = (min(start + side.kernel, side.size) - max(start, 0) for start in side.starts)
    return sum(size.bit_count() == 1 for size in sizes)


def _each_output_unclipped(pool: Pool) -> Loops:
    """The same, but through the whole window, whose every place is checked."""
    outputs = pool.pixels * pool.channels
    return {
        "line": pool.lines,
        "pixel": pool.pixels,
        "output": outputs,
        "whole window row": outputs * pool.down.kernel,
        "whole window element": outputs * pool.down.kernel * pool.across.kernel,
        "window element": pool.places * pool.channels,
    }


def _each_pixel(pool: Pool) -> Loops:
    """All channels of a pixel are summed together; the first pixel under the window is copied."""
    return {
        "line": pool.lines,
        "pixel": pool.pixels,
        "window row": pool.rows,
        "window place": pool.places,
        "output": pool.pixels * pool.channels,
        "window element": pool.places * pool.channels,
    }


def _each_vector(pool: Pool) -> Loops:
    """Every vector of channels walks through the window."""
    return {
        "line": pool.lines,
        "pixel": pool.pixels,
        "vector": pool.pixels * pool.vectors,
        "window row": pool.rows * pool.vectors,
        "window vector": pool.places * pool.vectors,
    }


def _vector_maximum(pool: Pool) -> Loops:
    """The first pixel under a window is copied, int16 by the C library; the others are compared with it."""
    others = pool.places - pool.pixels
    by_vector = {"copied vector": pool.pixels * pool.vectors}
    return combined(
        {
            "line": pool.lines,
            "pixel": pool.pixels,
            "window row": pool.rows,
            "compared place": others,
            "compared vector": others * pool.vectors,
            "clamped vector": pool.batches * -(-pool.batch_bytes // VECTOR_BYTES),
        },
        by_vector if pool.element_bytes == 1 else memcpy_loops(pool.pixel_bytes, *_first_offsets(pool)),
    )


def _scalar_maximum(pool: Pool) -> Loops:
    """The first pixel under a window is copied, the others are compared with it word by word."""
    others = pool.places - pool.pixels
    words, rest = divmod(pool.pixel_bytes, WORD_BYTES)
    clamped, single = divmod(pool.batch_bytes, WORD_BYTES)
    return combined(
        {
            "line": pool.lines,
            "pixel": pool.pixels,
            "window row": pool.rows,
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
    """The offsets of the pixels of the output and of the first pixel of the window of each: images, rows, columns."""
    size, made, width = pool.pixel_bytes, pool.across.outputs, pool.across.size
    return (
        [(at * pool.batch_bytes, at * pool.down.size * width * size) for at in range(pool.batches)],
        [(at * made * size, max(top, 0) * width * size) for at, top in enumerate(pool.down.starts)],
        [(at * size, max(left, 0) * size) for at, left in enumerate(pool.across.starts)],
    )


PoolLoops = Callable[[Pool], Loops]


def _loop_rule(vector: PoolLoops, dsp: PoolLoops, plain: dict[DType, PoolLoops]) -> LoopRule:
    """The rule of an operator for which CMSIS-NN has code for vectors, the DSP extension, and neither, by type."""

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


OPERATORS = entries(prepare=PREPARE, loops=LOOPS)
