"""How the jobs of a sweep are done: here, in processes of their own, or by the workers of a Dask cluster.

Where jobs are done: what local processes and a cluster have in common.

How far a sweep has come, and how long it may still take.

Does the jobs of a sweep that its store lacks, and keeps each outcome as it comes.

Does a job in a child process: what is the model's fault is its outcome, what is the user's is raised.

Jobs done on this machine: each in a child process of its own, started and awaited by a thread.

The side of a cluster's workers: a task arrives as text and bytes, and is done here as it is locally.

Jobs done by the workers of a Dask cluster that is already there.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import logging
import os
import queue
import secrets
import threading
import time
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from edgetool import __version__, child
from edgetool.errors import (
    CalibrationError,
    ClusterError,
    EdgetoolError,
    InternalError,
    MissingExtraError,
    OutputError,
    UsageError,
)
from edgetool.sweep.jobs import BUILDER_FILE, Agenda, Content, InputFile, Job, Kind, Made, Outcome, Task
from edgetool.sweep.store import Store

# `do`, or what stands for it in a test: do(task, on_start=...) hands a function to on_start that ends what it started.
Do = Callable[..., Outcome]


class Pool(Protocol):
    """Does tasks side by side, in whatever order they end. All calls come from one thread."""

    @property
    def capacity(self) -> int:
        """How many tasks are worth having submitted and not yet ended; at least 1."""

    def submit(self, task: Task) -> None:
        """Start it, or let it wait for its turn. Its key must not be in the pool already."""

    def wait(self, timeout: float) -> tuple[str, Outcome] | None:
        """The key and outcome of a task that has ended; None where none ends within `timeout` seconds.

        Raises what a task raised: an error that is no variant's (data that does not fit, a full disk).
        """

    def close(self) -> None:
        """End what still runs, at once; nothing of it remains."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


# How long jobs of each kind take beside each other, until one of the kind has ended: the order of magnitude for small
# models, where loading TensorFlow counts most.
SHARES: Mapping[str, float] = {"build": 5.0, "prune": 6.0, "reference": 8.0, "convert": 8.0, "analyse": 1.0}
# A job that takes longer than others of its kind is taken to need this share of their time still.
OVERTIME = 0.1


@dataclass(frozen=True, slots=True)
class Advance:
    """done, total: jobs (not variants) of the sweep, those of earlier runs included; a job that is left out because one
    that it needs failed counts as done. failed: jobs that failed. running: what runs now, in words. seconds_left: None
    until the first job of this run has ended."""

    done: int
    total: int
    failed: int
    running: tuple[str, ...]
    seconds_left: float | None


def seconds_by_kind(
    ended: Mapping[str, tuple[int, float]], running: Sequence[tuple[str, float]] = ()
) -> dict[str, float] | None:
    """The seconds that a job of each kind takes; None where nothing has ended.

    ended: the number of those that ended well, by kind, and the sum of their seconds: the mean counts. running: kind
    and seconds since each began. A kind of which none has ended takes its share, to the scale of the others, and no
    less than those that run have taken.
    """
    means = {kind: seconds / count for kind, (count, seconds) in ended.items() if count}
    if not means:
        return None
    scale = sum(means.values()) / sum(SHARES[kind] for kind in means)
    so_far = {kind: max(seconds for other, seconds in running if other == kind) for kind, _ in running}
    return {kind: means.get(kind, max(share * scale, so_far.get(kind, 0.0))) for kind, share in SHARES.items()}


def seconds_left(
    each: Mapping[str, float], waiting: Mapping[str, float], running: Sequence[tuple[str, float]], width: int
) -> float:
    """The time until all is done, in seconds: all work shared by those that work side by side, or the longest job
    where that is more.

    each: of seconds_by_kind. waiting: how many of each kind have not begun. running: kind and seconds since each began.
    width: how many run side by side.
    """
    rests = [max(each[kind] - elapsed, OVERTIME * each[kind]) for kind, elapsed in running]
    work = sum(each[kind] * count for kind, count in waiting.items()) + sum(rests)
    longest = max((each[kind] for kind, count in waiting.items() if count > 0), default=0.0)
    return max(work / width, longest, *rests)


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
    contents = {role: _input_content(item, store) for role, item in job.inputs.items()}
    return Task(job=job, contents=contents, seconds=seconds, folder=folder)


