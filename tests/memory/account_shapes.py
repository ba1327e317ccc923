"""Models of operators that move elements: slices, joints, padding, resizing, lookups."""

from __future__ import annotations

from collections.abc import Callable

from edgetool.model.types import DType, Model
from tests.memory.account_net import Net

FLOAT32, INT8, INT16, INT32 = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32


def joints(dtype: DType) -> Model:
    """CONCATENATION, SPLIT, SPLIT_V, PACK and UNPACK."""
    net = Net(1)
    a, b = net.arena(2, 3, 4, dtype=dtype), net.arena(2, 5, 4, dtype=dtype)
    joined = net.op("CONCATENATION", [a, b], 2, 8, 4, axis=1)
    halves = [net.arena(2, 8, 2, dtype=dtype) for _ in range(2)]
    net.give("SPLIT", [net.scalar(2), joined], halves, num_splits=2)
    pieces = [net.arena(2, size, 2, dtype=dtype) for size in (3, 1, 4)]
    net.give("SPLIT_V", [halves[0], net.constant([3, 1, 4]), net.scalar(1)], pieces, num_splits=3)
    packed = net.op("PACK", halves, 2, 2, 8, 2, values_count=2, axis=0)
    rows = [net.arena(2, 8, 2, dtype=dtype) for _ in range(2)]
    net.give("UNPACK", [packed], rows, num=2, axis=1)
    return net.model([a, b], [*pieces, *rows])


def slices(dtype: DType) -> Model:
    """SLICE, STRIDED_SLICE, TRANSPOSE, REVERSE_V2, RESHAPE with an unknown side, SQUEEZE, EXPAND_DIMS."""
    net = Net(2)
    x = net.arena(1, 7, 6, 4, dtype=dtype)
    y = net.op("SLICE", [x, net.constant([0, 1, 2, 0]), net.constant([1, 5, -1, 3])], 1, 5, 4, 3)
    bounds = [net.constant(values) for values in ([0, 0, 1, 0], [1, 5, 4, 3], [1, 2, 1, 1])]
    y = net.op("STRIDED_SLICE", [y, *bounds], 1, 3, 3, 3)
    y = net.op("TRANSPOSE", [y, net.constant([0, 3, 1, 2])], 1, 3, 3, 3)
    if dtype != INT16:
        y = net.op("REVERSE_V2", [y, net.constant([1])])
    y = net.op("SQUEEZE", [y], 3, 3, 3, squeeze_dims=(0,))
    y = net.op("EXPAND_DIMS", [y, net.constant([-1])], 3, 3, 3, 1)
    return net.model([x], [net.op("RESHAPE", [y, net.constant([9, -1])], 9, 3, new_shape=(9, -1))])


def padding(dtype: DType) -> Model:
    """PAD, PADV2 and MIRROR_PAD."""
    net = Net(3)
    x = net.arena(1, 3, 4, 2, dtype=dtype)
    around = [0, 0, 1, 2, 2, 1, 0, 1]
    y = net.op("PAD", [x, net.constant(around, 4, 2)], 1, 6, 7, 3)
    if dtype != INT16:
        value = net.noise(dtype=dtype, scale=1 / 16)
        y = net.op("PADV2", [y, net.constant([0] * 6 + [1, 1], 4, 2), value], 1, 6, 7, 5)
        y = net.op("MIRROR_PAD", [y, net.constant([0, 0, 1, 1, 2, 2, 0, 0], 4, 2)], 1, 8, 11, 5, mode="REFLECT")
    return net.model([x], [y])


def resizing(dtype: DType) -> Model:
    """RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR, and blocks to and from depth and batch."""
    net = Net(4)
    x = net.arena(1, 4, 6, 3, dtype=dtype)
    size = net.constant([6, 8])
    y = net.op("RESIZE_BILINEAR", [x, size], 1, 6, 8, 3, half_pixel_centers=True)
    y = net.op("RESIZE_NEAREST_NEIGHBOR", [y, net.constant([4, 4])], 1, 4, 4, 3)
    y = net.op("SPACE_TO_DEPTH", [y], 1, 2, 2, 12, block_size=2)
    y = net.op("DEPTH_TO_SPACE", [y], 1, 4, 4, 3, block_size=2)
    none = net.constant([0] * 4, 2, 2)
    block = net.constant([2, 2])
    y = net.op("SPACE_TO_BATCH_ND", [y, block, none], 4, 2, 2, 3)
    return net.model([x], [net.op("BATCH_TO_SPACE_ND", [y, block, none], 1, 4, 4, 3)])


def lookups() -> Model:
    """GATHER, GATHER_ND, EMBEDDING_LOOKUP, float and int8."""
    net = Net(5)
    x, y = net.arena(4, 5, dtype=FLOAT32), net.arena(4, 5)
    rows = net.constant([3, 0, 1])
    outputs = [net.op("GATHER", [tensor, rows], 3, 5, axis=0) for tensor in (x, y)]
    outputs.append(net.op("GATHER_ND", [x, net.constant([0, 1, 2, 3], 2, 2)], 2))
    table = net.noise(6, 4, dtype=FLOAT32)
    outputs.append(net.op("EMBEDDING_LOOKUP", [net.constant([5, 2]), table], 2, 4, dtype=FLOAT32))
    small = net.noise(6, 4)
    outputs.append(net.op("EMBEDDING_LOOKUP", [net.constant([5, 2]), small], 2, 4, dtype=FLOAT32))
    return net.model([x, y], outputs)


def shapes() -> Model:
    """SHAPE, FILL, BROADCAST_TO, BROADCAST_ARGS, DYNAMIC_UPDATE_SLICE; a constant given out as it is."""
    net = Net(6)
    x = net.arena(3, 4, dtype=FLOAT32)
    sides = net.op("SHAPE", [x], 2, dtype=INT32, out_type="INT32")
    filled = net.op("FILL", [net.constant([3, 4]), net.noise(dtype=FLOAT32)], 3, 4, dtype=FLOAT32)
    wide = net.op("BROADCAST_TO", [x, net.constant([2, 3, 4])], 2, 3, 4)
    args = net.op("BROADCAST_ARGS", [net.constant([3, 1]), net.constant([2, 1, 4])], 3)
    updated = net.op("DYNAMIC_UPDATE_SLICE", [filled, net.noise(1, 2, dtype=FLOAT32), net.constant([1, 1])])
    return net.model([x], [sides, wide, args, updated, net.noise(5)])


BY_TYPE: tuple[tuple[Callable[[DType], Model], tuple[DType, ...]], ...] = (
    (joints, (FLOAT32, INT8, INT16)),
    (slices, (FLOAT32, INT8, INT16)),
    (padding, (FLOAT32, INT8, INT16)),
    (resizing, (FLOAT32, INT8)),
)
MODELS: dict[str, Callable[[], Model]] = {
    **{
        f"{make.__name__}-{dtype.name.lower()}": lambda make=make, dtype=dtype: make(dtype)
        for make, dtypes in BY_TYPE
        for dtype in dtypes
    },
    **{make.__name__: make for make in (lookups, shapes)},
}
