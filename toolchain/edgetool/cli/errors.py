"""How errors leave the program: one clear line on stderr and the exit code of its class."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, ClassVar

import click

from edgetool.cli.command import PipeClosedError, command_name, long_name
from edgetool.cli.output import color, printable
from edgetool.errors import EdgetoolError, UsageError, in_words
from edgetool.gate.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

MAX_CHARACTERS = 4000  # of a message
TAB_COLUMNS = 4  # in lines of details
INTERRUPTED = 130
BUG = 5
USAGE = 2


class Terminated(BaseException):
    """A signal arrived; raised so that temporary files and children are cleaned up.

    arrived: whether a signal has arrived. Extension modules turn an exception during their import into an ImportError.
    """

    arrived: ClassVar[bool] = False


def raise_on_signals() -> None:
    """Raise Terminated at the first signal that asks the program to end; later signals wait for the clean-up."""

    def terminate(signum: int, frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        Terminated.arrived = True
        raise Terminated

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    for number in numbers:
        signal.signal(number, terminate)


def exit_code_of(run: Callable[[], object], *, tracebacks: bool) -> int:
    """Run the program and return its exit code. No exception but SystemExit escapes."""
    try:
        code = run()
        return code if isinstance(code, int) else 0  # click returns the code of an Exit raised in a command
    except (EdgetoolError, click.ClickException) as caught:
        if tracebacks:
            traceback.print_exc()
        error = caught if isinstance(caught, EdgetoolError) else usage_error(caught)
        _say(str(error))
        for line in error.details:
            click.echo(f"  | {printable(line.expandtabs(TAB_COLUMNS), 200)}", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt, Terminated):
        _say("interrupted")
        return INTERRUPTED
    except PipeClosedError:
        # The reader closed our output: print nothing, and prevent an error from Python at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if tracebacks:
            traceback.print_exc()
        place = f"{error.filename}: " if error.filename else "the output or the current directory: "
        _say(f"{place}{error.strerror or error}")
        return USAGE
    except Exception as error:
        if tracebacks:
            traceback.print_exc()
        if Terminated.arrived:
            _say("interrupted")
            return INTERRUPTED
        _say(
            f"a bug in edgetool: {type(error).__name__}: {printable(str(error), 200)}; "
            "please report it and include the output of the same command with -vv"
        )
        return BUG


def usage_error(error: click.ClickException) -> UsageError:
    """Return what click reports about the command line as an error in edgetool's own wording."""
    ctx = getattr(error, "ctx", None)
    command = command_name(ctx) if ctx is not None else ""
    see_help = f"see '{' '.join(['edgetool', *command.split(), '--help'])}'"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        name = long_name(error.param)
        fix = see_help
        if name == "--target":
            fix = "add --target NAME, or set target = \"NAME\" in edgetool.toml ('edgetool targets list')"
        return UsageError(f"{name} is missing", where=command or None, fix=fix)
    if isinstance(error, click.NoSuchOption):
        near = " or ".join(map(repr, sorted(error.possibilities or ())[:3]))
        others = [] if ctx is None else commands_with(error.option_name, ctx)
        fix = f"did you mean {near}?" if near else see_help
        if others:
            fix = f"{in_words(others)} {'has' if len(others) == 1 else 'have'} it"
        return UsageError(f"unknown option {error.option_name!r}", where=command or None, fix=fix)
    if isinstance(error, click.BadOptionUsage):
        missing = "requires" in error.message
        what = f"{error.option_name} {'needs a value' if missing else 'takes no value'}"
        return UsageError(what, where=command or None, fix=see_help if missing else "leave the value out")
    if isinstance(error, click.BadParameter) and error.param is not None:
        where = ": ".join(filter(None, (command, long_name(error.param))))
        return UsageError(error.message.rstrip("."), where=where)
    message = error.format_message().rstrip(".").removeprefix("Got ")
    return UsageError(f"{message[:1].lower()}{message[1:]}", where=command or None, fix=see_help)


def commands_with(option: str, ctx: click.Context) -> list[str]:
    """Return the commands of the program that have an option."""
    root = ctx.find_root()
    if not isinstance(root.command, click.Group):
        return []
    commands = {name: root.command.get_command(root, name) for name in root.command.list_commands(root)}
    return [
        name
        for name, command in commands.items()
        if command is not None and any(option in parameter.opts for parameter in command.params)
    ]


def _say(text: str) -> None:
    prefix = click.style("edgetool: error:", fg="red", bold=True)
    click.echo(f"{prefix} {_one_line(text)}", err=True, color=color())


def _one_line(text: str) -> str:
    """Return the message with visible characters only, and without sequences that CI runners interpret as commands."""
    return visible(text, MAX_CHARACTERS).replace("##", r"#\x23")
