"""The tensors in NAME.h: macros for each, and a table of those with an offset that code can walk.

The table is a constant inside a static inline function: it costs memory only in a program that calls it, no compiler
warns when nothing does, and no line grows with the model, as that of a macro with all rows would.
"""

from __future__ import annotations

import textwrap
from collections import Counter

from edgetool import errors
from edgetool.codegen import buffers, c_names
from edgetool.codegen.c_names import comment_text
from edgetool.codegen.c_text import comment, defines
from edgetool.codegen.spec import ARENA_ALIGNMENT, HeaderSpec, TensorSpec

# The numbers of a tensor, of one type in every model's header, so that one function can walk them all.
_TYPE = """\
#ifndef EDGETOOL_TENSOR_TYPE
#define EDGETOOL_TENSOR_TYPE
typedef struct {
    uint32_t subgraph; /* as in the model */
    uint32_t index;    /* as in the model */
    uint32_t offset;   /* bytes from the start of the memory */
    uint32_t bytes;
    int32_t first_op;  /* the positions between which its contents are needed, */
    int32_t last_op;   /* both inclusive; -1 if no operator uses it */
} edgetool_tensor;
#endif
"""


def tensor_section(spec: HeaderSpec, name: str, macro: str) -> str:
    """The macros of every tensor, and the table of those with an offset; "" without tensors.

    name, macro: the model's identifier and the prefix of its macros. UnsupportedModelError when offsets reach beyond
    what a 32-bit device can have.
    """
    if not spec.tensors:
        return ""
    keys = _keys(spec.tensors)
    rows = [
        (tensor, f"{macro}_TENSOR_{key}_OFFSET")
        for tensor, key in zip(spec.tensors, keys, strict=True)
        if tensor.offset is not None
    ]
    text = _macros(spec, keys, name, macro)
    return text + "\n" + _table(spec, rows, name, macro) if rows else text


def activations_bytes(spec: HeaderSpec) -> int:
    """The end of the highest tensor with an offset, rounded up to the alignment; 0 without one."""
    end = max((tensor.offset + tensor.size_bytes for tensor in spec.tensors if tensor.offset is not None), default=0)
    return -(-end // ARENA_ALIGNMENT) * ARENA_ALIGNMENT


def _macros(spec: HeaderSpec, keys: list[str], name: str, macro: str) -> str:
    if spec.buffers is None:
        what = "Tensors in the arena: byte offsets from its aligned start, valid while the named operators run."
    else:
        what = "Tensors in the shared buffers, each at the start of its buffer, valid while the named operators run."
    text = comment([what, "Named as in the model, or by index if several have the same name."])
    for tensor, key in zip(spec.tensors, keys, strict=True):
        subgraph = f" of subgraph {tensor.subgraph}" if tensor.subgraph else ""
        planned = "" if tensor.offset is not None or spec.buffers is not None else ", placed at run time"
        text += (
            f"/* tensor {tensor.index}{subgraph}, operators {tensor.first_op} to {tensor.last_op}{planned}:"
            f" {comment_text(tensor.name)} */\n"
        )
        values: list[tuple[str, int | str]] = [("INDEX", tensor.index)]
        if tensor.offset is not None:
            values.append(("OFFSET", tensor.offset))
        values += [("BYTES", tensor.size_bytes), *buffers.place(name, tensor.buffer)]
        text += defines(*((f"{macro}_TENSOR_{key}_{what}", value) for what, value in values))
    return text


def _table(spec: HeaderSpec, rows: list[tuple[TensorSpec, str]], name: str, macro: str) -> str:
    height = activations_bytes(spec)
    if height >= 2**31:
        raise errors.UnsupportedModelError(
            f"its tensors extend to byte {height:,}, more than a microcontroller can address",
            fix="check the shapes of the model",
        )
    prose = (
        f"aligned to {macro}_ARENA_ALIGNMENT bytes has space for the tensors only, not for scratch memory of kernels."
        f" Tensor i of {macro}_TENSOR_COUNT starts at memory + {name}_tensors()[i].offset. Operators, and"
        " entries into called subgraphs, are numbered in execution order from 0 to"
        f" {macro}_POSITION_COUNT - 1; these numbers are the positions."
    )
    if len(rows) < len(spec.tensors):
        prose += " Tensors that are placed at run time are not included."
    head = comment(
        [
            "The same data as a table, for your own firmware. It does not require TFLM, and takes no memory if the",
            "function is not called.",
            f"  static uint8_t memory[{macro}_ACTIVATIONS_BYTES];",
            *textwrap.wrap(prose, width=105),
        ]
    )
    positions = 1 + max(tensor.last_op for tensor, _ in rows)
    lines = "".join(
        f"        {{{t.subgraph}, {t.index}, {offset}, {t.size_bytes}, {t.first_op}, {t.last_op}}},\n"
        for t, offset in rows
    )
    return (
        head
        + defines(
            (f"{macro}_ACTIVATIONS_BYTES", height),
            (f"{macro}_POSITION_COUNT", positions),
            (f"{macro}_TENSOR_COUNT", len(rows)),
        )
        + f"\n{_TYPE}\n"
        + f"static inline const edgetool_tensor *{name}_tensors(void)\n{{\n"
        + f"    static const edgetool_tensor table[{macro}_TENSOR_COUNT] = {{\n{lines}    }};\n"
        + "    return table;\n}\n"
    )


def _keys(tensors: tuple[TensorSpec, ...]) -> list[str]:
    """The name of each tensor within its macros: its identifier, in the model's own case.

    A file may give one name to several tensors; theirs is the index, after the subgraph's where that is
    not the first. No identifier starts with a digit, so these cannot meet.
    """
    names = [c_names.identifier(tensor.name, "t") for tensor in tensors]
    count = Counter(names)
    return [
        name if count[name] == 1 else (f"{tensor.subgraph}_{tensor.index}" if tensor.subgraph else str(tensor.index))
        for tensor, name in zip(tensors, names, strict=True)
    ]
