"""What --input-shape takes."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.cli.options import InputShape

Sizes = tuple[int, ...]


def read(text: object) -> tuple[str | None, Sizes]:
    return InputShape().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "name", "sizes"),
    [
        ("96,96,1", None, (96, 96, 1)),
        ("96x96x1", None, (96, 96, 1)),
        ("96 96 1", None, (96, 96, 1)),
        ("16", None, (16,)),
        ("image=96, 96, 1", "image", (96, 96, 1)),
        ("serving:0=4", "serving:0", (4,)),
        ("a=b=4", "a=b", (4,)),
        ("1x96x96x1", None, (1, 96, 96, 1)),  # a batch or a size: the model's rank tells
        ("(None, 96, 96, 1)", None, (96, 96, 1)),
        ("x=[?, 12]", "x", (12,)),
        ("-1,12", None, (12,)),
        ("(3,)", None, (3,)),
    ],
)
def test_shapes_as_people_write_them(text: str, name: str | None, sizes: Sizes) -> None:
    assert read(text) == (name, sizes)
    assert read((name, sizes)) == (name, sizes)


@pytest.mark.parametrize(
    "text",
    ["", "x=", "=4", "x", "None", "4,None", "4,0", "4,-2", "4,,3", "1.5", "\u0663", "9" * 5000, "4:4", None, 3.5],
)
def test_anything_else_is_refused(text: object) -> None:
    with pytest.raises(click.BadParameter, match="is not a shape such as 96,96,1"):
        read(text)


@given(
    st.none() | st.text(min_size=1).map(str.strip).filter(bool),
    st.lists(st.integers(1, 10**6), min_size=1, max_size=6).map(tuple),
)
def test_whatever_is_written_is_read(name: str | None, sizes: Sizes) -> None:
    text = ("" if name is None else f"{name}=") + ",".join(map(str, sizes))
    assert read(text) == (name, sizes)
