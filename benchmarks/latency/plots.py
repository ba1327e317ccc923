"""Scatter plots: measured against estimated time, one small SVG per runtime and core."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from benchmarks.latency.report import Results

Point = tuple[float, float, bool]  # measured ms, estimated ms, whether the estimate was fitted on it


def points(results: Results) -> dict[tuple[str, str], list[Point]]:
    """The points of each plot, by runtime and core."""
    found: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for kind, tests in (("CMSIS-NN", results.shipped), ("CMSIS-NN operators", results.operators)):
        for test in tests:
            for item in test.predictions:
                found[kind, test.core].append((item.row.ms, item.cycles / item.row.mhz / 1e3, item.row in test.fitted))
    for share, error in results.kept_back:
        found[_family(share.runtime), share.core].append((share.row.ms, share.row.ms * (1 + error), False))
    for left in results.zoo[:1]:
        core_of = {known.row: known.core for known in results.shares}
        for row, error in left.errors:
            found["X-CUBE-AI", core_of[row]].append((row.ms, row.ms * (1 + error), False))
    return found


def plot_name(runtime: str, core: str) -> str:
    """The name of a plot's file, without its ending."""
    return re.sub(r"[^a-z0-9]+", "-", f"{runtime}-{core}".lower())


def draw(results: Results, folder: Path) -> list[Path]:
    """Write the plots, each a few kilobytes; their paths."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "edgetool"
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for (runtime, core), here in sorted(points(results).items()):
        figure, axes = pyplot.subplots(figsize=(4.2, 4.0))
        low, high = _range(here)
        axes.fill_between((low, high), (0.8 * low, 0.8 * high), (1.25 * low, 1.25 * high), color="0.92", lw=0)
        axes.plot((low, high), (low, high), color="0.6", lw=0.8)
        for fitted, marker, label in ((True, "o", "fitted on"), (False, "x", "tests")):
            some = [(x, y) for x, y, own in here if own is fitted]
            if some:
                axes.plot(*zip(*some, strict=True), marker, ms=5, mfc="none", label=f"{label} ({len(some)})")
        axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
        axes.set(xlabel="measured, ms", ylabel="estimated, ms", title=f"{runtime}, {core}")
        axes.legend(loc="upper left", frameon=False, fontsize=8)
        path = folder / f"{plot_name(runtime, core)}.svg"
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
        written.append(path)
    return written


def _range(here: Iterable[Point]) -> tuple[float, float]:
    values = [value for x, y, _ in here for value in (x, y)]
    return min(values) / 1.6, max(values) * 1.6


def _family(runtime: str) -> str:
    return runtime.rsplit(" ", 1)[0]
