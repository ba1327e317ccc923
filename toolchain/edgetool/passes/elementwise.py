"""Elementwise operators as functions of real numbers in float64, and the regions of a graph that consist of them.

A region computes one tensor's elements from those of another, each separately: a chain of activation functions. Its
function can be evaluated for every quantized value of its source.

Sources: TensorFlow Lite's operator documentation and its reference kernels. Comparisons and logical operators read and
return 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import erf, inf, pi, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Operator, Tensor

Reals = npt.NDArray[np.float64]
_Function = Callable[..., Any]

# The types for which these functions are valid; integers without a scale have other operators (DIV truncates), and CAST
# reads quantized values as integers.
_REAL = frozenset({DType.FLOAT32, DType.BOOL})
_QUANTIZED = frozenset({DType.INT8, DType.UINT8, DType.INT16})

_erf = np.vectorize(erf, otypes=[np.float64])


def _gelu(x: Reals, approximate: bool) -> Reals:
    if approximate:
        return np.asarray(0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))))
    return np.asarray(0.5 * x * (1 + _erf(x / sqrt(2))))


def _logistic(x: Reals) -> Reals:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


FUSED: dict[str, Callable[[Reals], Any]] = {
    "NONE": lambda x: x,
    "RELU": lambda x: np.maximum(x, 0),
    "RELU_N1_TO_1": lambda x: np.clip(x, -1, 1),
    "RELU6": lambda x: np.clip(x, 0, 6),
    "TANH": np.tanh,
}

# The function of each operator, of its inputs in order.
FUNCTIONS: dict[str, _Function] = {
    "ABS": np.abs,
    "ADD": np.add,
    "ATAN2": np.arctan2,
    "CAST": lambda x: x,
    "CEIL": np.ceil,
    "COS": np.cos,
    "DEQUANTIZE": lambda x: x,
    "DIV": np.divide,
    "ELU": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "EQUAL": np.equal,
    "EXP": np.exp,
    "FLOOR": np.floor,
    "FLOOR_DIV": lambda x, y: np.floor(x / y),
    "FLOOR_MOD": np.mod,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "LOG": np.log,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_NOT": np.logical_not,
    "LOGICAL_OR": np.logical_or,
    "LOGISTIC": _logistic,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "MUL": np.multiply,
    "NEG": np.negative,
    "NOT_EQUAL": np.not_equal,
    "POW": np.power,
    "PRELU": lambda x, alpha: np.where(x < 0, alpha * x, x),
    "QUANTIZE": lambda x: x,
    "RELU": FUSED["RELU"],
    "RELU6": FUSED["RELU6"],
    "RELU_0_TO_1": lambda x: np.clip(x, 0, 1),
    "RELU_N1_TO_1": FUSED["RELU_N1_TO_1"],
    "ROUND": np.rint,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "SELECT": lambda condition, x, y: np.where(condition != 0, x, y),
    "SELECT_V2": lambda condition, x, y: np.where(condition != 0, x, y),
    "SIGN": np.sign,
    "SIN": np.sin,
    "SQRT": np.sqrt,
    "SQUARE": np.square,
    "SQUARED_DIFFERENCE": lambda x, y: np.square(x - y),
    "SUB": np.subtract,
    "TANH": np.tanh,
    "ZEROS_LIKE": lambda x: np.zeros_like(x),
}
# The functions that depend on options.
_WITH_OPTIONS: dict[str, Callable[[Operator, Reals], Any]] = {
    "GELU": lambda operator, x: _gelu(x, bool(operator.options and operator.options["approximate"])),
    "LEAKY_RELU": lambda operator, x: np.where(x < 0, _alpha(operator) * x, x),
}


def _alpha(operator: Operator) -> float:
    alpha = operator.options["alpha"] if operator.options else 0.0
    if not isinstance(alpha, int | float):
        raise TypeError(f"LEAKY_RELU's alpha is {alpha!r}")
    return float(alpha)


def _fused(operator: Operator) -> str:
    options = operator.options
    names = dict(options.fields) if options is not None else {}
    return str(names.get("fused_activation_function", "NONE"))


def is_function(operator: Operator) -> bool:
    """Return whether `apply` can compute the operator's result for each element."""
    return (operator.code in FUNCTIONS or operator.code in _WITH_OPTIONS) and _fused(operator) in FUSED


def is_real(tensor: Tensor) -> bool:
    """Return whether the tensor's elements represent real numbers by one scale, or are float32 or bool."""
    return tensor.dtype in _REAL or is_quantized(tensor)


def is_quantized(tensor: Tensor) -> bool:
    """Return whether the tensor has elements of 8 or 16 bits and one positive scale for all."""
    quantization = tensor.per_tensor
    return tensor.dtype in _QUANTIZED and quantization is not None and 0 < quantization[0] < inf


