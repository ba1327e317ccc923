"""The C files of a native program: tables, weights and calls. The kernels are copied as they are.

NAME.c contains the descriptors and the steps, NAME_weights.c every array of constants, NAME_weights.h their
declarations. All constants are little-endian.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgetool.codegen import c_names, quantizers
from edgetool.codegen.memories import PlacedMemory
from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.plan import ALIGNMENT, NativeMemory
from edgetool.codegen.native.program import (
    LIMITS,
    POINTER_BYTES,
    Constant,
    Descriptor,
    FieldValue,
    RowInput,
    Step,
    describe,
    struct_bytes,
)
from edgetool.codegen.templates import TemplateValue, fill, read_file
from edgetool.memory.problem import ArenaPart, place_in_parts
from edgetool.model.types import DType, Tensor
from edgetool.operators.call import zero_point

SPDX = "/* SPDX-License-Identifier: 0BSD */\n"
ELEMENT_TYPES = {
    "int8_t": "i1",
    "uint8_t": "u1",
    "int16_t": "<i2",
    "uint16_t": "<u2",
    "int32_t": "<i4",
    "uint32_t": "<u4",
    "int64_t": "<i8",
    "uint64_t": "<u8",
    "float": "<f4",
    "edgetool_scale": "<u4",
}
# The tables of a plan of tensors, and the bytes of their structs on a core of 32 bits (edgetool_native.h).
TABLE_BYTES = {"kernels": POINTER_BYTES, "shapes": 8, "patterns": 16, "inputs": 8, "steps": 24}
PROGRAM_BYTES = 24
MAX_COLUMN = 110
ARENA_SHIFT = 28  # EDGETOOL_ARENA_SHIFT
NULL_TEXT = "the context or the memory"
_INCLUDE = re.compile(r'#include "(\w+\.[ch])"')


@dataclass(frozen=True, slots=True)
class Arrays:
    """The constants of a program, each once, with their names in C."""

    names: dict[tuple[str, bytes], str]
    constants: tuple[Constant, ...]

    def name(self, constant: Constant) -> str:
        """Return the array's name."""
        return self.names[constant.c_type, constant.data]

    @property
    def total_bytes(self) -> int:
        """The size of all arrays without padding."""
        return sum(len(constant.data) for constant in self.constants)


def arrays_of(name: str, program: NativeProgram) -> Arrays:
    """Return the constants that the steps and the outputs of a program refer to, in order of first use."""
    found: dict[tuple[str, bytes], Constant] = {}
    for step in program.steps:
        for _, value in step.op.values if step.block is None else ():
            if isinstance(value, Constant):
                found.setdefault((value.c_type, value.data), value)
        for item in step.inputs:
            constant = constant_input(program, item)
            if constant is not None:
                found.setdefault((constant.c_type, constant.data), constant)
    for index in program.graph.outputs:
        constant = program.places[index].constant
        if constant is not None:
            found.setdefault((constant.c_type, constant.data), constant)
    for constant in program.initial.values():
        found.setdefault((constant.c_type, constant.data), constant)
    names = {key: f"{name}_data_{number}" for number, key in enumerate(found)}
    return Arrays(names, tuple(found.values()))


def constant_input(program: NativeProgram, item: RowInput) -> Constant | None:
    """Return the constant that an input of a step is; None if it is in the arena."""
    return item.source if isinstance(item.source, Constant) else program.places[item.source].constant


def weights_source(name: str, arrays: Arrays, section: str | None = None) -> str:
    """Return the text of NAME_weights.c. section: that of the arrays; None for the compiler's own."""
    parts = [SPDX, f'#include "{name}_weights.h"\n']
    attribute = ""
    if section is not None:
        macro = f"{c_names.model_macro(name)}_CONSTANTS_SECTION"
        parts.append(f'\n#ifndef {macro}\n#define {macro} __attribute__((section("{section}")))\n#endif\n')
        attribute = f"{macro} "
    for constant in arrays.constants:
        parts.append(f"\n/* {c_names.comment_text(constant.what)} */\n")
        array = f"const {constant.c_type} {arrays.name(constant)}[{_count(constant)}]"
        parts.append(f"{attribute}{array} = {{\n{_elements(constant)}}};\n")
    return "".join(parts)


