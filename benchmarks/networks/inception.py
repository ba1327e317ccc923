"""Modules of parallel branches joined side by side, as InceptionV3 (Szegedy et al., 2016)."""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import classifier, conv, image
from keras import layers


def _pooled(x: Any) -> Any:
    return layers.AveragePooling2D(3, 1, padding="same")(x)


def _wide(x: Any, pool: int) -> Any:
    """1x1, 5x5, two 3x3 in a row, and a pool."""
    double = conv(conv(conv(x, 64), 96, 3), 96, 3)
    return layers.Concatenate()([conv(x, 64), conv(conv(x, 48), 64, 5), double, conv(_pooled(x), pool)])


def _factored(x: Any, channels: int) -> Any:
    """Convolutions of 1x7 and 7x1 in a row, two and four."""
    two = conv(conv(conv(x, channels), channels, (1, 7)), 192, (7, 1))
    four = conv(x, channels)
    for kernel in ((7, 1), (1, 7), (7, 1)):
        four = conv(four, channels, kernel)
    return layers.Concatenate()([conv(x, 192), two, conv(four, 192, (1, 7)), conv(_pooled(x), 192)])


def _split(x: Any) -> Any:
    """Branches that part once more into 1x3 and 3x1."""
    one, two = conv(x, 384), conv(conv(x, 448), 384, 3)
    parts = [conv(side, 384, kernel) for side in (one, two) for kernel in ((1, 3), (3, 1))]
    return layers.Concatenate()([conv(x, 320), *parts, conv(_pooled(x), 192)])


def _reduced(x: Any, *ends: Any) -> Any:
    return layers.Concatenate()([*ends, layers.MaxPooling2D(3, 2, padding="same")(x)])


def inception_192() -> Any:
    """The eleven modules of InceptionV3 on images of 192 x 192."""
    first = image(192)
    x = conv(conv(conv(first, 32, 3, 2), 32, 3), 64, 3)
    x = conv(conv(layers.MaxPooling2D(3, 2, padding="same")(x), 80), 192, 3)
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    for pool in (32, 64, 64):
        x = _wide(x, pool)
    x = _reduced(x, conv(x, 384, 3, 2), conv(conv(conv(x, 64), 96, 3), 96, 3, 2))
    for channels in (128, 160, 160, 192):
        x = _factored(x, channels)
    seven = conv(conv(conv(x, 192), 192, (1, 7)), 192, (7, 1))
    x = _reduced(x, conv(conv(x, 192), 320, 3, 2), conv(seven, 192, 3, 2))
    for _ in range(2):
        x = _split(x)
    return keras.Model(first, classifier(x, 100))