def _input_content(item: InputFile | Made, store: Store) -> Content:
    if isinstance(item, InputFile):
        return Content(name=item.name, sha256=item.sha256, path=item.path)
    data = store.blob(item.key, item.blob)
    return Content(name=item.blob, sha256=hashlib.sha256(data).hexdigest(), data=data)


WORKER, BLOBS = "edgetool.sweep.worker", "blobs"
DOING: Mapping[Kind, str] = {
    "build": "building the model",
    "prune": "pruning the model",
    "reference": "running the original float model",
    "convert": "converting and comparing the model",
    "analyse": "planning and estimating the model",
}


def do(task: Task, *, progress: child.Progress | None = None, on_start: child.OnStart | None = None) -> Outcome:
    """The outcome of the task, done in a child process; from any thread, and nothing of it remains.

    on_start is handed a function that ends the child. A model that cannot be built, pruned, converted or run, and a
    process that dies or takes too long, give an outcome with the reason.

    Raises UsageError for what is no variant's fault and will not be better with the next: data that does not fit the
    user's model file (with a builder it may fit the next model), packages that are missing or are other ones here, a
    full disk.
    """
    started = time.monotonic()
    try:
        with child.work_folder(task.folder) as folder:
            value, blobs, reason = _done(task, folder, progress, on_start)
    except OSError as error:
        raise OutputError(
            f"cannot be used as the working directory: {error.strerror or error}",
            where=str(child.temporary_place()),
            fix="set TMPDIR to another disk",
        ) from error
    return Outcome(value, blobs, reason, time.monotonic() - started)


def _done(
    task: Task, folder: Path, progress: child.Progress | None, on_start: child.OnStart | None
) -> tuple[dict[str, Any], dict[str, bytes], str | None]:
    """The value and the blobs, or the reason why there are none."""
    job = task.job
    paths = {role: _placed(folder, role, content) for role, content in task.contents.items()}
    workdir = folder / "job"
    workdir.mkdir()
    try:
        value = child.run(
            WORKER,
            {
                "kind": job.kind,
                "request": job.request,
                "inputs": {role: str(path) for role, path in paths.items()},
                "seconds": task.seconds,
            },
            workdir=workdir,
            limits=child.ProcessLimits(seconds=task.seconds),
            doing=DOING[job.kind],
            advice="try a smaller model, less data, or a longer job_timeout",
            progress=progress,
            on_start=on_start,
            trusted=True,  # it runs our code alone, and what is not to be trusted in children of its own
        )
    except UsageError as error:
        told = _without_folder(error, folder, task.contents)
        if isinstance(error, CalibrationError) and job.request.get("built", False):
            return {}, {}, str(told)
        raise told from error
    except EdgetoolError as error:
        return {}, {}, str(_without_folder(error, folder, task.contents))
    return value, {path.name: path.read_bytes() for path in sorted((workdir / BLOBS).iterdir())}, None


def _placed(folder: Path, role: str, content: Content) -> Path:
    """The path of an input for the child: a link to it, or its bytes in a file of its name."""
    place = folder / _place(role)
    place.mkdir(exist_ok=True)
    path = place / content.name
    if content.path is not None and content.path.exists():
        path.symlink_to(content.path.absolute())
    elif content.data is not None:
        path.write_bytes(content.data)
    else:
        raise UsageError("is not available to the process that needs it", where=content.name)
    return path


def _place(role: str) -> str:
    """The builder's files lie in one folder, as where they come from, so that they find each other."""
    return "builder" if role.startswith(BUILDER_FILE) else role


