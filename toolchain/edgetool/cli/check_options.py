"""Options of `edgetool check`: limits as people write them, in a command or in edgetool.toml."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from edgetool.cli.options import PATH, SIZE, stacked
from edgetool.errors import UsageError


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A value that a function reads; it is imported when the option is used."""

    def __init__(self, name: str, reader: Callable[[], Callable[[Any], Any]]) -> None:
        self.name, self._reader = name, reader

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """What the function makes of it, or a usage error with its words."""
        try:
            return self._reader()(value)
        except UsageError as error:
            self.fail(error.what, param, ctx)


def _time() -> Callable[[Any], Any]:
    from edgetool.target.quantity import parse_time

    return lambda value: parse_time(str(value))


def _percent() -> Callable[[Any], Any]:
    from edgetool.gate.limits import parse_percent

    return lambda value: parse_percent(str(value))


def _allowance() -> Callable[[Any], Any]:
    from edgetool.gate.limits import parse_allowance

    return lambda value: parse_allowance(str(value))


def _budget() -> Callable[[Any], Any]:
    from edgetool.gate.budgets import parse_budget

    return parse_budget


BUDGET = Parsed("budget", _budget)
size_limits = stacked(
    click.option("--reserve", type=SIZE, default=0, metavar="SIZE", help="RAM to keep free for stack and application."),
    click.option("--reserve-flash", type=SIZE, default=0, metavar="SIZE", help="Flash to keep free for code."),
    click.option("--max-arena", type=SIZE, metavar="SIZE", help="The largest arena, whatever the target has."),
    click.option("--max-latency", type=Parsed("time", _time), metavar="TIME", help="The longest inference, e.g. 50ms."),
)
limit_options = stacked(
    size_limits,
    click.option(
        "--max-accuracy-loss",
        type=Parsed("percent", _percent),
        metavar="PERCENT",
        help="The most percentage points that quantization may cost, e.g. 1%; from the report of convert.",
    ),
    click.option(
        "--report", type=PATH, multiple=True, metavar="FILE", help="The report of convert, if not NAME.json beside it."
    ),
    click.option(
        "--memory-budget",
        "memory_budgets",
        type=BUDGET,
        multiple=True,
        metavar="SIZE[:arena|ram|flash]",
        help="A threshold to track: reported as violated where that is strictly larger.",
    ),
    click.option(
        "--active-memory-budget", type=BUDGET, metavar="SIZE[:arena|ram|flash]", help="The budget that rejects."
    ),
)
lock_options = stacked(
    click.option(
        "--lock", type=PATH, default="edgetool.lock", show_default=True, metavar="FILE", help="The lock file."
    ),
    click.option("--update", is_flag=True, help="Write the figures into the lock file."),
    click.option("--locked", is_flag=True, help="Fail where anything differs from the lock file."),
    click.option(
        "--allow-growth",
        type=Parsed("growth", _allowance),
        multiple=True,
        metavar="PERCENT|SIZE",
        help="By how much arena, model and latency may exceed the locked ones, e.g. 2%; the larger of two.",
    ),
)
