from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.metadata import RECORD_METADATA_NAME as METADATA_NAME
from edgetool.model.metadata import PlanRecord, decode_record, encode_record
from edgetool.model.types import Metadata, Model
from tests.graphs import chain

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
