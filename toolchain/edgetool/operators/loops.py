"""What a kernel repeats while it runs one operator: the loops whose executed instructions are counted.

The words for a kernel's work.

Loops within loops: how their turns multiply and add up.

How often the loops of the C library's memcpy, memset and memmove turn, by the alignment of their addresses.

They follow newlib's for Cortex-M. memcpy on ARMv7-M and ARMv8-M goes through 64, 16 and 4 bytes at a time, at any
alignment; on ARMv6-M byte by byte where an address is not aligned or less than 16 bytes are copied. One list of loops
serves both: those that a core does not have fit to nothing
("wide copies" and "copied bytes" are ARMv6-M's). Tensors begin at multiples of 16, so that an address is as
well aligned as its offset in the tensor.

The loops of TFLM's broadcast: as many, one in the other, as the shapes cannot do without.

Source: broadcast_loop.h and select.h, which go through the dimensions from the last one and join a dimension to the
loop before it where every operand goes on in the same step.

Loops over elements, as nearly all kernels of single elements have them.

What values a tensor holds, where a kernel's instructions depend on them: expectations, since nobody knows.

A kernel may round a negative number with other instructions than a positive one, or leave out what is saturated. A
constant is taken as it is. Another quantized tensor is taken to be normal around zero, with a standard deviation of a
sixth of its type's range; one that cannot be negative, as the positive half of that.

The windows of a convolution: where they stand, and how many of their elements lie inside the image.
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

# Rules walk along the sides of images and the windows on them. More steps than these are more than any of these devices
# takes, and would keep us busy for as long as a file likes.
MAX_STEPS = 2**18


class TooLongError(Exception):
    """The work of an operator would take too many steps to count."""


def check_steps(steps: int) -> None:
    """To be called before a walk of so many steps. Raises TooLongError."""
    if steps > MAX_STEPS:
        raise TooLongError


@dataclass(frozen=True, slots=True)
class LoopCounts:
    """One run of one operator's kernel, in numbers that its executed instructions are linear in.

    path names the code that runs ("int8 1x1"); loops says how often each of its loops turns. The instructions that one
    turn takes are data, per core and kernel set, by operator, path and loop; each path also has a "call" that turns
    once. gives_up: the kernel returns an error that a release build of TFLM does not look at, and no result.
    """

    path: str
    loops: Mapping[str, int]
    gives_up: bool = False


LoopRule = Callable[[Call], LoopCounts]


Loops = Mapping[str, int]


def repeated(turns: int, loops: Loops) -> dict[str, int]:
    """The loops inside a loop that turns so often."""
    return {name: turns * inner for name, inner in loops.items()}


def combined(*parts: Loops) -> dict[str, int]:
    """The loops of one piece of code after the other; those of one name are the same code."""
    total: dict[str, int] = {}
    for part in parts:
        for name, turns in part.items():
            total[name] = total.get(name, 0) + turns
    return total


def prefixed(prefix: str, loops: Loops) -> dict[str, int]:
    """The loops with a word before their names: the same code compiled a second time."""
    return {f"{prefix} {name}": turns for name, turns in loops.items()}


def nested(name: str, inner: Loops) -> dict[str, int]:
    """A loop that turns once and those inside; going into one at all costs, as well as each turn."""
    entered = {f"{loop} entered": int(turns > 0) for loop, turns in inner.items()}
    return {name: 1, **prefixed(name, inner), **prefixed(name, entered)}


WORD, SHORT, BLOCK, LARGE_BLOCK = 4, 8, 16, 64


Offsets = Sequence[tuple[int, int]]


def memcpy_loops(size: int, *axes: Offsets) -> Loops:
    """memcpy of as many bytes from places on a grid: the sums of one pair of offsets (target, source) of each axis."""
    kinds = Counter({(0, 0): 1})
    for axis in axes:
        steps = Counter((target % WORD, source % WORD) for target, source in axis)
        sums: Counter[tuple[int, int]] = Counter()
        for (target, source), times in kinds.items():
            for (further, later), number in steps.items():
                sums[(target + further) % WORD, (source + later) % WORD] += times * number
        kinds = sums
    return combined(*(repeated(times, _aligned_memcpy_loops(size, *kind)) for kind, times in kinds.items()))


def strided_memcpy_loops(
    size: int, times: int, target: tuple[int, int] = (0, 0), source: tuple[int, int] = (0, 0)
) -> Loops:
    """So many copies of `size` bytes; target and source begin at the first offset and go on in steps of the second."""
    return combined(
        *(
            repeated(
                share,
                _aligned_memcpy_loops(
                    size, (target[0] + turn * target[1]) % WORD, (source[0] + turn * source[1]) % WORD
                ),
            )
            for turn, share in alignment_period(times)
        )
    )


def dimension_loops(rank: int) -> Loops:
    """What a kernel does with the axes of a shape; to take it as a RuntimeShape it copies a word of each."""
    return {"axis": rank, "axis of few": rank if rank * WORD < BLOCK else 0}


def alignment_period(times: int) -> Iterator[tuple[int, int]]:
    """Of so many even steps those before alignments repeat, after as many as a word has bytes; and how often each."""
    for turn in range(min(times, WORD)):
        yield turn, len(range(turn, times, WORD))


def memset_loops(size: int, offset: int = 0) -> Loops:
    """memset of as many bytes from an offset."""
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
    """memmove of as many bytes to a lower address."""
    if size < BLOCK or (target | source) % WORD:
        return {"moves": 1, "moved bytes": size}
    return {
        "moves": 1,
        "moved 16 bytes": size // BLOCK,
        "moved words": size % BLOCK // WORD,
        "moved bytes": size % WORD,
    }


def _aligned_memcpy_loops(size: int, target: int, source: int) -> Loops:
    uneven = bool(target or source)
    if uneven and size < SHORT:
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
        "uneven copies": int(uneven),
        "copied heads": int(head > 0),
        "copied 64 bytes": rest // LARGE_BLOCK,
        "copied 16 bytes": rest % LARGE_BLOCK // BLOCK,
        "copied words": rest % BLOCK // WORD,
        **_tail_loops(rest % WORD),
        "wide copies": int(not uneven and size >= BLOCK),
        "copied bytes": size if uneven or size < BLOCK else 0,
    }


def _tail_loops(size: int) -> Loops:
    return {"copied tails": int(size > 0), "copied halfwords": size // 2}


Shape = tuple[int, ...]
MEMCPY_UNROLL = 4  # numbers that memcpy copies in a turn


@dataclass(frozen=True, slots=True)
class Level:
    """A loop: its turns, and by how many elements each operand goes on in a turn; 0 for one that stands still."""

    iterations: int
    steps: tuple[int, ...]


def broadcast_levels(operands: Sequence[Shape], result: Shape) -> tuple[Level, ...]:
    """The loops, innermost first."""
    levels: list[Level] = []
    passed = [1] * len(operands)
    for made, *sizes in zip_longest(reversed(result), *(reversed(shape) for shape in operands), fillvalue=1):
        steps = tuple(0 if size == 1 != made else step for size, step in zip(sizes, passed, strict=True))
        if levels and (made == 1 or _continues(levels[-1], steps, passed)):
            levels[-1] = Level(levels[-1].iterations * made, levels[-1].steps)
        else:
            levels.append(Level(made, steps))
        passed = [step * size for step, size in zip(passed, sizes, strict=True)]
    return tuple(levels)


def _continues(inner: Level, steps: Sequence[int], passed: Sequence[int]) -> bool:
    return all(
        step == (0 if before == 0 else expected)
        for before, step, expected in zip(inner.steps, steps, passed, strict=True)
    )


def call_counts(levels: Sequence[Level]) -> tuple[int, int, int]:
    """How often the function that runs a loop is called: for the innermost, for that around it, for those further out.

    It calls itself for the loop inside.
    """
    deeper = [prod(level.iterations for level in levels[depth:]) for depth in range(1, len(levels) + 1)]
    return (deeper[0] if deeper else 1), sum(deeper[1:2]), sum(deeper[2:])


def shape_copy_loops(*shapes: Shape) -> dict[str, int]:
    """The dimensions of shapes that are copied: those of few are copied one by one, four at once."""
    return {
        "own dimension": sum(map(len, shapes)),
        "short dimension": sum(len(shape) for shape in shapes if len(shape) < MEMCPY_UNROLL),
    }


def broadcast_setup_loops(shapes: Sequence[Shape], result: Shape, levels: Sequence[Level]) -> dict[str, int]:
    """The loops that arrange the others: shapes are copied and filled up with ones, then gone through.

    A dimension of one is joined to another loop without a look at the operands.
    """
    return {
        "dimension": max(map(len, (*shapes, result))),
        **shape_copy_loops(*shapes, result),
        "level": len(levels),
        "joined": max(sum(size != 1 for size in result) - len(levels), 0),
    }


def binary_loops(first: Shape, second: Shape, result: Shape) -> dict[str, int]:
    """The loops of a function of two operands that broadcast.

    The innermost is another one where an operand stands still: there that operand is looked at once a row.
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
    """The shape with ones in front up to a rank."""
    return (1,) * (rank - len(shape)) + shape


