"""The GitHub Action and the pre-commit hook, as they are run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.model.builders import conv_model_bytes

yaml = pytest.importorskip("yaml", reason="needs PyYAML (the extra 'verify')")
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

ROOT = Path(__file__).resolve().parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = [step for step in ACTION["runs"]["steps"] if "run" in step]


@dataclass
class Done:
    code: int
    log: str
    summary: str
    output: str


def run(folder: Path, **inputs: str) -> Done:
    """The action's last step in the folder, as a runner does it, with an edgetool that is installed."""
    temp = folder / "runner temp"
    program = temp / "edgetool" / "bin" / "edgetool"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgetool "$@"\n')
    program.chmod(0o755)
    given = {name: value.get("default", "") for name, value in ACTION["inputs"].items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    assert given.keys() == ACTION["inputs"].keys()
    step = STEPS[-1]
    environment = {
        name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda match: given[match[1]], value)
        for name, value in step["env"].items()
    }
    files = {name: folder / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for path in files.values():
        path.write_text("")
    script = temp / "script.sh"
    script.write_text(step["run"])
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
        cwd=folder / given["working-directory"],
        env={
            **os.environ,
            **environment,
            "RUNNER_TEMP": str(temp),
            "GITHUB_WORKSPACE": str(folder),
            **{name: str(path) for name, path in files.items()},
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr
    summary, output = (path.read_text() for path in files.values())
    return Done(done.returncode, done.stdout, summary, output)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    for name in ("a.tflite", "b c.tflite"):
        (tmp_path / "models" / name).write_bytes(conv_model_bytes())
    return tmp_path


def test_models_that_pass(folder: Path) -> None:
    done = run(folder, model="models/*.tflite", target="nucleo-l4r5zi\n  cortex-m7\n")
    assert (done.code, done.output) == (0, "passed=true\n")
    assert done.log.splitlines()[-1] == "edgetool check: all 4 passed"
    assert done.summary.startswith("### edgetool check: all 4 passed\n")
    assert done.summary.count("| <code>models/b c.tflite</code> |") == 3  # a row per target, and one of the matrix


@pytest.mark.slow
def test_a_model_that_fails_and_every_file(folder: Path) -> None:
    files = {"sarif": "edgetool.sarif", "markdown": "table.md", "junit": "junit.xml"}
    limits = {"max_arena": "16", "memory_budget": "1KiB\n64KiB:flash", "arguments": "--kernels=reference"}
    done = run(folder, model="models/a.tflite", target="nucleo-l4r5zi", summary="false", **files, **limits)
    assert (done.code, done.output, done.summary) == (1, "passed=false\n", "")
    assert done.log.startswith("::error file=models/a.tflite,title=edgetool max-arena%3A ")
    assert json.loads((folder / "edgetool.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "max-arena"
    assert 'name="kernels" value="reference"' in (folder / "junit.xml").read_text()
    assert "64KiB flash: met" in (folder / "table.md").read_text()


@pytest.mark.slow
def test_settings_and_the_lock_are_those_of_the_working_directory(folder: Path) -> None:
    (folder / "models" / "edgetool.toml").write_text('target = "nucleo-l4r5zi"\n[check]\nmodels = ["b c.tflite"]\n')
    refused = run(folder, model="a.tflite", working_directory="models", locked="true", sarif="edgetool.sarif")
    assert (refused.code, refused.log[:35]) == (1, "::error file=models/a.tflite,title=")
    (run_of_tool,) = json.loads((folder / "models" / "edgetool.sarif").read_text())["runs"]
    place = run_of_tool["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "models/a.tflite", "uriBaseId": "%SRCROOT%"}
    assert run(folder, model="a.tflite", working_directory="models", arguments="--update").code == 0
    assert "b c.tflite" in run(folder, working_directory="models").summary
    assert run(folder, model="a.tflite", working_directory="models", locked="true").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "inputs",
    [
        {"model": "none.tflite", "target": "cortex-m7"},
        {"model": "models/a.tflite", "target": "no-such-board"},
        {"model": "models/a.tflite"},
        {"model": "", "target": "cortex-m7"},
        {"model": "models/a.tflite", "target": "cortex-m7", "max_arena": "much"},
    ],
)
def test_what_cannot_be_judged_is_an_annotation(folder: Path, inputs: dict[str, str]) -> None:
    done = run(folder, **inputs)
    assert (done.code, done.output, done.summary) == (2, "", "")
    assert done.log.startswith("::error title=edgetool check::nothing was judged, exit code 2")


HARM = [
    "$(touch harm)",
    "`touch harm`",
    "x; touch harm",
    "x\ntouch harm",
    "'; touch harm; '",
    "--output=harm",
    "a & touch harm",
]


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("name", ["model", "max_arena"])
def test_no_input_is_run(folder: Path, name: str, harm: str) -> None:
    done = run(folder, **{"model": "models/a.tflite", "target": "cortex-m7", name: harm})
    assert not list(folder.rglob("harm"))
    assert done.code == 2


@pytest.mark.slow
def test_names_are_never_options_and_patterns_never_split(folder: Path) -> None:
    (folder / "--help").write_bytes(conv_model_bytes())
    done = run(folder, model="--help\nmodels/b c.tflite", target="cortex-m7")
    assert (done.code, done.log.splitlines()[-1]) == (0, "edgetool check: all 2 passed")


def expressions(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [found for item in value.values() for found in expressions(item)]
    if isinstance(value, list):
        return [found for item in value for found in expressions(item)]
    return re.findall(r"\$\{\{.*?\}\}", value) if isinstance(value, str) else []


def test_inputs_reach_scripts_by_the_environment_alone() -> None:
    for step in STEPS:
        assert expressions(step["run"]) == []
        assert subprocess.run(["bash", "-n"], input=step["run"], text=True, check=False).returncode == 0
    used = set(re.findall(r"inputs\.([a-z-]+)", " ".join(expressions(ACTION["runs"]))))
    assert used == set(ACTION["inputs"])


def test_the_hook_runs_the_command_on_models() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"].split() == ["edgetool", "check"]
    assert (hook["language"], hook["pass_filenames"]) == ("python", True)
    assert re.search(hook["files"], "models/kws.tflite")
    assert not re.search(hook["files"], "models/kws.tflite.json")
