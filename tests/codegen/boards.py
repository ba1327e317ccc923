"""Emulated boards, one for each core: where their memories are, and how a program is built and run on them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.codegen.c_compilers import FLAGS

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "firmware"


@dataclass(frozen=True)
class Board:
    """A machine of qemu-system-arm. vectors, flash, ram: origin and length, for the linker."""

    machine: str
    vectors: tuple[int, int]
    flash: tuple[int, int]
    ram: tuple[int, int]

    @property
    def script(self) -> str:
        """Its linker script: what examples/firmware/mps2-an500.ld is for one of them."""
        memories = (("VECTORS", self.vectors), ("FLASH", self.flash), ("RAM", self.ram))
        lines = "".join(f"    {name} : ORIGIN = {at:#x}, LENGTH = {size:#x}\n" for name, (at, size) in memories)
        return f"MEMORY\n{{\n{lines}}}\nINCLUDE sections.ld\n"


_MPS2 = ((0x00000000, 0x400), (0x00000400, 0x3FFC00), (0x20000000, 0x400000))
# The secure side of a core with TrustZone: it starts there.
BOARDS = {
    "cortex-m3": Board("mps2-an385", *_MPS2),
    "cortex-m4": Board("mps2-an386", *_MPS2),
    "cortex-m7": Board("mps2-an500", *_MPS2),
    "cortex-m33": Board("mps2-an505", (0x10000000, 0x400), (0x10000400, 0x3FFC00), (0x38000000, 0x200000)),
    "cortex-m55": Board("mps3-an547", (0x10000000, 0x400), (0x11000000, 0x200000), (0x31000000, 0x200000)),
}


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
        [
            *("qemu-system-arm", "-M", BOARDS[core].machine, "-nographic", "-monitor", "none", "-serial", "none"),
            *("-semihosting-config", "enable=on,target=native", "-kernel", str(program)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if "unsupported machine type" in done.stderr:
        pytest.skip(f"qemu-system-arm is too old: it has no {BOARDS[core].machine}")
    return done
