"""Operators that enlarge or fill a tensor, without PAD."""

from __future__ import annotations

from math import prod
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    ANY,
    ELEMENTS,
    INT8,
    INT16,
    INT32,
    INT64,
    TYPES,
    activation,
    any_shape,
    by_type,
    finished,
    net_of,
    operand,
    quantized_like,
)

from edgetool.model.types import Model

MAX_BROADCAST_RANK = 5


def _mirror(code: str, kind: str, random: Random) -> Model:
    """MIRROR_PAD in both modes, up to the longest border that a side allows."""
    mode = random.choice(("REFLECT", "SYMMETRIC"))
    while True:
        dims = any_shape(random, 5, elements=150)
        widest = [side - (mode == "REFLECT") for side in dims]
        around = [
            (0, 0) if random.random() < 0.3 else (random.randint(0, most), random.randint(0, most)) for most in widest
        ]
        made = [side + before + after for side, (before, after) in zip(dims, around, strict=True)]
        if prod(made) <= ELEMENTS:
            break
    net = net_of(random)
    x = activation(net, random, dims, TYPES[kind])
    border = [width for pair in around for width in pair]
    given = net.constant(border, len(dims), 2, dtype=random.choice((INT32, INT64)))
    net.give(code, [x, given], [quantized_like(net, x, made)], mode=mode)
    return finished(net)


def _broadcast(code: str, kind: str, random: Random) -> Model:
    """BROADCAST_TO along inner, outer and several axes, or none."""
    net, made = net_of(random), any_shape(random, MAX_BROADCAST_RANK)
    dims = made[random.choice((0, random.randint(0, len(made)))) :]
    share = random.choice((0.0, 0.4, 0.8))
    dims = tuple(1 if random.random() < share else side for side in dims)
    x = activation(net, random, dims, TYPES[kind])
    given = net.constant(made, dtype=random.choice((INT32, INT64)))
    net.give(code, [x, given], [quantized_like(net, x, made)])
    return finished(net)


def _fill(code: str, kind: str, random: Random) -> Model:
    """FILL with an input or a constant; its shape is of any integer type."""
    net, dtype, made = net_of(random), TYPES[kind], any_shape(random)
    fitting = [INT16, INT32, INT64] if max(made) > 127 else [INT8, INT16, INT32, INT64]
    value = operand(net, random, (), dtype, share=0.4)
    inputs = [net.constant(made, dtype=random.choice(fitting)), value]
    net.give(code, inputs, [quantized_like(net, value, made)])
    return finished(net)


def _zeros(code: str, kind: str, random: Random) -> Model:
    """ZEROS_LIKE, which writes zero bytes whatever the zero point."""
    net, dims = net_of(random), any_shape(random, lowest=0)
    x = activation(net, random, dims, TYPES[kind])
    net.give(code, [x], [quantized_like(net, x, dims)])
    return finished(net)


GENERATORS: Generators = {
    **by_type(_mirror, {"MIRROR_PAD": ("float32", "int8")}),
    **by_type(_broadcast, {"BROADCAST_TO": ANY}),
    **by_type(_fill, {"FILL": ("float32", "int32", "int8")}),
    **by_type(_zeros, {"ZEROS_LIKE": ("float32", "int8", "int32", "int64")}),
}
