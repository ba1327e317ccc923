"""edgetool sweep best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgetool.cli.command import Command, option
from edgetool.cli.options import directory_options, firmware_options, force_option, json_option, quiet_options
from edgetool.cli.output import ProgressLine, deliver, print_lines, wrapped
from edgetool.cli.settings import implicit_inputs
from edgetool.cli.sweep import AXIS, axes_help, find_store, named, read_rows, source_options
from edgetool.cli.view_sweep import AXIS_WORDS, accuracy_word, layout, table_lines, target_heading, variant_text
from edgetool.errors import UsageError
from edgetool.sweep.front import AXES, FALLBACK_AXES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgetool.codegen.spec import Data
    from edgetool.pipeline.firmware import Project
    from edgetool.sweep.metrics import Row
    from edgetool.sweep.store import SweepRecord

RUNNERS_UP = 3


def best_view(chosen: Row, all_rows: Sequence[Row], by: str, *, everything: bool = False) -> list[str]:
    """Show the chosen row, the best of its target on the axis, out of all rows of the sweep."""
    accepted = [
        row
        for row in all_rows
        if row.judged is not None and row.judged.accepted and row.variant.target == chosen.variant.target
    ]
    has_values = any(AXES[by].value(row) is not None for row in accepted)
    by = by if has_values else FALLBACK_AXES.get(by, by)
    word = accuracy_word(all_rows) if by == "accuracy" else AXIS_WORDS[by]
    best = "highest" if AXES[by].better == "higher" else "lowest"
    text = f"variant {chosen.number} ({variant_text(chosen.variant)}), the {best} {word} of {len(accepted)} accepted"
    next_best = runners_up(chosen, accepted, by)
    rows = [chosen, *next_best]
    lines = [
        target_heading(chosen.variant.target, text),
        "",
        *table_lines(rows, layout(rows, all_rows=all_rows, everything=everything)),
    ]
    left = len(accepted) - len(rows)
    return lines + (wrapped(f"and {left} more accepted variant{'' if left == 1 else 's'}", "") if left else [])


def runners_up(chosen: Row, accepted: Sequence[Row], by: str) -> list[Row]:
    """Return the next best rows, ranked as the chosen one was."""
    from edgetool.sweep.best import best_row

    left = [row for row in accepted if row.number != chosen.number]
    runners: list[Row] = []
    while left and len(runners) < RUNNERS_UP:
        runners.append(best_row(left, chosen.variant.target, by))
        left.remove(runners[-1])
    return runners


@click.command(
    "best",
    cls=Command,
    examples=(
        "edgetool sweep best sweep.toml --target rpi-pico",
        "edgetool sweep best sweep.toml --by latency_ms -o firmware/model",
    ),
)
@source_options
@option(
    "--target",
    "-t",
    group="Target",
    metavar="LABEL",
    help="Target of the sweep; required if the sweep has several.",
)
@option(
    "--by",
    group="Model",
    type=AXIS,
    default="accuracy",
    show_default=True,
    metavar="FIGURE",
    help=f"Figure that decides which variant is best: {axes_help}.",
)
@directory_options
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
    """Write the firmware files of the best accepted variant of a sweep.

    Give the sweep.toml or the store. The files are those that 'edgetool convert' writes, made from the model in the
    store without converting it again. The output names the variant and the runners-up. Exits with 1 and writes nothing
    if no variant is accepted.
    """
    from edgetool.pipeline.firmware import FirmwareRequest
    from edgetool.sweep.best import best_row, write_best
    from edgetool.sweep.store import open_store

    path = find_store(source, store)
    record, all_rows = read_rows(path)
    label = target if target is not None else _only_target(record)
    chosen = best_row(all_rows, label, by)
    with open_store(path) as opened, ProgressLine(quiet=quiet or as_json) as progress:
        best = write_best(
            opened,
            chosen,
            output=output,
            name=name,
            firmware=FirmwareRequest(project or "plain", data, profile),
            force=force,
            progress=progress,
        )
    if depfile is not None:
        from edgetool.pipeline.output import write_depfile

        write_depfile(depfile, best.files, (path, *implicit_inputs()))
    if as_json:
        from edgetool.report.json import document, to_json

        deliver(to_json(document(best.report)), None)
    elif not quiet:
        from edgetool.cli.view import summary, written

        view = best_view(chosen, all_rows, by, everything=verbose > 0)
        print_lines([*view, "", *summary(best.report), *written(best.files)])


def _only_target(record: SweepRecord) -> str:
    """Return the label of the sweep's only target. Raises UsageError if there are several."""
    labels = [target.label for target in record.targets]
    if len(labels) != 1:
        raise UsageError(f"the sweep has {len(labels)} targets", fix=f"specify --target with one of {named(labels)}")
    return labels[0]
