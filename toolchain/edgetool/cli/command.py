"""Commands, groups and options as edgetool defines them: grouped help with examples, and strict parsing.

The commands of a LazyGroup load on use, so that --help starts quickly.
"""

from __future__ import annotations

import difflib
import importlib
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from edgetool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import click


# The sections of a command's --help, in this order; an option without a group is in the last one.
GROUPS = ("Target", "Model", "Quantization", "Memory plan", "Limits", "Output", "Other")
USAGE = 2  # exit code
HELP_OPTIONS = ["-h", "--help"]
WORDS = "edgetool.words"  # the key of a context's meta under which a command's words are, as they were typed


class Option(click.Option):
    """An option that --help lists in the section `group`, one of GROUPS."""

    def __init__(self, *args: Any, group: str = GROUPS[-1], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if group not in GROUPS:
            raise ValueError(f"{self.name}: {group!r} is not one of {GROUPS}")
        self.group = group


option = partial(click.option, cls=Option)


class Command(click.Command):
    """A command whose --help groups the options and ends with examples; it rejects repeated single-valued options."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Reject repeated single-valued options, of which click takes the last."""
        ctx.meta[WORDS] = tuple(args)
        if not ctx.resilient_parsing:
            try:
                _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            except click.UsageError as error:
                error.ctx = ctx  # for the name of the command
                raise
            for parameter, count in Counter(order).items():
                single = isinstance(parameter, click.Option) and not (
                    parameter.multiple or parameter.is_flag or parameter.count
                )
                if count > 1 and single:
                    raise UsageError(
                        f"{long_name(parameter)} was specified {count} times but takes only one value",
                        where=command_name(ctx),
                        fix="specify it only once",
                    )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section per group of options."""
        sections: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections[getattr(parameter, "group", GROUPS[-1])].append(record)
        for group, records in sections.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        _write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


class Group(click.Group):
    """A group that suggests commands for a misspelled one, and prints its help if none is given."""

    command_class = Command

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return the line of a command in the list of commands, in full."""
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(limit=1000)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does. Without arguments, write the help to stderr and exit with 2, in any version of click."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True, color=ctx.color)
            ctx.exit(USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises UsageError with the names that are nearest."""
        name = args[0]
        names = self.list_commands(ctx)
        if not ctx.resilient_parsing and name not in names and not name.startswith("-"):
            path = command_name(ctx)
            shown = f"{name[:40]}..." if len(name) > 40 else name
            raise UsageError(
                f"unknown command {shown!r}",
                where=path or None,
                fix=suggestion(name, names) or f"use {', '.join(names[:-1])} or {names[-1]}",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, each in full."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.summary(ctx, name)) for name in self.list_commands(ctx)])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the epilog."""
        _write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


def command_name(ctx: click.Context) -> str:
    """Return the command without the program's name: "plan", "sweep run"; "" for the program itself."""
    names: list[str] = []
    current: click.Context | None = ctx
    while current is not None and current.parent is not None:
        names.insert(0, current.info_name or "")
        current = current.parent
    return " ".join(names)


def long_name(parameter: click.Parameter) -> str:
    """Return what users call a parameter: "--target", or "MODEL" for an argument."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return (parameter.metavar or parameter.human_readable_name).strip("[]").removesuffix("...").removesuffix("]")


def suggestion(word: str, known: Sequence[str]) -> str | None:
    """Return "did you mean 'a' or 'b'?" for the nearest known words; None if no word is near."""
    near = difflib.get_close_matches(word[:100].lower(), known, n=2)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else None


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                for line in example.splitlines():  # never re-wrapped: they are to be copied
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class PipeClosedError(Exception):
    """The reader of our output has closed it. Not an OSError, which click would turn into exit code 1."""


class LazyGroup(Group):
    """A group that imports a command's module only when the command is used.

    modules: command name -> (module, the command's line in the group's --help).
    """

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all commands in the order in which they are used."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command and return it; None for an unknown name."""
        if cmd_name not in self.modules:
            return None
        command: click.Command = importlib.import_module(self.modules[cmd_name][0]).command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a closed pipe is raised as PipeClosedError, before click turns it into exit code 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise PipeClosedError from error

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return the command's line without importing the command."""
        return self.modules[name][1]
