"""Distances between an output and the input that it overlaps, against a simulation of reads and writes in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from edgetool.operators.overlap import (
    Window,
    banded_distance,
    channelwise_distance,
    conv_distance,
    elements_distance,
    pixelwise_distance,
)

WINDOWS = 60


def _random_window(random: Random, *, transposed: bool = False) -> Window:
    taps_y, taps_x = random.randint(1, 4), random.randint(1, 4)
    return Window(
        batches=random.randint(1, 2),
        height=random.randint(1, 6),
        width=random.randint(1, 6),
        channels=random.randint(1, 3),
        output_height=random.randint(1, 6),
        output_width=random.randint(1, 6),
        output_channels=random.randint(1, 4),
        taps_y=taps_y,
        taps_x=taps_x,
        stride_y=random.randint(1, 3),
        stride_x=random.randint(1, 3),
        dilation_y=1 if transposed else random.randint(1, 2),
        dilation_x=1 if transposed else random.randint(1, 2),
        pad_y=random.randint(0, taps_y + 1),
        pad_x=random.randint(0, taps_x + 1),
        transposed=transposed,
    )


def _random_pointwise(random: Random) -> Window:
    height, width = random.randint(1, 4), random.randint(1, 4)
    channels, outputs = random.randint(1, 6), random.randint(1, 6)
    return Window(random.randint(1, 2), height, width, channels, height, width, outputs)


def _taps(window: Window, y: int, x: int) -> Iterator[tuple[int, int]]:
    """Yield the input pixels that an output pixel reads."""
    for ty, tx in product(range(window.taps_y), range(window.taps_x)):
        if window.transposed:
            at = (y + window.pad_y - ty, x + window.pad_x - tx)
            if at[0] % window.stride_y or at[1] % window.stride_x:
                continue
            row, column = at[0] // window.stride_y, at[1] // window.stride_x
        else:
            row = y * window.stride_y - window.pad_y + ty * window.dilation_y
            column = x * window.stride_x - window.pad_x + tx * window.dilation_x
        if 0 <= row < window.height and 0 <= column < window.width:
            yield row, column


def _accesses(window: Window, *, channelwise: bool = False, descending: bool = False) -> list[tuple[set[int], int]]:
    """Return, in the order of a kernel, the input elements read for each output element, and that element."""
    pixels = list(product(range(window.batches), range(window.output_height), range(window.output_width)))
    result = []
    for batch, y, x in reversed(pixels) if descending else pixels:
        taps = [(batch * window.height + row) * window.width + column for row, column in _taps(window, y, x)]
        pixel = (batch * window.output_height + y) * window.output_width + x
        for channel in range(window.output_channels):
            read = range(window.channels)
            if channelwise:
                read = range(first := channel * window.channels // window.output_channels, first + 1)
            elements = {tap * window.channels + item for tap in taps for item in read}
            result.append((elements, pixel * window.output_channels + channel))
    return result


def _conflicts(accesses: list[tuple[set[int], int]]) -> set[int]:
    """Return offset(input) - offset(output) for which a write destroys an element that is read later."""
    conflicts: set[int] = set()
    outstanding: set[int] = set()
    for elements, written in reversed(accesses):
        conflicts |= {written - element for element in outstanding}
        outstanding |= elements
    return conflicts


def _check_smallest(conflicts: set[int], distance: int, size: int) -> None:
    """Check that no offset of at least the distance conflicts, and that the next smaller one does, if any does."""
    assert distance == (max(conflicts) + 1 if conflicts else -size)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_distance_of_a_convolution_is_the_smallest_safe_one(transposed: bool) -> None:
    random = Random(f"convolution {transposed}")
    for _ in range(WINDOWS):
        window = _random_window(random, transposed=transposed)
        accesses = _accesses(window)
        _check_smallest(_conflicts(accesses), conv_distance(window), len(accesses))


def test_the_distance_of_a_pointwise_convolution_is_the_smallest_safe_one_in_both_orders() -> None:
    random = Random("pointwise")
    for _ in range(WINDOWS):
        window = _random_pointwise(random)
        assert window.is_pointwise
        accesses = _accesses(window)
        _check_smallest(_conflicts(accesses), conv_distance(window), len(accesses))
        behind = {-conflict for conflict in _conflicts(_accesses(window, descending=True))}
        if behind:
            _check_smallest(behind, conv_distance(window, descending=True), len(accesses))
        assert conv_distance(window.flattened()) == conv_distance(window)


def test_pixels_at_the_same_step_are_those_of_one_row() -> None:
    random = Random("one row")
    flat = 0
    for _ in range(4 * WINDOWS):
        drawn = replace(_random_window(random), taps_y=1, pad_y=0, pad_x=0, output_width=random.randint(1, 3))
        step, row = drawn.pixel_step, drawn.flattened()
        assert (row == drawn) if step is None else (row.batches, row.height, row.output_height) == (1, 1, 1)
        if step is not None:
            flat += 1
            assert _accesses(row) == _accesses(drawn)
            assert conv_distance(row) == conv_distance(drawn)
    assert flat > WINDOWS // 4


def test_the_distance_of_a_channelwise_kernel_is_the_smallest_safe_one() -> None:
    random = Random("channelwise")
    for _ in range(WINDOWS):
        drawn = _random_window(random)
        window = replace(drawn, output_channels=drawn.channels * random.randint(1, 3))
        accesses = _accesses(window, channelwise=True)
        _check_smallest(_conflicts(accesses), channelwise_distance(window), len(accesses))


def test_the_distance_of_a_kernel_that_reads_rows_until_a_band_is_complete_is_the_smallest_safe_one() -> None:
    random = Random("banded")
    for _ in range(WINDOWS):
        window, band = _random_window(random), random.randint(1, 4)
        row, input_row = window.output_width * window.output_channels, window.width * window.channels
        conflicts: set[int] = set()
        outstanding: set[int] = set()
        for batch, first in reversed(list(product(range(window.batches), range(0, window.output_height, band)))):
            count = min(band, window.output_height - first)
            for y, ty in product(range(first, first + count), range(window.taps_y)):
                place = y * window.stride_y - window.pad_y + ty * window.dilation_y
                if 0 <= place < window.height:
                    start = (batch * window.height + place) * input_row
                    outstanding |= set(range(start, start + input_row))
            # All outputs of the band may be written before its last read.
            start = (batch * window.output_height + first) * row
            conflicts |= {byte - read for byte in range(start, start + count * row) for read in outstanding}
        size = window.batches * window.output_height * row
        _check_smallest(conflicts, banded_distance(window, band), size)


@pytest.mark.parametrize("block", [1, 2, 4])
def test_the_distance_of_a_kernel_that_reads_a_block_of_pixels_until_all_are_written_is_the_smallest_safe_one(
    block: int,
) -> None:
    random = Random(f"pixelwise {block}")
    for _ in range(WINDOWS):
        window = _random_window(random)
        pixels = list(product(range(window.batches), range(window.output_height), range(window.output_width)))
        reads = [
            {
                ((batch * window.height + row) * window.width + column) * window.channels + channel
                for row, column in _taps(window, y, x)
                for channel in range(window.channels)
            }
            for batch, y, x in pixels
        ]
        conflicts: set[int] = set()
        for first in range(max(1, len(pixels) - block + 1)):  # wherever blocks begin
            outstanding = set().union(*reads[first:])
            end = min(first + block, len(pixels)) * window.output_channels
            conflicts |= {byte - read for byte in range(first * window.output_channels, end) for read in outstanding}
        _check_smallest(conflicts, pixelwise_distance(window, block), len(pixels) * window.output_channels)


def test_distances_grow_with_the_size_of_elements() -> None:
    window = Window(1, 4, 4, 2, 4, 4, 2, taps_y=3, taps_x=3, pad_y=1, pad_x=1)
    assert conv_distance(window, element_bytes=2) == 2 * conv_distance(window) > 0
    assert channelwise_distance(window, element_bytes=2) == 2 * channelwise_distance(window) > 0
    assert banded_distance(window, 2, element_bytes=2) == 2 * banded_distance(window, 2) > 0


def test_a_single_dense_row_may_overlap_only_the_first_input_byte_with_its_last_output_byte() -> None:
    row = Window(1, 1, 1, 10, 1, 1, 6)
    assert conv_distance(row) == 5
    assert conv_distance(replace(row, width=3, output_width=3)) == 5


@pytest.mark.parametrize(("input_bytes", "output_bytes"), [(1, 1), (1, 2), (1, 4), (2, 2), (2, 1)])
def test_the_distance_of_an_elementwise_kernel_is_the_smallest_safe_one(input_bytes: int, output_bytes: int) -> None:
    random = Random(f"elements {input_bytes} {output_bytes}")
    for _ in range(WINDOWS):
        firsts = [random.randint(0, 12) for _ in range(random.randint(1, 9))]
        conflicts = {
            element * output_bytes + written - (first * input_bytes + read)
            for element in range(len(firsts))
            for first in firsts[element + 1 :]
            for written, read in product(range(output_bytes), range(input_bytes))
        }
        distance = elements_distance(firsts, input_bytes=input_bytes, output_bytes=output_bytes)
        _check_smallest(conflicts, distance, len(firsts) * output_bytes)
