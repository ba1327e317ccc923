"""The stage of CP-SAT: what it proves, and that it can be stopped."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import threading
import time
from random import Random
from types import FrameType

import pytest

from edgetool.errors import InternalError, MissingExtraError
from edgetool.memory.layout import cp_sat
from edgetool.memory.layout.cp_sat import close_gap
from edgetool.memory.layout.instance import Instance, easy_bound, layout_peak, split
from edgetool.memory.layout.solve import solve
from edgetool.memory.problem import Buffer, Effort, LayoutProblem, Lifetime

needs_ortools = pytest.mark.skipif(importlib.util.find_spec("ortools") is None, reason="needs the extra 'cp-sat'")
# At most 4 units are alive at once, and no layout is lower than 5: worked out by hand, and by CP-SAT's pairwise model.
KNOT = ((0, 0, 3), (0, 2, 1), (1, 1, 2), (1, 3, 1), (2, 4, 1), (3, 3, 2), (4, 4, 3))
# Far longer than anything here takes, and less than a stopped search may.
SOON = 1.0


def instance_of(*buffers: tuple[int, int, int], alignments: dict[int, int] | None = None) -> Instance:
    buffers = [
        Buffer(0, i, "", size, Lifetime(first, last), alignment=(alignments or {}).get(i, 1), granule=1)
        for i, (first, last, size) in enumerate(buffers)
    ]
    (part,) = split(LayoutProblem(tuple(buffers)))
    return part.instance


def stacked(instance: Instance) -> tuple[int, ...]:
    """One above the other, whatever the lifetimes."""
    offsets, end = [], 0
    for size, alignment in zip(instance.sizes, instance.alignments, strict=True):
        offsets.append(-(-end // alignment) * alignment)
        end = offsets[-1] + size
    return tuple(offsets)


def is_valid(instance: Instance, offsets: tuple[int, ...]) -> bool:
    rows = list(zip(instance.first, instance.last, instance.sizes, offsets, strict=True))
    return all(offset % step == 0 for offset, step in zip(offsets, instance.alignments, strict=True)) and not any(
        a[0] <= b[1] and b[0] <= a[1] and a[3] < b[3] + b[2] and b[3] < a[3] + a[2]
        for i, a in enumerate(rows)
        for b in rows[:i]
    )


def hard() -> Instance:
    """Open for longer than any test lasts: 200 buffers that fill the memory at every moment."""
    random = Random(7)
    alive = [(0, random.randint(50, 400)) for _ in range(16)]
    found = []
    for moment in range(1, 60):
        ending = random.sample(alive, 3)
        total = sum(size for _, size in ending)
        found += [(first, moment - 1, size) for first, size in ending]
        cuts = sorted(random.sample(range(20, total - 20), 2))
        alive = [one for one in alive if one not in ending]
        alive += [(moment, size) for size in (cuts[0], cuts[1] - cuts[0], total - cuts[1])]
    found += [(first, 59, size) for first, size in alive]
    return instance_of(*found)


@needs_ortools
def test_the_best_is_found_and_proven() -> None:
    instance = instance_of(*KNOT)
    assert easy_bound(instance) == 4
    result = close_gap(instance, stacked(instance), 4, Effort())
    assert is_valid(instance, result.offsets)
    assert (layout_peak(instance, result.offsets), result.lower_bound, result.proven) == (5, 5, True)


@needs_ortools
def test_offsets_that_are_optimal_are_returned() -> None:
    instance = instance_of(*KNOT)
    best = close_gap(instance, stacked(instance), 4, Effort()).offsets
    result = close_gap(instance, best, 4, Effort())
    assert (result.offsets, result.lower_bound, result.proven) == (best, 5, True)


@needs_ortools
def test_a_capacity_ends_the_search_and_proves_nothing_below() -> None:
    instance = instance_of(*KNOT)
    result = close_gap(instance, stacked(instance), 4, Effort(), capacity=7)
    assert is_valid(instance, result.offsets)
    assert layout_peak(instance, result.offsets) <= 7
    assert result.lower_bound == 4
    assert not result.proven


@needs_ortools
def test_a_capacity_that_no_layout_meets_is_proven_impossible() -> None:
    instance = instance_of(*KNOT)
    result = close_gap(instance, stacked(instance), 3, Effort(), capacity=4)
    assert (layout_peak(instance, result.offsets), result.lower_bound, result.proven) == (5, 5, True)


@needs_ortools
def test_alignments_are_kept() -> None:
    instance = instance_of((0, 1, 3), (0, 0, 3), (1, 1, 3), alignments={0: 4, 1: 4, 2: 4})
    result = close_gap(instance, stacked(instance), 6, Effort())
    assert is_valid(instance, result.offsets)
    assert (layout_peak(instance, result.offsets), result.proven) == (7, True)


@needs_ortools
def test_pins_are_kept() -> None:
    instance = Instance((0, 0), (1, 1), (4, 3), (1, 1), (2, -1), 2)
    result = close_gap(instance, (2, 12), 7, Effort())
    assert (result.offsets, result.lower_bound, result.proven) == ((2, 6), 9, True)


@needs_ortools
def test_bound_and_layout_that_contradict_are_an_error() -> None:
    instance = Instance((0, 0), (0, 0), (4, 4), (1, 1), (0, 2), 1)
    with pytest.raises(InternalError, match="INFEASIBLE"):
        close_gap(instance, (0, 2), 5, Effort())


@needs_ortools
def test_a_limit_of_nodes_gives_the_same_each_time() -> None:
    instance = hard()
    effort = Effort(node_limit=3_000)
    one, other = (close_gap(instance, stacked(instance), easy_bound(instance), effort) for _ in range(2))
    assert one == other
    assert is_valid(instance, one.offsets)
    assert layout_peak(instance, one.offsets) < layout_peak(instance, stacked(instance))


@needs_ortools
def test_it_ends_soon_after_stop() -> None:
    instance = hard()
    reported: list[float] = []
    begun = time.monotonic()

    def stop() -> bool:
        if time.monotonic() - begun > 0.5 and not reported:
            reported.append(time.monotonic())
        return bool(reported)

    result = close_gap(instance, stacked(instance), easy_bound(instance), Effort(node_limit=None, stop=stop))
    assert time.monotonic() - reported[0] < SOON
    assert is_valid(instance, result.offsets)
    assert not result.proven


@needs_ortools
def test_nothing_begins_after_stop() -> None:
    instance = instance_of(*KNOT)
    offsets = stacked(instance)
    result = close_gap(instance, offsets, 4, Effort(stop=lambda: True))
    assert (result.offsets, result.lower_bound, result.proven) == (offsets, 4, False)


@needs_ortools
def test_ctrl_c_reaches_the_handler_of_the_program_and_the_best_so_far_comes_back() -> None:
    instance = hard()
    taken: list[float] = []

    def take(_number: int, _frame: FrameType | None) -> None:
        taken.append(time.monotonic())

    before = signal.signal(signal.SIGINT, take)
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        effort = Effort(node_limit=None, stop=lambda: bool(taken))
        result = close_gap(instance, stacked(instance), easy_bound(instance), effort)
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - taken[0] < SOON
    assert is_valid(instance, result.offsets)


@needs_ortools
def test_an_exception_ends_the_search_and_is_passed_on() -> None:
    instance = hard()
    begun = time.monotonic()

    def stop() -> bool:
        if time.monotonic() - begun > 0.3:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        close_gap(instance, stacked(instance), easy_bound(instance), Effort(node_limit=None, stop=stop))
    assert time.monotonic() - begun < 0.3 + SOON


def test_peaks_beyond_the_precision_of_floats_are_left_alone() -> None:
    instance = Instance((0, 0), (0, 0), (2**60, 2**60 + 1), (1, 1), (-1, -1), 1)
    result = close_gap(instance, (0, 2**60 + 5), 2**61 + 1, Effort())
    assert (result.offsets, result.lower_bound, result.proven) == ((0, 2**60 + 5), 2**61 + 1, False)


def test_instances_with_too_many_buffers_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp_sat, "MAX_BUFFERS", len(KNOT) - 1)
    instance = instance_of(*KNOT)
    offsets = stacked(instance)
    result = close_gap(instance, offsets, 4, Effort())
    assert (result.offsets, result.lower_bound, result.proven) == (offsets, 4, False)


def test_without_ortools_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp_sat.importlib.util, "find_spec", lambda _name: None)
    assert not cp_sat.available()
    with pytest.raises(MissingExtraError, match=r"OR-Tools.*pip install 'edgetool\[cp-sat\]'"):
        solve(LayoutProblem(()), strategy="cp-sat")
    instance = instance_of(*KNOT)
    with pytest.raises(MissingExtraError, match="OR-Tools"):
        close_gap(instance, stacked(instance), 4, Effort())


def test_ortools_is_loaded_only_when_it_is_needed() -> None:
    code = "import sys, edgetool.memory.layout.solve; print(sorted({'ortools', 'numba', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
