"""Where results go: lines on stdout, progress and notices on stderr."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from edgetool.cli.text import color, is_dumb, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType


def print_lines(lines: Sequence[str]) -> None:
    """Print the lines of a view, coloured according to text.color; nothing for no lines."""
    if not lines:
        return
    click.echo("\n".join(lines), color=color())


def deliver(
    text: str, output: Path | None, *, force: bool = False, quiet: bool = True, inputs: tuple[Path, ...] = ()
) -> None:
    """Print the text, or write it to a file, which must not be one of the inputs, and report that on stderr."""
    if output is None:
        click.echo(text, nl=False)
        return
    from edgetool.pipeline.output import write_file

    write_file(output, text.encode("utf-8"), force=force, inputs=inputs)
    if not quiet:
        notice(f"wrote {printable(str(output), 400)}")


def notice(text: str) -> None:
    """Print a line to stderr that is not part of the result."""
    click.echo(text, err=True, color=color())


class ProgressLine:
    """One line on stderr that shows the current step and its seconds.

    Nothing is shown if stderr is not a terminal, or one that cannot rewrite a line (TERM=dumb).
    """

    def __init__(self, *, quiet: bool) -> None:
        self._shown = sys.stderr.isatty() and not quiet and not is_dumb()
        self._started = time.monotonic()

    def __call__(self, step: str) -> None:
        """Show the step in place of the last one."""
        if self._shown:
            seconds = time.monotonic() - self._started
            sys.stderr.write(f"\r\x1b[2K{seconds:5.1f} s  {printable(step, 400)}")
            sys.stderr.flush()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
