"""A model as steps: calls of kernels with constant descriptors, before and after its buffers have offsets.

The structs of the descriptors are read from the kernels' headers, which define them: a field that a header lacks, or a
value outside the field's type, is an error here and never reaches a C compiler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from edgetool.codegen.templates import read_file
from edgetool.errors import InternalError

LIMITS: dict[str, tuple[int, int]] = {
    "int8_t": (-(2**7), 2**7 - 1),
    "uint8_t": (0, 2**8 - 1),
    "int16_t": (-(2**15), 2**15 - 1),
    "uint16_t": (0, 2**16 - 1),
    "int32_t": (-(2**31), 2**31 - 1),
    "uint32_t": (0, 2**32 - 1),
    "int64_t": (-(2**63), 2**63 - 1),
    "uint64_t": (0, 2**64 - 1),
}


MAX_FLOAT = 2.0**128 - 2.0**104  # the largest finite float32
STATES = 2  # EDGETOOL_STATES: the variable tensors that one kernel can have


class RangeError(InternalError):
    """A number of a model is outside the type that the kernels have for it."""


@dataclass(frozen=True, slots=True)
class Constant:
    """An array in flash: little-endian elements of a type of C, or of the struct edgetool_scale.

    what: its contents, for the comment; layers with equal constants share one array.
    """

    c_type: str
    data: bytes
    what: str


# A field's value: a number, an array, numbers for an array field, or None for a null pointer.
FieldValue: TypeAlias = "int | float | Constant | tuple[int, ...] | None"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a C struct. c_type: without const and pointer. count: the elements of an array field, 0 for none."""

    name: str
    c_type: str
    is_pointer: bool
    count: int = 0


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A constant struct: its type in C and a value for each field."""

    struct: str
    values: tuple[tuple[str, FieldValue], ...]


@dataclass(frozen=True, slots=True)
class RowInput:
    """An input of a step: a tensor of the main graph by index, or a constant, as rows.

    Output row y needs the rows floor((y * stride - pad + tap * dilation) / divisor) for tap = 0 .. taps - 1. `rows` is
    their number in one batch. A stride of 0 means that all output rows need the same rows; a negative pad skips the
    first rows.
    """

    source: int | Constant
    row_bytes: int
    rows: int = 1
    taps: int = 1
    stride: int = 1
    dilation: int = 1
    pad: int = 0
    divisor: int = 1


@dataclass(frozen=True, slots=True)
class StepOverlap:
    """How the output of a step may share bytes with an input that dies there: its kernel's order of access allows it.

    The output's first byte must be at least `distance` bytes before the input's, or, if `descending`, at least
    `distance` bytes behind it. The step then runs with `field` of its descriptor set to 1.
    """

    input: int
    distance: int
    descending: bool = False
    field: str = "descending"


@dataclass(frozen=True, slots=True)
class Block:
    """A tensor of the main graph that holds all constants of a step: the offset of each by the descriptor's field.

    alignment: that of the tensor's address.
    """

    tensor: int
    offsets: tuple[tuple[str, int], ...]
    alignment: int = 4


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a kernel for all rows of one output.

    Attributes:
        operator: The index of the operator in the main graph, for messages.
        kernel: The kernel's function, and the name of its C file.
        op: Its descriptor.
        inputs: Its inputs in the order of their rows in the table.
        output: The index of the output tensor.
        row_bytes: The size of an output row.
        rows: The number of output rows of one batch.
        batches: How often rows and inputs repeat, each batch behind the one before.
        output_offset: Where the first row is in the output tensor, in bytes.
        scratch_bytes: What the kernel needs besides, aligned to 4.
        states: The variable tensors that the kernel reads and writes, at most STATES.
        band: The number of output rows per call.
        overlaps: How the output may share bytes with inputs; several for one input are alternatives.
        accumulates: Whether all rows are the same one, which the first call sets and the others add to.
        can_be_bare: Whether the kernel does without scratch, more slowly: its band then has none.
        bare: The calls without scratch, counted through all batches.
        block: The copy of its constants in the arena, if it reads them there (loads.py).
        first: The number of rows that other steps of the same operator compute before: overlaps count from these on.
        begins: For a copy of a block that the firmware makes, the step before which it begins; this step waits for it.
    """

    operator: int
    kernel: str
    op: Descriptor
    inputs: tuple[RowInput, ...]
    output: int
    row_bytes: int
    rows: int = 1
    batches: int = 1
    output_offset: int = 0
    scratch_bytes: int = 0
    states: tuple[int, ...] = ()
    band: int = 1
    overlaps: tuple[StepOverlap, ...] = ()
    accumulates: bool = False
    can_be_bare: bool = False
    bare: frozenset[int] = frozenset()
    first: int = 0
    block: Block | None = None
    begins: int | None = None

    def __hash__(self) -> int:
        """Return a hash of the numbers in which the steps of a model differ: one of all fields takes far longer."""
        return hash((self.operator, self.kernel, self.output, self.rows, self.band, self.scratch_bytes, self.bare))

    @property
    def output_bytes(self) -> int:
        """The size of all output rows."""
        return self.row_bytes * (1 if self.accumulates else self.rows * self.batches)


