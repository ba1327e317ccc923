"""1x1 convolutions to few channels, then 1x1 and 3x3 side by side, as SqueezeNet 1.1 (Iandola et al., 2016)."""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import conv, image
from keras import layers


def _fire(x: Any, squeezed: int, expanded: int) -> Any:
    x = conv(x, squeezed)
    return layers.Concatenate()([conv(x, expanded), conv(x, expanded, 3)])


def squeezenet_224() -> Any:
    """Eight modules on images of 224 x 224."""
    first = image(224)
    x = layers.MaxPooling2D(3, 2)(conv(first, 64, 3, 2))
    x = layers.MaxPooling2D(3, 2)(_fire(_fire(x, 16, 64), 16, 64))
    x = layers.MaxPooling2D(3, 2)(_fire(_fire(x, 32, 128), 32, 128))
    for squeezed in (48, 48, 64, 64):
        x = _fire(x, squeezed, 4 * squeezed)
    x = layers.GlobalAveragePooling2D()(conv(x, 1000))
    return keras.Model(first, layers.Softmax()(x))
