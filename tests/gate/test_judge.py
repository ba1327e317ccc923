"""Each judgement on either side of its limit, with number, limit and overshoot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgetool.gate.judge import figures_of, judge, judge_fit
from edgetool.gate.limits import ModelLimits, parse_budget
from edgetool.gate.text import duration
from edgetool.report.document import (
    Accuracy,
    Band,
    FindingInfo,
    JudgementInfo,
    PlanInfo,
    QuantizationInfo,
    RegionInfo,
    Report,
    RowsInfo,
    StripesInfo,
)
from edgetool.target.load import load_target
from tests.cli.estimates import estimate, report

ARENA, SRAM, MODEL, FLASH = 99_600, 655_360, 333_288, 2 * 2**20  # of the report


def one(rule: str, made: Report | None = None, **limits: Any) -> JudgementInfo:
    (found,) = (item for item in judge(figures_of(made or report()), ModelLimits(**limits)) if item.rule == rule)
    return found


def figures(item: JudgementInfo) -> tuple[object, ...]:
    return item.passed, item.level, item.value, item.limit, item.over


def lower_bound(size: int | None = ARENA) -> Report:
    made = report()
    assert made.arena is not None
    note = FindingInfo("arena-lower-bound", "warning", "what X allocates is not known", None)
    return replace(made, arena=replace(made.arena, bytes=size, is_lower_bound=True), findings=(note,))


@pytest.mark.parametrize(
    ("rule", "limits", "expected"),
    [
        ("arena", {}, (True, "note", ARENA, SRAM, None)),
        ("arena", {"reserve_bytes": SRAM - ARENA}, (True, "note", ARENA, ARENA, None)),
        ("arena", {"reserve_bytes": SRAM - ARENA + 1}, (False, "error", ARENA, ARENA - 1, 1)),
        ("flash", {"reserve_flash_bytes": FLASH - MODEL}, (True, "note", MODEL, MODEL, None)),
        ("flash", {"reserve_flash_bytes": FLASH - MODEL + 8}, (False, "error", MODEL, MODEL - 8, 8)),
        ("max-arena", {"max_arena_bytes": ARENA}, (True, "note", ARENA, ARENA, None)),
        ("max-arena", {"max_arena_bytes": ARENA - 600}, (False, "error", ARENA, ARENA - 600, 600)),
        ("max-latency", {"max_latency_ms": 335.0}, (True, "note", 300.0, 335.0, None)),
        ("max-latency", {"max_latency_ms": 334.9}, (True, "warning", 300.0, 334.9, None)),
        ("max-latency", {"max_latency_ms": 300.0}, (True, "warning", 300.0, 300.0, None)),
        ("max-latency", {"max_latency_ms": 250.0}, (False, "error", 300.0, 250.0, 50.0)),
        ("active-budget", {"active_budget": parse_budget("99600")}, (True, "note", ARENA, 99_600, None)),
        ("active-budget", {"active_budget": parse_budget("99599")}, (False, "error", ARENA, 99_599, 1)),
        (
            "active-budget",
            {"active_budget": parse_budget("100kB:ram"), "reserve_bytes": 1000},
            (False, "error", ARENA + 1000, 100_000, 600),
        ),
        (
            "active-budget",
            {"active_budget": parse_budget("334kB:flash"), "reserve_flash_bytes": 1000},
            (False, "error", MODEL + 1000, 334_000, 288),
        ),
    ],
)
def test_limits(rule: str, limits: dict[str, Any], expected: tuple[object, ...]) -> None:
    item = one(rule, **limits)
    assert figures(item) == expected
    shown = [value for value in expected[2:] if value]
    assert all(f"{value:,}" in item.message or f"{value:g}" in item.message for value in shown), item.message


def test_without_a_limit_there_is_no_judgement() -> None:
    assert [item.rule for item in judge(figures_of(report()), ModelLimits())] == [
        "arena",
        "flash",
        "operators",
        "arena-known",
    ]
    assert all(item.passed for item in judge(figures_of(report()), ModelLimits()))


def test_values_without_a_limit_are_reported_as_not_judged() -> None:
    made = report()
    assert made.memory is not None
    bare = replace(made, memory=replace(made.memory, sram_bytes=None, flash_bytes=None, region=None))
    for rule in ("arena", "flash"):
        item = one(rule, bare)
        assert item.passed is None
        assert item.message.startswith("not checked: ")


def test_an_arena_that_is_a_lower_bound_can_fail_but_never_pass() -> None:
    assert figures(one("arena-known", lower_bound()))[:2] == (False, "error")
    assert "what X allocates" in one("arena-known", lower_bound()).message
    assert one("arena", lower_bound()).passed is None
    assert figures(one("arena", lower_bound(), reserve_bytes=SRAM - 1000)) == (False, "error", ARENA, 1000, 98_600)
    assert one("max-arena", lower_bound(), max_arena_bytes=ARENA).passed is None
    assert one("active-budget", lower_bound(), active_budget=parse_budget("1MiB")).passed is None


def test_a_limit_on_an_unknown_latency_fails() -> None:
    item = one("max-latency", report(estimate(latency_ms=None)), max_latency_ms=1e9)
    assert figures(item) == (False, "error", None, 1e9, None)


@pytest.mark.parametrize(
    ("loss", "limit", "passed"), [(0.01, 1.0, True), (0.011, 1.0, False), (0.0, 0.0, True), (-0.02, 0.0, True)]
)
def test_accuracy_is_judged_in_percentage_points(loss: float, limit: float, passed: bool) -> None:
    reported = QuantizationInfo("int8", True, 10, accuracy=Accuracy(0.9, 0.9 - loss))
    item = one("accuracy", report(quantization=reported), max_accuracy_loss=limit)
    assert (item.passed, item.unit) == (passed, "%")
    assert item.value == pytest.approx(100 * loss)


@pytest.mark.parametrize("reported", [None, QuantizationInfo("int8", True, 10)])
def test_a_limit_on_an_unknown_accuracy_fails(reported: QuantizationInfo | None) -> None:
    item = one("accuracy", report(quantization=reported), max_accuracy_loss=1.0)
    assert item.passed is False
    assert "--evaluate" in item.advice[0]


@pytest.mark.parametrize(("limit", "passed"), [(2.0, False), (2.5, True), (3.0, True)])
def test_extra_work_is_judged_in_percent(limit: float, passed: bool) -> None:
    striped = PlanInfo((0,), (), stripes=StripesInfo((RegionInfo(0, 1, 2),), 5, 2.5))
    item = one("max-extra-macs", replace(report(), plan=striped), max_extra_macs=limit)
    assert (item.passed, item.value, item.unit) == (passed, 2.5, "%")
    assert bool(item.advice) is not passed


def test_plans_without_stripes_compute_nothing_again() -> None:
    assert one("max-extra-macs", report(), max_extra_macs=0.0).passed is True
    rows = RowsInfo(32, 30, 4, 9, extra_macs=5, extra_macs_percent=2.5)
    assert one("max-extra-macs", replace(report(), rows=rows), max_extra_macs=2.0).passed is False


def test_extra_work_that_the_file_does_not_state_fails() -> None:
    estimate = report().estimate
    assert estimate is not None
    copies = replace(estimate, operators=tuple(replace(item, copy_of=0) for item in estimate.operators))
    item = one("max-extra-macs", replace(report(), estimate=copies), max_extra_macs=100.0)
    assert item.passed is False
    assert "does not say" in item.message


@pytest.mark.parametrize(
    ("rule", "level", "judged_as"),
    [
        ("operator-not-in-runtime", "error", "operators"),
        ("custom-operator", "warning", "operators"),
        ("kernel-gives-up", "error", "kernel-gives-up"),
        ("kernel-refuses", "error", "kernel-refuses"),
        ("arena-too-large", "error", "arena-too-large"),  # 2**31 bytes, on a core without limits
    ],
)
def test_findings_that_reject(rule: str, level: str, judged_as: str) -> None:
    made = report(findings=(FindingInfo(rule, level, "what is wrong", "operator 3"),))
    item = one(judged_as, made)
    assert item.passed is False
    assert "what is wrong" in item.message


def test_what_does_not_fit_is_reported_once() -> None:
    made = report(findings=(FindingInfo("arena-too-large", "error", "again", None),))
    rules = [item.rule for item in judge(figures_of(made), ModelLimits(reserve_bytes=SRAM - 1)) if item.passed is False]
    assert rules == ["arena"]


def test_other_findings_reject_nothing() -> None:
    made = report(findings=(FindingInfo("kernels-not-modelled", "warning", "w", None),))
    assert all(item.passed for item in judge(figures_of(made), ModelLimits()))


def test_operators_that_nothing_runs_are_named() -> None:
    made = report(findings=(FindingInfo("operator-not-in-runtime", "error", "no GELU", None),))
    unsupported = {"operator-not-in-runtime": ("operator 3 GELU",), "custom-operator": ("operator 4 mine",)}
    (item,) = (
        item for item in judge(figures_of(made), ModelLimits(), unsupported=unsupported) if item.rule == "operators"
    )
    assert item.causes == ("operator 3 GELU",)


@pytest.mark.parametrize(
    ("ms", "text"), [(1500.0, "1.5 s"), (999.0, "999 ms"), (1.0, "1 ms"), (0.35, "350 us"), (0.0, "0 us")]
)
def test_times_in_the_unit_that_reads_best(ms: float, text: str) -> None:
    assert duration(ms) == text


def test_a_band_is_reported() -> None:
    made = report(estimate(latency_ms=Band(300.0, 270.0, 335.0)))
    assert "about 300 ms (270 ms to 335 ms)" in one("max-latency", made, max_latency_ms=1.0).message


def test_a_bare_core_is_not_judged() -> None:
    fit, findings = judge_fit(load_target("cortex-m7"), model_bytes=10, arena_bytes=100, arena_lower_bound_bytes=50)
    assert (fit.region, fit.sram_bytes, fit.flash_bytes, fit.arena_fits, fit.model_fits) == (None,) * 5
    assert findings == ()


@pytest.mark.parametrize(
    ("arena", "bound", "fits"),
    [(1024, 0, True), (1025, 0, False), (None, 1024, None), (None, 1025, False)],
)
def test_an_arena_that_is_a_lower_bound_never_certainly_fits(arena: int | None, bound: int, fits: bool | None) -> None:
    target = load_target("cortex-m7").with_overrides(sram_bytes=1024, flash_bytes=2048)
    fit, findings = judge_fit(target, model_bytes=2048, arena_bytes=arena, arena_lower_bound_bytes=bound)
    assert (fit.arena_fits, fit.model_fits) == (fits, True)
    assert [finding.rule for finding in findings] == (["arena-too-large"] if fits is False else [])


def test_a_model_beyond_the_flash_is_an_error() -> None:
    target = load_target("cortex-m7").with_overrides(flash_bytes=2048)
    fit, findings = judge_fit(target, model_bytes=2049, arena_bytes=None, arena_lower_bound_bytes=0)
    assert fit.model_fits is False
    assert [(finding.rule, finding.level) for finding in findings] == [("model-too-large", "error")]
    assert "2,049" in findings[0].message
