"""Element-wise operators: their rows, functions of one code as tables, and functions of two operands.

Operands may have different shapes. Whole tensors are one row. With `row_wise`, the rows of images stay apart: an
operand with one row only is needed by all output rows, and one with a single image by all images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from edgetool.codegen.native.fixed_point import Integers
from edgetool.codegen.native.movement import is_foldable, is_unused
from edgetool.codegen.native.program import Constant, Descriptor, FieldValue, RowInput, Step, StepOverlap, describe
from edgetool.codegen.native.site import Folded, Lowered, Site, element_bytes
from edgetool.model.types import DType, Tensor
from edgetool.operators.overlap import elementwise_distance

MAX_LOOPS = 7  # EDGETOOL_MAX_LOOPS
IMAGE_RANK = 4
# What a function of two codes returns.
Function = Callable[[Integers, Integers], Integers]
CODES: Integers = np.arange(-128, 128, dtype=np.int64)  # int8, in the order of their values
# Types of C whose pointers may refer to elements of other types.
BYTE_TYPES = (DType.BOOL, DType.INT8, DType.UINT8)


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop over output elements: its count, and the step of each operand in elements."""

    count: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an element-wise step: what Step and the kernels' field `loops` need. count: elements of a row."""

    inputs: tuple[RowInput, ...]
    count: int
    loops: Constant
    row_bytes: int
    rows: int
    batches: int
    overlaps: tuple[StepOverlap, ...]

    def step(self, site: Site, kernel: str, op: Descriptor) -> Step:
        """Return the step that calls a kernel for these rows."""
        return Step(
            operator=site.operator.index,
            kernel=kernel,
            op=op,
            inputs=self.inputs,
            output=site.operator.outputs[0],
            row_bytes=self.row_bytes,
            rows=self.rows,
            batches=self.batches,
            overlaps=self.overlaps,
        )


def elementwise_rows(site: Site, positions: Sequence[int] = (0, 1)) -> Rows:
    """Return the rows of an element-wise operator.

    Args:
        site: The operator.
        positions: Its operands, in the order in which the kernel needs them.

    Raises:
        UnsupportedModelError: The operands do not have the output's shape after broadcasting.
    """
    output = site.output()
    operands = [site.input(position) for position in positions]
    rank = max(len(tensor.shape) for tensor in (output, *operands))
    shape = _extended(output.shape, rank)
    shapes = [_extended(tensor.shape, rank) for tensor in operands]
    site.require(
        all(max(column) == side and set(column) <= {1, side} for side, *column in zip(shape, *shapes, strict=True)),
        "its output has another shape than it computes",
    )
    geometry = _image_rows(shape, shapes) if site.row_wise and rank == IMAGE_RANK else None
    batches, rows, inner, strides = geometry or (1, 1, 0, [(1, True, 0)] * len(operands))
    inputs = tuple(
        RowInput(site.index(position), advance * prod(sides[inner:]) * element_bytes(tensor), rows=there, stride=y)
        for position, tensor, sides, (there, advance, y) in zip(positions, operands, shapes, strides, strict=True)
    )
    return Rows(
        inputs,
        prod(shape[inner:]),
        loops_of(shape[inner:], [sides[inner:] for sides in shapes]),
        prod(shape[inner:]) * element_bytes(output),
        rows,
        batches,
        tuple(
            StepOverlap(k, elementwise_distance(output.element_count, element_bytes(tensor), element_bytes(output)))
            for k, tensor in enumerate(operands)
            if shapes[k] == shape and _may_alias(tensor, output)
        ),
    )


def _may_alias(tensor: Tensor, output: Tensor) -> bool:
    """Return whether C allows a kernel to read and write the same bytes as elements of both types."""
    return tensor.dtype is output.dtype or tensor.dtype in BYTE_TYPES or output.dtype in BYTE_TYPES


