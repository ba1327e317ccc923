"""The judgement of a model as a whole: limits, lock file, unsupported operators and reasons."""

from __future__ import annotations

from dataclasses import replace

from edgetool.gate.check import CheckRules, judge_model, subject_of, with_reasons
from edgetool.gate.judge import figures_of, judge
from edgetool.gate.limits import ModelLimits, parse_budget
from edgetool.gate.lock_file import entry_of
from edgetool.gate.lock_judgement import LockedModel
from edgetool.gate.reasons import Reasons
from edgetool.model.types import Operator
from edgetool.report.document import FindingInfo, GateInfo, JudgementInfo, Report
from edgetool.target.load import load_target
from tests.cli.estimates import report
from tests.model.builders import unary_model

BOARD = load_target("nucleo-l4r5zi")
REPORT = report()
ENTRY = entry_of(REPORT, BOARD, None, tool="1.0", converter=None)


def judged(
    rules: CheckRules,
    *,
    made: Report = REPORT,
    locked: LockedModel | None = None,
    unsupported: tuple[tuple[int, Operator], ...] = (),
    arena: Reasons | None = None,
) -> GateInfo:
    """Judge the model; without `arena`, the reasons of the arena must not be computed."""

    def arena_reasons() -> Reasons:
        assert arena is not None
        return arena

    result = judge_model(
        made,
        BOARD,
        rules,
        path="m.tflite",
        locked=locked or LockedModel(ENTRY),
        entry=ENTRY,
        unsupported=unsupported,
        arena_reasons=arena_reasons,
    )
    assert result.check is not None
    assert result.memory is not None
    assert {item.name: item.violated for item in result.memory.budgets} == result.check.violations
    return result.check


def test_a_model_that_passes_needs_no_reasons() -> None:
    gate = judged(CheckRules(ModelLimits(budgets=(parse_budget("1KiB"),))))
    assert gate.passed
    assert gate.violations == {"violates_1kib": True}
    assert gate.lock is not None
    assert gate.lock.state == "equal"


def test_every_failure_of_the_arena_has_the_same_reasons() -> None:
    limits = ModelLimits(max_arena_bytes=1, active_budget=parse_budget("1:ram"), max_latency_ms=1.0)
    gate = judged(CheckRules(limits), arena=Reasons(("a cause",), ("an advice",)))
    failed = {item.rule: item.causes for item in gate.judgements if item.passed is False}
    assert failed.pop("max-latency") != ("a cause",)
    assert failed == {"max-arena": ("a cause",), "active-budget": ("a cause",)}
    assert not gate.passed


def test_nothing_is_judged_by_a_lock_file_that_will_be_written() -> None:
    missing = LockedModel(None, "missing")
    assert not judged(CheckRules(locked=True), locked=missing).passed
    updated = judged(CheckRules(update=True), locked=missing)
    assert updated.passed
    assert updated.lock is not None
    assert updated.lock.state == "updated"
    assert not {"lock", "growth"} & {item.rule for item in updated.judgements}


def test_the_first_unsupported_operators_are_named() -> None:
    (operator,) = unary_model("GELU").main.operators
    finding = FindingInfo("operator-not-in-runtime", "error", "no GELU", None)
    operators = tuple((0, replace(operator, index=index)) for index in range(10))
    gate = judged(CheckRules(), made=replace(REPORT, findings=(finding,)), unsupported=operators)
    (item,) = (item for item in gate.judgements if item.passed is False)
    assert item.causes[0] == "operator 0 GELU"
    assert item.causes[7:] == ("operator 7 GELU", "2 more")


def test_reasons_go_to_failures_of_their_subject() -> None:
    limits = ModelLimits(max_latency_ms=1.0, active_budget=parse_budget("1kB:flash"), max_arena_bytes=1)
    subjects = {item.rule: subject_of(item, limits) for item in judge(figures_of(REPORT), limits)}
    assert subjects == {
        "arena": "arena",
        "flash": "flash",
        "max-arena": "arena",
        "active-budget": "flash",
        "max-latency": "latency",
        "operators": None,
        "arena-known": None,
    }
    reasons = Reasons(("a cause",), ("an advice",))
    failed = JudgementInfo("max-arena", False, "error", "too large")
    fine = replace(failed, passed=True)
    assert with_reasons(failed, reasons).causes == ("a cause",)
    assert with_reasons(fine, reasons) == fine
