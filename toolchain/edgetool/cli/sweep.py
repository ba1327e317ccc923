"""edgetool sweep."""

from __future__ import annotations

import click

from edgetool.cli.lazy_group import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("edgetool.cli.sweep_run", "Compute every variant of a sweep.toml that is not yet in its store."),
    "show": ("edgetool.cli.sweep_show", "The variants of a store as a table, CSV or JSON."),
    "pareto": ("edgetool.cli.sweep_pareto", "The accepted variants that no other beats, and what each step costs."),
    "best": ("edgetool.cli.sweep_best", "The firmware files of the best variant for a target."),
}


@click.group("sweep", cls=LazyGroup, modules=COMMANDS)
def command() -> None:
    """Many variants of a model on many targets: what fits, what it costs, what it loses.

    A sweep.toml says what is varied: pruning, precision, targets, parameters of your own. 'run' keeps every result in
    one file, the store, and goes on where it was stopped.
    """