def apply(operator: Operator, *inputs: Reals) -> Reals:
    """Return the operator's result in float64 for arrays that broadcast; infinity and NaN result as in float32.

    Raises KeyError for an operator that is not one of these functions.
    """
    with np.errstate(all="ignore"):
        if operator.code in _WITH_OPTIONS:
            result = _WITH_OPTIONS[operator.code](operator, *inputs)
        else:
            result = FUNCTIONS[operator.code](*inputs)
        return np.asarray(FUSED[_fused(operator)](np.asarray(result, np.float64)), np.float64)


def scale_and_zero_point(tensor: Tensor) -> tuple[float, int]:
    """Return the single scale and zero point of a quantized tensor. Raises ValueError without them."""
    quantization = tensor.per_tensor
    if quantization is None:
        raise ValueError(f"tensor {tensor.index} does not have exactly one scale")
    return quantization


def dequantized(values: npt.NDArray[Any], tensor: Tensor) -> Reals:
    """Return a tensor's stored elements as real numbers."""
    if not is_quantized(tensor):
        return values.astype(np.float64)
    scale, zero_point = scale_and_zero_point(tensor)
    return (values.astype(np.float64) - zero_point) * scale


def quantized(values: Reals, tensor: Tensor) -> npt.NDArray[np.int64]:
    """Return the quantized values of real numbers in a tensor's scale.

    They are rounded half away from zero like QUANTIZE, and saturated.
    """
    scale, zero_point = scale_and_zero_point(tensor)
    bits, signed = tensor.dtype.bits, tensor.dtype is not DType.UINT8
    lowest = -(2 ** (bits - 1)) if signed else 0
    steps = values / scale
    away = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    return np.asarray(np.clip(away + zero_point, lowest, lowest + 2**bits - 1), np.int64)


# Of a closed region that ends at a given operator: more than any activation function has (GELU by a series has 24).
MAX_OPERATORS = 32

IsEnd = Callable[[Tensor], bool]


@dataclass(frozen=True, slots=True)
class Region:
    """All operators between two tensors of one shape, in execution order: the second is a function of the first.

    closed: no other operator reads the tensors in between.
    """

    source: int
    result: int
    operators: tuple[Operator, ...]
    closed: bool


def largest_region(draft: Draft, operator: Operator, is_end: IsEnd) -> Region | None:
    """Return the longest closed region through the operator that starts and ends at tensors for which `is_end` is true.

    If none is closed, the shortest that is not; None if the operator is in none.
    """
    if not _is_elementwise(draft, operator):
        return None
    best: Region | None = None
    places = {item.index: place for place, item in enumerate(draft.operators)}
    for source in _sources(draft, operator, is_end):
        reached = _functions_of(draft, source)
        for result in reached:
            if is_end(draft.tensors[result]):
                region = _between(draft, source, result, reached, places)
                if any(item.index == operator.index for item in region.operators) and _better(region, best):
                    best = region
    return best


def closed_regions(draft: Draft, operator: Operator) -> Iterator[Region]:
    """Yield the closed regions of at most MAX_OPERATORS whose last operator is this one, the longest first."""
    if not _is_elementwise(draft, operator):
        return
    sources = dict.fromkeys(dynamic_inputs(draft, operator))
    waiting = list(sources)
    while waiting and len(sources) < MAX_OPERATORS:
        producer = draft.producer(waiting.pop(0))
        if producer is not None and _is_elementwise(draft, producer):
            new = [index for index in dynamic_inputs(draft, producer) if index not in sources]
            sources.update(dict.fromkeys(new))
            waiting += new
    regions = [_closed(draft, source, operator) for source in sources]
    yield from sorted((region for region in regions if region is not None), key=lambda region: -len(region.operators))


def _closed(draft: Draft, source: int, last: Operator) -> Region | None:
    """Return the closed region between a tensor and an operator, if there is one."""
    needed: dict[int, Operator] = {}
    waiting = [last.outputs[0]]
    while waiting:
        tensor = waiting.pop()
        operator = draft.producer(tensor) if tensor != source else None
        if tensor == source or (operator is not None and operator.index in needed):
            continue
        if operator is None or len(needed) == MAX_OPERATORS or not _is_elementwise(draft, operator):
            return None
        needed[operator.index] = operator
        waiting += dynamic_inputs(draft, operator)
    places = {each.index: place for place, each in enumerate(draft.operators)} if len(needed) > 1 else {}
    operators = tuple(sorted(needed.values(), key=lambda each: places.get(each.index, 0)))
    inside = {each.outputs[0] for each in operators if each.index != last.index}
    closed = all(
        tensor not in draft.outputs and all(reader.index in needed for reader in draft.consumers(tensor))
        for tensor in inside
    )
    return Region(source, last.outputs[0], operators, True) if closed else None


