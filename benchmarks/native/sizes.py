"""Flash and RAM of native programs, as a cross compiler builds them: code and tables, constants, and the arena.

The table of the package (codegen/native/sizes.csv) has the bytes of each part of a program, for each core and level: of
each kernel, of what calls kernels, and of the functions of NAME.c. The latter are those of the template with other
contents: what a part adds is the difference between two of them. With each part it has the members of libgcc and of the
compiler's C library that the linker adds for it, whose sizes are in the rows of LIBRARY.

    python -m benchmarks.native.sizes
"""

from __future__ import annotations

import csv
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from benchmarks.native.stack import COMPILERS, KERNELS, LEVELS, version

from edgetool.archive.ar import read_members
from edgetool.archive.elf import SHT_ARM_EXIDX, ObjectFile, Section, read_object
from edgetool.archive.link import CANNOT_UNWIND, Linker
from edgetool.codegen.native.code_size import CONSTANT, LIBRARY, MOST_HANDED, OFFSETS, offset_part
from edgetool.codegen.native.row_tables import null_text, order_text
from edgetool.codegen.templates import TemplateValue, fill

TABLE = KERNELS.parent / "sizes.csv"
# Kernels may use these, and nothing else that they do not define themselves.
ALLOWED = frozenset({"memcpy", "memset", "memmove"})
COMPILER_HELPERS = ("__aeabi_", "__udiv", "__div", "__mul", "__mod", "__umod", "__ashl", "__lshr", "__ashr", "__gnu_")
OPTIONS = ("-std=c99", "-ffunction-sections", "-fdata-sections")
# Numbers in NAME.c that are not those of a part: like those of most models.
ARENA_BYTES, FIRINGS, OPERATORS, ROW_BYTES, HOP_BYTES, STATE_BYTES, TABLE_ROWS = 20_044, 1000, 30, 96, 96, 200, 9
SAMPLE_OFFSETS = (0, 16, 192, 1040, 3088, 20_040, 300_040)  # one of each class of OFFSETS
BASE = "context->arena"
SHARED = ".ARM.exidx"
HEADER = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#define NET_ARENA_BYTES %(arena)d
#define NET_ARENA_ALIGNMENT 4
#define NET_WINDOW_HOPS 20
#define NET_INPUT_COUNT %(inputs)d
#define NET_OUTPUT_COUNT %(outputs)d
%(rows)s
typedef struct { uint8_t *arena; %(fields)s } net_context;
typedef enum { net_ok, net_error_null, net_error_alignment, net_error_memory, net_error_order } net_result;
typedef const void *(*net_fetch)(void *user, uint32_t input, uint32_t row);
typedef void (*net_take)(void *user, uint32_t output, uint32_t row, const void *elements);
extern const uint8_t net_data[];
net_result net_reset(net_context *context);
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a program takes: code_bytes counts functions and tables, constants_bytes the arrays of NAME_weights.c.

    writable_bytes: .data and .bss, which must be 0. undefined: the external functions.
    """

    code_bytes: int
    constants_bytes: int
    writable_bytes: int
    undefined: frozenset[str]


@dataclass(frozen=True, slots=True)
class PartRow:
    """A part of a program: its bytes, and the members of libraries that it needs."""

    compiler: str
    core: str
    level: str
    part: str
    bytes: int
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Functions:
    """Contents of NAME.c: a plan of tensors or rows, and how many of each kind it has, at the offsets of these."""

    is_row_wise: bool = False
    is_stream: bool = False
    steps: int = 1
    fed: int = 0
    taken: int = 0
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    states: int = 0
    initial_states: int = 0
    rings: int = 0


def measure(name: str, files: Mapping[str, bytes], core: str, level: str) -> Sizes:
    """Compile the files of a program and return its sizes."""
    with tempfile.TemporaryDirectory() as folder:
        objects = compiled(files, Path(folder), core, level)
        prefix = COMPILERS[core][0].removesuffix("gcc")
        weights = f"{name}_weights.o"
        text = {item: _sections(prefix, Path(folder), item) for item in objects}
        defined, undefined = _symbols(prefix, Path(folder), objects)
    return Sizes(
        code_bytes=sum(size for item, (size, _) in text.items() if item != weights),
        constants_bytes=text[weights][0] if weights in text else 0,
        writable_bytes=sum(size for _, size in text.values()),
        undefined=frozenset(undefined - defined),
    )


def compiled(files: Mapping[str, bytes], folder: Path, core: str, level: str) -> list[str]:
    """Write the files to a folder, compile the C files but programs, and return the names of the object files."""
    for file, data in files.items():
        (folder / file).write_bytes(data)
    sources = [file for file in files if file.endswith(".c") and file not in ("main.c", "run.c")]
    subprocess.run([*COMPILERS[core], level, *OPTIONS, f"-I{KERNELS}", "-c", *sources], check=True, cwd=folder)
    return [f"{Path(file).stem}.o" for file in sources]


def linked_bytes(objects: Iterable[str], folder: Path, core: str) -> int:
    """Return the bytes in flash of object files with what they need of libraries, all of it kept, without start-up."""
    compiler, *flags = COMPILERS[core]
    link = [
        compiler,
        *flags,
        "-nostartfiles",
        "-static",
        "-Wl,--no-gc-sections",
        "-Wl,--entry=0",
        "-o",
        "program.elf",
        *objects,
    ]
    subprocess.run(link, check=True, cwd=folder)
    return _sections(compiler.removesuffix("gcc"), folder, "program.elf")[0]


def _sections(prefix: str, folder: Path, item: str) -> tuple[int, int]:
    """Return the bytes in flash and in RAM of an object file."""
    output = subprocess.run([f"{prefix}size", item], cwd=folder, capture_output=True, text=True, check=True).stdout
    text, data, bss = map(int, output.splitlines()[1].split()[:3])
    return text + data, data + bss


def _symbols(prefix: str, folder: Path, objects: list[str]) -> tuple[set[str], set[str]]:
    """Return the defined and the undefined symbols of object files."""
    output = subprocess.run([f"{prefix}nm", *objects], cwd=folder, capture_output=True, text=True, check=True).stdout
    defined, undefined = set(), set()
    for line in output.splitlines():
        parts = line.split()
        if len(parts) == 2 and parts[0] == "U":
            undefined.add(parts[1])
        elif len(parts) == 3:
            defined.add(parts[2])
    return defined, undefined


def foreign(sizes: Sizes) -> frozenset[str]:
    """Return the external functions that generated code must not need."""
    return frozenset(name for name in sizes.undefined if name not in ALLOWED and not name.startswith(COMPILER_HELPERS))


def functions_files(contents: Functions) -> dict[str, bytes]:
    """Return net.c with these contents, without its tables, and the headers that it includes."""
    handed = range(contents.fed + contents.taken)
    count = {"arena": ARENA_BYTES, "inputs": contents.fed + len(contents.inputs)}
    count["outputs"] = contents.taken + len(contents.outputs)
    rows = [f"#define NET_{kind}_{i}_ROWS 96" for kind in ("INPUT", "OUTPUT") for i in handed]
    fields = f"uint32_t at; uint32_t missing; uint16_t done[{OPERATORS}];" if contents.is_row_wise else ""
    header = HEADER % {**count, "rows": "\n".join(rows), "fields": fields}
    kind = "edgetool_row_tables" if contents.is_row_wise else "edgetool_program"
    is_handed = bool(handed)
    source = fill(
        "native/model/model.c",
        **_accessor_values(contents),
        my_model="net",
        MY_MODEL="NET",
        MY_TABLES=f"extern const {kind} net_tables;",
        MY_KERNELS=[],
        MY_PLACED=False,
        MY_MEMORIES=[],
        MY_TRANSFERS=False,
        MY_ARENA=True,
        MY_STEPS=contents.steps,
        MY_ROWS=TABLE_ROWS,
        MY_ROWWISE=contents.is_row_wise,
        MY_NULLTEXT=null_text(is_handed=is_handed, is_placed=False),
        MY_ORDERTEXT=order_text(is_stream=contents.is_stream, is_fed=bool(contents.fed), is_taken=bool(contents.taken)),
        MY_HANDED=is_handed,
        MY_ROWINPUT=bool(contents.fed),
        MY_ROWOUTPUT=bool(contents.taken),
        MY_START="begin" if is_handed else "invoke",
        MY_FIRINGS=FIRINGS,
        MY_HANDEDCOUNT=len(handed),
        MY_FEDCOUNT=contents.fed,
        MY_TAKENCOUNT=contents.taken,
        MY_FEDPOSITIONS=", ".join(map(str, range(contents.fed))),
        MY_TAKENPOSITIONS=", ".join(map(str, range(contents.taken))),
        MY_FEDS=[
            {**_handed(i), "MY_FEEDNUMBER": i, "MY_FIRST": 16 if contents.is_stream else 0} for i in range(contents.fed)
        ],
        MY_TAKES=[{**_handed(i), "MY_TAKENUMBER": contents.fed + i} for i in range(contents.taken)],
        MY_INCREMENTAL=contents.is_stream,
        my_fire="edgetool_fire",
        my_cell="edgetool_cell",
        MY_RINGS=[
            {"my_base": BASE, "MY_RINGOFFSET": offset, "MY_KEPTBYTES": 10 * HOP_BYTES, "MY_HOPBYTES": HOP_BYTES}
            for offset in _apart(contents.rings)
        ],
    )
    return {"net.h": header.encode(), "net_weights.h": b"\n", "net.c": source.encode()}


def _handed(position: int) -> dict[str, TemplateValue]:
    return {"my_position": position, "my_type": "int8_t", "MY_TENSOR": 3 + position, "MY_ROWBYTES": ROW_BYTES}


def _apart(count: int) -> list[int]:
    return [SAMPLE_OFFSETS[4] + 1000 * i for i in range(count)]


def _accessor_values(contents: Functions) -> dict[str, TemplateValue]:
    states = contents.states + contents.initial_states
    return {
        "MY_STATE": bool(states),
        "MY_STATES": [
            {
                "my_base": BASE,
                "MY_STATEOFFSET": offset,
                "MY_STATEVALUE": 0,
                "MY_STATEBYTES": STATE_BYTES,
                "MY_INITIAL": i >= contents.states,
                "my_initial": "net_data",
            }
            for i, offset in enumerate(_apart(states))
        ],
        "MY_INPUTS": [
            {"my_position": contents.fed + i, "my_type": "int8_t", "my_base": BASE, "MY_OFFSET": offset}
            for i, offset in enumerate(contents.inputs)
        ],
        "MY_OUTPUTS": [
            {
                "my_position": contents.taken + i,
                "my_type": "int8_t",
                "my_base": BASE,
                "MY_OFFSET": offset,
                "MY_CONSTANT": offset == CONSTANT,
                "my_array": "(const int8_t *)(const void *)net_data",
            }
            for i, offset in enumerate(contents.outputs)
        ],
    }


def functions_rows(core: str, level: str) -> Iterator[PartRow]:
    """Yield what the parts of NAME.c take."""
    name = version(COMPILERS[core][0])

    def row(part: str, more: Functions, less: Functions | None = None) -> PartRow:
        sizes = _functions_sizes(more, core, level)
        size = sizes.code_bytes - (0 if less is None else _functions_sizes(less, core, level).code_bytes)
        return PartRow(name, core, level, part, size, needs(sizes.undefined, core))

    plain, rows = Functions(), Functions(is_row_wise=True)
    yield row("tensors", plain)
    yield row("no steps", replace(plain, steps=0))
    for limit, offset in zip(OFFSETS, SAMPLE_OFFSETS, strict=True):
        yield row(offset_part("input", limit), replace(plain, inputs=(offset,)), plain)
        yield row(offset_part("output", limit), replace(plain, outputs=(offset,)), plain)
    yield row(offset_part("output", CONSTANT), replace(plain, outputs=(CONSTANT,)), plain)
    # A reset with one state is a reset and a state.
    one, two = replace(plain, states=1), replace(plain, states=2)
    state, both = row("state", two, one), row("reset", one, plain)
    yield state
    yield replace(both, bytes=both.bytes - state.bytes, needs="")
    yield row("initial state", replace(one, initial_states=1), one)
    counts = range(MOST_HANDED + 1)
    for fed, taken in ((fed, taken) for fed in counts for taken in counts):
        yield row(f"rows {fed} {taken}", replace(rows, fed=fed, taken=taken))
        if fed:
            stream = replace(rows, is_stream=True, fed=fed, taken=taken)
            ring, rings = replace(stream, rings=1), replace(stream, rings=2)
            first = row(f"stream {fed} {taken}", ring)
            yield replace(first, bytes=first.bytes - row("ring", rings, ring).bytes)
    ring = replace(rows, is_stream=True, fed=1, rings=1)
    yield row("ring", replace(ring, rings=2), ring)
    most = replace(rows, fed=MOST_HANDED, taken=MOST_HANDED)
    yield row("row input", most, replace(most, fed=MOST_HANDED - 1))
    yield row("row output", most, replace(most, taken=MOST_HANDED - 1))


@cache
def _functions_sizes(contents: Functions, core: str, level: str) -> Sizes:
    return measure("net", functions_files(contents), core, level)


def kernel_rows(core: str, level: str) -> Iterator[PartRow]:
    """Yield what each C file of the kernels takes."""
    compiler = COMPILERS[core][0]
    prefix, name = compiler.removesuffix("gcc"), version(compiler)
    with tempfile.TemporaryDirectory() as folder:
        files = {path.name: path.read_bytes() for path in sorted(KERNELS.glob("*.c"))}
        for item in compiled(files, Path(folder), core, level):
            _, undefined = _symbols(prefix, Path(folder), [item])
            size, _ = _sections(prefix, Path(folder), item)
            yield PartRow(name, core, level, Path(item).stem, size, needs(frozenset(undefined), core))


@cache
def needs(symbols: frozenset[str], core: str) -> str:
    """Return the members of libraries that symbols need, which are not those of kernels and tables."""
    wanted = sorted(name for name in symbols if not name.startswith(("edgetool_", "net_")))
    linked = _linker(core).link(wanted)
    if linked.undefined:
        raise ValueError(f"{core}: libraries do not define {', '.join(sorted(linked.undefined))}")
    kept = ((file, section) for file, section in linked.sections if section.is_in_flash)
    return " ".join(sorted({SHARED if _is_shared(file, section) else file.name for file, section in kept}))


def library_rows(core: str, members: Iterable[str]) -> Iterator[PartRow]:
    """Yield what members of libraries take."""
    name = version(COMPILERS[core][0])
    files = {file.name: file for file in _linker(core).files}
    for member in members:
        if member == SHARED:
            yield PartRow(name, core, LIBRARY, member, len(CANNOT_UNWIND) + 4)
            continue
        file = files[member]
        own = [each for each in file.sections.values() if each.is_in_flash and not _is_shared(file, each)]
        yield PartRow(name, core, LIBRARY, member, sum(-(-each.size_bytes // 4) * 4 for each in own))


def _is_shared(file: ObjectFile, section: Section) -> bool:
    """Return whether a section is the entry that says of all functions without unwinding that they have none."""
    return section.kind == SHT_ARM_EXIDX and file.contents(section)[4:] == CANNOT_UNWIND


@cache
def _linker(core: str) -> Linker:
    """Return the libraries that the compiler links for a core, in their order."""
    compiler, *flags = COMPILERS[core]
    with tempfile.TemporaryDirectory() as folder:
        link = [compiler, *flags, "-nostartfiles", "-static", "-Wl,--entry=0", "-Wl,--undefined=memcpy", "-Wl,--trace"]
        command = [*link, "-Wl,--undefined=__muldi3", "-Wl,--undefined=__clzsi2", "-o", f"{folder}/program.elf"]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    paths = [Path(path) for path in dict.fromkeys(re.findall(r"^\(?(/\S+\.a)\b", output, re.MULTILINE))]
    files = []
    for path in sorted(paths, key=lambda path: path.name != "libgcc.a"):
        members = read_members(path.read_bytes(), path.name)
        files += [read_object(member.data, f"{path.name}({member.name})") for member in members]
    return Linker(files)


def table() -> Iterator[PartRow]:
    """Yield the parts of programs for every core and level, and what the libraries add for each core."""
    for core in COMPILERS:
        rows = [row for level in LEVELS for row in (*kernel_rows(core, level), *functions_rows(core, level))]
        yield from rows
        yield from library_rows(core, sorted({member for row in rows for member in row.needs.split()}))


def write(rows: Iterable[PartRow]) -> None:
    """Write the table of the package."""
    with TABLE.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(PartRow.__slots__)
        writer.writerows([getattr(row, name) for name in PartRow.__slots__] for row in rows)


if __name__ == "__main__":
    write(table())
