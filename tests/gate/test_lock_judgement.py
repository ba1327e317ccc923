"""A model compared with its lock file: what grew too much, what changed, what is missing.

The causes of a change sum to it, whatever changed, and they name what did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.gate.breakdown import ArenaBreakdown, LiveBuffer, OperatorId, OperatorPart
from edgetool.gate.limits import Allowance
from edgetool.gate.lock_file import FigureValue, LockEntry, Reached, profile_hash
from edgetool.gate.lock_judgement import (
    SHOWN,
    Contribution,
    LockedModel,
    aligned_operators,
    arena_contributions,
    cause_lines,
    compare,
    judge_lock,
    latency_contributions,
    locked_model,
    model_contributions,
    updated,
)
from edgetool.model.types import Model
from edgetool.report.document import JudgementInfo
from edgetool.target.load import load_target
from tests.gate.breakdowns import TARGET, breakdown, breakdowns
from tests.graphs import chain
from tests.model import builders


def quantity(size: int) -> str:
    return f"{size:+}"


def sum_of_lines(rows: list[Contribution]) -> int:
    return sum(int(text.partition(":")[0]) for text in cause_lines(rows, quantity))


@given(breakdowns(), breakdowns())
def test_rows_of_the_arena_sum_to_its_change(before: ArenaBreakdown, after: ArenaBreakdown) -> None:
    rows = arena_contributions(before, after)
    assert sum(row.change for row in rows) == after.bytes - before.bytes
    assert sum_of_lines(rows) == after.bytes - before.bytes
    assert all(row.change for row in rows)
    assert len(cause_lines(rows, quantity)) <= SHOWN + 1


@given(breakdowns(), breakdowns(), st.integers(-(10**9), 10**9))
def test_rows_of_the_model_and_the_time_sum_to_their_changes(
    before: ArenaBreakdown, after: ArenaBreakdown, change: int
) -> None:
    for rows in (model_contributions(before, after, change), latency_contributions(before, after, change)):
        assert sum(row.change for row in rows) == change
        assert sum_of_lines(rows) == change


def test_causes_below_the_minimum_are_summed_up() -> None:
    small = [Contribution(900, f"operator {place}") for place in range(200)]
    assert cause_lines([Contribution(5000, "operator 200"), *small], quantity, 1000) == (
        "+5000: operator 200",
        "+180000: 200 smaller changes in total",
    )
    assert cause_lines([Contribution(5000, "a"), Contribution(900, "b")], quantity, 1000) == ("+5000: a",)


@given(breakdowns())
def test_nothing_changed_has_no_rows(same: ArenaBreakdown) -> None:
    assert arena_contributions(same, same) == []
    assert model_contributions(same, same, 0) == latency_contributions(same, same, 0) == []


MODELS = [
    *(make() for make in builders.ALL.values()),
    builders.chain_model(3),
    builders.chain_model(9),
    chain([9] * 30),
]


@given(st.sampled_from(MODELS), st.sampled_from(MODELS))
def test_rows_of_real_accounts_sum(before: Model, after: Model) -> None:
    old, new = breakdown(before), breakdown(after)
    rows = arena_contributions(old, new)
    assert sum(row.change for row in rows) == new.bytes - old.bytes
    assert "other persistent data" not in {row.cause for row in rows}


def parts(*rows: tuple[str, int]) -> tuple[OperatorPart, ...]:
    return tuple(OperatorPart(OperatorId(0, i, label), size, 0, 0) for i, (label, size) in enumerate(rows))


def pairs(before: tuple[OperatorPart, ...], after: tuple[OperatorPart, ...]) -> list[tuple[int, int]]:
    return [(old.index, new.index) for new, old in sorted(aligned_operators(before, after).items())]


def test_an_operator_put_in_shifts_the_others() -> None:
    block = [("DEPTHWISE_CONV_2D", 8), ("CONV_2D", 16)]
    before = parts(("CONV_2D", 4), *block, ("DEPTHWISE_CONV_2D", 32), ("CONV_2D", 64), ("SOFTMAX", 1))
    after = parts(("CONV_2D", 4), *block, *block, ("DEPTHWISE_CONV_2D", 32), ("CONV_2D", 64), ("SOFTMAX", 1))
    assert pairs(before, after) in (
        [(0, 0), (1, 1), (2, 2), (3, 5), (4, 6), (5, 7)],
        [(0, 0), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7)],
    )


def test_an_operator_that_grew_is_the_same_one() -> None:
    before = parts(("CONV_2D", 4), ("ADD", 5), ("CONV_2D", 6))
    after = parts(("CONV_2D", 4), ("ADD", 50), ("CONV_2D", 6))
    assert pairs(before, after) == [(0, 0), (1, 1), (2, 2)]


def test_a_wider_model_has_the_same_operators() -> None:
    """Each is now as large as the next one was: none of them is new, and none is gone."""
    before = parts(("CONV_2D", 8), ("CONV_2D", 16), ("CONV_2D", 32))
    after = parts(("CONV_2D", 16), ("CONV_2D", 32), ("CONV_2D", 64))
    assert pairs(before, after) == [(0, 0), (1, 1), (2, 2)]


@given(breakdowns(), breakdowns())
def test_pairs_keep_the_order_and_the_labels(before: ArenaBreakdown, after: ArenaBreakdown) -> None:
    found = sorted(aligned_operators(before.operators, after.operators).items())
    assert [old for _, old in found] == sorted({old for _, old in found})
    assert all((old.label, old.subgraph) == (new.label, new.subgraph) for new, old in found)


def base() -> ArenaBreakdown:
    return breakdown(chain([160, 64_000, 64_000, 160]))


def with_scratch(of: ArenaBreakdown, index: int, scratch: int) -> ArenaBreakdown:
    """As if the kernel of an operator asked for scratch."""
    changed = [
        replace(part, scratch=scratch, live=part.live + scratch) if part.operator.index == index else part
        for part in of.operators
    ]
    top = max(changed, key=lambda part: part.live)
    more = top.live - of.alive_bytes
    alive = of.alive
    if top.operator == of.busiest and scratch:
        alive = (*of.alive, LiveBuffer(str(top.operator), scratch, top.operator))
    elif top.operator != of.busiest:
        alive = (LiveBuffer("elsewhere", top.live - scratch), LiveBuffer(str(top.operator), scratch, top.operator))
    return replace(
        of,
        operators=tuple(changed),
        busiest=top.operator,
        alive=alive,
        head_bytes=of.head_bytes + more,
        peak_head=of.peak_head + more,
        bytes=of.bytes + more,
    )


def test_scratch_at_the_peak_is_named() -> None:
    before = base()
    assert cause_lines(arena_contributions(before, with_scratch(before, 1, 4096)), quantity) == (
        "+4096: operator 1 RELU scratch",
    )


def test_scratch_that_moves_the_peak_is_named_with_what_hid_it() -> None:
    before = base()
    after = with_scratch(before, 0, 100_000)
    assert cause_lines(arena_contributions(before, after), quantity) == (
        "+100000: operator 0 RELU scratch",
        "-63840: memory live at operator 1 RELU, the previous peak, no longer counted",
    )


def test_a_renamed_tensor_is_no_change_and_a_larger_one_is() -> None:
    before = base()
    first, second = before.alive
    assert (
        cause_lines(
            arena_contributions(before, replace(before, alive=(replace(first, name="renamed"), second))), quantity
        )
        == ()
    )
    larger = replace(before, alive=(replace(first, bytes=first.bytes + 16), second), head_bytes=before.head_bytes + 16)
    larger = replace(larger, peak_head=before.peak_head + 16, bytes=before.bytes + 16)
    assert cause_lines(arena_contributions(before, larger), quantity) == ("+16: tensor t1",)


def test_a_growth_hidden_by_another_moment_is_reported_with_that_moment() -> None:
    before, after = breakdown(chain([1] * 40)), breakdown(chain([1] * 39 + [8000]))
    assert (before.moment, after.moment) == ("planning", "Invoke")
    causes = [row.cause for row in arena_contributions(before, after)]
    assert "now set by Invoke (previously planning)" in causes


FIGURES: Mapping[str, FigureValue] = {"arena_bytes": 10_000, "model_bytes": 2000, "latency_ms": 100.0, "macs": 7}
NOW = LockEntry("a" * 64, "cmsis-nn", {"edgetool": "1", "converter": "C", "runtime": "R", "profile": "P"}, FIGURES)


def locked(**figures: FigureValue) -> LockedModel:
    """The lock of a time when these figures were others."""
    return LockedModel(replace(NOW, figures={**FIGURES, **figures}))


def judged(
    before: LockedModel, allowance: Allowance | None = None, *, strict: bool = False
) -> tuple[JudgementInfo, ...]:
    allowed = allowance or Allowance()
    return judge_lock(before, compare(before, NOW, allowed), allowed, strict=strict)


def test_equal_figures_pass() -> None:
    info = compare(locked(), NOW, Allowance())
    assert (info.state, info.inputs, info.changes) == ("equal", (), ())
    assert [(item.rule, item.passed) for item in judged(locked())] == [("growth", True)]
    assert [(item.rule, item.passed) for item in judged(locked(), strict=True)] == [("lock", True)]


def test_growth_from_what_is_not_locked_is_not_judged() -> None:
    for figure in ("arena_bytes", "latency_ms"):
        (item,) = judged(locked(**{figure: None}), Allowance(percent=50))
        assert (item.rule, item.passed, item.level) == ("growth", None, "warning")
        assert figure in item.message
    after = replace(NOW, figures={**FIGURES, "latency_ms": None})
    (item,) = judge_lock(locked(), compare(locked(), after, Allowance()), Allowance(), strict=False)
    assert (item.rule, item.passed) == ("growth", None)


def test_with_locked_the_breakdown_must_not_differ_either() -> None:
    parts = breakdown(chain([16_000, 16_000]))
    edited = replace(parts, tflm_parts=(("edited", 1476), *parts.tflm_parts))
    then = LockedModel(replace(NOW, breakdown=edited))
    info = compare(then, replace(NOW, breakdown=parts), Allowance())
    assert (info.state, info.changes, len(info.inputs)) == ("changed", (), 1)
    assert [item.passed for item in judge_lock(then, info, Allowance(), strict=True)] == [False]


def test_an_allowance_is_suggested_only_for_a_small_growth() -> None:
    for before, advised in ((9960, True), (9000, False)):
        (item,) = judged(locked(arena_bytes=before), Allowance())
        assert any("--allow-growth 0.5%" in text for text in item.advice) is advised
    assert [item.passed for item in judged(locked(arena_bytes=9960), Allowance(percent=0.5))] == [True]


@pytest.mark.parametrize(
    ("figure", "before", "allowance", "over"),
    [
        ("arena_bytes", 9999, Allowance(), 1),
        ("arena_bytes", 9000, Allowance(percent=2), 820),
        ("arena_bytes", 9900, Allowance(percent=2), None),
        ("arena_bytes", 9000, Allowance(bytes=1000), None),
        ("arena_bytes", 9000, Allowance(percent=2, bytes=1000), None),
        ("arena_bytes", 11_000, Allowance(), None),
        ("model_bytes", 1999, Allowance(), 1),
        ("latency_ms", 99.0, Allowance(percent=2), None),
        ("latency_ms", 90.0, Allowance(percent=10), 1.0),
        ("latency_ms", 90.0, Allowance(bytes=2**20), 10.0),
        ("macs", 1, Allowance(), None),
    ],
)
def test_growth_beyond_the_allowance_fails(
    figure: str, before: FigureValue, allowance: Allowance, over: float | None
) -> None:
    then = locked(**{figure: before})
    (change,) = compare(then, NOW, allowance).changes
    assert (change.figure, change.before, change.after, change.allowed) == (
        figure, before, FIGURES[figure], over is None,
    )  # fmt: skip
    (item,) = judged(then, allowance)
    assert (item.rule, item.passed) == ("growth", over is None)
    if over is not None:
        assert item.over == pytest.approx(over)
        assert "the model file is the same" in item.message


def test_every_guarded_figure_that_grew_is_reported() -> None:
    items = judged(locked(arena_bytes=1, model_bytes=1, latency_ms=1.0))
    assert [item.message.split(" has")[0] for item in items] == ["the arena", "the model", "the inference time"]


def test_locked_takes_no_difference() -> None:
    (item,) = judged(locked(macs=6), strict=True)
    assert (item.rule, item.passed) == ("lock", False)
    assert "macs" in item.message
    assert [item.rule for item in judged(locked(arena_bytes=1), strict=True)] == ["growth", "lock"]
    assert [(item.rule, item.passed) for item in judged(locked(arena_bytes=20_000), strict=True)] == [("lock", False)]


def test_another_way_to_the_arena_is_reported() -> None:
    now = replace(NOW, reached=Reached("plan", 3, ("0 to 3 in 5",), 1_234, optimized=True))
    before = replace(NOW, reached=Reached("tflm"))
    info = compare(LockedModel(before), now, Allowance())
    assert (info.state, info.inputs) == (
        "changed",
        (
            "the arena is reached by the plan in the file, 3 overlaps, operators 0 to 3 in 5 stripes, 1,234 extra "
            "multiply-accumulates, an optimized model; before, by TFLM's own planner",
        ),
    )
    assert compare(LockedModel(now), now, Allowance()).state == "equal"
    assert compare(LockedModel(NOW), now, Allowance()).state == "equal"  # earlier versions did not write it


def test_other_differences_are_reported() -> None:
    other = LockEntry(
        "b" * 64, "reference", {"edgetool": "0", "converter": None, "runtime": "Q", "profile": "O"}, FIGURES
    )
    info = compare(LockedModel(other), NOW, Allowance())
    assert info.state == "changed"
    assert [text.split(" changed")[0] for text in info.inputs] == [
        "the model file", "edgetool", "the converter", "the runtime", "the target's figures", "the kernels",
    ]  # fmt: skip
    assert all(item.passed for item in judge_lock(LockedModel(other), info, Allowance(), strict=False))
    (item,) = judge_lock(LockedModel(other), info, Allowance(), strict=True)
    assert (item.rule, item.passed) == ("lock", False)
    assert "the model file changed" in item.message  # a model that was trained anew may have the same figures


@pytest.mark.parametrize(
    ("lock", "state"),
    [
        (None, "missing"),
        ({}, "not-in-lock"),
        ({"b.tflite": {"t": NOW}}, "not-in-lock"),
        ({"a.tflite": {"other": NOW}}, "other-target"),
        ({"a.tflite": {"t": NOW}}, "equal"),
    ],
)
def test_states(lock: Mapping[str, Mapping[str, LockEntry]] | None, state: str) -> None:
    found = locked_model(lock, "a.tflite", "t")
    info = compare(found, NOW, Allowance())
    assert info.state == state
    assert updated(info).state == "updated"
    missing = state != "equal"
    for strict in (False, True):
        (item,) = judge_lock(found, info, Allowance(), strict=strict)
        if missing:
            assert (item.rule, item.passed) == ("lock", False if strict else None)
            assert "--update" in item.message
        else:
            assert item.passed


def test_an_arena_that_grew_has_causes_that_sum() -> None:
    before, after = breakdown(chain([1600, 6400, 160])), breakdown(chain([1600, 9600, 160, 160]))
    old = replace(NOW, figures={"arena_bytes": before.bytes}, breakdown=before)
    new = replace(NOW, figures={"arena_bytes": after.bytes}, breakdown=after)
    (change,) = compare(LockedModel(old), new, Allowance()).changes
    assert "+3,200 B: tensor t1" in change.causes
    sizes = [int(cause.partition(" B: ")[0].replace(",", "")) for cause in change.causes]
    assert sum(sizes) == after.bytes - before.bytes


def test_a_profile_is_identified_by_its_figures_not_its_texts() -> None:
    hashed = profile_hash(TARGET)
    assert hashed == profile_hash(load_target(TARGET.name))
    assert hashed == profile_hash(replace(TARGET, sources=(), clock_source="read elsewhere"))
    assert hashed == profile_hash(replace(TARGET, runtime=replace(TARGET.runtime, kernel_types=(), registrations=())))
    assert hashed == profile_hash(replace(TARGET, runtime=replace(TARGET.runtime, reference="another")))
    assert hashed == profile_hash(TARGET.with_overrides(kernels="reference"))  # a line of its own
    for other in (
        TARGET.with_overrides(clock_hz=1_000_000),
        TARGET.with_overrides(sram_bytes=1024),
        replace(TARGET, runtime=replace(TARGET.runtime, tflm_commit="0" * 40)),
    ):
        assert profile_hash(other) != hashed
