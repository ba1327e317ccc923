"""A chain of depthwise and 1x1 convolutions, as MobileNetV1: hardly any freedom of order."""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import classifier, conv, depthwise, image
from keras import layers

# Channels at full width, and stride, of each pair.
PAIRS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))


def mobilenet_025_128() -> Any:
    """A quarter of the channels, on images of 128 x 128."""
    x = first = image(128)
    x = conv(x, 8, 3, 2)
    for channels, stride in PAIRS:
        x = layers.ReLU()(layers.BatchNormalization()(depthwise(x, stride=stride)))
        x = conv(x, channels // 4)
    return keras.Model(first, classifier(x, 10))
