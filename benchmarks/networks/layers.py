"""What all networks are made of, and how their batch normalisations come to values that keep activations alive."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers

# How far the statistics of a batch normalisation are from those of the samples that they were measured on.
MEAN_JITTER = 0.1
VARIANCE_JITTER = (0.7, 1.4)
SAMPLES = 2


def image(size: int) -> Any:
    """An input of one RGB image."""
    return keras.Input((size, size, 3))


def conv(x: Any, channels: int, kernel: int | tuple[int, int] = 1, stride: int = 1, *, relu: bool = True) -> Any:
    """Convolution, batch normalisation and, unless told otherwise, ReLU."""
    x = layers.Conv2D(channels, kernel, stride, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x) if relu else x


def depthwise(x: Any, kernel: int = 3, stride: int = 1, *, dilation: int = 1) -> Any:
    """Depthwise convolution alone."""
    return layers.DepthwiseConv2D(kernel, stride, padding="same", use_bias=False, dilation_rate=dilation)(x)


def separable(x: Any, channels: int, kernel: int = 3, stride: int = 1, *, dilation: int = 1) -> Any:
    """Depthwise convolution, convolution 1x1 and batch normalisation."""
    return conv(depthwise(x, kernel, stride, dilation=dilation), channels, relu=False)


def classifier(x: Any, classes: int) -> Any:
    """Average over the image, dense layer, softmax."""
    return layers.Dense(classes, activation="softmax")(layers.GlobalAveragePooling2D()(x))


def total(tensors: list[Any]) -> Any:
    """The sum of one or more tensors."""
    return tensors[0] if len(tensors) == 1 else layers.Add()(tensors)


def awaken(model: Any, seed: int) -> Any:
    """Give every batch normalisation the statistics of random images, a little off.

    With those of a fresh model, activations of a deep network vanish or explode, and no int8 scale can be had of them.
    """
    rng = np.random.default_rng(seed)
    norms = [layer for layer in model.layers if isinstance(layer, layers.BatchNormalization)]
    momentum = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0  # one run in training mode then sets them to its own statistics
    model(rng.standard_normal((SAMPLES, *model.input_shape[1:])).astype(np.float32), training=True)
    for layer, usual in zip(norms, momentum, strict=True):
        layer.momentum = usual
        mean, variance = layer.moving_mean.numpy(), layer.moving_variance.numpy()
        layer.moving_mean.assign(mean + MEAN_JITTER * np.sqrt(variance) * rng.standard_normal(mean.shape))
        layer.moving_variance.assign(variance * rng.uniform(*VARIANCE_JITTER, variance.shape) + 1e-3)
    return model
