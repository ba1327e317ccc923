"""GELU in a cheaper form, where the user allows it: the error that is told is the one that is made."""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
import pytest

from edgetool.model.types import Model
from edgetool.passes.legalize import ELEMENTWISE_RULES as ELEMENTWISE_RULES
from edgetool.passes.legalize import Legalized, legalize
from tests.passes.chains import INT8, INT16, REAL, Chain, Kind
from tests.passes.runs import codes, litert, runtime, tflm

CHEAP_FLOAT = ["SQUARE", "MUL", "ADD", "MUL", "LOGISTIC", "MUL"]
CHEAP_INT16 = ["MUL", "MUL", "ADD", "MUL", "LOGISTIC", "MUL"]


def gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray([v * 0.5 * (1 + erf(v / sqrt(2))) for v in x.reshape(-1)]).reshape(x.shape)


def model_of(kind: Kind, result: Kind, size: int, *, approximate: bool = False) -> Model:
    chain = Chain([1, size])
    x = chain.made(kind)
    return chain.model([x], [chain.step("GELU", [x], result, approximate=approximate)])


def allowed(model: Model) -> Legalized:
    return legalize(model, runtime(), allow_approximation=True, rules=ELEMENTWISE_RULES)


@pytest.mark.parametrize("power", [-15, -13, -12, -10], ids=["1", "4", "8", "32"])
def test_the_error_in_int16_is_told(power: int) -> None:
    """For inputs up to 1, 4, 8 and 32, over all their 65536 codes."""
    kind: Kind = (INT16, 2.0**power, 0)
    result = allowed(model_of(kind, kind, 65536))
    assert codes(result.model) == CHEAP_INT16
    error = result.applied[0].error
    assert error is not None
    assert error < 6e-4 + 2 * kind[1]
    given = (np.arange(-32768, 32768).astype(np.int16).reshape(1, 1, -1),)
    exact = gelu(given[0] * kind[1])
    for engine in (tflm, litert):
        made = np.abs(engine(result.model, given)[0] * kind[1] - exact).max()
        assert made <= error + 3 * kind[1] + 2e-4  # kernels round each product in 16 bits
        assert made >= 0.5 * error


def test_the_error_in_float32_is_told() -> None:
    result = allowed(model_of(REAL, REAL, 20001))
    assert codes(result.model) == CHEAP_FLOAT
    error = result.applied[0].error
    assert error == pytest.approx(2.7e-4, rel=0.05)
    values = np.linspace(-20, 20, 20001, dtype=np.float32).reshape(1, 1, -1)
    (made,) = tflm(result.model, (values,))
    assert np.abs(made - gelu(values.astype(np.float64))).max() == pytest.approx(error, rel=0.02)
    assert "with an error of up to 0.00027" in result.sentences({})[0]


def test_int8_and_the_tanh_form_in_float32_are_exact_anyway() -> None:
    int8: Kind = (INT8, 1 / 16, 0)
    for model in (model_of(int8, int8, 16), model_of(REAL, REAL, 16, approximate=True)):
        result = allowed(model)
        assert [change.error for change in result.applied] == [None]
        assert result.model == legalize(model, runtime(), rules=ELEMENTWISE_RULES).model


def test_without_leave_nothing_is_approximated() -> None:
    kind: Kind = (INT16, 2.0**-13, 0)
    result = legalize(model_of(kind, kind, 16), runtime(), rules=ELEMENTWISE_RULES)
    assert {change.error for change in result.applied} == {None}
    assert "DEQUANTIZE" in codes(result.model)
