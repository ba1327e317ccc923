"""Measure the loss of quantization, and report its causes and remedies.

The quantized model runs on LiteRT's reference kernels and is compared with its float original. Findings report outputs
and layers that lose much accuracy, and problems that the figures of the whole model hide: an input with too coarse
steps, and an output that hardly varies.
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
# With 256 steps over the range of bell-shaped values, a layer has 35 to 42 dB (53 dB minus a crest factor of 11 to 18),
# and a chain of layers 30 to 40 dB. Below 25 dB, the error is more than a twentieth of the signal: not just rounding.
POOR_DB = 25.0
USUAL_SQNR = "30 to 40 dB"
# The rounding of float32 leaves a network 120 dB or more; noise of a thousandth means that the function differs.
MIN_FLOAT_DB = 60.0
MIN_GAIN_DB = 3.0  # half the noise
MAX_LAYERS_NAMED = 3
# The range of a channel divided by that of the median channel, which is then left with less than 4 of 8 bits.
WIDE_CHANNEL_RATIO = 16.0
# Above this ratio, the median channel is within a quarter of a step, so the exact ratio does not matter.
MAX_RATIO_SHOWN = 1000
# A layer that uses less than 1 in this number of its steps shares the scale of another tensor.
SHARED_SCALE_RATIO = 8.0
# If BULK_SHARE of the values use less than this fraction of the steps, the other values are outliers.
MAX_OUTLIER_SHARE = 1 / 8
BULK_SHARE = 0.99
# An error above this number of steps does not come from rounding the output: it comes from the weights, constants or
# arithmetic.
MAX_ROUNDING_STEPS = 1.0
WEIGHTED = frozenset(["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"])
WITH_CONSTANTS = frozenset(["ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SUB"])
ENOUGH_SAMPLES = 100


def layer_losses(debug: Mapping[str, Any] | None) -> tuple[LayerLoss, ...]:
    """Return the losses of the layers from the converter's debug output; none if there is no such output."""
    if debug is None:
        return ()
    return tuple(_layer_loss(entry) for entry in debug["layers"])


def _layer_loss(entry: Mapping[str, Any]) -> LayerLoss:
    histogram = entry["histogram"]
    bins = Histogram(histogram["low"], histogram["high"], tuple(histogram["counts"]))
    return LayerLoss(**{**entry, "histogram": bins, "kept_float": tuple(entry["kept_float"])})


def loss_findings(
    quantization: QuantizationInfo, *, dense_per_tensor: bool = False, approximated: bool = False
) -> tuple[Finding, ...]:
    """Warn about each output that lost much accuracy; if layers were measured, also about those that cause it, with
    remedies.

    In float32, nothing is lost: an output that differs is an error, unless the user allowed approximations.
    """
    if quantization.scheme == "float32" and not approximated:
        return tuple(_float_differences(quantization))
    poor = [item for item in quantization.outputs if item.sqnr_db is not None and item.sqnr_db < POOR_DB]
    if quantization.scheme not in ("int8", "int16x8"):
        return ()
    findings = []
    for item in poor:
        text = f"the output {item.name!r} has an SQNR of {item.sqnr_db:.1f} dB; {USUAL_SQNR} is usual"
        if not quantization.layers and quantization.scheme == "int8":
            text += ": --debug-quantization shows which layers lose accuracy, and what helps"
        findings.append(Finding("poor-quantization", text))
    worst = min((item.sqnr_db for item in poor if item.sqnr_db is not None), default=None)
    poor_layers = [item for item in quantization.layers if item.sqnr_db is not None and item.sqnr_db < POOR_DB]
    for layer in poor_layers[:MAX_LAYERS_NAMED]:
        clauses = [*_causes(layer, dense_per_tensor), *_remedies(layer, worst)]
        text = f"has an SQNR of {layer.sqnr_db:.1f} dB ({layer.operator})" + "".join(
            f"; {clause}" for clause in clauses
        )
        where = f"layer {layer.name}" if layer.name else layer.operator
        findings.append(Finding("layer-loses", text, where=where))
    if poor_layers and quantization.calibrated and quantization.samples < ENOUGH_SAMPLES:
        text = (
            f"only {quantization.samples} calibration samples determine the ranges; {ENOUGH_SAMPLES} or more give more "
            "reliable ranges"
        )
        findings.append(Finding("few-samples", text))
    return tuple(findings)


def _float_differences(quantization: QuantizationInfo) -> Iterator[Finding]:
    """Yield an error for each output of a float32 model that differs from that of the original."""
    for item in quantization.outputs:
        if item.sqnr_db is not None and item.sqnr_db < MIN_FLOAT_DB:
            text = (
                f"the output {item.name!r} differs from the original model's: its SQNR of {item.sqnr_db:.1f} dB is "
                "too low for float32, which involves no rounding to integers; do not use the file; please report "
                "this and attach the model"
            )
            yield Finding("conversion-differs", text)


