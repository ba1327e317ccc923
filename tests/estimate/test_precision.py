from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.estimate.precision import ARENA_ERROR, PrecisionTradeoffs, precision_tradeoffs
from edgetool.estimate.retyped import model_precision
from edgetool.memory.planner import plan_memory
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model
from edgetool.operators.registry import operator_costs
from edgetool.target.load import load_target
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
    assert row.arena_bytes is not None
    assert real.arena_bytes is not None
    assert abs(row.arena_bytes - real.arena_bytes) <= ARENA_ERROR * real.arena_bytes


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "cortex-m0plus"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("mlperf/vww_96_float", "mlperf/vww_96_int8"),
        ("mlperf/ad01_fp32", "mlperf/ad01_int8"),
        ("mlperf/pretrainedResnet", "mlperf/pretrainedResnet_quant"),
        ("made/resnet8", "made/resnet8_int16"),
    ],
)
def test_real_pairs_of_one_network_are_within_the_errors_that_rows_allow_for(
    shared: Path, first: str, second: str, target: str
) -> None:
    """Kernels keep a multiplier and a shift of each channel, and files a scale and a zero point."""
    build = load_target(target).with_overrides(kernels="reference" if "made/" in first else None)
    found = {}
    for name in (first, second):
        blob = (shared / "data" / "models" / f"{name}.tflite").read_bytes()
        found[name] = tradeoffs(read_model(blob), build, model_bytes=len(blob))
    for one, other in ((first, second), (second, first)):
        real = found[other].as_is
        (row,) = (row for row in found[one].rows if row.precision == real.precision)
        assert row.arena_bytes is not None
        assert row.arena_bytes == pytest.approx(real.arena_bytes, rel=0.02)
        assert row.model_bytes == pytest.approx(real.model_bytes, rel=0.07)
        assert not row.exact


def test_quantized_files_hold_scales_and_kernels_keep_multipliers() -> None:
    """A convolution of 64 channels: what int8 adds to the constants and the tensors alike is theirs."""

    def made(channels: int) -> tuple[int, int]:
        net = Net(seed=4)
        x = net.arena(1, 4, 4, 4, dtype=DType.FLOAT32)
        y = net.op("CONV_2D", [x, net.filter(channels, 1, 1, 4, like=x), net.biases(channels, like=x)], 1, 4, 4, 8)
        net.end_graph([x], [y])
        row = tradeoffs(net.whole(), board(SRAM, FLASH)).rows[3]
        assert row.arena_bytes is not None
        return row.arena_bytes - row.live_bytes, row.model_bytes - row.parameter_bytes - MODEL_BYTES

    (few_kept, few_told), (many_kept, many_told) = made(8), made(72)
    assert many_kept - few_kept == 64 * 8
    assert many_told - few_told == 64 * 2 * 12 - 64 * 5 * 4  # both without their float constants


def test_the_row_of_the_current_precision_is_exact() -> None:
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
def test_model_precision(dtype: DType) -> None:
    name = next(name for name, kind in TYPES.items() if kind == dtype)
    assert model_precision(network(dtype)) == name
    net = Net()
    x = net.arena(1, 4, dtype=dtype)
    net.end_graph([x], [net.op("RELU", [x])])
    assert model_precision(net.whole()) == name


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
        room = 1.0 if row.exact else 1.12
        found = tradeoffs(model, sized(round(room * row.arena_bytes), round(room * row.model_bytes)))
        if row.precision == "float16":
            # Stock TFLM does not compute in float16. With int16, the kernels let fewer outputs overlap inputs.
            integers = [item for item in found.rows if item.precision in ("int16x8", "int8")]
            assert found.recommended == next(item.precision for item in integers if item.fits)
        else:
            assert found.recommended == row.precision
            assert ("to confirm" in found.reason) == (row.precision != "int8")
        assert all(item.fits for item in found.rows if item.arena_bytes is not None and item.precision == row.precision)


def test_what_is_nearer_to_the_limit_than_its_error_is_not_decided() -> None:
    model = network(DType.FLOAT32)
    int8 = tradeoffs(model, sized(10**6, 10**6)).rows[3]
    assert int8.arena_bytes is not None
    arena, size = int8.arena_bytes, int8.model_bytes
    for sram, flash, fits in (
        (1.04, 2, None),
        (0.96, 2, None),
        (0.94, 2, False),
        (1.06, 2, True),
        (2, 1.09, None),
        (2, 0.91, None),
        (2, 0.89, False),
        (2, 1.11, True),
        (0.94, 0.95, False),
    ):
        found = tradeoffs(model, sized(int(sram * arena), int(flash * size)))
        assert found.rows[3].fits is fits
        if not found.as_is.fits:
            assert (found.recommended == "int8") == (fits is True)
            assert ("may fit" in found.reason) == (fits is None)
    exact = tradeoffs(model, sized(10**6, 10**6)).as_is
    assert exact.arena_bytes is not None
    assert tradeoffs(model, sized(exact.arena_bytes, exact.model_bytes)).as_is.fits is True
    assert tradeoffs(model, sized(exact.arena_bytes - 1, exact.model_bytes)).as_is.fits is False


