"""The bound itself: its rounding, and the interpreter that runs a model's graph."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from benchmarks.zoo.rounding import in_eight_bits
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=30)


@given(VALUES)
def test_eight_bits_keep_zero_and_are_off_by_at_most_a_step(values: list[float]) -> None:
    array = np.array(values)
    low, high = min(0.0, array.min()), max(0.0, array.max())
    rounded = in_eight_bits(np.append(array, 0.0), low, high)
    assert rounded[-1] == 0
    # Half a step, and half a step more where the zero point itself was rounded at an end.
    assert np.abs(rounded[:-1] - array).max() <= (high - low) / 255 * 1.001
    assert len(np.unique(rounded)) <= 256


@given(VALUES)
def test_values_that_fit_eight_bits_do_not_change(values: list[float]) -> None:
    array = np.array(values)
    low, high = min(0.0, array.min()), max(0.0, array.max())
    once = in_eight_bits(array, low, high)
    np.testing.assert_allclose(in_eight_bits(once, low, high), once, rtol=0, atol=(high - low) * 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conv2d", "gru", "keras2-gru", "lstm-masked", "sensor-fusion", "stateful-gru"])
def test_without_rounding_the_graph_gives_what_keras_gives(name: str) -> None:
    for needed in ("tensorflow", "keras", "tf_keras"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    from benchmarks.zoo.catalog import BY_NAME
    from benchmarks.zoo.files import build, float_outputs
    from benchmarks.zoo.rounding import exact_outputs

    built = build(BY_NAME[name])
    exact = exact_outputs(built)
    for output, values in float_outputs(built).items():
        np.testing.assert_allclose(exact[output], values, rtol=1e-4, atol=1e-5)
