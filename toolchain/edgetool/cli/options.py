"""Options that several commands share, and their types."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from edgetool.cli.command import option
from edgetool.errors import EdgetoolError, UsageError

F = TypeVar("F", bound=Callable[..., Any])


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A size or a clock with a unit, read by a function of target.quantity."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or fail with a usage error that states the expected form."""
        if not isinstance(value, str):
            value = str(value)
        from edgetool.target import quantity

        parse = {"size": quantity.parse_size, "clock": quantity.parse_clock}
        try:
            return parse[self.name](value)
        except EdgetoolError as error:
            self.fail(error.what, param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class TimedSize(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A memory: its name, its size in bytes, and the cycles that the core waits for each byte, 0 by default."""

    name = "name=size[:cycles]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int, float]:
        """Return the three, or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        name, separator, rest = str(value).partition("=")
        size, colon, cycles = rest.partition(":")
        try:
            per_byte = float(cycles) if colon else 0.0
        except ValueError:
            per_byte = -1.0
        if not name.strip() or not separator or not 0 <= per_byte <= MAX_CYCLES_PER_BYTE:
            self.fail(f"{value!r} is not a memory: use NAME=SIZE or NAME=SIZE:CYCLES, as in sdram=8MiB:1.5", param, ctx)
        return name.strip(), SIZE.convert(size, param, ctx), per_byte


MAX_CYCLES_PER_BYTE = 1e6
SIZE = Quantity("size")
CLOCK = Quantity("clock")
PATH = click.Path(path_type=Path)


def complete_target(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of packaged profiles that begin with the text, for the shell."""
    from edgetool.target.load import list_targets

    return [name for name in list_targets() if name.startswith(incomplete)]


def complete_runtime(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of packaged runtimes that begin with the text, for the shell."""
    from edgetool.target.load import list_runtimes

    return [name for name in list_runtimes() if name.startswith(incomplete)]


def stacked(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Combine decorators into one; the first is the outermost."""

    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


# How native code gets its inputs and hands over its outputs, and what its plans of rows may cost.
row_options = stacked(
    option(
        "--row-input",
        group="Target",
        is_flag=True,
        default=None,
        help="Native code that the application hands the inputs row by row, so that it need not store them.",
    ),
    option(
        "--row-output",
        group="Target",
        is_flag=True,
        default=None,
        help="Native code from which the application takes the outputs row by row, so that it need not store them.",
    ),
    option(
        "--max-extra-macs",
        group="Target",
        type=float,
        metavar="PERCENT",
        help="Multiply-accumulates that native code, or stripes on TFLM, may compute again to take less memory, in "
        "percent of the model's; 'check' fails if a plan computes more.",
    ),
    option(
        "--max-weights-per-row",
        group="Target",
        type=SIZE,
        metavar="SIZE",
        help="Constants that native code may read for each row; by default, the cache of external flash.",
    ),
    option(
        "--incremental",
        group="Target",
        type=click.IntRange(min=1),
        metavar="ROWS",
        help="Native code for streams: each inference gets ROWS new rows of its input, and computes what they change.",
    ),
)


def target_options(*, required: bool, multiple: bool = False, runtimes: bool = False) -> Callable[[F], F]:
    """Add --target and the options that override its figures.

    multiple: whether --target can be repeated. runtimes: whether --runtime can, to compare them.
    """
    target = partial(option, group="Target")
    several = "; repeat it for several" if multiple else ""
    repeated = "; repeat it to see what another one changes" if runtimes else ""
    return stacked(
        target(
            "--target",
            "-t",
            metavar="NAME|FILE.toml",
            required=required,
            multiple=multiple,
            shell_complete=complete_target,
            help=f"Board, MCU or core ('edgetool targets list'), or the path of your own profile{several}.",
        ),
        target("--sram", type=SIZE, metavar="SIZE", help="SRAM available to the arena, e.g. 512KiB."),
        target("--flash", type=SIZE, metavar="SIZE", help="Flash available to the model, e.g. 1MiB."),
        target("--clock", type=CLOCK, metavar="CLOCK", help="Clock of the core, e.g. 480MHz."),
        target("--arena-region", metavar="NAME", help="Memory region of the board that holds the arena."),
        target(
            "--kernels",
            type=click.Choice(["reference", "cmsis-nn", "esp-nn"]),
            help="Kernel set that the firmware links.",
        ),
        target(
            "--runtime",
            metavar="NAME",
            multiple=runtimes,
            shell_complete=complete_runtime,
            help="TFLM version that the firmware links ('edgetool targets list --runtimes'), or native for generated C "
            f"without a runtime{repeated}.",
        ),
        target(
            "--runtime-tree",
            type=PATH,
            metavar="DIR",
            help="Folder with the TFLM that the firmware links: the nearest version is used, differences are reported.",
        ),
        target(
            "--scratch-budget",
            type=SIZE,
            metavar="SIZE",
            help="How much larger faster kernels may make the arena of native code; by default, edgetool chooses.",
        ),
        target(
            "--optimization",
            type=click.Choice(["O2", "Os"]),
            help="Optimization of TFLM's kernels, for the size of the code; O2 by default, as in TFLM's Makefile.",
        ),
        target(
            "--c-library",
            type=click.Choice(["newlib", "newlib-nano"]),
            help="C library that the firmware links, for the size of the code; newlib by default.",
        ),
        target(
            "--tflm-library",
            type=PATH,
            multiple=True,
            callback=lambda _context, _parameter, paths: paths or None,  # as other options without a value
            metavar="FILE.a",
            help="Static library with your TFLM, in which the code is counted; it must fit in flash with the model. "
            "Repeat it if the kernels are in another one.",
        ),
        row_options,
    )


custom_operators_option = option(
    "--custom-operators",
    group="Model",
    type=PATH,
    metavar="FILE.toml",
    help="File that describes your custom operators in [[operator]] tables.",
)
plan_options = stacked(
    option(
        "--order",
        group="Memory plan",
        type=click.Choice(["original", "breadth-first", "longest-path", "optimal"]),
        help="Execution order of the operators; optimal by default.",
    ),
    option(
        "--strategy",
        group="Memory plan",
        type=click.Choice(["optimal", "greedy", "tflm", "cp-sat"]),
        help="Layout algorithm; optimal by default, the others for comparison.",
    ),
)
keep_inputs_option = option(
    "--keep-inputs",
    group="Memory plan",
    is_flag=True,
    help="Place no output over an input of the model that an operator still reads.",
)
place_option = option(
    "--place",
    group="Memory plan",
    metavar="PART=NAME[,...]|auto",
    help="Memory regions of the board for head and tail, as two arenas of TFLM, and for the model; or, of native code, "
    "for arena, constants and tensors: arena and tensors can have several: NAME+NAME. code=NAME is for the operators' "
    "code, and dma=NAME lets native code copy constants with DMA. auto takes the fastest ones that have room.",
)
shrink_option = option(
    "--shrink",
    group="Memory plan",
    is_flag=True,
    help="Do what it takes to fit the target: rows of native code, or stripes of TFLM, with more and more extra "
    "multiply-accumulates, up to --max-extra-macs.",
)
depfile_option = option(
    "--depfile",
    group="Output",
    type=PATH,
    metavar="FILE",
    help="Write a dependency rule for make or ninja that lists the files that were read.",
)
firmware_options = stacked(
    option(
        "--project",
        group="Output",
        type=click.Choice(["header", "plain", "cmake"]),
        help="Files to write: C header and model data (header), plus a C++ program for TFLM (plain, the default), "
        "plus a CMakeLists.txt (cmake).",
    ),
    option(
        "--data",
        group="Output",
        type=click.Choice(["array", "incbin"]),
        default="array",
        show_default=True,
        help="Embed the model as a C array, or include the file with the assembler, which builds faster.",
    ),
    option(
        "--profile",
        group="Output",
        is_flag=True,
        help="Add a program that prints the ticks of each operator on the device.",
    ),
    depfile_option,
)
kernels_option = option(
    "--no-kernels",
    group="Output",
    is_flag=True,
    help="With --runtime native, leave out the kernels, which the project compiles once for all its models.",
)
json_option = option("--json", "as_json", group="Output", is_flag=True, help="Print only the JSON document.")
report_option = option(
    "--output", "-o", group="Output", type=PATH, metavar="FILE", help="Write the JSON document to FILE."
)
directory_options = stacked(
    option(
        "--output",
        "-o",
        group="Output",
        type=PATH,
        metavar="DIR",
        help="Output directory; NAME-firmware by default.",
    ),
    option(
        "--name",
        group="Output",
        metavar="NAME",
        help="Name of the files and C symbols; by default the model's file name.",
    ),
)
force_option = option("--force", group="Output", is_flag=True, help="Replace existing output files.")
quiet_options = stacked(
    option("--quiet", "-q", group="Output", is_flag=True, help="Print only errors."),
    option("--verbose", "-v", group="Output", count=True, help="Print more details; -vv adds tracebacks."),
)


def refuse_for_native(**options: object) -> None:
    """Raise UsageError for an option that only a plan for TFLM has."""
    for name, value in options.items():
        if value:
            raise UsageError(
                f"--{name.replace('_', '-')} does not apply to native code",
                fix="omit it, or use one of TFLM's runtimes",
            )


class Numbers(click.ParamType):  # type: ignore[type-arg]  # as above
    """One number, or several separated by commas."""

    name = "number[,number...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Return the numbers, all finite, or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        parts = value if isinstance(value, list) else str(value).split(",")
        try:
            numbers = tuple(float(part) for part in parts)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number or numbers separated by commas", param, ctx)
        if not all(abs(number) < float("inf") for number in numbers):
            self.fail(f"{value!r} is not finite", param, ctx)
        return numbers


class Positive(click.ParamType):  # type: ignore[type-arg]  # as above
    """A number above 0 and within what a device can have: no NaN, no infinity, nothing that overflows later."""

    name = "number"

    def __init__(self, minimum: float = 1e-6, maximum: float = 1e9) -> None:
        self.minimum, self.maximum = minimum, maximum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or fail with a usage error that states the expected form."""
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            self.fail(f"{value!r} is not a plain number (without a unit)", param, ctx)
        if isinstance(value, bool) or not self.minimum <= number <= self.maximum:  # also rejects NaN
            self.fail(f"{value!r} is not a number from {self.minimum:g} to {self.maximum:g}", param, ctx)
        return number


POSITIVE = Positive()


class InputShape(click.ParamType):  # type: ignore[type-arg]  # as above
    """NAME=SIZES, or SIZES for the only input, without the batch: "96,96,1", "96x96x1", or a shape as Keras prints it.

    A leading None, ? or -1 is the batch and is left out; a leading 1 is a size or the batch, depending on the rank.
    """

    name = "[NAME=]SIZES"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str | None, tuple[int, ...]]:
        """Return the name, None if there is none, and the sizes, each at least 1."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).rpartition("=")
        name = name.strip()
        parts = re.split(r"\s*[,x×*]\s*|\s+", text.strip().strip("()[]").strip().rstrip(","), flags=re.IGNORECASE)
        if len(parts) > 1 and parts[0] in ("None", "?", "-1"):
            parts = parts[1:]
        sizes = tuple(int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 10)
        if len(sizes) != len(parts) or min(sizes) < 1 or (equals and not name):
            self.fail(
                f"{value!r} is not a shape such as 96,96,1 or NAME=96,96,1: specify every dimension except the batch",
                param,
                ctx,
            )
        return name or None, sizes


INPUT_SHAPE = InputShape()
