"""Arithmetic without a kernel in CMSIS-NN: equal shapes, single elements and broadcasts of every rank."""

from __future__ import annotations

from math import prod
from random import Random
from struct import pack

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    ACTIVATIONS,
    INT8,
    INT32,
    TYPES,
    Shape,
    any_shape,
    broadcast_shapes,
    by_type,
    constant,
    finished,
    net_of,
    operand,
    rescaled,
    scale,
    size,
    zero_point,
)
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

FUSED = ("DIV", "SUB")  # operators with a fused activation


def _divisors(net: Net, random: Random, dims: Shape, dtype: DType) -> int:
    """Add a constant without a zero; nor does int32 contain -1, by which the lowest number cannot be divided."""
    count = prod(dims)
    if dtype is INT8:
        zero = zero_point(random, dtype)
        codes = [code for code in range(-128, 128) if code != zero]
        data = pack(f"<{count}b", *random.choices(codes, k=count))
        return net.tensor(dims, dtype, data=data, scales=(scale(random),), zero_point=zero)
    values = (size(random, 2**31 - 1, 2) * random.choice((-1, 1)) for _ in range(count))
    data = pack(f"<{count}i", *(1 if random.random() < 0.1 else value for value in values))
    return net.tensor(dims, dtype, data=data)


def _binary(code: str, kind: str, random: Random) -> Model:
    """Operators on two tensors; an integer divisor is a constant."""
    net, dtype = net_of(random), TYPES[kind]
    (first, second), result = broadcast_shapes(random, 2)
    a = operand(net, random, first, dtype)
    divides = code == "DIV" and dtype in (INT8, INT32)
    b = _divisors(net, random, second, dtype) if divides else operand(net, random, second, dtype)
    y = _result(net, random, code, a, b, result)
    options = {"fused_activation_function": random.choice(ACTIVATIONS)} if code in FUSED else {}
    net.give(code, [a, b], [y], **options)
    return finished(net)


def _result(net: Net, random: Random, code: str, first: int, second: int, dims: Shape) -> int:
    """Add the result; its scale is such that few numbers saturate."""
    quantized = [net.tensors[index].quantization for index in (first, second)]
    if quantized[0] is None or quantized[1] is None:
        return rescaled(net, random, first, dims)
    a, b = (quantization.scales[0] for quantization in quantized if quantization is not None)
    levels = 128 if net.tensors[first].dtype is INT8 else 32768
    factor = {
        "DIV": random.choice((0.02, 0.2)) / b,
        "SQUARED_DIFFERENCE": max(a, b) ** 2 * levels / a,
        "SUB": 1 + b / a,
    }
    return rescaled(net, random, first, dims, factor[code])


def _sum(code: str, kind: str, random: Random) -> Model:
    """ADD_N of two tensors to nine, some of them the same or constant; those of int8 are quantized alike."""
    net, dtype, dims = net_of(random), TYPES[kind], any_shape(random, lowest=0)
    own, zero = (scale(random), zero_point(random, dtype)) if dtype is INT8 else (None, 0)
    addends = [net.arena(*dims, dtype=dtype, scale=own, zero_point=zero)]
    for _ in range(size(random, 8)):
        form = random.random()
        if form < 0.1:
            addends.append(addends[0])
        elif form < 0.25:
            addends.append(constant(net, random, dims, dtype, scales=(own,) if own else (), zero=zero))
        else:
            addends.append(net.arena(*dims, dtype=dtype, scale=own, zero_point=zero))
    net.give(code, addends, [rescaled(net, random, addends[0], dims, len(addends) ** 0.5)])
    return finished(net)


GENERATORS: Generators = {
    **by_type(
        _binary,
        {
            "DIV": ("float32", "int32", "int8"),
            "FLOOR_DIV": ("float32",),
            "FLOOR_MOD": ("float32",),
            "SQUARED_DIFFERENCE": ("float32", "int32", "int8", "int16"),
            "SUB": ("float32", "int32", "int8", "int16"),
        },
    ),
    **by_type(_sum, {"ADD_N": ("float32", "int8")}),
}
