"""The front against its definition, in a double loop."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.report.document import Band
from edgetool.sweep.front import AXES, DEFAULT_AXES, default_axes, front, pareto_optimal
from edgetool.sweep.metrics import Row
from tests.sweep.made_rows import REJECTED, row, variant

FIGURES = st.one_of(st.integers(0, 4).map(float), st.just(math.inf))


def defined(points: list[tuple[float, ...]]) -> list[bool]:
    """Which points no other beats."""
    return [
        not any(all(a <= b for a, b in zip(other, point, strict=True)) and other != point for other in points)
        for point in points
    ]


@given(st.integers(1, 5).flatmap(lambda axes: st.lists(st.tuples(*[FIGURES] * axes), min_size=1, max_size=40)))
def test_the_optimal_points_match_the_definition(points: list[tuple[float, ...]]) -> None:
    assert pareto_optimal(points) == defined(points)


@pytest.mark.slow
@pytest.mark.parametrize("axes", [2, 3, 4])
def test_more_points_than_are_compared_at_once(axes: int) -> None:
    rng = random.Random(axes)
    points = []
    for _ in range(600):  # near a plane, so that many are on the front
        figures = [rng.randrange(40) for _ in range(axes - 1)]
        points.append((*map(float, figures), float(rng.choice([0, 0, 3]) - sum(figures))))
    expected = defined(points)
    assert sum(expected) > (2 if axes == 2 else 256)
    assert pareto_optimal(points) == expected


def made(number: int, accuracy: float | None, latency: float | None, **more: object) -> Row:
    band = None if latency is None else Band(latency, latency, latency)
    of = variant(target=str(more.pop("target", "board")))
    made_row = row(number, of, quality={"accuracy": accuracy, "agreement": None}, latency_ms=band)
    return replace(made_row, **more)  # type: ignore[arg-type]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(0, 3)),
            st.one_of(st.none(), st.integers(0, 3)),
            st.sampled_from(["a", "b"]),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_only_accepted_rows_with_both_figures_and_within_a_target(
    drawn: list[tuple[int | None, int | None, str, bool]],
) -> None:
    rows = [
        made(number, accuracy, latency, target=target, **({} if accepted else {"judged": REJECTED}))
        for number, (accuracy, latency, target, accepted) in enumerate(drawn, start=1)
    ]
    expected = set()
    for wanted in ("a", "b"):
        known = [
            (number, (-item[0], item[1]))
            for number, item in enumerate(drawn, start=1)
            if item[0] is not None and item[1] is not None and item[2] == wanted and item[3]
        ]
        kept = defined([point for _, point in known])
        expected |= {number for (number, _), keep in zip(known, kept, strict=True) if keep}
    assert front(rows, ("accuracy", "latency_ms")) == expected


def test_no_points_and_no_axes_have_no_front() -> None:
    assert pareto_optimal([]) == []
    assert pareto_optimal([(), ()]) == [False, False]


def test_rows_that_are_not_done_are_on_no_front() -> None:
    rows = [made(1, 0.5, 9.0), Row(2, variant(), "failed", reason="why"), Row(3, variant(), "pending")]
    assert front(rows) == {1}


EQUAL = {"sqnr_db": None, "equal": True}


def test_equal_outputs_have_the_best_sqnr_and_no_signal_has_none() -> None:
    value = AXES["sqnr_db"].value
    assert value(row(1, quality=EQUAL)) == math.inf
    assert value(row(1, quality={"sqnr_db": None})) is None
    rows = [row(number, quality=quality) for number, quality in enumerate((EQUAL, {"sqnr_db": 90.0}, EQUAL), 1)]
    assert front(rows, ("sqnr_db",)) == {1, 3}
    unknown = row(4, quality={"sqnr_db": None})
    assert front([*rows, unknown], ("sqnr_db",)) == {1, 3}
    assert front([rows[1], unknown], ("sqnr_db",)) == {2}


def test_agreement_replaces_unknown_accuracy() -> None:
    value = AXES["accuracy"].value
    assert value(row(1, quality={"accuracy": 0.5, "agreement": 0.75})) == 0.5
    assert value(row(1, quality={"accuracy": None, "agreement": 0.75})) == 0.75


def test_each_target_has_the_default_axes_that_are_known_there() -> None:
    silent = {"accuracy": None, "agreement": None}
    known = [row(1), row(2)]
    unknown = [row(3, variant(target="core"), quality=silent, latency_ms=None)]
    assert default_axes(known) == DEFAULT_AXES
    assert default_axes(unknown) == ("sqnr_db", "arena_bytes", "model_bytes")
    assert front([*known, *unknown]) == {1, 2, 3}
    assert front([*known, *unknown], DEFAULT_AXES) == {1, 2}


def test_every_axis_puts_the_better_of_two_first() -> None:
    better = row(
        1, quality={"accuracy": 0.99, "sqnr_db": 60.0}, latency_ms=Band(1, 1, 1), energy_uj=Band(1, 1, 1),
        arena_bytes=1, model_bytes=1, macs=1, parameters=1,
    )  # fmt: skip
    for name in AXES:
        assert front([row(2), better], (name,)) == {1}, name
    for pair in itertools.combinations(AXES, 2):
        assert front([row(2), better], pair) == {1}


def test_an_unknown_axis_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'speed'; use one of accuracy, "):
        front([], ("speed",))
    with pytest.raises(UsageError, match="requires at least one axis"):
        front([], ())
