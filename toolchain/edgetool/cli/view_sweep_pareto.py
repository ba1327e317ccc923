"""The view of `edgetool sweep pareto`: the front of each target, and what each step along it costs and gives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import click

from edgetool.cli.text import duration, energy, printable, short_size, table, width, wrapped
from edgetool.cli.view_latency import counted
from edgetool.cli.view_sweep import AXIS_WORDS, by_target, target_heading, variants
from edgetool.cli.view_sweep_table import UNKNOWN, accuracy_word, cut, state, variant_text
from edgetool.sweep.front import AXES
from edgetool.sweep.metrics import Row
from edgetool.sweep.record import SweepRecord

GAP = 2
LEAST_VARIANT = 20
# How a figure of each axis is said; accuracy's differences are in points.
TEXTS: Mapping[str, Callable[[float], str]] = {
    "accuracy": lambda value: f"{100 * value:.1f} %",
    "sqnr_db": lambda value: "equal" if math.isinf(value) else f"{value:.1f} dB",
    "latency_ms": duration,
    "energy_uj": energy,
    "arena_bytes": lambda value: short_size(round(value)),
    "model_bytes": lambda value: short_size(round(value)),
    "macs": lambda value: counted(round(value)),
    "model_parameters": lambda value: counted(round(value)),
}


def pareto_view(record: SweepRecord, rows: Sequence[Row], axes: Sequence[str]) -> list[str]:
    """rows: all of the targets shown, the front of the axes marked. Sorted by the first axis."""
    word = accuracy_word(rows)
    headers = [word if name == "accuracy" else AXIS_WORDS[name] for name in axes]
    name = click.style(printable(record.name), bold=True)
    lines = [f"{name}: front of {', '.join(headers[:-1])} and {headers[-1]}"]
    for label, group in by_target(record, rows):
        lines += ["", target_heading(label, _counts(group))]
        front = sorted((row for row in group if row.on_front), key=lambda row: (_value(row, axes[0]), row.number))
        if front:
            lines += _table(front, axes, headers)
        else:
            lines += wrapped(_why_empty(group, axes, headers), "  ")
    if not rows:
        lines += ["", "no variant yet"]
    return lines


def _table(front: Sequence[Row], axes: Sequence[str], headers: Sequence[str]) -> list[str]:
    steps = ["", *(_step(before, after, axes) for before, after in pairwise(front))]
    cells = [
        [str(row.number), *(TEXTS[name](_value(row, name)) for name in axes), step]
        for row, step in zip(front, steps, strict=True)
    ]
    header = ["no", *headers, "from the one above"]
    used = sum(max(len(cell) for cell in column) + GAP for column in zip(header, *cells, strict=True))
    room = max(width() - used - GAP, LEAST_VARIANT)
    full = [[*line, cut(variant_text(row.variant), room)] for line, row in zip(cells, front, strict=True)]
    return [f"  {line}" for line in table([*header, "variant"], full, ">" * (1 + len(axes)) + "<<")]


def _step(before: Row, after: Row, axes: Sequence[str]) -> str:
    return ", ".join(_change(name, _value(before, name), _value(after, name)) for name in axes)


def _change(name: str, before: float, after: float) -> str:
    if before == after:
        return "same"
    if math.isinf(before) or math.isinf(after):
        return UNKNOWN
    sign = "+" if after > before else "-"
    if name == "accuracy":
        points = 100 * abs(after - before)
        return f"{sign}{points:.{1 if points >= 0.05 else 3}f} points"
    return f"{sign}{TEXTS[name](abs(after - before))}"


def _value(row: Row, name: str) -> float:
    value = AXES[name].value(row)
    assert value is not None, "what is on the front has a value in every axis"
    return value


def _counts(rows: Sequence[Row]) -> str:
    count = Counter(state(row) for row in rows)
    accepted = count["front"] + count["accepted"]
    others = [f"{count[kind]} {kind}" for kind in ("rejected", "failed", "pending") if count[kind]]
    return ", ".join([f"{count['front']} of {accepted} accepted on the front", *others])


def _why_empty(rows: Sequence[Row], axes: Sequence[str], headers: Sequence[str]) -> str:
    accepted = [row for row in rows if state(row) in ("front", "accepted")]
    if not accepted:
        return "no variant is accepted: 'edgetool sweep show -v' tells why"
    unknown = [
        header
        for name, header in zip(axes, headers, strict=True)
        if all(AXES[name].value(row) is None for row in accepted)
    ]
    return f"of {variants(len(accepted))} accepted, none has a known value of {' and '.join(unknown or headers)}"
