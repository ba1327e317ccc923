"""Run a sweep: all jobs of its variants that are not in its store, on this machine or on a cluster.

A sweep takes hours, and users edit their files in the meantime, so `snapshot` copies the files. The copies and the
working directories of the jobs are in one directory (`working_directory`). If a run is killed, the next run removes its
directory: a run on the same store does so at once, and even if the file system has no locks.
"""

from __future__ import annotations

import math
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgetool.child import work_folder
from edgetool.child.folder import PREFIX
from edgetool.errors import OutputError, UsageError
from edgetool.pipeline.convert import hash_of_path
from edgetool.pipeline.output import check_readable
from edgetool.pipeline.versions import installed_versions
from edgetool.sweep.executor import ClusterPool, JobPool, JobRunner, LocalPool, RunJob, SweepProgress, run_job
from edgetool.sweep.jobs import BUILDER_FILE, InputFile, Job, JobQueue, VariantJobs
from edgetool.sweep.metrics import Variant
from edgetool.sweep.search import Grid, OptunaProposer, Proposer
from edgetool.sweep.spec import SweepSpec
from edgetool.sweep.store import Entry, Lock, Store, open_store, record_of
from edgetool.sweep.table import rows


def snapshot(spec: SweepSpec, folder: Path) -> dict[str, InputFile]:
    """Copy every file or directory that the sweep reads into `folder`; return the copies by role, with their hashes.

    Roles are "model", or "builder" and "builder_file:NAME", and if present "calibration", "evaluate" and "fine_tune".

    Raises UsageError if a file cannot be read or two builder files have the same name, and OutputError if a copy cannot
    be written.
    """
    return {role: _copied(path, folder / f"{number}") for number, (role, path) in enumerate(_roles(spec).items())}


def check_inputs(spec: SweepSpec) -> None:
    """Raise UsageError if `snapshot` would, without creating any file."""
    for path in _roles(spec).values():
        check_readable(path)


def _roles(spec: SweepSpec) -> dict[str, Path]:
    roles: dict[str, Path] = {}
    for role, path in _files(spec):
        if role in roles:
            raise UsageError(f"two builder files are named {path.name}", where=str(path), fix="rename one of them")
        roles[role] = path
    return roles


def _files(spec: SweepSpec) -> Iterator[tuple[str, Path]]:
    if spec.model is not None:
        yield "model", spec.model
    if spec.builder is not None:
        yield "builder", spec.builder.path
        for path in spec.builder.files:
            # The builder itself may be listed; another file with its name could not be imported as well.
            if path != spec.builder.path:
                yield ("builder" if path.name == spec.builder.path.name else f"{BUILDER_FILE}{path.name}"), path
    data = spec.fine_tune.data if spec.fine_tune is not None else None
    for role, file in (("calibration", spec.calibration), ("evaluate", spec.evaluate), ("fine_tune", data)):
        if file is not None:
            yield role, file


