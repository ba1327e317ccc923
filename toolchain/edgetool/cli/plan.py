"""edgetool plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import click

from edgetool.cli.command import Command, option
from edgetool.cli.errors import INTERRUPTED
from edgetool.cli.front_view import front_view
from edgetool.cli.latency_view import latency_facts
from edgetool.cli.options import (
    PATH,
    custom_operators_option,
    force_option,
    json_option,
    keep_inputs_option,
    place_option,
    plan_options,
    quiet_options,
    refuse_for_native,
    shrink_option,
    target_options,
)
from edgetool.cli.output import deliver, fact, notice, print_lines, printable, size_with_unit, table, width, wrapped
from edgetool.cli.page import check_page, html_option, write_reports
from edgetool.cli.rows_view import rows_facts, rows_picture
from edgetool.cli.verdict import fits_fact, runs_fact
from edgetool.cli.view import (
    arena_facts,
    code_fact,
    constants_fact,
    finding_lines,
    heading,
    kernels_fact,
    layout_proof,
    order_facts,
    places_facts,
    sharing_facts,
    stack_fact,
)
from edgetool.errors import FailedCheckError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from edgetool.memory.layout.solve import LayoutStrategy
    from edgetool.memory.order.solve import OrderStrategy
    from edgetool.memory.sharing.types import Algorithm
    from edgetool.pipeline.reporting import Described
    from edgetool.report.document import ArenaInfo, BreakdownEntry, PlanInfo, PlannedTensor, Report
    from edgetool.target.types import Target

NAME_COLUMNS = 48
MIN_PART_COLUMNS = 16


def explain_view(report: Report, *, everything: bool = False) -> list[str]:
    """Show the sizes, then the peaks, the tail and the head of the arena."""
    arena = report.arena
    assert arena is not None
    limits = None if report.places else report.memory
    lines = [heading(report), "", *arena_facts(arena, limits, report.plan), *places_facts(report), ""]
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
    """Show TFLM's own structures, then each operator with its persistent and scratch buffers."""
    assert report.arena is not None
    structures = [entry for entry in entries if entry.operator is None]
    by_operator: dict[tuple[int, int], list[BreakdownEntry]] = {}
    for entry in entries:
        if entry.operator is not None:
            by_operator.setdefault((entry.subgraph or 0, entry.operator), []).append(entry)
    scratch = _scratch(report)
    named = [(entry.bytes, _place(entry) + entry.where, _times(entry)) for entry in structures]
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
    """Return a description of the scratch buffers of each (subgraph, operator)."""
    assert report.plan is not None
    texts: dict[tuple[int, int], str] = {}
    for item in report.plan.scratch:
        key = (item.subgraph, item.index)
        start = f"{texts[key]}," if key in texts else "; head:"
        texts[key] = f"{start} {item.bytes:,} B scratch ({printable(item.name, 40)})"
    return texts


def _head(arena: ArenaInfo, entries: list[BreakdownEntry]) -> list[str]:
    requesters = [_requested_by(entry) for entry in entries]
    taken = 2 + len(f"{arena.head_bytes:,}") + 2 + max((2 + len(name) for name in requesters if name), default=0)
    columns = min(NAME_COLUMNS, max(MIN_PART_COLUMNS, width() - taken))
    names = [
        printable(entry.where if name else _place(entry) + entry.where, columns)
        for entry, name in zip(entries, requesters, strict=True)
    ]
    rows = [(f"{entry.bytes:,}", name, by) for entry, name, by in zip(entries, names, requesters, strict=True)]
    header = ("head", f"of {arena.head_bytes:,} B, at its peak", "")
    gap = arena.layout_bytes - arena.lower_bound_bytes
    verdict = (
        f"No layout for this operator order is smaller than {arena.lower_bound_bytes:,} B: this one is optimal."
        if arena.optimal
        else f"The layout is {gap:,} B above the lower bound of {arena.lower_bound_bytes:,} B."
    )
    return [*_indented(table(header, rows, "><<")), *wrapped(verdict, "  ")]


def _requested_by(entry: BreakdownEntry) -> str:
    return "" if entry.operator is None else _operator(entry)


def _operator(entry: BreakdownEntry) -> str:
    assert entry.operator is not None
    return f"{_place(entry)}operator {entry.operator} {printable(entry.label or '', 30)}".rstrip()


def _place(entry: BreakdownEntry) -> str:
    return f"subgraph {entry.subgraph}: " if entry.subgraph else ""


def _listed(entries: list[BreakdownEntry]) -> str:
    """Return the parts of an allocation: "60 B OpData, 128 B per-channel multipliers, 4 B padding"."""
    words = []
    for entry in entries:
        requested = entry.bytes if entry.requested_bytes is None else entry.requested_bytes
        times = f"{entry.count} x " if entry.count > 1 else ""
        words.append(f"{times}{requested // entry.count:,} B {entry.where}")
    padding = sum(entry.bytes - (entry.requested_bytes or 0) for entry in entries)
    if padding:
        words.append(f"{padding} B padding")
    return ", ".join(words)


