"""What a rule for an operator's tensors and options can say. Which operator has which rules: operator_rules.

A rule takes an operator while its file is read, and refuses it by table, field and byte. Shapes are held against each
other for the device's sake: TensorFlow Lite Micro writes as much as they say, and looks at none of them when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from struct import unpack_from
from typing import Literal, NoReturn

from edgetool.model.checks import invalid
from edgetool.model.enums import OPTION_TABLES
from edgetool.model.flatbuffer import Record
from edgetool.model.types import DType, Tensor

MAX_STEP = 2**15 - 1  # strides and dilations are 16 bits wide in the kernels
Shape = Sequence[int]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator as it is read: the file's name, its table there, and its tensors; None for an input left out."""

    name: str
    record: Record
    code: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    options: Record | None

    def refuse(self, field: str, what: str) -> NoReturn:
        """Refuse the file for a field of the operator's table."""
        invalid(self.name, self.record, field, f"{self.code} {what}")

    def refuse_option(self, field: str, what: str) -> NoReturn:
        """Refuse the file for a field of its option table."""
        if self.options is None or field not in self.options.fields:
            self.refuse("builtin_options", f"has no {OPTION_TABLES.get(self.code, 'options')}, so it {what}")
        invalid(self.name, self.options, field, f"{self.code} {what}")

    def number(self, field: str) -> int:
        """An option that is a number; 0 without the table, as runtimes have it."""
        value = self.options.fields.get(field, 0) if self.options is not None else 0
        return value if isinstance(value, int) else 0


Rule = Callable[[Node], None]


@dataclass(frozen=True, slots=True)
class Operand:
    """The input or output at a position."""

    side: Literal["input", "output"]
    position: int

    def of(self, node: Node) -> Tensor | None:
        """Its tensor; None when it is left out."""
        tensors = node.inputs if self.side == "input" else node.outputs
        return tensors[self.position] if self.position < len(tensors) else None

    def refuse(self, node: Node, what: str) -> NoReturn:
        """Refuse the operator for this tensor."""
        node.refuse(f"{self.side}s", f"has {self.side} {self.position} {what}")


