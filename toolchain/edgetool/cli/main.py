"""The entry point, which finds the command and turns errors into exit codes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from edgetool import __version__
from edgetool.cli.command import LazyGroup
from edgetool.cli.errors import exit_code_of, raise_on_signals

# Command name -> (module, its line in `edgetool --help`). Modules load on use, so that --help starts quickly.
COMMANDS: dict[str, tuple[str, str]] = {
    "convert": (
        "edgetool.cli.convert",
        "Convert a Keras model to firmware files: .tflite, C header, model data, report.",
    ),
    "inspect": ("edgetool.cli.inspect", "Show the operators, tensors and quantization of a .tflite."),
    "plan": ("edgetool.cli.plan", "Plan the tensor arena: its exact size and the offset of every tensor."),
    "estimate": ("edgetool.cli.estimate", "Estimate how long an inference takes, and where the time goes."),
    "fit": ("edgetool.cli.fit", "Show which boards a model fits, and why it does not fit the others."),
    "check": ("edgetool.cli.check", "Check models in CI: limits, budgets, lock file; exits with 1 on failure."),
    "calibrate": ("edgetool.cli.calibrate", "Create a profile of your own board from times measured on it."),
    "emit": ("edgetool.cli.emit", "Write the C and C++ files for a .tflite."),
    "verify": (
        "edgetool.cli.verify",
        "Run the planned model on real TFLM: same outputs, in exactly the predicted arena.",
    ),
    "compare": ("edgetool.cli.compare", "Compare two models or two reports: what changed, and by how much."),
    "report": ("edgetool.cli.report", "Write one HTML page that shows where every byte and millisecond goes."),
    "layout": ("edgetool.cli.layout", "Find the smallest memory layout for a set of buffers, and prove it optimal."),
    "sweep": (
        "edgetool.cli.sweep",
        "Compare many variants of a model on many targets: size, time, accuracy.",
    ),
    "targets": ("edgetool.cli.targets", "List, show and validate the profiles of boards and cores."),
    "init": ("edgetool.cli.init", "Write settings, a CI workflow and a pre-commit hook for a project's models."),
}


def _print_cmake_dir(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Print the directory of the CMake package and exit."""
    if value and not ctx.resilient_parsing:
        click.echo(Path(__file__).resolve().parents[1] / "cmake")
        ctx.exit()


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Print the version, with -v those of Python and of the extras' packages too, and end."""
    if not value or ctx.resilient_parsing:
        return
    click.echo(f"edgetool, version {__version__}")
    if ctx.params.get("verbose"):
        from edgetool.pipeline.versions import package_versions, python_version

        click.echo(f"  {'Python':<12}{python_version()}")
        shown = None
        for item in package_versions():
            label = "" if item.extra == shown else item.extra or "base"
            shown = item.extra
            missing = f"not installed: pip install 'edgetool[{item.extra}]'" if item.extra else "not installed"
            click.echo(f"  {label:<12}{item.package} {item.version or missing}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    modules=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=(
        "edgetool plan model.tflite --target nucleo-l4r5zi",
        "edgetool convert model.keras --target 'Raspberry Pi Pico'",
        "edgetool targets list",
    ),
    epilog="Exit codes: 0 success, 1 failed check, 2 usage error, 3 invalid or unsupported model, "
    "4 conversion failed, 5 a bug in edgetool, 130 interrupted.",
)
@click.option("--verbose", "-v", is_flag=True, is_eager=True, hidden=True)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit; with -v, also the versions of Python and of all dependencies.",
)
@click.option(
    "--cmake-dir",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_cmake_dir,
    help="Print the directory of edgetoolConfig.cmake, for -Dedgetool_DIR=..., and exit.",
)
@click.pass_context
def cli(ctx: click.Context, verbose: bool) -> None:
    """Turn a Keras model into firmware files for TensorFlow Lite Micro.

    Options can also be set in edgetool.toml or pyproject.toml; the command line takes precedence.
    """
    if ctx.invoked_subcommand is not None and ctx.default_map is None:
        from edgetool.cli.settings import load_settings

        ctx.default_map = load_settings(ctx)


def main() -> None:
    """Run edgetool as a program."""
    raise_on_signals()
    tracebacks = any(argument.startswith("-vv") for argument in sys.argv[1:])
    sys.exit(exit_code_of(lambda: cli.main(prog_name="edgetool", standalone_mode=False), tracebacks=tracebacks))
