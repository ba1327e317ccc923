"""Functions of single elements."""

from __future__ import annotations

from benchmarks.instructions.cases import Cases
from benchmarks.instructions.cases.arithmetic import FLAT
from benchmarks.instructions.contents import by_type, positive, values, whole_numbers
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

FLOAT32, INT8, INT16 = DType.FLOAT32, DType.INT8, DType.INT16
ANY_SIGN = ("ABS", "CEIL", "COS", "EXP", "FLOOR", "NEG", "ROUND", "SIN", "SQUARE")
ABOVE_ZERO = ("LOG", "RSQRT", "SQRT")


def functions(code: str) -> Model:
    """A function of floats."""
    net = Net(len(code))
    results = []
    for shape in FLAT:
        x = positive(net, *shape) if code in ABOVE_ZERO else values(net, *shape, dtype=FLOAT32)
        results.append(net.op(code, [x]))
    return net.model([net.arena(1)], results)


def absolute(dtype: DType, *, rescaled: bool) -> Model:
    """ABS of quantized numbers: with a scale of its own, or that of its input."""
    net = Net(2)
    inputs = [values(net, *shape, dtype=dtype) for shape in FLAT]
    scale = {INT8: 1 / 16, INT16: 1 / 2048}[dtype]
    results = [net.op("ABS", [x], scale=scale / 2 if rescaled else scale, zero_point=0) for x in inputs]
    return net.model([net.arena(1)], results)


def plain_absolute() -> Model:
    """ABS of int16 without quantization."""
    net = Net(5)
    inputs = [whole_numbers(net, shape, INT16, -(2**15) + 1, 2**15 - 1) for shape in FLAT]
    return net.model([net.arena(1)], [plain_result(net, "ABS", x) for x in inputs])


def plain_result(net: Net, code: str, x: int) -> int:
    """The result of an operator, not quantized either."""
    y = net.tensor(net.tensors[x].shape, net.tensors[x].dtype)
    net.give(code, [x], [y])
    return y


def inverse_roots(dtype: DType) -> Model:
    """RSQRT of integers, which takes no negative numbers."""
    net = Net(3)
    lowest, largest, zero_point = {INT8: (-128, 127, -128), INT16: (0, 2**15 - 1, 0)}[dtype]
    inputs = [whole_numbers(net, shape, dtype, lowest, largest, zero_point, scale=1 / 16) for shape in FLAT]
    results = [net.op("RSQRT", [x], scale=1 / 64, zero_point=zero_point) for x in inputs]
    return net.model([net.arena(1)], results)


FLOATS = dict.fromkeys((*ANY_SIGN, *ABOVE_ZERO), (FLOAT32,))
ABSOLUTE = {"ABS": (INT8, INT16)}
CASES: Cases = {
    **by_type(lambda code, _: functions(code), FLOATS),
    **by_type(lambda _, dtype: absolute(dtype, rescaled=True), ABSOLUTE, "rescaled"),
    **by_type(lambda _, dtype: absolute(dtype, rescaled=False), ABSOLUTE, "quantized"),
    "abs-int16-plain": plain_absolute,
    **by_type(lambda _, dtype: inverse_roots(dtype), {"RSQRT": (INT8, INT16)}),
}
