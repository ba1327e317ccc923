"""Layout: operators compute on tensors with their axes in another order, so that TRANSPOSE and RESHAPE cancel.

Frameworks whose images have their channels first leave a TRANSPOSE before and after each convolution, and 1-D layers a
RESHAPE. Between two of them are operators that work in any order of the axes, once their constants and options follow
it. A region of such operators is moved to the other order if that leaves fewer elements to transpose, or fewer
operators; what remains is at its border. A TRANSPOSE between FULLY_CONNECTED and a RESHAPE permutes the weights
instead.

A layout is the order in which the axes of a tensor are stored; -1 stands for a new axis of size 1, and axes of size 1
may be absent. No value changes; only sums over reordered weights in float32 are rounded differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.errors import InternalError
from edgetool.model.draft import STORED, Array, Draft
from edgetool.model.types import Model, Operator, Options, OptionValue, Quantization, Tensor
from edgetool.passes.movement import merge_reshapes, same_values
from edgetool.passes.no_ops import merge_transposes, remove_no_ops
from edgetool.passes.validation import is_consistent

Layout = tuple[int, ...]
Layouts = dict[int, Layout]
Index = npt.NDArray[np.int64]

# Operators that compute each element of the result from the elements at the same place, with broadcasting.
ELEMENTWISE = frozenset(
    """
    ABS ADD CAST CEIL COS DEQUANTIZE DIV ELU EQUAL EXP FLOOR FLOOR_DIV FLOOR_MOD GELU GREATER GREATER_EQUAL HARD_SWISH
    LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM MINIMUM MUL NEG NOT_EQUAL POW
    PRELU QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SELECT_V2 SIGN SIN SQRT SQUARE SQUARED_DIFFERENCE SUB
    TANH ZEROS_LIKE
    """.split()
)
MOVES = frozenset({"RESHAPE", "TRANSPOSE"})
RESHAPES = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE"})
REDUCTIONS = frozenset({"MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"})
# Operators that always drop the axis along which they compare values.
COMPARED = frozenset({"ARG_MAX", "ARG_MIN"})
# Operators that work along the last axis only.
ALONG_LAST_AXIS = frozenset({"FULLY_CONNECTED", "L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX"})
# Operators with constants that have a row for each axis, by position, and the number in the row of a new axis.
ROWS: Mapping[str, Mapping[int, int]] = {
    "BROADCAST_TO": {1: 1},
    "MIRROR_PAD": {1: 0},
    "PAD": {1: 0},
    "PADV2": {1: 0},
    "SLICE": {1: 0, 2: 1},
    "STRIDED_SLICE": {1: 0, 2: 1, 3: 1},
    "TILE": {1: 1},
}
# Operators with a constant that consists of axes, by position, and those with an option that is one.
AXES: Mapping[str, int] = {**dict.fromkeys(REDUCTIONS | COMPARED, 1), "REVERSE_V2": 1, "SPLIT": 0, "SPLIT_V": 2}
AXIS_OPTION = frozenset({"CONCATENATION", "GATHER"})
MASKS = ("begin_mask", "end_mask")
ABSENT_MASKS = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
# Inputs other than the first that are tensors of the same axes as the result.
ALL_INPUTS = ELEMENTWISE | {"CONCATENATION"}
MAX_MOVES = 10_000
MAX_RANK = 4  # of tensors with new axes: more than the kernels of most operators support
MIN_IMAGE_RANK = 3  # of a batch, channels and positions


def inverse(layout: Sequence[int], rank: int) -> Layout:
    """Return the layout of a stored tensor that restores the tensor of that rank."""
    return tuple(layout.index(axis) if axis in layout else -1 for axis in range(rank))


def _effect(layout: Layout, shape: Sequence[int]) -> Layout:
    """Return what a layout does to a shape: all axes of size 1 are the same."""
    return tuple(-1 if axis < 0 or shape[axis] == 1 else axis for axis in layout)


def is_identity(layout: Layout, shape: Sequence[int]) -> bool:
    """Return whether the stored tensor is the tensor itself."""
    return _effect(layout, shape) == _effect(tuple(range(len(shape))), shape)


def stored_values(values: Array, layout: Layout) -> Array:
    """Return an array in a layout."""
    present = [axis for axis in layout if axis >= 0]
    absent = [axis for axis in range(values.ndim) if axis not in present]
    shape = [1 if axis < 0 else values.shape[axis] for axis in layout]
    return np.transpose(values, (*absent, *present)).reshape(shape)


def cost(draft: Draft) -> tuple[int, int]:
    """Return the number of elements that TRANSPOSE operators move, and that of TRANSPOSE and RESHAPE operators."""
    moves = [operator for operator in draft.operators if operator.code in MOVES]
    transposed = [draft.tensors[move.outputs[0]].element_count for move in moves if move.code == "TRANSPOSE"]
    return sum(transposed), len(moves)


def move_transposes(model: Model, subgraph: int = 0) -> Model:
    """Return the model with the TRANSPOSE operators of a subgraph moved, merged and removed; itself if none can be.

    The subgraph's inputs and outputs keep their shapes. Its operators must be in order.
    """
    draft = Draft(model, subgraph)
    if merge_moves(draft):
        model = draft.finish()
    for _ in range(MAX_MOVES):
        moved = next(_moved(model, subgraph), None)
        if moved is None:
            return model
        model = moved
    raise InternalError(f"the TRANSPOSE operators of a model still move after {MAX_MOVES} steps")


def _moved(model: Model, subgraph: int) -> Iterator[Model]:
    """Yield models with fewer elements to transpose: one for each TRANSPOSE, and each direction, that permits it."""
    before = cost(Draft(model, subgraph))
    for operator in model.subgraphs[subgraph].operators:
        layout = _layout_of_move(Draft(model, subgraph), operator) if operator.code in MOVES else None
        if layout is None:
            continue
        for move in (_sink_into_weights, _store_as_input, _store_as_output):
            draft = Draft(model, subgraph)
            if move(draft, operator, layout):
                merge_moves(draft)
                if cost(draft) < before:
                    yield draft.finish()


def _layout_of_move(draft: Draft, operator: Operator) -> Layout | None:
    """Return the layout in which a TRANSPOSE, or a RESHAPE that only moves axes of size 1, stores its input."""
    if operator.code == "TRANSPOSE":
        return _order(draft, operator)
    before, after = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    is_plain = is_consistent(draft, operator) and same_values(before, after) and not before.is_variable
    return _layout_of_ones(before.shape, after.shape) if is_plain and before.element_count else None


def _layout_of_ones(before: Sequence[int], after: Sequence[int]) -> Layout | None:
    """Return the layout of a shape that has axes of size 1 elsewhere; None for any other shape."""
    if [size for size in before if size != 1] != [size for size in after if size != 1]:
        return None
    axes = list(range(len(before)))
    layout = []
    for size in after:
        while size != 1 and before[axes[0]] == 1:
            axes.pop(0)
        layout.append(axes.pop(0) if axes and before[axes[0]] == size else -1)
    return tuple(layout)


def _order(draft: Draft, operator: Operator) -> Layout | None:
    """Return the constant order of a TRANSPOSE of computed values."""
    values = draft.values(operator.inputs[1])
    if values is None or not is_consistent(draft, operator):
        return None
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    is_plain = same_values(source, output) and not source.is_variable and not output.is_variable
    return tuple(int(axis) for axis in values) if is_plain else None


def merge_moves(draft: Draft) -> bool:
    """Merge chains of TRANSPOSE and of RESHAPE, and remove those without effect; return whether anything changed.

    A TRANSPOSE that only moves axes of size 1 becomes a RESHAPE.
    """
    rounds = 0
    while _merge_each(draft):
        rounds += 1
    return rounds > 0


def _merge_each(draft: Draft) -> bool:
    changed = False
    for index in [operator.index for operator in draft.operators]:
        operator = draft.operator(index)
        if operator is None or operator.code not in MOVES or not is_consistent(draft, operator):
            continue
        merge = merge_reshapes if operator.code == "RESHAPE" else merge_transposes
        changed = merge(draft, operator) is not None or changed
        changed = _merge_through(draft, operator) or changed
        operator = draft.operator(index)
        assert operator is not None
        order = _order(draft, operator) if operator.code == "TRANSPOSE" else None
        if order is not None and _moves_only_ones(draft.tensors[operator.inputs[0]].shape, order):
            draft.replace(operator, _reshape_at(draft, operator, operator.inputs[0], operator.outputs[0]))
            changed = True
    return bool(remove_no_ops(draft)) or changed


def _merge_through(draft: Draft, operator: Operator) -> bool:
    """Let an earlier RESHAPE give the shape of this one, if only elementwise operators are in between."""
    shape = draft.tensors[operator.outputs[0]].shape
    between: list[int] = []
    tensor = operator.inputs[0]
    while operator.code == "RESHAPE" and tensor not in draft.outputs and len(draft.consumers(tensor)) == 1:
        between.append(tensor)
        producer = draft.producer(tensor)
        if producer is None or not _is_unary(draft, producer):
            return False
        if producer.code in RESHAPES:
            if len(between) == 1 or draft.tensors[producer.inputs[0]].is_variable:
                return False
            for index in between:
                draft.tensors[index] = replace(draft.tensors[index], shape=shape, shape_signature=())
            draft.replace(producer, _reshape_at(draft, producer, producer.inputs[0], tensor))
            return True
        constants = [draft.tensors[index] for index in producer.inputs if draft.values(index) is not None]
        if any(len(constant.shape) > len(shape) for constant in constants):
            return False
        (tensor,) = (index for index in producer.inputs if draft.values(index) is None)
    return False


def _moves_only_ones(shape: Sequence[int], order: Layout) -> bool:
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)


def _reshape(draft: Draft, source: int, output: int) -> Operator:
    shape = draft.tensors[output].shape
    inputs = [source, _constant(draft, np.array(shape, np.int32))] if shape else [source]
    return draft.make("RESHAPE", inputs, [output], new_shape=shape)


def _reshape_at(draft: Draft, operator: Operator, source: int, output: int) -> Operator:
    """Return a RESHAPE in the place of an operator."""
    return replace(_reshape(draft, source, output), index=operator.index)


def _store_as_input(draft: Draft, operator: Operator, order: Layout) -> bool:
    """Store the result as the input is stored."""
    rank = len(draft.tensors[operator.inputs[0]].shape)
    return _store(draft, *_region(draft, operator.outputs[0], inverse(order, rank)))


def _store_as_output(draft: Draft, operator: Operator, order: Layout) -> bool:
    """Store the input as the result is stored."""
    return _store(draft, *_region(draft, operator.inputs[0], order))


# Weights


def _sink_into_weights(draft: Draft, operator: Operator, order: Layout) -> bool:
    """Permute the weights of the dense layers after a TRANSPOSE, or of the one before it.

    Only elementwise operators and RESHAPE may be in between. The TRANSPOSE becomes a RESHAPE.
    """
    source, output = operator.inputs[0], operator.outputs[0]
    shape = draft.tensors[source].shape
    if operator.code != "TRANSPOSE":
        return False
    index = np.transpose(np.arange(prod(shape)).reshape(shape), order).reshape(-1)
    readers = _dense_readers(draft, output)
    writer = None if readers else _dense_writer(draft, source)
    dense = readers or ([writer] if writer is not None else [])
    permutations = [_within_rows(index, _matrix(draft, one).shape[0 if writer else 1]) for one in dense]
    if not dense or any(permutation is None for permutation in permutations):
        return False
    for one, permutation in zip(dense, permutations, strict=True):
        assert permutation is not None
        draft.replace(one, _with_rows(draft, one, permutation) if writer else _with_columns(draft, one, permutation))
    draft.replace(operator, _reshape_at(draft, operator, source, output))
    return True


def _matrix(draft: Draft, operator: Operator) -> Tensor:
    return draft.tensors[operator.inputs[1]]


def _is_dense(draft: Draft, operator: Operator, source: int | None = None) -> bool:
    """Return whether it is a FULLY_CONNECTED with a constant matrix, which does not read `source` as that matrix."""
    if operator.code != "FULLY_CONNECTED" or not is_consistent(draft, operator):
        return False
    weights = draft.values(operator.inputs[1])
    biases = [index for index in operator.inputs[2:] if index >= 0]
    is_plain = weights is not None and weights.ndim == 2 and all(draft.values(index) is not None for index in biases)
    return is_plain and source not in operator.inputs[1:] and _option(operator, "weights_format") in (None, "DEFAULT")


def _is_unary(draft: Draft, operator: Operator) -> bool:
    """Return whether the operator treats every element alike, or leaves all in their order."""
    if not is_consistent(draft, operator) or len(operator.outputs) != 1:
        return False
    if operator.code in RESHAPES:
        return True
    constants = [draft.tensors[index] for index in operator.inputs if draft.values(index) is not None]
    is_alike = len(operator.inputs) - len(constants) == 1 and all(item.element_count == 1 for item in constants)
    return operator.code in ELEMENTWISE and is_alike


def _dense_readers(draft: Draft, tensor: int) -> list[Operator]:
    """Return the dense layers that read the elements of a tensor; none if anything else does."""
    dense: list[Operator] = []
    waiting = [tensor]
    while waiting:
        current = waiting.pop()
        readers = draft.consumers(current)
        if current in draft.outputs or not readers:
            return []
        for reader in readers:
            if _is_dense(draft, reader, current):
                dense.append(reader)
            elif _is_unary(draft, reader):
                waiting.append(reader.outputs[0])
            else:
                return []
    return dense


def _dense_writer(draft: Draft, tensor: int) -> Operator | None:
    """Return the dense layer that computes the elements of a tensor, if nothing else reads them on the way."""
    while tensor not in draft.outputs and len(draft.consumers(tensor)) == 1:
        producer = draft.producer(tensor)
        if producer is None or _is_dense(draft, producer):
            return producer
        if not _is_unary(draft, producer):
            return None
        (tensor,) = (index for index in producer.inputs if draft.values(index) is None)
    return None


def _within_rows(index: Index, size: int) -> Index | None:
    """Return the permutation that indices apply to each row of that size; None if they do not."""
    rows = index.reshape(-1, size)
    permutation: Index = rows[0]
    expected = permutation + size * np.arange(len(rows))[:, None]
    return permutation if sorted(permutation) == list(range(size)) and np.array_equal(rows, expected) else None


def _with_columns(draft: Draft, operator: Operator, permutation: Index) -> Operator:
    """Return the dense layer for inputs in the order before the permutation."""
    matrix, weights = _matrix(draft, operator), draft.values(operator.inputs[1])
    assert weights is not None
    columns = draft.constant(matrix.name, weights[:, np.argsort(permutation)], matrix.quantization, matrix.dtype)
    return replace(operator, inputs=(operator.inputs[0], columns, *operator.inputs[2:]))


def _with_rows(draft: Draft, operator: Operator, permutation: Index) -> Operator:
    """Return the dense layer with its outputs permuted."""
    inputs = [operator.inputs[0]]
    for index in operator.inputs[1:]:
        values = draft.values(index) if index >= 0 else None
        if values is None:
            inputs.append(index)
            continue
        tensor = draft.tensors[index]
        scales = None if tensor.quantization is None else _permuted(tensor.quantization, permutation)
        inputs.append(draft.constant(tensor.name, values[permutation], scales, tensor.dtype))
    return replace(operator, inputs=tuple(inputs))


def _permuted(quantization: Quantization, permutation: Index) -> Quantization:
    """Return the scales of the permuted channels, or those of the whole tensor."""

    def permuted(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(values[place] for place in permutation) if len(values) == len(permutation) > 1 else values

    return replace(
        quantization,
        scales=permuted(quantization.scales),
        zero_points=permuted(quantization.zero_points),
        minimum=permuted(quantization.minimum),
        maximum=permuted(quantization.maximum),
    )


# Regions


@dataclass(frozen=True, slots=True)
class _Placed:
    """An operator in a region: the layouts of its computed operands, and that of the axes which it refers to.

    keeps_dims: for a reduction whose result is stored with the axes that it drops.
    """

    layouts: Layouts
    order: Layout
    keeps_dims: bool = False


def _region(draft: Draft, tensor: int, layout: Layout) -> tuple[Layouts, dict[int, _Placed]]:
    """Return the tensors that are stored in another order if this one is, and the operators among them."""
    layouts: Layouts = {tensor: layout}
    inside: dict[int, _Placed] = {}
    waiting = [tensor]
    while waiting:
        current = waiting.pop()
        producer = draft.producer(current)
        for operator in (*draft.consumers(current), *([] if producer is None else [producer])):
            placed = None if operator.index in inside else _placed(draft, operator, current, layouts[current])
            if placed is None or not _agrees(draft, layouts, placed.layouts):
                continue
            inside[operator.index] = placed
            for other, order in placed.layouts.items():
                if other not in layouts and not is_identity(order, draft.tensors[other].shape):
                    layouts[other] = order
                    waiting.append(other)
    return layouts, inside


def _agrees(draft: Draft, layouts: Layouts, new: Layouts) -> bool:
    """Return whether no tensor gets a second layout."""
    shapes = {index: draft.tensors[index].shape for index in new}
    return all(
        _effect(layouts.get(index, new[index]), shape) == _effect(new[index], shape) for index, shape in shapes.items()
    )


def _placed(draft: Draft, operator: Operator, tensor: int, layout: Layout) -> _Placed | None:
    """Return how an operator is written if `tensor`, one of its operands, has this layout; None if it cannot be."""
    if not is_consistent(draft, operator):
        return None
    if any(draft.tensors[index].is_variable for index in (*operator.inputs, *operator.outputs) if index >= 0):
        return None
    if operator.code in RESHAPES:
        return _placed_reshape(draft, operator, tensor, layout)
    if operator.code in COMPARED or (operator.code in REDUCTIONS and not _option(operator, "keep_dims")):
        return _placed_reduction(draft, operator, tensor, layout)
    operands = [*_images(draft, operator), *operator.outputs]
    ranks = {index: len(draft.tensors[index].shape) for index in operands}
    rank = max(ranks.values())
    if tensor not in operands or (len(set(ranks.values())) > 1 and operator.code not in ELEMENTWISE):
        return None
    lead = rank - ranks[tensor]
    order = tuple(axis + lead if axis >= 0 else -1 for axis in layout)
    if not _accepts(draft, operator, order, rank):
        return None
    layouts = {}
    for index in operands:
        lead = rank - ranks[index]
        own = tuple(axis - lead if axis >= lead else -1 for axis in order)
        while lead and own[0] < 0 and len(own) > ranks[index]:
            own = own[1:]
        if draft.tensors[index].element_count > 1 or not lead or ranks[index] > len(order):
            layouts[index] = own
    return _Placed(layouts, order)


def _images(draft: Draft, operator: Operator) -> list[int]:
    """Return the computed inputs whose axes are those of the result."""
    if operator.code in ALL_INPUTS:
        return [index for index in operator.inputs if index >= 0 and draft.values(index) is None]
    place = 1 if operator.code == "SPLIT" else 0
    return [index for index in operator.inputs[place : place + 1] if draft.values(index) is None]


def _accepts(draft: Draft, operator: Operator, order: Layout, rank: int) -> bool:
    """Return whether an operator on axes of this rank can be written in that order of them."""
    code = operator.code
    constants = [index for place, index in enumerate(operator.inputs) if index >= 0 and place in _constant_places(code)]
    if any(draft.values(index) is None for index in constants) or len(order) > max(rank, MAX_RANK):
        return False
    if any(values is None or len(values) != rank for values in map(draft.values, _rows(operator))):
        return False  # a STRIDED_SLICE may leave out the last axes
    images = _images(draft, operator)
    if code not in ALL_INPUTS and not images:
        return False  # its data is a constant, which is not reordered
    operands = [index for index in operator.inputs if index >= 0] if code in ALL_INPUTS else images
    shapes = [draft.tensors[index].shape for index in (*operands, *operator.outputs)]
    absent = [axis - rank for axis in range(rank) if axis not in order]
    if any(shape[axis] != 1 for shape in shapes for axis in absent if -axis <= len(shape)):
        return False
    if code in ELEMENTWISE:
        return not any(_is_per_channel(draft.tensors[index]) for index in operands)
    if code in ALONG_LAST_AXIS:
        return order[-1] == rank - 1 and rank > 1 and _keeps_rank(operator)
    if code == "GATHER":
        indices = draft.values(operator.inputs[1])
        if indices is None or indices.ndim != 1 or _option(operator, "batch_dims"):
            return False
    if code == "STRIDED_SLICE" and any(_option(operator, mask) for mask in ABSENT_MASKS):
        return False
    axes = _axes(draft, operator, rank)
    if code in REDUCTIONS:
        return any(axis in order for axis in axes)
    return (code in ROWS or code in AXES or code in AXIS_OPTION) and all(axis in order for axis in axes)


def _axes(draft: Draft, operator: Operator, rank: int) -> list[int]:
    """Return the axes that a constant or an option names."""
    if operator.code in AXIS_OPTION:
        return [_option(operator, "axis") % rank]
    values = draft.values(operator.inputs[AXES[operator.code]]) if operator.code in AXES else None
    return [] if values is None else [int(axis) % rank for axis in values.reshape(-1)]


def _constant_places(code: str) -> tuple[int, ...]:
    """Return the positions of the inputs that must be constants: sizes and axes."""
    return (*ROWS.get(code, ()), *([AXES[code]] if code in AXES else []))


def _rows(operator: Operator) -> list[int]:
    """Return the constants that have a row for each axis."""
    return [operator.inputs[place] for place in ROWS.get(operator.code, ())]


def _is_per_channel(tensor: Tensor) -> bool:
    return tensor.quantization is not None and tensor.quantization.per_channel


def _keeps_rank(operator: Operator) -> bool:
    return operator.code != "FULLY_CONNECTED" or bool(_option(operator, "keep_num_dims"))


def _option(operator: Operator, name: str) -> Any:
    return dict(operator.options.fields).get(name) if operator.options is not None else None


def _placed_reduction(draft: Draft, operator: Operator, tensor: int, layout: Layout) -> _Placed | None:
    """Place a reduction that drops axes: in the layout of its input, or keeping the axes, if its result has them."""
    source, output = operator.inputs[0], operator.outputs[0]
    shape = draft.tensors[source].shape
    dropped = set(_axes(draft, operator, len(shape)))
    kept = [axis for axis in range(len(shape)) if axis not in dropped]
    if draft.values(operator.inputs[1]) is None:
        return None
    if tensor == output and operator.code in REDUCTIONS:
        keeping = tuple(kept.index(axis) if axis in kept else -1 for axis in range(len(shape)))
        is_same = _effect(keeping, draft.tensors[output].shape) == _effect(layout, draft.tensors[output].shape)
        identity = tuple(range(len(shape)))
        return _Placed({output: keeping, source: identity}, identity, keeps_dims=True) if is_same else None
    if tensor != source or dropped.isdisjoint(layout) or len(layout) > max(len(shape), MAX_RANK):
        return None
    if any(shape[axis] != 1 for axis in range(len(shape)) if axis not in layout):
        return None
    result = tuple(axis if axis < 0 else kept.index(axis) for axis in layout if axis not in dropped)
    return _Placed({source: layout, output: result}, layout)


def axis_groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the smallest groups of adjacent axes that a RESHAPE maps to each other, without axes of size 1."""
    old = [axis for axis, size in enumerate(before) if size != 1]
    new = [axis for axis, size in enumerate(after) if size != 1]
    groups = []
    while old or new:
        first, second = [old.pop(0)], [new.pop(0)]
        while (one := prod(before[axis] for axis in first)) != (other := prod(after[axis] for axis in second)):
            if one < other:
                first.append(old.pop(0))
            else:
                second.append(new.pop(0))
        groups.append((first, second))
    return groups


