"""Layers as networks have them: the shapes, scales and zero points that decide which path of a kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from benchmarks.instructions.shapes import outputs
from tests.memory.account_net import Net

from edgetool.model.types import Model
from edgetool.operators.call import zero_point

CHANNELS = (1, 3, 4, 6, 8, 10, 12, 16, 16, 20, 24, 32, 40, 48, 64, 80, 96)
WINDOWS = ((1, 1), (1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (2, 2), (1, 5), (10, 4))
PRODUCTS = range(3_000, 250_000)
LOW = -128


def _input(net: Net, random: Random, *shape: int) -> int:
    return net.arena(*shape, scale=1 / 16, zero_point=random.choice((LOW, LOW, -3, 0, 12)))


def _activation(random: Random) -> tuple[int, str]:
    """Return the zero point of an output and its activation: RELU that starts at the lowest code, or none."""
    draw = random.random()
    if draw < 0.5:
        return LOW, "RELU"
    return (random.choice((-20, 0, 9)), "NONE") if draw < 0.9 else (-60, "RELU")


def _model(net: Net, inputs: list[int], code: str, shape: tuple[int, ...], random: Random, **values: Any) -> Model:
    """Return the model of one layer whose weights are the inputs after the first one."""
    zero, activation = _activation(random)
    y = net.op(
        code,
        inputs,
        *shape,
        scale=random.choice((1 / 16, 1 / 8, 1 / 3)),
        zero_point=zero,
        fused_activation_function=activation,
        **values,
    )
    return net.model([inputs[0]], [y])


def convolution(random: Random) -> Model:
    """Return a CONV_2D."""
    while True:
        side, depth, channels = random.randint(2, 24), random.choice(CHANNELS), random.choice(CHANNELS[2:])
        kernel, stride = random.choice(WINDOWS), random.choice((1, 1, 2))
        width = side if random.random() < 0.7 else random.randint(1, 24)
        padding = random.choice(("SAME", "SAME", "VALID"))
        size = [outputs(s, k, stride, 1, padding) for s, k in zip((side, width), kernel, strict=True)]
        if min(size) > 0 and size[0] * size[1] * kernel[0] * kernel[1] * depth * channels in PRODUCTS:
            break
    net = Net(random.randrange(2**30))
    x = _input(net, random, 1, side, width, depth)
    inputs = [x, net.noise(channels, *kernel, depth, axis=0), net.biases(channels, like=x)]
    return _model(
        net, inputs, "CONV_2D", (1, *size, channels), random, stride_h=stride, stride_w=stride, padding=padding
    )


def depthwise(random: Random) -> Model:
    """Return a DEPTHWISE_CONV_2D."""
    while True:
        side, width, channels = random.randint(3, 40), random.randint(2, 48), random.choice(CHANNELS)
        kernel, stride = random.choice(((3, 3), (3, 3), (3, 3), (5, 5), (7, 7), (3, 1))), random.choice((1, 1, 2))
        padding = random.choice(("SAME", "SAME", "VALID"))
        multiplier = random.choice((4, 8)) if channels == 1 else 1
        size = [outputs(s, k, stride, 1, padding) for s, k in zip((side, width), kernel, strict=True)]
        products = size[0] * size[1] * kernel[0] * kernel[1] * channels * multiplier
        if min(size) > 0 and products in PRODUCTS:
            break
    net = Net(random.randrange(2**30))
    x = _input(net, random, 1, side, width, channels)
    filters = channels * multiplier
    inputs = [x, net.noise(1, *kernel, filters, axis=3), net.biases(filters, like=x)]
    return _model(
        net,
        inputs,
        "DEPTHWISE_CONV_2D",
        (1, *size, filters),
        random,
        stride_h=stride,
        stride_w=stride,
        padding=padding,
        depth_multiplier=multiplier,
    )


def expansion(random: Random) -> Model:
    """Return a CONV_2D with one tap, and the DEPTHWISE_CONV_2D that reads it."""
    while True:
        side, width, depth, channels = (
            random.randint(3, 20),
            random.randint(2, 28),
            random.choice(CHANNELS),
            random.choice(CHANNELS[1:]),
        )
        kernel, stride = random.choice(((3, 3), (3, 3), (3, 3), (5, 5), (7, 7), (3, 1))), random.choice((1, 1, 2))
        padding = random.choice(("SAME", "SAME", "VALID"))
        size = [outputs(s, k, stride, 1, padding) for s, k in zip((side, width), kernel, strict=True)]
        products = size[0] * size[1] * kernel[0] * channels * (kernel[1] + min(stride, kernel[1]) * depth)
        if min(size) > 0 and products in PRODUCTS:
            break
    net = Net(random.randrange(2**30))
    x = _input(net, random, 1, side, width, depth)
    inputs = [x, net.noise(channels, 1, 1, depth, axis=0), net.biases(channels, like=x)]
    zero, activation = _activation(random)
    options = {"scale": random.choice((1 / 16, 1 / 8, 1 / 3)), "fused_activation_function": activation}
    strides = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}
    y = net.op("CONV_2D", inputs, 1, side, width, channels, zero_point=zero, **options, **strides)
    weights = [y, net.noise(1, *kernel, channels, axis=3), net.biases(channels, like=y)]
    zero, activation = _activation(random)
    strides = {"stride_h": stride, "stride_w": stride, "padding": padding, "depth_multiplier": 1}
    options = {"scale": random.choice((1 / 16, 1 / 8, 1 / 3)), "fused_activation_function": activation}
    z = net.op("DEPTHWISE_CONV_2D", weights, 1, *size, channels, zero_point=zero, **options, **strides)
    return net.model([x], [z])


def summed_convolution(random: Random) -> Model:
    """Return a CONV_2D with one tap, and the MEAN of all its pixels."""
    while True:
        side, width = random.randint(3, 9), random.randint(2, 12)
        depth, channels = random.choice(CHANNELS), random.choice(CHANNELS[2:])
        if side * width * depth * channels in PRODUCTS:
            break
    net = Net(random.randrange(2**30))
    x = _input(net, random, 1, side, width, depth)
    inputs = [x, net.noise(channels, 1, 1, depth, axis=0), net.biases(channels, like=x)]
    zero, activation = _activation(random)
    options = {"scale": random.choice((1 / 16, 1 / 8, 1 / 3)), "fused_activation_function": activation}
    y = net.op(
        "CONV_2D", inputs, 1, side, width, channels, zero_point=zero, stride_h=1, stride_w=1, padding="SAME", **options
    )
    z = net.op("MEAN", [y, net.constant((1, 2))], 1, channels, scale=1 / 16, zero_point=LOW, keep_dims=False)
    return net.model([x], [z])


def dense(random: Random) -> Model:
    """Return a FULLY_CONNECTED."""
    rows, depth = random.choice((1, 1, 1, 2, 7)), random.choice((*CHANNELS, 100, 128, 130, 256, 400, 640))
    units = random.choice((1, 2, 3, 4, 5, 10, 12, 17, 32, 64, 100, 128))
    net = Net(random.randrange(2**30))
    x = _input(net, random, rows, depth)
    axis = random.choice((None, 0))
    inputs = [x, net.noise(units, depth, axis=axis), net.biases(units, like=x)]
    return _model(net, inputs, "FULLY_CONNECTED", (rows, units), random)


def binary(random: Random) -> Model:
    """Return an ADD or MUL of two images."""
    shape = (1, random.randint(1, 16), random.randint(1, 16), random.choice(CHANNELS))
    net = Net(random.randrange(2**30))
    x, other = _input(net, random, *shape), net.arena(*shape, scale=random.choice((1 / 16, 1 / 11, 1 / 40)))
    zero, activation = _activation(random)
    code = random.choice(("ADD", "ADD", "MUL"))
    y = net.op(code, [x, other], *shape, scale=1 / 9, zero_point=zero, fused_activation_function=activation)
    return net.model([x, other], [y])


def pooling(random: Random) -> Model:
    """Return an AVERAGE_POOL_2D or MAX_POOL_2D, which often covers the image."""
    side, channels = random.randint(2, 20), random.choice(CHANNELS)
    kernel = side if random.random() < 0.4 else random.choice((2, 2, 3))
    stride = min(kernel, random.choice((1, 2, 2)))
    padding = random.choice(("SAME", "VALID"))
    size = outputs(side, kernel, stride, 1, padding)
    net = Net(random.randrange(2**30))
    x = _input(net, random, 1, side, side, channels)
    y = net.op(
        random.choice(("AVERAGE_POOL_2D", "MAX_POOL_2D")),
        [x],
        1,
        max(size, 1),
        max(size, 1),
        channels,
        zero_point=zero_point(net.tensors[x]),
        filter_height=kernel,
        filter_width=kernel,
        stride_h=stride,
        stride_w=stride,
        padding=padding,
        fused_activation_function="NONE",
    )
    return net.model([x], [y])


def softmax(random: Random) -> Model:
    """Return a SOFTMAX with the scale of logits."""
    net = Net(random.randrange(2**30))
    x = net.arena(
        random.choice((1, 1, 1, 4, 20)), random.choice((2, 3, 4, 10, 12, 20, 35, 100)), scale=random.uniform(0.04, 0.25)
    )
    y = net.op("SOFTMAX", [x], scale=1 / 256, zero_point=LOW, beta=1.0)
    return net.model([x], [y])


def mean(random: Random) -> Model:
    """Return a MEAN over the pixels of an image."""
    side, channels = random.randint(1, 16), random.choice(CHANNELS)
    net = Net(random.randrange(2**30))
    x = _input(net, random, 1, side, side, channels)
    y = net.op("MEAN", [x, net.constant([1, 2])], 1, channels, scale=1 / 20, zero_point=LOW, keep_dims=False)
    return net.model([x], [y])


LAYERS: Mapping[str, tuple[Callable[[Random], Model], int]] = {
    "binary": (binary, 30),
    "convolution": (convolution, 170),
    "dense": (dense, 90),
    "depthwise": (depthwise, 140),
    "mean": (mean, 15),
    "pooling": (pooling, 40),
    "softmax": (softmax, 25),
}


FINER = 512


def layer(kind: str, number: int) -> Model:
    """Return a layer of a kind; the same number gives the same layer on every machine."""
    return LAYERS[kind][0](Random(f"layer/{kind}/{number}"))


def with_fine_output(model: Model) -> Model:
    """Return a layer with an output scale so small that kernels round sums twice, as TFLM does."""
    (main,) = model.subgraphs
    (output,) = main.outputs
    quantization = main.tensors[output].quantization
    assert quantization is not None
    finer = replace(quantization, scales=tuple(scale / FINER for scale in quantization.scales))
    tensors = tuple(replace(item, quantization=finer) if item.index == output else item for item in main.tensors)
    return replace(model, subgraphs=(replace(main, tensors=tensors),))
