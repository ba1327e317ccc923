"""The view of `edgetool plan`."""

from __future__ import annotations

from edgetool.cli.text import fact, kib, printable, table, width
from edgetool.cli.view import arena_facts, finding_lines, heading, layout_proof, order_facts, sharing_facts, verdict
from edgetool.report.document import PlanInfo, PlannedTensor, Report

MAP_COLUMNS = 20
LEAST_NAME_COLUMNS = 16
SHOWN = 40


def plan_view(report: Report, *, everything: bool) -> list[str]:
    """Sizes, what fits, and the planned tensors by offset, each with its life as a bar over the operators."""
    assert report.arena is not None
    assert report.plan is not None
    lines = [heading(report), ""]
    if report.memory is not None:
        lines += verdict(report)
    if report.plan.constants_in_ram:
        lines += fact("Layout", f"with constants {kib(report.arena.layout_bytes)}, {layout_proof(report.arena)}")
    else:
        lines += arena_facts(report.arena, report.memory)
    lines += order_facts(report.plan, report.arena)
    if report.plan.sharing is not None:
        lines += sharing_facts(report.plan.sharing)
    lines += ["", *tensor_map(report.plan, len(report.plan.tensors) if everything else SHOWN)]
    return lines + finding_lines(report.findings)


def tensor_map(plan: PlanInfo, shown: int) -> list[str]:
    """A table of the largest `shown` tensors by offset; the bar spans the run, filled while the tensor lives."""
    tensors = plan.tensors
    if not tensors:
        return ["  no tensor lies in the arena"]
    last = max(tensor.last_op for tensor in tensors)
    chosen = sorted(tensors, key=lambda item: -item.bytes)[:shown]
    several = any(tensor.subgraph for tensor in tensors)
    listed = sorted(chosen, key=lambda item: (item.offset, item.first_op))
    header = ("offset", "bytes", "tensor", *_columns(plan, last))
    rows = [
        (
            f"{tensor.offset:,}",
            f"{tensor.bytes:,}",
            f"{tensor.subgraph}:{tensor.index}" if several else str(tensor.index),
            f"{tensor.first_op}-{tensor.last_op}" if tensor.last_op >= 0 else "never",
            _bar(tensor, last),
        )
        for tensor in listed
    ]
    used = sum(2 + max(len(row[column]) for row in (header, *rows)) for column in range(len(header)))
    room = max(LEAST_NAME_COLUMNS, width() - 2 - used)
    names = [printable(tensor.name.partition(";")[0], room) for tensor in listed]
    named = [(*row, name) for row, name in zip(rows, names, strict=True)]
    lines = [f"  {line}" for line in table((*header, "name"), named, ">>>><<")]
    if len(chosen) < len(tensors):
        lines.append(f"  ... and {len(tensors) - len(chosen):,} smaller ones (-v shows all)")
    return lines


def _columns(plan: PlanInfo, last: int) -> tuple[str, str]:
    """Where operators were moved, a position is no index of the file."""
    what = "position" if plan.moved else "op"
    return ("at" if plan.moved else "ops"), f"{what} 0 to {last}" if last >= 0 else f"no {what}"


def _bar(tensor: PlannedTensor, last: int) -> str:
    columns = min(MAP_COLUMNS, last + 1)
    if tensor.last_op < 0 or columns <= 0:
        return "." * max(columns, 1)
    start = tensor.first_op * columns // (last + 1)
    end = max(tensor.last_op * columns // (last + 1), start)
    return "." * start + "#" * (end - start + 1) + "." * (columns - end - 1)
