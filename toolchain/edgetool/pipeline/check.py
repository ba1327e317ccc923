"""`edgetool check`: read models and the lock file, plan, let the gate judge, and write the lock file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgetool import __version__
from edgetool.errors import OutputError, TargetError, UsageError
from edgetool.gate.breakdown import breakdown_of
from edgetool.gate.check import CheckRules, judge_model
from edgetool.gate.drift import OnRuntime
from edgetool.gate.limits import check_reserves
from edgetool.gate.lock_file import (
    MAX_CHARACTERS,
    RECREATE_LOCK,
    LockContents,
    LockEntry,
    Reached,
    entry_of,
    lock_text,
    parse_lock,
)
from edgetool.gate.lock_judgement import locked_model
from edgetool.gate.reasons import Alternatives, Reasons, alternatives, arena_reasons, best_saving, producers
from edgetool.memory.account import ArenaAccount
from edgetool.memory.planner import Plan, PlanRequest, plan_memory
from edgetool.model.metadata import changes_of, converter_of, keeps_own_plan
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.analysis import Analysis, SharedAnalysis, analyse, unsupported_operators
from edgetool.pipeline.output import read_file, write_file, writing_in
from edgetool.pipeline.places import Placed, check_places, in_places, with_placed
from edgetool.pipeline.planning import Deadline, plan_findings
from edgetool.pipeline.report_file import quantizations
from edgetool.pipeline.reporting import Described, report
from edgetool.pipeline.source import Source, file_name, open_tflite, read_custom_operators
from edgetool.report.document import QuantizationInfo, Report
from edgetool.target.native_places import read_native_places
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

if TYPE_CHECKING:
    from edgetool.pipeline.native import NativeModel

LOCK_NAME = "edgetool.lock"
PLAN_SECONDS = 2.0  # for the search for a smaller arena
# Findings about the plan in the file that a check omits: it always uses the file unchanged.
OMITTED = frozenset(["plan-in-file", "plan-not-needed"])


@dataclass(frozen=True, slots=True)
class CheckRequest(CheckRules):
    """The rules of a check and the files that it reads.

    Attributes:
        lock: The lock file.
        reports: The reports of `convert` that state the accuracy; if empty, NAME.json beside each model is read.
        custom_operators: The user's description of custom operators.
        place: The memories of head, tail and model (target/places.py), or "auto"; by default, head and tail are one
            arena.
    """

    lock: Path = Path(LOCK_NAME)
    reports: tuple[Path, ...] = ()
    custom_operators: Path | None = None
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check.

    Attributes:
        reports: One report for each model on each target, ordered by model first.
        written: The lock file, if it was written.
        notices: Notices about the lock file.
    """

    reports: tuple[Report, ...]
    written: Path | None = None
    notices: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Return whether every model passes on every target."""
        return all(item.check is not None and item.check.passed for item in self.reports)


def check_models(
    paths: Sequence[Path],
    targets: Sequence[Target],
    request: CheckRequest | None = None,
    *,
    described: list[Described] | None = None,
) -> Checked:
    """Judge every model, with its file unchanged, on every target.

    All inputs are read before anything is judged; the lock file is written last, even if a model does not pass.

    Args:
        paths: The models.
        targets: The targets. One with another runtime than an earlier target of the same name is compared with that
            one, which is the one in the lock file.
        request: How to judge them.
        described: Where to add the models with their analyses, in the order of the reports, for drawings.

    Raises:
        ModelError: A file is not a model.
        UsageError: A lock file or a report is not valid, or a limit cannot apply to a target.
    """
    request = request or CheckRequest()
    paths = tuple(dict.fromkeys(paths))
    _check_request(paths, targets, request)
    custom = read_custom_operators(request.custom_operators)
    store = read_lock(request.lock)
    sources = [open_tflite(path) for path in paths]
    accuracies = quantizations(paths, sources, request.reports)
    reports: list[Report] = []
    entries: dict[str, dict[str, LockEntry]] = {}
    for path, source, quantization in zip(paths, sources, accuracies, strict=True):
        shared = SharedAnalysis(source, custom)
        bases: dict[str, OnRuntime] = {}
        for target in targets:
            native = _native(source, target, request.place)
            analysis = shared.on(target) if native is None else native.analysis
            placed = None
            if request.place is not None and native is None:
                placed = in_places(source, analysis, target, request.place, custom)
                analysis = placed.judged(analyse(source, placed.target, plan=analysis.plan, custom=custom))
            checked = _CheckedModel(path, source, analysis, target, request, custom, quantization, native, placed)
            base = bases.get(target.name)
            judged, entry = checked.judged(store, base)
            reports.append(judged)
            if described is not None:
                described.append(Described(source, analysis, judged, native))
            if base is None:
                bases[target.name] = OnRuntime(judged, entry)
                entries.setdefault(store.name_of(path), {})[target.name] = entry
    if not request.update:
        return Checked(tuple(reports))
    inputs = (*paths, *request.reports, *(() if request.custom_operators is None else (request.custom_operators,)))
    written, notices = write_lock(store, entries, inputs=inputs)
    return Checked(tuple(reports), request.lock if written else None, notices)


def _native(source: Source, target: Target, place: str | None) -> NativeModel | None:
    """Return the model as native code, if that is the target's runtime."""
    if not target.runtime.is_native:
        return None
    from edgetool.pipeline.native import native_model  # imports numpy, which checks of TFLM do not need

    return native_model(source, target, place=place)


