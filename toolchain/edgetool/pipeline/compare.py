"""Compare two models: .tflite files, or reports that edgetool wrote about models.

The comparison lists the figures of both and how they differ, and each operator next to its counterpart.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from edgetool import __version__
from edgetool.errors import TargetError, UsageError
from edgetool.finding import Finding
from edgetool.gate.alignment import OperatorKey, align
from edgetool.gate.drift import OnRuntime, drift_between
from edgetool.gate.limits import Allowance
from edgetool.memory.planner import PlanRequest
from edgetool.model.reader import read_model
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.check import lock_entry
from edgetool.pipeline.native import native_model, native_report
from edgetool.pipeline.output import read_file
from edgetool.pipeline.report_file import quantizations, reports_in, select_report
from edgetool.pipeline.reporting import Described, device_options, finding_infos, report
from edgetool.pipeline.source import Source, file_name, read_custom_operators, refuse_saved_model
from edgetool.pipeline.targets import resolve_named
from edgetool.report.comparison import CompareInfo, CompareReport, FigureChange, KindChange, OperatorChange, SideInfo
from edgetool.report.document import (
    Accuracy,
    Band,
    DriftInfo,
    EstimateInfo,
    OperatorInfo,
    OutputQuality,
    Provenance,
    Report,
)
from edgetool.target.load import load_target
from edgetool.target.quantity import format_clock
from edgetool.target.types import Target

Number = float | int
Bounds = tuple[float, float | None]


@dataclass(frozen=True, slots=True)
class FigureValue:
    """A figure of one report.

    Attributes:
        value: The value.
        bounds: The lower and the upper bound if the value is not exact; the upper bound is None if it is unknown.
    """

    value: Number
    bounds: Bounds | None = None


Reader = Callable[[Report], FigureValue | None]


def figure_changes(a: Report, b: Report) -> tuple[FigureChange, ...]:
    """Return all figures in the order of FIGURES; a figure that a report does not contain is None there."""
    return tuple(_change(name, unit, read(a), read(b)) for name, unit, read in FIGURES)


def _change(name: str, unit: str, a: FigureValue | None, b: FigureValue | None) -> FigureChange:
    if a is None or b is None:
        return FigureChange(
            name,
            unit,
            None if a is None else a.value,
            None if b is None else b.value,
            None,
            None,
            None if a is None else a.bounds,
            None if b is None else b.bounds,
        )
    change = b.value - a.value
    percent = _percent(change, a.value)
    certain = _is_disjoint(a, b) if change else None
    return FigureChange(name, unit, a.value, b.value, change, percent, a.bounds, b.bounds, certain)


def _percent(change: Number, base: Number) -> float | None:
    """Return the change in percent of the base; None if the base is zero, or so small that the quotient overflows."""
    if not base:
        return None if change else 0.0
    percent = 100 * (change / abs(base))
    return percent if isfinite(percent) else None


def _is_disjoint(a: FigureValue, b: FigureValue) -> bool:
    """Return whether the bands do not overlap."""
    first, second = ((item.value, item.value) if item.bounds is None else item.bounds for item in (a, b))
    low, high = sorted((first, second), key=lambda bounds: bounds[0])
    return low[1] is not None and low[1] < high[0]


def _exact(value: Number | None) -> FigureValue | None:
    return None if value is None else FigureValue(value)


def _banded(band: Band | None) -> FigureValue | None:
    return None if band is None else FigureValue(band.value, (band.low, band.high))


def _arena(name: str) -> Reader:
    """Return a reader of a figure of the arena, which is only a lower bound if the arena is."""

    def read(report: Report) -> FigureValue | None:
        value = None if report.arena is None else getattr(report.arena, name)
        if value is None or report.arena is None:
            return None
        is_lower_bound = report.arena.is_lower_bound and name != "layout_bytes"
        return FigureValue(value, (value, None) if is_lower_bound else None)

    return read


def _estimate(read: Callable[[EstimateInfo], FigureValue | None]) -> Reader:
    return lambda report: None if report.estimate is None else read(report.estimate)


def _in_latency(read: Callable[[EstimateInfo], float | None], *, inverse: bool = False) -> Reader:
    """Return a reader of a figure that is proportional to the estimated latency, or inversely proportional to it.

    The figure is as uncertain as the latency; a figure that follows from a measured time is exact.
    """

    def figure(estimate: EstimateInfo) -> FigureValue | None:
        value, latency = read(estimate), estimate.latency_ms
        if value is None or latency is None or not latency.low or (estimate.measured is not None and not inverse):
            return _exact(value)
        low, high = latency.low / latency.value, latency.high / latency.value
        return FigureValue(value, (value / high, value / low) if inverse else (value * low, value * high))

    return _estimate(figure)


def _quality(read: Callable[[OutputQuality], float | None]) -> Reader:
    """Return a reader of the minimum over all outputs, which is None if the value of any output is unknown."""

    def minimum(report: Report) -> FigureValue | None:
        outputs = () if report.quantization is None else report.quantization.outputs
        values = [value for value in map(read, outputs) if value is not None]
        return FigureValue(min(values)) if values and len(values) == len(outputs) else None

    return minimum


def _accuracy(read: Callable[[Accuracy], float]) -> Reader:
    def figure(report: Report) -> FigureValue | None:
        accuracy = None if report.quantization is None else report.quantization.accuracy
        return None if accuracy is None else FigureValue(read(accuracy))

    return figure


def _model_bytes(report: Report) -> FigureValue:
    """Return the size of the model in flash: native code's constants, or the .tflite that was written, else read."""
    if report.is_native and report.flash is not None:
        return FigureValue(report.flash.model_bytes)
    return FigureValue(report.model.bytes if report.model.output is None else report.model.output.bytes)