def _placed_reshape(draft: Draft, operator: Operator, tensor: int, layout: Layout) -> _Placed | None:
    """Place a RESHAPE if the layout of one side keeps the axes of each group together."""
    source, output = operator.inputs[0], operator.outputs[0]
    if tensor not in (source, output) or not same_values(draft.tensors[source], draft.tensors[output]):
        return None
    if not draft.tensors[source].element_count:
        return None
    other = output if tensor == source else source
    here, there = draft.tensors[tensor].shape, draft.tensors[other].shape
    groups = axis_groups(here, there)
    order = [axis for axis in layout if axis >= 0 and here[axis] != 1]
    places = sorted(range(len(groups)), key=lambda group: order.index(groups[group][0][0]))
    if [axis for group in places for axis in groups[group][0]] != order:
        return None
    other_layout = _with_ones(there, [axis for group in places for axis in groups[group][1]])
    return _Placed({tensor: layout, other: other_layout}, layout)


def _with_ones(shape: Sequence[int], order: Sequence[int]) -> Layout:
    """Return a layout with the axes of size 1 where they are: the other axes fill the remaining places in order."""
    rest = iter(order)
    return tuple(axis if size == 1 else next(rest) for axis, size in enumerate(shape))


# Rewriting a region


def _store(draft: Draft, layouts: Layouts, inside: Mapping[int, _Placed]) -> bool:
    """Store the tensors in their layouts, with a TRANSPOSE wherever an operator outside reads or writes one.

    Returns:
        False if there are no operators inside.
    """
    stored = {index: _stored_tensor(draft, index, layout) for index, layout in layouts.items()}
    before: dict[int, list[Operator]] = {}
    after: dict[int, list[Operator]] = {}
    for index, layout in layouts.items():
        producer = draft.producer(index)
        readers = draft.consumers(index)
        if producer is not None and producer.index in inside:
            if index in draft.outputs or any(reader.index not in inside for reader in readers):
                back = inverse(layout, len(draft.tensors[index].shape))
                after.setdefault(producer.index, []).extend(_changed(draft, stored[index], index, back))
        elif inner := [reader for reader in readers if reader.index in inside]:
            before.setdefault(inner[0].index, []).extend(_changed(draft, index, stored[index], layout))
    operators: list[Operator] = []
    for operator in draft.operators:
        placed = inside.get(operator.index)
        operators += before.get(operator.index, [])
        operators.append(operator if placed is None else _in_layout(draft, operator, placed, stored))
        operators += after.get(operator.index, [])
    draft.replace_all(operators)
    return bool(inside)


