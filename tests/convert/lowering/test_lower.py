"""What is planned for a model, and that it holds within the block and only there.

Augmentation leaves nothing behind; what may draw random numbers outside training keeps its counter.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from edgetool.convert.lowering.context import LoweringOptions
from edgetool.convert.lowering.lower import BACKEND, FUNCTIONS, plan_lowering
from edgetool.errors import UnsupportedModelError
from tests.convert.lowering.lowered import (
    assert_exact,
    functional,
    inputs_of,
    keras,
    outputs,
    plan,
    sequential,
    tf,
    traced_operations,
)

layers = keras.layers


def nested() -> Any:
    inner = keras.Sequential(
        [keras.Input((8,)), layers.Dense(4, name="first layer"), layers.ReLU(name="last")], name="inner"
    )
    given = keras.Input((8,), name="x")
    made = inner(layers.Dense(8, name="dense")(given))
    return keras.Model(given, [made, keras.ops.argmax(made, -1)], name="my model")


def operations(model: Any) -> list[str]:
    lowering = plan(model)

    def call(x: Any) -> Any:
        with lowering.active():
            return model(x)

    spec = tf.TensorSpec((1, *model.inputs[0].shape[1:]), model.inputs[0].dtype)
    graph = tf.function(call, autograph=False).get_concrete_function(spec).graph
    return [node.name for node in graph.as_graph_def().node]


@pytest.mark.parametrize("key", FUNCTIONS)
def test_keras_has_every_name_that_is_lowered(key: str) -> None:
    module, _, name = key.rpartition(".")
    assert callable(getattr(importlib.import_module(f"{BACKEND}.{module}"), name))


def test_each_layer_has_a_scope_of_its_own() -> None:
    lowering = plan(nested())
    assert lowering.layers["dense"] == "Dense"
    assert lowering.layers["inner"] == "Sequential"
    assert lowering.layers["inner/first_layer"] == "Dense"
    assert lowering.output_layers == ("inner/last", next(s for s, c in lowering.layers.items() if c == "Argmax"))


def test_operations_are_named_after_their_layers() -> None:
    names = operations(nested())
    for name in ("dense/MatMul", "inner/first_layer/BiasAdd", "inner/last/Relu"):
        assert name in names


def test_wrapped_layers_and_cells_have_scopes() -> None:
    model = sequential(
        (6, 8),
        layers.TimeDistributed(layers.Dense(3, name="each"), name="steps"),
        layers.Bidirectional(layers.LSTM(2, unroll=True, name="rnn"), name="both"),
    )
    found = plan(model).layers
    assert found["steps/each"] == "Dense"
    assert found["both/forward_rnn/lstm_cell"] == "LSTMCell"
    assert found["both/backward_rnn/lstm_cell"] == "LSTMCell"


def test_names_that_collide_are_distinguished() -> None:
    model = sequential((4,), layers.Dense(2, name="a b"), layers.Dense(2, name="a_b"))
    assert [scope for scope, kind in plan(model).layers.items() if kind == "Dense"] == ["a_b", "a_b_1"]


def test_a_shared_layer_keeps_its_first_scope() -> None:
    shared = layers.Dense(4, name="shared")
    model = functional((4,), lambda x: shared(keras.Sequential([shared], name="inner")(x)))
    assert len([kind for kind in plan(model).layers.values() if kind == "Dense"]) == 1


def test_calls_are_restored_even_after_an_error() -> None:
    model = sequential((4, 4, 3), layers.UpSampling2D(2))
    layer, backend = model.layers[0], keras.src.backend.numpy
    own, function = layer.call, backend.repeat

    def fail() -> None:
        with plan(model).active():
            assert layer.call != own
            assert backend.repeat is not function
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "call" not in vars(layer)
    assert backend.repeat is function


def test_a_call_set_on_the_instance_is_kept() -> None:
    model = sequential((4,), layers.Dense(2))
    layer = model.layers[0]
    own = layer.call
    vars(layer)["call"] = special = lambda x: own(x) * 2
    with plan(model).active():
        doubled = np.asarray(model(inputs_of(model)))
    assert vars(layer)["call"] is special
    np.testing.assert_allclose(doubled, np.asarray(model(inputs_of(model))))


class Double(layers.UpSampling2D):
    def call(self, inputs: Any) -> Any:
        return super().call(inputs) * 2


class Renamed(layers.UpSampling2D):
    pass


def test_a_call_of_the_users_own_stays() -> None:
    for kind, factor in ((Double, 2), (Renamed, 1)):
        model = sequential((2, 2, 1), kind(2))
        plain = outputs(sequential((2, 2, 1), layers.UpSampling2D(2)), inputs_of(model))[0]
        np.testing.assert_array_equal(outputs(model, inputs_of(model), plan(model))[0], plain * factor)


def test_a_refusal_names_the_layer() -> None:
    model = sequential((4, 4, 4, 2), layers.Conv3DTranspose(2, 3, name="up"))
    with pytest.raises(UnsupportedModelError, match=r"layer 'up' \(Conv3DTranspose\)") as caught:
        outputs(model, inputs_of(model, 1), plan(model))
    assert caught.value.fix


def test_tf_keras_models_get_scopes() -> None:
    legacy = pytest.importorskip("tf_keras")
    given = legacy.Input((4, 8))
    inner = legacy.Sequential([legacy.layers.Dense(4, name="deep/er")], name="inner")
    model = legacy.Model(given, legacy.layers.LSTM(3, unroll=True, name="rnn")(inner(given)))
    lowering = plan_lowering(tf, legacy, model, LoweringOptions())
    assert lowering.layers["inner/deep_er"] == "Dense"
    assert lowering.layers["rnn/lstm_cell"] == "LSTMCell"
    assert lowering.output_layers == ("rnn",)

    def call(x: Any) -> Any:
        with lowering.active():
            return model(x)

    samples = tf.constant(np.random.default_rng(0).normal(size=(1, 4, 8)), "float32")
    graph = tf.function(call, autograph=False).get_concrete_function(tf.TensorSpec((1, 4, 8)))
    np.testing.assert_allclose(np.asarray(graph(samples)), np.asarray(model(samples)), atol=1e-6)
    names = [node.name for node in graph.graph.as_graph_def().node]
    assert any(name.startswith("inner/deep_er/") for name in names)
    assert any(name.startswith("rnn/lstm_cell/") for name in names)


class Noisy(layers.Layer):  # type: ignore[misc]
    """Draws whenever it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds = keras.random.SeedGenerator(1)

    def call(self, x: Any) -> Any:
        return x + keras.random.normal(keras.ops.shape(x), seed=self.seeds)


def test_augmentation_counts_no_seeds() -> None:
    model = sequential((8, 8, 3), layers.RandomHue(0.1), layers.MixUp(), layers.RandAugment(), layers.Flatten())
    assert traced_operations(model)["AssignVariableOp"] == 0
    assert_exact(model)


def test_a_layer_of_the_users_own_may_use_what_it_draws() -> None:
    assert traced_operations(sequential((8, 8, 3), Noisy()))["AssignVariableOp"] == 1
