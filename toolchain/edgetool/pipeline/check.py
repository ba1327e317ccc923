"""The gate: models judged against targets, limits and the lock file.

What the user asks of a check beside models and targets.

Why an arena is as large as it is, and the smaller ones that the same model could have.

edgetool.lock on disk.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgetool import __version__
from edgetool.errors import OutputError, TargetError, UsageError
from edgetool.gate.anatomy import (
    INVOKE,
    Alternatives,
    Anatomy,
    OperatorId,
    anatomy_of,
    arena_reasons,
    best_saving,
    buffer_name,
    flash_reasons,
    latency_reasons,
)
from edgetool.gate.judge import Reasons, Subject, figures_of, judge, subject_of, used, with_reasons
from edgetool.gate.limits import Allowance, Limits, judge_budgets
from edgetool.gate.lock_file import ANEW, MOST_CHARACTERS, Entry, Lock, entry_of, lock_text, parse_lock
from edgetool.gate.lock_judgement import compare, found_in, judge_lock, updated
from edgetool.memory.account import ArenaAccount
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.model.metadata import converter_of, keeps_own_plan
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.analysis import Analysis, SharedAnalysis, unsupported_operators
from edgetool.pipeline.output import read_file, write_file, writing_in
from edgetool.pipeline.planning import Deadline, plan_findings
from edgetool.pipeline.report_file import quantizations
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import Source, file_name, open_tflite, read_custom_operators
from edgetool.report.document import GateInfo, JudgementInfo, QuantizationInfo, Report
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

LOCK_NAME = "edgetool.lock"


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Limits, the lock file and how it is used, and the reports of convert that tell the accuracy.

    update: write the lock. locked: nothing may differ from it. reports: without any, NAME.json beside each model.
    """

    limits: Limits = field(default_factory=Limits)
    allowance: Allowance = field(default_factory=Allowance)
    lock: Path = Path(LOCK_NAME)
    update: bool = False
    locked: bool = False
    reports: tuple[Path, ...] = ()
    custom_operators: Path | None = None


PLAN_SECONDS = 2.0


def anatomy(analysis: Analysis) -> Anatomy | None:
    """What the arena is made of; None where it is not exact."""
    account = analysis.plan.account
    if account is None or account.is_lower_bound:
        return None
    return anatomy_of(analysis.model, account, analysis.plan.timeline)


def reasons_of_arena(
    report: Report, analysis: Analysis, target: Target, custom: Mapping[str, OperatorEntry], *, reserve: int
) -> Reasons:
    """Causes and advice for an arena that is too large, after a short search for others."""
    account = analysis.plan.account
    if account is None:
        return Reasons()
    parts = anatomy_of(analysis.model, account, analysis.plan.timeline)
    others = _alternatives(analysis, account, target, custom)
    return arena_reasons(report, target, parts, others, made_by=_makers(analysis, account), reserve=reserve)


def _alternatives(
    analysis: Analysis, account: ArenaAccount, target: Target, custom: Mapping[str, OperatorEntry]
) -> Alternatives:
    model = analysis.model
    saving = best_saving(model, account, analysis.plan.timeline)
    if account.is_lower_bound:
        return Alternatives(saving=saving)
    planned_bytes, proven = None, False
    if not keeps_own_plan(model):
        effort = Deadline(PLAN_SECONDS).effort()
        plan = plan_memory(model, platform_of(target), PlanRequest(file_plan="replace"), effort, custom=custom)
        planned_bytes = None if plan.account is None else plan.account.bytes
        # Where the head does not set the arena, nothing is known of the least.
        sets = plan.account is not None and plan.account.peak.when == INVOKE
        proven = sets and plan.layout.optimal and plan.order_proof != "none"
    kernels, kernels_bytes = _with_other_kernels(analysis, target, custom)
    replan = analysis.plan.planner == "file"
    return Alternatives(planned_bytes, proven, replan, kernels, kernels_bytes, saving)


def _with_other_kernels(
    analysis: Analysis, target: Target, custom: Mapping[str, OperatorEntry]
) -> tuple[str | None, int | None]:
    """The other kernel set that runs on the core, and the arena with it; None where there is none."""
    if target.core.default_kernels != "cmsis-nn":
        return None, None
    other = "reference" if target.kernels == "cmsis-nn" else "cmsis-nn"
    platform = platform_of(target.with_overrides(kernels=other))
    account = plan_memory(analysis.model, platform, PlanRequest(file_plan="only"), custom=custom).account
    return (None, None) if account is None or account.is_lower_bound else (other, account.bytes)


def _makers(analysis: Analysis, account: ArenaAccount) -> dict[str, str]:
    """What makes each tensor, by its name; nothing of a name that several have."""
    graphs = analysis.model.subgraphs
    made = {
        (graph.index, index): f", output of operator {operator.index} {operator.label}"
        for graph in graphs
        for operator in graph.operators
        for index in operator.outputs
    }
    inputs = {(graph.index, index): ", an input" for graph in graphs for index in graph.inputs}
    makers = {**inputs, **made}
    tensors = [buffer for buffer in account.problem.buffers if not buffer.is_scratch]
    named = Counter(buffer_name(buffer) for buffer in tensors)
    return {
        buffer_name(buffer): text
        for buffer in tensors
        if named[buffer_name(buffer)] == 1 and (text := makers.get((buffer.subgraph, buffer.tensor)))
    }