def _stored_tensor(draft: Draft, index: int, layout: Layout) -> int:
    """Add the tensor in its layout; it takes over the name, unless the tensor is an input or output of the graph."""
    tensor = draft.tensors[index]
    shape = [1 if axis < 0 else tensor.shape[axis] for axis in layout]
    new = draft.tensor(f"{tensor.name}/transpose", shape, tensor.dtype, tensor.quantization)
    if index not in draft.outputs and draft.producer(index) is not None:
        draft.tensors[index] = replace(tensor, name=draft.tensors[new].name)
        draft.tensors[new] = replace(draft.tensors[new], name=tensor.name)
    return new


def _changed(draft: Draft, source: int, output: int, layout: Layout) -> list[Operator]:
    """Return the operators that store a tensor in a layout: TRANSPOSE, RESHAPE, or both."""
    tensor = draft.tensors[source]
    present = [axis for axis in layout if axis >= 0]
    order = (*(axis for axis in range(len(tensor.shape)) if axis not in present), *present)
    if _moves_only_ones(tensor.shape, order):
        return [_reshape(draft, source, output)]
    axes = draft.constant("transpose/perm", np.array(order, np.int32))
    shape = tuple(tensor.shape[axis] for axis in order)
    if shape == draft.tensors[output].shape:
        return [draft.make("TRANSPOSE", [source, axes], [output], version=2)]
    turned = draft.tensor(f"{tensor.name}/transpose", shape, tensor.dtype, tensor.quantization)
    return [draft.make("TRANSPOSE", [source, axes], [turned], version=2), _reshape(draft, turned, output)]


