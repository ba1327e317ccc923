"""Loop counts: how many times a kernel repeats the loops whose executed instructions are counted.

The module contains what the loop rules of the families share:

- LoopCounts, and functions that multiply and add the counts of nested loops.
- The loops of the C library's memcpy, memset and memmove, by the alignment of their addresses. They follow newlib's
  implementations for Cortex-M. memcpy on ARMv7-M and ARMv8-M copies 64, 16 and 4 bytes at a time, at any alignment; on
  ARMv6-M it copies byte by byte if an address is not aligned or if fewer than 16 bytes are copied. One list of loops
  serves both; the loops that a core does not have get no instructions ("wide copies" and "copied bytes" are those of
  ARMv6-M). Tensors begin at multiples of 16, so an address is as well aligned as its offset in the tensor.
- The loops of TFLM's broadcast: as many nested loops as the shapes require. Source: broadcast_loop.h and select.h,
  which go through the dimensions from the last one, and join a dimension to the previous loop if every operand
  continues with the same step.
- Loops over elements, which nearly all elementwise kernels have.
- Expectations about the values of a tensor, which are unknown, for kernels whose instructions depend on them. A kernel
  may round negative numbers with instructions other than those for positive ones, or skip saturated values. A constant
  is evaluated. Another quantized tensor is assumed to be normally distributed around zero, with a standard deviation
  of a sixth of its type's range; one that cannot be negative, like the positive half of that.
- The windows of a convolution: where they start, and how many of their elements are inside the image.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import pi, prod, sqrt
from struct import iter_unpack
from typing import TYPE_CHECKING

from edgetool.model.types import DType, Graph, Tensor
from edgetool.operators.call import Call, integer_option, require, scale, zero_point

if TYPE_CHECKING:
    from statistics import NormalDist

# Rules iterate along the sides of images and the windows on them. No device supports as many steps as this, and with a
# larger limit, a file could keep edgetool busy for any length of time.
MAX_STEPS = 2**18


class TooLongError(Exception):
    """Counting the loops of an operator would take too many steps."""


def check_steps(steps: int) -> None:
    """Raise TooLongError if an iteration over this many steps would take too long; call it before the iteration."""
    if steps > MAX_STEPS:
        raise TooLongError


@dataclass(frozen=True, slots=True)
class LoopCounts:
    """The loop counts of one run of one operator's kernel; its executed instructions are linear in them.

    path: the name of the code that runs ("int8 1x1"). loops: how many times each of its loops iterates. The
    instructions per iteration are data, by core, kernel set, operator, path and loop; each path also has a "call",
    which is counted once. gives_up: the kernel returns an error that a release build of TFLM ignores, and produces no
    result.
    """

    path: str
    loops: Mapping[str, int]
    gives_up: bool = False


LoopRule = Callable[[Call], LoopCounts]


Loops = Mapping[str, int]


def repeated(times: int, loops: Loops) -> dict[str, int]:
    """Return the counts of loops that are inside a loop with this many iterations."""
    return {name: times * inner for name, inner in loops.items()}


def combined(*parts: Loops) -> dict[str, int]:
    """Return the sum of loop counts. Loops with the same name are the same code."""
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


def prefixed(prefix: str, loops: Loops) -> dict[str, int]:
    """Return the loops with a prefix to their names, for a second compiled copy of the same code."""
    return {f"{prefix} {name}": count for name, count in loops.items()}


def nested(name: str, inner: Loops) -> dict[str, int]:
    """Return a loop that iterates once and its inner loops.

    Entering an inner loop takes instructions, as does each iteration.
    """
    entered = {f"{loop} entered": int(count > 0) for loop, count in inner.items()}
    return {name: 1, **prefixed(name, inner), **prefixed(name, entered)}


WORD, SHORT, BLOCK, LARGE_BLOCK = 4, 8, 16, 64


Offsets = Sequence[tuple[int, int]]


def memcpy_loops(size: int, *axes: Offsets) -> Loops:
    """Return the loops of memcpy calls of `size` bytes each, whose offsets form a grid.

    Args:
        axes: the (target, source) offsets along each axis; each copy is at the sum of one pair of offsets of every
            axis.
    """
    alignments = Counter({(0, 0): 1})
    for axis in axes:
        steps = Counter((target % WORD, source % WORD) for target, source in axis)
        sums: Counter[tuple[int, int]] = Counter()
        for (target, source), times in alignments.items():
            for (target_step, source_step), step_count in steps.items():
                sums[(target + target_step) % WORD, (source + source_step) % WORD] += times * step_count
        alignments = sums
    return combined(
        *(repeated(times, _aligned_memcpy_loops(size, *alignment)) for alignment, times in alignments.items())
    )


def strided_memcpy_loops(
    size: int, times: int, target: tuple[int, int] = (0, 0), source: tuple[int, int] = (0, 0)
) -> Loops:
    """Return the loops of `times` memcpy calls of `size` bytes each.

    Args:
        target: the first offset in the target, and the step from one copy to the next.
        source: the same for the source.
    """
    return combined(
        *(
            repeated(
                share,
                _aligned_memcpy_loops(
                    size, (target[0] + step * target[1]) % WORD, (source[0] + step * source[1]) % WORD
                ),
            )
            for step, share in alignment_period(times)
        )
    )


def dimension_loops(rank: int) -> Loops:
    """Return the loops over the axes of a shape; constructing a RuntimeShape from it copies one word per axis."""
    return {"axis": rank, "axis of few": rank if rank * WORD < BLOCK else 0}


def alignment_period(times: int) -> Iterator[tuple[int, int]]:
    """Yield steps until the alignments repeat, at most `times`, each with the number of steps of that alignment."""
    for step in range(min(times, WORD)):
        yield step, len(range(step, times, WORD))


def memset_loops(size: int, offset: int = 0) -> Loops:
    """Return the loops of a memset of `size` bytes at an offset."""
    head = min(-offset % WORD, size)
    rest = size - head
    return {
        "fills": 1,
        "filled heads": head,
        "wide fills": int(rest >= WORD),
        "filled 16 bytes": rest // BLOCK,
        "filled words": rest % BLOCK // WORD,
        "filled bytes": rest % WORD,
    }


def memmove_loops(size: int, target: int = 0, source: int = 0) -> Loops:
    """Return the loops of a memmove of `size` bytes to a lower address."""
    if size < BLOCK or (target | source) % WORD:
        return {"moves": 1, "moved bytes": size}
    return {
        "moves": 1,
        "moved 16 bytes": size // BLOCK,
        "moved words": size % BLOCK // WORD,
        "moved bytes": size % WORD,
    }


def _aligned_memcpy_loops(size: int, target: int, source: int) -> Loops:
    unaligned = bool(target or source)
    if unaligned and size < SHORT:
        return {
            "short uneven copies": 1,
            "copied one by one": max(size - WORD + 1, 0),
            **_tail_loops(size if size < WORD else 0),
            "copied bytes": size,
        }
    head = -target % WORD if target and source else 0
    rest = size - head
    return {
        "copies": 1,
        "uneven copies": int(unaligned),
        "copied heads": int(head > 0),
        "copied 64 bytes": rest // LARGE_BLOCK,
        "copied 16 bytes": rest % LARGE_BLOCK // BLOCK,
        "copied words": rest % BLOCK // WORD,
        **_tail_loops(rest % WORD),
        "wide copies": int(not unaligned and size >= BLOCK),
        "copied bytes": size if unaligned or size < BLOCK else 0,
    }


def _tail_loops(size: int) -> Loops:
    return {"copied tails": int(size > 0), "copied halfwords": size // 2}


Shape = tuple[int, ...]
MEMCPY_UNROLL = 4  # numbers that memcpy copies per iteration


@dataclass(frozen=True, slots=True)
class Level:
    """One loop of a broadcast.

    iterations: how many times it iterates. steps: each operand's step per iteration in elements; 0 if it is repeated.
    """

    iterations: int
    steps: tuple[int, ...]


def broadcast_levels(operands: Sequence[Shape], result: Shape) -> tuple[Level, ...]:
    """Return the nested loops of a broadcast, innermost first."""
    levels: list[Level] = []
    strides = [1] * len(operands)
    for result_size, *sizes in zip_longest(reversed(result), *(reversed(shape) for shape in operands), fillvalue=1):
        steps = tuple(0 if size == 1 != result_size else step for size, step in zip(sizes, strides, strict=True))
        if levels and (result_size == 1 or _continues(levels[-1], steps, strides)):
            levels[-1] = Level(levels[-1].iterations * result_size, levels[-1].steps)
        else:
            levels.append(Level(result_size, steps))
        strides = [step * size for step, size in zip(strides, sizes, strict=True)]
    return tuple(levels)


def _continues(inner: Level, steps: Sequence[int], strides: Sequence[int]) -> bool:
    return all(
        step == (0 if inner_step == 0 else expected)
        for inner_step, step, expected in zip(inner.steps, steps, strides, strict=True)
    )


def call_counts(levels: Sequence[Level]) -> tuple[int, int, int]:
    """Return the calls of the function that runs a loop: for the innermost loop, the one around it, and all others.

    The function calls itself for the inner loop.
    """
    counts = [prod(level.iterations for level in levels[depth:]) for depth in range(1, len(levels) + 1)]
    return (counts[0] if counts else 1), sum(counts[1:2]), sum(counts[2:])


def shape_copy_loops(*shapes: Shape) -> dict[str, int]:
    """Return the loops that copy shapes: short ones one dimension at a time, longer ones four at a time."""
    return {
        "own dimension": sum(map(len, shapes)),
        "short dimension": sum(len(shape) for shape in shapes if len(shape) < MEMCPY_UNROLL),
    }


def broadcast_setup_loops(shapes: Sequence[Shape], result: Shape, levels: Sequence[Level]) -> dict[str, int]:
    """Return the loops that set up a broadcast: shapes are copied, extended with ones, and then traversed.

    A dimension of size 1 is joined to another loop without reading the operands.
    """
    return {
        "dimension": max(map(len, (*shapes, result))),
        **shape_copy_loops(*shapes, result),
        "level": len(levels),
        "joined": max(sum(size != 1 for size in result) - len(levels), 0),
    }


def binary_loops(first: Shape, second: Shape, result: Shape) -> dict[str, int]:
    """Return the loops of a function of two operands that broadcasts.

    The innermost loop is a different one if an operand is repeated in it: that operand is then read once per row.
    """
    levels = broadcast_levels((first, second), result)
    rows, planes, blocks = call_counts(levels)
    kind = _innermost_kind(levels)
    return {
        **broadcast_setup_loops((first, second), result, levels),
        "block": blocks,
        "plane": planes,
        f"row of {kind}": rows,
        f"element of {kind}": prod(level.iterations for level in levels),
    }


def _innermost_kind(levels: Sequence[Level]) -> str:
    if not levels or all(levels[0].steps):
        return "both"
    return "the second" if levels[0].steps[0] == 0 else "the first"


def extend_shape(shape: Shape, rank: int) -> Shape:
    """Return the shape with leading ones up to a rank."""
    return (1,) * (rank - len(shape)) + shape


def equal_but_for_leading_ones(first: Shape, second: Shape) -> bool:
    """Return whether two shapes differ only in leading ones, so that ProcessBroadcastShapes finds no broadcast."""
    rank = max(len(first), len(second))
    return extend_shape(first, rank) == extend_shape(second, rank)


def dtype_name(call: Call) -> str:
    """Return the name of the first input's type, as used in paths."""
    return call.required_input(0).dtype.name.lower()


