"""Which parts of a firmware each registration keeps, found in a library that the user has built, as tables.

For each core, one table with a column for each build: kernels, optimization and C library. A row contains the bytes of
what exactly these registrations keep, "library" for TFLM and its kernels, "program" for the runner, the start-up code
and the C library; the row with all registrations is what every program contains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.flash.program import Firmware, library_files

from edgetool.archive.elf import ObjectFile
from edgetool.archive.link import Linked, Linker, Part, ends_with, parts_of
from edgetool.codegen.spec import Registration
from edgetool.target.code_sizes import LOG, CodeRow, Registered
from edgetool.target.types import Runtime

ROOTS = ("reset", "vectors")
Parts = dict[Hashable, tuple[Part, str]]
"""Parts by their keys, each with the name of its file."""
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

    def link(*symbols: str) -> Linked:
        # The file with all registrations must load only what the chosen one needs.
        needed = tuple(alone.link([*ROOTS, *symbols]).undefined & set(each.symbols.needed)) if symbols else ()
        chosen = replace(each, symbols=replace(each.symbols, needed=needed))
        return Linker([*program, chosen, *others]).link([*ROOTS, *symbols])

    def kept(linked: Linked) -> Parts:
        parts: Parts = {}
        for file, section in linked.sections:
            for part in parts_of([(file, section)]):
                # Every file that uses a template has it: the program has one of them.
                name = templates.get((file.name, section.index))
                key = part.key if name is None else ("template", name)
                parts[key] = replace(part, key=key), file.name
        return parts

    templates = {
        (file.name, int(file.symbols.sections[position])): name
        for file in [*archive, *others]
        for name, position in sorted(file.symbols.defined.items())
        if name in file.symbols.weak
    }
    everywhere = kept(link())
    users: dict[Hashable, set[int]] = defaultdict(set)
    parts = dict(everywhere)
    keepers: dict[str, set[int]] = defaultdict(set)
    for number in range(1, len(registrations)):
        for key, (part, file_name) in kept(link(KEYS.format(number))).items():
            keepers[file_name].add(number)
            if key not in everywhere:
                parts[key] = part, file_name
                users[key].add(number)
    replaced = _replaced([*archive, *others], keepers)
    rows: dict[tuple[str, tuple[int, ...]], int] = defaultdict(int)
    for key in parts.keys() - _free(parts, users):
        part, file_name = parts[key]
        if file_name != "net_model.o":
            name = "library" if file_name in own else "program"
            instead = replaced.get(file_name, set()) if users[key] else set()
            rows[name, tuple(sorted(users[key] | instead))] += part.size_bytes
            if instead:
                rows[name, tuple(sorted(instead))] -= part.size_bytes
    return {key: size for key, size in rows.items() if size}


def _replaced(files: Sequence[ObjectFile], keepers: dict[str, set[int]]) -> dict[str, set[int]]:
    """Return the registrations that keep a file instead of another one, all of whose symbols are weak, by the latter.

    As libgcc has the product of doubles alone, weak, and together with their quotient: a program that needs both has
    only the latter. So a group counts for the registrations of both files, less its bytes for those of the second.
    """
    strong: dict[str, set[str]] = defaultdict(set)
    for file in files:
        for name in file.symbols.defined.keys() - file.symbols.weak:
            strong[name].add(file.name)
    replaced = {}
    for file in files:
        names = file.symbols.defined.keys()
        if names and names <= file.symbols.weak:
            by = set.intersection(*(strong.get(name, set()) for name in names))
            registrations = {number for other in by for number in keepers.get(other, ())}
            if registrations:
                replaced[file.name] = registrations
    return replaced


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
        for longer in strings[position + 1 :]:
            if not longer.text.endswith(part.text):
                break
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
