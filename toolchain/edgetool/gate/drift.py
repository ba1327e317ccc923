"""What another runtime changes for a model: its figures with their causes, and what its kernels do wrong or reject."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgetool.gate.limits import Allowance
from edgetool.gate.lock_file import LockEntry
from edgetool.gate.lock_judgement import LockedModel, compare, growth
from edgetool.report.document import DriftInfo, FindingInfo, JudgementInfo, Report

# The rules of findings about the runtime and its kernels.
RUNTIME_RULES = frozenset(
    [
        "arena-lower-bound",
        "kernel-fault",
        "kernel-gives-up",
        "kernel-refuses",
        "operator-limit-in-runtime",
        "operator-not-in-runtime",
        "operator-scales-in-runtime",
        "operator-type-not-in-runtime",
    ]
)
ADVICE = "if the change is expected, allow it with --allow-growth"


@dataclass(frozen=True, slots=True)
class OnRuntime:
    """A model's report on a target with one runtime, and the entry that a lock file would have for it."""

    report: Report
    entry: LockEntry

    @property
    def runtime(self) -> str:
        """The runtime's name."""
        return "" if self.report.target is None else self.report.target.runtime


def drift_between(before: OnRuntime, after: OnRuntime, allowance: Allowance) -> DriftInfo:
    """Return what the runtime of `after` changes for the model."""
    # The profile's hash differs with the runtime, which is named anyway.
    same_profile = {**after.entry.versions, "profile": before.entry.versions["profile"]}
    compared = compare(LockedModel(before.entry), replace(after.entry, versions=same_profile), allowance)
    was, now = _about_runtime(before), _about_runtime(after)
    return DriftInfo(
        before=before.runtime,
        after=after.runtime,
        inputs=compared.inputs,
        changes=compared.changes,
        introduced=tuple(finding for key, finding in now.items() if key not in was),
        fixed=tuple(finding for key, finding in was.items() if key not in now),
    )


def _about_runtime(side: OnRuntime) -> dict[tuple[str, str], FindingInfo]:
    """Return the findings about the runtime, by their rule and their text without the runtime's name."""
    return {
        (item.rule, item.message.replace(side.runtime, "")): item
        for item in side.report.findings
        if item.rule in RUNTIME_RULES
    }


def judge_drift(drift: DriftInfo, allowance: Allowance) -> tuple[JudgementInfo, ...]:
    """Judge growth beyond the allowance; what the runtime cannot run, or computes wrongly, fails by its findings."""
    grown = tuple(
        growth(change, drift.inputs, allowance, rule="drift", advice=ADVICE)
        for change in drift.changes
        if not change.allowed
    )
    if grown:
        return grown
    text = f"arena, model and latency are no larger than with {drift.before}"
    if allowance != Allowance():
        text += f", but for the allowance of {allowance}"
    return (JudgementInfo("drift", True, "note", text),)