def elementwise_loops(call: Call, path: str, **loops: int) -> LoopCounts:
    """Return one loop over the elements of the result, after the shapes have been copied and traversed."""
    result = call.required_output()
    tensors = (*(call.input(position) for position in range(len(call.operator.inputs))), result)
    shapes = [tensor.shape for tensor in tensors if tensor is not None]
    return LoopCounts(path, {**shape_copy_loops(*shapes), "element": result.element_count, **loops})


def same_shape_loops(call: Call, path: str, **loops: int) -> LoopCounts:
    """Return the loops of a function of two operands that broadcasts unless the shapes are equal."""
    same = call.required_input(0).shape == call.required_input(1).shape
    return elementwise_loops(call, path, **loops) if same else broadcast_loops(call, path, **loops)


def similar_shape_loops(call: Call, path: str, **loops: int) -> LoopCounts:
    """Return the loops of a function of two operands that broadcasts unless the shapes differ only in leading ones."""
    same = equal_but_for_leading_ones(call.required_input(0).shape, call.required_input(1).shape)
    return elementwise_loops(call, path, **loops) if same else broadcast_loops(call, path, **loops)


def broadcast_loops(call: Call, path: str, **loops: int) -> LoopCounts:
    """Return the loops of a function of two operands that broadcasts them."""
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    return LoopCounts(f"{path} broadcast", {**binary_loops(first.shape, second.shape, result.shape), **loops})


