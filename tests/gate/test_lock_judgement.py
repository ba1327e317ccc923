"""A model against its lock: what grew too much, what changed, what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from edgetool.gate.limits import Allowance
from edgetool.gate.lock_file import Entry, Value, profile_hash
from edgetool.gate.lock_judgement import Locked, compare, found_in, judge_lock, updated
from edgetool.report.document import JudgementInfo
from edgetool.target.load import load_target
from tests.gate.anatomies import TARGET, anatomy
from tests.graphs import chain

FIGURES: Mapping[str, Value] = {"arena_bytes": 10_000, "model_bytes": 2000, "latency_ms": 100.0, "macs": 7}
NOW = Entry("a" * 64, "cmsis-nn", {"edgetool": "1", "converter": "C", "runtime": "R", "profile": "P"}, FIGURES)


def locked(**figures: Value) -> Locked:
    """The lock of a time when these figures were others."""
    return Locked(replace(NOW, figures={**FIGURES, **figures}))


def judged(before: Locked, allowance: Allowance | None = None, *, strict: bool = False) -> tuple[JudgementInfo, ...]:
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


def test_what_the_figures_are_made_of_may_not_differ_either() -> None:
    parts = anatomy(chain([16_000, 16_000]))
    edited = replace(parts, own=(("edited", 1476), *parts.own))
    then = Locked(replace(NOW, anatomy=edited))
    info = compare(then, replace(NOW, anatomy=parts), Allowance())
    assert (info.state, info.changes, len(info.inputs)) == ("changed", (), 1)
    assert [item.passed for item in judge_lock(then, info, Allowance(), strict=True)] == [False]


def test_only_a_small_growth_is_told_what_would_allow_it() -> None:
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
    figure: str, before: Value, allowance: Allowance, over: float | None
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


def test_every_guarded_figure_that_grew_is_told() -> None:
    items = judged(locked(arena_bytes=1, model_bytes=1, latency_ms=1.0))
    assert [item.message.split(" has")[0] for item in items] == ["the arena", "the model", "the inference time"]


def test_locked_takes_no_difference() -> None:
    (item,) = judged(locked(macs=6), strict=True)
    assert (item.rule, item.passed) == ("lock", False)
    assert "macs" in item.message
    assert [item.rule for item in judged(locked(arena_bytes=1), strict=True)] == ["growth", "lock"]
    assert [(item.rule, item.passed) for item in judged(locked(arena_bytes=20_000), strict=True)] == [("lock", False)]


def test_what_else_differs_is_told() -> None:
    other = Entry("b" * 64, "reference", {"edgetool": "0", "converter": None, "runtime": "Q", "profile": "O"}, FIGURES)
    info = compare(Locked(other), NOW, Allowance())
    assert info.state == "changed"
    assert [text.split(" changed")[0] for text in info.inputs] == [
        "the model file", "edgetool", "the converter", "the runtime", "the target's figures", "the kernels",
    ]  # fmt: skip
    assert all(item.passed for item in judge_lock(Locked(other), info, Allowance(), strict=False))
    (item,) = judge_lock(Locked(other), info, Allowance(), strict=True)
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
def test_states(lock: Mapping[str, Mapping[str, Entry]] | None, state: str) -> None:
    found = found_in(lock, "a.tflite", "t")
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
    before, after = anatomy(chain([1600, 6400, 160])), anatomy(chain([1600, 9600, 160, 160]))
    old = replace(NOW, figures={"arena_bytes": before.bytes}, anatomy=before)
    new = replace(NOW, figures={"arena_bytes": after.bytes}, anatomy=after)
    (change,) = compare(Locked(old), new, Allowance()).changes
    assert "+3,200 B: tensor t1" in change.causes
    sizes = [int(cause.partition(" B: ")[0].replace(",", "")) for cause in change.causes]
    assert sum(sizes) == after.bytes - before.bytes


def test_a_profile_is_known_by_its_figures_not_its_words() -> None:
    hashed = profile_hash(TARGET)
    assert hashed == profile_hash(load_target(TARGET.name))
    assert hashed == profile_hash(replace(TARGET, sources=(), clock_source="read elsewhere"))
    assert hashed == profile_hash(TARGET.with_overrides(kernels="reference"))  # told by itself
    for other in (
        TARGET.with_overrides(clock_hz=1_000_000),
        TARGET.with_overrides(sram_bytes=1024),
        replace(TARGET, runtime=replace(TARGET.runtime, tflm_commit="0" * 40)),
    ):
        assert profile_hash(other) != hashed