def _extended(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (*[1] * (rank - len(shape)), *shape)


def _image_rows(
    shape: tuple[int, ...], shapes: list[tuple[int, ...]]
) -> tuple[int, int, int, list[tuple[int, bool, int]]] | None:
    """Return batches, rows, the first axis within a row, and how each operand advances.

    The latter is the number of its rows, whether another batch has other rows, and the stride of its rows. None if an
    operand has one image of several rows for several output images: batches cannot share rows.
    """
    batches, rows = shape[:2]
    strides = []
    for sides in shapes:
        repeats = batches > 1 and sides[0] == 1
        if repeats and sides[1] > 1:
            return None
        strides.append((sides[1], not repeats, int(sides[1] > 1)))
    return batches, rows, 2, strides


def loops_of(shape: Sequence[int], shapes: Sequence[Sequence[int]]) -> Constant:
    """Return the loops over an output for kernels (edgetool_broadcast.h), with neighbouring axes merged."""
    strides = [_strides(sides) for sides in shapes]
    axes: list[Axis] = []
    for axis, count in enumerate(shape):
        if count == 1:
            continue
        steps = tuple(stride[axis] for stride in strides)
        if axes and axes[-1].steps == tuple(step * count for step in steps):
            count *= axes.pop().count
        axes.append(Axis(count, steps))
    *outer, run = axes or [Axis(1, (0,) * len(strides))]
    numbers = [len(outer), run.count, *run.steps]
    back = [0] * len(strides)
    for loop in reversed(outer):
        numbers += [loop.count, *(step - way for step, way in zip(loop.steps, back, strict=True))]
        back = [step * loop.count for step in loop.steps]
    data = (np.array(numbers, np.int64) % 2**32).astype("<u4").tobytes()
    return Constant("uint32_t", data, "loops over the elements of a row")


def _strides(sides: Sequence[int]) -> list[int]:
    """Return the step of each axis in elements; 0 for axes of which an operand has one element."""
    return [0 if side == 1 else prod(sides[axis + 1 :]) for axis, side in enumerate(sides)]


def lookup_step(site: Site, position: int, table: Integers, dtype: DType) -> Iterator[Lowered]:
    """Lower a function of one byte; a constant operand is folded.

    Args:
        site: The operator.
        position: The operand that is the argument.
        table: The function's values, from the lowest code of the operand's type on.
        dtype: The operand's type.
    """
    index = site.operator.outputs[0]
    if is_unused(site, index):
        return
    # The kernel's index is the code as an unsigned byte.
    ordered = np.roll(table, -128) if dtype is DType.INT8 else table
    data = (ordered % 256).astype(np.uint8)
    if is_foldable(site, position, site.output()):
        yield Folded(index, data[np.frombuffer(site.input(position).data or b"", np.uint8)].tobytes())
        return
    rows = elementwise_rows(site, (position,))
    kernel = "edgetool_lookup_vector" if site.vector else "edgetool_lookup"
    op = describe(kernel, table=Constant("uint8_t", data.tobytes(), "values of a function"), count=rows.count)
    yield rows.step(site, kernel, op)


def binary_step(site: Site, kernel: str, function: Function | None, **fields: FieldValue) -> Iterator[Lowered]:
    """Lower a function of two tensors.

    Args:
        site: The operator.
        kernel: Its kernel.
        function: What it computes of two codes of int8, of which a table may consist; None if it has no table.
        fields: The fields of the kernel's descriptor, without `loops`.
    """
    if is_unused(site, site.operator.outputs[0]):
        return
    table = None if function is None else _table(site, function)
    if table is not None:
        position, values = table
        yield from lookup_step(site, position, values, DType.INT8)
        return
    rows = elementwise_rows(site)
    yield rows.step(site, kernel, describe(kernel, loops=rows.loops, **fields))


def _table(site: Site, function: Function) -> tuple[int, Integers] | None:
    """Return the position of the only operand that varies and the function's values by its code, or None."""
    operands = site.input(0), site.input(1)
    size = site.output().element_count
    if site.index(0) == site.index(1) and operands[0].element_count == size:
        return 0, function(CODES, CODES)
    for position, other in ((0, 1), (1, 0)):
        if operands[other].data is not None and operands[other].element_count == 1:
            if operands[position].element_count != size:
                continue
            number = np.full_like(CODES, int(site.constant(other).reshape(-1)[0]))
            return position, function(CODES, number) if position == 0 else function(number, CODES)
    return None
