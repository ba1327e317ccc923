"""What levels save, and what is said where they do not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.report.document import Band
from edgetool.sweep.metrics import Row
from edgetool.sweep.table import CHECKED, saved, savings_notes
from tests.sweep.made_rows import row, variant

FIGURES = {"model_parameters": "parameters", "macs": "macs", "model_bytes": "model_bytes", "arena_bytes": "arena_bytes"}


def leveled(number: int, level: float, *sizes: int, **of: str) -> Row:
    return row(number, variant(level, **of), **dict(zip(FIGURES.values(), sizes, strict=True)))


def test_levels_that_save_are_not_told_of() -> None:
    rows = [leveled(1, 0, 9, 9, 9, 18_688), leveled(2, 0.5, 8, 9, 9, 18_688), leveled(3, 0.75, 8, 9, 9, 18_672)]
    assert savings_notes(rows) == {}


def test_each_figure_that_grows_is_told_with_the_level_before() -> None:
    rows = [
        leveled(1, 0.5, 8, 8, 29_624, 18_704),
        leveled(2, 0.25, 9, 9, 29_600, 18_688),
        leveled(3, 0, 9, 9, 29_700, 18_688),
    ]
    assert savings_notes(rows) == {
        1: (
            "the model grew from 29,600 B to 29,624 B compared to level 0.25",
            "the arena grew from 18,688 B to 18,704 B compared to level 0.25",
        )
    }


def test_a_level_that_changes_nothing_is_told() -> None:
    rows = [leveled(1, 0, 9, 9, 9, 9), leveled(2, 0.05, 9, 9, 9, 9)]
    assert savings_notes(rows) == {2: ("no figure is smaller than at level 0",)}


def test_other_models_precisions_and_targets_are_not_compared() -> None:
    rows = [
        leveled(1, 0, 1, 1, 1, 1),
        leveled(2, 0.5, 9, 9, 9, 9, precision="float32"),
        leveled(3, 0.5, 9, 9, 9, 9, target="other"),
        leveled(4, 0.5, 9, 9, 9, 9, width="2"),
        Row(5, variant(0.5), "failed", reason="why"),
    ]
    assert savings_notes(rows) == {}
    assert saved(rows) == {}


def test_an_arena_that_is_not_known_is_not_compared() -> None:
    rows = [row(1, arena_bytes=None), row(2, variant(0.5), parameters=11_000, arena_bytes=99_999)]
    assert savings_notes(rows) == {}
    assert "arena_bytes" not in saved(rows)[2]


def test_shares_are_of_level_0() -> None:
    half = Band(10.0, 8.0, 12.0)
    rows = [
        row(1),
        row(2, variant(0.25), arena_bytes=18_704 // 2, latency_ms=half, energy_uj=None),
        row(3, variant(0.5), arena_bytes=2 * 18_704, parameters=5_500),
    ]
    shares = saved(rows)
    assert shares[2] == {
        "model_parameters": 0, "macs": 0, "model_bytes": 0, "arena_bytes": pytest.approx(0.5),
        "latency_ms": pytest.approx(0.5),
    }  # fmt: skip
    assert shares[3]["arena_bytes"] == pytest.approx(-1)
    assert shares[3]["model_parameters"] == pytest.approx(0.75)
    assert saved(rows[1:]) == {}


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_row_is_told_of_just_where_its_sizes_are_not_all_smaller_or_equal_and_one_smaller(
    sizes: list[tuple[int, ...]], rng: object
) -> None:
    rows = [leveled(number + 1, number / 10, *size) for number, size in enumerate(sizes)]
    expected = {
        number + 2
        for number, (before, after) in enumerate(pairwise(sizes))
        if any(b > a for a, b in zip(before, after, strict=True)) or before == after
    }
    shuffled = list(rows)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    notes = savings_notes(shuffled)
    assert set(notes) == expected
    assert all(len(found) <= len(CHECKED) for found in notes.values())
