"""Copies and fills of bytes, by the C library or by CMSIS-NN's own vector loops; windows copied out of images."""

from __future__ import annotations

from collections import Counter

from edgetool.operators.work import copies as library
from edgetool.operators.work.loops import Loops, repeated, together
from edgetool.operators.work.windows import Axis, Windows
from edgetool.target.platform import Platform

WORD = 4
LANES = 16


def copies(count: int, size: int, platform: Platform) -> Loops:
    """So many copies of `size` bytes each, of which the first starts at a word in both places."""
    if platform.mve:
        return {"copy": count, "copied 16": count * -(-size // LANES)}
    return library.copied_evenly(size, count, (0, size), (0, size))


def fills(count: int, size: int, platform: Platform, offset: int = 0) -> Loops:
    """So many fills of `size` bytes each, from places as well aligned as the offset."""
    if platform.mve:
        return {"fill": count, "filled 16": count * -(-size // LANES)}
    return repeated(count, library.filled(size, offset))


def copied_windows(w: Windows, element_bytes: int, platform: Platform, columns: int = 2) -> Loops:
    """All windows of one image into columns of which so many lie side by side; padding is filled.

    element_bytes: those of one channel. A filter of a grouped convolution sees its own channels only.
    """
    size, groups = w.filter_channels * element_bytes, w.in_channels // w.filter_channels
    if platform.mve or size % WORD == 0:
        inside, outside = groups * w.inside, groups * (w.taps - w.inside)
        return together(copies(inside, size, platform), fills(outside, size, platform))
    moved, filled = _places(w, size, element_bytes, columns)
    return together(
        *(repeated(times, library.copied(size, [place])) for place, times in moved.items()),
        *(repeated(times, library.filled(size, target)) for target, times in filled.items()),
    )


def _places(w: Windows, size: int, element_bytes: int, columns: int) -> tuple[Counter[tuple[int, int]], Counter[int]]:
    """How often an element's target and source, and the target of padding, are how far from a word."""
    moved: Counter[tuple[int, int]] = Counter()
    filled: Counter[int] = Counter()
    pixel, window = w.in_channels * element_bytes, w.kernel * size
    rows: Counter[tuple[int, int, int | None]] = Counter()
    for y, start in enumerate(w.rows.starts):
        for tap in range(w.rows.kernel):
            row = start + tap * w.rows.dilation
            first = row * w.columns.size * pixel % WORD if 0 <= row < w.rows.size else None
            rows[y * w.columns.outputs % columns, tap * w.columns.kernel * size % WORD, first] += 1
    for (column, target, first), times in rows.items():
        for (to, source), number in _row_places(w.columns, column, columns, window, size, pixel).items():
            if first is None or source is None:
                filled[(target + to) % WORD] += times * number * (w.in_channels // w.filter_channels)
                continue
            for group in range(w.in_channels // w.filter_channels):
                moved[(target + to) % WORD, (first + source + group * size) % WORD] += times * number
    return moved, filled


def _row_places(
    axis: Axis, column: int, columns: int, window: int, size: int, pixel: int
) -> Counter[tuple[int, int | None]]:
    """The same along a row of windows, from the row's start; no source in the padding."""
    found: Counter[tuple[int, int | None]] = Counter()
    for x, start in enumerate(axis.starts):
        base = (column + x) % columns * window
        for tap in range(axis.kernel):
            at = start + tap * axis.dilation
            source = at * pixel % WORD if 0 <= at < axis.size else None
            found[(base + tap * size) % WORD, source] += 1
    return found
