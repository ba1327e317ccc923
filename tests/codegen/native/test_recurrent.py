"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM as native kernels."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.program import Constant, Step
from edgetool.codegen.native.recurrent import sigmoid_table
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import differences, prepare
from tests.memory.account_net import Net

INT8, INT16, INT32, FLOAT32 = DType.INT8, DType.INT16, DType.INT32, DType.FLOAT32
DEPTH, UNITS = 3, 2
# Two models with outputs that differ if the products of scales are rounded to float.
DECIMAL_SEEDS = (31, 39)


def lstm(
    dtype: DType = INT8,
    cell_scale: float = 2.0**-12,
    hidden_scale: float = 1 / 128,
    weight_scales: int = 1,
    **options: Any,
) -> Model:
    net = Net()
    x = net.arena(2, 4, DEPTH, dtype=dtype, zero_point=5)
    matrices = [
        net.tensor((UNITS, columns), INT8, data=bytes(range(UNITS * columns)), scales=[0.01] * weight_scales)
        for columns in (*[DEPTH] * 4, *[UNITS] * 4)
    ]
    biases = [net.constant([100 * gate, 7], dtype=INT32, scale=0.01) for gate in range(4)]
    hidden = net.arena(2, UNITS, dtype=dtype, scale=hidden_scale, zero_point=-3, is_variable=True)
    cell = net.arena(2, UNITS, dtype=INT16, scale=cell_scale, is_variable=True)
    y = net.arena(2, 4, UNITS, dtype=dtype)
    given = {"fused_activation_function": "TANH", "cell_clip": 1.0, "proj_clip": 0.0, "time_major": False, **options}
    inputs = [x, *matrices, -1, -1, -1, *biases, -1, -1, hidden, cell, -1, -1, -1, -1]
    net.give("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], **given)
    return net.model([x], [y])


def decimal_lstm(seed: int) -> Model:
    """Return an LSTM whose scales have one digit: their products are not the same in float and in double."""
    net, draw = Net(), np.random.default_rng(seed)
    depth, units = 32, 12
    x = net.arena(1, 6, depth, scale=0.02, zero_point=5)
    matrices = [
        net.constant(draw.integers(-127, 128, units * columns).tolist(), units, columns, dtype=INT8, scale=digit)
        for columns, digit in zip(
            [depth] * 4 + [units] * 4, draw.choice([0.0002, 0.0009, 0.001, 0.003, 0.007], 8).tolist(), strict=True
        )
    ]
    biases = [net.constant(draw.integers(-300, 300, units).tolist(), dtype=INT32, scale=0.01) for _ in range(4)]
    hidden = net.arena(1, units, scale=0.003, zero_point=-3, is_variable=True)
    cell = net.arena(1, units, dtype=INT16, scale=2.0**-9, is_variable=True)
    y = net.arena(1, 6, units)
    given = {"fused_activation_function": "TANH", "cell_clip": 0.0, "proj_clip": 0.0, "time_major": False}
    inputs = [x, *matrices, -1, -1, -1, *biases, -1, -1, hidden, cell, -1, -1, -1, -1]
    net.give("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], **given)
    return net.model([x], [y])


def svdf(
    state: DType = INT16, times: DType = INT16, output_scale: float = 0.5, *, bias: bool = True, assigned: bool = False
) -> Model:
    net = Net()
    x = net.arena(1, DEPTH, zero_point=5)
    features = net.noise(4, DEPTH)
    memory = net.noise(4, 3, dtype=times, scale=0.25)
    values = [net.constant([9, -9], scale=0.125) if bias else -1]
    variable = net.arena(1, 12, dtype=state, scale=0.5, is_variable=True)
    if assigned:
        net.give("RESHAPE", [net.constant(range(12), dtype=state, scale=0.5), net.constant([1, 12])], [variable])
    y = net.arena(1, 2, scale=output_scale)
    net.give("SVDF", [x, features, memory, *values, variable], [y], rank=2, fused_activation_function="NONE")
    return net.model([x], [y])


def fields(model: Model) -> dict[str, Any]:
    return dict(step(model).op.values)


def step(model: Model) -> Step:
    (only,) = lower(model).steps
    return only


def array(value: object, dtype: str) -> np.ndarray[Any, Any]:
    assert isinstance(value, Constant)
    return np.frombuffer(value.data, dtype)


def test_the_table_is_the_sigmoid_of_24ths() -> None:
    table = array(sigmoid_table(), "<u2").astype(int)
    exact = np.array([2**16 / (1 + exp(-i / 24)) for i in range(256)])
    assert table[0] == 2**15
    assert table[255] == 2**16 - 1
    assert (np.abs(table - exact) < 1.2).all()
    assert (np.diff(table) >= 0).all()
    # TFLM's table, by a sum over its entries and over their places.
    assert (table.sum(), (table * np.arange(256)).sum()) == (15_670_629, 2_108_062_945)


def test_weights_of_a_unit_follow_each_other() -> None:
    model = lstm()
    weights = array(fields(model)["weights"], "i1").reshape(UNITS, 4, DEPTH + UNITS)
    # Forget, input, candidate and output: the .tflite has input, forget, cell and output.
    np.testing.assert_array_equal(weights[1, :, :DEPTH], [[3, 4, 5]] * 4)
    np.testing.assert_array_equal(weights[1, :, DEPTH:], [[2, 3]] * 4)
    offsets = array(fields(model)["offsets"], "<i4").reshape(UNITS, 4, 2)
    np.testing.assert_array_equal(offsets[0, :, 0], np.array([100, 0, 200, 300]) - 5 * 3)
    np.testing.assert_array_equal(offsets[1, :, 1], [3 * 5] * 4)


def test_an_lstm_has_two_states_and_needs_no_scratch() -> None:
    only = step(lstm())
    assert only.states == (13, 14)
    assert only.scratch_bytes == 0


@pytest.mark.parametrize(("power", "left", "right"), [(-12, 0, 0), (-11, 1, 0), (-15, 0, 3)])
def test_the_cell_state_is_shifted_to_the_argument_of_tanh(power: int, left: int, right: int) -> None:
    values = fields(lstm(cell_scale=2.0**power))
    assert (values["tanh_left"], values["tanh_right"]) == (left, right)


@pytest.mark.parametrize(("clip", "code"), [(0.0, 32768), (1.0, 4096), (0.0001, 0), (100.0, 32767)])
def test_the_cell_state_is_clipped_in_codes(clip: float, code: int) -> None:
    assert fields(lstm(cell_clip=clip))["clip"] == code


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (lstm(FLOAT32), "FLOAT32"),
        (lstm(fused_activation_function="RELU"), "TANH"),
        (lstm(cell_scale=2.0**-11.5), "power of two"),
        (lstm(cell_scale=2.0**4), "out of range"),
        (lstm(hidden_scale=2.0**-31), "hidden state is too small"),
        (lstm(weight_scales=2), "several scales"),
        (svdf(INT16, INT8), "different types"),
        (svdf(bias=False), "bias is omitted"),
        (svdf(output_scale=2.0**-10), "output is too small"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_refuses_what_it_does_not_compute(model: Model, why: str) -> None:
    with pytest.raises(UnsupportedModelError, match=why):
        lower(model)


def test_a_constant_is_copied_to_a_state() -> None:
    first, second = lower(svdf(assigned=True)).steps
    assert first.kernel == "edgetool_assign"
    assert (first.output,) == second.states


@pytest.mark.slow
def test_states_equal_tflm_over_several_invocations() -> None:
    models = {"lstm": lstm(), "svdf": svdf(), "assigned": svdf(assigned=True)}
    assert differences({name: prepare(model, 6) for name, model in models.items()}) == []


@pytest.mark.slow
def test_multipliers_are_those_of_products_in_double() -> None:
    trials = {f"seed {seed}": prepare(decimal_lstm(seed), samples=250) for seed in DECIMAL_SEEDS}
    assert differences(trials) == []
