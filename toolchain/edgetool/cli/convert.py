"""edgetool convert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgetool.cli.options import (
    PATH,
    SIZE,
    InputShape,
    Numbers,
    custom_operators_option,
    firmware_options,
    force_option,
    json_option,
    plan_options,
    quiet_options,
    target_options,
)
from edgetool.cli.output import ProgressLine, deliver, print_lines
from edgetool.cli.settings import read_by_name
from edgetool.errors import FailedCheckError

if TYPE_CHECKING:
    from edgetool.firmware.program import Data
    from edgetool.memory.layout.solve import Strategy
    from edgetool.memory.plan_options import OrderStrategy
    from edgetool.pipeline.firmware import Project


@click.command("convert")
@click.argument("model", type=PATH)
@target_options(required=True)
@click.option("--output", "-o", type=PATH, help="Directory of the files; NAME-firmware when not given.")
@click.option("--name", help="What the files and C names are called; the model's file name when not given.")
@click.option(
    "--quantize",
    type=click.Choice(["int8", "int16x8", "float32"]),
    default="int8",
    show_default=True,
    help="Precision of the arithmetic.",
)
@click.option("--io", type=click.Choice(["int8", "int16", "uint8", "float32"]), help="Type of inputs and outputs.")
@click.option("--dense-per-tensor", is_flag=True, help="Quantize dense layers per tensor, not per channel.")
@click.option(
    "--calibration",
    type=PATH,
    help="Real inputs: .npy, .npz (one array per input), .csv, or a directory of images or .npy files.",
)
@click.option("--mean", type=Numbers(), help="Calibration is read as (x - mean) / std; one number or one per channel.")
@click.option("--std", type=Numbers(), help="See --mean.")
@click.option("--scale", type=Numbers(), help="Calibration is read as x * scale + offset.")
@click.option("--offset", type=Numbers(), help="See --scale.")
@click.option("--samples", type=click.IntRange(1), default=100, show_default=True, help="Synthetic samples.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the synthetic samples.")
@click.option(
    "--rnn",
    type=click.Choice(["auto", "fused", "unrolled"]),
    default="auto",
    show_default=True,
    help="Recurrent layers: an LSTM as one operator, or a copy of each layer for each time step.",
)
@click.option("--allow-approximation", is_flag=True, help="Take cheap forms of activations that TFLM lacks.")
@click.option("--keep-float", multiple=True, metavar="LAYER", help="A Keras layer to leave in float32; repeatable.")
@click.option("--debug-quantization", is_flag=True, help="Show which layers lose how much, and what helps.")
@click.option("--signature", metavar="NAME", help="Which signature of a SavedModel; its serving one when not given.")
@click.option(
    "--input-shape",
    "input_shapes",
    type=InputShape(),
    multiple=True,
    metavar="[NAME=]SIZES",
    help="Sizes of an input that are not fixed, without batch: 96,96,1; repeatable.",
)
@click.option(
    "--custom-objects",
    type=PATH,
    metavar="MODULE.py",
    help="Python code with the model's own layers; needs --trust-model-code.",
)
@click.option("--evaluate", type=PATH, help="An .npz with x and y: float and quantized accuracy are measured.")
@click.option("--no-offline-plan", is_flag=True, help="Write the .tflite as it is, with no plan of ours.")
@click.option("--replan", is_flag=True, help="Ignore the memory plan of a given .tflite and make a new one.")
@plan_options
@click.option(
    "--plan-time-limit",
    type=click.FloatRange(0.01),
    default=10,
    show_default=True,
    help="Seconds to search for a plan.",
)
@click.option("--trust-model-code", is_flag=True, help="Load layers that carry code. Only for models you trust.")
@click.option("--time-limit", type=click.FloatRange(1), default=1800, show_default=True, help="Seconds to convert.")
@click.option("--memory-limit", type=SIZE, default="12GiB", show_default=True, help="Memory to convert in.")
@click.option("--strict", is_flag=True, help="Exit with 1, and write nothing, where it does not fit or cannot run.")
@custom_operators_option
@firmware_options
@json_option
@force_option
@quiet_options
def command(
    model: Path,
    target: str,
    output: Path | None,
    name: str | None,
    no_offline_plan: bool,
    replan: bool,
    order: OrderStrategy | None,
    strategy: Strategy | None,
    plan_time_limit: float,
    time_limit: float,
    memory_limit: int,
    strict: bool,
    custom_operators: Path | None,
    project: Project | None,
    data: Data,
    profile: bool,
    depfile: Path | None,
    as_json: bool,
    force: bool,
    quiet: bool,
    verbose: int,
    **options: Any,
) -> None:
    """Convert MODEL to firmware files.

    MODEL is an .h5 or .keras file, a SavedModel directory, or a .tflite, which is taken as it is. Written
    are NAME.tflite with its memory plan, its C header and data, the C++ files for TFLM and NAME.json, all or none.
    """
    from edgetool.child import Limits
    from edgetool.cli.view import summary, written
    from edgetool.cli.view_verdict import closing, verdict_of
    from edgetool.convert.request import ConvertRequest
    from edgetool.pipeline.convert import convert_file
    from edgetool.pipeline.depfile import write_depfile
    from edgetool.pipeline.firmware import FirmwareRequest
    from edgetool.pipeline.plan_request import PlanRequest
    from edgetool.pipeline.targets import resolve_named
    from edgetool.report.serialize import document, to_json

    overrides = {key: options.pop(key) for key in ("sram", "flash", "clock", "arena_region", "kernels", "runtime")}
    device = resolve_named(target, **overrides)
    assert device is not None
    request = ConvertRequest(path=model, limits=Limits(memory_limit, time_limit), **options)
    with ProgressLine(quiet=quiet or as_json) as progress:
        converted = convert_file(
            request,
            device,
            output=output,
            name=name,
            force=force,
            offline_plan=not no_offline_plan,
            replan=replan,
            plan=PlanRequest(order, strategy, time_limit=plan_time_limit),
            firmware=FirmwareRequest(project or "plain", data, profile),
            custom_operators=custom_operators,
            strict=strict,
            progress=progress,
        )
    if depfile is not None and converted.files:
        given = (request.calibration, request.evaluate, request.custom_objects, custom_operators)
        read = (model, *given, *read_by_name(target))
        write_depfile(depfile, converted.files, read)
    report = converted.report
    if as_json:
        deliver(to_json(document(report)), None)
    elif not quiet:
        lines = [*summary(report, everything=verbose > 0), *written(converted.files)]
        print_lines([*lines, *closing(verdict_of(report), lines)])
    errors = [f"{f.where}: {f.message}" if f.where else f.message for f in report.findings if f.level == "error"]
    if strict and errors:
        raise FailedCheckError(errors[0], where=report.model.name, details=tuple(errors[1:]))
