"""Sizes of inputs: the model's own, and those that are given where it leaves them open."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.convert.input_shapes import DeclaredShape, RequestedShapes, require_fixed, resolve_shapes
from edgetool.errors import UnsupportedModelError, UsageError

PICTURE: DeclaredShape = (None, None, 3)


def test_open_sizes_are_filled_in_by_name() -> None:
    found = resolve_shapes(["a", "b"], [PICTURE, (4,)], [("a", [8, 6, 3])], "model.keras")
    assert found == ((8, 6, 3), (4,))


def test_the_only_input_needs_no_name_and_a_batch_of_one_may_be_there() -> None:
    for given_ in ([(None, (8, 6, 3))], [(None, [1, 8, 6, 3])], [("a", (8, 6, 3))]):
        assert resolve_shapes(["a"], [PICTURE], given_, "model.keras") == ((8, 6, 3),)
    assert resolve_shapes(["a"], [(None, None, None)], [(None, (1, 6, 3))], "model.keras") == ((1, 6, 3),)


@pytest.mark.parametrize(
    ("names", "declared", "shapes", "said"),
    [
        (["a"], [PICTURE], [(None, (8, 6, 1))], r"input 'a' has shape \(None, None, 3\) in the model, not \(8, 6, 1\)"),
        (["a"], [PICTURE], [(None, (8, 6))], r"not \(8, 6\)"),
        (["a"], [PICTURE], [(None, (2, 8, 6, 3))], r"not \(2, 8, 6, 3\)"),
        (["a"], [()], [(None, (4,))], r"has shape \(\) in the model"),
        (["a"], [PICTURE], [("x", (8, 6, 3))], r"no input 'x'.*it has a$"),
        (["a", "b"], [PICTURE, (4,)], [(None, (8, 6, 3))], "has 2 inputs.*a, b"),
        (["a"], [PICTURE], [("a", (8, 6, 3)), (None, (8, 6, 3))], "'a' is specified twice"),
        (["a"], [PICTURE], [(None, (0, 6, 3))], r"cannot have shape \(0, 6, 3\)"),
        (["a"], [PICTURE], [(None, (2**20, 2**20, 3))], "cannot have shape"),
    ],
)
def test_what_does_not_fit_is_reported(
    names: list[str], declared: list[DeclaredShape], shapes: RequestedShapes, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        resolve_shapes(names, declared, shapes, "model.keras")
    assert caught.value.where == "--input-shape"


def test_a_size_that_is_left_open_names_the_option() -> None:
    with pytest.raises(UnsupportedModelError, match=r"\(None, 3\).*--input-shape series=SIZE,3"):
        require_fixed("series", (None, 3), "model.keras")
    with pytest.raises(UnsupportedModelError, match="is empty"):
        require_fixed("series", (0, 3), "model.keras")
    assert require_fixed("series", (4, 3), "model.keras") == (4, 3)


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=5), st.booleans())
def test_any_sizes_that_agree_are_taken(sizes: list[tuple[int, bool]], batch: bool) -> None:
    declared = tuple(None if is_open else size for size, is_open in sizes)
    shape = tuple(size for size, _ in sizes)
    assert resolve_shapes(["x"], [declared], [("x", ((1,) if batch else ()) + shape)], "m") == (shape,)
    assert resolve_shapes(["x"], [declared], [], "m") == (declared,)
