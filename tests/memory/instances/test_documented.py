"""The examples of docs/layout-format.md are instances, and its program runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgetool.memory.instances.graph import OPERATOR, TENSOR, TOP
from edgetool.memory.instances.read import OPTIONAL, REQUIRED, check_pins, read_instance

TEXT = (Path(__file__).parents[3] / "docs" / "layout-format.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(csv|json|python)\n(.*?)```", TEXT, re.DOTALL)


def test_every_kind_of_example_is_there() -> None:
    assert {kind for kind, _ in BLOCKS} == {"csv", "json", "python"}


@pytest.mark.parametrize("block", [text for kind, text in BLOCKS if kind != "python"])
def test_the_examples_are_instances(block: str) -> None:
    instance = read_instance(block)
    check_pins(instance)
    assert instance.problem.buffers


@pytest.mark.parametrize("block", [text for kind, text in BLOCKS if kind == "python"])
def test_the_program_runs(block: str) -> None:
    result = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "30 True" in result.stdout


@pytest.mark.parametrize("key", [*REQUIRED, *OPTIONAL, *TOP, *TENSOR, *OPERATOR])
def test_every_column_and_key_is_explained(key: str) -> None:
    assert re.search(rf'`"?{key}"?`|"{key}"', TEXT)