def _in_layout(draft: Draft, operator: Operator, placed: _Placed, stored: Mapping[int, int]) -> Operator:
    """Return the operator on the stored tensors, with its constants and options in their order."""
    code, order = operator.code, placed.order
    outputs = tuple(stored.get(index, index) for index in operator.outputs)
    inputs = [stored.get(index, index) for index in operator.inputs]
    if code in RESHAPES:
        return _reshape_at(draft, operator, inputs[0], outputs[0])
    rank = max(len(draft.tensors[index].shape) for index in (*_images(draft, operator), *operator.outputs))
    if code in ALL_INPUTS:
        for place, index in enumerate(operator.inputs):
            if index >= 0 and draft.values(index) is not None:
                inputs[place] = _reordered(draft, operator, index, order, rank)
    for place, new in ROWS.get(code, {}).items():
        values = draft.values(operator.inputs[place])
        assert values is not None
        rows = [np.full_like(values[0], new) if axis < 0 else values[axis] for axis in order]
        inputs[place] = _constant(draft, np.stack(rows))
    if code in AXES:
        old = draft.tensors[operator.inputs[AXES[code]]]
        axes = sorted(order.index(axis) for axis in _axes(draft, operator, rank) if axis in order)
        values = np.array(axes, STORED[old.dtype])
        inputs[AXES[code]] = _constant(draft, values.reshape(old.shape) if values.size == old.element_count else values)
    options = _options(draft, operator, placed, rank)
    return replace(operator, inputs=tuple(inputs), outputs=outputs, options=options)


