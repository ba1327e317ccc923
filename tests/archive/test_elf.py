"""Object files: what is read, and files that are damaged or for something else."""

from __future__ import annotations

import random
import struct
from collections import Counter

import pytest

from edgetool.archive.elf import NOWHERE, UNDEFINED, ObjectFile, read_object
from edgetool.archive.link import Linker
from edgetool.errors import LibraryError
from tests.archive.objects import ALLOC, MERGE, STRINGS, Part, Unit, object_bytes

PLAIN = Unit(
    (
        Part(".text.f", b"1234", ("g", "local", "h")),
        Part(".rodata.f.str1.1", b"text\0end\0", flags=ALLOC | MERGE | STRINGS, alignment=1, entry_bytes=1),
        Part(".bss", bytes(100), kind=8),
        Part(".comment", b"GCC", flags=0),
    ),
    {"f": 0, "local": 1, "h": 2},
    weak=frozenset({"h"}),
    local=frozenset({"local"}),
)


def read(data: bytes, machine: int | None = None) -> ObjectFile:
    """Return an object file of these bytes."""
    return read_object(memoryview(data), "lib.a(f.o)", machine=machine)


def test_sections_symbols_and_references() -> None:
    file = read(object_bytes(PLAIN), 40)
    assert [(each.name, each.size_bytes, each.is_in_flash) for each in file.sections.values()] == [
        (".text.f", 4, True),
        (".rodata.f.str1.1", 9, True),
        (".bss", 100, False),
    ]
    assert set(file.symbols.defined) == {"f", "h"}
    assert file.symbols.needed == ("g",)
    assert file.symbols.weak == {"h"}
    names = [file.symbols.names[symbol] for symbol in file.references(1)]
    assert sorted(names) == ["", "g", "h"]
    places = {name: int(place) for name, place in zip(file.symbols.names, file.symbols.sections, strict=True) if name}
    assert places == {"f": 1, "h": 3, "g": UNDEFINED}
    assert file.contents(file.sections[2]) == b"text\0end\0"
    assert file.sections[2].are_strings
    assert NOWHERE not in places.values()


def wide_object() -> bytes:
    """Return an object file for 64 bits with a section that refers to a symbol."""
    names = b"\0.text\0.rela.text\0.symtab\0.strtab\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x10, 0, 1, 0, 0) + struct.pack("<IBBHQQ", 3, 0x10, 0, 0, 0, 0)
    parts = [(b"code", 1, 1, 6, 0, 0, 0), (struct.pack("<QQq", 0, 2 << 32 | 1, 0), 4, 7, 0, 3, 1, 24)]
    parts += [(symbols, 2, 18, 0, 4, 1, 24), (b"\0f\0g\0" + names, 3, 26, 0, 0, 0, 0)]
    at, table, body = 64, bytes(64), b""
    for data, kind, name, flags, link, info, entry in parts:
        table += struct.pack("<IIQQQQIIQQ", name + 5, kind, flags, 0, at + len(body), len(data), link, info, 1, entry)
        body += data
    head = (
        b"\x7fELF\2\1\1"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 5, 4)
    )
    return head + body + table


def test_files_for_64_bits() -> None:
    file = read(wide_object(), 62)
    assert Linker([file]).link(["f"]).undefined == {"g"}
    assert Linker([file]).link(["f"]).flash_bytes == 4


GOOD = object_bytes(PLAIN)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"text", "is not an object file"),
        (b"BC\xc0\xde" + bytes(100), "contains code for link-time optimization"),
        (GOOD[:10], "has no valid header"),
        (GOOD[:4] + b"\1\2" + GOOD[6:], "big-endian"),
        (GOOD[:16] + b"\2\0" + GOOD[18:], "is no object file, but a linked one"),
        (GOOD[:18] + b"\xf3\0" + GOOD[20:], "is for RISC-V, not for Arm"),
        (GOOD[:18] + b"\xff\xff" + GOOD[20:], "is for the machine 65535 of ELF, not for Arm"),
        (GOOD[:40], "ends within its header"),
        (GOOD[:-1], "ends within its section headers"),
        (GOOD[:46] + b"\1\0" + GOOD[48:], "has section headers of 1 bytes"),
        (GOOD[:50] + b"\x77\0" + GOOD[52:], "has no section names"),
    ],
)
def test_what_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(LibraryError, match=what) as refused:
        read(data, 40)
    assert refused.value.where == "lib.a(f.o)"


def test_code_for_link_time_optimization_is_refused() -> None:
    with pytest.raises(LibraryError, match="link-time optimization"):
        read(object_bytes(Unit((Part(".gnu.lto_f.123", flags=0),))))


def damaged(data: bytes, count: int, seed: int) -> Counter[str]:
    """Return the outcomes of reading and linking copies with random damage: what is wrong, or "read"."""
    outcomes: Counter[str] = Counter()
    generator = random.Random(seed)
    for _ in range(count):
        copy = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            copy[generator.randrange(len(copy))] = generator.choice((0, 1, 0x7F, 0xFF, generator.randrange(256)))
        blob = bytes(copy[: generator.randrange(len(copy))] if generator.random() < 0.1 else copy)
        try:
            Linker([read(blob)]).link(["f", "h"])
        except LibraryError as error:
            outcomes[error.what] += 1
        else:
            outcomes["read"] += 1
    return outcomes


def test_damage_never_ends_in_another_error() -> None:
    outcomes = damaged(GOOD, 1500, seed=1)
    assert len(outcomes) > 10
    assert outcomes["read"] > 100


@pytest.mark.slow
def test_more_damage_never_ends_in_another_error() -> None:
    assert damaged(GOOD, 20_000, seed=2).total() == 20_000
    assert damaged(wide_object(), 5_000, seed=3).total() == 5_000


def test_a_million_symbols_are_read() -> None:
    """They take memory in proportion to the file."""
    count = 1_000_000
    unit = Unit((Part(".text"),), {"f": 0})
    small = object_bytes(unit)
    symbols = small.index(struct.pack("<IIIBBH", 1, 0, 0, 0x10, 0, 1))
    entry = small[symbols : symbols + 16]
    table_at = int.from_bytes(small[32:36], "little")
    header = bytearray(small)
    index = next(i for i in range(6) if small[table_at + 40 * i + 4] == 2)
    header[table_at + 40 * index + 16 : table_at + 40 * index + 24] = struct.pack("<II", len(small), 16 * (count + 1))
    file = read(bytes(header) + bytes(16) + entry * count)
    assert len(file.symbols.names) == count + 1
    assert Linker([file]).link(["f"]).flash_bytes == 4
