"""The shapes that operators make of their inputs' shapes, where a kernel writes as much as those say."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from edgetool.errors import InternalError
from edgetool.model.operator_checks import (
    MAX_STEP,
    Node,
    Operand,
    Shape,
    constant_numbers,
    first_positions,
    makes,
    sizes,
    together,
)
from edgetool.model.types import Tensor


def _input(node: Node, position: int) -> Tensor:
    """An input that the operator's counts demand."""
    tensor = node.inputs[position]
    if tensor is None:
        raise InternalError(f"a rule of {node.code} reads input {position}, which is optional")
    return tensor


def _hold(node: Node, position: int, expected: Shape, of: Sequence[Shape]) -> None:
    """The output at the position has this shape; `of` are the shapes it is made of."""
    result = node.outputs[position]
    if result.shape != tuple(expected):
        made = f"of shape {sizes(result.shape)}, but inputs of {together(of)}"
        Operand("output", position).refuse(node, f"{made} produce {sizes(expected)}")


def _without(shape: Shape, axes: set[int]) -> tuple[int, ...]:
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def windows(padding: object, size: int, window: int, stride: int) -> int:
    """The positions of a window along one side (ComputeOutSize, padding.h)."""
    return max(0, (size + stride - (1 if padding == "SAME" else window)) // stride)


def _image(node: Node, size: Shape, window: Shape) -> tuple[int, int]:
    """Height and width that a window leaves of an image."""
    options = node.options.fields if node.options is not None else {}
    padding = options.get("padding")
    made = []
    for side, length, width in zip("hw", size, window, strict=True):
        stride = node.number(f"stride_{side}")
        covered = (width - 1) * options.get(f"dilation_{side}_factor", 1) + 1
        made.append(windows(padding, length, covered, stride))
        around = (made[-1] - 1) * stride + covered - length
        if padding == "SAME" and around // 2 > MAX_STEP:
            node.refuse_option("padding", f"has {around} elements of padding, more than twice {MAX_STEP}")
    return made[0], made[1]


def convolved(node: Node) -> None:
    """CONV_2D and DEPTHWISE_CONV_2D: an image for each filter."""
    source, weights = _input(node, 0), _input(node, 1)
    channels = weights.shape[0 if node.code == "CONV_2D" else 3]
    image = _image(node, source.shape[1:3], weights.shape[1:3])
    _hold(node, 0, (source.shape[0], *image, channels), (source.shape, weights.shape))


def in_groups(node: Node) -> None:
    """CONV_2D: the filters take the input's channels in equal groups."""
    source, weights = _input(node, 0), _input(node, 1)
    groups, rest = divmod(source.shape[3], weights.shape[3])
    if rest or weights.shape[0] % groups:
        node.refuse("inputs", f"has {source.shape[3]} channels for filters of shape {sizes(weights.shape)}")


def depthwise(node: Node) -> None:
    """DEPTHWISE_CONV_2D: one filter, with so many channels for each of the input's."""
    source, weights = _input(node, 0), _input(node, 1)
    if weights.shape[0] != 1:
        node.refuse("inputs", f"has {weights.shape[0]} filters, not 1")
    multiplier = node.number("depth_multiplier")
    if weights.shape[3] != source.shape[3] * multiplier:
        channels = f"{source.shape[3]} channels and filters of shape {sizes(weights.shape)}"
        node.refuse_option("depth_multiplier", f"has depth_multiplier {multiplier} for {channels}")


def pooled(node: Node) -> None:
    """Pooling: an image of as many channels."""
    source = _input(node, 0)
    window = node.number("filter_height"), node.number("filter_width")
    _hold(node, 0, (source.shape[0], *_image(node, source.shape[1:3], window), source.shape[3]), (source.shape,))


def transposed_convolution(node: Node) -> None:
    """TRANSPOSE_CONV: an output whose convolution would be as large as the input."""
    weights, source, result = _input(node, 1), _input(node, 2), node.outputs[0]
    if weights.shape[3] != source.shape[3]:
        node.refuse("inputs", f"has {source.shape[3]} channels for filters of shape {sizes(weights.shape)}")
    given = constant_numbers(node.inputs[0])
    if given is not None and given != result.shape:
        Operand("input", 0).refuse(node, f"with values {sizes(given)}, but the output's shape is {sizes(result.shape)}")
    fits = len(result.shape) == 4 and result.shape[::3] == (source.shape[0], weights.shape[0])
    if not fits or _image(node, result.shape[1:3], weights.shape[1:3]) != source.shape[1:3]:
        operands = f"{sizes(source.shape)} and filters of {sizes(weights.shape)}"
        Operand("output", 0).refuse(node, f"of shape {sizes(result.shape)}, which {operands} do not produce")


def multiplied(node: Node) -> None:
    """FULLY_CONNECTED: a number for each row of the weights and as many of the input's as make a row."""
    source, weights = _input(node, 0), _input(node, 1)
    units, depth = weights.shape
    rows, rest = divmod(source.element_count, depth)
    if rest:
        node.refuse("inputs", f"has {source.element_count} elements for weights of shape {sizes(weights.shape)}")
    makes(node, 0, rows * units, f"inputs of {sizes(source.shape)} and weights of {sizes(weights.shape)}")


def concatenated(node: Node) -> None:
    """CONCATENATION: the inputs side by side along one axis, alike in all others; scalars count as vectors of 1."""
    parts = [_input(node, position).shape or (1,) for position in range(len(node.inputs))]
    first = parts[0]
    axis = node.number("axis")
    if not -len(first) <= axis < len(first):
        node.refuse_option("axis", f"uses axis {axis}, but there are only {len(first)}")
    axis %= len(first)
    for position in first_positions(node, "inputs").values():
        part = parts[position]
        if len(part) != len(first) or _without(part, {axis}) != _without(first, {axis}):
            Operand("input", position).refuse(node, f"of shape {sizes(part)}, but input 0 has {sizes(first)}")
    expected = [*first]
    expected[axis] = sum(part[axis] for part in parts)
    _hold(node, 0, expected, parts)


def packed(node: Node) -> None:
    """PACK: a new dimension, as long as there are inputs."""
    source = _input(node, 0)
    axis = node.number("axis") % (len(source.shape) + 1)
    _hold(node, 0, (*source.shape[:axis], len(node.inputs), *source.shape[axis:]), (source.shape,))


def unpacked(node: Node) -> None:
    """UNPACK: one dimension gone, an output for each of its indices."""
    source = _input(node, 0)
    axis = node.number("axis") % len(source.shape)
    if source.shape[axis] != len(node.outputs):
        node.refuse("outputs", f"has {len(node.outputs)} outputs for dimension {axis} of {sizes(source.shape)}")
    elements = prod(_without(source.shape, {axis}))
    for position in first_positions(node, "outputs").values():
        makes(node, position, elements, f"parts of {sizes(source.shape)}")


def split(node: Node) -> None:
    """SPLIT: equal parts along an axis."""
    axes, source = constant_numbers(node.inputs[0]), _input(node, 1)
    if not axes:
        return
    axis = axes[0] % len(source.shape)
    part, rest = divmod(source.shape[axis], len(node.outputs))
    if rest:
        node.refuse(
            "outputs", f"has {len(node.outputs)} outputs, which do not divide dimension {axis} of {sizes(source.shape)}"
        )
    expected = (*source.shape[:axis], part, *source.shape[axis + 1 :])
    for position in first_positions(node, "outputs").values():
        _hold(node, position, expected, (source.shape,))


def split_by_sizes(node: Node) -> None:
    """SPLIT_V: parts along an axis, which together are the whole."""
    source, axes = _input(node, 0), constant_numbers(node.inputs[2])
    if not axes:
        return
    axis = axes[0] % len(source.shape)
    for position in first_positions(node, "outputs").values():
        result = node.outputs[position]
        if len(result.shape) != len(source.shape) or _without(result.shape, {axis}) != _without(source.shape, {axis}):
            Operand("output", position).refuse(
                node, f"of shape {sizes(result.shape)}, which is not a slice of {sizes(source.shape)}"
            )
    if sum(result.shape[axis] for result in node.outputs) != source.shape[axis]:
        node.refuse("outputs", f"has outputs whose sizes do not add up to dimension {axis} of {sizes(source.shape)}")


def reduced(node: Node) -> None:
    """A reduction: what is left without the axes that the file names."""
    source, axes = _input(node, 0), constant_numbers(node.inputs[1])
    if axes is None:
        return
    gone = {axis % len(source.shape) for axis in axes if source.shape}
    makes(node, 0, prod(_without(source.shape, gone)), f"inputs of {sizes(source.shape)} without axes {sizes(axes)}")


def found(node: Node) -> None:
    """ARG_MAX and ARG_MIN: an index in place of an axis, which has one."""
    source, axes = _input(node, 0), constant_numbers(node.inputs[1])
    if axes and not source.shape[axes[0]]:
        node.refuse("inputs", f"reduces axis {axes[0]} of {sizes(source.shape)}, which is empty")
    reduced(node)


def gathered(node: Node) -> None:
    """GATHER: slices of the input for each position."""
    source, positions = _input(node, 0), _input(node, 1)
    axis, batches = node.number("axis") % len(source.shape), node.number("batch_dims")
    if 0 <= batches <= min(axis, len(positions.shape)):  # a kernel looks at those itself
        made = (*source.shape[:axis], *positions.shape[batches:], *source.shape[axis + 1 :])
        makes(node, 0, prod(made), f"inputs of {sizes(source.shape)} at {sizes(positions.shape)}")


def gathered_points(node: Node) -> None:
    """GATHER_ND: what each row of positions leaves of the input."""
    source, positions = _input(node, 0), _input(node, 1)
    depth = positions.shape[-1] if positions.shape else 0
    if source.shape and positions.shape and depth <= len(source.shape):  # the kernel looks at those itself
        made = (*positions.shape[:-1], *source.shape[depth:])
        makes(node, 0, prod(made), f"inputs of {sizes(source.shape)} at {sizes(positions.shape)}")


def blocks_moved(node: Node) -> None:
    """SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: the sides between batch and channels in blocks, with a border."""
    source, result = _input(node, 0), node.outputs[0]
    if len(result.shape) != len(source.shape) or result.shape[-1] != source.shape[-1]:
        Operand("output", 0).refuse(node, f"of shape {sizes(result.shape)} for inputs of {sizes(source.shape)}")
    blocks, border = constant_numbers(node.inputs[1]), constant_numbers(node.inputs[2])
    if blocks is None or border is None:
        return
    if min(blocks) < 1 or min(border) < 0:
        node.refuse("inputs", f"has blocks of {sizes(blocks)} and padding of {sizes(border)}")
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
        shape = sizes(source.shape)
        node.refuse("inputs", f"has inputs of {shape}, which do not divide evenly into blocks of {sizes(blocks)}")
    _hold(node, 0, (batch, *sides, channels), (source.shape, blocks, border))


def mirrored(node: Node) -> None:
    """MIRROR_PAD: each side with a border that is a mirror image of no more than the side."""
    source, border = _input(node, 0), constant_numbers(node.inputs[1])
    if border is None:
        return
    edge = 1 if node.options is None or node.options["mode"] == "REFLECT" else 0  # without a table, REFLECT
    made = []
    for size, before, after in zip(source.shape, border[::2], border[1::2], strict=True):
        if not 0 <= min(before, after) <= max(before, after) <= max(size - edge, 0):
            node.refuse("inputs", f"has padding of {before} before and {after} after a dimension of size {size}")
        made.append(size + before + after)
    _hold(node, 0, made, (source.shape, border))


def sliced(node: Node) -> None:
    """SLICE: so many of each dimension from a beginning on; -1 for the rest of it."""
    source, begins, counts = _input(node, 0), constant_numbers(node.inputs[1]), constant_numbers(node.inputs[2])
    if begins is None or counts is None:
        return
    made = []
    for size, begin, count in zip(source.shape, begins, counts, strict=True):
        taken = size - begin if count == -1 else count
        if begin < 0 or not 0 <= taken <= size - begin:
            node.refuse("inputs", f"has {count} elements from {begin} in a dimension of size {size}")
        made.append(taken)
    makes(node, 0, prod(made), f"slices of {sizes(source.shape)}")


def resized(node: Node) -> None:
    """RESIZE_*: an image of the size that the second input says."""
    source, given = _input(node, 0), constant_numbers(node.inputs[1])
    if given is not None:
        _hold(node, 0, (source.shape[0], *given, source.shape[3]), (source.shape,))


def shape_told(node: Node) -> None:
    """SHAPE: a number for each dimension."""
    source = _input(node, 0)
    makes(node, 0, len(source.shape), f"inputs of {sizes(source.shape)}")


def reshaped(node: Node) -> None:
    """RESHAPE: as many elements; old files give a scalar the shape (0)."""
    source = _input(node, 0)
    if node.outputs[0].shape != (0,) or len(node.inputs) > 1:
        makes(node, 0, source.element_count, f"inputs of {sizes(source.shape)}")
