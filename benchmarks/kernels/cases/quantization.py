"""Conversions between types; keys of CAST and QUANTIZE hold the types of the input and of the output."""

from __future__ import annotations

from math import exp, prod
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    FLOAT32,
    INT8,
    INT16,
    INT32,
    TYPES,
    UINT8,
    Shape,
    activation,
    any_shape,
    by_type,
    finished,
    net_of,
    numbers,
    scale,
    zero_point,
)
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

CAST_FROM = ("int8", "int16", "int32", "uint32", "float32", "bool")
CAST_TO = ("int8", "int16", "int32", "uint32", "float32")
QUANTIZED = (
    *("float32-int8", "float32-int16"),
    *("int32-int8", "int32-int16"),
    *("int16-int8", "int16-int16", "int16-int32"),
    *("int8-int8", "int8-uint8", "int8-int16", "int8-int32"),
    "uint8-int8",
)
LEVELS = {INT8: 2.0**7, UINT8: 2.0**7, INT16: 2.0**15, INT32: 2.0**31}
# The largest numbers that each type can hold as a float; converting others is undefined.
LIMITS = {"int8": 127, "int16": 32767, "int32": 2147483500, "uint32": 4294967000}


def _cast(code: str, kind: str, random: Random) -> Model:
    """CAST of floats that fit the output's type: normal ones, or constants over its whole range."""
    net, dims = net_of(random), any_shape(random, lowest=0)
    source, target = kind.split("-")
    highest = LIMITS.get(target)
    if source == "float32" and highest is not None and (target == "uint32" or random.random() < 0.6):
        lowest = 0 if target == "uint32" else -highest
        x = numbers(net, dims, (random.uniform(lowest, highest) for _ in range(prod(dims))))
    else:
        x = net.tensor(dims, TYPES[source])
    y = net.tensor(dims, TYPES[target])
    net.give(code, [x], [y], in_data_type=TYPES[source].name, out_data_type=TYPES[target].name)
    return finished(net)


def _dequantize(code: str, kind: str, random: Random) -> Model:
    net, dims = net_of(random), any_shape(random, lowest=0)
    x = activation(net, random, dims, TYPES[kind])
    net.give(code, [x], [net.arena(*dims, dtype=FLOAT32)])
    return finished(net)


def _quantize(code: str, kind: str, random: Random) -> Model:
    """QUANTIZE; int8 and uint8 sometimes differ only in the sign bit."""
    net, dims = net_of(random), any_shape(random, lowest=0)
    source, target = (TYPES[name] for name in kind.split("-"))
    if kind in ("int8-uint8", "uint8-int8") and random.random() < 0.4:
        own, zero = scale(random), random.randint(-128, 127)
        x, y = (
            net.arena(*dims, dtype=dtype, scale=own, zero_point=zero + (128 if dtype is UINT8 else 0))
            for dtype in (source, target)
        )
    else:
        x, largest = _source(net, random, dims, source)
        own = largest / LEVELS[target] * exp(random.gauss(0, 0.5))
        if target is INT32:
            own *= 2.0 ** random.choice((10, 15, 22))
        y = net.arena(*dims, dtype=target, scale=own, zero_point=zero_point(random, target))
    net.give(code, [x], [y])
    return finished(net)


def _source(net: Net, random: Random, dims: Shape, dtype: DType) -> tuple[int, float]:
    """Add the input and return its largest number. The kernel need not shift an int32 number left."""
    if dtype is FLOAT32:
        return net.arena(*dims, dtype=dtype), random.choice((1.0, 4.0))
    own = scale(random) * 128 / LEVELS[dtype]
    return net.arena(*dims, dtype=dtype, scale=own, zero_point=zero_point(random, dtype)), own * LEVELS[dtype]


GENERATORS: Generators = {
    **by_type(_cast, {"CAST": [f"{source}-{target}" for source in CAST_FROM for target in CAST_TO]}),
    **by_type(_dequantize, {"DEQUANTIZE": ("int8", "int16", "uint8")}),
    **by_type(_quantize, {"QUANTIZE": QUANTIZED}),
}