def _check_request(paths: Sequence[Path], targets: Sequence[Target], request: CheckRequest) -> None:
    if not paths or not targets:
        raise UsageError("there is nothing to check", fix="name a model and a target")
    if request.update and request.locked:
        raise UsageError("--update and --locked are mutually exclusive", fix="specify only one of them")
    builds = [(target.name, target.runtime.name) for target in targets]
    twice = next((build for build in builds if builds.count(build) > 1), None)
    if twice is not None:
        raise TargetError("is specified twice", where=twice[0], fix="specify each target and each runtime once")
    for target in targets:
        check_reserves(target, request.limits)
        if request.place is not None and target.runtime.is_native:
            read_native_places(request.place, target)
        else:
            check_places(request.place, target, PlanRequest())


@dataclass(frozen=True, slots=True)
class _CheckedModel:
    """A model on a target, with everything that the gate needs to judge it."""

    path: Path
    source: Source
    analysis: Analysis
    target: Target
    request: CheckRequest
    custom: Mapping[str, OperatorEntry]
    quantization: QuantizationInfo | None
    native: NativeModel | None = None
    placed: Placed | None = None

    def judged(self, store: LockStore, base: OnRuntime | None) -> tuple[Report, LockEntry]:
        """Return the report with its judgement, and the model's entry for the lock file.

        base: the model with another runtime, with which it is compared.
        """
        source, target, analysis = self.source, self.target, self.analysis
        findings = () if self.native is not None else plan_findings(source.model, analysis.plan, target)
        unjudged = report(
            source,
            analysis,
            options=self._options(),
            quantization=self.quantization,
            findings=tuple(item for item in findings if item.rule not in OMITTED),
        )
        if self.native is not None:
            from edgetool.pipeline.native import native_report

            unjudged = native_report(self.native, unjudged)
        unjudged = with_placed(unjudged, self.placed)
        entry = lock_entry(source, analysis, unjudged, target)
        judged = judge_model(
            unjudged,
            target,
            self.request,
            path=_shown_path(self.path),
            locked=locked_model(store.lock, store.name_of(self.path), target.name),
            entry=entry,
            base=base,
            unsupported=unsupported_operators(source.model, target, self.custom),
            arena_reasons=lambda: self._arena_reasons(unjudged),
        )
        return judged, entry

    def _arena_reasons(self, unjudged: Report) -> Reasons:
        """Return causes of an arena that is too large, and advice, after a short search for smaller arenas."""
        model, account, timeline = self.analysis.model, self.analysis.plan.account, self.analysis.plan.timeline
        if account is None:
            return Reasons()
        return arena_reasons(
            unjudged,
            self.target,
            breakdown_of(model, account, timeline),
            self._alternatives(account),
            producer_by_tensor=producers(model, account),
            reserve=self.request.limits.reserve_bytes,
        )

    def _alternatives(self, account: ArenaAccount) -> Alternatives:
        """Replan the model, and plan it with the other kernels that run on the core."""
        model, target, custom = self.analysis.model, self.target, self.custom
        saving = best_saving(model, account, self.analysis.plan.timeline)
        if account.is_lower_bound or self.native is not None:
            return Alternatives(saving=saving)
        planned = None
        if not keeps_own_plan(model):
            request, effort = PlanRequest(file_plan="replace"), Deadline(PLAN_SECONDS).effort()
            planned = plan_memory(model, platform_of(target), request, effort, custom=custom)
        kernels, with_kernels = None, None
        if target.core.default_kernels == "cmsis-nn":
            kernels = "reference" if target.kernels == "cmsis-nn" else "cmsis-nn"
            platform = platform_of(target.with_overrides(kernels=kernels))
            with_kernels = plan_memory(model, platform, PlanRequest(file_plan="only"), custom=custom).account
        replan = self.analysis.plan.planner == "file"
        return alternatives(saving, planned=planned, replan=replan, kernels=kernels, with_kernels=with_kernels)

    def _options(self) -> dict[str, object]:
        limits = self.request.limits
        return {
            "command": "check",
            "reserve_bytes": limits.reserve_bytes,
            "reserve_flash_bytes": limits.reserve_flash_bytes,
            "max_latency_ms": limits.max_latency_ms,
            "max_arena_bytes": limits.max_arena_bytes,
            "max_accuracy_loss_percent": limits.max_accuracy_loss,
            "max_extra_macs": limits.max_extra_macs,
            "allow_growth": str(self.request.allowance),
            "locked": self.request.locked,
            "update": self.request.update,
            "custom_operators": file_name(self.request.custom_operators),
            "place": self.request.place,
        }


