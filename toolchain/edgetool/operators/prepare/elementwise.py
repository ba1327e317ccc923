"""Functions and conversions of single elements: what their kernels ask for in Prepare.

Sources: elementwise.cc, exp.cc, ceil.cc, round.cc, zeros_like.cc, quantize_common.cc, dequantize_common.cc, cast.cc;
neg.cc and floor.cc have no Prepare. The type check of elementwise.cc tests a conversion to a function pointer and
so lets every type pass; Invoke refuses it.
"""

from __future__ import annotations

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, KernelRefusal, PrepareRule, nothing
from edgetool.operators.prepare.conditions import (
    counts,
    looks_at,
    output_alike,
    same_shape,
    symmetric_int16,
)
from edgetool.operators.prepare.inspection import input_type, output_type
from edgetool.operators.prepare.quantization import is_quantized


def _both_quantized(call: Call) -> None:
    """int8 is quantized, on both sides; int16 only when its input is."""
    source, result = call.required_input(0), call.required_output()
    needed = source.dtype == DType.INT8 or (source.dtype == DType.INT16 and is_quantized(source))
    if not needed:
        return
    if not (is_quantized(source) and is_quantized(result)):
        raise KernelRefusal(f"{call.operator.label} supports {source.dtype.name.lower()} only with quantization")
    symmetric_int16(1)(call)


def _one_scale(call: Call) -> None:
    result = call.required_output()
    if not is_quantized(result) or result.quantization is None or len(result.quantization.scales) != 1:
        raise KernelRefusal(f"{call.operator.label} produces only tensors with a single scale")


_FUNCTION = looks_at((0,), (0,), counts(1), output_alike)
_RESCALED = looks_at((0,), (0,), counts(1), output_alike, _both_quantized)
_FLOAT_FUNCTION = looks_at((0,), (0,), counts(1), input_type(0, DType.FLOAT32), output_alike, same_shape)

RULES: dict[str, PrepareRule] = {
    "ABS": _RESCALED,
    "CAST": looks_at((0,), (0,), counts(1)),
    "CEIL": _FLOAT_FUNCTION,
    "COS": _FUNCTION,
    "DEQUANTIZE": looks_at(
        (0,), (0,), counts(1), input_type(0, DType.INT8, DType.INT16, DType.UINT8), output_type(0, DType.FLOAT32)
    ),
    "EXP": _FLOAT_FUNCTION,
    "FLOOR": nothing,
    "LOG": _FUNCTION,
    "NEG": nothing,
    "QUANTIZE": looks_at(
        (0,),
        (0,),
        counts(1),
        _one_scale,
        input_type(0, DType.FLOAT32, DType.INT32, DType.INT16, DType.INT8, DType.UINT8),
        output_type(0, DType.INT8, DType.INT16, DType.INT32, DType.UINT8),
    ),
    "ROUND": _FLOAT_FUNCTION,
    "RSQRT": _RESCALED,
    "SIN": _FUNCTION,
    "SQRT": _FUNCTION,
    "SQUARE": _FUNCTION,
    "ZEROS_LIKE": looks_at((0,), (0,), counts(1)),
}
