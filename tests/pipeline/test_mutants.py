"""Hostile files through everything that follows the reader: the first 20,000 inputs of the fuzz run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks.fuzz import judge as judging
from benchmarks.fuzz.inputs import inputs
from benchmarks.fuzz.judge import BreachError, judge, way_of
from benchmarks.fuzz.run import Plan, run

from edgetool.errors import ModelError, UnsupportedModelError
from tests.model.builders import conv_model_bytes

COUNT = 20_000
MAX_EXTRA_BYTES = 200_000_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux tells it")
def test_every_input_is_served_or_refused(tmp_path: Path) -> None:
    total = run(Plan("edgetool", first=0, count=COUNT, seed=1, jobs=1, state=tmp_path))
    assert total.breaches == []
    assert total.largest[0] < MAX_EXTRA_BYTES
    refused = sum(total.refused.values())
    assert total.accepted + refused == COUNT
    assert min(total.accepted, refused) > COUNT / 10
    assert set(total.refused) == {"InvalidModelError", "UnsupportedModelError"}


def test_all_sound_files_are_accepted() -> None:
    for seed in inputs().seeds:
        assert judge(seed.blob, way_of(0)) == "", seed.name


def test_ways_differ() -> None:
    ways = {way_of(number) for number in range(500)}
    assert len({way.target for way in ways}) == len(judging.TARGETS)
    assert {way.request.project for way in ways} == {"header", "cmake"}
    assert {way.plan.sharing for way in ways} == {None, "greedy", "dynamic-programming"}
    assert {way.plan.file_plan for way in ways} == {"use", "replace"}
    assert all(any(getattr(way, name) for way in ways) for name in ("buffers", "again"))


@pytest.mark.parametrize(
    ("text", "breach"), [("an escape \x1b[2J", "terminal"), ("it is odd; please report this", "report this")]
)
def test_refusals_that_are_no_answer_are_breaches(text: str, breach: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: bytes) -> ModelError:
        raise UnsupportedModelError(text)

    monkeypatch.setattr(judging, "read_model", refuse)
    with pytest.raises(BreachError, match=breach):
        judge(conv_model_bytes(), way_of(0))


def test_a_layout_that_the_checker_refuses_is_a_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "check_layout", lambda *_: [type("Violation", (), {"message": "overlap"})])
    with pytest.raises(BreachError, match="overlap"):
        judge(conv_model_bytes(), way_of(0))


def test_a_file_that_reads_back_otherwise_is_a_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "planned_source", lambda source, *_: source)
    monkeypatch.setattr(judging, "renumbered", lambda _: None)
    with pytest.raises(BreachError, match="read back"):
        judge(conv_model_bytes(), way_of(0))


def test_files_with_more_than_plain_text_are_breaches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "firmware_files", lambda *_, **__: {"mutant.h": b"/* \x1b */\n"})
    with pytest.raises(BreachError, match=r"mutant\.h"):
        judge(conv_model_bytes(), way_of(0))
