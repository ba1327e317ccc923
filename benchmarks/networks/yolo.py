"""Convolutions and maximum pooling in turn, as Tiny YOLOv2 (Redmon and Farhadi, 2017)."""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import conv, image
from keras import layers

BOXES, CLASSES = 5, 20


def _leaky(x: Any, channels: int) -> Any:
    return layers.LeakyReLU(negative_slope=0.1)(conv(x, channels, 3, relu=False))


def tiny_yolo_224() -> Any:
    """Twenty classes, on images of 224 x 224."""
    x = first = image(224)
    for channels in (16, 32, 64, 128, 256):
        x = layers.MaxPooling2D()(_leaky(x, channels))
    x = _leaky(_leaky(_leaky(x, 512), 1024), 1024)
    return keras.Model(first, layers.Conv2D(BOXES * (5 + CLASSES), 1)(x))
