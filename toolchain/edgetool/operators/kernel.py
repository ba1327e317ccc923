"""What a TFLM kernel asks of the arena while it prepares one operator, request by request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from edgetool.model.types import DType, Graph, Model, Operator, OptionValue, Tensor
from edgetool.target.platform import Platform

# The requests for scratch that one operator may make (kMaxScratchBuffersPerOp, micro_allocator.h).
SCRATCH_REQUESTS_PER_OPERATOR = 12

# Where TFLM's element differs from the schema's width (TfLiteTypeSizeOf, memory_helpers.cc).
ARENA_ELEMENT_BYTES: dict[DType, int] = {DType.INT4: 1, DType.RESOURCE: 4}

RequestKind = Literal["persistent", "scratch", "temporary tensor", "temporary buffer"]


class KernelRefusal(Exception):  # noqa: N818  # no error of ours: the device's answer
    """The kernel's Prepare would return an error: AllocateTensors fails on the device. The text says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """One allocation: what it holds, in words for people, and the bytes asked for.

    "persistent" (AllocatePersistentBuffer, aligned to 16) stays in the tail; "scratch"
    (RequestScratchBufferInArena) lies in the head while the operator runs; both temporary kinds lie above the
    head until Prepare of the operator ends. tensor is the index of a "temporary tensor", whose bytes follow
    from the runtime's structs.
    """

    kind: RequestKind
    what: str
    size_bytes: int = 0
    alignment: int = 16
    tensor: int = -1


def arena_bytes(tensor: Tensor) -> int:
    """The bytes that TFLM reserves in the arena for the tensor's elements."""
    element_bytes = ARENA_ELEMENT_BYTES.get(tensor.dtype)
    return tensor.size_bytes if element_bytes is None else tensor.element_count * element_bytes


def persistent(what: str, size_bytes: int) -> Request:
    """A buffer for the life of the interpreter."""
    return Request("persistent", what, size_bytes)


def scratch(what: str, size_bytes: int) -> Request:
    """A buffer for the time in which the operator runs."""
    return Request("scratch", what, size_bytes)


def temporary_buffer(what: str, size_bytes: int, alignment: int) -> Request:
    """A buffer until Prepare of the operator ends."""
    return Request("temporary buffer", what, size_bytes, alignment)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What Prepare of an ASSIGN_VARIABLE finds: its variable, how many there are, and whether it is the first to it.

    variable is None where no operator before it made the handle. size_bytes: what the first one gives the variable for
    good, None where none is known. A READ_VARIABLE has one too, and is never the first.
    """

    variable: int | None
    known: int
    first: bool
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One operator under Prepare, and the build of TFLM that prepares it.

    assignments: those of the whole model by (subgraph, operator), which depend on the operators before.
    """

    model: Model
    graph: Graph
    operator: Operator
    platform: Platform
    assignments: Mapping[tuple[int, int], Assignment]

    def input(self, position: int) -> Tensor | None:
        """The input at a position; None when it is left out or the operator has fewer."""
        return self._tensor(self.operator.inputs, position)

    def output(self, position: int = 0) -> Tensor | None:
        """The output at a position; None when the operator has fewer."""
        return self._tensor(self.operator.outputs, position)

    def required_input(self, position: int) -> Tensor:
        """The input at a position. Raises KernelRefusal when there is none."""
        tensor = self.input(position)
        if tensor is None:
            raise KernelRefusal(f"{self.operator.label} has no input {position}")
        return tensor

    def required_output(self, position: int = 0) -> Tensor:
        """The output at a position. Raises KernelRefusal when there is none."""
        tensor = self.output(position)
        if tensor is None:
            raise KernelRefusal(f"{self.operator.label} has no output {position}")
        return tensor

    def option(self, name: str, default: OptionValue = None) -> OptionValue:
        """A field of the operator's options; the default where the file has no option table of that field."""
        options = self.operator.options
        return default if options is None else dict(options.fields).get(name, default)

    def temporary_inputs(self, *positions: int) -> Iterator[Request]:
        """AllocateTempInputTensor for each position; nothing for one that is left out, as in TFLM."""
        for position in positions:
            yield from _temporary(self.input(position))

    def temporary_outputs(self, *positions: int) -> Iterator[Request]:
        """AllocateTempOutputTensor for each position."""
        for position in positions:
            yield from _temporary(self.output(position))

    def _tensor(self, indices: tuple[int, ...], position: int) -> Tensor | None:
        if not 0 <= position < len(indices) or indices[position] < 0:
            return None
        return self.graph.tensors[indices[position]]


def _temporary(tensor: Tensor | None) -> Iterator[Request]:
    if tensor is not None:
        yield Request("temporary tensor", f"TfLiteTensor of {tensor.name!r}", tensor=tensor.index)


PrepareRule = Callable[[Call], Iterable[Request]]


def nothing(_: Call) -> Iterable[Request]:
    """The rule of a kernel whose Prepare asks for nothing, or that has no Prepare."""
    return ()
