"""Cells that an architecture search found: the second-order genotype of DARTS (Liu et al., 2019).

A cell has two inputs, the outputs of the two cells before it, and four nodes; each node adds two operations on inputs
or earlier nodes, and the cell's output is all four, side by side.
"""

from __future__ import annotations

from typing import Any

import keras
from benchmarks.networks.layers import classifier, conv, image, separable
from keras import layers

# Operation and source (0 and 1: the cell's inputs, then its nodes), two for each node.
NORMAL = (
    ("separable", 0), ("separable", 1), ("separable", 0), ("separable", 1),
    ("separable", 1), ("skip", 0), ("skip", 0), ("dilated", 2),
)  # fmt: skip
REDUCING = (
    ("max", 0), ("max", 1), ("skip", 2), ("max", 1),
    ("max", 0), ("skip", 2), ("skip", 2), ("max", 1),
)  # fmt: skip


def _relu_conv(x: Any, channels: int, stride: int = 1) -> Any:
    return conv(layers.ReLU()(x), channels, stride=stride, relu=False)


def _operation(kind: str, x: Any, channels: int, stride: int) -> Any:
    if kind == "skip":
        return x if stride == 1 else _relu_conv(x, channels, stride)
    if kind == "max":
        return layers.MaxPooling2D(3, stride, padding="same")(x)
    if kind == "dilated":
        return separable(layers.ReLU()(x), channels, dilation=2)
    x = separable(layers.ReLU()(x), channels, stride=stride)
    return separable(layers.ReLU()(x), channels)


def _cell(before: Any, last: Any, channels: int, *, reduces: bool, halved: bool) -> Any:
    """halved: the cell before this one reduced, so that its inputs differ in size."""
    states = [_relu_conv(before, channels, 2 if halved else 1), _relu_conv(last, channels)]
    genotype = REDUCING if reduces else NORMAL
    for pair in zip(genotype[::2], genotype[1::2], strict=True):
        sides = [
            _operation(kind, states[source], channels, 2 if reduces and source < 2 else 1) for kind, source in pair
        ]
        states.append(layers.Add()(sides))
    return layers.Concatenate()(states[2:])


def _cells(before: Any, last: Any, channels: int, count: int, *, halved: bool) -> Any:
    """Cells in a row, of which those at one and two thirds reduce and double the channels."""
    for index in range(count):
        reduces = index in (count // 3, 2 * count // 3)
        channels *= 2 if reduces else 1
        before, last = last, _cell(before, last, channels, reduces=reduces, halved=halved)
        halved = reduces
    return last


def cifar() -> Any:
    """Eight cells on images of 32 x 32."""
    first = image(32)
    x = conv(first, 48, 3, relu=False)
    return keras.Model(first, classifier(_cells(x, x, 16, 8, halved=False), 10))


def imagenet() -> Any:
    """Fourteen cells on images of 224 x 224."""
    first = image(224)
    before = conv(conv(first, 24, 3, 2), 48, 3, 2, relu=False)
    last = conv(layers.ReLU()(before), 48, 3, 2, relu=False)
    return keras.Model(first, classifier(_cells(before, last, 48, 14, halved=True), 100))
