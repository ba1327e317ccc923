"""The view of `edgetool sweep pareto`: the front of each target, and what each step along it costs and gives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import click

from edgetool.cli.text import (
    COUNT_UNITS,
    ENERGY_UNITS,
    SIZE_UNITS,
    TIME_UNITS,
    in_common_unit,
    printable,
    table,
    width,
    wrapped,
)
from edgetool.cli.view_sweep import AXIS_WORDS, by_target, target_heading
from edgetool.cli.view_sweep_table import UNKNOWN, accuracy_word, cut, state, variant_text
from edgetool.sweep.front import AXES
from edgetool.sweep.metrics import Row
from edgetool.sweep.store import SweepRecord

GAP = 2
LEAST_VARIANT = 20
# Axes whose figures share a unit in a table; accuracy's differences are in points.
UNITS: Mapping[str, tuple[Sequence[tuple[float, str]], int]] = {
    "latency_ms": (TIME_UNITS, 2),
    "energy_uj": (ENERGY_UNITS, 2),
    "arena_bytes": (SIZE_UNITS, 3),
    "model_bytes": (SIZE_UNITS, 3),
    "macs": (COUNT_UNITS, 3),
    "model_parameters": (COUNT_UNITS, 3),
}
TEXTS: Mapping[str, Callable[[float], str]] = {
    "accuracy": lambda value: f"{100 * value:.1f} %",
    "sqnr_db": lambda value: "equal" if math.isinf(value) else f"{value:.1f} dB",
}


def pareto_view(record: SweepRecord, rows: Sequence[Row], axes: Sequence[str]) -> list[str]:
    """rows: all of the targets shown, the front of the axes marked. Sorted by the first axis."""
    word = accuracy_word(rows)
    headers = [word if name == "accuracy" else AXIS_WORDS[name] for name in axes]
    name = click.style(printable(record.name), bold=True)
    lines = [f"{name}: Pareto front for {', '.join(headers[:-1])} and {headers[-1]}"]
    for label, group in by_target(record, rows):
        lines += ["", target_heading(label, _counts(group))]
        front = sorted((row for row in group if row.on_front), key=lambda row: (_value(row, axes[0]), row.number))
        if front:
            lines += _table(front, axes, headers)
        else:
            lines += wrapped(_why_empty(group, axes, headers), "  ")
    if not rows:
        lines += ["", "no variants yet"]
    return lines


def _table(front: Sequence[Row], axes: Sequence[str], headers: Sequence[str]) -> list[str]:
    texts = {
        name: in_common_unit([_value(row, name) for row in front], *UNITS[name]) if name in UNITS else TEXTS[name]
        for name in axes
    }
    steps = ["", *(_step(before, after, texts) for before, after in pairwise(front))]
    cells = [
        [str(row.number), *(text(_value(row, name)) for name, text in texts.items()), step]
        for row, step in zip(front, steps, strict=True)
    ]
    header = ["no", *headers, "vs. previous"]
    used = sum(max(len(cell) for cell in column) + GAP for column in zip(header, *cells, strict=True))
    room = max(width() - used - GAP, LEAST_VARIANT)
    full = [[*line, cut(variant_text(row.variant), room)] for line, row in zip(cells, front, strict=True)]
    return [f"  {line}" for line in table([*header, "variant"], full, ">" * (1 + len(axes)) + "<<")]


def _step(before: Row, after: Row, texts: Mapping[str, Callable[[float], str]]) -> str:
    return ", ".join(_change(name, text, _value(before, name), _value(after, name)) for name, text in texts.items())


def _change(name: str, text: Callable[[float], str], before: float, after: float) -> str:
    if before == after:
        return "same"
    if math.isinf(before) or math.isinf(after):
        return UNKNOWN
    sign = "+" if after > before else "-"
    if name == "accuracy":
        points = 100 * abs(after - before)
        return f"{sign}{points:.{1 if points >= 0.05 else 3}f} points"
    return f"{sign}{text(abs(after - before))}"


def _value(row: Row, name: str) -> float:
    value = AXES[name].value(row)
    assert value is not None, "every variant on the front has a value for each axis"
    return value


def _counts(rows: Sequence[Row]) -> str:
    count = Counter(state(row) for row in rows)
    accepted = count["front"] + count["accepted"]
    others = [f"{count[kind]} {kind}" for kind in ("rejected", "failed", "pending") if count[kind]]
    return ", ".join([f"{count['front']} of {accepted} accepted variants on the front", *others])


def _why_empty(rows: Sequence[Row], axes: Sequence[str], headers: Sequence[str]) -> str:
    accepted = [row for row in rows if state(row) in ("front", "accepted")]
    if not accepted:
        return "no variant is accepted: run 'edgetool sweep show -v' to see why"
    unknown = [
        header
        for name, header in zip(axes, headers, strict=True)
        if all(AXES[name].value(row) is None for row in accepted)
    ]
    return f"none of the accepted variants ({len(accepted)}) has a known value for {' and '.join(unknown or headers)}"
