"""Runs a sweep: every variant's jobs that its store lacks, here or on a cluster.

Unchanging copies of the user's files: a sweep takes hours, and they may be edited meanwhile.

Where a run keeps its copies and its jobs work; what a killed run left behind is removed by the next, by that of the
same store without delay and where the file system has no locks, too.
"""

from __future__ import annotations

import math
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgetool.child import work_folder
from edgetool.child.folder import PREFIX
from edgetool.errors import OutputError, UsageError
from edgetool.pipeline.convert import hash_of_path
from edgetool.pipeline.output import check_readable
from edgetool.sweep import executor
from edgetool.sweep.executor import Advance, ClusterPool, Do, LocalPool, Performer, Pool
from edgetool.sweep.jobs import BUILDER_FILE, Agenda, Chains, InputFile, Job
from edgetool.sweep.metrics import Variant
from edgetool.sweep.search import Grid, OptunaProposer, Proposer
from edgetool.sweep.spec import SweepSpec
from edgetool.sweep.store import Entry, Lock, Store, open_store, record_of
from edgetool.sweep.table import rows
from edgetool.sweep.versions import installed_versions


def snapshot(spec: SweepSpec, folder: Path) -> dict[str, InputFile]:
    """Every file or directory that the sweep reads, copied into `folder` and hashed there, by role.

    Roles are "model", or "builder" and "builder_file:NAME", and "calibration", "evaluate", "fine_tune" where they are
    given. Raises UsageError for what cannot be read, or two builder files of one name, and OutputError where the copies
    cannot be written.
    """
    return {role: _copied(path, folder / f"{number}") for number, (role, path) in enumerate(_roles(spec).items())}


def check_inputs(spec: SweepSpec) -> None:
    """Raise UsageError where snapshot would, before anything is made."""
    for path in _roles(spec).values():
        check_readable(path)


def _roles(spec: SweepSpec) -> dict[str, Path]:
    roles = {}
    for role, path in _named(spec):
        if role in roles:
            raise UsageError(f"two builder files are named {path.name}", where=str(path), fix="rename one of them")
        roles[role] = path
    return roles


def _named(spec: SweepSpec) -> Iterator[tuple[str, Path]]:
    if spec.model is not None:
        yield "model", spec.model
    if spec.builder is not None:
        yield "builder", spec.builder.path
        for path in spec.builder.files:
            # The builder itself may be listed; another file of its name could not be imported beside it.
            if path != spec.builder.path:
                yield ("builder" if path.name == spec.builder.path.name else f"{BUILDER_FILE}{path.name}"), path
    data = spec.fine_tune.data if spec.fine_tune is not None else None
    for role, given in (("calibration", spec.calibration), ("evaluate", spec.evaluate), ("fine_tune", data)):
        if given is not None:
            yield role, given


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
def workplace(lock: Lock) -> Iterator[Path]:
    """An empty directory among the system's temporary ones, noted in the store's lock; gone at the end.

    Raises as work_folder does.
    """
    _remove(lock.left)
    with work_folder() as folder:
        lock.note(str(folder))
        yield folder


def _remove(left: str) -> None:
    """Remove what was noted, if it is a directory of this user's that has our name: anybody may write into a file."""
    path = Path(left)
    if not path.is_absolute() or not path.name.startswith(PREFIX):
        return
    try:
        found = path.lstat()
    except OSError:
        return  # it is gone already
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
        shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class RunResult:
    """How many jobs this run computed, how many it found done by earlier runs, how many of both failed, and how long
    it took. A job that was left out, since one that it needs failed, is in none of them."""

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
    progress: Callable[[Advance], None] | None = None,
    do: Do = executor.do,
) -> RunResult:
    """Do every job of the sweep that the store lacks, and record it as it ends; sweep.rows.rows has the results.

    A run that ends early, however it does, loses none of what it recorded: the next one continues. The list of
    variants in the store becomes this sweep's.
    jobs: how many at a time on this machine, as many as it has CPUs where not given. scheduler: the address of a Dask
    cluster to use instead. retry_failed: do again what failed in an earlier run. progress: told how far it is.

    Raises UsageError for inputs that cannot be read or do not fit the model, for a store that another sweep is running
    on, and for an address at which no scheduler answers; OutputError where a store or a temporary directory cannot be
    written; ClusterError where the scheduler goes away.
    """
    begun = time.monotonic()
    if scheduler is not None and jobs is not None:
        raise UsageError(
            "jobs and scheduler cannot be combined",
            fix="on a cluster, the workers' threads determine the number of jobs",
        )
    proposer = _proposer(spec)
    versions = installed_versions()
    check_inputs(spec)
    with (
        _pool(jobs, scheduler, do) as pool,
        open_store(store_path, create=True) as store,
        store.exclusive() as lock,
        workplace(lock) as folder,
    ):
        chains = Chains(spec, snapshot(spec, folder), versions)
        store.begin(record_of(spec))
        if retry_failed:
            store.forget_failed()
        agenda = Agenda(store.outcomes())
        # Workers of a cluster may be elsewhere: they have places of their own.
        own = folder if scheduler is None else None
        performer = Performer(agenda, store, pool, seconds=spec.job_seconds, folder=own, told=progress)
        _run(spec, chains, proposer, store, agenda, performer)
    return RunResult(performer.computed, agenda.reused, agenda.states["failed"], time.monotonic() - begun)


def _run(
    spec: SweepSpec, chains: Chains, proposer: Proposer, store: Store, agenda: Agenda, performer: Performer
) -> None:
    at_most = _variants_at_most(spec)
    words: dict[str, str] = {}
    proposed = 0
    while variants := proposer.propose():
        entries = []
        for number, variant in enumerate(variants, proposed + 1):
            chain = chains.of(variant)
            agenda.add(chain)
            for job in chain:
                words.setdefault(job.key, in_words(job, variant))
            entries.append(Entry(number, variant, tuple((job.kind, job.key) for job in chain)))
        store.add(entries)
        proposed += len(variants)
        performer.perform(words, still_to_propose=max(at_most - proposed, 0) / proposed)
        proposer.tell(rows(store))


def in_words(job: Job, variant: Variant) -> str:
    """What a job of the variant does, as progress tells it: "convert width=0.5, level 0.25, int8"."""
    parts = [f"{name}={value}" for name, value in variant.parameters]
    if job.kind in ("prune", "convert", "analyse"):
        parts.append(f"level {variant.level:g}")
    if job.kind in ("convert", "analyse"):
        parts.append(variant.precision)
    if job.kind == "analyse":
        parts.append(variant.target)
    return f"{job.kind} {', '.join(parts)}".strip()


def _pool(jobs: int | None, scheduler: str | None, do: Do) -> Pool:
    return LocalPool(jobs, do=do) if scheduler is None else ClusterPool(scheduler, do=do)


def _proposer(spec: SweepSpec) -> Proposer:
    return Grid(spec) if spec.strategy == "grid" else OptunaProposer(spec)


def _variants_at_most(spec: SweepSpec) -> int:
    parameters = spec.builder.parameters if spec.builder is not None else ()
    of_target = len(spec.pruning.levels) * len(spec.precisions) * math.prod(len(values) for _, values in parameters)
    if spec.strategy == "search":
        of_target = min(of_target, spec.search.trials)
    return of_target * len(spec.targets)
