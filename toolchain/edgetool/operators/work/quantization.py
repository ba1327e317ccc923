"""Conversions between types: which loops their kernels run (quantize_common.cc, dequantize.cc, cast.cc)."""

from __future__ import annotations

from edgetool.model.types import DType
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.quantization import scale, zero_point
from edgetool.operators.work.elements import dtype_name, flat
from edgetool.operators.work.types import Work, WorkRule
from edgetool.operators.work.values import negatives

# Between these, of one scale, only the sign's bit changes.
SIGN_CHANGES = {(DType.INT8, DType.UINT8): -128, (DType.UINT8, DType.INT8): 128}


def _conversion(call: Call) -> Work:
    return flat(call, f"{dtype_name(call)} to {call.required_output().dtype.name.lower()}")


def _quantize(call: Call) -> Work:
    source, result = call.required_input(0), call.required_output()
    path = f"{dtype_name(call)} to {result.dtype.name.lower()}"
    if source.dtype == DType.FLOAT32:
        return flat(call, path)
    flips = SIGN_CHANGES.get((source.dtype, result.dtype)) == zero_point(source) - zero_point(result)
    if flips and scale(source) == scale(result):
        return flat(call, f"{path} of one scale")
    return flat(call, path, negative=negatives(call))


WORK: dict[str, WorkRule] = {"CAST": _conversion, "DEQUANTIZE": _conversion, "QUANTIZE": _quantize}
