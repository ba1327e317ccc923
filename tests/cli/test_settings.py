"""Settings of any type for any option: taken, or refused by the key."""

from __future__ import annotations

import itertools
from pathlib import Path

import click
import pytest

from edgetool.cli.main import cli
from edgetool.cli.settings import load_settings
from edgetool.errors import SettingsError

ODD = (
    *("1", "-1", "0.5", "nan", "inf", "true", '""', '"x"', '"\\u0000"', '"a\\nb\\u001b[31m"', "[]", "[[1]]"),
    *("{}", "{a = 1}", "1979-05-27T07:32:00", f"0x{'f' * 900}", '["x", 1]', '["\\u0000"]', f'"{"9" * 400}"'),
)


def test_any_value_of_any_option_is_accepted_or_rejected_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    options = [
        (name, option.name)
        for name, command in commands.items()
        if command is not None and not isinstance(command, click.Group)
        for option in command.params
        if isinstance(option, click.Option)
    ]
    assert len(options) > 150
    values = itertools.cycle(ODD)
    reported = []
    for command, option in options * 2:
        Path("edgetool.toml").write_text(f"[{command}]\n{option} = {next(values)}\n", encoding="utf-8")
        try:
            load_settings(context)
        except SettingsError as error:
            reported.append((f"edgetool.toml: {command}.{option}", error.where))
    assert 0 < len(reported) < 2 * len(options)
    assert all(place == where for place, where in reported)


@pytest.mark.parametrize("key", ["quiet = 1", "quiet = {}", "json = 0.5"])
def test_a_flag_is_true_or_false(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("edgetool.toml").write_text(f"[check]\n{key}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="is not a valid value for this option"):
        load_settings(click.Context(cli))
