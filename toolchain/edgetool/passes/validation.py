"""Whether a pass preserves what an operator computes: conditions on its operands that rewrites rely on.

The reader's rules (`model/rules.py`) hold the operand counts, axes and shapes that every well-formed file has; they are
checked here again, because an earlier rewrite may have changed the operands or turned them into constants. This module
adds only requirements that no rule of a file includes: operand types, and shapes that must be equal instead of equally
large. Whether the kernel accepts an operator is decided in `operators/legality.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from edgetool.errors import InvalidModelError
from edgetool.model.checks import check_index_values
from edgetool.model.draft import Draft
from edgetool.model.flatbuffer import Record
from edgetool.model.rules import Node, check_counts, check_operator, common_shape
from edgetool.model.types import DType, Operator, Tensor
from edgetool.passes.slices import axis_slices

# Operators whose rewrites read the option table.
NEEDS_OPTIONS = frozenset(
    """
    ADD BUCKETIZE CAST CONCATENATION FULLY_CONNECTED GATHER GELU L2_NORMALIZATION MUL ONE_HOT PACK REDUCE_ANY REDUCE_MAX
    REDUCE_MIN REDUCE_PROD SHAPE SQUEEZE STRIDED_SLICE SUB SUM TRANSPOSE_CONV UNPACK
    """.split()
)
# Inputs that contain sizes, axes or indices: integers.
INDEX_INPUTS = {
    **dict.fromkeys(["BROADCAST_TO", "EXPAND_DIMS", "GATHER", "ONE_HOT", "RESHAPE", "TILE", "TOPK_V2"], (1,)),
    **dict.fromkeys(["TRANSPOSE", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"], (1,)),
    "BROADCAST_ARGS": (0, 1),
    "FILL": (0,),
    "SLICE": (1, 2),
    "STRIDED_SLICE": (1, 2, 3),
}
INTEGERS = frozenset({DType.INT16, DType.INT32, DType.INT64})
# Operators whose inputs and outputs all have one type.
ALL_OPERANDS_SAME_TYPE = frozenset({"BROADCAST_ARGS", "CONCATENATION", "PACK", "RANGE"})
# Operators whose first input and outputs have one type.
FIRST_INPUT_AND_OUTPUTS_SAME_TYPE = frozenset(
    {"BROADCAST_TO", "EXPAND_DIMS", "REDUCE_ANY", "RELU", "RELU6", "RESHAPE", "SQUEEZE", "STRIDED_SLICE"}
)
FIRST_INPUT_AND_OUTPUTS_SAME_TYPE |= {"TILE", "TRANSPOSE", "UNPACK"}


def is_in_order(draft: Draft) -> bool:
    """Return whether at most one operator writes each tensor, before any other reads it; variables may change again.

    In other graphs, the inputs of an operator are not well-defined.
    """
    written = {index for index, tensor in enumerate(draft.tensors) if tensor.is_constant} | set(draft.inputs)
    made = {output for operator in draft.operators for output in operator.outputs}
    for operator in draft.operators:
        computed = [index for index in operator.inputs if index in made and not draft.tensors[index].is_variable]
        outputs = [index for index in operator.outputs if index >= 0 and not draft.tensors[index].is_variable]
        if not written.issuperset(computed) or not written.isdisjoint(outputs) or len(set(outputs)) < len(outputs):
            return False
        written.update(outputs)
    return True


def is_consistent(draft: Draft, operator: Operator) -> bool:
    """Return whether rewrites can rely on the operator: its operands, types and shapes do not contradict each other."""
    if not operator.inputs or not operator.outputs or min(operator.outputs) < 0:
        return False
    if operator.code in NEEDS_OPTIONS and operator.options is None:
        return False
    if not is_well_formed(draft, operator):
        return False
    indices = [operator.inputs[place] for place in INDEX_INPUTS.get(operator.code, ()) if place < len(operator.inputs)]
    if any(tensor < 0 or draft.tensors[tensor].dtype not in INTEGERS for tensor in indices):
        return False
    inputs = [draft.tensors[tensor] for tensor in operator.inputs if tensor >= 0]
    outputs = [draft.tensors[tensor] for tensor in operator.outputs]
    if operator.code in ALL_OPERANDS_SAME_TYPE | FIRST_INPUT_AND_OUTPUTS_SAME_TYPE:
        alike = inputs if operator.code in ALL_OPERANDS_SAME_TYPE else inputs[:1]
        if len({tensor.dtype for tensor in (*alike, *outputs)}) != 1:
            return False
    check = OPERAND_CHECKS.get(operator.code)
    return check is None or check(draft, operator, inputs, outputs[0])


def is_well_formed(draft: Draft, operator: Operator) -> bool:
    """Return whether the reader would accept a file with this operator (`model/rules.py`)."""
    record = Record("Operator", 0, {"inputs": operator.inputs, "outputs": operator.outputs})
    table = operator.options
    node = Node(
        name="",
        record=record,
        code=operator.code,
        inputs=tuple(draft.tensors[tensor] if tensor >= 0 else None for tensor in operator.inputs),
        outputs=tuple(draft.tensors[tensor] for tensor in operator.outputs),
        options=None if table is None else Record(table.table, 0, dict(table.fields)),
    )
    try:
        check_counts(node)
        check_operator(node)
        check_index_values("", record, operator, draft.tensors)
    except InvalidModelError:
        return False
    return True


# Takes the draft, the operator, the inputs that it has, and its first output.
OperandCheck = Callable[[Draft, Operator, list[Tensor], Tensor], bool]


def _same_count(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    return inputs[0].element_count == output.element_count


def _same_shape(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    return inputs[0].shape == output.shape


def _tiled(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    multiples, shape = draft.values(operator.inputs[1]), inputs[0].shape
    if multiples is None:
        return True
    if multiples.shape != (len(shape),):
        return False
    return output.shape == tuple(size * int(times) for size, times in zip(shape, multiples, strict=True))


def _broadcasts(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    shape = inputs[0].shape
    last = output.shape[len(output.shape) - len(shape) :]
    return len(shape) <= len(output.shape) and all(a in (1, b) for a, b in zip(shape, last, strict=True))


def _has_dimensions(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    """CONCATENATION: in files, scalars count as vectors of 1 element."""
    return all(tensor.shape for tensor in inputs)


def _unpacked(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    shape = inputs[0].shape
    axis = _axis(operator) % len(shape)
    return all(draft.tensors[made].shape == shape[:axis] + shape[axis + 1 :] for made in operator.outputs)


def _sliced(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    bounds = [draft.values(tensor) for tensor in operator.inputs[1:]]
    known = [values for values in bounds if values is not None]
    if len(known) != 3 or operator.options is None:
        return True
    length, masks = known[0].size, operator.options
    of_input = length - (masks.integer("new_axis_mask") & ((1 << length) - 1)).bit_count()
    has_ellipsis = bool(masks.integer("ellipsis_mask") & ((1 << length) - 1))
    if 0 in known[2] or 0 in inputs[0].shape:
        return False
    if of_input - has_ellipsis > len(inputs[0].shape):
        return False
    cuts = axis_slices(draft, operator)
    count = 1
    for cut in cuts or ():
        count *= cut.count
    return cuts is None or count == output.element_count


def _transposed(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    values, shape = draft.values(operator.inputs[1]), inputs[0].shape
    if values is None:
        return True
    if values.ndim != 1 or sorted(values.tolist()) != list(range(len(shape))):
        return False
    return output.shape == tuple(shape[axis] for axis in values.tolist())


def _one_hot(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    depth, axis, rank = draft.values(operator.inputs[1]), _axis(operator), len(output.shape)
    if depth is None:
        return True
    constants = all(tensor.element_count == 1 for tensor in inputs[1:])
    return (
        constants
        and -1 <= axis < rank
        and rank > 0
        and output.element_count == inputs[0].element_count * int(depth.reshape(-1)[0])
    )


def _ranked(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    k, shape = draft.values(operator.inputs[1]), inputs[0].shape
    if k is None:
        return True
    if k.size != 1 or not shape or not 0 < int(k.reshape(-1)[0]) <= shape[-1]:
        return False
    wanted = (*shape[:-1], int(k.reshape(-1)[0]))
    return all(draft.tensors[made].shape == wanted for made in operator.outputs)


def _has_one_output(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    """FULLY_CONNECTED: a second output belongs to shuffled weights, which no rewrite reads."""
    return len(operator.outputs) == 1


def _is_quantized(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    """TRANSPOSE_CONV: a quantization table without scales only records a range."""
    return all(tensor.quantization is None or tensor.quantization.scales for tensor in inputs)


def _elementwise(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    """Check operators on constants, because folding computes their results."""
    if not all(tensor.is_constant for tensor in inputs):
        return True
    one_type = len({tensor.dtype for tensor in (*inputs, output)}) == 1 and output.dtype is not DType.BOOL
    return one_type and common_shape([tensor.shape for tensor in inputs]) == output.shape


def _ranged(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    bounds = [draft.values(tensor) for tensor in operator.inputs]
    known = [int(values) for values in bounds if values is not None and values.shape == () and values.dtype.kind == "i"]
    if len(known) < len(bounds):
        return output.dtype not in INTEGERS or any(values is None for values in bounds)
    start, limit, step = known
    return step != 0 and output.shape == (max(0, -((start - limit) // step)),)  # rounded up


def _broadcast_shapes(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    if any(len(tensor.shape) != 1 for tensor in (*inputs, output)):
        return False
    shapes = [values.tolist() for tensor in operator.inputs if (values := draft.values(tensor)) is not None]
    return all(size >= 0 for shape in shapes for size in shape) and common_shape(shapes) is not None


def _within_bounds(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    begin, shape = draft.values(operator.inputs[1]), inputs[0].shape
    if len(output.shape) != len(shape) or any(tensor.shape != (len(shape),) for tensor in inputs[1:]):
        return False
    if begin is None:
        return True
    places = zip(begin.tolist(), output.shape, shape, strict=True)
    return all(first >= 0 and first + count <= size for first, count, size in places)


def _has_distinct_axes(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    axes, rank = draft.values(operator.inputs[1]), len(inputs[0].shape)
    if axes is None:
        return True
    places = axes.reshape(-1).tolist()
    return len({axis % rank for axis in places}) == len(places) if rank else not places


def _filled(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    return inputs[1].shape == ()


def _axis(operator: Operator) -> int:
    return operator.options.integer("axis") if operator.options is not None else 0


OPERAND_CHECKS: dict[str, OperandCheck] = {
    **dict.fromkeys(["RESHAPE", "BUCKETIZE"], _same_count),
    **dict.fromkeys(["RELU", "RELU6"], _same_shape),
    **dict.fromkeys(["ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"], _elementwise),
    **dict.fromkeys(["REDUCE_PROD", "SUM"], _has_distinct_axes),
    "BROADCAST_ARGS": _broadcast_shapes,
    "BROADCAST_TO": _broadcasts,
    "CONCATENATION": _has_dimensions,
    "FILL": _filled,
    "FULLY_CONNECTED": _has_one_output,
    "ONE_HOT": _one_hot,
    "RANGE": _ranged,
    "SLICE": _within_bounds,
    "STRIDED_SLICE": _sliced,
    "TILE": _tiled,
    "TOPK_V2": _ranked,
    "TRANSPOSE": _transposed,
    "TRANSPOSE_CONV": _is_quantized,
    "UNPACK": _unpacked,
}
