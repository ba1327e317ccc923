"""What the figures of a whole conversion hide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgetool.finding import Finding
from edgetool.model.types import DType, Model, Quantization, Signature
from edgetool.pipeline.quality import input_findings, steps_used, variation_findings
from edgetool.report.document import OutputQuality
from tests.memory.account_net import Net

RANDOM = np.random.default_rng(0)
POOR = (OutputQuality("y", 5.0, None, None),)
GOOD = (OutputQuality("y", 40.0, None, None),)
# Temperature, pressure and humidity in units of their own.
WEATHER = np.stack([RANDOM.uniform(5, 15, (20, 4)), RANDOM.uniform(950, 1050, (20, 4)), np.full((20, 4), 3.0)], -1)


def model(*codes: str, dtype: DType = DType.INT8, step: float = 4.0) -> Model:
    """Operators one after another on an input of 3 channels, each named after its operator."""
    net = Net(1)
    x = y = net.arena(1, 4, 3, dtype=dtype)
    for code in codes:
        y = net.op(code, [y])
    made = net.model([x], [y])
    graph = made.main
    names = {operator.outputs[0]: operator.code.lower() for operator in graph.operators}
    tensors = tuple(
        replace(
            tensor,
            name=f"{names.get(tensor.index, 'in')}/made",
            dtype=dtype if tensor.index == x else DType.INT8,
            quantization=None if dtype is DType.FLOAT32 and tensor.index == x else Quantization((step,), (0,), 0),
        )
        for tensor in graph.tensors
    )
    signature = Signature("serving_default", 0, (("weather", x),), (("y", y),))
    return replace(made, subgraphs=(replace(graph, tensors=tensors),), signatures=(signature,))


def told(made: Model, qualities: tuple[OutputQuality, ...] = POOR, *, measured: bool = False) -> tuple[Finding, ...]:
    return input_findings(made, [WEATHER], qualities, {"relu": "ReLU", "abs": "Abs"}, measured=measured)


def test_a_channel_that_uses_few_steps_is_named_with_what_to_do() -> None:
    (found,) = told(model("RELU"))
    assert (found.rule, found.level) == ("coarse-input", "warning")
    assert "the input 'weather' has one scale for all channels, and one step is 4: channel 0 uses 3 of" in found.message
    assert "normalise each channel in the firmware, or use --io float32 with --keep-float relu" in found.message
    assert "channel 1" not in found.message  # it uses 26
    assert "channel 2" not in found.message  # it never changes


def test_a_float_input_has_the_step_that_it_is_quantized_to() -> None:
    (found,) = told(model("QUANTIZE", "ABS", dtype=DType.FLOAT32))
    assert "channel 0 uses 3 of" in found.message
    assert "--keep-float abs" in found.message
    assert not told(model("ABS", dtype=DType.FLOAT32))


def test_it_is_told_where_something_is_lost_or_asked_for() -> None:
    assert not told(model("RELU"), GOOD)
    assert told(model("RELU"), GOOD, measured=True)
    assert not told(model("RELU", step=0.5))
    assert not told(model("RELU", dtype=DType.INT16))


def test_steps_are_counted_as_brute_force_counts_them() -> None:
    for channel, count in steps_used(WEATHER, 4.0):
        most = np.unique(np.round(np.linspace(*np.quantile(WEATHER[..., channel], [0, 1]), 1000) / 4.0)).size
        assert abs(count - most) <= 1
    assert steps_used(WEATHER[..., :1], 4.0) == []
    assert steps_used(np.zeros((0, 3)), 4.0) == []


@pytest.mark.parametrize(
    ("lost", "says"), [(0.6, "the variation has an SQNR of only 4.4 dB"), (1.0, "the variation is lost")]
)
def test_an_output_that_is_mostly_constant(lost: float, says: str) -> None:
    signal = np.sin(np.arange(40.0))[:, None]
    (found,) = variation_findings(GOOD, [signal + 100], [signal * (1 - lost) + 100])
    assert (found.rule, found.level) == ("variation-lost", "warning")
    assert "'y' hardly varies over the samples: its SQNR of 40.0 dB" in found.message
    assert found.message.endswith(says)
    assert not variation_findings(GOOD, [signal + 100], [signal * 0.9 + 100])
    assert not variation_findings(POOR, [signal + 100], [signal * (1 - lost) + 100])
    assert not variation_findings(GOOD, [(signal + 100).astype(np.int32)], [signal * (1 - lost) + 100])
    assert not variation_findings(GOOD, [signal[:7] + 100], [signal[:7] * (1 - lost) + 100])
