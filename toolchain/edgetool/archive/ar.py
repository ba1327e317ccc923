"""The members of a static library (ar): names and places, with every size checked before it is followed.

The format is that of System V and GNU: a file starts with "!<arch>\\n", each member with a header of 60 bytes, and the
member "//" contains names of more than 15 characters. BSD's names at the start of a member are understood, too. The
symbol table ("/", "/SYM64/", "__.SYMDEF") is not needed: the symbols are read from the members themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from edgetool.errors import LibraryError

MAGIC = b"!<arch>\n"
THIN_MAGIC = b"!<thin>\n"
HEADER_BYTES = 60
MAX_MEMBERS = 100_000
MAX_NAME_BYTES = 4096
SYMBOL_TABLES = ("/", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64")
_LONG_NAME = re.compile(r"/(\d{1,15})")
_BSD_NAME = re.compile(r"#1/(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a library. data: its bytes, without a copy; number: its position, because names can occur twice."""

    name: str
    number: int
    data: memoryview


def read_members(blob: bytes, name: str) -> tuple[Member, ...]:
    """Return the members of a static library except its tables of symbols and names.

    name: the file's name for messages. Raises LibraryError if the file is no static library, is thin, or is damaged.
    """
    if blob.startswith(THIN_MAGIC):
        raise LibraryError(
            "is a thin archive, which contains only the names of its members",
            where=name,
            fix="create it without the option T of ar",
        )
    if not blob.startswith(MAGIC):
        raise LibraryError(
            "is not a static library",
            where=name,
            fix="give the file that ar creates, such as libtensorflow-microlite.a",
        )
    return tuple(_members(memoryview(blob), name))


def _members(view: memoryview, library: str) -> Iterator[Member]:
    at, number, long_names = len(MAGIC), 0, memoryview(b"")
    while at < len(view):
        header = view[at : at + HEADER_BYTES].tobytes()
        if len(header) < HEADER_BYTES:
            raise damaged(library, f"ends within the header of a member at byte {at}")
        if header[58:] != b"`\n":
            raise damaged(library, f"has no header of a member at byte {at}")
        size_text = header[48:58].strip()
        if not size_text.isdigit():
            raise damaged(library, f"has a member without a size at byte {at}")
        start, size = at + HEADER_BYTES, int(size_text)
        name = header[:16].rstrip(b" ").decode("latin-1")
        if match := _LONG_NAME.fullmatch(name):
            name = _long_name(long_names, int(match[1]), library, at)
        if size > len(view) - start:
            what = f"has {size:,} bytes, but the file ends after {len(view) - start:,}"
            raise damaged(f"{library}({_shown(name.removesuffix('/'))})", what)
        data = view[start : start + size]
        if match := _BSD_NAME.fullmatch(name):
            length = int(match[1])
            if length > min(size, MAX_NAME_BYTES):
                raise damaged(library, f"has a member with a name of {length:,} bytes at byte {at}")
            name, data = data[:length].tobytes().rstrip(b"\0").decode("latin-1"), data[length:]
        at = start + size + size % 2
        if name == "//":
            long_names = data
        elif name not in SYMBOL_TABLES:
            if number == MAX_MEMBERS:
                raise LibraryError(f"has more than {MAX_MEMBERS:,} members", where=library)
            yield Member(_shown(name.removesuffix("/")), number, data)
            number += 1


def _long_name(names: memoryview, at: int, library: str, member_at: int) -> str:
    text = names[at : at + MAX_NAME_BYTES].tobytes() if at < len(names) else b""
    name, end, _ = text.partition(b"\n")
    if not end:
        raise damaged(library, f"has a member at byte {member_at} whose name is outside the table of names")
    return name.decode("latin-1")


def _shown(name: str) -> str:
    return name if name.isprintable() else ascii(name)[1:-1]


def damaged(where: str, what: str) -> LibraryError:
    """Return the error for a damaged library."""
    return LibraryError(what, where=where, fix="the file is damaged: build or copy it again")
