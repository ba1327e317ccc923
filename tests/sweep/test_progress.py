from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.sweep.executor import SHARES, seconds_by_kind, seconds_left

KINDS = st.sampled_from(sorted(SHARES))
SECONDS = st.floats(0.01, 1e5)
EACH = st.fixed_dictionaries(dict.fromkeys(SHARES, SECONDS))
WAITING = st.dictionaries(KINDS, st.integers(0, 1000))
RUNNING = st.lists(st.tuples(KINDS, SECONDS), max_size=8)
WIDTHS = st.integers(1, 64)


def test_nothing_is_known_before_the_first_job_has_ended() -> None:
    assert seconds_by_kind({}) is None
    assert seconds_by_kind({"convert": (0, 0.0)}, [("convert", 3.0)]) is None


def test_a_kind_takes_the_mean_of_those_that_ended_and_others_their_share() -> None:
    each = seconds_by_kind({"convert": (4, 80.0)})
    assert each is not None
    assert each["convert"] == 20.0
    assert each["analyse"] == pytest.approx(20.0 * SHARES["analyse"] / SHARES["convert"])


def test_a_kind_of_which_none_has_ended_takes_no_less_than_one_that_runs() -> None:
    each = seconds_by_kind({"analyse": (1, 1.0)}, [("prune", 500.0), ("prune", 300.0), ("analyse", 99.0)])
    assert each is not None
    assert each["prune"] == 500.0
    assert each["analyse"] == 1.0


def test_work_is_shared_by_those_side_by_side() -> None:
    each = dict.fromkeys(SHARES, 10.0)
    assert seconds_left(each, {"convert": 4, "analyse": 2}, [], 2) == 30.0
    assert seconds_left(each, {"convert": 3}, [("convert", 4.0)], 2) == 18.0
    assert seconds_left(each, {"convert": 1}, [], 8) == 10.0  # one job is not shared
    assert seconds_left(each, {}, [("convert", 99.0)], 8) == 1.0
    assert seconds_left(each, {}, [], 8) == 0.0


@given(EACH, WAITING, RUNNING, WIDTHS, KINDS)
def test_more_to_do_takes_no_less_and_more_hands_no_more(
    each: dict[str, float], waiting: dict[str, int], running: list[tuple[str, float]], width: int, kind: str
) -> None:
    left = seconds_left(each, waiting, running, width)
    assert left >= 0
    assert seconds_left(each, {**waiting, kind: waiting.get(kind, 0) + 1}, running, width) >= left
    assert seconds_left(each, waiting, [*running, (kind, 0.5)], width) >= left
    assert seconds_left(each, waiting, running, width + 1) <= left
    later = [(name, elapsed + 1) for name, elapsed in running]
    assert seconds_left(each, waiting, later, width) <= left
    # No schedule is quicker than all hands on it, and none that is never idle slower than all of it and the longest.
    rests = [max(each[name] - elapsed, 0) for name, elapsed in running]
    assert left * width >= sum(each[name] * count for name, count in waiting.items()) + sum(rests) - 1e-6 * left


@given(st.dictionaries(KINDS, st.tuples(st.integers(1, 9), SECONDS), min_size=1))
def test_shares_keep_to_the_scale_of_what_is_known(ended: dict[str, tuple[int, float]]) -> None:
    each = seconds_by_kind(ended)
    assert each is not None
    assert set(each) == set(SHARES)
    ratios = [each[kind] / SHARES[kind] for kind in ended]
    for kind in SHARES:
        assert min(ratios) * (1 - 1e-9) <= each[kind] / SHARES[kind] <= max(ratios) * (1 + 1e-9)
