"""Help, usage errors and repeated options: the same for every command.

How the program ends, and what it says then.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from edgetool.cli.command import GROUPS, Command, Group, Option, option
from edgetool.cli.errors import BUG, INTERRUPTED, Terminated, exit_code_of, raise_on_signals
from edgetool.cli.main import cli
from edgetool.errors import EdgetoolError
from tests.cli.program import edgetool
from tests.in_process import captured

COLUMNS = 80


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command of the program with its words after `edgetool`."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from walk(inner, (*path, name))


COMMANDS = dict(walk(cli))
LEAVES = {path: command for path, command in COMMANDS.items() if not isinstance(command, click.Group)}


def named(path: tuple[str, ...]) -> str:
    return " ".join(path) or "edgetool"


@pytest.mark.parametrize("path", COMMANDS, ids=named)
def test_every_help_fits_80_columns_and_has_examples(path: tuple[str, ...]) -> None:
    done = captured(*path, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"Usage: edgetool {' '.join(path)}".rstrip())
    assert max(map(len, lines)) <= COLUMNS
    assert not [line for line in lines[1:] if line.endswith("...")]  # click would cut summaries so
    examples = lines[lines.index("Examples:") + 1 :]
    count = next((i for i, line in enumerate(examples) if not line), len(examples))
    assert 2 <= count <= 3
    assert all(line.startswith(f"  edgetool {' '.join(path)}".rstrip()) for line in examples[:count])


@pytest.mark.parametrize("path", COMMANDS, ids=named)
def test_every_example_is_accepted(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert isinstance(command, Command | Group)
    for example in command.examples:
        program, *words = shlex.split(example.partition(" | ")[0])
        assert program == "edgetool"
        found: click.Command = cli
        while isinstance(found, click.Group):
            inner = found.get_command(click.Context(found), words.pop(0))
            assert inner is not None, example
            found = inner
        found.make_context(found.name, words)  # raises for an unknown option or a wrong value


@pytest.mark.parametrize("path", LEAVES, ids=named)
def test_every_option_is_in_a_group_of_the_help(path: tuple[str, ...]) -> None:
    command = LEAVES[path]
    assert isinstance(command, Command), "use cls=Command"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert isinstance(parameter, Option), f"{parameter.name}: use edgetool.cli.command.option"
            assert parameter.help
    shown = captured(*path, "--help").stdout
    sections = [line.removesuffix(":") for line in shown.splitlines() if line.endswith(":") and line[0].isalpha()]
    assert sections == [*(group for group in GROUPS if group in sections), "Examples"]
    assert "Options" not in sections
    if any(parameter.name == "target" for parameter in command.params):
        assert sections[0] == "Target"


def test_a_group_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="is not one of"):
        option("--x", group="Sundry")(lambda x: None)


@pytest.mark.parametrize("path", [(), ("targets",), ("sweep",)], ids=named)
def test_without_a_command_the_help_is_printed_and_the_exit_code_is_2(path: tuple[str, ...]) -> None:
    done = edgetool(*path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == edgetool(*path, "--help").stdout
    assert "\\n" not in done.stderr
    assert len(done.stderr.splitlines()) > 5


def test_a_list_of_commands_is_never_cut() -> None:
    shown = " ".join(edgetool("targets", "--help").stdout.split())
    assert "show Show the profile NAME with the source of every figure. " in shown
    assert "validate Validate profiles of your own; exits with 2 at the first invalid one." in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("covnert",), "unknown command 'covnert'; did you mean 'convert'?"),
        (("PLAN",), "unknown command 'PLAN'; did you mean 'plan'?"),
        (("sweep", "shwo"), "sweep: unknown command 'shwo'; did you mean 'show'?"),
        (("targets", "xyz"), "targets: unknown command 'xyz'; use list, show or validate"),
        (("plan", "m", "--srma", "1"), "plan: unknown option '--srma'; did you mean '--sram' or '--strategy'?"),
        (("plan", "m", "--qqqqq"), "plan: unknown option '--qqqqq'; see 'edgetool plan --help'"),
        (
            ("estimate", "m", "--place", "auto"),
            "estimate: unknown option '--place'; convert, plan, check, emit and verify have it",
        ),
        (("plan",), "plan: MODEL is missing; see 'edgetool plan --help'"),
        (("emit",), "emit: MODEL is missing; see 'edgetool emit --help'"),
        (("plan", "m", "--sram"), "plan: --sram needs a value; see 'edgetool plan --help'"),
        (("plan", "m", "--json=1"), "plan: --json takes no value; leave the value out"),
        (("plan", "m", "--sram", "lots"), "plan: --sram: 'lots' is not a size such as 65536, 64KiB or 64kB"),
        (("plan", "a", "b"), "plan: unexpected extra argument (b); see 'edgetool plan --help'"),
        (("calibrate", "-t", "m4", "-o", "x"), "no measurement was specified; add --measured MODEL=TIME or --log FILE"),
    ],
)
def test_errors_have_one_style(arguments: tuple[str, ...], message: str) -> None:
    done = captured(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"edgetool: error: {message}\n"


def test_a_missing_target_can_be_set_in_a_file() -> None:
    done = captured("convert", "model.h5")
    assert done.returncode == 2
    assert done.stderr.startswith("edgetool: error: convert: --target is missing; add --target NAME, or set target =")


def test_a_hostile_argument_is_reported_in_one_short_line() -> None:
    for arguments in (
        ("x" * 10**5,),
        ("plan", "m", f"--{'y' * 10**5}"),
        ("a\n::error::b\x1b[2J",),
        ("plan", "\n", "\n"),
    ):
        done = captured(*arguments)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert len(done.stderr) < 5000
        assert "\x1b" not in done.stderr


SINGLE = [
    (path, parameter)
    for path, command in LEAVES.items()
    for parameter in command.params
    if isinstance(parameter, click.Option)
    and not (parameter.multiple or parameter.is_flag or parameter.count)
    and parameter.name in ("target", "output", "seed", "sram", "custom_operators", "lock", "store")
]


@pytest.mark.parametrize(("path", "parameter"), SINGLE, ids=lambda item: getattr(item, "name", None) or named(item))
def test_a_single_value_is_never_given_twice(path: tuple[str, ...], parameter: click.Option) -> None:
    name = max(parameter.opts, key=len)
    done = captured(*path, "x", *(word for value in ("1", "2") for word in (parameter.opts[-1], value)))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{name} was specified 2 times but takes only one value; specify it only once" in done.stderr


def test_the_list_of_commands_with_a_single_target_is_complete() -> None:
    assert {named(path) for path, parameter in SINGLE if parameter.name == "target"} == {
        *("convert", "emit", "verify", "compare", "calibrate", "sweep best")
    }


def test_flags_may_be_repeated() -> None:
    assert captured("targets", "list", "m7", "--json", "--json").returncode == 0


def test_tabs_in_details_are_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise EdgetoolError("broken", details=("File x:\n\tline", "\tb\x1b"))

    exit_code_of(fail, tracebacks=False)
    shown = capsys.readouterr().err
    assert "\\t" not in shown
    assert "  |     b\\x1b" in shown
    assert "\x1b" not in shown.replace("\x1b[0m", "")


def keras_file(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")
        archive.writestr("model.weights.h5", "x")
    return path


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return captured(*arguments)


TFLITE_COMMANDS = [
    ("inspect", ()),
    ("plan", ()),
    ("estimate", ("-t", "m4")),
    ("check", ("-t", "m4")),
    ("emit", ()),
    ("verify", ()),
]


@pytest.mark.parametrize(("name", "options"), TFLITE_COMMANDS)
def test_the_error_for_a_keras_model_suggests_convert(tmp_path: Path, name: str, options: tuple[str, ...]) -> None:
    model = keras_file(tmp_path / "my lstm.keras")
    done = run(name, model, *options)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"convert it first: edgetool convert '{model}' --target NAME" in done.stderr
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"\x08\x01\x12\x00")
    done = run(name, folder, *options)
    assert (done.returncode, done.stdout) == (3, "")
    assert "this is a SavedModel directory" in done.stderr
    assert f"edgetool convert {folder} --target NAME" in done.stderr


def test_compare_suggests_convert_for_keras_models_too(tmp_path: Path, tflite: Path) -> None:
    model = keras_file(tmp_path / "lstm.keras")
    for pair in ((model, tflite), (tflite, model)):
        done = run("compare", *pair, "-t", "m4")
        assert (done.returncode, "edgetool convert" in done.stderr) == (3, True)


def fail_to_load() -> None:
    raise ImportError("initialization failed")


@pytest.mark.parametrize(("arrived", "code", "said"), [(True, INTERRUPTED, "interrupted"), (False, BUG, "a bug")])
def test_a_failure_after_a_signal_counts_as_interrupted(
    arrived: bool, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Terminated, "arrived", arrived)
    assert exit_code_of(fail_to_load, tracebacks=False) == code
    assert said in capsys.readouterr().err


def test_a_signal_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminated, "arrived", False)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        raise_on_signals()
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
        assert Terminated.arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
