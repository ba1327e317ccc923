"""Runs a sweep: every variant's jobs that its store lacks, here or on a cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgetool.errors import UsageError
from edgetool.sweep import work
from edgetool.sweep.agenda import Agenda
from edgetool.sweep.chain import Chains
from edgetool.sweep.cluster import ClusterPool
from edgetool.sweep.job import Job
from edgetool.sweep.local import LocalPool
from edgetool.sweep.perform import Performer
from edgetool.sweep.pool import Do, Pool
from edgetool.sweep.progress import Advance
from edgetool.sweep.proposer import Grid, Proposer
from edgetool.sweep.record import record_of
from edgetool.sweep.rows import rows
from edgetool.sweep.search import OptunaProposer
from edgetool.sweep.snapshot import check_inputs, snapshot
from edgetool.sweep.spec import SweepSpec
from edgetool.sweep.store import Entry, Store, open_store
from edgetool.sweep.variant import Variant
from edgetool.sweep.versions import installed_versions
from edgetool.sweep.workplace import workplace


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
    do: Do = work.do,
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
