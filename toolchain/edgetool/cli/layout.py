"""edgetool layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgetool.cli.command import Command, option
from edgetool.cli.errors import INTERRUPTED
from edgetool.cli.options import PATH, SIZE, TimedSize, force_option, json_option, quiet_options
from edgetool.cli.output import (
    ProgressLine,
    deliver,
    fact,
    notice,
    print_lines,
    printable,
    size_with_unit,
    table,
    width,
)
from edgetool.cli.verdict import Summary, closing
from edgetool.cli.view import PROOFS, finding_lines
from edgetool.errors import FailedCheckError, UsageError
from edgetool.figure import significant

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from edgetool.report.layout import LayoutInfo, LayoutReport, PlacedBuffer, PlacedReport

SHOWN = 40
MIN_NAME_COLUMNS = 12


def layout_view(report: LayoutReport, *, everything: bool) -> list[str]:
    """Show the peak, the saving, the proof or gap, and the offset of each buffer."""
    layout = report.layout
    count = f"{len(layout.buffers):,} buffer{'' if len(layout.buffers) == 1 else 's'}"
    lines = [f"{click.style(printable(report.instance.name), bold=True)}: {count}", ""]
    if layout.fits is not None:
        yes = {"fg": "green" if layout.fits else "red", "bold": True}
        lines += fact("Fits", f"{'yes' if layout.fits else 'no'}, in {size_with_unit(layout.capacity)}", style=yes)
    lines += fact("Height", size_with_unit(layout.height))
    ratio = "" if layout.ratio is None else f", {significant(layout.ratio)} times the height"
    lines += fact("Naive sum", f"{size_with_unit(layout.naive_bytes)}{ratio}")
    lines += fact("Lower bound", size_with_unit(layout.lower_bound))
    lines += fact("Proof", _proof(layout))
    if layout.shared is None:
        lines += fact("Strategy", layout.strategy)
    else:
        lines += fact("Sharing", f"{layout.strategy}, {len(layout.shared):,} shared buffers")
    lines += ["", *_buffers(layout.buffers, len(layout.buffers) if everything else SHOWN)]
    lines += finding_lines(report.findings)
    return [*lines, *closing(_verdict(layout), lines)]


def _verdict(layout: LayoutInfo) -> Summary:
    if layout.fits is None or layout.capacity is None:
        return Summary(f"Height {size_with_unit(layout.height)}: {_proof(layout)}", negative=False)
    judged = "Fits" if layout.fits else "Does not fit"
    return Summary(f"{judged}: height {layout.height:,} of {layout.capacity:,} B", negative=not layout.fits)


def _proof(layout: LayoutInfo) -> str:
    if layout.optimal:
        return f"optimal ({PROOFS[layout.proof]})"
    gap = layout.height - layout.lower_bound
    percent = f" ({significant(100 * gap / layout.lower_bound, 2)} %)" if layout.lower_bound else ""
    return f"none: {gap:,} B{percent} above the lower bound"


def _buffers(buffers: tuple[PlacedBuffer, ...], shown: int) -> list[str]:
    """Show the first buffers in the file's order: their byte ranges (end exclusive), and when they are live."""
    if not buffers:
        return ["  no buffer needs memory"]
    header = ("start", "end", "size", "lower", "upper")
    rows = [
        (f"{b.offset:,}", f"{b.offset + b.size:,}", f"{b.size:,}", str(b.lower), str(b.upper)) for b in buffers[:shown]
    ]
    used = sum(2 + max(len(row[column]) for row in (header, *rows)) for column in range(len(header)))
    columns = max(MIN_NAME_COLUMNS, width() - 2 - used)
    named = [(*row, printable(buffer.id, columns)) for row, buffer in zip(rows, buffers, strict=False)]
    lines = [f"  {line}" for line in table((*header, "id"), named, ">>>>><")]
    if shown < len(buffers):
        lines.append(f"  ... and {len(buffers) - shown:,} more (-v shows all)")
    return lines


