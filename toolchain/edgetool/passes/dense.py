"""FULLY_CONNECTED of int16 with a scale for each channel, which CMSIS-NN lacks, is a CONV_2D of one pixel each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgetool.model.edit import Draft
from edgetool.model.types import DType, Operator
from edgetool.passes.rewrite import Applied, Context, Rewrite
from edgetool.passes.steps import Steps


def _as_convolution(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Rows become pixels; the weights keep their bytes, and each output is the same sum."""
    source, weights = operator.inputs[:2]
    matrix, options = draft.tensors[weights], operator.options
    per_channel = matrix.quantization is not None and matrix.quantization.per_channel
    if draft.tensors[source].dtype is not DType.INT16 or not per_channel or options is None or not matrix.is_constant:
        return None
    units, depth = matrix.shape
    rows = draft.tensors[source].element_count // depth
    steps = Steps(draft, operator)
    filters = len(draft.tensors)
    draft.tensors.append(replace(matrix, index=filters, shape=(units, 1, 1, depth), shape_signature=()))
    bias = [tensor for tensor in operator.inputs[2:] if tensor >= 0] or [steps.constant(np.zeros(units, np.int64))]
    pixels = steps.reshape(source, (1, rows, 1, depth))
    result = steps.step(
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
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("dense-as-convolution", result)


RULES = (
    Rewrite(
        "dense-as-convolution",
        "replaced by a 1x1 CONV_2D: CMSIS-NN's dense kernel does not support per-channel int16",
        _as_convolution,
        frozenset({"FULLY_CONNECTED"}),
    ),
)