POINTER_BYTES, FLOAT_BYTES = 4, 4
_STRUCT = re.compile(r"typedef struct \{\n(?P<fields>.*?)\n\} (?P<name>edgetool_\w+);", re.DOTALL)
_FIELD = re.compile(r"    (?:const )?(?P<type>\w+) (?P<star>\*?)(?P<name>\w+)(?:\[(?P<count>\d+)\])?;")


@cache
def struct_fields(kernel: str) -> Mapping[str, tuple[Field, ...]]:
    """Return the fields of each struct that the header of a kernel defines."""
    text = re.sub(r"/\*.*?\*/", "", read_file(f"native/c/{kernel}.h"), flags=re.DOTALL)
    structs = {}
    for match in _STRUCT.finditer(text):
        lines = [line for line in match["fields"].split("\n") if line.strip()]
        fields = [_FIELD.fullmatch(line.rstrip()) for line in lines]
        structs[match["name"]] = tuple(
            Field(field["name"], field["type"], bool(field["star"]), int(field["count"] or 0))
            for field in fields
            if field is not None
        )
        if None in fields:
            raise InternalError(f"has a field of unknown form in {match['name']}", where=f"{kernel}.h")
    return structs


@cache
def struct_bytes(struct: str) -> int:
    """Return the size of a kernel's descriptor on a core of 32 bits, where fields are aligned to their size."""
    size, alignment = 0, 1
    for field in struct_fields(struct.removesuffix("_op"))[struct]:
        each = POINTER_BYTES if field.is_pointer else FLOAT_BYTES if field.c_type == "float" else _bits(field) // 8
        size = -(-size // each) * each + each * max(1, field.count)
        alignment = max(alignment, each)
    return -(-size // alignment) * alignment


def _bits(field: Field) -> int:
    return int(re.sub(r"\D", "", field.c_type))


def describe(kernel: str, **values: FieldValue) -> Descriptor:
    """Return the descriptor of a kernel: its struct is KERNEL_op. Omitted integer fields and elements are 0.

    Raises:
        RangeError: A number is outside the field's type.
        InternalError: The struct lacks a field, or a value is of another kind.
    """
    struct = f"{kernel}_op"
    fields = struct_fields(kernel)[struct]
    unknown = values.keys() - {field.name for field in fields}
    if unknown:
        raise InternalError(f"{struct} has no field {min(unknown)}")
    given = {field.name: values.get(field.name, (0,) * field.count or 0) for field in fields}
    return Descriptor(struct, tuple((field.name, _checked(struct, field, given[field.name])) for field in fields))


def _checked(struct: str, field: Field, value: FieldValue) -> FieldValue:
    """Return the value; raise InternalError if the field cannot have it."""
    if field.is_pointer:
        if value == 0 or value is None:
            return None
        if isinstance(value, Constant) and value.c_type == field.c_type:
            return value
    elif field.c_type == "float":
        if isinstance(value, int | float):
            if MAX_FLOAT < abs(value) < float("inf"):
                raise RangeError(f"its {field.name} of {value:.3g} is more than a float32 has")
            return float(value)
    else:
        low, high = LIMITS[field.c_type]
        items = value if isinstance(value, tuple) else (value,)
        if (
            isinstance(value, tuple) == bool(field.count)
            and len(items) == max(1, field.count)
            and all(isinstance(item, int) for item in items)
        ):
            for item in items:
                _require_range(field.name, item, low, high)
            return value
    raise InternalError(f"{struct}.{field.name} cannot be {value!r:.80}")


def _require_range(name: str, value: object, low: int, high: int) -> None:
    """Raise RangeError unless the number is from low to high."""
    assert isinstance(value, int)
    if not low <= value <= high:
        raise RangeError(
            f"its {name.replace('_', ' ')} of {value:,} is outside the kernel's range of {low:,} to {high:,}"
        )


def check_step(step: Step) -> None:
    """Raise RangeError unless the numbers of a step fit edgetool_step, edgetool_shape and edgetool_pattern."""
    unsigned, word, half = LIMITS["uint32_t"], LIMITS["uint16_t"], LIMITS["int16_t"]
    for name, value, limits in (
        ("row size", step.row_bytes, unsigned),
        ("number of rows", step.rows, unsigned),
        ("scratch", step.scratch_bytes, unsigned),
        ("number of batches", step.batches, word),
        ("number of inputs", len(step.inputs), word),
        ("number of variables", len(step.states), (0, STATES)),
        ("band", step.band, word),
    ):
        _require_range(name, value, *limits)
    for item in step.inputs:
        for name, value, limits in (
            ("row size", item.row_bytes, unsigned),
            ("number of rows", item.rows, unsigned),
            ("number of taps", item.taps, word),
            ("stride", item.stride, word),
            ("dilation", item.dilation, word),
            ("padding", item.pad, half),
            ("divisor", item.divisor, word),
        ):
            _require_range(name, value, *limits)
