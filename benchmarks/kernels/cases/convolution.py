"""Convolutions: groups, dilations, batches, absent biases, rows of pixels, single channels."""

from __future__ import annotations

from functools import partial
from math import prod, sqrt
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    ACTIVATIONS,
    FLOAT32,
    INT4,
    INT8,
    INT16,
    activation,
    bias,
    filter_of,
    net_of,
    output_like,
    size,
)

from edgetool.model.types import DType, Model

# Types of the activations and of the weights.
TYPES: dict[str, tuple[DType, DType]] = {
    "int8": (INT8, INT8),
    "int8-int4": (INT8, INT4),
    "int16": (INT16, INT8),
    "float32": (FLOAT32, FLOAT32),
}
MAX_PRODUCTS = 30_000


def outputs(side: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    """Return the number of windows along an axis."""
    window = (kernel - 1) * dilation + 1
    return -(-side // stride) if padding == "SAME" else -(-(side - window + 1) // stride)


def _side(random: Random) -> int:
    return 1 if random.random() < 0.15 else size(random, 14)


def _conv(kind: str, random: Random) -> Model:
    dtype, weights_type = TYPES[kind]
    while True:
        batch = random.choice((1, 1, 1, 1, 2, 3))
        height, width = _side(random), _side(random)
        form = random.random()
        if form < 0.25:
            kernel = (1, 1)
        elif form < 0.4:
            height, kernel = 1, (1, size(random, 9))
        else:
            kernel = size(random, 5), size(random, 5)
        strides = random.choice(((1, 1), (1, 1), (2, 2), (1, 2), (2, 1), (3, 3), (1, 4)))
        dilations = random.choice(((1, 1), (1, 1), (1, 1), (1, 1), (2, 2), (1, 2), (2, 1), (3, 1)))
        groups = random.choice((1, 1, 1, 1, 1, 2, 2, 3, 4, 8))
        group_channels = size(random, 24 if groups == 1 else 8)
        units = size(random, 24 if groups == 1 else 6) * groups
        if kernel[0] == height == 1 and random.random() < 0.6:  # a row, of which Helium has a kernel of its own
            groups, group_channels, dilations = 1, random.choice((4, 4, 8)), (1, 1)
            width, kernel, strides = random.randint(6, 16), (1, random.randint(2, 6)), (1, random.choice((1, 2, 2, 3)))
        channels = group_channels * groups
        if random.random() < 0.06:
            kernel, height, width, channels, group_channels, groups = (3, 3), 3, 3, 70, 70, 1
        padding = random.choice(("SAME", "VALID"))
        sides = [outputs(*axis, padding) for axis in zip((height, width), kernel, strides, dilations, strict=True)]
        products = batch * prod(sides) * prod(kernel) * group_channels * units if min(sides) > 0 else 0
        if 0 < products <= MAX_PRODUCTS and batch * height * width * channels <= 4000:
            break
    net = net_of(random)
    x = activation(net, random, (batch, height, width, channels), dtype)
    dims = (units, *kernel, group_channels)
    weights, scales = filter_of(net, random, dims, weights_type, 0)
    inputs = [x, weights, *bias(net, random, units, x, scales, weights_type)]
    fused = random.choice(ACTIVATIONS)
    y = output_like(
        net, random, (batch, *sides, units), x, scales, sqrt(prod(kernel) * group_channels), weights_type, fused
    )
    net.give(
        "CONV_2D",
        inputs,
        [y],
        padding=padding,
        stride_h=strides[0],
        stride_w=strides[1],
        dilation_h_factor=dilations[0],
        dilation_w_factor=dilations[1],
        fused_activation_function=fused,
    )
    return net.model([x], [y])


def _depthwise(kind: str, random: Random) -> Model:
    dtype, weights_type = TYPES[kind]
    while True:
        batch = random.choice((1, 1, 1, 1, 2))
        height, width = _side(random), _side(random)
        kernel = random.choice(((3, 3), (3, 3), (1, 1), (size(random, 5), size(random, 5)), (1, 3), (3, 1)))
        strides = random.choice(((1, 1), (1, 1), (2, 2), (1, 2), (2, 1), (3, 3)))
        dilations = random.choice(((1, 1), (1, 1), (1, 1), (1, 1), (2, 2), (1, 2)))
        multiplier = random.choice((1, 1, 1, 1, 2, 3, 4, 8))
        channels = 1 if random.random() < 0.15 else size(random, 40 if random.random() < 0.8 else 140)
        padding = random.choice(("SAME", "VALID"))
        sides = [outputs(*axis, padding) for axis in zip((height, width), kernel, strides, dilations, strict=True)]
        products = batch * prod(sides) * prod(kernel) * channels * multiplier if min(sides) > 0 else 0
        if 0 < products <= MAX_PRODUCTS and batch * height * width * channels <= 4000:
            break
    units = channels * multiplier
    net = net_of(random)
    x = activation(net, random, (batch, height, width, channels), dtype)
    weights, scales = filter_of(net, random, (1, *kernel, units), weights_type, 3)
    inputs = [x, weights, *bias(net, random, units, x, scales, weights_type, wide=1)]
    fused = random.choice(ACTIVATIONS)
    y = output_like(net, random, (batch, *sides, units), x, scales, sqrt(prod(kernel)), weights_type, fused)
    net.give(
        "DEPTHWISE_CONV_2D",
        inputs,
        [y],
        padding=padding,
        stride_h=strides[0],
        stride_w=strides[1],
        depth_multiplier=multiplier,
        dilation_h_factor=dilations[0],
        dilation_w_factor=dilations[1],
        fused_activation_function=fused,
    )
    return net.model([x], [y])


def _transposed(kind: str, random: Random) -> Model:
    dtype, weights_type = TYPES[kind]
    while True:
        batch = random.choice((1, 1, 1, 1, 2))
        height, width = (1 if random.random() < 0.15 else size(random, 8) for _ in range(2))
        kernel = size(random, 6), size(random, 6)
        if random.random() < 0.5:
            kernel = kernel[0], kernel[0]
        strides = random.choice(((1, 1), (2, 2), (2, 2), (2, 2), (1, 2), (2, 1), (3, 3), (4, 4), (3, 2)))
        channels = size(random, 40) if random.random() < 0.7 else random.choice((15, 16, 17, 18, 24, 32))
        units = size(random, 20)
        padding = random.choice(("SAME", "VALID"))
        if padding == "SAME":
            sides = [
                side * step - random.choice((0, 0, 0, step - 1))
                for side, step in zip((height, width), strides, strict=True)
            ]
        else:
            sides = [
                (side - 1) * step + taps + random.choice((0, 0, 0, step - 1))
                for side, taps, step in zip((height, width), kernel, strides, strict=True)
            ]
        if batch * height * width * prod(kernel) * channels * units <= MAX_PRODUCTS and prod(sides) * units <= 4000:
            break
    net = net_of(random)
    x = activation(net, random, (batch, height, width, channels), dtype)
    weights, scales = filter_of(net, random, (units, *kernel, channels), weights_type, 0)
    dims = (batch, *sides, units)
    terms = prod(kernel) * channels / prod(strides)
    fused = random.choice(("NONE", "NONE", "NONE", "RELU"))
    y = output_like(net, random, dims, x, scales, sqrt(max(terms, 1)), weights_type, fused)
    inputs = [net.constant(dims), weights, x, *bias(net, random, units, x, scales, wide=1)]
    net.give(
        "TRANSPOSE_CONV",
        inputs,
        [y],
        padding=padding,
        stride_h=strides[0],
        stride_w=strides[1],
        fused_activation_function=fused,
    )
    return net.model([x], [y])


GENERATORS: Generators = {
    **{("CONV_2D", kind): partial(_conv, kind) for kind in TYPES},
    **{("DEPTHWISE_CONV_2D", kind): partial(_depthwise, kind) for kind in TYPES},
    **{("TRANSPOSE_CONV", kind): partial(_transposed, kind) for kind in ("int8", "int16", "float32")},
}
