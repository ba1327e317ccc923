"""The arrays that are arenas; and GROUP_arena.h and GROUP_arena.cc, the arena that several models share.

The models of a shared arena have an interpreter each, and all use the same MicroAllocator, as TFLM's documentation of
several models in one arena describes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from edgetool.codegen import c_names
from edgetool.codegen.c_names import comment, comment_text, defines
from edgetool.codegen.header import (
    COMMENT_WIDTH,
    Limited,
    held_bytes,
    limit_macros,
    limited,
    limited_places,
    limits,
    target_memory,
)
from edgetool.codegen.memories import MODELS, memories_of
from edgetool.codegen.spec import ARENA_ALIGNMENT, HeaderTarget, PlacedSpec, SharedArenaSpec
from edgetool.codegen.templates import fill


def options(file: str, macro: str, *, exact: bool) -> list[str]:
    """Return lines for a comment: the macros that may be defined when the file with the array is compiled.

    Args:
        file: The name of that file.
        macro: The prefix of the arena's macros.
        exact: Whether the exact size is known.
    """
    lines = [
        f"The arena is in {file}. The following macros may be defined when that file is compiled:",
        f"  {macro}_ARENA_SECTION      the attribute placed before the arena, to put it in its own section:",
        "                     __attribute__((section(...)))",
    ]
    if exact:
        return [
            *lines,
            f"  {macro}_ARENA_EXTRA_BYTES  bytes to add to {macro}_ARENA_BYTES, for another version of TFLM",
        ]
    return [
        *lines,
        f"  {macro}_ARENA_BYTES        its size, which you must define: only a lower bound is known.",
        "                     Start with a large value and reduce it on the device",
    ]


def placed_options(file: str, macro: str, places: Sequence[PlacedSpec]) -> list[str]:
    """Return the same lines for arrays in memories of their own.

    Args:
        file: The name of the file with the arrays: NAME_runner.cc, or NAME_arena.cc if models share them.
        macro: The prefix of the arenas' macros.
        places: The parts of the model.
    """
    name = file.removesuffix("_runner.cc").removesuffix("_arena.cc")
    words = [item.word for item in places if item.part not in MODELS]
    width = max(len(word) for word in words) + len("_EXTRA_BYTES")
    lines = [f"The arenas are in {file}. The following macros may be defined when that file is compiled:"]
    for word in words:
        macros = f"{macro}_{f'{word.upper()}_SECTION'.ljust(width)}"
        lines.append(f"  {macros}  the attribute that puts {name}_{word} in a section; by default in one of")
        lines.append(f"  {' ' * len(macros)}  {name}_memories.ld")
    for word in ("head", "tail"):
        macros = f"{macro}_{f'{word.upper()}_EXTRA_BYTES'.ljust(width)}"
        lines.append(f"  {macros}  bytes to add to {macro}_{word.upper()}_BYTES, for another version of TFLM")
    return lines


def array(name: str, macro: str, *, exact: bool) -> str:
    """Return the definition of the array NAME_arena; its size or lower bound is a macro in a header."""
    return _array(name, macro, "arena", "SRAM", exact=exact)


def placed_arrays(name: str, macro: str, places: Sequence[PlacedSpec]) -> str:
    """Return the definitions of the arrays NAME_head, NAME_tail and, if it is copied to RAM, NAME_model_copy."""
    texts = []
    for memory in memories_of(places):
        words = [item.word for item in memory.parts if item.part not in MODELS]
        texts += [
            _array(name, macro, word, memory.word, exact=True, section=memory.section, before=words[:position])
            for position, word in enumerate(words)
        ]
    return "\n".join(texts)


def _array(
    name: str,
    macro: str,
    word: str,
    memory: str,
    *,
    exact: bool,
    section: str | None = None,
    before: Sequence[str] = (),
) -> str:
    """Return the definition of an array; `before` are others in the same memory, which must fit together with it."""
    others = [f"{name}_{other}" for other in before]
    return fill(
        "tflm/arena_array.cc",
        my_model=name,
        MY_MODEL=macro,
        my_array=word,
        MY_ARRAY=word.upper(),
        MY_MEMORY=memory,
        MY_EXACT=exact,
        MY_PLACED=section is not None,
        my_section=section or "",
        my_sum=" + ".join(f"sizeof({each})" for each in (*others, f"{name}_{word}")),
        my_bytes=f"bytes beside {' and '.join(others)}" if others else "bytes",
    )


def arena_header(spec: SharedArenaSpec, *, with_source: bool = True) -> str:
    """Return the text of GROUP_arena.h, where GROUP is c_names.model_identifier(spec.name).

    Args:
        spec: The arena.
        with_source: Whether there is a GROUP_arena.cc; if not, the header describes what the user's code must declare.
    """
    name, macro = c_names.model_identifier(spec.name), c_names.model_macro(spec.name)
    target = spec.programs[0].header.target  # that of all models
    memories: Sequence[Limited] = limited(target, ("arena", _size_macro(spec)), ("models", "MODELS_BYTES"))
    if spec.places:
        memories = limited_places(spec.places)
    return fill(
        "tflm/arena.h",
        my_arena=name,
        MY_ARENA=macro,
        MY_BANNER=_banner(spec, macro, target),
        MY_LIMITMACROS=limit_macros(macro),
        MY_MEMORY=target_memory(macro, memories),
        MY_SIZES=_sizes(spec, name, macro, target, with_source=with_source),
        MY_LIMITS=limits(name, macro, memories),
        MY_SOURCE=with_source,
    )


def arena_source(spec: SharedArenaSpec) -> str:
    """Return the text of GROUP_arena.cc."""
    name, macro = c_names.model_identifier(spec.name), c_names.model_macro(spec.name)
    return fill(
        "tflm/arena.cc",
        my_arena=name,
        my_label=comment_text(spec.name),
        my_version=comment_text(spec.tool_version),
        MY_COUNT=len(spec.programs),
        MY_ARRAY=placed_arrays(name, macro, spec.places)
        if spec.places
        else array(name, macro, exact=spec.exact_arena_bytes is not None),
        MY_SEPARATE=bool(spec.places),
    )


def _size_macro(spec: SharedArenaSpec) -> str:
    return "ARENA_LOWER_BOUND_BYTES" if spec.exact_arena_bytes is None else "ARENA_BYTES"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, width=COMMENT_WIDTH)


def _banner(spec: SharedArenaSpec, macro: str, target: HeaderTarget) -> str:
    models = [comment_text(program.header.name) for program in spec.programs]
    lines = [
        f"{comment_text(spec.name)}: one arena for {len(models)} models, for TensorFlow Lite Micro.",
        f"Generated by edgetool {comment_text(spec.tool_version)}; do not edit.",
        "",
        *(f"model   {model}, SHA-256 {p.header.model_sha256}" for model, p in zip(models, spec.programs, strict=True)),
        f"target  {comment_text(f'{target.name} ({target.core}, {target.kernels} kernels)')}",
    ]
    lines += [f"board   {comment_text(target.board)}"] if target.board is not None else []
    lines += [f"runtime {comment_text(target.runtime)}"] if target.runtime is not None else []
    lines += [
        "",
        *_wrapped("Initialise the models in the order of this list, each once: another order may need more memory."),
        "",
        "!!! ONE MODEL AT A TIME: all models use the same memory for inputs, outputs and everything in between.",
        *_wrapped(
            "Fill the inputs of a model, invoke it and read its outputs before using another one: the inputs of the "
            "other model overwrite these outputs, and so does its initialisation. This also applies to threads and "
            "interrupts. Only a model's state (variables) is not shared."
        ),
    ]
    if spec.exact_arena_bytes is None:
        lines += [
            "",
            "!!! THE EXACT ARENA SIZE IS UNKNOWN: TFLM may need more than the lower bound below.",
            f"!!! Do not use {macro}_ARENA_LOWER_BOUND_BYTES as the arena size.",
        ]
    return comment(lines)


def _sizes(spec: SharedArenaSpec, name: str, macro: str, target: HeaderTarget, *, with_source: bool) -> str:
    exact = spec.exact_arena_bytes
    if spec.places:
        return _placed_sizes(spec, name, macro, target, with_source=with_source)
    if exact is None:
        text = "The arena: the exact size is unknown. This is a lower bound for all models together."
    else:
        text = (
            "The arena: the smallest size for which all models can be initialised in this order and run. It is valid "
            f"for {comment_text(target.core)} with {comment_text(target.kernels)} kernels "
            f"({comment_text(target.runtime or 'any runtime')}): on other targets the models run, but may need a "
            f"different size. The tensors and scratch of one model at a time take up to {spec.head_bytes} bytes of it; "
            f"TFLM's persistent data for all models takes {spec.tail_bytes}."
        )
    values: list[tuple[str, int | str]] = [
        (f"{macro}_{_size_macro(spec)}", spec.arena_lower_bound_bytes if exact is None else exact),
        (f"{macro}_ARENA_ALIGNMENT", ARENA_ALIGNMENT),
        (f"{macro}_ARENA_IS_LOWER_BOUND", int(exact is None)),
        (f"{macro}_ARENA_MODELS", len(spec.programs)),
        (f"{macro}_MODELS_BYTES", sum(program.header.model_bytes for program in spec.programs)),
    ]
    if exact is not None:
        values.append((f"{macro}_ARENA_CORE", f'"{comment_text(target.core)}"'))
        values.append((f"{macro}_ARENA_KERNELS", f'"{comment_text(target.kernels)}"'))
    if with_source:
        declaration = options(f"{name}_arena.cc", macro, exact=exact is not None)
    elif exact is None:
        declaration = []
    else:
        declaration = [
            "Declare it as",
            f"  static uint8_t arena[{macro}_ARENA_BYTES];",
            f"aligned to {macro}_ARENA_ALIGNMENT bytes, and pass all interpreters the same tflite::MicroAllocator for"
            " it.",
        ]
    return comment([*_wrapped(text), *declaration]) + defines(*values)


def _placed_sizes(spec: SharedArenaSpec, name: str, macro: str, target: HeaderTarget, *, with_source: bool) -> str:
    sizes = {item.part: item.size_bytes for item in spec.places}
    text = (
        "Two arenas: the head (non-persistent) and the tail (persistent), each of the smallest size for which all "
        f"models can be initialised in this order and run. They are valid for {comment_text(target.core)} with "
        f"{comment_text(target.kernels)} kernels ({comment_text(target.runtime or 'any runtime')}): on other targets "
        "the models run, but may need different sizes. The head is that of one model at a time; each has its own part "
        "of the tail."
    )
    declaration = [
        "Declare them as",
        f"  static uint8_t head[{macro}_HEAD_BYTES];",
        f"  static uint8_t tail[{macro}_TAIL_BYTES];",
        f"aligned to {macro}_ARENA_ALIGNMENT bytes, and pass all interpreters the same MicroAllocator for them.",
    ]
    if with_source:
        declaration = placed_options(f"{name}_arena.cc", macro, spec.places)
    values: list[tuple[str, int | str]] = [
        (f"{macro}_HEAD_BYTES", sizes["head"]),
        (f"{macro}_TAIL_BYTES", sizes["tail"]),
        (f"{macro}_ARENA_ALIGNMENT", ARENA_ALIGNMENT),
        (f"{macro}_ARENA_IS_LOWER_BOUND", 0),
        (f"{macro}_ARENA_MODELS", len(spec.programs)),
        (f"{macro}_MODELS_BYTES", sum(program.header.model_bytes for program in spec.programs)),
        (f"{macro}_ARENA_CORE", f'"{comment_text(target.core)}"'),
        (f"{macro}_ARENA_KERNELS", f'"{comment_text(target.kernels)}"'),
    ]
    return comment([*_wrapped(text), *declaration]) + defines(*values) + held_bytes(macro, spec.places)
