"""What a well-formed file must contain for each operator: operand counts, and types, shapes and options that agree.

The reader applies these rules to every operator, and rejects the file, naming the table, field and byte, if one is
broken. They are the rules whose violation makes LiteRT reject a file, and without which a kernel of TensorFlow Lite
Micro would access memory outside its tensors: a kernel writes as many elements as the shapes say, and does not compare
shapes when it runs. What a kernel rejects itself (`operators/legality.py`), such as types and scales, does not make a
file invalid.

This is the only statement of operand counts. Other packages import it: passes apply the rules to operators that they
rewrite (`passes/validation.py`), and families of operators rely on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from struct import unpack_from
from typing import Literal, NoReturn

from edgetool.errors import InternalError
from edgetool.model.checks import MAX_DIMENSIONS, invalid
from edgetool.model.flatbuffer import Record
from edgetool.model.schema import OPTION_TABLES
from edgetool.model.types import DType, Tensor

MAX_STEP = 2**15 - 1  # strides and dilations are 16 bits wide in the kernels
Shape = Sequence[int]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator that is being read: the file's name, its table in the file, and its tensors (None if omitted)."""

    name: str
    record: Record
    code: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    options: Record | None

    def refuse(self, field: str, what: str) -> NoReturn:
        """Reject the file because of a field of the operator's table."""
        invalid(self.name, self.record, field, f"{self.code} {what}")

    def refuse_option(self, field: str, what: str) -> NoReturn:
        """Reject the file because of a field of the operator's option table."""
        if self.options is None or field not in self.options.fields:
            self.refuse("builtin_options", f"has no {OPTION_TABLES.get(self.code, 'options')}, so it {what}")
        invalid(self.name, self.options, field, f"{self.code} {what}")

    def number(self, field: str) -> int:
        """Return an option that is a number; 0 without the table, as in runtimes."""
        value = self.options.fields.get(field, 0) if self.options is not None else 0
        return value if isinstance(value, int) else 0


Rule = Callable[[Node], None]


@dataclass(frozen=True, slots=True)
class Operand:
    """The input or output at a position."""

    side: Literal["input", "output"]
    position: int

    def of(self, node: Node) -> Tensor | None:
        """Return its tensor; None if it is left out."""
        tensors = node.inputs if self.side == "input" else node.outputs
        return tensors[self.position] if self.position < len(tensors) else None

    def refuse(self, node: Node, what: str) -> NoReturn:
        """Reject the operator because of this tensor."""
        node.refuse(f"{self.side}s", f"has {self.side} {self.position} {what}")


