"""Halves of the channels that are exchanged after each unit, as ShuffleNetV2 (Ma et al., 2018)."""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import classifier, conv, depthwise, image
from keras import layers


def _shuffled(x: Any) -> Any:
    _, height, width, channels = x.shape
    x = layers.Reshape((height, width, 2, channels // 2))(x)
    return layers.Reshape((height, width, channels))(layers.Permute((1, 2, 4, 3))(x))


def _branch(x: Any, channels: int, stride: int) -> Any:
    x = layers.BatchNormalization()(depthwise(conv(x, channels), stride=stride))
    return conv(x, channels)


def _unit(x: Any) -> Any:
    half = x.shape[-1] // 2
    kept, changed = x[..., :half], x[..., half:]
    return _shuffled(layers.Concatenate()([kept, _branch(changed, half, 1)]))


def _reducing_unit(x: Any, channels: int) -> Any:
    side = conv(layers.BatchNormalization()(depthwise(x, stride=2)), channels // 2)
    return _shuffled(layers.Concatenate()([side, _branch(x, channels // 2, 2)]))


def shufflenet_v2_224() -> Any:
    """ShuffleNetV2 at half of its channels on images of 224 x 224."""
    first = image(224)
    x = layers.MaxPooling2D(3, 2, padding="same")(conv(first, 24, 3, 2))
    for channels, count in ((48, 3), (96, 7), (192, 3)):
        x = _reducing_unit(x, channels)
        for _ in range(count):
            x = _unit(x)
    return keras.Model(first, classifier(conv(x, 1024), 1000))
