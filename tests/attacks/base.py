"""What an attack is, and the sound file that most of them are one wrong place away from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from edgetool.model.flatbuffer import Record
from edgetool.model.types import Metadata, Model
from edgetool.model.writer import write_model
from tests.model.attacks import Path, field_at, follow, patched, records, target_at, vtable_at, with_field
from tests.model.builders import Builder


@dataclass(frozen=True, slots=True)
class Attack:
    """A hostile file. message: what the refusal must say, a regular expression. large: over 50 kB, made on demand."""

    make: Callable[[], bytes]
    message: str
    large: bool = False


def sound_model() -> Model:
    """One FULLY_CONNECTED of 4 inputs and 2 outputs, with a signature and metadata."""
    build = Builder(seed=9)
    x = build.activation([1, 4])
    y = build.dense(x, 2)
    build.data.append(b"1.0\0")
    entry = Metadata("min_runtime_version", b"1.0\0", len(build.data) - 1)
    return replace(build.model([x], [y]), metadata=(entry,))


def sound() -> bytes:
    return write_model(sound_model())


def record(table: str, **fields: Any) -> Record:
    return Record(table, 0, fields)


def changed(path: Path, field: str, value: Any, message: str) -> Attack:
    """The sound file, written again with one field of one table set to a value."""
    return Attack(lambda: with_field(sound_model(), path, field, value), message)


def bytes_changed(change: Callable[[bytes], bytes], message: str) -> Attack:
    """The bytes of the sound file after a change."""
    return Attack(lambda: change(sound()), message)


def on_length(path: Path, field: str, length: int, message: str) -> Attack:
    """The length of a vector or text, replaced."""
    return bytes_changed(
        lambda blob: patched(blob, target_at(blob, follow(records(blob), path), field), "I", length), message
    )


def on_offset(path: Path, field: str, offset: int, message: str) -> Attack:
    """The offset in a field, replaced."""
    return bytes_changed(
        lambda blob: patched(blob, field_at(blob, follow(records(blob), path), field), "I", offset % 2**32), message
    )


def on_vtable(path: Path, half_word: int, value: int, message: str) -> Attack:
    """A half word of a table's vtable, replaced: its size, the table's, then the fields' places."""
    return bytes_changed(
        lambda blob: patched(blob, vtable_at(blob, follow(records(blob), path)) + 2 * half_word, "H", value), message
    )


def on_distance(path: Path, distance: int, message: str) -> Attack:
    """The distance from a table to its vtable, replaced."""
    return bytes_changed(lambda blob: patched(blob, follow(records(blob), path).at, "i", distance), message)
