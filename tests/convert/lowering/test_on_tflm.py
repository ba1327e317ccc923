"""Lowered int8 models run on TensorFlow Lite Micro, as well as int8 lets them; as they are, they would not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgetool.model.reader import read_model
from edgetool.model.scopes import layer_of
from edgetool.operators.legality import unsupported_operators
from edgetool.target.load import load_target
from tests.convert.lowering.lowered import converted, functional, inputs_of, keras, outputs, plan, sequential, sqnr_db

pytest.importorskip("tflite_micro", reason="needs the verify extra")
layers, ops = keras.layers, keras.ops


def joined(parts: list[Callable[[Any], Any]]) -> Callable[[Any], list[Any]]:
    """Several layers on one input, each an output: one conversion serves them all."""
    return lambda x: [part(x) for part in parts]


IMAGES = [
    layers.UpSampling2D(2),
    layers.AdaptiveAveragePooling2D((3, 4)),
    layers.LayerNormalization(),
    layers.ReLU(4.0, negative_slope=0.1, threshold=0.2),
    layers.UpSampling2D(2, interpolation="bicubic"),
    keras.activations.sparse_plus,
]
SERIES = [
    layers.UpSampling1D(2),
    layers.TimeDistributed(layers.Dense(4)),
    lambda x: layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True),
    lambda x: layers.GroupQueryAttention(4, 4, 2)(x, x),
    lambda x: layers.GlobalAveragePooling1D()(layers.Masking()(x)),
    lambda x: layers.RepeatVector(3)(layers.Flatten()(x)),
    lambda x: ops.tile(x, (1, 2, 1)),
]
VOLUMES = [
    layers.Conv3D(3, 3),
    layers.MaxPooling3D(),
    layers.AveragePooling3D(2),
    layers.UpSampling3D(),
    layers.Cropping3D(),
    layers.TimeDistributed(layers.Conv2D(3, 3)),
]
MODELS: dict[str, tuple[Callable[[], Any], float]] = {
    "images": (lambda: functional((8, 9, 3), joined(IMAGES)), 34.0),
    "series": (lambda: functional((6, 8), joined(SERIES)), 30.0),
    "volumes": (lambda: functional((4, 8, 8, 2), joined(VOLUMES)), 32.0),
    "words": (
        lambda: sequential(
            (7,), layers.Embedding(20, 6, mask_zero=True), layers.GlobalAveragePooling1D(), dtype="int32"
        ),
        30.0,
    ),
    "classes": (lambda: sequential((3,), layers.CategoryEncoding(5), layers.Dense(3), dtype="int32"), 35.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_int8_runs_and_is_good(name: str, tmp_path: Path) -> None:
    make, least_db = MODELS[name]
    model = make()
    samples = inputs_of(model, 20, padded=name == "series")
    content, order = converted(model, tmp_path, samples)
    assert unsupported_operators(read_model(content, name=name), load_target("cortex-m4").runtime) == ()
    expected = outputs(model, samples[:5])
    ratios = sqnr_db(content, samples[:5], [expected[place] for place in order])
    assert min(ratios) >= least_db, ratios


RECTIFIERS: dict[str, Callable[[Any], Any]] = {
    "relu": ops.relu,
    "relu6": ops.relu6,
    "clip": lambda x: ops.clip(x, 0.0, 6.0),
    "maximum": lambda x: ops.maximum(x, 0.0),
    "none": lambda x: x + 1.0,
}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["int8", "float32"])
@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_stays_a_single_operator_whatever_reads_it(approximate: bool, scheme: str, tmp_path: Path) -> None:
    """A rectifier behind it hides it from the converter, which then has no operator for Erfc."""

    def build(x: Any) -> list[Any]:
        return [follow(ops.gelu(x * (number + 2.0), approximate)) for number, follow in enumerate(RECTIFIERS.values())]

    model = functional((6,), build)
    samples = inputs_of(model, 20)
    content, _ = converted(model, tmp_path, samples, scheme)
    codes = [operator.code for operator in read_model(content, name="gelu").main.operators]
    assert codes.count("GELU") == len(RECTIFIERS)
    assert "TANH" not in codes


@pytest.mark.slow
def test_masked_scores_in_16_bits_on_tflm(tmp_path: Path) -> None:
    """Scores far below zero, and larger ones that do not count."""

    def build(x: Any) -> Any:
        scores = x * 3.0 - 150.0
        return layers.Softmax()(scores, mask=ops.arange(8) < 4)

    model = functional((3, 8), build)
    samples = inputs_of(model, 20)
    content, _ = converted(model, tmp_path, samples, "int16x8")
    assert unsupported_operators(read_model(content, name="mask"), load_target("cortex-m4").runtime) == ()
    assert min(sqnr_db(content, samples[:5], outputs(model, samples[:5]))) > 30


def test_without_lowering_it_would_not_run(tmp_path: Path) -> None:
    model = sequential((4, 4, 3), layers.UpSampling2D(2))
    content, _ = converted(model, tmp_path, inputs_of(model, 4), lower=False)
    assert unsupported_operators(read_model(content, name="tile"), load_target("cortex-m4").runtime)


def test_the_names_of_tensors_identify_their_layers(tmp_path: Path) -> None:
    model = functional((8, 8, 3), lambda x: layers.UpSampling2D(2, name="up")(layers.Conv2D(4, 3, name="conv")(x)))
    content, _ = converted(model, tmp_path, inputs_of(model, 4))
    graph = read_model(content, name="named").main
    found = [layer_of(graph.tensors[operator.outputs[0]].name, plan(model).layers) for operator in graph.operators]
    assert found == ["conv", None]  # the last is the graph's output
    assert plan(model).output_layers == ("up",)
