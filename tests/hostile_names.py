"""Names that break whatever takes a name for more than text, and models that carry them everywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from edgetool.model.types import Model, Signature
from edgetool.model.writer import write_model
from tests.model.builders import Builder, chain_model

# Every one can stand in a .tflite, whose strings are UTF-8.
NAMES = (
    # C and C++: comments, splices, trigraphs, quotes, reserved words and reserved forms.
    "*/ int injected; /*",
    "/* // nested",
    "*//*/",
    "line\nbreak\r\n#error injected",
    "ends in a backslash \\",
    "\\\n*/",
    "??/",
    "??=define x",
    '"quoted',
    "'",
    "int",
    "class",
    "NULL",
    "INT8_MAX",
    "main",
    "_Leading",
    "do__uble",
    "trailing_",
    "9lives",
    "__COUNTER__",
    'R"(raw',
    # Names that meet others once they are cut or cleaned, and ones that are nothing or far too long.
    "A/B",
    "a/b",
    "a:b",
    "a" * 300,
    "a" * 299 + "b",
    "",
    " ",
    "twin",
    "twin",
    # What moves text about, or cannot be seen.
    "\u202eright to left\u2066",
    "zero\u200bwidth\ufeff",
    "\x00\x07\x1b[31m\x1b]0;title\x07\x9b2J\x7f",
    "line\u2028separator\u0085next",
    "gr\u00f6\u00dfe \U0001d54f \U0001f600\u200d\U0001f4bb",
    # HTML, XML and markdown.
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "]]><!--",
    "&lt;&#60;",
    "a|b`c` **d** [e](javascript:f) ![g](h)",
    "@team #1 https://x.example www.x.example",
    # CI runners and SARIF.
    "::error file=a.c::injected",
    "\n::add-mask::x",
    "##[error]x ##vso[task.setvariable variable=a]b",
    "[text](1){0}{1}",
    # Shells, format strings, CMake, paths, spreadsheets.
    "$(touch injected) `touch injected`",
    "; touch injected #",
    "%s%n%d {0} {x.__class__}",
    "${CMAKE_COMMAND} $ENV{HOME} @ONLY@ $<1:x>",
    ") message(FATAL_ERROR injected",
    "../../../injected",
    "-rf",
    "--help",
    "CON.tflite",
    '=cmd|" /C x"!A0',
    "',\";--",
)


def _named(model: Model, names: Iterator[str]) -> Model:
    """The model with a name of these for each tensor and subgraph, in the signature, and as its description."""
    graphs = tuple(
        replace(graph, name=next(names), tensors=tuple(replace(item, name=next(names)) for item in graph.tensors))
        for graph in model.subgraphs
    )
    main = graphs[0]
    signature = Signature(
        next(names),
        0,
        tuple((next(names), index) for index in main.inputs),
        tuple((next(names), index) for index in main.outputs),
    )
    return replace(model, subgraphs=graphs, signatures=(signature,), description=next(names))


def hostile_model(first: int = 0) -> bytes:
    """A chain of convolutions with every name, of which the first'th is that of the subgraph."""
    return write_model(_named(chain_model(len(NAMES) // 3 + 1), cycle(NAMES[first:] + NAMES[:first])))


def many_inputs() -> bytes:
    """A model with an input of each name: those of inputs stand in more places than those of other tensors."""
    build = Builder(seed=3)
    inputs = [build.activation([1, 16], name=name) for name in NAMES]
    total = inputs[0]
    for other in inputs[1:]:
        total = build.add(total, other)
    model = build.model(inputs, [total])
    arguments = tuple((name or "empty", index) for index, name in zip(model.main.inputs, reversed(NAMES), strict=True))
    signature = Signature(NAMES[0], 0, arguments, (("*/", model.main.outputs[0]),))
    return write_model(replace(model, signatures=(signature,)))


def custom_operators() -> bytes:
    """A model with a custom operator of each name, none of which TFLM has."""
    build = Builder(seed=4)
    x = first = build.activation([1, 16], name="x")
    for name in NAMES:
        y = build.activation([1, 16], name=f"of {name}")
        build.operator("CUSTOM", [x], [y], custom_code=name or "empty")
        x = y
    return write_model(build.model([first], [x]))


def file_names() -> tuple[str, ...]:
    """The stems that a file of this system can have, one of bytes that are no text among them."""
    possible = [name for name in dict.fromkeys(NAMES) if not {"/", "\0"} & set(name) and len(os.fsencode(name)) < 200]
    return (*possible, os.fsdecode(b"\xff\xfe bytes"), "s" * 200)


def write_models(folder: Path, blob: bytes) -> list[Path]:
    """The model under every name of a file."""
    paths = [folder / f"{name}.tflite" for name in file_names()]
    for path in paths:
        path.write_bytes(blob)
    return paths
