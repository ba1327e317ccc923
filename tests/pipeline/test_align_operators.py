"""Operators of two models are paired by the sequence of their labels."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from edgetool.pipeline.compare import aligned
from edgetool.report.document import OperatorInfo
from tests.cli.estimates import operator


def operators(labels: str, sizes: list[int] | None = None) -> list[OperatorInfo]:
    return [
        operator(index, 1.0, operator=label, macs=(sizes or [1] * len(labels))[index], parameter_bytes=0)
        for index, label in enumerate(labels)
    ]


def shown(a: list[OperatorInfo], b: list[OperatorInfo]) -> list[str]:
    return [f"{'-' if x is None else x.index}{'-' if y is None else y.index}" for x, y in aligned(a, b)]


def test_equal_sequences_pair_in_place_whatever_they_compute() -> None:
    assert shown(operators("CDC", [1, 2, 3]), operators("CDC", [3, 1, 2])) == ["00", "11", "22"]


def test_an_operator_in_the_middle_is_new_and_one_at_the_end_gone() -> None:
    assert shown(operators("CDCF"), operators("CADC")) == ["00", "-1", "12", "23", "3-"]


def test_what_computes_the_same_is_paired_before_what_is_only_called_the_same() -> None:
    assert shown(operators("CCC", [1, 2, 3]), operators("CCCC", [1, 9, 2, 3])) == ["00", "-1", "12", "23"]
    assert shown(operators("ACCB", [5, 1, 2, 5]), operators("ACB", [6, 2, 6])) == ["00", "1-", "21", "32"]


def test_subgraphs_are_aligned_on_their_own() -> None:
    loop = [operator(0, 1.0, operator="C", subgraph=1)]
    assert shown([*operators("C"), *loop], [*operators("CC"), *loop]) == ["00", "-1", "00"]


def test_long_sequences_do_not_take_for_ever() -> None:
    a, b = operators("CD" * 1500), operators("C" + "DC" * 1500)
    started = time.monotonic()
    pairs = aligned(a, b)
    assert time.monotonic() - started < 5
    assert sum(None not in pair for pair in pairs) == len(a)


LABELS = st.lists(st.sampled_from("CDF"), max_size=8).map("".join)
SIZES = st.lists(st.integers(1, 2), min_size=8, max_size=8)


@given(LABELS, LABELS, SIZES, SIZES)
def test_every_operator_stands_once_and_in_its_order(a: str, b: str, first: list[int], second: list[int]) -> None:
    left, right = operators(a, first), operators(b, second)
    pairs = aligned(left, right)
    assert [x for x, _ in pairs if x is not None] == left
    assert [y for _, y in pairs if y is not None] == right
    assert all(x is None or y is None or x.operator == y.operator for x, y in pairs)
    mirrored = aligned(right, left)
    assert sum(None not in pair for pair in pairs) == sum(None not in pair for pair in mirrored)
