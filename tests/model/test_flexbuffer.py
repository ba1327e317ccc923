"""Options of custom operators: what is read, and that nothing outside them is."""

from __future__ import annotations

from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.flexbuffer import MAX_ELEMENTS, FlexbufferError, read_flexbuffer
from tests.flexbuffers import flex_map

# A map of one byte wide numbers, written by hand: {"a": 7}.
SMALL_MAP = b"a\0" + bytes([1, 3]) + bytes([1, 1, 1, 7, 4]) + bytes([2, 36, 1])


def test_a_map_by_hand() -> None:
    options = read_flexbuffer(SMALL_MAP)
    assert (options.names, options.raw, options.numbers) == (("a",), (7,), (7,))


def test_numbers_by_name_and_by_position() -> None:
    options = read_flexbuffer(flex_map(beta=-2, alpha=300, gamma=1.5))
    assert [options.integer(name) for name in ("alpha", "beta", "gamma")] == [300, -2, 1]
    assert options.raw[:2] == (300, -2)
    assert options.integer("missing") == 0


def test_an_indirect_number_lies_elsewhere() -> None:
    # A vector of one element: an indirect int of 2 bytes, 3 bytes before the element.
    data = b"\x2c\x01" + bytes([1, 3, 6 << 2 | 1]) + bytes([2, 10 << 2, 1])
    assert read_flexbuffer(data).numbers == (300,)


def test_a_vector_without_names_and_what_is_no_number() -> None:
    data = bytes([2, 5, 0, 1 << 2, 0]) + bytes([4, 10 << 2, 1])
    options = read_flexbuffer(data)
    assert (options.names, options.numbers) == ((), (5, None))


@pytest.mark.parametrize("data", [b"", b"\0", bytes([5, 4, 1]), bytes([255, 10 << 2, 1]), SMALL_MAP[1:]])
def test_invalid_flexbuffers_are_rejected(data: bytes) -> None:
    with pytest.raises(FlexbufferError):
        read_flexbuffer(data)


def test_a_length_beyond_reason_ends_at_once() -> None:
    data = (2**40).to_bytes(8, "little") + bytes([0, 10 << 2 | 3, 1])
    with pytest.raises(FlexbufferError):
        read_flexbuffer(data)


@given(st.binary(max_size=60), st.sampled_from([9, 10]), st.integers(0, 3), st.sampled_from([1, 2, 4, 8]))
def test_any_bytes_are_read_or_refused(data: bytes, kind: int, step: int, width: int) -> None:
    with suppress(FlexbufferError):  # and nothing else
        read_flexbuffer(data + bytes([kind << 2 | step, width]))


VECTOR, MAP, TYPED = 10 << 2, 9 << 2, 11 << 2
INT = 1 << 2
INDIRECT_OF_8_BYTES = 6 << 2 | 3

# A length, elements and their types, then the root: the distance back to the first element, its type and width.
OUTSIDE = {
    "length before the bytes": bytes([0, 1, VECTOR, 1]),
    "element past the end": bytes([1, 1, INDIRECT_OF_8_BYTES, 2, VECTOR, 1]),
    "root before the bytes": bytes([1, 7, INT, 9, VECTOR, 1]),
    "names before the bytes": b"a\0" + bytes([1, 3, 9, 1, 1, 7, INT, 2, MAP, 1]),
    "name before the bytes, which a negative index finds at their end": b"a\0"
    + bytes([1, 9, 1, 1, 1, 0, INT, 2, MAP, 1]),
    "root of another type": bytes([1, 7, INT, 2, TYPED, 1]),
}


@pytest.mark.parametrize("data", OUTSIDE.values(), ids=OUTSIDE)
def test_offsets_outside_the_buffer_are_rejected(data: bytes) -> None:
    with pytest.raises(FlexbufferError):
        read_flexbuffer(data)


def test_the_same_inside_is_read() -> None:
    assert read_flexbuffer(bytes([1, 7, INT, 2, VECTOR, 1])).numbers == (7,)
    assert read_flexbuffer(b"a\0" + bytes([1, 3, 1, 1, 1, 7, INT, 2, MAP, 1])).names == ("a",)


def test_an_unsigned_number_is_read() -> None:
    unsigned = 2 << 2
    options = read_flexbuffer(bytes([1, 255, unsigned, 2, VECTOR, 1]))
    assert (options.numbers, options.raw) == ((255,), (-1,))


def vector_of(count: int) -> bytes:
    """That many numbers 7, two bytes each."""
    return (
        pack(f"<{count + 1}H", count, *[7] * count) + bytes([INT | 1]) * count + pack("<HBB", 3 * count, VECTOR | 1, 2)
    )


def test_elements_are_limited() -> None:
    assert len(read_flexbuffer(vector_of(MAX_ELEMENTS)).numbers) == MAX_ELEMENTS == 1000
    with pytest.raises(FlexbufferError):
        read_flexbuffer(vector_of(1001))
