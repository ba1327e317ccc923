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

Only the name is required. An operator with one of the last five keys is described in full: what is left out it does
not do, so `persistent = []` alone says that it allocates nothing. With none of them its allocations are unknown, and
an arena with it is a lower bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from edgetool.errors import Problem
from edgetool.model.types import Graph, Operator
from edgetool.operators.call import SCRATCH_REQUESTS_PER_OPERATOR, Call, KernelRefusal, Request, persistent, scratch
from edgetool.operators.entry import OperatorEntry
from edgetool.target.toml import Section

# Beyond these a figure is a slip of the pen: no device has so much.
MAX_BUFFER_BYTES = 2**30
MAX_BYTES_PER_ELEMENT = 2**16
MAX_MACS_PER_OUTPUT = 1e9
MAX_POSITION = 1023
MAX_LIST = 1024
MAX_METHOD = 200

ALLOCATION_KEYS = ("init", "persistent", "scratch", "temporary_inputs", "temporary_outputs")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIZE_FORM = "specify bytes, or for example { output = 0, bytes_per_element = 4, plus = 16 }"

Side = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class BufferSize:
    """A size in bytes: fixed, or so many for each element of an input or output and `fixed_bytes` besides."""

    fixed_bytes: int
    bytes_per_element: int = 0
    side: Side | None = None
    position: int = 0

    def of(self, call: Call) -> int:
        """The bytes for one operator. Raises KernelRefusal when it has no such input or output."""
        if self.side is None:
            return self.fixed_bytes
        tensor = call.input(self.position) if self.side == "input" else call.output(self.position)
        if tensor is None:
            raise KernelRefusal(
                f"{call.operator.label} has no {self.side} {self.position}, but its description uses it to size "
                "a buffer"
            )
        return self.fixed_bytes + self.bytes_per_element * tensor.element_count


@dataclass(frozen=True, slots=True)
class DescribedPrepare:
    """What a described kernel asks for in Prepare."""

    persistent: tuple[BufferSize, ...] = ()
    scratch: tuple[BufferSize, ...] = ()
    temporary_inputs: tuple[int, ...] = ()
    temporary_outputs: tuple[int, ...] = ()


def describe_operators(document: Mapping[str, Any]) -> tuple[dict[str, OperatorEntry], list[Problem]]:
    """The entries of a parsed TOML file by custom code, and all that is wrong with it.

    The entries must not be used when there are problems.
    """
    section = Section(document, [])
    entries: dict[str, OperatorEntry] = {}
    for item in section.sections("operator"):
        entry = _entry(item)
        if entry.code and entry.code in entries:
            item.note("name", f"there are two descriptions of {entry.code[:80]!r}", "describe each operator once")
        entries[entry.code] = entry
    if not section.has("operator") or section.table["operator"] == []:
        section.note("operator", "is missing", "describe each custom operator in an [[operator]] table")
    section.finish()
    return entries, section.problems


def _entry(section: Section) -> OperatorEntry:
    name = section.text("name")
    macs = section.rate("macs_per_output", 0, MAX_MACS_PER_OUTPUT) if section.has("macs_per_output") else None
    init = _integers(section, "init", MAX_BUFFER_BYTES)
    prepare = DescribedPrepare(
        persistent=_sizes(section, "persistent", MAX_LIST),
        scratch=_sizes(section, "scratch", SCRATCH_REQUESTS_PER_OPERATOR),
        temporary_inputs=_integers(section, "temporary_inputs", MAX_POSITION),
        temporary_outputs=_integers(section, "temporary_outputs", MAX_POSITION),
    )
    entry = OperatorEntry(
        code=name,
        macs=None if macs is None else partial(_macs, macs),
        prepare=partial(_prepare, prepare) if any(section.has(key) for key in ALLOCATION_KEYS) else None,
        init=partial(_init, init),
        resolver_method=_method(section),
    )
    section.finish()
    return entry


def _init(sizes: tuple[int, ...], _: Call) -> tuple[Request, ...]:
    return tuple(persistent("OpData", size) for size in sizes)


def _method(section: Section) -> str | None:
    name = section.text("resolver_method", required=False)
    if name and (len(name) > MAX_METHOD or not _IDENTIFIER.fullmatch(name)):
        section.note("resolver_method", f"{name[:80]!r} is not a valid C++ method name", 'use a name such as "AddMyOp"')
    return name or None


def _integers(section: Section, name: str, high: int) -> tuple[int, ...]:
    items = section.items(name, MAX_LIST)
    return tuple(items.integer(key, 0, high) for key in items.table)


def _sizes(section: Section, name: str, most: int) -> tuple[BufferSize, ...]:
    items = section.items(name, most)
    return tuple(_size(items, key) for key in items.table)


def _size(items: Section, key: str) -> BufferSize:
    value = items.table[key]
    if type(value) is int:  # to Python a bool is an int
        return BufferSize(items.integer(key, 0, MAX_BUFFER_BYTES))
    if not isinstance(value, dict):
        items.note(key, "must be an integer or a table", _SIZE_FORM)
        return BufferSize(0)
    section = items.section(key)
    sides: list[Side] = [side for side in ("input", "output") if section.has(side)]
    section.taken.update(("input", "output"))
    if len(sides) != 1:
        items.note(key, "must name either an input or an output", _SIZE_FORM)
    side: Side = sides[0] if sides else "output"
    size = BufferSize(
        fixed_bytes=section.integer("plus", 0, MAX_BUFFER_BYTES) if section.has("plus") else 0,
        bytes_per_element=section.integer("bytes_per_element", 1, MAX_BYTES_PER_ELEMENT),
        side=side,
        position=section.integer(side, 0, MAX_POSITION) if sides else 0,
    )
    section.finish()
    return size


def _macs(per_output: float, operator: Operator, graph: Graph) -> int:
    if not operator.outputs or operator.outputs[0] < 0:
        return 0
    return round(per_output * graph.tensors[operator.outputs[0]].element_count)


def _prepare(described: DescribedPrepare, call: Call) -> Iterator[Request]:
    """Temporaries last, so that none is taken to lie under a persistent buffer: what the kernel reads is not known."""
    for number, size in enumerate(described.persistent):
        yield persistent(f"persistent buffer {number}", size.of(call))
    for number, size in enumerate(described.scratch):
        yield scratch(f"buffer {number}", size.of(call))
    yield from call.temporary_inputs(*described.temporary_inputs)
    yield from call.temporary_outputs(*described.temporary_outputs)
