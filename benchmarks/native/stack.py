"""The stack that native code needs: an upper bound for each kernel, per compiler, core and optimization level.

GCC writes the frame of each function and its callees (-fstack-usage, -fcallgraph-info=su). The bound of a function is
its frame and the largest bound of what it calls. Functions of libgcc and libc have no such file: LIBRARY_BYTES is more
than the pushes of those that kernels call (memcpy, memset, 64-bit multiplication and division for Armv6-M, by
disassembly). An indirect call is the call of a kernel by edgetool_run.

The table is part of the package (codegen/native/stack.csv). Its row INVOKE is the frame of NAME_invoke without its
table of row pointers, which depends on the model.

    python -m benchmarks.native.stack
"""

from __future__ import annotations

import csv
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import edgetool

KERNELS = Path(edgetool.__file__).parent / "codegen" / "native" / "c"
TABLE = KERNELS.parent / "stack.csv"
LIBRARY_BYTES = 40
LEVELS = ("-O2", "-Os")
# The compiler's name and flags for each core.
COMPILERS: Mapping[str, tuple[str, ...]] = {
    "cortex-m0plus": ("arm-none-eabi-gcc", "-mcpu=cortex-m0plus", "-mthumb"),
    "cortex-m3": ("arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb"),
    "cortex-m4": ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    "cortex-m7": ("arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16"),
    "cortex-m33": ("arm-none-eabi-gcc", "-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"),
    "cortex-m55": ("arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"),
    "riscv32": ("riscv64-unknown-elf-gcc", "-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs"),
}
INVOKE = "invoke"
# NAME_invoke as codegen/native/model/model.c has it, with a table of COUNT row pointers.
INVOKE_SOURCE = """
#include "edgetool_native.h"
typedef struct { uint8_t *arena; } context_type;
extern const edgetool_step steps[1];
int invoke(context_type *context);
int invoke(context_type *context)
{
    const void *rows[COUNT];
    if (context == NULL) {
        return 1;
    }
    if (context->arena == NULL) {
        return 4;
    }
    edgetool_run(steps, 1, context->arena, rows);
    return 0;
}
"""
_NODE = re.compile(
    r'node: \{ title: "(?P<name>[^"]+)" label: "[^"]*?(?:\\n(?P<bytes>\d+) bytes \((?P<kind>[a-z,]+)\))?"'
)
_EDGE = re.compile(r'edge: \{ sourcename: "(?P<caller>[^"]+)" targetname: "(?P<callee>[^"]+)"')


@dataclass(frozen=True, slots=True)
class StackRow:
    """The bound of one function, without what it calls indirectly."""

    compiler: str
    core: str
    level: str
    function: str
    stack_bytes: int


def version(compiler: str) -> str:
    """Return the compiler's name and version."""
    line = subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{compiler} {line}"


def bounds(graph: str) -> dict[str, int]:
    """Return the bound of each function that a .ci file defines. Raises ValueError for recursion or a dynamic frame."""
    frames: dict[str, int] = {}
    callees: dict[str, set[str]] = {}
    for match in _NODE.finditer(graph):
        if match["bytes"] is not None:
            if match["kind"] != "static":
                raise ValueError(f"{match['name']} has a frame of variable size")
            frames[match["name"]] = int(match["bytes"])
    for match in _EDGE.finditer(graph):
        callees.setdefault(match["caller"], set()).add(match["callee"])

    def bound(name: str, callers: tuple[str, ...] = ()) -> int:
        if name in callers:
            raise ValueError(f"{name} is recursive")
        if name == "__indirect_call":
            return 0
        if name not in frames:
            return LIBRARY_BYTES
        return frames[name] + max((bound(item, (*callers, name)) for item in callees.get(name, ())), default=0)

    return {name: bound(name) for name in frames}


def measure(core: str, level: str, sources: list[Path], include: Path = KERNELS) -> Iterator[StackRow]:
    """Compile the sources and yield the bound of each function that they define for other files."""
    compiler, *flags = COMPILERS[core]
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            command = [compiler, *flags, level, "-std=c99", "-fstack-usage", "-fcallgraph-info=su", f"-I{include}"]
            subprocess.run([*command, "-c", str(source), "-o", f"{folder}/unit.o"], check=True, cwd=folder)
            for name, size in bounds((Path(folder) / "unit.ci").read_text()).items():
                if not name.startswith("/") and ":" not in name:
                    yield StackRow(version(compiler), core, level, name, size)


def invoke_row(core: str, level: str) -> StackRow:
    """Return the frame of NAME_invoke without its table, whatever padding the table needs."""
    frames = []
    for count in range(1, 5):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "invoke.c"
            source.write_text(INVOKE_SOURCE.replace("COUNT", str(count)))
            compiler, *flags = COMPILERS[core]
            command = [compiler, *flags, level, "-std=c99", "-fstack-usage", "-fcallgraph-info=su", f"-I{KERNELS}"]
            subprocess.run([*command, "-c", str(source), "-o", f"{folder}/unit.o"], check=True, cwd=folder)
            match = re.search(r"invoke\t(\d+)\tstatic", (Path(folder) / "unit.su").read_text())
            assert match is not None
            frames.append(int(match[1]) - 4 * count)
    return StackRow(version(COMPILERS[core][0]), core, level, INVOKE, max(frames))


def table() -> list[StackRow]:
    """Return the bounds of every kernel, of edgetool_run and of NAME_invoke, for every core and level."""
    sources = sorted(KERNELS.glob("*.c"))
    return [
        row
        for core in COMPILERS
        for level in LEVELS
        for row in (invoke_row(core, level), *measure(core, level, sources))
    ]


def write(rows: list[StackRow]) -> None:
    """Write the table of the package."""
    with TABLE.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["compiler", "core", "level", "function", "stack_bytes"])
        writer.writerows([[row.compiler, row.core, row.level, row.function, row.stack_bytes] for row in rows])


if __name__ == "__main__":
    write(table())
