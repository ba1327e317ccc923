"""How far apart an operator's output and an input that dies there must be, for kernels that write rows in order.

An output may share bytes with an input if no write destroys a byte that the kernel still reads. Let the kernel write
output bytes in ascending order, and let S(w) be the first input byte that is read after the write of output byte w.
The write is at offset(output) + w, so it destroys nothing if offset(output) + w < offset(input) + S(w). The distance
d = max over w of (w + 1 - S(w)) is therefore enough: offset(input) - offset(output) >= d. It is the smallest for
kernels that write every byte, because the maximum is attained. Bytes that are read before they are written need no
distance: 0 means in place, and a negative distance that the output may even start behind the input's first byte.

For kernels that compute pixel by pixel, S is the first input byte of the pixels that come after, R(q) the first input
pixel that output pixel q reads, and L(q) the least R of q and the pixels behind it; a pixel has C input or K output
channels, and is written channel by channel:

- If every output reads all channels (convolution; TRANSPOSE_CONV, whose R is the first input pixel that spreads to q;
  FULLY_CONNECTED, whose pixels are its rows), then S = L(q) * C before the last channel of q is written, and
  L(q + 1) * C afterwards. Hence d = max over q of (q * K + K - 1 - L(q) * C) and ((q + 1) * K - L(q + 1) * C). Groups
  read fewer channels, for which the distance is safe but not the smallest.
- If output channel k reads only input channel k * C // K (depthwise, pooling), then what q itself still reads after
  channel k is R(q) * C + (k + 1) * C // K, and what the pixels behind it read is L(q + 1) * C as before.
- If a kernel reads a whole pixel, or several, until all their channels are written (pooling that compares in the
  output; blocks of B pixels whose channels are written one after another), then S = L(q) * C while the B pixels from q
  on are written, and d = max over q of (min(q + B, pixels) * K - L(q) * C), wherever the blocks begin.
- If a kernel computes bands of output rows and may read its input rows until the last byte of a band is written
  (depthwise channel by channel), then S = F(b) * input row bytes during band b, where F(b) is the first input row that
  the band or one behind it reads. Hence d = max over b of (end of b * output row bytes - F(b) * input row bytes).
- If a pointwise kernel runs from the last pixel to the first, the pixels in front of q are outstanding. Their last byte
  is q * C - 1, that of q itself (q + 1) * C - 1, so that offset(output) - offset(input) must be at least the maximum of
  (q + 1) * C - q * K while q has channels left, and q * C - q * K - K + 1 for its last channel.
- If a kernel reads element i of r bytes at once, writes element i of w bytes, and so on, then i * (w - r) for i from 1
  to the number of elements less 1 is the distance for the bytes of all elements in front of i. So it is 0 for elements
  of the same size.
- If a kernel computes element by element, output element o reads the input from element F(o) on, and L(o) is the least
  F of o and the elements behind it, then S = L(o + 1) * input bytes after o is written with all its bytes at once, and
  d = max over o of ((o + 1) * output bytes - L(o + 1) * input bytes): reductions; softmax, with F(o) = o once the sum
  of a vector is known.

A simulation of all reads and writes confirms that these distances are safe and that one byte less is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Protocol

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import Call
from edgetool.target.types import Kernels

NEVER = 2**62  # a byte that is never read
KNOWN_GAPS = 1024  # of windows, which are the same in all forms of a program
KERNEL_SETS: tuple[Kernels, ...] = ("reference", "cmsis-nn", "esp-nn")
MAX_LINES = 2**18  # rows and columns of an output, which the formulas visit one by one; larger ones do not overlap


@dataclass(frozen=True, slots=True)
class InputOverlap:
    """An input, by position, that the first output of a TFLM kernel may overlap if nothing else needs the input.

    distance: the least offset(input) - offset(output) in bytes; None if the two may only have the same offset.
    """

    input: int
    distance: int | None


# Yields the inputs that the output may overlap; those that it does not yield must be elsewhere.
OverlapRule = Callable[[Call], Iterator[InputOverlap]]
OverlapRules = Mapping[Kernels, OverlapRule]


@dataclass(frozen=True, slots=True)
class Window:
    """The geometry of an operator that reads a window of pixels for each output pixel: sizes in pixels and channels.

    transposed: input pixels spread over windows of output pixels, TRANSPOSE_CONV: an output pixel at y reads the input
    pixels of which y + pad_y is between stride_y * pixel and stride_y * pixel + taps_y - 1. It has no dilation.
    """

    batches: int
    height: int
    width: int
    channels: int
    output_height: int
    output_width: int
    output_channels: int
    taps_y: int = 1
    taps_x: int = 1
    stride_y: int = 1
    stride_x: int = 1
    dilation_y: int = 1
    dilation_x: int = 1
    pad_y: int = 0
    pad_x: int = 0
    transposed: bool = False

    @property
    def is_pointwise(self) -> bool:
        """Whether each output pixel reads only the input pixel at its place."""
        sides = (self.taps_y, self.taps_x, self.stride_y, self.stride_x, self.pad_y + 1, self.pad_x + 1)
        same = (self.height, self.width) == (self.output_height, self.output_width)
        return same and sides == (1,) * len(sides)

    @property
    def pixel_step(self) -> int | None:
        """The pixels from the first tap of an output pixel to that of the next one, also of the next row or batch.

        None if that is not the same everywhere, if a pixel reads several rows, or if a tap is outside the input.
        """
        step = self.stride_x if self.output_width > 1 else self.width * self.stride_y
        are_even = (
            self.output_height == 1 or self.width * self.stride_y == self.output_width * step,
            self.batches == 1 or self.height * self.width == self.output_height * self.output_width * step,
        )
        last_x = (self.output_width - 1) * self.stride_x + (self.taps_x - 1) * self.dilation_x
        last_y = (self.output_height - 1) * self.stride_y
        is_inside = (self.pad_y, self.pad_x) == (0, 0) and last_x < self.width and last_y < self.height
        return step if self.taps_y == 1 and not self.transposed and is_inside and all(are_even) else None

    def flattened(self) -> Window:
        """Return the same operator with all pixels of all batches in one row, where the step of pixels permits it."""
        step = self.pixel_step
        if step is None:
            return self
        count = self.batches * self.output_height * self.output_width
        return replace(
            self,
            batches=1,
            height=1,
            width=self.batches * self.height * self.width,
            output_height=1,
            output_width=count,
            stride_y=1,
            stride_x=step if count > 1 else 1,
        )


def _is_large(window: Window) -> bool:
    return window.batches * window.output_height + window.output_width > MAX_LINES


def _axes(window: Window) -> tuple[list[int], list[int]]:
    """Return the first input row that each output row reads, and the first column; NEVER if all taps are outside."""
    first = _first_spread if window.transposed else _first_inside
    rows = first(window.output_height, window.height, window.taps_y, window.stride_y, window.dilation_y, window.pad_y)
    columns = first(window.output_width, window.width, window.taps_x, window.stride_x, window.dilation_x, window.pad_x)
    return rows, columns


def _first_inside(outputs: int, side: int, taps: int, stride: int, dilation: int, pad: int) -> list[int]:
    """Return the first position within 0 .. side - 1 that each window along one axis reads, NEVER if there is none."""
    result = []
    for start in range(-pad, outputs * stride - pad, stride):
        skipped = 0 if start >= 0 else -(start // dilation)
        first = start + skipped * dilation
        result.append(first if first < side and skipped < taps else NEVER)
    return result


def _first_spread(outputs: int, side: int, taps: int, stride: int, _dilation: int, pad: int) -> list[int]:
    """Return the first position within 0 .. side - 1 whose window contains each output, NEVER if there is none."""
    result = []
    for place in range(pad, outputs + pad):
        first = max(0, -((taps - 1 - place) // stride))
        result.append(first if first <= min(side - 1, place // stride) else NEVER)
    return result


def _suffix_minimum(values: Sequence[int]) -> list[int]:
    """Return the minimum of each value and those behind it."""
    return list(accumulate(reversed(values), min))[::-1]


@lru_cache(maxsize=KNOWN_GAPS)
def _maximum_gap(window: Window, first: int, last: int) -> int:
    """Return the maximum of q * outputs - L(q) * channels over the pixels q from first to last; -NEVER if L is NEVER.

    Within a row, L(q) is the smaller of what this row and the rows behind it read. Each is the sum of a term of the
    row and one of the column, so that their maxima are those of the terms: no loop runs over all pixels.
    """
    rows, columns = _axes(window)
    height, width, outputs, count = window.output_height, window.output_width, window.output_channels, window.channels
    behind = _suffix_minimum(columns)
    rows_behind = [*_suffix_minimum(rows), NEVER][1:]
    start = behind[0]
    lowest = min(rows) * window.width + start if min(rows) < NEVER and start < NEVER else NEVER
    terms = [x * outputs - behind[x] * count for x in range(width) if behind[x] < NEVER]
    whole = max(terms, default=-NEVER)
    result = -NEVER
    for batch in range(window.batches):
        image = batch * window.height * window.width
        following = image + window.height * window.width + lowest if batch + 1 < window.batches else NEVER
        for y, row in enumerate(rows):
            pixel = (batch * height + y) * width
            low, high = max(first - pixel, 0), min(last - pixel, width - 1)
            if low > high:
                continue
            if row < NEVER:
                # Behind `terms`, no window of a row is inside the input.
                best = whole if low == 0 and high == width - 1 else max(terms[low : high + 1], default=-NEVER)
                if best > -NEVER:
                    result = max(result, pixel * outputs - (image + row * window.width) * count + best)
            later = following
            if rows_behind[y] < NEVER and start < NEVER:
                later = image + rows_behind[y] * window.width + start
            if later < NEVER:
                result = max(result, (pixel + high) * outputs - later * count)
    return result


def _scaled(window: Window, distance: int, element_bytes: int) -> int:
    """Return a distance of elements in bytes; if nothing is outstanding when a byte is written, any offset is safe."""
    total = window.batches * window.output_height * window.output_width * window.output_channels
    return (distance if distance > -NEVER // 2 else -total) * element_bytes


@lru_cache(maxsize=KNOWN_GAPS)
def conv_distance(window: Window, *, descending: bool = False, element_bytes: int = 1) -> int:
    """Return the distance in bytes for a kernel that computes pixel by pixel and reads all channels for each output.

    With `descending`, pixels are computed from the last to the first, and the result is the least value of
    offset(output) - offset(input); only pointwise operators support it.
    """
    pixels = window.batches * window.output_height * window.output_width
    if not pixels or not window.output_channels:
        return 0
    count, outputs = window.channels, window.output_channels
    if _is_large(window):
        return pixels * (count if descending else outputs) * element_bytes
    if descending:
        # Pixel q writes q * outputs .. and the reads of pixels 0 .. q (q - 1 after its last channel) are outstanding.
        ends = (0, pixels - 1)
        during = max((q + 1) * count - q * outputs for q in ends) if outputs > 1 else 0
        after = max(q * count - (q * outputs + outputs - 1) for q in ends)
        return max(during, after, 0) * element_bytes
    # Before its last channel is written, a pixel's own reads are outstanding; afterwards those of the next one.
    gap = _maximum_gap(window, 0 if outputs > 1 else 1, pixels - 1)
    return _scaled(window, gap + outputs - 1, element_bytes)


def pixelwise_distance(window: Window, block: int = 1, *, element_bytes: int = 1) -> int:
    """Return the distance in bytes for a kernel that reads the inputs of a block of pixels until all are written.

    Args:
        window: The geometry.
        block: The most pixels of a block, which may begin anywhere.
        element_bytes: The size of an element.
    """
    pixels = window.batches * window.output_height * window.output_width
    if not pixels or not window.output_channels:
        return 0
    if _is_large(window):
        return pixels * window.output_channels * element_bytes
    block = min(block, pixels)
    gap = _maximum_gap(window, 0, pixels - block)
    return _scaled(window, gap + block * window.output_channels, element_bytes)


@lru_cache(maxsize=KNOWN_GAPS)
def channelwise_distance(window: Window, *, element_bytes: int = 1) -> int:
    """Return the distance in bytes for a kernel that computes pixel by pixel, and reads one channel for each output.

    Each output channel reads only the input channels at output channel // (outputs / inputs): depthwise, pooling.
    """
    outputs, count = window.output_channels, window.channels
    pixels = window.batches * window.output_height * window.output_width
    if not pixels or not outputs:
        return 0
    if _is_large(window):
        return pixels * outputs * element_bytes
    multiplier = outputs // count
    # After the last channel, pixels behind are outstanding from their first channel on.
    distance = _maximum_gap(window, 1, pixels - 1)
    if outputs > 1:
        # After output channel c, the next outputs still read the input's channels from (c + 1) // multiplier on.
        worst = max(c + 1 - (c + 1) // multiplier for c in range(outputs - 1))
        rows, columns = _axes(window)
        across = max((x * outputs - first * count for x, first in enumerate(columns) if first < NEVER), default=-NEVER)
        down = max(
            (
                (batch * window.output_height + y) * window.output_width * outputs
                - (batch * window.height + first) * window.width * count
                for batch in range(window.batches)
                for y, first in enumerate(rows)
                if first < NEVER
            ),
            default=-NEVER,
        )
        distance = max(distance, down + across + worst)
    return _scaled(window, distance, element_bytes)


def banded_distance(window: Window, band: int, *, element_bytes: int = 1) -> int:
    """Return the distance in bytes for a kernel that computes bands of rows, and reads rows until a band is complete.

    Args:
        window: The geometry.
        band: The number of output rows of a band; the last one of a batch can have fewer.
        element_bytes: The size of an element.
    """
    height, row = window.output_height, window.output_width * window.output_channels
    if not window.batches * height * row:
        return 0
    rows = _first_inside(height, window.height, window.taps_y, window.stride_y, window.dilation_y, window.pad_y)
    distance, later = -NEVER, NEVER
    for batch in reversed(range(window.batches)):
        for begin in reversed(range(0, height, band)):
            end = min(begin + band, height)
            first = min(rows[begin:end])
            if first < NEVER:
                later = min(later, batch * window.height + first)
            if later < NEVER:
                distance = max(distance, (batch * height + end) * row - later * window.width * window.channels)
    return _scaled(window, distance, element_bytes)


def elements_distance(firsts: Sequence[int], *, input_bytes: int = 1, output_bytes: int = 1) -> int:
    """Return the distance in bytes for a kernel that computes element by element.

    Args:
        firsts: The first input element that each output element reads.
        input_bytes: The size of an input element.
        output_bytes: The size of an output element, which is written at once.
    """
    if len(firsts) < 2:
        return -len(firsts) * output_bytes
    distance, later = -NEVER, NEVER
    for element in reversed(range(1, len(firsts))):
        later = min(later, firsts[element])
        distance = max(distance, element * output_bytes - later * input_bytes)
    return distance


def elementwise_distance(count: int, input_bytes: int, output_bytes: int) -> int:
    """Return the distance in bytes for a kernel that reads an element, writes its result, and goes on to the next.

    Args:
        count: The number of elements.
        input_bytes: The size of an input element.
        output_bytes: The size of an output element.
    """
    wider = output_bytes - input_bytes
    if count <= 1:
        return -count * output_bytes
    return (count - 1) * wider if wider > 0 else wider


# C lets a compiler assume that an object is not accessed through pointers to other types, except these.
BYTE_TYPES = (DType.INT8, DType.UINT8)
# Types of which the arena holds one after another, as the file declares them.
PLAIN_TYPES = (*BYTE_TYPES, DType.BOOL, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32)


def _may_share_bytes(source: Tensor, result: Tensor) -> bool:
    same = source.dtype == result.dtype or source.dtype in BYTE_TYPES or result.dtype in BYTE_TYPES
    return same and source.dtype in PLAIN_TYPES and result.dtype in PLAIN_TYPES


def elementwise_overlaps(*inputs: int, broadcast: bool = False) -> OverlapRules:
    """Return the rules of a kernel that computes element by element, or vector by vector, in every kernel set.

    A vector is read before it is written, so that fewer reads are outstanding than for single elements. An operand that
    is repeated must be elsewhere.

    Args:
        inputs: The positions of the operands.
        broadcast: Whether the kernel also keeps the order of elements if it repeats one of the operands.
    """

    def rule(call: Call) -> Iterator[InputOverlap]:
        result = call.required_output()
        operands = [(position, call.required_input(position)) for position in inputs]
        if not broadcast and any(tensor.shape != result.shape for _, tensor in operands):
            return
        for position, tensor in operands:
            if tensor.shape == result.shape and _may_share_bytes(tensor, result):
                sizes = tensor.dtype.bits // 8, result.dtype.bits // 8
                yield InputOverlap(position, elementwise_distance(result.element_count, *sizes))

    return dict.fromkeys(KERNEL_SETS, rule)


class WindowDistance(Protocol):
    """A function above: the distance in bytes for a window and the size of an element."""

    def __call__(self, window: Window, *, element_bytes: int = 1) -> int:
        """Return the distance."""


def window_overlap(call: Call, window: Window, distance: WindowDistance) -> Iterator[InputOverlap]:
    """Yield the first input, if it has the output's type and the file has all sizes and steps of the window."""
    source, result = call.required_input(0), call.required_output()
    sizes = (window.channels, window.stride_y, window.stride_x, window.dilation_y, window.dilation_x)
    if min(sizes) > 0 and source.dtype == result.dtype and source.dtype in PLAIN_TYPES:
        yield InputOverlap(0, distance(window, element_bytes=source.dtype.bits // 8))
