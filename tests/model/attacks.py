"""Files that are wrong in one chosen place."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack, pack_into, unpack_from
from typing import Any

from edgetool.model.flatbuffer import Record, read_root
from edgetool.model.schema import table
from edgetool.model.types import Model
from edgetool.model.writer import write_model, write_root

Path = tuple[str | int, ...]


def records(blob: bytes) -> Record:
    """The tables of a file, as they may be changed and written again."""
    return read_root(blob, "Model", "base")[0]


def follow(record: Any, path: Path) -> Any:
    """What a path of field names and positions leads to."""
    for step in path:
        record = record[step]
    return record


def with_field(model: Model, path: Path, name: str, value: Any) -> bytes:
    """The model's file with one field of the table at `path` set to `value`; a function changes what is there."""
    root = records(write_model(model))
    record = follow(root, path)
    record.fields[name] = value(record.fields[name]) if isinstance(value, Callable) else value
    return write_root(root)


def vtable_at(blob: bytes, record: Record) -> int:
    """The byte where a table's vtable starts."""
    return int(record.at - unpack_from("<i", blob, record.at)[0])


def field_at(blob: bytes, record: Record, name: str, part: int = 0) -> int:
    """The byte where a field lies in its table; part 1 is a union's value."""
    slot = next(field.id for field in table(record.table).fields if field.name == name) + part
    offset = unpack_from("<H", blob, vtable_at(blob, record) + 4 + 2 * slot)[0]
    assert offset, f"{record.table}.{name} is not in the file"
    return int(record.at + offset)


def target_at(blob: bytes, record: Record, name: str) -> int:
    """The byte where the vector, text or table that a field refers to starts."""
    at = field_at(blob, record, name)
    return int(at + unpack_from("<I", blob, at)[0])


def patched(blob: bytes, at: int, letter: str, value: int) -> bytes:
    """The file with one number replaced."""
    changed = bytearray(blob)
    pack_into(f"<{letter}", changed, at, value)
    return bytes(changed)


def alias_bomb(subgraphs: int, tensors: int) -> bytes:
    """A file in which every subgraph is one subgraph, and every tensor of it one tensor."""
    out = bytearray(pack("<I4s", 0, b"TFL3"))

    def place(content: bytes) -> int:
        out.extend(bytes(-len(out) % 4))
        out.extend(content)
        return len(out) - len(content)

    def refer(at: int, target: int) -> None:
        pack_into("<I", out, at, target - at)

    def vector(length: int) -> int:
        return place(pack("<I", length) + bytes(4 * length))

    def fill(at: int, length: int, target: int) -> None:
        for element in range(at + 4, at + 4 + 4 * length, 4):
            refer(element, target)

    def start(table_at: int, vtable_at: int) -> int:
        pack_into("<i", out, table_at, table_at - vtable_at)
        return table_at

    # Offsets lead forward only, so whatever is referred to comes after; vtables may be anywhere.
    empty_vtable = place(pack("<HH", 4, 4))  # all defaults
    graph_vtable = place(pack("<HHHHH", 10, 16, 4, 8, 12))  # its tensors, inputs and outputs
    model_vtable = place(pack("<HHHHHHH", 14, 16, 4, 0, 8, 0, 12))  # version, subgraphs, buffers
    root = start(place(pack("<iIII", 0, 3, 0, 0)), model_vtable)
    refer(0, root)
    all_graphs, graph = vector(subgraphs), start(place(bytes(16)), graph_vtable)
    refer(root + 8, all_graphs)
    fill(all_graphs, subgraphs, graph)
    all_tensors, all_buffers, none = vector(tensors), vector(1), vector(0)
    refer(graph + 4, all_tensors)
    refer(graph + 8, none)
    refer(graph + 12, none)
    refer(root + 12, all_buffers)
    empty = start(place(bytes(4)), empty_vtable)  # both the tensor and the buffer
    fill(all_tensors, tensors, empty)
    fill(all_buffers, 1, empty)
    return bytes(out)
