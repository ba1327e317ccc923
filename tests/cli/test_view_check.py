"""The view of a judgement, for real models on small boards too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest

from edgetool.cli.check import check_view
from edgetool.gate.limits import ModelLimits, parse_budget
from edgetool.pipeline.check import CheckRequest, check_models
from edgetool.report.document import BudgetInfo, ChangeInfo, FindingInfo, JudgementInfo, LockInfo, Report
from edgetool.target.load import load_target
from tests.conftest import model_files, over_models
from tests.gate.judged import FITS, LOCK, MODEL_FITS, TOO_LARGE, TOO_SLOW, UNKNOWN, judged

HOSTILE = "\x1b[31m\n::error::\u202e" + "x" * 3000


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def lines_of(*reports: Report, everything: bool = False) -> list[str]:
    lines = [click.unstyle(line) for line in check_view(reports, everything=everything)]
    assert all(len(line) <= 80 and line.isascii() and line.isprintable() for line in lines), lines
    return lines


def test_failures_come_first_with_causes_and_advice_reported_once() -> None:
    again = replace(TOO_LARGE, rule="max-arena")
    lines = lines_of(judged(FITS, TOO_SLOW, TOO_LARGE, again))
    marks = [line.split()[:2] for line in lines if line.startswith(("  FAIL", "  pass", "  ?"))]
    assert marks == [["FAIL", "max-latency"], ["FAIL", "arena"], ["FAIL", "max-arena"], ["pass", "arena"]]
    assert sum("operator 7 CONV_2D scratch" in line for line in lines) == 1
    assert sum(line.split()[:1] == ["suggestions"] for line in lines) == 1
    assert sum(line.split()[:1] == ["cause"] for line in lines) == 1


@pytest.mark.parametrize(
    ("item", "mark"),
    [
        (UNKNOWN, "?"),
        (JudgementInfo("max-latency", True, "warning", "only the band"), "warn"),
        (JudgementInfo("max-latency", True, "note", "fine"), "pass"),
        (TOO_SLOW, "FAIL"),
    ],
)
def test_marks(item: JudgementInfo, mark: str) -> None:
    assert any(line.split()[:2] == [mark, item.rule] for line in lines_of(judged(item)))


def test_the_verdict_names_the_failed_rules_if_there_is_room() -> None:
    assert lines_of(judged(TOO_LARGE, path="a.tflite"))[0] == "a.tflite on nucleo-l4r5zi FAILS: arena"
    long = lines_of(judged(TOO_LARGE, path="models/" * 30 + "a.tflite"))[0]
    assert long.endswith("a.tflite on nucleo-l4r5zi FAILS")
    assert len(long) == 80


def test_several_reports_are_counted() -> None:
    assert lines_of(judged(FITS), judged(TOO_LARGE))[-1] == "1 of 2 fail"
    assert lines_of(judged(FITS), judged(FITS))[-1] == "all 2 pass"


def test_passing_reports_take_a_line_and_failing_ones_name_the_passing_rules() -> None:
    other = judged(TOO_LARGE, MODEL_FITS, path="models/big.tflite")
    lines = lines_of(judged(FITS, MODEL_FITS, path="models/kws.tflite", findings=()), other)
    assert lines[0] == "pass  kws.tflite on nucleo-l4r5zi: arena 15 % of sram, model 16 % of flash"
    assert lines[2] == "models/big.tflite on nucleo-l4r5zi FAILS: arena"
    assert "  pass  flash" in lines
    start = lines.index("Memory used: arena (share of SRAM) / model (share of flash), models in models/")
    assert lines[start + 1 :] == [
        "  model           nucleo-l4r5zi",
        "  kws.tflite        15 % / 16 %",
        "  big.tflite  152 % / 16 % FAIL",
        "",
        "1 of 2 fail",
    ]


def test_everything_shows_passing_rules_of_several_in_full() -> None:
    lines = lines_of(judged(FITS, MODEL_FITS), judged(FITS, MODEL_FITS, path="b.tflite"), everything=True)
    assert sum(line.split()[:2] == ["pass", "flash"] for line in lines) == 2


def test_open_judgements_of_several_reports_are_printed_once_at_the_end() -> None:
    note = FindingInfo("kernels-not-modelled", "warning", "these kernels are not modelled", None)
    reports = [judged(FITS, UNKNOWN, path="a.tflite", target=name, findings=(note,)) for name in ("one", "two")]
    reports.append(judged(FITS, path="b.tflite", target="one", findings=()))
    lines = lines_of(*reports)
    assert sum("these kernels are not modelled" in line for line in lines) == 1
    (place,) = (i for i, line in enumerate(lines) if line.split()[:2] == ["?", "accuracy"])
    assert "2 of 3: the report tells no accuracy" in lines[place]
    assert place > max(i for i, line in enumerate(lines) if line.startswith("pass"))


def test_many_targets_take_several_tables_and_a_single_model_a_row_for_each() -> None:
    names = [f"a-target-of-a-long-name-{number}" for number in range(5)]
    many = [judged(FITS, path=path, target=name) for path in ("a.tflite", "b.tflite") for name in names]
    lines = lines_of(*many)
    assert sum(line.startswith("  a.tflite ") for line in lines) == 3
    assert " ".join(lines).count("15 % / -") == 10
    single = lines_of(*many[:5])
    assert [line for line in single if line.startswith("  a-target")] == [f"  {name}  15 % / -" for name in names]


def test_a_single_failing_report_ends_with_its_verdict() -> None:
    lines = lines_of(judged(TOO_LARGE, path="a.tflite"))
    assert lines[-1] == lines[0] == "a.tflite on nucleo-l4r5zi FAILS: arena"
    assert lines_of(judged(FITS, path="a.tflite"))[-1] != "a.tflite on nucleo-l4r5zi passes"


def test_the_lock_shows_changes_and_other_differences() -> None:
    text = " ".join(" ".join(lines_of(judged(FITS, lock=LOCK))).split())
    assert "lock differs from the lock file - the model file changed" in text
    assert "arena_bytes 95,504 B to 99,600 B +4,096 B: operator 7 CONV_2D scratch" in text
    assert "latency_ms unknown to 300 ms" in text


def test_causes_of_a_growth_that_fails_are_reported_once() -> None:
    growth = JudgementInfo("growth", False, "error", "the arena has grown", causes=LOCK.changes[0].causes)
    lines = lines_of(judged(growth, lock=LOCK))
    assert sum("operator 7 CONV_2D scratch" in line for line in lines) == 1


def test_budgets_are_reported_by_name() -> None:
    made = judged(FITS)
    assert made.memory is not None
    budgets = (BudgetInfo("64KiB", 65_536, True, "ram", "violates_64kib"),)
    lines = lines_of(replace(made, memory=replace(made.memory, budgets=budgets)))
    assert any("violates_64kib: yes (ram, 65,536 B)" in line for line in lines)


def test_notes_are_shown_with_v_without_repeating_judgements() -> None:
    findings = (
        FindingInfo("unverified-profile", "note", "a note", None),
        FindingInfo("kernels-not-modelled", "warning", "a warning", None),
        FindingInfo("arena-too-large", "error", "again", None),
    )
    shown, everything = (
        "\n".join(lines_of(judged(TOO_LARGE, findings=findings), everything=asked)) for asked in (False, True)
    )
    assert ("a note" in shown, "a note" in everything) == (False, True)
    assert "a warning" in shown
    assert "again" not in everything


def test_names_from_files_are_escaped() -> None:
    item = JudgementInfo("arena", False, "error", HOSTILE, causes=(HOSTILE,), advice=(HOSTILE,))
    lock = LockInfo("changed", (HOSTILE,), (ChangeInfo(HOSTILE, "", 1, 2, True, (HOSTILE,)),))
    lines = lines_of(judged(item, path=HOSTILE, lock=lock), everything=True)
    assert not any(line.lstrip().startswith("::") for line in lines)


@pytest.mark.slow
@over_models([path for path in model_files() if path.parent.name in ("mlperf", "tflm")])
def test_real_models_on_small_boards(path: Path, tmp_path: Path) -> None:
    targets = [load_target(name) for name in ("nucleo-f103rb", "esp32-c3", "cortex-m4", "desktop")]
    limits = ModelLimits(max_arena_bytes=1024, max_latency_ms=1e-6, active_budget=parse_budget("1KiB:flash"))
    lock = tmp_path / "edgetool.lock"
    updated = check_models([path], targets, CheckRequest(limits=limits, lock=lock, update=True))
    again = check_models([path], targets, CheckRequest(limits=limits, lock=lock, locked=True))
    assert not updated.passed
    for report in again.reports:
        gate = report.check
        assert gate is not None
        assert gate.lock == LockInfo("equal")
        for item in gate.judgements:
            assert item.over is None or (item.over > 0 and item.passed is False)
            if item.rule in ("max-arena", "max-latency", "active-budget") and item.passed is False:
                assert item.causes or item.value is None
    lines_of(*again.reports)
