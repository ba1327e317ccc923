"""Whether an operator's tensors fit each other, as runtimes check it: rewrites need not look at that again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from edgetool.model.draft import Draft
from edgetool.model.schema import OPTION_TABLES, table
from edgetool.model.types import DType, Operator, Tensor
from edgetool.passes.slices import axis_slices

# How many inputs and outputs there are, at least and at most.
MANY = 1 << 30
OPERANDS = {
    **dict.fromkeys(["EXPAND_DIMS", "TILE", "BROADCAST_TO", "TRANSPOSE", "REDUCE_ANY"], (2, 2, 1, 1)),
    **dict.fromkeys(["SQUEEZE", "BUCKETIZE", "RELU", "RELU6", "SHAPE"], (1, 1, 1, 1)),
    **dict.fromkeys(["SELECT", "SELECT_V2", "SLICE"], (3, 3, 1, 1)),
    **dict.fromkeys(["STRIDED_SLICE", "ONE_HOT"], (4, 4, 1, 1)),
    **dict.fromkeys(["CONCATENATION", "PACK"], (1, MANY, 1, 1)),
    **dict.fromkeys(["LOGISTIC", "TANH", "L2_NORMALIZATION", "CAST"], (1, 1, 1, 1)),
    **dict.fromkeys(["ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "FILL", "GATHER", "BROADCAST_ARGS"], (2, 2, 1, 1)),
    **dict.fromkeys(["REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM", "POW"], (2, 2, 1, 1)),
    **dict.fromkeys(["ABS", "GELU", "NEG", "RELU_0_TO_1", "RELU_N1_TO_1", "SIGN", "SQUARE"], (1, 1, 1, 1)),
    "RANGE": (3, 3, 1, 1),
    "TRANSPOSE_CONV": (3, 4, 1, 1),
    "RESHAPE": (1, 2, 1, 1),
    "UNPACK": (1, 1, 1, MANY),
    "TOPK_V2": (2, 2, 2, 2),
    "FULLY_CONNECTED": (2, 3, 1, 1),
}
# Inputs that are sizes, axes or places: whole numbers.
WHOLE = {
    **dict.fromkeys(["BROADCAST_TO", "EXPAND_DIMS", "GATHER", "ONE_HOT", "RESHAPE", "TILE", "TOPK_V2"], (1,)),
    **dict.fromkeys(["TRANSPOSE", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"], (1,)),
    "BROADCAST_ARGS": (0, 1),
    "FILL": (0,),
    "SLICE": (1, 2),
    "STRIDED_SLICE": (1, 2, 3),
}
INTEGERS = frozenset({DType.INT16, DType.INT32, DType.INT64})
# Of one type throughout; of JOINS that is so for all inputs.
JOINS = frozenset({"BROADCAST_ARGS", "CONCATENATION", "PACK", "RANGE"})
MOVES = JOINS | {"BROADCAST_TO", "EXPAND_DIMS", "REDUCE_ANY", "RELU", "RELU6", "RESHAPE", "SQUEEZE", "STRIDED_SLICE"}
MOVES |= {"TILE", "TRANSPOSE", "UNPACK"}
MAY_LACK_BIAS = {"FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}  # what comes before it


def is_in_order(draft: Draft) -> bool:
    """Whether one operator at most writes each tensor, and before any other reads it; variables may change again.

    In a graph where that is not so, nobody can tell what operators compute.
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


def is_sound(draft: Draft, operator: Operator) -> bool:
    """False where it has other operands or options than operators of its code, or shapes that contradict each other.

    Operators that no rewrite of structure looks at are taken as they are, but for those that take or give nothing.
    """
    if not operator.inputs or not operator.outputs or min(operator.outputs) < 0:
        return False
    if operator.code not in OPERANDS:
        return True
    least, most, fewest, largest = OPERANDS[operator.code]
    if not (least <= len(operator.inputs) <= most and fewest <= len(operator.outputs) <= largest):
        return False
    if min(operator.outputs) < 0 or min(operator.inputs[: MAY_LACK_BIAS.get(operator.code)]) < 0:
        return False
    fields = table(OPTION_TABLES[operator.code]).fields if operator.code in OPTION_TABLES else ()
    if fields and operator.options is None and operator.code != "RESHAPE":
        return False
    whole = [operator.inputs[place] for place in WHOLE.get(operator.code, ()) if place < len(operator.inputs)]
    if any(draft.tensors[tensor].dtype not in INTEGERS for tensor in whole):
        return False
    fits = FITS.get(operator.code)
    inputs = [draft.tensors[tensor] for tensor in operator.inputs if tensor >= 0]
    outputs = [draft.tensors[tensor] for tensor in operator.outputs]
    moved = inputs if operator.code in JOINS else inputs[:1]
    if operator.code in MOVES and len({tensor.dtype for tensor in (*moved, *outputs)}) != 1:
        return False
    return fits is None or fits(draft, operator, inputs, draft.tensors[operator.outputs[0]])


Fits = Callable[[Draft, Operator, list[Tensor], Tensor], bool]


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


