"""The stack that native code needs: an upper bound for each kernel, per compiler, core and optimization level.

GCC writes the frame of each function and its callees (-fstack-usage, -fcallgraph-info=su). The bound of a function is
its frame and the largest bound of what it calls. Functions of libgcc and of the toolchain's standard C library have no
such file: their frames and callees are read from their machine code. An indirect call is the call of a kernel by
edgetool_run.

The table is part of the package (codegen/native/stack.csv). Its row INVOKE is the frame of NAME_invoke without its
table of row pointers, which depends on the model; INVOKE_ROWS is the largest of NAME_invoke_rows and what it calls in
NAME.c, for a few models.

    python -m benchmarks.native.stack
"""

from __future__ import annotations

import csv
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import edgetool
from edgetool.execute.cores import MACHINES

KERNELS = Path(edgetool.__file__).parent / "codegen" / "native" / "c"
TABLE = KERNELS.parent / "stack.csv"
LEVELS = ("-O2", "-Os")
# The compiler's name and flags for each core.
COMPILERS = {core: (machine.compiler, *machine.flags) for core, machine in MACHINES.items()}
INVOKE, INVOKE_ROWS = "invoke", "invoke_rows"
INDIRECT = "__indirect_call"
POINTER, TABLE_SIZES = 4, range(1, 5)
# NAME_invoke as codegen/native/model/model.c has it, with a table of COUNT row pointers.
INVOKE_SOURCE = """
#include "edgetool_native.h"
typedef struct { uint8_t *arena; } context_type;
extern const edgetool_program program;
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
    edgetool_run(&program, context->arena, rows);
    return 0;
}
"""
_TABLE = re.compile(r"const void \*rows\[\d+\]")
_NODE = re.compile(
    r'node: \{ title: "(?P<name>[^"]+)" label: "[^"]*?(?:\\n(?P<bytes>\d+) bytes \((?P<kind>[a-z,]+)\))?"'
)
_EDGE = re.compile(r'edge: \{ sourcename: "(?P<caller>[^"]+)" targetname: "(?P<callee>[^"]+)"')

_TITLE = re.compile(r"[0-9a-f]+ <(?P<name>[^>]+)>:")
_INSTRUCTION = re.compile(r" *[0-9a-f]+:\t(?P<mnemonic>\S+)(\t(?P<operands>.*))?")
_TARGET = re.compile(r"<(?P<name>[^>+]+)(\+0x[0-9a-f]+)?>")
_REGISTERS = re.compile(r"\{(.*)\}")
_WRITE_BACK = re.compile(r"\[sp, #(-\d+)\]!")
_MOVED = re.compile(r"(sub|add)\S* sp, ?(sp, ?)?#?(?P<bytes>-?\d+)")


@dataclass(frozen=True, slots=True)
class CallGraph:
    """The frame of each function in bytes, and the functions that it calls."""

    frames: dict[str, int]
    callees: dict[str, set[str]]


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


def unit_graph(text: str) -> CallGraph:
    """Return the frames and calls of a .ci file. Raises ValueError for a frame of variable size."""
    graph = CallGraph({}, {})
    for match in _NODE.finditer(text):
        if match["bytes"] is not None:
            if match["kind"] != "static":
                raise ValueError(f"{match['name']} has a frame of variable size")
            graph.frames[match["name"]] = int(match["bytes"])
    for match in _EDGE.finditer(text):
        graph.callees.setdefault(match["caller"], set()).add(match["callee"])
    return graph