def _better(region: Region, best: Region | None) -> bool:
    if best is None or region.closed != best.closed:
        return best is None or region.closed
    more = len(region.operators) > len(best.operators)
    return more if region.closed else len(region.operators) < len(best.operators)


def _is_elementwise(draft: Draft, operator: Operator) -> bool:
    """Return whether each element of the result depends on one element of each input that is not constant."""
    if not is_function(operator) or not is_real(draft.tensors[operator.outputs[0]]):
        return False
    shape = draft.tensors[operator.outputs[0]].shape
    dynamic = 0
    for index in operator.inputs:
        if index < 0 or not is_real(draft.tensors[index]):
            return False
        if draft.values(index) is None:
            dynamic += 1
            if draft.tensors[index].shape != shape or draft.tensors[index].is_variable:
                return False
        elif uniform_value(draft, index) is None:
            return False
    if operator.code == "CAST" and any(is_quantized(draft.tensors[i]) for i in (*operator.inputs, *operator.outputs)):
        return False
    return dynamic > 0


def uniform_value(draft: Draft, tensor: int) -> float | None:
    """Return the real number of every element of a constant; None if they differ or it is not constant."""
    values = draft.values(tensor)
    if values is None or not values.size or not is_real(draft.tensors[tensor]):
        return None
    first = values.flat[0]
    return float(dequantized(np.asarray(first), draft.tensors[tensor])) if np.all(values == first) else None


def dynamic_inputs(draft: Draft, operator: Operator) -> list[int]:
    """Return the inputs that are not constant, each once."""
    return [index for index in dict.fromkeys(operator.inputs) if index >= 0 and draft.values(index) is None]


def _sources(draft: Draft, operator: Operator, is_end: IsEnd) -> Iterator[int]:
    """Yield the tensors accepted by `is_end` from which elementwise operators compute the operator's result."""
    seen: set[int] = set()
    waiting = dynamic_inputs(draft, operator)
    while waiting:
        tensor = waiting.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        if is_end(draft.tensors[tensor]):
            yield tensor
        producer = draft.producer(tensor)
        if producer is not None and _is_elementwise(draft, producer):
            waiting += dynamic_inputs(draft, producer)


def _functions_of(draft: Draft, source: int) -> dict[int, Operator]:
    """Return every tensor that is a function of the source alone, with the operator that computes it."""
    reached: dict[int, Operator] = {}
    waiting = [source]
    while waiting:
        for reader in draft.consumers(waiting.pop()):
            result = reader.outputs[0] if reader.outputs else -1
            if result in reached or not _is_elementwise(draft, reader):
                continue
            if all(index == source or index in reached for index in dynamic_inputs(draft, reader)):
                reached[result] = reader
                waiting.append(result)
    return reached


def _between(draft: Draft, source: int, result: int, reached: dict[int, Operator], places: dict[int, int]) -> Region:
    needed: dict[int, Operator] = {}
    waiting = [result]
    while waiting:
        tensor = waiting.pop()
        if tensor != source and reached[tensor].index not in needed:
            operator = needed[reached[tensor].index] = reached[tensor]
            waiting += dynamic_inputs(draft, operator)
    operators = tuple(sorted(needed.values(), key=lambda operator: places[operator.index]))
    inside = {operator.outputs[0] for operator in operators} - {result}
    closed = all(
        tensor not in draft.outputs and all(reader.index in needed for reader in draft.consumers(tensor))
        for tensor in inside
    )
    return Region(source, result, operators, closed)


def evaluate(draft: Draft, region: Region, values: Reals) -> Reals:
    """Return the result for real numbers at the region's source, in float64 and without intermediate rounding."""
    values_of: dict[int, Reals] = {region.source: values}

    def value(tensor: int) -> Reals:
        if tensor not in values_of:
            constant = uniform_value(draft, tensor)
            assert constant is not None
            values_of[tensor] = np.full_like(values, constant)
        return values_of[tensor]

    for operator in region.operators:
        values_of[operator.outputs[0]] = apply(operator, *(value(tensor) for tensor in operator.inputs))
    return values_of[region.result]


def remove_unread(draft: Draft, region: Region) -> None:
    """Remove the region's operators from the draft, except those that others read."""
    for operator in reversed(region.operators):
        output = operator.outputs[0]
        current = draft.operator(operator.index)
        if current is not None and output not in draft.outputs and not draft.consumers(output):
            draft.replace(current)


def is_int8(tensor: Tensor) -> bool:
    """Return whether it is an int8 tensor with one scale."""
    return tensor.dtype is DType.INT8 and is_quantized(tensor) and not tensor.is_variable


def scope_of(draft: Draft, operator: Operator) -> str:
    """Return the name scope of an operator's result with its slash ("model/activation/"), for its replacement's
    tensors.
    """
    name = draft.tensors[operator.outputs[0]].name.split(";")[-1]
    return name[: name.rfind("/") + 1]