def _joined(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    rank, axis = len(output.shape), _axis(operator)
    if not -rank <= axis < rank or any(len(tensor.shape) != rank for tensor in inputs):
        return False
    shapes = [tensor.shape[: axis % rank] + tensor.shape[axis % rank + 1 :] for tensor in (*inputs, output)]
    return len(set(shapes)) == 1 and sum(tensor.shape[axis] for tensor in inputs) == output.shape[axis]


def _unpacked(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    shape, axis = inputs[0].shape, _axis(operator)
    if not -len(shape) <= axis < len(shape) or shape[axis] != len(operator.outputs):
        return False
    rest = shape[: axis % len(shape)] + shape[axis % len(shape) + 1 :]
    return all(draft.tensors[made].shape == rest for made in operator.outputs)


def _sliced(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    bounds = [draft.values(tensor) for tensor in operator.inputs[1:]]
    known = [values for values in bounds if values is not None]
    if len(known) != 3 or operator.options is None:
        return True
    length, masks = known[0].size, operator.options
    of_input = length - (masks.integer("new_axis_mask") & ((1 << length) - 1)).bit_count()
    has_ellipsis = bool(masks.integer("ellipsis_mask") & ((1 << length) - 1))
    if any(values.shape != (length,) for values in known) or 0 in known[2] or 0 in inputs[0].shape:
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


def _dense(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    if len(inputs[1].shape) != 2 or inputs[1].shape[1] == 0:
        return False
    units, depth = inputs[1].shape
    return inputs[0].element_count * units == output.element_count * depth


def _four_dimensions(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    quantized = all(tensor.quantization is None or tensor.quantization.scales for tensor in inputs)
    return quantized and all(len(tensor.shape) == 4 for tensor in (*inputs[1:3], output))


def _elementwise(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    """Of constants, whose result is computed here."""
    if not all(tensor.is_constant for tensor in inputs):
        return True
    one_type = len({tensor.dtype for tensor in (*inputs, output)}) == 1 and output.dtype is not DType.BOOL
    return one_type and common_shape([tensor.shape for tensor in inputs]) == output.shape


def common_shape(shapes: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """That to which all are broadcast; None where they contradict each other."""
    rank = max(len(shape) for shape in shapes)
    sizes = [{1, *column} - {1} for column in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True)]
    return tuple(next(iter(size), 1) for size in sizes) if all(len(size) <= 1 for size in sizes) else None


def _ranged(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    bounds = [draft.values(tensor) for tensor in operator.inputs]
    known = [int(values) for values in bounds if values is not None and values.shape == () and values.dtype.kind == "i"]
    if len(known) < len(bounds):
        return output.dtype not in INTEGERS or any(values is None for values in bounds)
    start, limit, step = known
    return step != 0 and output.shape == (max(0, -((start - limit) // step)),)  # rounded up


def _broadcast_shapes(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    if any(len(tensor.shape) != 1 for tensor in inputs):
        return False
    if output.shape != (max(tensor.shape[0] for tensor in inputs),):
        return False
    shapes = [values.tolist() for tensor in operator.inputs if (values := draft.values(tensor)) is not None]
    return all(size >= 0 for shape in shapes for size in shape) and common_shape([[], *shapes]) is not None


def _cut(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    begin, shape = draft.values(operator.inputs[1]), inputs[0].shape
    if len(output.shape) != len(shape) or any(tensor.shape != (len(shape),) for tensor in inputs[1:]):
        return False
    if begin is None:
        return True
    places = zip(begin.tolist(), output.shape, shape, strict=True)
    return all(first >= 0 and first + count <= size for first, count, size in places)


def _gathered(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    """One result for each index, of which all are places on the axis."""
    indices, shape, axis = draft.values(operator.inputs[1]), inputs[0].shape, _axis(operator)
    if not -len(shape) <= axis < len(shape):
        return False
    if indices is None or (operator.options is not None and operator.options["batch_dims"]):
        return True
    rest = prod(shape[: axis % len(shape)] + shape[axis % len(shape) + 1 :])
    inside = not indices.size or (int(indices.min()) >= 0 and int(indices.max()) < shape[axis])
    return inside and output.element_count == rest * indices.size


def _stacked(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    rank = len(inputs[0].shape) + 1
    if len({tensor.shape for tensor in inputs}) != 1 or not -rank <= _axis(operator) < rank:
        return False
    axis = _axis(operator) % rank
    return output.shape == (*inputs[0].shape[:axis], len(inputs), *inputs[0].shape[axis:])


def _reduced(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    axes, rank = draft.values(operator.inputs[1]), len(inputs[0].shape)
    if axes is None:
        return True
    places = axes.reshape(-1).tolist()
    return all(-rank <= axis < rank for axis in places) and len({axis % rank for axis in places}) == len(places)


def _filled(draft: Draft, operator: Operator, inputs: list[Tensor], output: Tensor) -> bool:
    return inputs[1].shape == ()


def _axis(operator: Operator) -> int:
    return operator.options.integer("axis") if operator.options is not None else 0


FITS: dict[str, Fits] = {
    **dict.fromkeys(["RESHAPE", "EXPAND_DIMS", "SQUEEZE", "BUCKETIZE"], _same_count),
    **dict.fromkeys(["RELU", "RELU6"], _same_shape),
    **dict.fromkeys(["ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"], _elementwise),
    **dict.fromkeys(["REDUCE_PROD", "SUM"], _reduced),
    "BROADCAST_ARGS": _broadcast_shapes,
    "FILL": _filled,
    "GATHER": _gathered,
    "PACK": _stacked,
    "RANGE": _ranged,
    "SLICE": _cut,
    "TILE": _tiled,
    "BROADCAST_TO": _broadcasts,
    "CONCATENATION": _joined,
    "UNPACK": _unpacked,
    "STRIDED_SLICE": _sliced,
    "TRANSPOSE": _transposed,
    "ONE_HOT": _one_hot,
    "TOPK_V2": _ranked,
    "FULLY_CONNECTED": _dense,
    "TRANSPOSE_CONV": _four_dimensions,
}
