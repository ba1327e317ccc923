"""Kernels that take quantized values as they are, where input and output differ in scale: QUANTIZE between them."""

from __future__ import annotations

from math import floor

import numpy as np

from edgetool.model.edit import STORED, Draft
from edgetool.model.types import DType, Operator, Quantization, Tensor
from edgetool.passes.rewrite import Applied, Context, Rewrite
from edgetool.passes.steps import Steps

QUANTIZED = frozenset({DType.INT8, DType.INT16})
# The bounds of operators that do nothing else than clamp.
CLAMPS = {"RELU6": (0.0, 6.0)}


def _quantize(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """QUANTIZE after the operator, or before it where its bounds are exact in the scale of the result alone.

    What is quantized again afterwards is rounded once, as by kernels that take both scales.
    """
    if not operator.inputs or len(operator.outputs) != 1 or min(operator.inputs[0], operator.outputs[0]) < 0:
        return None
    source, output = (draft.tensors[tensor] for tensor in (operator.inputs[0], operator.outputs[0]))
    takes = context.runtime.kernel_takes(operator.code)
    if takes is None or output.dtype not in QUANTIZED or source.per_tensor is None or output.per_tensor is None:
        return None
    written = [
        Quantization((fixed.scale,), (fixed.zero_point,), 0)
        for fixed in takes.fixed_scales
        if fixed.dtype is output.dtype
    ]
    if not written and not any(output.dtype in rule.types for rule in takes.equal_scales):
        return None
    steps = Steps(draft, operator)
    if operator.code in CLAMPS and not written:
        result = steps.step("QUANTIZE", operator.inputs[:1], source.shape, like=operator.outputs[0])
        if not _clamps_nothing(output, *CLAMPS[operator.code]):
            (result,) = steps.again([result, *operator.inputs[1:]])
    else:
        (inner,) = steps.again(operator.inputs, written[0] if written else source.quantization)
        result = steps.step("QUANTIZE", [inner], output.shape, like=operator.outputs[0])
    if not all(context.legal(draft, step) for step in steps.made):
        return None
    return steps.finish("quantize-between", result)


def _clamps_nothing(tensor: Tensor, lowest: float, highest: float) -> bool:
    """Whether every code of the tensor lies within the bounds, as kernels round these."""
    own, limits = tensor.per_tensor, np.iinfo(STORED[tensor.dtype])
    if own is None:
        return False
    scale, zero_point = own
    low, high = (floor(bound / scale + 0.5) + zero_point for bound in (lowest, highest))
    return low <= limits.min and high >= limits.max


RULES = (
    Rewrite(
        "quantize-between",
        "given an additional QUANTIZE: TensorFlow Lite Micro's kernel requires the same scale for input and output",
        _quantize,
    ),
)