@dataclass(frozen=True, slots=True)
class LockStore:
    """The file, its text and what it says; both None where there is none."""

    path: Path
    text: str | None
    lock: Lock | None

    def name_of(self, model: Path) -> str:
        """A model's path relative to the lock's folder, with slashes. Raises UsageError on another drive."""
        try:
            return Path(os.path.relpath(model, self.path.parent)).as_posix()
        except ValueError:
            raise UsageError(
                "is on a different drive from the lock file", where=str(model), fix="choose another --lock"
            ) from None


def read_lock(path: Path) -> LockStore:
    """The lock file, if there is one. Raises UsageError naming the line or key of what is no lock."""
    try:
        path.stat()
    except FileNotFoundError:
        return LockStore(path, None, None)
    except (OSError, ValueError):  # a link to itself, say: no missing lock, which a gate would pass
        pass
    blob = read_file(path, what="a lock file", most_bytes=MOST_CHARACTERS)
    try:
        text = blob.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("is not a UTF-8 text file", where=str(path), fix=ANEW) from None
    return LockStore(path, text, parse_lock(text, where=str(path)))


def write_lock(
    store: LockStore, entries: Mapping[str, Mapping[str, Entry]], *, inputs: tuple[Path, ...]
) -> tuple[bool, tuple[str, ...]]:
    """Put the entries into the file, and keep all others, those that another program has written meanwhile too.

    Whether it was written, as a file that would stay the same is not, and what is to be said of entries whose model is
    gone. A link stays one. Raises OutputError where it cannot be written.
    """
    path = Path(os.path.realpath(store.path))
    try:
        with writing_in(path.parent):
            newest = read_lock(path)
            merged = {name: dict(targets) for name, targets in (newest.lock or {}).items()}
            for name, targets in entries.items():
                merged.setdefault(name, {}).update(targets)
            text = lock_text(merged)
            if text != newest.text:
                write_file(path, text.encode("ascii"), force=True, inputs=inputs, alone=True)
    except OutputError as error:
        raise OutputError(error.what, where=str(store.path), fix="choose another --lock") from error
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise OutputError(what, where=str(store.path), fix="choose another --lock") from error
    gone = [name for name in sorted(merged) if name not in entries and not (store.path.parent / name).exists()]
    return text != newest.text, tuple(
        f"{store.path} still lists {name}, which does not exist: to remove it, delete the lock file and recreate it "
        "for all models"
        for name in gone
    )


NAMED = 8  # operators of a kind that nothing runs
OBVIOUS_HERE = frozenset(["plan-in-file", "plan-not-needed"])


