"""Pooling, SOFTMAX, PAD, TRANSPOSE and recurrent layers: the other operators with kernels in CMSIS-NN."""

from __future__ import annotations

from functools import partial
from math import prod, sqrt
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.convolution import outputs
from benchmarks.kernels.cases.drawing import (
    ACTIVATIONS,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    INT64,
    TYPES,
    activation,
    constant,
    net_of,
    quantized_like,
    shape,
    size,
    zero_point,
)

from edgetool.model.types import Model


def _pool(code: str, kind: str, random: Random) -> Model:
    dtype = TYPES[kind]
    while True:
        batch = random.choice((1, 1, 1, 2, 3))
        height, width = (1 if random.random() < 0.15 else size(random, 16) for _ in range(2))
        channels = 1 if random.random() < 0.15 else size(random, 40)
        window = random.choice(((2, 2), (3, 3), (size(random, 8), size(random, 8)), (height, width), (1, 1)))
        strides = random.choice((window, (1, 1), (2, 2), (1, 2), (2, 1), (3, 3)))
        padding = random.choice(("SAME", "VALID"))
        sides = [
            outputs(side, taps, step, 1, padding)
            for side, taps, step in zip((height, width), window, strides, strict=True)
        ]
        if min(sides) > 0 and batch * height * width * channels <= 4000 and prod(sides) * batch * channels <= 4000:
            break
    net = net_of(random)
    x = activation(net, random, (batch, height, width, channels), dtype)
    y = quantized_like(net, x, (batch, *sides, channels))
    net.give(
        code,
        [x],
        [y],
        padding=padding,
        stride_h=strides[0],
        stride_w=strides[1],
        filter_height=window[0],
        filter_width=window[1],
        fused_activation_function=random.choice(ACTIVATIONS),
    )
    return net.model([x], [y])


def _softmax(kind: str, random: Random) -> Model:
    source, _, target = kind.partition("-")
    dtype, result = TYPES[source], TYPES[target or source]
    dims = shape(random, random.choice((1, 2, 2, 3, 4)), 600)
    if random.random() < 0.12:
        dims = (*dims[:-1], 1)
    net = net_of(random)
    x = activation(net, random, dims, dtype)
    if dtype is FLOAT32:
        y = net.arena(*dims, dtype=dtype)
    elif result is INT8:
        y = net.arena(*dims, dtype=INT8, scale=1 / 256, zero_point=-128)
    elif source == "int8":
        y = net.arena(*dims, dtype=INT16, scale=1 / 65536, zero_point=-32768)
    else:
        y = net.arena(*dims, dtype=INT16, scale=1 / 32768)
    net.give("SOFTMAX", [x], [y], beta=random.choice((1.0, 1.0, 0.5, 2.0)))
    return net.model([x], [y])


def _pad(code: str, kind: str, random: Random) -> Model:
    dtype = TYPES[kind]
    while True:
        dims = shape(random, random.choice((1, 2, 3, 4, 4, 4)), 300)
        pads = [(0, 0) if random.random() < 0.4 else (random.randrange(4), random.randrange(4)) for _ in dims]
        result = tuple(side + before + after for side, (before, after) in zip(dims, pads, strict=True))
        if prod(result) <= 4000:
            break
    net = net_of(random)
    x = activation(net, random, dims, dtype)
    y = quantized_like(net, x, result)
    inputs = [x, net.constant([amount for pair in pads for amount in pair], len(dims), 2)]
    if code == "PADV2":
        own = net.tensors[x].quantization
        inputs.append(
            constant(
                net,
                random,
                (1,),
                dtype,
                scales=() if own is None else own.scales,
                zero=0 if own is None else own.zero_points[0],
            )
        )
    net.give(code, inputs, [y])
    return net.model([x], [y])


def _transpose(kind: str, random: Random) -> Model:
    dtype = TYPES[kind]
    rank = random.choice((1, 2, 2, 3, 3, 4, 4, 5, 6))
    dims = shape(random, rank, 600)
    order = list(range(rank))
    if random.random() < 0.85:
        random.shuffle(order)
    net = net_of(random)
    x = activation(net, random, dims, dtype)
    y = quantized_like(net, x, [dims[axis] for axis in order])
    net.give("TRANSPOSE", [x, net.constant(order)], [y])
    return net.model([x], [y])