def _causes(layer: LayerLoss, dense_per_tensor: bool) -> Iterator[str]:
    """Yield the causes of the loss in the layer's values or weights."""
    used_share = (layer.maximum - layer.minimum) / (layer.histogram.high - layer.histogram.low)
    if layer.widest_over_median >= WIDE_CHANNEL_RATIO:
        bits = 8 - log2(layer.widest_over_median)
        bits_left = f"{bits:.1f}" if bits >= 1 else "less than one"
        ratio = f"{layer.widest_over_median:.0f}"
        if layer.widest_over_median > MAX_RATIO_SHOWN:
            ratio, bits_left = f"more than {MAX_RATIO_SHOWN:,}", "none"
        yield (
            f"channel {layer.widest_channel} has {ratio} times the range of the median channel, "
            f"which is left with {bits_left} of 8 bits: limit its range in training (BatchNormalization, ReLU6, weight "
            "decay)"
        )
    elif used_share < 1 / SHARED_SCALE_RATIO:
        yield (
            f"its values use {100 * used_share:.1g} % of the steps, because it shares a scale with a tensor of larger "
            "range: scale both to the same range before they are combined"
        )
    elif (share := usual_share(layer.histogram)) < MAX_OUTLIER_SHARE:
        yield (
            f"{100 * BULK_SHARE:.0f} % of its values use {100 * share:.0f} % of the steps; the rest are outliers: clip "
            "them (ReLU6), or exclude such samples from --calibration"
        )
    if layer.rmse_over_scale > MAX_ROUNDING_STEPS:
        by_option = dense_per_tensor and layer.operator == "FULLY_CONNECTED"
        text = f"{_lossy_part(layer)} more accuracy than rounding its output"
        yield f"{text}: omit --dense-per-tensor" if by_option else text


def _lossy_part(layer: LayerLoss) -> str:
    """Return what loses accuracy in the operator, besides rounding its output."""
    if layer.operator in WEIGHTED:
        return "quantizing its weights loses"
    return "storing its constants in 8 bits loses" if layer.operator in WITH_CONSTANTS else "its arithmetic loses"


def _remedies(layer: LayerLoss, worst: float | None) -> Iterator[str]:
    sqnr_db = layer.kept_float_sqnr_db
    if sqnr_db is not None and sqnr_db > (worst if worst is not None else POOR_DB) + MIN_GAIN_DB:
        options = " ".join(f"--keep-float {name}" for name in layer.kept_float)
        yield f"with {options}, the worst output has an SQNR of {sqnr_db:.1f} dB"
    elif layer.rmse_over_scale <= MAX_ROUNDING_STEPS:
        yield "--quantize int16x8 provides 256 times as many steps"


def usual_share(histogram: Histogram) -> float:
    """Return the fraction of the bins in the narrowest run that holds BULK_SHARE of all values; 1.0 for no values."""
    counts, total = histogram.counts, sum(histogram.counts)
    if not total:
        return 1.0
    for size in range(1, len(counts) + 1):
        if any(sum(counts[start : start + size]) >= BULK_SHARE * total for start in range(len(counts) - size + 1)):
            return size / len(counts)
    return 1.0


# At 10 dB, the noise has a tenth of the power of the signal.
MIN_VARIATION_DB = 10.0
# A channel that uses fewer of the 256 steps has less than 4 bits.
FEW_STEPS = 16
ALL_STEPS = 256
MAX_CHANNELS_NAMED = 3


def variation_findings(
    qualities: Sequence[OutputQuality], float_outputs: Sequence[Array], quantized: Sequence[Array]
) -> tuple[Finding, ...]:
    """Warn about each output whose good SQNR mostly reflects a constant part, while its variation is lost.

    float_outputs and quantized have one array of shape (N, ...) for each output.
    """
    findings = []
    for quality, expected, actual in zip(qualities, float_outputs, quantized, strict=True):
        if quality.sqnr_db is None or quality.sqnr_db < POOR_DB or expected.dtype.kind != "f":
            continue
        variation = variation_db(expected, actual)
        if variation is not None and variation < MIN_VARIATION_DB:
            text = (
                f"the output {quality.name!r} hardly varies over the samples: its SQNR of {quality.sqnr_db:.1f} dB "
                f"mostly reflects its constant part, and the variation {_variation_text(variation)}"
            )
            findings.append(Finding("variation-lost", text))
    return tuple(findings)


def _variation_text(sqnr_db: float) -> str:
    return f"has an SQNR of only {sqnr_db:.1f} dB" if sqnr_db > 0 else "is lost"


