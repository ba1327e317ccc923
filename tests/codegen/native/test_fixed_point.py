"""Scales of layers: each form against TFLM's double rounding, for the accumulators that a channel can have."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from edgetool.codegen.native.fixed_point import (
    DOUBLE_ROUNDING,
    SIGN,
    Integers,
    Multiplier,
    Reach,
    Scales,
    layer_scales,
    multiply,
    quantize_multiplier,
    wide_scales,
)

LAYERS = 40


def _scaled(scales: Scales, channel: int, sums: Integers, zero_point: int) -> Integers:
    """Return what edgetool_rescale computes."""
    first, low, high = (int(word) for word in np.frombuffer(scales.constant.data, "<i4").reshape(-1, 3)[channel])
    if scales.shift == SIGN:
        acc = sums + low
        return (((acc * first + 2**30 >> 31) + (1 << high - 1) + (acc >> 63)) >> high) + zero_point
    if scales.shift == DOUBLE_ROUNDING:
        return multiply(sums + low, Multiplier(first, (high >> 16) - (high & 0xFFFF))) + zero_point
    return np.asarray((sums * first + (high << 32 | low & 0xFFFFFFFF)) >> (32 + scales.shift), np.int64)


def _layer(random: Random, *, one_sided: bool) -> tuple[list[Multiplier], Integers, Reach, int, int, int]:
    """Return multipliers, offsets, reach, zero point and range of a layer of a few channels."""
    channels, real = random.randint(1, 4), 2.0 ** random.uniform(-12, -2)
    multipliers = [quantize_multiplier(real * random.uniform(0.1, 1)) for _ in range(channels)]
    offsets = np.array([random.randint(-2000, 2000) for _ in range(channels)], np.int64)
    limits = np.array([random.randint(500, 20_000) for _ in range(channels)], np.int64)
    low, high = (-128, 127) if random.random() < 0.6 else (random.randint(-128, -20), random.randint(0, 127))
    zero_point = low if one_sided else random.randint(-127, 126)
    return multipliers, offsets, Reach(-limits, limits), zero_point, low, high


@pytest.mark.parametrize("one_sided", [False, True])
def test_scales_equal_the_double_rounding_for_every_reachable_sum(
    one_sided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgetool.codegen.native.fixed_point.TOGETHER", 3)  # so that some layers have two parts
    random, lines = Random(f"scales {one_sided}"), 0
    for _ in range(LAYERS):
        multipliers, offsets, reach, zero_point, low, high = _layer(random, one_sided=one_sided)
        scales = layer_scales(multipliers, offsets, reach, zero_point, low, high)
        lines += scales.is_line
        for channel, multiplier in enumerate(multipliers):
            sums = np.arange(reach.low[channel], reach.high[channel] + 1, dtype=np.int64)
            expected = np.clip(multiply(sums + offsets[channel], multiplier) + zero_point, low, high)
            assert np.array_equal(np.clip(_scaled(scales, channel, sums, zero_point), low, high), expected)
    assert lines == LAYERS if one_sided else lines < LAYERS


@pytest.mark.parametrize("value", [2**30, 2**30 + 1, 2**31 - 1])
@pytest.mark.parametrize("right", [1, 2, 7, 30, 31])
def test_the_sign_form_equals_the_double_rounding_at_its_limits(value: int, right: int) -> None:
    multiplier, none = Multiplier(value, -right), np.zeros(1, np.int64)
    limit = 2**30 - 1
    reach = Reach(np.array([-limit]), np.array([limit]))
    scales = layer_scales([multiplier], none, reach, 0, -128, 127)
    halves = [((2 * k + 1) * 2 ** (right - 1) << 31) // value + d for k in range(-3, 3) for d in range(-3, 4)]
    sums = np.array([*range(-300, 300), *(half for half in halves if abs(half) <= limit), -limit, limit])
    expected = np.clip(multiply(sums, multiplier), -128, 127)
    assert np.array_equal(np.clip(_scaled(scales, 0, sums, 0), -128, 127), expected)


def test_layers_that_may_overflow_or_shift_left_have_the_double_rounding() -> None:
    none, two_sided = np.zeros(1, np.int64), (0, -128, 127)
    wide, narrow = (Reach(np.array([-limit]), np.array([limit])) for limit in (2**30 + 1, 1000))
    for multiplier, reach in ((Multiplier(2**30 + 5, -9), wide), (Multiplier(2**30 + 5, 1), narrow)):
        assert layer_scales([multiplier], none, reach, *two_sided).shift == DOUBLE_ROUNDING


def test_wide_scales_round_the_multiplier_to_15_bits() -> None:
    reach = Reach(np.array([-(2**40)]), np.array([2**40]))
    for value, shift in ((2**30 + 12345, -5), (0x7FFF8000, 3), (2**31 - 1, -20)):
        scales = wide_scales([Multiplier(value, shift)], np.array([777]), reach)
        assert scales is not None
        first, low, high = np.frombuffer(scales.constant.data, "<u4").tolist()
        slope = min((value + 2**15) >> 16, 0x7FFF)
        assert (first & 0xFFFF, first >> 16) == (slope, 15 - shift)
        assert high << 32 | low == 777 * slope + (1 << 14 - shift)


def test_wide_scales_refuse_what_exceeds_64_bits() -> None:
    none = np.zeros(1, np.int64)
    assert wide_scales([Multiplier(2**30, 0)], none, Reach(none, np.array([2**47]))) is None
    assert wide_scales([Multiplier(2**30, 15)], none, Reach(none, none + 1)) is None
