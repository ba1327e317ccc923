"""How the plots of a sweep look: colours, shapes, units, and texts that no name can break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from edgetool.sweep.metrics import Cause

# Okabe and Ito, Color Universal Design (2008): told apart with any colour vision, and in grey by their lightness.
COLOURS: Mapping[str, str] = {
    "float32": "#0072B2",
    "float16": "#56B4E9",
    "int16x8": "#009E73",
    "int8": "#D55E00",
    "int8-dense-per-tensor": "#CC79A7",
}
MARKERS = "osD^vP<>hXp8"  # of pruning levels, in ascending order; with more levels than these, all have the first

# What a rejected point is marked by: the first of these that holds.
REASONS: Mapping[str, tuple[str, tuple[Cause, ...]]] = {
    "does not run": ("x", ("runtime",)),
    "memory": ("+", ("memory", "flash", "budget", "arena unknown")),
    "time or energy": ("_", ("latency", "energy")),
    "accuracy": ("|", ("accuracy",)),
}

LIMIT, MEMORY, TRACKED, INFINITE = "limit", "memory", "tracked", "infinite"
# What the legend says of a line, and its dashes.
LINES: Mapping[str, tuple[str, str]] = {
    LIMIT: ("limit or active budget", "--"),
    MEMORY: ("target's memory minus reserve", "-"),
    TRACKED: ("tracked budget", ":"),
    INFINITE: ("", ":"),  # its own label says all
}
GREY, DARK = "#8c8c8c", "#333333"

# Of each axis's unit in front.AXES: names of larger and smaller ones, and how much of it they are; ascending.
UNITS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "B": (("B", 1), ("KiB", 2**10), ("MiB", 2**20)),
    "ms": (("µs", 1e-3), ("ms", 1), ("s", 1e3)),
    "uJ": (("nJ", 1e-3), ("µJ", 1), ("mJ", 1e3), ("J", 1e6)),
    "dB": (("dB", 1),),
}
COUNTS: tuple[tuple[str, float], ...] = (("", 1), ("thousands", 1e3), ("millions", 1e6))
PERCENT = ("%", 0.01)

# An SVG names its fonts and keeps texts as texts. DejaVu Sans comes with matplotlib, which measures by it; Verdana is
# about as wide.
STYLE: Mapping[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "font.size": 8.5,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "edgetool",
    "svg.id": None,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.color": "#ececec",
    "grid.linewidth": 0.6,
    "xtick.color": DARK,
    "ytick.color": DARK,
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": 150,
}

MAX_NAME = 40


def shown(text: str, most: int = MAX_NAME) -> str:
    """The text in one line of at most so many characters, without any that a picture cannot hold."""
    clean = "".join(char if char.isprintable() else " " for char in text).strip()
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def unit_for(axis_name: str, axis_unit: str, values: Sequence[float]) -> tuple[str, float]:
    """The name and the size of the unit in which the middle one of the values is at least 1."""
    if axis_name == "accuracy":
        return PERCENT
    choices = UNITS.get(axis_unit, COUNTS)
    middle = median(values) if values else 0.0
    return next((choice for choice in reversed(choices) if middle >= choice[1]), choices[0])


def level_text(level: float) -> str:
    """ "25 %"."""
    return f"{100 * level:.4g} %"
