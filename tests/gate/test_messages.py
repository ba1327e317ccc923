"""The messages of judged models: their order, and the shares of memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.gate import github, junit, markdown, sarif
from edgetool.gate.messages import LEVELS, Usage, by_severity, count_line, messages, usage, usage_matrix
from edgetool.report.document import FindingInfo
from tests.gate.judged import FAILS, FITS, MODEL_FITS, PASSES, TOO_LARGE, TOO_SLOW, hostile_reports, judged

NOTE = FindingInfo("unverified-profile", "note", "not checked: clock", "nucleo-l4r5zi")


def test_errors_come_first_and_what_cannot_be_judged_rejects_nothing() -> None:
    assert [(item.rule, item.level) for item in messages(FAILS)] == [
        ("arena", "error"), ("max-latency", "error"), ("accuracy", "warning"), ("active-budget", "note"),
        ("unverified-profile", "note"),
    ]  # fmt: skip
    assert [item.message for item in messages(PASSES)] == ["not checked: clock"]


def test_what_passed_with_a_warning_is_printed() -> None:
    close = replace(TOO_SLOW, passed=True, level="warning")
    assert [item.rule for item in messages(judged(FITS, close, findings=()))] == ["max-latency"]


@pytest.mark.parametrize("rule", ["arena", "arena-too-large"])
def test_a_finding_that_a_judgement_repeats_is_printed_once(rule: str) -> None:
    again = FindingInfo(rule, "error", "the same in other words", None)
    assert [item.rule for item in messages(judged(TOO_LARGE, findings=(again, NOTE)))] == [
        "arena",
        "unverified-profile",
    ]
    assert [item.rule for item in messages(judged(TOO_SLOW, findings=(again, NOTE)))][:2] == ["max-latency", rule]


def test_each_model_has_its_first_failure_before_any_second() -> None:
    small = judged(TOO_SLOW, path="small.tflite", findings=())
    order = [(report.check and report.check.path, item.rule) for report, item in by_severity((FAILS, small))]
    assert order[:3] == [
        ("models/vww_96_int8.tflite", "arena"), ("small.tflite", "max-latency"),
        ("models/vww_96_int8.tflite", "max-latency"),
    ]  # fmt: skip


@given(st.lists(hostile_reports(), max_size=3))
def test_nothing_is_lost_in_the_order(reports: list) -> None:  # type: ignore[type-arg]
    items = by_severity(reports)
    assert len(items) == sum(len(messages(report)) for report in reports)
    ranks = [LEVELS.index(item.level) for _, item in items]
    assert ranks == sorted(ranks)


def test_the_count() -> None:
    assert count_line((PASSES,)) == "edgetool check: passed"
    assert count_line((PASSES, PASSES)) == "edgetool check: all 2 passed"
    assert count_line((PASSES, FAILS)) == "edgetool check: 1 of 2 failed"


@pytest.mark.parametrize("form", [github, junit, markdown, sarif])
def test_a_report_without_a_judgement_is_refused(form) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="contains no check"):
        form.text((replace(judged(FITS), check=None),))


@pytest.mark.parametrize(
    ("value", "limit", "shown"),
    [
        (0, 1000, "0 %"),
        (1, 1000, "<1 %"),
        (837, 1000, "84 %"),
        (999, 1000, "<100 %"),
        (1000, 1000, "100 %"),
        (1001, 1000, ">100 %"),
        (1010, 1000, "101 %"),
        (10, 0, ">100 %"),
        (10, None, "-"),
        (None, 10, "-"),
    ],
)
def test_shares_never_round_to_the_limit(value: int | None, limit: int | None, shown: str) -> None:
    assert usage(judged(replace(FITS, value=value, limit=limit))).arena == shown


def test_a_lower_bound_is_marked() -> None:
    report = judged(FITS)
    assert report.arena is not None
    assert usage(replace(report, arena=replace(report.arena, is_lower_bound=True))).arena == ">=15 %"


def test_without_limits_there_is_a_dash() -> None:
    assert str(usage(judged(MODEL_FITS))) == "- / 16 %"
    assert str(Usage("-", "-", True)) == "-"


def test_models_by_targets_with_gaps_and_equal_names() -> None:
    reports = (
        judged(FITS, path="a", target="x"),
        judged(FITS, path="a", target="x"),
        judged(TOO_LARGE, MODEL_FITS, path="b", target="y"),
    )
    matrix = usage_matrix(reports)
    assert (matrix.models, matrix.targets) == (("a", "b"), ("x", "x", "y"))
    fits = Usage("15 %", "-", True)
    assert matrix.cells == ((fits, fits, None), (None, None, Usage("152 %", "16 %", False)))
