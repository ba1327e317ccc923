"""Normalization along the last axis: which loops its kernels run.

Sources: softmax.h, log_softmax.h, l2normalization.h; of CMSIS-NN arm_nn_softmax_common_s8.c and arm_softmax_s16.c (GCC
12.2 does not compile the vector code of arm_softmax_s8.c, so MVE runs the common one).
"""

from __future__ import annotations

from math import frexp, prod

from edgetool.model.types import DType, Tensor
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.quantization import scale
from edgetool.operators.work.broadcast import copied_shapes
from edgetool.operators.work.types import Work, WorkRule
from edgetool.operators.work.values import near_largest

INTEGER_BITS = 5  # of a scaled difference from the row's largest
INT16_STEPS, TABLE_RANGE = 2**16 - 1, 10.0  # of the table of exponentials


def _rows(source: Tensor, path: str, **loops: int) -> Work:
    rows = prod(source.shape[:-1])
    shapes = copied_shapes(source.shape)
    return Work(path, {**shapes, "row": rows, "element": source.element_count, **loops})


def _float_exponentials(source: Tensor) -> int:
    """One of each number's difference from its row's largest; that of 0 is done at once."""
    return source.element_count - prod(source.shape[:-1])


def _softmax(call: Call) -> Work:
    source, result = call.required_input(0), call.required_output()
    path = source.dtype.name.lower()
    if source.dtype == DType.FLOAT32:
        return _rows(source, path, exponential=_float_exponentials(source))
    if result.dtype != source.dtype:
        path += f" to {result.dtype.name.lower()}"
    if call.platform.cmsis_nn:
        path += " CMSIS-NN"
    given = call.option("beta", 0.0)
    beta = given if isinstance(given, float) else 0.0
    if source.dtype == DType.INT8:
        return _rows(source, path, exponential=_exponentials(source, beta))
    return _rows(source, path, **{"shifted right": source.element_count * _shrinks(source, beta)})


def _shrinks(source: Tensor, beta: float) -> bool:
    """Whether int16 become less when they are scaled for the table, whose range is 10: a shift of its own."""
    return scale(source) * beta * INT16_STEPS / TABLE_RANGE < 1


def _exponentials(source: Tensor, beta: float) -> int:
    """How many int8 are expected so close to their row's largest that an exponential is calculated."""
    _, left_shift = frexp(beta * scale(source) * 2 ** (31 - INTEGER_BITS))
    radius = int((2**INTEGER_BITS - 1) * 2.0 ** (31 - INTEGER_BITS - left_shift))
    return round(prod(source.shape[:-1]) * near_largest(source.shape[-1], radius))


def _log_softmax(call: Call) -> Work:
    source = call.required_input(0)
    if source.dtype == DType.FLOAT32:
        return _rows(source, "float32", exponential=_float_exponentials(source))
    return _rows(source, "int8", exponential=_exponentials(source, 1.0))


def _l2_normalization(call: Call) -> Work:
    source = call.required_input(0)
    return _rows(source, source.dtype.name.lower())


WORK: dict[str, WorkRule] = {
    "L2_NORMALIZATION": _l2_normalization,
    "LOG_SOFTMAX": _log_softmax,
    "SOFTMAX": _softmax,
}
