"""A search under way: deadlines and Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from edgetool.errors import UsageError
from edgetool.memory.effort import Effort
from edgetool.pipeline.planning import watched


def test_a_deadline_ends_the_search_and_frees_the_nodes() -> None:
    with watched(0.05, seed=7) as watch:
        assert (watch.effort.seed, watch.effort.node_limit) == (7, None)
        assert watch.effort.stop() is False
        time.sleep(0.06)
        assert watch.effort.stop() is True
        assert watch.effort.stop() is True
    assert (watch.timed_out, watch.interrupted) == (True, False)


def test_a_part_of_a_search_ends_before_the_whole_and_is_told() -> None:
    with watched(60, seed=7) as watch:
        early, late = watch.part(1e-9), watch.part(0.5)
        assert (early.seed, early.node_limit) == (7, None)
        assert (late.stop(), watch.timed_out) == (False, False)
        assert (early.stop(), watch.timed_out) == (True, True)
        assert (late.stop(), watch.effort.stop()) == (False, False)
        watch.interrupted = True
        assert late.stop() is True


def test_without_a_time_limit_the_nodes_are_limited() -> None:
    with watched(None) as watch:
        assert watch.effort.node_limit == Effort().node_limit
        assert watch.effort.stop() is False
        assert watch.part(0.5) is watch.effort


def test_the_first_interrupt_ends_the_search_and_the_second_does_what_it_did_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with watched(None) as watch:
        signal.raise_signal(signal.SIGINT)
        assert watch.interrupted
        assert watch.effort.stop() is True
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handler_is_put_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), watched(1):
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_leave_signals_alone() -> None:
    seen = []

    def work() -> None:
        with watched(1) as watch:
            seen.append((signal.getsignal(signal.SIGINT), watch.effort.stop()))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]


def test_ticks_come_a_few_times_a_second() -> None:
    ticks: list[float] = []
    with watched(1, tick=lambda: ticks.append(time.monotonic())) as watch:
        while not watch.effort.stop():
            time.sleep(0.002)
    assert 2 <= len(ticks) <= 6


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), 1e11])
def test_senseless_limits_are_refused(limit: float) -> None:
    with pytest.raises(UsageError), watched(limit):
        pytest.fail("not reached")
