"""Latencies and their bands: what the measurements behind a timing lack widens a band and lowers its status."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.estimate.latency import BYTES_BAND, ESP_NN_BAND, EXTERNAL_STALL_BAND, TYPE_BAND, estimate_model
from edgetool.estimate.memory_speed import speeds_of
from edgetool.model.edit import in_order
from edgetool.model.types import DType, Model
from edgetool.target.load import list_targets, load_target, with_memories
from edgetool.target.tables import load_placement_effects
from edgetool.target.types import EspNNLibrary, MemoryRegion, RegionKind, Target
from tests.graphs import chain
from tests.memory.account_net import Net
from tests.pipeline.order_models import branching


def convolution(size: int = 1, channels: int = 16) -> Model:
    net = Net(1)
    x = net.arena(1, 8, 8, channels)
    filters = net.filter(channels, size, size, channels, like=x)
    y = net.op("CONV_2D", [x, filters, net.biases(channels, like=x)], padding="SAME", stride_h=1, stride_w=1)
    return net.model([x], [y])


def board(model_memory: MemoryRegion, arena_memory: MemoryRegion | None = None) -> Target:
    """A Cortex-M4 with these memories alone."""
    arena = arena_memory or MemoryRegion("sram", "sram", 2**20)
    target = load_target("nucleo-l4r5zi")
    return replace(target, regions=(arena, model_memory), arena_region_name=arena.name)


def test_cycles_are_instructions_times_cpi_and_the_wait_for_constants() -> None:
    target = board(MemoryRegion("flash", "flash", 2**20, wait_states=4, access_bytes=8))
    (item,) = estimate_model(convolution(), target).operators
    assert item.instructions is not None
    assert item.basis == "instructions"
    assert item.stall_cycles == round(item.parameter_bytes * 0.5)
    assert target.timing is not None
    assert item.cycles == pytest.approx(item.instructions * target.timing.cpi + item.stall_cycles, abs=1)
    assert item.ms.value == pytest.approx(item.cycles / 120e3)


def test_esp_nn_takes_a_published_share_of_the_reference_kernels_time() -> None:
    reference = load_target("esp32-s3")
    runtime = replace(reference.runtime, esp_nn=EspNNLibrary((1, 2, 1), "", ""))
    target = replace(reference, runtime=runtime, kernels="esp-nn")
    (factor,) = (item for item in target.factors if item.runtime == "ESP-NN")
    before, after = estimate_model(convolution(3), reference), estimate_model(convolution(3), target)
    assert before.latency_ms is not None
    assert after.latency_ms is not None
    value, low, high = (getattr(after.latency_ms, name) for name in ("value", "low", "high"))
    assert value == pytest.approx(before.latency_ms.value * factor.factor, rel=1e-3)
    assert low < ESP_NN_BAND[0] * before.latency_ms.low * factor.factor
    assert high > ESP_NN_BAND[1] * before.latency_ms.high * factor.factor
    assert (before.validation, after.validation) == ("calibrated", "unvalidated")
    assert "ESP-NN's kernels take 0.022 times the time of these" in after.basis
    for other in (chain([64, 64]), convolution_of(DType.INT16)):  # no kernels of ESP-NN
        times = [estimate_model(other, each).latency_ms for each in (reference, target)]
        assert times[0] is not None
        assert times[1] is not None
        assert times[0].value == times[1].value
    assert estimate_model(convolution(), replace(target, factors=())).latency_ms is None


def convolution_of(dtype: DType) -> Model:
    graph = convolution().main
    tensors = tuple(replace(item, dtype=dtype) if item.data is None else item for item in graph.tensors)
    made = convolution()
    return replace(made, subgraphs=(replace(graph, tensors=tensors),))


def test_a_measured_stall_goes_before_the_wait_states() -> None:
    flash = MemoryRegion("flash", "flash", 2**20, wait_states=4, access_bytes=8, stall_cycles_per_byte=0.25)
    (item,) = estimate_model(convolution(), board(flash)).operators
    assert item.stall_cycles == round(item.parameter_bytes * 0.25)


def test_only_code_in_place_reads_constants_again_and_only_past_the_cache() -> None:
    """On a serial bus a 3x3 convolution fetches its filters for every two columns; a 1x1 one once."""

    def stall(size: int, cache: int, kind: RegionKind = "external-flash") -> int:
        region = MemoryRegion("qspi", kind, 2**20, stall_cycles_per_byte=2.0, cache_bytes=cache)
        (item,) = estimate_model(convolution(size), board(region)).operators
        return item.stall_cycles

    weights, bias = 16 * 16, 16 * 4
    assert stall(1, 0) == 2 * (weights + bias)
    assert stall(3, 0) == 2 * ((9 * weights + bias) * 32)
    assert stall(3, 2**20) == 2 * (9 * weights + bias)
    assert stall(3, 0, "flash") == 2 * (9 * weights + bias)


def test_a_model_that_waits_most_of_the_time_is_bound_by_memory_as_its_operators_are() -> None:
    region = MemoryRegion("qspi", "external-flash", 2**20, stall_cycles_per_byte=24.0)
    waits = estimate_model(convolution(3), board(region))
    assert (waits.operators[0].bound, waits.bound) == ("memory", "memory")
    assert estimate_model(convolution(3), board(replace(region, stall_cycles_per_byte=0.0))).bound == "compute"


def test_an_arena_in_external_ram_waits_for_activations() -> None:
    arena = MemoryRegion("sdram", "external-ram", 2**23, wait_states=6, access_bytes=4)
    flash = MemoryRegion("flash", "flash", 2**20, stall_cycles_per_byte=0.0)
    (item,) = estimate_model(convolution(3), board(flash, arena)).operators
    assert item.stall_cycles == round(item.activation_bytes * 1.5)
    # A 1x1 convolution reads its input once for every two of its 16 output channels.
    (item,) = estimate_model(convolution(), board(flash, arena)).operators
    assert item.stall_cycles == round((8 * (item.activation_bytes - 8 * 8 * 16) + 8 * 8 * 16) * 1.5)


def test_an_operator_without_a_rule_is_counted_in_bytes() -> None:
    target = load_target("cortex-m4")
    estimate = estimate_model(chain([4096, 4096], "DENSIFY"), target)
    (item,) = estimate.operators
    assert (item.instructions, item.basis, item.bound) == (None, "bytes", "memory")
    assert item.cycles == 8192 // target.core.bus_bytes
    assert estimate.not_modelled == ("DENSIFY",)
    assert estimate.latency_ms is not None
    cold_ms = target.core.cold_cycles / target.clock_hz * 1e3
    assert estimate.latency_ms.high == pytest.approx(BYTES_BAND[1] * estimate.latency_ms.value + cold_ms)


@given(st.integers(1_000_000, 10**9))
def test_time_scales_with_the_clock_and_carries_the_profiles_band(clock_hz: int) -> None:
    target = load_target("cortex-m4").with_overrides(clock_hz=clock_hz)
    estimate = estimate_model(convolution(), target)
    timing, latency = target.timing, estimate.latency_ms
    assert timing is not None
    assert latency is not None
    assert latency.value == pytest.approx(estimate.cycles / clock_hz * 1e3)
    cold_ms = target.core.cold_cycles / clock_hz * 1e3
    high = timing.high * latency.value + cold_ms
    assert (latency.low, latency.high) == pytest.approx((timing.low * latency.value, high))
    assert (estimate.validation, estimate.basis) == (timing.status, timing.basis)


def test_a_device_of_which_only_a_bandwidth_is_known_has_no_time() -> None:
    target = load_target("raspberry-pi-4")
    estimate = estimate_model(convolution(), target)
    assert (estimate.latency_ms, estimate.cycles, estimate.validation) == (None, None, "bandwidth only")
    assert estimate.configured_bandwidth_gbps == pytest.approx(4.3)
    assert estimate.bytes_moved == 16 * 16 + 16 * 4 + 2 * 8 * 8 * 16


@pytest.mark.parametrize("name", list_targets())
def test_every_target_gives_an_estimate(name: str) -> None:
    target = load_target(name)
    estimate = estimate_model(convolution(), target)
    assert (estimate.latency_ms is None) == (target.timing is None)
    assert estimate.configured_bandwidth_gbps > 0
    if estimate.latency_ms is not None:
        assert estimate.operators[0].basis == "instructions"


def test_configured_bandwidth_is_that_of_the_mix() -> None:
    flash = MemoryRegion("flash", "flash", 2**20, wait_states=7, access_bytes=4)
    sram = MemoryRegion("sram", "sram", 2**20, wait_states=0, access_bytes=4)
    speeds = speeds_of(board(flash, sram))
    assert speeds.gbps(1000, 0) == pytest.approx(0.5 * 0.12)
    assert speeds.gbps(0, 1000) == pytest.approx(4 * 0.12)
    assert speeds.gbps(1000, 1000) == pytest.approx(2000 / (2000 + 250) * 0.12)


def test_a_memory_without_wait_states_is_as_fast_as_its_measured_wait_allows() -> None:
    flash = MemoryRegion("qspi", "external-flash", 2**20, stall_cycles_per_byte=24.0)
    speeds = speeds_of(board(flash))
    assert speeds.gbps(1000, 0) == pytest.approx(0.12 / 24.25)
    assert speeds.assumed == ("the arena's memory is assumed to be as fast as the core's bus",)


def test_code_that_no_cache_holds_widens_the_band() -> None:
    target = board(MemoryRegion("flash", "flash", 2**20, stall_cycles_per_byte=0.5))
    seen = board(MemoryRegion("flash", "flash", 2**20, stall_cycles_per_byte=0.5, cold_cycles=7000))
    assert target.core.cold_cycles == speeds_of(target).cold_cycles == 2000
    assert speeds_of(seen).cold_cycles == 7000
    plain, wider = (estimate_model(convolution(), item).latency_ms for item in (target, seen))
    assert plain is not None
    assert wider is not None
    assert wider.high - plain.high == pytest.approx(5000 / target.clock_hz * 1e3)


def one_convolution(dtype: DType, channels: int = 32, size: int = 3) -> Model:
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
    assert band(board, one_convolution(DType.INT8)) == ("calibrated", pytest.approx(low), pytest.approx(high))
    status, float_low, float_high = band(board, one_convolution(DType.FLOAT32))
    assert status == "unvalidated"
    assert (float_low, float_high) == (pytest.approx(low * TYPE_BAND[0]), pytest.approx(high * TYPE_BAND[1]))
    assert "float32" in estimate_model(one_convolution(DType.FLOAT32), board).basis


def test_a_timing_without_types_holds_for_all() -> None:
    board = load_target("nrf5340-dk")
    assert board.timing is not None
    own = replace(board, timings=(replace(board.timing, types=()),))
    assert band(own, one_convolution(DType.FLOAT32))[0] == "calibrated"


def test_float32_has_the_band_of_the_core_as_well() -> None:
    board = load_target("nucleo-l4r5zi")
    assert board.timing is not None
    assert "float32" in board.timing.types
    low, high = board.core.float_band
    assert low < 1 < high
    assert band(board, one_convolution(DType.FLOAT32)) == (
        "calibrated",
        pytest.approx(board.timing.low * low),
        pytest.approx(board.timing.high * high),
    )
    assert band(board, one_convolution(DType.INT8))[1:] == pytest.approx((board.timing.low, board.timing.high))


def test_memory_whose_wait_is_not_counted_takes_the_published_factor() -> None:
    board = load_target("gd32h759i").with_overrides(arena_region="sdram")
    assert board.arena_region is not None
    timing = board.timing
    assert timing is not None
    assert board.arena_region.stall_cycles_per_byte is None
    worst = max(e.factor for e in load_placement_effects() if e.placement == "arena-in-external-ram")
    status, low, high = band(board, one_convolution(DType.INT8))
    assert status == "unvalidated"
    assert (low, high) == (pytest.approx(timing.low), pytest.approx(timing.high * worst))
    counted = replace(board.arena_region, wait_states=8, access_bytes=4)
    regions = tuple(counted if region.name == counted.name else region for region in board.regions)
    assert band(replace(board, regions=regions), one_convolution(DType.INT8))[0] == timing.status


def test_waits_for_an_external_memory_widen_the_band_by_their_share() -> None:
    board = load_target("stm32h747i-disco").with_overrides(arena_region="sdram")
    timing, model = board.timing, one_convolution(DType.INT8, 128, 1)
    assert timing is not None
    estimate = estimate_model(model, board)
    (item,) = estimate.operators
    inside = estimate_model(model, load_target("stm32h747i-disco")).operators[0]
    share = (item.stall_cycles - inside.stall_cycles) / item.cycles
    assert share > 0.05
    least, most = EXTERNAL_STALL_BAND
    status, low, high = band(board, model)
    assert status == timing.status
    assert low == pytest.approx(timing.low * (1 - (1 - least) * share), rel=1e-3)
    assert high == pytest.approx(timing.high * (1 + (most - 1) * share), rel=1e-3)


def test_a_timing_measured_with_another_arena_includes_the_flash() -> None:
    board = load_target("esp32-p4")
    moved = board.with_overrides(arena_region="psram")
    assert board.is_calibrated
    assert moved.timing is not None
    assert (moved.timing.status, moved.timing.includes_flash) == ("extrapolated", True)
    status, low, high = band(moved, one_convolution(DType.INT8))
    assert (status, low, high) == ("extrapolated", *band(board, one_convolution(DType.INT8))[1:])
    other = with_memories(moved, arena="dram", model="spi-flash")
    assert other.timing is not None
    assert other.timing.status == "extrapolated"


def test_constants_read_again_over_a_serial_bus_were_not_measured_by_themselves() -> None:
    """The low end is the time of reading them once."""
    board = load_target("rpi-pico")
    timing = board.timing
    assert timing is not None
    region = next(item for item in board.regions if item.kind == "external-flash")
    small = replace(region, cache_bytes=0, cold_cycles=0)
    without_cache = replace(board, regions=tuple(small if r is region else r for r in board.regions))
    model = one_convolution(DType.INT8)
    again, once = (estimate_model(model, item) for item in (without_cache, board))
    status, low, high = band(without_cache, model)
    assert (status, band(board, model)[0]) == ("extrapolated", "calibrated")
    assert again.cycles is not None
    assert once.cycles is not None
    assert low == pytest.approx(timing.low * once.cycles / again.cycles, rel=1e-3)
    assert high == pytest.approx(timing.high)


def test_operators_in_another_order_keep_their_figures() -> None:
    """A planned model has its operators in the order of the plan, with the indices that they had before."""
    model, target = branching(1), load_target("nucleo-l4r5zi")
    order = tuple(reversed(range(len(model.main.operators))))
    figures = [
        {item.index: (item.operator, item.macs, item.instructions, item.cycles) for item in estimate.operators}
        for estimate in (estimate_model(model, target), estimate_model(in_order(model, order), target))
    ]
    assert figures[0] == figures[1]
    assert len(set(figures[0].values())) > 3
