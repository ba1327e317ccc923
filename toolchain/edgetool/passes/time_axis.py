"""Time as the height of images: the tensors of 1-D models with a row for each point in time.

Converters write a 1-D convolution as a CONV_2D of an image with one row, between reshapes of tensors of three
dimensions. Time is then the width. A tensor of shape (1, W, C) or (1, 1, W, C) has the same bytes as one of the shape
(1, W, 1, C), and so have filters. The rewrite changes shapes, options and the constants that name axes, and no
operator computes anything else than before.

Tensors that operators connect change together, or not at all: not if one of them is an image with several rows, or if
an operator among them is not in the tables below. Reshapes connect nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edgetool.model.types import DType, Graph, Model, Operator, OptionValue, Tensor

RESHAPES = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE"})
# Operators without axes, or whose axis is the last one.
WITHOUT_AXES = frozenset(
    """
    ABS ADD CAST DEQUANTIZE DIV ELU EXP FULLY_CONNECTED HARD_SWISH L2_NORMALIZATION LEAKY_RELU LOG LOGISTIC LOG_SOFTMAX
    MAXIMUM MINIMUM MUL NEG PRELU QUANTIZE RELU RELU6 RSQRT SOFTMAX SQRT SQUARE SQUARED_DIFFERENCE SUB TANH
    """.split()
)
WINDOWS = frozenset({"AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D"})
SWAPPED = {
    "stride_h": "stride_w",
    "dilation_h_factor": "dilation_w_factor",
    "filter_height": "filter_width",
}
# The operators whose constants have a number, or a pair of numbers, for each axis, by position; the number of an axis
# that is new in a tensor of three dimensions.
NUMBERS: Mapping[str, Mapping[int, tuple[int, ...]]] = {
    "PAD": {1: (0, 0)},
    "PADV2": {1: (0, 0)},
    "SLICE": {1: (0,), 2: (1,)},
    "STRIDED_SLICE": {1: (0,), 2: (1,), 3: (1,)},
}
# Those whose constants consist of axes.
AXES = {"MEAN": 1, "REDUCE_MAX": 1, "REDUCE_MIN": 1, "SPLIT": 0, "SUM": 1}
MASKS = ("begin_mask", "end_mask", "shrink_axis_mask")


def time_as_rows(model: Model) -> Model:
    """Return the model with the time of 1-D layers as the height of their tensors; operators keep their indices."""
    graph = model.main
    moving = _moving(graph)
    if not moving:
        return model
    draft = _Draft(graph, moving)
    for operator in graph.operators:
        draft.add(operator)
    main = replace(graph, tensors=tuple(draft.tensors), operators=tuple(draft.operators))
    return replace(model, subgraphs=(main, *model.subgraphs[1:]))


def _order(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the new axis of each axis."""
    return (0, 1, 3) if len(shape) == 3 else (0, 2, 1, 3)


def _can_move(tensor: Tensor) -> bool:
    """Return whether a tensor may have its time as the width."""
    shape = tensor.shape
    return shape[:1] == (1,) and (len(shape) == 3 or (len(shape) == 4 and shape[1] == 1 and shape[2] > 1))


def _moving(graph: Graph) -> frozenset[int]:
    """Return the tensors whose shapes change."""
    group = list(range(len(graph.tensors)))

    def find(index: int) -> int:
        while group[index] != index:
            index = group[index]
        return index

    fixed = set()
    for operator in graph.operators:
        members = _images(graph, operator)
        for index in members:
            group[find(index)] = find(members[0])
        if members and not _is_known(graph, operator):
            fixed.add(members[0])
    fixed |= {i for i, tensor in enumerate(graph.tensors) if _is_image(tensor) and not _can_move(tensor)}
    groups = {find(index) for index in fixed}
    return frozenset(
        i for i, tensor in enumerate(graph.tensors) if _is_image(tensor) and _can_move(tensor) and find(i) not in groups
    )


def _is_image(tensor: Tensor) -> bool:
    """Return whether a computed tensor has height and width; images of a single pixel have no order of them."""
    is_pixel = len(tensor.shape) == 4 and tensor.shape[1:3] == (1, 1)
    return tensor.data is None and len(tensor.shape) > 2 and not is_pixel


def _images(graph: Graph, operator: Operator) -> list[int]:
    """Return the tensors that an operator connects."""
    if operator.code in RESHAPES:
        return []
    indices = (*operator.inputs, *operator.outputs)
    return [index for index in indices if index >= 0 and _is_image(graph.tensors[index])]


def _is_known(graph: Graph, operator: Operator) -> bool:
    """Return whether an operator that has images can be rewritten."""
    code, fields = operator.code, _fields(operator)
    others = [graph.tensors[index] for index in operator.inputs[1:] if index >= 0]
    image = graph.tensors[_images(graph, operator)[0]]
    source = graph.tensors[operator.inputs[1 if code == "SPLIT" else 0]]
    if code in WINDOWS:
        if "CONV" not in code:
            return fields.get("filter_height") == 1
        return others[0].data is not None and len(others[0].shape) == 4 and others[0].shape[1] == 1
    if code in NUMBERS:
        is_plain = not fields.get("ellipsis_mask") and not fields.get("new_axis_mask")
        counts = {operator.inputs[i]: len(source.shape) * len(new) for i, new in NUMBERS[code].items()}
        has_all = all(len(_values(graph.tensors[index])) == count for index, count in counts.items())
        return is_plain and source is image and has_all
    if code in AXES:
        return source is image and bool(_values(graph.tensors[operator.inputs[AXES[code]]]))
    if code == "CONCATENATION":
        return source.data is None and all(item.data is None for item in others)
    if code == "FULLY_CONNECTED":
        return others[0].data is not None
    return code in WITHOUT_AXES