def _options(draft: Draft, operator: Operator, placed: _Placed, rank: int) -> Options | None:
    if operator.options is None:
        return None
    new: dict[str, OptionValue] = {"keep_dims": True} if placed.keeps_dims else {}
    if operator.code in AXIS_OPTION:
        (axis,) = _axes(draft, operator, rank)
        new["axis"] = placed.order.index(axis)
    if operator.code == "STRIDED_SLICE":
        for mask in MASKS:
            bits = operator.options.integer(mask)
            new[mask] = sum(1 << place for place, axis in enumerate(placed.order) if axis >= 0 and bits >> axis & 1)
    fields = tuple((name, new.get(name, value)) for name, value in operator.options.fields)
    return replace(operator.options, fields=fields)


def _constant(draft: Draft, values: Array, quantization: Quantization | None = None) -> int:
    return draft.constant("layout/constant", values, quantization)


def _reordered(draft: Draft, operator: Operator, index: int, order: Layout, rank: int) -> int:
    """Return a constant operand in the order; elementwise operators need no leading axes of size 1."""
    tensor, values = draft.tensors[index], draft.values(index)
    assert values is not None
    if operator.code in ELEMENTWISE and values.size == 1 and values.ndim <= len(order):
        return index
    full = stored_values(values.reshape((1,) * (rank - values.ndim) + values.shape), order)
    while operator.code in ELEMENTWISE and full.ndim > values.ndim and full.shape[0] == 1:
        full = full[0]
    return draft.constant(tensor.name, full, tensor.quantization, tensor.dtype)