def equal_but_for_leading_ones(first: Shape, second: Shape) -> bool:
    """Whether shapes are the same but for ones in front: no broadcast for ProcessBroadcastShapes."""
    rank = max(len(first), len(second))
    return extend_shape(first, rank) == extend_shape(second, rank)


def dtype_name(call: Call) -> str:
    """The type of the first input, as paths are named."""
    return call.required_input(0).dtype.name.lower()


def elementwise_loops(call: Call, path: str, **loops: int) -> LoopCounts:
    """One loop over the elements of the result; the shapes are copied and walked before."""
    result = call.required_output()
    tensors = (*(call.input(position) for position in range(len(call.operator.inputs))), result)
    shapes = [tensor.shape for tensor in tensors if tensor is not None]
    return LoopCounts(path, {**shape_copy_loops(*shapes), "element": result.element_count, **loops})


def same_shape_loops(call: Call, path: str, **loops: int) -> LoopCounts:
    """A function of two operands that takes only equal shapes for no broadcast."""
    same = call.required_input(0).shape == call.required_input(1).shape
    return elementwise_loops(call, path, **loops) if same else broadcast_loops(call, path, **loops)


def similar_shape_loops(call: Call, path: str, **loops: int) -> LoopCounts:
    """A function of two operands that takes shapes for equal up to ones in front."""
    same = equal_but_for_leading_ones(call.required_input(0).shape, call.required_input(1).shape)
    return elementwise_loops(call, path, **loops) if same else broadcast_loops(call, path, **loops)


