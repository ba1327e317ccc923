"""The causes of a change sum to it, whatever changed; and they name what did."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from edgetool.gate.anatomy import Alive, Anatomy, OperatorId, OperatorPart
from edgetool.gate.lock_judgement import SHOWN, Row, aligned_operators, arena_rows, latency_rows, model_rows, told
from edgetool.model.types import Model
from tests.gate.anatomies import anatomies, anatomy
from tests.graphs import chain
from tests.model import builders


def quantity(size: int) -> str:
    return f"{size:+}"


def told_sum(rows: list[Row]) -> int:
    return sum(int(text.partition(":")[0]) for text in told(rows, quantity))


@given(anatomies(), anatomies())
def test_rows_of_the_arena_sum_to_its_change(before: Anatomy, after: Anatomy) -> None:
    rows = arena_rows(before, after)
    assert sum(row.change for row in rows) == after.bytes - before.bytes
    assert told_sum(rows) == after.bytes - before.bytes
    assert all(row.change for row in rows)
    assert len(told(rows, quantity)) <= SHOWN + 1


@given(anatomies(), anatomies(), st.integers(-(10**9), 10**9))
def test_rows_of_the_model_and_the_time_sum_to_their_changes(before: Anatomy, after: Anatomy, change: int) -> None:
    for rows in (model_rows(before, after, change), latency_rows(before, after, change)):
        assert sum(row.change for row in rows) == change
        assert told_sum(rows) == change


def test_rows_below_the_least_are_told_as_one() -> None:
    small = [Row(900, f"operator {place}") for place in range(200)]
    assert told([Row(5000, "operator 200"), *small], quantity, 1000) == (
        "+5000: operator 200",
        "+180000: 200 smaller changes in total",
    )
    assert told([Row(5000, "a"), Row(900, "b")], quantity, 1000) == ("+5000: a",)


@given(anatomies())
def test_nothing_changed_has_no_rows(same: Anatomy) -> None:
    assert arena_rows(same, same) == []
    assert model_rows(same, same, 0) == latency_rows(same, same, 0) == []


MODELS = [
    *(make() for make in builders.ALL.values()),
    builders.chain_model(3),
    builders.chain_model(9),
    chain([9] * 30),
]


@given(st.sampled_from(MODELS), st.sampled_from(MODELS))
def test_rows_of_real_accounts_sum(before: Model, after: Model) -> None:
    old, new = anatomy(before), anatomy(after)
    rows = arena_rows(old, new)
    assert sum(row.change for row in rows) == new.bytes - old.bytes
    assert "other persistent data" not in {row.cause for row in rows}


def parts(*rows: tuple[str, int]) -> tuple[OperatorPart, ...]:
    return tuple(OperatorPart(OperatorId(0, i, label), size, 0, 0) for i, (label, size) in enumerate(rows))


def pairs(before: tuple[OperatorPart, ...], after: tuple[OperatorPart, ...]) -> list[tuple[int, int]]:
    return [(old.index, new.index) for new, old in sorted(aligned_operators(before, after).items())]


def test_an_operator_put_in_shifts_the_others() -> None:
    block = [("DEPTHWISE_CONV_2D", 8), ("CONV_2D", 16)]
    before = parts(("CONV_2D", 4), *block, ("DEPTHWISE_CONV_2D", 32), ("CONV_2D", 64), ("SOFTMAX", 1))
    after = parts(("CONV_2D", 4), *block, *block, ("DEPTHWISE_CONV_2D", 32), ("CONV_2D", 64), ("SOFTMAX", 1))
    assert pairs(before, after) in (
        [(0, 0), (1, 1), (2, 2), (3, 5), (4, 6), (5, 7)],
        [(0, 0), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7)],
    )


def test_an_operator_that_grew_is_the_same_one() -> None:
    before = parts(("CONV_2D", 4), ("ADD", 5), ("CONV_2D", 6))
    after = parts(("CONV_2D", 4), ("ADD", 50), ("CONV_2D", 6))
    assert pairs(before, after) == [(0, 0), (1, 1), (2, 2)]


def test_a_wider_model_has_the_same_operators() -> None:
    """Each is now as large as the next one was: none of them is new, and none is gone."""
    before = parts(("CONV_2D", 8), ("CONV_2D", 16), ("CONV_2D", 32))
    after = parts(("CONV_2D", 16), ("CONV_2D", 32), ("CONV_2D", 64))
    assert pairs(before, after) == [(0, 0), (1, 1), (2, 2)]


@given(anatomies(), anatomies())
def test_pairs_keep_the_order_and_the_labels(before: Anatomy, after: Anatomy) -> None:
    found = sorted(aligned_operators(before.operators, after.operators).items())
    assert [old for _, old in found] == sorted({old for _, old in found})
    assert all((old.label, old.subgraph) == (new.label, new.subgraph) for new, old in found)


def base() -> Anatomy:
    return anatomy(chain([160, 64_000, 64_000, 160]))


def with_scratch(of: Anatomy, index: int, scratch: int) -> Anatomy:
    """As if the kernel of an operator asked for scratch."""
    changed = [
        replace(part, scratch=scratch, live=part.live + scratch) if part.operator.index == index else part
        for part in of.operators
    ]
    top = max(changed, key=lambda part: part.live)
    more = top.live - of.alive_bytes
    alive = of.alive
    if top.operator == of.busiest and scratch:
        alive = (*of.alive, Alive(str(top.operator), scratch, top.operator))
    elif top.operator != of.busiest:
        alive = (Alive("elsewhere", top.live - scratch), Alive(str(top.operator), scratch, top.operator))
    return replace(
        of,
        operators=tuple(changed),
        busiest=top.operator,
        alive=alive,
        head_bytes=of.head_bytes + more,
        peak_head=of.peak_head + more,
        bytes=of.bytes + more,
    )


def test_scratch_at_the_peak_is_named() -> None:
    before = base()
    assert told(arena_rows(before, with_scratch(before, 1, 4096)), quantity) == ("+4096: operator 1 RELU scratch",)


def test_scratch_that_moves_the_peak_is_named_with_what_hid_it() -> None:
    before = base()
    after = with_scratch(before, 0, 100_000)
    assert told(arena_rows(before, after), quantity) == (
        "+100000: operator 0 RELU scratch",
        "-63840: memory live at operator 1 RELU, the previous peak, no longer counted",
    )


def test_a_renamed_tensor_is_no_change_and_a_larger_one_is() -> None:
    before = base()
    first, second = before.alive
    assert told(arena_rows(before, replace(before, alive=(replace(first, name="renamed"), second))), quantity) == ()
    larger = replace(before, alive=(replace(first, bytes=first.bytes + 16), second), head_bytes=before.head_bytes + 16)
    larger = replace(larger, peak_head=before.peak_head + 16, bytes=before.bytes + 16)
    assert told(arena_rows(before, larger), quantity) == ("+16: tensor t1",)


def test_a_growth_that_another_moment_hides_is_told_by_the_moment() -> None:
    before, after = anatomy(chain([1] * 40)), anatomy(chain([1] * 39 + [8000]))
    assert (before.moment, after.moment) == ("planning", "Invoke")
    causes = [row.cause for row in arena_rows(before, after)]
    assert "now set by Invoke (previously planning)" in causes
