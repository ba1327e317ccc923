"""docs/check.md shows what happens: its commands are run in order, its workflows are valid.

EDGETOOL_UPDATE_GOLDEN=1 writes the outputs anew.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "check.md"
TEXT = DOCS.read_text(encoding="utf-8")
BLOCK = re.compile(r"```(?P<kind>console|toml|yaml)\n(?P<text>.*?)```\n", re.DOTALL)
COMMAND = re.compile(r"^\$ (.+)$", re.MULTILINE)
SCHEMAS = ("github-workflows", "gitlab-ci")

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def printed(text: str, folder: Path, code: int) -> tuple[str, int]:
    """A console block with what its commands print, and the last exit code; `code` is that of the command before."""
    shown = []
    for command in COMMAND.findall(text):
        done = subprocess.run(
            ["bash", "-c", f"edgetool() {{ '{sys.executable}' -m edgetool \"$@\"; }}; (exit {code}); {command}"],
            cwd=folder,
            env={key: value for key, value in os.environ.items() if key not in ("COLUMNS", "GITHUB_WORKSPACE")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        code = done.returncode
        shown.append(f"$ {command}\n{done.stdout}")
    return "".join(shown), code


def test_commands_print_what_is_shown(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "keyword_spotting" / "keyword_spotting.tflite", tmp_path)
    renewed, code, last = [], 0, 0
    for block in BLOCK.finditer(TEXT):
        text = block["text"]
        if block["kind"] == "toml":
            name, _, settings = text.removeprefix("# ").partition("\n")
            (tmp_path / name).write_text(settings, encoding="utf-8")
        elif block["kind"] == "console":
            text, code = printed(text, tmp_path, code)
        renewed += [TEXT[last : block.start("text")], text]
        last = block.end("text")
    whole = "".join([*renewed, TEXT[last:]])
    if os.environ.get("EDGETOOL_UPDATE_GOLDEN"):
        DOCS.write_text(whole, encoding="utf-8")
    else:
        assert whole == TEXT


def named(text: str) -> tuple[str, str]:
    """What the first line of a YAML block says it is, and the block."""
    return text.partition("\n")[0].removeprefix("# "), text


YAML = [named(block["text"]) for block in BLOCK.finditer(TEXT) if block["kind"] == "yaml"]


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
