"""The flash that native code takes besides its constants: for a named compiler, core and optimization level.

Kernels and what calls them are the same in every program, so that their sizes are data (sizes.csv, by
benchmarks/native/sizes.py), and so are the functions of libgcc and the C library that they need, which a program has
once. The tables of NAME.c are counted; its functions are those of the template, and their sizes are measured, too: of
the functions of a plan, and what each input, output, variable tensor and ring adds to them. They depend a little on the
numbers in them, which is the error.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from edgetool.codegen.native.emit import descriptor_bytes, program_table_bytes, state_tensors
from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.plan import NativeMemory
from edgetool.codegen.native.row_tables import RowTables
from edgetool.codegen.templates import read_file

RUN, RUN_SEVERAL = "edgetool_run", "edgetool_run_several"
ROWS, ROWS_SEVERAL = "edgetool_rows", "edgetool_rows_several"
LIBRARY = "library"  # instead of a level: libraries are built already
MOST_HANDED = 2  # inputs or outputs that are handed over by rows; more of them are taken to add as much as the second
# The largest offset of each class, in which the code that adds it has the same size on most cores.
OFFSETS = (0, 31, 255, 2047, 4095, 65535, 2**32 - 1)
CONSTANT = -1  # instead of an offset: the output is a constant
# At least the largest differences from the objects of whole programs (benchmarks/native/measured/code.csv): for all of
# them, and in addition for each input and output that is handed over by rows, and for each variable tensor, because
# compilers copy a few bytes without memcpy.
ERROR_BYTES, HANDED_ERROR_BYTES, STATE_ERROR_BYTES = 32, 64, 48


@dataclass(frozen=True, slots=True)
class NativeCode:
    """The code of a program if this compiler builds it at this level.

    code_bytes: kernels, what calls them, and NAME.c with its tables. library_bytes: what they need of libraries, from
    the members with the names `library`. error_bytes: how far the objects of a compiler may be off.
    """

    compiler: str
    core: str
    level: str
    code_bytes: int
    library_bytes: int
    error_bytes: int
    library: tuple[str, ...] = ()

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.code_bytes + self.library_bytes


@dataclass(frozen=True, slots=True)
class _Item:
    """A part of the code: its bytes, and the members of libraries that it needs."""

    size_bytes: int
    needs: tuple[str, ...]


@cache
def _table() -> dict[tuple[str, str, str], dict[str, _Item]]:
    """Return the measured parts by compiler, core and level."""
    table: dict[tuple[str, str, str], dict[str, _Item]] = {}
    for row in csv.DictReader(read_file("native/sizes.csv").splitlines()):
        key = row["compiler"], row["core"], row["level"]
        table.setdefault(key, {})[row["part"]] = _Item(int(row["bytes"]), tuple(row["needs"].split()))
    return table


def tensors_code(program: NativeProgram, memory: NativeMemory, core: str) -> tuple[NativeCode, ...]:
    """Return the code of a plan of tensors, at each level that was measured for the core; none if none was."""
    parts = Counter({"tensors" if program.steps else "no steps": 1, RUN: 1})
    parts += _accessors(program, memory.tensors) + _states(program, memory.tensors)
    return _codes(program, program_table_bytes(program, memory), parts, core)


def rows_code(program: NativeProgram, tables: RowTables, core: str) -> tuple[NativeCode, ...]:
    """Return the code of a plan of rows, at each level that was measured for the core; none if none was."""
    fed, taken = ([item.position for item in handed] for handed in (tables.feeds, tables.takes))
    parts = Counter({ROWS: 1}) + handing_parts(len(fed), len(taken), is_stream=program.stream is not None)
    parts += _accessors(program, tables.offsets, fed, taken)
    if program.stream is None:
        parts += _states(program, tables.offsets)
    else:
        parts["ring"] += len(program.stream.rings)
    return _codes(program, tables.bytes, parts, core, handed=len(fed) + len(taken))


def kernels_bytes(program: NativeProgram, core: str, *, row_wise: bool = False) -> int | None:
    """Return the bytes of the kernels and of what calls them, in several memories, at -O2; None if none were measured.

    The functions of libraries that they call are not among them. row_wise: with a plan of rows.
    """
    parts = {*program.kernels, *([ROWS_SEVERAL if row_wise else RUN_SEVERAL] if program.steps else [])}
    for (_, name, level), measured in _table().items():
        if name == core and level == "-O2" and parts <= measured.keys():
            return sum(measured[part].size_bytes for part in parts)
    return None


def handing_parts(fed: int, taken: int, *, is_stream: bool) -> Counter[str]:
    """Return the parts of NAME.c for inputs that are fed and outputs that are taken by rows."""
    kind = "stream" if is_stream else "rows"
    few = min(fed, MOST_HANDED), min(taken, MOST_HANDED)
    parts = Counter({f"{kind} {few[0]} {few[1]}": 1})
    parts["row input"] += fed - few[0]
    parts["row output"] += taken - few[1]
    return +parts


def offset_part(what: str, offset: int) -> str:
    """Return the part of NAME.c that returns the address of an input or output."""
    return f"{what} {CONSTANT if offset < 0 else next(limit for limit in OFFSETS if offset <= limit)}"


def _accessors(
    program: NativeProgram, offsets: Mapping[int, int], fed: Collection[int] = (), taken: Collection[int] = ()
) -> Counter[str]:
    """Return the parts for the inputs and outputs that are not handed over by rows."""

    def places(what: str, tensors: Sequence[int], without: Collection[int]) -> list[str]:
        chosen = (program.places[index] for position, index in enumerate(tensors) if position not in without)
        return [
            offset_part(what, CONSTANT if place.constant is not None else offsets[place.root] + place.offset)
            for place in chosen
        ]

    graph = program.graph
    return Counter([*places("input", graph.inputs, fed), *places("output", graph.outputs, taken)])


def _states(program: NativeProgram, offsets: Mapping[int, int]) -> Counter[str]:
    """Return the parts that set variable tensors."""
    states = state_tensors(program) & offsets.keys()
    kinds = ["initial state" if root in program.initial else "state" for root in states]
    return Counter([*kinds, *(["reset"] if kinds else [])])


def _codes(
    program: NativeProgram, table_bytes: int, parts: Counter[str], core: str, handed: int = 0
) -> tuple[NativeCode, ...]:
    parts.update(dict.fromkeys(program.kernels, 1))
    tables = descriptor_bytes(program) + table_bytes
    states = parts["state"] + parts["initial state"]
    error = ERROR_BYTES + HANDED_ERROR_BYTES * handed + STATE_ERROR_BYTES * states
    codes = []
    for (compiler, name, level), measured in _table().items():
        if name != core or level == LIBRARY:
            continue
        library = _table().get((compiler, name, LIBRARY), {})
        code = sum(measured[part].size_bytes * count for part, count in parts.items())
        needs = sorted({need for part in parts for need in measured[part].needs})
        size = sum(library[need].size_bytes for need in needs)
        codes.append(NativeCode(compiler, name, level, tables + code, size, error, tuple(needs)))
    return tuple(codes)
