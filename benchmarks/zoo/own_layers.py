"""A layer and an activation of somebody's own, as a --custom-objects module brings them."""

from __future__ import annotations

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="zoo")
def leaky_square(x: Any) -> Any:
    """Its square above zero, a tenth of it below."""
    return keras.ops.where(x > 0.0, x * x, 0.1 * x)


@keras.saving.register_keras_serializable(package="zoo")
class ChannelGate(keras.layers.Layer):
    """Each channel times a learned number between 0 and 1."""

    def build(self, input_shape: Any) -> None:
        """One number per channel."""
        self.strength = self.add_weight(shape=(input_shape[-1],), initializer="zeros", name="strength")
        self.built = True

    def call(self, x: Any) -> Any:
        """The gated input."""
        return x * keras.ops.sigmoid(self.strength)


@keras.saving.register_keras_serializable(package="zoo")
class Residual(keras.Model):
    """A subclassed model: two dense layers around a shortcut."""

    def __init__(self, units: int = 6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.widen = keras.layers.Dense(units, activation="relu")
        self.narrow = keras.layers.Dense(units)
        self.scores = keras.layers.Dense(3, activation="softmax")

    def build(self, input_shape: Any) -> None:
        """Build the layers, so that the file tells its inputs."""
        self.widen.build(input_shape)
        inner = (*input_shape[:-1], self.units)
        self.narrow.build(inner)
        self.scores.build(inner)
        self.built = True

    def call(self, x: Any) -> Any:
        """Scores of three classes."""
        y = self.widen(x)
        return self.scores(y + self.narrow(y))

    def get_config(self) -> dict[str, Any]:
        """What __init__ takes."""
        return {**super().get_config(), "units": self.units}
