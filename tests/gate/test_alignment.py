"""An alignment has the most pairs and, among those, the most with equal work: compared with every alignment."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edgetool.gate.alignment import OperatorKey, align

ITEMS = st.lists(st.builds(OperatorKey, st.just(0), st.sampled_from("CDF"), st.tuples(st.integers(1, 3))), max_size=8)


@given(ITEMS, ITEMS)
def test_no_alignment_is_better(a: list[OperatorKey], b: list[OperatorKey]) -> None:
    @cache
    def best(i: int, j: int) -> tuple[int, int]:
        if i == len(a) or j == len(b):
            return (0, 0)
        found = max(best(i + 1, j), best(i, j + 1))
        if a[i].label == b[j].label:
            pairs, same = best(i + 1, j + 1)
            found = max(found, (pairs + 1, same + (a[i].work == b[j].work)))
        return found

    pairs = align(a, b)
    assert all(a[i].label == b[j].label for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
    if [item.label for item in a] == [item.label for item in b]:
        assert pairs == [(i, i) for i in range(len(a))]
    else:
        assert (len(pairs), sum(a[i].work == b[j].work for i, j in pairs)) == best(0, 0)


def test_subgraphs_are_apart() -> None:
    a = [OperatorKey(0, "C", (1,)), OperatorKey(1, "C", (2,))]
    assert align(a, a[1:]) == [(1, 0)]
    assert align(a, [OperatorKey(2, "C", (1,))]) == []
