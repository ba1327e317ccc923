from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.estimate.precision import PrecisionTradeoffs, own_precision, precision_tradeoffs
from edgetool.memory.planner import plan_memory
from edgetool.model.types import DType, Model
from edgetool.operators.cost import operator_costs
from edgetool.target.platform import platform_of
from edgetool.target.types import Target
from tests.estimate.figures import FLASH, SRAM, board, estimate, operator
from tests.memory.account_net import Net

TYPES = {"float32": DType.FLOAT32, "int16x8": DType.INT16, "int8": DType.INT8}
MODEL_BYTES = 20_000


def network(dtype: DType, *, wrapped: bool = False) -> Model:
    """CONV_2D with a bias, RESHAPE and FULLY_CONNECTED; `wrapped` between QUANTIZE and DEQUANTIZE."""
    net = Net(seed=1)
    first = x = net.arena(1, 8, 8, 4, dtype=DType.FLOAT32 if wrapped else dtype)
    if wrapped:
        x = net.op("QUANTIZE", [x], dtype=dtype)
    x = net.op("CONV_2D", [x, net.filter(8, 3, 3, 4, like=x), net.biases(8, like=x)], 1, 8, 8, 8)
    x = net.op("RESHAPE", [x, net.constant([1, 512])], 1, 512)
    x = net.op("FULLY_CONNECTED", [x, net.filter(10, 512, like=x, axis=None), net.biases(10, like=x)], 1, 10)
    if wrapped:
        x = net.op("DEQUANTIZE", [x], dtype=DType.FLOAT32)
    net.end_graph([first], [x])
    return net.whole()


def tradeoffs(model: Model, target: Target, *, runs: int = 1, model_bytes: int = MODEL_BYTES) -> PrecisionTradeoffs:
    operators = [
        operator(
            cost.index,
            cost.operator,
            parameter_bytes=runs * cost.parameter_bytes,
            activation_bytes=runs * cost.activation_bytes,
            runs=runs,
        )
        for cost in operator_costs(model)
    ]
    plan = plan_memory(model, platform_of(target))
    return precision_tradeoffs(model, plan, estimate(operators), target, model_bytes=model_bytes)


def test_types_change_and_index_constants_do_not() -> None:
    rows = {row.precision: row for row in tradeoffs(network(DType.INT8), board(SRAM, FLASH)).rows}
    weights, biases, shape, elements = 8 * 36 + 10 * 512, 18, 8, 256 + 2 * 512 + 10
    assert {name: row.parameter_bytes for name, row in rows.items()} == {
        "float32": 4 * weights + 4 * biases + shape,
        "float16": 2 * weights + 2 * biases + shape,
        "int16x8": weights + 8 * biases + shape,
        "int8": weights + 4 * biases + shape,
    }
    assert {name: row.activation_bytes for name, row in rows.items()} == {
        "float32": 4 * elements,
        "float16": 2 * elements,
        "int16x8": 2 * elements,
        "int8": elements,
    }
    assert list(rows) == ["float32", "float16", "int16x8", "int8"]
    assert [row.stock_tflm for row in rows.values()] == [True, False, True, True]


@pytest.mark.parametrize("own", TYPES)
@pytest.mark.parametrize("other", TYPES)
def test_a_row_is_what_the_model_of_that_precision_has(own: str, other: str) -> None:
    target = board(SRAM, FLASH)
    row = {row.precision: row for row in tradeoffs(network(TYPES[own]), target).rows}[other]
    real = tradeoffs(network(TYPES[other]), target).as_is
    assert (row.parameter_bytes, row.activation_bytes, row.bytes_moved) == (
        real.parameter_bytes,
        real.activation_bytes,
        real.bytes_moved,
    )
    assert row.exact == (own == other)
    if {own, other} <= {"int8", "int16x8"} or own == other:
        assert row.arena_bytes is not None
        assert real.arena_bytes is not None
        assert abs(row.arena_bytes - real.arena_bytes) <= 0.1 * real.arena_bytes  # scratch and tail are taken as are


