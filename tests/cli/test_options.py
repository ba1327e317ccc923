"""Option types: what they take, and what they say of anything else.

What --input-shape takes.
"""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.cli.calibrate import MeasurementType
from edgetool.cli.options import InputShape, Positive


@given(st.floats(1e-6, 1e9))
def test_positive_numbers_are_taken_as_they_are(number: float) -> None:
    assert Positive().convert(repr(number), None, None) == number
    assert Positive().convert(number, None, None) == number


@pytest.mark.parametrize(
    "value", ["0", "-1", "nan", "inf", "-inf", "1e300", "1e-300", "12.3ms", "", "1,5", True, 10**400, None]
)
def test_values_that_no_device_has_are_rejected(value: object) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a (plain )?number"):
        Positive().convert(value, None, None)


@pytest.mark.parametrize(
    ("text", "path", "ms"),
    [
        ("kws.tflite=12.3ms", "kws.tflite", 12.3),
        ("a=b/c.tflite=350us", "a=b/c.tflite", 0.35),
        ("my model.tflite=1.5 s", "my model.tflite", 1500.0),
        ("C:\\x.tflite=2s", "C:\\x.tflite", 2000.0),
    ],
)
def test_a_measurement_is_a_path_and_a_time(text: str, path: str, ms: float) -> None:
    assert MeasurementType().convert(text, None, None) == (Path(path), pytest.approx(ms))


@pytest.mark.parametrize("text", ["kws.tflite", "=12ms", "kws.tflite=", "kws.tflite=12", "kws.tflite=-1ms", "m=nanms"])
def test_invalid_measurements_are_rejected(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"for example kws.tflite=12.3ms|a time with a unit"):
        MeasurementType().convert(text, None, None)


def test_the_shell_completes_files() -> None:
    context = click.Context(click.Command("calibrate"))
    (item,) = MeasurementType().shell_complete(context, click.Option(["--measured"]), "kw")
    assert (item.value, item.type) == ("kw", "file")


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
def test_shapes_are_parsed_in_common_spellings(text: str, name: str | None, sizes: Sizes) -> None:
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
def test_any_shape_is_parsed_or_rejected(name: str | None, sizes: Sizes) -> None:
    text = ("" if name is None else f"{name}=") + ",".join(map(str, sizes))
    assert read(text) == (name, sizes)
