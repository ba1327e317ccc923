"""Inputs and outputs of Keras models of every kind: their names, sizes and ranges, and what is done before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.keras_model import float_model
from edgetool.errors import UnsupportedModelError, UsageError

keras = pytest.importorskip("keras", reason="needs the convert extra")
layers = keras.layers
PATH = Path("model.keras")


def sequential(*parts: Any, **named: Any) -> Any:
    keras.utils.set_random_seed(1)
    return keras.Sequential(list(parts), **named)


def picture(*parts: Any, size: tuple[int | None, ...] = (None, None, 3), **named: Any) -> Any:
    return sequential(keras.Input(size, name="image", **named), *parts)


def zeros(*sizes: int) -> Any:
    return np.zeros((1, *sizes), np.float32)


def results(model: Any, given: Any = ()) -> list[Any]:
    """What the float model gives for seeded inputs."""
    found = float_model(keras, model, PATH, given)
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0, 255, (1, *spec.shape)).astype(spec.dtype) for spec in found.specs]
    return [np.asarray(output) for output in found.call(arrays)]


# ---- sizes


def convolutions() -> Any:
    return picture(
        layers.Conv2D(4, 3, name="first"),
        layers.MaxPooling2D(),
        layers.Conv2D(4, 3, name="last"),
        layers.GlobalAveragePooling2D(),
    )


def test_unknown_sizes_are_requested_from_the_user() -> None:
    with pytest.raises(UnsupportedModelError, match=r"input 'image'.*--input-shape image=SIZE,SIZE,3"):
        float_model(keras, convolutions(), PATH)


def test_sizes_that_are_given() -> None:
    found = float_model(keras, convolutions(), PATH, [("image", [1, 12, 10, 3])])
    assert found.specs[0].shape == (12, 10, 3)
    assert results(convolutions(), [(None, (12, 10, 3))])[0].shape == (1, 4)


def test_sizes_that_a_layer_cannot_take_name_it() -> None:
    with pytest.raises(UsageError, match=r"\(4, 4, 3\): layer 'last': .*negative") as caught:
        float_model(keras, convolutions(), PATH, [(None, (4, 4, 3))])
    assert caught.value.where == "--input-shape"


# ---- layers that resize and crop


@pytest.mark.parametrize(
    "first",
    [
        lambda: [layers.Resizing(8, 6)],
        lambda: [layers.Resizing(8, 6, interpolation="bicubic", antialias=True)],
        lambda: [layers.RandomFlip(), layers.Rescaling(1.0), layers.Resizing(8, 6, crop_to_aspect_ratio=True)],
        lambda: [sequential(keras.Input((None, None, 3)), layers.Resizing(8, 6), name="inner")],
        lambda: [layers.CenterCrop(8, 6)],
        lambda: [layers.RandomCrop(8, 6)],
    ],
)
def test_a_leading_layer_that_gives_a_size_gives_the_input_its(first: Any) -> None:
    """What comes behind it sees the input as it is."""
    model = picture(*first(), layers.Conv2D(2, 3, name="work"))
    without = picture(layers.Conv2D(2, 3, name="work"), size=(8, 6, 3))
    without.set_weights(model.get_weights())
    found = float_model(keras, model, PATH)
    assert found.specs[0].shape == (8, 6, 3)
    assert "expects 8x6 (height x width)" in found.notes[0]
    np.testing.assert_allclose(results(model)[0], results(without)[0], rtol=1e-6)


def test_a_resizing_that_resizes_stays() -> None:
    model = picture(layers.Resizing(4, 4), size=(8, 8, 3))
    before = results(model)[0]
    found = float_model(keras, model, PATH)
    assert (found.specs[0].shape, found.notes) == ((8, 8, 3), ())
    assert before.shape == (1, 4, 4, 3)
    wider = picture(layers.Resizing(4, 4))
    np.testing.assert_array_equal(results(wider, [(None, (4, 4, 3))])[0].shape, (1, 4, 4, 3))
    with pytest.raises(UsageError, match=r"not \(8, 8, 1\)"):
        float_model(keras, wider, PATH, [(None, (8, 8, 1))])


def test_an_input_that_is_not_only_resized_keeps_its_size_open() -> None:
    image = keras.Input((None, None, 3), name="image")
    both = keras.Model(image, [layers.Resizing(4, 4)(image), layers.GlobalAveragePooling2D()(image)])
    with pytest.raises(UnsupportedModelError, match="--input-shape"):
        float_model(keras, both, PATH)
    found = float_model(keras, both, PATH, [("image", (9, 9, 3))])
    assert [tuple(output.shape) for output in found.call([np.zeros((1, 9, 9, 3), np.float32)])] == [
        (1, 4, 4, 3),
        (1, 3),
    ]


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (lambda: layers.Resizing(4, 4, interpolation="bicubic", name="smaller"), r"'smaller' \(Resizing\).*bicubic"),
        (lambda: layers.Resizing(4, 4, antialias=True, name="smaller"), "bilinear interpolation with antialias"),
        (lambda: layers.RandomCrop(4, 4, name="crop"), r"'crop' \(RandomCrop\).*only during training"),
    ],
)
def test_what_has_no_operator_is_refused_by_name(layer: Any, said: str) -> None:
    inner = sequential(keras.Input((8, 8, 3)), layers.Conv2D(3, 1), layer(), name="inner")
    with pytest.raises(UnsupportedModelError, match=said):
        float_model(keras, picture(inner, size=(8, 8, 3)), PATH)


# ---- ranges of synthetic samples


def test_first_layers_tell_ranges() -> None:
    def of(model: Any) -> tuple[float, float]:
        (found,) = float_model(keras, model, PATH).ranges
        return found.low, found.high

    normalised = layers.Normalization(mean=[10.0, 20.0, 30.0], variance=[3.0, 3.0, 12.0])
    assert of(picture(normalised, size=(4, 4, 3))) == pytest.approx((7, 36))
    assert of(picture(layers.Resizing(4, 4), layers.Rescaling(1 / 255))) == (0, 255)
    inner = sequential(keras.Input((6,), dtype="int32"), layers.Embedding(11, 4), name="inner")
    tokens = keras.Input((6,), dtype="int32")
    assert of(keras.Model(tokens, inner(tokens))) == (0, 10)
    assert of(picture(layers.Flatten(), size=(4, 4, 3))) == (-1, 1)


# ---- names and structures


def test_dictionaries_name_what_they_hold() -> None:
    inputs = {"x": keras.Input((4,), name="x"), "y": [keras.Input((3,), name="y1"), keras.Input((2,), name="y2")]}
    first, second = inputs["y"]
    outputs = {"b": layers.Dense(2)(inputs["x"]), "a": [layers.Dense(1)(first), layers.Dense(5)(second)]}
    found = float_model(keras, keras.Model(inputs, outputs), PATH)
    assert [(spec.name, spec.shape) for spec in found.specs] == [("x", (4,)), ("y_0", (3,)), ("y_1", (2,))]
    assert found.output_names == ("a_0", "a_1", "b")
    shapes = [
        output.shape[1] for output in found.call([np.zeros((1, *spec.shape), np.float32) for spec in found.specs])
    ]
    assert shapes == [1, 5, 2]


class OneTensor(keras.Model):  # type: ignore[misc, name-defined]
    """A class of its own that was called with a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(3)

    def call(self, x: Any) -> Any:
        return {"made": self.dense(x), "parts": [x * 2, x]}


