"""From a Keras model, a SavedModel or a .tflite to firmware files."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from edgetool.convert.request import ConvertRequest
from edgetool.errors import UnsupportedModelError, UsageError
from edgetool.finding import Finding
from edgetool.memory.plan_options import PlanOptions, Wanted
from edgetool.memory.planner import MemoryPlan, as_written
from edgetool.model.edit import renumbered
from edgetool.model.reader import read_model
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.analysis import Analysis, analyse
from edgetool.pipeline.compare import measure_quality
from edgetool.pipeline.custom_operators import file_name, read_custom_operators
from edgetool.pipeline.effort import Watch
from edgetool.pipeline.files import check_readable, check_writable, write_files
from edgetool.pipeline.firmware import (
    FirmwareRequest,
    firmware_files,
    firmware_names,
    output_name,
    own_arena_findings,
)
from edgetool.pipeline.plan_request import PlanRequest
from edgetool.pipeline.planned import NO_PLAN, plan_findings, planned_source, search_findings
from edgetool.pipeline.reporting import model_info, report
from edgetool.pipeline.source import Source, open_tflite, own_path, sha256_of
from edgetool.report.document import ModelInfo, OutputInfo, QuantizationInfo, Report
from edgetool.report.serialize import document, to_json
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Converted:
    """What `convert` made; no files where it was strict and found an error."""

    report: Report
    files: tuple[Path, ...]


def convert_file(
    request: ConvertRequest,
    target: Target,
    *,
    output: Path | None = None,
    name: str | None = None,
    force: bool = False,
    offline_plan: bool = True,
    replan: bool = False,
    plan: PlanRequest | None = None,
    firmware: FirmwareRequest | None = None,
    custom_operators: Path | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Convert, plan as asked, estimate, judge, and write every file into `output` (by default NAME-firmware).

    A .tflite is taken as it is, and a memory plan in it is honoured unless `replan` says otherwise. Without
    `offline_plan` the model file is left as it is. firmware: which files beside it, by default a plain project; where
    TFLM lacks an operator, header and data alone, with a finding. custom_operators: the user's description of custom
    operators. strict: where any finding is an error nothing is written, so that no build goes on with that model.
    """
    path = request.path
    if replan and not offline_plan:
        raise UsageError("--no-offline-plan leaves the file as it is, --replan does not", fix="give one of them")
    wishes = plan or PlanRequest()
    if not offline_plan and (wishes.order or wishes.strategy):
        raise UsageError("--no-offline-plan leaves the file as it is: --order and --strategy cannot apply")
    name = output_name(path, name)
    directory = output or Path(f"{name}-firmware")
    wanted_files = firmware or FirmwareRequest()
    names = (f"{name}.tflite", f"{name}.json", *firmware_names(name, wanted_files))
    inputs = tuple(p for p in (path, request.calibration, request.evaluate, custom_operators) if p is not None)
    for item in inputs:
        check_readable(item)
    custom = read_custom_operators(custom_operators)
    check_writable(directory, names, force=force, inputs=inputs)
    say = progress or (lambda step: None)
    taken_as_it_is = path.suffix.lower() == ".tflite" and path.is_file()
    if taken_as_it_is:
        _refuse_conversion_options(request)
        source = open_tflite(path)
        found = Found(model_info(source))
    else:
        source, found = _convert_and_compare(request, name, say)
    wishes.check_applies(source.model, replan=replan or not offline_plan)
    say("planning")
    wanted: Wanted = "as in file" if not offline_plan else "anew" if replan else "best"
    watch = Watch(wishes.time_limit, seed=wishes.seed)
    analysis, planned, unwritten = _planned(source, target, custom, wanted, wishes.options(watch))
    if not taken_as_it_is and analysis.plan.moved:
        analysis, planned = _renumbered(analysis, planned, target, custom)
    memory = analysis.plan
    # Where the file is left as it is, no plan of ours was weighed against TFLM's own planner.
    weighed = offline_plan and not unwritten
    chosen = plan_findings(source.model, memory, target) if memory.offsets or weighed else ()
    open_ends = search_findings(memory, watch, "see --plan-time-limit") if weighed else ()
    quantization = found.quantization
    uncalibrated = quantization is not None and not quantization.calibrated
    files, refused = _firmware(name, planned, memory, target, wanted_files, uncalibrated, custom)
    findings = (*found.findings, *unwritten, *chosen, *open_ends, *refused)
    made = report(
        planned,
        analysis,
        options=_options(request, name, wishes, wanted_files, offline_plan, replan, custom_operators),
        original=replace(found.original, output=OutputInfo(planned.sha256, len(planned.blob))),
        quantization=found.quantization,
        findings=findings if memory.offsets else (*findings, NO_PLAN),
        versions=found.versions,
        trust_model_code=request.trust_model_code,
    )
    files = {f"{name}.tflite": planned.blob, **files, f"{name}.json": to_json(document(made)).encode("ascii")}
    if strict and any(finding.level == "error" for finding in made.findings):
        return Converted(made, ())
    say("writing")
    return Converted(made, write_files(directory, files, force=force, inputs=inputs))


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of the input beside the .tflite made from it."""

    original: ModelInfo
    quantization: QuantizationInfo | None = None
    findings: tuple[Finding, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)


def _refuse_conversion_options(request: ConvertRequest) -> None:
    """A .tflite is not converted: options that would change the conversion must not be ignored in silence."""
    default = ConvertRequest(request.path)
    given = [
        f"--{item.name.replace('_', '-')}"
        for item in fields(ConvertRequest)
        if item.name not in ("path", "limits") and getattr(request, item.name) != getattr(default, item.name)
    ]
    if given:
        raise UsageError(
            f"a .tflite is taken as it is: {', '.join(given)} cannot apply",
            where=str(request.path),
            fix="leave the option out, or give the Keras model",
        )


def _convert_and_compare(request: ConvertRequest, name: str, say: Progress) -> tuple[Source, Found]:
    """The converted model and how far it is from the original; all temporary files are gone on return."""
    from edgetool.convert.convert import convert_model

    with tempfile.TemporaryDirectory(prefix="edgetool-") as folder:
        workdir = Path(folder)
        conversion = convert_model(request, workdir=workdir, progress=say)
        source = Source(f"{name}.tflite", conversion.tflite, read_model(conversion.tflite, name=f"{name}.tflite"))
        say("comparing with the float model")
        quality, findings = measure_quality(conversion, source.model, scheme=request.quantize, workdir=workdir)
    notes = tuple(Finding("conversion", "note", note) for note in conversion.notes)
    if request.quantize != "float32" and not conversion.calibrated:
        uncalibrated = Finding(
            "uncalibrated",
            "warning",
            f"the quantization is uncalibrated: its ranges come from {conversion.samples} synthetic samples, so the "
            "accuracy on real data is unknown; give real inputs with --calibration",
        )
        notes = (uncalibrated, *notes)
    original = _original_info(request.path, source)
    return source, Found(original, quality, (*notes, *findings), conversion.versions)


def _planned(
    source: Source, target: Target, custom: Mapping[str, OperatorEntry] | None, wanted: Wanted, options: PlanOptions
) -> tuple[Analysis, Source, tuple[Finding, ...]]:
    """The analysis of the planned file, and that file; where none can be written, the file as it was and why."""
    analysis = analyse(source, target, custom=custom, wanted=wanted, options=options)
    try:
        planned = planned_source(source, analysis.plan, target)
    except UnsupportedModelError as error:
        finding = Finding("plan-not-written", "warning", f"no plan of ours is in the file: {error}")
        return analyse(source, target, custom=custom, wanted="as in file"), source, (finding,)
    return analyse(planned, target, custom=custom, plan=analysis.plan), planned, ()


def _firmware(
    name: str,
    planned: Source,
    plan: MemoryPlan,
    target: Target,
    request: FirmwareRequest,
    uncalibrated: bool,
    custom: Mapping[str, OperatorEntry] | None,
) -> tuple[dict[str, bytes], tuple[Finding, ...]]:
    """The files beside the .tflite; header and data alone, and why, where TFLM cannot run the model."""
    try:
        made = firmware_files(name, planned, plan, target, request=request, uncalibrated=uncalibrated, custom=custom)
    except UnsupportedModelError as error:
        without = replace(request, project="header", profile=False)
        made = firmware_files(name, planned, plan, target, request=without, uncalibrated=uncalibrated, custom=custom)
        return made, (Finding("program-not-written", "error", f"no program for TFLM is written: {error.what}"),)
    return made, own_arena_findings(name, plan) if request.has_program else ()


def _renumbered(
    analysis: Analysis, planned: Source, target: Target, custom: Mapping[str, OperatorEntry] | None
) -> tuple[Analysis, Source]:
    """The same of the file as it was written: nobody sees the converter's own, so its numbers would tell nothing."""
    written = Source(planned.name, planned.blob, renumbered(planned.model))
    plan = as_written(analysis.plan, written.model, platform_of(target), custom=custom)
    return analyse(written, target, custom=custom, plan=plan), written


