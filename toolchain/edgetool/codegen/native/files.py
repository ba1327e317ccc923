"""The files of a native program: NAME.h, NAME.c, its weights, the kernels, and on request programs and a project."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from edgetool.codegen import c_names, header, quantizers
from edgetool.codegen.c_names import comment, comment_text, defines
from edgetool.codegen.native.emit import (
    arrays_of,
    io_type,
    kernel_files,
    model_source,
    state_tensors,
    weights_header,
    weights_source,
)
from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.plan import NativeMemory
from edgetool.codegen.native.profile import profile_source
from edgetool.codegen.native.stack import stack_bounds
from edgetool.codegen.spec import HeaderSpec, IoSpec
from edgetool.codegen.templates import TemplateValue, fill
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import Tensor

# Sizes and offsets are unsigned integers of 32 bits in the tables.
MAX_ARENA_BYTES = 2**31 - 1


def native_files(
    spec: HeaderSpec,
    program: NativeProgram,
    memory: NativeMemory,
    *,
    main: bool = False,
    cmake: bool = False,
    kernels: bool = True,
    profile: bool = False,
    clock_hz: int | None = None,
) -> dict[str, bytes]:
    """Return the C files by name.

    Args:
        spec: The contents of NAME.h.
        program: The steps of the model.
        memory: The offsets of its buffers.
        main: Whether to add main.c, which runs the model once.
        cmake: Whether to add CMakeLists.txt.
        kernels: Whether to add the kernels and what they include.
        profile: Whether to add NAME_profile.c, which times each operator.
        clock_hz: The clock of the core for the profile; None if unknown.

    Raises:
        UnsupportedModelError: The arena is larger than a 32-bit device can address, or there is nothing to time.
    """
    if memory.arena_bytes > MAX_ARENA_BYTES:
        raise UnsupportedModelError(
            f"its arena of {memory.arena_bytes:,} bytes is more than a microcontroller can address",
            fix="check the shapes of the model",
        )
    name = c_names.model_identifier(spec.name)
    arrays = arrays_of(name, program)
    texts = {
        f"{name}.h": _header(spec, program, memory, arrays.total_bytes),
        f"{name}.c": model_source(name, program, memory, arrays, shared=profile),
        f"{name}_weights.h": weights_header(name, arrays, shared=profile),
        f"{name}_weights.c": weights_source(name, arrays),
    }
    copied = kernel_files(program)
    if main:
        texts["main.c"] = _main(spec, program)
    if profile:
        texts[f"{name}_profile.c"] = profile_source(spec, program, clock_hz)
    if cmake:
        sources = [{"my_file": file} for file in copied if file.endswith(".c")]
        texts["CMakeLists.txt"] = fill(
            "native/model/CMakeLists.cmake",
            my_model=name,
            my_label=comment_text(spec.name),
            my_version=comment_text(spec.tool_version),
            MY_KERNELS=sources,
            MY_PROFILE=profile,
        )
    return {file: text.encode("ascii") for file, text in texts.items()} | (copied if kernels else {})


def constant_bytes(program: NativeProgram) -> int:
    """Return the size of all constant arrays of a program: weights, biases, scales and tables."""
    return arrays_of("model", program).total_bytes


def run_source(spec: HeaderSpec, program: NativeProgram) -> bytes:
    """Return the text of run.c, a program that runs the model on samples from a file, for tests."""
    graph = program.graph
    return fill(
        "native/model/run.c",
        **c_names.model_names(spec.name),
        MY_INPUTS=[_bytes(i, graph.tensors[index]) for i, index in enumerate(graph.inputs)],
        MY_OUTPUTS=[_bytes(i, graph.tensors[index]) for i, index in enumerate(graph.outputs)],
    ).encode("ascii")


def _bytes(position: int, tensor: Tensor) -> Mapping[str, TemplateValue]:
    return {"my_position": position, "MY_BYTES": tensor.size_bytes}


def _header(spec: HeaderSpec, program: NativeProgram, memory: NativeMemory, constants: int) -> str:
    """Return the text of NAME.h."""
    name, macro = c_names.model_identifier(spec.name), c_names.model_macro(spec.name)
    return fill(
        "native/model/model.h",
        **c_names.model_names(spec.name),
        MY_BANNER=_banner(spec),
        my_version=comment_text(spec.tool_version),
        my_sha256=spec.model_sha256,
        MY_UNCALIBRATED=int(spec.uncalibrated),
        MY_LIMITMACROS=header.limit_macros(macro),
        MY_MEMORY=header.target_memory(macro, spec.target, "arena", "constants"),
        MY_ARENA=f"{_arena(macro, memory, constants)}\n{_stack(program, spec.target.core)}",
        MY_LIMITS=header.limits(name, macro, spec.target, ("arena", "ARENA_BYTES"), ("constants", "CONSTANTS_BYTES")),
        MY_INPUTCOUNT=len(spec.inputs),
        MY_OUTPUTCOUNT=len(spec.outputs),
        MY_SECTIONS=[{"MY_SECTION": section} for section in header.io_sections(spec, name, macro)],
        MY_STATE=bool(state_tensors(program)),
        MY_UNIT=f"uint{8 * memory.alignment}_t",
        MY_INPUTS=_accessors(spec.inputs, program, program.graph.inputs),
        MY_OUTPUTS=_accessors(spec.outputs, program, program.graph.outputs),
    )


def _banner(spec: HeaderSpec) -> str:
    target = spec.target
    lines = [
        f"{comment_text(spec.name)}: the model in plain C, without a runtime.",
        f"Generated by edgetool {comment_text(spec.tool_version)}; do not edit. The code is yours.",
        "",
        f"model   SHA-256 {spec.model_sha256}, {spec.model_bytes} bytes",
        f"target  {comment_text(target.name)} ({comment_text(target.core)})",
    ]
    if target.board is not None:
        lines.append(f"board   {comment_text(target.board)}")
    if spec.uncalibrated:
        lines += [
            "",
            "!!! UNCALIBRATED: quantized with synthetic data, not with your samples.",
            "!!! Do not trust the outputs. Convert again with --calibration.",
        ]
    for note in spec.notes:
        lines += ["", *textwrap.wrap(comment_text(note, limit=header.NOTE_LENGTH), width=100)]
    return comment(lines)


def _arena(macro: str, memory: NativeMemory, constants: int) -> str:
    layout = memory.layout
    text = (
        "The arena contains the inputs, outputs, activations, scratch and state of one context, and nothing else. In "
        f"this operator order, no layout that these kernels allow takes less than {layout.lower_bound} bytes. The "
        "constants are the arrays in flash: weights, biases, scales and tables."
    )
    return comment(textwrap.wrap(text, width=100)) + defines(
        (f"{macro}_ARENA_BYTES", memory.arena_bytes),
        (f"{macro}_ARENA_ALIGNMENT", memory.alignment),
        (f"{macro}_CONSTANTS_BYTES", constants),
    )


def _stack(program: NativeProgram, core: str) -> str:
    """Return a comment on the stack that invoke needs, for the compilers that were measured for the core."""
    bounds = stack_bounds(program, core)
    if not bounds:
        return comment([f"Stack: not measured for {comment_text(core)}."])
    lines = ["Stack that invoke needs below its caller, at most:"]
    lines += [f"  {item.stack_bytes} bytes   {item.compiler} {item.level}, {item.core}" for item in bounds]
    return comment(lines)


def _accessors(
    tensors: Sequence[IoSpec], program: NativeProgram, indices: Sequence[int]
) -> list[dict[str, TemplateValue]]:
    return [
        {
            "my_position": position,
            "my_name": comment_text(tensor.name if tensor.argument is None else tensor.argument),
            "my_kind": f"{tensor.dtype.name} {' x '.join(map(str, tensor.shape)) or 'scalar'}",
            "my_type": io_type(program.graph.tensors[index]),
            "MY_REAL": quantizers.has_real_values(tensor),
        }
        for position, (tensor, index) in enumerate(zip(tensors, indices, strict=True))
    ]


def _main(spec: HeaderSpec, program: NativeProgram) -> str:
    return fill(
        "native/model/main.c",
        **c_names.model_names(spec.name),
        my_label=comment_text(spec.name),
        my_version=comment_text(spec.tool_version),
        MY_INPUTS=_loops(spec.inputs),
        MY_OUTPUTS=_loops(spec.outputs),
    )


def _loops(tensors: Sequence[IoSpec]) -> list[dict[str, TemplateValue]]:
    return [
        {
            "my_position": position,
            "MY_UNITS": "ELEMENTS" if tensor.dtype in quantizers.C_TYPES else "BYTES",
            "MY_REAL": quantizers.has_real_values(tensor),
        }
        for position, tensor in enumerate(tensors)
        if tensor.size_bytes
    ]