MIN_VALUES = {DType.INT8: -128, DType.UINT8: 0, DType.INT16: -(2**15), DType.INT32: -(2**31)}
STRUCT_CODES = {DType.INT8: "b", DType.INT16: "h"}  # struct codes of the constants whose values are read
# Operators whose result consists of the values of their first input, and few others.
MOVEMENT_OPERATORS = (
    "BATCH_TO_SPACE_ND",
    "CONCATENATION",
    "DEPTH_TO_SPACE",
    "EXPAND_DIMS",
    "GATHER",
    "MIRROR_PAD",
    "PACK",
    "PAD",
    "PADV2",
    "RESHAPE",
    "RESIZE_NEAREST_NEIGHBOR",
    "SLICE",
    "SPACE_TO_BATCH_ND",
    "SPACE_TO_DEPTH",
    "SQUEEZE",
    "STRIDED_SLICE",
    "TRANSPOSE",
)
ZERO_CLAMPS = ("RELU", "RELU6")  # activations that replace negative numbers by 0
DEVIATIONS_IN_RANGE = 6
DEVIATIONS = {dtype: 2**dtype.bits / DEVIATIONS_IN_RANGE for dtype in STRUCT_CODES}
# Operators and fused activations.
NEVER_NEGATIVE = ("ABS", "LOGISTIC", "RELU", "RELU6", "SOFTMAX", "SQUARED_DIFFERENCE")


