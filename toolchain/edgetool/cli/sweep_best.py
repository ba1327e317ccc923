"""edgetool sweep best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetool.cli.options import PATH, firmware_options, force_option, json_option, quiet_options
from edgetool.cli.output import ProgressLine, deliver, print_lines
from edgetool.cli.settings import read_by_name
from edgetool.cli.sweep_options import AXIS, axes_help
from edgetool.cli.sweep_source import find_store, named, read_rows, source_options
from edgetool.errors import UsageError

if TYPE_CHECKING:
    from edgetool.firmware.program import Data
    from edgetool.pipeline.firmware import Project
    from edgetool.sweep.record import SweepRecord


@click.command("best")
@source_options
@click.option("--target", "-t", metavar="LABEL", help="The target of the sweep; needed where it has several.")
@click.option("--by", type=AXIS, default="accuracy", show_default=True, help=f"The best in what: {axes_help}.")
@click.option("--output", "-o", type=PATH, help="Directory of the files; NAME-firmware when not given.")
@click.option("--name", help="What the files and C names are called; the model's file name when not given.")
@firmware_options
@json_option
@force_option
@quiet_options
def command(
    source: Path | None,
    store: Path | None,
    target: str | None,
    by: str,
    output: Path | None,
    name: str | None,
    project: Project | None,
    data: Data,
    profile: bool,
    depfile: Path | None,
    as_json: bool,
    force: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Write the firmware files of the best accepted variant of a sweep, its sweep.toml or its store.

    The files are those that 'edgetool convert' writes, made of the model in the store: nothing is converted again. Says
    which variant it is, and which come next. Exits with 1, and writes nothing, where none is accepted.
    """
    from edgetool.pipeline.firmware import FirmwareRequest
    from edgetool.sweep.best import best_row, write_best
    from edgetool.sweep.store import open_store

    path = find_store(source, store)
    record, every = read_rows(path)
    label = target if target is not None else _only_target(record)
    chosen = best_row(every, label, by)
    with open_store(path) as opened, ProgressLine(quiet=quiet or as_json) as progress:
        made = write_best(
            opened,
            chosen,
            output=output,
            name=name,
            firmware=FirmwareRequest(project or "plain", data, profile),
            force=force,
            progress=progress,
        )
    if depfile is not None:
        from edgetool.pipeline.depfile import write_depfile

        write_depfile(depfile, made.files, (path, *read_by_name()))
    if as_json:
        from edgetool.report.serialize import document, to_json

        deliver(to_json(document(made.report)), None)
    elif not quiet:
        from edgetool.cli.view import summary, written
        from edgetool.cli.view_sweep_best import best_view

        view = best_view(chosen, every, by, everything=verbose > 0)
        print_lines([*view, "", *summary(made.report), *written(made.files)])


def _only_target(record: SweepRecord) -> str:
    """The label of the sweep's target. Raises UsageError where there are several."""
    labels = [target.label for target in record.targets]
    if len(labels) != 1:
        raise UsageError(f"the sweep has {len(labels)} targets", fix=f"give --target, one of {named(labels)}")
    return labels[0]
