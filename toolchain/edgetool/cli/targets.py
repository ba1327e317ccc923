"""edgetool targets."""

from __future__ import annotations

from pathlib import Path

import click

from edgetool.cli.command import Command, Group, option
from edgetool.cli.options import PATH, SIZE, complete_target, json_option
from edgetool.cli.output import deliver, print_lines


@click.group(
    "targets",
    cls=Group,
    examples=(
        "edgetool targets list stm32h7",
        "edgetool targets show 'Raspberry Pi Pico'",
        "edgetool targets validate my-board.toml",
    ),
)
def command() -> None:
    """List, show and validate the profiles of boards and cores."""


@command.command(
    "list",
    cls=Command,
    examples=(
        "edgetool targets list",
        "edgetool targets list nordic",
        "edgetool targets list --core cortex-m4 --min-sram 256KiB",
    ),
)
@click.argument("text", required=False)
@option("--core", group="Target", metavar="NAME", help="Only boards with this core, and the core itself.")
@option(
    "--min-sram",
    group="Target",
    type=SIZE,
    metavar="SIZE",
    help="Only boards with at least this much SRAM for the arena, e.g. 256KiB.",
)
@option(
    "--min-flash",
    group="Target",
    type=SIZE,
    metavar="SIZE",
    help="Only boards with at least this much flash for the model, e.g. 1MiB.",
)
@json_option
def list_command(
    text: str | None, core: str | None, min_sram: int | None, min_flash: int | None, as_json: bool
) -> None:
    """List the boards and cores that --target accepts.

    TEXT selects those with this text in their name, board, MCU, core or vendor. Case, spaces and punctuation do not
    matter.
    """
    from edgetool.cli.view_targets import target_table
    from edgetool.pipeline.targets import selected_targets
    from edgetool.report.json import to_json

    targets = selected_targets(text, core=core, min_sram_bytes=min_sram, min_flash_bytes=min_flash)
    if as_json:
        from edgetool.pipeline.targets import describe

        deliver(to_json({"schema": "edgetool/1", "targets": [describe(target) for target in targets]}), None)
    else:
        print_lines(target_table(targets))


@command.command(
    "show",
    cls=Command,
    examples=("edgetool targets show nucleo-l4r5zi", "edgetool targets show STM32H743 --json"),
)
@click.argument("name", shell_complete=complete_target)
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show the profile NAME with the source of every figure.

    NAME is a board, an MCU, a core, or the path of a profile.
    """
    from edgetool.cli.view_targets import target_view
    from edgetool.pipeline.targets import describe, resolve_target
    from edgetool.report.json import to_json

    target = resolve_target(name)
    if as_json:
        deliver(to_json({"schema": "edgetool/1", "target": describe(target)}), None)
    else:
        print_lines(target_view(target))


@command.command(
    "validate",
    cls=Command,
    examples=("edgetool targets validate my-board.toml", "edgetool targets validate boards/*.toml"),
)
@click.argument("profiles", type=PATH, nargs=-1, required=True)
def validate_command(profiles: tuple[Path, ...]) -> None:
    """Validate profiles of your own; exits with 2 at the first invalid one."""
    from edgetool.pipeline.targets import profile_notes, resolve_profile

    for path in profiles:
        target = resolve_profile(path)
        notes = "".join(f"; {note}" for note in profile_notes(path))
        print_lines([f"{path}: valid, {target.name} ({target.core.name}){notes}"])
