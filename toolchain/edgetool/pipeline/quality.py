"""What quantization costs: outputs against the float original, layer by layer, and what to do about it.

What to do about quantization that loses much: from the outputs alone, and from each layer where measured.

What the figures of a whole conversion hide: an input of too coarse steps, an output that hardly varies. Pure.

The quantized model against its float original, on LiteRT's reference kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.child import ChildDiedError, ProcessLimits
from edgetool.convert.quality import accuracy, compare_outputs, variation_db
from edgetool.convert.request import Conversion
from edgetool.errors import ConversionError, MissingExtraError, ModelError
from edgetool.execute.quantize import dequantize, quantize
from edgetool.execute.run import DEFAULT_LIMITS, litert_engine, run_model
from edgetool.finding import Finding
from edgetool.model.scopes import layer_of
from edgetool.model.types import CONVERSIONS, DType, Graph, Model, Tensor
from edgetool.report.document import Accuracy, Histogram, LayerLoss, OutputQuality, QuantizationInfo

Array = npt.NDArray[Any]
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
        findings.append(Finding("poor-quantization", text))
    worst = min((item.sqnr_db for item in poor if item.sqnr_db is not None), default=None)
    bad = [item for item in quantization.layers if item.sqnr_db is not None and item.sqnr_db < POOR_DB]
    for layer in bad[:NAMED]:
        clauses = [*_causes(layer, dense_per_tensor), *_remedies(layer, worst)]
        text = f"has an SQNR of {layer.sqnr_db:.1f} dB ({layer.operator})" + "".join(
            f"; {clause}" for clause in clauses
        )
        where = f"layer {layer.name}" if layer.name else layer.operator
        findings.append(Finding("layer-loses", text, where=where))
    if bad and quantization.calibrated and quantization.samples < ENOUGH_SAMPLES:
        text = (
            f"only {quantization.samples} calibration samples determine the ranges; {ENOUGH_SAMPLES} or more give more "
            "reliable ranges"
        )
        findings.append(Finding("few-samples", text))
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
            yield Finding("conversion-differs", text)


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


# What is left of a signal at 10 dB is a tenth of noise.
LOST_DB = 10.0
# A channel of fewer of the 256 steps has 4 bits left.
FEW_STEPS = 16
ALL_STEPS = 256
CHANNELS_NAMED = 3


def variation_findings(
    qualities: Sequence[OutputQuality], float_outputs: Sequence[Array], quantized: Sequence[Array]
) -> tuple[Finding, ...]:
    """A warning for each output whose SQNR is that of a constant part, while what varies is lost.

    float_outputs, quantized: one array (N, ...) each.
    """
    findings = []
    for quality, expected, actual in zip(qualities, float_outputs, quantized, strict=True):
        if quality.sqnr_db is None or quality.sqnr_db < POOR_DB or expected.dtype.kind != "f":
            continue
        kept = variation_db(expected, actual)
        if kept is not None and kept < LOST_DB:
            text = (
                f"the output {quality.name!r} hardly varies over the samples: its SQNR of {quality.sqnr_db:.1f} dB "
                f"mostly reflects its constant part, and the variation {_kept(kept)}"
            )
            findings.append(Finding("variation-lost", text))
    return tuple(findings)


def _kept(sqnr_db: float) -> str:
    return f"has an SQNR of only {sqnr_db:.1f} dB" if sqnr_db > 0 else "is lost"


def input_findings(
    model: Model,
    inputs: Sequence[Array],
    qualities: Sequence[OutputQuality],
    layers: Mapping[str, str],
    *,
    measured: bool,
) -> tuple[Finding, ...]:
    """A warning for each 8-bit input with channels (its last axis) that use few steps, where an output lost much.

    inputs: the real values of each graph input, (N, ...). layers: Keras classes by scope. measured: layers were
    measured, which is to show all that loses something.
    """
    poor = any(item.sqnr_db is not None and item.sqnr_db < POOR_DB for item in qualities)
    if not (poor or measured):
        return ()
    findings = []
    for index, values in zip(model.main.inputs, inputs, strict=True):
        tensor = model.main.tensors[index]
        step = _step(model.main, tensor)
        if step is None:
            continue
        used = steps_used(values, step)
        if not used:
            continue
        told = [f"channel {channel} uses {count} of {ALL_STEPS} steps" for channel, count in used[:CHANNELS_NAMED]]
        more = f" (and {len(used) - len(told)} more use only a few)" if len(used) > len(told) else ""
        name = model.argument_name(0, index) or tensor.name
        text = (
            f"the input {name!r} has one scale for all channels, and one step is {step:.3g}: {', '.join(told)}{more}; "
            f"normalise each channel in the firmware{_instead(model, index, layers)}"
        )
        findings.append(Finding("coarse-input", text))
    return tuple(findings)


def steps_used(values: Array, step: float) -> list[tuple[int, int]]:
    """The channels (last axis) of (N, ..., channels) that use fewer than FEW_STEPS steps, and how many, fewest first.

    A channel that never changes needs none. Nothing for an input of one channel.
    """
    if values.ndim < 2 or values.shape[-1] < 2 or not len(values):
        return []
    axes = tuple(range(values.ndim - 1))
    reach = values.max(axis=axes).astype(float) - values.min(axis=axes).astype(float)
    found = [(channel, 1 + round(span / step)) for channel, span in enumerate(reach.tolist()) if span > 0]
    return sorted(((channel, count) for channel, count in found if count < FEW_STEPS), key=lambda item: item[1])


def _step(graph: Graph, tensor: Tensor) -> float | None:
    """The size of a step of 8 bits of an input, or of what a float one is quantized to at once."""
    readers = [operator for operator in graph.operators if tensor.index in operator.inputs]
    if tensor.dtype is DType.FLOAT32 and [operator.code for operator in readers] == ["QUANTIZE"]:
        tensor = graph.tensors[readers[0].outputs[0]]
    if tensor.dtype not in (DType.INT8, DType.UINT8) or tensor.quantization is None:
        return None
    scales = tensor.quantization.scales
    return scales[0] if len(scales) == 1 else None


def _instead(model: Model, index: int, layers: Mapping[str, str]) -> str:
    """The other way: the layers that read the input, in float."""
    reached: set[int] = {index}
    names: dict[str, None] = {}
    for operator in model.main.operators:
        if not reached & set(operator.inputs):
            continue
        if operator.code == "QUANTIZE":
            reached |= set(operator.outputs)
            continue
        found = layer_of((model.main.tensors[place].name for place in operator.outputs), layers)
        if found is not None:
            names[found] = None
    options = " ".join(f"--keep-float {name}" for name in names)
    return f", or use --io float32 with {options}" if options else ""


# Operators that change the type or the shape of what they are given.
SAME_VALUES = CONVERSIONS | {"RESHAPE", "SQUEEZE"}


def measure_quality(
    conversion: Conversion, model: Model, *, scheme: str, workdir: Path
) -> tuple[QuantizationInfo, tuple[Finding, ...]]:
    """SQNR, cosine and top-1 agreement per output, and both accuracies where there is evaluation data.

    Accuracy is that of the output that the labels are for. A model that LiteRT cannot run is reported as not compared,
    with the reason. Raises CalibrationError when the labels do not fit the outputs.
    """
    info = QuantizationInfo(scheme, conversion.calibrated, conversion.samples)
    evaluation = conversion.evaluation
    try:
        outputs = run_quantized(conversion.tflite, model, conversion.inputs, workdir)
        evaluated = () if evaluation is None else run_quantized(conversion.tflite, model, evaluation.inputs, workdir)
    except ChildDiedError as error:
        return info, (Finding("does-not-run", f"the quantized model cannot run: {error}"),)
    except (ModelError, ConversionError, MissingExtraError) as error:
        return info, (Finding("not-compared", f"the quantized model was not compared: {error}"),)
    accuracies = None
    if evaluation is not None:
        accuracies = Accuracy(
            float=accuracy(evaluation.float_outputs[evaluation.output], evaluation.labels),
            quantized=accuracy(
                evaluated[evaluation.output],
                evaluation.labels,
                original=evaluation.float_outputs[evaluation.output],
            ),
        )
    tensors = [model.main.tensors[index] for index in model.main.outputs]
    qualities = tuple(
        OutputQuality(
            model.argument_name(0, tensor.index) or tensor.name,
            quality.sqnr_db,
            quality.cosine,
            quality.top1_agreement if may else None,
        )
        for tensor, quality, may in zip(
            tensors,
            compare_outputs(conversion.float_outputs, outputs),
            classifies(model.main, None if evaluation is None else evaluation.output),
            strict=True,
        )
    )
    # Of synthetic samples nobody knows whether an output should vary.
    varying = variation_findings(qualities, conversion.float_outputs, outputs) if conversion.calibrated else ()
    return replace(info, outputs=qualities, accuracy=accuracies), varying


def classifies(graph: Graph, labelled: int | None = None) -> tuple[bool, ...]:
    """Whether each output can give classes; labelled: the position of the one that class labels are for."""
    return tuple(
        position == labelled or may_classify(graph.tensors[index], graph)
        for position, index in enumerate(graph.outputs)
    )


def may_classify(output: Tensor, graph: Graph) -> bool:
    """Whether the output can be class scores: no row of them repeats an input's shape, which reconstructs that; a
    single one is a probability that a sigmoid makes, while any other number is as likely a quantity."""
    if math.prod(output.shape[1:]) == 1:
        return _maker(output.index, graph) == "LOGISTIC"
    return all(graph.tensors[index].shape != output.shape for index in graph.inputs)


def _maker(tensor: int, graph: Graph) -> str | None:
    """The operator that makes the values of a tensor; None for an input or a constant."""
    made = {index: operator for operator in graph.operators for index in operator.outputs}
    while tensor in made and made[tensor].code in SAME_VALUES:
        tensor = made[tensor].inputs[0]
    return made[tensor].code if tensor in made else None


def run_quantized(
    tflite: bytes, model: Model, inputs: tuple[Array, ...], workdir: Path, *, limits: ProcessLimits = DEFAULT_LIMITS
) -> tuple[Array, ...]:
    """Real-valued outputs, (N, ...) per graph output, for real-valued inputs without their batch dimension."""
    graph = model.main
    tensors = [graph.tensors[index] for index in graph.inputs]
    raw = [
        quantize(np.reshape(array, (len(array), *tensor.shape)), tensor.quantization, tensor.dtype)
        for array, tensor in zip(inputs, tensors, strict=True)
    ]
    outputs = run_model(tflite, raw, engine=litert_engine(model), workdir=workdir, limits=limits)
    return tuple(
        dequantize(array, graph.tensors[index].quantization).reshape(len(array), *array.shape[2:])
        for array, index in zip(outputs, graph.outputs, strict=True)
    )
