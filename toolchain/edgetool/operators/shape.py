"""Operators that change or return a tensor's shape: Prepare, loop counts and bounds.

Sources of Prepare: reshape_common.cc, squeeze.cc, expand_dims.cc, shape.cc, broadcast_args.cc, zeros_like.cc.

Sources of the loop counts: reshape.cc, squeeze.cc, expand_dims.cc, shape.cc, reference/broadcast_args.h. The first two
copy bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from edgetool.model.types import DType
from edgetool.operators.call import (
    Call,
    Condition,
    PrepareRule,
    Request,
    constant_input,
    input_rank,
    input_type,
    integers,
    no_requests,
    output_rank,
    prepare_rule,
    require,
    same_input_types,
    same_output_type,
)
from edgetool.operators.entry import entries
from edgetool.operators.loops import LoopCounts, LoopRule, combined, strided_memcpy_loops
from edgetool.operators.overlap import KERNEL_SETS, InputOverlap, OverlapRules

MAX_SQUEEZE_RANK = 8
# TFLITE_RESHAPE_PARAMS_MAX_DIMENSION_COUNT (builtin_op_data.h)
MAX_PARSED_DIMENSIONS = 8


def _prepare_reshape(call: Call) -> Iterator[Request]:
    """Yield the requests of RESHAPE.

    Prepare compares only the shapes of both tensors in the file; it does not read the second input. Of the options, it
    only limits the number of dimensions to the size of the parsed options.
    """
    new_shape = call.option("new_shape")
    rank = len(new_shape) if isinstance(new_shape, tuple) else 0
    require(
        call,
        rank <= MAX_PARSED_DIMENSIONS,
        f"supports at most {MAX_PARSED_DIMENSIONS} dimensions in its options, not {rank}",
    )
    source, result = call.required_input(0), call.required_output()
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    # In old files, a scalar has the shape (0).
    shape = () if len(call.operator.inputs) == 1 and result.shape == (0,) else result.shape
    same_output_type(call)
    require(call, source.element_count == prod(shape), f"cannot produce {shape} from {source.shape}")


def _check_squeeze(call: Call) -> None:
    source, result = call.required_input(0).shape, call.required_output().shape
    rank = len(source)
    require(call, rank <= MAX_SQUEEZE_RANK, f"supports at most {MAX_SQUEEZE_RANK} dimensions, not {rank}")
    squeeze_dims = call.option("squeeze_dims")
    axes = (
        [axis + rank if axis < 0 else axis for axis in squeeze_dims if isinstance(axis, int)]
        if isinstance(squeeze_dims, tuple)
        else []
    )
    for axis in axes:
        require(call, 0 <= axis < rank and source[axis] == 1, f"cannot remove dimension {axis} from {source}")
    removed = set(axes) if axes else {axis for axis, size in enumerate(source) if size == 1}
    remaining = [size for axis, size in enumerate(source) if axis not in removed]
    # The kernel compares the remaining dimensions, and aborts the program if one does not fit.
    require(
        call,
        all(output_size >= size for output_size, size in zip(result, remaining, strict=False)),
        f"cannot fit {source} into {result}",
    )


def _check_expand_dims(call: Call) -> None:
    source, result = call.required_input(0).shape, call.required_output().shape
    axes = integers(call.required_input(1))
    require(call, bool(axes), "requires a constant axis")
    rank = len(source)
    axis = axes[0] + (rank + 1 if axes[0] < 0 else 0)
    require(call, axis <= rank, f"does not support axis {axis} with {rank} dimensions")
    # An axis that is still negative adds no dimension at the position where the kernel expects it.
    expected = (*source[:axis], 1, *source[axis:]) if axis >= 0 else None
    require(call, result == expected, f"at axis {axis} cannot produce {result} from {source}")


PREPARE: dict[str, PrepareRule] = {
    "BROADCAST_ARGS": prepare_rule(
        (0, 1),
        (0,),
        input_type(0, DType.INT32, DType.INT64),
        same_input_types,
        same_output_type,
        input_rank(0, 1),
        input_rank(1, 1),
        output_rank(0, 1),
    ),
    "EXPAND_DIMS": prepare_rule(
        (0, 1), (0,), constant_input(1, "axis"), input_rank(1, 0, 1), input_type(1, DType.INT32), _check_expand_dims
    ),
    "RESHAPE": _prepare_reshape,
    "SHAPE": no_requests,
    "SQUEEZE": prepare_rule((0,), (0,), _check_squeeze),
}


def _copy(call: Call) -> LoopCounts:
    """Return the loops of a copy.

    Dimensions are multiplied to get the bytes: those of the input and, in SQUEEZE, also those of the output.
    """
    source, result = call.required_input(0), call.required_output()
    axes = {"axis": len(source.shape), "axis of the output": len(result.shape)}
    return LoopCounts("copy", combined(axes, strided_memcpy_loops(source.size_bytes, 1)))


def _elements(call: Call) -> LoopCounts:
    source = call.required_input(0)
    return LoopCounts(source.dtype.name.lower(), {"element": source.element_count, "axis": len(source.shape)})


def _shape_loops(call: Call) -> LoopCounts:
    return LoopCounts("int32", {"axis": len(call.required_input(0).shape)})


def _broadcast_args(call: Call) -> LoopCounts:
    return LoopCounts(call.required_output().dtype.name.lower(), {"axis": call.required_output().element_count})


LOOPS: dict[str, LoopRule] = {
    "BROADCAST_ARGS": _broadcast_args,
    "EXPAND_DIMS": _elements,
    "RESHAPE": _copy,
    "SHAPE": _shape_loops,
    "SQUEEZE": _copy,
}


def _broadcast_args_bounds(call: Call) -> None:
    """Require sizes that are equal or 1 of BROADCAST_ARGS; otherwise the kernel aborts the program."""
    shapes = [integers(tensor)[::-1] for tensor in map(call.required_input, (0, 1)) if tensor.is_constant]
    for sizes in zip(*shapes, strict=False):
        require(call, len({*sizes} - {1}) <= 1, f"cannot broadcast {sizes[0]} to {sizes[-1]}")


BOUNDS: dict[str, Condition] = {
    "BROADCAST_ARGS": _broadcast_args_bounds,
}


def _reshape_overlap(_: Call) -> Iterator[InputOverlap]:
    """Yield the input at the same offset: unless the addresses are equal, the kernel calls memcpy (reshape.cc)."""
    yield InputOverlap(0, None)


OVERLAPS: dict[str, OverlapRules] = {"RESHAPE": dict.fromkeys(KERNEL_SETS, _reshape_overlap)}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, bounds=BOUNDS, overlaps=OVERLAPS)
