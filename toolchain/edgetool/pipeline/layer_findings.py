"""What to do about quantization that loses much: from the outputs alone, and from each layer where measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import log2
from typing import Any

from edgetool.finding import Finding
from edgetool.report.document import Histogram, LayerLoss, QuantizationInfo

# 256 steps over the range of bell-shaped values leave 35 to 42 dB to a layer (53 dB less a crest of 11 to 18), and 30
# to 40 dB to a chain of them. Below this the error is more than a twentieth of the signal: not rounding alone.
POOR_DB = 25.0
EXPECTED = "30 to 40 dB"
# The rounding of float32 leaves 120 dB and more to a network; what has a thousandth of noise is another function.
SAME_DB = 60.0
WORTH_DB = 3.0  # half the noise
NAMED = 3
# One channel that reaches so far leaves the median one less than 4 of the 8 bits.
LOUD = 16.0
# Beyond this the median channel lies within a quarter of a step, whatever the quotient is.
MOST_TIMES = 1000
# A layer that uses fewer of its steps than one in so many has a scale that is not its own.
UNUSED = 8.0
# The steps that all but a hundredth of the values use, as a part of all, below which the rest are outliers.
FAR_OUT = 1 / 8
USUAL = 0.99
# Steps of error that rounding the output cannot make: the weights lose them, or the constants, or the arithmetic.
WEIGHTS = 1.0
WEIGHTED = frozenset(["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"])
BY_CONSTANTS = frozenset(["ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SUB"])
ENOUGH_SAMPLES = 100


def layer_losses(told: Mapping[str, Any] | None) -> tuple[LayerLoss, ...]:
    """The layers as the converting process tells of them; none where it was not asked."""
    if told is None:
        return ()
    return tuple(_layer(entry) for entry in told["layers"])


def _layer(entry: Mapping[str, Any]) -> LayerLoss:
    histogram = entry["histogram"]
    bins = Histogram(histogram["low"], histogram["high"], tuple(histogram["counts"]))
    return LayerLoss(**{**entry, "histogram": bins, "kept_float": tuple(entry["kept_float"])})


def loss_findings(
    quantization: QuantizationInfo, *, dense_per_tensor: bool = False, approximated: bool = False
) -> tuple[Finding, ...]:
    """A warning for each output that lost much; where layers were measured, for those that lose it: what helps.

    In float32 nothing is lost: an output that differs is an error, unless functions were approximated as asked.
    """
    if quantization.scheme == "float32" and not approximated:
        return tuple(_differing(quantization))
    poor = [item for item in quantization.outputs if item.sqnr_db is not None and item.sqnr_db < POOR_DB]
    if quantization.scheme not in ("int8", "int16x8"):
        return ()
    findings = []
    for item in poor:
        text = f"the output {item.name!r} has an SQNR of {item.sqnr_db:.1f} dB; {EXPECTED} is usual"
        if not quantization.layers and quantization.scheme == "int8":
            text += ": --debug-quantization shows which layers lose accuracy, and what helps"
        findings.append(Finding("poor-quantization", "warning", text))
    worst = min((item.sqnr_db for item in poor if item.sqnr_db is not None), default=None)
    bad = [item for item in quantization.layers if item.sqnr_db is not None and item.sqnr_db < POOR_DB]
    for layer in bad[:NAMED]:
        clauses = [*_causes(layer, dense_per_tensor), *_remedies(layer, worst)]
        text = f"has an SQNR of {layer.sqnr_db:.1f} dB ({layer.operator})" + "".join(
            f"; {clause}" for clause in clauses
        )
        where = f"layer {layer.name}" if layer.name else layer.operator
        findings.append(Finding("layer-loses", "warning", text, where))
    if bad and quantization.calibrated and quantization.samples < ENOUGH_SAMPLES:
        text = (
            f"only {quantization.samples} calibration samples determine the ranges; {ENOUGH_SAMPLES} or more give more "
            "reliable ranges"
        )
        findings.append(Finding("few-samples", "note", text))
    return tuple(findings)


def _differing(quantization: QuantizationInfo) -> Iterator[Finding]:
    """Where the converted graph computes something else than the model does."""
    for item in quantization.outputs:
        if item.sqnr_db is not None and item.sqnr_db < SAME_DB:
            text = (
                f"the output {item.name!r} differs from the original model's: its SQNR of {item.sqnr_db:.1f} dB is "
                "too low for float32, which involves no rounding to integers; do not use the file; please report "
                "this and attach the model"
            )
            yield Finding("conversion-differs", "error", text)


def _causes(layer: LayerLoss, dense_per_tensor: bool) -> Iterator[str]:
    """What of the layer's values or weights loses it, by what was measured."""
    used = (layer.maximum - layer.minimum) / (layer.histogram.high - layer.histogram.low)
    if layer.widest_over_median >= LOUD:
        bits = 8 - log2(layer.widest_over_median)
        left = f"{bits:.1f}" if bits >= 1 else "less than one"
        times = f"{layer.widest_over_median:.0f}"
        if layer.widest_over_median > MOST_TIMES:
            times, left = f"more than {MOST_TIMES:,}", "none"
        yield (
            f"channel {layer.widest_channel} has {times} times the range of the median channel, "
            f"which is left with {left} of 8 bits: limit its range in training (BatchNormalization, ReLU6, weight "
            "decay)"
        )
    elif used < 1 / UNUSED:
        yield (
            f"its values use {100 * used:.1g} % of the steps, because it shares a scale with a tensor of larger "
            "range: scale both to the same range before they are combined"
        )
    elif (share := usual_share(layer.histogram)) < FAR_OUT:
        yield (
            f"{100 * USUAL:.0f} % of its values use {100 * share:.0f} % of the steps; the rest are outliers: clip "
            "them (ReLU6), or exclude such samples from --calibration"
        )
    if layer.rmse_over_scale > WEIGHTS:
        own = dense_per_tensor and layer.operator == "FULLY_CONNECTED"
        more = f"{_loser(layer)} more accuracy than rounding its output"
        yield f"{more}: omit --dense-per-tensor" if own else more


def _loser(layer: LayerLoss) -> str:
    """What of the operator loses, beside its output."""
    if layer.operator in WEIGHTED:
        return "quantizing its weights loses"
    return "storing its constants in 8 bits loses" if layer.operator in BY_CONSTANTS else "its arithmetic loses"


def _remedies(layer: LayerLoss, worst: float | None) -> Iterator[str]:
    kept = layer.kept_float_sqnr_db
    if kept is not None and kept > (worst if worst is not None else POOR_DB) + WORTH_DB:
        options = " ".join(f"--keep-float {name}" for name in layer.kept_float)
        yield f"with {options}, the worst output has an SQNR of {kept:.1f} dB"
    elif layer.rmse_over_scale <= WEIGHTS:
        yield "--quantize int16x8 provides 256 times as many steps"


def usual_share(histogram: Histogram) -> float:
    """The narrowest run of bins that holds USUAL of all values, as a part of all bins; 1.0 for no values."""
    counts, total = histogram.counts, sum(histogram.counts)
    if not total:
        return 1.0
    for size in range(1, len(counts) + 1):
        if any(sum(counts[start : start + size]) >= USUAL * total for start in range(len(counts) - size + 1)):
            return size / len(counts)
    return 1.0
