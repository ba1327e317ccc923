"""edgetool emit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgetool.cli.errors import INTERRUPTED
from edgetool.cli.options import (
    PATH,
    custom_operators_option,
    depfile_option,
    force_option,
    json_option,
    quiet_options,
    target_options,
)
from edgetool.cli.output import deliver, notice, print_lines

if TYPE_CHECKING:
    from edgetool.memory.sharing.types import Algorithm
    from edgetool.pipeline.emit import ArenaStyle


@click.command("emit")
@click.argument("model", type=PATH)
@target_options(required=False)
@click.option("--output", "-o", type=PATH, help="Directory of the files; NAME-firmware when not given.")
@click.option("--name", help="What the files and C names are called; the model's file name when not given.")
@click.option(
    "--arena-style",
    type=click.Choice(["offsets", "buffers"]),
    default="offsets",
    show_default=True,
    help="Tensors at offsets of one arena, or in whole buffers that they share: one C array each.",
)
@click.option(
    "--sharing",
    type=click.Choice(["greedy", "dynamic-programming"]),
    help="How tensors are assigned to shared buffers; dynamic-programming when not given.",
)
@custom_operators_option
@depfile_option
@json_option
@force_option
@quiet_options
def command(
    model: Path,
    target: str | None,
    output: Path | None,
    name: str | None,
    arena_style: ArenaStyle,
    sharing: Algorithm | None,
    custom_operators: Path | None,
    depfile: Path | None,
    as_json: bool,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Write the C files of MODEL, a .tflite file: header and model data.

    Offsets are those of the memory plan in the file; without one TFLM places tensors by itself, and the
    header has none. Shared buffers need no plan, and no TFLM.
    """
    from edgetool.cli.view import summary, written
    from edgetool.pipeline.depfile import write_depfile
    from edgetool.pipeline.emit import emit_files
    from edgetool.pipeline.targets import resolve_named
    from edgetool.report.serialize import document, to_json

    emitted = emit_files(
        model,
        resolve_named(target, **overrides),
        output=output,
        name=name,
        arena_style=arena_style,
        sharing=sharing,
        custom_operators=custom_operators,
        force=force,
    )
    if depfile is not None:
        write_depfile(depfile, emitted.files, (model, custom_operators), target=target)
    if as_json:
        deliver(to_json(document(emitted.report)), None)
    elif not quiet:
        print_lines([*summary(emitted.report), *written(emitted.files)])
    if emitted.interrupted:
        notice("interrupted: these are the best shared buffers until then")
        raise click.exceptions.Exit(INTERRUPTED)
