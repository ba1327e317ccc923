"""Operators that are removed: those on constants and shapes, which are computed in advance, and fused rectifiers.

Converters compute the shape of a RESHAPE while the model runs, for batches of any size; here all shapes are known. RELU
and RELU6 become the activation of the operator before them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgetool.model.draft import STORED, Array, Draft
from edgetool.model.types import DType, Operator
from edgetool.passes.movement import same_values
from edgetool.passes.rewrite import Applied, Context, Rewrite, applied
from edgetool.passes.slices import axis_slices
from edgetool.passes.validation import is_consistent

SMALL_BYTES = 1024  # a constant of this size may be larger than its inputs
MAX_ELEMENTS = 1 << 24
INTEGERS = frozenset({DType.INT32, DType.INT64, DType.BOOL})

Fold = Callable[[Draft, Operator, Sequence[Array]], Any]


def _option(operator: Operator, name: str) -> Any:
    return operator.options[name] if operator.options else 0


def _shape_of(draft: Draft, operator: Operator) -> tuple[int, ...]:
    return draft.tensors[operator.outputs[0]].shape


def _strided_slice(draft: Draft, operator: Operator, values: Sequence[Array]) -> Any:
    slices = axis_slices(draft, operator)
    if slices is None:
        return None
    indices = tuple(axis_slice.start + axis_slice.step * np.arange(axis_slice.count) for axis_slice in slices)
    return values[0][np.ix_(*indices)].reshape(_shape_of(draft, operator))


def _slice(draft: Draft, operator: Operator, values: Sequence[Array]) -> Any:
    pairs = zip(values[1], _shape_of(draft, operator), strict=True)
    return values[0][tuple(slice(int(begin), int(begin) + size) for begin, size in pairs)]


def _gather(draft: Draft, operator: Operator, values: Sequence[Array]) -> Any:
    if _option(operator, "batch_dims"):
        return None
    return np.take(values[0], values[1], axis=_option(operator, "axis"))


def _reduced(reduce: Callable[..., Any]) -> Fold:
    return lambda draft, operator, values: reduce(values[0], tuple(int(axis) for axis in values[1].reshape(-1)))


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Fold:
    def fold(draft: Draft, operator: Operator, values: Sequence[Array]) -> Any:
        fields = dict(operator.options.fields) if operator.options else {}
        activation = fields.get("fused_activation_function", "NONE")
        return compute(values[0], values[1]) if activation == "NONE" else None

    return fold


# Operators that move elements, and those that compute with integers only.
MOVES: dict[str, Fold] = {
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _slice,
    "GATHER": _gather,
    "PACK": lambda draft, operator, values: np.stack(values, axis=_option(operator, "axis")),
    "CONCATENATION": lambda draft, operator, values: np.concatenate(values, axis=_option(operator, "axis")),
    "RESHAPE": lambda draft, operator, values: values[0],
    "EXPAND_DIMS": lambda draft, operator, values: values[0],
    "SQUEEZE": lambda draft, operator, values: values[0],
    "TRANSPOSE": lambda draft, operator, values: np.transpose(values[0], values[1]),
    "TILE": lambda draft, operator, values: np.tile(values[0], values[1]),
    "BROADCAST_TO": lambda draft, operator, values: np.broadcast_to(values[0], _shape_of(draft, operator)),
    "FILL": lambda draft, operator, values: np.broadcast_to(values[1], _shape_of(draft, operator)),
}
COMPUTES: dict[str, Fold] = {
    "CAST": lambda draft, operator, values: values[0],
    "ADD": _arithmetic(np.add),
    "SUB": _arithmetic(np.subtract),
    "MUL": _arithmetic(np.multiply),
    "MAXIMUM": _arithmetic(np.maximum),
    "MINIMUM": _arithmetic(np.minimum),
    "REDUCE_PROD": _reduced(np.prod),
    "SUM": _reduced(np.sum),
    "RANGE": lambda draft, operator, values: np.arange(*(int(value) for value in values)),
    "BROADCAST_ARGS": lambda draft, operator, values: np.broadcast_shapes(tuple(values[0]), tuple(values[1])),
}
# Those whose results in float32 are the same everywhere.
EXACT = frozenset({"ADD", "MAXIMUM", "MINIMUM", "MUL", "SUB"})
FOLDED = frozenset({"SHAPE", *MOVES, *COMPUTES})


def _fold(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    return fold(draft, operator)


def fold(draft: Draft, operator: Operator) -> Applied | None:
    """Replace the operator's result by a constant, unless it is an output of the graph."""
    if len(operator.outputs) != 1 or operator.outputs[0] in draft.outputs:
        return None
    output = draft.tensors[operator.outputs[0]]
    if output.dtype not in STORED or output.is_variable or output.element_count > MAX_ELEMENTS:
        return None
    result = _result(draft, operator)
    if result is None or np.size(result) != output.element_count:
        return None
    folded = np.asarray(result).astype(STORED[output.dtype]).reshape(output.shape)
    input_bytes = sum(draft.tensors[tensor].size_bytes for tensor in operator.inputs if operator.code != "SHAPE")
    if folded.nbytes > max(input_bytes, SMALL_BYTES):
        return None
    record = applied("fold", draft, operator)
    draft.redirect(operator.outputs[0], draft.constant(output.name, folded, output.quantization, output.dtype))
    draft.replace(operator)
    return record