def counted(number: int, what: str) -> str:
    """Return a number with its noun, as in "1 dimension" and "2 dimensions"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def format_shape(shape: Shape) -> str:
    """Format a shape for messages."""
    return f"[{', '.join(map(str, shape[:8]))}{', ...' if len(shape) > 8 else ''}]"


def format_shapes(shapes: Sequence[Shape]) -> str:
    """Format several shapes for messages."""
    return " and ".join(map(format_shape, shapes[:4])) + (" and others" if len(shapes) > 4 else "")


def first_positions(node: Node, side: Literal["inputs", "outputs"]) -> dict[int, int]:
    """Return the first position of each tensor: a hostile file may refer to one a million times."""
    indices = node.record[side]
    return {indices[position]: position for position in reversed(range(len(indices)))}


def constant_numbers(tensor: Tensor | None) -> tuple[int, ...] | None:
    """Return the elements of a constant of int32 or int64; None for anything else, and for a sparse constant."""
    if tensor is None or tensor.data is None or tensor.sparsity or tensor.dtype not in (DType.INT32, DType.INT64):
        return None
    letter = "i" if tensor.dtype == DType.INT32 else "q"
    return unpack_from(f"<{len(tensor.data) * 8 // tensor.dtype.bits}{letter}", tensor.data)


def rank(operand: Operand, lowest: int, highest: int | None = None) -> Rule:
    """Require from `lowest` to `highest` dimensions; exactly `lowest` without `highest`."""
    most = lowest if highest is None else highest

    def rule(node: Node) -> None:
        tensor = operand.of(node)
        if tensor is not None and not lowest <= len(tensor.shape) <= most:
            span = f"{lowest}" if lowest == most else f"{lowest} to {most}"
            operand.refuse(node, f"with {counted(len(tensor.shape), 'dimension')} instead of {span}")

    return rule


def length(operand: Operand, count: Callable[[Node], int]) -> Rule:
    """Require this number of elements."""

    def rule(node: Node) -> None:
        tensor = operand.of(node)
        if tensor is not None and tensor.element_count != (expected := count(node)):
            operand.refuse(
                node, f"of shape {format_shape(tensor.shape)}, which does not have {counted(expected, 'element')}"
            )

    return rule


def dimension(operand: Operand, axis: int) -> Callable[[Node], int]:
    """Return a function for `length` that returns the size of one dimension; 1 if the tensor does not have it."""

    def size(node: Node) -> int:
        tensor = operand.of(node)
        return tensor.shape[axis] if tensor is not None and axis < len(tensor.shape) else 1

    return size


def positive(*fields: str, highest: int | None = None) -> Rule:
    """Require options from 1 to `highest`."""

    def rule(node: Node) -> None:
        for field in fields:
            value = node.number(field)
            if value < 1 or (highest is not None and value > highest):
                span = "1 or more" if highest is None else f"1 to {highest}"
                node.refuse_option(field, f"has {field} {value}, not {span}")

    return rule


def not_empty(*operands: Operand) -> Rule:
    """Require that no dimension is 0."""

    def rule(node: Node) -> None:
        for operand in operands:
            tensor = operand.of(node)
            if tensor is not None and 0 in tensor.shape:
                operand.refuse(node, f"of shape {format_shape(tensor.shape)}, which is empty")

    return rule


def valid_enum(field: str) -> Rule:
    """Require an option to have a value of its enumeration in the schema."""

    def rule(node: Node) -> None:
        if node.options is not None and isinstance(node.options.fields.get(field), int):
            node.refuse_option(field, f"has {field} {node.number(field)}, which is not a valid value")

    return rule


def axis_option(field: str, operand: Operand, extra: int = 0) -> Rule:
    """Require the option to be a dimension of the tensor, from the front or (negative) the back.

    extra: the number of dimensions that the operator adds.
    """

    def rule(node: Node) -> None:
        tensor = operand.of(node)
        if tensor is not None:
            count = len(tensor.shape) + extra
            if not -count <= node.number(field) < count:
                node.refuse_option(field, f"uses axis {node.number(field)}, but there are only {count}")

    return rule


def axes_input(axes: Operand, operand: Operand) -> Rule:
    """Require this input, if it is constant, to contain dimensions of the other tensor, from the front or the back.

    A tensor without dimensions is not checked.
    """

    def rule(node: Node) -> None:
        tensor = operand.of(node)
        count = len(tensor.shape) if tensor is not None else 0
        for axis in constant_numbers(axes.of(node)) or ():
            if count and not -count <= axis < count:
                axes.refuse(node, f"with axis {axis}, but there are only {count}")

    return rule


def number_of(side: Literal["inputs", "outputs"], field: str) -> Rule:
    """Require the option to be the number of inputs or outputs."""

    def rule(node: Node) -> None:
        count = len(node.inputs if side == "inputs" else node.outputs)
        if node.number(field) != count:
            node.refuse_option(field, f"has {field} {node.number(field)} and {count} {side}")

    return rule


def require_output_elements(node: Node, position: int, elements: int, what: str) -> None:
    """Require the output to have as many elements as the kernel writes. what: the operands that produce them."""
    result = node.outputs[position]
    if result.element_count != elements:
        Operand("output", position).refuse(
            node, f"of shape {format_shape(result.shape)}, but {what} produce {elements} elements"
        )


def same_element_count(operand: Operand) -> Rule:
    """Require the output to have as many elements as this input."""

    def rule(node: Node) -> None:
        tensor = operand.of(node)
        if tensor is not None:
            require_output_elements(node, 0, tensor.element_count, f"inputs of {format_shape(tensor.shape)}")

    return rule


def broadcast(*operands: Operand) -> Rule:
    """Require the inputs to broadcast to one shape, and the output to have as many elements as that shape."""

    def rule(node: Node) -> None:
        shapes = [tensor.shape for operand in operands if (tensor := operand.of(node)) is not None]
        common = common_shape(shapes)
        if common is None:
            node.refuse("inputs", f"has incompatible shapes: {format_shapes(shapes)}")
        require_output_elements(node, 0, prod(common), format_shapes(shapes))

    return rule


def common_shape(shapes: Iterable[Shape]) -> tuple[int, ...] | None:
    """Return the shape to which all shapes broadcast; None if they are incompatible."""
    common = []
    for column in zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        sizes = {size for size in column if size != 1}
        if len(sizes) > 1:
            return None
        common.append(sizes.pop() if sizes else 1)
    return tuple(reversed(common))


def _input(node: Node, position: int) -> Tensor:
    """Return an input that the operator's counts require."""
    tensor = node.inputs[position]
    if tensor is None:
        raise InternalError(f"a rule of {node.code} reads input {position}, which is optional")
    return tensor


def _require_output_shape(node: Node, position: int, expected: Shape, input_shapes: Sequence[Shape]) -> None:
    """Require the output at the position to have this shape. input_shapes: those of the inputs that produce it."""
    result = node.outputs[position]
    if result.shape != tuple(expected):
        mismatch = f"of shape {format_shape(result.shape)}, but inputs of {format_shapes(input_shapes)}"
        Operand("output", position).refuse(node, f"{mismatch} produce {format_shape(expected)}")


