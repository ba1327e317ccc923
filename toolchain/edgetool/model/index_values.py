"""Constants whose numbers are indices into another tensor: a kernel reads or writes wherever they point.

LiteRT looks at them when it runs the model, TFLM hardly at all (CVE-2020-15212, -15213, -15214, CVE-2021-37687).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import iter_unpack

from edgetool.model import checks
from edgetool.model.flatbuffer import Record
from edgetool.model.types import DType, Operator, Tensor

_LETTERS = {DType.INT16: "h", DType.INT32: "i", DType.INT64: "q"}

# What the columns of the last dimension of the indices point into: a length for each, or one for all of them.
Lengths = Callable[[Operator, Sequence[int]], Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Rule:
    """indices: the input that holds them. into: what they point into, an input, or the first output (None)."""

    indices: int
    into: int | None
    lengths: Lengths
    ascending: bool = False


def _first(operator: Operator, shape: Sequence[int]) -> Sequence[int]:
    return shape[:1]


def _every(operator: Operator, shape: Sequence[int]) -> Sequence[int]:
    return shape


def _along_axis(operator: Operator, shape: Sequence[int]) -> Sequence[int]:
    axis = operator.options.integer("axis") if operator.options else 0
    return (shape[axis],) if -len(shape) <= axis < len(shape) else ()


_RULES = {
    "EMBEDDING_LOOKUP": _Rule(0, 1, _first),
    "GATHER": _Rule(1, 0, _along_axis),
    "GATHER_ND": _Rule(1, 0, _every),
    "SCATTER_ND": _Rule(0, None, _every),
    "SEGMENT_SUM": _Rule(1, None, _first, ascending=True),
}


def check_index_values(name: str, record: Record, operator: Operator, tensors: Sequence[Tensor]) -> None:
    """No constant index is negative or past the end of what it points into; those of segments do not fall.

    Raises InvalidModelError. Operators that lack the tensors are another check's.
    """
    rule = _RULES.get(operator.code)
    if rule is None:
        return
    indices = _tensor(operator.inputs, rule.indices, tensors)
    into = _tensor(operator.outputs, 0, tensors) if rule.into is None else _tensor(operator.inputs, rule.into, tensors)
    if indices is None or into is None or indices.sparsity or not indices.data or indices.dtype not in _LETTERS:
        return
    values = [value for (value,) in iter_unpack(f"<{_LETTERS[indices.dtype]}", indices.data)]
    lengths = rule.lengths(operator, into.shape)
    step = indices.shape[-1] if rule.lengths is _every and indices.shape else 1
    for column, length in enumerate(lengths[:step]):
        wrong = next((value for value in values[column::step] if not 0 <= value < length), None)
        if wrong is not None:
            checks.invalid(
                name, record, "inputs", f"index {wrong} of {operator.code} is outside a dimension of size {length}"
            )
    if rule.ascending and any(a > b for a, b in pairwise(values)):
        checks.invalid(name, record, "inputs", f"the segment IDs of {operator.code} are not in ascending order")


def _tensor(indices: Sequence[int], position: int, tensors: Sequence[Tensor]) -> Tensor | None:
    """The tensor at a position among the inputs or outputs; None where there is none."""
    return tensors[indices[position]] if position < len(indices) and indices[position] >= 0 else None
