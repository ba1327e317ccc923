"""Joints, pieces, transpositions, reversals, resizing, and blocks to and from depth and batch."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

INT8, UINT8, INT16, INT32, INT64, FLOAT32, BOOL = (
    DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32, DType.BOOL
)  # fmt: skip

# What stands before the axis, the sizes of the inputs along it, and what stands behind.
JOINED: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = (
    ((), (5, 7), ()),
    ((3,), (1, 2), ()),
    ((40,), (3, 5, 1), ()),
    ((), (4, 6, 2), (9,)),
    ((2,), (3, 5), (4,)),
    ((1, 6, 6), (8, 8), ()),
    ((1, 6, 6), (5, 9, 3, 16), ()),
    ((1, 4, 4), (32, 64), ()),
    ((1,), (2, 3), (5, 16)),
    ((1, 7), (2, 2, 2, 2, 2), (6,)),
    ((1,), (20, 20), (30,)),
    ((30,), (1, 1, 1, 1), ()),
    ((1, 5, 5), (12, 20), ()),
    ((1, 12, 12), (8, 8, 8, 4), ()),
    ((1, 9, 9), (16, 8), ()),
    ((60,), (64, 64, 32), ()),
    ((100,), (2, 2), ()),
    ((1, 6, 6), (7, 7, 7, 7, 7, 7), ()),
    ((200,), (17, 9), ()),
    ((150,), (7, 14), ()),
    ((80,), (31, 5), ()),
    ((60,), (45, 18), ()),
    ((100,), (6, 10, 3), ()),
    ((90,), (27, 40), ()),
    ((70,), (21, 66), ()),
    ((120,), (11, 13), ()),
    ((64,), (25, 50), ()),
)
# What stands before the axis, the pieces and their size along it, and what stands behind.
PIECES: tuple[tuple[tuple[int, ...], int, int, tuple[int, ...]], ...] = (
    ((), 2, 5, ()),
    ((1,), 4, 16, ()),
    ((12,), 3, 4, ()),
    ((1, 5), 2, 3, (7,)),
    ((1,), 4, 1, (30,)),
    ((1, 6, 6), 2, 8, ()),
    ((25,), 5, 1, ()),
    ((2, 3), 6, 2, (10,)),
    ((), 3, 1, (8, 12)),
)
TRANSPOSED: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((7,), (0,)),
    ((6, 10), (1, 0)),
    ((33, 5), (1, 0)),
    ((17, 24), (1, 0)),
    ((3, 50), (0, 1)),
    ((3, 8, 10), (0, 2, 1)),
    ((4, 9, 5), (2, 1, 0)),
    ((6, 7, 12), (1, 0, 2)),
    ((1, 20, 16), (0, 2, 1)),
    ((1, 8, 8, 6), (0, 3, 1, 2)),
    ((1, 6, 10, 4), (0, 2, 3, 1)),
    ((2, 5, 9, 7), (0, 1, 3, 2)),
    ((1, 4, 30, 16), (0, 1, 3, 2)),
    ((3, 4, 5, 6), (3, 2, 1, 0)),
    ((1, 12, 3, 20), (0, 2, 1, 3)),
    ((1, 3, 17, 1), (0, 2, 1, 3)),
    ((2, 2, 2, 40), (1, 0, 2, 3)),
    ((12, 3, 4), (2, 0, 1)),
    ((2, 2, 60), (1, 2, 0)),
    ((70,), (0,)),
    ((256,), (0,)),
    ((11,), (0,)),
    ((40,), (0,)),
    ((83,), (0,)),
    ((9, 9), (1, 0)),
    ((40, 3), (1, 0)),
    ((2, 31), (1, 0)),
    ((8, 16), (1, 0)),
    ((16, 50), (1, 0)),
    ((1, 10, 9, 5), (0, 1, 3, 2)),
    ((3, 2, 24, 8), (0, 1, 3, 2)),
)
DEEPER: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3, 4, 5, 3), (0, 2, 1, 4, 3)),
    ((1, 2, 6, 2, 10), (0, 1, 3, 2, 4)),
    ((2, 2, 3, 4, 6), (4, 3, 2, 1, 0)),
)
REVERSED: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((40,), (0,)),
    ((5, 12), (1,)),
    ((12, 5), (0,)),
    ((1, 30, 16), (1,)),
    ((3, 4, 9), (0, 1)),
    ((3, 4, 9), (2, 1)),
    ((2, 10, 7), (1,)),
    ((4, 3, 50), (-2,)),
    ((6, 6), (0, 1)),
    ((25, 3, 8), (2,)),
    ((100,), (0,)),
    ((3, 3, 3), (0, 1, 2)),
    ((2, 6, 7, 3), (2, 3)),
    ((2, 4, 5, 6), (3,)),
    ((2, 6, 7, 3), (1,)),
    ((7, 9), (1,)),
    ((2, 3, 4, 12), (3,)),
    ((20, 31), (1,)),
    ((2, 5, 6, 2), (1, 2, 3)),
    ((4, 2, 9), (1, 2)),
    ((6, 50), (0, 1)),
    ((2, 3, 2, 5), (0, 1, 2, 3)),
    ((10, 12, 6), (1,)),
    ((1, 5, 12, 3), (2,)),
    ((9, 10, 2), (1,)),
    ((30, 7), (0,)),
    ((4, 9, 10), (1,)),
    ((3, 11, 18), (1,)),
    ((2, 8, 21), (1,)),
    ((300,), (0,)),
)
# Height, width, channels, and the height and width to make of it.
RESIZED: tuple[tuple[int, int, int, int, int], ...] = (
    (3, 3, 1, 6, 6),
    (4, 5, 3, 9, 7),
    (8, 8, 4, 16, 16),
    (6, 4, 16, 12, 8),
    (10, 10, 5, 5, 5),
    (2, 3, 40, 4, 6),
    (1, 1, 64, 5, 5),
    (7, 6, 9, 14, 3),
    (5, 1, 20, 20, 1),
    (4, 4, 2, 8, 8),
    (3, 8, 24, 6, 16),
    (2, 2, 7, 10, 10),
    (6, 6, 12, 6, 6),
    (1, 20, 11, 1, 50),
    (5, 5, 1, 10, 10),
)
MODES = {"": {}, "-centers": {"half_pixel_centers": True}, "-corners": {"align_corners": True}}
# Height, width and channels in blocks, and the block's side.
BLOCKS: tuple[tuple[int, int, int, int], ...] = (
    (1, 1, 1, 2), (3, 4, 2, 2), (4, 4, 3, 2), (2, 5, 8, 3), (6, 6, 1, 4), (5, 3, 16, 2), (1, 7, 40, 2)
)  # fmt: skip
# A shape, the block's height and width, and the padding of both.
BATCHED: tuple[tuple[tuple[int, int, int, int], tuple[int, int], tuple[int, int, int, int]], ...] = (
    ((1, 4, 4, 3), (2, 2), (0, 0, 0, 0)),
    ((1, 7, 6, 4), (2, 2), (0, 1, 1, 1)),
    ((2, 6, 6, 5), (3, 2), (0, 0, 0, 0)),
    ((1, 10, 3, 16), (4, 1), (1, 1, 0, 0)),
    ((1, 8, 8, 30), (2, 2), (2, 2, 2, 2)),
    ((1, 5, 12, 1), (1, 4), (0, 0, 2, 2)),
    ((1, 12, 12, 9), (2, 2), (0, 0, 0, 0)),
    ((1, 3, 3, 100), (3, 3), (0, 0, 0, 0)),
    ((1, 6, 4, 7), (2, 2), (1, 1, 1, 1)),
    ((2, 5, 5, 12), (2, 2), (0, 1, 1, 0)),
    ((1, 9, 9, 2), (3, 3), (0, 0, 0, 0)),
    ((3, 4, 2, 21), (2, 1), (2, 2, 0, 0)),
    ((1, 2, 16, 64), (1, 2), (0, 0, 3, 1)),
)


def joints(dtype: DType) -> Model:
    """CONCATENATION."""
    net = Net(11)
    inputs, outputs = [], []
    for before, sizes, behind in JOINED:
        parts = [net.arena(*before, size, *behind, dtype=dtype) for size in sizes]
        inputs += parts
        outputs.append(net.op("CONCATENATION", parts, *before, sum(sizes), *behind, axis=len(before)))
    return net.model(inputs, outputs)


def splits(dtype: DType) -> Model:
    """SPLIT and SPLIT_V."""
    net = Net(12)
    inputs, outputs = [], []
    for before, number, size, behind in PIECES:
        x = net.arena(*before, number * size, *behind, dtype=dtype)
        parts = [net.arena(*before, size, *behind, dtype=dtype) for _ in range(number)]
        net.give("SPLIT", [net.scalar(len(before)), x], parts, num_splits=number)
        sizes = [size + 1, *[size] * (number - 2), size - 1] if size > 1 else [size] * number
        uneven = [net.arena(*before, one, *behind, dtype=dtype) for one in sizes]
        net.give("SPLIT_V", [x, net.constant(sizes), net.scalar(len(before))], uneven, num_splits=number)
        inputs.append(x)
        outputs += [*parts, *uneven]
    return net.model(inputs, outputs)


def packs(dtype: DType) -> Model:
    """PACK and UNPACK of the pieces, which have one dimension less."""
    net = Net(13)
    inputs, outputs = [], []
    for before, number, size, behind in PIECES:
        shape = (*before, size, *behind)[:3]
        for axis in {0, len(before), len(shape)}:
            parts = [net.arena(*shape, dtype=dtype) for _ in range(number)]
            packed = net.op("PACK", parts, *shape[:axis], number, *shape[axis:], values_count=number, axis=axis)
            apart = [net.arena(*shape, dtype=dtype) for _ in range(number)]
            if dtype != INT64:
                net.give("UNPACK", [packed], apart, num=number, axis=axis)
            inputs += parts
            outputs += apart if dtype != INT64 else [packed]
    return net.model(inputs, outputs)


def transpositions(dtype: DType) -> Model:
    """TRANSPOSE; CMSIS-NN takes no five dimensions of int8."""
    net = Net(14)
    inputs, outputs = [], []
    for shape, axes in TRANSPOSED if dtype == INT8 else (*TRANSPOSED, *DEEPER):
        x = net.arena(*shape, dtype=dtype)
        inputs.append(x)
        outputs.append(net.op("TRANSPOSE", [x, net.constant(axes)], *(shape[axis] for axis in axes)))
    return net.model(inputs, outputs)


def reversals(dtype: DType) -> Model:
    """REVERSE_V2."""
    net = Net(15)
    inputs = [net.arena(*shape, dtype=dtype) for shape, _ in REVERSED]
    made = [net.op("REVERSE_V2", [x, net.constant(axes)]) for x, (_, axes) in zip(inputs, REVERSED, strict=True)]
    return net.model(inputs, made)


def resizes(code: str, dtype: DType, mode: str) -> Model:
    """RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR."""
    net = Net(16)
    inputs, outputs = [], []
    for height, width, channels, high, wide in RESIZED:
        x = net.arena(1, height, width, channels, dtype=dtype)
        inputs.append(x)
        outputs.append(net.op(code, [x, net.constant([high, wide])], 1, high, wide, channels, **MODES[mode]))
    return net.model(inputs, outputs)


def depths(dtype: DType) -> Model:
    """SPACE_TO_DEPTH and DEPTH_TO_SPACE."""
    net = Net(17)
    inputs, outputs = [], []
    for height, width, channels, side in BLOCKS:
        wide, deep = (1, height * side, width * side, channels), (1, height, width, channels * side * side)
        x, y = net.arena(*wide, dtype=dtype), net.arena(*deep, dtype=dtype)
        inputs += [x, y]
        outputs.append(net.op("SPACE_TO_DEPTH", [x], *deep, block_size=side))
        outputs.append(net.op("DEPTH_TO_SPACE", [y], *wide, block_size=side))
    return net.model(inputs, outputs)


def batches(dtype: DType) -> Model:
    """SPACE_TO_BATCH_ND, and BATCH_TO_SPACE_ND back; one without a width."""
    net = Net(18)
    inputs, outputs = [], []
    for shape, block, around in BATCHED:
        number, height, width, channels = shape
        made = (
            number * prod(block),
            (height + sum(around[:2])) // block[0],
            (width + sum(around[2:])) // block[1],
            channels,
        )
        x = net.arena(*shape, dtype=dtype)
        given = [net.constant(block), net.constant(around, 2, 2)]
        y = net.op("SPACE_TO_BATCH_ND", [x, *given], *made)
        inputs.append(x)
        outputs.append(net.op("BATCH_TO_SPACE_ND", [y, *given], *shape))
    x = net.arena(1, 12, 6, dtype=dtype)
    given = [net.constant([3]), net.constant([0, 0], 1, 2)]
    y = net.op("SPACE_TO_BATCH_ND", [x, *given], 3, 4, 6)
    return net.model([*inputs, x], [*outputs, net.op("BATCH_TO_SPACE_ND", [y, *given], 1, 12, 6)])


BY_TYPE: tuple[tuple[Callable[[DType], Model], tuple[DType, ...]], ...] = (
    (joints, (INT8, INT16, INT32, INT64, FLOAT32, BOOL)),
    (splits, (INT8, INT16, INT32, FLOAT32)),
    (packs, (INT8, INT16, INT32, INT64, FLOAT32)),
    (transpositions, (INT8, INT16, FLOAT32)),
    (reversals, (INT8, UINT8, INT16, INT32, INT64, FLOAT32, BOOL)),
    (depths, (INT8, FLOAT32)),
    (batches, (INT8, FLOAT32)),
)
CASES: dict[str, Callable[[], Model]] = {
    **{
        f"{make.__name__}-{dtype.name.lower()}": lambda make=make, dtype=dtype: make(dtype)
        for make, dtypes in BY_TYPE
        for dtype in dtypes
    },
    **{
        f"{code.lower()}-{dtype.name.lower()}{mode}": lambda code=code, dtype=dtype, mode=mode: resizes(
            code, dtype, mode
        )
        for code, dtypes in {
            "RESIZE_BILINEAR": (INT8, FLOAT32),
            "RESIZE_NEAREST_NEIGHBOR": (INT8, INT16, FLOAT32),
        }.items()
        for dtype in dtypes
        for mode in MODES
    },
}
