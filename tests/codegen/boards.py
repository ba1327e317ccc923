"""How a program with the start-up code of examples/firmware is built and run on emulated cores."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgetool.execute.cores import MACHINES
from tests.codegen.c_compilers import FLAGS

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "firmware"


# The cores that are tested with programs of their own start-up code.
BOARDS = {core: MACHINES[core] for core in ("cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")}


def build(directory: Path, core: str, script: str, sources: Sequence[str], *options: str) -> Path:
    """Build a program for the core with examples/firmware's start; skips the test when the tools are not there."""
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    places = [
        f"-I{EXAMPLE}",
        f"-L{EXAMPLE}",
        f"-T{script}",
        "-nostartfiles",
        "-Wl,--fatal-warnings",
        "-Wl,--gc-sections",
    ]
    command = ["arm-none-eabi-gcc", f"-mcpu={core}", "-mthumb", "-O1", "-std=c99", *FLAGS, *options, *places]
    done = subprocess.run(
        [*command, str(EXAMPLE / "startup.c"), *sources, "-o", "program.elf"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if "cannot find -lc" in done.stderr or "string.h: No such file" in done.stderr:
        pytest.skip("newlib for arm-none-eabi is not installed")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:3000]
    return directory / "program.elf"


def run(core: str, program: Path) -> subprocess.CompletedProcess[str]:
    """Run a program until it ends by semihosting: its exit code, and what it wrote (on stderr, as qemu has it)."""
    done = subprocess.run(
        BOARDS[core].emulate(program),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if "unsupported machine type" in done.stderr:
        pytest.skip(f"qemu-system-arm is too old: it has no {BOARDS[core].name}")
    return done
