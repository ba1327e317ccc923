"""Activation functions as operators of their own."""

from __future__ import annotations

from typing import Any

from benchmarks.instructions.cases import Cases
from benchmarks.instructions.cases.arithmetic import FLAT
from benchmarks.instructions.contents import by_type, values
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

FLOAT32, INT8, INT16 = DType.FLOAT32, DType.INT8, DType.INT16
TYPES: dict[str, tuple[DType, ...]] = {
    "ELU": (FLOAT32, INT8),
    "HARD_SWISH": (FLOAT32, INT8),
    "LEAKY_RELU": (FLOAT32, INT8, INT16),
    "LOGISTIC": (FLOAT32, INT8, INT16),
    "RELU": (FLOAT32, INT8, INT16),
    "RELU6": (FLOAT32, INT8, INT16),
    "TANH": (FLOAT32, INT8, INT16),
}
OPTIONS: dict[str, dict[str, Any]] = {"LEAKY_RELU": {"alpha": 0.1}}
# Scales of int8: some values of the larger ones saturate in LOGISTIC and TANH, and HARD_SWISH shifts either way.
SCALES = (1 / 64, 1 / 16, 0.2, 0.004, 0.009, 0.125)
FINE_SCALES = (1 / 2048, 1 / 4096, 0.001, 0.0001, 0.0003, 0.0007)
OUTPUTS: dict[tuple[str, DType], tuple[float, int]] = {
    ("LOGISTIC", INT8): (1 / 256, -128),
    ("LOGISTIC", INT16): (2**-15, 0),
    ("TANH", INT8): (1 / 128, 0),
    ("TANH", INT16): (2**-15, 0),
}
Shape = tuple[int, ...]
SLOPES: tuple[tuple[Shape, Shape], ...] = (
    ((1, 4, 6, 10), (1, 1, 10)),
    ((2, 9, 3, 33), (1, 1, 1, 33)),
    ((1, 5, 7, 8), (1, 5, 7, 8)),
    ((1, 9, 11, 5), (1, 1, 1)),
    ((1, 10, 10, 4), (10, 10, 1)),
    ((3, 40), (40,)),
    ((5, 9, 21), (1, 9, 21)),
    ((60,), (60,)),
    ((7, 2, 2, 2), (2,)),
    ((1, 12, 5, 3), (1, 1, 3)),
    ((2, 2, 9, 1), (1,)),
)


def activations(code: str, dtype: DType) -> Model:
    """All shapes, scales in turn, zero points in the middle and at the end of the range."""
    net = Net(len(code))
    results = []
    for turn, shape in enumerate((*FLAT, (15, 40), (2, 9, 31), (1, 400))):
        scales = {INT8: SCALES, INT16: FINE_SCALES}.get(dtype)
        scale = scales[turn % len(scales)] if scales else None
        zero_point = (0, 12, -128)[turn % 3] if dtype == INT8 else 0
        signed = dtype != INT16 or turn % 3 != 1  # that none is negative, int8's zero point tells
        x = values(net, *shape, dtype=dtype, scale=scale, zero_point=zero_point, signed=signed)
        own, offset = OUTPUTS.get((code, dtype), (scale * (0.55, 1, 1.3)[turn // 3 % 3] if scale else None, zero_point))
        results.append(net.op(code, [x], scale=own, zero_point=offset, **OPTIONS.get(code, {})))
    return net.model([net.arena(1)], results)


def slopes(dtype: DType) -> Model:
    """PRELU with slopes that broadcast in all ways; those of int16 are int8."""
    net = Net(4)
    results = []
    for turn, (shape, own) in enumerate(SLOPES):
        x = values(net, *shape, dtype=dtype, zero_point=(0, -128)[turn % 2] if dtype == INT8 else 0)
        results.append(net.op("PRELU", [x, values(net, *own, dtype=FLOAT32 if dtype == FLOAT32 else INT8)]))
    return net.model([net.arena(1)], results)


CASES: Cases = {
    **by_type(activations, TYPES),
    **by_type(lambda _, dtype: slopes(dtype), {"PRELU": (FLOAT32, INT8, INT16)}),
}