def _code_bytes(report: Report) -> FigureValue | None:
    return None if report.flash is None else _banded(report.flash.code_bytes)


# Name, unit and reader. A "share" is a fraction of 1.
FIGURES: tuple[tuple[str, str, Reader], ...] = (
    ("arena_bytes", "B", _arena("bytes")),
    ("head_bytes", "B", _arena("head_bytes")),
    ("tail_bytes", "B", _arena("tail_bytes")),
    ("layout_bytes", "B", _arena("layout_bytes")),
    ("stock_arena_bytes", "B", _arena("stock_bytes")),
    ("model_bytes", "B", _model_bytes),
    ("code_bytes", "B", _code_bytes),
    ("parameters", "", lambda report: FigureValue(report.model.parameters)),
    ("operators", "", lambda report: FigureValue(report.model.operators)),
    ("macs", "", _estimate(lambda estimate: FigureValue(estimate.macs))),
    ("bytes_moved", "B", _estimate(lambda estimate: FigureValue(estimate.bytes_moved))),
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
    """Pair the operators of both sequences, in their order and subgraph by subgraph.

    An operator without a counterpart is paired with None. Counterparts are matched by label, subgraph, MACs and bytes
    (gate/alignment.py).
    """
    a, b = (sorted(side, key=lambda item: item.subgraph) for side in (a, b))
    pairs: list[Pair] = []
    done_a = done_b = 0
    matched = align([_operator_key(item) for item in a], [_operator_key(item) for item in b])
    for i, j in matched:
        pairs += [*_unmatched(a[done_a:i], b[done_b:j]), (a[i], b[j])]
        done_a, done_b = i + 1, j + 1
    return [*pairs, *_unmatched(a[done_a:], b[done_b:])]


def joined(operators: Sequence[OperatorInfo]) -> list[OperatorInfo]:
    """Return the operators with the copies that compute the stripes of one as the first of them: times and bytes added.

    All copies read the same parameters.
    """
    result: dict[tuple[int, int], OperatorInfo] = {}
    for item in operators:
        key = item.subgraph, item.index if item.copy_of is None else item.copy_of
        known = result.get(key)
        result[key] = (
            item
            if known is None
            else replace(
                known,
                macs=known.macs + item.macs,
                activation_bytes=known.activation_bytes + item.activation_bytes,
                memory_bytes=known.memory_bytes + item.memory_bytes,
                cycles=known.cycles + item.cycles,
                ms=Band(known.ms.value + item.ms.value, known.ms.low + item.ms.low, known.ms.high + item.ms.high),
            )
        )
    return list(result.values())


def _unmatched(a: Sequence[OperatorInfo], b: Sequence[OperatorInfo]) -> list[Pair]:
    return [*((item, None) for item in a), *((None, item) for item in b)]


def _operator_key(item: OperatorInfo) -> OperatorKey:
    return OperatorKey(item.subgraph, item.operator, (item.macs, item.parameter_bytes, item.activation_bytes))


IDENTIFIER = b"TFL3"


@dataclass(frozen=True, slots=True)
class _Side:
    info: SideInfo
    report: Report
    described: Described | None = None


def compare_models(
    a: Path,
    b: Path,
    target_name: str | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    custom_operators: Path | None = None,
    reject_unused: bool = True,
    sides: list[Described | Report] | None = None,
    runtimes: Sequence[str] = (),
) -> CompareReport:
    """Report how b differs from a.

    Each file is either a .tflite, which is analysed unchanged on the target (with the plan in it, or TFLM's own), or
    the JSON document of a report, which is used as it was written.

    Args:
        a: The first file.
        b: The second file.
        target_name: The target on which models are analysed; also selects one of several reports in a document.
        overrides: Keyword arguments of resolve_named.
        custom_operators: The user's description of custom operators.
        reject_unused: Whether to reject a target or overrides that have no effect.
        runtimes: The runtime of both, or of each.
        sides: Where to add both models with their analyses, or the reports, for drawings.

    Raises:
        UsageError: There are more than two runtimes, a document cannot be read, a model has no target, or, with
            `reject_unused`, an option has no effect.
        ModelError: A model cannot be read.
    """
    for path in (a, b):
        refuse_saved_model(path)
    blobs = [read_file(path, what="a .tflite or a report") for path in (a, b)]
    is_report = [looks_like_report(path, blob) for path, blob in zip((a, b), blobs, strict=True)]
    specified = {key: value for key, value in (overrides or {}).items() if value is not None}
    if reject_unused and all(is_report) and (specified or runtimes or custom_operators is not None):
        raise UsageError(
            "target overrides and --custom-operators cannot be applied to reports",
            fix="specify the .tflite files, or regenerate the reports",
        )
    custom = read_custom_operators(custom_operators)
    if len(runtimes) > 2:
        raise UsageError("at most two runtimes can be compared", where="--runtime", fix="specify A's and then B's")
    builds: list[Target | None] = [None]
    if not all(is_report) or (target_name is not None and target_name.endswith(".toml")):
        named = [{"runtime": each} for each in runtimes] or [{}]
        builds = [resolve_named(target_name, **{**specified, **runtime}) for runtime in named]
    target = builds[0]
    report_target = target.name if target is not None else _report_name(target_name, a, b, blobs, is_report)
    found: list[_Side] = []
    for path, blob, reported, build in zip((a, b), blobs, is_report, (target, builds[-1]), strict=True):
        if reported:
            selected = select_report(reports_in(blob, where=str(path)), report_target, where=str(path))
            found.append(_side_of_report(selected))
        elif build is None:
            raise UsageError("is a model, but no target is specified", where=str(path), fix="add --target")
        else:
            source = Source(path.name, blob, read_model(blob, name=str(path)))
            found.append(_side_of_model(path, source, build, custom))
    first, second = found
    if sides is not None:
        sides += [side.described or side.report for side in found]
    if (
        reject_unused
        and report_target is not None
        and all(_target_name(side.report) != report_target for side in found)
    ):
        names = " and ".join(dict.fromkeys(_target_name(side.report) for side in found))
        raise UsageError(
            f"neither report is for target {report_target}; they are for {names}", fix="leave out --target"
        )
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
            drift=_drift(first, second),
        ),
        findings=finding_infos(_differences(first, second)),
    )


