"""Does the jobs of a sweep that its store lacks, and keeps each outcome as it comes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from edgetool.errors import EdgetoolError
from edgetool.sweep.agenda import Agenda
from edgetool.sweep.job import Content, InputFile, Job, Made, Task
from edgetool.sweep.pool import Pool
from edgetool.sweep.progress import Advance, seconds_by_kind, seconds_left
from edgetool.sweep.store import Store

# How often the time left is told anew while nothing ends.
TICK_SECONDS = 0.5


class Performer:
    """Does what is on the agenda in the pool.

    seconds: the most that a job may take. folder: where jobs work on this machine. computed: how many jobs ended in
    this run. told: called after every job, every half second and at the end.
    """

    def __init__(
        self,
        agenda: Agenda,
        store: Store,
        pool: Pool,
        *,
        seconds: float,
        folder: Path | None = None,
        told: Callable[[Advance], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.computed = 0
        self._agenda = agenda
        self._store = store
        self._pool = pool
        self._seconds = seconds
        self._folder = folder
        self._told = told
        self._clock = clock
        self._begun: dict[str, float] = {}
        self._ended: dict[str, tuple[int, float]] = {}

    def perform(self, words: Mapping[str, str], still_to_propose: float = 0.0) -> None:
        """Do all that can be done; a job that fails is recorded, and leaves out those that need it.

        words: what a job does, by key. still_to_propose: how many times as many jobs as now known are to come, for the
        time left. Raises what is no variant's fault (EdgetoolError: data that does not fit, a full disk, a cluster that
        goes away); what had ended by then is recorded.
        """
        try:
            while not self._agenda.is_finished:
                while len(self._begun) < self._pool.capacity and (job := self._agenda.take()) is not None:
                    self._pool.submit(task_of(job, self._store, self._seconds, self._folder))
                    self._begun[job.key] = self._clock()
                self._tell(words, still_to_propose)
                self._await(TICK_SECONDS)
        except BaseException:  # an interruption, too
            self._keep_what_has_ended()
            raise
        self._tell(words, still_to_propose)

    def _await(self, timeout: float) -> None:
        ended = self._pool.wait(timeout)
        if ended is None:
            return
        key, outcome = ended
        job = self._agenda.job(key)
        self._store.record(job, outcome)
        self._agenda.end(key, outcome)
        self.computed += 1
        del self._begun[key]
        if outcome.reason is None:  # a failure may come at once, or after hours
            count, seconds = self._ended.get(job.kind, (0, 0.0))
            self._ended[job.kind] = count + 1, seconds + outcome.seconds

    def _keep_what_has_ended(self) -> None:
        """Others may have ended beside the one that raised; what they raise says no more than the first."""
        for _ in tuple(self._begun):
            try:
                self._await(0.0)
            except EdgetoolError:
                continue

    def _tell(self, words: Mapping[str, str], still_to_propose: float) -> None:
        if self._told is None:
            return
        now, agenda, states = self._clock(), self._agenda, self._agenda.states
        running = [(agenda.job(key).kind, now - begun) for key, begun in self._begun.items()]
        each = seconds_by_kind(self._ended, running)
        known = len(agenda)
        waiting = {kind: agenda.waiting_kinds[kind] + still_to_propose * count for kind, count in agenda.kinds.items()}
        self._told(
            Advance(
                done=states["done"] + states["failed"] + states["left out"],
                total=known + round(known * still_to_propose),
                failed=states["failed"],
                running=tuple(words[key] for key in self._begun),
                seconds_left=None if each is None else seconds_left(each, waiting, running, self._pool.capacity),
            )
        )


def task_of(job: Job, store: Store, seconds: float, folder: Path | None = None) -> Task:
    """The job with its inputs at hand: the user's files by path, what other jobs made out of the store."""
    contents = {role: _content(item, store) for role, item in job.inputs.items()}
    return Task(job=job, contents=contents, seconds=seconds, folder=folder)


def _content(item: InputFile | Made, store: Store) -> Content:
    if isinstance(item, InputFile):
        return Content(name=item.name, sha256=item.sha256, path=item.path)
    data = store.blob(item.key, item.blob)
    return Content(name=item.blob, sha256=hashlib.sha256(data).hexdigest(), data=data)
