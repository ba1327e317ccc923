"""edgetool_add_model() in CMake projects for this machine: what it runs, when it runs again, and what it refuses.

find_package(edgetool): where the package is found, which versions it stands in for, and which program it runs.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from edgetool import __version__
from edgetool.model.writer import write_model
from tests.cli.program import process
from tests.cmake.projects import CMAKE_DIR, GENERATORS, PROGRAM, build, configure, failed_build, needs, refusal, run
from tests.codegen.c_compilers import TFLM_API
from tests.model.builders import conv_model_bytes, dense_model

LISTS = """\
cmake_minimum_required(VERSION 3.20)
project(app LANGUAGES C)
find_package(edgetool 0.1 REQUIRED)
set(SRAM "" CACHE STRING "")
add_executable(app main.c)
edgetool_add_model(app MODEL "models/my net.tflite" TARGET cortex-m7 SRAM "${SRAM}")
edgetool_add_model(app MODEL models/other.tflite NAME second TARGET board.toml OPTIONS --order original)
"""
MAIN = """\
#include "my_net.h"
#include "my_net_model.h"
#include "second.h"
#include "second_model.h"

int main(void)
{
    return my_net_model[4] == 'T' && second_model[4] == 'T' && MY_NET_ARENA_BYTES + SECOND_ARENA_BYTES > 0 ? 0 : 1;
}
"""
RUNNER_LISTS = """\
cmake_minimum_required(VERSION 3.20)
project(app LANGUAGES C CXX)
find_package(edgetool REQUIRED)
add_executable(app main.cc "{api}/fake.cc")
edgetool_add_model(app MODEL "models/my net.tflite" NAME net TARGET cortex-m7 RUNNER)
add_library(timed OBJECT)
edgetool_add_model(timed MODEL "models/my net.tflite" NAME net TARGET cortex-m7 PROFILE)
target_compile_definitions(timed PRIVATE NET_PROFILE_TICKS=my_ticks NET_PROFILE_TICKS_HZ=1000)
target_compile_options(timed PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ticks.h>")
foreach(each app timed)
  target_compile_features(${{each}} PRIVATE cxx_std_17)
  target_include_directories(${{each}} PRIVATE "{api}" .)
endforeach()
"""
RUNNER_MAIN = """\
#include "net_runner.h"

int main()
{
    return net_runner::init() == net_ok ? 1 : 0; /* the fake has no version of a model */
}
"""
NATIVE_LISTS = """\
cmake_minimum_required(VERSION 3.20)
project(app LANGUAGES C)
find_package(edgetool REQUIRED)
add_library(second SHARED second.c)
edgetool_add_model(second MODEL models/other.tflite NAME second TARGET cortex-m7 RUNTIME native)
add_executable(timed)
target_compile_options(timed PRIVATE "-DTIMED_PROFILE_TICKS()=1" -DTIMED_PROFILE_TICKS_HZ=1)
edgetool_add_model(timed MODEL models/other.tflite NAME timed TARGET cortex-m7 RUNTIME native PROFILE)
add_executable(app main.c)
target_compile_options(app PRIVATE -Wall -Wextra -Wconversion -Werror)
edgetool_add_model(app MODEL "models/my net.tflite" TARGET cortex-m7 RUNTIME native)
edgetool_add_model(app MODEL models/other.tflite NAME third TARGET cortex-m7 RUNTIME native OPTIONS --order original)
target_link_libraries(app PRIVATE second)
"""
NATIVE_LIBRARY = """\
#include "second.h"

static second_memory memory;

int second_runs(void);
int second_runs(void)
{
    second_context context;
    return second_init(&context, &memory, sizeof memory) == second_ok && second_invoke(&context) == second_ok;
}
"""
NATIVE_MAIN = """\
#include "my_net.h"
#include "third.h"

int second_runs(void);

int main(void)
{
    static my_net_memory first;
    static third_memory second;
    my_net_context my_net;
    third_context third;
    const int failed = my_net_init(&my_net, &first, sizeof first) != my_net_ok || my_net_invoke(&my_net) != my_net_ok;
    return failed || third_init(&third, &second, sizeof second) != third_ok || third_invoke(&third) != third_ok
        || !second_runs();
}
"""
KERNELS = CMAKE_DIR.parent / "codegen" / "native" / "c"
BOARD = 'extends = "nucleo-h743zi2"\nname = "my-board"\nboard = "Ours"\nclock = "{}"\n'
FIRST, SECOND = "edgetool convert: my_net for cortex-m7", "edgetool convert: second for board.toml"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A project of two models in a folder whose name has a space."""
    folder = tmp_path / "a project"
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "my net.tflite").write_bytes(conv_model_bytes())
    (folder / "models" / "other.tflite").write_bytes(write_model(dense_model()))
    (folder / "board.toml").write_text(BOARD.format("400 MHz"), encoding="utf-8")
    (folder / "CMakeLists.txt").write_text(LISTS, encoding="utf-8")
    (folder / "main.c").write_text(MAIN, encoding="utf-8")
    return folder


