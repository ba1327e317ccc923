"""The document of `edgetool layout`: an instance and the layout of its buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgetool.report.document import SCHEMA, FindingInfo, Provenance
from edgetool.report.json import plain


@dataclass(frozen=True, slots=True)
class InstanceInfo:
    """The input file: bytes are its own, buffers those that it states."""

    name: str
    sha256: str
    bytes: int
    buffers: int


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """A buffer: alive from lower to before upper, in the bytes from offset to before offset + size."""

    id: str
    lower: int
    upper: int
    size: int
    alignment: int
    offset: int


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """A whole buffer and the ids of those that share it."""

    offset: int
    size: int
    buffers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayoutInfo:
    """The layout, in bytes. naive_bytes is the memory without any reuse, ratio how many times smaller the height is.

    ratio is null for a height of 0; capacity and fits are null when no capacity was asked for. strategy is the way of
    sharing where whole buffers are shared: then `shared` lists them, and lower_bound is what no such sharing can beat.
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
    shared: tuple[SharedBuffer, ...] | None = None


@dataclass(frozen=True, slots=True)
class LayoutReport:
    """The whole document. interrupted: Ctrl-C ended the search, and this is the best it had found."""

    provenance: Provenance
    instance: InstanceInfo
    layout: LayoutInfo
    interrupted: bool
    findings: tuple[FindingInfo, ...] = ()


def layout_document(report: LayoutReport) -> dict[str, Any]:
    """The document as JSON values."""
    return {"schema": SCHEMA, **plain(report)}
