"""Removal of operators that do nothing: their output equals their input bit for bit, or nobody reads it.

Converters leave operators that move no element, that scale by 1, and whose bounds no value exceeds. An operator whose
input and output have the same shape, type, scale and zero point is removed if its predicate in NOTHING holds. RESHAPE
of RESHAPE, TRANSPOSE of TRANSPOSE, and QUANTIZE of DEQUANTIZE are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import floor, isinf
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.errors import InternalError
from edgetool.model.draft import Draft
from edgetool.model.rules import common_shape
from edgetool.model.types import DType, Operator, Tensor
from edgetool.passes.elementwise import is_quantized
from edgetool.passes.legalize import dead_operators
from edgetool.passes.movement import bypass, merge_reshapes, producer_alike, same_values
from edgetool.passes.rewrite import ACTIVATIONS, Applied, OperatorBuilder, applied, fused_activation
from edgetool.passes.slices import axis_slices
from edgetool.passes.validation import is_consistent

CODES = {DType.INT8: (-128, 127), DType.INT16: (-(1 << 15), (1 << 15) - 1)}
MAX_ROUNDS = 64
# Results nearer to the middle of two codes than this may be rounded either way.
TIE = 1e-3
MAX_CONSTANTS = 1 << 16

Predicate = Callable[[Draft, Operator], bool]


def remove_no_ops(draft: Draft) -> list[Applied]:
    """Remove the operators of a subgraph that do nothing, until none is left; return a record of each.

    An input of the graph that is also an output stays separate from it, as do the values of variables.
    """
    done: list[Applied] = []
    for _ in range(MAX_ROUNDS):
        before = len(done)
        for index in tuple(operator.index for operator in draft.operators):
            operator = draft.operator(index)
            if operator is not None and is_consistent(draft, operator):
                done += _merge_one(draft, operator)
        for index in tuple(operator.index for operator in draft.operators):
            operator = draft.operator(index)
            if operator is not None and is_consistent(draft, operator):
                done += _remove_one(draft, operator)
        for operator in dead_operators(draft):
            done.append(applied("remove-unread", draft, operator))
            draft.replace(operator)
        if len(done) == before:
            return done
    raise InternalError(f"the removal of operators did not converge after {MAX_ROUNDS} rounds: {done[-1]}")


def _merge_one(draft: Draft, operator: Operator) -> list[Applied]:
    """Let the operator read the input of the one before it, which no other operator reads."""
    merge = MERGES.get(operator.code)
    if merge is None or operator.inputs[0] in draft.outputs or len(draft.consumers(operator.inputs[0])) != 1:
        return []
    record = merge(draft, operator)
    return [] if record is None else [record]


def merge_transposes(draft: Draft, operator: Operator) -> Applied | None:
    """Let a TRANSPOSE of a TRANSPOSE read the input of the first one."""
    before = producer_alike(draft, operator)
    if before is None:
        return None
    first, second = draft.values(before.inputs[1]), draft.values(operator.inputs[1])
    if first is None or second is None:
        return None
    record = applied("merge-transposes", draft, operator)
    axes = OperatorBuilder(draft, operator).constant(first[second].astype(np.int32))
    draft.replace(operator, replace(operator, inputs=(before.inputs[0], axes)))
    return record


MERGES: Mapping[str, Callable[[Draft, Operator], Applied | None]] = {
    "RESHAPE": merge_reshapes,
    "TRANSPOSE": merge_transposes,
}


def _remove_one(draft: Draft, operator: Operator) -> list[Applied]:
    source = _equal_input(draft, operator)
    if source is None:
        return []
    record = applied("remove", draft, operator)
    return [record] if bypass(draft, operator, source) else []


def _equal_input(draft: Draft, operator: Operator) -> int | None:
    """Return the tensor that the operator's output equals; None if it does something."""
    if len(operator.outputs) != 1 or draft.tensors[operator.outputs[0]].is_variable:
        return None
    for source in _candidates(draft, operator):
        tensor, output = draft.tensors[source], draft.tensors[operator.outputs[0]]
        if tensor.is_variable or tensor.shape != output.shape or not same_values(tensor, output):
            continue
        predicate = NOTHING.get(operator.code)
        if predicate is not None and predicate(draft, operator):
            return source
    return None


