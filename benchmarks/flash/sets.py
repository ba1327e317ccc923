"""Which parts of a firmware each registration keeps, found in a library that the user has built, as tables.

For each core, one table with a column for each build: kernels, optimization and C library. A row contains the bytes of
what exactly these registrations keep, "library" for TFLM and its kernels, "program" for the runner, the start-up code
and the C library; the row with all registrations is what every program contains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from benchmarks.flash.program import Firmware, library_files

from edgetool.archive.elf import ObjectFile
from edgetool.archive.link import Linker, Part, ends_with, parts_of
from edgetool.codegen.spec import Registration
from edgetool.target.code_sizes import LOG, CodeRow, Registered
from edgetool.target.types import Runtime

ROOTS = ("reset", "vectors")
Parts = dict[Hashable, tuple[Part, bool]]
"""Parts by their keys, each with whether it is of the library."""
KEYS = "registration_{}"
FORMAT = 'char text[8]; return vsnprintf(text, sizeof text, "%d", *(va_list *)&resolver) != 0;'


def registrations_of(runtime: Runtime) -> list[Registered]:
    """Return all registrations: of each operator by default, and of its type-specific kernels.

    The first entry is none of them: it stands for what every program needs.
    """
    resolver = (*runtime.resolver, *runtime.custom_resolver)
    general = [Registered(operator, method) for operator, method in resolver]
    methods = dict(resolver)
    typed = [
        Registered(item.operator, methods[item.operator], item.function, item.header) for item in runtime.registrations
    ]
    return [Registered("", ""), *general, *dict.fromkeys(typed), Registered(LOG, "")]


def code_rows(
    build: Firmware, library: Path, c_library: str, registrations: Sequence[Registered]
) -> dict[tuple[str, tuple[int, ...]], int]:
    """Return the bytes by part and registrations, as indices; without any, the bytes that every program contains."""
    archive = library_files(library)
    own = {file.name for file in archive}
    *program, each = _program(build, registrations)
    alone = Linker([*program, each])
    others = [*archive, *build.c_library_files(c_library)]

    def kept(*symbols: str) -> Parts:
        # The file with all registrations must load only what the chosen one needs.
        needed = tuple(alone.link([*ROOTS, *symbols]).undefined & set(each.symbols.needed)) if symbols else ()
        chosen = replace(each, symbols=replace(each.symbols, needed=needed))
        sections = Linker([*program, chosen, *others]).link([*ROOTS, *symbols]).sections
        parts: Parts = {}
        for is_own in (False, True):
            for part in parts_of((file, item) for file, item in sections if (file.name in own) == is_own):
                parts[part.key] = part, is_own
        return parts

    everywhere = kept()
    users: dict[Hashable, set[int]] = defaultdict(set)
    parts = dict(everywhere)
    for number in range(1, len(registrations)):
        for key, part in kept(KEYS.format(number)).items():
            if key not in everywhere:
                parts[key] = part
                users[key].add(number)
    rows: dict[tuple[str, tuple[int, ...]], int] = defaultdict(int)
    for key in parts.keys() - _free(parts, users):
        part, is_own = parts[key]
        if not (isinstance(key, tuple) and key[0] == "net_model.o"):
            rows["library" if is_own else "program", tuple(sorted(users[key]))] += part.size_bytes
    return dict(rows)


def with_symbols(build: Firmware, library: Path, registrations: Sequence[Registered]) -> list[Registered]:
    """Return the registrations with the symbols that a program needs for each from the library."""
    defined = {name for file in library_files(library) for name in file.symbols.defined}
    linker = Linker(_program(build, registrations))
    everywhere = linker.link(ROOTS).undefined & defined
    needed = [linker.link([*ROOTS, KEYS.format(number)]).undefined & defined for number in range(1, len(registrations))]
    symbols = [everywhere, *(each - everywhere for each in needed)]
    return [replace(item, symbols=tuple(sorted(each))) for item, each in zip(registrations, symbols, strict=True)]


def _program(build: Firmware, registrations: Sequence[Registered]) -> list[ObjectFile]:
    """Return the object files of a program without registrations, and functions that make one of them each."""
    build.register([])
    build.folder.joinpath("each.cc").write_text(_each(registrations), encoding="ascii")
    build.compile("each.cc")
    return build.object_files("startup.o", "net_model.o", "net_runner.o", "log.o", "main.o", "each.o")


def _free(parts: Parts, users: dict[Hashable, set[int]]) -> set[Hashable]:
    """Return the strings that take no space, because whatever keeps them keeps a longer one that ends with them."""
    strings = sorted((part for part, _ in parts.values() if part.text), key=lambda part: part.text[::-1])
    free = set()
    for position, part in enumerate(strings):
        own = users[part.key]
        for longer in takewhile(lambda each: each.text.endswith(part.text), strings[position + 1 :]):  # noqa: B023
            others = users[longer.key]
            if ends_with(longer, part) and (not others or (own and own <= others)):
                free.add(part.key)
                break
    return free


def _each(registrations: Sequence[Registered]) -> str:
    headers = sorted({item.header for item in registrations if item.header})
    lines = ["#include <cstdarg>", "#include <cstdio>"]
    lines += [
        '#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"',
        *(f'#include "{each}"' for each in headers),
    ]
    lines += [f"typedef tflite::MicroMutableOpResolver<{len(registrations)}> resolver_type;"]
    for number, item in enumerate(registrations[1:], 1):
        kernel = f"tflite::{item.function}()" if item.function else ""
        name = KEYS.format(number)
        lines += [f'extern "C" bool {name}(resolver_type &resolver)', "{"]
        body = f"return resolver.{item.method}({kernel}) == kTfLiteOk;" if item.method else FORMAT
        lines += [f"    {body}", "}"]
    return "\n".join(lines) + "\n"


def as_registration(item: Registered) -> Registration:
    """Return the registration as an emitted firmware has it."""
    return Registration(item.operator, item.method, item.function or None, item.header)


def merged(columns: Iterable[tuple[str, dict[tuple[str, tuple[int, ...]], int]]]) -> list[CodeRow]:
    """Return the rows of several builds, by the name of each, as one table."""
    columns = list(columns)
    keys = sorted({key for _, rows in columns for key in rows})
    return [
        CodeRow(part, frozenset(numbers), tuple(rows.get((part, numbers), 0) for _, rows in columns))
        for part, numbers in keys
    ]
