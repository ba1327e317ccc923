"""The stack that native code needs: an upper bound for each kernel, per compiler, core and optimization level.

GCC writes the frame of each function and its callees (-fstack-usage, -fcallgraph-info=su). The bound of a function is
its frame and the largest bound of what it calls. Functions of libgcc and of the toolchain's standard C library have no
such file: their frames and callees are read from their machine code. An indirect call is the call of a kernel by
edgetool_run.

The table is part of the package (codegen/native/stack.csv). Its row INVOKE is the frame of NAME_invoke without its
table of row pointers, which depends on the model; INVOKE_ROWS is that of NAME_invoke_rows and what it calls in NAME.c.

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
# The same for NAME_invoke_rows, with rows that are fed and taken.
INVOKE_ROWS_SOURCE = """
#include "edgetool_rows.h"
typedef struct { uint8_t *arena; uint32_t at; uint16_t done[9]; } context_type;
extern const edgetool_row_tables tables;
extern const uint8_t schedule[99];
int feed_row(context_type *context, const int8_t *row);
typedef const void *(*fetch_type)(void *user, uint32_t input, uint32_t row);
typedef void (*take_type)(void *user, uint32_t output, uint32_t row, const void *elements);
int invoke_rows(context_type *context, fetch_type fetch, take_type take, void *user);
static void run(context_type *context)
{
    const void *rows[COUNT];
    while (context->at < 99 && schedule[context->at] >= 3) {
        const uint32_t number = schedule[context->at++];
        edgetool_fire(&tables, number - 3, &context->done[number], context->arena, rows);
    }
}
int feed_row(context_type *context, const int8_t *row)
{
    if (context == NULL || row == NULL) {
        return 1;
    }
    if (context->arena == NULL || context->at >= 99 || schedule[context->at] != 0) {
        return 4;
    }
    memcpy(edgetool_cell(&tables, context->arena, 0, context->done[0]), row, 30);
    context->done[0]++;
    context->at++;
    run(context);
    return 0;
}
int invoke_rows(context_type *context, fetch_type fetch, take_type take, void *user)
{
    int result = 0;
    context->at = 0;
    memset(context->done, 0, sizeof context->done);
    run(context);
    while (result == 0 && context->at < 99) {
        switch (schedule[context->at]) {
        case 0:
            result = feed_row(context, (const int8_t *)fetch(user, 0, context->done[0]));
            break;
        case 1:
            take(user, 0, context->done[1], edgetool_cell(&tables, context->arena, 1, context->done[1]));
            context->done[1]++;
            context->at++;
            run(context);
            break;
        case 2:
            take(user, 1, context->done[2], edgetool_cell(&tables, context->arena, 2, context->done[2]));
            context->done[2]++;
            context->at++;
            run(context);
            break;
        default:
            result = 4;
            break;
        }
    }
    return result;
}
"""
_SOURCES = {INVOKE: INVOKE_SOURCE, INVOKE_ROWS: INVOKE_ROWS_SOURCE}
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


def invoke_row(core: str, level: str, name: str) -> StackRow:
    """Return the frames of NAME_invoke or NAME_invoke_rows without its table, whatever padding the table needs."""
    frames = []
    for count in range(1, 5):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "invoke.c"
            source.write_text(_SOURCES[name].replace("COUNT", str(count)))
            compiler, *flags = COMPILERS[core]
            command = [compiler, *flags, level, "-std=c99", "-fstack-usage", "-fcallgraph-info=su", f"-I{KERNELS}"]
            subprocess.run([*command, "-c", str(source), "-o", f"{folder}/unit.o"], check=True, cwd=folder)
            matches = re.findall(r"\t(\d+)\tstatic", (Path(folder) / "unit.su").read_text())
            assert matches
            frames.append(sum(map(int, matches)) - 4 * count)
    return StackRow(version(COMPILERS[core][0]), core, level, name, max(frames))


def table() -> list[StackRow]:
    """Return the bounds of every kernel, of what calls them, and of NAME_invoke, for every core and level."""
    sources = sorted(KERNELS.glob("*.c"))
    return [
        row
        for core in COMPILERS
        for level in LEVELS
        for row in (*(invoke_row(core, level, name) for name in _SOURCES), *measure(core, level, sources))
    ]


def write(rows: list[StackRow]) -> None:
    """Write the table of the package."""
    with TABLE.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["compiler", "core", "level", "function", "stack_bytes"])
        writer.writerows([[row.compiler, row.core, row.level, row.function, row.stack_bytes] for row in rows])


if __name__ == "__main__":
    write(table())
