"""edgetool init as a user runs it, up to a commit that pre-commit judges."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.in_process import captured
from tests.model.builders import chain_model, conv_model_bytes


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "a project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    Path("kws.tflite").write_bytes(conv_model_bytes())
    return folder


def test_it_ends_with_the_next_steps(project: Path) -> None:
    done = captured("init", "--target", "rpi-pico")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:2] == ["  Models      kws.tflite", "  Target      rpi-pico, specified with --target"]
    steps = lines[lines.index("Next steps") + 1 :]
    assert steps[0].startswith("  1. Run 'edgetool check --update'")
    assert captured("check", "--update").returncode == 0
    assert captured("check", "--locked").returncode == 0


def test_a_dry_run_writes_nothing(project: Path) -> None:
    done = captured("init", "-t", "rpi-pico", "--dry-run")
    assert done.returncode == 0
    assert '  target = "rpi-pico"' in done.stdout
    assert "- id: edgetool-check" in done.stdout
    assert done.stdout.splitlines()[-1] == "Nothing was written."
    assert [path.name for path in project.iterdir()] == ["kws.tflite"]


def test_existing_settings_keep_their_target(project: Path) -> None:
    Path("edgetool.toml").write_text('target = "teensy41"\n')
    assert captured("init").returncode == 2
    done = captured("init", "--force")
    assert "teensy41, kept from the earlier settings" in done.stdout
    assert 'target = "teensy41"' in Path("edgetool.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "specify the board with --target"),
        (("-t", "nosuch"), "unknown target 'nosuch'"),
        (("-t", "rpi-pico", "none.tflite"), "none.tflite: does not exist"),
        (("-t", "rpi-pico", "--only", "all"), "'all'"),
        (("-t", "none.toml"), "none.toml"),
    ],
)
def test_wrong_values_are_named_and_nothing_is_written(project: Path, arguments: tuple[str, ...], message: str) -> None:
    done = captured("init", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert [path.name for path in project.iterdir()] == ["kws.tflite"]


def test_an_entry_that_cannot_be_added_is_printed(project: Path) -> None:
    Path(".pre-commit-config.yaml").write_text("repos: []\n")
    done = captured("init", "-t", "rpi-pico")
    assert done.returncode == 0
    assert "Add this to its list 'repos':" in " ".join(done.stdout.split())
    assert "    - id: edgetool-check" in done.stdout
    assert Path(".pre-commit-config.yaml").read_text() == "repos: []\n"
    quiet = captured("init", "-t", "rpi-pico", "--only", "pre-commit", "--quiet")
    assert "was not added" in quiet.stderr


def test_a_folder_that_cannot_be_created_is_named(project: Path) -> None:
    Path(".github").touch()
    done = captured("init", "-t", "rpi-pico")
    assert done.returncode == 2
    assert ".github: is not a directory" in done.stderr
    assert sorted(path.name for path in project.iterdir()) == [".github", "kws.tflite"]


def test_several_targets_and_one_file(project: Path) -> None:
    done = captured("init", "-t", "rpi-pico", "-t", "teensy41", "--only", "settings")
    assert done.returncode == 0
    assert sorted(path.name for path in project.iterdir()) == ["edgetool.toml", "kws.tflite"]
    assert captured("check").stdout.splitlines()[-1] == "all 2 pass"


@pytest.mark.slow
def test_the_hook_runs_with_pre_commit(project: Path) -> None:
    pytest.importorskip("pre_commit", reason="needs pre-commit")
    if shutil.which("git") is None:
        pytest.skip("needs git")
    from edgetool.model.writer import write_model

    programs = project.parent / "programs"
    programs.mkdir()
    program = programs / "edgetool"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgetool "$@"\n')
    program.chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PRE_COMMIT_HOME": str(project.parent / "cache"),
    }
    assert captured("init", "-t", "rpi-pico").returncode == 0
    assert captured("check", "--update").returncode == 0

    def hook() -> subprocess.CompletedProcess[str]:
        subprocess.run(["git", "add", "."], check=True, env=environment)
        command = [sys.executable, "-m", "pre_commit", "run", "--color", "never"]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    subprocess.run(["git", "init", "--quiet"], check=True, env=environment)
    done = hook()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("edgetool check")
    assert "Passed" in done.stdout
    Path("kws.tflite").write_bytes(write_model(chain_model(40)))  # has grown beyond the lock file
    done = hook()
    assert done.returncode == 1
    assert "growth" in done.stdout


def test_help_has_examples() -> None:
    assert "edgetool init --target nucleo-l4r5zi" in captured("init", "--help").stdout
