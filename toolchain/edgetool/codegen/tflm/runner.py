"""NAME_ops.h, NAME_runner.h and NAME_runner.cc: a model as a C++ class on top of TFLM.

All objects are in memory that is reserved at link time: no heap, no static constructors, no destructors at exit. The op
resolver has one entry for each operator: all versions of an operator share one registration, because
MicroOpResolver::FindOp compares only the code (micro_op_resolver.h).

main.cc: a program that runs each model once with all-zero inputs, as a starting point for firmware.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from edgetool.codegen import c_names, quantizers
from edgetool.codegen.c_names import comment, comment_text
from edgetool.codegen.quantizers import C_TYPES, has_real_values
from edgetool.codegen.spec import IoSpec, ProgramSpec, Registration
from edgetool.codegen.templates import TemplateValue, fill
from edgetool.codegen.tflm import arena
from edgetool.model.types import DType


def ops_header(spec: ProgramSpec) -> str:
    """Return the text of NAME_ops.h, where NAME is c_names.model_identifier(spec.header.name).

    For each custom operator without a method of the op resolver, it declares a function that the user's code defines.
    """
    names = c_names.model_names(spec.header.name)
    functions = [
        {"my_operator": comment_text(registration.operator), "my_function": _function(names, registration.operator)}
        for registration in spec.registrations
        if registration.method is None
    ]
    calls = [f"resolver.{_call(registration, names)} == kTfLiteOk" for registration in spec.registrations]
    headers = dict.fromkeys(registration.header for registration in spec.registrations if registration.function)
    return fill(
        "tflm/ops.h",
        **names,
        my_label=comment_text(spec.header.name),
        my_version=comment_text(spec.header.tool_version),
        my_runtime=comment_text(spec.runtime),
        my_commit=comment_text(spec.commit),
        MY_OPERATORS=bool(calls),
        MY_SPECIALIZED=bool(headers),
        MY_HEADERS=[{"my_header": header} for header in sorted(headers)],
        MY_COUNT=len(calls) or 1,
        MY_CUSTOM=bool(functions),
        MY_FUNCTIONS=functions,
        my_calls=" &&\n                       ".join(calls),
    )


def _function(names: dict[str, str], operator: str) -> str:
    return f"{names['my_model']}_registration_{c_names.identifier(operator, 'op')}"


def _call(registration: Registration, names: dict[str, str]) -> str:
    if registration.method is not None:
        kernel = "" if registration.function is None else f"{names['MY_MODEL']}_KERNEL({registration.function})"
        return f"{registration.method}({kernel})"
    return f"AddCustom({_literal(registration.operator)}, {_function(names, registration.operator)}())"


def _literal(text: str) -> str:
    """Return a C string of these bytes in UTF-8; bytes other than plain ASCII have three octal digits, the maximum."""
    plain = {ord(c) for c in map(chr, range(32, 127)) if c not in '"\\?'}
    data = text.encode("utf-8", "surrogatepass")
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in data) + '"'


def runner_header(spec: ProgramSpec) -> str:
    """Return the text of NAME_runner.h.

    Raises:
        ValueError: The tensors are in shared buffers, which TFLM does not support.
    """
    names = _names(spec)
    return fill(
        "tflm/runner.h",
        **names,
        MY_BANNER=_banner(spec, names["my_model"], names["MY_MODEL"]),
        MY_INPUTS=_declarations(names["my_model"], "input", spec.header.inputs),
        MY_OUTPUTS=_declarations(names["my_model"], "output", spec.header.outputs),
        MY_RESET=can_reset(spec),
        MY_REBUILD=_rebuilds(spec),
        MY_SHARED=spec.shared_arena is not None,
    )


def runner_source(spec: ProgramSpec) -> str:
    """Return the text of NAME_runner.cc.

    Raises:
        ValueError: As for runner_header.
    """
    names, inputs, outputs = _names(spec), spec.header.inputs, spec.header.outputs
    places = spec.header.places
    name, macro = names["my_model"], names["MY_MODEL"]
    return fill(
        "tflm/runner.cc",
        my_model=name,
        my_label=comment_text(spec.header.name),
        my_version=comment_text(spec.header.tool_version),
        my_arena="" if spec.shared_arena is None else c_names.model_identifier(spec.shared_arena),
        MY_ARENA=arena.placed_arrays(name, macro, places)
        if places
        else arena.array(name, macro, exact=spec.header.exact_arena_bytes is not None),
        MY_SEPARATE=bool(places),
        MY_COPY=any(item.part == "model copy" for item in places),
        MY_SHARED=spec.shared_arena is not None,
        MY_VARIABLES=spec.resource_variables,
        MY_RESET=can_reset(spec),
        MY_REBUILD=_rebuilds(spec),
        MY_HASTENSORS=bool(inputs or outputs),
        MY_HASINPUTS=bool(inputs),
        MY_HASOUTPUTS=bool(outputs),
        my_mismatch=_mismatch(name, macro, spec),
        MY_INPUTS=_definitions(name, "input", inputs),
        MY_OUTPUTS=_definitions(name, "output", outputs),
    )


def can_reset(spec: ProgramSpec) -> bool:
    """Return whether NAME_runner has reset().

    TFLM's own Reset leaves the variables that CALL_ONCE has set at zero, and does not run CALL_ONCE again
    (call_once.cc). Such a model must be set up again, for which a shared arena has no memory.
    """
    return spec.shared_arena is None or not _calls_once(spec)


def _rebuilds(spec: ProgramSpec) -> bool:
    """Return whether reset() sets up the model again."""
    return spec.shared_arena is None and _calls_once(spec)


def _calls_once(spec: ProgramSpec) -> bool:
    return any(registration.method == "AddCallOnce" for registration in spec.registrations)


def _names(spec: ProgramSpec) -> dict[str, str]:
    if spec.header.buffers is not None:
        raise ValueError("TFLM uses an arena, not shared buffers")
    return c_names.model_names(spec.header.name)


def _banner(spec: ProgramSpec, name: str, macro: str) -> str:
    lines = [
        f"{comment_text(spec.header.name)}: the model as a C++ class, on top of TensorFlow Lite Micro.",
        f"Generated by edgetool {comment_text(spec.header.tool_version)}; do not edit.",
        "",
        *textwrap.wrap(
            f"There is only one {name}_runner: its functions are static, so it is never instantiated. It uses "
            "no heap, has no static constructors or destructors, and is not safe to use from several threads or "
            "interrupts at once.",
            width=105,
        ),
        "",
    ]
    if spec.shared_arena is not None:
        group = c_names.model_identifier(spec.shared_arena)
        lines += [
            f"The arena is the one in {group}_arena.h, shared with other models: initialise them in the order given in",
            "that file; fill the inputs, invoke and read the outputs of one model before using the next.",
        ]
    elif spec.header.places:
        lines += arena.placed_options(f"{name}_runner.cc", macro, spec.header.places)
    else:
        lines += arena.options(f"{name}_runner.cc", macro, exact=spec.header.exact_arena_bytes is not None)
    return comment(lines)


def _declarations(name: str, direction: str, tensors: Sequence[IoSpec]) -> list[dict[str, TemplateValue]]:
    return [
        {
            "my_position": position,
            "my_name": comment_text(tensor.name if tensor.argument is None else tensor.argument),
            "my_kind": f"{tensor.dtype.name} {' x '.join(map(str, tensor.shape)) or 'scalar'}",
            "my_type": _type(name, direction, position, tensor),
            "MY_REAL": quantizers.has_real_values(tensor),
        }
        for position, tensor in enumerate(tensors)
    ]


def _definitions(name: str, direction: str, tensors: Sequence[IoSpec]) -> list[dict[str, TemplateValue]]:
    return [
        {
            "my_position": position,
            "my_type": _type(name, direction, position, tensor),
            "MY_TYPED": tensor.dtype in quantizers.C_TYPES,
        }
        for position, tensor in enumerate(tensors)
    ]


def _type(name: str, direction: str, position: int, tensor: IoSpec) -> str:
    """Return the type of the elements in C, void if it has none."""
    return f"{name}_{direction}_{position}_type" if tensor.dtype in quantizers.C_TYPES else "void"


def _mismatch(name: str, macro: str, spec: ProgramSpec) -> str:
    """Return the condition that the interpreter's inputs and outputs are not those of NAME.h."""
    operands = [
        f"interpreter->inputs_size() != {macro}_INPUT_COUNT || interpreter->outputs_size() != {macro}_OUTPUT_COUNT"
    ]
    for direction, tensors in (("input", spec.header.inputs), ("output", spec.header.outputs)):
        for position, tensor in enumerate(tensors):
            prefix = f"{macro}_{direction.upper()}_{position}"
            # TFLM stores each INT4 in a byte (TfLiteTypeSizeOf in memory_helpers.cc).
            size = "ELEMENTS" if tensor.dtype is DType.INT4 else "BYTES"
            operands.append(f"!{name}_is(interpreter->{direction}({position}), {prefix}_DTYPE, {prefix}_{size})")
    return " ||\n        ".join(operands)


