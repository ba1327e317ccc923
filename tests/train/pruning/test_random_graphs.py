"""Random networks: whatever is removed, the rest computes what it did without it."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetool.convert.request import METHODS
from edgetool.train.pruning import prune
from tests.train.pruning.checks import assert_same, outputs, randomised, samples, zeroed_outputs
from tests.train.pruning.networks import keras, layers

SIDE = 4
ACTIVATIONS = [None, "relu", "tanh", "hard_swish", "sigmoid", "softmax", "elu"]
STEPS = [
    "convolution",
    "convolution",
    "normalization",
    "depthwise",
    "separable",
    "add",
    "multiply",
    "maximum",
    "concatenate",
    "stack",
    "gate",
    "activation",
    "slopes",
    "pool",
    "permute",
    "reshape",
    "again",
    "grouped",
    "frozen",
    "nested",
]


@st.composite
def networks(draw: st.DrawFn) -> Any:
    """A functional model of pictures of SIDE x SIDE; every tensor on the way can be used again."""
    keras.backend.clear_session()
    picture = keras.Input((SIDE, SIDE, 2))
    pool = [picture]
    convolutions: list[Any] = []
    activation = st.sampled_from(ACTIVATIONS)

    def tensor() -> Any:
        return pool[draw(st.integers(max(0, len(pool) - 4), len(pool) - 1))]

    for step in draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=10)):
        x = tensor()
        channels = x.shape[-1]
        same = [other for other in pool if other.shape == x.shape or other.shape[-1] == 1]
        other = same[draw(st.integers(0, len(same) - 1))]
        if step == "convolution":
            layer = layers.Conv2D(
                draw(st.integers(1, 5)), draw(st.sampled_from([1, 3])), padding="same", activation=draw(activation)
            )
            convolutions.append(layer)
            x = layer(x)
        elif step == "normalization":
            x = layers.BatchNormalization(scale=draw(st.booleans()), center=draw(st.booleans()))(x)
        elif step == "depthwise":
            x = layers.DepthwiseConv2D(
                3, padding="same", depth_multiplier=draw(st.integers(1, 2)), activation=draw(activation)
            )(x)
        elif step == "separable":
            x = layers.SeparableConv2D(draw(st.integers(2, 4)), 3, padding="same", depth_multiplier=2)(x)
        elif step == "add":
            x = layers.Add()([x, other])
        elif step == "multiply":
            x = layers.Multiply()([x, other])
        elif step == "maximum":
            x = keras.ops.maximum(x, other)
        elif step == "concatenate":
            x = layers.Concatenate()([x, tensor()])
        elif step == "stack":
            alike = [other for other in pool if other.shape == x.shape]
            joined = layers.Concatenate(axis=1)([x, alike[draw(st.integers(0, len(alike) - 1))]])
            x = layers.MaxPooling2D((2, 1))(joined)
        elif step == "gate":
            gate = layers.Dense(draw(st.integers(1, 4)), activation=draw(activation))(layers.GlobalMaxPooling2D()(x))
            gate = layers.Reshape((1, 1, channels))(layers.Dense(channels, activation="sigmoid")(gate))
            x = layers.Multiply()([x, gate])
        elif step == "activation":
            x = layers.Activation(draw(activation.filter(bool)))(x)
        elif step == "slopes":
            x = layers.PReLU(shared_axes=draw(st.sampled_from([None, [1, 2], [1]])))(x)
        elif step == "pool":
            x = layers.AveragePooling2D(3, 1, padding="same")(x)
        elif step == "permute":
            x = layers.Permute((2, 1, 3))(x)
        elif step == "reshape":
            x = layers.Reshape((SIDE, SIDE, channels))(layers.Reshape((-1, channels))(x))
        elif step == "again":
            fitting = [layer for layer in convolutions if layer.kernel.shape[2] == channels]
            x = fitting[draw(st.integers(0, len(fitting) - 1))](x) if fitting else x
        elif step == "grouped":
            x = layers.Conv2D(channels, 1, groups=channels)(x)
        elif step == "frozen":
            x = layers.LayerNormalization()(x)
        elif step == "nested":
            inside = keras.Input((SIDE, SIDE, channels))
            body = layers.Conv2D(3, 1)(layers.BatchNormalization()(inside))
            x = keras.Model(inside, layers.Concatenate()([inside, body]))(x)
        pool.append(x)
    heads = []
    for index in range(draw(st.integers(1, 2))):
        flat = draw(st.sampled_from([layers.Flatten, layers.GlobalAveragePooling2D]))()(pool[-1 - index])
        heads.append(layers.Dense(2)(layers.Dense(4, activation=draw(activation))(flat)))
    return randomised(keras.Model(picture, heads), seed=draw(st.integers(0, 9)))


@given(networks(), st.sampled_from(METHODS))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_pruning_a_random_network_is_setting_to_zero(model: Any, method: str) -> None:
    inputs = samples(model, count=6)
    found = [prune(keras, model, level, method=method) for level in (0.4, 0.8)]
    for pruned in found:
        assert_same(outputs(pruned.model, inputs), zeroed_outputs(model, pruned.removed, inputs), tolerance=1e-4)
        assert (pruned.parameters < model.count_params()) == bool(pruned.removed)
    for less, more in itertools.pairwise(found):
        assert all(set(channels) <= set(more.removed[layer]) for layer, channels in less.removed.items())