def _times(entry: BreakdownEntry) -> str:
    requested = entry.bytes if entry.requested_bytes is None else entry.requested_bytes
    words = [f"{entry.count} x {requested // entry.count:,} B"] if entry.count > 1 else []
    if entry.bytes > requested:
        words.append(f"{entry.bytes - requested} B padding")
    return ", ".join(words)


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


MAP_COLUMNS = 20
MIN_MAP_COLUMNS = 8
USUAL_NAME_COLUMNS = 24
MIN_NAME_COLUMNS = 12
ALIGNMENT, NATIVE_ALIGNMENT = 16, 4  # TFLM's planner, and native code
SHOWN = 40


def plan_view(report: Report, *, everything: bool) -> list[str]:
    """Show sizes, what fits, and the planned tensors by offset, with live ranges as bars over the operators.

    In a plan of rows, a picture of each tensor's rows over time is in place of the offsets.
    """
    assert report.arena is not None
    assert report.plan is not None
    lines = [heading(report), ""]
    lines += [*runs_fact(report), *fits_fact(report)]
    if report.plan.constants_in_ram:
        lines += fact(
            "Layout", f"with constants {size_with_unit(report.arena.layout_bytes)}, {layout_proof(report.arena)}"
        )
    else:
        limits = None if report.places else report.memory
        lines += arena_facts(report.arena, limits, report.plan, native=report.is_native)
        lines += places_facts(report)
    if report.rows is not None:
        lines += rows_facts(report.rows)
    lines += [*constants_fact(report), *code_fact(report, everything=everything)]
    lines += [*stack_fact(report), *kernels_fact(report)]
    if report.estimate is not None:
        lines += latency_facts(report.estimate)
    lines += order_facts(report.plan, report.arena)
    if report.plan.sharing is not None:
        lines += sharing_facts(report.plan.sharing)
    buffer_count = len(report.plan.tensors) + len(report.plan.scratch)
    alignment = NATIVE_ALIGNMENT if report.is_native else ALIGNMENT
    if report.rows is not None:
        lines += ["", *rows_picture(report.rows, len(report.rows.tensors) if everything else SHOWN)]
    else:
        lines += ["", *tensor_map(report.plan, buffer_count if everything else SHOWN, alignment)]
    return lines + finding_lines(report.findings, everything=everything)


def tensor_map(plan: PlanInfo, shown: int, alignment: int = ALIGNMENT) -> list[str]:
    """Show a table of tensors and scratch buffers by offset, with the largest `shown` of them.

    Each has a bar over the operators, filled while it is live. Buffers that are live at the peak are marked and always
    in the table, as is the buffer with the highest end, which determines the size of the head.
    """
    buffers = [*((item, False) for item in plan.tensors), *((item, True) for item in plan.scratch)]
    if not buffers:
        return ["  there are no tensors in the arena"]
    head = max(_end(item, alignment) for item, _ in buffers)
    last = max(item.last_op for item, _ in buffers)
    chosen = sorted(
        buffers, key=lambda entry: (_end(entry[0], alignment) < head and not _at_peak(entry[0], plan), -entry[0].bytes)
    )[: max(shown, 1)]
    several = any(item.subgraph for item, _ in buffers)
    listed = sorted(chosen, key=lambda entry: (entry[0].offset, entry[0].first_op))
    rows = [
        (
            "*" if _at_peak(item, plan) else "",
            f"{item.offset:,}",
            f"{_end(item, alignment):,}",
            f"{item.bytes:,}",
            "scratch" if is_scratch else f"{item.subgraph}:{item.index}" if several else str(item.index),
            f"{item.first_op}-{item.last_op}" if item.last_op >= 0 else "never",
        )
        for item, is_scratch in listed
    ]
    header = ("", "offset", "end", "bytes", "tensor", "at" if plan.moved else "ops")
    used = sum(2 + max(len(row[column]) for row in (header, *rows)) for column in range(len(header)))
    span = _span(plan, last)
    columns = min(MAP_COLUMNS, max(MIN_MAP_COLUMNS, width() - used - 2 - USUAL_NAME_COLUMNS), max(last + 1, 1))
    name_columns = max(MIN_NAME_COLUMNS, width() - used - 2 - max(columns, len(span)))
    cells = [
        (*row, _bar(item, last, columns), _name(item, plan, is_scratch, several, name_columns))
        for row, (item, is_scratch) in zip(rows, listed, strict=True)
    ]
    lines = table((*header, span, "name"), cells, ">>>>>><<")
    if len(chosen) < len(buffers):
        lines.append(f"  ... and {len(buffers) - len(chosen):,} more (-v shows all)")
    return lines + _peak_lines(plan)


