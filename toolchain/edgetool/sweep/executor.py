"""Run the jobs of a sweep on an executor: threads that wait for child processes here, or the workers of a Dask cluster.

JobRunner takes jobs from the queue, runs them in a pool, and records each outcome when it arrives. A pool wraps an
Executor as defined by concurrent.futures: LocalPool a ThreadPoolExecutor, because each job is a child process already
(run_job), and ClusterPool the Executor of a Dask client.

These executors do not support some tasks, so the pools contain code for them:

- A future that runs cannot be cancelled. LocalPool kills the children of running jobs when it closes. On a cluster, a
  thread beside each job kills its child when Dask has released the task (_killed_when_released).
- A Dask client does not report that the scheduler is lost or that there are no workers: the futures just never finish.
  ClusterPool checks for both.
- An argument is sent with each call. ClusterPool sends each input once, as a task whose result other tasks use.
- A worker without edgetool would crash on a function that it cannot import. ClusterPool sends calls as data (_opener).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import hashlib
import io
import json
import logging
import os
import secrets
import threading
import time
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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
from edgetool.sweep.jobs import BUILDER_FILE, Content, InputFile, Job, JobOutput, JobQueue, Kind, Outcome, PreparedJob
from edgetool.sweep.store import Store

# run_job, or a substitute in tests: run(prepared, on_start=...) passes on_start a function that kills its child.
RunJob = Callable[..., Outcome]

# Relative durations of the kinds of jobs, until one of the kind has finished: the order of magnitude for small models,
# where loading TensorFlow takes most of the time.
RELATIVE_SECONDS: Mapping[str, float] = {"build": 5.0, "prune": 6.0, "reference": 8.0, "convert": 8.0, "analyse": 1.0}
# A job that takes longer than others of its kind is expected to take this share of their time from now on.
OVERTIME = 0.1


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """done, total: jobs (not variants) of the sweep, including those of earlier runs; a job that is skipped because one
    that it needs failed counts as done. failed: jobs that failed. running: descriptions of the running jobs.
    seconds_left: None until the first job of this run has finished."""

    done: int
    total: int
    failed: int
    running: tuple[str, ...]
    seconds_left: float | None


def seconds_by_kind(
    finished: Mapping[str, tuple[int, float]], running: Sequence[tuple[str, float]] = ()
) -> dict[str, float] | None:
    """Return the estimated seconds of a job of each kind; None if no job has finished.

    Args:
        finished: number and total seconds of the successful jobs, by kind. The estimate is their mean.
        running: kind and elapsed seconds of each running job. The estimate for a kind without finished jobs follows
            from RELATIVE_SECONDS, scaled to the other kinds, and is at least the time that its running jobs have taken.
    """
    means = {kind: seconds / count for kind, (count, seconds) in finished.items() if count}
    if not means:
        return None
    scale = sum(means.values()) / sum(RELATIVE_SECONDS[kind] for kind in means)
    elapsed = {kind: max(seconds for other, seconds in running if other == kind) for kind, _ in running}
    return {
        kind: means.get(kind, max(share * scale, elapsed.get(kind, 0.0))) for kind, share in RELATIVE_SECONDS.items()
    }


def seconds_left(
    each: Mapping[str, float], waiting: Mapping[str, float], running: Sequence[tuple[str, float]], width: int
) -> float:
    """Return the estimated seconds until all jobs have finished: the total work divided by the width, or the longest
    job if that takes longer.

    Args:
        each: the result of seconds_by_kind.
        waiting: number of jobs that have not started, by kind.
        running: kind and elapsed seconds of each running job.
        width: how many jobs run in parallel.
    """
    remaining = [max(each[kind] - elapsed, OVERTIME * each[kind]) for kind, elapsed in running]
    work = sum(each[kind] * count for kind, count in waiting.items()) + sum(remaining)
    longest = max((each[kind] for kind, count in waiting.items() if count > 0), default=0.0)
    return max(work / width, longest, *remaining)


# How often progress is reported while no job finishes.
TICK_SECONDS = 0.5


class JobRunner:
    """Runs the jobs of a queue in a pool and records their outcomes in the store.

    computed is the number of jobs that finished in this run.

    Args:
        seconds: time limit of each job.
        folder: where the working directories of jobs are created; None is the system's location for temporary files.
        on_progress: called after every job, every TICK_SECONDS and at the end.
    """

    def __init__(
        self,
        jobs: JobQueue,
        store: Store,
        pool: JobPool,
        *,
        seconds: float,
        folder: Path | None = None,
        on_progress: Callable[[SweepProgress], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.computed = 0
        self._jobs = jobs
        self._store = store
        self._pool = pool
        self._seconds = seconds
        self._folder = folder
        self._on_progress = on_progress
        self._clock = clock
        self._started: dict[str, float] = {}
        self._finished: dict[str, tuple[int, float]] = {}

    def run(self, descriptions: Mapping[str, str], unproposed: float = 0.0) -> None:
        """Run all jobs that can run; a job that fails is recorded, and the jobs that need it are skipped.

        Args:
            descriptions: what each job does, by key.
            unproposed: number of jobs still to be proposed, as a multiple of those in the queue.

        Raises EdgetoolError for an error that no variant causes (data that does not fit, a full disk, a lost cluster);
        all outcomes that arrived before it are recorded.
        """
        try:
            while not self._jobs.is_finished:
                while len(self._started) < self._pool.capacity and (job := self._jobs.take()) is not None:
                    self._pool.submit(prepare(job, self._store, self._seconds, self._folder))
                    self._started[job.key] = self._clock()
                self._report(descriptions, unproposed)
                self._record_next(TICK_SECONDS)
        except BaseException:  # including KeyboardInterrupt
            self._record_finished()
            raise
        self._report(descriptions, unproposed)

    def _record_next(self, timeout: float) -> None:
        finished = self._pool.wait(timeout)
        if finished is None:
            return
        key, outcome = finished
        job = self._jobs.job(key)
        self._store.record(job, outcome)
        self._jobs.finish(key, outcome)
        self.computed += 1
        del self._started[key]
        if outcome.reason is None:  # a failure may take no time at all, or hours
            count, seconds = self._finished.get(job.kind, (0, 0.0))
            self._finished[job.kind] = count + 1, seconds + outcome.seconds

    def _record_finished(self) -> None:
        """Record the outcomes that arrived together with an error; only the first error is raised."""
        for _ in tuple(self._started):
            try:
                self._record_next(0.0)
            except EdgetoolError:
                continue

    def _report(self, descriptions: Mapping[str, str], unproposed: float) -> None:
        if self._on_progress is None:
            return
        now, jobs, states = self._clock(), self._jobs, self._jobs.states
        running = [(jobs.job(key).kind, now - started) for key, started in self._started.items()]
        each = seconds_by_kind(self._finished, running)
        queued = len(jobs)
        waiting = {kind: jobs.waiting_kinds[kind] + unproposed * count for kind, count in jobs.kinds.items()}
        self._on_progress(
            SweepProgress(
                done=states["done"] + states["failed"] + states["skipped"],
                total=queued + round(queued * unproposed),
                failed=states["failed"],
                running=tuple(descriptions[key] for key in self._started),
                seconds_left=None if each is None else seconds_left(each, waiting, running, self._pool.capacity),
            )
        )


def prepare(job: Job, store: Store, seconds: float, folder: Path | None = None) -> PreparedJob:
    """Return the job with its inputs: files of the user by path, outputs of other jobs from the store."""
    contents = {role: _input_content(item, store) for role, item in job.inputs.items()}
    return PreparedJob(job=job, contents=contents, seconds=seconds, folder=folder)


def _input_content(item: InputFile | JobOutput, store: Store) -> Content:
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


def run_job(
    prepared: PreparedJob, *, progress: child.Progress | None = None, on_start: child.OnStart | None = None
) -> Outcome:
    """Run a job in a child process and return its outcome; can be called from any thread.

    A model that cannot be built, pruned, converted or run, and a process that crashes or exceeds its time, result in an
    outcome with the reason. The child has ended and its files are removed when this returns or raises.

    Args:
        on_start: is passed a function that kills the child.

    Raises UsageError for an error that no variant causes and that the next job would have as well: data that does not
    fit the user's model file (for a builder's model it may fit the next one), packages that are missing or have other
    versions here, a full disk.
    """
    started = time.monotonic()
    try:
        with child.work_folder(prepared.folder) as folder:
            value, blobs, reason = _result(prepared, folder, progress, on_start)
    except OSError as error:
        raise OutputError(
            f"cannot be used as the working directory: {error.strerror or error}",
            where=str(child.temporary_place()),
            fix="set TMPDIR to another disk",
        ) from error
    return Outcome(value, blobs, reason, time.monotonic() - started)


def _result(
    prepared: PreparedJob, folder: Path, progress: child.Progress | None, on_start: child.OnStart | None
) -> tuple[dict[str, Any], dict[str, bytes], str | None]:
    """Return value and blobs, or the reason for the failure."""
    job = prepared.job
    paths = {role: _input_path(folder, role, content) for role, content in prepared.contents.items()}
    workdir = folder / "job"
    workdir.mkdir()
    try:
        value = child.run(
            WORKER,
            {
                "kind": job.kind,
                "request": job.request,
                "inputs": {role: str(path) for role, path in paths.items()},
                "seconds": prepared.seconds,
            },
            workdir=workdir,
            limits=child.ProcessLimits(seconds=prepared.seconds),
            doing=DOING[job.kind],
            advice="try a smaller model, less data, or a longer job_timeout",
            progress=progress,
            on_start=on_start,
            trusted=True,  # it runs only edgetool's code, which runs untrusted code in child processes of its own
        )
    except UsageError as error:
        renamed = _without_folder(error, folder, prepared.contents)
        if isinstance(error, CalibrationError) and job.request.get("built", False):
            return {}, {}, str(renamed)
        raise renamed from error
    except EdgetoolError as error:
        return {}, {}, str(_without_folder(error, folder, prepared.contents))
    return value, {path.name: path.read_bytes() for path in sorted((workdir / BLOBS).iterdir())}, None


def _input_path(folder: Path, role: str, content: Content) -> Path:
    """Return the path of an input for the child: a symbolic link, or a file with its bytes."""
    directory = folder / _directory_name(role)
    directory.mkdir(exist_ok=True)
    path = directory / content.name
    if content.path is not None and content.path.exists():
        path.symlink_to(content.path.absolute())
    elif content.data is not None:
        path.write_bytes(content.data)
    else:
        raise UsageError("is not available to the process that needs it", where=content.name)
    return path


def _directory_name(role: str) -> str:
    """Return the directory for a role: the builder's files share one, so that they can import each other."""
    return "builder" if role.startswith(BUILDER_FILE) else role


