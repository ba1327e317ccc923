"""Two models side by side: .tflite files, or reports that edgetool wrote about models.

The figures of two reports, and how they differ; and their operators, each beside its counterpart.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from edgetool import __version__
from edgetool.errors import TargetError, UsageError
from edgetool.finding import Finding
from edgetool.gate.alignment import Likeness, align
from edgetool.memory.planner import PlanRequest
from edgetool.model.reader import read_model
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.output import read_file
from edgetool.pipeline.report_file import chosen, quantizations, reports_in
from edgetool.pipeline.reporting import device_options, finding_infos, report
from edgetool.pipeline.source import Source, file_name, read_custom_operators, refuse_saved_model
from edgetool.pipeline.targets import resolve_named
from edgetool.report.comparison import CompareInfo, CompareReport, FigureChange, KindChange, OperatorChange, SideInfo
from edgetool.report.document import Accuracy, Band, EstimateInfo, OperatorInfo, OutputQuality, Provenance, Report
from edgetool.target.load import load_target
from edgetool.target.quantity import format_clock
from edgetool.target.types import Target

Number = float | int
Ends = tuple[float, float | None]


@dataclass(frozen=True, slots=True)
class Known:
    """A figure of one report; ends: between what it lies where it is not exact, None above where nobody knows."""

    value: Number
    ends: Ends | None = None


Reader = Callable[[Report], Known | None]


def figure_changes(a: Report, b: Report) -> tuple[FigureChange, ...]:
    """All figures in the order in which one asks for them; those that a report has not are null there."""
    return tuple(_change(name, unit, read(a), read(b)) for name, unit, read in FIGURES)


def _change(name: str, unit: str, a: Known | None, b: Known | None) -> FigureChange:
    if a is None or b is None:
        return FigureChange(
            name,
            unit,
            None if a is None else a.value,
            None if b is None else b.value,
            None,
            None,
            None if a is None else a.ends,
            None if b is None else b.ends,
        )
    change = b.value - a.value
    percent = _percent(change, a.value)
    certain = _apart(a, b) if change else None
    return FigureChange(name, unit, a.value, b.value, change, percent, a.ends, b.ends, certain)


def _percent(change: Number, of: Number) -> float | None:
    """None for a change from nothing, or from so little that the percents are no number any more."""
    if not of:
        return None if change else 0.0
    percent = 100 * (change / abs(of))
    return percent if isfinite(percent) else None


def _apart(a: Known, b: Known) -> bool:
    """Whether the bands do not overlap."""
    first, second = ((known.value, known.value) if known.ends is None else known.ends for known in (a, b))
    low, high = sorted((first, second), key=lambda ends: ends[0])
    return low[1] is not None and low[1] < high[0]


def _exact(value: Number | None) -> Known | None:
    return None if value is None else Known(value)


def _banded(band: Band | None) -> Known | None:
    return None if band is None else Known(band.value, (band.low, band.high))


def _arena(name: str) -> Reader:
    """A figure of the arena, which is only known from below where the arena is."""

    def read(report: Report) -> Known | None:
        value = None if report.arena is None else getattr(report.arena, name)
        if value is None or report.arena is None:
            return None
        from_below = report.arena.is_lower_bound and name != "layout_bytes"
        return Known(value, (value, None) if from_below else None)

    return read


def _estimate(read: Callable[[EstimateInfo], Known | None]) -> Reader:
    return lambda report: None if report.estimate is None else read(report.estimate)


def _in_latency(read: Callable[[EstimateInfo], float | None], *, inverse: bool = False) -> Reader:
    """A figure that follows from the estimated latency, or from 1 over it: as uncertain as that.

    One that follows from a measured time is exact.
    """

    def of(estimate: EstimateInfo) -> Known | None:
        value, latency = read(estimate), estimate.latency_ms
        if value is None or latency is None or not latency.low or (estimate.measured is not None and not inverse):
            return _exact(value)
        ends = (latency.low / latency.value, latency.high / latency.value)
        return Known(value, (value / ends[1], value / ends[0]) if inverse else (value * ends[0], value * ends[1]))

    return _estimate(of)


def _quality(read: Callable[[OutputQuality], float | None]) -> Reader:
    """The least of all outputs; None where one of them tells nothing."""

    def least(report: Report) -> Known | None:
        outputs = () if report.quantization is None else report.quantization.outputs
        values = [value for value in map(read, outputs) if value is not None]
        return Known(min(values)) if values and len(values) == len(outputs) else None

    return least


def _accuracy(read: Callable[[Accuracy], float]) -> Reader:
    def of(report: Report) -> Known | None:
        quantization = report.quantization
        found = None if quantization is None else quantization.accuracy
        return None if found is None else Known(read(found))

    return of


def _model_bytes(report: Report) -> Known:
    """What lies in flash: the .tflite that was written, or else the one that was read."""
    return Known(report.model.bytes if report.model.output is None else report.model.output.bytes)


# name, unit, reader. "share" is a part of 1.
FIGURES: tuple[tuple[str, str, Reader], ...] = (
    ("arena_bytes", "B", _arena("bytes")),
    ("head_bytes", "B", _arena("head_bytes")),
    ("tail_bytes", "B", _arena("tail_bytes")),
    ("layout_bytes", "B", _arena("layout_bytes")),
    ("stock_arena_bytes", "B", _arena("stock_bytes")),
    ("model_bytes", "B", _model_bytes),
    ("parameters", "", lambda report: Known(report.model.parameters)),
    ("operators", "", lambda report: Known(report.model.operators)),
    ("macs", "", _estimate(lambda estimate: Known(estimate.macs))),
    ("bytes_moved", "B", _estimate(lambda estimate: Known(estimate.bytes_moved))),
    ("bandwidth_gbps", "GB/s", _in_latency(lambda estimate: estimate.bandwidth_gbps, inverse=True)),
    ("bandwidth_utilization", "share", _in_latency(lambda estimate: estimate.bandwidth_utilization, inverse=True)),
    ("latency_ms", "ms", _estimate(lambda estimate: _banded(estimate.latency_ms))),
    ("stream_utilization", "share", _in_latency(lambda estimate: estimate.stream_utilization)),
    ("energy_uj", "uJ", _estimate(lambda estimate: _banded(estimate.energy_uj))),
    ("accuracy", "share", _accuracy(lambda accuracy: accuracy.quantized)),
    ("float_accuracy", "share", _accuracy(lambda accuracy: accuracy.float)),
    ("sqnr_db", "dB", _quality(lambda output: output.sqnr_db)),
    ("cosine", "", _quality(lambda output: output.cosine)),
    ("top1_agreement", "share", _quality(lambda output: output.top1_agreement)),
)


Pair = tuple[OperatorInfo | None, OperatorInfo | None]


def aligned(a: Sequence[OperatorInfo], b: Sequence[OperatorInfo]) -> list[Pair]:
    """Both sequences in their order, subgraph by subgraph; an operator that the other has not stands alone.

    Known again by their labels, and by what they compute and touch (gate/alignment.py).
    """
    a, b = (sorted(side, key=lambda item: item.subgraph) for side in (a, b))
    pairs: list[Pair] = []
    done_a = done_b = 0
    matched = align([_likeness(item) for item in a], [_likeness(item) for item in b])
    for i, j in matched:
        pairs += [*_alone(a[done_a:i], b[done_b:j]), (a[i], b[j])]
        done_a, done_b = i + 1, j + 1
    return [*pairs, *_alone(a[done_a:], b[done_b:])]


def _alone(a: Sequence[OperatorInfo], b: Sequence[OperatorInfo]) -> list[Pair]:
    return [*((item, None) for item in a), *((None, item) for item in b)]


def _likeness(item: OperatorInfo) -> Likeness:
    return Likeness(item.subgraph, item.operator, (item.macs, item.parameter_bytes, item.activation_bytes))


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
    analysis = analyse(source, target, PlanRequest(file_plan="only"), custom=custom)
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
        found.append(Finding("targets-differ", text))
    if first.target is not None and second.target is not None:
        for what, verb in (("kernels", "are"), ("runtime", "is")):
            was, now = getattr(first.target, what), getattr(second.target, what)
            if was != now:
                found.append(Finding("builds-differ", f"the {what} {verb} {was} in A, {now} in B"))
    if None not in (first.clock_hz, second.clock_hz) and first.clock_hz != second.clock_hz:
        text = f"the clock is {_megahertz(first.clock_hz)} in A, {_megahertz(second.clock_hz)} in B"
        found.append(Finding("builds-differ", text))
    was, now = a.report.provenance.tool, b.report.provenance.tool
    if was != now:
        found.append(Finding("tools-differ", f"A was written by {was}, B by {now}"))
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