def _without_folder(error: EdgetoolError, folder: Path, contents: Mapping[str, Content]) -> EdgetoolError:
    """The same error, with the user's names for files instead of where they lay: those folders are gone."""
    roots = dict.fromkeys((str(folder.resolve()), str(folder)))
    lain = [
        *((str(content.path), content.name) for content in contents.values() if content.path is not None),
        *((f"{root}/{_place(role)}/", "") for root in roots for role in contents),
        *((f"{root}/", "") for root in roots),
    ]

    def told(text: str) -> str:
        for lay, name in lain:
            text = text.replace(lay, name)
        return text

    return type(error)(
        told(error.what),
        where=None if error.where is None else told(error.where),
        fix=None if error.fix is None else told(error.fix),
        details=tuple(map(told, error.details)),
    )


Stop = Callable[[], None]
POOL_CLOSING_SECONDS = 10.0


def usable_cpus() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalPool:
    """A Pool of `jobs` threads; the calling one stays free to be interrupted."""

    def __init__(self, jobs: int | None = None, *, do: Do = do) -> None:
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
            thread.join(POOL_CLOSING_SECONDS)

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


WATCH_SECONDS = 0.5


def packed(content: Content) -> bytes:
    """The content as bytes; of a directory a ZIP archive, the same for the same files."""
    if content.path is None:
        return content.data or b""
    if content.path.is_file():
        return content.path.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(path for path in content.path.rglob("*") if path.is_file()):
            archive.writestr(zipfile.ZipInfo(path.relative_to(content.path).as_posix()), path.read_bytes())
    return buffer.getvalue()


def message_of(task: Task) -> str:
    """The task without its contents, in JSON, for do_remotely."""
    contents = [
        {"role": role, "name": content.name, "sha256": content.sha256, "is_directory": _is_directory(content)}
        for role, content in task.contents.items()
    ]
    job = task.job
    return json.dumps(
        {"key": job.key, "kind": job.kind, "request": job.request, "seconds": task.seconds, "contents": contents}
    )


def do_remotely(do: Do, message: str, name: str, *data: bytes) -> Outcome:
    """The outcome of the task of which message_of and packed made `message` and `data`, done in a Dask worker.

    name: the task's in the cluster; one that the cluster no longer wants is ended. Raises what `do` raises, and says in
    which worker.
    """
    from distributed import get_worker

    worker = get_worker()
    told = json.loads(message)
    job = Job(key=told["key"], kind=told["kind"], request=told["request"], inputs={})
    with child.work_folder() as folder:
        contents = {
            item["role"]: _content(item, packed_data, folder / str(place))
            for place, (item, packed_data) in enumerate(zip(told["contents"], data, strict=True))
        }
        try:
            with _ended_when_unwanted(worker, name) as started:
                return do(Task(job=job, contents=contents, seconds=told["seconds"]), on_start=started)
        except EdgetoolError as error:
            where = f"the Dask worker {worker.address}" if error.where is None else error.where
            raise type(error)(error.what, where=where, fix=error.fix, details=error.details) from error


def _is_directory(content: Content) -> bool:
    return content.path is not None and content.path.is_dir()


def _content(item: Mapping[str, Any], data: bytes, folder: Path) -> Content:
    if not item["is_directory"]:
        return Content(name=item["name"], sha256=item["sha256"], data=data)
    path = folder / item["name"]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(path)
    return Content(name=item["name"], sha256=item["sha256"], path=path)


@contextlib.contextmanager
def _ended_when_unwanted(worker: Any, name: str) -> Iterator[Callable[[Callable[[], None]], None]]:
    """While in the block, end what is started once the task was cancelled, or its client is gone; Dask itself lets a
    task that runs run on."""
    over = threading.Event()
    watching: list[threading.Thread] = []

    def started(stop: Callable[[], None]) -> None:
        thread = threading.Thread(target=watch, args=(stop,), name="sweep-watch", daemon=True)
        watching.append(thread)
        thread.start()

    def watch(stop: Callable[[], None]) -> None:
        while not over.wait(WATCH_SECONDS):
            task = worker.state.tasks.get(name)
            if task is None or task.state == "cancelled":
                stop()
                return

    try:
        yield started
    finally:
        over.set()
        for thread in watching:
            thread.join()