def main_source(programs: Sequence[ProgramSpec]) -> str:
    """Return the text of main.cc for one model, or for several in the order in which they are initialised.

    Raises:
        ValueError: There is no model.
    """
    if not programs:
        raise ValueError("a program without a model")
    outputs = [tensor for spec in programs for tensor in spec.header.outputs if tensor.element_count]
    names = [c_names.model_identifier(spec.header.name) for spec in programs]
    shared = programs[0].shared_arena is not None
    return fill(
        "tflm/main.cc",
        my_models=comment_text(", ".join(comment_text(spec.header.name) for spec in programs)),
        my_version=comment_text(programs[0].header.tool_version),
        MY_PRINTSREAL=any(map(has_real_values, outputs)),
        MY_SHARED=shared,
        MY_MODELS=[
            {
                **c_names.model_names(spec.header.name),
                "MY_INPUTS": _loops(spec.header.inputs),
                "MY_OUTPUTS": _loops(spec.header.outputs),
            }
            for spec in programs
        ],
        MY_ARENAS=[{"my_model": name} for name in (names[-1:] if shared else names)],
    )


def _loops(tensors: Sequence[IoSpec]) -> list[dict[str, TemplateValue]]:
    """Return the values of the loops over elements, or over bytes if C has no type for the elements."""
    return [
        {
            "my_position": position,
            "MY_UNITS": "ELEMENTS" if tensor.dtype in C_TYPES else "BYTES",
            "MY_REAL": has_real_values(tensor),
            "MY_TYPED": tensor.dtype in C_TYPES,
        }
        for position, tensor in enumerate(tensors)
        if tensor.size_bytes
    ]
