"""The comparison of two versions of the program finds what differs, and nothing between equal ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from benchmarks.freeze import ROOT, Case, Result, differing, exemption, main, stored_cases

CASE = Case("plan/model", ("plan", "m.tflite"))
MALFORMED = Case("malformed/lock-0", ("check", "m.tflite"))


def test_code_and_files_count() -> None:
    base = Result(0, {"<stdout>": b"a", "gone": b"", "equal": b"e"})
    head = Result(2, {"<stdout>": b"b", "new": b"", "equal": b"e"})
    assert differing(CASE, base, base) == []
    assert differing(CASE, base, head) == ["exit code", "<stdout>", "gone", "new"]


def test_of_an_exempt_case_only_the_code_counts() -> None:
    assert exemption(CASE) is None
    assert exemption(MALFORMED)
    assert differing(MALFORMED, Result(1, {"<stderr>": b"a"}), Result(1, {"<stderr>": b"b"})) == []
    assert differing(MALFORMED, Result(1, {}), Result(2, {})) == ["exit code"]


def test_every_case_has_a_name_of_its_own(tmp_path: Path) -> None:
    names = [case.name for case in stored_cases(tmp_path)]
    assert len(set(names)) == len(names) > 150


@pytest.mark.slow
def test_a_changed_message_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "base"
    base.mkdir()
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "LICENSE-0BSD"):
        shutil.copy(ROOT / name, base)
    for name in ("toolchain", "targets"):
        shutil.copytree(ROOT / name, base / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    arguments = [str(base), "--only", "targets/rpi-pico*", "--data", str(tmp_path)]
    assert main(arguments) == 0
    assert ": 0 differ" in capsys.readouterr().out

    board = base / "targets/boards/rpi-pico.toml"
    board.write_text(board.read_text(encoding="utf-8").replace("Raspberry", "Blackberry"), encoding="utf-8")
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    assert "targets/rpi-pico: edgetool targets show rpi-pico" in shown
    assert "Blackberry" in shown