# Inputs and outputs


@dataclass(frozen=True, slots=True)
class TransposedEnds:
    """A model, and the order of the axes in which each input and output of its main graph is now.

    An order is for np.transpose of the values as they were; None if they are as before.
    """

    model: Model
    inputs: tuple[Layout | None, ...]
    outputs: tuple[Layout | None, ...]


def transpose_ends(model: Model) -> TransposedEnds:
    """Return the model whose inputs and outputs are stored as the operators next to them need them.

    An input that is only read by TRANSPOSE operators of one order takes the shape of their results; an output that a
    TRANSPOSE writes takes that of its input. So does one next to a RESHAPE that moves the channels of a single row,
    column or channel. Names are kept.
    """
    draft = Draft(model)
    inputs = tuple(_transpose_input(draft, index) for index in tuple(draft.inputs))
    outputs = tuple(_transpose_output(draft, index) for index in tuple(draft.outputs))
    if not any((*inputs, *outputs)):
        return TransposedEnds(model, inputs, outputs)
    merge_moves(draft)
    return TransposedEnds(draft.finish(), inputs, outputs)


def _end_order(draft: Draft, operator: Operator) -> Layout | None:
    """Return the order of the axes that an operator gives to its input, if it only does that."""
    if not is_consistent(draft, operator):
        return None
    if operator.code == "TRANSPOSE":
        return _order(draft, operator)
    before, after = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    rank = len(before.shape)
    if operator.code != "RESHAPE" or rank < MIN_IMAGE_RANK or not same_values(before, after):
        return None
    for order in ((0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))):
        if after.shape == tuple(before.shape[axis] for axis in order) and _moves_only_ones(before.shape, order):
            return order
    return None


