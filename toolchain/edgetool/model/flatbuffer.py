"""A schema-driven flatbuffer reader that trusts nothing in the file.

Every offset, vtable, length and alignment is checked before it is followed, as the verifier of the flatbuffers
library for C++ does (the Python library has none). Tables that share their contents can make a small file expand to an
enormous one, so everything read is charged against a budget, on every visit, so the work stays linear in the file size
whatever the file contains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isnan, nan
from struct import Struct, unpack_from
from typing import Any, NoReturn

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.model.schema import SCALARS, UNIONS, Field, Table
from edgetool.model.schema import table as schema_table

MAX_DEPTH = 64
MAX_TABLES = 1_000_000
# Writers share strings and vectors, never tables: a table reached again costs as much time and memory as a new one.
MAX_SHARED_TABLES = 10_000
# A file without sharing costs less than its own size; the floor lets small ones share.
BUDGET_FACTOR = 4
BUDGET_FLOOR_BYTES = 65_536

DAMAGED = "the file is damaged: export or copy it again"

_u32 = Struct("<I").unpack_from
_i32 = Struct("<i").unpack_from
_u16_pair = Struct("<HH").unpack_from
_SCALAR_READERS = {name: (Struct("<" + letter).unpack_from, width) for name, (letter, width) in SCALARS.items()}

FieldPosition = tuple[Field, int, int]  # a field, its offset in the table and, for a union, the offset of its type


@dataclass(slots=True)
class Record:
    """A table of the file: every field of the schema with its value, or with the default if the file omits it.

    at: the byte where the table starts, for messages. Tables read as Records, vectors as tuples, [u8] as bytes,
    enumerations as their names; every NaN is one object, so that equal files read as equal values.
    """

    table: str
    at: int
    fields: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


def read_root(blob: bytes, root: str, name: str) -> tuple[Record, tuple[str, ...]]:
    """Return the root table of a flatbuffer, and the fields that the schema does not have ("Operator.field 14").

    name: the file's name for messages. Raises InvalidModelError, and UnsupportedModelError for a union type
    that the schema lacks.
    """
    reader = _Reader(blob, name)
    if len(blob) < 8:
        reader.fail(f"{root} at byte 0", f"the file ends after {len(blob)} bytes")
    record = reader.table(schema_table(root), _u32(blob, 0)[0], depth=1)
    return record, tuple(sorted(reader.unknown))


class _Reader:
    """One pass over one file. `budget` is the number of bytes that may still be read."""

    def __init__(self, blob: bytes, name: str) -> None:
        self.blob = blob
        self.size = len(blob)
        self.name = name
        self.budget = BUDGET_FACTOR * len(blob) + BUDGET_FLOOR_BYTES
        self.tables = 0
        self.starts: set[int] = set()
        self.unknown: set[str] = set()
        self.vtables: dict[tuple[int, str], tuple[int, list[FieldPosition], str]] = {}
        self.payloads: dict[int, bytes] = {}
        self.readers: dict[str, Callable[[Table, Field, int, int], Any]] = {
            "scalar": self.scalar,
            "string": self.string,
            "bytes": self.payload,
            "scalars": self.scalars,
            "table": self.child_table,
            "tables": self.child_tables,
        }

    def fail(self, where: str, what: str) -> NoReturn:
        raise InvalidModelError(what, where=f"{self.name}: {where}", fix=DAMAGED)

    def fail_at(self, kind: Table, field: Field, at: int, what: str) -> NoReturn:
        self.fail(f"{kind.name}.{field.name} at byte {at}", what)

    def spend(self, size_bytes: int, where: str) -> None:
        self.budget -= size_bytes
        if self.budget < 0:
            self.fail(where, "its tables overlap: expanded, they would be far larger than the file")

    def table(self, kind: Table, at: int, depth: int) -> Record:
        """Return the table that starts at byte `at`."""
        where = f"{kind.name} at byte {at}"
        if depth > MAX_DEPTH:
            self.fail(where, f"tables are nested more than {MAX_DEPTH} levels deep")
        self.tables += 1
        if self.tables > MAX_TABLES:
            self.fail(where, f"the file has more than {MAX_TABLES} tables")
        self.starts.add(at)
        if self.tables - len(self.starts) > MAX_SHARED_TABLES:
            self.fail(where, f"over {MAX_SHARED_TABLES} tables overlap: expanded, they are far larger than the file")
        if at & 3 or at + 4 > self.size:
            self.fail(where, "it is not aligned to 4 bytes" if at & 3 else "it is beyond the end of the file")
        vtable_at = at - _i32(self.blob, at)[0]
        vtable = self.vtables.get((vtable_at, kind.name))
        if vtable is None:
            vtable = self.vtables[vtable_at, kind.name] = self.vtable(kind, vtable_at, where)
        inline_size, positions, missing = vtable
        if at + inline_size > self.size:
            self.fail(where, f"its {inline_size} bytes extend past the end of the file")
        self.spend(inline_size + 4, where)
        fields = kind.defaults.copy()
        readers = self.readers
        for field, offset, type_offset in positions:
            if field.kind == "union":
                number = self.blob[at + type_offset] if type_offset else 0
                fields[field.name] = self.union(kind, field, number, at + offset, depth)
            else:
                fields[field.name] = readers[field.kind](kind, field, at + offset, depth)
        if missing:
            self.fail(f"{where}, field {missing}", "it is missing, but runtimes read it anyway")
        return Record(kind.name, at, fields)

    def vtable(self, kind: Table, at: int, where: str) -> tuple[int, list[FieldPosition], str]:
        """Return the size of the tables with this vtable, their fields' offsets, and the fields that they lack."""
        if at < 0 or at & 1 or at + 4 > self.size:
            self.fail(where, f"its vtable would be at byte {at}")
        vtable_size, inline_size = _u16_pair(self.blob, at)
        if vtable_size < 4 or vtable_size & 1 or at + vtable_size > self.size or inline_size < 4:
            self.fail(where, f"its vtable at byte {at} declares sizes of {vtable_size} and {inline_size} bytes")
        self.spend(vtable_size, where)
        offsets = unpack_from(f"<{vtable_size // 2 - 2}H", self.blob, at + 4)
        positions = []
        missing = ""
        for field in kind.fields:
            first = offsets[field.id] if field.id < len(offsets) else 0
            second = 0
            if field.kind == "union":
                second, first = first, offsets[field.id + 1] if field.id + 1 < len(offsets) else 0
            if field.kind == "deprecated":
                continue
            width = _SCALAR_READERS[field.scalar][1] if field.kind == "scalar" else 4
            if (first and not 4 <= first <= inline_size - width) or (second and not 4 <= second < inline_size):
                self.fail(f"{where}, field {field.name}", f"it is outside its table of {inline_size} bytes")
            if first:
                positions.append((field, first, second))
            elif field.required:
                missing = field.name
        self.unknown.update(f"{kind.name}.field {i}" for i in range(kind.slots, len(offsets)) if offsets[i])
        return inline_size, positions, missing

    def follow(self, kind: Table, field: Field, at: int) -> int:
        """Return the position that the offset at byte `at` points to: at least 4 bytes before the end of the file."""
        offset: int = _u32(self.blob, at)[0]
        if at & 3 or offset == 0 or at + offset > self.size - 4:
            what = "points past the end of the file" if at + offset > self.size - 4 else "does not point to data"
            self.fail_at(kind, field, at, f"an offset of {offset} {what}")
        return at + offset

    def vector(self, kind: Table, field: Field, at: int, width: int) -> tuple[int, int]:
        """Return the first element's byte and the length of the vector that byte `at` refers to, and charge for it.

        The length is 4-byte aligned and the elements need no stricter alignment: real writers align 64-bit numbers
        this way, LiteRT accepts them, and 32-bit devices load them in halves.
        """
        target = self.follow(kind, field, at)
        length: int = _u32(self.blob, target)[0]
        start = target + 4
        if start + length * width > self.size:
            self.fail_at(kind, field, target, f"{length} elements of {width} bytes extend past the end of the file")
        if target & 3:
            self.fail_at(kind, field, target, "the vector is not aligned")
        self.spend(length * width + 4, f"{kind.name}.{field.name} at byte {target}")
        return start, length

    def scalar(self, kind: Table, field: Field, at: int, depth: int) -> Any:
        unpack, width = _SCALAR_READERS[field.scalar]
        if at % width:
            self.fail_at(kind, field, at, f"it is not aligned to {width} bytes")
        value = unpack(self.blob, at)[0]
        if field.scalar == "f32" and isnan(value):
            return nan
        return field.enumeration.name(value) if field.enumeration else value

    def string(self, kind: Table, field: Field, at: int, depth: int) -> str:
        start, length = self.vector(kind, field, at, 1)
        end = start + length
        if end >= self.size or self.blob[end]:
            self.fail_at(kind, field, start, "the string is not null-terminated")
        try:
            return self.blob[start:end].decode("utf-8")
        except UnicodeDecodeError:
            self.fail_at(kind, field, start, "the string is not valid UTF-8")

    def payload(self, kind: Table, field: Field, at: int, depth: int) -> bytes:
        start, length = self.vector(kind, field, at, 1)
        payload = self.payloads.get(start)
        if payload is None:
            payload = self.payloads[start] = self.blob[start : start + length]
        return payload

    def scalars(self, kind: Table, field: Field, at: int, depth: int) -> tuple[Any, ...]:
        letter, width = SCALARS[field.scalar]
        start, length = self.vector(kind, field, at, width)
        values = unpack_from(f"<{length}{letter}", self.blob, start)
        if letter == "f" and any(map(isnan, values)):
            return tuple(nan if isnan(value) else value for value in values)
        return tuple(map(field.enumeration.name, values)) if field.enumeration else values

    def child_table(self, kind: Table, field: Field, at: int, depth: int) -> Record:
        return self.table(schema_table(field.target), self.follow(kind, field, at), depth + 1)

    def child_tables(self, kind: Table, field: Field, at: int, depth: int) -> tuple[Record, ...]:
        start, length = self.vector(kind, field, at, 4)
        if self.tables + length > MAX_TABLES:
            self.fail_at(
                kind, field, start - 4, f"with its {length} elements, the file would have more than {MAX_TABLES} tables"
            )
        return tuple(self._elements(kind, field, start, length, depth))

    def _elements(self, kind: Table, field: Field, start: int, length: int, depth: int) -> Iterator[Record]:
        element = schema_table(field.target)
        for at in range(start, start + 4 * length, 4):
            yield self.table(element, self.follow(kind, field, at), depth + 1)

    def union(self, kind: Table, field: Field, number: int, at: int, depth: int) -> Record | None:
        """Return the table of the type that the union's other field states; None if it states no type."""
        target = self.follow(kind, field, at)
        names = UNIONS[field.target]
        if number >= len(names):
            raise UnsupportedModelError(
                f"unknown {field.target} number {number}",
                where=f"{self.name}: {kind.name}.{field.name} at byte {at}",
                fix="the file was written for a newer runtime: export it with an older converter",
            )
        if number == 0:
            return None
        return self.table(schema_table(names[number]), target, depth + 1)
