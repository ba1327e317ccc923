"""The view of `edgetool sweep best`: which variant was chosen, why, and which come next."""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.cli.text import wrapped
from edgetool.cli.view_sweep import AXIS_WORDS, target_heading
from edgetool.cli.view_sweep_table import accuracy_word, layout, table_lines, variant_text
from edgetool.sweep.best import best_row
from edgetool.sweep.front import AXES, INSTEAD
from edgetool.sweep.metrics import Row

RUNNERS_UP = 3


def best_view(chosen: Row, every: Sequence[Row], by: str, *, everything: bool = False) -> list[str]:
    """every: all rows of the sweep; the chosen one is the best of its target in the axis."""
    accepted = [
        row
        for row in every
        if row.judged is not None and row.judged.accepted and row.variant.target == chosen.variant.target
    ]
    known = any(AXES[by].value(row) is not None for row in accepted)
    by = by if known else INSTEAD.get(by, by)
    word = accuracy_word(every) if by == "accuracy" else AXIS_WORDS[by]
    best = "highest" if AXES[by].better == "higher" else "lowest"
    text = f"variant {chosen.number} ({variant_text(chosen.variant)}), the {best} {word} of {len(accepted)} accepted"
    next_best = runners_up(chosen, accepted, by)
    rows = [chosen, *next_best]
    lines = [
        target_heading(chosen.variant.target, text),
        "",
        *table_lines(rows, layout(rows, every=every, everything=everything)),
    ]
    left = len(accepted) - len(rows)
    return lines + (wrapped(f"and {left} more accepted variant{'' if left == 1 else 's'}", "") if left else [])


def runners_up(chosen: Row, accepted: Sequence[Row], by: str) -> list[Row]:
    """The next best, as the chosen one was found to be the best."""
    left = [row for row in accepted if row.number != chosen.number]
    found: list[Row] = []
    while left and len(found) < RUNNERS_UP:
        found.append(best_row(left, chosen.variant.target, by))
        left.remove(found[-1])
    return found
