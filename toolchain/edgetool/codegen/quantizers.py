"""The C functions that turn real values into a model's inputs and outputs and back.

They round as TFLite's AffineQuantize does (kernels/internal/reference/quantize.h): divide in float32, round half away
from zero, add the zero point, saturate; and scale back as its Dequantize does. No libm, no double.
"""

from __future__ import annotations

import struct

from edgetool.codegen.spec import QUANTIZED_LIMITS, IoSpec
from edgetool.model.types import DType

C_TYPES = {
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
    DType.BOOL: "uint8_t",
    DType.INT8: "int8_t",
    DType.UINT8: "uint8_t",
    DType.INT16: "int16_t",
    DType.UINT16: "uint16_t",
    DType.INT32: "int32_t",
    DType.UINT32: "uint32_t",
    DType.INT64: "int64_t",
    DType.UINT64: "uint64_t",
}

# TfLiteType of TFLM's core/c/c_api_types.h: what `input->type` is compared with.
TFLITE_TYPES = {
    DType.FLOAT32: "kTfLiteFloat32",
    DType.FLOAT16: "kTfLiteFloat16",
    DType.INT32: "kTfLiteInt32",
    DType.UINT8: "kTfLiteUInt8",
    DType.INT64: "kTfLiteInt64",
    DType.STRING: "kTfLiteString",
    DType.BOOL: "kTfLiteBool",
    DType.INT16: "kTfLiteInt16",
    DType.COMPLEX64: "kTfLiteComplex64",
    DType.INT8: "kTfLiteInt8",
    DType.FLOAT64: "kTfLiteFloat64",
    DType.COMPLEX128: "kTfLiteComplex128",
    DType.UINT64: "kTfLiteUInt64",
    DType.RESOURCE: "kTfLiteResource",
    DType.VARIANT: "kTfLiteVariant",
    DType.UINT32: "kTfLiteUInt32",
    DType.UINT16: "kTfLiteUInt16",
    DType.INT4: "kTfLiteInt4",
    DType.BFLOAT16: "kTfLiteBFloat16",
    DType.INT2: "kTfLiteInt2",
    DType.UINT4: "kTfLiteUInt4",
    DType.FLOAT8_E4M3FN: "kTfLiteFloat8E4M3FN",
    DType.FLOAT8_E5M2: "kTfLiteFloat8E5M2",
}

# Past this many steps every type saturates, whatever its zero point; it keeps the conversion to int32_t defined.
_STEPS_LIMIT = 65536

_ROUND = """\
/* value / scale, rounded half away from zero, plus the zero point, clamped to low and high. NaN counts as 0. */
static inline int32_t {name}_to_quantized(float value, float scale, int32_t zero_point, int32_t low, int32_t high)
{{
    const float steps = value / scale;
    int32_t rounded = 0;
    if (steps >= {limit}.0f) {{
        rounded = {limit};
    }} else if (steps <= -{limit}.0f) {{
        rounded = -{limit};
    }} else if (steps > -{limit}.0f) {{
        rounded = (int32_t)steps;
        if (steps - (float)rounded >= 0.5f) {{
            ++rounded;
        }} else if (steps - (float)rounded <= -0.5f) {{
            --rounded;
        }}
    }}
    rounded += zero_point;
    return rounded < low ? low : (rounded > high ? high : rounded);
}}
"""

_INTEGER = """\
static inline {type} {name}_{io}_quantize(float value)
{{
    return ({type}){name}_to_quantized(value, {macro}_SCALE, {macro}_ZERO_POINT, {low}, {high});
}}

static inline float {name}_{io}_dequantize({type} value)
{{
    return {macro}_SCALE * (float)((int32_t)value - {macro}_ZERO_POINT);
}}
"""

_FLOAT = """\
static inline float {name}_{io}_quantize(float value)
{{
    return value;
}}

static inline float {name}_{io}_dequantize(float value)
{{
    return value;
}}
"""


def is_quantized(tensor: IoSpec) -> bool:
    """Whether the tensor gets helpers that change a value."""
    return tensor.scale is not None and tensor.dtype in QUANTIZED_LIMITS


def shared_helper(name: str) -> str:
    """The rounding that the helpers of every quantized input and output of a model share."""
    return _ROUND.format(name=name, limit=_STEPS_LIMIT)


def helpers(name: str, macro: str, io: str, tensor: IoSpec) -> str:
    """NAME_IO_quantize and NAME_IO_dequantize; for float32 they pass the value on; "" for other types.

    name: the model's identifier. io: "input_0". macro: what precedes _SCALE and _ZERO_POINT.
    """
    if is_quantized(tensor):
        low, high = QUANTIZED_LIMITS[tensor.dtype]
        kind = C_TYPES[tensor.dtype]
        return _INTEGER.format(name=name, io=io, macro=macro, type=kind, low=low, high=high)
    return _FLOAT.format(name=name, io=io) if tensor.dtype is DType.FLOAT32 else ""


def float_literal(value: float) -> str:
    """A C float constant that reads back as exactly this float32: 9 significant digits are enough."""
    digits = f"{struct.unpack('<f', struct.pack('<f', value))[0]:.9g}"
    return f"{digits}f" if any(mark in digits for mark in ".e") else f"{digits}.0f"
