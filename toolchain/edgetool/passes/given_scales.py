"""Scales that a file gives also hold before and after operators that only move or select elements.

Frameworks observe some tensors, and not those around a padding or a flattening. Calibrated, these would get scales of
their own, and values would be quantized again. Quantizing before and after such operators has the same result.
"""

from __future__ import annotations

from dataclasses import replace

from edgetool.model.draft import Draft
from edgetool.model.types import Model, Operator, Tensor
from edgetool.passes.validation import is_consistent

MOVES = frozenset({"EXPAND_DIMS", "MAX_POOL_2D", "PAD", "RESHAPE", "SQUEEZE", "TRANSPOSE"})


def spread_scales(model: Model) -> Model:
    """Return the model with QUANTIZE and DEQUANTIZE on both sides of each such operator that has them on one.

    Returns the model itself if nothing changes. Only scales of whole tensors count.
    """
    draft = Draft(model)
    indices = [operator.index for operator in draft.operators if operator.code in MOVES]
    changed = [_spread_forward(draft, index) for index in indices]
    changed += [_spread_back(draft, index) for index in reversed(indices)]
    return draft.finish() if any(changed) else model


def _spread_forward(draft: Draft, index: int) -> bool:
    """Quantize the result of an operator like its input, unless the result is quantized."""
    operator = draft.operator(index)
    assert operator is not None
    (result,) = operator.outputs
    before = draft.producer(operator.inputs[0])
    if before is None or before.code != "DEQUANTIZE" or not is_consistent(draft, operator):
        return False
    if any(reader.code == "QUANTIZE" for reader in draft.consumers(result)):
        return False
    given = _scale_of_tensor(draft, before.inputs[0])
    if given is None:
        return False
    tensor = draft.tensors[result]
    moved = draft.tensor(tensor.name, tensor.shape, tensor.dtype)
    draft.replace(operator, replace(operator, outputs=(moved,)), *_conversions(draft, given, moved, result))
    return True


def _spread_back(draft: Draft, index: int) -> bool:
    """Quantize the computed input of an operator like its result, if that is only read by QUANTIZE."""
    operator = draft.operator(index)
    assert operator is not None
    source, (result,) = operator.inputs[0], operator.outputs
    before, readers = draft.producer(source), draft.consumers(result)
    if before is None or before.code == "DEQUANTIZE" or result in draft.outputs or not is_consistent(draft, operator):
        return False
    if len(readers) != 1 or readers[0].code != "QUANTIZE":
        return False
    given = _scale_of_tensor(draft, readers[0].outputs[0])
    if given is None:
        return False
    tensor = draft.tensors[source]
    reals = draft.tensor(tensor.name, tensor.shape, tensor.dtype)
    changed = replace(operator, inputs=(reals, *operator.inputs[1:]))
    draft.replace(operator, *_conversions(draft, given, source, reals), changed)
    return True


def _scale_of_tensor(draft: Draft, quantized: int) -> Tensor | None:
    """Return a quantized tensor that has one scale; None for others."""
    tensor = draft.tensors[quantized]
    return tensor if tensor.per_tensor is not None and not tensor.is_variable else None


def _conversions(draft: Draft, given: Tensor, source: int, result: int) -> tuple[Operator, Operator]:
    """Return operators that quantize a tensor with the scale of another, and dequantize it."""
    codes = draft.tensor(given.name, draft.tensors[source].shape, given.dtype, given.quantization)
    return draft.make("QUANTIZE", [source], [codes]), draft.make("DEQUANTIZE", [codes], [result], version=2)
