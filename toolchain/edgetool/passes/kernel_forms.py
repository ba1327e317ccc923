"""Operators in a form that their kernels support: with a bias, without per-channel scales, requantized.

- LEAKY_RELU with a slope of 1, which conversion inserts where a tensor needs a second scale, becomes QUANTIZE.
- int16 FULLY_CONNECTED with per-channel scales, which CMSIS-NN does not support, becomes a CONV_2D of pixels.
- int16 TRANSPOSE_CONV without a bias, which TFLM's kernel reads anyway, gets a bias of zeros.
- An operator whose kernel requires the same scale for input and output gets a QUANTIZE before or after it.
"""

from __future__ import annotations

from dataclasses import replace
from math import floor

import numpy as np

from edgetool.model.draft import STORED, Draft
from edgetool.model.types import DType, Operator, Quantization, Tensor
from edgetool.passes.elementwise import is_quantized
from edgetool.passes.rewrite import Applied, Context, OperatorBuilder, Rewrite, applied

# The maximum deviation from 1. The code of a result then changes by at most 255 times as much, which is below the
# differences from rounding.
SLOPE_TOLERANCE = 1e-5


def _requantize(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Use QUANTIZE, which rounds to the nearest codes and takes fewer instructions per element."""
    source, result = (draft.tensors[index] for index in (*operator.inputs, *operator.outputs))
    slope = operator.options["alpha"] if operator.options else 0.0
    if not isinstance(slope, int | float) or not abs(slope - 1) <= SLOPE_TOLERANCE:
        return None
    if any(tensor.dtype is not DType.INT8 or not is_quantized(tensor) for tensor in (source, result)):
        return None
    builder = OperatorBuilder(draft, operator)
    copy = builder.add("QUANTIZE", operator.inputs, result.shape, like=result.index)
    if source.shape != result.shape or not builder.is_supported(context):
        return None
    return builder.finish("copy", copy)


COPY_RULES = (Rewrite("copy", "", _requantize, frozenset({"LEAKY_RELU"}), always=True),)


def _as_convolution(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Turn rows into pixels; the weights keep their bytes, and each output is the same sum."""
    source, weights = operator.inputs[:2]
    matrix, options = draft.tensors[weights], operator.options
    per_channel = matrix.quantization is not None and matrix.quantization.per_channel
    if draft.tensors[source].dtype is not DType.INT16 or not per_channel or options is None or not matrix.is_constant:
        return None
    units, depth = matrix.shape
    rows = draft.tensors[source].element_count // depth
    builder = OperatorBuilder(draft, operator)
    filters = len(draft.tensors)
    draft.tensors.append(replace(matrix, index=filters, shape=(units, 1, 1, depth), shape_signature=()))
    bias = [tensor for tensor in operator.inputs[2:] if tensor >= 0] or [builder.constant(np.zeros(units, np.int64))]
    pixels = builder.reshape(source, (1, rows, 1, depth))
    result = builder.add(
        "CONV_2D",
        [pixels, filters, *bias],
        (1, rows, 1, units),
        like=operator.outputs[0],
        version=4,
        padding="VALID",
        stride_w=1,
        stride_h=1,
        fused_activation_function=options["fused_activation_function"],
    )
    if not builder.is_supported(context):
        return None
    return builder.finish("dense-as-convolution", result)


DENSE_RULES = (
    Rewrite(
        "dense-as-convolution",
        "replaced by a 1x1 CONV_2D: CMSIS-NN's dense kernel does not support per-channel int16",
        _as_convolution,
        frozenset({"FULLY_CONNECTED"}),
    ),
)


BIAS = 3  # after the output's shape, the weights and the data


def _zero_bias(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    shape, weights, source, *bias = operator.inputs
    matrix, source_quantization = draft.tensors[weights].quantization, draft.tensors[source].quantization
    absent = not bias or bias == [-1]
    if not absent or draft.tensors[source].dtype is not DType.INT16 or matrix is None or source_quantization is None:
        return None
    scales = tuple(float(np.float32(source_quantization.scales[0] * scale)) for scale in matrix.scales)
    units = draft.tensors[weights].shape[0]
    scale = Quantization(scales, (0,) * len(scales), 0)
    zeros = draft.constant(f"{draft.tensors[weights].name}/bias", np.zeros(units, np.int64), scale)
    changed = replace(operator, inputs=(shape, weights, source, zeros), version=max(operator.version, BIAS))
    if not context.is_supported(draft, changed):
        return None
    record = applied("zero-bias", draft, operator)
    draft.replace(operator, changed)
    return record


BIAS_RULES = (
    Rewrite(
        "zero-bias",
        "given a zero bias, which TensorFlow Lite Micro's int16 kernel requires",
        _zero_bias,
        frozenset({"TRANSPOSE_CONV"}),
    ),
)


QUANTIZED = frozenset({DType.INT8, DType.INT16})
# The bounds of operators that only clamp.
CLAMPS = {"RELU6": (0.0, 6.0)}


def _quantize(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Add QUANTIZE after the operator, or before it if its bounds are exact only in the scale of the result.

    A result that is requantized afterwards is rounded once, as by kernels that support both scales.
    """
    if not operator.inputs or len(operator.outputs) != 1 or min(operator.inputs[0], operator.outputs[0]) < 0:
        return None
    source, output = (draft.tensors[tensor] for tensor in (operator.inputs[0], operator.outputs[0]))
    takes = context.runtime.kernel_types_of(operator.code)
    if takes is None or output.dtype not in QUANTIZED or source.per_tensor is None or output.per_tensor is None:
        return None
    written = [
        Quantization((fixed.scale,), (fixed.zero_point,), 0)
        for fixed in takes.fixed_scales
        if fixed.dtype is output.dtype
    ]
    if not written and not any(output.dtype in rule.types for rule in takes.equal_scales):
        return None
    builder = OperatorBuilder(draft, operator)
    if operator.code in CLAMPS and not written:
        result = builder.add("QUANTIZE", operator.inputs[:1], source.shape, like=operator.outputs[0])
        if not _clamps_nothing(output, *CLAMPS[operator.code]):
            (result,) = builder.repeat([result, *operator.inputs[1:]])
    else:
        (inner,) = builder.repeat(operator.inputs, written[0] if written else source.quantization)
        result = builder.add("QUANTIZE", [inner], output.shape, like=operator.outputs[0])
    if not builder.is_supported(context):
        return None
    return builder.finish("quantize-between", result)


def _clamps_nothing(tensor: Tensor, lowest: float, highest: float) -> bool:
    """Return whether every code of the tensor lies within the bounds, as rounded by kernels."""
    quantization, limits = tensor.per_tensor, np.iinfo(STORED[tensor.dtype])
    if quantization is None:
        return False
    scale, zero_point = quantization
    low, high = (floor(bound / scale + 0.5) + zero_point for bound in (lowest, highest))
    return low <= limits.min and high >= limits.max


SCALE_RULES = (
    Rewrite(
        "quantize-between",
        "given an additional QUANTIZE: TensorFlow Lite Micro's kernel requires the same scale for input and output",
        _quantize,
    ),
)