def _candidates(draft: Draft, operator: Operator) -> list[int]:
    """Return the tensors of which the output may be a copy."""
    if operator.code in IDENTITIES:
        return [tensor for tensor in operator.inputs if tensor >= 0 and not draft.tensors[tensor].is_constant]
    before = draft.producer(operator.inputs[0]) if operator.code == "QUANTIZE" else None
    if before is not None and before.code == "DEQUANTIZE" and is_consistent(draft, before):
        return [before.inputs[0]] if draft.is_before(before, operator) else []
    return [operator.inputs[0]] if operator.inputs[0] >= 0 else []


def _always(draft: Draft, operator: Operator) -> bool:
    """Equal shapes leave no element to move."""
    return True


def _scales_by_1(draft: Draft, operator: Operator) -> bool:
    """QUANTIZE with equal scales multiplies by exactly 1, and returns every code that DEQUANTIZE got."""
    output = draft.tensors[operator.outputs[0]]
    return output.dtype in CODES and is_quantized(output)


def _pads_nothing(draft: Draft, operator: Operator) -> bool:
    paddings = draft.values(operator.inputs[1]) if operator.inputs[1] >= 0 else None
    return paddings is not None and not paddings.any()


def _slices_nothing(draft: Draft, operator: Operator) -> bool:
    slices = axis_slices(draft, operator)
    return slices is not None and all(part.is_whole for part in slices)


def _transposes_nothing(draft: Draft, operator: Operator) -> bool:
    """Return whether axes of more than one element keep their order."""
    axes, shape = draft.values(operator.inputs[1]), draft.tensors[operator.inputs[0]].shape
    moved = [] if axes is None else [int(axis) for axis in axes if shape[axis] != 1]
    return axes is not None and moved == sorted(moved)


def _joins_nothing(draft: Draft, operator: Operator) -> bool:
    return len(operator.inputs) == 1 and fused_activation(operator) == "NONE"


def _pools_nothing(draft: Draft, operator: Operator) -> bool:
    """Return whether the windows of integers are single elements, which average and maximum do not change."""
    options, output = operator.options, draft.tensors[operator.outputs[0]]
    names = ("filter_height", "filter_width", "stride_h", "stride_w")
    is_single = options is not None and all(options.integer(name) == 1 for name in names)
    return is_single and output.dtype in CODES and _clamps_nothing(output, fused_activation(operator))


def _rectifies_nothing(draft: Draft, operator: Operator) -> bool:
    return _clamps_nothing(draft.tensors[operator.outputs[0]], operator.code)


def _clamps_nothing(tensor: Tensor, activation: str) -> bool:
    """Return whether every code of a quantized tensor lies within the bounds, as kernels round them."""
    if tensor.dtype not in CODES or not is_quantized(tensor) or activation not in ACTIVATIONS:
        return False
    assert tensor.per_tensor is not None
    scale, zero_point = tensor.per_tensor
    lowest, highest = CODES[tensor.dtype]
    low, high = ACTIVATIONS[activation]
    is_low = isinf(low) or floor(low / scale + 0.5) + zero_point <= lowest
    return is_low and (isinf(high) or floor(high / scale + 0.5) + zero_point >= highest)


# The constant with which arithmetic returns its other operand, also for -0.0, and whether it is the second operand.
IDENTITIES: Mapping[str, tuple[float, bool]] = {
    "ADD": (-0.0, False),
    "DIV": (1.0, True),
    "MUL": (1.0, False),
    "SUB": (0.0, True),
}
ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {"ADD": np.add, "MUL": np.multiply, "SUB": np.subtract}


