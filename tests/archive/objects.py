"""Small object files and static libraries, written from scratch so that the tests need no compiler."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ARM = 40
ALLOC, EXECUTE, MERGE, STRINGS = 2, 4, 0x10, 0x20


@dataclass(frozen=True)
class Part:
    """A section. refers: the names of the symbols that its relocations name."""

    name: str
    data: bytes = b"\0\0\0\0"
    refers: tuple[str, ...] = ()
    flags: int = ALLOC | EXECUTE
    kind: int = 1
    alignment: int = 4
    entry_bytes: int = 0
    link: int | None = None


@dataclass(frozen=True)
class Unit:
    """An object file. defines: the section of each symbol that it defines; weak: those that are weak."""

    parts: Sequence[Part]
    defines: Mapping[str, int] = field(default_factory=dict)
    weak: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()
    machine: int = ARM


def object_bytes(unit: Unit) -> bytes:
    """Return the file in ELF for 32 bits."""
    names = [
        *unit.defines,
        *dict.fromkeys(name for part in unit.parts for name in part.refers if name not in unit.defines),
    ]
    names.sort(key=lambda name: name not in unit.local)
    strings, places = b"\0", {}
    for name in names:
        places[name] = len(strings)
        strings += name.encode() + b"\0"
    symbols = b"\0" * 16
    for name in names:
        binding = 0 if name in unit.local else 2 if name in unit.weak else 1
        section = unit.defines[name] + 1 if name in unit.defines else 0
        symbols += struct.pack("<IIIBBH", places[name], 0, 0, binding << 4, 0, section)
    headers = [("", 0, 0, b"", 0, 0, 0, 0)]
    headers += [
        (
            part.name,
            part.kind,
            part.flags,
            part.data,
            0 if part.link is None else part.link + 1,
            0,
            part.alignment,
            part.entry_bytes,
        )
        for part in unit.parts
    ]
    symbol_table = 1 + len(unit.parts) + sum(bool(part.refers) for part in unit.parts)
    for index, part in enumerate(unit.parts, 1):
        if part.refers:
            entries = b"".join(struct.pack("<II", 0, (names.index(name) + 1) << 8 | 2) for name in part.refers)
            headers.append((f".rel{part.name}", 9, 0, entries, symbol_table, index, 4, 8))
    headers.append((".symtab", 2, 0, symbols, symbol_table + 1, 1 + len(unit.local), 4, 16))
    headers.append((".strtab", 3, 0, strings, 0, 0, 1, 0))
    section_names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in headers[1:]) + b".shstrtab\0"
    headers.append((".shstrtab", 3, 0, section_names, 0, 0, 1, 0))
    body, table = b"", b""
    for name, kind, flags, data, link, info, alignment, entry in headers:
        at = section_names.index(name.encode() + b"\0") if name else 0
        size = len(data)
        table += struct.pack("<10I", at, kind, flags, 0, 52 + len(body), size, link, info, alignment, entry)
        body += b"" if kind == 8 else data
    header = b"\x7fELF\1\1\1" + b"\0" * 9
    header += struct.pack(
        "<HHIIIIIHHHHHH", 1, unit.machine, 1, 0, 0, 52 + len(body), 0, 52, 0, 0, 40, len(headers), len(headers) - 1
    )
    return header + body + table


def library_bytes(members: Mapping[str, bytes]) -> bytes:
    """Return a static library as GNU ar writes it, without a table of symbols."""
    long_names = b"".join(name.encode() + b"/\n" for name in members if len(name) > 15)
    blob = b"!<arch>\n"
    if long_names:
        blob += _member(b"//", long_names)
    for name, data in members.items():
        at = long_names.find(name.encode() + b"/\n")
        blob += _member(f"/{at}".encode() if at >= 0 and len(name) > 15 else name.encode() + b"/", data)
    return blob


def _member(name: bytes, data: bytes) -> bytes:
    return (
        name.ljust(16)
        + b"0".ljust(12)
        + b"0".ljust(6) * 2
        + b"644".ljust(8)
        + str(len(data)).encode().ljust(10)
        + b"`\n"
        + data
        + b"\n" * (len(data) % 2)
    )
