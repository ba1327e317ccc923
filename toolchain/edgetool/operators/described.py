"""Custom operators that a user describes in TOML: what their kernels allocate and compute.

    [[operator]]
    name = "MyOp"                # the custom code in the .tflite
    resolver_method = "AddMyOp"  # registers it with the op resolver
    macs_per_output = 9          # multiply-accumulates per element of output 0
    init = [24]                  # bytes of each AllocatePersistentBuffer in Init, on a 32-bit processor
    persistent = [128]           # the same in Prepare
    scratch = [{ output = 0, bytes_per_element = 4, plus = 16 }, 512]  # each RequestScratchBufferInArena
    temporary_inputs = [0, 1]    # positions of AllocateTempInputTensor in Prepare, each call
    temporary_outputs = [0]      # of AllocateTempOutputTensor

Only the name is required. An operator with one of the last five keys is described in full: it does nothing that the
table does not contain, so `persistent = []` alone means that it allocates nothing. Without any of them, its allocations
are unknown, and an arena with it is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any

from msgspec import Meta

from edgetool.errors import Problem
from edgetool.model.types import Graph, Operator
from edgetool.operators.call import SCRATCH_REQUESTS_PER_OPERATOR, Call, KernelRefusal, Request, persistent, scratch
from edgetool.operators.entry import OperatorEntry
from edgetool.structure import StructureError, TomlTable, shown, structured
from edgetool.target.toml import MAX_TABLES, MAX_TEXT

# Larger values are typing errors: no device has that much memory.
MAX_BUFFER_BYTES = 2**30
MAX_BYTES_PER_ELEMENT = 2**16
MAX_MACS_PER_OUTPUT = 1e9
MAX_POSITION = 1023
MAX_LIST = 1024
MAX_METHOD = 200
TEXT = f"one line of 1 to {MAX_TEXT} printable characters"
METHOD = 'a C++ method name such as "AddMyOp"'
TABLES = f"at most {MAX_TABLES} [[operator]] tables"

ALLOCATION_KEYS = ("init", "persistent", "scratch", "temporary_inputs", "temporary_outputs")
SIZE_FORM = "{ output = 0, bytes_per_element = 4, plus = 16 }"

Bytes = Annotated[int, Meta(ge=0, le=MAX_BUFFER_BYTES)]
Position = Annotated[int, Meta(ge=0, le=MAX_POSITION)]
Method = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", max_length=MAX_METHOD, description=METHOD)]


class SizeOfTensor(TomlTable):
    """A size in bytes: bytes_per_element for each element of an input or output, plus `plus`."""

    bytes_per_element: Annotated[int, Meta(ge=1, le=MAX_BYTES_PER_ELEMENT)] = 0  # 0 if it is missing
    input: Position | None = None
    output: Position | None = None
    plus: Bytes = 0

    def __post_init__(self) -> None:
        problems = []
        if (self.input is None) == (self.output is None):
            problems.append(Problem("", "must name either an input or an output", f"for example {SIZE_FORM}"))
        if not self.bytes_per_element:
            problems.append(Problem("bytes_per_element", "is missing"))
        if problems:
            raise StructureError(*problems)


SIZE = f"an integer from 0 to {MAX_BUFFER_BYTES} or a table such as {SIZE_FORM}"
Size = Annotated[Bytes | SizeOfTensor, Meta(description=SIZE)]


class DescribedOperator(TomlTable):
    """One [[operator]] table of the file."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, description=TEXT)]
    resolver_method: Method | None = None
    macs_per_output: Annotated[float, Meta(ge=0, le=MAX_MACS_PER_OUTPUT)] | None = None
    init: Annotated[tuple[Bytes, ...], Meta(max_length=MAX_LIST)] | None = None
    persistent: Annotated[tuple[Size, ...], Meta(max_length=MAX_LIST)] | None = None
    scratch: Annotated[tuple[Size, ...], Meta(max_length=SCRATCH_REQUESTS_PER_OPERATOR)] | None = None
    temporary_inputs: Annotated[tuple[Position, ...], Meta(max_length=MAX_LIST)] | None = None
    temporary_outputs: Annotated[tuple[Position, ...], Meta(max_length=MAX_LIST)] | None = None

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise StructureError(Problem("name", f"is {shown(self.name)}, not {TEXT}"))


class Descriptions(TomlTable):
    """The whole document."""

    operator: Annotated[tuple[DescribedOperator, ...], Meta(max_length=MAX_TABLES, description=TABLES)]


def describe_operators(document: Mapping[str, Any]) -> tuple[dict[str, OperatorEntry], list[Problem]]:
    """Return the entries of a parsed TOML file, by custom code, and all its problems.

    The entries must not be used if there are problems.
    """
    if document.get("operator", []) == []:
        return {}, [Problem("operator", "is missing", "describe each custom operator in an [[operator]] table")]
    try:
        described = structured(document, Descriptions).operator
    except StructureError as error:
        return {}, list(error.problems)
    names = [item.name for item in described]
    problems = [
        Problem(f"operator[{i}].name", f"there are two descriptions of {name[:80]!r}", "describe each operator once")
        for i, name in enumerate(names)
        if name in names[:i]
    ]
    return {item.name: _entry(item) for item in described}, problems


def _entry(described: DescribedOperator) -> OperatorEntry:
    macs = described.macs_per_output
    describes_allocations = any(getattr(described, key) is not None for key in ALLOCATION_KEYS)
    return OperatorEntry(
        code=described.name,
        macs=None if macs is None else partial(_macs, macs),
        prepare=partial(_prepare, described) if describes_allocations else None,
        init=partial(_init, described.init or ()),
        resolver_method=described.resolver_method,
    )


def _init(sizes: tuple[int, ...], _: Call) -> tuple[Request, ...]:
    return tuple(persistent("OpData", size) for size in sizes)


def _macs(per_output: float, operator: Operator, graph: Graph) -> int:
    if not operator.outputs or operator.outputs[0] < 0:
        return 0
    return round(per_output * graph.tensors[operator.outputs[0]].element_count)


def _prepare(described: DescribedOperator, call: Call) -> Iterator[Request]:
    """Yield the requests of Prepare, temporary tensors last.

    What the kernel reads is unknown, so no temporary tensor may be assumed to be below a persistent buffer.
    """
    for number, size in enumerate(described.persistent or ()):
        yield persistent(f"persistent buffer {number}", _bytes(size, call))
    for number, size in enumerate(described.scratch or ()):
        yield scratch(f"buffer {number}", _bytes(size, call))
    yield from call.temporary_inputs(*(described.temporary_inputs or ()))
    yield from call.temporary_outputs(*(described.temporary_outputs or ()))


def _bytes(size: int | SizeOfTensor, call: Call) -> int:
    """Return the size in bytes for one operator. Raises KernelRefusal if it does not have the input or output."""
    if isinstance(size, int):
        return size
    if size.input is not None:
        side, position, tensor = "input", size.input, call.input(size.input)
    else:
        assert size.output is not None  # as __post_init__ has checked
        side, position, tensor = "output", size.output, call.output(size.output)
    if tensor is None:
        raise KernelRefusal(
            f"{call.operator.label} has no {side} {position}, but its description uses it to size a buffer"
        )
    return size.plus + size.bytes_per_element * tensor.element_count
