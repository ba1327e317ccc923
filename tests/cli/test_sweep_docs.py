"""docs/sweep.md names what there is: options, keys of a sweep.toml, columns, axes and functions."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import click
import pytest

from edgetool.cli.main import cli
from edgetool.cli.sweep import COMMANDS
from edgetool.errors import SettingsError
from edgetool.sweep.front import AXES
from edgetool.sweep.metrics import PRECISIONS
from edgetool.sweep.spec import read_spec
from edgetool.sweep.table import COLUMNS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "sweep.md").read_text(encoding="utf-8")
SPECS = re.findall(r"```toml\n(# sweep\.toml\n.*?)```", TEXT, re.DOTALL)
NO_OPTIONS_OF_OURS = {"--nthreads"}


def named(section: str) -> set[str]:
    """What the first column of the tables below a heading names."""
    body = TEXT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    first = re.findall(r"^\| (`[^|]*) \|", body, re.MULTILINE)
    return {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}


def test_every_option_is_one_of_the_commands() -> None:
    context = click.Context(cli)
    group = cli.get_command(context, "sweep")
    convert = cli.get_command(context, "convert")
    assert isinstance(group, click.Group)
    assert convert is not None
    commands = [group.get_command(context, name) for name in COMMANDS]
    known = {
        option
        for command in (*commands, convert)
        if command is not None
        for parameter in command.params
        for option in parameter.opts
    }
    assert set(re.findall(r"`?(--[a-z][a-z-]+)", TEXT)) - NO_OPTIONS_OF_OURS <= known
    own = {option for command in commands if command is not None for item in command.params for option in item.opts}
    ubiquitous = {"--force", "--quiet", "--verbose", "--output"}
    for option in sorted(own - ubiquitous):
        assert not option.startswith("--") or option in TEXT, option


@pytest.mark.parametrize("text", SPECS)
def test_its_sweeps_can_be_read(text: str, tmp_path: Path) -> None:
    for name in re.findall(r'"(\w+\.(?:h5|npz))"', text):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "model.py").write_text("")
    (tmp_path / "sweep.toml").write_text(text)
    spec = read_spec(tmp_path / "sweep.toml", trust_model_code=True)
    assert spec.targets


def test_every_key_that_is_explained_is_one(tmp_path: Path) -> None:
    """An unknown key is refused as such; one that is known, only for its value."""
    keys = named("sweep.toml")
    tables = {
        "pruning": {"levels", "method", "exclude"},
        "fine_tune": {"data", "epochs", "learning_rate", "batch_size", "loss"},
        "search": {"trials", "batch", "objectives"},
    }
    assert keys >= set().union(*tables.values())
    (tmp_path / "sweep.toml").write_text("nothing = 1\n" + "".join(f"{key} = true\n" for key in sorted(keys)))
    with pytest.raises(SettingsError, match=r"sweep\.toml") as caught:
        read_spec(tmp_path / "sweep.toml")
    reported = [str(caught.value), *caught.value.details]
    unknown = {
        match[1]
        for line in reported
        if (match := re.search(r"(?:^|: )(\w+): (?:is )?(?:an )?unknown", line)) is not None
    }
    assert unknown == {"nothing", *set().union(*tables.values())}


def test_columns_axes_and_precisions_are_all_there() -> None:
    columns = named("Tables for other programs")
    assert {name for name in columns if not name.startswith("violates_")} == set(COLUMNS)
    assert named("The front") == set(AXES)
    assert named("Precisions") == set(PRECISIONS)


def test_functions_are_where_it_says() -> None:
    for module, names in re.findall(r"^from (edgetool\.sweep\.\w+) import (.+)$", TEXT, re.MULTILINE):
        for name in names.split(", "):
            assert callable(getattr(importlib.import_module(module), name))
    for line in re.findall(r"^\| (`sweep\.[^|]*) \|", TEXT, re.MULTILINE):
        first, *others = re.findall(r"`([\w.]+)\(", line)
        module, _, name = first.rpartition(".")
        for function in (name, *others):
            assert callable(getattr(importlib.import_module(f"edgetool.{module}"), function)), function


def test_toml_and_python_blocks_are_valid() -> None:
    for text in re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL):
        tomllib.loads(text)
    for text in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        compile(text, "docs/sweep.md", "exec")