def fold_constants(draft: Draft) -> None:
    """Replace all results that are known by constants; the operators are in order."""
    for index in tuple(operator.index for operator in draft.operators):
        operator = draft.operator(index)
        if operator is not None and operator.code in FOLDED and is_consistent(draft, operator):
            fold(draft, operator)


def _result(draft: Draft, operator: Operator) -> Any:
    """Return the operator's result; None if it is unknown."""
    if operator.code == "SHAPE":
        return draft.tensors[operator.inputs[0]].shape
    values = [draft.values(tensor) for tensor in operator.inputs]
    constants = [value for value in values if value is not None]
    if len(constants) != len(values) or not values:
        return None
    data, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    if operator.code in MOVES:
        parts = operator.inputs if operator.code in {"PACK", "CONCATENATION"} else operator.inputs[:1]
        if operator.code == "FILL":
            parts = operator.inputs[1:]
        same = all(same_values(draft.tensors[tensor], output) for tensor in parts)
        return MOVES[operator.code](draft, operator, constants) if same else None
    plain = {data.dtype, output.dtype} <= INTEGERS or (operator.code in EXACT and output.dtype is DType.FLOAT32)
    return COMPUTES[operator.code](draft, operator, constants) if plain and output.quantization is None else None


FOLDING_RULES = (
    Rewrite(
        "fold",
        "",
        _fold,
        FOLDED,
        always=True,
    ),
)


# Operators whose kernels support a fused activation in every type.
FUSABLE = frozenset(
    {"ADD", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "MUL", "SUB"}
)
FIELD = "fused_activation_function"


def _fuse(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    return fuse(draft, operator)


def fuse(draft: Draft, operator: Operator) -> Applied | None:
    """Fuse a rectifier that is the only reader of its input.

    If both have the same scale, the fused activation clamps the same quantized values.
    """
    source, output = operator.inputs[0], operator.outputs[0]
    before = draft.producer(source)
    if before is None or before.code not in FUSABLE or before.options is None or before.options[FIELD] != "NONE":
        return None
    is_only_reader = len(draft.consumers(source)) == 1 and source not in draft.outputs
    if not is_only_reader or not same_values(draft.tensors[source], draft.tensors[output]):
        return None
    record = applied("fuse", draft, operator)
    fields = tuple((name, operator.code if name == FIELD else value) for name, value in before.options.fields)
    draft.replace(before, replace(before, options=replace(before.options, fields=fields), outputs=(output,)))
    draft.replace(operator)
    return record


FUSING_RULES = (Rewrite("fuse", "", _fuse, frozenset({"RELU", "RELU6"}), always=True),)
