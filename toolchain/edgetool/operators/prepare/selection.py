"""Operators that pick parts of a tensor or write into it: what their kernels ask for in Prepare.

Sources: gather.cc, gather_nd.cc, slice.cc, strided_slice_common.cc, strided_slice_logic.h, embedding_lookup.cc,
dynamic_update_slice.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, KernelRefusal, PrepareRule, Request, persistent
from edgetool.operators.prepare.conditions import counts, inputs_alike, looks_at
from edgetool.operators.prepare.inspection import (
    constant_input,
    demand,
    dims_copy,
    input_rank,
    input_type,
    integer,
    output_type,
    words,
)
from edgetool.operators.prepare.quantization import zero_point

GATHER_ND_INDICES = 5


def _gather(call: Call) -> Iterator[Request]:
    yield from _GATHERED(call)
    source, positions = call.required_input(0), call.required_input(1)
    rank = len(source.shape)
    axis, batches = integer(call, "axis"), integer(call, "batch_dims")
    axis += rank if axis < 0 else 0
    batches += len(positions.shape) if batches < 0 else 0
    demand(call, 0 <= axis < rank, f"does not support axis {axis} with {rank} dimensions")
    demand(
        call,
        0 <= batches <= min(axis, len(positions.shape)) and source.shape[:batches] == positions.shape[:batches],
        f"does not support {batches} batch dimensions of {source.shape} and {positions.shape} before axis {axis}",
    )
    yield dims_copy(call.required_output())


def _gather_nd(call: Call) -> Iterator[Request]:
    yield from _GATHERED(call)
    source, positions = call.required_input(0), call.required_input(1)
    demand(call, bool(source.shape) and bool(positions.shape), "does not support scalars")
    depth = positions.shape[-1]
    demand(
        call,
        depth <= min(len(source.shape), GATHER_ND_INDICES),
        f"supports at most {min(len(source.shape), GATHER_ND_INDICES)} coordinates per index here, not {depth}",
    )
    yield dims_copy(call.required_output())


def _embedding_lookup(call: Call) -> Iterator[Request]:
    counts(2)(call)
    lookup, value, result = call.required_input(0), call.required_input(1), call.required_output()
    yield from call.temporary_inputs(0, 1)
    yield from call.temporary_outputs(0)
    input_rank(0, 1)(call)
    input_type(0, DType.INT32)(call)
    demand(call, len(value.shape) >= 2, f"does not support a table of shape {value.shape}")
    input_type(1, DType.FLOAT32, DType.INT8)(call)
    output_type(0, DType.FLOAT32, *([DType.INT8] if value.dtype == DType.INT8 else []))(call)
    demand(call, len(result.shape) >= len(value.shape), f"does not support an output of shape {result.shape}")
    yield dims_copy(result)
    looked_up = (lookup.shape[0], *value.shape[1:], *result.shape[len(value.shape) :])
    demand(call, prod(looked_up) <= result.element_count, f"cannot fit {looked_up} into {result.shape}")
    # A float and a size_t; this kernel has no Init.
    yield persistent("OpData", 2 * call.platform.abi.pointer_bytes)
    if value.dtype == DType.INT8 and result.dtype == DType.FLOAT32:
        demand(call, zero_point(value) == 0, "supports an int8 table only with a zero point of 0")


def _slice_fits(call: Call) -> None:
    """The output has the shape of the slice; masks for new axes and ellipses count as none."""
    source, result = call.required_input(0), call.required_output()
    begins, ends, strides = (words(call.required_input(position)) for position in (1, 2, 3))
    if min(len(begins), len(ends), len(strides)) < len(source.shape):
        return  # The kernel reads on behind the constants: what it finds there is not known.
    made = []
    for axis, size in enumerate(source.shape):
        bit, begin, end, stride = 1 << axis, begins[axis], ends[axis], strides[axis]
        demand(call, stride != 0, "does not support a stride of 0")
        begin = _clamped(begin, size, stride, integer(call, "begin_mask") & bit, first=True)
        end = _clamped(end, size, stride, integer(call, "end_mask") & bit, first=False)
        if not integer(call, "shrink_axis_mask") & bit:
            made.append(max(-(-(end - begin) // stride), 0))
    demand(call, tuple(made) == result.shape, f"produces {tuple(made)}, but the file specifies {result.shape}")


def _clamped(index: int, size: int, stride: int, mask: int, *, first: bool) -> int:
    """Where a slice begins or ends on an axis; with its mask, as far out as it goes."""
    if size == 0:
        return 0
    if mask:
        return (0 if stride > 0 else size - 1) if first else (size if stride > 0 else -1)
    index += size if index < 0 else 0
    return min(max(index, 0), size) if stride > 0 else min(max(index, -1), size - 1)


def _update_fits(call: Call) -> None:
    operand, update, start = (call.required_input(position).shape for position in range(3))
    if start != (len(operand),):
        raise KernelRefusal(
            f"{call.operator.label} requires a start with {len(operand)} indices, not a tensor of shape {start}"
        )
    if len(update) != len(operand) or any(new > old for new, old in zip(update, operand, strict=True)):
        raise KernelRefusal(f"{call.operator.label} does not support an update of shape {update} for {operand}")


_GATHERED = looks_at(
    (0, 1), (0,), counts(2), input_type(1, DType.INT32), input_type(0, DType.FLOAT32, DType.INT8)
)  # fmt: skip

RULES: dict[str, PrepareRule] = {
    "DYNAMIC_UPDATE_SLICE": looks_at(
        (0, 1, 2), (0,), counts(3), inputs_alike, input_type(2, DType.INT32, DType.INT64), _update_fits
    ),
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "SLICE": looks_at((0, 1, 2), (0,), counts(3)),
    "STRIDED_SLICE": looks_at(
        (0, 1, 2, 3),
        (0,),
        counts(4),
        input_rank(0, 0, 4),
        constant_input(1, "begin"),
        constant_input(2, "end"),
        constant_input(3, "strides"),
        _slice_fits,
    ),
}
