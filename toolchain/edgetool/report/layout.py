"""The document of `edgetool layout`: an instance and the layout of its buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgetool.report.document import SCHEMA, FindingInfo, Provenance
from edgetool.report.json import plain


@dataclass(frozen=True, slots=True)
class InstanceInfo:
    """The input file: its size in bytes, and the number of buffers in it."""

    name: str
    sha256: str
    bytes: int
    buffers: int


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """A buffer that is live from lower (inclusive) to upper (exclusive), at offset."""

    id: str
    lower: int
    upper: int
    size: int
    alignment: int
    offset: int


@dataclass(frozen=True, slots=True)
class SharedLayoutBuffer:
    """A memory block and the ids of the buffers that share it."""

    offset: int
    size: int
    buffers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayoutInfo:
    """The layout, in bytes. naive_bytes is the memory without any reuse, and ratio naive_bytes / height.

    ratio is null for a height of 0; capacity and fits are null if no capacity was given. If buffers share whole blocks,
    strategy names the algorithm, `shared` lists the blocks, and lower_bound applies to such layouts.
    """

    naive_bytes: int
    height: int
    ratio: float | None
    lower_bound: int
    optimal: bool
    proof: str
    strategy: str
    capacity: int | None
    fits: bool | None
    buffers: tuple[PlacedBuffer, ...]
    shared: tuple[SharedLayoutBuffer, ...] | None = None


@dataclass(frozen=True, slots=True)
class LayoutReport:
    """The whole document. interrupted: Ctrl-C ended the search, and this is the best layout so far."""

    provenance: Provenance
    instance: InstanceInfo
    layout: LayoutInfo
    interrupted: bool
    findings: tuple[FindingInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class UsedMemory:
    """A memory, the height of the buffers in it, and the bytes that an inference moves there."""

    name: str
    bytes: int
    cycles_per_byte: float
    height: int
    traffic: int


@dataclass(frozen=True, slots=True)
class BufferInMemory:
    """A buffer that is live from lower (inclusive) to upper (exclusive), at offset in its memory."""

    id: str
    lower: int
    upper: int
    size: int
    alignment: int
    memory: str
    offset: int


@dataclass(frozen=True, slots=True)
class PlacementOfBuffers:
    """The cycles that the core waits for memory, a bound on them for every placement, and the placement."""

    cycles: float
    lower_bound_cycles: float
    optimal: bool
    proof: str
    memories: tuple[UsedMemory, ...]
    buffers: tuple[BufferInMemory, ...]


@dataclass(frozen=True, slots=True)
class MinimizedMemory:
    """The memory that a placement uses least of: its height in bytes, and a lower bound on it for every placement."""

    name: str
    height: int
    lower_bound: int
    proof: str


@dataclass(frozen=True, slots=True)
class PlacedReport:
    """The whole document for several memories.

    interrupted: Ctrl-C ended the search. minimized: if the height in one memory was minimized, the cycles and their
    bound are those of placements with this height.
    """

    provenance: Provenance
    instance: InstanceInfo
    placement: PlacementOfBuffers
    interrupted: bool
    minimized: MinimizedMemory | None = None


def layout_document(report: LayoutReport | PlacedReport) -> dict[str, Any]:
    """Return the document as a JSON value."""
    return {"schema": SCHEMA, **plain(report)}
