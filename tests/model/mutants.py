"""Damaged copies of a file, the same ones for the same seed: what a fuzzer would try first."""

from __future__ import annotations

import random
from collections.abc import Iterator
from struct import pack

from edgetool.errors import ModelError
from edgetool.model.reader import read_model

LARGE_PAYLOAD = 64  # bytes; damage inside one changes only numbers, so mutants leave them alone


def mutants(blob: bytes, count: int, seed: int) -> Iterator[bytes]:
    """`count` copies of a .tflite file, each with a few flipped bits, a hostile word, a copied or zeroed piece, or
    its end cut off."""
    generator = random.Random(seed)
    places = structure(blob)
    for _ in range(count):
        yield damaged(blob, places, generator)


def damaged(blob: bytes, places: list[int], generator: random.Random) -> bytes:
    """One such copy. places: the bytes that may be hit, as `structure` gives them."""
    return generator.choice(_DAMAGES)(blob, places, generator)


def structure(blob: bytes) -> list[int]:
    """The bytes of a file that are not a large constant."""
    try:
        payloads = [data for data in read_model(blob).data if data and len(data) >= LARGE_PAYLOAD]
    except ModelError:
        payloads = []
    inside = bytearray(len(blob))
    for payload in payloads:
        at = blob.find(payload)
        inside[at : at + len(payload)] = b"\1" * len(payload)
    return [at for at in range(len(blob)) if not inside[at]]


def _flip_bits(blob: bytes, places: list[int], generator: random.Random) -> bytes:
    changed = bytearray(blob)
    for _ in range(generator.choice((1, 1, 1, 2, 4, 16))):
        changed[generator.choice(places)] ^= 1 << generator.randrange(8)
    return bytes(changed)


def _hostile_word(blob: bytes, places: list[int], generator: random.Random) -> bytes:
    size = len(blob)
    words = (0, 1, 2, 4, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, size, size - 4, size // 2)
    at = generator.choice(places) & ~3
    return _replaced(blob, at, pack("<I", generator.choice(words)))


def _hostile_half_word(blob: bytes, places: list[int], generator: random.Random) -> bytes:
    at = generator.choice(places) & ~1
    return _replaced(blob, at, pack("<H", generator.choice((0, 2, 4, 6, 0x7FFF, 0x8000, 0xFFFF))))


def _move_word(blob: bytes, places: list[int], generator: random.Random) -> bytes:
    """One word of the file in another's place: offsets then lead to other tables."""
    source, at = (generator.choice(places) & ~3 for _ in range(2))
    return _replaced(blob, at, blob[source : source + 4])


def _copy_piece(blob: bytes, places: list[int], generator: random.Random) -> bytes:
    source, at = (generator.choice(places) & ~3 for _ in range(2))
    return _replaced(blob, at, blob[source : source + generator.randrange(4, 64)])


def _zero_piece(blob: bytes, places: list[int], generator: random.Random) -> bytes:
    return _replaced(blob, generator.choice(places), bytes(generator.randrange(1, 64)))


def _cut(blob: bytes, places: list[int], generator: random.Random) -> bytes:
    return blob[: generator.randrange(len(blob))]


def _replaced(blob: bytes, at: int, piece: bytes) -> bytes:
    """The file with a piece written over it, at its old length."""
    return (blob[:at] + piece + blob[at + len(piece) :])[: len(blob)]


_DAMAGES = (
    _flip_bits,
    _flip_bits,
    _hostile_word,
    _hostile_word,
    _hostile_half_word,
    _move_word,
    _copy_piece,
    _zero_piece,
    _cut,
)
