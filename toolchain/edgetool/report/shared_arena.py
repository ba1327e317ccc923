"""What the document says of an arena that several models share, beside their reports."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.report.document import FindingInfo


@dataclass(frozen=True, slots=True)
class SharedModelInfo:
    """One of the models: its own head, and what it adds to the tail (the first one TFLM's allocators, too)."""

    name: str
    head_bytes: int | None
    tail_bytes: int | None


@dataclass(frozen=True, slots=True)
class SharedArenaInfo:
    """The arena of all models, initialised in `order`. Null is what is not known; bytes is what the user declares.

    fits: whether it fits the target's region; separate_bytes: the sum of the arenas that the models need each alone.
    best_order needs best_order_bytes, and no order that was tried less: all orders of up to five models.
    """

    name: str
    bytes: int | None
    used_bytes: int | None
    head_bytes: int | None
    tail_bytes: int | None
    is_lower_bound: bool
    fits: bool | None
    separate_bytes: int | None
    order: tuple[str, ...]
    best_order: tuple[str, ...] | None
    best_order_bytes: int | None
    models: tuple[SharedModelInfo, ...]
    findings: tuple[FindingInfo, ...] = ()
