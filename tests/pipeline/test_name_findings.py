"""A model's name that cannot be that of files and in C is reported, with the one that is used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from edgetool.pipeline.firmware import name_findings, output_name
from tests.graphs import chain

LONG = "a_keyword_spotting_model_of_the_third_generation"


@pytest.mark.parametrize("stem", ["kws", "my-model v2", "kws.int8", "A" * 31])
def test_nothing_is_said_of_a_name_that_is_kept(stem: str) -> None:
    assert name_findings(Path(f"{stem}.tflite"), None) == ()


@pytest.mark.parametrize(
    ("stem", "what"),
    [
        (LONG, "is shortened to"),
        ("x" * 200, "is shortened to"),
        ("8bit", "is not a valid C name and becomes"),
        ("modèle", "is not a valid C name and becomes"),
        ("register", "is not a valid C name and becomes"),
        ("stdint", "is not a valid C name and becomes"),
    ],
)
def test_the_name_that_is_used_is_reported(stem: str, what: str) -> None:
    path = Path(f"{stem}.tflite")
    (finding,) = name_findings(path, None)
    assert (finding.rule, finding.level) == ("name-changed", "note")
    assert f"{what} {output_name(path, None)!r} in files and in C; choose one with --name" in finding.message
    assert len(finding.message) < 200
    assert name_findings(path, "kws") == ()


def edgetool(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "edgetool", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.parametrize("command", ["convert", "emit"])
def test_the_commands_report_it(command: str, tmp_path: Path) -> None:
    path = tmp_path / f"{LONG}.tflite"
    path.write_bytes(write_model(chain([32, 32])))
    used = output_name(path, None)
    text = " ".join(edgetool(command, path, "--target", "cortex-m7", "-o", tmp_path / "out").split())
    assert f"'{LONG}' is shortened to '{used}' in files and in C; choose one with --name" in text
    assert (tmp_path / "out" / f"{used}.h").is_file()
    named = edgetool(command, path, "--target", "cortex-m7", "-o", tmp_path / "own", "--name", "kws", "--json")
    assert "name-changed" not in {finding["rule"] for finding in json.loads(named)["findings"]}


def test_models_that_share_an_arena_are_renamed_by_their_files(tmp_path: Path) -> None:
    for stem, sizes in (("small", [32, 32]), (LONG, [16, 16])):
        (tmp_path / f"{stem}.tflite").write_bytes(write_model(chain(sizes)))
    files = [tmp_path / "small.tflite", tmp_path / f"{LONG}.tflite"]
    text = edgetool("emit", *files, "--shared-arena", "--target", "cortex-m7", "-o", tmp_path / "out")
    assert "rename the file to get another" in " ".join(text.split())
