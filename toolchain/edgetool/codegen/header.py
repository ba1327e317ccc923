"""NAME.h: what the firmware must know of a model, in C99 that C++ takes too.

Every macro starts with NAME in capitals, every function and type with NAME, but for the type edgetool_tensor, which
the headers of all models share. What does not fit fails to compile: in C11 and C++11 by a static assertion with both
numbers, in C99 by a typedef'd array of negative size with the reason in its name.

What NAME.h says of a model that remembers something between invocations.

The tensors in NAME.h: macros for each, and a table of those with an offset that code can walk.

The table is a constant inside a static inline function: it costs memory only in a program that calls it, no compiler
warns when nothing does, and no line grows with the model, as that of a macro with all rows would.
"""

from __future__ import annotations

import textwrap
from collections import Counter

from edgetool import errors
from edgetool.codegen import buffers, c_names, quantizers
from edgetool.codegen.c_names import comment, comment_text, defines
from edgetool.codegen.limits import assertions, check_macros, target_memory
from edgetool.codegen.spec import ARENA_ALIGNMENT, HeaderSpec, IoSpec, TensorSpec

NAMED = 6  # tensors told by name; a model may have hundreds


def state_section(spec: HeaderSpec, name: str, macro: str) -> list[str]:
    """The section, in a list; none for a model without a state. In plain C the firmware itself begins it at zero."""
    state = spec.state
    if not state:
        return []
    told = [f"{comment_text(tensor)} ({size} bytes)" for tensor, size in state.tensors[:NAMED]]
    if len(state.tensors) > NAMED:
        told.append(f"{len(state.tensors) - NAMED} more")
    if state.resources:
        told.append(f"{state.resources} resource variables")
    if spec.buffers is None:
        reset = (
            f"Invoke once for each frame of a stream. Call {name}_runner::reset(), or TFLM's "
            "MicroInterpreter::Reset(), to start the next stream; AllocateTensors has the same effect. The state is in "
            "the arena, whose contents must therefore not change between invocations."
        )
        if state.resources:
            reset += " TFLM's own Reset does not restore the initial values of resource variables."
    else:
        reset = (
            "The firmware must set each state tensor to its zero point (0 for float) before the first frame of a "
            "stream."
        )
    text = f"State: each invocation continues where the last one ended. State kept: {', '.join(told)}. {reset}"
    values = [(f"{macro}_STATE_TENSORS", len(state.tensors)), (f"{macro}_STATE_BYTES", state.tensor_bytes)]
    return [comment(textwrap.wrap(text, width=100)) + defines(*values)]


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


NOTE_LENGTH = 1000


def header(spec: HeaderSpec) -> str:
    """The text of NAME.h, where NAME is c_names.model_identifier(spec.name)."""
    name, macro = c_names.model_identifier(spec.name), c_names.model_macro(spec.name)
    guard = f"EDGETOOL_HEADER_{macro}"
    shared = spec.buffers
    sections = [
        _banner(spec, macro),
        f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n",
        _model(spec, macro),
        check_macros(macro),
        target_memory(macro, spec.target, "arena" if shared is None else "buffers", "model"),
        _arena(spec, macro) if shared is None else buffers.declarations(spec, shared, name, macro),
        _fit(spec, name, macro),
        *_io(spec, name, macro),
        *state_section(spec, name, macro),
        *([tensor_section(spec, name, macro)] if spec.tensors else []),
        f"#endif /* {guard} */\n",
    ]
    return "\n".join(sections)


def _banner(spec: HeaderSpec, macro: str) -> str:
    target = spec.target
    purpose = "for TensorFlow Lite Micro" if spec.buffers is None else "in plain C"
    device = f"{target.name} ({target.core}, {target.kernels} kernels)"
    lines = [
        f"{comment_text(spec.name)}: memory, inputs and outputs, {purpose}.",
        f"Generated by edgetool {comment_text(spec.tool_version)}; do not edit.",
        "",
        f"model   SHA-256 {spec.model_sha256}, {spec.model_bytes} bytes",
        f"target  {comment_text(device)}",
    ]
    if target.board is not None:
        lines.append(f"board   {comment_text(target.board)}")
    if target.runtime is not None:
        lines.append(f"runtime {comment_text(target.runtime)}")
    if spec.uncalibrated:
        lines += [
            "",
            "!!! UNCALIBRATED: quantized with synthetic data, not with your samples.",
            "!!! Do not trust the outputs. Convert again with --calibration.",
        ]
    if spec.exact_arena_bytes is None and spec.buffers is None:
        lines += [
            "",
            "!!! THE EXACT ARENA SIZE IS UNKNOWN: TFLM may need more than the lower bound below.",
            f"!!! Do not use {macro}_ARENA_LOWER_BOUND_BYTES as the arena size.",
        ]
    if spec.notes:
        lines.append("")
        for note in spec.notes:
            lines += textwrap.wrap(comment_text(note, limit=NOTE_LENGTH), width=100)
    return comment(lines)


def _model(spec: HeaderSpec, macro: str) -> str:
    return defines(
        (f"{macro}_EDGETOOL_VERSION", f'"{comment_text(spec.tool_version)}"'),
        (f"{macro}_MODEL_SHA256", f'"{spec.model_sha256}"'),
        (f"{macro}_MODEL_BYTES", spec.model_bytes),
        (f"{macro}_UNCALIBRATED", int(spec.uncalibrated)),
    )


