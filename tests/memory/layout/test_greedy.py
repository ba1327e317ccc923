"""The greedy portfolio: valid, never above TFLM's own greedy, the same however the pairs are found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.layout import greedy
from edgetool.memory.layout.greedy import (
    ORDERS,
    DurationIndex,
    first_fit_by,
    greedy_offsets,
    loads,
    neighbours,
    orders,
    pairs,
)
from edgetool.memory.layout.instance import Instance
from edgetool.memory.problem import Effort
from tests.memory.layout.instances import assert_valid, backbone, instance_of, instances, max_live, top


def plain_tflm(instance: Instance) -> list[int]:
    """TFLM's greedy as its description says it: by size, later ones first, each in the lowest gap that holds it."""
    offsets = dict(enumerate(pin for pin in instance.pins))
    placed = [i for i, pin in enumerate(instance.pins) if pin >= 0]
    for i in sorted((i for i in offsets if i not in placed), key=lambda i: (instance.sizes[i], i), reverse=True):
        others = [j for j in placed if instance.first[j] <= instance.last[i] and instance.first[i] <= instance.last[j]]
        step, size = instance.alignments[i], instance.sizes[i]
        ends = [0, *(-(-(offsets[j] + instance.sizes[j]) // step) * step for j in others)]
        offsets[i] = min(
            x for x in ends if all(x + size <= offsets[j] or offsets[j] + instance.sizes[j] <= x for j in others)
        )
        placed.append(i)
    return [offsets[i] for i in range(len(offsets))]


@given(instances(), st.integers(0, 100))
def test_greedy_is_valid_and_never_above_tflm(instance: Instance, target: int) -> None:
    offsets = greedy_offsets(instance, Effort(), target)
    assert_valid(instance, offsets)
    assert top(instance, offsets) <= top(instance, plain_tflm(instance))


@given(instances())
def test_the_first_order_is_tflms(instance: Instance) -> None:
    assert next(iter(ORDERS)) == "tflm"
    assert first_fit_by(instance, "tflm") == plain_tflm(instance)


@given(instances())
def test_the_duration_index_gives_the_same_layout(instance: Instance) -> None:
    index = DurationIndex(instance)
    for name, order in zip(ORDERS, orders(instance, list(ORDERS)), strict=True):
        assert index.first_fit(order, None, Effort()) == first_fit_by(instance, name)


@given(instances())
def test_neighbours_and_loads(instance: Instance) -> None:
    spans = list(zip(instance.first, instance.last, strict=True))
    near = neighbours(instance, 10_000)
    assert near is not None
    for i, (first, last) in enumerate(spans):
        assert sorted(near[i]) == [j for j, (a, b) in enumerate(spans) if j != i and a <= last and first <= b]
    assert max(loads(instance)) == max_live(instance)
    assert pairs(instance) == sum(map(len, near)) // 2
    assert neighbours(instance, pairs(instance)) is not None
    assert pairs(instance) == 0 or neighbours(instance, pairs(instance) - 1) is None


def test_the_best_order_wins_and_the_target_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = instance_of([(0, 1, 4, 1, -1), (3, 4, 4, 1, -1), (1, 3, 2, 1, -1), (0, 0, 2, 1, -1), (4, 4, 2, 1, -1)])
    assert top(instance, greedy_offsets(instance, Effort(), 6)) == 6
    tried: list[str] = []
    real = greedy.orders

    def counted(instance: Instance, names: Sequence[str]) -> Iterator[list[int]]:
        for name, order in zip(names, real(instance, names), strict=True):
            tried.append(name)
            yield order

    monkeypatch.setattr(greedy, "orders", counted)
    greedy_offsets(instance, Effort(), 100)
    assert tried == ["tflm"]
    tried.clear()
    greedy_offsets(instance, Effort(), 0)
    assert tried == list(ORDERS)


@pytest.mark.parametrize("effort", [Effort(stop=lambda: True), Effort(node_limit=0)])
def test_without_effort_there_is_still_a_layout(effort: Effort) -> None:
    instance = backbone(400, 3)
    assert greedy_offsets(instance, effort, 0) == plain_tflm(instance)


def test_a_fully_pinned_problem_is_returned_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("nothing is free")

    monkeypatch.setattr(greedy, "neighbours", refused)
    reported: list[list[int]] = []
    instance = instance_of([(0, 1, 4, 1, 6), (1, 2, 4, 1, 0)])
    assert greedy_offsets(instance, Effort(), 0, reported.append) == [6, 0]
    assert reported == [[6, 0]]


def test_it_reports_the_first_layout_and_lower_ones() -> None:
    instance = backbone(400, 7)
    reported: list[list[int]] = []
    best = greedy_offsets(instance, Effort(), 0, reported.append)
    peaks = [top(instance, offsets) for offsets in reported]
    assert reported[0] == plain_tflm(instance)
    assert reported[-1] == best
    assert len(reported) > 1
    assert peaks == sorted(set(peaks), reverse=True)


def test_a_stop_after_the_first_layout_ends_the_order_under_way() -> None:
    """The first order goes on when reported to stop; the second asks within a slice."""
    instance = backbone(2000, 3)
    reported: list[list[int]] = []
    asked_since = []

    def stop() -> bool:
        if reported:
            asked_since.append(True)
        return len(asked_since) > 2

    assert greedy_offsets(instance, Effort(stop=stop), 0, reported.append) == reported[0] == plain_tflm(instance)
    assert len(asked_since) <= 5


def test_no_buffers() -> None:
    assert greedy_offsets(Instance((), (), (), (), (), 0), Effort(), 0) == []


@pytest.mark.parametrize("most_pairs", [0, greedy.MAX_PAIRS])
def test_two_thousand_buffers(most_pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greedy, "MAX_PAIRS", most_pairs)
    instance = backbone(2000, 7)
    offsets = greedy_offsets(instance, Effort(node_limit=4000), 0)
    assert_valid(instance, offsets)
    assert top(instance, offsets) <= top(instance, plain_tflm(instance))
