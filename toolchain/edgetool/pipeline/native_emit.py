"""Models as generated C: the files that are written, for a .tflite and for what is converted to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from edgetool.codegen.native.files import constant_bytes, native_files, row_files
from edgetool.errors import UsageError
from edgetool.memory.planner import PlanRequest
from edgetool.pipeline.delivery import Converted, Destination, Origin, Progress
from edgetool.pipeline.emit import Emitted
from edgetool.pipeline.firmware import FirmwareRequest, header_spec, name_findings, output_name
from edgetool.pipeline.native import NativeModel, native_model, native_report
from edgetool.pipeline.output import check_writable, write_files
from edgetool.pipeline.planning import Deadline, search_findings
from edgetool.pipeline.reporting import Described, report
from edgetool.pipeline.source import Source, open_tflite
from edgetool.pipeline.targets import NATIVE
from edgetool.report.document import OutputInfo
from edgetool.report.json import document, to_json
from edgetool.target.places import OPTION as PLACE
from edgetool.target.types import Target


def native_contents(
    name: str,
    model: NativeModel,
    target: Target | None,
    request: FirmwareRequest,
    *,
    uncalibrated: bool = False,
    notes: tuple[str, ...] = (),
) -> dict[str, bytes]:
    """Return the C files of a model by name."""
    spec = header_spec(name, model.source, model.planned.plan, target, uncalibrated=uncalibrated, notes=notes)
    planned = model.planned
    if planned.placed is not None and target is not None:
        if request.profile:
            raise UsageError(
                f"--profile times code with one arena, and {PLACE} makes several", fix=f"omit --profile or {PLACE}"
            )
        places = planned.placed.specs(target, constant_bytes(planned.program))
        spec = replace(spec, places=places, placed_code=planned.placed.code_spec())
    clock_hz = None if target is None else target.clock_hz
    options = {
        "main": request.has_program,
        "cmake": request.project == "cmake",
        "kernels": request.kernels,
        "profile": request.profile,
    }
    if planned.rows is not None:
        problem, plan = planned.rows.problem, planned.rows.plan
        return row_files(spec, planned.program, problem, plan, clock_hz=clock_hz, **options)
    return native_files(spec, planned.program, planned.memory, clock_hz=clock_hz, **options)


def check_native(request: FirmwareRequest) -> None:
    """Raise UsageError for options of TFLM's programs."""
    if request.data == "incbin":
        raise UsageError("--data incbin includes a .tflite, which native code does not contain", fix="omit --data")


def emit_native(
    path: Path,
    target: Target | None,
    *,
    output: Path | None = None,
    name: str | None = None,
    request: FirmwareRequest | None = None,
    plan: PlanRequest | None = None,
    place: str | None = None,
    force: bool = False,
) -> Emitted:
    """Write the C files of a .tflite.

    Args:
        path: The .tflite.
        target: The target, if any.
        output: The directory to write to; by default NAME-firmware.
        name: The name for files and in C; by default, it is derived from the file's name.
        request: Which files to write: "header" leaves out main.c, "cmake" adds CMakeLists.txt.
        plan: How to plan.
        place: As for native_model.
        force: Whether to replace existing files.

    Raises the same errors as native_model; nothing is written then.
    """
    request, plan = request or FirmwareRequest(), plan or PlanRequest()
    check_native(request)
    on_name = name_findings(path, name)
    name = output_name(path, name)
    directory = output or Path(f"{name}-firmware")
    source = open_tflite(path)
    model = native_model(source, target, plan, place=place)
    contents = native_contents(name, model, target, request)
    check_writable(directory, tuple(contents), force=force, inputs=(path,))
    files = write_files(directory, contents, force=force, inputs=(path,))
    options: dict[str, object] = {"command": "emit", "name": name, "runtime": NATIVE, **request.as_options()}
    options |= {"shrink": plan.shrink, "place": place}
    found = (*on_name, *model.findings)
    return Emitted(native_report(model, report(source, model.analysis, options=options, findings=found)), files)


def deliver_native(
    source: Source,
    origin: Origin,
    target: Target,
    destination: Destination,
    *,
    options: Mapping[str, object],
    request: PlanRequest | None = None,
    place: str | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Plan a converted model as native code, judge it, and write the .tflite, the C files and the report.

    Args:
        source: The .tflite, which defines the outputs; `verify` compares them.
        origin: The input from which it was made.
        target: The target.
        destination: Where to write the files.
        options: The options of the user, for the report.
        request: How to plan.
        place: As for native_model.
        strict: Whether to write nothing if any finding is an error.
        progress: Called with each step.

    Raises the same errors as native_model; nothing is written then.
    """
    request = request or PlanRequest()
    report_step = progress or (lambda step: None)
    report_step("planning")
    deadline = Deadline(request.time_limit)
    model = native_model(source, target, request, deadline, place)
    files = native_contents(
        destination.name,
        model,
        target,
        destination.firmware,
        uncalibrated=origin.is_uncalibrated,
        notes=origin.header_notes,
    )
    on_search = search_findings(model.planned.plan, deadline, "see --plan-time-limit")
    delivery_report = native_report(
        model,
        report(
            source,
            model.analysis,
            options={**options, "runtime": NATIVE, "place": place},
            original=replace(origin.original, output=OutputInfo(source.sha256, len(source.blob))),
            quantization=origin.quantization,
            findings=(*origin.findings, *model.findings, *on_search),
            versions=dict(origin.versions),
            trust_model_code=origin.trust_model_code,
        ),
    )
    text = to_json(document(delivery_report))
    name = destination.name
    files = {f"{name}.tflite": source.blob, **files, f"{name}.json": text.encode("ascii")}
    described = Described(source, model.analysis, delivery_report, model)
    if strict and any(finding.level == "error" for finding in delivery_report.findings):
        return Converted(delivery_report, (), described)
    report_step("writing")
    return Converted(delivery_report, destination.write(files), described)
