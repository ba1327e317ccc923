"""The quantized model against its float original, on LiteRT's reference kernels."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.child import ChildDiedError, Limits
from edgetool.convert.quality import accuracy, compare_outputs
from edgetool.convert.request import Conversion
from edgetool.errors import ConversionError, MissingExtraError, ModelError
from edgetool.execute.quantize import dequantize, quantize
from edgetool.execute.run import DEFAULT_LIMITS, litert_engine, run_model
from edgetool.finding import Finding
from edgetool.model.types import CONVERSIONS, Graph, Model, Tensor
from edgetool.pipeline.signal_findings import variation_findings
from edgetool.report.document import Accuracy, OutputQuality, QuantizationInfo

Array = npt.NDArray[Any]
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
        return info, (Finding("does-not-run", "error", f"the quantized model cannot run: {error}"),)
    except (ModelError, ConversionError, MissingExtraError) as error:
        return info, (Finding("not-compared", "warning", f"the quantized model was not compared: {error}"),)
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
    tflite: bytes, model: Model, inputs: tuple[Array, ...], workdir: Path, *, limits: Limits = DEFAULT_LIMITS
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