@dataclass(frozen=True, slots=True)
class Distribution:
    """The share of a tensor's values below zero, and the mean and standard deviation of the dequantized values."""

    negative: float
    mean: float
    deviation: float


def value_distribution(graph: Graph, tensor: Tensor) -> Distribution:
    """Return the distribution of the values of a tensor of the graph."""
    step, tensor_zero_point = scale(tensor) or 1.0, zero_point(tensor)
    if (contents := _dense_data(tensor)) and tensor.dtype in STRUCT_CODES:
        from statistics import fmean, pstdev  # imported on use: it is slow to import

        values = [value - tensor_zero_point for (value,) in iter_unpack(f"<{STRUCT_CODES[tensor.dtype]}", contents)]
        negative = sum(value < 0 for value in values) / len(values)
        return Distribution(negative, step * fmean(values), step * pstdev(values))
    deviation = step * 2**tensor.dtype.bits / DEVIATIONS_IN_RANGE
    # For some types, the zero point does not show that there are no negative values.
    if tensor_zero_point == MIN_VALUES.get(tensor.dtype) or _is_produced_by(graph, tensor, NEVER_NEGATIVE):
        return Distribution(0.0, deviation * sqrt(2 / pi), deviation * sqrt(1 - 2 / pi))
    return Distribution(0.5, 0.0, deviation)


def _dense_data(tensor: Tensor) -> bytes | None:
    """Return a constant's elements; None if it is sparse, since the file then contains only some of them."""
    return tensor.data if tensor.data and len(tensor.data) == tensor.size_bytes else None


def _is_produced_by(graph: Graph, tensor: Tensor, functions: tuple[str, ...]) -> bool:
    """Return whether one of these operators or fused activations produces the tensor.

    Operators that only move values are skipped.
    """
    for _ in graph.operators:
        producer = next((operator for operator in graph.operators if tensor.index in operator.outputs), None)
        if producer is None:
            break
        if producer.code not in MOVEMENT_OPERATORS or not producer.inputs or producer.inputs[0] < 0:
            fields = dict(producer.options.fields) if producer.options else {}
            return producer.code in functions or fields.get("fused_activation_function") in functions
        tensor = graph.tensors[producer.inputs[0]]
    return False


def zero_share(graph: Graph, tensor: Tensor) -> float:
    """Return the share of float values that are 0; software multiplication by 0 takes fewer steps.

    After a RELU, half of the values are assumed to be 0.
    """
    if tensor.dtype != DType.FLOAT32:
        return 0.0
    if contents := _dense_data(tensor):
        values = [value for (value,) in iter_unpack("<f", contents)]
        return values.count(0.0) / len(values)
    return 0.5 if _is_produced_by(graph, tensor, ZERO_CLAMPS) else 0.0


def _normal(mean: float, deviation: float) -> NormalDist:
    from statistics import NormalDist

    return NormalDist(mean, deviation)


def negative_sum_share(first: Distribution, second: Distribution) -> float:
    """Return the expected share of sums below zero."""
    if not first.negative and not second.negative:
        return 0.0
    mean, deviation = first.mean + second.mean, sqrt(first.deviation**2 + second.deviation**2)
    return _normal(mean, deviation).cdf(0) if deviation else float(mean < 0)


def negated(values: Distribution) -> Distribution:
    """Return the distribution of the negated values."""
    return Distribution(1 - values.negative, -values.mean, values.deviation)


def negative_count(call: Call, position: int = 0) -> int:
    """Return how many values of an input are expected to be below zero."""
    tensor = call.required_input(position)
    return round(tensor.element_count * value_distribution(call.graph, tensor).negative)


def share_within(radius: float, deviation: float = DEVIATIONS[DType.INT8]) -> float:
    """Return the expected share of values closer to zero than a radius.

    Radius and deviation are in quantization steps.
    """
    return 2 * _normal(0, deviation).cdf(radius) - 1


