"""Layout: operators compute on tensors with their axes in another order, so that TRANSPOSE operators cancel.

Frameworks whose images have their channels first leave a TRANSPOSE before and after each convolution. Between two of
them are operators that work in any order of the axes, once their constants and options follow it. A region of such
operators is moved to the other order if that leaves fewer elements to transpose; what remains are the transposes at its
border. A TRANSPOSE between FULLY_CONNECTED and a RESHAPE permutes the weights instead.

A layout is the order in which a tensor is stored: stored = np.transpose(tensor, layout). No value changes; only sums
over reordered weights in float32 are rounded differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.errors import InternalError
from edgetool.model.draft import Array, Draft
from edgetool.model.types import Model, Operator, OptionValue, Quantization, Tensor
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
RESHAPES = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE"})
REDUCTIONS = frozenset({"MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"})
# Operators that work along the last axis only.
ALONG_LAST_AXIS = frozenset({"FULLY_CONNECTED", "L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX"})
# Operators with a constant that has a row for each axis, by position.
ROWS: Mapping[str, tuple[int, ...]] = {
    "BROADCAST_TO": (1,),
    "MIRROR_PAD": (1,),
    "PAD": (1,),
    "PADV2": (1,),
    "SLICE": (1, 2),
    "STRIDED_SLICE": (1, 2, 3),
    "TILE": (1,),
}
# Operators with a constant that consists of axes, by position, and those with an option that is one.
AXES: Mapping[str, int] = {**dict.fromkeys(REDUCTIONS, 1), "REVERSE_V2": 1, "SPLIT": 0, "SPLIT_V": 2}
AXIS_OPTION = frozenset({"CONCATENATION", "GATHER"})
MASKS = ("begin_mask", "end_mask")
ABSENT_MASKS = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
# Inputs other than the first that are tensors of the same axes as the result.
ALL_INPUTS = ELEMENTWISE | {"CONCATENATION"}
MAX_MOVES = 10_000
MIN_IMAGE_RANK = 3  # of a batch, channels and positions


def inverse(layout: Sequence[int]) -> Layout:
    """Return the layout that restores the order."""
    return tuple(int(place) for place in np.argsort(layout))


def is_identity(layout: Layout) -> bool:
    """Return whether the layout is the order of the tensor itself."""
    return layout == tuple(range(len(layout)))


def moved_elements(draft: Draft) -> int:
    """Return the number of elements that the TRANSPOSE operators of a graph move."""
    return sum(draft.tensors[operator.outputs[0]].element_count for operator in _transposes(draft))


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
    before = moved_elements(Draft(model, subgraph))
    for operator in model.subgraphs[subgraph].operators:
        order = _order(Draft(model, subgraph), operator) if operator.code == "TRANSPOSE" else None
        if order is None:
            continue
        for move in (_sink_into_weights, _store_as_input, _store_as_output):
            draft = Draft(model, subgraph)
            if move(draft, operator, order):
                merge_moves(draft)
                if moved_elements(draft) < before:
                    yield draft.finish()


def _transposes(draft: Draft) -> list[Operator]:
    return [operator for operator in draft.operators if operator.code == "TRANSPOSE"]


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
        if operator is None or operator.code not in {"RESHAPE", "TRANSPOSE"} or not is_consistent(draft, operator):
            continue
        merge = merge_reshapes if operator.code == "RESHAPE" else merge_transposes
        changed = merge(draft, operator) is not None or changed
        changed = _merge_through(draft, operator) or changed
        operator = draft.operator(index)
        assert operator is not None
        order = _order(draft, operator) if operator.code == "TRANSPOSE" else None
        if order is not None and _moves_only_ones(draft.tensors[operator.inputs[0]].shape, order):
            draft.replace(operator, _reshape(draft, operator, operator.inputs[0], operator.outputs[0]))
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
            draft.replace(producer, _reshape(draft, producer, producer.inputs[0], tensor))
            return True
        constants = [draft.tensors[index] for index in producer.inputs if draft.values(index) is not None]
        if any(len(constant.shape) > len(shape) for constant in constants):
            return False
        (tensor,) = (index for index in producer.inputs if draft.values(index) is None)
    return False


def _moves_only_ones(shape: Sequence[int], order: Layout) -> bool:
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)


def _reshape(draft: Draft, operator: Operator, source: int, output: int) -> Operator:
    """Return a RESHAPE in the place of an operator."""
    shape = draft.tensors[output].shape
    inputs = [source, _constant(draft, np.array(shape, np.int32))] if shape else [source]
    return replace(draft.make("RESHAPE", inputs, [output], new_shape=shape), index=operator.index)


def _store_as_input(draft: Draft, operator: Operator, order: Layout) -> bool:
    """Store the result as the input is stored."""
    return _store(draft, *_region(draft, operator.outputs[0], inverse(order)))


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
    draft.replace(operator, _reshape(draft, operator, source, output))
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


def _region(draft: Draft, tensor: int, layout: Layout) -> tuple[Layouts, dict[int, None]]:
    """Return the tensors that are stored in another order if this one is, and the operators among them."""
    layouts: Layouts = {tensor: layout}
    inside: dict[int, None] = {}
    waiting = [tensor]
    while waiting:
        current = waiting.pop()
        producer = draft.producer(current)
        for operator in (*draft.consumers(current), *([] if producer is None else [producer])):
            if operator.index in inside:
                continue
            placed = _placed(draft, operator, current, layouts[current])
            if placed is None or any(layouts.get(other, order) != order for other, order in placed.items()):
                continue
            inside[operator.index] = None
            new = {other: order for other, order in placed.items() if other not in layouts and not is_identity(order)}
            layouts.update(new)
            waiting += new
    return layouts, inside


def _placed(draft: Draft, operator: Operator, tensor: int, layout: Layout) -> Layouts | None:
    """Return the layouts of all computed operands if `tensor`, one of them, has this one; None if it cannot."""
    if not is_consistent(draft, operator) or len(operator.outputs) == 0:
        return None
    if any(draft.tensors[index].is_variable for index in (*operator.inputs, *operator.outputs) if index >= 0):
        return None
    if operator.code in RESHAPES:
        return _reshape_layouts(draft, operator, tensor, layout)
    if operator.code in REDUCTIONS and not _option(operator, "keep_dims"):
        return _reduced_layouts(draft, operator, tensor, layout)
    operands = [*_images(draft, operator), *operator.outputs]
    is_uniform = all(len(draft.tensors[index].shape) == len(layout) for index in operands)
    if tensor not in operands or not is_uniform or not _accepts(draft, operator, layout):
        return None
    return dict.fromkeys(operands, layout)


def _images(draft: Draft, operator: Operator) -> list[int]:
    """Return the computed inputs whose axes are those of the result."""
    if operator.code in ALL_INPUTS:
        return [index for index in operator.inputs if index >= 0 and draft.values(index) is None]
    place = 1 if operator.code == "SPLIT" else 0
    return [index for index in operator.inputs[place : place + 1] if draft.values(index) is None]


def _accepts(draft: Draft, operator: Operator, layout: Layout) -> bool:
    """Return whether an operator whose operands all have one layout can be written in it."""
    code = operator.code
    others = [index for place, index in enumerate(operator.inputs) if index >= 0 and place in _constant_places(code)]
    if any(draft.values(index) is None for index in others):
        return False
    if code in ELEMENTWISE:
        constants = [
            draft.tensors[index] for index in operator.inputs if index >= 0 and index not in _images(draft, operator)
        ]
        return all(len(item.shape) <= len(layout) and not _is_per_channel(item) for item in constants)
    if code in ALONG_LAST_AXIS:
        return layout[-1] == len(layout) - 1 and len(layout) > 1 and _keeps_rank(operator)
    if code == "BATCH_MATMUL":
        return False
    if code == "GATHER":
        indices = draft.values(operator.inputs[1])
        return indices is not None and indices.ndim == 1 and not _option(operator, "batch_dims")
    if code == "STRIDED_SLICE":
        return not any(_option(operator, mask) for mask in ABSENT_MASKS)
    return code in ROWS or code in AXES or code in AXIS_OPTION


def _constant_places(code: str) -> tuple[int, ...]:
    """Return the positions of the inputs that must be constants: sizes and axes."""
    return ROWS.get(code, ()) + ((AXES[code],) if code in AXES else ())


def _is_per_channel(tensor: Tensor) -> bool:
    return tensor.quantization is not None and tensor.quantization.per_channel


def _keeps_rank(operator: Operator) -> bool:
    return operator.code != "FULLY_CONNECTED" or bool(_option(operator, "keep_num_dims"))


def _option(operator: Operator, name: str) -> Any:
    return dict(operator.options.fields).get(name) if operator.options is not None else None


def _reduced_layouts(draft: Draft, operator: Operator, tensor: int, layout: Layout) -> Layouts | None:
    """Return the layouts of a reduction that drops axes; those of the result do not determine those of the input."""
    axes = draft.values(operator.inputs[1])
    if axes is None or tensor != operator.inputs[0]:
        return None
    dropped = {int(axis) % len(layout) for axis in axes.reshape(-1)}
    kept = [axis for axis in layout if axis not in dropped]
    return {tensor: layout, operator.outputs[0]: tuple(sorted(kept).index(axis) for axis in kept)}


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


def _reshape_layouts(draft: Draft, operator: Operator, tensor: int, layout: Layout) -> Layouts | None:
    """Return the layouts of both sides of a RESHAPE, if that of `tensor` keeps the axes of each group together."""
    source, output = operator.inputs[0], operator.outputs[0]
    if tensor not in (source, output) or not same_values(draft.tensors[source], draft.tensors[output]):
        return None
    if not draft.tensors[source].element_count:
        return None
    other = output if tensor == source else source
    here, there = draft.tensors[tensor].shape, draft.tensors[other].shape
    groups = axis_groups(here, there)
    order = [axis for axis in layout if here[axis] != 1]
    places = sorted(range(len(groups)), key=lambda group: order.index(groups[group][0][0]))
    if [axis for group in places for axis in groups[group][0]] != order:
        return None
    return {tensor: layout, other: _with_ones(there, [axis for group in places for axis in groups[group][1]])}


def _with_ones(shape: Sequence[int], order: Sequence[int]) -> Layout:
    """Return a layout with the axes of size 1 where they are: the other axes fill the remaining places in order."""
    rest = iter(order)
    return tuple(axis if size == 1 else next(rest) for axis, size in enumerate(shape))


# Rewriting a region


def _store(draft: Draft, layouts: Layouts, inside: Mapping[int, None]) -> bool:
    """Store the tensors in their layouts, with a TRANSPOSE wherever an operator outside reads or writes one.

    Returns:
        False if there are no operators inside.
    """
    stored = {index: _stored_tensor(draft, index, layout) for index, layout in layouts.items()}
    for index, layout in layouts.items():
        producer = draft.producer(index)
        readers = draft.consumers(index)
        is_output = index in draft.outputs
        if producer is not None and producer.index in inside:
            if is_output or any(reader.index not in inside for reader in readers):
                draft.insert_after(producer, _transpose(draft, stored[index], index, inverse(layout)))
        elif inner := [reader for reader in readers if reader.index in inside]:
            draft.insert_before(inner[0], _transpose(draft, index, stored[index], layout))
    for place in inside:
        operator = draft.operator(place)
        assert operator is not None
        draft.replace(operator, _in_layout(draft, operator, layouts, stored))
    return bool(inside)


def _stored_tensor(draft: Draft, index: int, layout: Layout) -> int:
    """Add the tensor in its layout; it takes over the name, unless the tensor is an input or output of the graph."""
    tensor = draft.tensors[index]
    name = f"{tensor.name}/transpose"
    new = draft.tensor(name, [tensor.shape[axis] for axis in layout], tensor.dtype, tensor.quantization)
    if index not in draft.outputs and draft.producer(index) is not None:
        name, draft.tensors[index] = draft.tensors[new].name, replace(tensor, name=draft.tensors[new].name)
        draft.tensors[new] = replace(draft.tensors[new], name=tensor.name)
    return new


def _transpose(draft: Draft, source: int, output: int, order: Layout) -> Operator:
    axes = draft.constant("transpose/perm", np.array(order, np.int32))
    return draft.make("TRANSPOSE", [source, axes], [output], version=2)


def _in_layout(draft: Draft, operator: Operator, layouts: Layouts, stored: Mapping[int, int]) -> Operator:
    """Return the operator on the stored tensors, with its constants and options in their order."""
    code = operator.code
    outputs = tuple(stored.get(index, index) for index in operator.outputs)
    inputs = [stored.get(index, index) for index in operator.inputs]
    if code in RESHAPES:
        return _reshape(draft, operator, inputs[0], outputs[0])
    layout = next(layouts[index] for index in (*operator.inputs, *operator.outputs) if index in layouts)
    if code in ALL_INPUTS:
        for place, index in enumerate(operator.inputs):
            if index >= 0 and index not in layouts and draft.values(index) is not None:
                inputs[place] = _reordered(draft, index, layout)
    for place in ROWS.get(code, ()):
        values = draft.values(operator.inputs[place])
        assert values is not None
        inputs[place] = _constant(draft, values[list(layout)])
    if code in AXES:
        values = draft.values(operator.inputs[AXES[code]])
        assert values is not None
        axes = np.array([layout.index(int(axis) % len(layout)) for axis in values.reshape(-1)], values.dtype)
        inputs[AXES[code]] = _constant(draft, np.sort(axes).reshape(values.shape))
    return replace(operator, inputs=tuple(inputs), outputs=outputs, options=_options(operator, layout))


def _options(operator: Operator, layout: Layout) -> Any:
    if operator.options is None:
        return None
    new: dict[str, OptionValue] = {}
    if operator.code in AXIS_OPTION:
        new["axis"] = layout.index(operator.options.integer("axis") % len(layout))
    if operator.code == "STRIDED_SLICE":
        for mask in MASKS:
            bits = operator.options.integer(mask)
            new[mask] = sum(1 << place for place, axis in enumerate(layout) if bits >> axis & 1)
    fields = tuple((name, new.get(name, value)) for name, value in operator.options.fields)
    return replace(operator.options, fields=fields)


def _constant(draft: Draft, values: Array, quantization: Quantization | None = None) -> int:
    return draft.constant("layout/constant", values, quantization)


def _reordered(draft: Draft, index: int, layout: Layout) -> int:
    """Return a constant operand in the layout, without leading axes of size 1."""
    tensor, values = draft.tensors[index], draft.values(index)
    assert values is not None
    if values.size == 1:
        return index
    full = np.transpose(values.reshape((1,) * (len(layout) - values.ndim) + values.shape), layout)
    while full.ndim > values.ndim and full.shape[0] == 1:
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


def _transpose_input(draft: Draft, index: int) -> Layout | None:
    readers = draft.consumers(index)
    orders = {_end_order(draft, reader) for reader in readers}
    order = orders.pop() if len(orders) == 1 and index not in draft.outputs else None
    if order is None or is_identity(order) or any(reader.outputs[0] in draft.outputs for reader in readers):
        return None
    for reader in readers:
        draft.redirect(reader.outputs[0], index)
        draft.replace(reader)
    _set_order(draft, index, order)
    return order


def _transpose_output(draft: Draft, index: int) -> Layout | None:
    producer = draft.producer(index)
    order = None if producer is None or draft.outputs.count(index) != 1 else _end_order(draft, producer)
    if order is None or is_identity(order) or draft.consumers(index):
        return None
    assert producer is not None
    source = producer.inputs[0]
    writer = draft.producer(source)
    if writer is None or source in draft.outputs:
        return None
    draft.replace(producer)
    draft.redirect(source, index)
    draft.replace(writer, replace(writer, outputs=tuple(index if old == source else old for old in writer.outputs)))
    _set_order(draft, index, inverse(order))
    return inverse(order)


def _set_order(draft: Draft, index: int, order: Layout) -> None:
    tensor = draft.tensors[index]
    draft.tensors[index] = replace(tensor, shape=tuple(tensor.shape[axis] for axis in order), shape_signature=())
