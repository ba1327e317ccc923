"""Plan a .tflite, judge it, and write all files of its firmware at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from edgetool.errors import UnsupportedModelError
from edgetool.finding import Finding
from edgetool.memory.planner import Plan, PlanRequest
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.firmware import FirmwareRequest, firmware_files, firmware_names, unknown_arena_findings
from edgetool.pipeline.output import check_writable, write_files
from edgetool.pipeline.places import Placed, exactly_placed, in_places, with_placed
from edgetool.pipeline.planning import (
    NO_PLAN,
    Deadline,
    check_applies,
    plan_findings,
    planned_for,
    search_findings,
    with_stripes,
)
from edgetool.pipeline.reporting import Described, report
from edgetool.pipeline.source import Source
from edgetool.report.document import ModelInfo, OutputInfo, QuantizationInfo, Report
from edgetool.report.json import document, to_json
from edgetool.target.types import Target

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Converted:
    """The report, and the files that were written; with `strict`, none are if a finding is an error.

    described: the written .tflite with its analysis, for drawings.
    """

    report: Report
    files: tuple[Path, ...]
    described: Described


@dataclass(frozen=True, slots=True)
class Origin:
    """The input from which the .tflite was made, and how.

    arena_bytes: the arena size for which the model was selected, if any; a different size is reported. header_notes:
    sentences for the comment at the top of the header.
    """

    original: ModelInfo
    quantization: QuantizationInfo | None = None
    findings: tuple[Finding, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    trust_model_code: bool = False
    arena_bytes: int | None = None
    header_notes: tuple[str, ...] = ()

    @property
    def is_uncalibrated(self) -> bool:
        """Whether the model was quantized without the user's data."""
        return self.quantization is not None and not self.quantization.calibrated


@dataclass(frozen=True, slots=True)
class Destination:
    """The directory for NAME.tflite, NAME.json and the files that the firmware request selects.

    force: replace existing files, but never one of the inputs. with_places: whether the model's parts are placed.
    """

    name: str
    directory: Path
    firmware: FirmwareRequest = field(default_factory=FirmwareRequest)
    force: bool = False
    inputs: tuple[Path, ...] = ()
    with_places: bool = False

    def check(self) -> None:
        """Raise the OutputError that `write` would raise, before the long work starts."""
        names = (
            f"{self.name}.tflite",
            f"{self.name}.json",
            *firmware_names(self.name, self.firmware, with_places=self.with_places),
        )
        check_writable(self.directory, names, force=self.force, inputs=self.inputs)

    def write(self, files: Mapping[str, bytes]) -> tuple[Path, ...]:
        """Write all files or none, and return their paths. Raises OutputError."""
        return write_files(self.directory, files, force=self.force, inputs=self.inputs)


def default_directory(name: str) -> Path:
    """Return the directory for the files if the user does not specify one."""
    return Path(f"{name}-firmware")


def conversion_findings(quantization: QuantizationInfo, notes: tuple[str, ...]) -> tuple[Finding, ...]:
    """Return the notes of a conversion, and a warning if its ranges were not calibrated on real data."""
    findings = tuple(Finding("conversion", note) for note in notes)
    if quantization.scheme in ("float32", "float16") or quantization.calibrated:
        return findings
    uncalibrated = Finding(
        "uncalibrated",
        f"the quantization is uncalibrated: its ranges come from {quantization.samples} synthetic samples, so the "
        "accuracy on real data is unknown; specify real inputs with --calibration",
    )
    return (uncalibrated, *findings)


