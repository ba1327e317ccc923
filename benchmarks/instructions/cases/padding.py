"""Paddings of every axis, broadcasts and fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

INT8, INT16, INT32, INT64, FLOAT32 = DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32

# A shape, and the padding before and after each axis.
Padded = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
PADDED: tuple[Padded, ...] = (
    ((30,), ((3, 5),)),
    ((4, 11), ((0, 0), (2, 1))),
    ((9, 4), ((1, 3), (0, 0))),
    ((3, 5, 7), ((0, 0), (2, 2), (0, 0))),
    ((3, 5, 7), ((1, 0), (0, 1), (1, 2))),
    ((1, 8, 8, 3), ((0, 0), (1, 1), (1, 1), (0, 0))),
    ((1, 6, 7, 16), ((0, 0), (0, 1), (0, 1), (0, 0))),
    ((1, 10, 1, 9), ((0, 0), (4, 0), (0, 0), (0, 0))),
    ((1, 9, 6, 1), ((0, 0), (3, 3), (3, 3), (0, 0))),
    ((2, 4, 4, 5), ((0, 0), (1, 2), (2, 1), (0, 0))),
    ((1, 5, 5, 8), ((0, 0), (0, 0), (0, 0), (0, 8))),
    ((1, 4, 6, 6), ((0, 0), (1, 1), (1, 1), (3, 4))),
    ((1, 7, 7, 32), ((0, 0), (1, 1), (1, 1), (0, 0))),
    ((1, 3, 3, 100), ((0, 0), (2, 2), (0, 0), (0, 0))),
    ((2, 3, 4, 5), ((1, 1), (0, 0), (0, 0), (0, 0))),
    ((1, 64, 1, 12), ((0, 0), (6, 0), (0, 0), (0, 0))),
    ((1, 1, 40, 2), ((0, 0), (0, 0), (7, 7), (0, 0))),
    ((1, 12, 12, 4), ((0, 0), (2, 2), (2, 2), (0, 0))),
    ((1, 60, 10), ((0, 0), (4, 0), (0, 0))),
    ((1, 30, 24), ((0, 0), (2, 2), (0, 0))),
    ((1, 2, 30, 12), ((0, 0), (0, 0), (6, 0), (0, 0))),
    ((1, 6, 10, 9), ((0, 0), (1, 0), (1, 0), (0, 0))),
    ((1, 6, 10, 9), ((0, 0), (0, 1), (0, 1), (0, 0))),
    ((10, 24), ((0, 0), (0, 7))),
    ((5, 5, 20), ((0, 1), (0, 0), (0, 0))),
    ((4, 6, 5), ((2, 1), (1, 3), (2, 2))),
    ((2, 3, 3, 7), ((1, 0), (0, 2), (1, 0), (2, 1))),
    ((15, 3), ((0, 4), (5, 0))),
)
DEEP: tuple[Padded, ...] = (
    ((2, 3, 4, 3, 5), ((0, 0), (1, 0), (0, 1), (1, 1), (0, 0))),
    ((1, 2, 3, 4, 6), ((1, 1), (0, 0), (0, 0), (0, 0), (2, 1))),
    ((2, 3, 1, 2, 4), ((1, 2), (2, 1), (1, 2), (2, 1), (1, 1))),
    ((1, 1, 4, 5, 3), ((0, 2), (2, 1), (1, 1), (1, 0), (2, 0))),
    ((2, 2, 3, 2, 6), ((0, 1), (0, 0), (0, 0), (1, 0), (0, 0))),
    ((1, 3, 2, 3, 2), ((0, 3), (1, 0), (0, 0), (2, 2), (0, 1))),
    ((3, 2, 2, 4, 5), ((2, 0), (0, 1), (1, 0), (0, 1), (0, 2))),
    ((1, 2, 5, 3, 7), ((0, 0), (1, 1), (0, 2), (0, 0), (0, 0))),
)
MIRRORED = (
    ((20,), ((3, 5),), "REFLECT"),
    ((6, 11), ((2, 2), (2, 1)), "SYMMETRIC"),
    ((1, 6, 7, 4), ((0, 0), (2, 2), (3, 3), (0, 0)), "REFLECT"),
    ((1, 8, 5, 9), ((0, 0), (1, 1), (0, 0), (0, 0)), "SYMMETRIC"),
    ((2, 4, 12), ((0, 0), (3, 0), (0, 6)), "REFLECT"),
    ((1, 12, 12, 3), ((0, 0), (1, 1), (1, 1), (0, 0)), "REFLECT"),
    ((1, 3, 3, 30), ((0, 0), (0, 0), (0, 0), (0, 20)), "REFLECT"),
)
SPREAD = (
    ((1, 1), (9, 7)),
    ((9, 1), (9, 30)),
    ((1, 30), (9, 30)),
    ((5, 7), (5, 7)),
    ((1, 1, 1, 16), (1, 6, 6, 16)),
    ((1, 6, 6, 1), (1, 6, 6, 8)),
    ((3, 1, 5, 1), (3, 4, 5, 9)),
    ((2, 1, 3, 1, 4), (2, 5, 3, 6, 4)),
    ((1, 1, 33), (4, 10, 33)),
    ((100,), (3, 100)),
    ((1, 4), (200, 4)),
    ((12, 1), (12, 65)),
    ((3,), (3,)),
    ((2, 90), (2, 90)),
    ((1, 2, 3, 4, 6), (1, 2, 3, 4, 6)),
)
FILLED = ((1,), (7,), (64,), (13, 17), (3, 5, 100), (2, 2, 2, 2), (1, 10, 10, 30), (501,))


def pads(dtype: DType, code: str = "PAD") -> Model:
    """PAD or PADV2 of each shape."""
    return _padded(PADDED, dtype, code)


def deep_pads(dtype: DType, code: str = "PAD") -> Model:
    """The same of five axes; of int8, CMSIS-NN's looks at the last four alone."""
    return _padded(DEEP, dtype, code)


