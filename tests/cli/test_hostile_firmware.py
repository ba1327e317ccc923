"""Firmware where one name meets another: models in a shared arena, the best of a sweep, headers of the system."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.model.types import Signature
from edgetool.model.writer import write_model
from edgetool.sweep.spec import TargetSpec
from tests import hostile_names
from tests.cli import sweeps
from tests.cli.test_hostile_names import BOARD, CPP, check_terminal, edgetool, shown, texts
from tests.codegen.c_compilers import TFLM_API, compile_in
from tests.hostile_names import NAMES
from tests.model.builders import Builder, unary_model


def test_a_model_called_as_a_header_of_the_system_hides_none(tmp_path: Path) -> None:
    for name in ("string", "stdint", "features", "Limits", "NUL"):
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(write_model(unary_model("RELU")))
        shown(edgetool("emit", path, *BOARD, "-o", tmp_path / "out", "--force"))
        shown(edgetool("emit", path, *BOARD, "-o", tmp_path / "refused", "--name", name), 2)
    assert not (tmp_path / "refused").exists()
    files = [path.name for path in (tmp_path / "out").iterdir()]
    sources = sorted(name for name in files if name.endswith("_runner.cc"))
    assert len(sources) == 5
    done = compile_in(tmp_path / "out", "g++", "c++17", f"-I{TFLM_API}", "-I.", "-fsyntax-only", *sources)
    assert (done.returncode, done.stderr) == (0, "")


def compiles_together(out: Path) -> None:
    """All headers of the directory in one unit, as C where they are that, and all sources of C++."""
    files = sorted(path.name for path in out.iterdir())
    for name in files:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*\.(h|c|cc|S|tflite|json)|CMakeLists.txt", name), name
        assert name.endswith(".tflite") or (out / name).read_bytes().isascii()
    assert len({name.lower() for name in files}) == len(files)
    for compiler, standard in (("gcc", "c99"), ("arm-none-eabi-g++", "c++20")):
        cpp = compiler.endswith("++")
        headers = [name for name in files if name.endswith(".h") and (cpp or not CPP.search(name))]
        (out / "unit.c").write_text("".join(f'#include "{name}"\n' for name in headers) + "typedef int unit;\n")
        sources = [name for name in files if cpp and name.endswith(".cc")]
        done = compile_in(out, compiler, standard, f"-I{TFLM_API}", "-I.", "-fsyntax-only", "unit.c", *sources)
        assert (done.returncode, done.stderr) == (0, "")
    (out / "unit.c").unlink()


def odd_model(name: str, number: int) -> bytes:
    """A model all of whose tensors have the name, with a state of that name, as its signature and description have."""
    build = Builder(seed=number)
    x, y = (build.activation([1, 4], name=name) for _ in "xy")
    build.operator("RELU", [x], [y])
    model = build.model([x], [y])
    state = replace(model.main.tensors[x], name=name, is_variable=True, index=2)
    graph = replace(model.main, tensors=(*model.main.tensors, state), name=name)
    signature = Signature(name, 0, ((name or "x", x),), ((name or "x", y),))
    return write_model(replace(model, subgraphs=(graph,), signatures=(signature,), description=f"{name}{number}"))


@pytest.mark.slow
@pytest.mark.parametrize("form", [("--project", "cmake"), ("--project", "plain", "--data", "incbin", "--profile")])
def test_models_of_any_names_share_an_arena(tmp_path: Path, form: tuple[str]) -> None:
    models = tmp_path / "models"
    models.mkdir()
    paths = []
    # What the C names of one model are made of, as the name of another; and names that differ in hardly anything.
    near = ("m", "m_input_0", "m_error", "m_tensors", "odd\u200b", "odd\u200c", "CMAKE")
    for number, stem in enumerate((*near, *sorted(hostile_names.file_names())[::5])):
        paths.append(models / f"{stem}.tflite")
        name = os.fsencode(stem).decode("utf-8", "replace")
        paths[-1].write_bytes(odd_model(name, number))
    words = ("emit", "--shared-arena", *BOARD, "-o", tmp_path / "out", *form)
    out = shown(edgetool(*words, "--", *paths))
    assert "arena" in out.lower()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models", "out"]
    assert len(list(models.iterdir())) == len(paths)
    check_terminal(edgetool(*words, "--force", "--json", "--", *paths).out)
    compiles_together(tmp_path / "out")
    if "cmake" in form and shutil.which("cmake") is not None:
        command = ["cmake", "-S", tmp_path / "out", "-B", tmp_path / "build"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    twins = [tmp_path / f"{name}.tflite" for name in ("Twin", "tWIN")]
    for number, path in enumerate(twins):
        path.write_bytes(odd_model("twin", number))
    refused = edgetool(*words, "--force", "--", *twins)
    assert refused.code == 2
    assert "would have the name" in refused.err


@pytest.mark.slow
def test_the_best_of_a_sweep_of_any_names_is_written(tmp_path: Path) -> None:
    label = BOARD[1]
    for number, name in enumerate(NAMES[::6]):
        rows = [sweeps.row(1, parameters=(("style", name),), notes=(name,), target=label)]
        made = sweeps.record(
            name=name or "x",
            model=name or "x",
            parameter_names=("style",),
            targets=(TargetSpec(label, label),),
            options={"builder": name} if number % 2 else {"calibration": name},
        )
        store = sweeps.stored(tmp_path / f"{number}.sqlite", rows, made, tflite=odd_model(name, number))
        words = ("sweep", "best", store, "--project", ("plain", "header")[number % 2], "--force")
        shown(edgetool(*words, "-o", tmp_path / "out", "--data", ("array", "incbin")[number % 2]))
        reported = edgetool(*words, "-o", tmp_path / "again", "--json")
        check_terminal(reported.out)
        assert name in set(texts(json.loads(reported.out)))
    compiles_together(tmp_path / "out")