@dataclass(frozen=True, slots=True)
class Checked:
    """A report for each model on each target, models first; the lock file if it was written; what is to be told."""

    reports: tuple[Report, ...]
    written: Path | None = None
    notices: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every model passes on every target."""
        return all(item.check is not None and item.check.passed for item in self.reports)


def check_models(paths: Sequence[Path], targets: Sequence[Target], request: CheckRequest | None = None) -> Checked:
    """Judge every model, as its file is, on every target.

    All inputs are read before anything is judged: a file that is no model raises ModelError, a lock or a report that is
    none, and limits that cannot apply, UsageError. The lock is written last, whatever the judgement.
    """
    asked = request or CheckRequest()
    paths = tuple(dict.fromkeys(paths))
    _check_request(paths, targets, asked)
    custom = read_custom_operators(asked.custom_operators)
    store = read_lock(asked.lock)
    sources = [open_tflite(path) for path in paths]
    told = quantizations(paths, sources, asked.reports)
    reports: list[Report] = []
    entries: dict[str, dict[str, Entry]] = {}
    for path, source, quantization in zip(paths, sources, told, strict=True):
        shared = SharedAnalysis(source, custom)
        for target in targets:
            case = _Case(path, source, target, asked, custom, quantization, shared)
            judged, entry = case.judged(store)
            reports.append(judged)
            entries.setdefault(store.name_of(path), {})[target.name] = entry
    if not asked.update:
        return Checked(tuple(reports))
    inputs = (*paths, *asked.reports, *(() if asked.custom_operators is None else (asked.custom_operators,)))
    written, notices = write_lock(store, entries, inputs=inputs)
    return Checked(tuple(reports), asked.lock if written else None, notices)


@dataclass(frozen=True, slots=True)
class _Case:
    path: Path
    source: Source
    target: Target
    request: CheckRequest
    custom: Mapping[str, OperatorEntry]
    quantization: QuantizationInfo | None
    shared: SharedAnalysis

    def judged(self, store: LockStore) -> tuple[Report, Entry]:
        """The report with its judgement, and its entry for the lock."""
        source, target, limits = self.source, self.target, self.request.limits
        analysis = self.shared.on(target)
        # What is said of a plan in the file, but that it is used: here the file is always taken as it is.
        said = tuple(
            item for item in plan_findings(source.model, analysis.plan, target) if item.rule not in OBVIOUS_HERE
        )
        made = report(source, analysis, options=self._options(), quantization=self.quantization, findings=said)
        parts = anatomy(analysis)
        entry = entry_of(made, target, parts, tool=__version__, converter=converter_of(source.model))
        locked = found_in(store.lock, store.name_of(self.path), target.name)
        info = compare(locked, entry, self.request.allowance)
        judgements = self._with_reasons(made, analysis, judge(made, limits, lacking=self._lacking()))
        if self.request.update:
            info = updated(info)
        else:
            judgements += judge_lock(locked, info, self.request.allowance, strict=self.request.locked)
        tracked = (*limits.budgets, *(() if limits.active_budget is None else (limits.active_budget,)))
        assert made.arena is not None
        budgets = judge_budgets(tracked, used(figures_of(made), limits), exact=not made.arena.is_lower_bound)
        assert made.memory is not None
        gate = GateInfo(
            passed=all(item.passed is not False for item in judgements),
            path=_shown_path(self.path),
            judgements=judgements,
            violations={budget.name: budget.violated for budget in budgets},
            lock=info,
        )
        return replace(made, check=gate, memory=replace(made.memory, budgets=budgets)), entry

    def _with_reasons(
        self, made: Report, analysis: Analysis, judgements: tuple[JudgementInfo, ...]
    ) -> tuple[JudgementInfo, ...]:
        """Causes and advice, looked for only where something failed: other plans take a while."""
        limits, found = self.request.limits, dict[Subject, Reasons]()
        explained = []
        for item in judgements:
            subject = subject_of(item, limits)
            if subject is not None and item.passed is False:
                if subject not in found:
                    found[subject] = self._reasons(subject, made, analysis)
                item = with_reasons(item, found[subject])
            explained.append(item)
        return tuple(explained)

    def _reasons(self, subject: Subject, made: Report, analysis: Analysis) -> Reasons:
        if subject == "latency":
            return latency_reasons(made)
        if subject == "flash":
            return flash_reasons(made, self.target, reserve=self.request.limits.reserve_flash_bytes)
        return reasons_of_arena(made, analysis, self.target, self.custom, reserve=self.request.limits.reserve_bytes)

    def _lacking(self) -> dict[str, tuple[str, ...]]:
        """The operators that nothing runs, the first of each kind by name."""
        operators = unsupported_operators(self.source.model, self.target, self.custom)
        names: dict[str, list[str]] = {}
        for graph, operator in operators:
            rule = "custom-operator" if operator.code == "CUSTOM" else "operator-not-in-runtime"
            names.setdefault(rule, []).append(str(OperatorId(graph, operator.index, operator.label)))
        return {
            rule: (*found[:NAMED], *([f"{len(found) - NAMED} more"] if len(found) > NAMED else []))
            for rule, found in names.items()
        }

    def _options(self) -> dict[str, object]:
        limits = self.request.limits
        return {
            "command": "check",
            "reserve_bytes": limits.reserve_bytes,
            "reserve_flash_bytes": limits.reserve_flash_bytes,
            "max_latency_ms": limits.max_latency_ms,
            "max_arena_bytes": limits.max_arena_bytes,
            "max_accuracy_loss_percent": limits.max_accuracy_loss,
            "allow_growth": str(self.request.allowance),
            "locked": self.request.locked,
            "update": self.request.update,
            "custom_operators": file_name(self.request.custom_operators),
        }


def _check_request(paths: Sequence[Path], targets: Sequence[Target], request: CheckRequest) -> None:
    if not paths or not targets:
        raise UsageError("there is nothing to check", fix="name a model and a target")
    if request.update and request.locked:
        raise UsageError("--update and --locked are mutually exclusive", fix="specify only one of them")
    names = [target.name for target in targets]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TargetError("is specified twice", where=twice, fix="specify each target once")
    for target in targets:
        _check_reserves(target, request.limits)


def _check_reserves(target: Target, limits: Limits) -> None:
    """Reserves must be of a memory that is known and holds them, or count towards a budget."""
    budgets = (*limits.budgets, limits.active_budget)
    of = {budget.of for budget in budgets if budget is not None}
    for option, reserve, size, memory, kind, remedy in (
        ("--reserve", limits.reserve_bytes, target.sram_bytes, "RAM", "ram", "--sram"),
        ("--reserve-flash", limits.reserve_flash_bytes, target.flash_bytes, "flash", "flash", "--flash"),
    ):
        if reserve and size is None and kind not in of:
            raise UsageError(
                f"{option} reserves memory, but the {memory} size of {target.name} is unknown",
                fix=f"name a board, or specify {remedy}",
            )
        if size is not None and reserve >= size:
            raise UsageError(
                f"{option} of {reserve:,} B leaves nothing of the {size:,} B of {memory} on {target.name}",
                fix="specify less",
            )


def _shown_path(path: Path) -> str:
    """As the user named it; relative to the current directory where it lies below it."""
    absolute, here = Path(os.path.abspath(path)), Path.cwd()
    return (absolute.relative_to(here) if absolute.is_relative_to(here) else path).as_posix()
