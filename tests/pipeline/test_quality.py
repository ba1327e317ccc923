"""What is said of quantization that loses much, by the evidence.

What the figures of a whole conversion hide.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.finding import Finding
from edgetool.model.types import DType, Model, Quantization, Signature
from edgetool.pipeline.quality import (
    input_findings,
    layer_losses,
    loss_findings,
    steps_used,
    usual_share,
    variation_findings,
)
from edgetool.report.document import Histogram, LayerLoss, OutputQuality, QuantizationInfo
from edgetool.report.json import plain
from tests.memory.account_net import Net

EVEN = Histogram(-1.0, 1.0, (10,) * 32)
LAYER = LayerLoss("a", "Conv2D", "CONV_2D", 12.0, 0.3, 2 / 255, -1.0, 1.0, 8, 0, 1.5, EVEN)


def said(*layers: LayerLoss, sqnr_db: float | None = 12.0, scheme: str = "int8", **options: bool) -> list[Finding]:
    outputs = (OutputQuality("y", sqnr_db, None, None),)
    return list(loss_findings(QuantizationInfo(scheme, True, 200, outputs, layers=layers), **options))


def test_a_poor_output_is_reported_with_advice() -> None:
    (found,) = said()
    assert (found.rule, found.level) == ("poor-quantization", "warning")
    assert "'y' has an SQNR of 12.0 dB" in found.message
    assert "--debug-quantization" in found.message
    assert not said(sqnr_db=25.0)
    assert not said(sqnr_db=None)
    assert not said(scheme="float16")
    (found,) = said(scheme="int16x8")
    assert "--debug-quantization" not in found.message


def test_a_float_output_that_differs_is_an_error() -> None:
    (found,) = said(sqnr_db=59.0, scheme="float32")
    assert (found.rule, found.level) == ("conversion-differs", "error")
    assert "'y' differs from the original model's: its SQNR of 59.0 dB" in found.message
    assert not said(sqnr_db=61.0, scheme="float32")
    assert not said(sqnr_db=None, scheme="float32")
    assert not said(sqnr_db=40.0, scheme="float32", approximated=True)
    assert not said(sqnr_db=40.0, scheme="float16")


def test_layers_that_lose_little_are_not_mentioned() -> None:
    assert [item.rule for item in said(replace(LAYER, sqnr_db=30.0))] == ["poor-quantization"]
    assert [item.rule for item in said(replace(LAYER, sqnr_db=None))] == ["poor-quantization"]
    assert [item.rule for item in said(*[LAYER] * 5)] == ["poor-quantization"] + ["layer-loses"] * 3


@pytest.mark.parametrize(
    ("layer", "part"),
    [
        (
            replace(LAYER, widest_over_median=64.0, widest_channel=5),
            "channel 5 has 64 times the range of the median channel",
        ),
        (replace(LAYER, widest_over_median=64.0), "is left with 2.0 of 8 bits"),
        (replace(LAYER, widest_over_median=500.0), "is left with less than one of 8 bits"),
        (replace(LAYER, widest_over_median=1.6e19), "has more than 1,000 times the range of the median channel"),
        (replace(LAYER, widest_over_median=1.6e19), "is left with none of 8 bits"),
        (replace(LAYER, minimum=-0.01, maximum=0.01), "shares a scale with a tensor of larger range"),
        (
            replace(LAYER, histogram=Histogram(-1.0, 1.0, (0,) * 15 + (9999, 9999) + (0,) * 14 + (1,))),
            "the rest are outliers",
        ),
        (replace(LAYER, rmse_over_scale=3.0), "quantizing its weights loses more"),
        (replace(LAYER, rmse_over_scale=3.0, operator="SUB"), "storing its constants in 8 bits loses more"),
        (replace(LAYER, rmse_over_scale=3.0, operator="SOFTMAX"), "its arithmetic loses more"),
        (LAYER, "--quantize int16x8"),
        (
            replace(LAYER, kept_float=("a", "b"), kept_float_sqnr_db=30.0),
            "with --keep-float a --keep-float b, the worst",
        ),
    ],
)
def test_the_cause_follows_from_what_was_measured(layer: LayerLoss, part: str) -> None:
    (message,) = [item.message for item in said(layer) if item.rule == "layer-loses"]
    assert part in message
    assert message.startswith(f"has an SQNR of 12.0 dB ({layer.operator})")


def test_a_remedy_is_advised_only_where_it_helps() -> None:
    (message,) = [
        item.message for item in said(replace(LAYER, kept_float=("a",), kept_float_sqnr_db=13.0)) if item.where
    ]
    assert "--keep-float" not in message
    dense = replace(LAYER, operator="FULLY_CONNECTED", rmse_over_scale=2.0)
    for per_tensor in (True, False):
        (message,) = [item.message for item in said(dense, dense_per_tensor=per_tensor) if item.where]
        assert ("--dense-per-tensor" in message) == per_tensor


def test_few_samples_are_reported_if_layers_lose_accuracy() -> None:
    info = QuantizationInfo("int8", True, 10, (), layers=(LAYER,))
    assert [item.rule for item in loss_findings(info)] == ["layer-loses", "few-samples"]
    assert [item.rule for item in loss_findings(replace(info, calibrated=False))] == ["layer-loses"]


def test_the_output_of_the_child_is_read_unchanged() -> None:
    assert layer_losses(None) == ()
    assert layer_losses({"layers": [plain(LAYER)], "sqnr_db": 1.0}) == (LAYER,)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12))
def test_the_usual_share_is_that_of_brute_force(counts: list[int]) -> None:
    total = sum(counts)
    runs = [
        (stop - start) / len(counts)
        for start in range(len(counts))
        for stop in range(start + 1, len(counts) + 1)
        if total and sum(counts[start:stop]) >= 0.99 * total
    ]
    assert usual_share(Histogram(0.0, 1.0, tuple(counts))) == min(runs, default=1.0)


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


def reported(
    made: Model, qualities: tuple[OutputQuality, ...] = POOR, *, measured: bool = False
) -> tuple[Finding, ...]:
    return input_findings(made, [WEATHER], qualities, {"relu": "ReLU", "abs": "Abs"}, measured=measured)


def test_a_channel_that_uses_few_steps_is_named_with_what_to_do() -> None:
    (found,) = reported(model("RELU"))
    assert (found.rule, found.level) == ("coarse-input", "warning")
    assert "the input 'weather' has one scale for all channels, and one step is 4: channel 0 uses 3 of" in found.message
    assert "normalise each channel in the firmware, or use --io float32 with --keep-float relu" in found.message
    assert "channel 1" not in found.message  # it uses 26
    assert "channel 2" not in found.message  # it never changes


def test_a_float_input_has_the_step_that_it_is_quantized_to() -> None:
    (found,) = reported(model("QUANTIZE", "ABS", dtype=DType.FLOAT32))
    assert "channel 0 uses 3 of" in found.message
    assert "--keep-float abs" in found.message
    assert not reported(model("ABS", dtype=DType.FLOAT32))


def test_input_findings_appear_if_accuracy_is_lost_or_layers_are_measured() -> None:
    assert not reported(model("RELU"), GOOD)
    assert reported(model("RELU"), GOOD, measured=True)
    assert not reported(model("RELU", step=0.5))
    assert not reported(model("RELU", dtype=DType.INT16))


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
