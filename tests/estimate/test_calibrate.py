"""Calibration: what a few measured times make of a board's cycles per instruction and stall."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgetool.errors import CalibrationError
from edgetool.estimate.calibrate import (
    DISAGREEING,
    NOISE,
    SHARES,
    STALL_ERROR,
    Calibration,
    Measurement,
    calibrate,
    probe,
)
from edgetool.estimate.latency import count_operators, estimate_model
from edgetool.estimate.memory_speed import speeds_of
from edgetool.model.types import DType, Model
from edgetool.operators.registry import operator_costs
from edgetool.target.load import load_target
from edgetool.target.types import Target
from tests.conftest import examples
from tests.graphs import chain
from tests.memory.account_net import Net
from tests.model.builders import Builder

BOARD = load_target("nucleo-l4r5zi")


def image(channels: int) -> Model:
    """Two convolutions: many instructions per byte of weights."""
    build = Builder(seed=channels)
    x = build.activation([1, 24, 24, 3])
    return build.model([x], [build.conv(build.conv(x, channels), channels)])


def wide(units: int) -> Model:
    """One dense layer: about two instructions per byte of weights."""
    build = Builder(seed=units)
    x = build.activation([1, 256])
    return build.model([x], [build.dense(x, units)])


IMAGE, WIDE = image(16), wide(100)
MODELS = (IMAGE, WIDE, image(8))
ALIKE = (image(16), image(8), image(12))


def as_if(cpi: float, stall: float, target: Target = BOARD) -> Target:
    """The board as it would be with these figures."""
    timing = target.timing
    region = target.flash_region
    assert timing is not None
    assert region is not None
    regions = tuple(replace(r, stall_cycles_per_byte=stall) if r is region else r for r in target.regions)
    return replace(target, timings=(replace(timing, cpi=cpi),), regions=regions)


def ms(model: Model, target: Target) -> float:
    latency = estimate_model(model, target).latency_ms
    assert latency is not None
    return latency.value


def calibrated(found: Calibration, target: Target = BOARD) -> Target:
    """The board as the calibration leaves it."""
    region = target.flash_region
    assert region is not None
    if found.stall_cycles_per_byte is not None:
        stalled = replace(region, stall_cycles_per_byte=found.stall_cycles_per_byte)
        target = replace(target, regions=tuple(stalled if r is region else r for r in target.regions))
    return replace(target, timings=(found.timing,))


def stall_of(found: Calibration, otherwise: float) -> float:
    return otherwise if found.stall_cycles_per_byte is None else found.stall_cycles_per_byte


@settings(max_examples=12)
@given(st.floats(1.05, 6.0), st.floats(0.0, 3.0))
def test_native_code_has_its_own_cycles_and_stall(cpi: float, stall: float) -> None:
    """Its instructions are half of those of TFLM's kernels, and the board's region states another stall."""
    halves = [
        tuple(
            replace(item, executed=replace(item.executed, instructions=(item.executed.instructions or 0) // 2))
            for item in count_operators(model, BOARD, operator_costs(model))
        )
        for model in MODELS
    ]
    native = BOARD.with_overrides(runtime="native")
    true = replace(native, timings=probe(native, cpi, stall).timings, regions=probe(native, cpi, stall).regions)
    measured = []
    for model, counted in zip(MODELS, halves, strict=True):
        latency = estimate_model(model, true, counted=counted).latency_ms
        assert latency is not None
        measured.append(Measurement("m", model, latency.value, counted))
    found = calibrate(native, measured)
    assert found.timing.kernels == "native"
    assert (found.timing.types, found.timing.status) == (("int8",), "calibrated")
    assert found.timing.cpi == pytest.approx(cpi, rel=0.01)
    assert found.timing.stall_cycles_per_byte == pytest.approx(stall, abs=0.05)
    assert {item.stall_cycles_per_byte for item in BOARD.regions} == {
        item.stall_cycles_per_byte for item in native.regions
    }
    one = calibrate(native, measured[:1])
    assert one.timing.stall_cycles_per_byte == pytest.approx(speeds_of(BOARD).constant_stall)


@settings(max_examples=12)
@given(st.floats(1.05, 7.5), st.floats(0.0, 3.0))
def test_one_measurement_changes_only_the_cycles_per_instruction(cpi: float, stall: float) -> None:
    true = as_if(cpi, stall)
    known = as_if(2.0, stall)
    found = calibrate(known, [Measurement("a", IMAGE, ms(IMAGE, true))])
    assert found.timing.cpi == pytest.approx(cpi, rel=1e-3)
    assert found.stall_cycles_per_byte is None
    assert found.measurements[0].residual == pytest.approx(0, abs=1e-9)
    assert found.timing.status == "calibrated"
    assert (found.timing.low, found.timing.high) == pytest.approx((1 - SHARES[0], 1 + SHARES[0]))


@settings(max_examples=12)
@given(st.floats(1.5, 5.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
@example(3.2, 0.0, 1.0)
@example(4.0, 0.0, 1.0)
@example(4.0, 1.0, 0.0)
def test_two_different_models_determine_the_stall(cpi: float, stall: float, before: float) -> None:
    true = as_if(cpi, stall)
    measured = [Measurement(name, model, ms(model, true)) for name, model in (("image", IMAGE), ("wide", WIDE))]
    found = calibrate(as_if(2.0, before), measured)
    # Where noise could be taken for it, the stall stays as the profile has it.
    off = abs(stall_of(found, before) - stall)
    assert off <= 0.01 or found.stall_cycles_per_byte is None
    assert off <= 0.01 or 0.16 * cpi > STALL_ERROR  # the noise of two, by the share that constants have here
    # One that stays although it is off, by up to a cycle, is off by no more than twice the noise.
    assert found.measurements[0].residual == pytest.approx(0, abs=1e-3 if off <= 0.01 else 2 * NOISE)


def test_a_negative_stall_becomes_zero() -> None:
    true = as_if(2.0, 0.0)
    measured = [Measurement("image", IMAGE, ms(IMAGE, true)), Measurement("wide", WIDE, 0.8 * ms(WIDE, true))]
    found = calibrate(as_if(2.0, 0.5), measured)
    assert found.stall_cycles_per_byte == 0.0
    assert 1.6 < found.timing.cpi < 2.0


def test_the_calibrated_board_estimates_what_was_measured() -> None:
    measured = [Measurement("image", IMAGE, 40.0), Measurement("wide", WIDE, 1.2)]
    found = calibrate(BOARD, measured)
    region = BOARD.flash_region
    assert region is not None
    own = as_if(found.timing.cpi, stall_of(found, region.stall_cycles_per_byte or 0.0))
    for item, fit in zip(measured, found.measurements, strict=True):
        assert ms(item.model, own) == pytest.approx(fit.estimated_ms, rel=1e-3)
        assert fit.residual == pytest.approx(fit.estimated_ms / item.ms - 1)
        assert found.timing.low * fit.estimated_ms <= item.ms <= found.timing.high * fit.estimated_ms
        assert f"{item.name} {item.ms:g} ms" in found.timing.basis


def test_measurements_that_disagree_widen_the_band() -> None:
    base = as_if(2.0, 0.5)
    measured = [Measurement(str(n), image(n), factor * ms(image(n), base)) for n, factor in ((8, 0.8), (16, 1.25))]
    found = calibrate(base, measured)
    worst = max(abs(item.residual) for item in found.measurements)
    assert found.timing.high - 1 >= worst > SHARES[1]
    assert found.timing.operator_low <= found.timing.low
    assert found.timing.operator_high >= found.timing.high


@examples(40)
@given(st.lists(st.floats(0.6, 1.7), min_size=1, max_size=3), st.sampled_from(["nucleo-l4r5zi", "rpi-pico"]))
@example([1.25, 0.75, 1.25], "nucleo-l4r5zi")
def test_every_measurement_lies_in_the_band_of_its_estimate(factors: list[float], board: str) -> None:
    target = load_target(board)
    measured = [
        Measurement(str(n), m, f * ms(m, target)) for n, (m, f) in enumerate(zip(MODELS, factors, strict=False))
    ]
    try:
        found = calibrate(target, measured)
    except CalibrationError:
        assert max(factors) / min(factors) > 1.2 or min(factors) < 1
        return
    for item in measured:
        latency = estimate_model(item.model, calibrated(found, target)).latency_ms
        assert latency is not None
        assert latency.low <= item.ms <= latency.high
    worst = max(max(1 + item.residual, 1 / (1 + item.residual)) - 1 for item in found.measurements)
    assert any(f.rule == "measurements-disagree" for f in found.findings) == (worst > DISAGREEING)


@examples(30)
@given(st.lists(st.floats(0.85, 1.2), min_size=1, max_size=3), st.sampled_from(["nucleo-l4r5zi", "nucleo-f446re"]))
def test_calibrating_again_changes_nothing(factors: list[float], board: str) -> None:
    target = load_target(board)
    measured = [
        Measurement(str(n), m, f * ms(m, target)) for n, (m, f) in enumerate(zip(MODELS, factors, strict=False))
    ]
    first = calibrate(target, measured)
    own = calibrated(first, target)
    second = calibrated(calibrate(own, measured), own)
    assert second.timing is not None
    assert second.timing.cpi == pytest.approx(first.timing.cpi, rel=1e-6)
    assert speeds_of(second).constant_stall == pytest.approx(speeds_of(own).constant_stall, rel=1e-6, abs=1e-9)


@given(st.floats(40.0, 200.0))
@settings(max_examples=20)
def test_one_time_is_reproduced_to_the_cycle(time: float) -> None:
    found = calibrate(BOARD, [Measurement("image", IMAGE, time)])
    cycles = estimate_model(IMAGE, calibrated(found)).cycles
    assert cycles == pytest.approx(time * BOARD.clock_hz / 1e3, abs=len(IMAGE.subgraphs[0].operators))


@pytest.mark.parametrize("wrong", [0, 1, 2])
@pytest.mark.parametrize("factor", [0.45, 2.0, 3.0])
def test_a_measurement_that_contradicts_the_others_is_refused_by_name(wrong: int, factor: float) -> None:
    times = [ms(model, as_if(2.5, 0.45)) for model in ALIKE]
    measured = [
        Measurement(f"m{n}", model, time * (factor if n == wrong else 1))
        for n, (model, time) in enumerate(zip(ALIKE, times, strict=True))
    ]
    with pytest.raises(CalibrationError, match="contradicts the other measurements, which predict") as caught:
        calibrate(BOARD, measured)
    assert caught.value.where == f"m{wrong}"
    assert caught.value.fix is not None
    assert "otherwise, omit it" in caught.value.fix


def test_of_two_that_contradict_each_other_the_one_farther_from_the_profile_is_named() -> None:
    measured = [
        Measurement(str(n), model, f * ms(model, BOARD)) for n, model, f in ((0, ALIKE[0], 3), (1, ALIKE[1], 0.9))
    ]
    with pytest.raises(CalibrationError, match="contradicts the other measurement, which predicts") as caught:
        calibrate(BOARD, measured)
    assert caught.value.where == "0"


def test_measurements_that_hardly_agree_are_a_warning() -> None:
    measured = [
        Measurement(str(n), model, f * ms(model, BOARD)) for n, model, f in ((0, ALIKE[0], 1.7), (1, ALIKE[1], 1))
    ]
    found = calibrate(BOARD, measured)
    (said,) = found.findings
    assert (said.rule, said.level) == ("measurements-disagree", "warning")
    assert "are inconsistent" in said.message
    assert calibrate(BOARD, [replace(item, ms=ms(item.model, BOARD)) for item in measured]).findings == ()


@pytest.mark.parametrize("stall", [0.0, 5.0, 11.0])
def test_one_measurement_in_faster_memory_than_the_profiles_moves_the_stall(stall: float) -> None:
    pico = load_target("rpi-pico")
    assert pico.timing is not None
    time = ms(WIDE, as_if(pico.timing.cpi, stall, pico))
    found = calibrate(pico, [Measurement("wide", WIDE, time)])
    assert found.timing.cpi == pytest.approx(pico.timing.cpi, rel=1e-3)
    assert stall_of(found, 24) == pytest.approx(stall, abs=1e-3)
    assert ms(WIDE, calibrated(found, pico)) == pytest.approx(time, rel=1e-4)
    (said,) = found.findings
    assert (said.rule, said.where) == ("constants-elsewhere", "qspi-flash")
    assert "faster memory than qspi-flash" in said.message
    assert "a measurement of another model" in said.message


@pytest.mark.parametrize(("stall", "rules"), [(None, ()), (0.1, ("constants-elsewhere",))])
def test_a_stall_that_the_profile_does_not_state_is_not_compared(stall: float | None, rules: tuple[str, ...]) -> None:
    true = as_if(1.5, 2.0)
    flash = BOARD.flash_region
    known = tuple(
        replace(r, stall_cycles_per_byte=stall, wait_states=None, access_bytes=None) if r is flash else r
        for r in BOARD.regions
    )
    measured = [Measurement(name, model, ms(model, true)) for name, model in (("image", IMAGE), ("wide", WIDE))]
    found = calibrate(replace(BOARD, regions=known), measured)
    assert found.stall_cycles_per_byte == pytest.approx(2.0, rel=1e-2)
    assert tuple(item.rule for item in found.findings) == rules


def test_types_that_were_measured_are_named() -> None:
    pico = load_target("rpi-pico")
    assert calibrate(pico, [Measurement("image", IMAGE, ms(IMAGE, pico))]).timing.types == ("int8",)
    assert calibrate(BOARD, [Measurement("image", IMAGE, 40)]).timing.types == ("int8", "int16", "float32")
    unknown = replace(as_if(2.0, 0.5), timings=(replace(as_if(2.0, 0.5).timings[0], types=()),))
    assert calibrate(unknown, [Measurement("image", IMAGE, 40)]).timing.types == ()


@pytest.mark.parametrize("wrong", [0, -1.0, nan, inf, -inf, True, None, "12"])
def test_an_invalid_time_is_rejected_by_name(wrong: object) -> None:
    with pytest.raises(CalibrationError, match="measured_ms") as caught:
        calibrate(BOARD, [Measurement("kws.tflite", IMAGE, wrong)])  # type: ignore[arg-type]
    assert caught.value.where == "kws.tflite"


@pytest.mark.parametrize("factor", [0.01, 0.3, 20.0, 1e6])
def test_a_time_that_no_processor_takes_is_refused_by_name(factor: float) -> None:
    right = Measurement("right", WIDE, ms(WIDE, BOARD))
    with pytest.raises(CalibrationError, match="cycles for each of its") as caught:
        calibrate(BOARD, [right, Measurement("wrong", IMAGE, factor * ms(IMAGE, BOARD))])
    assert caught.value.where in ("right", "wrong")
    assert "1 to 8" in caught.value.what


def test_instructions_of_float32_operators_weigh_what_the_core_says() -> None:
    build = Net(seed=1)
    x = build.arena(1, 64, dtype=DType.FLOAT32)
    model = build.model(
        [x], [build.op("FULLY_CONNECTED", [x, build.filter(32, 64, like=x), build.biases(32, like=x)], 1, 32)]
    )
    plain = replace(BOARD, core=replace(BOARD.core, float_factor=1.0))
    twice = replace(BOARD, core=replace(BOARD.core, float_factor=2.0))
    one, two = (calibrate(target, [Measurement("float", model, 0.5)]) for target in (plain, twice))
    assert two.measurements[0].instructions == 2 * one.measurements[0].instructions
    assert two.timing.cpi == pytest.approx(one.timing.cpi / 2, rel=1e-3)


def test_an_empty_list_of_measurements_is_rejected() -> None:
    with pytest.raises(CalibrationError, match="no measurements to calibrate"):
        calibrate(BOARD, [])


def test_a_model_without_counted_operators_is_refused() -> None:
    target = load_target("desktop")
    with pytest.raises(CalibrationError, match="no instruction counts for any of its operators"):
        calibrate(target, [Measurement("copies", chain([64, 64]), 1.0)])
