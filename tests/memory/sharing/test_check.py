"""The judges: each planted conflict is found and named."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import InternalError
from edgetool.memory.sharing.assign import assign
from edgetool.memory.sharing.check import check_assignment, require_valid_assignment
from edgetool.memory.sharing.graph import NamedOperator, SharingGraph, SubgraphCall, interference
from edgetool.memory.sharing.replay import check_replay
from edgetool.memory.sharing.types import LiveRange, Ranges
from tests.memory.sharing.graphs import ranges


@given(ranges(), st.booleans(), st.data())
def test_a_planted_conflict_is_found_and_named(drawn: Ranges, in_place: bool, data: st.DataObject) -> None:
    apart = interference(drawn, in_place=in_place)
    pairs = [(a, b) for a, b in itertools.combinations(drawn, 2) if b in apart[a]]
    groups = [list(group) for group in assign(drawn, in_place=in_place).groups]
    if not pairs:
        assert check_assignment(drawn, groups, in_place=in_place) == ()
        return
    a, b = data.draw(st.sampled_from(pairs))
    for group in groups:
        if a in group:
            group.remove(a)
    next(group for group in groups if b in group).append(a)
    found = check_assignment(drawn, [tuple(group) for group in groups if group], in_place=in_place)
    assert {conflict.rule for conflict in found} == {"interference"}
    assert any(a in conflict.tensors for conflict in found)
    for conflict in found:
        assert all(name in conflict.message for name in conflict.tensors)
        assert conflict.tensors[1] in apart[conflict.tensors[0]]


@given(ranges(unknowns=False), st.booleans(), st.data())
def test_the_check_agrees_with_a_comparison_of_all_pairs(drawn: Ranges, in_place: bool, data: st.DataObject) -> None:
    """Any partition: the judge is silent exactly when no two of a group interfere."""
    numbers = [data.draw(st.integers(0, 5)) for _ in drawn]
    groups = [tuple(n for n, k in zip(drawn, numbers, strict=True) if k == number) for number in sorted(set(numbers))]
    apart = interference(drawn, in_place=in_place)
    wrong = any(b in apart[a] for group in groups for a in group for b in group)
    assert bool(check_assignment(drawn, groups, in_place=in_place)) == wrong


DRAWN = {"a": LiveRange(None, 2, 4), "b": LiveRange(2, 3, 4), "c": LiveRange(4, None, 4)}


@pytest.mark.parametrize(
    ("groups", "static", "rule", "message"),
    [
        ([("a", "b"), ("c",)], (), "interference", "a is still in use when b is defined (from the start to 2, from 2"),
        ([("a",), ("b",)], (), "once", "c is in 0 buffers"),
        ([("a", "c"), ("b", "c")], (), "once", "c is in 2 buffers"),
        ([("a",), ("b", "c", "d")], (), "unknown", "d is not a tensor"),
        ([("a",), ("b", "c")], ("c",), "static", "c is static"),
    ],
)
def test_each_rule_is_reported(groups: list[tuple[str, ...]], static: tuple[str, ...], rule: str, message: str) -> None:
    (conflict,) = check_assignment(DRAWN, groups, static=static)
    assert conflict.rule == rule
    assert message in conflict.message
    with pytest.raises(InternalError, match="shared buffers is invalid"):
        require_valid_assignment(DRAWN, groups, static=static)


CHAIN = SharingGraph(
    (
        NamedOperator("one", ("x",), ("a",)),
        NamedOperator("two", ("a",), ("b",)),
        NamedOperator("three", ("b", "x"), ("y",)),
    ),
    ("x",),
    ("y",),
)


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        ({"a": "x"}, "one overwrites x with a"),
        ({"b": "x"}, "three reads x"),
        ({"y": "b"}, "three overwrites b with y"),
        ({"a": "m", "y": "m"}, None),
    ],
)
def test_the_replay_finds_what_was_overwritten(buffers: dict[str, str], message: str | None) -> None:
    found = check_replay(CHAIN, buffers)
    assert (message is None) == (found == ())
    assert message is None or message in found[0].message


def test_the_replay_runs_a_loop_twice() -> None:
    """The tensor that the step reads first is overwritten by its end: only the second round tells."""
    operators = (
        NamedOperator("use", ("weights",), ("t",)),
        NamedOperator("more", ("t",), ("u",)),
        NamedOperator("last", ("u",), ("v",)),
    )
    step = SharingGraph(operators, ("weights",), ("u",))
    call = NamedOperator("loop", (), ("out",), (SubgraphCall(step, (("weights", "w"), ("u", "out"))),))
    graph = SharingGraph((call,), ("w",), ("out",))
    assert check_replay(graph, {}) == ()
    assert "w" in check_replay(graph, {"out": "w"})[0].message
    assert "out" in check_replay(graph, {"loop/0/t": "out"})[0].message
    assert "loop/0/use reads w" in check_replay(graph, {"loop/0/v": "w"})[0].message


def test_unread_tensors_and_outputs_must_keep_their_contents() -> None:
    graph = SharingGraph((NamedOperator("one", ("x",), ("a",)), NamedOperator("two", ("x",), ("b",))), ("x",), ("b",))
    assert "reads a, but m contains another tensor" in check_replay(graph, {"a": "m", "b": "m"})[0].message
    two_inputs = SharingGraph((NamedOperator("add", ("x", "y"), ("z",)),), ("x", "y"), ("z",))
    assert "y is an external input" in check_replay(two_inputs, {"x": "m", "y": "m"})[0].message
