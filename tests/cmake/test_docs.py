"""docs/firmware.md: its commands run, write the files that its table has, and its CMake function takes what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from tests.cli.program import edgetool
from tests.cmake.projects import CMAKE_DIR
from tests.model.builders import conv_model_bytes, dense_model

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "firmware.md").read_text(encoding="utf-8")
EMITS = re.findall(r"^    (edgetool emit .*)$", DOCS, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("command", EMITS)
def test_a_command_runs_and_the_table_has_its_files(command: str, tmp_path: Path) -> None:
    models = (conv_model_bytes(), write_model(dense_model()))
    for name, blob in zip(re.findall(r"\S+\.tflite", command), models, strict=False):
        (tmp_path / name).write_bytes(blob)
    before = set(tmp_path.iterdir())
    done = edgetool(*shlex.split(command)[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = set(tmp_path.iterdir()) - before
    reported = re.findall(r"`([A-Za-z_]+\.[A-Za-z]+)`", DOCS)
    for path in folder.iterdir():
        generic = re.sub(r"^(model|words|person)(?=[_.])", "NAME", path.name)
        assert generic in reported, path.name


def test_the_function_accepts_the_documented_arguments() -> None:
    config = (CMAKE_DIR / "edgetoolConfig.cmake").read_text(encoding="utf-8")
    synopsis = re.compile(r"edgetool_add_model\(<target> [^)]*\)")
    (in_docs,), (in_config,) = synopsis.findall(DOCS), synopsis.findall(config)
    assert in_docs.split() == in_config.replace("#", "").split()
    (values,) = re.findall(r"set\(values (.*)\)", config)
    (flags,) = re.findall(r'PARSE_ARGV 1 arg "(.*?)"', config)
    words = re.findall(r"\b[A-Z_]{3,}\b", in_docs)
    assert sorted(words) == sorted([*values.split(), *flags.split(";"), "OPTIONS"])
