"""Poolings: channels around words and vectors, windows that hang over the border or not, strides, batches.

Which value is the largest, costs instructions: the values are as behind a RELU, which poolings mostly follow.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from struct import pack
from typing import Any

from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

# Batches, height, width, channels; window; strides; padding.
Shape = tuple[tuple[int, int, int, int], tuple[int, int], tuple[int, int], str]

SHAPES: tuple[Shape, ...] = (
    ((1, 6, 6, 1), (2, 2), (2, 2), "VALID"),
    ((1, 7, 5, 2), (2, 2), (1, 1), "SAME"),
    ((1, 9, 9, 3), (3, 3), (2, 2), "SAME"),
    ((1, 8, 8, 4), (2, 2), (2, 2), "VALID"),
    ((1, 5, 6, 5), (3, 2), (1, 2), "SAME"),
    ((2, 6, 6, 6), (3, 3), (1, 1), "VALID"),
    ((1, 7, 7, 7), (3, 3), (1, 1), "SAME"),
    ((1, 12, 12, 8), (2, 2), (2, 2), "VALID"),
    ((3, 5, 5, 9), (2, 3), (2, 1), "SAME"),
    ((1, 10, 4, 12), (5, 1), (3, 1), "VALID"),
    ((1, 4, 11, 15), (1, 4), (1, 2), "SAME"),
    ((1, 8, 8, 16), (3, 3), (2, 2), "SAME"),
    ((1, 6, 6, 17), (2, 2), (2, 2), "VALID"),
    ((1, 5, 5, 20), (5, 5), (1, 1), "VALID"),
    ((1, 7, 7, 24), (7, 7), (1, 1), "VALID"),
    ((1, 9, 3, 31), (3, 3), (1, 1), "SAME"),
    ((1, 8, 8, 32), (8, 8), (8, 8), "VALID"),
    ((1, 6, 6, 33), (3, 3), (3, 3), "VALID"),
    ((1, 3, 3, 64), (3, 3), (1, 1), "VALID"),
    ((1, 25, 5, 48), (25, 5), (1, 1), "VALID"),
    ((2, 4, 4, 80), (4, 4), (4, 4), "VALID"),
    ((1, 16, 1, 40), (4, 1), (4, 1), "VALID"),
    ((1, 10, 10, 10), (1, 2), (2, 2), "VALID"),
    ((1, 4, 4, 130), (2, 2), (1, 1), "SAME"),
    ((1, 1, 30, 16), (1, 2), (1, 2), "VALID"),
    ((1, 7, 7, 64), (3, 3), (2, 2), "SAME"),
    ((1, 9, 9, 8), (3, 3), (1, 1), "SAME"),
    ((1, 10, 10, 32), (2, 2), (2, 2), "VALID"),
    ((1, 6, 6, 12), (3, 3), (2, 2), "VALID"),
    ((1, 5, 7, 96), (2, 2), (1, 1), "VALID"),
    ((1, 12, 2, 20), (3, 1), (2, 1), "VALID"),
    ((1, 6, 6, 28), (2, 3), (1, 1), "SAME"),
    ((1, 8, 5, 44), (4, 2), (2, 1), "VALID"),
    ((1, 3, 3, 128), (3, 3), (1, 1), "VALID"),
    ((2, 5, 5, 11), (2, 2), (1, 1), "VALID"),
    ((1, 6, 6, 13), (3, 2), (3, 2), "VALID"),
    ((1, 4, 8, 22), (2, 2), (2, 2), "VALID"),
    ((1, 20, 1, 18), (5, 1), (5, 1), "VALID"),
    ((1, 5, 5, 35), (3, 3), (2, 2), "SAME"),
    ((1, 4, 4, 72), (2, 2), (2, 2), "VALID"),
    ((1, 11, 3, 4), (11, 3), (1, 1), "VALID"),
    ((1, 8, 8, 3), (2, 2), (2, 2), "VALID"),
    ((1, 1, 16, 256), (1, 4), (1, 4), "VALID"),
    ((1, 6, 4, 57), (3, 2), (1, 2), "VALID"),
)
KINDS = {
    "AVERAGE_POOL_2D": (DType.INT8, DType.INT16, DType.FLOAT32),
    "MAX_POOL_2D": (DType.INT8, DType.INT16, DType.FLOAT32),
    "L2_POOL_2D": (DType.FLOAT32,),
}


def activated(net: Net, *shape: int, dtype: DType) -> int:
    """A constant as an activation leaves it: half of the values are zero, which in int8 is -128."""
    values = [max(net.random.uniform(-1, 1), 0) for _ in range(prod(shape))]
    if dtype == DType.FLOAT32:
        return net.tensor(shape, dtype, data=pack(f"<{len(values)}f", *values))
    if dtype == DType.INT16:
        return net.tensor(
            shape, dtype, data=pack(f"<{len(values)}h", *(round(32767 * value) for value in values)), scales=[1 / 32768]
        )
    data = pack(f"<{len(values)}b", *(round(255 * value) - 128 for value in values))
    return net.tensor(shape, dtype, data=data, scales=[1 / 256], zero_point=-128)


def pools(code: str, dtype: DType) -> Model:
    """One operator of each shape, each on values of its own."""
    net = Net(1)
    outputs = []
    for (batches, height, width, channels), window, stride, padding in SHAPES:
        sides = [
            -(-(size - (of - 1 if padding == "VALID" else 0)) // by)
            for size, of, by in zip((height, width), window, stride, strict=True)
        ]
        x = activated(net, batches, height, width, channels, dtype=dtype)
        options: dict[str, Any] = dict(
            zip(("filter_height", "filter_width", "stride_h", "stride_w"), (*window, *stride), strict=True)
        )
        own = net.tensors[x].quantization
        like = {} if own is None else {"scale": own.scales[0], "zero_point": own.zero_points[0]}
        outputs.append(net.op(code, [x], batches, *sides, channels, padding=padding, **like, **options))
    return net.model([], outputs)


CASES: dict[str, Callable[[], Model]] = {
    f"{code.lower()}-{dtype.name.lower()}": lambda code=code, dtype=dtype: pools(code, dtype)
    for code, dtypes in KINDS.items()
    for dtype in dtypes
}
