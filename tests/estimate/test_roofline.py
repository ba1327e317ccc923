from __future__ import annotations

import pytest

from edgetool.estimate.roofline import BANDS, estimate_model
from edgetool.target.load import load_target
from tests.graphs import chain, graph, model, operator, tensor


def test_an_operator_costs_the_longer_of_arithmetic_and_traffic() -> None:
    target = load_target("cortex-m7").with_overrides(clock_hz=1_000_000)
    conv = model(
        graph(
            [tensor(0, 1, 8, 8, 16), tensor(1, 16, 3, 3, 16, data=bytes(2304)), tensor(2, 1, 8, 8, 16)],
            [operator(0, "CONV_2D", [0, 1], [2])],
            [0],
            [2],
        )
    )
    estimate = estimate_model(conv, target)
    rate = target.core.macs_per_cycle("int8")
    assert estimate.macs == 64 * 16 * 144
    assert estimate.cycles == round(estimate.macs / rate)
    assert estimate.bound == estimate.operators[0].bound == "compute"
    assert estimate.latency_ms.value == pytest.approx(estimate.cycles / 1e3)
    copy = estimate_model(chain([4096, 4096]), target)
    assert copy.bound == "memory"
    assert copy.cycles == round(8192 / target.core.bytes_per_cycle)


@pytest.mark.parametrize("kernels", ["cmsis-nn", "reference"])
def test_time_scales_with_the_clock_and_carries_its_band(kernels: str) -> None:
    slow, fast = (
        estimate_model(
            chain([4096, 4096]), load_target("cortex-m4").with_overrides(clock_hz=clock, kernels=kernels)
        ).latency_ms
        for clock in (10_000_000, 20_000_000)
    )
    assert slow.value == pytest.approx(2 * fast.value)
    assert (slow.low / slow.value, slow.high / slow.value) == pytest.approx(BANDS[kernels])
    assert "unvalidated" in slow.basis


def test_every_core_gives_an_estimate() -> None:
    for name in ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m85"):
        assert estimate_model(chain([64, 64]), load_target(name)).cycles > 0
