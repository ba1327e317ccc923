"""The plans with which searches are started: runs are heavy-tailed, so that many short ones beat a long one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from edgetool.memory.layout.instance import Instance
from edgetool.memory.layout.kernel import FAILING, FEWEST, LOWEST, TIGHTEST
from edgetool.memory.layout.search import Plan

# Nodes of the first searches, and per piece; those of each round have a quarter more. What succeeds does so soon.
FEWEST_NODES, NODES_PER_PIECE = 300, 3
# How far noise moves the key of a piece, as a fraction, in thousandths.
NOISE = 300

# A key orders pieces, the largest first, by size and by duration in sections.
Key = Callable[[int, int], int]


def _area(size: int, duration: int) -> int:
    return size * duration


def _duration(size: int, duration: int) -> int:
    return duration


def _size(size: int, duration: int) -> int:
    return size


def _long_area(size: int, duration: int) -> int:
    return size * duration * duration


# No pair is best everywhere: of these, one soon succeeds on every hard instance at hand.
PAIRS: tuple[tuple[Key, int], ...] = (
    (_area, LOWEST),
    (_duration, TIGHTEST),
    (_size, FEWEST),
    (_duration, LOWEST),
    (_duration, FEWEST),
    (_size, TIGHTEST),
    (_duration, FAILING),
    (_long_area, TIGHTEST),
)


def plans(instance: Instance, seed: int) -> Iterator[tuple[Plan, int]]:
    """Plans without end, each with the nodes that it may take: every pair as it is, then with noise and more nodes."""
    pieces = range(len(instance.sizes))
    durations = [last - first + 1 for first, last in zip(instance.first, instance.last, strict=True)]
    state = (seed * 2 + 1) * 0x9E3779B97F4A7C15 % 2**64
    limit = max(FEWEST_NODES, NODES_PER_PIECE * len(pieces))
    for round_ in count():
        for key, rule in PAIRS:
            values = [1000 * key(instance.sizes[i], durations[i]) for i in pieces]
            if round_:
                for i in pieces:
                    # xorshift64*, the same on every machine.
                    state ^= state >> 12
                    state = (state ^ state << 25) % 2**64
                    state ^= state >> 27
                    values[i] += values[i] // 1000 * ((state * 0x2545F4914F6CDD1D >> 32) % (2 * NOISE + 1) - NOISE)
            yield Plan(sorted(pieces, key=lambda i, values=values: (-values[i], i)), rule), limit  # type: ignore[misc]
        limit += limit // 4
