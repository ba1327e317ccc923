"""Which rows of its inputs an operator reads for a row of its output, for operators that compute images row by row.

The rows of an image are along dimension 1 of a tensor with 4 dimensions. Rows of which a kernel reads only those at the
same place have an axis with a window of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from edgetool.model.types import Graph, Operator, Tensor
from edgetool.operators.loops import Axis, window_axis

# What is outside the input: nothing is read there; the kernel pads as its option `padding` says; the operator itself is
# the padding, whose sizes are a constant.
Outside = Literal["nothing", "option", "constant"]
ROWS = 1  # the dimension


@dataclass(frozen=True, slots=True)
class RowInput:
    """An input, by position, and the windows of its rows that the output's rows read.

    factor: into how many rows of the output the operator turns each row, which is then read alone.
    """

    input: int
    rows: Axis
    outside: Outside = "nothing"
    factor: int = 1


# Yields the inputs that are images with rows; all others are read as a whole, whatever the row. Yields nothing if the
# operator does not compute row by row.
RowRule = Callable[[Operator, Graph], Iterator[RowInput]]


def _image(graph: Graph, index: int) -> Tensor | None:
    """Return the tensor if it is an image."""
    tensor = graph.tensors[index] if index >= 0 else None
    return tensor if tensor is not None and len(tensor.shape) == 4 else None


def same_rows(*positions: int) -> RowRule:
    """Return the rule of operators that read, for each row, the same row of operands that do not repeat theirs.

    Args:
        positions: Those of the operands; all of them by default.
    """

    def rule(operator: Operator, graph: Graph) -> Iterator[RowInput]:
        result = _image(graph, operator.outputs[0])
        if result is None:
            return
        height = result.shape[ROWS]
        taken = [i for i in positions or range(len(operator.inputs)) if operator.inputs[i] >= 0]
        shapes = {i: graph.tensors[operator.inputs[i]].shape for i in taken}
        # Rows of an operand with fewer dimensions are along another one.
        if all(len(shape) == 4 or shape[-3:-2] in ((), (1,)) for shape in shapes.values()):
            rows = Axis(height, 1, 1, 1, height, 0)
            yield from (RowInput(i, rows) for i, shape in shapes.items() if len(shape) == 4 and shape[ROWS] == height)

    return rule


def _window(operator: Operator, graph: Graph, kernel: int, dilation: int) -> Iterator[RowInput]:
    source, result, options = _image(graph, operator.inputs[0]), _image(graph, operator.outputs[0]), operator.options
    if source is None or result is None or options is None or kernel < 1 or options.integer("stride_h") < 1:
        return
    rows = window_axis(source.shape[ROWS], kernel, options.integer("stride_h"), dilation, result.shape[ROWS])
    yield RowInput(0, rows, "option" if options.text("padding") == "SAME" else "nothing")


def convolution_rows(operator: Operator, graph: Graph) -> Iterator[RowInput]:
    """Yield the input of a convolution, whose filters are a constant or not."""
    weights = _image(graph, operator.inputs[1])
    if weights is not None and operator.options is not None:
        yield from _window(operator, graph, weights.shape[ROWS], operator.options.integer("dilation_h_factor"))


def pooling_rows(operator: Operator, graph: Graph) -> Iterator[RowInput]:
    """Yield the input of pooling."""
    if operator.options is not None:
        yield from _window(operator, graph, operator.options.integer("filter_height"), 1)


def concatenated_rows(operator: Operator, graph: Graph) -> Iterator[RowInput]:
    """Yield the inputs of a concatenation of channels or columns."""
    result = _image(graph, operator.outputs[0])
    axis = 0 if operator.options is None else operator.options.integer("axis") % 4
    if result is not None and axis > ROWS:
        yield from same_rows()(operator, graph)


def multiplied_rows(operator: Operator, graph: Graph, position: int) -> Iterator[RowInput]:
    """Yield the input, by position, of an operator that turns each of its rows into several."""
    source, result = _image(graph, operator.inputs[position]), _image(graph, operator.outputs[0])
    if source is None or result is None or not source.shape[ROWS] or result.shape[ROWS] % source.shape[ROWS]:
        return
    height = source.shape[ROWS]
    yield RowInput(position, Axis(height, 1, 1, 1, height, 0), factor=result.shape[ROWS] // height)


def part_rows(operator: Operator, graph: Graph, begins: Sequence[int]) -> Iterator[RowInput]:
    """Yield the first input of an operator that takes a part of it, which begins there along each axis."""
    source, result = _image(graph, operator.inputs[0]), _image(graph, operator.outputs[0])
    if source is not None and result is not None and len(begins) == len(source.shape):
        first, count = begins[ROWS], result.shape[ROWS]
        if 0 <= first <= source.shape[ROWS] - count:
            yield RowInput(0, Axis(source.shape[ROWS], 1, 1, 1, count, -first))


def images_of(graph: Graph, indices: Collection[int]) -> bool:
    """Return whether all tensors are images of one batch with elements of whole bytes."""
    images = [_image(graph, index) for index in indices]
    return all(
        image is not None and image.shape[0] == 1 and image.dtype.bits % 8 == 0 < image.dtype.bits for image in images
    )
