"""edgetool convert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgetool.cli.command import Command, option
from edgetool.cli.options import (
    PATH,
    SIZE,
    InputShape,
    Numbers,
    custom_operators_option,
    directory_options,
    firmware_options,
    force_option,
    json_option,
    keep_inputs_option,
    kernels_option,
    place_option,
    plan_options,
    quiet_options,
    shrink_option,
    target_options,
)
from edgetool.cli.output import ProgressLine, deliver, print_lines
from edgetool.cli.page import check_page, html_option, write_reports
from edgetool.cli.settings import implicit_inputs
from edgetool.errors import FailedCheckError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from edgetool.codegen.spec import Data
    from edgetool.memory.layout.solve import LayoutStrategy
    from edgetool.memory.order.solve import OrderStrategy
    from edgetool.pipeline.firmware import Project


@click.command(
    "convert",
    cls=Command,
    examples=(
        "edgetool convert model.keras -t nucleo-l4r5zi --calibration samples.npz",
        "edgetool convert model.h5 -t rpi-pico --calibration images/ --scale 0.00392",
        "edgetool convert model.keras -t my-board.toml --quantize int16x8 -o out/",
    ),
)
@click.argument("model", type=PATH)
@target_options(required=True)
@option(
    "--signature", group="Model", metavar="NAME", help="Signature of a SavedModel; by default, the serving signature."
)
@option(
    "--input-shape",
    "input_shapes",
    group="Model",
    type=InputShape(),
    multiple=True,
    metavar="[NAME=]SIZES",
    help="Shape of an input with variable sizes, without the batch dimension, e.g. 96,96,1; repeatable.",
)
@option(
    "--custom-objects",
    group="Model",
    type=PATH,
    metavar="MODULE.py",
    help="Python module that defines the model's own layers; needs --trust-model-code.",
)
@option(
    "--rnn",
    group="Model",
    type=click.Choice(["auto", "fused", "unrolled"]),
    default="auto",
    show_default=True,
    help="Convert an LSTM to one operator (fused), or copy each recurrent layer for every time step (unrolled).",
)
@option(
    "--allow-approximation",
    group="Model",
    is_flag=True,
    help="Replace activations that TFLM does not support with cheaper approximations.",
)
@option(
    "--keep-layout",
    group="Model",
    is_flag=True,
    help="Keep the order of the axes of a PyTorch or ONNX model; by default, the channels are last on the device.",
)
@option(
    "--trust-model-code",
    group="Model",
    is_flag=True,
    help="Load layers that contain Python code. Use it only for models that you trust.",
)
@option(
    "--quantize",
    group="Quantization",
    type=click.Choice(["int8", "int16x8", "float32"]),
    help="Precision of the arithmetic; int8 by default for Keras models, and unchanged for a .tflite.",
)
@option(
    "--io",
    group="Quantization",
    type=click.Choice(["int8", "int16", "uint8", "float32"]),
    help="Type of the inputs and outputs; by default that of the arithmetic.",
)
@option(
    "--dense-per-tensor",
    group="Quantization",
    is_flag=True,
    help="Quantize the weights of dense layers per tensor, not per channel.",
)
@option(
    "--calibration",
    group="Quantization",
    type=PATH,
    metavar="PATH",
    help="Representative inputs: .npy, .npz (one array per input), .csv, or a directory of images or .npy files.",
)
@option(
    "--mean",
    group="Quantization",
    type=Numbers(),
    metavar="X[,X...]",
    help="Normalize the calibration data as (x - mean) / std; one number, or one per channel.",
)
@option("--std", group="Quantization", type=Numbers(), metavar="X[,X...]", help="See --mean.")
@option(
    "--scale",
    group="Quantization",
    type=Numbers(),
    metavar="X[,X...]",
    help="Normalize the calibration data as x * scale + offset.",
)
@option("--offset", group="Quantization", type=Numbers(), metavar="X[,X...]", help="See --scale.")
@option(
    "--samples",
    group="Quantization",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="Number of synthetic samples to use without --calibration.",
)
@option(
    "--seed",
    group="Quantization",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed for the synthetic samples.",
)
@option(
    "--keep-float",
    group="Quantization",
    multiple=True,
    metavar="LAYER",
    help="Keep this Keras layer in float32; repeatable.",
)
@option(
    "--debug-quantization",
    group="Quantization",
    is_flag=True,
    help="Show how much each layer loses to quantization, and how to reduce it.",
)
@option(
    "--evaluate",
    group="Quantization",
    type=PATH,
    metavar="FILE.npz",
    help="Measure float and quantized accuracy on the arrays x and y.",
)
@option(
    "--optimize/--no-optimize",
    group="Memory plan",
    default=None,
    help="Clean up the model without a change of its outputs; by default for all but a .tflite that is used unchanged.",
)
@option("--no-offline-plan", group="Memory plan", is_flag=True, help="Write the .tflite without a memory plan.")
@option(
    "--replan", group="Memory plan", is_flag=True, help="Ignore the memory plan in a given .tflite and make a new one."
)
@plan_options
@option(
    "--plan-time-limit",
    group="Memory plan",
    type=click.FloatRange(0.01),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the search for a plan.",
)
@option(
    "--time-limit",
    group="Limits",
    type=click.FloatRange(1),
    default=1800,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the conversion.",
)
@option(
    "--memory-limit",
    group="Limits",
    type=SIZE,
    default="12GiB",
    show_default=True,
    metavar="SIZE",
    help="Memory limit for the conversion.",
)
@option(
    "--strict",
    group="Limits",
    is_flag=True,
    help="Exit with 1 and write nothing if the model does not fit or cannot run.",
)
@keep_inputs_option
@shrink_option
@place_option
@custom_operators_option
@directory_options
@firmware_options
@kernels_option
@json_option
@html_option
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
    strategy: LayoutStrategy | None,
    plan_time_limit: float,
    time_limit: float,
    memory_limit: int,
    strict: bool,
    keep_inputs: bool,
    shrink: bool,
    place: str | None,
    custom_operators: Path | None,
    project: Project | None,
    data: Data,
    profile: bool,
    no_kernels: bool,
    depfile: Path | None,
    as_json: bool,
    html: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
    **options: Any,
) -> None:
    """Convert MODEL to firmware files.

    MODEL is an .h5 or .keras file, a SavedModel directory, a program of PyTorch (.pt2), an .onnx file, or a .tflite
    file. A .tflite file is used unchanged unless --quantize or --optimize is specified: the former quantizes a float32
    model, the latter cleans it up. The output directory contains NAME.tflite with its memory plan, a C header, the
    model as C data, the C++ files for TFLM, and the report NAME.json.
    """
    from edgetool.child import ProcessLimits
    from edgetool.cli.verdict import closing, verdict_of
    from edgetool.cli.view import summary, written
    from edgetool.convert.request import ConvertRequest
    from edgetool.memory.planner import PlanRequest
    from edgetool.pipeline.convert import convert_file
    from edgetool.pipeline.firmware import FirmwareRequest
    from edgetool.pipeline.output import write_depfile
    from edgetool.pipeline.targets import resolve_for_plan
    from edgetool.report.json import document, to_json

    if options["calibration"] is not None:
        _reject_synthetic_options(click.get_current_context())
    overrides = {
        key: options.pop(key)
        for key in (
            *("sram", "flash", "clock", "arena_region", "kernels", "runtime", "runtime_tree"),
            *("scratch_budget", "row_input", "row_output", "max_extra_macs", "max_weights_per_row", "incremental"),
            *("optimization", "c_library", "tflm_library"),
        )
    }
    device, _, extra_macs = resolve_for_plan(target, **overrides)
    assert device is not None
    given = (options["calibration"], options["evaluate"], options["custom_objects"], custom_operators)
    inputs = tuple(path for path in (model, *given) if path is not None)
    check_page(html, force=force, inputs=inputs, outputs={"--depfile": depfile})
    request = ConvertRequest(path=model, limits=ProcessLimits(memory_limit, time_limit), **options)
    with ProgressLine(quiet=quiet or as_json) as progress:
        converted = convert_file(
            request,
            device,
            output=output,
            name=name,
            force=force,
            offline_plan=not no_offline_plan,
            replan=replan,
            plan=PlanRequest(
                order,
                strategy,
                time_limit=plan_time_limit,
                shrink=shrink,
                keep_inputs=keep_inputs,
                max_extra_macs=extra_macs,
            ),
            firmware=FirmwareRequest(project or "plain", data, profile, kernels=not no_kernels),
            place=place,
            custom_operators=custom_operators,
            strict=strict,
            progress=progress,
        )
    if depfile is not None and converted.files:
        read = (model, *given, *implicit_inputs(target))
        write_depfile(depfile, converted.files, read)
    report = converted.report
    if html is not None and converted.files:
        write_reports(html, [converted.described], force=force, quiet=quiet, inputs=inputs)
    if as_json:
        deliver(to_json(document(report)), None)
    elif not quiet:
        lines = [*summary(report, everything=verbose > 0), *written(converted.files)]
        print_lines([*lines, *closing(verdict_of(report), lines)])
    errors = [f"{f.where}: {f.message}" if f.where else f.message for f in report.findings if f.level == "error"]
    if strict and errors:
        raise FailedCheckError(errors[0], where=report.model.name, details=tuple(errors[1:]))


def _reject_synthetic_options(context: click.Context) -> None:
    """Raise UsageError if options for synthetic samples are combined with real samples."""
    for name in ("samples", "seed"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            what = f"--{name} applies only to synthetic samples, but --calibration provides real ones"
            raise UsageError(what, fix=f"omit --{name} or --calibration")
