"""Inverted residual blocks that an architecture search chose: EfficientNet-Lite0 and MCUNet.

A block expands its channels, filters each of them, and projects them to fewer channels, to which it adds its input.
"""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import classifier, conv, depthwise, image
from keras import layers

# Expansion, channels, blocks, stride of the first one, kernel (Tan and Le, 2019; without squeeze and excitation).
LITE0 = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
# Expansion, channels, stride and kernel of each block: a network for visual wake words in the search space of MCUNet
# (Lin et al., 2020).
MCUNET = (
    (1, 8, 1, 3), (3, 16, 2, 7), (3, 16, 1, 3), (5, 16, 1, 3), (5, 16, 1, 5), (5, 24, 2, 5), (5, 24, 1, 5),
    (4, 24, 1, 5), (5, 40, 2, 7), (5, 40, 1, 7), (5, 40, 1, 5), (4, 48, 1, 5), (4, 48, 1, 3),
    (5, 96, 2, 5), (4, 96, 1, 3), (5, 160, 1, 3),
)  # fmt: skip


def _block(x: Any, expansion: int, channels: int, stride: int, kernel: int) -> Any:
    new = conv(x, expansion * x.shape[-1]) if expansion > 1 else x
    new = layers.ReLU(6)(layers.BatchNormalization()(depthwise(new, kernel, stride)))
    new = conv(new, channels, relu=False)
    return layers.Add()([x, new]) if x.shape == new.shape else new


def efficientnet_lite0_224() -> Any:
    """EfficientNet-Lite0 on images of 224 x 224."""
    first = image(224)
    x = conv(first, 32, 3, 2)
    for expansion, channels, count, stride, kernel in LITE0:
        for number in range(count):
            x = _block(x, expansion, channels, stride if number == 0 else 1, kernel)
    return keras.Model(first, classifier(conv(x, 1280), 1000))


def mcunet_vww_80() -> Any:
    """Two classes, on images of 80 x 80."""
    first = image(80)
    x = conv(first, 16, 3, 2)
    for expansion, channels, stride, kernel in MCUNET:
        x = _block(x, expansion, channels, stride, kernel)
    return keras.Model(first, classifier(x, 2))
