"""CMake projects for tests: their text, their configuration and their builds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgetool.cli import main

CMAKE_DIR = Path(main.__file__).parents[1] / "cmake"
PROGRAM = Path(sys.executable).with_name("edgetool")
GENERATORS = {"Ninja": "ninja", "Unix Makefiles": "make"}


def needs(*programs: str) -> None:
    """Skip the test where one of the programs is not installed."""
    for program in ("cmake", *programs):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if not PROGRAM.is_file():
        pytest.skip(f"edgetool is not installed as a program beside {sys.executable}")


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The finished process; what it wrote to stderr is in stdout, in its place."""
    return subprocess.run(
        [*map(str, command)], cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300
    )


def configure(source: Path, build: Path, *arguments: str, generator: str | None = None) -> str:
    """Configure the project, which must work; what CMake said."""
    done = run(
        "cmake",
        *(("-G", generator) if generator else ()),
        "-S",
        source,
        "-B",
        build,
        f"-Dedgetool_DIR={CMAKE_DIR}",
        f"-DEDGETOOL_EXECUTABLE={PROGRAM}",
        *arguments,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def refusal(source: Path, *arguments: str) -> str:
    """What CMake said to a project that it must refuse, in one line."""
    done = run("cmake", "-S", source, "-B", source / "refused", f"-DEDGETOOL_EXECUTABLE={PROGRAM}", *arguments)
    assert done.returncode != 0, done.stdout
    return " ".join(done.stdout.split())


def build(folder: Path) -> str:
    """Build all, which must work; what was said."""
    done = run("cmake", "--build", folder)
    assert done.returncode == 0, done.stdout
    return done.stdout


def failed_build(folder: Path) -> str:
    """What was said in a build that must fail."""
    done = run("cmake", "--build", folder)
    assert done.returncode != 0, done.stdout
    return done.stdout
