"""Normalizations as native kernels: tables, rows, refusals, and the outputs of TFLM's reference kernels."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.kernels.cases import Case

from edgetool.codegen.native.fixed_point import quantize_multiplier
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.normalization import exp_on_negative_values, exponentials
from edgetool.codegen.native.program import Constant, Step
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import differences, prepare
from tests.memory.account_net import Net

OUTPUTS = {  # type, scale and zero point of an operator's output
    "SOFTMAX": (DType.INT8, 2.0**-8, -128),
    "SOFTMAX to int16": (DType.INT16, 2.0**-16, -32768),
    "SOFTMAX int16": (DType.INT16, 2.0**-15, 0),
    "LOG_SOFTMAX": (DType.INT8, 16 / 256, 127),
    "L2_NORMALIZATION": (DType.INT8, 2.0**-7, 0),
}


def _layer(net: Net, what: str, x: int) -> int:
    dtype, scale, zero_point = OUTPUTS[what]
    values = {"beta": 1.0} if what.startswith("SOFTMAX") else {}
    return net.op(what.split()[0], [x], dtype=dtype, scale=scale, zero_point=zero_point, **values)


def _single(what: str, *shape: int, scale: float = 1 / 16, zero_point: int = 0) -> Model:
    net = Net()
    dtype = DType.INT16 if what.endswith("int16") and "to" not in what else DType.INT8
    x = net.arena(*shape, dtype=dtype, scale=scale, zero_point=zero_point)
    y = _layer(net, what, x)
    net.end_graph([x], [y])
    return net.whole()


def _all_int8() -> Model:
    """Return a network of every operator on int8, with scales for which few or all exponentials are above 0."""
    net = Net()
    inputs, outputs = [], []
    for scale in (1 / 4, 1 / 64):
        x = net.arena(2, 3, 2, 37, scale=scale, zero_point=-9)
        inputs.append(x)
        outputs += [_layer(net, what, x) for what in OUTPUTS if what != "SOFTMAX int16"]
    net.end_graph(inputs, outputs)
    return net.whole()


def _step(model: Model, **values: bool) -> tuple[Step, dict[str, object]]:
    (step,) = lower(model, **values).steps
    return step, dict(step.op.values)


@pytest.mark.slow
def test_normalizations_compute_what_tflm_computes() -> None:
    levels = (-128, -127, -9, -8, 0, 126, 127)
    codes = np.array([[[*(37 * [a]), *(37 * [b])] * 6 for a, b in product(levels, levels)]] * 2, np.int8)
    trials = {
        "int8": prepare(_all_int8(), 4),
        "vectors of equal and of extreme codes": prepare(
            _all_int8(), inputs=[item.reshape(-1, 2, 3, 2, 37) for item in codes]
        ),
        "int16": prepare(_single("SOFTMAX int16", 5, 41, scale=1 / 2048)),
    }
    assert differences(trials) == []


def test_exponentials_are_those_of_real_numbers() -> None:
    values = -np.arange(0, 2**31, 2**20 + 7, dtype=np.int64)
    exact = np.exp(values / 2.0**26) * 2.0**31
    assert np.abs(exp_on_negative_values(values) - exact).max() < 2.0**31 * 2e-7
    assert exp_on_negative_values(np.zeros(1, np.int64)) == [2**31 - 1]


@pytest.mark.parametrize("scale", [0.002, 1 / 64, 0.1, 1.0, 30.0])
def test_the_table_of_exponentials_ends_with_the_last_one_above_0(scale: float) -> None:
    table = exponentials(quantize_multiplier(scale * 2**26), int(31 / scale))
    places = np.arange(256)[: len(table)]
    assert np.abs(table / 2.0**31 - np.exp(-scale * places)).max() < 1e-6
    assert table[-1] > 0
    assert len(table) == min(256, int(31 / scale) + 1) or np.exp(-scale * len(table)) < 2.0**-30


def test_tables_of_int16_are_those_of_real_numbers() -> None:
    _, fields = _step(_single("SOFTMAX int16", 4, 9))
    tables = []
    for name in ("exponentials", "inverses"):
        constant = fields[name]
        assert isinstance(constant, Constant)
        tables.append(np.frombuffer(constant.data, "<i2") / 2.0**15)
    places = np.linspace(0, 1, 513)
    assert np.abs(tables[0] - np.exp(10 * places - 10)).max() < 1e-3
    assert np.abs(tables[1] - 1 / (1 + places)).max() < 1e-4
    assert tables[0].min() >= 0


@pytest.mark.parametrize("what", list(OUTPUTS))
def test_rows_of_images_stay_apart_if_they_are_planned_one_by_one(what: str) -> None:
    model = _single(what, 2, 5, 3, 7)
    element, result = (model.main.tensors[index].dtype.bits // 8 for index in (0, 1))
    step, fields = _step(model)
    assert (step.batches, step.rows, step.row_bytes, fields["vectors"]) == (1, 1, 210 * result, 30)
    step, fields = _step(model, row_wise=True)
    assert (step.batches, step.rows, step.row_bytes, fields["vectors"]) == (2, 5, 21 * result, 3)
    assert (step.inputs[0].rows, step.inputs[0].row_bytes) == (5, 21 * element)
    assert [overlap.distance for overlap in step.overlaps] == [209 if result > element else 0]


@pytest.mark.parametrize("code", ["L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX"])
def test_float32_is_refused(code: str) -> None:
    with pytest.raises(UnsupportedModelError, match="FLOAT32 to FLOAT32 is not supported"):
        lower(Case(code, "float32", 0).model())


@pytest.mark.parametrize(
    ("what", "depth"), [("SOFTMAX", 4096), ("LOG_SOFTMAX", 4096), ("L2_NORMALIZATION", 2**17), ("SOFTMAX int16", 2**16)]
)
def test_sums_beyond_32_bits_are_refused(what: str, depth: int) -> None:
    with pytest.raises(UnsupportedModelError, match="its sums may exceed 32 bits"):
        lower(_single(what, 1, depth))
