"""The view of `edgetool emit --shared-arena`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from edgetool.cli.text import duration, fact, grouped, kib, printable, table
from edgetool.cli.view import finding_lines
from edgetool.cli.view_verdict import TOO_LARGE, Verdict
from edgetool.report.document import Report, SharedArenaInfo


def shared_arena_view(arena: SharedArenaInfo, reports: Sequence[Report]) -> list[str]:
    """The arena that all models share, what each adds to it, and the findings of all."""
    target = reports[0].target
    where = f" on {printable(target.board or target.core)} ({target.kernels} kernels)" if target is not None else ""
    title = f"{len(reports)} models in one arena, {arena.name}{where}"
    lines = [click.style(title, bold=True), "", *_fits(arena), *_size(arena, reports)]
    header = ("model", "head", "adds to the tail", "model size", "inference")
    rows = [
        (
            printable(model.name, 24),
            grouped(model.head_bytes, "B"),
            grouped(model.tail_bytes, "B"),
            grouped(report.model.bytes, "B"),
            _latency(report),
        )
        for model, report in zip(arena.models, reports, strict=True)
    ]
    lines += ["", *(f"  {line}" for line in table(header, rows, "<>>>>"))]
    own = [
        replace(finding, where=report.model.name if finding.where is None else finding.where)
        for report in reports
        for finding in report.findings
        if finding.rule != "arena-too-large"  # of an arena for this model alone
    ]
    return lines + finding_lines(tuple(dict.fromkeys([*arena.findings, *own])))


def shared_verdict(arena: SharedArenaInfo, reports: Sequence[Report]) -> Verdict:
    """Whether the arena and the models fit, in a sentence."""
    problems = [item.message for item in arena.findings if item.level == "error"]
    problems += [
        f"{report.model.name}: {item.message}"
        for report in reports
        for item in report.findings
        if item.level == "error" and item.rule not in TOO_LARGE
    ]
    if problems:
        return Verdict(f"{'Does not fit' if arena.fits is False else 'Problem'}: {'; '.join(problems)}", negative=True)
    if arena.bytes is None:
        return Verdict(f"The arena size for {len(reports)} models depends on the target (--target)", negative=False)
    fits = "Fits: arena" if arena.fits else "Arena"
    return Verdict(f"{fits} {kib(arena.bytes)} for {len(reports)} models", negative=False)


def _fits(arena: SharedArenaInfo) -> list[str]:
    if arena.fits is None:
        return []
    text, color = ("yes", "green") if arena.fits else ("no: the arena is too large", "red")
    return fact("Fits", text, style={"fg": color, "bold": True})


def _size(arena: SharedArenaInfo, reports: Sequence[Report]) -> list[str]:
    if arena.bytes is None:
        return fact("Arena", "unknown without a target (--target)")
    memory = reports[0].memory
    region = ""
    if memory is not None and memory.sram_bytes is not None:
        region = f" of {kib(memory.sram_bytes)} in {printable(memory.region or 'SRAM')}"
    lines = fact("Arena", f"{'at least ' if arena.is_lower_bound else ''}{kib(arena.bytes)}{region}")
    text = f"largest head {grouped(arena.head_bytes, 'B')} + tails {grouped(arena.tail_bytes, 'B')}"
    lines += fact("", f"{text} = {grouped(arena.used_bytes, 'B')} used")
    if arena.separate_bytes is not None:
        saved = arena.separate_bytes - arena.bytes
        lines += fact("", f"separate arenas would take {kib(arena.separate_bytes)}, {grouped(saved, 'B')} more")
    return lines + fact("Order", f"initialise {', then '.join(printable(name, 24) for name in arena.order)}")


def _latency(report: Report) -> str:
    estimate = report.estimate
    return duration(estimate.latency_ms.value) if estimate is not None and estimate.latency_ms is not None else "-"