def lock_entry(source: Source, analysis: Analysis, unjudged: Report, target: Target) -> LockEntry:
    """Return the entry that a lock file has for a model on a target; without a breakdown if the arena is not exact."""
    account = analysis.plan.account
    exact = account is not None and not account.is_lower_bound
    breakdown = breakdown_of(analysis.model, account, analysis.plan.timeline) if account is not None and exact else None
    return entry_of(
        unjudged,
        target,
        breakdown,
        tool=__version__,
        converter=converter_of(source.model),
        reached=_reached(source, analysis.plan, unjudged),
    )


def _reached(source: Source, plan: Plan, unjudged: Report) -> Reached:
    """Return how the arena was reached."""
    rows, changes = unjudged.rows, changes_of(source.model)
    if rows is not None:
        return Reached("rows", extra_macs=rows.extra_macs, optimized=changes.optimized)
    return Reached(
        "tensors" if unjudged.is_native else "tflm" if plan.planner == "runtime" else "plan",
        overlaps=len(plan.overlapping),
        regions=tuple(f"{item.first} to {item.last} in {item.stripes}" for item in changes.regions),
        extra_macs=changes.extra_macs,
        optimized=changes.optimized,
    )


def _shown_path(path: Path) -> str:
    """Return the path relative to the current directory if it is below it, else as the user specified it."""
    absolute, here = Path(os.path.abspath(path)), Path.cwd()
    return (absolute.relative_to(here) if absolute.is_relative_to(here) else path).as_posix()


@dataclass(frozen=True, slots=True)
class LockStore:
    """A lock file: its path, its text and its content; text and content are None if the file does not exist."""

    path: Path
    text: str | None
    lock: LockContents | None

    def name_of(self, model: Path) -> str:
        """Return a model's path relative to the lock file, with slashes.

        Raises UsageError if the model is on another drive.
        """
        try:
            return Path(os.path.relpath(model, self.path.parent)).as_posix()
        except ValueError:
            raise UsageError(
                "is on a different drive from the lock file", where=str(model), fix="choose another --lock"
            ) from None


def read_lock(path: Path) -> LockStore:
    """Read the lock file, if it exists. Raises UsageError, which names the line or the key of the error."""
    try:
        path.stat()
    except FileNotFoundError:
        return LockStore(path, None, None)
    except (OSError, ValueError):  # for example a link to itself: unlike a missing lock file, it must not pass
        pass
    blob = read_file(path, what="a lock file", max_bytes=MAX_CHARACTERS)
    try:
        text = blob.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("is not a UTF-8 text file", where=str(path), fix=RECREATE_LOCK) from None
    return LockStore(path, text, parse_lock(text, where=str(path)))


def write_lock(
    store: LockStore, entries: Mapping[str, Mapping[str, LockEntry]], *, inputs: tuple[Path, ...]
) -> tuple[bool, tuple[str, ...]]:
    """Merge the entries into the lock file.

    All other entries stay, including those that another program has written in the meantime. If the path is a link, the
    file that it leads to is written.

    Returns:
        Whether the file was written (it is not if it would stay the same), and notices about entries whose model does
        not exist.

    Raises:
        OutputError: The file cannot be written.
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
                write_file(path, text.encode("ascii"), force=True, inputs=inputs, already_locked=True)
    except OutputError as error:
        raise OutputError(error.what, where=str(store.path), fix="choose another --lock") from error
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise OutputError(what, where=str(store.path), fix="choose another --lock") from error
    without_model = [name for name in sorted(merged) if name not in entries and not (store.path.parent / name).exists()]
    return text != newest.text, tuple(
        f"{store.path} still lists {name}, which does not exist: to remove it, delete the lock file and recreate it "
        "for all models"
        for name in without_model
    )
