"""Large layouts made lower: valid, never higher, the same for the same seed, as low as is known to be possible."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.layout.ejection import POLICIES, EjectionChains, improve
from edgetool.memory.layout.greedy import first_fit_by, greedy_offsets
from edgetool.memory.layout.instance import Instance
from edgetool.memory.problem import Effort
from tests.memory.layout.instances import assert_valid, backbone, instance_of, instances, max_live, top


@given(instances(), st.integers(0, 3), st.sampled_from(["tflm", "start", "end"]))
def test_improved_layouts_are_valid_and_never_higher(instance: Instance, seed: int, name: str) -> None:
    start = first_fit_by(instance, name)
    offsets = improve(instance, start, Effort(seed, 400), max_live(instance))
    assert_valid(instance, offsets)
    assert top(instance, offsets) <= top(instance, start)


@given(instances(), st.data())
def test_a_chain_that_fails_leaves_no_trace(instance: Instance, data: st.DataObject) -> None:
    start = first_fit_by(instance, "start")
    chains = EjectionChains(instance, start, 1)
    buffer = data.draw(st.sampled_from([i for i, pin in enumerate(instance.pins) if pin < 0] or [-1]))
    capacity = data.draw(st.integers(0, top(instance, start)))
    if buffer < 0:
        return
    done = chains.lower(buffer, capacity, 100, data.draw(st.sampled_from(POLICIES)), lambda: False)
    assert_valid(instance, chains.offsets)
    if not done:
        assert chains.offsets == start
    for i, size in enumerate(instance.sizes):
        if (i == buffer and done) or chains.offsets[i] != start[i]:
            assert chains.offsets[i] + size <= capacity


def test_two_thousand_buffers_come_down_to_the_bound() -> None:
    instance = backbone(2000, 5)
    bound = max_live(instance)
    start = greedy_offsets(instance, Effort(), bound)
    assert top(instance, start) > bound * 1.05
    offsets = improve(instance, start, Effort(0, 20_000), bound)
    assert_valid(instance, offsets)
    assert top(instance, offsets) <= bound * 1.02


def test_it_reports_lower_layouts_on_the_way() -> None:
    instance = backbone(2000, 5)
    start = greedy_offsets(instance, Effort(node_limit=0), 0)
    reported: list[list[int]] = []
    best = improve(
        instance, start, Effort(0, 20_000), max_live(instance), lambda offsets: reported.append(list(offsets))
    )
    peaks = [top(instance, offsets) for offsets in reported]
    assert len(reported) > 2
    assert peaks == sorted(set(peaks), reverse=True)
    assert top(instance, best) <= peaks[-1] < peaks[0] < top(instance, start)
    assert_valid(instance, reported[-1])


def test_the_same_seed_gives_the_same_layout() -> None:
    instance = backbone(600, 2)
    start = first_fit_by(instance, "tflm")
    runs = [improve(instance, start, Effort(seed, 1500), 0) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize("effort", [Effort(stop=lambda: True), Effort(node_limit=0)])
def test_without_effort_it_stays_as_it_is(effort: Effort) -> None:
    instance = backbone(300, 2)
    start = first_fit_by(instance, "tflm")
    assert improve(instance, start, effort, 0) == start


def test_it_stops_on_request() -> None:
    asked = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 20

    instance = backbone(300, 2)
    start = first_fit_by(instance, "start")
    assert_valid(instance, improve(instance, start, Effort(0, None, stop), 0))
    assert len(asked) < 60


def test_it_ends_at_the_target_or_at_the_highest_pin() -> None:
    instance = backbone(300, 2)
    start = first_fit_by(instance, "start")
    target = (top(instance, start) + max_live(instance)) // 2
    assert top(instance, improve(instance, start, Effort(0, None), target)) <= target
    pinned = instance_of([(0, 1, 4, 1, 20), (0, 1, 4, 1, -1), (1, 1, 2, 1, -1)])
    assert top(pinned, improve(pinned, [20, 24, 0], Effort(0, None), 10)) == 24


def test_pins_and_alignments_of_many() -> None:
    instance = backbone(1000, 9)
    low = first_fit_by(instance, "area")
    instance = replace(
        instance,
        pins=tuple(offset if i % 10 == 0 else -1 for i, offset in enumerate(low)),
        alignments=tuple(16 if i % 3 == 1 else 1 for i in range(1000)),
    )
    start = greedy_offsets(instance, Effort(), 0)
    offsets = improve(instance, start, Effort(0, 2000), max_live(instance))
    assert_valid(instance, offsets)
    assert top(instance, offsets) <= top(instance, start)
