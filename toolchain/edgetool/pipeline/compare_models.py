"""Two models side by side: .tflite files, or reports that edgetool wrote about models."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetool import __version__
from edgetool.errors import TargetError, UsageError
from edgetool.finding import Finding
from edgetool.model.reader import read_model
from edgetool.pipeline.accuracy_reports import quantizations
from edgetool.pipeline.align_operators import aligned
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.compared_figures import figure_changes
from edgetool.pipeline.custom_operators import file_name, read_custom_operators
from edgetool.pipeline.files import read_file
from edgetool.pipeline.report_file import chosen, reports_in
from edgetool.pipeline.reporting import device_options, finding_infos, report
from edgetool.pipeline.source import Source, refuse_saved_model
from edgetool.pipeline.targets import resolve_named
from edgetool.report.comparison import CompareInfo, CompareReport, KindChange, OperatorChange, SideInfo
from edgetool.report.document import OperatorInfo, Provenance, Report
from edgetool.target.load import load_target
from edgetool.target.quantity import format_clock
from edgetool.target.types import Target

IDENTIFIER = b"TFL3"


@dataclass(frozen=True, slots=True)
class _Side:
    info: SideInfo
    report: Report


def compare_models(
    a: Path,
    b: Path,
    target_name: str | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    custom_operators: Path | None = None,
    insist: bool = True,
) -> CompareReport:
    """How b differs from a.

    Each is a .tflite, judged on the target as the file is (with the plan in it, or TFLM's own), or the JSON document of
    a report, which is taken as it was written.

    target_name: what models are judged on, and which of several reports in a document is meant. overrides: as
    resolve_named takes them. Raises UsageError for documents that cannot be read, for a model without a target, and,
    if the user insists, for a target or overrides that decide nothing; ModelError for a model that cannot be read.
    """
    for path in (a, b):
        refuse_saved_model(path)
    blobs = [read_file(path, what="a .tflite or a report") for path in (a, b)]
    is_report = [looks_like_report(path, blob) for path, blob in zip((a, b), blobs, strict=True)]
    named = {key: value for key, value in (overrides or {}).items() if value is not None}
    if insist and all(is_report) and (named or custom_operators is not None):
        raise UsageError(
            "target overrides and --custom-operators cannot be applied to reports",
            fix="specify the .tflite files, or regenerate the reports",
        )
    custom = read_custom_operators(custom_operators)
    target = None
    if not all(is_report) or (target_name is not None and target_name.endswith(".toml")):
        target = resolve_named(target_name, **named)
    wanted = target.name if target is not None else _report_name(target_name, a, b, blobs, is_report)
    sides = []
    for path, blob, reported in zip((a, b), blobs, is_report, strict=True):
        if reported:
            found = chosen(reports_in(blob, where=str(path)), wanted, where=str(path))
            sides.append(_of_report(found))
        elif target is None:
            raise UsageError("is a model, but no target is specified", where=str(path), fix="add --target")
        else:
            source = Source(path.name, blob, read_model(blob, name=str(path)))
            sides.append(_of_model(path, source, target, custom))
    first, second = sides
    if insist and wanted is not None and all(_target_name(side.report) != wanted for side in sides):
        names = " and ".join(dict.fromkeys(_target_name(side.report) for side in sides))
        raise UsageError(f"neither report is for target {wanted}; they are for {names}", fix="leave out --target")
    return CompareReport(
        provenance=Provenance(
            tool=f"edgetool {__version__}",
            versions={"python": platform.python_version()},
            options={
                "command": "compare",
                "custom_operators": file_name(custom_operators),
                **device_options(target),
            },
            trust_model_code=False,
        ),
        compare=CompareInfo(
            a=first.info,
            b=second.info,
            figures=figure_changes(first.report, second.report),
            operator_kinds=_kinds(first.report, second.report),
            operators=_operators(first.report, second.report),
        ),
        findings=finding_infos(_differences(first, second)),
    )


def _report_name(
    target_name: str | None, a: Path, b: Path, blobs: Sequence[bytes], is_report: Sequence[bool]
) -> str | None:
    """The target's name as reports have it: as it is given if one has it so, else that of the profile it means."""
    if target_name is None:
        return None
    names = {
        _target_name(item)
        for path, blob, reported in zip((a, b), blobs, is_report, strict=True)
        if reported
        for item in reports_in(blob, where=str(path))
    }
    if target_name in names:
        return target_name
    try:
        return load_target(target_name).name
    except TargetError:  # the profile may have been the user's own
        return target_name


def looks_like_report(path: Path, blob: bytes) -> bool:
    """Whether the file is to be read as a report: by its content, and by its name where that tells nothing."""
    if blob[4:8] == IDENTIFIER:
        return False
    return blob.lstrip()[:1] == b"{" or path.suffix.lower() == ".json"


def _of_report(found: Report) -> _Side:
    command, clock = (found.provenance.options.get(key) for key in ("command", "clock_hz"))
    info = SideInfo(
        kind="report",
        name=found.model.name,
        sha256=found.model.sha256,
        command=command if isinstance(command, str) else None,
        planner=None,
        target=found.target,
        clock_hz=clock if isinstance(clock, int) and not isinstance(clock, bool) else None,
    )
    return _Side(info, found)


def _of_model(path: Path, source: Source, target: Target, custom: Any) -> _Side:
    """Judged now; what quantization cost is in the report of the conversion, where that lies beside the file."""
    analysis = analyse(source, target, custom=custom, wanted="as in file")
    (quantization,) = quantizations((path,), (source,), ())
    made = report(source, analysis, options={}, quantization=quantization)
    info = SideInfo("model", source.name, source.sha256, None, analysis.plan.planner, made.target, target.clock_hz)
    return _Side(info, made)


def _target_name(found: Report) -> str:
    return "no target" if found.target is None else found.target.name


def _differences(a: _Side, b: _Side) -> tuple[Finding, ...]:
    """What decides figures beside the model, and is another on either side."""
    first, second = a.info, b.info
    found = []
    was, now = _target_name(a.report), _target_name(b.report)
    if was != now:
        text = f"the target is {was} in A, {now} in B: arena, time and energy apply to different devices"
        found.append(Finding("targets-differ", "warning", text))
    if first.target is not None and second.target is not None:
        for what, verb in (("kernels", "are"), ("runtime", "is")):
            was, now = getattr(first.target, what), getattr(second.target, what)
            if was != now:
                found.append(Finding("builds-differ", "warning", f"the {what} {verb} {was} in A, {now} in B"))
    if None not in (first.clock_hz, second.clock_hz) and first.clock_hz != second.clock_hz:
        text = f"the clock is {_megahertz(first.clock_hz)} in A, {_megahertz(second.clock_hz)} in B"
        found.append(Finding("builds-differ", "warning", text))
    was, now = a.report.provenance.tool, b.report.provenance.tool
    if was != now:
        found.append(Finding("tools-differ", "note", f"A was written by {was}, B by {now}"))
    return tuple(found)


def _megahertz(clock_hz: int | None) -> str:
    return "unknown" if clock_hz is None else format_clock(clock_hz)


def _kinds(a: Report, b: Report) -> tuple[KindChange, ...] | None:
    if a.estimate is None or b.estimate is None:
        return None
    first, second = (Counter(item.operator for item in side.operators) for side in (a.estimate, b.estimate))
    return tuple(KindChange(kind, first[kind], second[kind]) for kind in sorted(first | second))


def _operators(a: Report, b: Report) -> tuple[OperatorChange, ...] | None:
    if a.estimate is None or b.estimate is None:
        return None
    timed = a.estimate.latency_ms is not None, b.estimate.latency_ms is not None
    pairs = aligned(a.estimate.operators, b.estimate.operators)
    return tuple(_operator(was, now, timed) for was, now in pairs)


def _operator(a: OperatorInfo | None, b: OperatorInfo | None, timed: tuple[bool, bool]) -> OperatorChange:
    either = a or b
    assert either is not None  # a pair has at least one
    return OperatorChange(
        operator=either.operator,
        a=None if a is None else f"{a.subgraph}:{a.index}",
        b=None if b is None else f"{b.subgraph}:{b.index}",
        a_ms=a.ms.value if a is not None and timed[0] else None,
        b_ms=b.ms.value if b is not None and timed[1] else None,
        a_macs=None if a is None else a.macs,
        b_macs=None if b is None else b.macs,
        a_memory_bytes=None if a is None else a.memory_bytes,
        b_memory_bytes=None if b is None else b.memory_bytes,
    )