# Tasks beyond the workers' threads, that a thread which ends one has the next at hand.
MARGIN = 2
# Contents that the cluster keeps after the last task that took them, most recent first.
KEPT_CONTENTS = 32
LOOK_SECONDS = 1.0
ANSWER_SECONDS = 20.0
CLOSING_SECONDS = 5.0


class ClusterPool:
    """A Pool on the Dask cluster whose scheduler has this address.

    Each content is sent once while it is in use. A worker that dies is survived: Dask gives its tasks to others, and
    after as many deaths as it allows (distributed.scheduler.allowed-failures) the job has failed.
    connect_seconds: how long the scheduler may take to answer; worker_seconds: how long the cluster may be without any
    worker. Raises UsageError where no scheduler answers, MissingExtraError without Dask.
    """

    def __init__(
        self,
        address: str,
        *,
        do: Do = do,
        connect_seconds: float = 10.0,
        worker_seconds: float = 60.0,
    ) -> None:
        self._distributed = _import_distributed()
        self._address = address
        self._do = do
        self._worker_seconds = worker_seconds
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._keys: dict[Any, str] = {}
        self._contents: OrderedDict[str, Any] = OrderedDict()
        self._threads = 0
        self._looked = float("-inf")
        self._last_worker = time.monotonic()
        self._quiet = contextlib.ExitStack()
        self._quiet.enter_context(_silence())
        try:
            self._client = self._connect(connect_seconds)
        except BaseException:
            self._quiet.close()
            raise

    @property
    def capacity(self) -> int:
        """See Pool.capacity: the threads of the workers of the moment, and a few more."""
        self._look()
        return self._threads + MARGIN

    def submit(self, task: Task) -> None:
        """See Pool.submit."""
        from distributed.protocol.pickle import dumps

        name = f"edgetool-{task.job.key}-{secrets.token_hex(4)}"
        call = dumps(partial(do_remotely, self._do, message_of(task), name))
        contents = [self._sent(content) for content in task.contents.values()]
        with self._telling():
            future = self._client.submit(_opener(), call, *contents, key=name, pure=False)
            self._keys[future] = task.job.key
            future.add_done_callback(self._ended.put)

    def wait(self, timeout: float) -> tuple[str, Outcome] | None:
        """See Pool.wait. Raises ClusterError where the scheduler went away or there are no workers."""
        deadline = time.monotonic() + timeout
        while True:
            rest = deadline - time.monotonic()
            try:
                future = self._ended.get(timeout=min(rest, LOOK_SECONDS)) if rest > 0 else self._ended.get_nowait()
            except queue.Empty:
                self._look()
                if rest <= 0:
                    return None
                continue
            with self._telling():
                return self._keys.pop(future), self._outcome(future)

    def close(self) -> None:
        """Cancel what was submitted, which ends it in the workers, and leave the cluster."""
        futures = list(self._keys)
        self._keys.clear()
        self._contents.clear()
        with contextlib.suppress(Exception):  # a scheduler that is gone has nothing to be cancelled
            self._client.cancel(futures)
        with contextlib.suppress(Exception):
            self._client.close(CLOSING_SECONDS)
        self._quiet.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self, seconds: float) -> Any:
        try:
            # A Client that finds nobody leaves threads and noise behind: look first.
            with ThreadPoolExecutor(1) as executor:
                executor.submit(asyncio.run, _reach(self._address, seconds)).result()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of versions that differ; of ours the workers tell
                return self._distributed.Client(self._address, timeout=seconds, set_as_default=False, name="edgetool")
        except (OSError, ValueError, TypeError) as error:  # no answer; not an address
            raise UsageError(
                f"no scheduler answers at {self._address}",
                where="--scheduler",
                fix="start one with 'dask scheduler', and specify the address that it prints (tcp://HOST:8786)",
            ) from error

    def _sent(self, content: Content) -> Any:
        """The future of a content, which is sent where the cluster does not have it."""
        future = self._contents.pop(content.sha256, None)
        if future is None:
            name = f"edgetool-{content.sha256}-{secrets.token_hex(4)}"
            data = packed(content)
            # A task, and no scattered data, so that Dask makes it anew where the worker that held it died.
            with self._telling():
                future = self._client.submit(bytes, data, key=name, pure=False)
        self._contents[content.sha256] = future
        while len(self._contents) > KEPT_CONTENTS:
            self._contents.popitem(last=False)
        return future

    def _outcome(self, future: Any) -> Outcome:
        if future.status == "cancelled":
            raise self._gone()
        error = future.exception()
        if error is None:
            outcome: Outcome = future.result()
            return outcome
        if isinstance(error, self._distributed.scheduler.KilledWorker):
            count = error.allowed_failures + 1
            return Outcome(reason=f"{count} cluster worker{'s' * (count > 1)} crashed while running it")
        if isinstance(error, EdgetoolError):
            raise error
        if isinstance(error, ImportError | AttributeError):
            raise UsageError(
                "a worker of the cluster does not have edgetool, or has a different version of it",
                where=self._address,
                fix=f"install edgetool {__version__} and its extras 'convert' and 'sweep' there",
            ) from error
        raise InternalError(f"a worker raised {type(error).__name__}: {error}", where=self._address) from error

    def _look(self) -> None:
        """Count the workers, at most once in LOOK_SECONDS."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        with self._telling():
            if self._client.status != "running":
                raise self._gone()
            threads = self._client.sync(self._client.scheduler.ncores, callback_timeout=ANSWER_SECONDS)
        self._threads = sum(threads.values())
        self._looked = time.monotonic()
        if threads:
            self._last_worker = self._looked
        elif self._looked - self._last_worker > self._worker_seconds:
            raise ClusterError(
                f"the cluster has had no workers for {self._worker_seconds:g} s",
                where=self._address,
                fix="start workers with 'dask worker', and run the sweep again: completed results are saved",
            )

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """A scheduler that is lost in the middle of a call, as one clear error."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a content is large is no news
                yield
        except EdgetoolError:
            raise
        except (OSError, TimeoutError, self._distributed.CancelledError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and self._client.status == "running":
                raise
            raise self._gone() from error

    def _gone(self) -> ClusterError:
        return ClusterError(
            "lost the connection to the scheduler",
            where=self._address,
            fix="run the sweep again when a scheduler is running: completed results are saved",
        )


def _opener() -> Callable[..., Outcome]:
    """What a worker does with a call: a function without a name goes there as a whole, so that a worker that lacks
    edgetool raises where it opens the call; it would die of a function that it cannot import."""

    def opened(call: bytes, *data: bytes) -> Outcome:
        from distributed.protocol.pickle import loads

        outcome: Outcome = loads(call)(*data)
        return outcome

    return opened


async def _reach(address: str, seconds: float) -> None:
    from distributed.comm import connect
    from distributed.security import Security

    comm = await connect(address, timeout=seconds, **Security().get_connection_args("client"))
    await comm.close()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep Dask's loggers from stderr, where our messages go."""
    names = [
        name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado", "asyncio")
    ]
    quieted = [logger for logger in map(logging.getLogger, names) if not logger.disabled]
    for logger in quieted:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in quieted:
            logger.disabled = False


def _import_distributed() -> Any:
    try:
        import distributed
        import distributed.scheduler
    except ImportError as error:
        raise MissingExtraError(
            "a cluster requires Dask, which is not installed", fix="pip install 'edgetool[sweep]'"
        ) from error
    return distributed
