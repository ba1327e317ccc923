"""The script that removes the reader's checks one by one: it finds every check, and those that no test covers."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.check_removals import Removal, removals
from benchmarks.checks import EQUIVALENT

import edgetool

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow

# One of each kind, by how its name starts, and what of the module is then there once less.
KINDS = {
    "flatbuffer._Reader.scalar without if at % width": "if at % width:",
    "flatbuffer._Reader.follow without offset == 0 in": " or offset == 0",
    "checks.check_indices without the left side of": "lowest <= index",
    "reader._graph without file.check_indices": "file.check_indices(record, len(tensors))",
    "flatbuffer._Reader.string without catching": "except UnicodeDecodeError:",
    "flatbuffer without MAX_DEPTH": "MAX_DEPTH = 64",
    "schema without Metadata.buffer@buffer": "buffer:u32@buffer\n",
    "checks without _INDEX_RULES[GATHER]": "'GATHER':",
}


@pytest.fixture(scope="module")
def all_removals() -> dict[str, Removal]:
    """Every check of the reader by its name."""
    return {removal.name: removal for removal in removals(ROOT / "toolchain" / "edgetool")}


def test_every_refusal_is_among_the_checks(all_removals: dict[str, Removal]) -> None:
    """Counted another way: each line with a refusal, but for those whose business it is to word one."""
    modules = {removal.path for removal in all_removals.values()}
    assert {"model/flatbuffer.py", "model/checks.py", "model/reader.py", "model/flexbuffer.py"} <= modules
    for path in modules:
        source = (ROOT / "toolchain" / "edgetool" / path).read_text()
        refusals = source.count("self.fail(") + source.count("invalid(") + source.count("unsupported(")
        assert sum(removal.path == path for removal in all_removals.values()) >= refusals - source.count("-> NoReturn")


@pytest.mark.parametrize(("start", "piece"), KINDS.items(), ids=KINDS)
def test_a_check_is_removed(start: str, piece: str, all_removals: dict[str, Removal]) -> None:
    names = [start] if start in all_removals else [name for name in all_removals if name.startswith(start)]
    (removal,) = [all_removals[name] for name in names]
    sound = (ROOT / "toolchain" / "edgetool" / removal.path).read_text()
    if removal.path != "model/schema.py":
        sound = ast.unparse(ast.parse(sound))
    source = removal.source()
    assert source.count(piece) == sound.count(piece) - 1
    compile(source, removal.path, "exec")


def test_a_removal_without_effect_is_listed(all_removals: dict[str, Removal]) -> None:
    assert all_removals.keys() >= EQUIVALENT.keys()


def test_checks_with_and_without_a_failing_test() -> None:
    only = ["checks.check_indices without", "flatbuffer._Reader.scalar without"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.checks", "--only", *only, "--tests", "tests/model/test_checks.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(Path(edgetool.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    survivor, total = done.stdout.splitlines()
    assert survivor.startswith("flatbuffer._Reader.scalar without if at % width: NO TEST FAILS")
    assert total == "4 checks, 3 held by a test, 0 without effect"
