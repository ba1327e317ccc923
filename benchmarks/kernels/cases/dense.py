"""FULLY_CONNECTED and BATCH_MATMUL: scales per tensor and per channel, zero points, absent biases, operands turned."""

from __future__ import annotations

from functools import partial
from math import prod, sqrt
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.convolution import TYPES
from benchmarks.kernels.cases.drawing import (
    ACTIVATIONS,
    FLOAT32,
    INT8,
    activation,
    bias,
    constant,
    filter_of,
    net_of,
    output_like,
    size,
)

from edgetool.model.types import Model

MAX_PRODUCTS = 30_000


def _dense(kind: str, random: Random) -> Model:
    dtype, weights_type = TYPES[kind]
    while True:
        rank = random.choice((1, 2, 2, 2, 2, 3, 4))
        front = tuple(size(random, 6) for _ in range(rank - 1))
        if random.random() < 0.4:
            front = (1,) * len(front)
        depth = size(random, 700 if random.random() < 0.2 else 80)
        units = size(random, 40)
        if prod(front) * depth * units <= MAX_PRODUCTS:
            break
    net = net_of(random)
    x = activation(net, random, (*front, depth), dtype)
    dims = (units, depth)
    moving = kind == "int8" and random.random() < 0.1
    if kind == "int8" and (moving or random.random() < 0.2):
        # Weights with a zero point, which only dense kernels subtract.
        scales: tuple[float, ...] = (1 / 128,)
        zero = random.choice((0, 3, -20, random.randint(-128, 127)))
        weights = (
            net.arena(*dims, scale=scales[0], zero_point=zero)
            if moving
            else constant(net, random, dims, INT8, scales=scales, zero=zero)
        )
    else:
        per_channel = 0.3 if kind in ("int8", "int16") else 0
        weights, scales = filter_of(net, random, dims, weights_type, 0, per_channel=per_channel)
    values = bias(net, random, units, x, scales, weights_type, wide=1)
    keep = rank > 2 or random.random() < 0.2
    result = (*front, units) if keep else (prod(front), units)
    fused = random.choice(ACTIVATIONS)
    y = output_like(net, random, result, x, scales, sqrt(depth), weights_type, fused)
    net.give(
        "FULLY_CONNECTED",
        [x, weights, *(values or (-1,))],
        [y],
        keep_num_dims=keep,
        fused_activation_function=fused,
    )
    return net.model([x, weights] if moving else [x], [y])


def _product(kind: str, random: Random) -> Model:
    dtype = TYPES[kind][0]
    while True:
        rank = random.choice((2, 3, 3, 4, 5))
        batches = tuple(size(random, 4) for _ in range(rank - 2))
        other = batches
        if batches and random.random() < 0.35:  # a batch that is broadcast
            other = tuple(1 if random.random() < 0.5 else side for side in batches)
            if random.random() < 0.4:
                other = other[random.randrange(len(other) + 1) :]
        rows, depth, columns = size(random, 12), size(random, 60), size(random, 20)
        if prod(batches) * rows * depth * columns <= MAX_PRODUCTS:
            break
    adj_x, adj_y = random.random() < 0.35, random.random() < 0.5
    left, right = (depth, rows) if adj_x else (rows, depth), (columns, depth) if adj_y else (depth, columns)
    net = net_of(random)
    first, second = (*batches, *left), (*other, *right)
    if random.random() < 0.3:
        first, second = (*other, *left), (*batches, *right)
    a, b = activation(net, random, first, dtype), activation(net, random, second, dtype)
    inputs = [a, b]
    if random.random() < 0.25:
        quantization = net.tensors[b].quantization
        b = constant(
            net,
            random,
            second,
            dtype,
            scales=() if quantization is None else quantization.scales,
            zero=0 if quantization is None else quantization.zero_points[0],
        )
        inputs = [a]
    scales = () if dtype is FLOAT32 else tuple(_scales(net.tensors[b].quantization))
    y = output_like(net, random, (*batches, rows, columns), a, scales, sqrt(depth) * (1 if dtype is INT8 else 250))
    net.give("BATCH_MATMUL", [a, b], [y], adj_x=adj_x, adj_y=adj_y, asymmetric_quantize_inputs=False)
    return net.model(inputs, [y])


def _scales(quantization: object) -> tuple[float, ...]:
    return getattr(quantization, "scales", ())


GENERATORS: Generators = {
    **{("FULLY_CONNECTED", kind): partial(_dense, kind) for kind in TYPES},
    **{("BATCH_MATMUL", kind): partial(_product, kind) for kind in ("int8", "int16", "float32")},
}
