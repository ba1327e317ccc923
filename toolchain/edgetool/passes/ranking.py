"""TOPK_V2, which TensorFlow Lite Micro lacks: an element's place is the number of elements that come before it."""

from __future__ import annotations

from math import prod

import numpy as np

from edgetool.model.edit import STORED, Draft
from edgetool.model.types import DType, Operator
from edgetool.passes.rewrite import Applied, Context, Rewrite
from edgetool.passes.steps import Steps

MAX_PAIRS = 4096  # each of which takes up to four bytes of the arena
RANKED = frozenset({DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.UINT8})


def _top_k(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Compare all pairs; equal elements keep their order, as TOPK_V2 has it."""
    source = operator.inputs[0]
    tensor, k = draft.tensors[source], draft.values(operator.inputs[1])
    size, rows = tensor.shape[-1], prod(tensor.shape[:-1])
    if k is None or tensor.dtype not in RANKED or rows * size * size > MAX_PAIRS:
        return None
    count = int(k.reshape(-1)[0])
    steps = Steps(draft, operator)
    across = steps.reshape(source, (rows, 1, size))
    pairs = (rows, size, size)
    inputs = [across, steps.reshape(source, (rows, size, 1))]
    above = steps.step("GREATER", inputs, pairs, like=source, dtype=DType.BOOL)
    equal = steps.step("EQUAL", inputs, pairs, like=source, dtype=DType.BOOL)
    earlier = steps.constant(np.tri(size, k=-1, dtype=np.bool_).reshape(1, size, size))
    tied = steps.step("LOGICAL_AND", [equal, earlier], pairs, like=equal)
    before = steps.cast(steps.step("LOGICAL_OR", [above, tied], pairs, like=above), DType.FLOAT32)
    places = steps.step("SUM", [before, steps.constant([2])], (rows, size), like=before)
    order = steps.constant(np.arange(count, dtype=np.float32).reshape(1, count, 1))
    grid = (rows, count, size)
    is_there = steps.step("EQUAL", [steps.reshape(places, (rows, 1, size)), order], grid, like=above)
    lowest = -np.inf if tensor.dtype is DType.FLOAT32 else np.iinfo(STORED[tensor.dtype]).min
    nothing = draft.constant("top_k/lowest", np.asarray(lowest, STORED[tensor.dtype]), tensor.quantization)
    chosen = steps.step("SELECT_V2", [is_there, across, nothing], grid, like=source)
    values = steps.step("REDUCE_MAX", [chosen, steps.constant([2])], (rows, count), like=source)
    found = [steps.cast(is_there, DType.FLOAT32), steps.constant([2])]
    indices = steps.step("ARG_MAX", found, (rows, count), like=source, dtype=DType.INT32, output_type="INT32")
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("top-k", values, indices)


RULES = (
    Rewrite(
        "top-k",
        "replaced by comparisons of all pairs: TensorFlow Lite Micro does not support TOPK_V2",
        _top_k,
        frozenset({"TOPK_V2"}),
    ),
)
