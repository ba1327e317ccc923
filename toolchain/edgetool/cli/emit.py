"""edgetool emit."""

from __future__ import annotations

from pathlib import Path
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
    quiet_options,
    target_options,
)
from edgetool.cli.output import deliver, notice, print_lines
from edgetool.cli.settings import read_by_name
from edgetool.errors import UsageError

if TYPE_CHECKING:
    from edgetool.codegen.program import Data
    from edgetool.memory.sharing.types import Algorithm
    from edgetool.pipeline.emit import ArenaStyle
    from edgetool.pipeline.firmware import Project


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
@custom_operators_option
@directory_options
@firmware_options
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
    custom_operators: Path | None,
    project: Project | None,
    data: Data,
    profile: bool,
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
    """
    from edgetool.cli.view import summary, written
    from edgetool.cli.view_shared_arena import shared_arena_view, shared_verdict
    from edgetool.cli.view_verdict import closing, verdict_of
    from edgetool.pipeline.depfile import write_depfile
    from edgetool.pipeline.emit import emit_files
    from edgetool.pipeline.emit_shared import emit_shared
    from edgetool.pipeline.firmware import FirmwareRequest
    from edgetool.pipeline.targets import resolve_named
    from edgetool.report.json import document, documents, to_json

    chosen: Project = project or ("header" if arena_style == "buffers" else "plain")
    request = FirmwareRequest(chosen, data, profile)
    device = resolve_named(target, **overrides)
    read = (*models, custom_operators, *read_by_name(target))
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
    emitted = emit_files(
        models[0],
        device,
        output=output,
        name=name,
        request=request,
        arena_style=arena_style,
        sharing=sharing,
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
