"""TRANSPOSE_CONV whose windows do not overlap, as a 1x1 CONV_2D and DEPTH_TO_SPACE.

If the kernel is as large as the stride, each input pixel determines a block of output pixels on its own: a 1x1
convolution computes all of them as channels, and DEPTH_TO_SPACE moves them to their places. Both kernels sum the same
int8 products in int32, add the bias, and requantize with the multiplier of the channel. Sources: transpose_conv.h and
conv.h in integer_ops, and depth_to_space.h (TensorFlow Lite).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Operator, Quantization
from edgetool.passes.elementwise import is_quantized
from edgetool.passes.rewrite import Applied, OperatorBuilder, fused_activation
from edgetool.passes.validation import is_consistent

SHAPE, WEIGHTS, SOURCE, BIAS = range(4)


def split_transpose_convs(draft: Draft) -> list[Applied]:
    """Replace the int8 TRANSPOSE_CONV of a subgraph whose kernel is as large as its stride; return a record of each.

    All results stay the same bit for bit. The new operators need no int32 scratch buffer for the whole output, but an
    additional tensor of its size, and the multipliers and biases of as many channels as a block has elements.
    """
    done = []
    for index in tuple(operator.index for operator in draft.operators):
        operator = draft.operator(index)
        if operator is not None and operator.code == "TRANSPOSE_CONV" and _is_split(draft, operator):
            done.append(_split(draft, operator))
    return done


def _is_split(draft: Draft, operator: Operator) -> bool:
    """Return whether the windows are square, meet without a gap, and compute the whole output in int8."""
    if not is_consistent(draft, operator) or operator.options is None or min(operator.inputs[:BIAS]) < 0:
        return False
    source, weights = draft.tensors[operator.inputs[SOURCE]], draft.tensors[operator.inputs[WEIGHTS]]
    output, quantization = draft.tensors[operator.outputs[0]], weights.quantization
    if any(tensor.dtype is not DType.INT8 or len(tensor.shape) != 4 for tensor in (source, weights, output)):
        return False
    if not is_quantized(source) or not is_quantized(output) or quantization is None:
        return False
    if draft.values(weights.index) is None or quantization.details is not None or any(quantization.zero_points):
        return False
    channels, rows, columns, depth = weights.shape
    if len(quantization.scales) not in {1, channels} or (quantization.per_channel and quantization.axis != 0):
        return False
    strides = (operator.options.integer("stride_h"), operator.options.integer("stride_w"))
    batch, height, width, source_depth = source.shape
    if not rows == columns == strides[0] == strides[1] or depth != source_depth:
        return False
    if output.shape != (batch, height * rows, width * columns, channels):
        return False
    bias = operator.inputs[BIAS] if len(operator.inputs) > BIAS else -1
    values = draft.values(bias)
    return bias < 0 or (values is not None and draft.tensors[bias].dtype is DType.INT32 and values.shape == (channels,))


def _split(draft: Draft, operator: Operator) -> Applied:
    builder = OperatorBuilder(draft, operator)
    source, output = draft.tensors[operator.inputs[SOURCE]], draft.tensors[operator.outputs[0]]
    weights = draft.values(operator.inputs[WEIGHTS])
    assert weights is not None
    channels, side, _, depth = weights.shape
    # DEPTH_TO_SPACE reads the channels of a block row by row, and those of each of its pixels together.
    filters = weights.transpose(1, 2, 0, 3).reshape(side * side * channels, 1, 1, depth)
    inputs = [source.index, _constant(draft, operator.inputs[WEIGHTS], filters, channels)]
    bias = operator.inputs[BIAS] if len(operator.inputs) > BIAS else -1
    if (values := draft.values(bias)) is not None:
        inputs.append(_constant(draft, bias, np.tile(values, side * side), channels))
    result = builder.add(
        "CONV_2D",
        inputs,
        (*source.shape[:3], len(filters)),
        like=output.index,
        version=3,
        padding="VALID",
        stride_w=1,
        stride_h=1,
        fused_activation_function=fused_activation(operator),
    )
    if side > 1:
        result = builder.add("DEPTH_TO_SPACE", [result], output.shape, like=output.index, block_size=side)
    return builder.finish("split-transpose-conv", result)


def _constant(draft: Draft, old: int, values: np.ndarray[tuple[int, ...], np.dtype[np.generic]], channels: int) -> int:
    """Return a constant of the old one's name and type, with the scales of its channels once for each repetition."""
    tensor = draft.tensors[old]
    quantization = tensor.quantization
    if quantization is not None and len(quantization.scales) == channels:
        quantization = _repeated(quantization, len(values) // channels, channels)
    return draft.constant(tensor.name, values, quantization, tensor.dtype)


def _repeated(quantization: Quantization, times: int, channels: int) -> Quantization:
    def repeated(values: tuple[float, ...]) -> tuple[float, ...]:
        return values * times if len(values) == channels else values

    return replace(
        quantization,
        scales=repeated(quantization.scales),
        zero_points=tuple(int(each) for each in repeated(quantization.zero_points)),
        minimum=repeated(quantization.minimum),
        maximum=repeated(quantization.maximum),
        axis=0,
    )
