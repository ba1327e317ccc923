"""From a .tflite, converted or given, to the files of its firmware: planned, judged, and written all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgetool.errors import UnsupportedModelError
from edgetool.finding import Finding
from edgetool.memory.plan_options import Wanted
from edgetool.memory.planner import MemoryPlan
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.firmware import FirmwareRequest, firmware_files, firmware_names, own_arena_findings
from edgetool.pipeline.output import check_writable, write_files
from edgetool.pipeline.planning import NO_PLAN, PlanRequest, Watch, plan_findings, planned_for, search_findings
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import Source
from edgetool.report.document import ModelInfo, OutputInfo, QuantizationInfo, Report
from edgetool.report.json import document, to_json
from edgetool.target.types import Target

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Converted:
    """What was made; no files where it was strict and found an error."""

    report: Report
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of the input beside the .tflite made from it.

    arena_bytes: by which the model was chosen, if it was; a finding tells where its plan comes to another.
    """

    original: ModelInfo
    quantization: QuantizationInfo | None = None
    findings: tuple[Finding, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    trust_model_code: bool = False
    arena_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the files go: NAME.tflite, NAME.json and those of the firmware request, into the directory.

    force: replace what is there, but never one of the inputs.
    """

    name: str
    directory: Path
    firmware: FirmwareRequest = field(default_factory=FirmwareRequest)
    force: bool = False
    inputs: tuple[Path, ...] = ()

    def check(self) -> None:
        """Raise the OutputError that `write` would raise, before any long work is done."""
        names = (f"{self.name}.tflite", f"{self.name}.json", *firmware_names(self.name, self.firmware))
        check_writable(self.directory, names, force=self.force, inputs=self.inputs)

    def write(self, files: Mapping[str, bytes]) -> tuple[Path, ...]:
        """All files or none; their paths. Raises OutputError."""
        return write_files(self.directory, files, force=self.force, inputs=self.inputs)


@dataclass(frozen=True, slots=True)
class Planning:
    """What is asked of the memory plan. offline_plan: put one into the file. replan: ignore the one that is there."""

    request: PlanRequest = field(default_factory=PlanRequest)
    offline_plan: bool = True
    replan: bool = False

    @property
    def wanted(self) -> Wanted:
        """As the planner calls it."""
        return "as in file" if not self.offline_plan else "anew" if self.replan else "best"


def default_directory(name: str) -> Path:
    """Where the files go when nothing is said."""
    return Path(f"{name}-firmware")


def conversion_findings(quantization: QuantizationInfo, notes: tuple[str, ...]) -> tuple[Finding, ...]:
    """What is to be said of a conversion: its notes, and that its ranges rest on no real data where they do."""
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
    found: Found,
    target: Target,
    destination: Destination,
    *,
    options: Mapping[str, object],
    made_anew: bool,
    planning: Planning | None = None,
    custom: Mapping[str, OperatorEntry] | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Plan as asked, estimate, judge, and write every file.

    options: what the user asked for, for the report. made_anew: the .tflite is none of the user's, but was converted.
    custom: operators that the user describes. strict: where any finding is an error nothing is written. Where TFLM
    lacks an operator, header and data alone are, with a finding.
    """
    planning = planning or Planning()
    say = progress or (lambda step: None)
    wishes, name = planning.request, destination.name
    wishes.check_applies(source.model, replan=planning.replan or not planning.offline_plan)
    say("planning")
    watch = Watch(wishes.time_limit, seed=wishes.seed)
    made = planned_for(
        source,
        target,
        made_anew=made_anew,
        custom=custom,
        wanted=planning.wanted,
        options=wishes.options(watch),
    )
    planned, memory = made.source, made.analysis.plan
    # Where the file is left as it is, no plan of ours was weighed against TFLM's own planner.
    weighed = planning.offline_plan and not made.unwritten
    chosen = plan_findings(source.model, memory, target) if memory.offsets or weighed else ()
    open_ends = search_findings(memory, watch, "see --plan-time-limit") if weighed else ()
    uncalibrated = found.quantization is not None and not found.quantization.calibrated
    files, refused = _firmware(name, planned, memory, target, destination.firmware, uncalibrated, custom)
    other = _other_arena_findings(memory, found.arena_bytes)
    findings = (*found.findings, *made.unwritten, *chosen, *open_ends, *other, *refused)
    told = report(
        planned,
        made.analysis,
        options=dict(options),
        original=replace(found.original, output=OutputInfo(planned.sha256, len(planned.blob))),
        quantization=found.quantization,
        findings=findings if memory.offsets else (*findings, NO_PLAN),
        versions=dict(found.versions),
        trust_model_code=found.trust_model_code,
    )
    files = {f"{name}.tflite": planned.blob, **files, f"{name}.json": to_json(document(told)).encode("ascii")}
    if strict and any(finding.level == "error" for finding in told.findings):
        return Converted(told, ())
    say("writing")
    return Converted(told, destination.write(files))


def _other_arena_findings(plan: MemoryPlan, expected_bytes: int | None) -> tuple[Finding, ...]:
    """Only where a search was cut short, so that it may end elsewhere the next time."""
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
        return made, (Finding("program-not-written", f"no TFLM program was written: {error.what}"),)
    return made, own_arena_findings(name, plan) if request.has_program else ()