def _without_folder(error: EdgetoolError, folder: Path, contents: Mapping[str, Content]) -> EdgetoolError:
    """Return the error with the user's file names instead of paths in the removed working directory."""
    roots = dict.fromkeys((str(folder.resolve()), str(folder)))
    replacements = [
        *((str(content.path), content.name) for content in contents.values() if content.path is not None),
        *((f"{root}/{_directory_name(role)}/", "") for root in roots for role in contents),
        *((f"{root}/", "") for root in roots),
    ]

    def renamed(text: str) -> str:
        for path, name in replacements:
            text = text.replace(path, name)
        return text

    return type(error)(
        renamed(error.what),
        where=None if error.where is None else renamed(error.where),
        fix=None if error.fix is None else renamed(error.fix),
        details=tuple(map(renamed, error.details)),
    )


class JobPool(ABC):
    """Runs jobs in parallel on an executor. All methods are called from one thread, which stays interruptible."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._keys: dict[Future[Any], str] = {}

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many jobs should be submitted and unfinished at a time; at least 1."""

    @abstractmethod
    def submit(self, prepared: PreparedJob) -> None:
        """Start a job or add it to the executor's queue. Its key must not be in the pool already."""

    def wait(self, timeout: float) -> tuple[str, Outcome] | None:
        """Return the key and the outcome of a finished job; None if no job finishes within `timeout` seconds.

        Raises the exception that a job raised: an error that no variant causes (data that does not fit, a full disk).
        """
        concurrent.futures.wait(self._keys, timeout, concurrent.futures.FIRST_COMPLETED)
        finished = next((future for future in self._keys if future.done()), None)
        if finished is None:
            return None
        return self._keys.pop(finished), self._outcome(finished)

    @abstractmethod
    def close(self) -> None:
        """Kill the jobs that still run, and drop those that wait; closing twice does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _outcome(self, future: Future[Any]) -> Outcome:
        outcome: Outcome = future.result()
        return outcome


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalPool(JobPool):
    """A JobPool on this machine: `jobs` threads, each of which waits for one child process."""

    def __init__(self, jobs: int | None = None, *, run: RunJob = run_job) -> None:
        if jobs is not None and jobs < 1:
            raise UsageError(f"{jobs} is not a valid number of jobs", fix="use 1 or more")
        self._capacity = usable_cpus() if jobs is None else jobs
        super().__init__(ThreadPoolExecutor(self._capacity, thread_name_prefix="sweep"))
        self._run = run
        self._kills: dict[str, Callable[[], None]] = {}
        self._is_closing = False

    @property
    def capacity(self) -> int:
        """See JobPool.capacity."""
        return self._capacity

    def submit(self, prepared: PreparedJob) -> None:
        """See JobPool.submit."""
        key = prepared.job.key
        future = self._executor.submit(self._run, prepared, on_start=partial(self._add_child, key))
        future.add_done_callback(lambda _: self._kills.pop(key, None))
        self._keys[future] = key

    def close(self) -> None:
        """Kill the children; return when the threads have removed their directories."""
        self._is_closing = True
        self._executor.shutdown(wait=False, cancel_futures=True)  # before a killed child makes room for the next one
        for kill in tuple(self._kills.values()):
            kill()
        self._executor.shutdown()

    def _add_child(self, key: str, kill: Callable[[], None]) -> None:
        """Register a started child. `close` sets the flag before it reads the children, so that none is missed."""
        self._kills[key] = kill
        if self._is_closing:
            kill()


def packed(content: Content) -> bytes:
    """Return the content as bytes; a directory as a ZIP archive, which is the same for the same files."""
    if content.path is None:
        return content.data or b""
    if content.path.is_file():
        return content.path.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(path for path in content.path.rglob("*") if path.is_file()):
            archive.writestr(zipfile.ZipInfo(path.relative_to(content.path).as_posix()), path.read_bytes())
    return buffer.getvalue()


def to_message(prepared: PreparedJob) -> str:
    """Return the job without its contents as JSON, for run_remotely."""
    contents = [
        {"role": role, "name": content.name, "sha256": content.sha256, "is_directory": _is_directory(content)}
        for role, content in prepared.contents.items()
    ]
    job = prepared.job
    return json.dumps(
        {"key": job.key, "kind": job.kind, "request": job.request, "seconds": prepared.seconds, "contents": contents}
    )


def run_remotely(run: RunJob, message: str, *data: bytes) -> Outcome:
    """Run a job in a Dask worker.

    The job is killed when the cluster releases its task.

    Args:
        message: the result of to_message.
        data: the results of packed, for each content.

    Raises what `run` raises, with the worker's address if the error has no location.
    """
    from distributed import get_worker

    worker = get_worker()
    received = json.loads(message)
    job = Job(key=received["key"], kind=received["kind"], request=received["request"], inputs={})
    with child.work_folder() as folder:
        contents = {
            item["role"]: _unpacked(item, packed_data, folder / str(number))
            for number, (item, packed_data) in enumerate(zip(received["contents"], data, strict=True))
        }
        try:
            with _killed_when_released(worker, worker.get_current_task()) as on_start:
                return run(PreparedJob(job=job, contents=contents, seconds=received["seconds"]), on_start=on_start)
        except EdgetoolError as error:
            where = f"the Dask worker {worker.address}" if error.where is None else error.where
            raise type(error)(error.what, where=where, fix=error.fix, details=error.details) from error


def _is_directory(content: Content) -> bool:
    return content.path is not None and content.path.is_dir()


def _unpacked(item: Mapping[str, Any], data: bytes, folder: Path) -> Content:
    if not item["is_directory"]:
        return Content(name=item["name"], sha256=item["sha256"], data=data)
    path = folder / item["name"]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(path)
    return Content(name=item["name"], sha256=item["sha256"], path=path)


WATCH_SECONDS = 0.5


@contextlib.contextmanager
def _killed_when_released(worker: Any, task_key: str) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Kill the child of the block if its task is cancelled or its client is lost: Dask lets running tasks continue."""
    is_over = threading.Event()
    threads: list[threading.Thread] = []

    def on_start(kill: Callable[[], None]) -> None:
        thread = threading.Thread(target=watch, args=(kill,), name="sweep-watch", daemon=True)
        threads.append(thread)
        thread.start()

    def watch(kill: Callable[[], None]) -> None:
        while not is_over.wait(WATCH_SECONDS):
            task = worker.state.tasks.get(task_key)
            if task is None or task.state == "cancelled":
                kill()
                return

    try:
        yield on_start
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