def _without(shape: Shape, axes: set[int]) -> tuple[int, ...]:
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def windows(padding: object, size: int, window: int, stride: int) -> int:
    """Return the number of positions of a window along one side (ComputeOutSize, padding.h)."""
    return max(0, (size + stride - (1 if padding == "SAME" else window)) // stride)


def _image(node: Node, size: Shape, window: Shape) -> tuple[int, int]:
    """Return the height and width of an image after a window has moved over it."""
    options = node.options.fields if node.options is not None else {}
    padding = options.get("padding")
    positions = []
    for side, length, width in zip("hw", size, window, strict=True):
        stride = node.number(f"stride_{side}")
        covered = (width - 1) * options.get(f"dilation_{side}_factor", 1) + 1
        positions.append(windows(padding, length, covered, stride))
        around = (positions[-1] - 1) * stride + covered - length
        if padding == "SAME" and around // 2 > MAX_STEP:
            node.refuse_option("padding", f"has {around} elements of padding, more than twice {MAX_STEP}")
    return positions[0], positions[1]


def convolved(node: Node) -> None:
    """Require the output of a convolution to be an image with a channel for each filter."""
    source, weights = _input(node, 0), _input(node, 1)
    channels = weights.shape[0 if node.code == "CONV_2D" else 3]
    image = _image(node, source.shape[1:3], weights.shape[1:3])
    _require_output_shape(node, 0, (source.shape[0], *image, channels), (source.shape, weights.shape))


def in_groups(node: Node) -> None:
    """Require the filters of CONV_2D to divide the input's channels into equal groups."""
    source, weights = _input(node, 0), _input(node, 1)
    groups, rest = divmod(source.shape[3], weights.shape[3])
    if rest or weights.shape[0] % groups:
        node.refuse("inputs", f"has {source.shape[3]} channels for filters of shape {format_shape(weights.shape)}")


def depthwise(node: Node) -> None:
    """Require one filter of DEPTHWISE_CONV_2D, with depth_multiplier channels for each input channel."""
    source, weights = _input(node, 0), _input(node, 1)
    if weights.shape[0] != 1:
        node.refuse("inputs", f"has {weights.shape[0]} filters, not 1")
    multiplier = node.number("depth_multiplier")
    if weights.shape[3] != source.shape[3] * multiplier:
        channels = f"{source.shape[3]} channels and filters of shape {format_shape(weights.shape)}"
        node.refuse_option("depth_multiplier", f"has depth_multiplier {multiplier} for {channels}")


def pooled(node: Node) -> None:
    """Require the output of pooling to be an image with the same number of channels."""
    source = _input(node, 0)
    window = node.number("filter_height"), node.number("filter_width")
    _require_output_shape(
        node, 0, (source.shape[0], *_image(node, source.shape[1:3], window), source.shape[3]), (source.shape,)
    )


def transposed_convolution(node: Node) -> None:
    """Require an output of TRANSPOSE_CONV whose convolution would be as large as the input."""
    weights, source, result = _input(node, 1), _input(node, 2), node.outputs[0]
    if weights.shape[3] != source.shape[3]:
        node.refuse("inputs", f"has {source.shape[3]} channels for filters of shape {format_shape(weights.shape)}")
    expected = constant_numbers(node.inputs[0])
    if expected is not None and expected != result.shape:
        Operand("input", 0).refuse(
            node, f"with values {format_shape(expected)}, but the output's shape is {format_shape(result.shape)}"
        )
    fits = len(result.shape) == 4 and result.shape[::3] == (source.shape[0], weights.shape[0])
    if not fits or _image(node, result.shape[1:3], weights.shape[1:3]) != source.shape[1:3]:
        operands = f"{format_shape(source.shape)} and filters of {format_shape(weights.shape)}"
        Operand("output", 0).refuse(node, f"of shape {format_shape(result.shape)}, which {operands} do not produce")


def multiplied(node: Node) -> None:
    """Require FULLY_CONNECTED to produce an element for each row of the weights and each row of the input."""
    source, weights = _input(node, 0), _input(node, 1)
    units, depth = weights.shape
    rows, rest = divmod(source.element_count, depth)
    if rest:
        node.refuse("inputs", f"has {source.element_count} elements for weights of shape {format_shape(weights.shape)}")
    require_output_elements(
        node, 0, rows * units, f"inputs of {format_shape(source.shape)} and weights of {format_shape(weights.shape)}"
    )


def concatenated(node: Node) -> None:
    """Require the inputs of CONCATENATION to differ along one axis only; scalars count as vectors of 1 element."""
    parts = [_input(node, position).shape or (1,) for position in range(len(node.inputs))]
    first = parts[0]
    axis = node.number("axis")
    if not -len(first) <= axis < len(first):
        node.refuse_option("axis", f"uses axis {axis}, but there are only {len(first)}")
    axis %= len(first)
    for position in first_positions(node, "inputs").values():
        part = parts[position]
        if len(part) != len(first) or _without(part, {axis}) != _without(first, {axis}):
            Operand("input", position).refuse(
                node, f"of shape {format_shape(part)}, but input 0 has {format_shape(first)}"
            )
    expected = [*first]
    expected[axis] = sum(part[axis] for part in parts)
    _require_output_shape(node, 0, expected, parts)


def packed(node: Node) -> None:
    """Require PACK to add a dimension, whose size is the number of inputs."""
    source = _input(node, 0)
    axis = node.number("axis") % (len(source.shape) + 1)
    _require_output_shape(node, 0, (*source.shape[:axis], len(node.inputs), *source.shape[axis:]), (source.shape,))


def unpacked(node: Node) -> None:
    """Require UNPACK to have an output, without the dimension, for each of its indices."""
    source = _input(node, 0)
    axis = node.number("axis") % len(source.shape)
    if source.shape[axis] != len(node.outputs):
        node.refuse("outputs", f"has {len(node.outputs)} outputs for dimension {axis} of {format_shape(source.shape)}")
    elements = prod(_without(source.shape, {axis}))
    for position in first_positions(node, "outputs").values():
        require_output_elements(node, position, elements, f"parts of {format_shape(source.shape)}")


def split(node: Node) -> None:
    """Require the outputs of SPLIT to be equal parts along an axis."""
    axes, source = constant_numbers(node.inputs[0]), _input(node, 1)
    if not axes:
        return
    axis = axes[0] % len(source.shape)
    part, rest = divmod(source.shape[axis], len(node.outputs))
    if rest:
        node.refuse(
            "outputs",
            f"has {len(node.outputs)} outputs, which do not divide dimension {axis} of {format_shape(source.shape)}",
        )
    expected = (*source.shape[:axis], part, *source.shape[axis + 1 :])
    for position in first_positions(node, "outputs").values():
        _require_output_shape(node, position, expected, (source.shape,))


def split_by_sizes(node: Node) -> None:
    """Require the outputs of SPLIT_V to be parts along an axis, whose sizes add up to that of the input."""
    source, axes = _input(node, 0), constant_numbers(node.inputs[2])
    if not axes:
        return
    axis = axes[0] % len(source.shape)
    for position in first_positions(node, "outputs").values():
        result = node.outputs[position]
        if len(result.shape) != len(source.shape) or _without(result.shape, {axis}) != _without(source.shape, {axis}):
            Operand("output", position).refuse(
                node, f"of shape {format_shape(result.shape)}, which is not a slice of {format_shape(source.shape)}"
            )
    if sum(result.shape[axis] for result in node.outputs) != source.shape[axis]:
        node.refuse(
            "outputs", f"has outputs whose sizes do not add up to dimension {axis} of {format_shape(source.shape)}"
        )


def reduced(node: Node) -> None:
    """Require the output of a reduction to have the shape of the input without the constant axes."""
    source, axes = _input(node, 0), constant_numbers(node.inputs[1])
    if axes is None:
        return
    removed = {axis % len(source.shape) for axis in axes if source.shape}
    require_output_elements(
        node,
        0,
        prod(_without(source.shape, removed)),
        f"inputs of {format_shape(source.shape)} without axes {format_shape(axes)}",
    )


def arg_reduced(node: Node) -> None:
    """Require ARG_MAX and ARG_MIN to reduce an axis that is not empty."""
    source, axes = _input(node, 0), constant_numbers(node.inputs[1])
    if axes and not source.shape[axes[0]]:
        node.refuse("inputs", f"reduces axis {axes[0]} of {format_shape(source.shape)}, which is empty")
    reduced(node)


def gathered(node: Node) -> None:
    """Require GATHER to produce a slice of the input for each position."""
    source, positions = _input(node, 0), _input(node, 1)
    axis, batches = node.number("axis") % len(source.shape), node.number("batch_dims")
    if 0 <= batches <= min(axis, len(positions.shape)):  # the kernel checks other values
        expected = (*source.shape[:axis], *positions.shape[batches:], *source.shape[axis + 1 :])
        require_output_elements(
            node, 0, prod(expected), f"inputs of {format_shape(source.shape)} at {format_shape(positions.shape)}"
        )


def gathered_points(node: Node) -> None:
    """Require GATHER_ND to produce a slice of the input for each row of positions."""
    source, positions = _input(node, 0), _input(node, 1)
    depth = positions.shape[-1] if positions.shape else 0
    if source.shape and positions.shape and depth <= len(source.shape):  # the kernel checks other shapes
        expected = (*positions.shape[:-1], *source.shape[depth:])
        require_output_elements(
            node, 0, prod(expected), f"inputs of {format_shape(source.shape)} at {format_shape(positions.shape)}"
        )


def blocks_moved(node: Node) -> None:
    """Check SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND, which convert between blocks of an image and batches.

    The former splits the dimensions between batch and channels into blocks after padding; the latter joins blocks and
    crops the result.
    """
    source, result = _input(node, 0), node.outputs[0]
    if len(result.shape) != len(source.shape) or result.shape[-1] != source.shape[-1]:
        Operand("output", 0).refuse(
            node, f"of shape {format_shape(result.shape)} for inputs of {format_shape(source.shape)}"
        )
    blocks, border = constant_numbers(node.inputs[1]), constant_numbers(node.inputs[2])
    if blocks is None or border is None:
        return
    if min(blocks) < 1 or min(border) < 0:
        node.refuse("inputs", f"has blocks of {format_shape(blocks)} and padding of {format_shape(border)}")
    batch, *sides, channels = source.shape
    around = [before + after for before, after in zip(border[::2], border[1::2], strict=True)]
    if node.code == "SPACE_TO_BATCH_ND":
        sides = [size + more for size, more in zip(sides, around, strict=True)]
        rest = any(size % block for size, block in zip(sides, blocks, strict=True))
        sides, batch = [size // block for size, block in zip(sides, blocks, strict=True)], batch * prod(blocks)
    else:
        rest = batch % prod(blocks) > 0
        sides = [size * block - less for size, block, less in zip(sides, blocks, around, strict=True)]
        batch //= prod(blocks)
    if rest:
        shape = format_shape(source.shape)
        node.refuse(
            "inputs", f"has inputs of {shape}, which do not divide evenly into blocks of {format_shape(blocks)}"
        )
    _require_output_shape(node, 0, (batch, *sides, channels), (source.shape, blocks, border))


def mirrored(node: Node) -> None:
    """Require the border that MIRROR_PAD adds to each dimension not to be longer than the dimension."""
    source, border = _input(node, 0), constant_numbers(node.inputs[1])
    if border is None:
        return
    edge = 1 if node.options is None or node.options["mode"] == "REFLECT" else 0  # without a table, REFLECT
    padded = []
    for size, before, after in zip(source.shape, border[::2], border[1::2], strict=True):
        if not 0 <= min(before, after) <= max(before, after) <= max(size - edge, 0):
            node.refuse("inputs", f"has padding of {before} before and {after} after a dimension of size {size}")
        padded.append(size + before + after)
    _require_output_shape(node, 0, padded, (source.shape, border))


def sliced(node: Node) -> None:
    """Check SLICE: a number of elements from a start index in each dimension, -1 for all that remain."""
    source, begins, counts = _input(node, 0), constant_numbers(node.inputs[1]), constant_numbers(node.inputs[2])
    if begins is None or counts is None:
        return
    sizes = []
    for size, begin, count in zip(source.shape, begins, counts, strict=True):
        length = size - begin if count == -1 else count
        if begin < 0 or not 0 <= length <= size - begin:
            node.refuse("inputs", f"has {count} elements from {begin} in a dimension of size {size}")
        sizes.append(length)
    require_output_elements(node, 0, prod(sizes), f"slices of {format_shape(source.shape)}")


def resized(node: Node) -> None:
    """Require a resize operator to produce an image of the size in its second input."""
    source, size = _input(node, 0), constant_numbers(node.inputs[1])
    if size is not None:
        _require_output_shape(node, 0, (source.shape[0], *size, source.shape[3]), (source.shape,))


def shape_output(node: Node) -> None:
    """Require SHAPE to produce one element for each dimension."""
    source = _input(node, 0)
    require_output_elements(node, 0, len(source.shape), f"inputs of {format_shape(source.shape)}")


def reshaped(node: Node) -> None:
    """Require RESHAPE to keep the number of elements; in old files, a scalar has the shape (0)."""
    source = _input(node, 0)
    if node.outputs[0].shape != (0,) or len(node.inputs) > 1:
        require_output_elements(node, 0, source.element_count, f"inputs of {format_shape(source.shape)}")


# An operator, its number of inputs and of outputs: N, N-M or N+. Inputs beyond the minimum may be left out (-1).
_COUNTS = """
ABS 1 1, ADD_N 2+ 1, ADD 2 1, ARG_MAX 2 1, ARG_MIN 2 1, ASSIGN_VARIABLE 2 0, ATAN2 2 1, AVERAGE_POOL_2D 1 1,
BATCH_MATMUL 2 1, BATCH_TO_SPACE_ND 3 1, BIDIRECTIONAL_SEQUENCE_LSTM 48 1-2, BIDIRECTIONAL_SEQUENCE_RNN 12 1-2,
BITCAST 1 1, BITWISE_XOR 2 1, BROADCAST_ARGS 2 1, BROADCAST_TO 2 1, BUCKETIZE 1 1, CALL_ONCE 0 0, CAST 1 1, CEIL 1 1,
COMPLEX_ABS 1 1, CONCATENATION 1+ 1, CONV_2D 2-3 1, CONV_3D_TRANSPOSE 3-4 1, CONV_3D 2-3 1, COS 1 1, CUMSUM 2 1,
DENSIFY 1 1, DEPTHWISE_CONV_2D 2-3 1, DEPTH_TO_SPACE 1 1, DEQUANTIZE 1 1, DILATE 3 1, DIV 2 1,
DYNAMIC_UPDATE_SLICE 3 1, ELU 1 1, EMBEDDING_LOOKUP 2 1, EQUAL 2 1, EXPAND_DIMS 2 1, EXP 1 1, FAKE_QUANT 1 1,
FILL 2 1, FLOOR_DIV 2 1, FLOOR_MOD 2 1, FLOOR 1 1, FULLY_CONNECTED 2-3 1-2, GATHER_ND 2 1, GATHER 2 1, GELU 1 1,
GREATER_EQUAL 2 1, GREATER 2 1, HARD_SWISH 1 1, IF 1+ 0+, IMAG 1 1, L2_NORMALIZATION 1 1, L2_POOL_2D 1 1,
LEAKY_RELU 1 1, LESS_EQUAL 2 1, LESS 2 1, LOCAL_RESPONSE_NORMALIZATION 1 1, LOGICAL_AND 2 1, LOGICAL_NOT 1 1,
LOGICAL_OR 2 1, LOGISTIC 1 1, LOG_SOFTMAX 1 1, LOG 1 1, LSTM 5-24 1-4, MATRIX_DIAG 1 1, MATRIX_SET_DIAG 2 1,
MAXIMUM 2 1, MAX_POOL_2D 1 1, MEAN 2 1, MINIMUM 2 1, MIRROR_PAD 2 1, MULTINOMIAL 2 1, MUL 2 1, NEG 1 1,
NON_MAX_SUPPRESSION_V4 5 2, NON_MAX_SUPPRESSION_V5 6 3, NOT_EQUAL 2 1, ONE_HOT 4 1, PACK 1+ 1, PADV2 2-3 1, PAD 2-3 1,
POW 2 1, PRELU 2 1, QUANTIZE 1 1, RANDOM_STANDARD_NORMAL 1 1, RANDOM_UNIFORM 1 1, RANGE 3 1, RANK 1 1,
READ_VARIABLE 1 1, REAL 1 1, REDUCE_ALL 2 1, REDUCE_ANY 2 1, REDUCE_MAX 2 1, REDUCE_MIN 2 1, REDUCE_PROD 2 1,
RELU6 1 1, RELU_0_TO_1 1 1, RELU_N1_TO_1 1 1, RELU 1 1, RESHAPE 1-2 1, RESIZE_BILINEAR 2 1,
RESIZE_NEAREST_NEIGHBOR 2 1, REVERSE_SEQUENCE 2 1, REVERSE_V2 2 1, RFFT2D 2 1, RIGHT_SHIFT 2 1, RNN 5 1, ROUND 1 1,
RSQRT 1 1, SCATTER_ND 3 1, SEGMENT_SUM 2 1, SELECT_V2 3 1, SELECT 3 1, SHAPE 1 1, SIGN 1 1, SIN 1 1, SLICE 3 1,
SOFTMAX 1 1, SPACE_TO_BATCH_ND 3 1, SPACE_TO_DEPTH 1 1, SPARSE_TO_DENSE 4 1, SPLIT_V 3 1+, SPLIT 2 1+, SQRT 1 1,
SQUARED_DIFFERENCE 2 1, SQUARE 1 1, SQUEEZE 1 1, STRIDED_SLICE 4 1, SUB 2 1, SUM 2 1, SVDF 5 1, TANH 1 1, TILE 2 1,
TOPK_V2 2 2, TRANSPOSE_CONV 3-4 1, TRANSPOSE 2 1, UNIDIRECTIONAL_SEQUENCE_LSTM 20-24 1,
UNIDIRECTIONAL_SEQUENCE_RNN 5 1, UNIQUE 1 2, UNPACK 1 1+, UNSORTED_SEGMENT_MAX 3 1, UNSORTED_SEGMENT_MIN 3 1,
UNSORTED_SEGMENT_PROD 3 1, UNSORTED_SEGMENT_SUM 3 1, VAR_HANDLE 0 1, WHERE 1 1, WHILE 0+ 0+, ZEROS_LIKE 1 1
"""

# Operators whose first inputs may be omitted, too: peepholes, projections, auxiliary inputs, biases.
_WITH_GAPS = frozenset(
    "BIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_RNN LSTM SVDF UNIDIRECTIONAL_SEQUENCE_LSTM".split()
)

# Operators whose output may have a different number of rows than their input, so that unknown batches may differ.
_OTHER_ROWS = frozenset(
    """
    BATCH_TO_SPACE_ND CONCATENATION MIRROR_PAD PAD PADV2 RESHAPE SEGMENT_SUM SLICE SPACE_TO_BATCH_ND SPLIT SPLIT_V
    STRIDED_SLICE TILE UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM
    """.split()
)


@dataclass(frozen=True, slots=True)
class Counts:
    """The minimum and maximum number of inputs and of outputs. needed: how many of the first inputs are required."""

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    needed: int


def _span(text: str) -> tuple[int, int]:
    if text.endswith("+"):
        return int(text[:-1]), 2**31
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def _counts() -> Iterator[tuple[str, Counts]]:
    for line in _COUNTS.replace("\n", " ").split(","):
        code, inputs, outputs = line.split()
        span = _span(inputs)
        needed = 0 if code in _WITH_GAPS else span[1] if inputs.endswith("+") else span[0]
        yield code, Counts(span, _span(outputs), needed)


COUNTS = dict(_counts())

X, Y, Z, FOURTH = (Operand("input", position) for position in range(4))
OUT = Operand("output", 0)


def _all_alike(node: Node) -> None:
    """Require all inputs to have the same shape."""
    first = node.inputs[0]
    for position in first_positions(node, "inputs").values():
        tensor = node.inputs[position]
        if tensor is not None and first is not None and tensor.shape != first.shape:
            Operand("input", position).refuse(
                node, f"of shape {format_shape(tensor.shape)}, but input 0 has {format_shape(first.shape)}"
            )


def _pairs_of_dimensions(node: Node) -> None:
    """Require two numbers for each dimension of the first input."""
    source, pairs = X.of(node), Y.of(node)
    if source is not None and pairs is not None and pairs.shape != (len(source.shape), 2):
        Y.refuse(
            node, f"of shape {format_shape(pairs.shape)}, not 2 numbers for each of {len(source.shape)} dimensions"
        )


def _one_output_per_input(node: Node) -> None:
    """Require as many outputs as inputs."""
    if len(node.inputs) != len(node.outputs):
        node.refuse("outputs", f"has {len(node.outputs)} outputs for {len(node.inputs)} inputs")


def _outputs_for_weights_format(node: Node) -> None:
    """Require FULLY_CONNECTED to have a second output only for shuffled weights."""
    shuffled = node.options is not None and node.options["weights_format"] == "SHUFFLED4x16INT8"
    if len(node.outputs) != 1 + shuffled:
        node.refuse("outputs", f"has {len(node.outputs)} outputs, not {1 + shuffled}")


def _rank_of_first_input(node: Node) -> int:
    source = X.of(node)
    return len(source.shape) if source is not None else 0


def _sides(node: Node) -> int:
    """Return the number of dimensions between the batch and the channels."""
    return _rank_of_first_input(node) - 2


def _broadcast_rank(node: Node) -> int:
    """Return the rank of the shape to which two shapes broadcast."""
    return max(tensor.element_count for tensor in node.inputs if tensor is not None)


_BLOCKS = (same_element_count(X), rank(X, 4), positive("block_size"))
_STRIDES = positive("stride_w", "stride_h", highest=MAX_STEP)
_DILATIONS = positive("dilation_w_factor", "dilation_h_factor", highest=MAX_STEP)
_FILTERED = (rank(X, 4), rank(Y, 4), not_empty(X, Y), valid_enum("padding"), _STRIDES, _DILATIONS)
_SIZES = positive("stride_w", "stride_h", "filter_width", "filter_height")
_POOLED = (rank(X, 4), valid_enum("padding"), _SIZES, pooled)
_REDUCED = (axes_input(Y, X), reduced)
_RESIZED = (rank(X, 4), not_empty(X), rank(Y, 1), length(Y, lambda _: 2), resized)
_MOVED = (rank(X, 3, 4), length(Y, _sides), length(Z, lambda node: 2 * _sides(node)), blocks_moved)
_ARG_REDUCED = (rank(X, 1, MAX_DIMENSIONS), length(Y, lambda _: 1), axes_input(Y, X), arg_reduced)

# Operators that share their rules.
_SHARED: dict[str, tuple[Rule, ...]] = {
    """
    ABS CAST CEIL COS CUMSUM DEQUANTIZE ELU EXP EXPAND_DIMS FLOOR GELU HARD_SWISH L2_NORMALIZATION LEAKY_RELU LOG
    LOGICAL_NOT LOGISTIC LOG_SOFTMAX NEG QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 REVERSE_SEQUENCE REVERSE_V2 ROUND
    RSQRT SIGN SIN SOFTMAX SQRT SQUARE SQUEEZE TANH ZEROS_LIKE
    """: (same_element_count(X),),
    """
    ADD ATAN2 BITWISE_XOR DIV EQUAL FLOOR_DIV FLOOR_MOD GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR
    MAXIMUM MINIMUM MUL NOT_EQUAL POW RIGHT_SHIFT SQUARED_DIFFERENCE SUB
    """: (broadcast(X, Y),),
    "ARG_MAX ARG_MIN": _ARG_REDUCED,
    "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D": _POOLED,
    "DEPTH_TO_SPACE SPACE_TO_DEPTH": _BLOCKS,
    "MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM": _REDUCED,
    "BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND": _MOVED,
    "PAD PADV2": (_pairs_of_dimensions,),
    "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR": _RESIZED,
}

RULES: dict[str, tuple[Rule, ...]] = {
    **{code: rules for codes, rules in _SHARED.items() for code in codes.split()},
    "ADD_N": (_all_alike, same_element_count(X)),
    "BATCH_MATMUL": (rank(X, 2, 5), rank(Y, 2, 5)),
    "BROADCAST_ARGS": (length(OUT, _broadcast_rank),),
    "CONCATENATION": (concatenated,),
    "CONV_2D": (*_FILTERED, in_groups, length(Z, dimension(Y, 0)), convolved),
    "DEPTHWISE_CONV_2D": (*_FILTERED, depthwise, length(Z, dimension(Y, 3)), convolved),
    "DYNAMIC_UPDATE_SLICE": (same_element_count(X),),
    "FULLY_CONNECTED": (
        valid_enum("weights_format"),
        _outputs_for_weights_format,
        rank(Y, 2),
        not_empty(Y),
        length(Z, dimension(Y, 0)),
        multiplied,
    ),
    "GATHER": (axis_option("axis", X), gathered),
    "GATHER_ND": (gathered_points,),
    "MIRROR_PAD": (_pairs_of_dimensions, mirrored),
    "PACK": (number_of("inputs", "values_count"), axis_option("axis", X, extra=1), _all_alike, packed),
    "PRELU": (broadcast(X, Y), same_element_count(X)),
    "RESHAPE": (reshaped,),
    "SELECT_V2": (broadcast(X, Y, Z),),
    "SHAPE": (shape_output,),
    "SLICE": (length(Y, _rank_of_first_input), length(Z, _rank_of_first_input), sliced),
    "SPLIT": (number_of("outputs", "num_splits"), rank(Y, 1, MAX_DIMENSIONS), axes_input(X, Y), split),
    "SPLIT_V": (number_of("outputs", "num_splits"), rank(X, 1, MAX_DIMENSIONS), axes_input(Z, X), split_by_sizes),
    "STRIDED_SLICE": (
        rank(Y, 1),
        rank(Z, 1),
        rank(FOURTH, 1),
        length(Z, dimension(Y, 0)),
        length(FOURTH, dimension(Y, 0)),
    ),
    "TRANSPOSE": (same_element_count(X), length(Y, _rank_of_first_input), axes_input(Y, X)),
    "TRANSPOSE_CONV": (
        rank(X, 1),
        rank(Y, 4),
        rank(Z, 4),
        not_empty(Y, Z),
        valid_enum("padding"),
        _STRIDES,
        length(FOURTH, dimension(Y, 0)),
        transposed_convolution,
    ),
    "UNPACK": (number_of("outputs", "num"), axis_option("axis", X), unpacked),
    "WHILE": (_one_output_per_input,),
}


def check_operator(node: Node) -> None:
    """Check an operator by its rules. Raises InvalidModelError for the first that it breaks."""
    for rule in RULES.get(node.code, ()):
        rule(node)


def has_unknown_sizes(node: Node) -> bool:
    """Return whether a dimension is known only when the model runs, so that shapes in the file are placeholders.

    A batch that is unknown in all tensors of the operator is 1 in all of them, so the shapes are valid, unless the
    operator changes the number of rows. A rank may be unknown, too, if the writer records the rank of other tensors.
    """
    every = (tensor for tensor in (*node.inputs, *node.outputs) if tensor is not None)
    tensors = [tensor for tensor in every if not tensor.is_constant]
    signatures = [tensor.shape_signature for tensor in tensors]
    batches = {signature[:1] == (-1,) for signature in signatures}
    if len(batches) > 1 or any(-1 in signature[1:] for signature in signatures):
        return True
    if any(tensor.has_rank for tensor in tensors) and any(not (t.shape or t.has_rank) for t in tensors):
        return True
    return True in batches and node.code in _OTHER_ROWS


def check_counts(node: Node) -> None:
    """Check an operator's number of inputs and outputs. Raises InvalidModelError."""
    inputs, outputs = node.record["inputs"], node.record["outputs"]
    both = set(inputs).intersection(outputs)
    if both:
        node.refuse("outputs", f"writes tensor {min(both)}, which it also reads")
    counts = COUNTS.get(node.code)
    if counts is None:
        return
    for field, indices, (low, high) in (("inputs", inputs, counts.inputs), ("outputs", outputs, counts.outputs)):
        if not low <= len(indices) <= high:
            span = f"{low}" if low == high else f"{low} or more" if high >= 2**31 else f"{low} to {high}"
            node.refuse(field, f"has {len(indices)} {field if len(indices) != 1 else field[:-1]}, not {span}")
    if -1 in inputs[: counts.needed]:
        node.refuse("inputs", f"lacks its required input {inputs.index(-1)}")
