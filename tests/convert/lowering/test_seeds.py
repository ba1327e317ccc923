"""Augmentation leaves nothing behind; what may draw random numbers outside training keeps its counter."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.convert.lowering.lowered import assert_exact, keras, plan, sequential, tf

layers = keras.layers


class Noisy(layers.Layer):  # type: ignore[misc]
    """Draws whenever it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds = keras.random.SeedGenerator(1)

    def call(self, x: Any) -> Any:
        return x + keras.random.normal(keras.ops.shape(x), seed=self.seeds)


def _traced(model: Any) -> Counter[str]:
    lowering = plan(model)

    def call(x: Any) -> Any:
        with lowering.active():
            return model(x, training=False)

    graph = tf.function(call, autograph=False).get_concrete_function(tf.TensorSpec((1, 8, 8, 3))).graph
    return Counter(operation.type for operation in graph.get_operations())


def test_augmentation_counts_no_seeds() -> None:
    model = sequential((8, 8, 3), layers.RandomHue(0.1), layers.MixUp(), layers.RandAugment(), layers.Flatten())
    assert _traced(model)["AssignVariableOp"] == 0
    assert_exact(model)


def test_a_layer_of_the_users_own_may_use_what_it_draws() -> None:
    assert _traced(sequential((8, 8, 3), Noisy()))["AssignVariableOp"] == 1
