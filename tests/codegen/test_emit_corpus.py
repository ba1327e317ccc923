"""Every file that `emit` writes for every real model: the same bytes anywhere, and no compiler has a word to say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import pytest

from edgetool.codegen import c_names
from tests.codegen.c_compilers import CPP_MATRIX, MATRIX, TFLM_API, compile_in
from tests.conftest import SHARED

MODELS = sorted((SHARED / "data" / "models").glob("*/*.tflite"))
ROOT = Path(__file__).resolve().parents[2]
INSTALLED = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout if shutil.which("locale") else ""
# Turkish has letter cases of its own; where it is not installed Python would take C in its place.
ELSEWHERE = "tr_TR.UTF-8" if "tr_TR.utf8" in INSTALLED else "C.UTF-8"
# Two runs as different as two machines: hashes, locale, time zone, directory.
RUNS = {
    "here": {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC"},
    "else where/deep": {"PYTHONHASHSEED": "2", "LC_ALL": ELSEWHERE, "LANGUAGE": "tr", "TZ": "Asia/Tokyo"},
}
LARGEST_ARRAY = 20_000  # bytes of a model whose array every compiler reads; the others differ in nothing but their rows
RUNNERS = 75  # more than so many of the models have operators that TFLM has

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not MODELS, reason="needs the folder ../shared with real models")]


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The directories of both runs, one run after the other on a core of its own."""
    base = tmp_path_factory.mktemp("corpus")

    def emit(run: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.codegen.emit_corpus", str(base / run), *map(str, MODELS)]
        environment = {**os.environ, **RUNS[run]}
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
        )

    with ThreadPoolExecutor() as pool:
        for done in pool.map(emit, RUNS):
            assert done.returncode == 0, done.stderr[-3000:]
    return [base / run for run in RUNS]


def files(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def test_two_runs_write_the_same_bytes(emitted: list[Path]) -> None:
    first, second = map(files, emitted)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert sum(name.endswith("_runner.cc") for name in first) > RUNNERS
    for name, data in first.items():
        if not name.endswith(".tflite"):
            assert b"\r" not in data, name
            assert str(emitted[0]).encode() not in data, name
            assert data.isascii(), name


def compile_all(jobs: Iterable[tuple[Path, tuple[str, str], str]]) -> None:
    """Compile in parallel, without code. A job: directory, compiler and standard, file."""

    def compile_one(job: tuple[Path, tuple[str, str], str]) -> str:
        directory, chosen, file = job
        result = compile_in(directory, *chosen, "-fsyntax-only", "-I.", "-isystem", str(TFLM_API), file)
        return "" if (result.returncode, result.stderr) == (0, "") else f"{chosen} {file}: {result.stderr[:2000]}"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        assert [reported for reported in pool.map(compile_one, jobs) if reported] == []


def unit(path: Path, lines: Iterable[str]) -> str:
    """Write a file of these lines; returns its path."""
    path.write_text("".join(lines))
    return str(path)


def with_an_arena(directory: Path, path: Path) -> str:
    """Lines that include a file; where only a lower bound of its arena is known, they say first what there is."""
    name = path.parent.name
    macro = c_names.model_macro(name)
    include = f'#include "{path.relative_to(directory).as_posix()}"\n'
    known = f"#define {macro}_ARENA_BYTES " in (path.parent / f"{name}.h").read_text(encoding="ascii")
    return include if known else f"#define {macro}_ARENA_BYTES 500000\n{include}"


def test_header_and_data_of_every_model_compile_as_c_and_as_cpp(emitted: list[Path], tmp_path: Path) -> None:
    directory, lines = emitted[0] / "models", []
    for name in sorted(path.name for path in directory.iterdir()):
        small = (emitted[0] / f"{name}.tflite").stat().st_size <= LARGEST_ARRAY
        lines.append(f'#include "{name}/{name}.h"\n#include "{name}/{name}_model.{"c" if small else "h"}"\n')
    assert len(lines) == len(MODELS)
    file = unit(tmp_path / "unit.c", lines)
    compile_all((directory, chosen, file) for chosen in MATRIX)


def test_the_shared_buffers_of_every_model_compile_as_c_and_as_cpp(emitted: list[Path], tmp_path: Path) -> None:
    directory = emitted[0] / "buffers"
    found = sorted(directory.glob("*/*_buffers.c"))
    assert len(found) == len(MODELS)
    file = unit(tmp_path / "unit.c", (f'#include "{path.relative_to(directory).as_posix()}"\n' for path in found))
    compile_all((directory, chosen, file) for chosen in MATRIX)


def test_the_runner_of_every_model_compiles(emitted: list[Path], tmp_path: Path) -> None:
    directory = emitted[0] / "models"
    found = sorted(directory.glob("*/*_runner.cc"))
    assert len(found) > RUNNERS
    file = unit(tmp_path / "unit.cc", (with_an_arena(directory, path) for path in found))
    compile_all((directory, chosen, file) for chosen in CPP_MATRIX)


def program_units(directory: Path, pattern: str, units: Path) -> list[str]:
    """A file for each program, which includes it; returns their paths."""
    found = sorted(directory.glob(pattern))
    assert len(found) > RUNNERS
    return [unit(units / f"{path.parent.name}_{path.name}", [with_an_arena(directory, path)]) for path in found]


def test_the_programs_of_every_model_compile(emitted: list[Path], tmp_path: Path) -> None:
    """Each with one compiler, in turn: they differ in little but names. The profile is for the core alone."""
    directory = emitted[0] / "models"
    for_any, for_the_core = cycle(CPP_MATRIX), cycle(chosen for chosen in CPP_MATRIX if chosen[0].startswith("arm"))
    jobs = [(directory, next(for_any), file) for file in program_units(directory, "*/main.cc", tmp_path)]
    jobs += [(directory, next(for_the_core), file) for file in program_units(directory, "*/*_profile.cc", tmp_path)]
    compile_all(jobs)


def test_models_in_one_arena_compile(emitted: list[Path], tmp_path: Path) -> None:
    directory = emitted[0] / "shared"
    found = sorted(path.name for path in directory.glob("*.cc") if not path.name.endswith("_profile.cc"))
    assert found == [
        "ad01_int8_runner.cc",
        "kws_ref_model_runner.cc",
        "main.cc",
        "shared_arena.cc",
        "vww_96_int8_runner.cc",
    ]
    file = unit(tmp_path / "unit.cc", (f'#include "{name}"\n' for name in found))
    compile_all((directory, chosen, file) for chosen in CPP_MATRIX)


@pytest.mark.parametrize("compiler", ["gcc", "arm-none-eabi-gcc"])
def test_the_data_of_every_model_assembles(emitted: list[Path], tmp_path: Path, compiler: str) -> None:
    found = sorted(path.relative_to(emitted[0]).as_posix() for path in emitted[0].glob("models/*/*_model.S"))
    assert len(found) == len(MODELS)
    file = unit(tmp_path / "unit.S", (f'#include "{path}"\n' for path in found))
    result = compile_in(emitted[0], compiler, "c99", "-I.", "-c", file, "-o", str(tmp_path / "data.o"))
    assert (result.returncode, result.stderr) == (0, "")
