"""Slices of every axis, lookups and updates."""

from __future__ import annotations

from math import prod
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    ELEMENTS,
    FLOAT32,
    INT8,
    INT32,
    INT64,
    TYPES,
    Shape,
    any_shape,
    axis_of,
    by_type,
    constant,
    finished,
    net_of,
    operand,
    quantized_like,
    scale,
    size,
)

from edgetool.model.types import Model

MAX_SLICE_RANK, MAX_STRIDED_SLICE_RANK = 5, 4


def _slice(code: str, kind: str, random: Random) -> Model:
    """SLICE with bounds of both types; -1 stands for all elements that remain."""
    net, dims = net_of(random), any_shape(random, MAX_SLICE_RANK)
    begins, counts, made = [], [], []
    for side in dims:
        begins.append(0 if random.random() < 0.3 else random.randrange(side))
        left = side - begins[-1]
        made.append(left if random.random() < 0.3 else random.randint(1, left))
        counts.append(-1 if made[-1] == left and random.random() < 0.5 else made[-1])
    x = operand(net, random, dims, TYPES[kind], share=0.1)
    dtype = random.choice((INT32, INT64))
    bounds = [net.constant(values, dtype=dtype) for values in (begins, counts)]
    net.give(code, [x, *bounds], [quantized_like(net, x, made)])
    return finished(net)


def _clamped(index: int, side: int, stride: int) -> int:
    """Return the position of a bound; a negative index counts from the end."""
    index += side if index < 0 else 0
    return min(max(index, 0), side) if stride > 0 else min(max(index, -1), side - 1)


def _strided_slice(code: str, kind: str, random: Random) -> Model:
    """STRIDED_SLICE forwards and backwards, with bounds outside the tensor, masked bounds and removed axes."""
    net, dims = net_of(random), any_shape(random, MAX_STRIDED_SLICE_RANK)
    bounds: list[tuple[int, int, int]] = []
    made, masks = [], {"begin_mask": 0, "end_mask": 0, "shrink_axis_mask": 0}
    plain = random.random() < 0.3  # rows are copied whole if the last stride is 1
    for axis, side in enumerate(dims):
        if random.random() < 0.15:
            begin = random.randrange(side)
            masks["shrink_axis_mask"] |= 1 << axis
            bounds.append((axis_of(random, begin, side), begin + 1, 1))
            continue
        while True:
            stride = 1 if plain else random.choice((1, 1, 2, 3, -1, -2))
            begin, end = (random.randint(-side - 2, side + 2) for _ in range(2))
            first, last = _clamped(begin, side, stride), _clamped(end, side, stride)
            masked = random.random() < 0.25, random.random() < 0.25
            if masked[0]:
                first = 0 if stride > 0 else side - 1
            if masked[1]:
                last = side if stride > 0 else -1
            count = -((first - last) // stride)
            if count > 0:
                break
        masks["begin_mask"] |= masked[0] << axis
        masks["end_mask"] |= masked[1] << axis
        bounds.append((begin, end, stride))
        made.append(count)
    x = operand(net, random, dims, TYPES[kind], share=0.1)
    given = [net.constant(values) for values in zip(*bounds, strict=True)]
    net.give(code, [x, *given], [quantized_like(net, x, made)], **masks)
    return finished(net)


def _gather(code: str, kind: str, random: Random) -> Model:
    """GATHER at positions of any rank, with axes that count as batches."""
    while True:
        dims = any_shape(random, 5)
        axis = random.randrange(len(dims))
        batches = random.randint(0, axis) if random.random() < 0.4 else 0
        positions = (*dims[:batches], *any_shape(random, 2, 0, 20))
        made = (*dims[:axis], *positions[batches:], *dims[axis + 1 :])
        if prod(made) <= ELEMENTS and len(made) <= 6:
            break
    net = net_of(random)
    x = operand(net, random, dims, TYPES[kind], share=0.1)
    where = constant(net, random, positions, INT32, lowest=0, highest=dims[axis] - 1)
    counted = batches - len(positions) if batches < len(positions) and random.random() < 0.2 else batches
    net.give(
        code,
        [x, where],
        [quantized_like(net, x, made)],
        axis=axis_of(random, axis, len(dims)),
        batch_dims=counted,
    )
    return finished(net)


def _gather_nd(code: str, kind: str, random: Random) -> Model:
    """GATHER_ND of elements and of slices."""
    while True:
        dims = any_shape(random, 5)
        depth = random.randint(1, len(dims))
        rows = any_shape(random, 2, 0, 30)
        made = (*rows, *dims[depth:])
        if prod(made) <= ELEMENTS:
            break
    net = net_of(random)
    x = operand(net, random, dims, TYPES[kind], share=0.1)
    points = [random.randrange(side) for _ in range(prod(rows)) for side in dims[:depth]]
    net.give(code, [x, net.constant(points, *rows, depth)], [quantized_like(net, x, made)])
    return finished(net)


def _lookup(code: str, kind: str, random: Random) -> Model:
    """EMBEDDING_LOOKUP in tables of any rank; int8 is copied or dequantized."""
    source, _, target = kind.partition("-")
    dtype = TYPES[source]
    while True:
        count, rows, columns = size(random, 12), size(random, 30), any_shape(random, 3, elements=60)
        if max(count, rows) * prod(columns) <= ELEMENTS:
            break
    net = net_of(random)
    where = net.constant([random.randrange(rows) for _ in range(count)])
    own = scale(random)
    if random.random() < 0.6:
        table = constant(net, random, (rows, *columns), dtype, scales=(own,) if dtype is INT8 else ())
    else:
        table = net.arena(rows, *columns, dtype=dtype, scale=own if dtype is INT8 else None)
    made: Shape = (count, *columns)
    y = net.arena(*made, dtype=FLOAT32) if target else quantized_like(net, table, made)
    net.give(code, [where, table], [y])
    return finished(net)


def _update(code: str, kind: str, random: Random) -> Model:
    """DYNAMIC_UPDATE_SLICE at starts that are clamped if they are outside."""
    net, dtype, dims = net_of(random), TYPES[kind], any_shape(random)
    whole = random.random() < 0.15
    part = dims if whole else tuple(random.randint(1, side) for side in dims)
    starts = [
        random.randint(-3, side + 2) if random.random() < 0.3 else random.randint(0, side - new)
        for side, new in zip(dims, part, strict=True)
    ]
    x = operand(net, random, dims, dtype)
    update = quantized_like(net, x, part)
    given = net.constant(starts, dtype=random.choice((INT32, INT64)))
    net.give(code, [x, update, given], [quantized_like(net, x, dims)])
    return finished(net)


GENERATORS: Generators = {
    **by_type(_slice, {"SLICE": ("float32", "int32", "int8", "int16", "bool")}),
    **by_type(_strided_slice, {"STRIDED_SLICE": ("float32", "int8", "int16", "int32", "bool")}),
    **by_type(_gather, {"GATHER": ("float32", "int8")}),
    **by_type(_gather_nd, {"GATHER_ND": ("float32", "int8")}),
    **by_type(_lookup, {"EMBEDDING_LOOKUP": ("float32", "int8", "int8-float32")}),
    **by_type(_update, {"DYNAMIC_UPDATE_SLICE": ("float32", "int8", "int16", "int32")}),
}