def code_graph(listing: str) -> CallGraph:
    """Return the frames and calls of the functions that objdump lists, a frame being all that a function pushes.

    Jumps to a computed address are taken as those of a switch. Raises ValueError for an indirect call, or a stack
    pointer that is set in another way than by pushes and constants.
    """
    graph = CallGraph({}, {})
    name = ""
    falls_through = False
    for line in listing.splitlines():
        if title := _TITLE.fullmatch(line):
            if falls_through:
                graph.callees.setdefault(name, set()).add(title["name"])
            name = title["name"]
            graph.frames[name] = 0
            continue
        instruction = _INSTRUCTION.fullmatch(line)
        if instruction is None or instruction["mnemonic"] in ("nop", ".word", ".short", "unimp"):
            continue
        mnemonic, operands = instruction["mnemonic"], instruction["operands"] or ""
        graph.frames[name] += _pushed_bytes(name, mnemonic, operands)
        if (target := _TARGET.search(operands)) and target["name"] != name:
            graph.callees.setdefault(name, set()).add(target["name"])
        if mnemonic in ("blx", "jalr"):
            raise ValueError(f"{name} makes an indirect call")
        falls_through = not (mnemonic in ("bx", "b", "b.n", "b.w", "j", "jr", "ret") or "pc" in operands)
    # Operands also name data.
    return CallGraph(graph.frames, {name: called & graph.frames.keys() for name, called in graph.callees.items()})


def _pushed_bytes(name: str, mnemonic: str, operands: str) -> int:
    """Return how far an instruction of Thumb or RISC-V moves the stack pointer down."""
    if mnemonic in ("push", "vpush", "stmdb") and (registers := _REGISTERS.search(operands)):
        if mnemonic == "stmdb" and not operands.startswith("sp!"):
            return 0
        word_bytes = 8 if registers[1].startswith("d") else 4
        return word_bytes * sum(_register_count(item) for item in registers[1].split(","))
    if pushed := _WRITE_BACK.search(operands):
        return -int(pushed[1])
    if moved := _MOVED.match(f"{mnemonic} {operands}"):
        step = int(moved["bytes"])
        return max(0, step if mnemonic.startswith("sub") else -step)
    if re.match(r"(mov|msr|ldr|lw|mv|add|sub)\S* sp\b", f"{mnemonic} {operands}"):
        raise ValueError(f"{name} sets its stack pointer: {mnemonic} {operands}")
    return 0


def _register_count(item: str) -> int:
    first, _, last = item.strip().partition("-")
    return int(last[1:]) - int(first[1:]) + 1 if last else 1


def bound(graph: CallGraph, name: str, callers: tuple[str, ...] = ()) -> int:
    """Return the most bytes of stack of a function and what it calls. Raises ValueError for recursion."""
    if name in callers:
        raise ValueError(f"{name} is recursive")
    below = (bound(graph, item, (*callers, name)) for item in graph.callees.get(name, ()) if item != INDIRECT)
    return graph.frames[name] + max(below, default=0)


@cache
def library_bytes(core: str, name: str) -> int:
    """Return the bound of a function of libgcc or the C library for a core."""
    compiler, *flags = COMPILERS[core]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "library.elf"
        link = [compiler, *flags, "-nostartfiles", "-Wl,--entry=0", f"-Wl,--undefined={name}", "-o", str(program)]
        subprocess.run(link, check=True)
        tools = compiler.removesuffix("gcc")
        listing, symbols = (
            subprocess.run([*command, str(program)], check=True, capture_output=True, text=True).stdout
            for command in ((f"{tools}objdump", "-d", "--no-show-raw-insn"), (f"{tools}nm",))
        )
    addresses = {words[2]: int(words[0], 16) & ~1 for line in symbols.splitlines() if len(words := line.split()) == 3}
    graph = code_graph(listing)
    [listed] = [item for item in graph.frames if addresses[item] == addresses[name]]
    return bound(graph, listed)


def measure(core: str, level: str, sources: list[Path], include: Path = KERNELS) -> Iterator[StackRow]:
    """Compile the sources and yield the bound of each function that they define for other files."""
    compiler, *flags = COMPILERS[core]
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            command = [compiler, *flags, level, "-std=c99", "-fstack-usage", "-fcallgraph-info=su", f"-I{include}"]
            subprocess.run([*command, "-c", str(source), "-o", f"{folder}/unit.o"], check=True, cwd=folder)
            graph = unit_graph((Path(folder) / "unit.ci").read_text())
            if MACHINES[core].is_arm and "push {" in source.read_text(encoding="ascii"):
                _add_pushes(graph, f"{compiler.removesuffix('gcc')}objdump", Path(folder) / "unit.o")
            own = [name for name in graph.frames if not name.startswith("/") and ":" not in name]
            for callee in set().union(*graph.callees.values()) - graph.frames.keys() - {INDIRECT}:
                graph.frames[callee] = library_bytes(core, callee)
            for name in own:
                yield StackRow(version(compiler), core, level, name, bound(graph, name))


