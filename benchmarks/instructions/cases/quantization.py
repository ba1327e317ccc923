"""Conversions between types."""

from __future__ import annotations

from functools import partial

from benchmarks.instructions.cases import Cases
from benchmarks.instructions.cases.arithmetic import FLAT
from benchmarks.instructions.contents import by_type, values
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

FLOAT32, INT8, INT16, INT32 = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32
UINT8, UINT32, BOOL = DType.UINT8, DType.UINT32, DType.BOOL
CAST_FROM = (INT8, INT16, INT32, UINT32, FLOAT32, BOOL)
CAST_TO = (INT8, INT16, INT32, UINT32, FLOAT32)
REQUANTIZED = (
    (FLOAT32, INT8),
    (FLOAT32, INT16),
    (INT32, INT8),
    (INT32, INT16),
    (INT16, INT8),
    (INT16, INT16),
    (INT16, INT32),
    (INT8, INT8),
    (INT8, UINT8),
    (INT8, INT16),
    (INT8, INT32),
    (UINT8, INT8),
)
SHAPES = (*FLAT, (600,), (3, 4, 100))
# Input and output scales by which a requantization goes up, down and nearly nowhere, and zero points of int8. None is a
# power of two: software divides floats by those much faster.
RATIOS = (0.3, 1.7, 0.9, 0.02)
ZERO_POINTS = (0, -128, 7)


def casts(source: DType) -> Model:
    """CAST to every type."""
    net = Net(1)
    results = []
    for target in CAST_TO:
        for shape in FLAT:
            x = values(net, *shape, dtype=source)
            results.append(
                net.op("CAST", [x], dtype=target, scale=1 / 16, in_data_type=source.name, out_data_type=target.name)
            )
    return net.model([net.arena(1)], results)


def requantizations(source: DType, target: DType) -> Model:
    """QUANTIZE."""
    net = Net(2)
    results = []
    for turn, shape in enumerate(SHAPES):
        zero_point = ZERO_POINTS[turn % 3] if source == INT8 else 128 if source == UINT8 else 0
        if source == INT32:
            x = net.noise(*shape, dtype=INT32, scale=1 / 64)
        else:
            x = values(net, *shape, dtype=source, zero_point=zero_point, signed=source != INT16 or turn % 3 != 1)
        own = {INT8: 1 / 16, UINT8: 1 / 16, INT16: 1 / 2048, INT32: 1 / 4096}[target]
        results.append(
            net.op(
                "QUANTIZE",
                [x],
                dtype=target,
                scale=own * RATIOS[turn % 4],
                zero_point=3 if target == INT8 else 128 if target == UINT8 else 0,
            )
        )
    return net.model([net.arena(1)], results)


def sign_changes(source: DType, target: DType) -> Model:
    """QUANTIZE between int8 and uint8 of one scale."""
    net = Net(3)
    results = []
    for shape in SHAPES:
        x = values(net, *shape, dtype=source, zero_point=0 if source == INT8 else 128)
        results.append(net.op("QUANTIZE", [x], dtype=target, scale=1 / 16, zero_point=0 if target == INT8 else 128))
    return net.model([net.arena(1)], results)


def dequantizations(source: DType) -> Model:
    """DEQUANTIZE."""
    net = Net(4)
    results = []
    for turn, shape in enumerate(SHAPES):
        x = values(net, *shape, dtype=source, scale=(0.017, 0.3)[turn % 2])
        results.append(net.op("DEQUANTIZE", [x], dtype=FLOAT32))
    return net.model([net.arena(1)], results)


CASES: Cases = {
    **by_type(lambda _, dtype: casts(dtype), {"CAST": CAST_FROM}),
    **{
        f"quantize-{source.name.lower()}-{target.name.lower()}": partial(requantizations, source, target)
        for source, target in REQUANTIZED
    },
    "quantize-int8-uint8-one_scale": partial(sign_changes, INT8, UINT8),
    "quantize-uint8-int8-one_scale": partial(sign_changes, UINT8, INT8),
    **by_type(lambda _, dtype: dequantizations(dtype), {"DEQUANTIZE": (INT8, INT16, UINT8)}),
}
