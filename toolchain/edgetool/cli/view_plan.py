"""The view of `edgetool plan`."""

from __future__ import annotations

from edgetool.cli.text import fact, kib, printable, table, width, wrapped
from edgetool.cli.view import arena_facts, finding_lines, heading, layout_proof, order_facts, sharing_facts
from edgetool.cli.view_verdict import fits_fact, runs_fact
from edgetool.report.document import PlanInfo, PlannedTensor, Report

MAP_COLUMNS = 20
LEAST_MAP_COLUMNS = 8
LEAST_NAME_COLUMNS = 24
MIN_NAME_COLUMNS = 12
ALIGNMENT = 16
SHOWN = 40


def plan_view(report: Report, *, everything: bool) -> list[str]:
    """Sizes, what fits, and the planned tensors by offset, each with its life as a bar over the operators."""
    assert report.arena is not None
    assert report.plan is not None
    lines = [heading(report), ""]
    lines += [*runs_fact(report), *fits_fact(report)]
    if report.plan.constants_in_ram:
        lines += fact("Layout", f"with constants {kib(report.arena.layout_bytes)}, {layout_proof(report.arena)}")
    else:
        lines += arena_facts(report.arena, report.memory)
    lines += order_facts(report.plan, report.arena)
    if report.plan.sharing is not None:
        lines += sharing_facts(report.plan.sharing)
    everyone = len(report.plan.tensors) + len(report.plan.scratch)
    lines += ["", *tensor_map(report.plan, everyone if everything else SHOWN)]
    return lines + finding_lines(report.findings, everything=everything)


def tensor_map(plan: PlanInfo, shown: int) -> list[str]:
    """A table of tensors and scratch buffers by offset, with the largest `shown` of them.

    Each has a bar over the run, filled while it is alive. Those alive at the peak are marked, and always in the table,
    as is the buffer that ends highest, where the head ends.
    """
    buffers = [*((item, False) for item in plan.tensors), *((item, True) for item in plan.scratch)]
    if not buffers:
        return ["  there are no tensors in the arena"]
    head = max(_end(item) for item, _ in buffers)
    last = max(item.last_op for item, _ in buffers)
    chosen = sorted(
        buffers, key=lambda entry: (_end(entry[0]) < head and not _at_peak(entry[0], plan), -entry[0].bytes)
    )[: max(shown, 1)]
    several = any(item.subgraph for item, _ in buffers)
    listed = sorted(chosen, key=lambda entry: (entry[0].offset, entry[0].first_op))
    rows = [
        (
            "*" if _at_peak(item, plan) else "",
            f"{item.offset:,}",
            f"{_end(item):,}",
            f"{item.bytes:,}",
            "scratch" if is_scratch else f"{item.subgraph}:{item.index}" if several else str(item.index),
            f"{item.first_op}-{item.last_op}" if item.last_op >= 0 else "never",
        )
        for item, is_scratch in listed
    ]
    header = ("", "offset", "end", "bytes", "tensor", "at" if plan.moved else "ops")
    used = sum(2 + max(len(row[column]) for row in (header, *rows)) for column in range(len(header)))
    span = _span(plan, last)
    columns = min(MAP_COLUMNS, max(LEAST_MAP_COLUMNS, width() - used - 2 - LEAST_NAME_COLUMNS), max(last + 1, 1))
    room = max(MIN_NAME_COLUMNS, width() - used - 2 - max(columns, len(span)))
    cells = [
        (*row, _bar(item, last, columns), _name(item, plan, is_scratch, several, room))
        for row, (item, is_scratch) in zip(rows, listed, strict=True)
    ]
    lines = table((*header, span, "name"), cells, ">>>>>><<")
    if len(chosen) < len(buffers):
        lines.append(f"  ... and {len(buffers) - len(chosen):,} more (-v shows all)")
    return lines + _peak_lines(plan)


def _peak_lines(plan: PlanInfo) -> list[str]:
    """What the marks mean: the operator with which most is alive."""
    peak = plan.peak
    if peak is None:
        return []
    if peak.operator is None:
        moment = "before the first operator"
    else:
        place = f"{peak.subgraph}:" if peak.subgraph else ""
        moved = f" (position {peak.position})" if plan.moved else ""
        moment = f"at operator {place}{peak.operator} {printable(peak.label or '', 30)}{moved}"
    return ["", *wrapped(f"* live {moment}, the peak: {peak.bytes:,} B are live at once", "    ", "  ")]


def _at_peak(item: PlannedTensor, plan: PlanInfo) -> bool:
    """Whether the buffer is alive at the peak; an input is at operator 0 as well as before it."""
    return plan.peak is not None and item.first_op <= max(plan.peak.position, 0) <= item.last_op


def _end(item: PlannedTensor) -> int:
    """Where the buffer ends in TFLM's planner, which rounds sizes up to 16."""
    return item.offset + -(-item.bytes // ALIGNMENT) * ALIGNMENT


def _name(item: PlannedTensor, plan: PlanInfo, is_scratch: bool, several: bool, room: int) -> str:
    if not is_scratch:
        return printable(item.name.partition(";")[0], room)
    place = f"{item.subgraph}:{item.index}" if several else str(item.index)
    return printable(f"op {place} {item.name}", room)


def _span(plan: PlanInfo, last: int) -> str:
    """What the bars run over; in another order than the file's, a position is not an operator's index."""
    what = "position" if plan.moved else "op"
    return f"{what} 0 to {last}" if last >= 0 else f"no {what}"


def _bar(item: PlannedTensor, last: int, columns: int) -> str:
    if item.last_op < 0:
        return "." * columns
    start = item.first_op * columns // (last + 1)
    end = max(item.last_op * columns // (last + 1), start)
    return "." * start + "#" * (end - start + 1) + "." * (columns - end - 1)
