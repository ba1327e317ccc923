"""Operators that go: on constants and shapes, whose results are known, and rectifiers that others can do.

Converters compute the shape of a RESHAPE while the model runs, for batches of any size; here all shapes are known.

RELU and RELU6 as the activation of the operator before them.
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
from edgetool.passes.slices import cuts_of

SMALL_BYTES = 1024  # a constant of that size may be larger than those that it is made of
MOST_ELEMENTS = 1 << 24
INTEGERS = frozenset({DType.INT32, DType.INT64, DType.BOOL})

Fold = Callable[[Draft, Operator, Sequence[Array]], Any]


def _option(operator: Operator, name: str) -> Any:
    return operator.options[name] if operator.options else 0


def _shape_of(draft: Draft, operator: Operator) -> tuple[int, ...]:
    return draft.tensors[operator.outputs[0]].shape


def _strided_slice(draft: Draft, operator: Operator, values: Sequence[Array]) -> Any:
    cuts = cuts_of(draft, operator)
    if cuts is None:
        return None
    taken = tuple(cut.start + cut.step * np.arange(cut.count) for cut in cuts)
    return values[0][np.ix_(*taken)].reshape(_shape_of(draft, operator))


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


# What moves elements, and what computes with integers alone.
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


def _fold(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Put a constant in the place of the operator's result, unless the graph gives that out."""
    if len(operator.outputs) != 1 or operator.outputs[0] in draft.outputs:
        return None
    output = draft.tensors[operator.outputs[0]]
    if output.dtype not in STORED or output.is_variable or output.element_count > MOST_ELEMENTS:
        return None
    result = _result(draft, operator)
    if result is None or np.size(result) != output.element_count:
        return None
    folded = np.asarray(result).astype(STORED[output.dtype]).reshape(output.shape)
    given = sum(draft.tensors[tensor].size_bytes for tensor in operator.inputs if operator.code != "SHAPE")
    if folded.nbytes > max(given, SMALL_BYTES):
        return None
    record = applied("fold", draft, operator)
    draft.redirect(operator.outputs[0], draft.constant(output.name, folded, output.quantization, output.dtype))
    draft.replace(operator)
    return record


def _result(draft: Draft, operator: Operator) -> Any:
    """What the operator gives; None where that is not known."""
    if operator.code == "SHAPE":
        return draft.tensors[operator.inputs[0]].shape
    values = [draft.values(tensor) for tensor in operator.inputs]
    known = [value for value in values if value is not None]
    if len(known) != len(values) or not values:
        return None
    data, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    if operator.code in MOVES:
        parts = operator.inputs if operator.code in {"PACK", "CONCATENATION"} else operator.inputs[:1]
        if operator.code == "FILL":
            parts = operator.inputs[1:]
        same = all(same_values(draft.tensors[tensor], output) for tensor in parts)
        return MOVES[operator.code](draft, operator, known) if same else None
    integers = {data.dtype, output.dtype} <= INTEGERS and output.quantization is None
    return COMPUTES[operator.code](draft, operator, known) if integers else None


FOLDING_RULES = (
    Rewrite(
        "fold",
        "",
        _fold,
        frozenset({"SHAPE", *MOVES, *COMPUTES}),
        wanted=True,
    ),
)


# Operators whose kernels have an activation in every type that they take.
CARRIERS = frozenset(
    {"ADD", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "MUL", "SUB"}
)
FIELD = "fused_activation_function"


def _fuse(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Where nothing else reads what is clamped; with one scale that is the same clamp of the same codes."""
    source, output = operator.inputs[0], operator.outputs[0]
    before = draft.producer(source)
    if before is None or before.code not in CARRIERS or before.options is None or before.options[FIELD] != "NONE":
        return None
    alone = len(draft.consumers(source)) == 1 and source not in draft.outputs
    if not alone or not same_values(draft.tensors[source], draft.tensors[output]):
        return None
    record = applied("fuse", draft, operator)
    fields = tuple((name, operator.code if name == FIELD else value) for name, value in before.options.fields)
    draft.replace(before, replace(before, options=replace(before.options, fields=fields), outputs=(output,)))
    draft.replace(operator)
    return record


FUSING_RULES = (Rewrite("fuse", "", _fuse, frozenset({"RELU", "RELU6"}), wanted=True),)
