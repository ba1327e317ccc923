"""Flexbuffers as custom operators carry them, for tests: a map of integers, all 4 bytes wide."""

from __future__ import annotations

from struct import pack

INT_4 = 1 << 2 | 2
KEY_4 = 4 << 2 | 2
MAP_4 = 9 << 2 | 2
FLOAT_4 = 3 << 2 | 2


def flex_map(**values: int | float) -> bytes:
    """The map of these numbers, its names sorted as the format wants it."""
    names = sorted(values)
    text, starts = b"", []
    for name in names:
        starts.append(len(text))
        text += name.encode() + b"\0"
    text += bytes(-len(text) % 4)
    keys_at = len(text) + 4
    keys = pack("<I", len(names))
    for index, start in enumerate(starts):
        keys += pack("<I", keys_at + 4 * index - start)
    head = len(text) + len(keys)  # the distance to the names lies here
    found = pack("<III", head - keys_at, 4, len(names))
    elements = b"".join(pack("<f" if isinstance(values[name], float) else "<i", values[name]) for name in names)
    types = bytes(FLOAT_4 if isinstance(values[name], float) else INT_4 for name in names)
    whole = text + keys + found + elements + types
    root = len(whole) - (head + 12)
    return whole + pack("<I", root) + bytes([MAP_4, 4])
