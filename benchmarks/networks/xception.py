"""Separable convolutions with a way around each three of them, as Xception (Chollet, 2017)."""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import classifier, conv, image, separable
from keras import layers


def _reducing(x: Any, first: int, second: int, *, relu: bool = True) -> Any:
    side = conv(x, second, stride=2, relu=False)
    x = separable(layers.ReLU()(x) if relu else x, first)
    x = separable(layers.ReLU()(x), second)
    return layers.Add()([layers.MaxPooling2D(3, 2, padding="same")(x), side])


def _middle(x: Any) -> Any:
    side = x
    for _ in range(3):
        x = separable(layers.ReLU()(x), 728)
    return layers.Add()([x, side])


def xception_299() -> Any:
    """The whole network on images of 299 x 299."""
    first = image(299)
    x = conv(conv(first, 32, 3, 2), 64, 3)
    x = _reducing(x, 128, 128, relu=False)
    for channels in (256, 728):
        x = _reducing(x, channels, channels)
    for _ in range(8):
        x = _middle(x)
    x = _reducing(x, 728, 1024)
    for channels in (1536, 2048):
        x = layers.ReLU()(separable(x, channels))
    return keras.Model(first, classifier(x, 100))
