"""edgetool verify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgetool.cli.command import Command, option
from edgetool.cli.options import (
    PATH,
    force_option,
    json_option,
    place_option,
    quiet_options,
    report_option,
    target_options,
)
from edgetool.cli.output import ProgressLine, deliver, fact, grouped, print_lines, printable
from edgetool.cli.verdict import Summary, closing
from edgetool.cli.view import finding_lines
from edgetool.errors import FailedCheckError, UsageError
from edgetool.figure import significant

if TYPE_CHECKING:
    from pathlib import Path

    from edgetool.report.document import OutputDistance, Report, RuntimeInfo, VerifyInfo

# The displayed name of each check in the document.
LABELS = {
    "plan-safe": "Plan",
    "kernel-fault": "Kernel",
    "native-runs": "Runs",
    "native-on-cores": "Cores",
    "planned-runs": "Runs",
    "outputs-equal": "Outputs",
    "arena-used": "Arena",
    "arena-sufficient": "",
    "arena-smallest": "",
}
PLANNERS = {
    "file": "the file with its plan and without it",
    "edgetool": "the original file and the file with edgetool's plan",
    "runtime": "no plan beats TFLM's own planner, so the unmodified file is compared with itself",
}
STYLES: dict[bool | None, dict[str, Any] | None] = {
    True: None,
    False: {"fg": "red", "bold": True},
    None: {"fg": "yellow"},
}


def verify_view(report: Report) -> list[str]:
    """Show the verdict, every check, and how far other runtimes are from TFLM."""
    verified = report.verify
    assert verified is not None
    lines = [click.style(printable(report.model.name), bold=True), ""]
    lines += _verdict(verified)
    lines += fact("Compared", _compared(report, verified))
    shown = {check.message for check in verified.checks if check.check == "planned-runs" and check.passed}
    for check in verified.checks:
        if check.message not in shown:
            lines += fact(LABELS[check.check], printable(check.message, 400), style=STYLES[check.passed])
        shown.add(check.message)  # the reason why checks were left out is given once
    if verified.kernels_untested:
        sets = " and ".join(verified.kernels_untested)
        version = f" of {report.target.runtime}" if report.target is not None else ""
        text = f"the {sets} kernels{version}, which do not run on this machine; only their known faults are reported"
        lines += fact("Untested", text, style=STYLES[None])
    for runtime in verified.runtimes:
        lines += _runtime(runtime)
    # Kernel faults are already shown among the checks.
    lines += finding_lines([item for item in report.findings if item.rule != "kernel-fault"])
    return [*lines, *closing(_closing_verdict(verified), lines)]


def _state(verified: VerifyInfo) -> bool | None:
    """Return the state of all checks: None if nothing failed but not everything could be checked."""
    if not verified.passed:
        return False
    # Cores are emulated on top of what is required, where the tools are installed.
    required = [check for check in verified.checks if check.check != "native-on-cores"]
    return None if any(check.passed is None for check in required) else True


def _verdict(verified: VerifyInfo) -> list[str]:
    state = _state(verified)
    word = {True: "yes", False: "no", None: "in part"}[state]
    return fact("Verified", word, style=STYLES[state] or {"fg": "green", "bold": True})


def _closing_verdict(verified: VerifyInfo) -> Summary:
    state = _state(verified)
    if state is False:
        failed = next(check.message for check in verified.checks if check.passed is False)
        return Summary(f"Not verified: {failed}", negative=True)
    return Summary("Verified" if state else "Verified in part", negative=False)


def _compared(report: Report, verified: VerifyInfo) -> str:
    """Show the two files, and the runtime that ran them."""
    if verified.native:
        return (
            f"the generated code on this machine and the model on TFLM for {verified.arena.abi} with reference kernels"
        )
    what = PLANNERS[verified.planner]
    if report.provenance.options.get("original") is not None:
        what = f"the model and {printable(verified.original.name)}"
    elif verified.planner == "edgetool" and report.target is not None:
        what += f" for {printable(report.target.name)}"
    return f"{what}, on TFLM for {verified.arena.abi} with reference kernels"


def _runtime(runtime: RuntimeInfo) -> list[str]:
    if runtime.not_run is not None:
        return fact(runtime.runtime, f"not compared: {printable(runtime.not_run, 400)}", style=STYLES[None])
    lines = []
    for number, output in enumerate(runtime.outputs):
        lines += fact("" if number else runtime.runtime, f"{printable(output.output, 30)}: {_distance(output)}")
    return lines


def _distance(output: OutputDistance) -> str:
    """Return "2 of 80 elements differ from TFLM's, by at most 1 LSB"."""
    if not output.differing:
        return "equal to TFLM's"
    by = {
        "lsb": lambda value: f"at most {value:.0f} LSB",
        "absolute": lambda value: f"at most {significant(value)}",
    }
    most = "infinity or NaN" if output.max_difference is None else by[output.unit](output.max_difference)
    return f"{grouped(output.differing)} of {grouped(output.elements)} elements differ from TFLM's, by {most}"


@click.command(
    "verify",
    cls=Command,
    examples=(
        "edgetool verify model.tflite",
        "edgetool verify model-firmware/model.tflite --original model.tflite",
        "edgetool verify model.tflite --inputs samples.npz --samples 32",
    ),
)
@click.argument("model", type=PATH)
@target_options(required=False)
@option(
    "--original",
    group="Model",
    type=PATH,
    metavar="FILE.tflite",
    help="Compare MODEL with this file; by default with itself without a plan.",
)
@option(
    "--inputs",
    group="Model",
    type=PATH,
    metavar="FILE",
    help="An .npz (or .npy for one input) with samples to run after the random ones.",
)
@option(
    "--samples",
    group="Model",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    metavar="N",
    help="Number of random samples.",
)
@option(
    "--seed",
    group="Model",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed for the random samples.",
)
@option(
    "--run-unsafe-plan",
    group="Memory plan",
    is_flag=True,
    help="Run a plan that fails the layout check, to see its effect on the outputs.",
)
@place_option
@json_option
@report_option
@force_option
@quiet_options
def command(
    model: Path,
    target: str | None,
    original: Path | None,
    inputs: Path | None,
    samples: int,
    seed: int,
    run_unsafe_plan: bool,
    place: str | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Run MODEL, a .tflite file, with and without its memory plan on real TensorFlow Lite Micro.

    A model without a plan is planned first, for the target if one is given. All samples run in sequence, so that
    recurrent state is tested as well. The outputs must be equal bit for bit, and the arena exactly as large as
    predicted for this machine: the model must run in that size, and must fail with 16 bytes less. LiteRT's results are
    shown only for comparison. Exits with 1 if a check fails.

    With --runtime native, the generated C is compiled by this machine's compiler with sanitizers, and its outputs must
    be equal to TFLM's. It also runs on the target's core, or on all that QEMU has, if cross compilers and QEMU are
    installed.
    """
    from edgetool.pipeline.targets import resolve_with_native
    from edgetool.pipeline.verify import verify_model
    from edgetool.report.json import document, to_json

    device, native = resolve_with_native(target, **overrides)
    with ProgressLine(quiet=quiet or as_json) as progress:
        if native:
            from edgetool.pipeline.native_verify import verify_native

            if original is not None or run_unsafe_plan:
                option = "--original" if original is not None else "--run-unsafe-plan"
                raise UsageError(f"{option} does not apply to native code", fix="omit it")
            report = verify_native(
                model, device, inputs=inputs, samples=samples, seed=seed, place=place, progress=progress
            )
        else:
            if place is not None:
                raise UsageError(
                    "TFLM runs on this machine with a single arena, so that --place has no effect",
                    fix="omit it, or add --runtime native",
                )
            report = verify_model(
                model,
                device,
                original=original,
                inputs=inputs,
                samples=samples,
                seed=seed,
                run_unsafe_plan=run_unsafe_plan,
                progress=progress,
            )
    read = tuple(path for path in (model, original, inputs) if path is not None)
    if as_json or output is not None:
        deliver(to_json(document(report)), output, force=force, quiet=quiet, inputs=read)
    elif not quiet:
        print_lines(verify_view(report))
    assert report.verify is not None
    failed = [f"{check.check}: {check.message}" for check in report.verify.checks if check.passed is False]
    if failed:
        raise FailedCheckError(failed[0], where=report.model.name, details=tuple(failed[1:]))
