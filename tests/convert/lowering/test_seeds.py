"""Augmentation leaves nothing behind; what may draw random numbers outside training keeps its counter."""

from __future__ import annotations

from typing import Any

from tests.convert.lowering.lowered import assert_exact, keras, sequential, traced_operations

layers = keras.layers


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
