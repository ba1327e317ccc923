"""CMakeLists.txt of an emitted project: configured and built with the API of tflm_api in TFLM's place."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.codegen.cmake.project import cmake_lists
from edgetool.codegen.header import incbin_source
from edgetool.codegen.spec import SharedArenaSpec
from edgetool.codegen.tflm.profile import profile_source
from tests.cmake.projects import run
from tests.codegen.c_compilers import TFLM_API
from tests.codegen.emitted import write, write_main
from tests.codegen.header_specs import BLOB
from tests.codegen.program_specs import KWS_PROGRAM, SEQUENCE_PROGRAM, STATE_PROGRAM

FIRST = replace(KWS_PROGRAM, shared_arena="joint")
SHARED = SharedArenaSpec("joint", "0.1.0", (FIRST, STATE_PROGRAM), 4096, False, 2048, 2048)
OWN = replace(SEQUENCE_PROGRAM, header=replace(SEQUENCE_PROGRAM.header, name="sequence"))
OPERATORS = """\
#include "sequence_ops.h"

const TFLMRegistration *sequence_registration_FFT()
{
    return nullptr;
}
"""
PARENT = """\
cmake_minimum_required(VERSION 3.20)
project(firmware LANGUAGES C CXX)
add_library(tflm STATIC "{api}/fake.cc")
target_include_directories(tflm PUBLIC "{api}")
add_subdirectory("{project}" model)
add_executable(app "{project}/main.cc")
target_link_libraries(app PRIVATE kws_runner)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project of one model, in a folder whose name has a space."""
    for program in ("cmake", "g++"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = tmp_path / "a project"
    folder.mkdir()
    write(folder, KWS_PROGRAM)
    write_main(folder, [KWS_PROGRAM])
    (folder / "kws_profile.cc").write_text(profile_source(KWS_PROGRAM), encoding="ascii")
    (folder / "CMakeLists.txt").write_text(cmake_lists(KWS_PROGRAM, profile=True), encoding="ascii")
    return folder


def tree(folder: Path) -> Path:
    """What create_tflm_tree.py writes: sources and headers to compile."""
    shutil.copytree(TFLM_API / "tensorflow", folder / "tensorflow")
    for name in ("fake.cc", "fake.h"):
        shutil.copy(TFLM_API / name, folder / "tensorflow" / name)
    return folder


def checkout(folder: Path, *libraries: str) -> Path:
    """A checkout of tflite-micro in which its Makefile has built these."""
    make = folder / "tensorflow" / "lite" / "micro" / "tools" / "make"
    shutil.copytree(TFLM_API / "tensorflow", folder / "tensorflow")
    make.mkdir(parents=True)
    (make / "Makefile").touch()
    for name in libraries:
        where = folder / "gen" / name / "lib"
        where.mkdir(parents=True)
        compiled = run("g++", "-std=c++17", f"-I{TFLM_API}", "-c", TFLM_API / "fake.cc", "-o", where / "fake.o")
        assert compiled.returncode == 0, compiled.stdout
        run("ar", "rcs", where / "libtensorflow-microlite.a", where / "fake.o")
    return folder


def configured(source: Path, *arguments: str, works: bool = True) -> str:
    done = run("cmake", "-S", source, "-B", source / "build", *arguments)
    assert (done.returncode == 0) == works, done.stdout
    return " ".join(done.stdout.split())


def built(source: Path, *arguments: str) -> set[str]:
    """The programs and libraries that are there after a build."""
    done = run("cmake", "--build", source / "build", *arguments)
    assert done.returncode == 0, done.stdout
    files = [path for path in (source / "build").rglob("*") if path.is_file() and "CMakeFiles" not in path.parts]
    return {path.name for path in files if path.suffix == ".a" or (not path.suffix and path.stat().st_mode & 0o100)}


def test_without_tflm_it_reports_that_and_builds_the_data(project: Path) -> None:
    assert "without TFLM only the model data is built: set -DTFLM_DIR=/path/to/tflm" in configured(project)
    assert built(project) == {"libkws_model.a"}


@pytest.mark.slow
def test_with_the_tree_of_tflm(project: Path, tmp_path: Path) -> None:
    configured(project, f"-DTFLM_DIR={tree(tmp_path / 'the tree')}")
    assert built(project) == {"libkws_model.a", "libkws_runner.a", "libtflm.a", "kws_main"}
    said = run(project / "build" / "kws_main").stdout
    assert said.startswith("kws: "), "the fake is no model, and main.cc says what is wrong"


@pytest.mark.slow
def test_with_a_checkout_of_tflm(project: Path, tmp_path: Path) -> None:
    none = checkout(tmp_path / "none")
    assert "has 0 libraries libtensorflow-microlite.a" in configured(project, f"-DTFLM_DIR={none}", works=False)
    two = checkout(tmp_path / "two", "linux_x86_64_default_gcc", "linux_x86_64_release_gcc")
    assert "has 2 libraries" in configured(project, f"-DTFLM_DIR={two}", works=False)
    library = two / "gen" / "linux_x86_64_release_gcc" / "lib" / "libtensorflow-microlite.a"
    assert "there is no file" in configured(project, f"-DTFLM_LIBRARY={library}x", works=False)
    configured(project, f"-DTFLM_LIBRARY={library}")
    assert "kws_main" in built(project)


def definitions(project: Path) -> str:
    """The definitions with which the runner is compiled."""
    (flags,) = (project / "build").rglob("kws_runner.dir/flags.make")
    return next(line for line in flags.read_text().splitlines() if line.startswith("CXX_DEFINES"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "defined"), [("cortex_m_default_cmsis_nn_gcc", True), ("cmsis_nn_default_gcc", False)]
)
def test_the_kernels_of_a_checkout_are_those_of_its_library(
    project: Path, tmp_path: Path, library: str, defined: bool
) -> None:
    folder = checkout(tmp_path / "tflm", library)
    configured(project, f"-DTFLM_DIR={folder}", "-GUnix Makefiles")
    assert ("-DCMSIS_NN" in definitions(project)) == defined


def test_the_kernels_of_a_tree_are_those_in_it(project: Path, tmp_path: Path) -> None:
    folder = tree(tmp_path / "tree")
    configured(project, f"-DTFLM_DIR={folder}", "-GUnix Makefiles")
    assert "-DCMSIS_NN" not in definitions(project)
    (folder / "third_party" / "cmsis_nn").mkdir(parents=True)
    configured(project, f"-DTFLM_DIR={folder}")
    assert "-DCMSIS_NN" in definitions(project)


def test_a_folder_that_is_not_tflm(project: Path, tmp_path: Path) -> None:
    said = configured(project, f"-DTFLM_DIR={tmp_path}", works=False)
    assert f"TFLM_DIR: there is no tensorflow/lite/micro/micro_interpreter.h in {tmp_path}" in said


@pytest.mark.slow
def test_as_a_part_of_a_project_that_has_tflm(project: Path, tmp_path: Path) -> None:
    text = PARENT.format(api=TFLM_API, project=project)
    (tmp_path / "CMakeLists.txt").write_text(text, encoding="utf-8")
    configured(tmp_path)
    assert built(tmp_path) == {"libkws_model.a", "libkws_runner.a", "libtflm.a", "app"}


@pytest.mark.slow
def test_several_models_in_one_arena_by_the_assembler(project: Path, tmp_path: Path) -> None:
    names = write(project, FIRST, STATE_PROGRAM)
    write_main(project, [FIRST, STATE_PROGRAM])
    for name in names:
        (project / f"{name}_model.c").unlink()
        (project / f"{name}_model.S").write_text(incbin_source(name), encoding="ascii")
        (project / f"{name}.tflite").write_bytes(BLOB)
    (project / "CMakeLists.txt").write_text(cmake_lists(SHARED, data="incbin"), encoding="ascii")
    configured(project, f"-DTFLM_DIR={tree(tmp_path / 'tree')}")
    libraries = {f"lib{name}_{part}.a" for name in names for part in ("model", "runner")}
    assert built(project) == {*libraries, "libjoint_arena.a", "libtflm.a", "joint_main"}


@pytest.mark.slow
def test_variables_that_the_user_sets(project: Path, tmp_path: Path) -> None:
    """The size of an arena that is not known, and the operators of the user's own."""
    write(project, OWN)
    write_main(project, [OWN])
    (project / "CMakeLists.txt").write_text(cmake_lists(OWN), encoding="ascii")
    (project / "operators.cc").write_text(OPERATORS, encoding="ascii")
    given = ("-DSEQUENCE_ARENA_BYTES=65536", "-DSEQUENCE_OPERATOR_SOURCES=operators.cc")
    configured(project, f"-DTFLM_DIR={tree(tmp_path / 'tree')}", *given)
    assert "sequence_main" in built(project)
