"""--runtime-tree on the command line: which runtime the figures are for, and what is printed about the folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from edgetool.pipeline import runtime_tree
from edgetool.target.fingerprints import Fingerprints, Library
from tests.in_process import command_line
from tests.model.builders import unary_model
from tests.target.trees import KNOWN, checkout

VERSIONS = ("tflm-2023-06", "tflm-2026-08", "tflm-2027-06")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and a tree, which is tflm-2026-08."""

    def load(library: Library) -> Fingerprints:
        return replace(KNOWN, versions=VERSIONS, library=replace(KNOWN.library, name=library.name))

    monkeypatch.setattr(runtime_tree, "load_fingerprints", load)
    monkeypatch.setattr(runtime_tree, "KERNEL_LIBRARIES", ())
    (tmp_path / "m.tflite").write_bytes(write_model(unary_model("RELU")))
    for path, content in checkout("v-2024-06").items():
        (tmp_path / "tflm" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tflm" / path).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(
    "command", ["plan m.tflite", "check m.tflite", "estimate m.tflite", "compare m.tflite m.tflite"]
)
def test_every_command_names_the_runtime(folder: Path, command: str) -> None:
    done = command_line(*command.split(), "-t", "cortex-m7", "--runtime-tree", "tflm", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert '"runtime": "tflm-2026-08"' in done.stdout


def test_an_exact_tree_is_noted(folder: Path) -> None:
    done = command_line(
        "plan", "m.tflite", "-t", "cortex-m7", "--kernels", "reference", "--runtime-tree", "tflm", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert "note: tree:tflm: the files of TFLM are those of tflm-2026-08" in done.stdout


def test_a_changed_tree_is_reported(folder: Path) -> None:
    (folder / "tflm/lib/micro/allocator.cc").write_text("int Allocate();\n")
    arguments = ("plan", "m.tflite", "-t", "cortex-m7", "--runtime-tree", "tflm")
    text = " ".join(command_line(*arguments, cwd=folder).stdout.split())
    assert (
        "warning: tree:tflm: the nearest runtime is tflm-2026-08, whose arena, outputs and time may be others: " in text
    )
    assert "lib/micro/allocator.cc is as in no known version" in text
    document = json.loads(command_line(*arguments, "--json", cwd=folder).stdout)
    assert document["runtime"] == {
        "name": "tree:tflm",
        "nearest": "tflm-2026-08",
        "differs": ["lib/micro/allocator.cc is as in no known version"],
    }


def test_a_folder_without_tflm_is_refused(folder: Path) -> None:
    (folder / "empty").mkdir()
    done = command_line("plan", "m.tflite", "-t", "cortex-m7", "--runtime-tree", "empty", cwd=folder)
    assert done.returncode == 2
    assert "empty: contains no TFLM: of the files in lib/micro, none is there" in done.stderr


def test_a_runtime_and_a_tree_exclude_each_other(folder: Path) -> None:
    done = command_line(
        "plan", "m.tflite", "-t", "cortex-m7", "--runtime", "tflm-2026-08", "--runtime-tree", "tflm", cwd=folder
    )
    assert done.returncode == 2
    assert "--runtime and --runtime-tree are mutually exclusive" in done.stderr
