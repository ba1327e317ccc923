"""A group whose commands load on use, so that --help starts quickly."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from edgetool.cli.command import Group
from edgetool.cli.errors import PipeClosedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import click


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
