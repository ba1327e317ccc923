"""Texts of a picture that have only so much room: broken into lines, and cut where that is not enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Measure = Callable[[str], float]  # how wide a text is

MOST_CHARACTERS = 300


def measure(figure: Any, **style: Any) -> Measure:
    """How wide a text of that style is in the figure, in inches."""
    from matplotlib.text import Text

    renderer = figure.canvas.get_renderer()

    def width(text: str) -> float:
        artist = Text(0, 0, text, figure=figure, **style)
        return float(artist.get_window_extent(renderer).width) / float(figure.dpi)

    return width


def broken(text: str, width: float, measured: Measure, *, most_lines: int = 1) -> list[str]:
    """The text in so many lines at most, broken at spaces, each no wider than that; what is too much is cut off, and
    an ellipsis says so."""
    words = text[:MOST_CHARACTERS].split()
    lines: list[str] = []
    while words and len(lines) < most_lines:
        fitting = 1
        while fitting < len(words) and measured(" ".join(words[: fitting + 1])) <= width:
            fitting += 1
        is_last = len(lines) + 1 == most_lines
        lines.append(_cut(" ".join(words if is_last else words[:fitting]), width, measured))
        words = words[fitting:]
    return lines


def _cut(text: str, width: float, measured: Measure) -> str:
    if measured(text) <= width:
        return text
    length = next((length for length in range(len(text) - 1, 0, -1) if measured(f"{text[:length]}…") <= width), 0)
    return f"{text[:length].rstrip(' ,;')}…"
