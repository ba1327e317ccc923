"""Chains of depthwise and 1x1 convolutions, as MobileNetV1 (Howard et al., 2017), V2 and V3: hardly any freedom of
order.
"""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import classifier, conv, depthwise, image
from keras import layers

# Channels at full width, and stride, of each pair.
PAIRS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))


def _mobilenet(first: Any, width: float, classes: int) -> Any:
    x = conv(first, int(32 * width), 3, 2)
    for channels, stride in PAIRS:
        x = layers.ReLU()(layers.BatchNormalization()(depthwise(x, stride=stride)))
        x = conv(x, int(channels * width))
    return keras.Model(first, classifier(x, classes))


def mobilenet_025_128() -> Any:
    """A quarter of the channels, on images of 128 x 128."""
    return _mobilenet(image(128), 0.25, 10)


def mobilenet_100_224() -> Any:
    """All channels, on images of 224 x 224."""
    return _mobilenet(image(224), 1.0, 1000)


def person_detect_96() -> Any:
    """A quarter of the channels, on gray images of 96 x 96, as TFLM's person detection."""
    return _mobilenet(keras.Input((96, 96, 1)), 0.25, 2)


def mobilenet_v2_035_96() -> Any:
    """Keras' MobileNetV2 at 0.35 of its channels, on images of 96 x 96."""
    return keras.applications.MobileNetV2((96, 96, 3), alpha=0.35, weights=None, classes=2)


def mobilenet_v2_100_224() -> Any:
    """Keras' MobileNetV2 on images of 224 x 224."""
    return keras.applications.MobileNetV2((224, 224, 3), weights=None, classes=1000)


def mobilenet_v3_small_224() -> Any:
    """Keras' small MobileNetV3 (Howard et al., 2019) on images of 224 x 224."""
    return keras.applications.MobileNetV3Small((224, 224, 3), weights=None, include_preprocessing=False)
