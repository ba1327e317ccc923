"""--custom-operators as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from tests.cli.program import edgetool
from tests.model.builders import Builder

DESCRIPTION = '[[operator]]\nname = "MyOp"\nmacs_per_output = 9\nscratch = [512]\ntemporary_inputs = [0]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of one custom operator, and its description in a directory beside it."""
    build = Builder()
    x, y = build.activation([1, 8]), build.activation([1, 8])
    build.operator("CUSTOM", [x], [y], custom_code="MyOp")
    (tmp_path / "m.tflite").write_bytes(write_model(build.model([x], [y])))
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "ops.toml").write_text(DESCRIPTION)
    return tmp_path


COMMANDS = [("plan",), ("estimate",), ("emit", "-o", "out"), ("convert", "-o", "out")]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_every_command_takes_the_description(folder: Path, command: tuple[str, ...]) -> None:
    name, *rest = command
    arguments = (name, "m.tflite", "-t", "cortex-m7", "--custom-operators", "ours/ops.toml", "--json", *rest)
    result = edgetool(*arguments, cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["provenance"]["options"]["custom_operators"] == "ops.toml"
    assert document["arena"]["is_lower_bound"] is False
    assert "custom-operator" not in {finding["rule"] for finding in document["findings"]}


def test_the_settings_can_name_the_file(folder: Path) -> None:
    (folder / "edgetool.toml").write_text('target = "cortex-m7"\ncustom-operators = "ours/ops.toml"\n')
    document = json.loads(edgetool("plan", "m.tflite", "--json", cwd=folder).stdout)
    assert document["provenance"]["options"]["custom_operators"] == "ops.toml"
    assert document["arena"]["is_lower_bound"] is False


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_a_wrong_description_names_file_and_key(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "bad.toml").write_text(DESCRIPTION + "scrach = []\ninit = [-1]\n")
    name, *rest = command
    result = edgetool(name, "m.tflite", "-t", "cortex-m7", "--custom-operators", "bad.toml", *rest, cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        "edgetool: error: bad.toml: operator[0].init[0]: is -1, not an integer from 0 to 1073741824",
        "  | operator[0].scrach: is an unknown key; did you mean 'scratch'?",
    ]
    assert not (folder / "out").exists()


def test_a_missing_description_is_wrong_usage(folder: Path) -> None:
    result = edgetool("plan", "m.tflite", "--custom-operators", "none.toml", cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert "none.toml: cannot be read" in result.stderr


def test_a_report_never_replaces_the_description(folder: Path) -> None:
    arguments = ("-t", "cortex-m7", "--custom-operators", "ours/ops.toml", "-o", "ours/ops.toml", "--force")
    result = edgetool("estimate", "m.tflite", *arguments, cwd=folder)
    assert (result.returncode, "would overwrite the input" in result.stderr) == (2, True)
    assert (folder / "ours" / "ops.toml").read_text() == DESCRIPTION
