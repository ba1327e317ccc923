"""The violations of invalid layouts, and the error that stops them."""

from __future__ import annotations

import pytest

from edgetool.errors import InternalError
from edgetool.memory.checker import Violation, check_layout, require_valid
from edgetool.memory.problem import Buffer, Layout, LayoutProblem, Lifetime


def buffer(first: int, last: int, **changes: object) -> Buffer:
    given: dict[str, object] = {"subgraph": 0, "tensor": 3, "name": "a;b", "size_bytes": 32, **changes}
    return Buffer(lifetime=Lifetime(first, last), **given)  # type: ignore[arg-type]


PAIR = LayoutProblem((buffer(0, 1), buffer(1, 2)))


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
    (violation,) = check_layout(LayoutProblem((buffer(0, 0, **changes),)), Layout((8,), 40, 0, "none"))
    assert violation.message == f"{text} is at 8, which is not a multiple of 16"


def test_the_bound_is_held_against_what_is_alive_at_once() -> None:
    """The third starts when the first has ended: 64 bytes at most, where three in a row take 96."""
    problem = LayoutProblem((buffer(0, 0), buffer(0, 1), buffer(1, 1)))
    assert check_layout(problem, Layout((0, 32, 0), 64, 64, "bound met")) == ()
    (violation,) = check_layout(problem, Layout((0, 32, 64), 96, 96, "bound met"))
    assert violation.message == "the bound is 96, but at most 64 bytes are live at once"


def test_a_height_below_the_bound() -> None:
    (violation,) = check_layout(PAIR, Layout((0, 32), 64, 80, "none"))
    assert violation.message == "the height 64 is below the bound 80"