def weights_header(name: str, arrays: Arrays, *, shared: Sequence[str] = ()) -> str:
    """Return the text of NAME_weights.h.

    shared: declarations of the tables in NAME.c that another file uses.
    """
    guard = f"EDGETOOL_WEIGHTS_{c_names.model_macro(name)}"
    lines = [f"extern const {item.c_type} {arrays.name(item)}[{_count(item)}];\n" for item in arrays.constants]
    lines += [f"extern const {declaration};\n" for declaration in shared]
    runtime = "edgetool_rows.h" if any("edgetool_row_tables" in item for item in shared) else "edgetool_native.h"
    return "".join(
        [
            SPDX,
            f"#ifndef {guard}\n#define {guard}\n\n",
            f'#include "{runtime}"\n\n#ifdef __cplusplus\nextern "C" {{\n#endif\n\n',
            *lines,
            "\n#ifdef __cplusplus\n}\n#endif\n\n",
            f"#endif /* {guard} */\n",
        ]
    )


def _count(constant: Constant) -> int:
    return max(1, len(constant.data) // _width(constant))


def _width(constant: Constant) -> int:
    return 12 if constant.c_type == "edgetool_scale" else np.dtype(ELEMENT_TYPES[constant.c_type]).itemsize


def _elements(constant: Constant) -> str:
    """Return the elements as lines of C."""
    values = np.frombuffer(constant.data, ELEMENT_TYPES[constant.c_type])
    if not values.size:
        return "    0\n"
    if constant.c_type == "edgetool_scale":
        rows = values.reshape(-1, 3).tolist()
        return "".join(f"    {{{_literal('int32_t', a)}, {b}U, {_literal('int32_t', c)}}},\n" for a, b, c in rows)
    return wrapped([_literal(constant.c_type, value) for value in values.tolist()])


def _literal(c_type: str, value: float) -> str:
    """Return a number in C; the lowest number of a type has no literal of its own."""
    if c_type == "float":
        return c_float(value)
    number = int(value)
    if c_type == "int32_t" and number >= 2**31:
        number -= 2**32
    if number == LIMITS["int32_t"][0]:
        return "(-2147483647 - 1)"
    if number == LIMITS["int64_t"][0]:
        return "(-INT64_C(9223372036854775807) - 1)"
    if c_type in ("uint32_t", "uint64_t"):
        return f"UINT64_C({number})" if number >= 2**32 else f"{number}U"
    return f"INT64_C({number})" if c_type == "int64_t" and abs(number) >= 2**31 else str(number)


def c_float(value: float) -> str:
    """Return a float32 in C; infinities and NaN, which have no literal, as expressions."""
    if value != value:
        return "(0.0f / 0.0f)"
    if value in (float("inf"), float("-inf")):
        return "(1e38f * 10.0f)" if value > 0 else "(-1e38f * 10.0f)"
    digits = f"{value:.9g}"
    return f"{digits}f" if any(mark in digits for mark in ".e") else f"{digits}.0f"


def wrapped(items: Sequence[str]) -> str:
    """Return items of an array in C as lines."""
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > MAX_COLUMN:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([*lines, line]) + "\n"


class _Table:
    """The rows of a table in C, equal ones only once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._starts: dict[tuple[str, ...], int] = {}
        self._rows: list[str] = []

    def place(self, *rows: str) -> int:
        """Return the place of rows that follow each other."""
        if rows not in self._starts:
            self._starts[rows] = len(self._rows)
            self._rows += rows
        return self._starts[rows]

    def text(self, c_type: str) -> str:
        """Return the table in C."""
        lines = "".join(f"    {row},\n" for row in self._rows)
        return f"static const {c_type} {self.name}[{len(self._rows)}] = {{\n{lines}}};\n\n" if self._rows else ""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def pointer(self) -> str:
        """The table's address in C."""
        return self.name if self._rows else "NULL"


def _row(*fields: int | str) -> str:
    """Return a struct in C."""
    return f"{{{', '.join(map(str, fields))}}}"


def program_tables(
    name: str,
    program: NativeProgram,
    memory: NativeMemory,
    arrays: Arrays,
    *,
    shared: bool = False,
    parts: Sequence[PlacedMemory] = (),
) -> str:
    """Return the descriptors, the tables and the program of NAME.c.

    shared: whether another file uses the program. parts: the memories of the arena's parts.
    """
    if not program.steps:
        return ""
    tables = _filled_tables(name, program, memory, arrays)
    texts = [
        descriptor(
            f"{name}_op_{position}",
            step,
            memory.fields.get(position),
            arrays,
            _in_block(name, program, memory, step, parts),
        )
        for position, step in enumerate(program.steps)
    ]
    texts += [table.text(f"edgetool_{table.name.removeprefix(f'{name}_').removesuffix('s')}") for table in tables]
    fields = [*(table.pointer for table in tables), str(len(tables[-1]))]
    linkage = "" if shared else "static "
    texts.append(f"{linkage}const edgetool_program {name}_tables = {{\n{wrapped(fields)}}};\n")
    return "".join(texts)


def program_table_bytes(program: NativeProgram, memory: NativeMemory) -> int:
    """Return the size of the tables of a plan of tensors on a core of 32 bits, without the descriptors."""
    if not program.steps:
        return 0
    tables = _filled_tables("model", program, memory, arrays_of("model", program))
    return PROGRAM_BYTES + sum(len(table) * size for table, size in zip(tables, TABLE_BYTES.values(), strict=True))


def descriptor_bytes(program: NativeProgram) -> int:
    """Return the size of the descriptors of all steps on a core of 32 bits."""
    return sum(struct_bytes(_op(step).struct) for step in program.steps)


def cache_line_bytes(program: NativeProgram) -> int:
    """Return the lines of the data cache that transfers must respect; 0 if there are none."""
    alignments = (step.block.alignment for step in program.steps if step.block is not None)
    line = max(alignments, default=ALIGNMENT) if program.has_transfers else ALIGNMENT
    return line if line > ALIGNMENT else 0


def _op(step: Step) -> Descriptor:
    """Return the descriptor of a step; that of a copy which the firmware makes has only its size."""
    return step.op if step.begins is None else describe("edgetool_transfer", bytes=step.output_bytes)


def _filled_tables(name: str, program: NativeProgram, memory: NativeMemory, arrays: Arrays) -> list[_Table]:
    """Return the tables of a program in the order of TABLE_BYTES."""
    kernels, shapes, patterns, inputs, steps = tables = [_Table(f"{name}_{what}") for what in TABLE_BYTES]

    def place(position: int, step: Step, kernel: str) -> None:
        rows: list[str] = []
        for item in step.inputs:
            data, offset = _data_and_offset(program, memory, arrays, item)
            geometry = (item.taps, item.stride, item.dilation, item.pad, item.divisor)
            shape = shapes.place(_row(item.row_bytes, item.rows))
            rows.append(_row(offset, shape, patterns.place(_row(data, *geometry))))
        rows += [_row(_in_table(memory, _arena_offset(program, memory, state)), 0, 0) for state in step.states]
        offset = _in_table(memory, _arena_offset(program, memory, step.output) + step.output_offset)
        scratch = _in_table(memory, memory.scratch.get(position, 0))
        shape = shapes.place(_row(0 if step.accumulates else step.row_bytes, step.rows))
        numbers = (
            offset, scratch, shape, inputs.place(*rows), len(step.inputs), step.batches,
            step.band, kernels.place(kernel), len(step.states),
        )  # fmt: skip
        steps.place(_row(f"&{name}_op_{position}", *numbers))

    beginning = {step.begins: position for position, step in enumerate(program.steps) if step.begins is not None}
    for position, step in enumerate(program.steps):
        if position in beginning:
            place(beginning[position], program.steps[beginning[position]], f"{name}_begin")
        place(position, step, step.kernel if step.begins is None else f"{name}_wait")
    return tables


def descriptor(
    name: str, step: Step, field: str | None, arrays: Arrays, in_block: Mapping[str, str] | None = None
) -> str:
    """Return the descriptor of a step in C. field: one that is set to 1. in_block: those with these values in C."""
    op = _op(step)
    given = in_block or {}
    values = [given[key] if key in given else _field(arrays, 1 if key == field else value) for key, value in op.values]
    return f"static const {op.struct} {name} = {{\n{wrapped(values)}}};\n\n"


def _in_block(
    name: str, program: NativeProgram, memory: NativeMemory, step: Step, parts: Sequence[PlacedMemory]
) -> dict[str, str]:
    """Return the addresses of a step's constants in the arena in C, by field; nothing if they are in flash."""
    if step.block is None:
        return {}
    number, start = memory.place_of(_arena_offset(program, memory, step.block.tensor))
    base, types = f"{name}_in_{parts[number].word.lower()}.bytes", dict(step.op.values)
    addresses = {}
    for field, offset in step.block.offsets:
        constant = types[field]
        assert isinstance(constant, Constant)
        addresses[field] = f"(const {constant.c_type} *)(const void *)({base} + {start + offset})"
    return addresses


def _field(arrays: Arrays, value: FieldValue) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, Constant):
        return arrays.name(value)
    if isinstance(value, tuple):
        return "{" + ", ".join(_field(arrays, item) for item in value) + "}"
    if isinstance(value, float):
        return c_float(value)
    return _literal("uint32_t" if value >= 2**31 else "int64_t", value)


