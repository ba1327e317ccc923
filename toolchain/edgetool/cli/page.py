"""The page for browsers: the option --html of several commands, and what they write."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgetool.cli.command import WORDS, long_name, option
from edgetool.cli.options import PATH
from edgetool.cli.output import deliver
from edgetool.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgetool.pipeline.reporting import Described
    from edgetool.report.document import Report
    from edgetool.report.html import PageReport

html_option = option(
    "--html", group="Output", type=PATH, metavar="FILE.html", help="Also write a page for browsers to FILE.html."
)


def check_page(
    path: Path | None, *, force: bool, inputs: tuple[Path, ...], outputs: Mapping[str, Path | None] | None = None
) -> None:
    """Raise the error of writing the page, before any long work is done; nothing without a path.

    outputs: The other files that the command writes, by option, none of which may be the page.
    """
    from edgetool.pipeline.output import check_writable

    if path is None:
        return
    for name, other in (outputs or {}).items():
        if other is not None and other.resolve() == path.resolve():
            raise OutputError(f"is specified for both {name} and --html", where=str(path), fix="choose another --html")
    check_writable(path.parent, (path.name,), force=force, inputs=inputs, option="--html")


def page_reports(items: Sequence[Described | Report]) -> list[PageReport]:
    """Return the reports as pages show them: with their verdicts, and what drawings need, if their models are known."""
    from edgetool.cli.verdict import verdict_of
    from edgetool.pipeline.report import view_of
    from edgetool.pipeline.reporting import Described
    from edgetool.report.html import PageReport

    pages = []
    for item in items:
        report, view = (item.report, view_of(item)) if isinstance(item, Described) else (item, None)
        verdict = verdict_of(report)
        pages.append(PageReport(report, verdict.text, verdict.negative, view))
    return pages


def write_page(path: Path, data: Mapping[str, Any], *, force: bool, quiet: bool, inputs: tuple[Path, ...]) -> None:
    """Write the page of the data. Raises OutputError."""
    from edgetool.pipeline.report import bundled_page
    from edgetool.report.html import page

    deliver(page(bundled_page(), data), path, force=force, quiet=quiet, inputs=inputs)


def write_reports(
    path: Path, items: Sequence[Described], *, force: bool, quiet: bool, inputs: tuple[Path, ...]
) -> None:
    """Write the page of some reports. Raises OutputError."""
    from edgetool.report.html import reports_data

    data = reports_data(page_reports(items), command_line(click.get_current_context()))
    write_page(path, data, force=force, quiet=quiet, inputs=inputs)


def command_line(context: click.Context) -> str:
    """Return the command as it was typed, with the options of settings files, for a shell.

    Absolute paths are shortened to their last component: a page may leave the machine.
    """
    words = [_word(context.command, word) for word in context.meta.get(WORDS, ())]
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP and isinstance(parameter, click.Option):
            words += _option_words(parameter, context.lookup_default(name))
    return shlex.join([*context.command_path.split(), *words])


def _word(command: click.Command, word: str) -> str:
    """Return a word of the command line, which can be an option with its value: --output=FILE, -oFILE, -qoFILE."""
    start = 0
    if word.startswith("--"):
        start = word.find("=") + 1
    elif word.startswith("-"):
        options = [item for item in command.params if isinstance(item, click.Option)]
        takes_value = {name for item in options if not (item.is_flag or item.count) for name in item.opts}
        start = next((i + 1 for i in range(1, len(word)) if f"-{word[i]}" in takes_value), len(word))
    return word[:start] + _without_directory(word[start:])


def _without_directory(value: str) -> str:
    return Path(value).name if Path(value).is_absolute() else value


def _option_words(parameter: click.Option, value: Any) -> list[str]:
    name = long_name(parameter)
    if isinstance(value, bool):
        return [name] if value else []
    items = value if isinstance(value, list | tuple) else [value]
    return [word for item in items for word in (name, _without_directory(str(item)))]
