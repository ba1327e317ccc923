"""Which firmware files emit and convert write, and what they refuse.

edgetool emit --arena-style buffers: whole processes.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from tests.cli.program import edgetool
from tests.codegen.c_compilers import compile_in
from tests.model.builders import unary_model

C_FILES = {"my_model.h", "my_model_model.h", "my_model_model.c"}
PROGRAM = {"my_model_ops.h", "my_model_runner.h", "my_model_runner.cc", "main.cc"}
INCBIN = {"my_model.h", "my_model_model.h", "my_model_model.S", "my_model.tflite"}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("other") / "other.tflite"
    path.write_bytes(write_model(unary_model("RELU")))
    return path


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with an operator that TFLM has not."""
    path = tmp_path_factory.mktemp("foreign") / "foreign.tflite"
    path.write_bytes(write_model(unary_model("SIGN")))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "files"),
    [
        ((), C_FILES | PROGRAM),
        (("--project", "header"), C_FILES),
        (("--project", "plain", "--profile"), C_FILES | PROGRAM | {"my_model_profile.cc"}),
        (("--project", "cmake"), C_FILES | PROGRAM | {"CMakeLists.txt"}),
        (("--data", "incbin"), INCBIN | PROGRAM),
        (("--data", "incbin", "--project", "header"), INCBIN),
        (("--arena-style", "buffers"), C_FILES | {"my_model_buffers.c"}),
        (("--place", "auto", "--sram", "1MiB"), C_FILES | PROGRAM | {"my_model_memories.ld"}),
    ],
)
def test_each_project_has_its_files(tflite: Path, tmp_path: Path, options: tuple[str, ...], files: set[str]) -> None:
    result = edgetool("emit", tflite, "-t", "cortex-m7", "-o", tmp_path / "out", *options, "-q")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert {path.name for path in (tmp_path / "out").iterdir()} == files


def test_an_unknown_arena_size_must_be_defined(tflite: Path, tmp_path: Path) -> None:
    reported = "compile my_model_runner.cc with -DMY_MODEL_ARENA_BYTES=..."
    assert reported in " ".join(edgetool("emit", tflite, "-o", tmp_path / "a").stdout.split())
    assert reported not in " ".join(edgetool("emit", tflite, "-o", tmp_path / "b", "-t", "cortex-m7").stdout.split())
    header = edgetool("emit", tflite, "-o", tmp_path / "c", "--project", "header").stdout
    assert reported not in " ".join(header.split())


def test_the_assembler_includes_the_file_itself(tflite: Path, tmp_path: Path) -> None:
    edgetool("emit", tflite, "-o", tmp_path, "--data", "incbin", "-q")
    assert (tmp_path / "my_model.tflite").read_bytes() == tflite.read_bytes()


def test_the_model_may_be_in_the_output_directory(tflite: Path, tmp_path: Path) -> None:
    here = tmp_path / "my_model.tflite"
    here.write_bytes(tflite.read_bytes())
    before = here.stat().st_mtime_ns
    result = edgetool("emit", here, "-o", tmp_path, "--data", "incbin", "-q")
    assert (result.returncode, result.stderr) == (0, "")
    assert here.stat().st_mtime_ns == before
    assert (tmp_path / "my_model_model.S").is_file()


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (("--project", "header", "--profile"), "use --project plain"),
        (("--arena-style", "buffers", "--project", "cmake"), "use --project header"),
        (("--shared-arena",), "at least two models, not 1"),
    ],
)
def test_conflicting_options_are_rejected(
    tflite: Path, tmp_path: Path, options: tuple[str, ...], reported: str
) -> None:
    result = edgetool("emit", tflite, "-o", tmp_path / "out", *options)
    assert result.returncode == 2
    assert reported in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_program_for_an_operator_that_tflm_lacks_is_refused(foreign: Path, tmp_path: Path) -> None:
    result = edgetool("emit", foreign, "-o", tmp_path / "out")
    assert result.returncode == 3
    assert "SIGN" in result.stderr
    assert "--project header" in result.stderr
    assert not (tmp_path / "out").exists()
    result = edgetool("emit", foreign, "-o", tmp_path / "out", "--project", "header", "-q")
    assert (result.returncode, result.stderr) == (0, "")


def test_convert_omits_such_a_program_and_reports_it(foreign: Path, tmp_path: Path) -> None:
    result = edgetool("convert", foreign, "-t", "cortex-m7", "-o", tmp_path / "out")
    assert result.returncode == 0
    assert "no TFLM program was written" in " ".join(result.stdout.split())
    assert not (tmp_path / "out" / "main.cc").exists()
    report = json.loads((tmp_path / "out" / "foreign.json").read_text())
    assert "program-not-written" in {finding["rule"] for finding in report["findings"]}


def test_models_that_share_an_arena(tflite: Path, other: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = edgetool("emit", tflite, other, "--shared-arena", "-t", "nucleo-l4r5zi", "-o", out)
    assert (result.returncode, result.stderr) == (0, "")
    assert "2 models in one arena, shared" in result.stdout
    assert "initialise my_model, then other" in result.stdout
    names = {path.name for path in out.iterdir()}
    assert {"shared_arena.h", "shared_arena.cc", "main.cc", "my_model_runner.cc", "other_runner.cc"} <= names
    result = edgetool("emit", tflite, other, "--shared-arena", "-t", "nucleo-l4r5zi", "-o", out, "--force", "--json")
    document = json.loads(result.stdout)
    assert [report["model"]["name"] for report in document["reports"]] == ["my model.tflite", "other.tflite"]
    assert document["shared_arena"]["bytes"] < document["shared_arena"]["separate_bytes"]


def test_several_models_need_to_share(tflite: Path, other: Path, tmp_path: Path) -> None:
    result = edgetool("emit", tflite, other, "-o", tmp_path / "out")
    assert result.returncode == 2
    assert "--shared-arena" in result.stderr
    result = edgetool("emit", tflite, tflite, "--shared-arena", "-o", tmp_path / "out")
    assert result.returncode == 2


@pytest.mark.parametrize(
    ("settings", "content", "read"),
    [
        ("edgetool.toml", "", True),
        ("pyproject.toml", "[tool.edgetool]\n", True),
        ("pyproject.toml", "[tool.ruff]\n", False),
    ],
)
def test_the_depfile_lists_settings_and_profiles(
    tflite: Path, tmp_path: Path, settings: str, content: str, read: bool
) -> None:
    (tmp_path / settings).write_text(content)
    (tmp_path / "board.toml").write_text('extends = "nucleo-f446re"\nname = "board"\nboard = "Ours"\n')
    command = ("emit", tflite, "-t", "board.toml", "-o", "out", "--depfile", "out.d", "-q")
    assert edgetool(*command, cwd=tmp_path).returncode == 0
    rule = (tmp_path / "out.d").read_text()
    assert f"{tmp_path}/board.toml" in rule
    assert (f"{tmp_path}/{settings}" in rule) is read


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


def test_the_document_lists_the_shared_buffers(tflite: Path, tmp_path: Path) -> None:
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