def _fields(operator: Operator) -> dict[str, OptionValue]:
    return {} if operator.options is None else dict(operator.options.fields)


@dataclass(slots=True)
class _Draft:
    """The graph while it is rewritten. same: the tensor that replaces the output of a reshape that changes nothing."""

    graph: Graph
    moving: frozenset[int]
    tensors: list[Tensor] = field(init=False)
    operators: list[Operator] = field(default_factory=list)
    same: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tensors = [
            replace(tensor, shape=_moved(tensor.shape)) if index in self.moving else tensor
            for index, tensor in enumerate(self.graph.tensors)
        ]

    def add(self, operator: Operator) -> None:
        """Add an operator as it is in the rewritten graph."""
        images = _images(self.graph, operator)
        inputs = tuple(self.same.get(index, index) for index in operator.inputs)
        operator = replace(operator, inputs=inputs)
        if operator.code in RESHAPES:
            operator = self._reshape(operator)
        elif self.moving.intersection(images):
            operator = self._rewritten(operator, _order(self.graph.tensors[images[0]].shape))
        self.operators.append(operator)

    def _reshape(self, operator: Operator) -> Operator:
        """Return a reshape; one that changes nothing reshapes a constant, which nothing reads: it costs nothing."""
        source, output = operator.inputs[0], operator.outputs[0]
        first, second = self.tensors[source], self.tensors[output]
        others = (index for index in operator.inputs[1:] if index >= 0)
        constant = next((index for index in others if self.tensors[index].data is not None), None)
        is_same = (first.shape, first.dtype, first.quantization) == (second.shape, second.dtype, second.quantization)
        if not is_same or first.data is not None or output in self.graph.outputs or constant is None:
            return operator
        self.same[output] = source
        shaped = self.tensors[constant]
        self.tensors[output] = replace(second, shape=shaped.shape, dtype=shaped.dtype, quantization=None)
        return replace(operator, inputs=(constant, *operator.inputs[1:]))

    def _rewritten(self, operator: Operator, order: Sequence[int]) -> Operator:
        """Return an operator with the axes of its images in their new order."""
        code, inputs = operator.code, list(operator.inputs)
        fields = _fields(operator)
        if code in WINDOWS:
            if "CONV" in code:
                weights = self.tensors[inputs[1]]
                inputs[1] = self._added(replace(weights, shape=_moved(weights.shape)))
            fields |= {a: fields[b] for first, second in SWAPPED.items() for a, b in ((first, second), (second, first))
                       if a in fields}  # fmt: skip
        elif code in NUMBERS:
            for position, new in NUMBERS[code].items():
                inputs[position] = self._numbers(inputs[position], order, new)
            if code == "STRIDED_SLICE":
                fields |= {name: _mask(fields.get(name), order, name) for name in MASKS}
        elif code in AXES:
            position = AXES[code]
            values = [order[axis % len(order)] for axis in _values(self.tensors[inputs[position]])]
            inputs[position] = self._constant(inputs[position], np.array(values))
        elif code == "CONCATENATION":
            axis = fields["axis"]
            assert isinstance(axis, int)
            fields["axis"] = order[axis % len(order)]
        elif code != "FULLY_CONNECTED":
            inputs = [self._operand(index, len(order)) for index in inputs]
        options = operator.options
        if options is not None:
            options = replace(options, fields=tuple((name, fields[name]) for name, _ in options.fields))
        return replace(operator, inputs=tuple(inputs), options=options)

    def _operand(self, index: int, rank: int) -> int:
        """Return a constant operand of an element-wise operator with the axes of the images."""
        tensor = self.tensors[index]
        if index < 0 or tensor.data is None or len(tensor.shape) < 2:
            return index
        shape = (*[1] * (rank - len(tensor.shape)), *tensor.shape)
        return self._added(replace(tensor, shape=_moved(shape)))

    def _numbers(self, index: int, order: Sequence[int], new: tuple[int, ...]) -> int:
        """Return a constant with a number, or a pair of them, for each axis, in the new order of axes."""
        values = np.array(_values(self.tensors[index])).reshape(len(order), len(new))
        result = np.array([new] * 4)
        result[list(order)] = values
        return self._constant(index, result if len(new) > 1 else result.reshape(-1))

    def _constant(self, index: int, values: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int:
        """Return a constant like another one with other values."""
        tensor = self.tensors[index]
        shape = values.shape if tensor.shape else ()
        data = values.astype("<i8" if tensor.dtype is DType.INT64 else "<i4").tobytes()
        return self._added(replace(tensor, shape=shape, data=data))

    def _added(self, tensor: Tensor) -> int:
        self.tensors.append(replace(tensor, index=len(self.tensors)))
        return len(self.tensors) - 1


def _moved(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape with its axes in the new order."""
    result = [1] * 4
    for axis, size in zip(_order(shape), shape, strict=True):
        result[axis] = size
    return tuple(result)


def _values(tensor: Tensor) -> list[int]:
    """Return the integers of a constant; none if it is not one."""
    if tensor.dtype not in (DType.INT32, DType.INT64):
        return []
    return [int(value) for value in np.frombuffer(tensor.data or b"", "<i8" if tensor.dtype is DType.INT64 else "<i4")]


def _mask(mask: OptionValue, order: Sequence[int], name: str) -> int:
    """Return a mask of axes in their new order; all of an axis that is new is taken."""
    assert isinstance(mask, int)
    result = sum(1 << new for axis, new in enumerate(order) if mask >> axis & 1)
    return result if len(order) == 4 or name == "shrink_axis_mask" else result | 1 << 2
