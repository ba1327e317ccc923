"""Options of `edgetool check`: limits, on the command line or in edgetool.toml."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from edgetool.cli.command import option
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
    from edgetool.gate.limits import parse_budget

    return parse_budget


BUDGET = Parsed("budget", _budget)
limit = partial(option, group="Limits")
size_limits = stacked(
    limit("--reserve", type=SIZE, default=0, metavar="SIZE", help="RAM reserved for stack and application."),
    limit("--reserve-flash", type=SIZE, default=0, metavar="SIZE", help="Flash reserved for code."),
    limit("--max-arena", type=SIZE, metavar="SIZE", help="Largest arena allowed, whatever memory the target has."),
    limit("--max-latency", type=Parsed("time", _time), metavar="TIME", help="Longest inference allowed, e.g. 50ms."),
)
limit_options = stacked(
    size_limits,
    limit(
        "--max-accuracy-loss",
        type=Parsed("percent", _percent),
        metavar="PERCENT",
        help="Largest accuracy loss due to quantization, in percentage points, e.g. 1%, according to the report.",
    ),
    limit(
        "--report",
        type=PATH,
        multiple=True,
        metavar="FILE",
        help="Report written by 'edgetool convert', if it is not NAME.json next to the model; repeatable.",
    ),
    limit(
        "--memory-budget",
        "memory_budgets",
        type=BUDGET,
        multiple=True,
        metavar="SIZE[:arena|ram|flash]",
        help="Budget to track: exceeding it is reported, but does not fail the check; repeatable.",
    ),
    limit(
        "--active-memory-budget",
        type=BUDGET,
        metavar="SIZE[:arena|ram|flash]",
        help="Budget to enforce: the check fails if it is exceeded.",
    ),
)
lock_options = stacked(
    limit("--lock", type=PATH, default="edgetool.lock", show_default=True, metavar="FILE", help="The lock file."),
    limit("--update", is_flag=True, help="Write the current figures to the lock file."),
    limit("--locked", is_flag=True, help="Fail if anything differs from the lock file."),
    limit(
        "--allow-growth",
        type=Parsed("growth", _allowance),
        multiple=True,
        metavar="PERCENT|SIZE",
        help="Allowed growth over the locked figures, e.g. 2% or 4KiB; repeatable: the larger value applies.",
    ),
)
