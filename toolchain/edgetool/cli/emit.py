"""edgetool emit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from edgetool.cli.command import Command, option
from edgetool.cli.errors import INTERRUPTED
from edgetool.cli.options import (
    PATH,
    custom_operators_option,
    directory_options,
    firmware_options,
    force_option,
    json_option,
    kernels_option,
    place_option,
    quiet_options,
    refuse_for_native,
    shrink_option,
    target_options,
)
from edgetool.cli.output import deliver, duration, fact, grouped, notice, print_lines, printable, size_with_unit, table
from edgetool.cli.settings import implicit_inputs
from edgetool.cli.verdict import TOO_LARGE, Summary
from edgetool.cli.view import finding_lines, placed_facts
from edgetool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgetool.codegen.spec import Data
    from edgetool.memory.sharing.types import Algorithm
    from edgetool.pipeline.emit import ArenaStyle
    from edgetool.pipeline.firmware import Project
    from edgetool.report.document import Report, SharedArenaInfo


def shared_arena_view(arena: SharedArenaInfo, reports: Sequence[Report]) -> list[str]:
    """Show the arena that all models share, what each adds to it, and all findings."""
    target = reports[0].target
    where = f" on {printable(target.board or target.core)} ({target.kernels} kernels)" if target is not None else ""
    title = f"{len(reports)} models in one arena, {arena.name}{where}"
    lines = [click.style(title, bold=True), "", *_fits(arena), *_size(arena, reports)]
    lines += placed_facts(arena.places, arena.placements, is_lower_bound=arena.is_lower_bound)
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
    findings = [
        replace(finding, where=report.model.name if finding.where is None else finding.where)
        for report in reports
        for finding in report.findings
        if finding.rule != "arena-too-large"  # of an arena for this model alone
    ]
    return lines + finding_lines(tuple(dict.fromkeys([*arena.findings, *findings])))


def shared_verdict(arena: SharedArenaInfo, reports: Sequence[Report]) -> Summary:
    """Return whether the arena and the models fit, in a sentence."""
    problems = [item.message for item in arena.findings if item.level == "error"]
    problems += [
        f"{report.model.name}: {item.message}"
        for report in reports
        for item in report.findings
        if item.level == "error" and item.rule not in TOO_LARGE
    ]
    if problems:
        return Summary(f"{'Does not fit' if arena.fits is False else 'Problem'}: {'; '.join(problems)}", negative=True)
    if arena.bytes is None:
        return Summary(f"The arena size for {len(reports)} models depends on the target (--target)", negative=False)
    fits = "Fits: arena" if arena.fits else "Arena"
    return Summary(f"{fits} {size_with_unit(arena.bytes)} for {len(reports)} models", negative=False)


def _fits(arena: SharedArenaInfo) -> list[str]:
    if arena.fits is None:
        return []
    why = "a memory is too small" if arena.places else "the arena is too large"
    text, color = ("yes", "green") if arena.fits else (f"no: {why}", "red")
    return fact("Fits", text, style={"fg": color, "bold": True})


def _size(arena: SharedArenaInfo, reports: Sequence[Report]) -> list[str]:
    if arena.bytes is None:
        return fact("Arena", "unknown without a target (--target)")
    memory = reports[0].memory
    region = ""
    if memory is not None and memory.sram_bytes is not None and not arena.places:
        region = f" of {size_with_unit(memory.sram_bytes)} in {printable(memory.region or 'SRAM')}"
    lines = fact("Arena", f"{'at least ' if arena.is_lower_bound else ''}{size_with_unit(arena.bytes)}{region}")
    text = f"largest head {grouped(arena.head_bytes, 'B')} + tails {grouped(arena.tail_bytes, 'B')}"
    lines += fact("", f"{text} = {grouped(arena.used_bytes, 'B')} used")
    if arena.separate_bytes is not None:
        saved = arena.separate_bytes - arena.bytes
        lines += fact(
            "", f"separate arenas would take {size_with_unit(arena.separate_bytes)}, {grouped(saved, 'B')} more"
        )
    return lines + fact("Order", f"initialise {', then '.join(printable(name, 24) for name in arena.order)}")


def _latency(report: Report) -> str:
    estimate = report.estimate
    return duration(estimate.latency_ms.value) if estimate is not None and estimate.latency_ms is not None else "-"


@click.command(
    "emit",
    cls=Command,
    examples=(
        "edgetool emit model.tflite --target nucleo-l4r5zi",
        "edgetool emit model.tflite --project cmake -o firmware/model",
        "edgetool emit kws.tflite vww.tflite --shared-arena --name models",
    ),
)
@click.argument("models", type=PATH, nargs=-1, required=True, metavar="MODEL...")
@target_options(required=False)
@option("--shared-arena", group="Memory plan", is_flag=True, help="Let several models share one arena, called NAME.")
@option(
    "--arena-style",
    group="Memory plan",
    type=click.Choice(["offsets", "buffers"]),
    default="offsets",
    show_default=True,
    help="Place tensors at offsets in one arena, or in shared buffers, each a C array.",
)
@option(
    "--sharing",
    group="Memory plan",
    type=click.Choice(["greedy", "dynamic-programming"]),
    help="How tensors are assigned to shared buffers; dynamic-programming by default.",
)
@shrink_option
@place_option
@custom_operators_option
@directory_options
@firmware_options
@kernels_option
@json_option
@force_option
@quiet_options
def command(
    models: tuple[Path, ...],
    target: str | None,
    output: Path | None,
    name: str | None,
    arena_style: ArenaStyle,
    sharing: Algorithm | None,
    shrink: bool,
    place: str | None,
    custom_operators: Path | None,
    project: Project | None,
    data: Data,
    profile: bool,
    no_kernels: bool,
    shared_arena: bool,
    depfile: Path | None,
    as_json: bool,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Write the firmware files of MODEL, a .tflite file: C header, model data, and a C++ program for TFLM.

    The offsets in the header are those of the memory plan in the file. Without a plan TFLM places the tensors itself,
    and the header contains no offsets. Shared buffers need neither a plan nor TFLM. Several models need --shared-arena,
    and are initialized in the given order.

    With --runtime native, the model itself becomes C code that needs no runtime: tables and the kernels that it uses.
    """
    from edgetool.cli.verdict import closing, verdict_of
    from edgetool.cli.view import summary, written
    from edgetool.memory.planner import PlanRequest
    from edgetool.pipeline.emit import emit_files, emit_shared
    from edgetool.pipeline.firmware import FirmwareRequest
    from edgetool.pipeline.output import write_depfile
    from edgetool.pipeline.targets import resolve_with_native
    from edgetool.report.json import document, documents, to_json

    chosen: Project = project or ("header" if arena_style == "buffers" else "plain")
    request = FirmwareRequest(chosen, data, profile, kernels=not no_kernels)
    device, native = resolve_with_native(target, **overrides)
    read = (*models, custom_operators, *implicit_inputs(target))
    if native:
        refuse_for_native(
            shared_arena=shared_arena,
            custom_operators=custom_operators,
            arena_style=arena_style == "buffers",
        )
    if shrink and not native:
        raise UsageError(
            "emit uses the memory plan in the file, which --shrink would change",
            fix="use convert, run 'edgetool plan --shrink -o FILE.tflite' before, or add --runtime native",
        )
    if shared_arena:
        if sharing is not None:
            raise UsageError(f"--sharing {sharing} does not apply to --shared-arena", fix="leave it out")
        together = emit_shared(
            models,
            device,
            output=output,
            name=name,
            request=request,
            arena_style=arena_style,
            place=place,
            custom_operators=custom_operators,
            force=force,
        )
        if depfile is not None:
            write_depfile(depfile, together.files, read)
        if as_json:
            deliver(to_json(documents(together.reports, together.arena)), None)
        elif not quiet:
            lines = [*shared_arena_view(together.arena, together.reports), *written(together.files)]
            print_lines([*lines, *closing(shared_verdict(together.arena, together.reports), lines)])
        return
    if len(models) > 1:
        raise UsageError(
            f"{len(models)} models were specified",
            fix="add --shared-arena to let them share an arena, or emit them one by one",
        )
    if native:
        from edgetool.pipeline.native_emit import emit_native

        emitted = emit_native(
            models[0],
            device,
            output=output,
            name=name,
            request=request,
            plan=PlanRequest(shrink=shrink),
            place=place,
            force=force,
        )
    else:
        emitted = emit_files(
            models[0],
            device,
            output=output,
            name=name,
            request=request,
            arena_style=arena_style,
            sharing=sharing,
            place=place,
            custom_operators=custom_operators,
            force=force,
        )
    if depfile is not None:
        write_depfile(depfile, emitted.files, read)
    if as_json:
        deliver(to_json(document(emitted.report)), None)
    elif not quiet:
        lines = [*summary(emitted.report, everything=verbose > 0), *written(emitted.files)]
        print_lines([*lines, *closing(verdict_of(emitted.report), lines)])
    if emitted.interrupted:
        notice("interrupted: these are the best shared buffers so far")
        raise click.exceptions.Exit(INTERRUPTED)