def _original_info(path: Path, source: Source) -> ModelInfo:
    """The input file's name, hash and size, with the counts of the converted model."""
    sha256, size_bytes = hash_of_path(path)
    return replace(model_info(source), name=own_path(path).name, sha256=sha256, bytes=size_bytes)


def hash_of_path(path: Path) -> tuple[str, int]:
    """SHA-256 and bytes of a file; of a directory, over its files' relative names and hashes, sorted."""
    if not path.is_dir():
        blob = path.read_bytes()
        return sha256_of(blob), len(blob)
    digest, total = hashlib.sha256(), 0
    for file in sorted(item for item in path.rglob("*") if item.is_file()):
        blob = file.read_bytes()
        total += len(blob)
        digest.update(f"{file.relative_to(path).as_posix()}\n{sha256_of(blob)}\n".encode())
    return digest.hexdigest(), total


def _options(
    request: ConvertRequest,
    name: str,
    plan: PlanRequest,
    firmware: FirmwareRequest,
    offline_plan: bool,
    replan: bool,
    custom_operators: Path | None,
) -> dict[str, object]:
    """What the user asked for, files by name alone: the same input gives the same report anywhere."""
    return {
        "command": "convert",
        "name": name,
        "quantize": request.quantize,
        "io": request.io,
        "dense_per_tensor": request.dense_per_tensor,
        "calibration": request.calibration.name if request.calibration is not None else None,
        "mean": request.mean,
        "std": request.std,
        "scale": request.scale,
        "offset": request.offset,
        "samples": request.samples,
        "seed": request.seed,
        "evaluate": request.evaluate.name if request.evaluate is not None else None,
        "offline_plan": offline_plan,
        "replan": replan,
        **plan.told(),
        **firmware.told(),
        "custom_operators": file_name(custom_operators),
    }
