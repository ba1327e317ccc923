"""Which operator of one model is which of another: the sequences of their labels, aligned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetool.report.estimate import OperatorInfo

Pair = tuple[OperatorInfo | None, OperatorInfo | None]
# Cells of the table of all alignments: two million take about two seconds.
MAX_CELLS = 2_000_000
SAME_LABEL, SAME_WORK = 2, 3


def aligned(a: Sequence[OperatorInfo], b: Sequence[OperatorInfo]) -> list[Pair]:
    """Both sequences in their order, subgraph by subgraph; an operator that the other has not stands alone.

    Only operators of one label are paired, and of all alignments that with the most pairs, where a pair that also
    computes and touches the same counts half as much again.
    """
    subgraphs = sorted({item.subgraph for item in (*a, *b)})
    pairs: list[Pair] = []
    for subgraph in subgraphs:
        pairs += _aligned(*([item for item in side if item.subgraph == subgraph] for side in (a, b)))
    return pairs


def _aligned(a: list[OperatorInfo], b: list[OperatorInfo]) -> list[Pair]:
    if [item.operator for item in a] == [item.operator for item in b]:
        return list(zip(a, b, strict=True))
    head = _common(a, b, _work)
    tail = _common(a[head:][::-1], b[head:][::-1], _work)
    left, right = a[head : len(a) - tail], b[head : len(b) - tail]
    middle = _best(left, right) if len(left) * len(right) <= MAX_CELLS else _ends(left, right)
    return [*zip(a[:head], b[:head], strict=True), *middle, *zip(a[len(a) - tail :], b[len(b) - tail :], strict=True)]


def _best(a: list[OperatorInfo], b: list[OperatorInfo]) -> list[Pair]:
    """The alignment of most score, by the table of the scores of all pairs of rests (Needleman and Wunsch, 1970)."""
    scores = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        row, below, item = scores[i], scores[i + 1], a[i]
        for j in range(len(b) - 1, -1, -1):
            row[j] = max(below[j], row[j + 1])
            if item.operator == b[j].operator:
                row[j] = max(row[j], below[j + 1] + _score(item, b[j]))
    pairs: list[Pair] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i].operator == b[j].operator and scores[i][j] == scores[i + 1][j + 1] + _score(a[i], b[j]):
            pairs.append((a[i], b[j]))
            i, j = i + 1, j + 1
        elif scores[i][j] == scores[i + 1][j]:
            pairs.append((a[i], None))
            i += 1
        else:
            pairs.append((None, b[j]))
            j += 1
    return [*pairs, *((item, None) for item in a[i:]), *((None, item) for item in b[j:])]


def _ends(a: list[OperatorInfo], b: list[OperatorInfo]) -> list[Pair]:
    """For sequences too long to try all: what begins and what ends with the same labels is paired."""
    head = _common(a, b, _label)
    tail = _common(a[head:][::-1], b[head:][::-1], _label)
    gone = a[head : len(a) - tail]
    new = b[head : len(b) - tail]
    return [
        *zip(a[:head], b[:head], strict=True),
        *((item, None) for item in gone),
        *((None, item) for item in new),
        *zip(a[len(a) - tail :], b[len(b) - tail :], strict=True),
    ]


def _common(a: list[OperatorInfo], b: list[OperatorInfo], key: Callable[[OperatorInfo], object]) -> int:
    """How many operators both begin with."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((place for place, (x, y) in pairs if key(x) != key(y)), min(len(a), len(b)))


def _score(a: OperatorInfo, b: OperatorInfo) -> int:
    return SAME_WORK if _work(a) == _work(b) else SAME_LABEL


def _label(item: OperatorInfo) -> str:
    return item.operator


def _work(item: OperatorInfo) -> tuple[str, int, int, int]:
    return item.operator, item.macs, item.parameter_bytes, item.activation_bytes
