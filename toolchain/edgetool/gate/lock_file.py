"""The text of edgetool.lock: JSON with sorted keys.

It has one figure or operator per line, and is identical for identical figures. It is committed, merged and edited by
people: anything that differs from what edgetool writes is reported with its line or key.

The lock file contains, for a model on a target, the sources of the figures, the figures, and what they depend on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from msgspec import Meta

from edgetool.errors import Problem, UsageError, problems_as_error
from edgetool.gate.breakdown import ArenaBreakdown, LiveBuffer, OperatorId, OperatorPart
from edgetool.report.document import Report
from edgetool.report.json import figures_of
from edgetool.structure import (
    Object,
    StructureError,
    joined,
    shown,
    strict_json,
    structured,
)
from edgetool.target.types import Target

FigureValue = int | float | None

# Fields of a profile that are not in its hash: strings, and the types, faults and registrations of kernels, which
# change no figure.
UNHASHED_FIELDS = frozenset(
    [
        "sources",
        "note",
        "basis",
        "clock_source",
        "description",
        "document",
        "code_options",
        "data_cache_line_bytes",
        "rank_limits",
        "kernel_types",
        "registrations",
        "reference",
        "faults",
        "cmsis_nn_date",
        "linked_by",
        "newest",
        "missing",
        "vendor",
    ]
)
# Structs that runtimes did not always list: only separate arenas, which no lock has, depend on their sizes.
LATER_STRUCTS = frozenset(["PersistentArenaBufferAllocator", "NonPersistentArenaBufferAllocator"])
PLANNERS = {
    "tflm": "TFLM's own planner",
    "plan": "the plan in the file",
    "tensors": "native code by tensors",
    "rows": "native code by rows",
}
# The figures of a lock, by their names in the document, and those that every model has.
FIGURES = (
    *("arena_bytes", "used_bytes", "head_bytes", "tail_bytes", "model_bytes", "parameters"),
    *("macs", "bytes_moved", "instructions", "accuracy_float", "accuracy_quantized"),
    *("latency_ms", "latency_ms_low", "latency_ms_high", "energy_uj", "energy_uj_low", "energy_uj_high"),
)
ALWAYS = frozenset(["arena_bytes", "model_bytes"])
NS_PER_MS = 10**6
DECIMAL_PLACES = 6  # of times, energies and accuracies


@dataclass(frozen=True, slots=True)
class Reached:
    """How an arena was reached.

    planner: "tflm" (its own planner), "plan" (order and layout in the file), or "tensors" or "rows" of native code.
    overlaps: the outputs that share bytes with an input. regions: the operators in stripes, such as "0 to 3 in 5".
    extra_macs: the multiply-accumulates that are computed again. optimized: whether edgetool simplified the model.
    """

    planner: str
    overlaps: int = 0
    regions: tuple[str, ...] = ()
    extra_macs: int = 0
    optimized: bool = False

    def __str__(self) -> str:
        parts = [PLANNERS.get(self.planner, self.planner)]
        parts += [f"{self.overlaps} overlaps"] if self.overlaps else []
        parts += [f"operators {', '.join(self.regions)} stripes"] if self.regions else []
        parts += [f"{self.extra_macs:,} extra multiply-accumulates"] if self.extra_macs else []
        return ", ".join([*parts, *(["an optimized model"] if self.optimized else [])])


@dataclass(frozen=True, slots=True)
class LockEntry:
    """One model on one target.

    versions: the versions of edgetool, of the converter (None if the file does not state it) and of the runtime, and
    the hash of the profile. breakdown is None if the arena is not known. reached is None in locks of earlier versions.
    """

    sha256: str
    kernels: str
    versions: Mapping[str, str | None]
    figures: Mapping[str, FigureValue]
    breakdown: ArenaBreakdown | None = None
    reached: Reached | None = None


def profile_hash(target: Target) -> str:
    """Return the SHA-256 of every figure of the target as it is used, in a canonical form.

    Descriptive strings are excluded, as is the selected kernel set, which has its own line. Without the fields and
    structs that targets did not always have, the hash is that of before these existed.
    """
    structs = tuple(item for item in target.runtime.structs if item[0] not in LATER_STRUCTS)
    target = replace(target, runtime=replace(target.runtime, structs=structs))
    figures = {key: value for key, value in _figures_only(figures_of(target)).items() if key != "kernels"}
    text = json.dumps(figures, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _figures_only(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _figures_only(item) for key, item in value.items() if key not in UNHASHED_FIELDS}
    return [_figures_only(item) for item in value] if isinstance(value, list) else value


def entry_of(
    report: Report,
    target: Target,
    breakdown: ArenaBreakdown | None,
    *,
    tool: str,
    converter: str | None,
    reached: Reached | None = None,
) -> LockEntry:
    """Return the entry of a report with arena and estimate; breakdown is that of its arena, reached its way there."""
    runtime = target.runtime
    return LockEntry(
        sha256=report.model.sha256,
        kernels=target.kernels,
        versions={
            "edgetool": tool,
            "converter": converter,
            "runtime": f"{runtime.name} ({runtime.tflm_commit[:12]})",
            "profile": profile_hash(target),
        },
        figures=_figures(report),
        breakdown=None if breakdown is None else _with_costs(breakdown, report),
        reached=reached,
    )


def _figures(report: Report) -> dict[str, FigureValue]:
    """Return every figure by its name in the document."""
    arena, estimate = report.arena, report.estimate
    figures: dict[str, FigureValue] = {
        "model_bytes": report.model_bytes_in_flash,
        "parameters": report.model.parameters,
    }
    if arena is not None:
        # Growth of a lower bound is meaningless.
        figures["arena_bytes"] = None if arena.is_lower_bound else arena.bytes
        figures["used_bytes"] = None if arena.is_lower_bound else arena.used_bytes
        figures |= {"head_bytes": arena.head_bytes, "tail_bytes": arena.tail_bytes}
    if estimate is not None:
        figures |= {"macs": estimate.macs, "bytes_moved": estimate.bytes_moved, "instructions": estimate.instructions}
        for name, band in (("latency_ms", estimate.latency_ms), ("energy_uj", estimate.energy_uj)):
            if band is not None:
                figures |= {name: round(band.value, DECIMAL_PLACES)}
                figures |= {
                    f"{name}_low": round(band.low, DECIMAL_PLACES),
                    f"{name}_high": round(band.high, DECIMAL_PLACES),
                }
    accuracy = None if report.quantization is None else report.quantization.accuracy
    if accuracy is not None:
        figures |= {"accuracy_float": round(accuracy.float, DECIMAL_PLACES)}
        figures |= {"accuracy_quantized": round(accuracy.quantized, DECIMAL_PLACES)}
    return figures


def _with_costs(breakdown: ArenaBreakdown, report: Report) -> ArenaBreakdown:
    """Return the breakdown with the constant bytes and the time of every operator filled in."""
    if report.estimate is None:
        return breakdown
    timed = report.estimate.latency_ms is not None
    costs = {
        (item.subgraph, item.index): (item.parameter_bytes, round(item.ms.value * NS_PER_MS) if timed else 0)
        for item in report.estimate.operators
    }
    parts = []
    for part in breakdown.operators:
        constants, ns = costs.get((part.operator.subgraph, part.operator.index), (0, 0))
        parts.append(replace(part, constants=constants, ns=ns))
    return replace(breakdown, operators=tuple(parts))


SCHEMA = "edgetool-lock/1"
INLINE_DEPTH = 5  # the figures of an operator are on one line
MAX_CHARACTERS = 32 * 2**20
MAX_VALUES = 2_000_000
RECREATE_LOCK = "restore the committed file, or delete it and recreate it with 'edgetool check --update'"

# By path of the model relative to the lock's folder, then by name of the target.
LockContents = Mapping[str, Mapping[str, LockEntry]]

COSTS = ("constants", "live", "ns", "scratch", "tail")


def lock_text(lock: LockContents) -> str:
    """Return the text of the lock file, which parse_lock reads back unchanged."""
    entries = {path: {name: _entry_value(entry) for name, entry in targets.items()} for path, targets in lock.items()}
    return _json({"schema": SCHEMA, "entries": entries}, 0) + "\n"


def parse_lock(text: str, *, where: str) -> LockContents:
    """Return the contents of a lock file. Raises UsageError with the line or key of the first deviation."""
    if len(text) > MAX_CHARACTERS:
        raise UsageError("is too large for a lock file", where=where, fix=RECREATE_LOCK)
    try:
        document = strict_json(text, max_values=MAX_VALUES)
        _check_schema(document, where)
        entries = structured(document, _LockObject).entries
        return {
            path: {name: _entry(entry, joined(joined("entries", path), name)) for name, entry in targets.items()}
            for path, targets in entries.items()
        }
    except StructureError as error:
        merge = any(line.startswith(("<<<<<<<", "=======", ">>>>>>>")) for line in text.splitlines())
        fix = "accept either side of the merge, then run 'edgetool check --update'" if merge else RECREATE_LOCK
        raise problems_as_error(error.problems, where, fix=fix) from None


def _json(value: Any, depth: int) -> str:
    """Return sorted ASCII JSON, indented by two spaces per level, on one line from INLINE_DEPTH down."""
    if not isinstance(value, dict) or not value or depth >= INLINE_DEPTH:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    indent = "  " * (depth + 1)
    lines = [f"{indent}{json.dumps(key)}: {_json(value[key], depth + 1)}" for key in sorted(value)]
    return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"


def _entry_value(entry: LockEntry) -> dict[str, Any]:
    value: dict[str, Any] = {
        "sha256": entry.sha256,
        "kernels": entry.kernels,
        "versions": dict(entry.versions),
        "figures": dict(entry.figures),
    }
    if entry.reached is not None:
        value["reached"] = asdict(entry.reached)
    return value if entry.breakdown is None else {**value, **_breakdown_value(entry.breakdown)}


def _breakdown_value(breakdown: ArenaBreakdown) -> dict[str, Any]:
    return {
        "peak": {
            "moment": breakdown.moment,
            "during": _key(breakdown.during),
            "busiest": _key(breakdown.busiest),
            "bytes": breakdown.bytes,
            "head_bytes": breakdown.peak_head,
            "tail_bytes": breakdown.peak_tail,
            "planned_head_bytes": breakdown.head_bytes,
            "whole_tail_bytes": breakdown.tail_bytes,
        },
        "head": {
            f"tensor {item.name}" if item.scratch_of is None else f"scratch {_key(item.scratch_of)}": item.bytes
            for item in breakdown.alive
        },
        "tail": dict(breakdown.tflm_parts),
        "operators": {
            str(_key(part.operator)): {name: size for name in COSTS if (size := getattr(part, name))}
            for part in breakdown.operators
        },
    }


def _key(operator: OperatorId | None) -> str | None:
    """Return, for example, "0007 CONV_2D", or in another subgraph "1:0007 CONV_2D"."""
    if operator is None:
        return None
    place = f"{operator.subgraph}:" if operator.subgraph else ""
    return f"{place}{operator.index:04} {operator.label}"


StoredSize = Annotated[int, Meta(ge=0, le=2**63 - 1, description="an integer number of bytes or nanoseconds")]
StoredFigure = Annotated[
    Annotated[int, Meta(ge=0, lt=10**18)] | Annotated[float, Meta(ge=0, lt=1e18)] | None,
    Meta(description="a valid number"),
]


class _VersionsObject(Object):
    edgetool: str
    converter: str | None
    runtime: str
    profile: str


class _PeakObject(Object):
    moment: str
    during: str | None
    busiest: str | None
    bytes: StoredSize
    head_bytes: StoredSize
    tail_bytes: StoredSize
    planned_head_bytes: StoredSize
    whole_tail_bytes: StoredSize


class _CostsObject(Object):
    constants: StoredSize = 0
    live: StoredSize = 0
    ns: StoredSize = 0
    scratch: StoredSize = 0
    tail: StoredSize = 0


class _ReachedObject(Object):
    planner: str
    overlaps: StoredSize = 0
    regions: tuple[str, ...] = ()
    extra_macs: StoredSize = 0
    optimized: bool = False


class _EntryObject(Object):
    sha256: str
    kernels: str
    versions: _VersionsObject
    figures: dict[str, StoredFigure]
    reached: _ReachedObject | None = None
    peak: _PeakObject | None = None
    head: dict[str, StoredSize] | None = None
    tail: dict[str, StoredSize] | None = None
    operators: dict[str, _CostsObject] | None = None


class _LockObject(Object):
    schema: str
    entries: dict[str, dict[str, _EntryObject]]


def _check_schema(document: object, where: str) -> None:
    if not isinstance(document, dict) or "schema" not in document:
        raise StructureError(Problem("", "is not an edgetool lock file: it has no schema"))
    schema = document["schema"]
    if isinstance(schema, str) and schema.startswith("edgetool-lock/") and schema != SCHEMA:
        fix = "use the edgetool that wrote it, or delete it and recreate it with 'edgetool check --update'"
        raise UsageError(f"has schema {shown(schema)}; this version supports {SCHEMA}", where=where, fix=fix)
    if schema != SCHEMA:
        raise StructureError(Problem("schema", f"is not an edgetool lock file: its schema is {shown(schema)}"))


def _entry(entry: _EntryObject, key: str) -> LockEntry:
    for name, value in entry.figures.items():
        place = joined(f"{key}.figures", name)
        if name not in FIGURES:
            raise StructureError(Problem(place, "is not a figure that edgetool knows"))
        if name.endswith("_bytes") and isinstance(value, float):
            raise StructureError(Problem(place, f"is {value}, not an integer number of bytes"))
    if missing := sorted(ALWAYS - set(entry.figures)):
        raise StructureError(Problem(f"{key}.figures.{missing[0]}", "is missing"))
    versions = {name: getattr(entry.versions, name) for name in entry.versions.__struct_fields__}
    reached = None
    if entry.reached is not None:
        reached = Reached(**{name: getattr(entry.reached, name) for name in entry.reached.__struct_fields__})
    return LockEntry(entry.sha256, entry.kernels, versions, entry.figures, _breakdown(entry, key), reached)


def _breakdown(entry: _EntryObject, key: str) -> ArenaBreakdown | None:
    peak, head, tail, costs = entry.peak, entry.head, entry.tail, entry.operators
    if peak is None and head is None and tail is None and costs is None:
        return None
    if peak is None or head is None or tail is None or costs is None:
        missing = next(name for name in ("peak", "head", "tail", "operators") if getattr(entry, name) is None)
        raise StructureError(Problem(f"{key}.{missing}", "is missing"))
    alive = [_alive(name, size, joined(f"{key}.head", name)) for name, size in head.items()]
    parts = [_part(name, item, joined(f"{key}.operators", name)) for name, item in costs.items()]
    for part, ids in (
        ("head", [item.scratch_of or item.name for item in alive]),
        ("operators", [part.operator for part in parts]),
    ):
        if len(set(ids)) < len(ids):
            raise StructureError(Problem(f"{key}.{part}", "names an operator twice"))
    return ArenaBreakdown(
        bytes=peak.bytes,
        moment=peak.moment,
        during=None if peak.during is None else _operator(peak.during, f"{key}.peak.during"),
        peak_head=peak.head_bytes,
        peak_tail=peak.tail_bytes,
        head_bytes=peak.planned_head_bytes,
        tail_bytes=peak.whole_tail_bytes,
        busiest=None if peak.busiest is None else _operator(peak.busiest, f"{key}.peak.busiest"),
        alive=tuple(sorted(alive, key=lambda item: (-item.bytes, item.name))),
        tflm_parts=tuple(sorted(tail.items())),
        operators=tuple(sorted(parts, key=lambda part: part.operator)),
    )


def _alive(name: str, size: int, key: str) -> LiveBuffer:
    kind, _, rest = name.partition(" ")
    if kind == "scratch":
        operator = _operator(rest, key)
        return LiveBuffer(str(operator), size, operator)
    if kind != "tensor":
        raise StructureError(Problem(key, "is neither a tensor nor scratch"))
    return LiveBuffer(rest, size)


def _part(name: str, costs: _CostsObject, key: str) -> OperatorPart:
    return OperatorPart(_operator(name, key), **{cost: getattr(costs, cost) for cost in COSTS})


def _operator(text: str, key: str) -> OperatorId:
    place, _, label = text.partition(" ")
    subgraph, colon, index = place.rpartition(":")
    numbers = [subgraph, index] if colon else ["0", index]
    if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers):
        raise StructureError(Problem(key, 'is not an operator such as "0007 CONV_2D"'))
    return OperatorId(int(numbers[0]), int(numbers[1]), label)