def deliver(
    source: Source,
    origin: Origin,
    target: Target,
    destination: Destination,
    *,
    options: Mapping[str, object],
    renumber: bool,
    request: PlanRequest | None = None,
    place: str | None = None,
    custom: Mapping[str, OperatorEntry] | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Plan a model as requested, estimate it, judge it, and write every file.

    If TFLM lacks an operator, only the header and the data are written, with a finding.

    Args:
        source: The .tflite to plan.
        origin: The input from which it was made.
        target: The target.
        destination: Where to write the files.
        options: The options of the user, for the report.
        renumber: Whether the report numbers operators and tensors as in the planned file. This is for a converted
            model: the user has never seen the numbers of the .tflite before its plan.
        request: How to plan.
        place: The memories of head, tail and model (target/places.py), or "auto"; by default, head and tail are one
            arena.
        custom: Operators that the user describes, by custom code.
        strict: Whether to write nothing if any finding is an error.
        progress: Called with each step.
    """
    request = request or PlanRequest()
    report_step = progress or (lambda step: None)
    name = destination.name
    check_applies(request, source.model)
    report_step("planning")
    deadline = Deadline(request.time_limit)
    effort = deadline.effort(request.seed)
    striped = with_stripes(source, target, request, effort, custom, place)
    source = striped.source
    planned = planned_for(source, target, request, effort, plan=striped.plan, renumber=renumber, custom=custom)
    planned_source, plan = planned.source, planned.analysis.plan
    # If the file is left unchanged, no plan was compared with that of TFLM's own planner.
    compared = request.file_plan != "only" and not planned.unwritten
    on_plan = plan_findings(source.model, plan, target) if plan.offsets or compared else ()
    on_search = search_findings(plan, deadline, "see --plan-time-limit") if compared else ()
    analysis, placed = planned.analysis, None
    if place is not None:
        placed = exactly_placed(in_places(planned_source, analysis, target, place, custom), planned_source)
        analysis = placed.judged(analyse(planned_source, placed.target, plan=plan, custom=custom))
    firmware = destination.firmware
    files, on_firmware = _firmware(name, planned_source, plan, target, firmware, origin, custom, placed)
    on_arena = _other_arena_findings(plan, origin.arena_bytes)
    findings = (*origin.findings, *striped.findings, *planned.unwritten, *on_plan, *on_search, *on_arena, *on_firmware)
    unplaced_report = report(
        planned_source,
        analysis,
        options=dict(options),
        original=replace(origin.original, output=OutputInfo(planned_source.sha256, len(planned_source.blob))),
        quantization=origin.quantization,
        findings=findings if plan.offsets else (*findings, NO_PLAN),
        versions=dict(origin.versions),
        trust_model_code=origin.trust_model_code,
    )
    delivery_report = replace(with_placed(unplaced_report, placed), shrink=striped.shrink)
    report_text = to_json(document(delivery_report))
    files = {f"{name}.tflite": planned_source.blob, **files, f"{name}.json": report_text.encode("ascii")}
    described = Described(planned_source, analysis, delivery_report)
    if strict and any(finding.level == "error" for finding in delivery_report.findings):
        return Converted(delivery_report, (), described)
    report_step("writing")
    return Converted(delivery_report, destination.write(files), described)


def _other_arena_findings(plan: Plan, expected_bytes: int | None) -> tuple[Finding, ...]:
    """Report an unexpected arena size: a search that is cut short may end with a different plan each time."""
    if expected_bytes is None or (plan.account is not None and plan.account.bytes == expected_bytes):
        return ()
    now = "is unknown" if plan.account is None else f"is {plan.account.bytes:,} bytes"
    text = (
        f"the arena {now}, but the model was selected with an arena of {expected_bytes:,} bytes: this time, the plan "
        "search found a different plan"
    )
    return (Finding("other-arena", text),)


def _firmware(
    name: str,
    planned: Source,
    plan: Plan,
    target: Target,
    request: FirmwareRequest,
    origin: Origin,
    custom: Mapping[str, OperatorEntry] | None,
    placed: Placed | None,
) -> tuple[dict[str, bytes], tuple[Finding, ...]]:
    """Return the files besides model and report; if TFLM cannot run the model, only header and data, with a finding."""
    write = partial(
        firmware_files,
        name,
        planned,
        plan,
        target,
        uncalibrated=origin.is_uncalibrated,
        notes=origin.header_notes,
        placed=placed,
        custom=custom,
    )
    try:
        files = write(request=request)
    except UnsupportedModelError as error:
        files = write(request=replace(request, project="header", profile=False))
        return files, (Finding("program-not-written", f"no TFLM program was written: {error.what}"),)
    return files, unknown_arena_findings(name, plan) if request.has_program else ()
