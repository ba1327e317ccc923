"""Joints, pieces, reversals, resizing, and blocks to and from depth and batch, without TRANSPOSE."""

from __future__ import annotations

from math import prod
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    ELEMENTS,
    INT32,
    INT64,
    TYPES,
    Shape,
    activation,
    any_shape,
    axis_input,
    axis_of,
    by_type,
    constant,
    finished,
    net_of,
    quantized_like,
    shape,
    size,
)
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

MAX_JOINED = 10


def _parts(random: Random, most: int, highest: int = 6) -> tuple[Shape, int, list[int]]:
    """Return a shape, one of its axes and the sizes of the parts into which the axis is divided."""
    rank = random.randint(1, highest)
    axis = random.randrange(rank)
    number = random.randint(1, most)
    others = shape(random, rank - 1, ELEMENTS // (2 * number))
    longest = max(1, min(12, ELEMENTS // (number * prod(others))))
    sizes = [random.choice((1, random.randint(1, longest))) for _ in range(number)]
    return (*others[:axis], sum(sizes), *others[axis:]), axis, sizes


def _with_side(dims: Shape, axis: int, side: int) -> Shape:
    return (*dims[:axis], side, *dims[axis + 1 :])


def _like(net: Net, random: Random, tensor: int, dims: Shape, dtype: DType) -> int:
    """Add another input that is quantized like the first: in the arena, or rarely a constant."""
    if random.random() >= 0.15:
        return quantized_like(net, tensor, dims)
    own = net.tensors[tensor].quantization
    scales, zero = ((), 0) if own is None else (own.scales, own.zero_points[0])
    return constant(net, random, dims, dtype, scales=scales, zero=zero)


def _concatenation(code: str, kind: str, random: Random) -> Model:
    """CONCATENATION of up to 10 inputs, some of them constant."""
    net, dtype = net_of(random), TYPES[kind]
    dims, axis, sizes = _parts(random, MAX_JOINED)
    inputs = [activation(net, random, _with_side(dims, axis, sizes[0]), dtype)]
    inputs += [_like(net, random, inputs[0], _with_side(dims, axis, side), dtype) for side in sizes[1:]]
    net.give(code, inputs, [quantized_like(net, inputs[0], dims)], axis=axis_of(random, axis, len(dims)))
    return finished(net)


def _split(code: str, kind: str, random: Random) -> Model:
    """SPLIT into equal parts."""
    net, number = net_of(random), random.randint(1, 6)
    dims = any_shape(random, elements=ELEMENTS // number)
    axis = random.randrange(len(dims))
    x = activation(net, random, _with_side(dims, axis, dims[axis] * number), TYPES[kind])
    parts = [quantized_like(net, x, dims) for _ in range(number)]
    net.give(code, [axis_input(net, random, axis_of(random, axis, len(dims))), x], parts, num_splits=number)
    return finished(net)


def _split_v(code: str, kind: str, random: Random) -> Model:
    """SPLIT_V; one of the sizes, which the kernel does not read, may be -1."""
    net = net_of(random)
    dims, axis, sizes = _parts(random, 6)
    x = activation(net, random, dims, TYPES[kind])
    parts = [quantized_like(net, x, _with_side(dims, axis, side)) for side in sizes]
    given = list(sizes)
    if random.random() < 0.3:
        given[random.randrange(len(given))] = -1
    inputs = [x, net.constant(given, dtype=random.choice((INT32, INT64)))]
    inputs.append(axis_input(net, random, axis_of(random, axis, len(dims))))
    net.give(code, inputs, parts, num_splits=len(sizes))
    return finished(net)


def _pack(code: str, kind: str, random: Random) -> Model:
    """PACK along each axis, also of scalars."""
    net, dtype, number = net_of(random), TYPES[kind], random.randint(1, 6)
    dims = any_shape(random, 5, 0, ELEMENTS // number)
    axis = random.randint(0, len(dims))
    inputs = [activation(net, random, dims, dtype)]
    inputs += [_like(net, random, inputs[0], dims, dtype) for _ in range(number - 1)]
    y = quantized_like(net, inputs[0], (*dims[:axis], number, *dims[axis:]))
    net.give(code, inputs, [y], values_count=number, axis=axis_of(random, axis, len(dims) + 1))
    return finished(net)


def _unpack(code: str, kind: str, random: Random) -> Model:
    """UNPACK along each axis, also into scalars."""
    net, number = net_of(random), random.randint(1, 6)
    dims = any_shape(random, 5, 0, ELEMENTS // number)
    axis = random.randint(0, len(dims))
    x = activation(net, random, (*dims[:axis], number, *dims[axis:]), TYPES[kind])
    parts = [quantized_like(net, x, dims) for _ in range(number)]
    net.give(code, [x], parts, num=number, axis=axis_of(random, axis, len(dims) + 1))
    return finished(net)


def _reverse(code: str, kind: str, random: Random) -> Model:
    """REVERSE_V2 of one axis or of neighbouring axes in any order."""
    net, dims = net_of(random), any_shape(random)
    number = random.randint(1, len(dims))
    start = random.randint(0, len(dims) - number)
    axes = [axis_of(random, axis, len(dims)) for axis in range(start, start + number)]
    random.shuffle(axes)
    x = activation(net, random, dims, TYPES[kind])
    net.give(code, [x, net.constant(axes)], [quantized_like(net, x, dims)])
    return finished(net)


def _resize(code: str, kind: str, random: Random) -> Model:
    """RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR up and down in each of three modes."""
    while True:
        batches, channels = random.choice((1, 1, 2, 3)), size(random, 12)
        sides, made = ([size(random, 12) for _ in range(2)] for _ in range(2))
        if random.random() < 0.3:
            made = [side * random.choice((1, 2)) for side in sides]
        if max(prod(sides), prod(made)) * batches * channels <= ELEMENTS:
            break
    net = net_of(random)
    x = activation(net, random, (batches, *sides, channels), TYPES[kind])
    y = quantized_like(net, x, (batches, *made, channels))
    mode = random.choice(((), ("align_corners",), ("half_pixel_centers",)))
    net.give(code, [x, net.constant(made)], [y], **dict.fromkeys(mode, True))
    return finished(net)


def _depth(code: str, kind: str, random: Random) -> Model:
    """SPACE_TO_DEPTH and DEPTH_TO_SPACE with blocks of 1 to 4."""
    block = random.randint(1, 4)
    batches, height, width, channels = shape(random, 4, ELEMENTS // (block * block))
    wide = (batches, height * block, width * block, channels)
    deep = (batches, height, width, channels * block * block)
    before, after = (wide, deep) if code == "SPACE_TO_DEPTH" else (deep, wide)
    net = net_of(random)
    x = activation(net, random, before, TYPES[kind])
    net.give(code, [x], [quantized_like(net, x, after)], block_size=block)
    return finished(net)


def _batch(code: str, kind: str, random: Random) -> Model:
    """SPACE_TO_BATCH_ND with padding and BATCH_TO_SPACE_ND with cropping, of one side or two."""
    while True:
        sides = random.choice((1, 2, 2))
        blocks = [random.randint(1, 3) for _ in range(sides)]
        batches, *parts, channels = shape(random, sides + 2, ELEMENTS // prod(blocks))
        whole = [part * block for part, block in zip(parts, blocks, strict=True)]
        widest = random.choice((0, 2, 4))
        border = [random.randint(0, widest) for _ in range(2 * sides)]
        inner = [side - sum(border[2 * at : 2 * at + 2]) for at, side in enumerate(whole)]
        if min(inner) > 0:
            break
    image, stack = (batches, *inner, channels), (batches * prod(blocks), *parts, channels)
    before, after = (image, stack) if code == "SPACE_TO_BATCH_ND" else (stack, image)
    net = net_of(random)
    x = activation(net, random, before, TYPES[kind])
    net.give(code, [x, net.constant(blocks), net.constant(border, sides, 2)], [quantized_like(net, x, after)])
    return finished(net)


FOUR = ("float32", "int8", "int16", "int32")
GENERATORS: Generators = {
    **by_type(_concatenation, {"CONCATENATION": (*FOUR, "int64", "bool")}),
    **by_type(_split, {"SPLIT": FOUR}),
    **by_type(_split_v, {"SPLIT_V": FOUR}),
    **by_type(_pack, {"PACK": (*FOUR, "int64")}),
    **by_type(_unpack, {"UNPACK": FOUR}),
    **by_type(_reverse, {"REVERSE_V2": (*FOUR, "int64", "uint8", "bool")}),
    **by_type(_resize, {"RESIZE_BILINEAR": ("float32", "int8")}),
    **by_type(_resize, {"RESIZE_NEAREST_NEIGHBOR": ("float32", "int8", "int16")}),
    **by_type(_depth, dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), ("float32", "int8"))),
    **by_type(_batch, dict.fromkeys(("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND"), ("float32", "int8"))),
}
