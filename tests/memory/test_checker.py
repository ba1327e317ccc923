"""The checker compared with a second statement of its rules, in which every byte is painted at every moment.

The violations of invalid layouts, and the error that stops them.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import InternalError
from edgetool.memory.checker import MAX_PAIRS, Violation, check_layout, require_valid
from edgetool.memory.layout.solve import solve
from edgetool.memory.problem import Buffer, Layout, LayoutProblem, Lifetime, Overlap
from tests.conftest import examples


def buffer(
    index: int, size: int, first: int, last: int, *, alignment: int = 1, pinned: int | None = None, alias: str = ""
) -> Buffer:
    lifetime = Lifetime(first, last)
    return Buffer(0, index, f"t{index}", size, lifetime, -1, alignment, 1, pinned, alias or None)


@st.composite
def placed(draw: st.DrawFn) -> tuple[LayoutProblem, tuple[int, ...]]:
    """Small buffers anywhere; those of an alias lie together."""
    buffers, offsets = [], []
    place = {alias: draw(st.integers(0, 12)) for alias in "xy"}
    for index in range(draw(st.integers(0, 6))):
        first = draw(st.integers(-1, 4))
        alias = draw(st.sampled_from(["", "", "x", "y"]))
        buffers.append(buffer(index, draw(st.integers(0, 6)), first, first + draw(st.integers(0, 3)), alias=alias))
        offsets.append(place[alias] if alias else draw(st.integers(0, 12)))
    return LayoutProblem(tuple(buffers)), tuple(offsets)


def painted_pairs(problem: LayoutProblem, offsets: tuple[int, ...]) -> set[tuple[int, int]]:
    """Pairs of pieces, each by its first buffer, that own one byte at one moment."""
    pieces: dict[str, list[int]] = {}
    for i, item in enumerate(problem.buffers):
        pieces.setdefault(item.alias or str(i), []).append(i)
    painted: dict[tuple[int, int], list[int]] = {}
    for members in pieces.values():
        those = [problem.buffers[i] for i in members]
        for moment in range(min(b.lifetime.first for b in those), max(b.lifetime.last for b in those) + 1):
            for byte in range(max(b.size_bytes for b in those)):
                painted.setdefault((moment, offsets[members[0]] + byte), []).append(members[0])
    return {pair for owners in painted.values() for pair in itertools.combinations(sorted(owners), 2)}


@examples(300)
@given(placed())
def test_overlaps_are_what_painting_the_bytes_shows(case: tuple[LayoutProblem, tuple[int, ...]]) -> None:
    problem, offsets = case
    ends = [offset + b.size_bytes for offset, b in zip(offsets, problem.buffers, strict=True) if b.size_bytes]
    found = check_layout(problem, Layout(offsets, max(ends, default=0), 0, "none"))
    assert {violation.rule for violation in found} <= {"overlap"}
    assert {violation.buffers for violation in found} == painted_pairs(problem, offsets)


A = buffer(0, 10, 0, 2)


@pytest.mark.parametrize(
    ("buffers", "layout", "rules"),
    [
        ((A, buffer(1, 5, 0, 2, alignment=4)), Layout((0, 12), 17, 0, "none"), set()),
        ((A, buffer(1, 5, 0, 2, alignment=4)), Layout((0, 10), 15, 0, "none"), {"alignment"}),
        ((A, buffer(1, 5, 0, 2, pinned=20)), Layout((0, 20), 25, 25, "bound met"), set()),
        ((A, buffer(1, 5, 0, 2, pinned=20)), Layout((0, 10), 15, 0, "none"), {"pin"}),
        ((A, buffer(1, 5, 0, 2)), Layout((0, 20), 25, 25, "bound met"), {"bound"}),
        ((A, buffer(1, 5, 0, 2)), Layout((0, 20), 25, 25, "search exhausted"), set()),
        ((A, buffer(1, 5, 0, 2)), Layout((0, 20), 25, 15, "cp-sat"), {"proof"}),
        ((buffer(0, 9, 0, 1, alias="x"), buffer(1, 5, 1, 2, alias="x")), Layout((0, 0), 9, 9, "bound met"), set()),
        ((buffer(0, 9, 0, 1, alias="x"), buffer(1, 5, 1, 2, alias="x")), Layout((0, 9), 9, 9, "none"), {"alias"}),
        ((buffer(0, 9, 0, 1, alias="x"), buffer(1, 0, 1, 2, alias="x")), Layout((0, 9), 9, 9, "none"), {"alias"}),
        ((A, buffer(1, 0, 0, 2)), Layout((0, 5), 10, 10, "bound met"), set()),
        ((A, buffer(1, 0, 0, 2)), Layout((0, 50), 10, 10, "bound met"), set()),
        ((A,), Layout((-1,), 10, 0, "none"), {"negative", "height"}),
    ],
)
def test_rules(buffers: tuple[Buffer, ...], layout: Layout, rules: set[str]) -> None:
    assert {violation.rule for violation in check_layout(LayoutProblem(buffers), layout)} == rules


def test_a_long_list_of_overlaps_is_cut_with_a_message() -> None:
    problem = LayoutProblem(tuple(buffer(i, 1, 0, 0) for i in range(200)))
    found = check_layout(problem, Layout((0,) * 200, 1, 0, "none"))
    assert len(found) == MAX_PAIRS + 1
    assert (found[-1].rule, found[-1].buffers) == ("overlap", ())


def test_empty_members_of_an_alias_count_as_the_others_do() -> None:
    stretched = LayoutProblem((buffer(0, 8, 0, 0, alias="g"), buffer(1, 0, 4, 4, alias="g"), buffer(2, 8, 4, 4)))
    layout = solve(stretched)
    assert layout.height == 16
    assert check_layout(stretched, layout) == ()
    assert check_layout(stretched, Layout((0, 0, 0), 8, 8, "none"))
    empty = LayoutProblem((buffer(0, 0, 0, 0, pinned=16, alias="g"), buffer(1, 0, 1, 1, alias="g")))
    assert solve(empty).offsets == (16, 16)
    assert check_layout(empty, solve(empty)) == ()


def changed_buffer(first: int, last: int, **changes: object) -> Buffer:
    given: dict[str, object] = {"subgraph": 0, "tensor": 3, "name": "a;b", "size_bytes": 32, **changes}
    return Buffer(lifetime=Lifetime(first, last), **given)  # type: ignore[arg-type]


PAIR = LayoutProblem((changed_buffer(0, 1), changed_buffer(1, 2)))


def test_a_valid_layout_is_returned() -> None:
    layout = Layout((0, 32), 64, 64, "bound met")
    assert require_valid(PAIR, layout) is layout


def test_a_wrong_one_is_a_bug_that_names_the_first_violation() -> None:
    with pytest.raises(
        InternalError, match=r"the layout is invalid: tensor 3 .* is at -16, before the start of the arena"
    ) as caught:
        require_valid(PAIR, Layout((-16, -16), 64, 64, "none"))
    assert len(caught.value.details) == 3
    assert caught.value.details[1].endswith("overlap")


def test_another_number_of_offsets() -> None:
    assert check_layout(PAIR, Layout((0,), 32, 0, "none")) == (Violation("count", "1 offsets for 2 buffers", ()),)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "tensor 3 ('a')"),
        ({"subgraph": 2}, "tensor 3 of subgraph 2 ('a')"),
        ({"tensor": -1, "operator": 5}, "scratch of operator 5 ('a')"),
        ({"tensor": -1, "operator": 5, "subgraph": 1}, "scratch of operator 5 of subgraph 1 ('a')"),
        ({"tensor": -1}, "buffer 'a'"),
        ({"name": "\n\x1b" + "x" * 100}, "tensor 3 ('\\n\\x1b" + "x" * 58 + "')"),
    ],
)
def test_a_buffer_is_described_by_its_contents(changes: dict[str, object], text: str) -> None:
    (violation,) = check_layout(LayoutProblem((changed_buffer(0, 0, **changes),)), Layout((8,), 40, 0, "none"))
    assert violation.message == f"{text} is at 8, which is not a multiple of 16"


def test_the_bound_is_checked_against_the_maximum_live_bytes() -> None:
    """The third starts when the first has ended: 64 bytes at most, where three in a row take 96."""
    problem = LayoutProblem((changed_buffer(0, 0), changed_buffer(0, 1), changed_buffer(1, 1)))
    assert check_layout(problem, Layout((0, 32, 0), 64, 64, "bound met")) == ()
    (violation,) = check_layout(problem, Layout((0, 32, 64), 96, 96, "bound met"))
    assert violation.message == "the bound is 96, but at most 64 bytes are live at once"


def test_a_height_below_the_bound() -> None:
    (violation,) = check_layout(PAIR, Layout((0, 32), 64, 80, "none"))
    assert violation.message == "the height 64 is below the bound 80"


def test_an_overlap_is_accepted_only_at_its_distance() -> None:
    problem = LayoutProblem((buffer(0, 8, 0, 1), buffer(1, 8, 1, 2)), (Overlap(0, 1, 4),))
    for first, second, rules in ((4, 0, []), (3, 0, ["overlap"]), (0, 4, ["overlap"]), (0, 8, []), (8, 0, [])):
        layout = Layout((first, second), max(first, second) + 8, 0, "none")
        assert [violation.rule for violation in check_layout(problem, layout)] == rules


def test_any_overlap_of_a_pair_suffices() -> None:
    pair = (buffer(0, 8, 0, 1), buffer(1, 8, 1, 2))
    problem = LayoutProblem(pair, (Overlap(0, 1, 6), Overlap(0, 1, 4), Overlap(1, 0, 5)))
    accepted = [
        difference
        for difference in range(-8, 9)
        if not check_layout(problem, Layout((8 + difference, 8), max(16 + difference, 16), 0, "none"))
    ]
    assert accepted == [-8, -7, -6, -5, 4, 5, 6, 7, 8]


def test_a_distance_may_be_negative() -> None:
    problem = LayoutProblem((buffer(0, 8, 0, 1), buffer(1, 8, 1, 2)), (Overlap(0, 1, -3),))
    assert check_layout(problem, Layout((0, 3), 11, 0, "none")) == ()
    (violation,) = check_layout(problem, Layout((0, 4), 12, 0, "none"))
    assert (violation.rule, violation.buffers) == ("overlap", (0, 1))


def test_other_pairs_never_overlap() -> None:
    problem = LayoutProblem(tuple(buffer(i, 8, 0, 1) for i in range(3)), (Overlap(0, 1, 0),))
    rules = [(item.rule, item.buffers) for item in check_layout(problem, Layout((0, 0, 0), 8, 0, "none"))]
    assert rules == [("overlap", (0, 2)), ("overlap", (1, 2))]


@pytest.mark.parametrize("overlap", [Overlap(0, 0, 0), Overlap(0, 4, 0), Overlap(-1, 0, 0), Overlap(2, 3, 0)])
def test_an_overlap_must_name_two_buffers_that_share_no_alias(overlap: Overlap) -> None:
    buffers = (buffer(0, 8, 0, 1), buffer(1, 8, 1, 2), buffer(2, 8, 3, 3, alias="x"), buffer(3, 8, 3, 4, alias="x"))
    violations = check_layout(LayoutProblem(buffers, (overlap,)), Layout((0, 8, 0, 0), 16, 0, "none"))
    assert [violation.rule for violation in violations] == ["permission"]


def test_an_overlap_with_a_buffer_of_an_alias_is_one_with_all_of_them() -> None:
    chain = (buffer(0, 8, 0, 1), buffer(1, 8, 1, 2, alias="x"), buffer(2, 8, 2, 3, alias="x"), buffer(3, 8, 3, 4))
    overlaps = (Overlap(0, 1, 2), Overlap(2, 3, 4))
    assert check_layout(LayoutProblem(chain, overlaps), Layout((6, 4, 4, 0), 14, 0, "none")) == ()
    (violation,) = check_layout(LayoutProblem(chain, overlaps), Layout((5, 4, 4, 0), 13, 0, "none"))
    assert violation.rule == "overlap"
    longer = (replace(chain[0], lifetime=Lifetime(0, 2)), *chain[1:])
    (violation,) = check_layout(LayoutProblem(longer, overlaps), Layout((6, 4, 4, 0), 14, 0, "none"))
    assert violation.message == "an overlap of an alias also permits tensor 0 ('t0') and tensor 2 ('t2')"


def test_the_bound_is_checked_against_the_bytes_in_use_if_buffers_may_overlap() -> None:
    """The sum of the live bytes, 16, is no bound: with 2 bytes between the offsets, 10 suffice."""
    problem = LayoutProblem((buffer(0, 8, 0, 1), buffer(1, 8, 1, 2)), (Overlap(0, 1, 2),))
    assert check_layout(problem, Layout((2, 0), 10, 10, "bound met")) == ()
    assert check_layout(problem, Layout((8, 0), 16, 16, "bound met")) == ()
    (violation,) = check_layout(problem, Layout((12, 0), 20, 20, "bound met"))
    assert violation.message == "the bound is 20, but at most 16 bytes are in use at once"


@examples(300)
@given(placed(), st.data())
def test_overlaps_are_accepted_where_painted_bytes_are_permitted(
    case: tuple[LayoutProblem, tuple[int, ...]], data: st.DataObject
) -> None:
    problem, offsets = case
    free = [i for i, item in enumerate(problem.buffers) if item.alias is None]
    index = st.sampled_from(free or [0])
    drawn = data.draw(st.lists(st.tuples(index, index, st.integers(-8, 8)), max_size=6 if free else 0))
    overlaps = tuple(Overlap(*item) for item in drawn if item[0] != item[1])
    ends = [offset + b.size_bytes for offset, b in zip(offsets, problem.buffers, strict=True) if b.size_bytes]
    found = check_layout(LayoutProblem(problem.buffers, overlaps), Layout(offsets, max(ends, default=0), 0, "none"))
    permitted = {
        (min(o.first, o.second), max(o.first, o.second))
        for o in overlaps
        if offsets[o.first] - offsets[o.second] >= o.min_distance
    }
    assert {violation.buffers for violation in found} == painted_pairs(problem, offsets) - permitted
