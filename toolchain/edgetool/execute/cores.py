"""Emulated cores: the compiler for each, the machine of QEMU that has it, and how a program is built and run there.

A program defines bare_main and reads and writes files (bare/bare.h); host.c runs the same program on this machine. Code
for Armv6-M runs on a Cortex-M3, which executes it: QEMU's machines with a Cortex-M0 have 16 KB of memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BARE = Path(__file__).with_name("bare")
FAULT = 64  # BARE_FAULT
QEMU_FAILED = 1  # the exit code of QEMU itself, which no program returns
RISCV = "riscv32"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of QEMU, and how code for a core is compiled.

    Attributes:
        name: QEMU's name.
        compiler: The name of GCC.
        flags: Its flags for the core.
        vectors: The origin and the size of the memory from which the machine starts.
        flash: Those of code and constants.
        ram: Those of variables.
    """

    name: str
    compiler: str
    flags: tuple[str, ...]
    vectors: tuple[int, int]
    flash: tuple[int, int]
    ram: tuple[int, int]

    @property
    def is_arm(self) -> bool:
        """Whether the core is a Cortex-M."""
        return self.compiler.startswith("arm")

    @property
    def emulator(self) -> str:
        """The program of QEMU."""
        return "qemu-system-arm" if self.is_arm else "qemu-system-riscv32"

    @property
    def missing_tools(self) -> tuple[str, ...]:
        """The programs that are not installed."""
        return tuple(tool for tool in (self.compiler, self.emulator) if shutil.which(tool) is None)

    @property
    def script(self) -> str:
        """The linker script, which includes a file sections.ld."""
        memories = (("VECTORS", self.vectors), ("FLASH", self.flash), ("RAM", self.ram))
        lines = "".join(f"    {name} : ORIGIN = {at:#x}, LENGTH = {size:#x}\n" for name, (at, size) in memories)
        return f"MEMORY\n{{\n{lines}}}\nINCLUDE sections.ld\n"

    @property
    def start(self) -> tuple[Path, ...]:
        """The C files that start a program and give it its files."""
        return BARE / "bare.c", BARE / ("arm.c" if self.is_arm else "riscv.c")

    def link(self, script: Path, sources: Sequence[str], program: Path, *options: str) -> list[str]:
        """Return the command that compiles and links a program. script: the file with the linker script."""
        places = [f"-I{BARE}", f"-L{BARE}", f"-T{script}", "-nostartfiles", "-static", "-Wl,--no-warn-rwx-segments"]
        return [self.compiler, *self.flags, *options, *places, *sources, "-o", str(program)]

    def emulate(self, program: Path) -> list[str]:
        """Return the command that runs a program, whose exit code it has: FAULT and more for a fault of the core."""
        firmware = () if self.is_arm else ("-bios", "none")
        console = "-nographic -monitor none -serial none -semihosting-config enable=on,target=native -kernel".split()
        return [self.emulator, "-machine", self.name, *firmware, *console, str(program)]


def _cortex(core: str, machine: str, *flags: str, memories: tuple[tuple[int, int], ...] = ()) -> Machine:
    vectors, flash, ram = memories or ((0x00000000, 0x400), (0x00000400, 0x3FFC00), (0x20000000, 0x400000))
    return Machine(machine, "arm-none-eabi-gcc", (f"-mcpu={core}", "-mthumb", *flags), vectors, flash, ram)


_HARD = "-mfloat-abi=hard"
# The secure side of a core with TrustZone, which starts there.
_AN505 = ((0x10000000, 0x400), (0x10000400, 0x3FFC00), (0x38000000, 0x200000))
_AN547 = ((0x10000000, 0x400), (0x11000000, 0x200000), (0x31000000, 0x200000))
MACHINES: Mapping[str, Machine] = {
    "cortex-m0plus": _cortex("cortex-m0plus", "mps2-an385"),
    "cortex-m3": _cortex("cortex-m3", "mps2-an385"),
    "cortex-m4": _cortex("cortex-m4", "mps2-an386", _HARD, "-mfpu=fpv4-sp-d16"),
    "cortex-m7": _cortex("cortex-m7", "mps2-an500", _HARD, "-mfpu=fpv5-d16"),
    "cortex-m33": _cortex("cortex-m33", "mps2-an505", _HARD, "-mfpu=fpv5-sp-d16", memories=_AN505),
    "cortex-m55": _cortex("cortex-m55", "mps3-an547", _HARD, memories=_AN547),
    RISCV: Machine(
        "virt",
        "riscv64-unknown-elf-gcc",
        ("-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs"),
        (0x80000000, 0x1000),
        (0x80001000, 16 * 2**20),
        (0x82000000, 16 * 2**20),
    ),
}