def counted(number: int, what: str) -> str:
    """As in "1 dimension" and "2 dimensions"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def sizes(shape: Shape) -> str:
    """A shape, for messages."""
    return f"[{', '.join(map(str, shape[:8]))}{', ...' if len(shape) > 8 else ''}]"


def together(shapes: Sequence[Shape]) -> str:
    """Several shapes, for messages."""
    return " and ".join(map(sizes, shapes[:4])) + (" and others" if len(shapes) > 4 else "")


def first_positions(node: Node, side: Literal["inputs", "outputs"]) -> dict[int, int]:
    """Where each tensor occurs first: a hostile file names one a million times."""
    indices = node.record[side]
    return {indices[position]: position for position in reversed(range(len(indices)))}


def constant_numbers(tensor: Tensor | None) -> tuple[int, ...] | None:
    """The elements of a constant of int32 or int64; None for anything else, and for a sparse one."""
    if tensor is None or tensor.data is None or tensor.sparsity or tensor.dtype not in (DType.INT32, DType.INT64):
        return None
    letter = "i" if tensor.dtype == DType.INT32 else "q"
    return unpack_from(f"<{len(tensor.data) * 8 // tensor.dtype.bits}{letter}", tensor.data)


def rank(operand: Operand, lowest: int, highest: int | None = None) -> Rule:
    """So many dimensions; exactly `lowest` when no highest number is given."""
    most = lowest if highest is None else highest

    def rule(node: Node) -> None:
        tensor = operand.of(node)
        if tensor is not None and not lowest <= len(tensor.shape) <= most:
            span = f"{lowest}" if lowest == most else f"{lowest} to {most}"
            operand.refuse(node, f"with {counted(len(tensor.shape), 'dimension')} instead of {span}")

    return rule


def length(operand: Operand, count: Callable[[Node], int]) -> Rule:
    """So many elements."""

    def rule(node: Node) -> None:
        tensor = operand.of(node)
        if tensor is not None and tensor.element_count != (expected := count(node)):
            operand.refuse(node, f"of shape {sizes(tensor.shape)}, which does not have {counted(expected, 'element')}")

    return rule


def dimension(operand: Operand, axis: int) -> Callable[[Node], int]:
    """The size of one dimension, for `length`; 1 where there is none."""

    def size(node: Node) -> int:
        tensor = operand.of(node)
        return tensor.shape[axis] if tensor is not None and axis < len(tensor.shape) else 1

    return size


def positive(*fields: str, highest: int | None = None) -> Rule:
    """Options that count something: 1 or more, and no more than `highest`."""

    def rule(node: Node) -> None:
        for field in fields:
            value = node.number(field)
            if value < 1 or (highest is not None and value > highest):
                span = "1 or more" if highest is None else f"1 to {highest}"
                node.refuse_option(field, f"has {field} {value}, not {span}")

    return rule


def filled(*operands: Operand) -> Rule:
    """No dimension is 0."""

    def rule(node: Node) -> None:
        for operand in operands:
            tensor = operand.of(node)
            if tensor is not None and 0 in tensor.shape:
                operand.refuse(node, f"of shape {sizes(tensor.shape)}, which is empty")

    return rule


def named(field: str) -> Rule:
    """An enumeration of which the schema knows the number."""

    def rule(node: Node) -> None:
        if node.options is not None and isinstance(node.options.fields.get(field), int):
            node.refuse_option(field, f"has {field} {node.number(field)}, which is not a valid value")

    return rule


def axis_option(field: str, operand: Operand, extra: int = 0) -> Rule:
    """The option is a dimension of the tensor, from the front or (negative) the back; `extra` for one that is new."""

    def rule(node: Node) -> None:
        tensor = operand.of(node)
        if tensor is not None:
            count = len(tensor.shape) + extra
            if not -count <= node.number(field) < count:
                node.refuse_option(field, f"uses axis {node.number(field)}, but there are only {count}")

    return rule


def axes_input(axes: Operand, operand: Operand) -> Rule:
    """What the file knows of this input are dimensions of the other tensor, from the front or (negative) the back.

    For a tensor without dimensions nothing is looked at.
    """

    def rule(node: Node) -> None:
        tensor = operand.of(node)
        count = len(tensor.shape) if tensor is not None else 0
        for axis in constant_numbers(axes.of(node)) or ():
            if count and not -count <= axis < count:
                axes.refuse(node, f"with axis {axis}, but there are only {count}")

    return rule


def number_of(side: Literal["inputs", "outputs"], field: str) -> Rule:
    """The option says how many inputs or outputs there are."""

    def rule(node: Node) -> None:
        count = len(node.inputs if side == "inputs" else node.outputs)
        if node.number(field) != count:
            node.refuse_option(field, f"has {field} {node.number(field)} and {count} {side}")

    return rule


def makes(node: Node, position: int, elements: int, what: str) -> None:
    """The output has as many elements as the kernel writes, which is what `what` gives."""
    result = node.outputs[position]
    if result.element_count != elements:
        Operand("output", position).refuse(
            node, f"of shape {sizes(result.shape)}, but {what} produce {elements} elements"
        )


def as_many(operand: Operand) -> Rule:
    """The output has as many elements as this input."""

    def rule(node: Node) -> None:
        tensor = operand.of(node)
        if tensor is not None:
            makes(node, 0, tensor.element_count, f"inputs of {sizes(tensor.shape)}")

    return rule


def broadcast(*operands: Operand) -> Rule:
    """The inputs agree in each dimension, counted from the last, or are 1 there; the output has their common shape."""

    def rule(node: Node) -> None:
        shapes = [tensor.shape for operand in operands if (tensor := operand.of(node)) is not None]
        common = _common(shapes)
        if common is None:
            node.refuse("inputs", f"has incompatible shapes: {together(shapes)}")
        makes(node, 0, prod(common), together(shapes))

    return rule


def _common(shapes: Iterable[Shape]) -> tuple[int, ...] | None:
    common = []
    for column in zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        found = {size for size in column if size != 1}
        if len(found) > 1:
            return None
        common.append(found.pop() if found else 1)
    return tuple(common)
