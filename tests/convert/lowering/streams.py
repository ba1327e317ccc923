"""A model with its recurrent layers cut out, converted and joined again, as `convert` does it; and runs of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgetool.convert.keras_model import float_model
from edgetool.convert.lowering.context import LoweringOptions
from edgetool.convert.lowering.cut_open import CutModel, open_cuts
from edgetool.convert.lowering.lower import plan_lowering
from edgetool.convert.lowering.recurrent import reset_of
from edgetool.convert.tflite import ConverterOptions, convert, order_of
from edgetool.execute.quantize import dequantize, quantize
from edgetool.execute.run import RunEngine, run_model
from edgetool.model.reader import read_model
from tests.convert.lowering.lowered import IO, Array, keras, tf


def joined(
    model: Any,
    samples: Sequence[Array],
    directory: Path,
    scheme: str = "int8",
    rnn: str = "auto",
    io: str | None = None,
    library: Any = keras,
) -> tuple[bytes, CutModel]:
    """The .tflite of a model of Keras or tf_keras, and what was cut out of it."""
    found = float_model(library, model, directory)
    lowering = plan_lowering(tf, library, model, LoweringOptions(rnn=rnn, quantize=scheme))

    def traced(tensors: Sequence[Any]) -> list[Any]:
        with lowering.active():
            return found.call(tensors)

    opened = open_cuts(tf, replace(found, traced=traced), lowering.cuts, samples, scheme, lambda _: None)
    options = ConverterOptions(scheme, io or IO[scheme], dense_per_tensor=scheme == "int16x8")
    content = opened.join(convert(tf, opened.model, opened.samples, options, directory, lambda _: None).content)
    order_of(content, found)  # the file has the model's own inputs and outputs, and no others
    return content, opened


def keras_stream(model: Any, samples: Array) -> Array:
    """The one output of the model for one sample after the other, its state at the start before and after."""
    reset = reset_of(model) or (lambda: None)
    reset()
    outputs = [np.asarray(model(samples[i : i + 1], training=False)) for i in range(len(samples))]
    reset()
    return np.concatenate(outputs)


def run_stream(content: bytes, samples: Array, engine: RunEngine = "tflm") -> tuple[Array, Array]:
    """The one output as it is in the file and as real values, for one sample after the other."""
    graph = read_model(content).main
    taken, given = graph.tensors[graph.inputs[0]], graph.tensors[graph.outputs[0]]
    shaped = np.reshape(samples, (len(samples), *taken.shape))
    (raw,) = run_model(content, [quantize(shaped, taken.quantization, taken.dtype)], engine=engine)
    values = dequantize(raw, given.quantization)
    return raw, values.reshape(len(samples), *given.shape[1:])


def sqnr_db(expected: Array, found: Array) -> float:
    noise = np.square(expected.astype(np.float64) - found).sum()
    return float(10 * np.log10(np.square(expected.astype(np.float64)).sum() / max(noise, 1e-300)))
