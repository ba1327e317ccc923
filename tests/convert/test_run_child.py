"""What the parent adds to a child's answer, and what it looks at before it starts one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from edgetool import child
from edgetool.convert.convert import check_exists, run_on_model
from edgetool.errors import CalibrationError, UsageError


def notes_of(answer: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(child, "run", lambda *_, **__: answer)
    result = run_on_model(
        "none", {}, tmp_path, workdir=tmp_path, limits=child.Limits(), doing="", advice="", progress=None
    )
    notes: list[str] = result["notes"]
    return notes


def test_what_the_system_could_not_deny_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert notes_of({"notes": ["a"]}, tmp_path, monkeypatch) == ["a"]
    missing = ["the network", "files outside its folder"]
    (first, told) = notes_of({"notes": ["a"], child.UNCONFINED: missing}, tmp_path, monkeypatch)
    assert first == "a"
    assert "with access to the network and files outside its folder" in told


@pytest.mark.parametrize("trusted", [False, True])
def test_only_trusted_code_is_not_confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool) -> None:
    given: dict[str, Any] = {}

    def run(*_: Any, **options: Any) -> dict[str, Any]:
        given.update(options)
        return {"notes": []}

    monkeypatch.setattr(child, "run", run)
    run_on_model(
        "none",
        {"trust_model_code": trusted},
        tmp_path,
        workdir=tmp_path,
        limits=child.Limits(),
        doing="",
        advice="",
        progress=None,
    )
    assert given["trusted"] is trusted


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_devices_are_told_before_a_child_waits_for_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(CalibrationError, match="neither a file nor a directory"):
            check_exists(path, CalibrationError, "")
    with pytest.raises(UsageError, match="no such file"):
        check_exists(tmp_path / "none", UsageError, "")
    check_exists(tmp_path, UsageError, "")