def _data_and_offset(program: NativeProgram, memory: NativeMemory, arrays: Arrays, item: RowInput) -> tuple[str, int]:
    """Return the array of a constant input in C, or NULL for one in the arena, and where its rows are in it."""
    constant = constant_input(program, item)
    if constant is None:
        assert isinstance(item.source, int)
        return "NULL", _in_table(memory, _arena_offset(program, memory, item.source))
    return arrays.name(constant), 0 if isinstance(item.source, Constant) else program.places[item.source].offset


def _arena_offset(program: NativeProgram, memory: NativeMemory, tensor: int) -> int:
    place = program.places[tensor]
    return memory.tensors[place.root] + place.offset


def _in_table(memory: NativeMemory, offset: int) -> int:
    """Return an offset in the arena as the tables state it: with the number of the part in its upper bits."""
    number, start = memory.place_of(offset)
    return number << ARENA_SHIFT | start


def table_rows(program: NativeProgram) -> int:
    """Return the number of pointers to input rows that the largest band needs."""
    return max((step.band * sum(item.taps for item in step.inputs) for step in program.steps), default=0)


def kernel_files(program: NativeProgram, runtime: str = "edgetool_run") -> dict[str, bytes]:
    """Return the C files of the program's kernels, of what calls them, and of what they include, by name."""
    files: dict[str, bytes] = {}
    waiting = ["edgetool_native.h", f"{runtime}.c", *(f"{kernel}.c" for kernel in program.kernels)]
    if program.has_transfers:
        waiting.append("edgetool_transfer.h")
    while waiting:
        name = waiting.pop()
        if name in files:
            continue
        text = read_file(f"native/c/{name}")
        files[name] = text.encode("ascii")
        waiting += _INCLUDE.findall(text)
    return dict(sorted(files.items()))


