"""Which operator of one model is which of another: places shift where an operator is put in."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_CELLS = 10**6  # of the table of all alignments: about half a second
PAIR = 1024  # what a pair counts, more than all that do the same: no table of so many cells has room for as many


@dataclass(frozen=True, slots=True)
class Likeness:
    """By what an operator is known again: its label, and counts of what it does and keeps."""

    subgraph: int
    label: str
    work: tuple[int, ...]


Pairs = list[tuple[int, int]]
Items = Sequence[Likeness]


def aligned(a: Items, b: Items) -> Pairs:
    """The places in a and in b of the operators that both have, in order on both sides, subgraph by subgraph.

    Only operators of one label are paired; of all alignments that with the most pairs, and of those that with the most
    that also do the same. Equal sequences of labels pair in place.
    """
    pairs: Pairs = []
    left, right = _by_subgraph(a), _by_subgraph(b)
    for subgraph in sorted(left.keys() & right.keys()):
        here, there = left[subgraph], right[subgraph]
        pairs += [(here[i], there[j]) for i, j in _aligned([a[i] for i in here], [b[j] for j in there])]
    return pairs


def _by_subgraph(items: Items) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(item.subgraph, []).append(place)
    return places


def _aligned(a: Items, b: Items) -> Pairs:
    if [item.label for item in a] == [item.label for item in b]:
        return [(i, i) for i in range(len(a))]
    return _around(a, b, lambda x, y: x == y, _between)


def _between(a: Items, b: Items) -> Pairs:
    """Of sequences too long to try all, what begins and what ends with the same labels is paired."""
    if len(a) * len(b) <= MOST_CELLS:
        return _best(a, b)
    return _around(a, b, lambda x, y: x.label == y.label, lambda a, b: [])


def _around(
    a: Items, b: Items, same: Callable[[Likeness, Likeness], bool], within: Callable[[Items, Items], Pairs]
) -> Pairs:
    """What is the same at both ends is paired, and what is left as `within` has it."""
    least = min(len(a), len(b))
    head = next((i for i in range(least) if not same(a[i], b[i])), least)
    tail = next((i for i in range(least - head) if not same(a[-1 - i], b[-1 - i])), least - head)
    middle = within(a[head : len(a) - tail], b[head : len(b) - tail])
    return [
        *((i, i) for i in range(head)),
        *((i + head, j + head) for i, j in middle),
        *((len(a) - i, len(b) - i) for i in range(tail, 0, -1)),
    ]


def _best(a: Items, b: Items) -> Pairs:
    """The alignment of most score, by the table of the scores of all pairs of rests (Needleman and Wunsch, 1970)."""
    scores = [array("i", bytes(4 * (len(b) + 1))) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        row, below, item = scores[i], scores[i + 1], a[i]
        for j in range(len(b) - 1, -1, -1):
            row[j] = max(below[j], row[j + 1])
            if item.label == b[j].label:
                row[j] = max(row[j], below[j + 1] + _score(item, b[j]))
    pairs: Pairs = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i].label == b[j].label and scores[i][j] == scores[i + 1][j + 1] + _score(a[i], b[j]):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif scores[i][j] == scores[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _score(a: Likeness, b: Likeness) -> int:
    return PAIR + (a.work == b.work)
