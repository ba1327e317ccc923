"""README and docs show real output: every console block is run, each distinct command once, and compared.

To renew the blocks after an intended change: EDGETOOL_UPDATE_README=1 pytest tests/test_readme.py
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgetool.cli import main
from edgetool.execute.cores import MACHINES
from tests.cli.program import edgetool

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
# The commands of this page depend on each other: they run in order, in one directory, with this file in it.
SESSION = DOCS / "check.md"
SESSION_FILE = ROOT / "examples" / "keyword_spotting" / "keyword_spotting.tflite"
PAGES = (README, ROOT / "examples" / "README.md", *(page for page in sorted(DOCS.glob("*.md")) if page != SESSION))
CONSOLE = re.compile(r"^```console\n(?P<text>.*?)^```\n", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```console\n\$ (?P<command>edgetool [^\n]+)\n(?P<output>.*?)^```\n", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"^```toml\n# (?P<name>\S+\.toml)\n(?P<text>.*?)^```\n", re.DOTALL | re.MULTILINE)
SESSION_BLOCK = re.compile(r"^```(?P<kind>console|toml)\n(?P<text>.*?)^```\n", re.DOTALL | re.MULTILINE)
UPDATE = bool(os.environ.get("EDGETOOL_UPDATE_README"))
MAX_README_LINES = 250


@dataclass(frozen=True)
class Run:
    """A command, and the files that its page defines for it."""

    command: str
    files: tuple[tuple[str, str], ...]


def runs_of(page: Path) -> list[Run]:
    """Return the commands of a page in their order."""
    text = page.read_text(encoding="utf-8")
    files = [(file["name"], file["text"]) for file in FILE.finditer(text)]
    return [
        Run(block["command"], tuple(file for file in files if file[0] in shlex.split(block["command"])))
        for block in BLOCK.finditer(text)
    ]


RUNS: dict[Run, list[Path]] = {}
for _page in PAGES:
    for _run in runs_of(_page):
        RUNS.setdefault(_run, []).append(_page)


def output_of(run: Run, folder: Path) -> str:
    """Return what the command prints in a directory with the examples and the files of its page."""
    for name in ("examples", "docs"):
        (folder / name).symlink_to(ROOT / name)
    for name, text in run.files:
        (folder / name).write_text(text, encoding="utf-8")
    _, *arguments = shlex.split(run.command)
    result = edgetool(*arguments, cwd=folder)
    assert result.returncode == 0 or (result.returncode == 1 and " check " in run.command), result.stderr
    return result.stdout


def _marks(run: Run) -> tuple[pytest.MarkDecorator, ...]:
    """The conversion takes TensorFlow, and native code is compiled for an emulated core: both take long."""
    is_slow = " convert " in run.command or (" verify " in run.command and "native" in run.command)
    return (pytest.mark.slow,) if is_slow else ()


@pytest.mark.parametrize("run", [pytest.param(run, id=run.command, marks=_marks(run)) for run in RUNS])
def test_console_blocks_show_what_the_command_prints(run: Run, tmp_path: Path) -> None:
    if " convert " in run.command and importlib.util.find_spec("tensorflow") is None:
        pytest.skip("needs the extra 'convert'")
    if " verify " in run.command and importlib.util.find_spec("tflite_micro") is None:
        pytest.skip("needs the extra 'verify'")
    if " verify " in run.command and "native" in run.command and MACHINES["cortex-m0plus"].missing_tools:
        pytest.skip("verify shows an emulated core: needs a cross compiler and QEMU")
    printed = output_of(run, tmp_path)
    for page in dict.fromkeys(RUNS[run]):
        text = page.read_text(encoding="utf-8")
        block = next(block for block in BLOCK.finditer(text) if block["command"] == run.command)
        if UPDATE:
            page.write_text(text[: block.start("output")] + printed + text[block.end("output") :], encoding="utf-8")
        elif " convert " in run.command:
            # Another version of TensorFlow may place a tensor or round a weight differently: the words must be equal.
            assert re.sub(r"[\d.,]+", "#", printed).split() == re.sub(r"[\d.,]+", "#", block["output"]).split(), page
        else:
            assert printed == block["output"], page


def session_output(text: str, folder: Path, code: int) -> tuple[str, int]:
    """Return a console block with the output of its commands, and the last exit code; `code` is the one before."""
    shown = []
    for command in re.findall(r"^\$ (.+)$", text, re.MULTILINE):
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


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.slow
def test_the_session_of_the_page_on_check_shows_what_the_commands_print(tmp_path: Path) -> None:
    shutil.copy(SESSION_FILE, tmp_path)
    page = SESSION.read_text(encoding="utf-8")
    parts, code, last = [], 0, 0
    for block in SESSION_BLOCK.finditer(page):
        text = block["text"]
        if block["kind"] == "toml":
            name, _, settings = text.removeprefix("# ").partition("\n")
            (tmp_path / name).write_text(settings, encoding="utf-8")
        else:
            text, code = session_output(text, tmp_path, code)
        parts += [page[last : block.start("text")], text]
        last = block.end("text")
    renewed = "".join([*parts, page[last:]])
    if UPDATE:
        SESSION.write_text(renewed, encoding="utf-8")
    else:
        assert renewed == page


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_no_console_block_escapes_the_comparison(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    compared = [block.start() for block in BLOCK.finditer(text)]
    assert [block.start() for block in CONSOLE.finditer(text)] == compared
    assert all(block["output"].count("\n$ ") == 0 for block in BLOCK.finditer(text))


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MAX_README_LINES


def test_the_readme_has_a_row_with_a_page_for_every_command() -> None:
    text = README.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \[`(\w+)`\]\(([^)#]+)[^)]*\) \|", text, re.MULTILINE))
    assert set(main.COMMANDS) <= rows.keys()
    for name, target in rows.items():
        assert f"edgetool {name}" in (ROOT / target).read_text(encoding="utf-8"), name


def test_python_blocks_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "getting-started.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for block in blocks:
        result = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert result.stdout


@pytest.mark.slow
def test_the_job_of_the_page_on_check_fails_when_the_model_outgrows_its_board(tmp_path: Path) -> None:
    text = SESSION.read_text(encoding="utf-8")
    section = text[text.index("## Set up a check") :]
    block = re.search(r"```sh\npip install (?P<wheel>[^\n]+)\n(?P<rest>.*?)```", section, re.DOTALL)
    assert block is not None
    lines = f'set -eu\nedgetool() {{ {shlex.quote(sys.executable)} -m edgetool "$@"; }}\n{block["rest"]}'
    model = tmp_path / "model.tflite"
    model.write_bytes(SESSION_FILE.read_bytes())
    first = subprocess.run(["bash", "-c", lines], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert first.returncode == 0, first.stderr
    model.write_bytes((ROOT / "examples/person_detection/person_detection.tflite").read_bytes())
    again = [sys.executable, "-m", "edgetool", "check"]
    job = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert job.returncode == 1, job.stderr
    assert "FAIL  growth" in job.stdout