class Dictionary(OneTensor):
    """With a dictionary."""

    def call(self, x: Any) -> Any:
        return self.dense(x["p"]) + x["q"]


class TwoArguments(OneTensor):
    """With two tensors, of which Keras records one."""

    def call(self, p: Any, q: Any) -> Any:  # type: ignore[override]
        return self.dense(p) + q


def test_a_class_of_its_own_is_taken_as_it_was_built() -> None:
    one, two = OneTensor(), Dictionary()
    one(zeros(4))
    two({"q": zeros(3), "p": zeros(4)})
    found = float_model(keras, one, PATH)
    assert [(spec.name, spec.shape) for spec in found.specs] == [("input", (4,))]
    assert found.output_names == ("made", "parts_0", "parts_1")
    np.testing.assert_allclose(found.call([zeros(4) + 1])[1], zeros(4) + 2)
    found = float_model(keras, two, PATH)
    assert [(spec.name, spec.shape) for spec in found.specs] == [("p", (4,)), ("q", (3,))]
    assert found.output_names == ("output",)
    np.testing.assert_allclose(found.call([zeros(4), zeros(3) + 5])[0], zeros(3) + 5)
    assert float_model(keras, two, PATH, [("q", (1,))]).specs[1].shape == (1,)
    with pytest.raises(UsageError, match=r"layer '.*dense.*axis -1 .*value 4"):
        float_model(keras, one, PATH, [(None, (5,))])