def _add_pushes(graph: CallGraph, objdump: str, unit: Path) -> None:
    """Raise the frames of a unit to all that its machine code pushes: GCC's do not include inline assembly."""
    command = [objdump, "-d", "--no-show-raw-insn", str(unit)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    pushed = code_graph(listing).frames
    for name, frame in graph.frames.items():
        graph.frames[name] = max(frame, pushed.get(name.rsplit(":", 1)[-1], 0))


def invoke_row(core: str, level: str) -> StackRow:
    """Return the frame of NAME_invoke without its table, whatever padding the table needs."""
    frames = []
    for count in TABLE_SIZES:
        (frame,) = caller_graph(core, level, {"invoke.c": INVOKE_SOURCE.replace("COUNT", str(count))}).frames.values()
        frames.append(frame - POINTER * count)
    return StackRow(version(COMPILERS[core][0]), core, level, INVOKE, max(frames))


def invoke_rows_row(core: str, level: str) -> StackRow:
    """Return the largest bound of NAME_invoke_rows in NAME.c, without its table and what it calls elsewhere."""
    bounds = []
    for files in handing_files():
        for count in TABLE_SIZES:
            texts = {name: _TABLE.sub(f"const void *rows[{count}]", text) for name, text in files.items()}
            graph = caller_graph(core, level, texts)
            for callee in set().union(*graph.callees.values()) - graph.frames.keys():
                graph.frames[callee] = 0
            bounds.append(bound(graph, "net_invoke_rows") - POINTER * count)
    return StackRow(version(COMPILERS[core][0]), core, level, INVOKE_ROWS, max(bounds))


@cache
def handing_files() -> tuple[dict[str, str], ...]:
    """Return net.c and its headers for models of which one or several inputs and outputs are handed over by rows."""
    from tests.codegen.native.row_plans import row_texts
    from tests.codegen.native.test_row_output import unet
    from tests.codegen.native.test_row_tables import two_images

    models = ((unet(), (0,), ()), (unet(), (), (0, 1)), (unet(), (0,), (0, 1)), (two_images(), (0, 1), (0,)))
    names = ("net.c", "net.h", "net_weights.h")
    return tuple({name: text for name, text in row_texts("net", *given).items() if name in names} for given in models)


def caller_graph(core: str, level: str, files: dict[str, str]) -> CallGraph:
    """Compile the only C file of these with the kernels' headers; return its frames and calls."""
    compiler, *flags = COMPILERS[core]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="ascii")
        (source,) = Path(folder).glob("*.c")
        command = [compiler, *flags, level, "-std=c99", "-fstack-usage", "-fcallgraph-info=su", f"-I{KERNELS}"]
        subprocess.run([*command, "-c", str(source), "-o", f"{folder}/unit.o"], check=True, cwd=folder)
        return unit_graph((Path(folder) / "unit.ci").read_text())


def table() -> list[StackRow]:
    """Return the bounds of every kernel, of what calls them, and of NAME_invoke, for every core and level."""
    sources = sorted(KERNELS.glob("*.c"))
    return [
        row
        for core in COMPILERS
        for level in LEVELS
        for row in (invoke_row(core, level), invoke_rows_row(core, level), *measure(core, level, sources))
    ]


def write(rows: list[StackRow]) -> None:
    """Write the table of the package."""
    with TABLE.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["compiler", "core", "level", "function", "stack_bytes"])
        writer.writerows([[row.compiler, row.core, row.level, row.function, row.stack_bytes] for row in rows])


if __name__ == "__main__":
    write(table())