@pytest.fixture(params=GENERATORS)
def generator(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    needs(GENERATORS[name], "cc")
    return name


@pytest.mark.slow
def test_models_are_converted_again_when_an_input_changes(source: Path, tmp_path: Path, generator: str) -> None:
    folder = tmp_path / "the build"
    configure(source, folder, generator=generator)
    first = build(folder)
    assert (FIRST in first, SECOND in first) == (True, True)
    assert "Arena" not in first, "a conversion that works says no more than its name"
    assert os.spawnl(os.P_WAIT, folder / "app", "app") == 0

    def converted() -> tuple[bool, bool]:
        said = build(folder)
        return FIRST in said, SECOND in said

    assert converted() == (False, False)
    (source / "models" / "my net.tflite").touch()
    assert converted() == (True, False)
    assert converted() == (False, False)
    (source / "board.toml").write_text(BOARD.format("200 MHz"), encoding="utf-8")
    assert converted() == (False, True)
    assert "200000000" in (folder / "edgetool/app/second/second.json").read_text(encoding="utf-8")
    configure(source, folder, "-DSRAM=1MiB")
    assert converted() == (True, False)
    assert converted() == (False, False)


@pytest.mark.slow
def test_a_model_that_cannot_be_converted_fails_the_build(source: Path, tmp_path: Path) -> None:
    needs("cc")
    folder = tmp_path / "build"
    configure(source, folder, "-DSRAM=256")
    message = "edgetool: error: my net.tflite: cortex-m7: the arena needs"
    for _ in range(2):
        said = failed_build(folder)
        assert message in said
        assert "sram has 256" in said
    configure(source, folder, "-DSRAM=256KiB")
    assert message not in build(folder)
    header = folder / "edgetool/app/my_net/my_net.h"
    fits = header.read_bytes()
    configure(source, folder, "-DSRAM=256")
    assert message in failed_build(folder)
    configure(source, folder, "-DSRAM=256KiB")
    build(folder)
    assert header.read_bytes() == fits, "what failed must not stay in the build"
    model = source / "models" / "my net.tflite"
    good = model.read_bytes()
    model.write_bytes(good[:200])
    for _ in range(2):
        assert f"edgetool: error: {model}" in failed_build(folder)
    model.write_bytes(good)
    assert FIRST in build(folder)


@pytest.mark.slow
def test_settings_of_the_project_are_used_and_watched(source: Path, tmp_path: Path) -> None:
    needs("cc")
    settings = source / "edgetool.toml"
    settings.write_text('kernels = "reference"\n', encoding="utf-8")
    configure(source, tmp_path / "build")
    build(tmp_path / "build")
    header = tmp_path / "build" / "edgetool" / "app" / "my_net" / "my_net.h"
    assert "reference kernels" in header.read_text(encoding="utf-8")
    settings.write_text('kernels = "cmsis-nn"\n', encoding="utf-8")
    assert FIRST in build(tmp_path / "build")
    assert "reference kernels" not in header.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_model_that_the_build_makes(source: Path, tmp_path: Path) -> None:
    needs("cc")
    made = """
add_custom_command(
  OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/made.tflite
  COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_SOURCE_DIR}/models/other.tflite made.tflite
  DEPENDS models/other.tflite)
edgetool_add_model(app MODEL ${CMAKE_CURRENT_BINARY_DIR}/made.tflite TARGET cortex-m4)
"""
    (source / "CMakeLists.txt").write_text(LISTS + made, encoding="utf-8")
    configure(source, tmp_path / "build")
    assert "edgetool convert: made for cortex-m4" in build(tmp_path / "build")
    (source / "models" / "other.tflite").touch()
    assert "edgetool convert: made for cortex-m4" in build(tmp_path / "build")
    assert "edgetool" not in build(tmp_path / "build")


@pytest.mark.slow
def test_the_model_by_the_assembler(source: Path, tmp_path: Path) -> None:
    needs("cc")
    text = LISTS.replace("LANGUAGES C", "LANGUAGES C ASM").replace('SRAM "${SRAM}")', "DATA incbin)")
    (source / "CMakeLists.txt").write_text(text, encoding="utf-8")
    configure(source, tmp_path / "build")
    assert "my_net_model.S" in build(tmp_path / "build")
    assert os.spawnl(os.P_WAIT, tmp_path / "build" / "app", "app") == 0
    (source / "models" / "my net.tflite").touch()
    assert "my_net_model.S" in build(tmp_path / "build")
    assert "my_net_model.S" not in build(tmp_path / "build")


@pytest.mark.slow
def test_the_program_for_tflm(source: Path, tmp_path: Path) -> None:
    """With the API of TFLM that the tests have in its place."""
    needs("c++")
    (source / "main.cc").write_text(RUNNER_MAIN, encoding="utf-8")
    (source / "ticks.h").write_text("unsigned my_ticks();\n", encoding="utf-8")
    (source / "CMakeLists.txt").write_text(RUNNER_LISTS.format(api=TFLM_API), encoding="utf-8")
    configure(source, tmp_path / "build")
    said = build(tmp_path / "build")
    assert "net_runner.cc" in said
    assert "net_profile.cc" in said
    assert os.spawnl(os.P_WAIT, tmp_path / "build" / "app", "app") == 0
    assert "edgetool" not in build(tmp_path / "build")


@pytest.mark.slow
def test_native_code_and_its_kernels(source: Path, tmp_path: Path) -> None:
    needs("cc")
    (source / "main.c").write_text(NATIVE_MAIN, encoding="utf-8")
    (source / "second.c").write_text(NATIVE_LIBRARY, encoding="utf-8")
    (source / "CMakeLists.txt").write_text(NATIVE_LISTS, encoding="utf-8")
    folder = tmp_path / "the build"
    configure(source, folder)
    said = build(folder)
    assert FIRST in said
    assert "app_edgetool_kernels" in said
    assert os.spawnl(os.P_WAIT, folder / "app", "app") == 0
    assert "kernels=native runtime=native" in run(folder / "timed").stdout
    written = {path.name for path in (folder / "edgetool/app/my_net").iterdir()}
    assert written == {f"my_net{end}" for end in (".c", ".h", "_weights.c", "_weights.h", ".tflite", ".json", ".d")}
    assert "edgetool convert" not in build(folder)
    (source / "models" / "other.tflite").touch()
    said = build(folder)
    assert (FIRST in said, "edgetool convert: third" in said) == (False, True)
    kernels = sorted(path.name for path in KERNELS.glob("*.c"))
    contained = run("nm", folder / "app").stdout
    linked = [name for name in kernels if f" {name.removesuffix('.c')}\n" in contained]
    assert "edgetool_run.c" in linked
    assert len(linked) < 6 < len(kernels)


CALL = "edgetool_add_model(app MODEL models/other.tflite TARGET cortex-m7 {})"
REFUSED = {
    "edgetool_add_model(app TARGET cortex-m7)": "edgetool_add_model(app ...): MODEL is missing",
    "edgetool_add_model(app MODEL models/other.tflite)": "TARGET is missing",
    "edgetool_add_model(app MODEL models/none.tflite TARGET cortex-m7)": "MODEL: there is no file",
    "edgetool_add_model(app MODEL models/other.tflite TARGET none.toml)": "TARGET: there is no file",
    "edgetool_add_model(nothing MODEL models/other.tflite TARGET cortex-m7)": "there is no target nothing",
    "add_library(only INTERFACE)\nedgetool_add_model(only MODEL models/other.tflite TARGET cortex-m7)": (
        "nothing is compiled for the target only"
    ),
    CALL.format("NAME 1st"): "'1st' is no C name of up to 31 characters; give another with NAME",
    CALL.format("CALIBRATION none.npz"): "CALIBRATION: there is no file",
    CALL.format("CUSTOM_OPERATORS none.toml"): "CUSTOM_OPERATORS: there is no file",
    CALL.format("DATA blob"): "DATA is array or incbin, not 'blob'",
    CALL.format("DATA incbin"): "the project needs the language ASM",
    CALL.format("RUNNER"): "the project needs the language CXX",
    CALL.format("PROFILE"): "the project needs the language CXX",
    CALL.format("COLOUR red"): "unknown arguments: COLOUR, red",
    CALL.format("SRAM"): "no value for SRAM",
    CALL.format("RUNTIME native DATA incbin"): "DATA does not apply to RUNTIME native",
    CALL.format("RUNTIME native RUNNER"): "RUNNER does not apply to RUNTIME native",
    CALL.format("RUNTIME native KERNELS cmsis-nn"): "KERNELS does not apply to RUNTIME native",
    CALL.format("OPTIONS --runtime native"): "OPTIONS cannot have native",
    CALL.format("OPTIONS --output=there"): "OPTIONS cannot have --output=there",
}


@pytest.mark.slow
@pytest.mark.parametrize("call", REFUSED)
def test_a_wrong_call_is_refused_in_one_line(source: Path, call: str) -> None:
    needs("cc")
    text = LISTS.partition("edgetool_add_model")[0]
    (source / "CMakeLists.txt").write_text(text + call + "\n", encoding="utf-8")
    assert REFUSED[call] in refusal(source, f"-Dedgetool_DIR={CMAKE_DIR}")


def test_a_target_of_another_directory_is_refused(source: Path) -> None:
    needs("cc")
    (source / "below").mkdir()
    (source / "below" / "CMakeLists.txt").write_text(
        "edgetool_add_model(app MODEL ../models/other.tflite TARGET cortex-m7)\n", encoding="utf-8"
    )
    (source / "CMakeLists.txt").write_text(LISTS + "add_subdirectory(below)\n", encoding="utf-8")
    assert f"call it in {source}, where the target is made" in refusal(source, f"-Dedgetool_DIR={CMAKE_DIR}")


FINDING_LISTS = """\
cmake_minimum_required(VERSION 3.20)
project(nothing LANGUAGES NONE)
find_package(edgetool {} REQUIRED)
message(STATUS "found ${{edgetool_VERSION}} by ${{EDGETOOL_EXECUTABLE}}")
"""


def project(folder: Path, version: str = "") -> Path:
    (folder / "CMakeLists.txt").write_text(FINDING_LISTS.format(version), encoding="utf-8")
    return folder


def test_the_program_prints_the_directory_of_the_package() -> None:
    result = process("--cmake-dir")
    assert (result.returncode, result.stderr) == (0, "")
    assert (Path(result.stdout.strip()) / "edgetoolConfig.cmake").is_file()


def test_settings_that_are_wrong_do_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / "edgetool.toml").write_text("nonsense = 1\n", encoding="utf-8")
    assert process("--cmake-dir", cwd=tmp_path).stdout.strip() == str(CMAKE_DIR)


