"""The causes of a figure are named, the largest first, and advice only if it helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.gate.breakdown import INVOKE, ArenaBreakdown, OperatorId
from edgetool.gate.check import with_reasons
from edgetool.gate.reasons import Alternatives, Saving, arena_reasons, best_saving, flash_reasons, latency_reasons
from edgetool.report.document import JudgementInfo, Report, VerdictInfo
from edgetool.target.load import load_target
from tests.cli.estimates import estimate, operator, report
from tests.gate.breakdowns import breakdown, plan_of
from tests.graphs import chain
from tests.model import builders


def test_the_saving_ends_where_another_operator_sets_the_arena() -> None:
    model = chain([160, 64_000, 160, 32_000, 160])
    plan = plan_of(model)
    assert plan.account is not None
    saving = best_saving(model, plan.account, plan.timeline)
    assert saving is not None
    assert (saving.what, saving.next_limit) == ("shrink tensor t1 (64,000 B)", "operator 2 RELU")
    assert saving.bytes == 32_000
    smaller = plan_of(chain([160, 16, 160, 32_000, 160])).account
    assert smaller is not None
    assert plan.account.bytes - smaller.bytes == saving.bytes


@pytest.mark.parametrize("small", [16, 1600, 30_000])
@pytest.mark.parametrize("sizes", [[40_000, 9_000, 30_000, 31_000], [5, 70_000, 60_000, 7, 90_000], [70_000] * 3])
def test_no_shrinking_of_one_tensor_saves_more(sizes: list[int], small: int) -> None:
    model = chain(sizes)
    plan = plan_of(model)
    assert plan.account is not None
    saving = best_saving(model, plan.account, plan.timeline)
    most = 0 if saving is None else saving.bytes
    for index, size in enumerate(sizes):
        changed = plan_of(chain([*sizes[:index], min(small, size), *sizes[index + 1 :]])).account
        assert changed is not None
        assert plan.account.bytes - changed.bytes <= most


def test_an_arena_that_planning_determines_is_reported() -> None:
    parts = breakdown(chain([1] * 40))
    assert parts.moment != INVOKE
    model = chain([1] * 40)
    account = plan_of(model).account
    assert account is not None
    saving = best_saving(model, account, plan_of(model).timeline)
    assert saving is None or account.bytes - saving.bytes == sorted(p.bytes for p in account.peaks)[-2]


BOARD = load_target("stm32f769i-disco")


def of_arena(
    parts: ArenaBreakdown, others: Alternatives | None = None, made: Report | None = None
) -> tuple[list[str], str]:
    reasons = arena_reasons(made or report(), BOARD, parts, others or Alternatives(), producer_by_tensor={}, reserve=0)
    return list(reasons.causes), "\n".join(reasons.advice)


def sizes(causes: list[str]) -> list[int]:
    return [int(cause.partition(" B: ")[0].replace(",", "")) for cause in causes]


@pytest.mark.parametrize("name", ["conv", "depthwise", "dense", "residual"])
def test_causes_of_an_arena_sum_to_it(name: str) -> None:
    parts = breakdown(builders.ALL[name]())
    causes, _ = of_arena(parts)
    rows = causes[1:] if parts.moment == "Invoke" else causes
    assert sizes(rows) == sorted(sizes(rows), reverse=True)
    assert parts.bytes - 16 < sum(sizes(rows)) <= parts.bytes


def test_many_small_tensors_are_combined() -> None:
    parts = breakdown(chain([100, 200]))
    alive = tuple(replace(parts.alive[0], name=f"t{i}", bytes=16) for i in range(20))
    causes, _ = of_arena(replace(parts, alive=alive, head_bytes=320, peak_head=320, moment="Invoke"))
    assert "240 B: 15 smaller tensors and scratch buffers" in causes


def test_the_memory_of_allocate_tensors_is_reported_with_its_moment() -> None:
    parts = breakdown(chain([1] * 40))
    causes, advice = of_arena(parts)
    assert any("head memory used during planning in AllocateTensors, not in Invoke" in cause for cause in causes)
    assert "fewer channels" not in advice
    prepared = replace(parts, moment="Prepare", during=OperatorId(0, 7, "CONV_2D"))
    assert any("head memory used during Prepare of operator 7 CONV_2D" in cause for cause in of_arena(prepared)[0])


def test_overlapping_tensors_are_reported() -> None:
    parts = breakdown(chain([160, 6400, 4800]))
    lapped = replace(parts, head_bytes=parts.head_bytes - 4800)
    assert "4,800 B of which overlap" in of_arena(lapped)[0][0]


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (Alternatives(planned_bytes=100), "an arena of 100 B"),
        (Alternatives(planned_bytes=100, proven=True), "no operator order or layout needs less"),
        (Alternatives(planned_bytes=100, replan=True), "--replan -o NEW.tflite"),
        (Alternatives(planned_bytes=10**9, proven=True), "make the model smaller"),
        (Alternatives(kernels="reference", kernels_bytes=100), "but slower inference"),
        (Alternatives(kernels="cmsis-nn", kernels_bytes=100), "--kernels cmsis-nn"),
        (
            Alternatives(saving=Saving("tensor x", 64, "planning")),
            "at most 64 B; beyond that, planning determines the arena size",
        ),
        (Alternatives(saving=Saving("tensor x", 64, "")), "the arena shrinks by no more than the tensor does"),
        (Alternatives(), "use fewer channels or a smaller input, starting with operator 0 RELU"),
    ],
)
def test_advice_that_helps(others: Alternatives, said: str) -> None:
    assert said in of_arena(breakdown(chain([16_000, 16_000])), others)[1]


@pytest.mark.parametrize(
    "others",
    [
        Alternatives(planned_bytes=10**9),
        Alternatives(kernels="reference", kernels_bytes=10**9),
        Alternatives(planned_bytes=None, proven=False),
    ],
)
def test_advice_that_does_not(others: Alternatives) -> None:
    parts = breakdown(chain([16_000, 16_000]))
    assert of_arena(parts, others)[1] == of_arena(parts)[1]


ROWS = [
    {"precision": name, "stock_tflm": stock, "arena_bytes": arena, "model_bytes": size}
    for name, stock, arena, size in (
        ("float32", True, 1600, 4_000_000),
        ("float16", False, 800, 500),
        ("int16x8", True, 900, 400),
        ("int8", True, None, 300),
    )
]


@pytest.mark.parametrize(
    ("own", "arena", "model"),
    [
        ("float32", ["int16x8"], ["int16x8", "int8"]),
        ("int16x8", [], ["int8"]),
        ("int8", [], []),
        (None, [], []),
    ],
)
def test_lower_precisions_that_tflm_runs(own: str | None, arena: list[str], model: list[str]) -> None:
    made = report(estimate(precision_tradeoffs={"own": own, "rows": ROWS}))
    advice = of_arena(breakdown(chain([16_000, 16])), made=made)[1].splitlines()
    assert [line.split()[2].rstrip(":") for line in advice if line.startswith("convert")] == arena
    reported = flash_reasons(made, BOARD, reserve=0).advice
    assert [line.split()[2].rstrip(":") for line in reported if line.startswith("convert")] == model


def test_another_region_helps_only_where_the_region_is_the_limit() -> None:
    reasons = arena_reasons(
        report(), BOARD, breakdown(chain([16_000, 16_000])), Alternatives(), producer_by_tensor={}, reserve=0
    )
    assert any("(--arena-region sdram)" in line for line in reasons.elsewhere)
    for rule, expected in (("arena", True), ("max-arena", False), ("active-budget", False)):
        explained = with_reasons(JudgementInfo(rule, False, "error", "too much"), reasons)
        assert any("--arena-region" in line for line in explained.advice) is expected


def test_the_weights_of_a_loop_count_once() -> None:
    operators = (operator(1, 1.0, parameter_bytes=500), operator(2, 1.0, parameter_bytes=4000, runs=10), operator(3, 1))
    reasons = flash_reasons(report(estimate(operators=operators)), BOARD, reserve=0)
    assert reasons.causes == (
        "3,000 B: weights of operator 3 CONV_2D",
        "500 B: weights of operator 1 CONV_2D",
        "400 B: weights of operator 2 DEPTHWISE_CONV_2D",
    )
    assert "link the model into" in reasons.elsewhere[0]
    assert not flash_reasons(report(), BOARD, reserve=2**40).elsewhere


def test_the_slowest_operators_set_the_time() -> None:
    operators = (operator(1, 1.0), operator(2, 98.5), operator(3, 0.5))
    verdict = VerdictInfo("balanced", "", ("make it fit: x", "time a run with --measured-ms", "a faster clock"))
    made = report(estimate(operators=operators, verdict=verdict))
    reasons = latency_reasons(made)
    assert reasons.causes == ("98.5 ms: operator 2 DEPTHWISE_CONV_2D (98.5 %)", "1 ms: operator 1 CONV_2D (1 %)")
    assert reasons.advice == ("a faster clock",)
    assert latency_reasons(report(estimate(latency_ms=None))).causes == ()
