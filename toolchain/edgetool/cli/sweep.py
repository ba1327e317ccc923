"""edgetool sweep."""

from __future__ import annotations

import click

from edgetool.cli.lazy_group import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("edgetool.cli.sweep_run", "Compute every variant in a sweep.toml that is not yet in its store."),
    "show": ("edgetool.cli.sweep_show", "Show the variants in a store as a table, CSV or JSON."),
    "pareto": ("edgetool.cli.sweep_pareto", "Show the Pareto front: the accepted variants that no other dominates."),
    "best": ("edgetool.cli.sweep_best", "Write the firmware files of the best variant for a target."),
}


@click.group(
    "sweep",
    cls=LazyGroup,
    modules=COMMANDS,
    examples=(
        "edgetool sweep run sweep.toml",
        "edgetool sweep pareto sweep.toml --plot front.svg",
        "edgetool sweep best sweep.toml --target rpi-pico",
    ),
)
def command() -> None:
    """Compare many variants of a model on many targets: size, time and accuracy.

    A sweep.toml defines what varies: pruning, precision, targets, and parameters of your own. 'run' saves each result
    in a single file, the store, and continues where it was stopped.
    """