# Jobs beyond the workers' threads, so that a thread that finishes a job has the next one at hand.
EXTRA_JOBS = 2
# Contents that the cluster keeps after the last job that used them, most recent first.
KEPT_CONTENTS = 32
CHECK_SECONDS = 1.0
ANSWER_SECONDS = 20.0
CLOSING_SECONDS = 5.0


class ClusterPool(JobPool):
    """A JobPool on a Dask cluster.

    Each content is sent once while it is in use. If a worker dies, Dask runs its tasks on others; after as many deaths
    as it allows (distributed.scheduler.allowed-failures) the job has failed.

    Args:
        address: the address of the scheduler.
        connect_seconds: how long the scheduler may take to answer.
        worker_seconds: how long the cluster may be without any worker.

    Raises UsageError if no scheduler answers, MissingExtraError without Dask.
    """

    def __init__(
        self,
        address: str,
        *,
        run: RunJob = run_job,
        connect_seconds: float = 10.0,
        worker_seconds: float = 60.0,
    ) -> None:
        self._distributed = _import_distributed()
        self._address = address
        self._run = run
        self._worker_seconds = worker_seconds
        self._contents: OrderedDict[str, Any] = OrderedDict()
        self._threads = 0
        self._checked_at = float("-inf")
        self._had_workers_at = time.monotonic()
        self._quiet = contextlib.ExitStack()
        self._quiet.enter_context(_disabled_loggers())
        try:
            self._client = self._connect(connect_seconds)
        except BaseException:
            self._quiet.close()
            raise
        super().__init__(self._client.get_executor(pure=False))

    @property
    def capacity(self) -> int:
        """See JobPool.capacity: the number of threads that the workers have now, and a few more."""
        self._check()
        return self._threads + EXTRA_JOBS

    def submit(self, prepared: PreparedJob) -> None:
        """See JobPool.submit."""
        from distributed.protocol.pickle import dumps

        call = dumps(partial(run_remotely, self._run, to_message(prepared)))
        contents = [self._sent(content) for content in prepared.contents.values()]
        with self._connection():
            self._keys[self._executor.submit(_opener(), call, *contents)] = prepared.job.key

    def wait(self, timeout: float) -> tuple[str, Outcome] | None:
        """See JobPool.wait. Raises ClusterError if the scheduler is lost or there are no workers."""
        finished = super().wait(timeout)
        if finished is None:
            self._check()
        return finished

    def close(self) -> None:
        """Cancel the jobs, which kills them in the workers, and leave the cluster."""
        self._keys.clear()
        self._contents.clear()
        with contextlib.suppress(Exception):  # if the scheduler is lost, there is nothing to cancel
            self._executor.shutdown(wait=False)
        with contextlib.suppress(Exception):
            self._client.close(CLOSING_SECONDS)
        self._quiet.close()

    def _connect(self, seconds: float) -> Any:
        try:
            # A Client that reaches no scheduler leaves threads and log messages behind: try the address first.
            with ThreadPoolExecutor(1) as executor:
                executor.submit(asyncio.run, _reach(self._address, seconds)).result()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about different versions; the workers check those that matter
                return self._distributed.Client(self._address, timeout=seconds, set_as_default=False, name="edgetool")
        except (OSError, ValueError, TypeError) as error:  # no answer; not an address
            raise UsageError(
                f"no scheduler answers at {self._address}",
                where="--scheduler",
                fix="start one with 'dask scheduler', and specify the address that it prints (tcp://HOST:8786)",
            ) from error

    def _sent(self, content: Content) -> Any:
        """Return the Dask future of a content, which is sent if the cluster does not have it."""
        future = self._contents.pop(content.sha256, None)
        if future is None:
            name = f"edgetool-{content.sha256}-{secrets.token_hex(4)}"
            data = packed(content)
            # A task instead of scattered data, so that Dask recreates it if the worker that held it died.
            with self._connection():
                future = self._client.submit(bytes, data, key=name, pure=False)
        self._contents[content.sha256] = future
        while len(self._contents) > KEPT_CONTENTS:
            self._contents.popitem(last=False)
        return future

    def _outcome(self, future: Future[Any]) -> Outcome:
        from distributed.protocol.pickle import loads

        if future.cancelled():
            raise self._lost()
        error = future.exception()
        if error is None:
            try:
                outcome: Outcome = loads(future.result())
                return outcome
            except (ImportError, AttributeError) as other:
                error = other
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

    def _check(self) -> None:
        """Check the scheduler and count the workers' threads, at most once in CHECK_SECONDS."""
        now = time.monotonic()
        if now - self._checked_at < CHECK_SECONDS:
            return
        with self._connection():
            if self._client.status != "running":
                raise self._lost()
            threads = self._client.sync(self._client.scheduler.ncores, callback_timeout=ANSWER_SECONDS)
        self._threads = sum(threads.values())
        self._checked_at = time.monotonic()
        if threads:
            self._had_workers_at = self._checked_at
        elif self._checked_at - self._had_workers_at > self._worker_seconds:
            raise ClusterError(
                f"the cluster has had no workers for {self._worker_seconds:g} s",
                where=self._address,
                fix="start workers with 'dask worker', and run the sweep again: completed results are saved",
            )

    @contextlib.contextmanager
    def _connection(self) -> Iterator[None]:
        """Turn the errors of a call whose scheduler is lost into one clear error."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a content is large
                yield
        except EdgetoolError:
            raise
        except (OSError, TimeoutError, self._distributed.CancelledError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and self._client.status == "running":
                raise
            raise self._lost() from error

    def _lost(self) -> ClusterError:
        return ClusterError(
            "lost the connection to the scheduler",
            where=self._address,
            fix="run the sweep again when a scheduler is running: completed results are saved",
        )


def _opener() -> Callable[..., bytes]:
    """Return the function that a worker runs: it loads a call, runs it, and returns its pickled result.

    Dask sends a function without an importable name as a whole. So a worker without edgetool raises an error when it
    loads the call; it would crash on a function that it cannot import.
    """

    def edgetool_job(call: bytes, *data: bytes) -> bytes:
        from distributed.protocol.pickle import dumps, loads

        result: bytes = dumps(loads(call)(*data))
        return result

    return edgetool_job


async def _reach(address: str, seconds: float) -> None:
    from distributed.comm import connect
    from distributed.security import Security

    comm = await connect(address, timeout=seconds, **Security().get_connection_args("client"))
    await comm.close()


@contextlib.contextmanager
def _disabled_loggers() -> Iterator[None]:
    """Keep the messages of Dask's loggers from stderr, where edgetool's messages go."""
    names = [
        name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado", "asyncio")
    ]
    disabled = [logger for logger in map(logging.getLogger, names) if not logger.disabled]
    for logger in disabled:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in disabled:
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
