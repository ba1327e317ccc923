"""The figures of two reports, and how they differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from edgetool.report.comparison import FigureChange
from edgetool.report.document import Accuracy, Band, EstimateInfo, OutputQuality, Report

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