def _report_name(
    target_name: str | None, a: Path, b: Path, blobs: Sequence[bytes], is_report: Sequence[bool]
) -> str | None:
    """Return the target's name in the reports: the given name if a report has it, else the name of its profile."""
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
    except TargetError:  # the report may be for the user's own profile
        return target_name


def looks_like_report(path: Path, blob: bytes) -> bool:
    """Return whether to read the file as a report: by its content or, if that does not decide, by its name."""
    if blob[4:8] == IDENTIFIER:
        return False
    return blob.lstrip()[:1] == b"{" or path.suffix.lower() == ".json"


def _side_of_report(report: Report) -> _Side:
    command, clock = (report.provenance.options.get(key) for key in ("command", "clock_hz"))
    info = SideInfo(
        kind="report",
        name=report.model.name,
        sha256=report.model.sha256,
        command=command if isinstance(command, str) else None,
        planner=None,
        target=report.target,
        clock_hz=clock if isinstance(clock, int) and not isinstance(clock, bool) else None,
    )
    return _Side(info, report)


def _side_of_model(path: Path, source: Source, target: Target, custom: Any) -> _Side:
    """Analyse a model; the loss of its quantization comes from the conversion's report beside it, if there is one."""
    native = native_model(source, target) if target.runtime.is_native else None
    analysis = native.analysis if native else analyse(source, target, PlanRequest(file_plan="only"), custom=custom)
    (quantization,) = quantizations((path,), (source,), ())
    model_report = report(source, analysis, options={}, quantization=quantization)
    if native is not None:
        model_report = native_report(native, model_report)
    planner, target_info = analysis.plan.planner, model_report.target
    info = SideInfo("model", source.name, source.sha256, None, planner, target_info, target.clock_hz)
    return _Side(info, model_report, Described(source, analysis, model_report, native))


