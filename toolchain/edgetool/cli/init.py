"""edgetool init."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, complete_target, force_option, quiet_options
from edgetool.cli.output import notice, print_lines


@click.command(
    "init",
    cls=Command,
    examples=(
        "edgetool init --target nucleo-l4r5zi",
        "edgetool init models/kws.tflite -t rpi-pico -t rpi-pico2 --only settings",
        "edgetool init --dry-run",
    ),
)
@click.argument("models", type=PATH, nargs=-1, metavar="[MODEL]...")
@option(
    "--target",
    "-t",
    group="Target",
    multiple=True,
    metavar="NAME|FILE.toml",
    shell_complete=complete_target,
    help="Board against which the models are checked; repeatable. By default, the board named by the models' reports, "
    "platformio.ini or CMakeLists.txt.",
)
@option(
    "--only",
    group="Output",
    type=click.Choice(["settings", "ci", "pre-commit"]),
    multiple=True,
    help="Write only this file; repeatable.",
)
@option("--dry-run", "-n", group="Output", is_flag=True, help="Print what would be written, but write nothing.")
@force_option
@quiet_options
@click.pass_context
def command(
    ctx: click.Context,
    models: tuple[Path, ...],
    target: tuple[str, ...],
    only: tuple[str, ...],
    dry_run: bool,
    force: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Set up 'edgetool check' for the models of this project: settings, a CI workflow and a pre-commit hook.

    Writes edgetool.toml, .github/workflows/edgetool.yml and .pre-commit-config.yaml to the current directory, for
    each MODEL or for all .tflite files below it. The hook is added to an existing .pre-commit-config.yaml; other files
    are replaced only with --force.
    """
    from edgetool.cli.view_init import dry_run_view, init_view
    from edgetool.pipeline.init import PARTS, InitRequest, plan_init, write_init

    given = ctx.get_parameter_source("target") is ParameterSource.COMMANDLINE
    request = InitRequest(
        models=models,
        targets=target,
        target_source="specified with --target" if given else "kept from the earlier settings",
        parts=tuple(part for part in PARTS if not only or part in only),
        force=force,
    )
    directory = Path()
    plan = plan_init(directory, request)
    if dry_run:
        print_lines(dry_run_view(plan))
        return
    write_init(directory, plan)
    if quiet:
        if plan.by_hand is not None:
            notice("the hook was not added to .pre-commit-config.yaml: run without --quiet to see the entry")
        return
    print_lines(init_view(plan))
