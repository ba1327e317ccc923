"""Layers that see all layers before them, side by side, as DenseNet-121 (Huang et al., 2017)."""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import classifier, conv, image
from keras import layers

GROWTH = 32


def _normalised(x: Any) -> Any:
    return layers.ReLU()(layers.BatchNormalization()(x))


def _dense_layer(x: Any) -> Any:
    new = layers.Conv2D(4 * GROWTH, 1, use_bias=False)(_normalised(x))
    new = layers.Conv2D(GROWTH, 3, padding="same", use_bias=False)(_normalised(new))
    return layers.Concatenate()([x, new])


def densenet121_224() -> Any:
    """Blocks of 6, 12, 24 and 16 layers on images of 224 x 224."""
    first = image(224)
    x = layers.MaxPooling2D(3, 2, padding="same")(conv(first, 64, 7, 2))
    for count in (6, 12, 24, 16):
        if count > 6:
            x = layers.Conv2D(x.shape[-1] // 2, 1, use_bias=False)(_normalised(x))
            x = layers.AveragePooling2D(2)(x)
        for _ in range(count):
            x = _dense_layer(x)
    return keras.Model(first, classifier(_normalised(x), 100))
