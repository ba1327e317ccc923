"""The converter's name, from metadata that anybody may have written."""

from __future__ import annotations

from dataclasses import replace
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.metadata import converter_of
from edgetool.model.reader import read_model
from edgetool.model.types import Metadata, Model
from tests.conftest import SHARED
from tests.model.builders import conv_model


def conversion(version: bytes) -> bytes:
    """ConversionMetadata{environment{tensorflow_version}}, as flatbuffers lays it out."""
    return b"".join(
        [
            pack("<I", 12),  # root, at 12
            pack("<HHHH", 6, 8, 4, 0),  # its vtable
            pack("<iI", 8, 12),  # the table, and the offset to the environment, at 28
            pack("<HHHH", 6, 8, 4, 0),
            pack("<iI", 8, 4),
            pack("<I", len(version)) + version + b"\0",
        ]
    )


def with_metadata(**payloads: bytes) -> Model:
    return replace(conv_model(), metadata=tuple(Metadata(name, data, 0) for name, data in payloads.items()))


@pytest.mark.parametrize(
    ("payloads", "name"),
    [
        ({}, None),
        ({"CONVERSION_METADATA": conversion(b"2.21.0")}, "TensorFlow 2.21.0"),
        ({"min_runtime_version": b"2.9.0\0\0\0"}, "for TensorFlow Lite 2.9.0"),
        ({"CONVERSION_METADATA": conversion(b"2.21.0"), "min_runtime_version": b"1.5.0"}, "TensorFlow 2.21.0"),
        ({"CONVERSION_METADATA": conversion(b""), "min_runtime_version": b"1.5.0"}, "for TensorFlow Lite 1.5.0"),
        ({"CONVERSION_METADATA": conversion(b"2\n::error")}, None),
        ({"CONVERSION_METADATA": conversion(b"x" * 41)}, None),
        ({"CONVERSION_METADATA": b""}, None),
        ({"min_runtime_version": b"\0\0"}, None),
        ({"min_runtime_version": b"1 0"}, None),
    ],
)
def test_what_the_metadata_tell(payloads: dict[str, bytes], name: str | None) -> None:
    assert converter_of(with_metadata(**payloads)) == name


@given(st.integers(0, 50), st.binary(max_size=8), st.integers(0, 60))
def test_damaged_metadata_tell_nothing_wrong(place: int, junk: bytes, length: int) -> None:
    blob = conversion(b"2.21.0")
    damaged = (blob[:place] + junk + blob[place + len(junk) :])[:length]
    name = converter_of(with_metadata(CONVERSION_METADATA=damaged))
    assert name is None or (name.startswith("TensorFlow ") and name.isascii() and name.isprintable())


@given(st.binary(max_size=64))
def test_any_bytes_are_taken(blob: bytes) -> None:
    converter_of(with_metadata(CONVERSION_METADATA=blob, min_runtime_version=blob))


def test_real_files_tell_their_converter(shared: object) -> None:
    found = {
        path.name: converter_of(read_model(path.read_bytes()))
        for path in (SHARED / "data" / "models" / "made").glob("*.tflite")
    }
    assert len(found) > 10
    assert all(name is not None and name.startswith("TensorFlow 2.") for name in found.values()), found
