"""Option types: what they take, and what they say of anything else."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.cli.calibrate import Measurement
from edgetool.cli.options import Positive


@given(st.floats(1e-6, 1e9))
def test_positive_numbers_are_taken_as_they_are(number: float) -> None:
    assert Positive().convert(repr(number), None, None) == number
    assert Positive().convert(number, None, None) == number


@pytest.mark.parametrize(
    "value", ["0", "-1", "nan", "inf", "-inf", "1e300", "1e-300", "12.3ms", "", "1,5", True, 10**400, None]
)
def test_what_no_device_has_is_refused(value: object) -> None:
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
    assert Measurement().convert(text, None, None) == (Path(path), pytest.approx(ms))


@pytest.mark.parametrize("text", ["kws.tflite", "=12ms", "kws.tflite=", "kws.tflite=12", "kws.tflite=-1ms", "m=nanms"])
def test_what_is_no_measurement_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"for example kws.tflite=12.3ms|a time with a unit"):
        Measurement().convert(text, None, None)


def test_the_shell_completes_files() -> None:
    context = click.Context(click.Command("calibrate"))
    (item,) = Measurement().shell_complete(context, click.Option(["--measured"]), "kw")
    assert (item.value, item.type) == ("kw", "file")
