"""Options of custom operators that lead outside themselves: refused, not read from elsewhere in the bytes."""

from __future__ import annotations

from struct import pack

import pytest

from edgetool.model.flexbuffer import MAX_ELEMENTS, FlexbufferError, read_flexbuffer

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
def test_what_leads_outside_is_refused(data: bytes) -> None:
    with pytest.raises(FlexbufferError):
        read_flexbuffer(data)


def test_the_same_inside_is_read() -> None:
    assert read_flexbuffer(bytes([1, 7, INT, 2, VECTOR, 1])).numbers == (7,)
    assert read_flexbuffer(b"a\0" + bytes([1, 3, 1, 1, 1, 7, INT, 2, MAP, 1])).names == ("a",)


def test_an_unsigned_number_is_one() -> None:
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
