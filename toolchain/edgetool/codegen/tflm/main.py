"""main.cc: a program that runs each model once with all-zero inputs, as a starting point for firmware."""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.codegen import c_names
from edgetool.codegen.c_names import comment_text
from edgetool.codegen.quantizers import C_TYPES, has_real_values
from edgetool.codegen.spec import IoSpec, ProgramSpec
from edgetool.codegen.templates import TemplateValue, fill


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