def _transpose_first(draft: Draft, index: int) -> None:
    """Let a TRANSPOSE read an input before the RESHAPE that adds axes of size 1 to it, as of 1-D layers."""
    for reshape in draft.consumers(index):
        readers = draft.consumers(reshape.outputs[0])
        if reshape.code != "RESHAPE" or len(readers) != 1 or reshape.outputs[0] in draft.outputs:
            continue
        order = _order(draft, readers[0]) if readers[0].code == "TRANSPOSE" else None
        layout = _layout_of_move(draft, reshape)
        if order is not None and layout is not None:
            composed = tuple(layout[axis] for axis in order)
            draft.replace(readers[0], *_changed(draft, index, readers[0].outputs[0], composed))
            draft.replace(reshape)


def _transpose_input(draft: Draft, index: int) -> Layout | None:
    _transpose_first(draft, index)
    readers = draft.consumers(index)
    orders = {_end_order(draft, reader) for reader in readers}
    order = orders.pop() if len(orders) == 1 and index not in draft.outputs else None
    if (
        order is None
        or order == tuple(range(len(order)))
        or any(reader.outputs[0] in draft.outputs for reader in readers)
    ):
        return None
    for reader in readers:
        draft.redirect(reader.outputs[0], index)
        draft.replace(reader)
    _set_order(draft, index, order)
    return order


def _transpose_output(draft: Draft, index: int) -> Layout | None:
    producer = draft.producer(index)
    order = None if producer is None or draft.outputs.count(index) != 1 else _end_order(draft, producer)
    if order is None or order == tuple(range(len(order))) or draft.consumers(index):
        return None
    assert producer is not None
    source = producer.inputs[0]
    writer = draft.producer(source)
    if writer is None or source in draft.outputs:
        return None
    draft.replace(producer)
    draft.redirect(source, index)
    draft.replace(writer, replace(writer, outputs=tuple(index if old == source else old for old in writer.outputs)))
    back = inverse(order, len(order))
    _set_order(draft, index, back)
    return back


def _set_order(draft: Draft, index: int, order: Layout) -> None:
    tensor = draft.tensors[index]
    draft.tensors[index] = replace(tensor, shape=tuple(tensor.shape[axis] for axis in order), shape_signature=())
