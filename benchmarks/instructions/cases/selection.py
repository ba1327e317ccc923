"""Slices of every axis, lookups of rows of many lengths, and updates."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

INT8, INT16, INT32, INT64, FLOAT32, BOOL = (
    DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32, DType.BOOL
)  # fmt: skip

# A shape, where the slice begins, and its shape.
SLICED: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = (
    ((50,), (5,), (40,)),
    ((6, 20), (1, 3), (4, 10)),
    ((30, 4), (2, 0), (25, 2)),
    ((4, 5, 6), (0, 1, 2), (3, 3, 3)),
    ((1, 9, 12, 4), (0, 2, 3, 0), (1, 5, 8, 4)),
    ((1, 8, 8, 16), (0, 0, 0, 4), (1, 8, 8, 7)),
    ((2, 6, 1, 10), (1, 1, 0, 2), (1, 4, 1, 8)),
    ((1, 64, 1, 12), (0, 10, 0, 0), (1, 30, 1, 12)),
    ((1, 3, 3, 200), (0, 1, 1, 50), (1, 1, 2, 120)),
    ((40, 3, 2, 1), (3, 1, 0, 0), (30, 1, 2, 1)),
    ((1, 4, 16, 32), (0, 1, 0, 0), (1, 2, 16, 32)),
    ((20, 64), (3, 0), (14, 64)),
    ((60, 6), (2, 0), (50, 6)),
    ((1, 8, 50, 2), (0, 2, 0, 0), (1, 6, 50, 2)),
    ((2, 10, 3, 20), (0, 4, 0, 0), (2, 6, 3, 20)),
    ((90, 3), (1, 1), (80, 2)),
    ((1, 4, 40, 16), (0, 2, 0, 0), (1, 2, 40, 16)),
    ((1, 5, 30, 24), (0, 1, 4, 0), (1, 3, 20, 24)),
    ((3, 9, 8), (0, 2, 0), (3, 6, 8)),
    ((70, 20), (5, 0), (60, 20)),
    ((25, 28), (1, 0), (22, 28)),
    ((40, 10), (3, 0), (30, 10)),
    ((30, 48), (2, 0), (20, 48)),
    ((2, 15, 14), (0, 3, 0), (2, 11, 14)),
)
DEEPER = (((2, 3, 4, 3, 5), (0, 1, 0, 1, 1), (2, 2, 3, 2, 4)), ((3, 4, 2, 2, 2), (1, 1, 0, 0, 0), (2, 3, 2, 1, 1)))
STRIDES = (1, 2, 1, 3)  # of the axes, beginning with the last
# A shape, the axis, the positions that are gathered, and the axes that count as batches.
GATHERED: tuple[tuple[tuple[int, ...], int, tuple[int, ...], int], ...] = (
    ((20,), 0, (12,), 0),
    ((20, 5), 0, (9,), 0),
    ((8, 12), 1, (6,), 0),
    ((30, 16), 0, (20,), 0),
    ((4, 6, 9), 1, (5,), 0),
    ((10, 100), 0, (7,), 0),
    ((3, 10, 8), 1, (3, 4), 1),
    ((6, 7, 3), 2, (2,), 0),
    ((8, 2, 8), 0, (2, 3), 0),
    ((50,), 0, (40,), 0),
    ((12, 7), 0, (15,), 0),
    ((5, 9, 2), 1, (4,), 0),
    ((2, 3, 8, 11), 2, (2, 3, 2), 2),
    ((4, 6), 1, (4, 5), 1),
    ((1, 8, 12), 0, (1,), 0),
    ((16, 1, 12), 0, (1,), 0),
    ((9, 33), 0, (14,), 0),
)
# A shape, and the shape of the indices.
PICKED: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((20,), (9, 1)),
    ((6, 10), (12, 2)),
    ((6, 10), (5, 1)),
    ((4, 5, 16), (7, 2)),
    ((4, 5, 33), (3, 3, 1)),
    ((3, 4, 5, 2), (20, 4)),
    ((2, 100), (4, 1)),
    ((9, 6), (10, 1)),
    ((5, 4, 3), (8, 2)),
    ((3, 3, 40), (6, 2)),
)
LOOKED_UP: tuple[tuple[int, int, int], ...] = (
    (10, 4, 3), (6, 7, 9), (30, 16, 12), (5, 100, 4), (50, 33, 20), (8, 1, 6), (12, 7, 5), (9, 40, 2), (20, 3, 15),
    (6, 64, 11), (7, 18, 8),
)  # fmt: skip
# A shape, the update's, and where it begins.
UPDATED: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = (
    ((40,), (10,), (5,)),
    ((6, 12), (2, 5), (1, 3)),
    ((20, 16), (1, 16), (7, 0)),
    ((4, 5, 9), (3, 2, 4), (0, 1, 2)),
    ((2, 8, 8, 4), (1, 4, 4, 4), (1, 2, 2, 0)),
    ((7, 11), (7, 11), (0, 0)),
    ((5, 200), (3, 150), (1, 20)),
    ((16, 3), (12, 1), (2, 1)),
    ((300, 10), (1, 10), (4, 0)),
    ((13,), (13,), (0,)),
    ((6, 6, 6), (6, 6, 6), (0, 0, 0)),
    ((2, 3, 50), (2, 3, 50), (0, 0, 0)),
    ((1, 2, 3, 9), (1, 2, 3, 9), (0, 0, 0, 0)),
    ((9, 40), (4, 33), (2, 7)),
    ((3, 7, 15), (2, 5, 6), (1, 0, 3)),
)


def slices(dtype: DType, where: DType = INT32) -> Model:
    """SLICE."""
    net = Net(31)
    inputs, outputs = [], []
    for shape, begin, size in (*SLICED, *DEEPER):
        x = net.arena(*shape, dtype=dtype)
        inputs.append(x)
        given = [net.constant(begin, dtype=where), net.constant(size, dtype=where)]
        outputs.append(net.op("SLICE", [x, *given], *size))
    return net.model(inputs, outputs)


def strided_slices(dtype: DType) -> Model:
    """STRIDED_SLICE: with strides of 1, with others, backwards along the last axis, and without the first one."""
    net = Net(32)
    inputs, outputs = [], []
    for shape, begin, size in SLICED:
        rank = len(shape)
        ends = [at + length for at, length in zip(begin, size, strict=True)]
        strides = STRIDES[:rank][::-1]
        apart = [*strides[:-1], 2]
        back = [*ends[:-1], begin[-1] - 1], [*begin[:-1], ends[-1] - 1], [*strides[:-1], -1]
        for first, last, step, gone in (
            (begin, ends, [1] * rank, 0),
            (begin, ends, strides, 0),
            (begin, ends, apart, 0),
            *([(back[1], back[0], back[2], 0)] if begin[-1] else []),
            (begin, ends, [1] * rank, int(rank > 1)),
        ):
            x = net.arena(*shape, dtype=dtype)
            inputs.append(x)
            made = [-(-(b - a) // by) for a, b, by in zip(first, last, step, strict=True)][gone:]
            given = [net.constant(values) for values in (first, last, step)]
            outputs.append(net.op("STRIDED_SLICE", [x, *given], *made, shrink_axis_mask=gone))
    return net.model(inputs, outputs)


def gathered(dtype: DType) -> Model:
    """GATHER, the positions in no order."""
    net = Net(33)
    inputs, outputs = [], []
    for shape, axis, positions, batches in GATHERED:
        x = net.arena(*shape, dtype=dtype)
        inputs.append(x)
        where = net.constant([net.random.randrange(shape[axis]) for _ in range(prod(positions))], *positions)
        made = (*shape[:axis], *positions[batches:], *shape[axis + 1 :])
        outputs.append(net.op("GATHER", [x, where], *made, axis=axis, batch_dims=batches))
    return net.model(inputs, outputs)


def picked(dtype: DType) -> Model:
    """GATHER_ND."""
    net = Net(34)
    inputs, outputs = [], []
    for shape, where in PICKED:
        x = net.arena(*shape, dtype=dtype)
        inputs.append(x)
        depth = where[-1]
        values = [net.random.randrange(shape[at % depth]) for at in range(prod(where))]
        outputs.append(net.op("GATHER_ND", [x, net.constant(values, *where)], *where[:-1], *shape[depth:]))
    return net.model(inputs, outputs)


def looked_up(table: DType, made: DType) -> Model:
    """EMBEDDING_LOOKUP."""
    net = Net(35)
    outputs = []
    for rows, columns, number in LOOKED_UP:
        where = net.constant([net.random.randrange(rows) for _ in range(number)])
        weights = net.noise(rows, columns, dtype=table)
        outputs.append(net.op("EMBEDDING_LOOKUP", [where, weights], number, columns, dtype=made))
    return net.model([], outputs)


def updates(dtype: DType) -> Model:
    """DYNAMIC_UPDATE_SLICE."""
    net = Net(36)
    inputs, outputs = [], []
    for shape, size, begin in UPDATED:
        x, y = net.arena(*shape, dtype=dtype), net.arena(*size, dtype=dtype)
        inputs += [x, y]
        outputs.append(net.op("DYNAMIC_UPDATE_SLICE", [x, y, net.constant(begin)]))
    return net.model(inputs, outputs)


BY_TYPE: tuple[tuple[Callable[[DType], Model], tuple[DType, ...]], ...] = (
    (slices, (INT8, INT16, INT32, FLOAT32, BOOL)),
    (strided_slices, (INT8, INT16, INT32, FLOAT32, BOOL)),
    (gathered, (INT8, FLOAT32)),
    (picked, (INT8, FLOAT32)),
    (updates, (INT8, INT16, INT32, FLOAT32)),
)
CASES: dict[str, Callable[[], Model]] = {
    **{
        f"{make.__name__}-{dtype.name.lower()}": lambda make=make, dtype=dtype: make(dtype)
        for make, dtypes in BY_TYPE
        for dtype in dtypes
    },
    **{
        f"slices-{dtype.name.lower()}-int64": lambda dtype=dtype: slices(dtype, INT64)
        for dtype in (INT8, INT16, INT32, FLOAT32, BOOL)
    },
    "looked_up-float32": lambda: looked_up(FLOAT32, FLOAT32),
    "looked_up-int8": lambda: looked_up(INT8, INT8),
    "looked_up-int8-float32": lambda: looked_up(INT8, FLOAT32),
}
