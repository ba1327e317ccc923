"""What elementwise operators compute, in float64: the schema's operators as functions of real numbers.

Sources: TensorFlow Lite's operator documentation and its reference kernels. Comparisons and logical operators give and
take 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from math import erf, pi, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.model.types import DType, Operator, Tensor

Reals = npt.NDArray[np.float64]
_Function = Callable[..., Any]

# What a tensor may hold for these functions to be meant; integers without a scale have operators of their own (DIV
# truncates), and CAST reads the codes of quantized ones.
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

# By operator: a function of its inputs in order.
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
# Those that depend on their options.
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
    """Whether `apply` knows what the operator computes of each element."""
    if operator.code in FUNCTIONS:
        known = len(operator.inputs) == _arguments(FUNCTIONS[operator.code])
    else:
        known = operator.code in _WITH_OPTIONS and len(operator.inputs) == 1
    return known and len(operator.outputs) == 1 and _fused(operator) in FUSED


def _arguments(function: Callable[..., Any]) -> int:
    return function.nin if isinstance(function, np.ufunc) else len(signature(function).parameters)


def is_real(tensor: Tensor) -> bool:
    """Whether the tensor's elements stand for real numbers by one scale, or are float32 or bool themselves."""
    return tensor.dtype in _REAL or is_quantized(tensor)


def is_quantized(tensor: Tensor) -> bool:
    """Whether the tensor has elements of 8 or 16 bits and one scale for all."""
    own = tensor.per_tensor
    return tensor.dtype in _QUANTIZED and own is not None and own[0] > 0


def apply(operator: Operator, *inputs: Reals) -> Reals:
    """The operator's result, in float64, of arrays that broadcast; infinite or NaN where it is so in float.

    KeyError for an operator that is none of these functions.
    """
    with np.errstate(all="ignore"):
        if operator.code in _WITH_OPTIONS:
            result = _WITH_OPTIONS[operator.code](operator, *inputs)
        else:
            result = FUNCTIONS[operator.code](*inputs)
        return np.asarray(FUSED[_fused(operator)](np.asarray(result, np.float64)), np.float64)


def parameters(tensor: Tensor) -> tuple[float, int]:
    """The one scale and zero point of a quantized tensor. ValueError without them."""
    own = tensor.per_tensor
    if own is None:
        raise ValueError(f"tensor {tensor.index} does not have exactly one scale")
    return own


def dequantized(values: npt.NDArray[Any], tensor: Tensor) -> Reals:
    """A tensor's stored elements as the real numbers that they stand for."""
    if not is_quantized(tensor):
        return values.astype(np.float64)
    scale, zero_point = parameters(tensor)
    return (values.astype(np.float64) - zero_point) * scale


def quantized(values: Reals, tensor: Tensor) -> npt.NDArray[np.int64]:
    """The codes of real numbers in a tensor's scale: rounded half away from zero, as QUANTIZE does, and saturated."""
    scale, zero_point = parameters(tensor)
    bits, signed = tensor.dtype.bits, tensor.dtype is not DType.UINT8
    lowest = -(2 ** (bits - 1)) if signed else 0
    steps = values / scale
    away = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    return np.asarray(np.clip(away + zero_point, lowest, lowest + 2**bits - 1), np.int64)
