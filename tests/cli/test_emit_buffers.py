"""edgetool emit --arena-style buffers: whole processes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import edgetool
from tests.codegen.c_compilers import compile_in


@pytest.mark.parametrize("arguments", [(), ("--sharing", "greedy"), ("-t", "cortex-m7")])
def test_the_files_compile_and_link(tflite: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = edgetool("emit", tflite, "--arena-style", "buffers", "-o", tmp_path, "--name", "net", *arguments)
    assert result.returncode == 0, result.stderr
    assert "shared buffers take" in " ".join(result.stdout.split())
    names = {"net.h", "net_buffers.c", "net_model.c", "net_model.h"}
    assert {path.name for path in tmp_path.iterdir()} == names
    (tmp_path / "main.c").write_text(
        '#include "net.h"\n#include "net_model.h"\n'
        "int main(void) { return NET_INPUT_0_DATA[0] + net_model[0] - net_model[0] + (net_tensors[0].data == 0); }\n"
    )
    done = compile_in(tmp_path, "gcc", "c99", "main.c", "net_buffers.c", "net_model.c", "-o", "program")
    assert (done.returncode, done.stderr) == (0, "")
    assert subprocess.run([tmp_path / "program"], check=False, timeout=60).returncode == 0


def test_the_document_tells_of_the_buffers(tflite: Path, tmp_path: Path) -> None:
    result = edgetool("emit", tflite, "--arena-style", "buffers", "-o", tmp_path / "out", "--json")
    document = json.loads(result.stdout)
    (note,) = [finding for finding in document["findings"] if finding["rule"] == "shared-buffers"]
    assert "which is optimal" in note["message"]
    assert document["provenance"]["options"]["arena_style"] == "buffers"
    assert document["provenance"]["options"]["sharing"] == "dynamic-programming"
    assert "no-plan" not in {finding["rule"] for finding in document["findings"]}


def test_sharing_needs_buffers(tflite: Path, tmp_path: Path) -> None:
    result = edgetool("emit", tflite, "--sharing", "greedy", "-o", tmp_path / "out")
    assert (result.returncode, "--arena-style buffers" in result.stderr) == (2, True)
    assert not (tmp_path / "out").exists()
