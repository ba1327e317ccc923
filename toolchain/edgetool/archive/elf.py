"""Object files (ELF): sections, symbols and relocations, with every offset checked before it is followed.

Only what a linker needs to find what is reachable is read. Tables are numpy arrays over the file's bytes, so that a
million symbols take memory for their names only. Source: System V Application Binary Interface, chapter 4 (ELF), and
ELF for the Arm Architecture (IHI 0044).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgetool.archive.ar import damaged
from edgetool.errors import LibraryError

MAX_ALIGNMENT = 2**16
MACHINES = {3: "x86", 40: "Arm", 62: "x86-64", 94: "Xtensa", 173: "RX", 183: "AArch64", 243: "RISC-V"}
SHF_ALLOC, SHF_MERGE, SHF_STRINGS, SHF_LINK_ORDER = 2, 0x10, 0x20, 0x80
SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 2, 4, 8, 9
SHT_INIT_ARRAY, SHT_PREINIT_ARRAY, SHT_SYMTAB_SHNDX, SHT_ARM_EXIDX = 14, 16, 18, 0x70000001
SHN_UNDEF, SHN_LORESERVE, SHN_COMMON, SHN_XINDEX = 0, 0xFF00, 0xFFF2, 0xFFFF
STB_LOCAL, STB_WEAK = 0, 2
BITCODE_MAGICS = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
LTO_SECTION = ".gnu.lto_"

_WORDS = ("name", "type", "flags", "address", "offset", "size", "link", "info", "alignment", "entry")
_SECTION_32 = np.dtype([(name, "<u4") for name in _WORDS])
_SECTION_64 = np.dtype([(name, "<u4" if name in ("name", "type", "link", "info") else "<u8") for name in _WORDS])
_SYMBOL_32 = np.dtype(
    [("name", "<u4"), ("value", "<u4"), ("size", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2")]
)
_SYMBOL_64 = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)


class _Places(NamedTuple):
    """The size of a file's header, and where it has the offset, entry size and number of the section headers.

    names: where it has the index of the section with the names of sections.
    """

    header_bytes: int
    offset: slice
    entry_bytes: slice
    sections: slice
    names: slice


_HEADER_32 = _Places(52, slice(32, 36), slice(46, 48), slice(48, 50), slice(50, 52))
_HEADER_64 = _Places(64, slice(40, 48), slice(58, 60), slice(60, 62), slice(62, 64))
UNDEFINED, NOWHERE = -1, -2  # the section of a symbol that another file defines; that of an absolute or common one
# The bytes of a relocation, by class (32 or 64 bits) and type of its section.
_RELOCATIONS = {(1, SHT_REL): 8, (1, SHT_RELA): 12, (2, SHT_REL): 16, (2, SHT_RELA): 24}


class _Row(NamedTuple):
    """A section header."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


@dataclass(frozen=True, slots=True)
class Section:
    """A section with contents or space in the program. size and alignment in bytes.

    linked: the section that it describes (an index of unwinding of a function), or None.
    """

    index: int
    name: str
    kind: int
    flags: int
    offset: int
    size_bytes: int
    alignment: int
    entry_bytes: int
    linked: int | None

    @property
    def is_in_flash(self) -> bool:
        """Whether the section is programmed into flash: code, constants and initial values of variables."""
        return self.kind != SHT_NOBITS

    @property
    def are_strings(self) -> bool:
        """Whether the section consists of strings of which the linker keeps equal ones once."""
        return self.flags & (SHF_MERGE | SHF_STRINGS) == SHF_MERGE | SHF_STRINGS and self.entry_bytes == 1

    @property
    def are_constants(self) -> bool:
        """Whether the section consists of constants of one size of which the linker keeps equal ones once."""
        return self.flags & (SHF_MERGE | SHF_STRINGS) == SHF_MERGE and 0 < self.entry_bytes <= self.size_bytes


