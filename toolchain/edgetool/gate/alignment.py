"""Which operator of one version of a model is which of another: indices shift where one is put in."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from edgetool.gate.anatomy import OperatorId, OperatorPart

Pairs = dict[OperatorId, OperatorId]
Key = tuple[object, ...]

MOST_CELLS = 10**6  # of the table of a longest common subsequence: half a second


def aligned_operators(before: Sequence[OperatorPart], after: Sequence[OperatorPart]) -> Pairs:
    """The operators of `after` that were in `before`, and which they were: both in order, labels equal.

    Those that are equal in all but their place and time are matched first, and what lies between them by label.
    """
    pairs: Pairs = {}
    done_before = done_after = 0
    exact = _matches([_exact(part) for part in before], [_exact(part) for part in after])
    for at_before, at_after in [*exact, (len(before), len(after))]:
        gap_before, gap_after = before[done_before:at_before], after[done_after:at_after]
        for old, new in _matches([_label(part) for part in gap_before], [_label(part) for part in gap_after]):
            pairs[gap_after[new].operator] = gap_before[old].operator
        if at_before < len(before):
            pairs[after[at_after].operator] = before[at_before].operator
        done_before, done_after = at_before + 1, at_after + 1
    return pairs


def _label(part: OperatorPart) -> Key:
    return part.operator.subgraph, part.operator.label


def _exact(part: OperatorPart) -> Key:
    return part.operator.subgraph, part.operator.label, part.tail, part.scratch, part.constants


def _matches(before: Sequence[Key], after: Sequence[Key]) -> list[tuple[int, int]]:
    """The places of equal keys, in order on both sides: as many as there are, unless that takes too long.

    What is equal at both ends is taken off first, since the rest takes the product of both lengths.
    """
    least = min(len(before), len(after))
    head = next((i for i in range(least) if before[i] != after[i]), least)
    tail = next((i for i in range(least - head) if before[-1 - i] != after[-1 - i]), least - head)
    middle = _common(before[head : len(before) - tail], after[head : len(after) - tail])
    return [
        *((i, i) for i in range(head)),
        *((old + head, new + head) for old, new in middle),
        *((len(before) - i, len(after) - i) for i in range(tail, 0, -1)),
    ]


def _common(before: Sequence[Key], after: Sequence[Key]) -> list[tuple[int, int]]:
    """A longest common subsequence, as places; none where both are too long for it."""
    if not before or not after or len(before) * len(after) > MOST_CELLS:
        return []
    # most[i][j]: how many keys of before[i:] and after[j:] can be matched.
    most = [array("i", bytes(4 * (len(after) + 1))) for _ in range(len(before) + 1)]
    for i in range(len(before) - 1, -1, -1):
        row, below, key = most[i], most[i + 1], before[i]
        for j in range(len(after) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if key == after[j] else max(below[j], row[j + 1])
    places, i, j = [], 0, 0
    while i < len(before) and j < len(after):
        if before[i] == after[j]:
            places.append((i, j))
            i, j = i + 1, j + 1
        elif most[i + 1][j] >= most[i][j + 1]:
            i += 1
        else:
            j += 1
    return places