def _drift(a: _Side, b: _Side) -> DriftInfo | None:
    """Return what the runtime of b changes; None unless both sides are the same file on the same target."""
    sides = []
    for side in (a, b):
        if side.described is None or side.described.analysis.target is None or side.info.sha256 != a.info.sha256:
            return None
        described, target = side.described, side.described.analysis.target
        entry = lock_entry(described.source, described.analysis, side.report, target)
        sides.append(OnRuntime(side.report, entry))
    before, after = sides
    return None if before.runtime == after.runtime else drift_between(before, after, Allowance())


def _target_name(report: Report) -> str:
    return "no target" if report.target is None else report.target.name


def _differences(a: _Side, b: _Side) -> tuple[Finding, ...]:
    """Report each difference between the sides, other than the model, that affects the figures."""
    first, second = a.info, b.info
    findings = []
    was, now = _target_name(a.report), _target_name(b.report)
    if was != now:
        text = f"the target is {was} in A, {now} in B: arena, time and energy apply to different devices"
        findings.append(Finding("targets-differ", text))
    if first.target is not None and second.target is not None:
        native = a.report.is_native != b.report.is_native  # which has its own kernels
        for what, verb in (("runtime", "is"),) if native else (("kernels", "are"), ("runtime", "is")):
            was, now = getattr(first.target, what), getattr(second.target, what)
            if was != now:
                findings.append(Finding("builds-differ", f"the {what} {verb} {was} in A, {now} in B"))
    if None not in (first.clock_hz, second.clock_hz) and first.clock_hz != second.clock_hz:
        text = f"the clock is {_clock_text(first.clock_hz)} in A, {_clock_text(second.clock_hz)} in B"
        findings.append(Finding("builds-differ", text))
    was, now = a.report.provenance.tool, b.report.provenance.tool
    if was != now:
        findings.append(Finding("tools-differ", f"A was written by {was}, B by {now}"))
    return tuple(findings)


def _clock_text(clock_hz: int | None) -> str:
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
    pairs = aligned(joined(a.estimate.operators), joined(b.estimate.operators))
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
