"""docs/check.md: its workflows are valid, and its options exist; tests/test_readme.py runs its commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "check.md"
TEXT = DOCS.read_text(encoding="utf-8")
BLOCK = re.compile(r"```(?P<kind>yaml)\n(?P<text>.*?)```\n", re.DOTALL)
SCHEMAS = ("github-workflows", "gitlab-ci")


def named(text: str) -> tuple[str, str]:
    """What the first line of a YAML block says it is, and the block."""
    return text.partition("\n")[0].removeprefix("# "), text


YAML = [named(block["text"]) for block in BLOCK.finditer(TEXT)]


@pytest.mark.parametrize(("kind", "text"), [item for item in YAML if item[0] in SCHEMAS])
def test_workflows_are_valid(kind: str, text: str, tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    (tmp_path / "file.yml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{kind}", "file.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hook_is_the_one_of_this_repository() -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML (the extra 'verify')")
    (text,) = (text for kind, text in YAML if kind == ".pre-commit-config.yaml")
    (shown,) = yaml.safe_load(text)["repos"][0]["hooks"]
    (ours,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert shown["id"] == ours["id"]
    assert {kind for kind, _ in YAML} == {*SCHEMAS, ".pre-commit-config.yaml"}


def test_options_are_those_of_the_command() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "edgetool", "check", "--help"], capture_output=True, text=True, check=True
    )
    told = set(re.findall(r"`?(--[a-z][a-z-]+)", TEXT)) - {
        "--evaluate",
        "--body-file",
        "--edit-last",
        "--create-if-none",
    }
    assert {option for option in told if option not in shown.stdout} == set()
    yaml = pytest.importorskip("yaml", reason="needs PyYAML (the extra 'verify')")
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert {name for name in action["inputs"] if f"`{name}`" not in TEXT} == set()
