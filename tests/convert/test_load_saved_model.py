"""Signatures of SavedModels: which is taken, with which inputs, and what it brings along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.load_saved_model import load_saved_model
from edgetool.convert.tflite import ConverterOptions, convert, order_of
from edgetool.errors import EdgetoolError, UnsupportedModelError, UsageError

tf = pytest.importorskip("tensorflow", reason="needs the convert extra")


class Several(tf.Module):  # type: ignore[misc, name-defined]
    """Functions that share a variable, beside a table that one of them reads."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3))
        keys, values = tf.constant([0, 1, 2], tf.int64), tf.constant([0.0, 10.0, 20.0])
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1.0)

    def two(self, zeta: Any, alpha: Any) -> Any:
        return {"sum": alpha @ self.weight + zeta, "other": zeta * 2}

    def image(self, image: Any) -> Any:
        return {"part": tf.reshape(image[:, :4, :4], (-1, 48))}

    def lookup(self, key: Any) -> Any:
        return {"value": self.table.lookup(key)}

    def text(self, text: Any) -> Any:
        return {"length": tf.strings.length(text)}

    def double(self, x: Any) -> Any:
        return {"double": x * 2}

    def nothing(self) -> Any:
        return {"sum": tf.reduce_sum(self.weight)}


# Name of a signature -> the method that it calls, and what it takes.
SIGNATURES: dict[str, tuple[str, list[Any]]] = {
    "two": ("two", [tf.TensorSpec((None, 3)), tf.TensorSpec((None, 4))]),
    "image": ("image", [tf.TensorSpec((None, None, None, 3), name="image")]),
    "lookup": ("lookup", [tf.TensorSpec((None, 2), tf.int64)]),
    "text": ("text", [tf.TensorSpec((None,), tf.string)]),
    "any_rank": ("double", [tf.TensorSpec(None)]),
    "scalar": ("double", [tf.TensorSpec(())]),
    "eight": ("double", [tf.TensorSpec((8, 4))]),
    "nothing": ("nothing", []),
}


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("several")
    module = Several()
    functions = {
        name: tf.function(getattr(module, method), input_signature=taken)
        for name, (method, taken) in SIGNATURES.items()
    }
    tf.saved_model.save(module, str(path), signatures=functions)
    return path


def load(path: Path, signature: str | None = None, shapes: Any = ()) -> Any:
    return load_saved_model(tf, path, trust_model_code=False, signature=signature, input_shapes=shapes)


def test_several_signatures_are_listed_with_their_inputs_and_outputs(several: Path) -> None:
    for signature, kind in ((None, UnsupportedModelError), ("tow", UsageError)):
        with pytest.raises(kind) as caught:
            load(several, signature)
        reported = str(caught.value)
        assert "two(alpha: float32 (None, 4), zeta: float32 (None, 3)) -> other: float32 (None, 3), sum: " in reported
        assert "image(image: float32 (None, None, None, 3)) -> part: float32 (None, 48)" in reported
        assert "any_rank(x: float32 of any rank)" in reported
        assert "--signature" in reported


def test_a_signature_can_be_selected_by_name(several: Path) -> None:
    found = load(several, "two")
    assert [(spec.name, spec.shape) for spec in found.specs] == [("alpha", (4,)), ("zeta", (3,))]
    assert found.output_names == ("other", "sum")
    alpha, zeta = np.ones((1, 4), np.float32), np.full((1, 3), 0.5, np.float32)
    other, total = found.call([tf.constant(alpha), tf.constant(zeta)])
    np.testing.assert_allclose(other, zeta * 2)
    np.testing.assert_allclose(total, [[18.5, 22.5, 26.5]])


def test_open_sizes_are_given(several: Path) -> None:
    assert load(several, "image", [[None, [8, 6, 3]]]).specs[0].shape == (8, 6, 3)
    with pytest.raises(UsageError, match=r"fails with inputs of shape \(1, 2, 2, 3\): .*12 values") as caught:
        load(several, "image", [("image", (2, 2, 3))])
    assert caught.value.where == "--input-shape"


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("image", r"\(None, None, 3\).*--input-shape image=SIZE,SIZE,3"),
        ("text", "input 'text' is of type string"),
        ("any_rank", "input 'x' has an unknown rank"),
        ("scalar", "input 'x' is a scalar without a batch dimension"),
        ("eight", r"fixed to a batch of 8, \(8, 4\).*tf.TensorSpec\(\(None, 4\)\)"),
        ("nothing", "has no inputs"),
    ],
)
def test_unusable_signatures_are_reported(several: Path, signature: str, said: str) -> None:
    with pytest.raises(EdgetoolError, match=said) as caught:
        load(several, signature)
    assert caught.value.exit_code == 3


def test_the_table_of_another_signature_does_not_come_along(several: Path, tmp_path: Path) -> None:
    """TensorFlow Lite has no operator for tables, and would refuse the whole model."""
    model = load(several, "two")
    assert len(model.tracked) == 1
    assert load(several, "lookup").tracked.table is not None
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=(4, *spec.shape)).astype(np.float32) for spec in model.specs]
    content = convert(
        tf, model, samples, ConverterOptions("float32", "float32", False), tmp_path, lambda step: None
    ).content
    order = order_of(content, model)
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    for detail, index in zip(interpreter.get_input_details(), order.inputs, strict=True):
        interpreter.set_tensor(detail["index"], samples[index][:1])
    interpreter.invoke()
    expected = model.call([tf.constant(array[:1]) for array in samples])
    for detail, index in zip(interpreter.get_output_details(), order.outputs, strict=True):
        np.testing.assert_allclose(interpreter.get_tensor(detail["index"]), expected[index], rtol=1e-5)


def test_what_keras_exports(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    series = keras.Input((None, 3), name="series")
    model = keras.Model({"series": series}, {"last": keras.layers.Conv1D(2, 3)(series), "first": series * 2})
    model.export(str(tmp_path / "exported"), verbose=False)
    for signature in (None, "serve"):
        found = load(tmp_path / "exported", signature, [("series", (9, 3))])
        assert [(spec.name, spec.shape) for spec in found.specs] == [("series", (9, 3))]
        assert found.output_names == ("first", "last")


def test_what_keras_2_saves(tmp_path: Path) -> None:
    old = pytest.importorskip("tf_keras")
    image = old.Input((None, None, 3), name="image")
    pooled = old.layers.GlobalAveragePooling2D()(old.layers.Conv2D(2, 3)(image))
    old.Model(image, old.layers.Dense(2)(pooled)).save(str(tmp_path / "saved"))
    found = load(tmp_path / "saved", None, [(None, (8, 8, 3))])
    assert [(spec.name, spec.shape) for spec in found.specs] == [("image", (8, 8, 3))]
    assert [tuple(output.shape) for output in found.call([tf.zeros((1, 8, 8, 3))])] == [(1, 2)]
