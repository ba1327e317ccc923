"""The fuzz run itself: nothing that a file does to a worker is lost, and what is done is not done again.

Hostile files through everything that follows the reader: the first 8,000 inputs of the fuzz run.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.fuzz import judge as judging
from benchmarks.fuzz import worker
from benchmarks.fuzz.inputs import Seed, inputs
from benchmarks.fuzz.judge import BreachError, judge, way_of
from benchmarks.fuzz.run import BLOCK, Plan, run

from edgetool.errors import ModelError, UnsupportedModelError
from tests.fuzz import odd_judge as odd
from tests.model.builders import conv_model_bytes

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="memory use is read from Linux")


STALL_SECONDS = 6.0  # on a busy machine, a worker takes seconds to start


def plan(state: Path, count: int) -> Plan:
    return Plan("tests.fuzz.odd_judge", first=0, count=count, seed=1, jobs=2, state=state, stall_seconds=STALL_SECONDS)


@on_linux
@pytest.mark.slow
def test_every_way_to_end_is_recorded(tmp_path: Path) -> None:
    total = run(plan(tmp_path, 20))
    kinds = {breach["number"]: breach["kind"] for breach in total.breaches}
    assert kinds == {odd.DIES: "died", odd.HANGS: "hangs", odd.RAISES: "ZeroDivisionError"}
    assert (total.count, total.accepted, total.refused) == (20, 16, {"refused": 1})
    assert total.largest[1] == odd.LARGE
    assert 0.9 * odd.LARGE_BYTES < total.largest[0] < 1.5 * odd.LARGE_BYTES


@on_linux
@pytest.mark.slow
def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    wanted = plan(tmp_path, 3 * BLOCK)
    header = {"digest": inputs(1).digest}
    blocks = [
        {"first": first, "count": BLOCK, "accepted": BLOCK, "refused": {}, "breaches": [], "slowest": [0.5, first]}
        | {"largest": [1, first], "seconds": 1.0}
        for first in (0, 2 * BLOCK)
    ]
    lines = [json.dumps(line) for line in (header, *blocks)]
    wanted.log.write_text("\n".join(lines) + '\n{"first": 500, "cou', encoding="utf-8")
    reported = []
    total = run(wanted, lambda now, _: reported.append(now.count))
    assert reported == [3 * BLOCK]  # one block only was left
    assert (total.count, total.accepted, total.breaches) == (3 * BLOCK, 3 * BLOCK, [])
    again = run(wanted, lambda *_: pytest.fail("everything was done"))
    assert again.count == 3 * BLOCK


@on_linux
def test_a_run_with_other_inputs_is_kept_separate(tmp_path: Path) -> None:
    wanted = plan(tmp_path, BLOCK)
    wanted.log.write_text('{"digest": "of another"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="of other inputs"):
        run(wanted)


@on_linux
def test_a_worker_that_cannot_start_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="by no file's doing"):
        run(replace(plan(tmp_path, 10), judge="tests.fuzz.no_judge"))


@on_linux
def test_python_code_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "ALARM_SECONDS", 0.2)

    def judge(number: int) -> str:
        while number == 1:
            pass
        return ""

    block = worker.run_block(judge, 0, 3, set(), lambda _: None, 0)
    assert [(breach["number"], breach["kind"]) for breach in block.breaches] == [(1, "AlarmError")]
    assert "test_run.py" in block.breaches[0]["text"]


@on_linux
def test_an_input_that_takes_too_long_is_a_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SLOW_SECONDS", 0.05)

    def judge(number: int) -> str:
        until = time.process_time() + 0.1 * number
        while time.process_time() < until:
            pass
        return ""

    block = worker.run_block(judge, 0, 2, set(), lambda _: None, 0)
    assert [(breach["number"], breach["kind"]) for breach in block.breaches] == [(1, "slow")]


@on_linux
def test_an_input_that_took_long_only_once_is_not_a_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SLOW_SECONDS", 0.1)
    seen = []

    def judge(number: int) -> str:
        seen.append(number)
        end = time.process_time() + (0.2 if len(seen) == 1 else 0)
        while time.process_time() < end:
            pass
        return ""

    block = worker.run_block(judge, 0, 2, set(), lambda _: None, 0)
    assert (seen, block.breaches, block.accepted) == ([0, 0, 1], [], 2)
    assert block.slowest[0] < 0.1


@on_linux
def test_inputs_are_the_same_for_the_same_number() -> None:
    one, again, other = inputs(1), inputs(1), inputs(2)
    assert [one[number] for number in (5, 0, 7)] == [again[number] for number in (5, 0, 7)]
    assert one.digest != other.digest
    assert len({one[number] for number in range(200)}) > 150


@on_linux
def test_long_models_are_taken_less_often() -> None:
    assert Seed("", conv_model_bytes()).weight > 0.5
    weights = {seed.name: seed.weight for seed in inputs(1).seeds}
    assert weights["chain"] < weights["conv"] / 5


COUNT = 2_000
MAX_EXTRA_BYTES = 200_000_000


@pytest.mark.slow
@on_linux
def test_every_input_is_served_or_refused(tmp_path: Path) -> None:
    total = run(Plan("edgetool", first=0, count=COUNT, seed=1, jobs=1, state=tmp_path))
    assert total.breaches == []
    assert total.largest[0] < MAX_EXTRA_BYTES
    refused = sum(total.refused.values())
    assert total.accepted + refused == COUNT
    assert min(total.accepted, refused) > COUNT / 10
    assert set(total.refused) == {"InvalidModelError", "UnsupportedModelError"}


@pytest.mark.slow
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
def test_rejections_without_a_useful_message_are_breaches(
    text: str, breach: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