def broadcast_loops(call: Call, path: str, **loops: int) -> LoopCounts:
    """The broadcast of a function of two operands."""
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    return LoopCounts(f"{path} broadcast", {**binary_loops(first.shape, second.shape, result.shape), **loops})


MIN_VALUES = {DType.INT8: -128, DType.UINT8: 0, DType.INT16: -(2**15), DType.INT32: -(2**31)}
STRUCT_CODES = {DType.INT8: "b", DType.INT16: "h"}  # of constants that are looked into
# Operators whose result holds the values of their first input, and little else.
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
ZERO_CLAMPS = ("RELU", "RELU6")  # what makes 0 of a negative number
DEVIATIONS_IN_RANGE = 6
DEVIATIONS = {dtype: 2**dtype.bits / DEVIATIONS_IN_RANGE for dtype in STRUCT_CODES}
NEVER_NEGATIVE = ("ABS", "LOGISTIC", "RELU", "RELU6", "SOFTMAX", "SQUARED_DIFFERENCE")  # operators and fused functions


@dataclass(frozen=True, slots=True)
class Distribution:
    """The values of a tensor: the share below zero, and mean and deviation of the numbers that they stand for."""

    negative: float
    mean: float
    deviation: float


def value_distribution(graph: Graph, tensor: Tensor) -> Distribution:
    """The values of a tensor of the graph."""
    own, zero = scale(tensor) or 1.0, zero_point(tensor)
    if (contents := _dense_data(tensor)) and tensor.dtype in STRUCT_CODES:
        from statistics import fmean, pstdev  # imported on use: it is slow to import

        values = [value - zero for (value,) in iter_unpack(f"<{STRUCT_CODES[tensor.dtype]}", contents)]
        negative = sum(value < 0 for value in values) / len(values)
        return Distribution(negative, own * fmean(values), own * pstdev(values))
    deviation = own * 2**tensor.dtype.bits / DEVIATIONS_IN_RANGE
    # The zero point does not tell of every type.
    if zero == MIN_VALUES.get(tensor.dtype) or _is_produced_by(graph, tensor, NEVER_NEGATIVE):
        return Distribution(0.0, deviation * sqrt(2 / pi), deviation * sqrt(1 - 2 / pi))
    return Distribution(0.5, 0.0, deviation)


