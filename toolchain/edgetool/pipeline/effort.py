"""A search under way: it ends at a deadline or at Ctrl-C, and what it has found by then counts."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from edgetool.errors import UsageError
from edgetool.memory.effort import Effort

MAX_SECONDS = 10**7  # a third of a year
TICK_SECONDS = 0.2


class Watch:
    """The limits of a search as an Effort, and what ended it.

    With a time limit the number of search nodes is free; without one it is the Effort's own. Times are of the
    monotonic clock. tick is called about five times a second while the search asks whether to stop. interrupted and
    timed_out say what has ended a search, or a part of it.
    """

    def __init__(self, time_limit: float | None, *, seed: int = 0, tick: Callable[[], None] | None = None) -> None:
        if time_limit is not None and not 0 < time_limit <= MAX_SECONDS:
            raise UsageError(f"the time limit {time_limit} is not between 0 and {MAX_SECONDS:,} seconds")
        now = time.monotonic()
        self.interrupted = False
        self.timed_out = False
        self._start = now
        self._time_limit = time_limit
        self._tick = tick
        self._next_tick = now + TICK_SECONDS
        self.effort = (
            Effort(seed=seed, stop=self._stop)
            if time_limit is None
            else Effort(seed=seed, node_limit=None, stop=self._stop)
        )

    def part(self, share: float) -> Effort:
        """The effort of a search that others follow: it ends when this share of the time limit is over.

        Without a time limit it is `effort`.
        """
        return self.effort if self._time_limit is None else replace(self.effort, stop=lambda: self._stop(share))

    def _stop(self, share: float = 1) -> bool:
        now = time.monotonic()
        if self._tick is not None and now >= self._next_tick:
            self._next_tick = now + TICK_SECONDS
            self._tick()
        over = self._time_limit is not None and now >= self._start + share * self._time_limit
        self.timed_out = self.timed_out or over
        return self.interrupted or over


@contextmanager
def watched(time_limit: float | None, *, seed: int = 0, tick: Callable[[], None] | None = None) -> Iterator[Watch]:
    """A Watch whose search the first Ctrl-C (SIGINT) ends early; a second does what it did before.

    time_limit in seconds. In threads other than the main one, signals are left alone. Raises UsageError for a time
    limit that is not positive.
    """
    watch = Watch(time_limit, seed=seed, tick=tick)
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield watch
        return

    def end_search(signum: int, frame: FrameType | None) -> None:
        watch.interrupted = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, end_search)
    try:
        yield watch
    finally:
        signal.signal(signal.SIGINT, before)