@click.command(
    "layout",
    cls=Command,
    examples=(
        "edgetool layout buffers.csv",
        "edgetool layout buffers.csv --capacity 64KiB -o placed.csv",
        "edgetool layout buffers.csv --memory dtcm=64KiB --memory sdram=8MiB:1.5",
    ),
)
@click.argument("instance", type=PATH)
@option(
    "--capacity",
    group="Limits",
    type=SIZE,
    metavar="SIZE",
    help="Size of the memory, e.g. 1MiB: accept the first layout that fits.",
)
@option(
    "--memory",
    "memories",
    group="Limits",
    type=TimedSize(),
    multiple=True,
    default=None,
    metavar="NAME=SIZE[:CYCLES]",
    help="One of several memories, and the cycles that the core waits for each byte; repeatable. Buffers are placed "
    "for the fewest cycles.",
)
@option(
    "--minimize",
    group="Memory plan",
    metavar="NAME",
    help="Use the fewest bytes of this --memory, and then the fewest cycles.",
)
@option("--output", "-o", group="Output", type=PATH, metavar="FILE", help="Write the instance with offsets to FILE.")
@option(
    "--strategy",
    group="Memory plan",
    type=click.Choice(["optimal", "greedy", "tflm", "cp-sat"]),
    help="Search algorithm; optimal by default. tflm is TFLM's own greedy planner.",
)
@option(
    "--sharing",
    group="Memory plan",
    type=click.Choice(["greedy", "dynamic-programming"]),
    help="Assign shared buffers instead of computing a layout.",
)
@option(
    "--time-limit",
    group="Limits",
    type=float,
    default=60.0,
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
@option(
    "--constants-in-ram",
    group="Memory plan",
    is_flag=True,
    help="Also place the graph's constants, each only for as long as an operator uses it.",
)
@json_option
@force_option
@quiet_options
def command(
    instance: Path,
    memories: tuple[tuple[str, int, float], ...] | None,
    output: Path | None,
    as_json: bool,
    force: bool,
    quiet: bool,
    verbose: int,
    **options: Any,
) -> None:
    """Find the smallest memory layout of the buffers in INSTANCE, or their fastest placement in several memories.

    INSTANCE is a CSV file with the columns id, lower, upper and size (as for MiniMalloc), or a graph as JSON. The
    result states whether the layout is proven optimal. Ctrl-C ends the search with the best layout so far. Exits with 1
    if the layout does not fit the capacity or the memories.
    """
    from edgetool.pipeline.layout import layout_instance

    if memories:
        _place(instance, memories, output, as_json=as_json, force=force, quiet=quiet, verbose=verbose, options=options)
        return
    if options.pop("minimize") is not None:
        raise UsageError("--minimize names a --memory", fix="use --memory, or omit --minimize")
    with ProgressLine(quiet=quiet or as_json) as progress:
        report = layout_instance(instance, output=output, force=force, progress=progress, **options)
    _show(report, layout_view, output, as_json=as_json, quiet=quiet, verbose=verbose)
    failed = [finding.message for finding in report.findings if finding.level == "error"]
    if failed:
        raise FailedCheckError(failed[0], where=report.instance.name)


def _place(
    instance: Path,
    memories: tuple[tuple[str, int, float], ...],
    output: Path | None,
    *,
    as_json: bool,
    force: bool,
    quiet: bool,
    verbose: int,
    options: dict[str, Any],
) -> None:
    from edgetool.memory.problem import Memory
    from edgetool.pipeline.layout import TimedMemory, place_instance

    for name in ("capacity", "strategy", "sharing"):
        if options.pop(name) is not None:
            raise UsageError(f"--{name} applies to one memory", fix=f"omit --{name} or --memory")
    names = [name for name, _, _ in memories]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the memory {twice[:40]!a} is specified twice", where="--memory", fix="use distinct names")
    timed = [TimedMemory(Memory(name, size), cycles) for name, size, cycles in memories]
    report = place_instance(instance, timed, output=output, force=force, **options)
    _show(report, placement_view, output, as_json=as_json, quiet=quiet, verbose=verbose)


def _show(
    report: LayoutReport | PlacedReport,
    view: Callable[..., list[str]],
    output: Path | None,
    *,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Print the document or its view, and say what was written, and whether Ctrl-C ended the search."""
    from edgetool.report.json import to_json
    from edgetool.report.layout import layout_document

    if as_json:
        deliver(to_json(layout_document(report)), None)
    elif not quiet:
        print_lines(view(report, everything=verbose > 0))
    if output is not None and not quiet:
        notice(f"wrote {printable(str(output), 400)}")
    if report.interrupted:
        notice("interrupted: this is the best result so far")
        click.get_current_context().exit(INTERRUPTED)


def _objective_lines(report: PlacedReport) -> list[str]:
    """Show what was minimized, with its proof or gap."""
    placement, minimized = report.placement, report.minimized
    lines, among = [], "no placement that fits"
    if minimized is not None:
        name = printable(minimized.name, 24)
        lines += fact("Height", f"{size_with_unit(minimized.height)} of {name}")
        gap = minimized.height - minimized.lower_bound
        proof = f"optimal: no placement takes less of {name}" if minimized.proof != "none" else None
        lines += fact("Proof", proof or f"none: {gap:,} B above the lower bound")
        among = "no placement with this height"
    lines += fact("Waiting", f"{significant(placement.cycles)} cycles for memory per inference")
    bound = significant(placement.lower_bound_cycles)
    proof = f"optimal: {among} waits less" if placement.optimal else f"none: {among} waits less than {bound} cycles"
    return [*lines, *fact("Proof", proof)]


def placement_view(report: PlacedReport, *, everything: bool) -> list[str]:
    """Show the cycles, the proof or gap, what each memory holds, and the memory and offset of each buffer."""
    placement = report.placement
    count = f"{len(placement.buffers):,} buffer{'' if len(placement.buffers) == 1 else 's'}"
    lines = [f"{click.style(printable(report.instance.name), bold=True)}: {count} in several memories", ""]
    lines += _objective_lines(report)
    rows = [
        (
            printable(item.name, 24),
            f"{item.height:,}",
            f"{item.bytes:,}",
            significant(item.cycles_per_byte) if item.cycles_per_byte else "0",
            f"{item.traffic:,}",
        )
        for item in placement.memories
    ]
    header = ("memory", "height", "of bytes", "cycles/B", "bytes moved")
    lines += ["", *(f"  {line}" for line in table(header, rows, "<>>>>"))]
    shown = placement.buffers if everything else placement.buffers[:SHOWN]
    if shown:
        placed = [
            (printable(b.memory, 24), f"{b.offset:,}", f"{b.size:,}", str(b.lower), str(b.upper), printable(b.id, 40))
            for b in shown
        ]
        columns = ("memory", "start", "size", "lower", "upper", "id")
        lines += ["", *(f"  {line}" for line in table(columns, placed, "<>>>><"))]
    if len(shown) < len(placement.buffers):
        lines.append(f"  ... and {len(placement.buffers) - len(shown):,} more (-v shows all)")
    return lines
