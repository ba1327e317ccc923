"""find_package(edgetool): where the package is found, which versions it stands in for, and which program it runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edgetool import __version__
from tests.cli.program import edgetool
from tests.cmake.projects import CMAKE_DIR, PROGRAM, needs, refusal, run

LISTS = """\
cmake_minimum_required(VERSION 3.20)
project(nothing LANGUAGES NONE)
find_package(edgetool {} REQUIRED)
message(STATUS "found ${{edgetool_VERSION}} by ${{EDGETOOL_EXECUTABLE}}")
"""


def project(folder: Path, version: str = "") -> Path:
    (folder / "CMakeLists.txt").write_text(LISTS.format(version), encoding="utf-8")
    return folder


def test_the_program_tells_where_the_package_is() -> None:
    result = edgetool("--cmake-dir")
    assert (result.returncode, result.stderr) == (0, "")
    assert (Path(result.stdout.strip()) / "edgetoolConfig.cmake").is_file()


def test_settings_that_are_wrong_do_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / "edgetool.toml").write_text("nonsense = 1\n", encoding="utf-8")
    assert edgetool("--cmake-dir", cwd=tmp_path).stdout.strip() == str(CMAKE_DIR)


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


def test_without_the_program_it_says_what_to_do(tmp_path: Path) -> None:
    needs()
    nowhere = "".join(f"set(CMAKE_FIND_USE_{where}_PATH OFF)\n" for where in ("SYSTEM_ENVIRONMENT", "CMAKE_SYSTEM"))
    (tmp_path / "CMakeLists.txt").write_text(LISTS.format("").replace("find_package", nowhere + "find_package"))
    arguments = (f"-Dedgetool_DIR={CMAKE_DIR}", "-DEDGETOOL_EXECUTABLE=EDGETOOL-NOTFOUND")
    assert "the program edgetool is not on PATH: activate its virtual" in refusal(tmp_path, *arguments)