def count_near_largest(count: int, radius: int, deviation: float = DEVIATIONS[DType.INT8]) -> float:
    """Return how many of `count` values are expected to be at most `radius` steps below the largest, which is included.

    The largest value is assumed to be at its expectation (Blom's approximation).
    """
    if count < 1:
        return 0.0
    values = _normal(0, deviation)
    largest = values.inv_cdf((count - 0.375) / (count + 0.25))
    below = values.cdf(largest)
    # Compute the share first: it is at most 1, so that rounding cannot make it more than all of them.
    return 1 + (count - 1) * (1 - values.cdf(largest - radius - 0.5) / below)


def product_loops(call: Call, count: int, position: int = 0) -> Loops:
    """Return the multiplications by an input, with those by 0 counted separately."""
    zero_products = round(count * zero_share(call.graph, call.required_input(position)))
    return {"product": count - zero_products, "product of 0": zero_products}


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of an image, in elements; `pad` is the padding before the first one."""

    size: int
    kernel: int
    stride: int
    dilation: int
    outputs: int
    pad: int

    @property
    def starts(self) -> tuple[int, ...]:
        """Where the windows start: negative in the padding, and all equal if the file has no stride."""
        return tuple(at * self.stride - self.pad for at in range(self.outputs))

    @property
    def taps(self) -> int:
        """The number of elements of all windows."""
        return self.outputs * self.kernel

    @property
    def inside(self) -> int:
        """The number of elements of all windows that are inside the image."""
        return sum(map(self._inside, self.starts))

    @property
    def reached(self) -> int:
        """The number of windows with any element inside the image: all windows, except for some dilated ones."""
        return sum(self._inside(start) > 0 for start in self.starts)

    @property
    def before(self) -> int:
        """The number of elements of all windows that are before the image; the rest is inside or after it."""
        return sum(map(self._before, self.starts))

    def _before(self, start: int) -> int:
        return self._reaching(-start)

    def _inside(self, start: int) -> int:
        return self._reaching(self.size - start) - self._before(start)

    def _reaching(self, distance: int) -> int:
        """Return the number of elements of a window that are closer than `distance` to its first one."""
        if distance <= 0:
            return 0
        return min(self.kernel, -(-distance // self.dilation)) if self.dilation > 0 else self.kernel


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a convolution over one image, and its numbers of channels."""

    batch: int
    rows: Axis
    columns: Axis
    in_channels: int
    out_channels: int
    filter_channels: int

    @property
    def positions(self) -> int:
        """The number of windows of one image."""
        return self.rows.outputs * self.columns.outputs

    @property
    def kernel(self) -> int:
        """The number of elements of a window."""
        return self.rows.kernel * self.columns.kernel

    @property
    def taps(self) -> int:
        """The number of elements of all windows of one image."""
        return self.rows.taps * self.columns.taps

    @property
    def inside(self) -> int:
        """The number of elements of all windows of one image that are not in the padding."""
        return self.rows.inside * self.columns.inside

    @property
    def padded(self) -> bool:
        """Whether there is padding before the image."""
        return self.rows.pad != 0 or self.columns.pad != 0

    @property
    def dilated(self) -> bool:
        """Whether the elements of a window are not adjacent."""
        return self.rows.dilation != 1 or self.columns.dilation != 1


def convolution_windows(call: Call, source: Tensor, weights: Tensor, result: Tensor) -> Windows:
    """Return the windows of a convolution from `source` to `result`. Raises KernelRefusal if they are not images."""
    images = all(len(tensor.shape) == 4 for tensor in (source, weights, result))
    require(call, images and weights.shape[3] > 0, "requires images and filters with 4 dimensions")
    names = (("stride_h", "dilation_h_factor"), ("stride_w", "dilation_w_factor"))
    rows, columns = (
        window_axis(
            source.shape[i],
            weights.shape[i],
            integer_option(call, stride),
            integer_option(call, dilation, 1),
            result.shape[i],
        )
        for i, (stride, dilation) in enumerate(names, start=1)
    )
    return Windows(result.shape[0], rows, columns, source.shape[3], result.shape[3], weights.shape[3])


def window_axis(size: int, kernel: int, stride: int, dilation: int, outputs: int) -> Axis:
    """Return an axis with the padding that its outputs need: split evenly, with an odd element after.

    Source: ComputePaddingWithOffset (padding.h). An operator without options has strides of 0, which no kernel
    supports; they are counted as 1.
    """
    check_steps(outputs * kernel)
    stride = max(stride, 1)
    window = (kernel - 1) * dilation + 1
    pad = max((outputs - 1) * stride + window - size, 0) // 2
    return Axis(size, kernel, stride, dilation, outputs, pad)
