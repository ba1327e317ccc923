"""What another runtime changes for a model, from two reports."""

from __future__ import annotations

from dataclasses import replace

from edgetool.finding import RULES
from edgetool.gate.drift import RUNTIME_RULES, OnRuntime, drift_between, judge_drift
from edgetool.gate.limits import Allowance
from edgetool.gate.lock_file import LockEntry
from edgetool.report.document import FindingInfo, Report, TargetInfo
from tests.pipeline.reports import whole_report


def on(runtime: str, arena_bytes: int, *findings: FindingInfo) -> OnRuntime:
    report: Report = whole_report()
    target = TargetInfo("board", "cortex-m4", "Board", runtime, "cmsis-nn")
    versions = {"edgetool": "1", "converter": None, "runtime": runtime, "profile": runtime}
    figures = {"arena_bytes": arena_bytes, "latency_ms": 2.5}
    return OnRuntime(replace(report, target=target, findings=findings), LockEntry("00", "cmsis-nn", versions, figures))


def fault(runtime: str) -> FindingInfo:
    return FindingInfo("kernel-fault", "error", f"with the cmsis-nn kernels of {runtime}, PAD crashes", "board")


def test_the_rules_about_runtimes_exist() -> None:
    assert all(rule in RULES for rule in RUNTIME_RULES)


def test_a_finding_that_names_another_runtime_is_the_same() -> None:
    drift = drift_between(on("old", 100, fault("old")), on("new", 100, fault("new")), Allowance())
    assert (drift.changes, drift.introduced, drift.fixed) == ((), (), ())
    assert drift.inputs == ("the runtime changed from old to new",)


def test_faults_come_and_go() -> None:
    before, after = on("old", 100, fault("old")), on("new", 100)
    assert drift_between(before, after, Allowance()).fixed == (fault("old"),)
    assert drift_between(after, before, Allowance()).introduced == (fault("old"),)


def test_growth_beyond_the_allowance_fails() -> None:
    before, after = on("old", 1000), on("new", 1100)
    for allowance, passed in ((Allowance(), False), (Allowance(percent=9.9), False), (Allowance(percent=10), True)):
        (item,) = judge_drift(drift_between(before, after, allowance), allowance)
        assert (item.rule, item.passed) == ("drift", passed)
    (item,) = judge_drift(drift_between(after, before, Allowance()), Allowance())
    assert item.passed
    assert "no larger than with new" in item.message
