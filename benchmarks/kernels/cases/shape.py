"""Operators that change or return a tensor's shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    ANY,
    INT32,
    TYPES,
    Shape,
    activation,
    any_shape,
    axis_input,
    axis_of,
    broadcast_shapes,
    by_type,
    finished,
    net_of,
    quantized_like,
)

from edgetool.model.types import Model


def _factored(random: Random, count: int, rank: int) -> Shape:
    """Return a shape of this rank and number of elements."""
    sides, factor = [1] * rank, 2
    while count > 1:
        while count % factor:
            factor += 1
        sides[random.randrange(rank)] *= factor
        count //= factor
    return tuple(sides)


def _with_wildcard(random: Random, dims: Sequence[int]) -> Shape:
    """Return the shape, sometimes with -1 for a side."""
    at = random.randrange(len(dims)) if dims and random.random() < 0.5 else -1
    return tuple(-1 if index == at else side for index, side in enumerate(dims))


def _reshape(code: str, kind: str, random: Random) -> Model:
    """RESHAPE to a shape in a constant, in the options or in both."""
    net, dims = net_of(random), any_shape(random, lowest=0)
    rank = random.randint(0 if prod(dims) == 1 else 1, 6)
    made = _factored(random, prod(dims), rank) if rank else ()
    form = random.choice(("options", "constant", "both")) if made else "options"
    inputs = [activation(net, random, dims, TYPES[kind])]
    if form != "options":
        inputs.append(net.constant(_with_wildcard(random, made)))
    options = {} if form == "constant" else {"new_shape": _with_wildcard(random, made)}
    net.give(code, inputs, [quantized_like(net, inputs[0], made)], **options)
    return finished(net)


def _squeeze(code: str, kind: str, random: Random) -> Model:
    """SQUEEZE of some axes or, without a list, of all with the size 1."""
    net, dims = net_of(random), list(any_shape(random, 4, lowest=0))
    for _ in range(random.randint(1, 2)):
        dims.insert(random.randint(0, len(dims)), 1)
    ones = [axis for axis, side in enumerate(dims) if side == 1]
    gone = random.sample(ones, random.randint(1, len(ones)))
    listed = tuple(axis_of(random, axis, len(dims)) for axis in gone)
    if random.random() < 0.3:
        gone, listed = ones, ()
    x = activation(net, random, dims, TYPES[kind])
    y = quantized_like(net, x, [side for axis, side in enumerate(dims) if axis not in gone])
    net.give(code, [x], [y], squeeze_dims=listed)
    return finished(net)


def _expand(code: str, kind: str, random: Random) -> Model:
    """EXPAND_DIMS at each axis."""
    net, dims = net_of(random), any_shape(random, 5, lowest=0)
    axis = random.randint(0, len(dims))
    x = activation(net, random, dims, TYPES[kind])
    given = axis_input(net, random, axis_of(random, axis, len(dims) + 1))
    net.give(code, [x, given], [quantized_like(net, x, (*dims[:axis], 1, *dims[axis:]))])
    return finished(net)


def _told(code: str, kind: str, random: Random) -> Model:
    """SHAPE, which does not read its input's elements."""
    net, dims = net_of(random), any_shape(random)
    x = activation(net, random, dims, TYPES[kind])
    net.give(code, [x], [net.arena(len(dims), dtype=INT32)], out_type="INT32")
    return finished(net)


def _common(code: str, kind: str, random: Random) -> Model:
    """BROADCAST_ARGS of shapes of different lengths."""
    net, dtype = net_of(random), TYPES[kind]
    while True:
        shapes, common = broadcast_shapes(random, 2)
        if all(shapes):
            break
    net.give(code, [net.constant(dims, dtype=dtype) for dims in shapes], [net.arena(len(common), dtype=dtype)])
    return finished(net)


GENERATORS: Generators = {
    **by_type(_reshape, {"RESHAPE": ANY}),
    **by_type(_squeeze, {"SQUEEZE": ANY}),
    **by_type(_expand, {"EXPAND_DIMS": ("float32", "int8", "int16")}),
    **by_type(_told, {"SHAPE": ANY}),
    **by_type(_common, {"BROADCAST_ARGS": ("int32", "int64")}),
}
