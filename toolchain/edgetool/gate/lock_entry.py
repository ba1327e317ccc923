"""What the lock file keeps of a model on a target: where the figures come from, the figures, and what they rest on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgetool.gate.anatomy import Anatomy
from edgetool.report.document import Report
from edgetool.report.serialize import plain
from edgetool.target.types import Target

Value = int | float | None

# Words of a profile that are no figures: a sentence put better changes nothing, nor does what kernels take.
WORDS = frozenset(
    ["sources", "note", "basis", "clock_source", "description", "document", "rank_limits", "takes", "vendor"]
)
# The figures of a lock, by their names in the document, and those that every model has.
FIGURES = (
    *("arena_bytes", "used_bytes", "head_bytes", "tail_bytes", "model_bytes", "parameters"),
    *("macs", "bytes_moved", "instructions", "accuracy_float", "accuracy_quantized"),
    *("latency_ms", "latency_ms_low", "latency_ms_high", "energy_uj", "energy_uj_low", "energy_uj_high"),
)
ALWAYS = frozenset(["arena_bytes", "model_bytes"])
NS_PER_MS = 10**6
DIGITS = 6  # of what is not counted but estimated


@dataclass(frozen=True, slots=True)
class Entry:
    """One model on one target.

    versions: of edgetool, of the converter (None where the file does not tell), of the runtime, and the hash of the
    profile. anatomy is None where the arena is not known.
    """

    sha256: str
    kernels: str
    versions: Mapping[str, str | None]
    figures: Mapping[str, Value]
    anatomy: Anatomy | None = None


def profile_hash(target: Target) -> str:
    """SHA-256 over every figure of the target as it is used, in a canonical form.

    Its words do not count, nor which of its kernel sets is used: that has a line of its own.
    """
    figures = {key: value for key, value in _figures_only(plain(target)).items() if key != "kernels"}
    text = json.dumps(figures, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _figures_only(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _figures_only(item) for key, item in value.items() if key not in WORDS}
    return [_figures_only(item) for item in value] if isinstance(value, list) else value


def entry_of(report: Report, target: Target, anatomy: Anatomy | None, *, tool: str, converter: str | None) -> Entry:
    """The entry of a report with arena and estimate; anatomy is that of its arena."""
    runtime = target.runtime
    return Entry(
        sha256=report.model.sha256,
        kernels=target.kernels,
        versions={
            "edgetool": tool,
            "converter": converter,
            "runtime": f"{runtime.name} ({runtime.tflm_commit[:12]})",
            "profile": profile_hash(target),
        },
        figures=_figures(report),
        anatomy=None if anatomy is None else _with_costs(anatomy, report),
    )


def _figures(report: Report) -> dict[str, Value]:
    """Every figure by its name in the document."""
    arena, estimate = report.arena, report.estimate
    figures: dict[str, Value] = {"model_bytes": report.model.bytes, "parameters": report.model.parameters}
    if arena is not None:
        # A lower bound is no size that could grow.
        figures["arena_bytes"] = None if arena.is_lower_bound else arena.bytes
        figures["used_bytes"] = None if arena.is_lower_bound else arena.used_bytes
        figures |= {"head_bytes": arena.head_bytes, "tail_bytes": arena.tail_bytes}
    if estimate is not None:
        figures |= {"macs": estimate.macs, "bytes_moved": estimate.bytes_moved, "instructions": estimate.instructions}
        for name, band in (("latency_ms", estimate.latency_ms), ("energy_uj", estimate.energy_uj)):
            if band is not None:
                figures |= {name: round(band.value, DIGITS)}
                figures |= {f"{name}_low": round(band.low, DIGITS), f"{name}_high": round(band.high, DIGITS)}
    accuracy = None if report.quantization is None else report.quantization.accuracy
    if accuracy is not None:
        figures |= {"accuracy_float": round(accuracy.float, DIGITS)}
        figures |= {"accuracy_quantized": round(accuracy.quantized, DIGITS)}
    return figures


def _with_costs(anatomy: Anatomy, report: Report) -> Anatomy:
    """With the bytes of constants and the time of every operator."""
    if report.estimate is None:
        return anatomy
    timed = report.estimate.latency_ms is not None
    costs = {
        (item.subgraph, item.index): (item.parameter_bytes, round(item.ms.value * NS_PER_MS) if timed else 0)
        for item in report.estimate.operators
    }
    parts = []
    for part in anatomy.operators:
        constants, ns = costs.get((part.operator.subgraph, part.operator.index), (0, 0))
        parts.append(replace(part, constants=constants, ns=ns))
    return replace(anatomy, operators=tuple(parts))
