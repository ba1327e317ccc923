"""Jobs done on this machine: each in a child process of its own, started and awaited by a thread."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from edgetool.errors import UsageError
from edgetool.sweep import work
from edgetool.sweep.job import Outcome, Task
from edgetool.sweep.pool import Do

Stop = Callable[[], None]
CLOSING_SECONDS = 10.0


def usable_cpus() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalPool:
    """A Pool of `jobs` threads; the calling one stays free to be interrupted."""

    def __init__(self, jobs: int | None = None, *, do: Do = work.do) -> None:
        if jobs is not None and jobs < 1:
            raise UsageError(f"{jobs} is not a valid number of jobs", fix="use 1 or more")
        self.capacity = usable_cpus() if jobs is None else jobs
        self._do = do
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[str, Outcome | BaseException]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stops: dict[str, Stop] = {}
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"sweep-{number}", daemon=True) for number in range(self.capacity)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task) -> None:
        """See Pool.submit."""
        self._tasks.put(task)

    def wait(self, timeout: float) -> tuple[str, Outcome] | None:
        """See Pool.wait."""
        try:
            key, outcome = self._ended.get(timeout=timeout) if timeout > 0 else self._ended.get_nowait()
        except queue.Empty:
            return None
        if isinstance(outcome, BaseException):
            raise outcome
        return key, outcome

    def close(self) -> None:
        """Kill the children; return when the threads have removed their directories."""
        with self._lock:
            self._closed = True
            stops = tuple(self._stops.values())
        for stop in stops:
            stop()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(CLOSING_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None and not self._closed:
            key = task.job.key
            try:
                outcome: Outcome | BaseException = self._do(task, on_start=self._starter(key))
            except BaseException as error:  # raised again by wait, in the thread of the caller
                outcome = error
            with self._lock:
                self._stops.pop(key, None)
            self._ended.put((key, outcome))

    def _starter(self, key: str) -> Callable[[Stop], None]:
        """What is told of a started child: close ends it, also where it came first."""

        def started(stop: Stop) -> None:
            with self._lock:
                self._stops[key] = stop
                closed = self._closed
            if closed:
                stop()

        return started
