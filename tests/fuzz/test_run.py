"""The fuzz run itself: nothing that a file does to a worker is lost, and what is done is not done again."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.fuzz import worker
from benchmarks.fuzz.inputs import Seed, inputs
from benchmarks.fuzz.run import BLOCK, Plan, run

from tests.fuzz import odd_judge as odd
from tests.model.builders import conv_model_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux tells it")


def plan(state: Path, count: int) -> Plan:
    return Plan("tests.fuzz.odd_judge", first=0, count=count, seed=1, jobs=2, state=state, stall_seconds=2.0)


@pytest.mark.slow
def test_every_way_to_end_is_told(tmp_path: Path) -> None:
    total = run(plan(tmp_path, 20))
    kinds = {breach["number"]: breach["kind"] for breach in total.breaches}
    assert kinds == {odd.DIES: "died", odd.HANGS: "hangs", odd.RAISES: "ZeroDivisionError"}
    assert (total.count, total.accepted, total.refused) == (20, 16, {"refused": 1})
    assert total.largest[1] == odd.LARGE
    assert 0.9 * odd.LARGE_BYTES < total.largest[0] < 1.5 * odd.LARGE_BYTES


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


def test_a_run_over_other_inputs_is_not_mixed_in(tmp_path: Path) -> None:
    wanted = plan(tmp_path, BLOCK)
    wanted.log.write_text('{"digest": "of another"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="of other inputs"):
        run(wanted)


def test_a_worker_that_cannot_start_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="by no file's doing"):
        run(replace(plan(tmp_path, 10), judge="tests.fuzz.no_judge"))


def test_python_code_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "ALARM_SECONDS", 0.2)

    def judge(number: int) -> str:
        while number == 1:
            pass
        return ""

    block = worker.run_block(judge, 0, 3, set(), lambda _: None, 0)
    assert [(breach["number"], breach["kind"]) for breach in block.breaches] == [(1, "AlarmError")]
    assert "test_run.py" in block.breaches[0]["text"]


def test_what_takes_too_long_is_a_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SLOW_SECONDS", 0.05)

    def judge(number: int) -> str:
        until = time.process_time() + 0.1 * number
        while time.process_time() < until:
            pass
        return ""

    block = worker.run_block(judge, 0, 2, set(), lambda _: None, 0)
    assert [(breach["number"], breach["kind"]) for breach in block.breaches] == [(1, "slow")]


def test_what_took_long_but_once_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_inputs_are_the_same_for_the_same_number() -> None:
    one, again, other = inputs(1), inputs(1), inputs(2)
    assert [one[number] for number in (5, 0, 7)] == [again[number] for number in (5, 0, 7)]
    assert one.digest != other.digest
    assert len({one[number] for number in range(200)}) > 150


def test_long_models_are_taken_less_often() -> None:
    assert Seed("", conv_model_bytes()).weight > 0.5
    weights = {seed.name: seed.weight for seed in inputs(1).seeds}
    assert weights["chain"] < weights["conv"] / 5