@pytest.mark.parametrize("where", [f"-Dedgetool_DIR={CMAKE_DIR}", f"-DCMAKE_PREFIX_PATH={CMAKE_DIR.parents[1]}"])
def test_it_is_found(tmp_path: Path, where: str) -> None:
    needs()
    done = run("cmake", "-B", tmp_path / "build", "-S", project(tmp_path), where, f"-DEDGETOOL_EXECUTABLE={PROGRAM}")
    assert f"found {__version__} by {PROGRAM}" in done.stdout


def test_the_program_beside_an_installed_package_goes_first(tmp_path: Path) -> None:
    needs()
    package = tmp_path / "venv" / "lib" / "python3.11" / "site-packages" / "edgetool"
    shutil.copytree(CMAKE_DIR, package / "cmake")
    shutil.copy(CMAKE_DIR.parent / "__init__.py", package)
    program = tmp_path / "venv" / "bin" / "edgetool"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    done = run("cmake", "-B", tmp_path / "build", "-S", project(tmp_path), f"-Dedgetool_DIR={package / 'cmake'}")
    assert f"found {__version__} by {program}" in done.stdout


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        (f"{__version__} EXACT", True),
        ("0.0.1", True),
        ("0.0.1 EXACT", False),
        ("0.0.1...0.999", True),
        (f"0.0.1...<{__version__}", False),
        ("0.999", False),
    ],
)
def test_versions(tmp_path: Path, version: str, fits: bool) -> None:
    needs()
    arguments = ("-S", project(tmp_path, version), f"-Dedgetool_DIR={CMAKE_DIR}", f"-DEDGETOOL_EXECUTABLE={PROGRAM}")
    assert (run("cmake", "-B", tmp_path / "build", *arguments).returncode == 0) == fits


def test_a_missing_program_is_reported_with_advice(tmp_path: Path) -> None:
    needs()
    nowhere = "".join(f"set(CMAKE_FIND_USE_{where}_PATH OFF)\n" for where in ("SYSTEM_ENVIRONMENT", "CMAKE_SYSTEM"))
    (tmp_path / "CMakeLists.txt").write_text(FINDING_LISTS.format("").replace("find_package", nowhere + "find_package"))
    arguments = (f"-Dedgetool_DIR={CMAKE_DIR}", "-DEDGETOOL_EXECUTABLE=EDGETOOL-NOTFOUND")
    assert "the program edgetool is not on PATH: activate its virtual" in refusal(tmp_path, *arguments)