def test_a_model_without_weights_or_with_inputs_nobody_knows_is_refused() -> None:
    two = TwoArguments()
    two(zeros(4), zeros(3))
    with pytest.raises(UnsupportedModelError, match=r"missing a required argument: 'q'.*model.export"):
        float_model(keras, two, PATH)
    for unbuilt in (OneTensor(), keras.Sequential([layers.Dense(3)])):
        with pytest.raises(UnsupportedModelError, match="never built"):
            float_model(keras, unbuilt, PATH, [(None, (4,))])
    with pytest.raises(UnsupportedModelError, match="no layers"):
        float_model(keras, keras.Sequential([keras.Input((4,))]), PATH)


def test_variables_have_names_that_graphs_take() -> None:
    tensor = keras.Input((4,), name="Eingänge 1")
    layer = layers.Dense(2, name="größe")
    found = float_model(keras, keras.Model(tensor, layer(tensor)), PATH)
    assert (found.specs[0].name, found.output_names) == ("Eingänge 1", ("größe",))
    assert all(variable.name.isascii() for variable in found.tracked)
    np.testing.assert_array_equal(found.tracked[0], layer.kernel)


@pytest.mark.parametrize("dtype", ["string", "bfloat16", "complex64"])
def test_types_that_no_sample_has_are_refused(dtype: str) -> None:
    tensor = keras.Input((4,), dtype=dtype, name="x")
    with pytest.raises(UnsupportedModelError, match=f"input 'x' is of type {dtype}"):
        float_model(keras, keras.Model(tensor, layers.Identity(dtype=dtype)(tensor)), PATH)


def test_models_of_tf_keras_are_taken_as_well() -> None:
    old = pytest.importorskip("tf_keras")
    image = old.Input((None, None, 3), name="image")
    small = old.layers.Rescaling(1 / 255)(old.layers.Resizing(8, 6, interpolation="bicubic")(image))
    side = old.Input((4,), name="side")
    model = old.Model(
        {"image": image, "side": side}, {"b": old.layers.Conv2D(2, 3)(small), "a": old.layers.Dense(2)(side)}
    )
    found = float_model(old, model, PATH)
    assert [(spec.name, spec.shape) for spec in found.specs] == [("image", (8, 6, 3)), ("side", (4,))]
    assert found.output_names == ("a", "b")
    assert found.ranges[0].high == 255
    assert len(found.tracked) == 4
    assert [tuple(t.shape) for t in found.call([zeros(8, 6, 3), zeros(4)])] == [(1, 2), (1, 6, 4, 2)]
    series = old.Sequential([old.Input((None, 3)), old.layers.Reshape((36,), name="flat")])
    assert float_model(old, series, PATH, [(None, (12, 3))]).specs[0].shape == (12, 3)
    with pytest.raises(UsageError, match="layer 'flat'"):
        float_model(old, series, PATH, [(None, (2, 3))])


def test_the_innermost_layer_that_does_not_load_is_named() -> None:
    from edgetool.convert.float_model import explain_keras_error

    nested = (
        "Error when deserializing class 'Sequential' using config={'name': 'whole', 'layers': [{'config': {'name': "
        "'first'}}]}.\n\nException encountered: Error when deserializing class 'RandomShear' using config={'name': "
        "'shear', 'x_factor': [-0.1, 0.1]}.\n\nException encountered: `factor` should be a number"
    )
    assert explain_keras_error(TypeError(nested)) == ("`factor` should be a number", "layer 'shear'")