@dataclass(frozen=True, slots=True)
class Symbols:
    """The symbols of a file, by their index in its table.

    names: "" for a local symbol.
    sections: UNDEFINED if another file defines it, NOWHERE if it is absolute or common.
    defined: The index of each global symbol that is defined here.
    needed: The global symbols that another file must define.
    weak: The global symbols, defined or not, that another definition replaces, or that may be missing.
    """

    names: tuple[str, ...] = ()
    sections: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    defined: Mapping[str, int] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    weak: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """An object file.

    sections: Those that are part of a program, by index.
    symbols: Its symbols.
    relocations: Where a section's relocations are: their offset, number, and the bytes of one, and the bytes of a word.
    """

    name: str
    machine: int
    data: memoryview
    sections: dict[int, Section]
    symbols: Symbols
    relocations: dict[int, tuple[int, int, int, int]]

    def references(self, section: int) -> npt.NDArray[np.int64]:
        """Return the symbols, as indices, that the relocations of a section name, each once."""
        table = self.relocations.get(section)
        if table is None:
            return np.zeros(0, np.int64)
        offset, count, entry, word_bytes = table
        words = np.frombuffer(self.data, f"<u{word_bytes}", count * entry // word_bytes, offset)
        info = words.reshape(count, entry // word_bytes)[:, 1].astype(np.uint64)
        symbols = np.unique(info >> np.uint64(8 if word_bytes == 4 else 32))
        if len(symbols) and int(symbols[-1]) >= len(self.symbols.names):
            raise damaged(self.name, "has a relocation with a symbol that does not exist")
        return symbols.astype(np.int64)

    def contents(self, section: Section) -> bytes:
        """Return the bytes of a section."""
        return self.data[section.offset : section.offset + section.size_bytes].tobytes()


def read_object(data: memoryview, name: str, *, machine: int | None = None) -> ObjectFile:
    """Return an object file.

    Args:
        data: The file's bytes.
        name: Its name for messages: LIBRARY(MEMBER).
        machine: The machine that it must be for, a number of MACHINES; None for any.

    Raises:
        LibraryError: It is no object file for this machine, contains code for link-time optimization, or is damaged.
    """
    return _Reader(data, name).read(machine)


class _Reader:
    def __init__(self, data: memoryview, name: str) -> None:
        self.data = data
        self.name = name

    @cached_property
    def wide(self) -> bool:
        return bytes(self.data[4:5]) == b"\2"

    def read(self, machine: int | None) -> ObjectFile:
        head = bytes(self.data[:20])
        if head[:4] in BITCODE_MAGICS:
            raise _bitcode(self.name)
        if head[:4] != b"\x7fELF":
            raise LibraryError("is not an object file (ELF)", where=self.name, fix="remove it from the library")
        if len(head) < 20 or head[4] not in (1, 2):
            raise damaged(self.name, "has no valid header")
        if head[5] != 1:
            raise LibraryError("is for a machine with big-endian words", where=self.name, fix=_BUILD)
        built_for = int.from_bytes(head[18:20], "little")
        if machine is not None and built_for != machine:
            other = MACHINES.get(built_for, f"the machine {built_for} of ELF")
            raise LibraryError(f"is for {other}, not for {MACHINES[machine]}", where=self.name, fix=_BUILD)
        if int.from_bytes(head[16:18], "little") != 1:
            raise LibraryError("is no object file, but a linked one", where=self.name, fix=_BUILD)
        rows, names = self.section_table()
        if any(text.startswith(LTO_SECTION) for text in names):
            raise _bitcode(self.name)
        return self.object_file(built_for, rows, names)

    def array(self, dtype: np.dtype[np.void], at: int, count: int, what: str) -> npt.NDArray[np.void]:
        if count * dtype.itemsize > len(self.data) - at:
            raise damaged(self.name, f"ends within its {what}")
        return np.frombuffer(self.data, dtype, count, at)

    def section_table(self) -> tuple[list[_Row], list[str]]:
        """Return the section headers and the names of the sections."""
        dtype, places = (_SECTION_64, _HEADER_64) if self.wide else (_SECTION_32, _HEADER_32)
        header = bytes(self.data[: places.header_bytes])
        if len(header) < places.header_bytes:
            raise damaged(self.name, "ends within its header")
        fields = (places.offset, places.entry_bytes, places.sections, places.names)
        at, entry, count, names_index = (int.from_bytes(header[place], "little") for place in fields)
        if at == 0:
            return [], []
        if entry != dtype.itemsize:
            raise damaged(self.name, f"has section headers of {entry} bytes")
        first = _Row(*self.array(dtype, at, 1, "section headers")[0].tolist())
        count, names_index = count or first.size, first.link if names_index == SHN_XINDEX else names_index
        rows = list(map(_Row._make, self.array(dtype, at, count, "section headers").tolist()))
        strings = self.strings(rows, names_index, "section names")
        return rows, [self.text(strings, row.name, "section") for row in rows]

    def inside(self, row: _Row, what: str) -> tuple[int, int]:
        """Return the offset and the size of a section with contents, which are inside the file."""
        if row.offset + row.size > len(self.data):
            raise damaged(self.name, f"ends within its {what}")
        return row.offset, row.size

    def strings(self, rows: list[_Row], index: int, what: str) -> bytes:
        if not 0 < index < len(rows):
            raise damaged(self.name, f"has no {what}")
        offset, size = self.inside(rows[index], what)
        return self.data[offset : offset + size].tobytes()

    def text(self, strings: bytes, at: int, what: str) -> str:
        end = strings.find(b"\0", at)
        if end < 0:
            raise damaged(self.name, f"has a {what} whose name is outside the table of names")
        return strings[at:end].decode("latin-1")

    def object_file(self, machine: int, rows: list[_Row], names: list[str]) -> ObjectFile:
        relocations = {
            row.info: self.relocation_table(row, _RELOCATIONS[2 if self.wide else 1, row.kind])
            for row in rows
            if row.kind in (SHT_REL, SHT_RELA)
        }
        sections = {
            index: self.section(index, row, names[index], len(rows))
            for index, row in enumerate(rows)
            if row.flags & SHF_ALLOC and row.kind not in (SHT_REL, SHT_RELA)
        }
        index = next((index for index, row in enumerate(rows) if row.kind == SHT_SYMTAB), None)
        symbols = Symbols() if index is None else self.symbols(rows, index)
        return ObjectFile(self.name, machine, self.data, sections, symbols, relocations)

    def section(self, index: int, row: _Row, name: str, count: int) -> Section:
        if row.kind != SHT_NOBITS:
            self.inside(row, f"section {name}")
        if row.alignment & (row.alignment - 1) or row.alignment > MAX_ALIGNMENT:
            raise damaged(self.name, f"has the section {name} with an alignment of {row.alignment:,}")
        linked = row.link if row.flags & SHF_LINK_ORDER else None
        if linked is not None and linked >= count:
            raise damaged(self.name, f"has the section {name}, which describes a section that does not exist")
        alignment = max(row.alignment, 1)
        return Section(index, name, row.kind, row.flags, row.offset, row.size, alignment, row.entry, linked)

    def relocation_table(self, row: _Row, entry_bytes: int) -> tuple[int, int, int, int]:
        offset, size = self.inside(row, "relocations")
        if row.entry != entry_bytes or size % entry_bytes:
            raise damaged(self.name, "has relocations of a wrong size")
        return offset, size // entry_bytes, entry_bytes, 8 if self.wide else 4

    def symbols(self, rows: list[_Row], index: int) -> Symbols:
        dtype = _SYMBOL_64 if self.wide else _SYMBOL_32
        offset, size = self.inside(rows[index], "symbols")
        if size % dtype.itemsize:
            raise damaged(self.name, "has symbols of a wrong size")
        table = np.frombuffer(self.data, dtype, size // dtype.itemsize, offset)
        strings = self.strings(rows, rows[index].link, "names of symbols")
        raw = table["section"].astype(np.int64)
        extended = raw == SHN_XINDEX
        places = self.extended(rows, index, raw) if extended.any() else raw
        places = np.where(raw == SHN_UNDEF, UNDEFINED, np.where((raw >= SHN_LORESERVE) & ~extended, NOWHERE, places))
        if len(places) and int(places.max()) >= len(rows):
            raise damaged(self.name, "has a symbol in a section that does not exist")
        binding = table["info"] >> 4
        is_global = binding != STB_LOCAL
        names, at = [""] * len(table), table["name"].tolist()
        for position in np.flatnonzero(is_global).tolist():
            names[position] = self.text(strings, at[position], "symbol")

        def those(condition: npt.NDArray[np.bool_]) -> list[int]:
            return np.flatnonzero(is_global & condition).tolist()

        return Symbols(
            tuple(names),
            places,
            {names[position]: position for position in those(places != UNDEFINED)},
            tuple(names[position] for position in those((places == UNDEFINED) & (binding != STB_WEAK))),
            frozenset(names[position] for position in those((binding == STB_WEAK) | (raw == SHN_COMMON))),
        )

    def extended(self, rows: list[_Row], index: int, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the sections of symbols in a file with more sections than 16 bits can count."""
        for row in rows:
            if row.kind == SHT_SYMTAB_SHNDX and row.link == index:
                offset, size = self.inside(row, "sections of symbols")
                if size == 4 * len(places):
                    return np.where(places == SHN_XINDEX, np.frombuffer(self.data, "<u4", len(places), offset), places)
        raise damaged(self.name, "has symbols without their sections")


_BUILD = "give the library that is built for the target"


def _bitcode(name: str) -> LibraryError:
    return LibraryError(
        "contains code for link-time optimization, whose size is known only after linking",
        where=name,
        fix="build it without -flto",
    )