def _dense_data(tensor: Tensor) -> bytes | None:
    """A constant's elements; None for a sparse one, of which the file has but some."""
    return tensor.data if tensor.data and len(tensor.data) == tensor.size_bytes else None


def _is_produced_by(graph: Graph, tensor: Tensor, functions: tuple[str, ...]) -> bool:
    """Whether the operator that makes it is one of these, or ends with one of these; what only moves values aside."""
    for _ in graph.operators:
        maker = next((operator for operator in graph.operators if tensor.index in operator.outputs), None)
        if maker is None:
            break
        if maker.code not in MOVEMENT_OPERATORS or not maker.inputs or maker.inputs[0] < 0:
            fields = dict(maker.options.fields) if maker.options else {}
            return maker.code in functions or fields.get("fused_activation_function") in functions
        tensor = graph.tensors[maker.inputs[0]]
    return False


def zero_share(graph: Graph, tensor: Tensor) -> float:
    """The share of float numbers that are 0: half of them behind a RELU. Software multiplies by 0 in fewer steps."""
    if tensor.dtype != DType.FLOAT32:
        return 0.0
    if contents := _dense_data(tensor):
        numbers = [number for (number,) in iter_unpack("<f", contents)]
        return numbers.count(0.0) / len(numbers)
    return 0.5 if _is_produced_by(graph, tensor, ZERO_CLAMPS) else 0.0


def _normal(mean: float, deviation: float) -> NormalDist:
    from statistics import NormalDist

    return NormalDist(mean, deviation)


def negative_sum_share(first: Distribution, second: Distribution) -> float:
    """The expected share of sums below zero."""
    if not first.negative and not second.negative:
        return 0.0
    mean, deviation = first.mean + second.mean, sqrt(first.deviation**2 + second.deviation**2)
    return _normal(mean, deviation).cdf(0) if deviation else float(mean < 0)


def negated(values: Distribution) -> Distribution:
    """The same with the other sign."""
    return Distribution(1 - values.negative, -values.mean, values.deviation)


def negative_count(call: Call, position: int = 0) -> int:
    """How many values of an input are expected below zero."""
    tensor = call.required_input(position)
    return round(tensor.element_count * value_distribution(call.graph, tensor).negative)


def share_within(radius: float, deviation: float = DEVIATIONS[DType.INT8]) -> float:
    """The expected share of values closer to zero than a radius, in steps of quantization as the deviation is."""
    return 2 * _normal(0, deviation).cdf(radius) - 1


