"""Which jobs of a sweep are done, and which may begin."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from edgetool.sweep.job import Job, Outcome

# waiting: not begun. left out: a job that it needs failed, or is left out itself.
State = Literal["waiting", "running", "done", "failed", "left out"]


class Agenda:
    """The jobs of a sweep, each key once: dependencies first, and among those that may begin the one added first.

    known: the outcomes of earlier runs; their jobs are not begun again. reused: how many of the jobs they cover.
    states, kinds, waiting_kinds: how many jobs are in each state, of each kind, and of each kind waiting.
    """

    def __init__(self, known: Mapping[str, Outcome]) -> None:
        self.reused = 0
        self.states: Counter[State] = Counter()
        self.kinds: Counter[str] = Counter()
        self.waiting_kinds: Counter[str] = Counter()
        self._known = known
        self._jobs: dict[str, Job] = {}
        self._state: dict[str, State] = {}
        self._places: dict[str, int] = {}
        self._open: dict[str, set[str]] = {}
        self._dependents: dict[str, list[str]] = {}
        self._ready: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def is_finished(self) -> bool:
        """Nothing waits and nothing runs."""
        return self.states["waiting"] == self.states["running"] == 0

    def add(self, jobs: Iterable[Job]) -> None:
        """Take them up, each after those that it needs; those that are here already are passed over."""
        for job in jobs:
            if job.key not in self._jobs:
                self._places[job.key] = len(self._jobs)
                self._jobs[job.key] = job
                self.kinds[job.kind] += 1
                self._enter(job)

    def job(self, key: str) -> Job:
        """The job of that key."""
        return self._jobs[key]

    def take(self) -> Job | None:
        """The next job, which runs from now on; None where none may begin yet."""
        if not self._ready:
            return None
        _, key = heapq.heappop(self._ready)
        self._move(key, "running")
        return self._jobs[key]

    def end(self, key: str, outcome: Outcome) -> None:
        """A job that ran has ended: those that need it may begin, or are left out."""
        failed = outcome.reason is not None
        self._move(key, "failed" if failed else "done")
        for dependent in self._dependents.pop(key, ()):
            if failed:
                self._leave_out(dependent)
            else:
                self._open[dependent].discard(key)
                self._offer(dependent)

    def _enter(self, job: Job) -> None:
        known = self._known.get(job.key)
        if known is not None:
            self.reused += 1
            self._move(job.key, "done" if known.reason is None else "failed")
            return
        states = {need: self._state[need] for need in job.needs}
        if any(state in ("failed", "left out") for state in states.values()):
            self._move(job.key, "left out")
            return
        self._move(job.key, "waiting")
        self._open[job.key] = {need for need, state in states.items() if state != "done"}
        for need in self._open[job.key]:
            self._dependents.setdefault(need, []).append(job.key)
        self._offer(job.key)

    def _offer(self, key: str) -> None:
        if self._state[key] == "waiting" and not self._open[key]:
            heapq.heappush(self._ready, (self._places[key], key))

    def _leave_out(self, key: str) -> None:
        if self._state[key] == "waiting":
            self._move(key, "left out")
            for dependent in self._dependents.pop(key, ()):
                self._leave_out(dependent)

    def _move(self, key: str, state: State) -> None:
        before = self._state.get(key)
        if before is not None:
            self.states[before] -= 1
        self._state[key] = state
        self.states[state] += 1
        self.waiting_kinds[self._jobs[key].kind] += (state == "waiting") - (before == "waiting")
