"""The README and the page on sweeps show real output: every console block is run and compared.

To renew the blocks after a wanted change: EDGETOOL_UPDATE_README=1 pytest tests/test_readme.py
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from edgetool.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = (README, ROOT / "docs" / "sweep.md")
BLOCK = re.compile(r"```console\n\$ (?P<command>edgetool [^\n]+)\n(?P<output>.*?)```\n", re.DOTALL)
FILE = re.compile(r"```toml\n# (?P<name>\S+\.toml)\n(?P<text>.*?)```\n", re.DOTALL)
UPDATE = bool(os.environ.get("EDGETOOL_UPDATE_README"))
KNOWN = list(main.COMMANDS)
COMMANDS = [(page, found["command"]) for page in PAGES for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def output_of(command: str, folder: Path) -> str:
    """What the command prints in a directory with the examples and the README's own files."""
    for name in ("examples", "docs"):
        (folder / name).symlink_to(ROOT / name)
    for file in FILE.finditer(README.read_text(encoding="utf-8")):
        (folder / file["name"]).write_text(file["text"], encoding="utf-8")
    _, *arguments = shlex.split(command)
    result = subprocess.run(
        [sys.executable, "-m", "edgetool", *arguments], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0 or (result.returncode == 1 and " check " in command), result.stderr
    return result.stdout


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[command for _, command in COMMANDS])
def test_console_block_is_what_the_command_prints(page: Path, command: str, tmp_path: Path) -> None:
    if " convert " in command and importlib.util.find_spec("tensorflow") is None:
        pytest.skip("needs the extra 'convert'")
    if " verify " in command and importlib.util.find_spec("tflite_micro") is None:
        pytest.skip("needs the extra 'verify'")
    text = page.read_text(encoding="utf-8")
    found = next(block for block in BLOCK.finditer(text) if block["command"] == command)
    printed = output_of(command, tmp_path)
    if UPDATE:
        page.write_text(text[: found.start("output")] + printed + text[found.end("output") :], encoding="utf-8")
    elif " convert " in command:
        # Another version of TensorFlow may place a tensor or round a weight otherwise: the words must be the same.
        assert re.sub(r"[\d.,]+", "#", printed).split() == re.sub(r"[\d.,]+", "#", found["output"]).split()
    else:
        assert printed == found["output"]


def test_the_readme_names_every_command_and_option_it_uses() -> None:
    text = README.read_text(encoding="utf-8")
    for name in KNOWN:
        assert f"`{name}`" in text or f"edgetool {name}" in text
    helps = "".join(
        subprocess.run([sys.executable, "-m", "edgetool", *name, "--help"], capture_output=True, text=True).stdout
        for name in (*([name] for name in KNOWN), ["targets", "list"], ["sweep", "run"], ["sweep", "pareto"], [])
    )
    for option in set(re.findall(r"`?(--[a-z][a-z-]+)", text)):
        assert option in helps, option


def test_python_blocks_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for block in blocks:
        result = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert result.stdout


def test_the_job_of_the_readme_fails_when_the_model_outgrows_its_board(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    section = text[text.index("## In CI") :]
    found = re.search(r"```sh\npip install (?P<wheel>[^\n]+)\n(?P<rest>.*?)```", section, re.DOTALL)
    assert found is not None
    lines = f'set -eu\nedgetool() {{ {shlex.quote(sys.executable)} -m edgetool "$@"; }}\n{found["rest"]}'
    model = tmp_path / "model.tflite"
    model.write_bytes((ROOT / "examples/keyword_spotting/keyword_spotting.tflite").read_bytes())
    first = subprocess.run(["bash", "-c", lines], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert first.returncode == 0, first.stderr
    model.write_bytes((ROOT / "examples/person_detection/person_detection.tflite").read_bytes())
    again = [sys.executable, "-m", "edgetool", "check"]
    job = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert job.returncode == 1, job.stderr
    assert "FAIL  growth" in job.stdout
