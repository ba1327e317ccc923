"""Settings from edgetool.toml, or [tool.edgetool] of pyproject.toml, in the current directory.

Top-level keys set the option of that name for every command that has it; a table named after a command sets options
for that command alone. A top-level list applies only to commands whose option is repeatable. The command line wins.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import click

from edgetool.cli.options import Numbers
from edgetool.errors import SettingsError

SETTINGS_NAME = "edgetool.toml"
SETTINGS_TABLE = b"edgetool"
# Options allowed only on the command line: a settings file shipped with a model must not run its code or replace files,
# and a check that updates its own lock checks nothing.
COMMAND_LINE_ONLY = ("force", "trust_model_code")
COMMAND_LINE_ONLY_OF = {"check": ("update", "output")}


def load_settings(ctx: click.Context) -> dict[str, Any]:
    """Return a default map for the group's commands. Raises SettingsError with the file and the key."""
    settings_file = _read()
    if settings_file is None:
        return {}
    _, where, settings = settings_file
    group = ctx.command
    assert isinstance(group, click.Group)
    parameters: dict[str, dict[str, click.Parameter]] = {}
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None and not isinstance(command, click.Group):
            parameters[name] = {
                parameter.name: parameter
                for parameter in command.params
                if isinstance(parameter, click.Option)
                and parameter.name
                and parameter.name not in (*COMMAND_LINE_ONLY, *COMMAND_LINE_ONLY_OF.get(name, ()))
            }
    defaults: dict[str, dict[str, Any]] = {name: {} for name in parameters}
    for key, value in settings.items():
        if key in parameters:
            if not isinstance(value, dict):
                raise SettingsError("must be a table of options", where=f"{where}: {key}")
            continue
        _check_allowed(where, key)
        names = [name for name in parameters if _option_name(key) in parameters[name]]
        if not names:
            everything = [*parameters, *{option for options in parameters.values() for option in options}]
            raise _unknown(where, key, everything)
        if isinstance(value, list):  # a list applies only to commands whose option is repeatable
            names = [name for name in names if _takes_list(parameters[name][_option_name(key)])] or names
        for name in names:
            defaults[name][_option_name(key)] = _checked(
                ctx, parameters[name][_option_name(key)], value, f"{where}: {key}"
            )
    for name in parameters:
        for key, value in settings.get(name, {}).items():
            _check_allowed(where, f"{name}.{key}")
            if _option_name(key) not in parameters[name]:
                raise _unknown(where, f"{name}.{key}", list(parameters[name]))
            place = f"{where}: {name}.{key}"
            defaults[name][_option_name(key)] = _checked(ctx, parameters[name][_option_name(key)], value, place)
    return defaults


def implicit_inputs(*targets: str | None) -> tuple[Path, ...]:
    """Return the files that a command reads without an option: the settings, and user profiles among its targets."""
    from edgetool.pipeline.targets import is_path

    settings_file = _read()
    settings = () if settings_file is None else (settings_file[0],)
    return (*settings, *(Path(name) for name in targets if name is not None and is_path(name)))


def _check_allowed(where: str, key: str) -> None:
    if _option_name(key.rpartition(".")[2]) in COMMAND_LINE_ONLY:
        raise SettingsError("cannot be set in a file", where=f"{where}: {key}", fix="use it on the command line")


def _checked(ctx: click.Context, parameter: click.Parameter, value: Any, where: str) -> Any:
    """Return the value in the form that the option takes. Raises SettingsError with the key."""
    if isinstance(value, list) and not _takes_list(parameter):
        raise SettingsError("takes one value, not a list", where=where)
    if parameter.multiple and not isinstance(value, list):
        value = [value]
    try:
        parameter.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise SettingsError(error.message, where=where) from error
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        # TOML has dates, tables and numbers of any size; click expects text, even for numbers.
        raise SettingsError("is not a valid value for this option", where=where) from error
    return value


def _takes_list(parameter: click.Parameter) -> bool:
    return parameter.multiple or isinstance(parameter.type, Numbers)


def _option_name(key: str) -> str:
    """Return the parameter of a key: dashes become underscores; "json" has another name in Python."""
    name = key.replace("-", "_")
    return "as_json" if name == "json" else name


def _unknown(where: str, key: str, known: list[str]) -> SettingsError:
    names = [name.replace("_", "-") for name in known]
    near = difflib.get_close_matches(key.rpartition(".")[2].replace("_", "-"), names, 1)
    return SettingsError(
        "unknown key", where=f"{where}: {key}", fix=f"did you mean {near[0]!r}?" if near else "remove it"
    )


def _read() -> tuple[Path, str, dict[str, Any]] | None:
    """Return the settings file, the name of edgetool's part of it, and the settings; None if there is none."""
    for name in (SETTINGS_NAME, "pyproject.toml"):
        path = Path(name)
        if not path.is_file():
            continue
        from edgetool.pipeline.output import read_file
        from edgetool.target.toml import MAX_FILE_BYTES, toml_table, toml_text

        blob = read_file(path, what="settings", max_bytes=MAX_FILE_BYTES)
        if name != SETTINGS_NAME and SETTINGS_TABLE not in blob:
            continue  # the file belongs to other tools, which report what is wrong with it
        text = toml_text(blob, where=name, fix="repair it", error=SettingsError)
        content = toml_table(text, where=name, fix="repair it", error=SettingsError)
        if name == SETTINGS_NAME:
            return path, name, content
        tool = content.get("tool", {})
        if isinstance(tool, dict) and "edgetool" in tool:
            if not isinstance(tool["edgetool"], dict):
                raise SettingsError("must be a table", where=f"{name}: tool.edgetool")
            return path, f"{name} [tool.edgetool]", tool["edgetool"]
    return None