def input_findings(
    model: Model,
    inputs: Sequence[Array],
    qualities: Sequence[OutputQuality],
    layers: Mapping[str, str],
    *,
    measured: bool,
) -> tuple[Finding, ...]:
    """Warn about each 8-bit input with channels (its last axis) that use few steps.

    Inputs are reported if an output lost much, or if layers were measured, which is meant to show every loss.

    Args:
        model: The quantized model.
        inputs: The real values of each graph input, of shape (N, ...).
        qualities: The quality of each output.
        layers: The Keras class of each layer by scope.
        measured: Whether layers were measured.
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
        texts = [f"channel {channel} uses {count} of {ALL_STEPS} steps" for channel, count in used[:MAX_CHANNELS_NAMED]]
        more = f" (and {len(used) - len(texts)} more use only a few)" if len(used) > len(texts) else ""
        name = model.argument_name(0, index) or tensor.name
        text = (
            f"the input {name!r} has one scale for all channels, and one step is {step:.3g}: {', '.join(texts)}{more}; "
            f"normalise each channel in the firmware{_keep_float_hint(model, index, layers)}"
        )
        findings.append(Finding("coarse-input", text))
    return tuple(findings)


def steps_used(values: Array, step: float) -> list[tuple[int, int]]:
    """Return the channels that use fewer than FEW_STEPS steps, as (channel, steps), fewest steps first.

    values has the shape (N, ..., channels). A channel that never changes is not returned; neither is anything for an
    input with only one channel.
    """
    if values.ndim < 2 or values.shape[-1] < 2 or not len(values):
        return []
    axes = tuple(range(values.ndim - 1))
    spans = values.max(axis=axes).astype(float) - values.min(axis=axes).astype(float)
    used = [(channel, 1 + round(span / step)) for channel, span in enumerate(spans.tolist()) if span > 0]
    return sorted(((channel, count) for channel, count in used if count < FEW_STEPS), key=lambda item: item[1])


def _step(graph: Graph, tensor: Tensor) -> float | None:
    """Return the step of an 8-bit input, or of the 8-bit tensor to which a float input is quantized first."""
    readers = [operator for operator in graph.operators if tensor.index in operator.inputs]
    if tensor.dtype is DType.FLOAT32 and [operator.code for operator in readers] == ["QUANTIZE"]:
        tensor = graph.tensors[readers[0].outputs[0]]
    if tensor.dtype not in (DType.INT8, DType.UINT8) or tensor.quantization is None:
        return None
    scales = tensor.quantization.scales
    return scales[0] if len(scales) == 1 else None


def _keep_float_hint(model: Model, index: int, layers: Mapping[str, str]) -> str:
    """Return the alternative: the options that keep the layers that read the input in float."""
    reached: set[int] = {index}
    names: dict[str, None] = {}
    for operator in model.main.operators:
        if not reached & set(operator.inputs):
            continue
        if operator.code == "QUANTIZE":
            reached |= set(operator.outputs)
            continue
        layer = layer_of((model.main.tensors[output].name for output in operator.outputs), layers)
        if layer is not None:
            names[layer] = None
    options = " ".join(f"--keep-float {name}" for name in names)
    return f", or use --io float32 with {options}" if options else ""


# Operators that change only the type or the shape of their input.
SAME_VALUES = CONVERSIONS | {"RESHAPE", "SQUEEZE"}


def measure_quality(
    conversion: Conversion, model: Model, *, scheme: str, workdir: Path
) -> tuple[QuantizationInfo, tuple[Finding, ...]]:
    """Measure SQNR, cosine and top-1 agreement of each output, and both accuracies if there is evaluation data.

    The accuracy is that of the output that the labels belong to. If LiteRT cannot run the model, a finding states the
    reason, and nothing is compared. Raises CalibrationError if the labels do not fit the outputs.
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
            quality.top1_agreement if has_classes else None,
        )
        for tensor, quality, has_classes in zip(
            tensors,
            compare_outputs(conversion.float_outputs, outputs),
            classifies(model.main, None if evaluation is None else evaluation.output),
            strict=True,
        )
    )
    # With synthetic samples, it is unknown whether an output should vary.
    on_variation = variation_findings(qualities, conversion.float_outputs, outputs) if conversion.calibrated else ()
    return replace(info, outputs=qualities, accuracy=accuracies), on_variation


def classifies(graph: Graph, labelled: int | None = None) -> tuple[bool, ...]:
    """Return for each output whether it can be class scores; labelled: the position of the output with class labels."""
    return tuple(
        position == labelled or may_classify(graph.tensors[index], graph)
        for position, index in enumerate(graph.outputs)
    )


def may_classify(output: Tensor, graph: Graph) -> bool:
    """Return whether the output can be class scores.

    An output with the shape of an input more likely reconstructs that input. A single value is a probability only if a
    sigmoid computes it; otherwise it may just as well be a quantity.
    """
    if math.prod(output.shape[1:]) == 1:
        return _producer(output.index, graph) == "LOGISTIC"
    return all(graph.tensors[index].shape != output.shape for index in graph.inputs)


def _producer(tensor: int, graph: Graph) -> str | None:
    """Return the code of the operator that computes a tensor's values; None for an input or a constant."""
    producers = {index: operator for operator in graph.operators for index in operator.outputs}
    while tensor in producers and producers[tensor].code in SAME_VALUES:
        tensor = producers[tensor].inputs[0]
    return producers[tensor].code if tensor in producers else None


def run_quantized(
    tflite: bytes, model: Model, inputs: tuple[Array, ...], workdir: Path, *, limits: ProcessLimits = DEFAULT_LIMITS
) -> tuple[Array, ...]:
    """Run a quantized model on real-valued inputs, and return real-valued outputs.

    Inputs have no batch dimension apart from N; each output has the shape (N, ...).
    """
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