def _computes_nothing(draft: Draft, operator: Operator) -> bool:
    """Return whether arithmetic with a constant returns its other operand, for every code or every number."""
    output = draft.tensors[operator.outputs[0]]
    values = [draft.values(tensor) for tensor in operator.inputs]
    position = 0 if values[0] is not None else 1
    identity, is_second = IDENTITIES[operator.code]
    constant, other = values[position], values[1 - position]
    if constant is None or other is not None or (is_second and position == 0) or constant.size > MAX_CONSTANTS:
        return False
    if common_shape([constant.shape, output.shape]) != output.shape:
        return False
    if output.dtype is DType.INT8:
        return _keeps_codes(draft, operator, position)
    if fused_activation(operator) != "NONE" or draft.tensors[operator.inputs[position]].dtype is not output.dtype:
        return False
    if output.dtype is DType.INT32:
        return output.quantization is None and bool((constant == int(identity)).all())
    same_sign = np.signbit(constant) == np.signbit(identity)
    return output.dtype is DType.FLOAT32 and bool(((constant == identity) & same_sign).all())


def _keeps_codes(draft: Draft, operator: Operator, position: int) -> bool:
    """Return whether the kernels return each int8 code, for each constant.

    The real result must be so near to the code that no kernel's fixed-point arithmetic rounds to another one.
    """
    output, constant = draft.tensors[operator.outputs[0]], draft.tensors[operator.inputs[position]]
    compute, values = ARITHMETIC.get(operator.code), draft.values(constant.index)
    if compute is None or values is None or constant.dtype is not DType.INT8 or not is_quantized(constant):
        return False
    if not _clamps_nothing(output, fused_activation(operator)):
        return False
    assert output.per_tensor is not None
    assert constant.per_tensor is not None
    (scale, zero_point), (other_scale, other_zero_point) = output.per_tensor, constant.per_tensor
    codes = np.arange(-128, 128, dtype=np.float64)
    distinct = (np.unique(values).astype(np.float64) - other_zero_point) * other_scale
    operands = [(codes[:, None] - zero_point) * scale, distinct[None, :]]
    results: npt.NDArray[np.float64] = compute(*(operands if position == 1 else reversed(operands))) / scale
    distance = np.abs(results + zero_point - codes[:, None]).max(initial=0.0)
    return bool(distance + _rounding_error(operator.code, scale, other_scale) < 0.5 - TIE)


def _rounding_error(code: str, scale: float, other_scale: float) -> float:
    """Return the largest error in codes of the fixed-point arithmetic before the last rounding.

    ADD and SUB work in steps of 2^-20 of twice the larger scale, with three roundings of at most one step. A multiplier
    below 1 rounds once before its shift to the right. Sources: add.cc, sub.cc, mul.cc and
    MultiplyByQuantizedMultiplier.
    """
    if code == "MUL":
        return float(np.exp2(np.frexp(other_scale)[1] - 1.0)) if other_scale < 0.5 else 0.0
    return 4 * 2 * max(scale, other_scale) / 2**20 / scale


# Whether operators do nothing, if input and output have the same shape and representation.
NOTHING: Mapping[str, Predicate] = {
    **dict.fromkeys(
        """
        BROADCAST_TO CAST DEPTH_TO_SPACE EXPAND_DIMS RESHAPE RESIZE_NEAREST_NEIGHBOR SLICE SPACE_TO_DEPTH SQUEEZE TILE
        """.split(),
        _always,
    ),
    **dict.fromkeys(["AVERAGE_POOL_2D", "MAX_POOL_2D"], _pools_nothing),
    **dict.fromkeys(["MIRROR_PAD", "PAD", "PADV2"], _pads_nothing),
    **dict.fromkeys(["RELU", "RELU6", "RELU_N1_TO_1"], _rectifies_nothing),
    **dict.fromkeys(IDENTITIES, _computes_nothing),
    "CONCATENATION": _joins_nothing,
    "QUANTIZE": _scales_by_1,
    "STRIDED_SLICE": _slices_nothing,
    "TRANSPOSE": _transposes_nothing,
}
