"""Writes records as a flatbuffer by the schema: the counterpart of flatbuffer.py."""

from __future__ import annotations

from struct import pack
from typing import Any

from edgetool.errors import InternalError
from edgetool.model.enums import UNIONS
from edgetool.model.flatbuffer import Record
from edgetool.model.schema import ALIGNMENTS, FILE_IDENTIFIER, SCALARS, Field, table

# The flatbuffers library's words for our scalars.
_SLOTS = {
    "bool": "PrependBoolSlot",
    "i8": "PrependInt8Slot",
    "u8": "PrependUint8Slot",
    "i16": "PrependInt16Slot",
    "u16": "PrependUint16Slot",
    "i32": "PrependInt32Slot",
    "u32": "PrependUint32Slot",
    "i64": "PrependInt64Slot",
    "u64": "PrependUint64Slot",
    "f32": "PrependFloat32Slot",
}


def write_root(root: Record) -> bytes:
    """The file of a root table and all below it. A field left out, or None, is absent, and so are no bytes.

    Nothing but the schema is minded: InternalError for a field or an enumeration's name that it lacks.
    """
    from flatbuffers import Builder  # imports numpy, which only writing needs

    builder = Builder(65536)
    builder.Finish(_write(builder, root), file_identifier=FILE_IDENTIFIER)
    return bytes(builder.Output())


def _write(builder: Any, record: Record) -> int:
    """Write a table and all below it, children first since a flatbuffer grows towards its start; its offset."""
    kind = table(record.table)
    stray = record.fields.keys() - kind.defaults.keys()
    if stray:
        raise InternalError(f"{record.table} has no field {min(stray)}")
    values = [(field, record.fields[field.name]) for field in kind.fields if field.name in record.fields]
    placed = [
        (field, value if field.kind == "scalar" else _write_child(builder, record.table, field, value), value)
        for field, value in values
        if value is not None and not (field.kind == "bytes" and not value)
    ]
    placed.sort(key=lambda entry: -_width(entry[0]))  # wide fields together need no padding
    builder.StartObject(kind.slots)
    for field, content, value in placed:
        if field.kind == "scalar":
            number, default = _number(field, value), _number(field, field.default)
            getattr(builder, _SLOTS[field.scalar])(field.id, number, default)
        elif field.kind == "union":
            builder.PrependUOffsetTRelativeSlot(field.id + 1, content, 0)
        else:
            builder.PrependUOffsetTRelativeSlot(field.id, content, 0)
    for field, _, value in placed:
        if field.kind == "union":
            builder.PrependUint8Slot(field.id, UNIONS[field.target].index(value.table), 0)
    return int(builder.EndObject())


def _width(field: Field) -> int:
    return SCALARS[field.scalar][1] if field.kind == "scalar" else 4


def _number(field: Field, value: Any) -> Any:
    try:
        return field.enumeration.number(value) if field.enumeration else value
    except KeyError:
        raise InternalError(f"{field.name} cannot be {value}") from None


def _write_child(builder: Any, owner: str, field: Field, value: Any) -> int:
    """Write what a field refers to; its offset."""
    if field.kind == "string":
        return int(builder.CreateString(value))
    if field.kind in ("table", "union"):
        return _write(builder, value)
    if field.kind == "tables":
        offsets = [_write(builder, record) for record in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())
    letter, width = SCALARS[field.scalar]
    content = value if field.kind == "bytes" else pack(f"<{len(value)}{letter}", *(_number(field, v) for v in value))
    builder.StartVector(width, len(value), ALIGNMENTS.get((owner, field.name), width))
    builder.head -= len(content)
    builder.Bytes[builder.head : builder.head + len(content)] = content
    return int(builder.EndVector())
