"""Match the operators of two versions of a model, even if operators were added or removed."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_CELLS = 10**6  # of the table of all alignments: about half a second
PAIR = 1024  # the score of a pair; larger than the number of pairs with equal work in any table of MAX_CELLS cells


@dataclass(frozen=True, slots=True)
class OperatorKey:
    """How an operator is recognized in another version of its model: by its label, and counts of work and memory."""

    subgraph: int
    label: str
    work: tuple[int, ...]


IndexPairs = list[tuple[int, int]]
Items = Sequence[OperatorKey]


def align(a: Items, b: Items) -> IndexPairs:
    """Return the indices in a and b of the operators that both contain, in order on both sides, by subgraph.

    Only operators with the same label are paired. The alignment has the most pairs, and among those, the most pairs
    with equal work. Equal sequences of labels are paired in place.
    """
    pairs: IndexPairs = []
    left, right = _by_subgraph(a), _by_subgraph(b)
    for subgraph in sorted(left.keys() & right.keys()):
        in_a, in_b = left[subgraph], right[subgraph]
        pairs += [(in_a[i], in_b[j]) for i, j in _align_subgraph([a[i] for i in in_a], [b[j] for j in in_b])]
    return pairs


def _by_subgraph(items: Items) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(item.subgraph, []).append(place)
    return places


def _align_subgraph(a: Items, b: Items) -> IndexPairs:
    if [item.label for item in a] == [item.label for item in b]:
        return [(i, i) for i in range(len(a))]
    return _align_ends(a, b, lambda x, y: x == y, _align_middle)


def _align_middle(a: Items, b: Items) -> IndexPairs:
    """Align two sequences that start and end differently; if they are too long, only equal labels at the ends."""
    if len(a) * len(b) <= MAX_CELLS:
        return _best(a, b)
    return _align_ends(a, b, lambda x, y: x.label == y.label, lambda a, b: [])


def _align_ends(
    a: Items,
    b: Items,
    same: Callable[[OperatorKey, OperatorKey], bool],
    align_rest: Callable[[Items, Items], IndexPairs],
) -> IndexPairs:
    """Pair the items at both ends that are the same, and align the rest with `align_rest`."""
    shorter = min(len(a), len(b))
    head = next((i for i in range(shorter) if not same(a[i], b[i])), shorter)
    tail = next((i for i in range(shorter - head) if not same(a[-1 - i], b[-1 - i])), shorter - head)
    middle = align_rest(a[head : len(a) - tail], b[head : len(b) - tail])
    return [
        *((i, i) for i in range(head)),
        *((i + head, j + head) for i, j in middle),
        *((len(a) - i, len(b) - i) for i in range(tail, 0, -1)),
    ]


def _best(a: Items, b: Items) -> IndexPairs:
    """Return the best alignment, from the scores of all pairs of suffixes (Needleman and Wunsch, 1970)."""
    scores = [array("i", bytes(4 * (len(b) + 1))) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        row, below, item = scores[i], scores[i + 1], a[i]
        for j in range(len(b) - 1, -1, -1):
            row[j] = max(below[j], row[j + 1])
            if item.label == b[j].label:
                row[j] = max(row[j], below[j + 1] + _score(item, b[j]))
    pairs: IndexPairs = []
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


def _score(a: OperatorKey, b: OperatorKey) -> int:
    return PAIR + (a.work == b.work)
