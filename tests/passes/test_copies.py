"""Copies in another scale, which come as LEAKY_RELU that lets everything through."""

from __future__ import annotations

import numpy as np
import pytest

from edgetool.model.types import DType, Model
from edgetool.passes.legalize import STRUCTURE_RULES as STRUCTURE_RULES
from edgetool.passes.legalize import legalize
from tests.model.builders import options
from tests.passes.runs import Net, codes, litert, made_legal, runtime, tflm

FLOAT, INT8, INT16 = DType.FLOAT32, DType.INT8, DType.INT16
LEAST = 2.0**-24  # below 1, in float32


def leaky(slope: float, dtype: DType = INT8, scale: float = 3 / 128, zero_point: int = -20) -> Model:
    net = Net()
    x = net.input([1, 256], dtype)
    quantized = {"scales": (scale,), "zero_point": zero_point if dtype is INT8 else 0} if dtype is not FLOAT else {}
    y = net.tensor([1, 256], dtype, **quantized)
    net.operator("LEAKY_RELU", [x], [y], options("LeakyReluOptions", alpha=float(np.float32(slope))), version=2)
    return net.model([x], [y])


@pytest.mark.parametrize("scale", [5 / 256, 1 / 16, 3 / 16], ids=["finer", "the same", "coarser"])
@pytest.mark.parametrize("slope", [1 - LEAST, 1 - 3 * LEAST, 1.0])
def test_a_copy_has_the_same_codes(slope: float, scale: float) -> None:
    model = leaky(slope, scale=scale)
    legal = made_legal(model).model
    assert codes(legal) == ["QUANTIZE"]
    given = (np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256),)
    for run in (litert, tflm):
        np.testing.assert_array_equal(run(legal, given)[0], run(model, given)[0])


def test_nothing_is_told_of_it() -> None:
    assert legalize(leaky(1 - LEAST), runtime()).sentences({}) == ()


@pytest.mark.parametrize(
    ("slope", "dtype"),
    [(0.999, INT8), (0.0, INT8), (1 - LEAST, INT16), (1 - LEAST, FLOAT), (float("nan"), INT8)],
)
def test_what_may_change_values_stays(slope: float, dtype: DType) -> None:
    """A code of int16 would be off by 0.65 where an int8 one is off by 0.0026."""
    model = leaky(slope, dtype)
    assert legalize(model, runtime(), rules=STRUCTURE_RULES).model is model