def _arena(spec: HeaderSpec, macro: str) -> str:
    exact, target = spec.exact_arena_bytes, spec.target
    planned = any(tensor.offset is not None for tensor in spec.tensors)
    subject = "It and the model's memory plan are valid" if planned else "It is valid"
    layout = (
        f"Activations and scratch take {spec.layout_bytes} bytes of it; in this operator order, no layout can take"
        f" less than {spec.lower_bound_bytes}."
    )
    if exact is None:
        lines = [
            "Tensor arena: the exact size is unknown. This is a lower bound: TFLM needs additional memory that could",
            "not be determined.",
        ]
        size = (f"{macro}_ARENA_LOWER_BOUND_BYTES", spec.least_arena_bytes)
    else:
        lines = [
            "Tensor arena: the smallest size for which AllocateTensors and Invoke work on this target. Declare it as",
            f"  static uint8_t arena[{macro}_ARENA_BYTES];",
            f"aligned to {macro}_ARENA_ALIGNMENT bytes. {subject} for {comment_text(target.core)} with",
            f"{comment_text(target.kernels)} kernels ({comment_text(target.runtime or 'any runtime')}):"
            " on other targets the model runs, but may need a different size.",
        ]
        size = (f"{macro}_ARENA_BYTES", exact)
    values: list[tuple[str, int | str]] = [
        size,
        (f"{macro}_ARENA_ALIGNMENT", ARENA_ALIGNMENT),
        (f"{macro}_ARENA_IS_LOWER_BOUND", int(exact is None)),
    ]
    if exact is not None:
        values.append((f"{macro}_ARENA_CORE", f'"{comment_text(target.core)}"'))
        values.append((f"{macro}_ARENA_KERNELS", f'"{comment_text(target.kernels)}"'))
    return comment([*lines, layout]) + defines(*values)


def _fit(spec: HeaderSpec, name: str, macro: str) -> str:
    in_sram = ("arena", "ARENA_LOWER_BOUND_BYTES" if spec.exact_arena_bytes is None else "ARENA_BYTES")
    if spec.buffers is not None:
        in_sram = ("buffers", "BUFFERS_BYTES")
    return assertions(name, macro, spec.target, in_sram, ("model", "MODEL_BYTES"))


def _io(spec: HeaderSpec, name: str, macro: str) -> list[str]:
    both = (("input", spec.inputs), ("output", spec.outputs))
    sections = [defines(*((f"{macro}_{kind.upper()}_COUNT", len(tensors)) for kind, tensors in both))]
    if any(map(quantizers.is_quantized, (*spec.inputs, *spec.outputs))):
        sections.append(quantizers.shared_helper(name))
    for kind, tensors in both:
        sections += [_one_io(name, macro, kind, position, tensor) for position, tensor in enumerate(tensors)]
        sections += _positions_by_name(macro, kind, tensors)
    return sections


def _positions_by_name(macro: str, kind: str, tensors: tuple[IoSpec, ...]) -> list[str]:
    """The position of each named input or output: converters order them as they like."""
    keys = [None if tensor.argument is None else c_names.identifier(tensor.argument, "n") for tensor in tensors]
    named = [(key, position) for position, key in enumerate(keys) if key is not None and keys.count(key) == 1]
    if not named:
        return []
    # No identifier starts with a digit, so these meet no macro of a position.
    values = defines(*((f"{macro}_{kind.upper()}_{key}_INDEX", position) for key, position in named))
    return [comment([f"The position of each {kind}, by its name in the model."]) + values]


def _one_io(name: str, macro: str, kind: str, position: int, tensor: IoSpec) -> str:
    io, prefix = f"{kind}_{position}", f"{macro}_{kind.upper()}_{position}"
    shape = " x ".join(map(str, tensor.shape)) or "scalar"
    label = tensor.name if tensor.argument is None else f"{tensor.argument} ({tensor.name})"
    text = comment([f"{kind.capitalize()} {position}: {comment_text(label)}", f"{tensor.dtype.name} {shape}"])
    values: list[tuple[str, int | str]] = [("TENSOR_INDEX", tensor.index), ("RANK", len(tensor.shape))]
    values += [(f"DIM_{axis}", extent) for axis, extent in enumerate(tensor.shape)]
    if tensor.shape:
        values.append(("SHAPE", f"{{{', '.join(map(str, tensor.shape))}}}"))
    values += [("ELEMENTS", tensor.element_count), ("BYTES", tensor.size_bytes)]
    values.append(("DTYPE", quantizers.TFLITE_TYPES[tensor.dtype]))
    if tensor.offset is not None:
        values.append(("OFFSET", tensor.offset))
    values += buffers.place(name, tensor.buffer)
    if tensor.scale is not None and tensor.zero_point is not None:
        point = f"({tensor.zero_point})" if tensor.zero_point < 0 else tensor.zero_point
        values += [("SCALE", quantizers.float_literal(tensor.scale)), ("ZERO_POINT", point)]
    text += defines(*((f"{prefix}_{key}", value) for key, value in values))
    if tensor.dtype in quantizers.C_TYPES:
        text += f"typedef {quantizers.C_TYPES[tensor.dtype]} {name}_{io}_type;\n"
    functions = quantizers.helpers(name, prefix, io, tensor)
    return text + "\n" + functions if functions else text