def model_source(
    name: str,
    program: NativeProgram,
    memory: NativeMemory,
    arrays: Arrays,
    *,
    shared: bool = False,
    parts: Sequence[PlacedMemory] = (),
) -> str:
    """Return the text of NAME.c.

    shared: whether another file uses its program. parts: the memories of the arena's parts.
    """
    return fill(
        "native/model/model.c",
        MY_TABLES=program_tables(name, program, memory, arrays, shared=shared, parts=parts),
        MY_ROWWISE=False,
        MY_NULLTEXT="the context" if parts else NULL_TEXT,
        MY_ORDERTEXT="init must be called first",
        MY_INCREMENTAL=False,
        **source_values(name, program, memory.tensors, memory.arena_bytes, arrays, parts=memory.parts, memories=parts),
    )


def source_values(
    name: str,
    program: NativeProgram,
    offsets: Mapping[int, int],
    arena_bytes: int,
    arrays: Arrays,
    fed: Collection[int] = (),
    taken: Collection[int] = (),
    *,
    parts: Sequence[ArenaPart] = (),
    memories: Sequence[PlacedMemory] = (),
) -> dict[str, TemplateValue]:
    """Return what NAME.c has for plans of tensors and of rows.

    offsets: those of root tensors in the arena. fed, taken: the positions of inputs that are fed by rows, and of
    outputs that are taken by rows. parts, memories: those of an arena in several memories.
    """
    graph = program.graph
    inputs: list[dict[str, TemplateValue]] = []
    for position, index in enumerate(graph.inputs):
        if position in fed:
            continue
        base, offset = base_and_offset(parts, offsets[program.places[index].root] + program.places[index].offset)
        inputs.append(
            {
                "my_position": position,
                "my_type": io_type(graph.tensors[index]),
                "my_base": base,
                "MY_OFFSET": offset,
            }
        )
    outputs: list[dict[str, TemplateValue]] = []
    for position, index in enumerate(graph.outputs):
        if position in taken:
            continue
        place = program.places[index]
        constant = place.constant
        c_type = io_type(graph.tensors[index])
        array = "" if constant is None else f"(const {c_type} *)(const void *){arrays.name(constant)}"
        base, offset = base_and_offset(parts, 0 if constant is not None else offsets[place.root] + place.offset)
        outputs.append(
            {
                "my_position": position,
                "my_type": c_type,
                "MY_CONSTANT": constant is not None,
                "my_array": array,
                "my_base": base,
                "MY_OFFSET": offset,
            }
        )
    states = [root for root in offsets if root in state_tensors(program)]
    return {
        "my_model": name,
        "MY_MODEL": c_names.model_macro(name),
        "MY_ARENA": bool(arena_bytes),
        "MY_KERNELS": [{"my_kernel": kernel} for kernel in program.kernels],
        "MY_STATE": bool(states),
        "MY_STATES": [
            {
                "my_base": base_and_offset(parts, offsets[root])[0],
                "MY_STATEOFFSET": base_and_offset(parts, offsets[root])[1],
                "MY_STATEVALUE": state_byte(graph.tensors[root]),
                "MY_STATEBYTES": graph.tensors[root].size_bytes,
                "MY_INITIAL": root in program.initial,
                "my_initial": arrays.name(program.initial[root]) if root in program.initial else "",
            }
            for root in states
        ],
        "MY_STEPS": len(program.steps),
        "MY_ROWS": max(1, table_rows(program)),
        "MY_INPUTS": inputs,
        "MY_OUTPUTS": outputs,
        "MY_PLACED": bool(memories),
        "MY_TRANSFERS": program.has_transfers,
        "MY_CACHED": bool(cache_line_bytes(program)),
        "MY_MEMORIES": [
            {"MY_WORD": item.word, "my_word": item.word.lower(), "my_section": item.section} for item in memories
        ],
    }


def base_and_offset(parts: Sequence[ArenaPart], offset: int) -> tuple[str, int]:
    """Return the array of an offset in the arena in C, and the offset in that array."""
    if not parts:
        return "context->arena", offset
    number, start = place_in_parts(parts, offset)
    return f"context->arena[{number}]", start


def state_tensors(program: NativeProgram) -> frozenset[int]:
    """Return the root tensors that keep their contents between invocations."""
    roots = {program.places[state].root for step in program.steps for state in step.states}
    return frozenset(roots | {index for index, tensor in enumerate(program.graph.tensors) if tensor.is_variable})


def state_byte(tensor: Tensor) -> int:
    """Return the value of each byte of a variable tensor after a reset: TFLM's ResetVariableTensors fills with it.

    Source: micro_interpreter_graph.cc; int8 tensors are filled with their zero point.
    """
    return zero_point(tensor) & 255 if tensor.dtype is DType.INT8 else 0


def io_type(tensor: Tensor) -> str:
    """Return the type of the elements of an input or output in C; bytes if C has none."""
    return quantizers.C_TYPES.get(tensor.dtype, "uint8_t")
