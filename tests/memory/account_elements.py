"""Models of operators on single elements: arithmetic, comparisons, activations, conversions."""

from __future__ import annotations

from collections.abc import Callable

from edgetool.model.types import DType, Model
from tests.memory.account_net import Net

FLOAT32, INT8, INT16, INT32, BOOL = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.BOOL


def sums_and_products(dtype: DType) -> Model:
    """ADD, SUB, MUL and SQUARED_DIFFERENCE, with a broadcast operand and a constant one."""
    net = Net(1)
    a, b, c = net.arena(2, 3, 5, dtype=dtype), net.arena(2, 3, 5, dtype=dtype), net.arena(1, 1, 5, dtype=dtype)
    x = net.op("ADD", [a, b], fused_activation_function="RELU")
    x = net.op("SUB", [x, c])
    x = net.op("MUL", [x, net.noise(2, 3, 5, dtype=dtype)])
    x = net.op("SQUARED_DIFFERENCE", [x, b])
    return net.model([a, b, c], [x])


def float_arithmetic() -> Model:
    """The functions of one float, and those of two that know no quantization."""
    net = Net(2)
    x, y = net.arena(1, 7, dtype=FLOAT32), net.arena(1, 7, dtype=FLOAT32)
    z = net.op("DIV", [x, y])
    for code in ("ABS", "SQRT", "RSQRT", "LOG", "EXP", "SIN", "COS", "SQUARE", "NEG", "CEIL", "FLOOR", "ROUND"):
        z = net.op(code, [z])
    z = net.op("FLOOR_DIV", [z, y])
    z = net.op("FLOOR_MOD", [z, y])
    z = net.op("ADD_N", [net.op("MAXIMUM", [z, x]), net.op("MINIMUM", [z, y]), x])
    return net.model([x, y], [net.op("ZEROS_LIKE", [z]), z])


def quantized_functions() -> Model:
    """What int8 and int16 have tables or multipliers for."""
    net = Net(3)
    x, y = net.arena(3, 5), net.arena(3, 5)
    z = net.op("ABS", [net.op("MAXIMUM", [x, net.op("MINIMUM", [x, y])])])
    z = net.op("RSQRT", [z])
    w = net.op("ADD_N", [x, y, z])
    short = net.arena(4, 3, dtype=INT16)
    return net.model([x, y, short], [w, net.op("RSQRT", [net.op("ABS", [short])])])


def comparisons(dtype: DType) -> Model:
    """All six, joined by logic, and a choice by the result."""
    net = Net(4)
    a, b = net.arena(2, 6, dtype=dtype), net.arena(2, 6, dtype=dtype)
    codes = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
    found = [net.op(code, [a, b], dtype=BOOL) for code in codes]
    x = found[0]
    for code, other in zip(("LOGICAL_OR", "LOGICAL_AND") * 3, found[1:], strict=False):
        x = net.op(code, [x, other])
    x = net.op("LOGICAL_NOT", [x])
    return net.model([a, b], [net.op("SELECT_V2", [x, a, b], 2, 6, dtype=dtype)])


def activations(dtype: DType) -> Model:
    """Activation functions as operators of their own."""
    net = Net(5)
    x = net.arena(1, 4, 3, 5, dtype=dtype)
    y = net.op("RELU", [net.op("LEAKY_RELU", [x], alpha=0.125)])
    unit = {INT8: 1 / 256, INT16: 2**-15}.get(dtype)
    outputs = [
        y,
        net.op("LOGISTIC", [x], scale=unit, zero_point=-128 if dtype == INT8 else 0),
        net.op("TANH", [x], scale=2**-15 if dtype == INT16 else unit),
    ]
    if dtype != INT16:
        outputs.append(net.op("HARD_SWISH", [net.op("RELU6", [y])]))
        outputs.append(net.op("ELU", [x]))
        slopes = net.noise(1, 1, 5, dtype=dtype, scale=1 / 128)
        outputs.append(net.op("PRELU", [x, slopes]))
    return net.model([x], outputs)


def whole_numbers() -> Model:
    """int32 and int64 without quantization."""
    net = Net(6)
    a, b = net.arena(5, dtype=INT32), net.arena(5, dtype=INT32)
    x = net.op("MUL", [net.op("ADD", [a, b]), net.op("SUB", [a, b])])
    y = net.op("LESS", [x, b], dtype=BOOL)
    long = net.arena(5, dtype=DType.INT64)
    outputs = [y, net.op("MAXIMUM", [x, b]), net.op("EQUAL", [long, long], dtype=BOOL)]
    return net.model([a, b, long], outputs)


def conversions() -> Model:
    """QUANTIZE, DEQUANTIZE, requantization and CAST, between all that TFLM converts."""
    net = Net(7)
    x = net.arena(1, 6, 2, dtype=FLOAT32)
    eight = net.op("QUANTIZE", [x], dtype=INT8)
    sixteen = net.op("QUANTIZE", [eight], dtype=INT16)
    again = net.op("QUANTIZE", [sixteen], dtype=INT8, scale=1 / 8, zero_point=-3)
    outputs = [net.op("DEQUANTIZE", [again], dtype=FLOAT32), net.op("DEQUANTIZE", [sixteen], dtype=FLOAT32)]
    outputs.append(net.op("CAST", [x], dtype=INT32, in_data_type="FLOAT32", out_data_type="INT32"))
    outputs.append(net.op("CAST", [eight], dtype=FLOAT32, in_data_type="INT8", out_data_type="FLOAT32"))
    return net.model([x], outputs)


def quotient_of_int8() -> Model:
    """DIV by a constant."""
    net = Net(8)
    x = net.arena(2, 9)
    divisor = net.constant([3, 5, 7] * 3, 1, 9, dtype=INT8, scale=1 / 4)
    return net.model([x], [net.op("DIV", [x, divisor])])


BY_TYPE: tuple[tuple[Callable[[DType], Model], tuple[DType, ...]], ...] = (
    (sums_and_products, (FLOAT32, INT8, INT16)),
    (comparisons, (FLOAT32, INT8)),
    (activations, (FLOAT32, INT8, INT16)),
)
MODELS: dict[str, Callable[[], Model]] = {
    **{
        f"{make.__name__}-{dtype.name.lower()}": lambda make=make, dtype=dtype: make(dtype)
        for make, dtypes in BY_TYPE
        for dtype in dtypes
    },
    **{
        make.__name__: make
        for make in (float_arithmetic, quantized_functions, whole_numbers, conversions, quotient_of_int8)
    },
}