def _padded(shapes: Sequence[Padded], dtype: DType, code: str) -> Model:
    net = Net(4)
    inputs, outputs = [], []
    for shape, around in shapes:
        x = net.arena(*shape, dtype=dtype)
        inputs.append(x)
        made = [size + sum(pad) for size, pad in zip(shape, around, strict=True)]
        paddings = net.constant([one for pad in around for one in pad], len(shape), 2)
        value = [net.noise(dtype=dtype, scale=1 / 16)] if code == "PADV2" else []
        outputs.append(net.op(code, [x, paddings, *value], *made))
    return net.model(inputs, outputs)


def mirrors(dtype: DType) -> Model:
    """MIRROR_PAD in both modes."""
    net = Net(5)
    inputs, outputs = [], []
    for shape, around, mode in MIRRORED:
        x = net.arena(*shape, dtype=dtype)
        inputs.append(x)
        made = [size + sum(pad) for size, pad in zip(shape, around, strict=True)]
        paddings = net.constant([one for pad in around for one in pad], len(shape), 2)
        outputs.append(net.op("MIRROR_PAD", [x, paddings], *made, mode=mode))
    return net.model(inputs, outputs)


def broadcasts(dtype: DType) -> Model:
    """BROADCAST_TO along inner, outer and several axes."""
    net = Net(6)
    inputs, outputs = [], []
    for shape, made in SPREAD:
        x = net.arena(*shape, dtype=dtype)
        inputs.append(x)
        outputs.append(net.op("BROADCAST_TO", [x, net.constant(made)], *made))
    return net.model(inputs, outputs)


def fills(dtype: DType) -> Model:
    """FILL."""
    net = Net(7)

    def filled(shape: Sequence[int]) -> int:
        value = net.noise(dtype=dtype) if dtype in (FLOAT32, INT8) else net.scalar(7, dtype)
        return net.op("FILL", [net.constant(shape), value], *shape, dtype=dtype)

    return net.model([], [filled(shape) for shape in FILLED])


def zeros(dtype: DType) -> Model:
    """ZEROS_LIKE."""
    net = Net(8)
    inputs = [net.arena(*shape, dtype=dtype) for shape in FILLED]
    return net.model(inputs, [net.op("ZEROS_LIKE", [x]) for x in inputs])


BY_TYPE: tuple[tuple[Callable[[DType], Model], tuple[DType, ...]], ...] = (
    (pads, (INT8, INT16, INT32, FLOAT32)),
    (deep_pads, (INT8, INT16, INT32, FLOAT32)),
    (mirrors, (INT8, FLOAT32)),
    (broadcasts, (INT8, INT16, FLOAT32)),
    (fills, (INT8, INT32, FLOAT32)),
    (zeros, (INT8, INT32, INT64, FLOAT32)),
)
CASES: dict[str, Callable[[], Model]] = {
    **{
        f"{make.__name__}-{dtype.name.lower()}": lambda make=make, dtype=dtype: make(dtype)
        for make, dtypes in BY_TYPE
        for dtype in dtypes
    },
    **{
        f"{name}-{dtype.name.lower()}": lambda make=make, dtype=dtype: make(dtype, "PADV2")
        for name, make in (("padv2", pads), ("deep_padv2", deep_pads))
        for dtype in (INT8, INT16, INT32, FLOAT32)
    },
}
