"""The figures of the profiles: cycles per instruction of each core, and the bands, from the rows that may be fitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.latency.counts import Book
from benchmarks.latency.kernels import SMALLEST, fitted, kernel_rows
from benchmarks.latency.measured import Row, rows
from benchmarks.latency.spread import quantile

from edgetool.target.load import load_target


def core_cpi(found: Sequence[Row], book: Book) -> dict[str, dict[str, float]]:
    """The cycles per instruction that each fitted model says, by core and by board, runtime and model.

    A model measured operator by operator is one, of its operators from SMALLEST of its time on.
    """
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for row in found:
        totals[row.board, row.runtime] += row.ms
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in found:
        small = row.operator is not None and row.ms < SMALLEST * totals[row.board, row.runtime]
        if fitted(row) and not small and row.dtype == "int8":
            groups[_core(row), f"{row.board}, {row.runtime}, {row.model}"].append(row)
    by_core: dict[str, dict[str, float]] = defaultdict(dict)
    for (core, title), group in groups.items():
        counted = [book.counts(row) for row in group]
        waits = sum(item.rest + item.stall * item.streamed for item in counted)
        instructions = sum(item.instructions for item in counted)
        by_core[core][title] = (sum(row.cycles for row in group) - waits) / instructions
    return by_core


def fitted_text(data: Path) -> str:
    """Per core: the median, and the range that nine of ten rows of any board of it take, as factors on it."""
    book = Book(data)
    found = kernel_rows(rows(data))
    lines = []
    for core, known in sorted(core_cpi(found, book).items()):
        cpi = median(known.values())
        lines.append(f"{core}: cpi {cpi:.3f}")
        lines += [f"    {title}: {value:.3f}" for title, value in known.items()]
        tested = [
            row.cycles / book.counts(row).cycles(cpi)
            for row in found
            if row.operator is None and row.dtype != "float32" and _core(row) == core
        ]
        if tested:
            low, high = quantile(tested, 0.05), quantile(tested, 0.95)
            span = f"{low:.3f} to {high:.3f}, median {median(tested):.3f}"
            lines.append(f"    measured / estimated of {len(tested)} models: {span}")
    return "\n".join(lines) + "\n"


def _core(row: Row) -> str:
    return load_target(row.board).core.name
