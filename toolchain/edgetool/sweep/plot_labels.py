"""Where the labels of points go so that they cover nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Box = tuple[float, float, float, float]  # left, bottom, right, top

GAPS = (1.0, 2.2, 4.0)  # how far from the point, in marker radii beyond its own


def place(
    point: tuple[float, float],
    size: tuple[float, float],
    radius: float,
    toward: tuple[int, int],
    inside: Box,
    obstacles: npt.NDArray[np.float64],
) -> Box | None:
    """A box of that size near the point that lies inside and covers no obstacle; None where there is no room.

    toward: the corner tried first, (-1, 1) is up left. obstacles: (N, 4), boxes. All in the same units.
    """
    for left, bottom in _candidates(point, size, radius, toward):
        box = (left, bottom, left + size[0], bottom + size[1])
        if _is_free(box, inside, obstacles):
            return box
    return None


def beside(
    start: tuple[float, float],
    size: tuple[float, float],
    inside: Box,
    obstacles: npt.NDArray[np.float64],
    *,
    upright: bool,
) -> Box:
    """A box along a line that is upright from its start, or goes left from it: the first free one on either side; where
    there is none, at the start."""
    steps, margin = 12, 2.0
    width, height = size
    options = []
    for step in range(steps):
        along = step / steps
        if upright:
            bottom = start[1] + margin + along * (inside[3] - start[1] - height)
            options += [(start[0] + margin, bottom), (start[0] - margin - width, bottom)]
        else:
            left = start[0] - margin - width - along * (start[0] - inside[0] - width)
            options += [(left, start[1] + margin), (left, start[1] - margin - height)]
    boxes = [(left, bottom, left + width, bottom + height) for left, bottom in options]
    return next((box for box in boxes if _is_free(box, inside, obstacles)), boxes[0])


def boxes_around(points: Sequence[tuple[float, float]], radius: float) -> npt.NDArray[np.float64]:
    """(N, 4): a square box around each of the points."""
    centres = np.array(points, dtype=np.float64).reshape(-1, 2)
    return np.concatenate((centres - radius, centres + radius), axis=1)


def _is_free(box: Box, inside: Box, obstacles: npt.NDArray[np.float64]) -> bool:
    if box[0] < inside[0] or box[1] < inside[1] or box[2] > inside[2] or box[3] > inside[3]:
        return False
    return not np.any(
        (obstacles[:, 0] < box[2])
        & (obstacles[:, 2] > box[0])
        & (obstacles[:, 1] < box[3])
        & (obstacles[:, 3] > box[1])
    )


def _candidates(
    point: tuple[float, float], size: tuple[float, float], radius: float, toward: tuple[int, int]
) -> Iterator[tuple[float, float]]:
    """Lower left corners: nearest first, and in each round first toward the corner wished for."""
    across, up = toward
    ways = ((across, up), (across, 0), (0, up), (across, -up), (-across, up), (-across, 0), (0, -up), (-across, -up))
    for gap in GAPS:
        for horizontal, vertical in ways:
            reach = radius * (1 + gap) * (0.7 if horizontal and vertical else 1.0)
            x, y = point[0] + horizontal * reach, point[1] + vertical * reach
            yield x - size[0] * (1 - horizontal) / 2, y - size[1] * (1 - vertical) / 2
