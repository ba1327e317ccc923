"""What values a tensor holds, where a kernel's instructions depend on them: expectations, since nobody knows.

A kernel may round a negative number with other instructions than a positive one, or leave out what is saturated. A
constant is taken as it is. Another quantized tensor is taken to be normal around zero, with a standard deviation of a
sixth of its type's range; one that cannot be negative, as the positive half of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from statistics import NormalDist, fmean, pstdev
from struct import iter_unpack

from edgetool.model.types import DType, Graph, Tensor
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.quantization import scale, zero_point
from edgetool.operators.work.loops import Loops

LOWEST = {DType.INT8: -128, DType.UINT8: 0, DType.INT16: -(2**15), DType.INT32: -(2**31)}
CODES = {DType.INT8: "b", DType.INT16: "h"}  # of constants that are looked into
# Operators whose result holds the values of their first input, and little else.
MOVING = (
    "BATCH_TO_SPACE_ND",
    "CONCATENATION",
    "DEPTH_TO_SPACE",
    "EXPAND_DIMS",
    "GATHER",
    "MIRROR_PAD",
    "PACK",
    "PAD",
    "PADV2",
    "RESHAPE",
    "RESIZE_NEAREST_NEIGHBOR",
    "SLICE",
    "SPACE_TO_BATCH_ND",
    "SPACE_TO_DEPTH",
    "SQUEEZE",
    "STRIDED_SLICE",
    "TRANSPOSE",
)
CLAMPING = ("RELU", "RELU6")  # what makes 0 of a negative number
DEVIATIONS_IN_RANGE = 6
DEVIATIONS = {dtype: 2**dtype.bits / DEVIATIONS_IN_RANGE for dtype in CODES}
NEVER_NEGATIVE = ("ABS", "LOGISTIC", "RELU", "RELU6", "SOFTMAX", "SQUARED_DIFFERENCE")  # operators and fused functions


@dataclass(frozen=True, slots=True)
class Spread:
    """The values of a tensor: the share below zero, and mean and deviation of the numbers that they stand for."""

    negative: float
    mean: float
    deviation: float


def spread(graph: Graph, tensor: Tensor) -> Spread:
    """The values of a tensor of the graph."""
    own, zero = scale(tensor) or 1.0, zero_point(tensor)
    if (contents := _dense(tensor)) and tensor.dtype in CODES:
        values = [value - zero for (value,) in iter_unpack(f"<{CODES[tensor.dtype]}", contents)]
        negative = sum(value < 0 for value in values) / len(values)
        return Spread(negative, own * fmean(values), own * pstdev(values))
    deviation = own * 2**tensor.dtype.bits / DEVIATIONS_IN_RANGE
    # The zero point does not tell of every type.
    if zero == LOWEST.get(tensor.dtype) or _is_made_by(graph, tensor, NEVER_NEGATIVE):
        return Spread(0.0, deviation * sqrt(2 / pi), deviation * sqrt(1 - 2 / pi))
    return Spread(0.5, 0.0, deviation)


def _dense(tensor: Tensor) -> bytes | None:
    """A constant's elements; None for a sparse one, of which the file has but some."""
    return tensor.data if tensor.data and len(tensor.data) == tensor.size_bytes else None


def _is_made_by(graph: Graph, tensor: Tensor, functions: tuple[str, ...]) -> bool:
    """Whether the operator that makes it is one of these, or ends with one of these; what only moves values aside."""
    for _ in graph.operators:
        maker = next((operator for operator in graph.operators if tensor.index in operator.outputs), None)
        if maker is None:
            break
        if maker.code not in MOVING or not maker.inputs or maker.inputs[0] < 0:
            fields = dict(maker.options.fields) if maker.options else {}
            return maker.code in functions or fields.get("fused_activation_function") in functions
        tensor = graph.tensors[maker.inputs[0]]
    return False


def zeros(graph: Graph, tensor: Tensor) -> float:
    """The share of float numbers that are 0: half of them behind a RELU. Software multiplies by 0 in fewer steps."""
    if tensor.dtype != DType.FLOAT32:
        return 0.0
    if contents := _dense(tensor):
        numbers = [number for (number,) in iter_unpack("<f", contents)]
        return numbers.count(0.0) / len(numbers)
    return 0.5 if _is_made_by(graph, tensor, CLAMPING) else 0.0


def negative_sum(first: Spread, second: Spread) -> float:
    """The expected share of sums below zero."""
    if not first.negative and not second.negative:
        return 0.0
    mean, deviation = first.mean + second.mean, sqrt(first.deviation**2 + second.deviation**2)
    return NormalDist(mean, deviation).cdf(0) if deviation else float(mean < 0)


def opposite(values: Spread) -> Spread:
    """The same with the other sign."""
    return Spread(1 - values.negative, -values.mean, values.deviation)


def negatives(call: Call, position: int = 0) -> int:
    """How many values of an input are expected below zero."""
    tensor = call.required_input(position)
    return round(tensor.element_count * spread(call.graph, tensor).negative)


def within(radius: float, deviation: float = DEVIATIONS[DType.INT8]) -> float:
    """The expected share of values closer to zero than a radius, in steps of quantization as the deviation is."""
    return 2 * NormalDist(0, deviation).cdf(radius) - 1


def near_largest(count: int, radius: int, deviation: float = DEVIATIONS[DType.INT8]) -> float:
    """How many of so many values are expected at most `radius` steps below their largest, itself among them.

    The largest is taken where it is expected (Blom's approximation).
    """
    if count < 1:
        return 0.0
    values = NormalDist(0, deviation)
    largest = values.inv_cdf((count - 0.375) / (count + 0.25))
    below = values.cdf(largest)
    # The share first: it is at most 1, so that rounding cannot make it more than all of them.
    return 1 + (count - 1) * (1 - values.cdf(largest - radius - 0.5) / below)


def products(call: Call, count: int, position: int = 0) -> Loops:
    """Multiplications with an input, those with 0 apart."""
    empty = round(count * zeros(call.graph, call.required_input(position)))
    return {"product": count - empty, "product of 0": empty}
