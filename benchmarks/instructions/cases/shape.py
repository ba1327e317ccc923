"""Operators that copy a tensor to another shape, or tell it."""

from __future__ import annotations

from collections.abc import Callable

from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

INT8, INT16, INT32, INT64, FLOAT32 = DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32
SHAPES: tuple[tuple[int, ...], ...] = (
    (1,), (3,), (7, 2), (1, 16), (5, 5, 3), (1, 8, 8, 2), (64, 1), (1, 10, 1, 10), (1, 1, 251), (1, 12, 12, 7), (3000,)
)  # fmt: skip


def reshapes(dtype: DType) -> Model:
    """RESHAPE to one dimension and back, with and without a tensor that says so."""
    net = Net(21)
    inputs, outputs = [], []
    for shape in SHAPES:
        x = net.arena(*shape, dtype=dtype)
        count = net.tensors[x].element_count
        flat = net.op("RESHAPE", [x], count, new_shape=(count,))
        inputs.append(x)
        outputs.append(net.op("RESHAPE", [flat, net.constant(shape)], *shape, new_shape=shape))
    return net.model(inputs, outputs)


def squeezes(dtype: DType) -> Model:
    """EXPAND_DIMS by one axis, which SQUEEZE takes away."""
    net = Net(22)
    inputs, outputs = [], []
    for shape in SHAPES:
        x = net.arena(*shape, dtype=dtype)
        inputs.append(x)
        wide = net.op("EXPAND_DIMS", [x, net.constant([0])], 1, *shape)
        outputs.append(net.op("SQUEEZE", [wide], *shape, squeeze_dims=(0,)))
    return net.model(inputs, outputs)


def told() -> Model:
    """SHAPE of one to six dimensions."""
    net = Net(23)
    inputs = [net.arena(*(range(2, 2 + rank)), dtype=FLOAT32) for rank in range(1, 6)]
    outputs = [net.op("SHAPE", [x], len(net.tensors[x].shape), dtype=INT32, out_type="INT32") for x in inputs]
    return net.model(inputs, outputs)


def common(dtype: DType) -> Model:
    """BROADCAST_ARGS of shapes of different lengths."""
    net = Net(24)
    made = []
    for short, long in (
        ((1,), (4,)),
        ((3, 1), (2, 1, 4)),
        ((5, 6), (5, 6)),
        ((1, 1, 2), (4, 4, 1, 1)),
        ((2,), (9, 8, 7, 6, 2)),
    ):
        given = [net.constant(short, dtype=dtype), net.constant(long, dtype=dtype)]
        made.append(net.op("BROADCAST_ARGS", given, len(long)))
    return net.model([], made)


CASES: dict[str, Callable[[], Model]] = {
    **{
        f"{make.__name__}-{dtype.name.lower()}": lambda make=make, dtype=dtype: make(dtype)
        for make, dtypes in {
            reshapes: (INT8, INT16, FLOAT32),
            squeezes: (INT8, INT16, FLOAT32),
            common: (INT32, INT64),
        }.items()
        for dtype in dtypes
    },
    "told": told,
}
