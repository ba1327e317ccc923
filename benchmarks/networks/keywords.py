"""Depthwise separable convolutions on a spectrogram, as DS-CNN (Zhang et al., 2017)."""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import classifier, conv, depthwise
from keras import layers


def ds_cnn_49() -> Any:
    """The small one: 49 frames of 10 coefficients, 64 channels, 12 keywords."""
    first = keras.Input((49, 10, 1))
    x = conv(first, 64, (10, 4), 2)
    for _ in range(4):
        x = conv(layers.ReLU()(layers.BatchNormalization()(depthwise(x))), 64)
    return keras.Model(first, classifier(x, 12))
