from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.memory.problem import Effort
from edgetool.memory.sharing.assign import assign, memory_used
from edgetool.memory.sharing.check import check_assignment
from edgetool.memory.sharing.graph import fill_unknowns, interference, is_compatible
from edgetool.memory.sharing.types import Algorithm, LiveRange, Ranges, interval, rank_sizes
from tests.conftest import examples
from tests.memory.sharing.graphs import ranges

ALGORITHMS: list[Algorithm] = ["greedy", "dynamic-programming"]
algorithms = st.sampled_from(ALGORITHMS)


def partitions(names: Sequence[str]) -> Iterator[list[list[str]]]:
    if not names:
        yield []
        return
    for smaller in partitions(names[1:]):
        yield [[names[0]], *smaller]
        for index, group in enumerate(smaller):
            yield [*smaller[:index], [names[0], *group], *smaller[index + 1 :]]


def least(given_ranges: Ranges, *, in_place: bool, initial: Sequence[Sequence[str]] = ()) -> int:
    """Brute force over every way to part the tensors."""
    apart = interference(given_ranges, in_place=in_place)
    together = [set(group) for group in initial]
    return min(
        memory_used(given_ranges, [tuple(group) for group in groups])
        for groups in partitions(list(given_ranges))
        if all(other not in apart[name] for group in groups for name in group for other in group)
        and all(any(kept <= set(group) for group in groups) for kept in together)
        and not any(len([kept for kept in together if kept & set(group)]) > 1 for group in groups)
    )


@given(ranges(), algorithms, st.booleans())
def test_assignments_pass_the_check(drawn: Ranges, algorithm: Algorithm, in_place: bool) -> None:
    sharing = assign(drawn, algorithm, in_place=in_place)
    assert check_assignment(fill_unknowns(drawn), sharing.groups, in_place=in_place) == ()
    assert check_assignment(drawn, sharing.groups, in_place=in_place) == ()
    assert sharing.optimized_bytes == memory_used(drawn, sharing.groups)
    assert sharing.lower_bound <= sharing.optimized_bytes <= sharing.baseline_bytes
    assert sharing.optimal == (sharing.lower_bound == sharing.optimized_bytes)


@examples(200)
@given(ranges(most=7), st.booleans())
def test_dynamic_programming_is_as_good_as_brute_force(drawn: Ranges, in_place: bool) -> None:
    sharing = assign(drawn, in_place=in_place)
    assert sharing.optimal
    assert not sharing.cut_short
    assert sharing.optimized_bytes == least(drawn, in_place=in_place)


@given(ranges(most=16), st.integers(1, 200), st.booleans())
def test_dynamic_programming_is_never_worse_than_greedy(drawn: Ranges, nodes: int, in_place: bool) -> None:
    greedy = assign(drawn, "greedy", in_place=in_place)
    sharing = assign(drawn, in_place=in_place, effort=Effort(node_limit=nodes))
    best = assign(drawn, in_place=in_place, effort=Effort(node_limit=2000))
    assert sharing.lower_bound <= best.optimized_bytes <= sharing.optimized_bytes <= greedy.optimized_bytes
    assert sharing.cut_short == (not sharing.optimal)


