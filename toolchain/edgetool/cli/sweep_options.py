"""Option types of `edgetool sweep`: names of axes and of columns, which are imported when an option is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from edgetool.cli.command import option
from edgetool.errors import UsageError

json_option = option("--json", "as_json", group="Output", is_flag=True, help="Print only the JSON document.")
csv_option = option("--csv", "as_csv", group="Output", is_flag=True, help="Print only CSV, one line per variant.")
axes_help = "accuracy, sqnr_db, latency_ms, energy_uj, arena_bytes, model_bytes, macs or model_parameters"


class Axis(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """The name of a figure that variants are compared by."""

    name = "axis"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, or a usage error with those that there are."""
        from edgetool.sweep.front import AXES

        if value not in AXES:
            self.fail(f"{value!r} is not one of {', '.join(AXES)}", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin so."""
        from edgetool.sweep.front import AXES

        return [CompletionItem(name) for name in AXES if name.startswith(incomplete)]


AXIS = Axis()


def one_form(as_json: bool, as_csv: bool) -> None:
    """Raise UsageError where two forms are asked for."""
    if as_json and as_csv:
        raise UsageError("--json and --csv are mutually exclusive", fix="specify only one of them")


def picture_format(path: Path | None) -> str:
    """ "svg" or "png", by the file's suffix; "" for no file. Raises UsageError for another."""
    if path is None:
        return ""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in ("svg", "png"):
        raise UsageError("a plot must be an .svg or .png file", where=str(path), fix="use one of these extensions")
    return suffix
