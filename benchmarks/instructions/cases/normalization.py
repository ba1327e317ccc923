"""Normalization along the last axis."""

from __future__ import annotations

from functools import partial

from benchmarks.instructions.cases import Cases
from benchmarks.instructions.contents import by_type, values
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

FLOAT32, INT8, INT16 = DType.FLOAT32, DType.INT8, DType.INT16
SHAPES = ((1, 10), (1, 2), (4, 33), (1, 3, 5, 4), (60, 2), (2, 6, 9, 7), (1, 1, 100), (300,), (25, 3))
MORE_SHAPES = ((12, 33), (40, 5), (6, 50), (30, 12), (1, 4), (25, 2))
# Scales of int8: with the larger ones some values are too small against their row's largest.
SCALES = (1 / 64, 0.2, 0.02, 0.15, 0.9)
# Those of int16 are shifted left or right.
FINE_SCALES = (1 / 2048, 0.00008, 1 / 512, 0.0001)
# Scale and zero point of what SOFTMAX makes.
MADE = {(INT8, INT8): (1 / 256, -128), (INT8, INT16): (2**-16, -32768), (INT16, INT16): (2**-15, 0)}


def softmaxes(source: DType, target: DType) -> Model:
    """SOFTMAX with rows of all lengths."""
    net = Net(1)
    results = []
    scale, zero_point = MADE.get((source, target), (None, 0))
    for turn, shape in enumerate((*SHAPES, *MORE_SHAPES)):
        scales = {INT8: SCALES, INT16: FINE_SCALES}.get(source)
        x = values(net, *shape, dtype=source, scale=scales[turn % len(scales)] if scales else None)
        results.append(net.op("SOFTMAX", [x], dtype=target, scale=scale, zero_point=zero_point, beta=1.0))
    return net.model([net.arena(1)], results)


def logarithmic(dtype: DType) -> Model:
    """LOG_SOFTMAX."""
    net = Net(2)
    results = []
    for turn, shape in enumerate((*SHAPES, *MORE_SHAPES)):
        x = values(net, *shape, dtype=dtype, scale=SCALES[turn % 5] if dtype == INT8 else None)
        results.append(net.op("LOG_SOFTMAX", [x], scale=16 / 256, zero_point=127 if dtype == INT8 else 0))
    return net.model([net.arena(1)], results)


def lengths(dtype: DType) -> Model:
    """L2_NORMALIZATION."""
    net = Net(3)
    inputs = [values(net, *shape, dtype=dtype, zero_point=4 if dtype == INT8 else 0) for shape in SHAPES]
    return net.model([net.arena(1)], [net.op("L2_NORMALIZATION", [x], scale=1 / 128) for x in inputs])


CASES: Cases = {
    **{
        f"softmax-{source.name.lower()}-{target.name.lower()}": partial(softmaxes, source, target)
        for source, target in ((FLOAT32, FLOAT32), (INT8, INT8), (INT8, INT16), (INT16, INT16))
    },
    **by_type(lambda _, dtype: logarithmic(dtype), {"LOG_SOFTMAX": (FLOAT32, INT8)}),
    **by_type(lambda _, dtype: lengths(dtype), {"L2_NORMALIZATION": (FLOAT32, INT8)}),
}
