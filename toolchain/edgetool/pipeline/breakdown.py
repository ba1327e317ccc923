"""The account of an arena as the document's breakdown."""

from __future__ import annotations

from dataclasses import replace

from edgetool.memory.account import ArenaAccount, Peak
from edgetool.memory.bound import live_bytes
from edgetool.memory.types import Buffer
from edgetool.model.types import Model
from edgetool.report.document import BreakdownEntry


def breakdown(model: Model, account: ArenaAccount) -> tuple[BreakdownEntry, ...]:
    """Tail, head and the moments that decide the size; see BreakdownEntry for what sums to what."""
    labels = {(graph.index, op.index): op.label for graph in model.subgraphs for op in graph.operators}
    return tuple(
        entry
        if entry.operator is None or entry.subgraph is None
        else replace(entry, label=labels[entry.subgraph, entry.operator])
        for entry in (*_tail(account), *_head(account), *_moments(account))
    )


def _tail(account: ArenaAccount) -> list[BreakdownEntry]:
    """Equal rows of one operator together, in the order in which TFLM first allocates one of them."""
    totals: dict[tuple[str, int | None, int | None, int], tuple[int, int]] = {}
    for row in account.rows:
        key = (row.part, row.subgraph, row.operator, row.requested_bytes)
        size, count = totals.get(key, (0, 0))
        totals[key] = (size + row.bytes, count + 1)
    return [
        BreakdownEntry("tail", part, operator, size, subgraph, count=count, requested_bytes=requested * count)
        for (part, subgraph, operator, requested), (size, count) in totals.items()
    ]


def _head(account: ArenaAccount) -> list[BreakdownEntry]:
    position = _busiest_position(account)
    placed = zip(account.problem.buffers, account.layout.offsets, strict=True)
    alive = [(buffer, offset) for buffer, offset in placed if buffer.lifetime.first <= position <= buffer.lifetime.last]
    entries: list[BreakdownEntry] = []
    counted: list[tuple[int, int]] = []
    for buffer, offset in sorted(alive, key=lambda item: -item[0].aligned_bytes):
        own = _bytes_outside(counted, offset, offset + buffer.aligned_bytes)
        counted.append((offset, offset + buffer.aligned_bytes))
        shared = "" if own == buffer.aligned_bytes else "overlapping the above: "
        entries.append(BreakdownEntry("head", shared + _content(buffer), _operator(buffer), own, buffer.subgraph))
    between = account.head_bytes - sum(entry.bytes for entry in entries)
    if between:
        entries.append(BreakdownEntry("head", "gaps between and above them", None, between))
    return entries


def _bytes_outside(ranges: list[tuple[int, int]], start: int, end: int) -> int:
    """Bytes from start to end that lie in none of the ranges: compiled operators lay tensors over each other."""
    outside = 0
    for low, high in sorted(ranges):
        if low < end and high > start:
            outside += max(0, low - start)
            start = high
    return outside + max(0, end - start)


def _busiest_position(account: ArenaAccount) -> int:
    """The first position at which most bytes of the head are alive; -1 for an empty head."""
    position, _ = max(live_bytes(account.problem), key=lambda item: item[1], default=(-1, 0))
    return position


def _content(buffer: Buffer) -> str:
    return f"scratch: {buffer.name}" if buffer.is_scratch else f"tensor {buffer.tensor}: {buffer.name}"


def _operator(buffer: Buffer) -> int | None:
    return buffer.operator if buffer.is_scratch else None


def _moments(account: ArenaAccount) -> list[BreakdownEntry]:
    """Each kind of moment at its highest; of all the Prepares the one that takes most."""
    highest: dict[str, Peak] = {}
    for peak in account.peaks:
        kind = "Prepare" if peak.operator is not None else peak.when
        if kind not in highest or peak.bytes > highest[kind].bytes:
            highest[kind] = peak
    return [
        BreakdownEntry("transient", peak.when, peak.operator, peak.bytes, peak.subgraph) for peak in highest.values()
    ]