def test_the_own_row_is_the_plan_and_the_file() -> None:
    model, target = network(DType.INT8), board(SRAM, FLASH)
    found = tradeoffs(model, target, runs=3)
    plan = plan_memory(model, platform_of(target))
    assert found.own == "int8"
    assert found.rows[3] == found.as_is
    assert plan.account is not None
    assert (found.as_is.arena_bytes, found.as_is.model_bytes) == (plan.account.bytes, MODEL_BYTES)
    assert found.as_is.bytes_moved == 3 * sum(cost.memory_bytes for cost in operator_costs(model))
    assert (found.as_is.relative_memory, found.as_is.relative_traffic) == (1, 1)


def test_floats_around_an_int8_model_stay() -> None:
    found = tradeoffs(network(DType.INT8, wrapped=True), board(SRAM, FLASH))
    plain = tradeoffs(network(DType.INT8), board(SRAM, FLASH))
    assert found.own == "int8"
    outside = 4 * (256 + 10)
    for wrapped, bare in zip(found.rows, plain.rows, strict=True):
        assert wrapped.activation_bytes == bare.activation_bytes + outside


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT16, DType.INT8])
def test_own_precision(dtype: DType) -> None:
    name = next(name for name, kind in TYPES.items() if kind == dtype)
    assert own_precision(network(dtype)) == name
    net = Net()
    x = net.arena(1, 4, dtype=dtype)
    net.end_graph([x], [net.op("RELU", [x])])
    assert own_precision(net.whole()) == name


def test_a_hybrid_model_is_a_mixture_and_no_row_is_exact() -> None:
    net = Net(seed=2)
    x = net.arena(1, 16, dtype=DType.FLOAT32)
    y = net.op("FULLY_CONNECTED", [x, net.noise(4, 16)], 1, 4)
    net.end_graph([x], [y])
    found = tradeoffs(net.whole(), board(SRAM, FLASH))
    assert found.own is None
    assert found.as_is.precision == "mixed"
    assert found.as_is.parameter_bytes == 64
    assert not any(row.exact for row in found.rows)
    assert [row.parameter_bytes for row in found.rows] == [256, 128, 64, 64]


def test_a_payload_of_two_tensors_counts_once() -> None:
    net = Net(seed=3)
    x = net.arena(1, 16)
    weights = net.filter(16, 16, like=x, axis=None)
    y = net.op("FULLY_CONNECTED", [net.op("FULLY_CONNECTED", [x, weights], 1, 16), weights], 1, 16)
    net.end_graph([x], [y])
    rows = tradeoffs(net.whole(), board(SRAM, FLASH)).rows
    assert [row.parameter_bytes for row in rows] == [1024, 512, 256, 256]


def sized(sram: int, flash: int) -> Target:
    return board(replace(SRAM, size_bytes=sram), replace(FLASH, size_bytes=flash))


def test_the_highest_precision_that_fits_is_recommended() -> None:
    model = network(DType.INT8)
    rows = tradeoffs(model, sized(10**6, 10**6)).rows
    for row in rows:
        assert row.arena_bytes is not None
        found = tradeoffs(model, sized(row.arena_bytes, row.model_bytes))
        if row.precision == "float16":
            assert found.recommended == "int16x8"  # stock TFLM does not compute in float16
        else:
            assert found.recommended == row.precision
            assert ("as planned" in found.reason) == (row.precision == "int8")
        assert all(item.fits for item in found.rows if item.arena_bytes is not None and item.precision == row.precision)


def test_none_fits_and_nothing_is_known() -> None:
    model = network(DType.INT8)
    none = tradeoffs(model, sized(16, 10**6))
    assert (none.recommended, [row.fits for row in none.rows]) == (None, [False] * 4)
    assert "none fits" in none.reason
    flash = tradeoffs(model, sized(10**6, 16))
    assert [row.fits for row in flash.rows] == [False] * 4
    bare = tradeoffs(model, board())
    assert (bare.recommended, [row.fits for row in bare.rows]) == (None, [None] * 4)
    assert "not known" in bare.reason
    assert "depends on the deployment" in bare.note


def test_a_lower_bound_of_the_arena_can_only_fail() -> None:
    net = Net()
    x = net.arena(1, 4096)
    net.end_graph([x], [net.op("GELU", [x])])
    found = tradeoffs(net.whole(), board(SRAM, FLASH))
    assert found.as_is.arena_bytes is None
    assert [row.fits for row in found.rows] == [None] * 4
    assert found.recommended is None
    small = tradeoffs(net.whole(), sized(8192, 10**6))
    assert [row.fits for row in small.rows] == [False, False, False, None]
