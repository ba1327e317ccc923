"""The types of inputs and outputs in C, and the functions that convert their values to and from real values.

They round as TFLite's AffineQuantize does (kernels/internal/reference/quantize.h): divide in float32, round half away
from zero, add the zero point, saturate. They scale back as its Dequantize does. They use neither libm nor double.
"""

from __future__ import annotations

import struct

from edgetool.codegen.spec import QUANTIZED_LIMITS, IoSpec
from edgetool.codegen.templates import fill
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


def is_quantized(tensor: IoSpec) -> bool:
    """Return whether the tensor has helpers that change a value."""
    return tensor.scale is not None and tensor.dtype in QUANTIZED_LIMITS


def has_real_values(tensor: IoSpec) -> bool:
    """Return whether NAME.h has helpers that convert the tensor's values to and from real values."""
    return tensor.dtype is DType.FLOAT32 or is_quantized(tensor)


def to_quantized(name: str) -> str:
    """Return the rounding that the helpers of every quantized input and output of a model share."""
    return fill("c/to_quantized.h", my_model=name)


def helpers(name: str, macro: str, io: str, tensor: IoSpec) -> str:
    """Return NAME_IO_quantize and NAME_IO_dequantize; for float32 they pass the value on; "" for other types.

    Args:
        name: The model's identifier.
        macro: The prefix of the model's macros.
        io: The tensor's name in C, such as "input_0".
        tensor: The input or output.
    """
    if is_quantized(tensor):
        low, high = QUANTIZED_LIMITS[tensor.dtype]
        limits = {"MY_LOW": low, "MY_HIGH": high}
        names = {"MY_MODEL": macro, "MY_IO": io.upper(), "my_type": C_TYPES[tensor.dtype]}
        return fill("c/quantize.h", MY_INTEGER=True, my_model=name, my_io=io, **names, **limits)
    return fill("c/quantize.h", MY_INTEGER=False, my_model=name, my_io=io) if tensor.dtype is DType.FLOAT32 else ""


def float_literal(value: float) -> str:
    """Return a C constant that is exactly this float32: 9 significant digits are enough."""
    digits = f"{struct.unpack('<f', struct.pack('<f', value))[0]:.9g}"
    return f"{digits}f" if any(mark in digits for mark in ".e") else f"{digits}.0f"