@given(ranges(most=6, unknowns=False), algorithms, st.data())
def test_initial_groups_stay_together(drawn: Ranges, algorithm: Algorithm, data: st.DataObject) -> None:
    names = data.draw(st.permutations(list(drawn)))
    initial: list[tuple[str, ...]] = []
    for name in names[: len(names) // 2]:
        joined = [g for g in initial if is_compatible(drawn[name], [drawn[other] for other in g])]
        if joined and data.draw(st.booleans()):
            initial[initial.index(joined[0])] = (*joined[0], name)
        else:
            initial.append((name,))
    sharing = assign(drawn, algorithm, initial=initial)
    homes = [next(index for index, group in enumerate(sharing.groups) if set(kept) <= set(group)) for kept in initial]
    assert len(set(homes)) == len(homes)
    best = least(drawn, in_place=False, initial=initial)
    if algorithm == "dynamic-programming":
        assert (sharing.optimal, sharing.optimized_bytes) == (True, best)
    else:
        assert sharing.lower_bound <= best <= sharing.optimized_bytes


@given(ranges(), algorithms, st.data())
def test_static_tensors_and_those_outside_of_the_prefix_are_alone(
    drawn: Ranges, algorithm: Algorithm, data: st.DataObject
) -> None:
    static = data.draw(st.sets(st.sampled_from([*drawn, "unheard"])))
    named = {f"{'a' if data.draw(st.booleans()) else 'b'}/{name}": live for name, live in drawn.items()}
    static_named = {name for name in named if name[2:] in static}
    sharing = assign(named, algorithm, static=static_named, prefix="a/")
    for group in sharing.groups:
        if len(group) > 1:
            assert all(name.startswith("a/") and name not in static_named for name in group)
    assert {name for group in sharing.groups for name in group} == set(named)


def test_best_fit_takes_the_buffer_of_the_closest_size() -> None:
    """In order of last use: p and q are taken in turn; r is closer to q, s then has p."""
    drawn = {"p": LiveRange(0, 2, 100), "q": LiveRange(2, 3, 4), "r": LiveRange(4, 5, 4), "s": LiveRange(4, 6, 100)}
    sharing = assign(drawn, "greedy")
    assert sharing.groups == (("p", "s"), ("q", "r"))
    assert (sharing.baseline_bytes, sharing.optimized_bytes) == (208, 104)
    assert assign(drawn).optimized_bytes == 104


def test_greedy_takes_the_first_of_equals_and_lets_a_buffer_grow() -> None:
    drawn = {"a": LiveRange(0, 1, 8), "b": LiveRange(0, 1, 8), "c": LiveRange(2, 3, 12)}
    sharing = assign(drawn, "greedy")
    assert sharing.groups == (("a", "c"), ("b",))
    assert sharing.optimized_bytes == 20


def test_dynamic_programming_looks_ahead_where_best_fit_does_not() -> None:
    """The small one in the middle is closer to the large buffer, which is then missing for the large one."""
    drawn = {"a": LiveRange(0, 1, 50), "b": LiveRange(3, 5, 40), "c": LiveRange(4, 6, 50)}
    assert assign(drawn, "greedy").optimized_bytes == 50 + 50
    assert assign(drawn).optimized_bytes == 50 + 40


def test_a_prefix_that_is_best_alone_is_not_always_part_of_the_best() -> None:
    """Two buffers of 6 are best for the first four; one of 10 and one of 6 are needed in the end."""
    drawn = {
        "a": LiveRange(0, 1, 6),
        "b": LiveRange(0, 4, 5),
        "c": LiveRange(3, 5, 6),
        "d": LiveRange(6, 8, 10),
        "e": LiveRange(6, 8, 3),
        "f": LiveRange(7, 8, 1),
    }
    sharing = assign(drawn)
    assert sharing.optimized_bytes == least(drawn, in_place=False) == 16


def test_the_bound_counts_ranks_and_not_only_what_is_live() -> None:
    """Once two of 6 are alive, once one of 10: 12 bytes alive at most, but two buffers of 10 and 6 are needed."""
    drawn = {"a": LiveRange(0, 1, 6), "b": LiveRange(0, 1, 6), "c": LiveRange(2, 3, 10)}
    assert rank_sizes([interval(live) for live in drawn.values()]) == [10, 6]
    sharing = assign(drawn)
    assert (sharing.optimized_bytes, sharing.lower_bound, sharing.proof) == (16, 16, "bound met")


def test_a_bound_that_cannot_be_met_is_passed_by_exhaustion() -> None:
    """Buffers of 4 and 2 have room for what is alive at each time, but the middle one lies across both."""
    drawn = {"a": LiveRange(0, 1, 4), "b": LiveRange(0, 3, 2), "c": LiveRange(2, 5, 2), "d": LiveRange(4, 5, 4)}
    sharing = assign(drawn)
    assert sharing.optimized_bytes == least(drawn, in_place=False) == 8
    assert sum(rank_sizes([interval(live) for live in drawn.values()])) == 6
    assert sharing.proof == "search exhausted"


def test_outputs_share_with_inputs_only_where_the_caller_allows() -> None:
    chain = {"x": LiveRange(0, 1, 8), "y": LiveRange(1, 2, 8), "z": LiveRange(2, 3, 8)}
    assert assign(chain).groups == (("x", "z"), ("y",))
    assert assign(chain, in_place=True).groups == (("x", "y", "z"),)
    two_outputs = {"x": LiveRange(0, 1, 8), "dead": LiveRange(1, 1, 8), "y": LiveRange(1, 2, 8)}
    assert ("dead", "y") not in assign(two_outputs, in_place=True).groups
    assert assign(two_outputs, in_place=True).optimized_bytes == 16


def test_unknowns_are_the_start_the_end_and_one_byte() -> None:
    drawn = {"in": LiveRange(None, 2), "out": LiveRange(3, None), "kept": LiveRange(None, None), "mid": LiveRange(3, 4)}
    assert fill_unknowns(drawn) == {
        "in": LiveRange(-1, 2, 1),
        "out": LiveRange(3, 5, 1),
        "kept": LiveRange(-1, 5, 1),
        "mid": LiveRange(3, 4, 1),
    }
    sharing = assign(drawn)
    assert ("kept",) in sharing.groups
    assert sharing.optimized_bytes == 3


def test_compatibility_considers_every_member() -> None:
    members = [LiveRange(0, 2, 1), LiveRange(5, 6, 1)]
    assert is_compatible(LiveRange(3, 4, 9), members)
    assert not is_compatible(LiveRange(2, 4, 9), members)
    assert is_compatible(LiveRange(2, 5, 9), members, in_place=True)
    assert not is_compatible(LiveRange(3, None, 9), members)
    assert not is_compatible(LiveRange(None, 1, 9), members)
    assert is_compatible(LiveRange(None, None), [])


def test_interference_names_every_pair() -> None:
    drawn = {"a": LiveRange(0, 2), "b": LiveRange(2, 3), "c": LiveRange(3, 4)}
    assert interference(drawn) == {"a": frozenset("b"), "b": frozenset("ac"), "c": frozenset("b")}
    assert interference(drawn, in_place=True) == dict.fromkeys("abc", frozenset())


@pytest.mark.parametrize(
    ("drawn", "initial", "message"),
    [
        ({"a": LiveRange(4, 3)}, (), "a is last used at 3"),
        ({"a": LiveRange(0, 3, -1)}, (), "a has -1 bytes"),
        ({"a": LiveRange(0, 3), "b": LiveRange(2, 4)}, [("a", "b")], "a is still in use when b"),
        ({"a": LiveRange(0, 1), "b": LiveRange(2, 4)}, [("a",), ("b", "a")], "a is in 2 buffers"),
        ({"a": LiveRange(0, 1)}, [("ghost",)], "ghost is not a tensor"),
        ({"a": LiveRange(0, 1)}, [()], "empty"),
        ({"s": LiveRange(0, 1), "b": LiveRange(2, 4)}, [("s", "b")], "s is static"),
    ],
)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_makes_no_sense_is_refused_by_name(
    drawn: Ranges, initial: Sequence[tuple[str, ...]], message: str, algorithm: Algorithm
) -> None:
    with pytest.raises(UsageError, match=message):
        assign(drawn, algorithm, initial=initial, static=["s"])


def test_a_stopped_search_returns_at_least_the_greedy_result() -> None:
    drawn = {f"t{i}": LiveRange(i % 17, i % 17 + 1 + i % 5, 16 + (i * 7919) % 97) for i in range(120)}
    sharing = assign(drawn, effort=Effort(stop=lambda: True))
    assert sharing.cut_short
    assert sharing.proof == "none"
    assert sharing.optimized_bytes <= assign(drawn, "greedy").optimized_bytes
    assert check_assignment(drawn, sharing.groups) == ()
