"""The texts inside a panel: names of its lines and of the points on its front."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.sweep.front import AXES
from edgetool.sweep.plot_labels import Box, beside, boxes_around, place
from edgetool.sweep.plot_panel import FRONT_SIZE, lines_in
from edgetool.sweep.plot_style import DARK, shown
from edgetool.sweep.plot_view import Panel, View, Way, bands, label_of, step_of

MAX_LABELS = 30


def draw_labels(axes: Any, panel: Panel, view: View) -> None:
    """The names of the lines and of the front's points, where there is room for them."""
    if not panel.drawn:
        return
    writer = _Writer(axes, panel, view)
    for way, value, line in lines_in(axes, panel, view)[0]:
        writer.write_line(way, value, shown(line.label))
    toward = _better(panel.x), _better(panel.y)
    for row in panel.on_front[:MAX_LABELS]:
        if label := label_of(row, view.varied):
            writer.write_point(view.at(row), label, toward)


def _better(name: str) -> int:
    return -AXES[name].sign


class _Writer:
    """Puts texts into the axes, in pixels of the finished layout, so that they cover nothing and not each other."""

    def __init__(self, axes: Any, panel: Panel, view: View) -> None:
        self._axes = axes
        self._renderer = axes.figure.canvas.get_renderer()
        self._inside: Box = tuple(axes.get_window_extent(self._renderer).extents)
        self._radius = math.sqrt(FRONT_SIZE) / 2 * axes.figure.dpi / 72
        points = axes.transData.transform([view.at(row) for row in panel.drawn])
        self._obstacles = np.concatenate((boxes_around(points, 0.8 * self._radius), self._strokes(panel, view)))

    def _strokes(self, panel: Panel, view: View) -> npt.NDArray[np.float64]:
        """(N, 4): the lines, the bands and the front's steps, as boxes without width."""
        (low_x, high_x), (low_y, high_y) = self._axes.get_xlim(), self._axes.get_ylim()
        ends = [
            ((value, low_y), (value, high_y)) if way == "x" else ((low_x, value), (high_x, value))
            for way, value, _ in lines_in(self._axes, panel, view)[0]
        ]
        ends += [((xs[0], ys[0]), (xs[1], ys[1])) for xs, ys, _ in bands(panel, view)]
        for first, second in pairwise(map(view.at, panel.on_front)):
            corner = (second[0], first[1]) if step_of(panel) == "post" else (first[0], second[1])
            ends += [(first, corner), (corner, second)]
        pixels = self._axes.transData.transform(np.array(ends).reshape(-1, 2)).reshape(-1, 2, 2)
        return np.concatenate((pixels.min(axis=1), pixels.max(axis=1)), axis=1)

    def write_line(self, way: Way, value: float, label: str) -> None:
        """Along a line, which is always named."""
        upright = way == "x"
        start = (value, self._axes.get_ylim()[0]) if upright else (self._axes.get_xlim()[1], value)
        text, size = self._measured(label, fontsize=6.5, color=DARK, rotation=90 if upright else 0)
        at = tuple(self._axes.transData.transform(start))
        self._put(text, beside(at, size, self._inside, self._obstacles, upright=upright))

    def write_point(self, point: tuple[float, float], label: str, toward: tuple[int, int]) -> None:
        """Near a point, or nowhere: its shape and colour say the same."""
        text, size = self._measured(label, fontsize=7, color=DARK)
        at = tuple(self._axes.transData.transform(point))
        box = place(at, size, self._radius, toward, self._inside, self._obstacles)
        if box is None:
            text.remove()
        else:
            self._put(text, box)

    def _measured(self, label: str, **style: Any) -> tuple[Any, tuple[float, float]]:
        axes = self._axes
        text = axes.text(0, 0, label, transform=axes.transAxes, ha="left", va="bottom", zorder=5, **style)
        extent = text.get_window_extent(self._renderer)
        return text, (extent.width, extent.height)

    def _put(self, text: Any, box: Box) -> None:
        text.set_position(self._axes.transAxes.inverted().transform(box[:2]))
        self._obstacles = np.concatenate((self._obstacles, [box]))
