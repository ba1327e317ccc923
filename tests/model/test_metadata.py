"""The converter's name, from metadata that anybody may have written."""

from __future__ import annotations

from dataclasses import replace
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.metadata import RECORD_METADATA_NAME as METADATA_NAME
from edgetool.model.metadata import (
    ModelChanges,
    PlanRecord,
    StripedRegion,
    changes_of,
    converter_of,
    decode_record,
    encode_record,
    with_changes,
)
from edgetool.model.reader import read_model
from edgetool.model.types import Metadata, Model
from tests.conftest import SHARED
from tests.graphs import chain
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
def test_the_metadata_are_read(payloads: dict[str, bytes], name: str | None) -> None:
    assert converter_of(with_metadata(**payloads)) == name


@given(st.integers(0, 50), st.binary(max_size=8), st.integers(0, 60))
def test_damaged_metadata_give_no_wrong_result(place: int, junk: bytes, length: int) -> None:
    blob = conversion(b"2.21.0")
    damaged = (blob[:place] + junk + blob[place + len(junk) :])[:length]
    name = converter_of(with_metadata(CONVERSION_METADATA=damaged))
    assert name is None or (name.startswith("TensorFlow ") and name.isascii() and name.isprintable())


@given(st.binary(max_size=64))
def test_any_bytes_are_accepted(blob: bytes) -> None:
    converter_of(with_metadata(CONVERSION_METADATA=blob, min_runtime_version=blob))


def test_real_files_tell_their_converter(shared: object) -> None:
    found = {
        path.name: converter_of(read_model(path.read_bytes()))
        for path in (SHARED / "data" / "models" / "made").glob("*.tflite")
    }
    assert len(found) > 10
    assert all(name is not None and name.startswith("TensorFlow 2.") for name in found.values()), found


RECORD = PlanRecord("edgetool 1.0", "cortex-m7", "cmsis-nn", "tflm-2026-08", 4096)


def holding(payload: bytes) -> Model:
    return replace(chain([16, 16]), metadata=(Metadata(METADATA_NAME, payload, 0),))


def test_a_record_reads_back_even_when_its_payload_is_padded() -> None:
    assert decode_record(holding(encode_record(RECORD))) == RECORD
    assert decode_record(holding(encode_record(RECORD) + b"\0" * 7)) == RECORD
    unknown = replace(RECORD, arena_bytes=None)
    assert decode_record(holding(encode_record(unknown))) == unknown
    assert decode_record(chain([16, 16])) is None


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 4000,
        b" " * 5000,
        encode_record(RECORD).replace(b"4096", b"true"),
        encode_record(RECORD).replace(b'"cortex-m7"', b"7"),
        encode_record(RECORD).replace(b"cortex-m7", b"\\u001b[2J"),
        encode_record(RECORD).replace(b"cortex-m7", b"x" * 101),
        encode_record(RECORD).replace(b'"core"', b'"cores"'),
    ],
)
def test_what_is_not_a_record_of_ours_is_none(payload: bytes) -> None:
    assert decode_record(holding(payload)) is None


@given(st.binary(max_size=200))
def test_any_payload_is_a_record_or_none(payload: bytes) -> None:
    assert decode_record(holding(payload)) is None or b"{" in payload


CHANGES = ModelChanges(optimized=True, regions=(StripedRegion(0, 3, 5),), macs=1000, extra_macs=26)


def test_changes_read_back() -> None:
    assert changes_of(with_changes(chain([16, 16]), CHANGES)) == CHANGES
    assert changes_of(chain([16, 16])) == ModelChanges()
    assert CHANGES.extra_macs_percent == 2.6
    assert ModelChanges().extra_macs_percent == 0


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (b"[[0,3,5]]", b"[[0,3]]"),
        (b"[[0,3,5]]", b"[0]"),
        (b"[[0,3,5]]", b'"x"'),
        (b"[[0,3,5]]", b"[[0,3,-5]]"),
        (b"1000", b"1e3"),
        (b"26", b"true"),
        (b'"optimized":true', b'"optimized":1'),
        (b'"macs":1000', b'"mac":1000'),
    ],
)
def test_what_are_no_changes_of_ours_are_none(part: bytes, other: bytes) -> None:
    (entry,) = with_changes(chain([16, 16]), CHANGES).metadata
    assert part in entry.data
    changed = replace(entry, data=entry.data.replace(part, other))
    assert changes_of(replace(chain([16, 16]), metadata=(changed,))) == ModelChanges()
