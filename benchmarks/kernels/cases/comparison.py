"""Comparisons, logic and choice: equal shapes, single elements and broadcasts of every rank."""

from __future__ import annotations

from math import prod
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    BOOL,
    FLOAT32,
    INT8,
    TYPES,
    Shape,
    any_shape,
    broadcast_shapes,
    by_type,
    constant,
    finished,
    net_of,
    numbers,
    operand,
    quantized_like,
    scale,
)
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

ORDERED = ("float32", "int32", "int64", "int8")


def _few(net: Net, random: Random, dims: Shape, dtype: DType) -> int:
    """Add a constant of few different values, so that some elements of two such constants are equal."""
    if dtype is FLOAT32:
        return numbers(net, dims, (random.choice((-1.5, -0.0, 0.0, 1.5)) for _ in range(prod(dims))))
    if dtype is INT8:
        zero = random.choice((-1, 0, 1))
        scales = (random.choice((0.0625, 0.125, scale(random))),)
        return constant(net, random, dims, dtype, scales=scales, zero=zero, lowest=zero - 2, highest=zero + 2)
    low, high = (None, None) if dtype is BOOL else (-2, 1)
    return constant(net, random, dims, dtype, lowest=low, highest=high)


def _comparison(code: str, kind: str, random: Random) -> Model:
    """Comparisons and logic of two tensors."""
    net, dtype = net_of(random), TYPES[kind]
    (first, second), result = broadcast_shapes(random, 2)
    if random.random() < (0.6 if code in ("EQUAL", "NOT_EQUAL") else 0.3):
        inputs = [_few(net, random, dims, dtype) for dims in (first, second)]
    else:
        inputs = [operand(net, random, dims, dtype) for dims in (first, second)]
    net.give(code, inputs, [net.arena(*result, dtype=BOOL)])
    return finished(net)


def _negation(code: str, kind: str, random: Random) -> Model:
    net, dims = net_of(random), any_shape(random, lowest=0)
    x = net.arena(*dims, dtype=TYPES[kind])
    net.give(code, [x], [net.arena(*dims, dtype=TYPES[kind])])
    return finished(net)


def _select(code: str, kind: str, random: Random) -> Model:
    """SELECT_V2 between tensors that are quantized alike."""
    net, dtype = net_of(random), TYPES[kind]
    (condition, first, second), result = broadcast_shapes(random, 3)
    choice = operand(net, random, condition, BOOL)
    a = operand(net, random, first, dtype)
    b = quantized_like(net, a, second)
    net.give(code, [choice, a, b], [quantized_like(net, a, result)])
    return finished(net)


GENERATORS: Generators = {
    **by_type(_comparison, dict.fromkeys(("EQUAL", "NOT_EQUAL"), ("bool", *ORDERED))),
    **by_type(_comparison, dict.fromkeys(("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), ORDERED)),
    **by_type(_comparison, dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR"), ("bool",))),
    **by_type(_negation, {"LOGICAL_NOT": ("bool",)}),
    **by_type(_select, {"SELECT_V2": ("float32", "int8", "int16")}),
}
