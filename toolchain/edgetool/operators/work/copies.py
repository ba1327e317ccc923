"""How often the loops of the C library's memcpy, memset and memmove turn, by the alignment of their addresses.

They follow newlib's for Cortex-M. memcpy on ARMv7-M and ARMv8-M goes through 64, 16 and 4 bytes at a time, at any
alignment; on ARMv6-M byte by byte where an address is not aligned or less than 16 bytes are copied. One list of loops
serves both: those that a core does not have fit to nothing
("wide copies" and "copied bytes" are ARMv6-M's). Tensors begin at multiples of 16, so that an address is as
well aligned as its offset in the tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from edgetool.operators.work.loops import Loops, repeated, together

WORD, SHORT, BLOCK, LARGE_BLOCK = 4, 8, 16, 64


Places = Sequence[tuple[int, int]]


def copied(size: int, *axes: Places) -> Loops:
    """memcpy of as many bytes from places on a grid: the sums of one pair of offsets (target, source) of each axis."""
    kinds = Counter({(0, 0): 1})
    for axis in axes:
        steps = Counter((target % WORD, source % WORD) for target, source in axis)
        sums: Counter[tuple[int, int]] = Counter()
        for (target, source), times in kinds.items():
            for (further, later), number in steps.items():
                sums[(target + further) % WORD, (source + later) % WORD] += times * number
        kinds = sums
    return together(*(repeated(times, _copy(size, *kind)) for kind, times in kinds.items()))


def copied_evenly(size: int, times: int, target: tuple[int, int] = (0, 0), source: tuple[int, int] = (0, 0)) -> Loops:
    """So many copies of `size` bytes; target and source begin at the first offset and go on in steps of the second."""
    return together(
        *(
            repeated(share, _copy(size, (target[0] + turn * target[1]) % WORD, (source[0] + turn * source[1]) % WORD))
            for turn, share in repeating(times)
        )
    )


def dimensions(rank: int) -> Loops:
    """What a kernel does with the axes of a shape; to take it as a RuntimeShape it copies a word of each."""
    return {"axis": rank, "axis of few": rank if rank * WORD < BLOCK else 0}


def repeating(times: int) -> Iterator[tuple[int, int]]:
    """Of so many even steps those before alignments repeat, after as many as a word has bytes; and how often each."""
    for turn in range(min(times, WORD)):
        yield turn, len(range(turn, times, WORD))


def filled(size: int, offset: int = 0) -> Loops:
    """memset of as many bytes from an offset."""
    head = min(-offset % WORD, size)
    rest = size - head
    return {
        "fills": 1,
        "filled heads": head,
        "wide fills": int(rest >= WORD),
        "filled 16 bytes": rest // BLOCK,
        "filled words": rest % BLOCK // WORD,
        "filled bytes": rest % WORD,
    }


def moved(size: int, target: int = 0, source: int = 0) -> Loops:
    """memmove of as many bytes to a lower address."""
    if size < BLOCK or (target | source) % WORD:
        return {"moves": 1, "moved bytes": size}
    return {
        "moves": 1,
        "moved 16 bytes": size // BLOCK,
        "moved words": size % BLOCK // WORD,
        "moved bytes": size % WORD,
    }


def _copy(size: int, target: int, source: int) -> Loops:
    uneven = bool(target or source)
    if uneven and size < SHORT:
        return {
            "short uneven copies": 1,
            "copied one by one": max(size - WORD + 1, 0),
            **_tail(size if size < WORD else 0),
            "copied bytes": size,
        }
    head = -target % WORD if target and source else 0
    rest = size - head
    return {
        "copies": 1,
        "uneven copies": int(uneven),
        "copied heads": int(head > 0),
        "copied 64 bytes": rest // LARGE_BLOCK,
        "copied 16 bytes": rest % LARGE_BLOCK // BLOCK,
        "copied words": rest % BLOCK // WORD,
        **_tail(rest % WORD),
        "wide copies": int(not uneven and size >= BLOCK),
        "copied bytes": size if uneven or size < BLOCK else 0,
    }


def _tail(size: int) -> Loops:
    return {"copied tails": int(size > 0), "copied halfwords": size // 2}
