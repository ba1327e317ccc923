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

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

NEVER = 2**62  # a byte that is never read
MAX_PIXELS = 2**22  # of an output, for the distances that need some numbers for each; larger ones do not overlap


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


def _first_reads(window: Window) -> npt.NDArray[np.int64]:
    """Return the index of the first input pixel that each output pixel reads, NEVER if all its taps are outside."""
    first = _first_spread if window.transposed else _first_inside
    rows = first(window.output_height, window.height, window.taps_y, window.stride_y, window.dilation_y, window.pad_y)
    columns = first(window.output_width, window.width, window.taps_x, window.stride_x, window.dilation_x, window.pad_x)
    pixels = np.where((rows < NEVER)[:, None] & (columns < NEVER), rows[:, None] * window.width + columns, NEVER)
    starts = np.arange(window.batches, dtype=np.int64)[:, None] * (window.height * window.width)
    flat = pixels.reshape(1, -1)
    return np.where(flat < NEVER, starts + flat, NEVER).reshape(-1)


def _first_inside(outputs: int, side: int, taps: int, stride: int, dilation: int, pad: int) -> npt.NDArray[np.int64]:
    """Return the first position within 0 .. side - 1 that each window along one axis reads, NEVER if there is none."""
    starts = np.arange(outputs, dtype=np.int64) * stride - pad
    skipped = np.maximum(0, -(starts // dilation))
    first = starts + skipped * dilation
    return np.where((skipped < taps) & (first < side), first, NEVER)


def _first_spread(outputs: int, side: int, taps: int, stride: int, dilation: int, pad: int) -> npt.NDArray[np.int64]:
    """Return the first position within 0 .. side - 1 whose window contains each output, NEVER if there is none."""
    places = np.arange(outputs, dtype=np.int64) + pad
    first = np.maximum(0, -((taps - 1 - places) // stride))
    return np.where(first <= np.minimum(side - 1, places // stride), first, NEVER)


def conv_distance(window: Window, *, descending: bool = False, element_bytes: int = 1) -> int:
    """Return the distance in bytes for a kernel that computes pixel by pixel and reads all channels for each output.

    With `descending`, pixels are computed from the last to the first, and the result is the least value of
    offset(output) - offset(input); only pointwise operators support it.
    """
    pixels = window.batches * window.output_height * window.output_width
    if not pixels or not window.output_channels:
        return 0
    count, outputs = window.channels, window.output_channels
    if pixels > MAX_PIXELS:
        return pixels * (count if descending else outputs) * element_bytes
    if descending:
        # Pixel q writes q * outputs .. and the reads of pixels 0 .. q (q - 1 after its last channel) are outstanding.
        q = np.arange(pixels, dtype=np.int64)
        during = (q + 1) * count - q * outputs if outputs > 1 else np.full(1, -NEVER)
        after = q * count - (q * outputs + outputs - 1)
        return int(max(during.max(), after.max(), 0)) * element_bytes
    reads = _first_reads(window)
    later = np.minimum.accumulate(reads[::-1])[::-1]
    following = np.append(later[1:], NEVER)
    q = np.arange(pixels, dtype=np.int64)
    last_channel = (q + 1) * outputs - following * count
    distance = np.where(following < NEVER, last_channel, -NEVER).max()
    if outputs > 1:
        others = q * outputs + outputs - 1 - later * count
        distance = max(distance, np.where(later < NEVER, others, -NEVER).max())
    return int(distance) * element_bytes if distance > -NEVER else -pixels * outputs * element_bytes


def channelwise_distance(window: Window, *, element_bytes: int = 1) -> int:
    """Return the distance in bytes for a kernel that computes pixel by pixel, and reads one channel for each output.

    Each output channel reads only the input channels at output channel // (outputs / inputs): depthwise, pooling.
    """
    outputs, count = window.output_channels, window.channels
    pixels = window.batches * window.output_height * window.output_width
    if pixels > MAX_PIXELS:
        return pixels * outputs * element_bytes
    reads = _first_reads(window)
    if not reads.size or not outputs:
        return 0
    multiplier = outputs // count
    later = np.minimum.accumulate(reads[::-1])[::-1]
    following = np.append(later[1:], NEVER)
    q = np.arange(reads.size, dtype=np.int64)
    # After the last channel, pixels behind are outstanding from their first channel on.
    behind = np.where(following < NEVER, (q + 1) * outputs - following * count, -NEVER).max()
    # After output channel c, the next outputs still read the input's channels from (c + 1) // multiplier on.
    worst = max(c + 1 - (c + 1) // multiplier for c in range(outputs - 1)) if outputs > 1 else -NEVER
    within = np.where(reads < NEVER, q * outputs - reads * count + worst, -NEVER).max() if outputs > 1 else -NEVER
    distance = max(behind, within)
    return int(distance) * element_bytes if distance > -NEVER else -reads.size * outputs * element_bytes


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
    axis = (window.taps_y, window.stride_y, window.dilation_y, window.pad_y)
    rows = _first_inside(height, window.height, *axis)
    firsts = np.minimum.reduceat(rows, np.arange(0, height, band))
    ends = np.minimum(np.arange(band, height + band, band, dtype=np.int64), height)
    starts = np.arange(window.batches, dtype=np.int64)[:, None]
    reads = np.where(firsts < NEVER, starts * window.height + firsts, NEVER).reshape(-1)
    later = np.minimum.accumulate(reads[::-1])[::-1]
    written = (starts * height + ends).reshape(-1) * row
    distance = np.where(later < NEVER, written - later * (window.width * window.channels), -NEVER).max()
    total = window.batches * height * row
    return int(distance if distance > -NEVER else -total) * element_bytes


def elements_distance(firsts: npt.NDArray[np.int64], *, input_bytes: int = 1, output_bytes: int = 1) -> int:
    """Return the distance in bytes for a kernel that computes element by element.

    Args:
        firsts: The first input element that each output element reads.
        input_bytes: The size of an input element.
        output_bytes: The size of an output element, which is written at once.
    """
    if firsts.size < 2:
        return -firsts.size * output_bytes
    later = np.minimum.accumulate(firsts[:0:-1])[::-1]
    return int((np.arange(1, firsts.size) * output_bytes - later * input_bytes).max())


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
