"""examples/ci: the gate passes, an outgrown model fails, and the workflow does what it says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgetool.model.types import Model
from edgetool.model.writer import write_model
from tests.cli.program import edgetool
from tests.model.builders import Builder

yaml = pytest.importorskip("yaml", reason="needs PyYAML (the extra 'verify')")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "ci"
WORKFLOW = yaml.safe_load((FOLDER / "firmware.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["commands"]["steps"]
INSTALLING = "python -m pip install ."
PERSON = "person_detection/person_detection.tflite"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository with the examples; its parent is bare of settings."""
    for name in ("ci", "keyword_spotting", "person_detection"):
        folder = tmp_path / "examples" / name
        folder.mkdir(parents=True)
        for path in (ROOT / "examples" / name).iterdir():
            if path.suffix in (".tflite", ".toml", ".lock", ".yml"):
                shutil.copy(path, folder)
    return tmp_path


def outgrown() -> Model:
    """A detector whose first layers have four times the channels: their tensors alone are larger than the budget."""
    build = Builder(seed=8)
    x = build.activation([1, 96, 96, 1], name="image")
    wide = build.depthwise(build.conv(x, 32, stride=2))
    return build.model([x], [build.softmax(build.dense(build.flatten(build.average(wide)), 2))])


def test_the_gate_passes_and_the_lock_is_as_the_models_are(copy: Path) -> None:
    result = edgetool("check", "--locked", "--json", cwd=copy / "examples" / "ci")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    reports = json.loads(result.stdout)["reports"]
    assert [report["model"]["name"] for report in reports] == ["keyword_spotting.tflite", "person_detection.tflite"]
    for report in reports:
        rules = {item["rule"] for item in report["check"]["judgements"]}
        assert {"arena", "flash", "active-budget", "max-latency"} <= rules
        assert report["check"]["lock"]["state"] == "equal"
    violations = [report["check"]["violations"] for report in reports]
    assert all(set(item.values()) == {True, False} for item in violations)  # the budgets tell models apart
    assert violations[0] != violations[1]


@pytest.mark.slow
def test_an_outgrown_model_fails_and_says_why(copy: Path) -> None:
    (copy / "examples" / PERSON).write_bytes(write_model(outgrown()))
    result = edgetool("check", cwd=copy / "examples" / "ci", COLUMNS="100")
    assert result.returncode == 1, result.stdout
    text = " ".join(result.stdout.split())
    assert "the active budget is 48KiB" in text
    report = json.loads(edgetool("check", "--json", cwd=copy / "examples" / "ci").stdout)["reports"][1]
    failed = {item["rule"] for item in report["check"]["judgements"] if item["passed"] is False}
    assert {"active-budget", "growth"} <= failed
    assert edgetool("check", "--update", "-q", cwd=copy / "examples" / "ci").returncode == 1  # a budget is no habit


def run(step: Mapping[str, Any], repository: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The step as a runner does it, with an edgetool that is installed."""
    programs = repository.parent / "programs"
    programs.mkdir(exist_ok=True)
    program = programs / "edgetool"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgetool "$@"\n')
    program.chmod(0o755)
    script = programs / "script.sh"
    script.write_text(step["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
        cwd=repository / WORKFLOW["jobs"]["commands"]["defaults"]["run"]["working-directory"],
        env={
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(repository.parent / "summary.md"),
            "GITHUB_BASE_REF": "main",
            "RUNNER_TEMP": str(programs),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def clone(origin: Path, folder: Path) -> Path:
    """A checkout of what the examples are in, as one of a pull request is."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "Examples"]):
        subprocess.run([*git, *arguments], cwd=origin, check=True)
    subprocess.run([*git, "clone", "--quiet", str(origin), str(folder)], check=True)
    return folder


needs_bash = pytest.mark.skipif(
    shutil.which("bash") is None or shutil.which("git") is None, reason="needs bash and git to run the workflow's steps"
)


@pytest.mark.slow
@needs_bash
def test_every_command_of_the_workflow_works(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    checkout = clone(copy, tmp_path_factory.mktemp("runner") / "checkout")
    commands = [step for step in STEPS if "run" in step]
    not_run = [step["run"] for step in commands if "pip install" in step["run"]]
    assert not_run == [INSTALLING]  # what it would install is what runs here
    results = [run(step, checkout) for step in commands if step["run"] != INSTALLING]
    assert [result.returncode for result in results] == [0, 0, 0], [result.stderr for result in results]
    assert results[0].stdout.splitlines()[-1] == "all 2 pass"
    (artifact,) = [step["with"]["path"] for step in STEPS if "upload-artifact" in step.get("uses", "")]
    assert 'failures="0"' in (checkout / artifact).read_text()
    assert "person_detection.tflite" in (checkout.parent / "summary.md").read_text()
    assert "No operator differs" in results[2].stdout


@pytest.mark.slow
@needs_bash
def test_the_workflow_fails_with_an_outgrown_model(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    checkout = clone(copy, tmp_path_factory.mktemp("runner") / "checkout")
    (checkout / "examples" / PERSON).write_bytes(write_model(outgrown()))
    for step in STEPS:
        if step.get("name") in ("Check the models", "Show the table on the job page"):
            assert run(step, checkout).returncode == 1
    assert "<failure" in (checkout / "examples" / "ci" / "edgetool.xml").read_text()
    assert "active" in (checkout.parent / "summary.md").read_text()


@pytest.mark.slow
@needs_bash
def test_the_job_with_the_action_does_the_same(copy: Path) -> None:
    from tests.test_action import ACTION
    from tests.test_action import run as run_action

    (step,) = [step for step in WORKFLOW["jobs"]["action"]["steps"] if "EDGETOOL_REPOSITORY" in step["uses"]]
    assert step["with"].keys() <= ACTION["inputs"].keys()
    inputs = {name.replace("-", "_"): value for name, value in step["with"].items()}
    done = run_action(copy, **inputs)
    assert (done.code, done.output) == (0, "passed=true\n"), done.log
    (copy / "examples" / PERSON).write_bytes(write_model(outgrown()))
    (copy / "examples" / "ci" / "edgetool.xml").unlink()
    done = run_action(copy, **inputs)
    assert (done.code, done.output) == (1, "passed=false\n")
    assert "::error" in done.log


def test_the_workflow_is_valid() -> None:
    pytest.importorskip("check_jsonschema", reason="needs check-jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    checked = subprocess.run([*command, FOLDER / "firmware.yml"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_readme_names_every_file() -> None:
    section = (
        (ROOT / "examples" / "README.md").read_text(encoding="utf-8").partition("\n## ci")[2].partition("\n## ")[0]
    )
    assert [path.name for path in FOLDER.iterdir() if f"`{path.name}`" not in section] == []