def _copied(path: Path, folder: Path) -> InputFile:
    check_readable(path)
    copy = folder / path.name
    try:
        folder.mkdir(parents=True)
        if path.is_dir():
            shutil.copytree(path, copy)
        else:
            shutil.copyfile(path, copy)
        sha256, _ = hash_of_path(copy)
    except (OSError, shutil.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise OutputError(
            f"cannot be copied to {folder.parent}: {why}", where=str(path), fix="check the file and the free disk space"
        ) from error
    return InputFile(path.name, sha256, copy)


@contextmanager
def working_directory(lock: Lock) -> Iterator[Path]:
    """Create an empty temporary directory, note it in the store's lock, and remove it at the end.

    Raises the same errors as work_folder.
    """
    _remove(lock.previous_note)
    with work_folder() as folder:
        lock.note(str(folder))
        yield folder


def _remove(noted: str) -> None:
    """Remove the noted directory if it belongs to this user and has edgetool's prefix: a lock file can contain
    anything."""
    path = Path(noted)
    if not path.is_absolute() or not path.name.startswith(PREFIX):
        return
    try:
        status = path.lstat()
    except OSError:
        return  # it was removed already
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
        shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class RunResult:
    """computed: jobs that this run computed. reused: jobs with an outcome from an earlier run. failed: how many of both
    failed. Jobs that were skipped because one that they need failed are not counted."""

    computed: int
    reused: int
    failed: int
    seconds: float


def run_sweep(
    spec: SweepSpec,
    store_path: Path,
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    retry_failed: bool = False,
    progress: Callable[[SweepProgress], None] | None = None,
    run: RunJob = run_job,
) -> RunResult:
    """Run every job of the sweep whose outcome is not in the store, and record each outcome when the job finishes.

    sweep.table.rows returns the results. If a run ends early, for whatever reason, all recorded outcomes remain, and
    the next run continues from there. The store's list of variants becomes that of this sweep.

    Args:
        jobs: how many run in parallel on this machine; by default one per CPU.
        scheduler: the address of the scheduler of a Dask cluster to use instead.
        retry_failed: also run the jobs that failed in an earlier run.
        progress: called after every job and every half second.

    Raises UsageError for inputs that cannot be read or do not fit the model, for a store on which another sweep is
    running, and for an address at which no scheduler answers; OutputError if a store or a temporary directory cannot be
    written; ClusterError if the scheduler is lost.
    """
    started = time.monotonic()
    if scheduler is not None and jobs is not None:
        raise UsageError(
            "jobs and scheduler cannot be combined",
            fix="on a cluster, the workers' threads determine the number of jobs",
        )
    proposer = _proposer(spec)
    versions = installed_versions()
    check_inputs(spec)
    with (
        _pool(jobs, scheduler, run) as pool,
        open_store(store_path, create=True) as store,
        store.exclusive() as lock,
        working_directory(lock) as folder,
        closing(pool),  # jobs end before their directory is removed
    ):
        variant_jobs = VariantJobs(spec, snapshot(spec, folder), versions)
        store.begin(record_of(spec))
        if retry_failed:
            store.forget_failed()
        queue = JobQueue(store.outcomes())
        # The workers of a cluster may be on other machines, and have directories of their own.
        local_folder = folder if scheduler is None else None
        runner = JobRunner(queue, store, pool, seconds=spec.job_seconds, folder=local_folder, on_progress=progress)
        _run(spec, variant_jobs, proposer, store, queue, runner)
    return RunResult(runner.computed, queue.reused, queue.states["failed"], time.monotonic() - started)


def _run(
    spec: SweepSpec, variant_jobs: VariantJobs, proposer: Proposer, store: Store, queue: JobQueue, runner: JobRunner
) -> None:
    limit = _variants_limit(spec)
    descriptions: dict[str, str] = {}
    proposed = 0
    while variants := proposer.propose():
        entries = []
        for number, variant in enumerate(variants, proposed + 1):
            jobs = variant_jobs.of(variant)
            queue.add(jobs)
            for job in jobs:
                descriptions.setdefault(job.key, describe(job, variant))
            entries.append(Entry(number, variant, tuple((job.kind, job.key) for job in jobs)))
        store.add(entries)
        proposed += len(variants)
        runner.run(descriptions, unproposed=max(limit - proposed, 0) / proposed)
        proposer.receive(rows(store))


def describe(job: Job, variant: Variant) -> str:
    """Return the description of a variant's job in progress messages: "convert width=0.5, level 0.25, int8"."""
    parts = [f"{name}={value}" for name, value in variant.parameters]
    if job.kind in ("prune", "convert", "analyse"):
        parts.append(f"level {variant.level:g}")
    if job.kind in ("convert", "analyse"):
        parts.append(variant.precision)
    if job.kind == "analyse":
        parts += [variant.target, *variant.planning]
    return f"{job.kind} {', '.join(parts)}".strip()


def _pool(jobs: int | None, scheduler: str | None, run: RunJob) -> JobPool:
    return LocalPool(jobs, run=run) if scheduler is None else ClusterPool(scheduler, run=run)


def _proposer(spec: SweepSpec) -> Proposer:
    return Grid(spec) if spec.strategy == "grid" else OptunaProposer(spec)


def _variants_limit(spec: SweepSpec) -> int:
    parameters = spec.builder.parameters if spec.builder is not None else ()
    per_target = len(spec.pruning.levels) * len(spec.precisions) * math.prod(len(values) for _, values in parameters)
    per_target *= len(spec.optimize) * len(spec.max_extra_macs)
    if spec.strategy == "search":
        per_target = min(per_target, spec.search.trials)
    return per_target * len(spec.targets)