def _peak_lines(plan: PlanInfo) -> list[str]:
    """Explain the marks: the operator at which most bytes are alive."""
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
    """Return whether the buffer is live at the peak; an input is live at operator 0 as well as before it."""
    return plan.peak is not None and item.first_op <= max(plan.peak.position, 0) <= item.last_op


def _end(item: PlannedTensor, alignment: int) -> int:
    """Return the end of the buffer: planners round sizes up."""
    return item.offset + -(-item.bytes // alignment) * alignment


def _name(item: PlannedTensor, plan: PlanInfo, is_scratch: bool, several: bool, columns: int) -> str:
    if not is_scratch:
        return printable(item.name.partition(";")[0], columns)
    place = f"{item.subgraph}:{item.index}" if several else str(item.index)
    return printable(f"op {place} {item.name}", columns)


def _span(plan: PlanInfo, last: int) -> str:
    """Name the axis of the bars; in a changed order a position is not an operator's index in the file."""
    what = "position" if plan.moved else "op"
    return f"{what} 0 to {last}" if last >= 0 else f"no {what}"


def _bar(item: PlannedTensor, last: int, columns: int) -> str:
    if item.last_op < 0:
        return "." * columns
    start = item.first_op * columns // (last + 1)
    end = max(item.last_op * columns // (last + 1), start)
    return "." * start + "#" * (end - start + 1) + "." * (columns - end - 1)


@click.command(
    "plan",
    cls=Command,
    examples=(
        "edgetool plan model.tflite --target nucleo-l4r5zi",
        "edgetool plan model.tflite -t rpi-pico -t esp32-s3 --explain",
        "edgetool plan model.tflite -t cortex-m4 -o planned.tflite",
    ),
)
@click.argument("model", type=PATH)
@target_options(required=False, multiple=True)
@option("--explain", group="Output", is_flag=True, help="Show every byte of the arena, and what determines its size.")
@option("--replan", group="Memory plan", is_flag=True, help="Ignore the memory plan in the file and make a new one.")
@option(
    "--optimize",
    group="Memory plan",
    is_flag=True,
    help="Clean up the model, and rewrite operators whose kernels compute wrong outputs; needs --target.",
)
@plan_options
@option(
    "--sharing",
    group="Memory plan",
    type=click.Choice(["greedy", "dynamic-programming"]),
    help="Assign tensors to shared buffers instead of offsets in one arena.",
)
@option(
    "--constants-in-ram",
    group="Memory plan",
    is_flag=True,
    help="Also place constants in RAM, each only for as long as an operator uses it.",
)
@option(
    "--time-limit",
    group="Memory plan",
    type=click.FloatRange(0.01),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the search.",
)
@option(
    "--seed",
    group="Memory plan",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed for the search.",
)
@place_option
@custom_operators_option
@option("--output", "-o", group="Output", type=PATH, metavar="FILE.tflite", help="Write the model with the plan in it.")
@option(
    "--rows-svg",
    group="Output",
    type=PATH,
    metavar="FILE.svg",
    help="Draw a plan of rows of native code: time to the right, addresses upwards.",
)
@option(
    "--front",
    group="Output",
    is_flag=True,
    help="Show plans for TFLM with smaller and smaller arenas and what they cost, up to --max-extra-macs.",
)
@option(
    "--front-svg",
    group="Output",
    type=PATH,
    metavar="FILE.svg",
    help="Draw the plans of --front: arenas to the right, latency or extra multiply-accumulates upwards.",
)
@option(
    "--verify",
    group="Output",
    is_flag=True,
    help="Run each plan of --front on TFLM, and compare its outputs with those of the model.",
)
@keep_inputs_option
@shrink_option
@json_option
@html_option
@force_option
@quiet_options
def command(
    model: Path,
    target: tuple[str, ...],
    output: Path | None,
    rows_svg: Path | None,
    front: bool,
    front_svg: Path | None,
    verify: bool,
    html: Path | None,
    explain: bool,
    replan: bool,
    optimize: bool,
    order: OrderStrategy | None,
    strategy: LayoutStrategy | None,
    sharing: Algorithm | None,
    constants_in_ram: bool,
    time_limit: float,
    seed: int,
    keep_inputs: bool,
    shrink: bool,
    place: str | None,
    custom_operators: Path | None,
    as_json: bool,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Plan the tensor arena of MODEL, a .tflite file.

    Shows the exact size of the arena, when each tensor is live, its offset, and what bounds the size.
    """
    from edgetool.cli.verdict import closing, joint_verdict
    from edgetool.cli.view import finding_lines, without_shared
    from edgetool.memory.planner import PlanRequest
    from edgetool.pipeline.plan import FrontRequest, plan_model
    from edgetool.pipeline.planning import interruptible

    if explain and constants_in_ram:
        raise UsageError(
            "--explain shows the arena of stock TFLM, which holds no constants",
            fix="omit --explain or --constants-in-ram",
        )
    if output is not None and len(target) > 1:
        raise UsageError(
            f"--output writes the plan for one target, but {len(target)} were specified",
            fix="specify one --target, or run plan once for each",
        )
    if not front and (front_svg is not None or verify):
        name = "--front-svg" if front_svg is not None else "--verify"
        raise UsageError(f"{name} applies only to --front", fix=f"add --front, or omit {name}")
    if front and explain:
        raise UsageError("--front and --explain are mutually exclusive", fix="specify only one of them")
    for name, picture in (("--rows-svg", rows_svg), ("--front-svg", front_svg)):
        _check_picture(name, picture, len(target))
    file_plan: Literal["use", "replace"] = "replace" if replan else "use"
    request = PlanRequest(order, strategy, sharing, constants_in_ram, time_limit, seed, file_plan, shrink, keep_inputs)
    targets: list[tuple[Target | None, bool, float | None]] = [(None, False, None)]
    if target or any(value is not None for value in overrides.values()):
        from edgetool.pipeline.targets import resolve_for_plan  # plans without a target need no profiles

        targets = [resolve_for_plan(name, **overrides) for name in target or (None,)]
    inputs = (model,) if custom_operators is None else (model, custom_operators)
    outputs = {"--output": output, "--rows-svg": rows_svg, "--front-svg": front_svg}
    check_page(html, force=force, inputs=inputs, outputs=outputs)
    reports: list[Report] = []
    described: list[Described] | None = None if html is None else []
    interrupted = False
    for device, native, extra_macs in targets:
        with interruptible(time_limit) as deadline:
            if native:
                from edgetool.pipeline.native import plan_native

                refuse_for_native(
                    output=output,
                    optimize=optimize,
                    custom_operators=custom_operators,
                    explain=explain,
                    front=front,
                )
                report = plan_native(
                    model,
                    device,
                    request=request,
                    deadline=deadline,
                    picture=rows_svg,
                    force=force,
                    described=described,
                    place=place,
                )
            else:
                if rows_svg is not None:
                    raise UsageError(
                        "--rows-svg draws plans of native code, and TFLM's have whole tensors",
                        fix="add --runtime native, or omit --rows-svg",
                    )
                report = plan_model(
                    model,
                    device,
                    request=request if extra_macs is None else replace(request, max_extra_macs=extra_macs),
                    deadline=deadline,
                    output=output,
                    custom_operators=custom_operators,
                    optimize=optimize,
                    force=force,
                    described=described,
                    place=place,
                    front=FrontRequest(verify, front_svg) if front else None,
                )
        reports.append(report)
        interrupted = deadline.interrupted
        if interrupted:
            break
    if as_json:
        from edgetool.report.json import documents, to_json

        deliver(to_json(documents(reports)), None)
    elif not quiet:
        everything = verbose > 0
        unshared, shared = without_shared(reports)
        view = explain_view if explain else front_view if front else plan_view
        views = [view(item, everything=everything) for item in unshared]
        lines = [line for shown in views for line in ("", *shown)][1:] + finding_lines(shared, everything=everything)
        end = closing(joint_verdict(reports), lines)
        print_lines([*lines, *end] if output is None else lines)
    if html is not None and described is not None:
        write_reports(html, described, force=force, quiet=quiet, inputs=inputs)
    for picture in (rows_svg, front_svg):
        if picture is not None and not quiet:
            notice(f"wrote {printable(str(picture), 400)}")
    if output is not None and not quiet:
        notice(f"wrote {printable(str(output), 400)}")
        if not as_json:
            print_lines(end)
    if interrupted:
        left = len(targets) - len(reports)
        rest = f"; {left} more target{'s' if left > 1 else ''} not planned" if left else ""
        notice(f"interrupted: this is the best plan so far{rest}")
        raise click.exceptions.Exit(INTERRUPTED)
    differing = [point for report in reports for point in report.front if point.verified is False]
    if differing:
        raise FailedCheckError(
            f"the outputs of {len(differing)} plans differ from those of the model on TFLM",
            where=str(model),
            fix="report this and attach the model",
        )


def _check_picture(name: str, path: Path | None, targets: int) -> None:
    if path is None:
        return
    if path.suffix.lower() != ".svg":
        raise UsageError("the picture must be an .svg file", where=f"{name} {path}", fix="use this extension")
    if targets > 1:
        raise UsageError(
            f"{name} draws plans for one target, but {targets} were specified",
            fix="specify one --target, or run plan once for each",
        )
