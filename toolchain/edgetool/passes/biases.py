"""TRANSPOSE_CONV of int16 without a bias, which the kernel of TensorFlow Lite Micro reads all the same, gets zeros."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgetool.model.edit import Draft
from edgetool.model.types import DType, Operator, Quantization
from edgetool.passes.rewrite import Applied, Context, Rewrite, applied

BIAS = 3  # after the output's shape, the weights and the data


def _zero_bias(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    shape, weights, source, *bias = operator.inputs
    matrix, given = draft.tensors[weights].quantization, draft.tensors[source].quantization
    absent = not bias or bias == [-1]
    if not absent or draft.tensors[source].dtype is not DType.INT16 or matrix is None or given is None:
        return None
    scales = tuple(float(np.float32(given.scales[0] * scale)) for scale in matrix.scales)
    units = draft.tensors[weights].shape[0]
    scale = Quantization(scales, (0,) * len(scales), 0)
    zeros = draft.constant(f"{draft.tensors[weights].name}/bias", np.zeros(units, np.int64), scale)
    changed = replace(operator, inputs=(shape, weights, source, zeros), version=max(operator.version, BIAS))
    if not context.legal(draft, changed):
        return None
    record = applied("zero-bias", draft, operator)
    draft.replace(operator, changed)
    return record


RULES = (
    Rewrite(
        "zero-bias",
        "given a zero bias, which TensorFlow Lite Micro's int16 kernel requires",
        _zero_bias,
        frozenset({"TRANSPOSE_CONV"}),
    ),
)