def test_int8_is_advised_wherever_it_may_fit_whatever_the_highest_precision() -> None:
    found = tradeoffs(network(DType.FLOAT32), sized(10**6, 10**6))
    assert (found.recommended, found.advised) == ("float32", "int8")
    assert "use a higher precision only if int8 loses too much accuracy" in found.advice
    as_it_is = tradeoffs(network(DType.INT8), sized(10**6, 10**6))
    assert (as_it_is.advised, "only if the accuracy is too low" in as_it_is.advice) == ("int8", True)
    assert tradeoffs(network(DType.INT8), sized(2500, 10**6)).recommended == "int8"
    nothing = tradeoffs(network(DType.INT8), sized(100, 100))
    assert (nothing.recommended, nothing.advised) == (None, None)
    assert "not even int8 fits" in nothing.advice


def test_none_fits_and_nothing_is_known() -> None:
    model = network(DType.INT8)
    none = tradeoffs(model, sized(16, 10**6))
    assert (none.recommended, [row.fits for row in none.rows]) == (None, [False] * 4)
    assert "no precision fits" in none.reason
    flash = tradeoffs(model, sized(10**6, 16))
    assert [row.fits for row in flash.rows] == [False] * 4
    bare = tradeoffs(model, board())
    assert (bare.recommended, [row.fits for row in bare.rows]) == (None, [None] * 4)
    assert "unknown" in bare.reason
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


def test_int16x8_is_not_recommended_where_a_kernel_does_not_take_it() -> None:
    """TFLM's SPACE_TO_DEPTH computes in float32 and int8."""
    net = Net(seed=5)
    x = net.arena(1, 8, 8, 4, dtype=DType.FLOAT32)
    y = net.op("CONV_2D", [x, net.filter(8, 3, 3, 4, like=x), net.biases(8, like=x)], 1, 8, 8, 8)
    net.end_graph([x], [net.op("SPACE_TO_DEPTH", [y], 1, 4, 4, 32, block_size=2)])
    found = tradeoffs(net.whole(), sized(10**6, 10**6))
    assert [row.stock_tflm for row in found.rows] == [True, False, False, True]
    arena = found.rows[2].arena_bytes
    assert arena is not None
    assert tradeoffs(net.whole(), sized(round(1.1 * arena), 10**6)).recommended == "int8"


def test_wider_tensors_within_an_int8_model_become_floats_too(shared: Path) -> None:
    """The state of SVDF is int16 there."""
    blob = (shared / "data" / "models" / "tflm" / "keyword_scrambled.tflite").read_bytes()
    model = read_model(blob)
    row = tradeoffs(model, load_target("cortex-m4"), model_bytes=len(blob)).rows[0]
    elements = sum(item.element_count for item in model.main.tensors if not item.is_constant)
    assert row.activation_bytes == 4 * elements


def test_constants_of_types_without_a_width_stay_as_they_are() -> None:
    """A text in the place of weights: odd, but no reason to fail."""
    model = network(DType.INT8)
    (main,) = model.subgraphs
    texts = tuple(replace(t, dtype=DType.STRING) if t.is_constant else t for t in main.tensors)
    rows = tradeoffs(replace(model, subgraphs=(replace(main, tensors=texts),)), board(SRAM, FLASH)).rows
    held = sum(len(data) for data in model.data if data)
    assert {row.parameter_bytes for row in rows} == {held}


def test_activations_of_types_without_a_width_are_counted_in_other_types_only() -> None:
    """A resource as an activation: the file states no bytes for it, the other precisions do."""
    model = network(DType.INT8)
    (main,) = model.subgraphs
    output = main.operators[0].outputs[0]
    resources = tuple(replace(t, dtype=DType.RESOURCE) if t.index == output else t for t in main.tensors)
    changed = tradeoffs(replace(model, subgraphs=(replace(main, tensors=resources),)), board(SRAM, FLASH))
    whole = tradeoffs(model, board(SRAM, FLASH))
    assert changed.as_is.activation_bytes < whole.as_is.activation_bytes
    assert changed.rows[0].live_bytes == whole.rows[0].live_bytes
