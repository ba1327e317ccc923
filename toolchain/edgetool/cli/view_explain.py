"""The view of `edgetool plan --explain`: every byte of the arena, and what sets its size."""

from __future__ import annotations

import click

from edgetool.cli.text import printable, table, width, wrapped
from edgetool.cli.view import arena_facts, finding_lines, heading
from edgetool.report.document import ArenaInfo, BreakdownEntry, Report

NAME_COLUMNS = 48
LEAST_NAME_COLUMNS = 16


def explain_view(report: Report, *, everything: bool = False) -> list[str]:
    """The sizes, then moments, tail and head."""
    arena = report.arena
    assert arena is not None
    lines = [heading(report), "", *arena_facts(arena, report.memory), ""]
    if arena.bytes is None:
        text = "--explain needs a target: specify one with --target."
        return [*lines, *wrapped(text, "  "), *finding_lines(report.findings, everything=everything)]
    parts = {part: [entry for entry in arena.breakdown if entry.part == part] for part in ("transient", "tail", "head")}
    return [
        *lines,
        *_moments(arena, parts["transient"]),
        "",
        *_tail(report, parts["tail"]),
        "",
        *_head(arena, parts["head"]),
        *finding_lines(report.findings, everything=everything),
    ]


def _moments(arena: ArenaInfo, entries: list[BreakdownEntry]) -> list[str]:
    top = max(entries, key=lambda entry: entry.bytes)
    lines = wrapped(f"The arena size is set by {_moment(top)}: {top.bytes:,} B, more than any other phase.", "  ")
    rows = [(f"{entry.bytes:,}", _moment(entry)) for entry in sorted(entries, key=lambda e: -e.bytes)]
    return [*lines, "", *_indented(table(("arena", "taken by"), rows, "><"))]


def _moment(entry: BreakdownEntry) -> str:
    return entry.where if entry.operator is None else f"Prepare of {_operator(entry)}"


def _tail(report: Report, entries: list[BreakdownEntry]) -> list[str]:
    """TFLM's own structures, then each operator with what it keeps and the scratch that it asks for."""
    assert report.arena is not None
    own = [entry for entry in entries if entry.operator is None]
    by_operator: dict[tuple[int, int], list[BreakdownEntry]] = {}
    for entry in entries:
        if entry.operator is not None:
            by_operator.setdefault((entry.subgraph or 0, entry.operator), []).append(entry)
    scratch = _scratch(report)
    named = [(entry.bytes, _place(entry) + entry.where, _times(entry)) for entry in own]
    named += [
        (sum(item.bytes for item in items), _operator(items[0]), _listed(items) + scratch.get(key, ""))
        for key, items in sorted(by_operator.items())
    ]
    sizes = max([len(f"{size:,}") for size, _, _ in named] + [len("tail")])
    names = max(len(name) for _, name, _ in named)
    title = f"  {'tail':>{sizes}}  of {report.arena.tail_bytes:,} B, persistent"
    lines = [click.style(title, bold=True)]
    for size, name, detail in named:
        start = f"  {size:>{sizes},}  {name:<{names}}  "
        lines += wrapped(detail, " " * len(start), start)
    return [line.rstrip() for line in lines]


def _scratch(report: Report) -> dict[tuple[int, int], str]:
    """What to say of the scratch buffers of each (subgraph, operator)."""
    assert report.plan is not None
    found: dict[tuple[int, int], str] = {}
    for item in report.plan.scratch:
        key = (item.subgraph, item.index)
        start = f"{found[key]}," if key in found else "; head:"
        found[key] = f"{start} {item.bytes:,} B scratch ({printable(item.name, 40)})"
    return found


def _head(arena: ArenaInfo, entries: list[BreakdownEntry]) -> list[str]:
    asked = [_asked_by(entry) for entry in entries]
    taken = 2 + len(f"{arena.head_bytes:,}") + 2 + max((2 + len(name) for name in asked if name), default=0)
    room = min(NAME_COLUMNS, max(LEAST_NAME_COLUMNS, width() - taken))
    names = [
        printable(entry.where if name else _place(entry) + entry.where, room)
        for entry, name in zip(entries, asked, strict=True)
    ]
    rows = [(f"{entry.bytes:,}", name, by) for entry, name, by in zip(entries, names, asked, strict=True)]
    header = ("head", f"of {arena.head_bytes:,} B, at its peak", "")
    gap = arena.layout_bytes - arena.lower_bound_bytes
    verdict = (
        f"No layout for this operator order is smaller than {arena.lower_bound_bytes:,} B: this one is optimal."
        if arena.optimal
        else f"The layout is {gap:,} B above the lower bound of {arena.lower_bound_bytes:,} B."
    )
    return [*_indented(table(header, rows, "><<")), *wrapped(verdict, "  ")]


def _asked_by(entry: BreakdownEntry) -> str:
    return "" if entry.operator is None else _operator(entry)


def _operator(entry: BreakdownEntry) -> str:
    assert entry.operator is not None
    return f"{_place(entry)}operator {entry.operator} {printable(entry.label or '', 30)}".rstrip()


def _place(entry: BreakdownEntry) -> str:
    return f"subgraph {entry.subgraph}: " if entry.subgraph else ""


def _listed(entries: list[BreakdownEntry]) -> str:
    """As in "60 B OpData, 128 B per-channel multipliers, 4 B padding"."""
    words = []
    for entry in entries:
        asked = entry.bytes if entry.requested_bytes is None else entry.requested_bytes
        times = f"{entry.count} x " if entry.count > 1 else ""
        words.append(f"{times}{asked // entry.count:,} B {entry.where}")
    padding = sum(entry.bytes - (entry.requested_bytes or 0) for entry in entries)
    if padding:
        words.append(f"{padding} B padding")
    return ", ".join(words)


def _times(entry: BreakdownEntry) -> str:
    asked = entry.bytes if entry.requested_bytes is None else entry.requested_bytes
    words = [f"{entry.count} x {asked // entry.count:,} B"] if entry.count > 1 else []
    if entry.bytes > asked:
        words.append(f"{entry.bytes - asked} B padding")
    return ", ".join(words)


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
