"""How the tests of lowerings compare: a model as it is with the model as it is traced, in float and on the runtimes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgetool.convert.keras_model import float_model
from edgetool.convert.lowering.context import LoweringOptions
from edgetool.convert.lowering.lower import Lowering, plan_lowering
from edgetool.convert.quality import compare_outputs
from edgetool.convert.tflite import ConverterOptions, convert, order_of
from edgetool.execute.quantize import dequantize, quantize
from edgetool.execute.run import run_model
from edgetool.model.reader import read_model

tf = pytest.importorskip("tensorflow", reason="lowering needs the convert extra")
keras = pytest.importorskip("keras", reason="lowering needs the convert extra")

Array = npt.NDArray[Any]
IO = {"int8": "int8", "int16x8": "int16", "float32": "float32"}
TOLERANCE = 1e-5


def sequential(shape: Sequence[int], *layers: Any, dtype: str = "float32") -> Any:
    """A model of these layers with weights that are none of the usual zeros and ones."""
    model = keras.Sequential([keras.Input(tuple(shape), dtype=dtype), *layers])
    return shaken(model)


def functional(shape: Sequence[int], build: Callable[[Any], Any], dtype: str = "float32") -> Any:
    given = keras.Input(tuple(shape), dtype=dtype)
    return shaken(keras.Model(given, build(given)))


def shaken(model: Any) -> Any:
    random = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(variable + random.uniform(-0.3, 0.3, variable.shape))
    return model


def inputs_of(model: Any, count: int = 2, padded: bool = False, classes: int = 5) -> Array:
    """Samples of its one input; padded: the second half of the time steps is 0."""
    random = np.random.default_rng(0)
    shape = (count, *model.inputs[0].shape[1:])
    whole = "int" in model.inputs[0].dtype
    values = random.integers(0, classes, shape) if whole else random.uniform(-1, 1, shape)
    if padded:
        values[:, shape[1] // 2 :] = 0
    return values.astype(model.inputs[0].dtype)


def plan(model: Any, scheme: str = "int8") -> Lowering:
    return plan_lowering(tf, keras, model, LoweringOptions(quantize=scheme))


def outputs(model: Any, samples: Array, lowering: Lowering | None = None) -> list[Array]:
    """What the model gives for one sample at a time, as it is or in a traced graph as it is lowered."""

    def call(x: Any) -> list[Any]:
        if lowering is None:
            return list(keras.tree.flatten(model(x, training=False)))
        with lowering.active():
            return list(keras.tree.flatten(model(x, training=False)))

    run = call if lowering is None else tf.function(call, autograph=False)
    each = [run(tf.constant(samples[i : i + 1])) for i in range(len(samples))]
    return [np.concatenate([np.asarray(part) for part in parts]) for parts in zip(*each, strict=True)]


def assert_exact(model: Any, samples: Array | None = None, scheme: str = "int8") -> list[Array]:
    """The lowered model gives what the model gives; its outputs."""
    given = inputs_of(model) if samples is None else samples
    before = outputs(model, given)
    after = outputs(model, given, plan(model, scheme))
    for one, other in zip(before, after, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        was, now = one.astype(np.float64), other.astype(np.float64)
        assert np.abs(was - now).max() <= TOLERANCE * max(np.abs(was).max(), 1e-3)
    for one, other in zip(before, outputs(model, given), strict=True):
        np.testing.assert_array_equal(one, other)  # nothing is left behind
    return before


def converted(
    model: Any, directory: Path, samples: Array, scheme: str = "int8", *, lower: bool = True
) -> tuple[bytes, tuple[int, ...]]:
    """The .tflite of the model, lowered or as it is, and which of the model's outputs each of its outputs is."""
    found = float_model(keras, model, directory)
    lowering = plan(model, scheme)

    def traced(tensors: Sequence[Any]) -> list[Any]:
        with lowering.active():
            return found.call(tensors)

    options = ConverterOptions(scheme, IO[scheme], dense_per_tensor=scheme == "int16x8")
    content = convert(
        tf, replace(found, traced=traced if lower else None), [samples], options, directory, lambda _: None
    ).content
    return content, order_of(content, found).outputs


def sqnr_db(content: bytes, samples: Array, expected: Sequence[Array], engine: str = "tflm") -> list[float]:
    """The SQNR in decibels of each output of the file on a runtime; inf where all is equal."""
    graph = read_model(content, name="lowered").main
    taken = graph.tensors[graph.inputs[0]]
    samples = samples.reshape(len(samples), *taken.shape)
    raw = quantize(samples, taken.quantization, taken.dtype) if taken.quantization else samples
    got = run_model(content, [raw], engine=engine)
    values = [
        dequantize(array, graph.tensors[place].quantization) if graph.tensors[place].quantization else array
        for array, place in zip(got, graph.outputs, strict=True)
    ]
    ratios = compare_outputs(list(expected), [a.reshape(b.shape) for a, b in zip(values, expected, strict=True)])
    return [float("inf") if ratio.sqnr_db is None else ratio.sqnr_db for ratio in ratios]


def traced_operations(model: Any, scheme: str = "int8") -> Counter[str]:
    """How many operations of each kind the graph has that the converter gets."""
    lowering = plan(model, scheme)

    def call(x: Any) -> Any:
        with lowering.active():
            return model(x, training=False)

    shape = (1, *model.inputs[0].shape[1:])
    graph = tf.function(call, autograph=False).get_concrete_function(tf.TensorSpec(shape)).graph
    return Counter(operation.type for operation in graph.get_operations())
