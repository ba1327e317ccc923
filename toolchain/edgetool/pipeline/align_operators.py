"""The operators of two reports side by side."""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.gate import lock_judgement
from edgetool.gate.lock_judgement import Likeness
from edgetool.report.document import OperatorInfo

Pair = tuple[OperatorInfo | None, OperatorInfo | None]


def aligned(a: Sequence[OperatorInfo], b: Sequence[OperatorInfo]) -> list[Pair]:
    """Both sequences in their order, subgraph by subgraph; an operator that the other has not stands alone.

    Known again by their labels, and by what they compute and touch (gate/lock_judgement.py).
    """
    a, b = (sorted(side, key=lambda item: item.subgraph) for side in (a, b))
    pairs: list[Pair] = []
    done_a = done_b = 0
    matched = lock_judgement.aligned([_likeness(item) for item in a], [_likeness(item) for item in b])
    for i, j in matched:
        pairs += [*_alone(a[done_a:i], b[done_b:j]), (a[i], b[j])]
        done_a, done_b = i + 1, j + 1
    return [*pairs, *_alone(a[done_a:], b[done_b:])]


def _alone(a: Sequence[OperatorInfo], b: Sequence[OperatorInfo]) -> list[Pair]:
    return [*((item, None) for item in a), *((None, item) for item in b)]


def _likeness(item: OperatorInfo) -> Likeness:
    return Likeness(item.subgraph, item.operator, (item.macs, item.parameter_bytes, item.activation_bytes))
