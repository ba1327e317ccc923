"""Whether variants are accepted, and what is said where not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.gate.limits import BudgetedMemory, MemoryBudget, parse_budget
from edgetool.report.document import Band
from edgetool.sweep.judge import judge, used_bytes, violations
from edgetool.sweep.metrics import Judged
from edgetool.sweep.spec import SweepLimits
from tests.sweep.made_rows import COST, metrics

NO_LIMITS = SweepLimits()
EXPECTED = [
    (25_300_000, True, True, False),
    (17_700_000, True, False, False),
    (8_800_000, False, False, True),
    (6_200_000, False, False, True),
]


def budgets(judged: Judged) -> dict[str, bool | None]:
    return {item.name: item.violated for item in judged.budgets}


@pytest.mark.parametrize("of", ["arena", "ram", "flash"])
@pytest.mark.parametrize(("size", "over_10mb", "over_20mb", "accepted"), EXPECTED)
def test_four_variants_against_two_tracked_budgets_and_an_active_one(
    of: BudgetedMemory, size: int, over_10mb: bool, over_20mb: bool, accepted: bool
) -> None:
    tracked = (MemoryBudget("10MB", 10_000_000, of), MemoryBudget("20MB", 20_000_000, of))
    limits = SweepLimits(budgets=tracked, active_budget=MemoryBudget("10MB", 10_000_000, of))
    sized = {"model_bytes": size} if of == "flash" else {"arena_bytes": size}
    judged = judge(metrics(**sized, sram_bytes=None, flash_bytes=None), limits)
    assert budgets(judged) == {"violates_10mb": over_10mb, "violates_20mb": over_20mb}
    assert judged.accepted is accepted
    assert len(judged.rejected) == (not accepted)
    used: dict[BudgetedMemory, int] = {"arena": size, "ram": size, "flash": size}
    assert violations(tracked, used) == {"violates_10mb": over_10mb, "violates_20mb": over_20mb}


def test_an_active_budget_that_is_not_tracked_is_reported_too() -> None:
    limits = SweepLimits(budgets=(parse_budget("64KiB"),), active_budget=parse_budget("64KiB:flash"))
    assert budgets(judge(metrics(), limits)) == {"violates_64kib": False, "violates_64kib_flash": False}


@pytest.mark.parametrize(
    ("limits", "figure", "limit"),
    [
        (SweepLimits(reserve_bytes=768), "arena_bytes", 32_768 - 768),
        (SweepLimits(reserve_flash_bytes=144), "model_bytes", 262_144 - 144),
        (SweepLimits(active_budget=parse_budget("16KiB"), reserve_bytes=384), "arena_bytes", 16_000),
        (SweepLimits(active_budget=parse_budget("16KiB:ram"), reserve_bytes=384), "arena_bytes", 16_000),
        (SweepLimits(active_budget=parse_budget("16KiB:flash"), reserve_flash_bytes=384), "model_bytes", 16_000),
    ],
)
def test_a_value_equal_to_a_limit_is_accepted_and_one_more_is_not(limits: SweepLimits, figure: str, limit: int) -> None:
    assert judge(metrics(**{"model_bytes": 1, figure: limit}), limits).rejected == ()
    (reason,) = judge(metrics(**{"model_bytes": 1, figure: limit + 1}), limits).rejected
    assert f"{limit + 1:,} B" in reason
    assert f"{limit:,} B {'remain' if limits.active_budget else 'available'}" in reason


def test_tracked_budgets_count_the_reserve_of_their_memory_and_reject_nothing() -> None:
    texts = ("18704", "18703", "20000:ram", "19999:ram", "30000:flash", "29999:flash")
    limits = SweepLimits(
        budgets=tuple(parse_budget(text) for text in texts), reserve_bytes=20_000 - 18_704,
        reserve_flash_bytes=30_000 - 29_624,
    )  # fmt: skip
    judged = judge(metrics(), limits)
    assert [item.violated for item in judged.budgets] == [False, True] * 3
    assert judged.accepted
    assert used_bytes(COST, limits) == {"arena": 18_704, "ram": 20_000, "flash": 30_000}


def test_an_arena_that_is_a_lower_bound_can_reject_but_not_accept() -> None:
    limits = SweepLimits(
        budgets=(parse_budget("8KiB"), parse_budget("64KiB"), parse_budget("64KiB:flash")),
        active_budget=parse_budget("8KiB"),
    )
    judged = judge(metrics(arena_bytes=None, arena_least_bytes=40_960), limits)
    assert budgets(judged) == {"violates_8kib": True, "violates_64kib": None, "violates_64kib_flash": False}
    assert judged.rejected == (
        "the arena size is unknown: at least 40,960 B",
        "the arena requires at least 40,960 B; sram has 32,768 B",
        "the arena requires at least 40,960 B; the active budget is 8KiB of the arena",
    )
    assert judge(metrics(arena_bytes=None, arena_least_bytes=0, sram_bytes=None), NO_LIMITS).rejected == (
        "the arena size is unknown: at least 0 B",
    )


def test_a_reserve_as_large_as_the_memory_leaves_nothing() -> None:
    assert judge(metrics(arena_bytes=16), SweepLimits(reserve_bytes=40_000)).rejected == (
        "the arena requires 16 B; sram has 0 B available (32,768 B minus 40,000 B reserved)",
    )


def test_variants_without_limits_are_accepted() -> None:
    assert judge(metrics(sram_bytes=None, flash_bytes=None, arena_bytes=10**9, model_bytes=10**9), NO_LIMITS).accepted


LIMITED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"max_latency_ms": 19.5},
        {},
        "an inference takes about 20 ms (15 ms to 25 ms); the limit is 19.5 ms",
    ),
    ({"max_latency_ms": 50.0}, {"latency_ms": None}, "the inference time is unknown; the limit is 50 ms"),
    ({"max_energy_uj": 499.0}, {}, "an inference requires about 500 uJ (400 to 700 uJ); the limit is 499 uJ"),
    ({"max_energy_uj": 499.0}, {"energy_uj": None}, "the inference energy is unknown; the limit is 499 uJ"),
    ({"min_accuracy": 0.91}, {}, "the accuracy is 90 %; the minimum is 91 %"),
    (
        {"min_accuracy": 0.96},
        {"quality": {"accuracy": None}},
        "the agreement with the original float model is 95 %; the minimum is 96 %",
    ),
    (
        {"min_accuracy": 0.5},
        {"quality": {"accuracy": None, "agreement": None}},
        "the accuracy is unknown; the minimum is 50 %",
    ),
    ({"max_accuracy_loss": 1.0}, {}, "the accuracy drops from 92 % to 90 %: a loss of 2 points; the limit is 1"),
    (
        {"max_accuracy_loss": 4.0},
        {"quality": {"accuracy": None}},
        "the agreement with the original float model is 95 %: a loss of 5 points; the limit is 4",
    ),
    (
        {"max_accuracy_loss": 4.0},
        {"quality": {"float_accuracy": None}},
        "the accuracy of the original float model is unknown; the limit for the loss is 4 points",
    ),
    (
        {"max_accuracy_loss": 4.0},
        {"quality": {"accuracy": None, "agreement": None}},
        "the accuracy loss is unknown; the limit is 4 points",
    ),
    ({}, {"errors": ("TFLM has no such kernel",)}, "TFLM has no such kernel"),
]


@pytest.mark.parametrize(("limits", "changes", "reason"), LIMITED)
def test_each_limit_rejects_in_a_sentence_with_figures(
    limits: dict[str, Any], changes: dict[str, Any], reason: str
) -> None:
    judged = judge(metrics(**changes), SweepLimits(**limits))
    assert judged.rejected == (reason,)
    assert not judged.accepted


def test_limits_that_are_just_kept() -> None:
    limits = SweepLimits(max_latency_ms=20.0, max_energy_uj=500.0, min_accuracy=0.9, max_accuracy_loss=2.0)
    assert judge(metrics(), limits).accepted
    equal = {"accuracy": 0.7, "float_accuracy": 0.8}  # 10.000000000000009 points as floats
    assert judge(metrics(quality=equal), SweepLimits(max_accuracy_loss=10.0)).accepted


SIZES = st.integers(0, 100_000)
BUDGETS = st.builds(lambda n, of: MemoryBudget(str(n), n, of), SIZES, st.sampled_from(["arena", "ram", "flash"]))
ANY_LIMITS = st.builds(
    SweepLimits,
    budgets=st.lists(BUDGETS, max_size=3).map(tuple),
    active_budget=st.one_of(st.none(), BUDGETS),
    reserve_bytes=SIZES,
    reserve_flash_bytes=SIZES,
    max_latency_ms=st.one_of(st.none(), st.floats(0, 100)),
    max_energy_uj=st.one_of(st.none(), st.floats(0, 100)),
    min_accuracy=st.one_of(st.none(), st.floats(0, 1)),
    max_accuracy_loss=st.one_of(st.none(), st.floats(0, 100)),
)  # fmt: skip
SHARES = st.one_of(st.none(), st.floats(0, 1))
BANDS = st.one_of(st.none(), st.floats(0, 100).map(lambda value: Band(value, value / 2, value * 2)))
ANY_METRICS = st.builds(
    lambda arena, least, model, latency, energy, accuracy, original, agreement, sram, flash: metrics(
        quality={"accuracy": accuracy, "float_accuracy": original, "agreement": agreement},
        arena_bytes=arena, arena_least_bytes=least if arena is None else arena, model_bytes=model,
        latency_ms=latency, energy_uj=energy, sram_bytes=sram, flash_bytes=flash,
    ),
    st.one_of(st.none(), SIZES), SIZES, SIZES, BANDS, BANDS, SHARES, SHARES, SHARES,
    st.one_of(st.none(), SIZES), st.one_of(st.none(), SIZES),
)  # fmt: skip


@given(ANY_METRICS, ANY_LIMITS, st.integers(0, 10_000), st.floats(0, 10))
def test_wider_limits_never_reject_what_narrower_ones_accept(
    made: Any, limits: SweepLimits, more: int, share: float
) -> None:
    active = limits.active_budget
    wider = replace(
        limits,
        active_budget=None if active is None else MemoryBudget(active.text, active.bytes + more, active.of),
        reserve_bytes=max(0, limits.reserve_bytes - more),
        reserve_flash_bytes=max(0, limits.reserve_flash_bytes - more),
        max_latency_ms=None if limits.max_latency_ms is None else limits.max_latency_ms + share,
        max_energy_uj=None if limits.max_energy_uj is None else limits.max_energy_uj + share,
        min_accuracy=None if limits.min_accuracy is None else limits.min_accuracy - share / 10,
        max_accuracy_loss=None if limits.max_accuracy_loss is None else limits.max_accuracy_loss + share,
    )
    narrow, wide = judge(made, limits), judge(made, wider)
    assert wide.accepted or not narrow.accepted
    assert len(wide.rejected) <= len(narrow.rejected)
    assert narrow.accepted is (not narrow.rejected)


@given(ANY_METRICS, ANY_LIMITS)
def test_tracking_rejects_nothing_and_a_violated_active_budget_does(made: Any, limits: SweepLimits) -> None:
    judged = judge(made, limits)
    assert judge(made, replace(limits, budgets=())).rejected == judged.rejected
    active = limits.active_budget
    if active is not None:
        (found,) = {
            item.violated for item in judged.budgets if (item.budget, item.of) == (active.text, active.of)
        }  # once
        assert not (found and judged.accepted)
