"""What the measurements behind a timing do not hold widens the band and lowers the status."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.estimate.latency import TYPE_BAND, estimate_model
from edgetool.model.types import DType, Model
from edgetool.target.load import load_target
from edgetool.target.tables import load_placement_effects
from edgetool.target.types import Target
from tests.memory.account_net import Net


def convolution(dtype: DType, channels: int = 32, size: int = 3) -> Model:
    net = Net(1)
    x = net.arena(1, 12, 12, channels, dtype=dtype)
    weights = net.filter(channels, size, size, channels, like=x)
    y = net.op("CONV_2D", [x, weights, net.biases(channels, like=x)], padding="SAME", stride_h=1, stride_w=1)
    return net.model([x], [y])


def band(target: Target, model: Model) -> tuple[str, float, float]:
    """Status and the factors of the band, without cold code."""
    quiet = replace(target, core=replace(target.core, cold_cycles=0))
    estimate = estimate_model(model, quiet)
    latency = estimate.latency_ms
    assert latency is not None
    return estimate.validation, latency.low / latency.value, latency.high / latency.value


def test_a_type_that_was_not_measured_is_unvalidated() -> None:
    board = load_target("nrf5340-dk")
    assert board.timing is not None
    assert board.timing.types == ("int8",)
    low, high = board.timing.low, board.timing.high
    assert band(board, convolution(DType.INT8)) == ("calibrated", pytest.approx(low), pytest.approx(high))
    status, float_low, float_high = band(board, convolution(DType.FLOAT32))
    assert status == "unvalidated"
    assert (float_low, float_high) == (pytest.approx(low * TYPE_BAND[0]), pytest.approx(high * TYPE_BAND[1]))
    assert "float32" in estimate_model(convolution(DType.FLOAT32), board).basis


def test_a_timing_without_types_holds_for_all() -> None:
    board = load_target("nrf5340-dk")
    assert board.timing is not None
    own = replace(board, timings=(replace(board.timing, types=()),))
    assert band(own, convolution(DType.FLOAT32))[0] == "calibrated"


def test_float32_has_the_band_of_the_core_as_well() -> None:
    board = load_target("nucleo-l4r5zi")
    assert board.timing is not None
    assert "float32" in board.timing.types
    low, high = board.core.float_band
    assert low < 1 < high
    assert band(board, convolution(DType.FLOAT32)) == (
        "calibrated",
        pytest.approx(board.timing.low * low),
        pytest.approx(board.timing.high * high),
    )
    assert band(board, convolution(DType.INT8))[1:] == pytest.approx((board.timing.low, board.timing.high))


def test_memory_whose_wait_is_not_counted_takes_the_published_factor() -> None:
    board = load_target("stm32f769i-disco").with_overrides(arena_region="sdram")
    assert board.arena_region is not None
    timing = board.timing
    assert timing is not None
    assert board.arena_region.stall_cycles_per_byte is None
    worst = max(e.factor for e in load_placement_effects() if e.placement == "arena-in-external-ram")
    status, low, high = band(board, convolution(DType.INT8))
    assert status == "unvalidated"
    assert (low, high) == (pytest.approx(timing.low), pytest.approx(timing.high * worst))
    counted = replace(board.arena_region, wait_states=8, access_bytes=4)
    regions = tuple(counted if region.name == counted.name else region for region in board.regions)
    assert band(replace(board, regions=regions), convolution(DType.INT8))[0] == timing.status


def test_constants_read_again_over_a_serial_bus_were_not_measured_by_themselves() -> None:
    """The low end is the time of reading them once."""
    board = load_target("rpi-pico")
    timing = board.timing
    assert timing is not None
    region = next(item for item in board.regions if item.kind == "external-flash")
    small = replace(region, cache_bytes=0, cold_cycles=0)
    without_cache = replace(board, regions=tuple(small if r is region else r for r in board.regions))
    model = convolution(DType.INT8)
    again, once = (estimate_model(model, item) for item in (without_cache, board))
    status, low, high = band(without_cache, model)
    assert (status, band(board, model)[0]) == ("extrapolated", "calibrated")
    assert again.cycles is not None
    assert once.cycles is not None
    assert low == pytest.approx(timing.low * once.cycles / again.cycles, rel=1e-3)
    assert high == pytest.approx(timing.high)
