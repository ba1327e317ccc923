"""The gate: models judged against targets, limits and the lock file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetool import __version__
from edgetool.errors import TargetError, UsageError
from edgetool.gate.anatomy import OperatorId
from edgetool.gate.judge import Reasons, Subject, figures_of, judge, subject_of, used, with_reasons
from edgetool.gate.limits import Limits, judge_budgets
from edgetool.gate.lock_file import Entry, entry_of
from edgetool.gate.lock_judgement import compare, found_in, judge_lock, updated
from edgetool.gate.reasons import flash_reasons, latency_reasons
from edgetool.model.metadata import converter_of
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.accuracy_reports import quantizations
from edgetool.pipeline.analysis import Analysis, SharedAnalysis, lacking_operators
from edgetool.pipeline.arena_reasons import anatomy, reasons_of_arena
from edgetool.pipeline.check_request import CheckRequest
from edgetool.pipeline.custom_operators import file_name, read_custom_operators
from edgetool.pipeline.lock_store import LockStore, read_lock, write_lock
from edgetool.pipeline.planned import plan_findings
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import Source, open_tflite
from edgetool.report.document import GateInfo, JudgementInfo, QuantizationInfo, Report
from edgetool.target.types import Target

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
        operators = lacking_operators(self.source.model, self.target, self.custom)
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
