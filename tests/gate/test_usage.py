from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.gate.said import Usage, usage, usage_matrix
from tests.gate.judged import FITS, MODEL_FITS, TOO_LARGE, judged


@pytest.mark.parametrize(
    ("value", "limit", "shown"),
    [
        (0, 1000, "0 %"),
        (1, 1000, "<1 %"),
        (837, 1000, "84 %"),
        (999, 1000, "<100 %"),
        (1000, 1000, "100 %"),
        (1001, 1000, ">100 %"),
        (1010, 1000, "101 %"),
        (10, 0, ">100 %"),
        (10, None, "-"),
        (None, 10, "-"),
    ],
)
def test_shares_never_round_to_the_limit(value: int | None, limit: int | None, shown: str) -> None:
    assert usage(judged(replace(FITS, value=value, limit=limit))).arena == shown


def test_a_lower_bound_is_marked() -> None:
    report = judged(FITS)
    assert report.arena is not None
    assert usage(replace(report, arena=replace(report.arena, is_lower_bound=True))).arena == ">=15 %"


def test_without_limits_there_is_a_dash() -> None:
    assert str(usage(judged(MODEL_FITS))) == "- / 16 %"
    assert str(Usage("-", "-", True)) == "-"


def test_models_by_targets_with_gaps_and_equal_names() -> None:
    reports = (
        judged(FITS, path="a", target="x"),
        judged(FITS, path="a", target="x"),
        judged(TOO_LARGE, MODEL_FITS, path="b", target="y"),
    )
    matrix = usage_matrix(reports)
    assert (matrix.models, matrix.targets) == (("a", "b"), ("x", "x", "y"))
    fits = Usage("15 %", "-", True)
    assert matrix.cells == ((fits, fits, None), (None, None, Usage("152 %", "16 %", False)))