def count_near_largest(count: int, radius: int, deviation: float = DEVIATIONS[DType.INT8]) -> float:
    """How many of so many values are expected at most `radius` steps below their largest, itself among them.

    The largest is taken where it is expected (Blom's approximation).
    """
    if count < 1:
        return 0.0
    values = _normal(0, deviation)
    largest = values.inv_cdf((count - 0.375) / (count + 0.25))
    below = values.cdf(largest)
    # The share first: it is at most 1, so that rounding cannot make it more than all of them.
    return 1 + (count - 1) * (1 - values.cdf(largest - radius - 0.5) / below)


def product_loops(call: Call, count: int, position: int = 0) -> Loops:
    """Multiplications with an input, those with 0 apart."""
    empty = round(count * zero_share(call.graph, call.required_input(position)))
    return {"product": count - empty, "product of 0": empty}


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of an image, in elements; `pad` lies in front of the first one."""

    size: int
    kernel: int
    stride: int
    dilation: int
    outputs: int
    pad: int

    @property
    def starts(self) -> tuple[int, ...]:
        """Where the windows start; below 0 in the padding, and all alike when the file has no stride."""
        return tuple(at * self.stride - self.pad for at in range(self.outputs))

    @property
    def taps(self) -> int:
        """The elements of all windows."""
        return self.outputs * self.kernel

    @property
    def inside(self) -> int:
        """The elements of all windows that lie inside the image."""
        return sum(map(self._inside, self.starts))

    @property
    def reached(self) -> int:
        """The windows of which any element lies inside the image: all, but for some dilated ones."""
        return sum(self._inside(start) > 0 for start in self.starts)

    @property
    def before(self) -> int:
        """The elements of all windows in front of the image; those neither there nor inside lie behind it."""
        return sum(map(self._before, self.starts))

    def _before(self, start: int) -> int:
        return self._reaching(-start)

    def _inside(self, start: int) -> int:
        return self._reaching(self.size - start) - self._before(start)

    def _reaching(self, distance: int) -> int:
        """The elements of a window less than a distance from its first."""
        if distance <= 0:
            return 0
        return min(self.kernel, -(-distance // self.dilation)) if self.dilation > 0 else self.kernel


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a convolution over one image, and the channels around it."""

    batch: int
    rows: Axis
    columns: Axis
    in_channels: int
    out_channels: int
    filter_channels: int

    @property
    def positions(self) -> int:
        """The windows of one image."""
        return self.rows.outputs * self.columns.outputs

    @property
    def kernel(self) -> int:
        """The elements of a window."""
        return self.rows.kernel * self.columns.kernel

    @property
    def taps(self) -> int:
        """The elements of all windows of one image."""
        return self.rows.taps * self.columns.taps

    @property
    def inside(self) -> int:
        """Those that do not lie in the padding."""
        return self.rows.inside * self.columns.inside

    @property
    def padded(self) -> bool:
        """Whether there is padding in front."""
        return self.rows.pad != 0 or self.columns.pad != 0

    @property
    def dilated(self) -> bool:
        """Whether the window's elements do not lie side by side."""
        return self.rows.dilation != 1 or self.columns.dilation != 1


def convolution_windows(call: Call, source: Tensor, weights: Tensor, result: Tensor) -> Windows:
    """The windows of a convolution from `source` to `result`. Raises KernelRefusal for other than images."""
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
    """An axis with what padding its outputs need: less in front than behind (ComputePaddingWithOffset, padding.h).

    An operator without options has strides of 0, with which no kernel gets far.
    """
    check_steps(outputs * kernel)
    stride = max(stride, 1)
    window = (kernel - 1) * dilation + 1
    pad = max((outputs - 1) * stride + window - size, 0) // 2
    return Axis(size, kernel, stride, dilation, outputs, pad)