def _svdf(kind: str, random: Random) -> Model:
    float32 = kind == "float32"
    inner = FLOAT32 if float32 else INT16 if kind == "int8-int16" else INT8
    batch, depth = random.choice((1, 1, 1, 2, 4)), size(random, 60)
    rank = random.choice((1, 1, 2, 2, 3, 5))
    units, memory = size(random, 16), size(random, 20)
    filters = units * rank
    net = net_of(random)
    if float32:
        x = net.arena(batch, depth, dtype=FLOAT32)
        weights = [constant(net, random, dims, FLOAT32) for dims in ((filters, depth), (filters, memory), (units,))]
        state = net.arena(batch, memory * filters, dtype=FLOAT32, is_variable=True)
        y = net.arena(batch, units, dtype=FLOAT32)
    else:
        x = activation(net, random, (batch, depth), INT8)
        own = net.tensors[x].quantization
        assert own is not None
        feature = constant(net, random, (filters, depth), INT8, scales=(1 / 128,), lowest=-127)
        deviation = own.scales[0] / 128 * 74 * 73 * sqrt(depth)
        state_scale = deviation / (9000 if inner is INT16 else 45)
        time_scale = 1 / (32768 if inner is INT16 else 128)
        time = constant(net, random, (filters, memory), inner, scales=(time_scale,))
        bias_scale = state_scale * time_scale
        limit = 3_000_000 if inner is INT16 else 3000
        values = constant(net, random, (units,), INT32, scales=(bias_scale,), lowest=-limit, highest=limit)
        weights = [feature, time, values if random.random() < 0.8 else -1]
        zero = 0 if inner is INT16 else random.choice((0, zero_point(random, INT8)))
        state = net.arena(batch, memory * filters, dtype=inner, scale=state_scale, zero_point=zero, is_variable=True)
        y = net.arena(
            batch, units, dtype=INT8, scale=deviation / 60 * sqrt(rank) * 0.6, zero_point=zero_point(random, INT8)
        )
    net.give("SVDF", [x, *weights, state], [y], rank=rank, fused_activation_function=random.choice(("NONE", "RELU")))
    return net.model([x], [y])


def _lstm(kind: str, random: Random) -> Model:
    dtype = TYPES[kind]
    batch, steps = random.choice((1, 1, 2, 3)), size(random, 5)
    depth, units = size(random, 30), size(random, 20)
    major = random.random() < 0.3
    net = net_of(random)
    front = (steps, batch) if major else (batch, steps)
    weights_type, bias_type = {INT8: (INT8, INT32), INT16: (INT8, INT64), FLOAT32: (FLOAT32, FLOAT32)}[dtype]
    x = activation(net, random, (*front, depth), dtype)
    own = net.tensors[x].quantization
    hidden_scale = 1 / 128 if dtype is INT8 else 1 / 32768
    weight_scale = random.uniform(0.3, 1) / 128
    scales = () if dtype is FLOAT32 else (weight_scale,)
    lowest = -127 if weights_type is INT8 else None
    matrices = [
        constant(net, random, (units, columns), weights_type, scales=scales, lowest=lowest)
        for columns in (*[depth] * 4, *[units] * 4)
    ]
    limit = 20_000 if dtype is INT8 else 2_000_000
    bias_scale = () if own is None else (own.scales[0] * weight_scale,)
    limits = {} if dtype is FLOAT32 else {"lowest": -limit, "highest": limit}
    biases = [constant(net, random, (units,), bias_type, scales=bias_scale, **limits) for _ in range(4)]
    cell = FLOAT32 if dtype is FLOAT32 else INT16
    hidden_zero = zero_point(random, dtype) if random.random() < 0.4 else 0
    hidden = (
        net.arena(batch, units, dtype=FLOAT32, is_variable=True)
        if dtype is FLOAT32
        else net.arena(batch, units, dtype=dtype, scale=hidden_scale, zero_point=hidden_zero, is_variable=True)
    )
    state = net.arena(
        batch,
        units,
        dtype=cell,
        scale=None if cell is FLOAT32 else 2.0 ** -random.choice((11, 12, 13)),
        is_variable=True,
    )
    inputs = [x, *matrices, *[-1] * 3, *biases, *[-1] * 2, hidden, state, *[-1] * 4]
    y = quantized_like(net, hidden, (*front, units))
    net.give(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        [y],
        fused_activation_function="TANH",
        time_major=major,
        cell_clip=random.choice((10.0, 10.0, 0.0, 1.0)),
        proj_clip=0.0,
    )
    return net.model([x], [y])


THREE = ("int8", "int16", "float32")
GENERATORS: Generators = {
    **{(code, kind): partial(_pool, code, kind) for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D") for kind in THREE},
    **{("SOFTMAX", kind): partial(_softmax, kind) for kind in (*THREE, "int8-int16")},
    **{(code, kind): partial(_pad, code, kind) for code in ("PAD", "PADV2") for kind in (*THREE, "int32")},
    **{("TRANSPOSE", kind): partial(_transpose, kind) for kind in THREE},
    **{("SVDF", kind): partial(_svdf, kind) for kind in ("int8", "int8-int16", "float32")},
    **{("UNIDIRECTIONAL_SEQUENCE_LSTM", kind): partial(_lstm, kind) for kind in THREE},
}
