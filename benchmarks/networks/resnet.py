"""Convolutions of 3x3 whose result is added to what they read, as ResNet (He et al., 2016)."""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import classifier, conv, image
from keras import layers


def _block(x: Any, channels: int, stride: int) -> Any:
    new = conv(conv(x, channels, 3, stride), channels, 3, relu=False)
    if x.shape != new.shape:
        x = conv(x, channels, 1, stride, relu=False)
    return layers.ReLU()(layers.Add()([x, new]))


def _small(count: int, widths: tuple[int, ...]) -> Any:
    """Three stages of `count` blocks on images of 32 x 32."""
    first = image(32)
    x = conv(first, widths[0], 3)
    for stage, channels in enumerate(widths):
        for number in range(count):
            x = _block(x, channels, 2 if stage > 0 and number == 0 else 1)
    return keras.Model(first, classifier(x, 10))


def resnet8_32() -> Any:
    """One block for each stage, as MLPerf Tiny's image classification."""
    return _small(1, (16, 32, 64))


def resnet56_32() -> Any:
    """Nine blocks for each stage, as for CIFAR-10."""
    return _small(9, (16, 32, 64))


def resnet18_224() -> Any:
    """Four stages of two blocks on images of 224 x 224."""
    first = image(224)
    x = layers.MaxPooling2D(3, 2, padding="same")(conv(first, 64, 7, 2))
    for channels in (64, 128, 256, 512):
        x = _block(x, channels, 1 if channels == 64 else 2)
        x = _block(x, channels, 1)
    return keras.Model(first, classifier(x, 1000))
