"""edgetool targets."""

from __future__ import annotations

from pathlib import Path

import click

from edgetool.cli.options import PATH, SIZE, complete_target, json_option
from edgetool.cli.output import deliver, print_lines


@click.group("targets")
def command() -> None:
    """List, show and check the profiles of cores and boards."""


@command.command("list")
@click.option("--core", metavar="NAME", help="Only boards with this core, and the core itself.")
@click.option("--min-sram", type=SIZE, metavar="SIZE", help="Only boards with so much SRAM for the arena, e.g. 256KiB.")
@click.option("--min-flash", type=SIZE, metavar="SIZE", help="Only boards with so much flash for the model, e.g. 1MiB.")
@json_option
def list_command(core: str | None, min_sram: int | None, min_flash: int | None, as_json: bool) -> None:
    """List the cores and boards that --target takes."""
    from edgetool.cli.view_targets import target_table
    from edgetool.pipeline.targets import selected_targets
    from edgetool.report.serialize import to_json

    targets = selected_targets(core=core, min_sram_bytes=min_sram, min_flash_bytes=min_flash)
    if as_json:
        from edgetool.pipeline.targets import describe

        deliver(to_json({"schema": "edgetool/1", "targets": [describe(target) for target in targets]}), None)
    else:
        print_lines(target_table(targets))


@command.command("show")
@click.argument("name", shell_complete=complete_target)
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show NAME, a core, a board or the path of a profile, with the source of every figure."""
    from edgetool.cli.view_targets import target_view
    from edgetool.pipeline.targets import describe, resolve_target
    from edgetool.report.serialize import to_json

    target = resolve_target(name)
    if as_json:
        deliver(to_json({"schema": "edgetool/1", "target": describe(target)}), None)
    else:
        print_lines(target_view(target))


@command.command("validate")
@click.argument("profiles", type=PATH, nargs=-1, required=True)
def validate_command(profiles: tuple[Path, ...]) -> None:
    """Check profiles of your own; exits with 2 at the first that is not valid."""
    from edgetool.pipeline.targets import profile_notes, resolve_profile

    for path in profiles:
        target = resolve_profile(path)
        notes = "".join(f"; {note}" for note in profile_notes(path))
        print_lines([f"{path}: valid, {target.name} ({target.core.name}){notes}"])
