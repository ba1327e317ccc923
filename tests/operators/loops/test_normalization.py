from __future__ import annotations

import pytest

from edgetool.model.types import DType
from edgetool.target.platform import Platform
from tests.memory.account_net import Net
from tests.operators.loops.runs import DSP, FLOAT32, INT8, INT16, MVE, REFERENCE, run, unary


@pytest.mark.parametrize(
    ("source", "target", "platform", "path"),
    [
        (FLOAT32, FLOAT32, REFERENCE, "float32"),
        (FLOAT32, FLOAT32, MVE, "float32"),
        (INT8, INT8, REFERENCE, "int8"),
        (INT8, INT8, MVE, "int8 CMSIS-NN"),
        (INT8, INT16, DSP, "int8 to int16 CMSIS-NN"),
        (INT16, INT16, DSP, "int16 CMSIS-NN"),
    ],
)
def test_softmax_goes_through_rows(source: DType, target: DType, platform: Platform, path: str) -> None:
    net = Net(1)
    x = net.arena(2, 3, 7, dtype=source)
    work = run(net.model([x], [net.op("SOFTMAX", [x], dtype=target, beta=1.0)]), platform)
    assert work.path == path
    assert (work.loops["row"], work.loops["element"]) == (6, 42)


@pytest.mark.parametrize("code", ["SOFTMAX", "LOG_SOFTMAX"])
def test_int8_far_below_its_rows_largest_has_no_exponential(code: str) -> None:
    values = {"beta": 1.0} if code == "SOFTMAX" else {}
    assert unary(code, 5, 40, scale=1 / 64, **values).loops["exponential"] == 200
    some = unary(code, 5, 40, scale=0.2, **values).loops["exponential"]
    assert 5 <= unary(code, 5, 40, scale=0.9, **values).loops["exponential"] < some < 200
    assert unary(code, 5, 40, dtype=FLOAT32, **values).loops["exponential"] == 195  # not for the largest itself


def test_a_larger_beta_has_the_effect_of_a_larger_scale() -> None:
    one = unary("SOFTMAX", 5, 40, scale=0.2, beta=2.0)
    assert one.loops == unary("SOFTMAX", 5, 40, scale=0.4, beta=1.0).loops


@pytest.mark.parametrize(("scale", "beta", "shifted"), [(1 / 2048, 1.0, 0), (0.0001, 1.0, 200), (0.0001, 2.0, 0)])
def test_fine_int16_are_shifted_right_to_the_table(scale: float, beta: float, shifted: int) -> None:
    work = unary("SOFTMAX", 5, 40, dtype=INT16, platform=DSP, scale=scale, beta=beta)
    assert work.loops["shifted right"] == shifted


@pytest.mark.parametrize("dtype", [FLOAT32, INT8])
def test_lengths_are_of_rows(dtype: DType) -> None:
    work = unary("L2_NORMALIZATION", 4, 8, 3, dtype=dtype)
    assert (work.path, work.loops["row"], work.loops["element"]) == (dtype.name.lower(), 32, 96)
