"""A reader of flexbuffers, in which custom operators keep their options: numbers in a map or a vector.

Format: the last byte is the width of the root, the one before it its packed type, and before those is the root, a
distance back to the vector. The length of a vector precedes its elements, and one packed type per element follows them.
A map is a vector of values, sorted by name, and preceded by the distance to the vector of names (google/flatbuffers,
"FlexBuffers internals").
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from struct import unpack

MAP, VECTOR = 9, 10
# Types whose element is the number itself. INDIRECT: types whose element is the distance back to the number, and that
# number's type.
INT, UNSIGNED, FLOAT, BOOL = 1, 2, 3, 26
INDIRECT = {6: INT, 7: UNSIGNED, 8: FLOAT}


class FlexbufferError(ValueError):
    """The bytes are not a flexbuffer with a map or a vector at its root."""


# No operator has this many options; a hostile file could declare any number.
MAX_ELEMENTS = 1000


@dataclass(frozen=True, slots=True)
class FlexVector:
    """The root: each element's bytes as a signed integer, its value if it is a number, and the keys of a map."""

    raw: tuple[int, ...]
    numbers: tuple[int | float | None, ...]
    names: tuple[str, ...] = ()

    def integer(self, name: str) -> int:
        """Return the named number truncated to an integer; 0 if there is none or it is not finite."""
        number = dict(zip(self.names, self.numbers, strict=False)).get(name)
        return int(number) if number is not None and isfinite(number) else 0


def read_flexbuffer(data: bytes) -> FlexVector:
    """Return the map or vector at the root. Raises FlexbufferError."""
    try:
        width, packed = data[-1], data[-2]
        at = len(data) - 2 - width
        kind, step = packed >> 2, 1 << (packed & 3)
        if kind not in (MAP, VECTOR):
            raise IndexError
        start = _back(data, at, width)
        count = _count(data, start, step)
        places = [start + index * step for index in range(count)]
        raw = tuple(_signed(data, place, step) for place in places)
        numbers = tuple(
            _number(data, place, step, data[start + count * step + index]) for index, place in enumerate(places)
        )
        return FlexVector(raw, numbers, _names(data, start, step) if kind == MAP else ())
    except (IndexError, KeyError, ValueError) as damage:
        raise FlexbufferError("not a FlexBuffer that contains a map or a vector of numbers") from damage


def _number(data: bytes, at: int, width: int, packed: int) -> int | float | None:
    kind = packed >> 2
    if kind in INDIRECT:
        at, width, kind = _back(data, at, width), 1 << (packed & 3), INDIRECT[kind]
    if kind == FLOAT:
        return _float(data, at, width)
    if kind == UNSIGNED:
        return _unsigned(data, at, width)
    return _signed(data, at, width) if kind in (INT, BOOL) else None


def _names(data: bytes, start: int, step: int) -> tuple[str, ...]:
    at = _back(data, start - 3 * step, step)
    width = _unsigned(data, start - 2 * step, step)
    starts = (_back(data, at + index * width, width) for index in range(_count(data, at, width)))
    return tuple(data[first : data.index(b"\0", first)].decode() for first in starts)


def _count(data: bytes, start: int, width: int) -> int:
    """Return the length stored before a vector."""
    count = _unsigned(data, start - width, width)
    if count > MAX_ELEMENTS:
        raise IndexError
    return count


def _back(data: bytes, at: int, width: int) -> int:
    """Return the position to which the distance stored at `at` points back."""
    target = at - _unsigned(data, at, width)
    if target < 0:
        raise IndexError
    return target


def _unsigned(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(_bytes(data, at, width), "little")


def _signed(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(_bytes(data, at, width), "little", signed=True)


def _float(data: bytes, at: int, width: int) -> float:
    return float(unpack({2: "<e", 4: "<f", 8: "<d"}[width], _bytes(data, at, width))[0])


def _bytes(data: bytes, at: int, width: int) -> bytes:
    if at < 0 or at + width > len(data):
        raise IndexError
    return data[at : at + width]
