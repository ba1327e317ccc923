"""Maps that become small and large again, each joined with the one of its size, as U-Net (Ronneberger et al., 2015)."""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import conv, image
from keras import layers


def unet_128() -> Any:
    """Four halvings and 16 channels at first, on images of 128 x 128."""
    x = first = image(128)
    sides = []
    for channels in (16, 32, 64, 128):
        x = conv(conv(x, channels, 3), channels, 3)
        sides.append(x)
        x = layers.MaxPooling2D()(x)
    x = conv(conv(x, 256, 3), 256, 3)
    for side in reversed(sides):
        channels = side.shape[-1]
        x = layers.Concatenate()([side, layers.Conv2DTranspose(channels, 2, 2)(x)])
        x = conv(conv(x, channels, 3), channels, 3)
    return keras.Model(first, layers.Conv2D(1, 1, activation="sigmoid")(x))
