"""The table of a sweep: every variant with the results of its jobs, its judgement, and whether it is on the front.

`rows` builds the table; rows_json and rows_csv write it as one flat record per variant, whose names are an interface
for other programs. savings_notes reports levels of pruning that save nothing, and sweep_warnings why figures of a sweep
may be less meaningful than they seem.
"""

from __future__ import annotations

import csv
import gc
import io
import platform
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from edgetool import __version__
from edgetool.convert.request import INTEGER
from edgetool.gate.limits import memory_use, reported_budgets
from edgetool.report.document import SCHEMA, Band, Provenance
from edgetool.report.json import plain
from edgetool.sweep.front import AXES, Axis, front
from edgetool.sweep.jobs import Outcome
from edgetool.sweep.judge import judge, violations
from edgetool.sweep.metrics import PRECISIONS, Cost, Metrics, Quality, Row, Variant
from edgetool.sweep.spec import SweepLimits, TargetSpec
from edgetool.sweep.store import Entry, Store, SweepRecord, read_cost, read_left_alone, read_notes, read_quality

# The axes that a level must not raise and of which it must lower at least one; and all axes of which savings are shown.
CHECKED = ("model_parameters", "macs", "model_bytes", "arena_bytes")
SAVINGS_AXES = (*CHECKED, "latency_ms", "energy_uj")

_SUBJECT = {
    "model_parameters": "the parameters",
    "macs": "the MACs",
    "model_bytes": "the model",
    "arena_bytes": "the arena",
}


def savings_notes(rows: Sequence[Row]) -> dict[int, tuple[str, ...]]:
    """Return notes, by number, on rows that save nothing compared to the next lower level.

    Rows are compared with those of the same model, precision and target. Rows that save something, and those that are
    not done, have no entry.
    """
    notes = {}
    for group in _by_level(rows):
        for lower, row in pairwise(group):
            row_notes = _notes(row, lower)
            if row_notes:
                notes[row.number] = row_notes
    return notes


def saved(rows: Sequence[Row]) -> dict[int, dict[str, float]]:
    """Return, by number, the fractions that rows above level 0 save compared to level 0, by axis of SAVINGS_AXES.

    Rows are compared with level 0 of the same model, precision and target: 0.25 is a quarter less, a negative value is
    an increase. Axes without a value in both rows are omitted.
    """
    shares: dict[int, dict[str, float]] = {}
    for group in _by_level(rows):
        first = group[0]
        if first.variant.level != 0:
            continue
        for row in group[1:]:
            shares[row.number] = _shares(row, first)
    return shares


def _by_level(rows: Sequence[Row]) -> list[list[Row]]:
    """Return groups of finished rows that differ only in level, in ascending order of level."""
    groups: defaultdict[object, list[Row]] = defaultdict(list)
    for row in rows:
        if row.metrics is not None:
            variant = row.variant
            groups[replace(variant, level=0.0)].append(row)
    return [sorted(group, key=lambda row: row.variant.level) for group in groups.values()]


def _notes(row: Row, lower: Row) -> tuple[str, ...]:
    against = f"compared to level {lower.variant.level:g}"
    changed, grown = False, []
    for name in CHECKED:
        axis = AXES[name]
        before, after = axis.value(lower), axis.value(row)
        if before is None or after is None or before == after:
            continue
        changed = True
        if after > before:
            grown.append(f"{_SUBJECT[name]} grew from {_shown(before, axis)} to {_shown(after, axis)} {against}")
    return tuple(grown) if changed else (f"no figure is smaller than at level {lower.variant.level:g}",)


def _shares(row: Row, first: Row) -> dict[str, float]:
    shares = {}
    for name in SAVINGS_AXES:
        before, after = AXES[name].value(first), AXES[name].value(row)
        if before and after is not None:
            shares[name] = 1 - after / before
    return shares


def _shown(value: float, axis: Axis) -> str:
    return f"{value:,} {axis.unit}" if axis.unit else f"{value:,}"


@dataclass(frozen=True, slots=True)
class SweepWarning:
    """A warning, and the numbers of the variants to which it applies."""

    message: str
    numbers: tuple[int, ...]


def sweep_warnings(rows: Sequence[Row]) -> tuple[SweepWarning, ...]:
    """Return warnings about ranges from synthetic samples, and about agreement of models that it cannot compare."""
    numbers_by_message: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows:
        if row.metrics is not None:
            for message in _messages(row.variant, row.metrics.quality):
                numbers_by_message[message].append(row.number)
    return tuple(SweepWarning(message, tuple(numbers)) for message, numbers in numbers_by_message.items())


def _messages(variant: Variant, quality: Quality) -> list[str]:
    messages = []
    if not quality.calibrated and PRECISIONS[variant.precision].quantize in INTEGER:
        unknown = ", so the accuracy on real data is unknown" if quality.accuracy is None else ""
        messages.append(
            f"the quantization is uncalibrated: its ranges come from {quality.samples} synthetic samples{unknown}; "
            "set calibration to a file with real inputs"
        )
    if variant.parameters and quality.accuracy is None and quality.agreement is not None:
        messages.append(
            "agreement is measured against the original float model with the same parameters, so it cannot be used to "
            "compare different parameters: set evaluate to measure accuracy"
        )
    return messages


# What a failed job did, by kind.
DOING = {
    "build": "building",
    "prune": "pruning",
    "reference": "running the original float model",
    "convert": "converting",
    "analyse": "analysing",
}
# The jobs whose results have notes on their variants.
KINDS_WITH_NOTES = ("build", "prune", "convert")
MAX_NAMED_LAYERS = 3
# oneDNN, which multiplies matrices for TensorFlow, sums in a different order for each instruction set.
FINE_TUNING_NOTE = (
    "fine-tuning depends on the processor's instruction set: on another machine, accuracies may differ by a few "
    "percentage points"
)

KINDS_WITH_METRICS = frozenset(["convert", "analyse"])


def rows(store: Store, axes: Sequence[str] | None = None, *, notes: bool = True) -> tuple[Row, ...]:
    """Return the rows of the store's sweep by number, judged by its limits, with the front marked.

    Args:
        axes: those of the front: keys of front.AXES, by default those of front.default_axes for each target.
        notes: whether the rows get notes.

    Raises UsageError for an unknown axis, and for results that this version cannot read.
    """
    with _collector_paused():
        with store.read_transaction():
            limits, entries, outcomes = store.sweep().limits, store.entries(), store.outcomes()
        return build_rows(entries, outcomes, limits, axes, notes=notes, where=str(store.path))


def build_rows(
    entries: Sequence[Entry],
    outcomes: Mapping[str, Outcome],
    limits: SweepLimits,
    axes: Sequence[str] | None = None,
    *,
    notes: bool = True,
    where: str = "the store",
) -> tuple[Row, ...]:
    """Return the rows, as `rows`, from entries and the outcomes of their jobs. where: named in errors."""
    table = _Outcomes(outcomes, where)
    unmarked = [_row(entry, table, limits, notes=notes) for entry in entries]
    notes_by_number = savings_notes(unmarked) if notes else {}
    on_front = front(unmarked, axes)
    return tuple(
        replace(row, on_front=row.number in on_front, notes=(*row.notes, *notes_by_number.get(row.number, ())))
        if row.number in on_front or row.number in notes_by_number
        else row
        for row in unmarked
    )


class _Outcomes:
    """Converts outcomes to types; an outcome that many variants share is converted once."""

    def __init__(self, outcomes: Mapping[str, Outcome], where: str) -> None:
        self.outcomes = outcomes
        self.where = where
        self._qualities: dict[str, Quality] = {}
        self._notes: dict[str, tuple[str, ...]] = {}

    def location(self, key: str) -> str:
        return f"{self.where}: job {key[:12]}"

    def metrics(self, keys: Mapping[str, str]) -> Metrics:
        convert, analyse = keys["convert"], keys["analyse"]
        quality = self._qualities.get(convert)
        if quality is None:
            quality = read_quality(self.outcomes[convert].value, self.location(convert))
            self._qualities[convert] = quality
        return Metrics(quality, read_cost(self.outcomes[analyse].value, self.location(analyse)))

    def notes(self, key: str) -> tuple[str, ...]:
        notes = self._notes.get(key)
        if notes is None:
            value, where = self.outcomes[key].value, self.location(key)
            notes = (*read_notes(value, where), *_unpruned_note(read_left_alone(value, where)))
            if value.get("history"):  # the losses of fine-tuning
                notes += (FINE_TUNING_NOTE,)
            self._notes[key] = notes
        return notes


def _row(entry: Entry, table: _Outcomes, limits: SweepLimits, *, notes: bool) -> Row:
    number, variant = entry.number, entry.variant
    missing = not KINDS_WITH_METRICS.issubset(kind for kind, _ in entry.keys)
    row_notes: tuple[str, ...] = ()
    for kind, key in entry.keys:
        outcome = table.outcomes.get(key)
        if outcome is None:
            missing = True
        elif outcome.reason is not None:
            return Row(number, variant, "failed", reason=f"{DOING.get(kind, kind)}: {outcome.reason}")
        elif notes and kind in KINDS_WITH_NOTES:
            row_notes += table.notes(key)
    if missing:
        return Row(number, variant, "pending", notes=row_notes)
    metrics = table.metrics(dict(entry.keys))
    return Row(number, variant, "done", metrics=metrics, judged=judge(metrics, limits), notes=row_notes)


def _unpruned_note(layers: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    if not layers:
        return ()
    named = ", ".join(f"{layer} ({reason})" for layer, reason in layers[:MAX_NAMED_LAYERS])
    more = f" and {len(layers) - MAX_NAMED_LAYERS} more" if len(layers) > MAX_NAMED_LAYERS else ""
    return (f"{len(layers)} layer{'s' * (len(layers) != 1)} not pruned: {named}{more}",)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector: checking hundreds of thousands of new objects, none of them garbage, takes long."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


Cell = Callable[[Row], Any]


def _quality(value: Callable[[Quality], Any]) -> Cell:
    return lambda row: None if row.metrics is None else value(row.metrics.quality)


def _cost(value: Callable[[Cost], Any]) -> Cell:
    return lambda row: None if row.metrics is None else value(row.metrics.cost)


def _band(band_of: Callable[[Cost], Band | None], end: Callable[[Band], float]) -> Cell:
    def value(cost: Cost) -> float | None:
        band = band_of(cost)
        return None if band is None else end(band)

    return _cost(value)


# The keys of the records in order, with functions that return their values, None if unknown. The columns of the budgets
# (violates_64kib) follow BEFORE_BUDGETS. "parameters" is an object; in CSV, each parameter has a column param_NAME.
BEFORE_BUDGETS: Mapping[str, Cell] = {
    "number": lambda row: row.number,
    "target": lambda row: row.variant.target,
    "level": lambda row: row.variant.level,
    "precision": lambda row: row.variant.precision,
    "optimize": lambda row: row.variant.optimize,
    "max_extra_macs": lambda row: row.variant.max_extra_macs,
    "parameters": lambda row: dict(row.variant.parameters),
    "status": lambda row: row.status,
    "reason": lambda row: row.reason,
    "accuracy": _quality(lambda quality: quality.accuracy),
    "float_accuracy": _quality(lambda quality: quality.float_accuracy),
    "agreement": _quality(lambda quality: quality.agreement),
    "sqnr_db": _quality(lambda quality: quality.sqnr_db),
    "calibrated": _quality(lambda quality: quality.calibrated),
    "arena_bytes": _cost(lambda cost: cost.arena_bytes),
    "arena_least_bytes": _cost(lambda cost: cost.arena_least_bytes),
    "model_bytes": _cost(lambda cost: cost.model_bytes),
    "model_parameters": _cost(lambda cost: cost.parameters),
    "macs": _cost(lambda cost: cost.macs),
    "latency_ms": _band(lambda cost: cost.latency_ms, lambda band: band.value),
    "latency_low_ms": _band(lambda cost: cost.latency_ms, lambda band: band.low),
    "latency_high_ms": _band(lambda cost: cost.latency_ms, lambda band: band.high),
    "energy_uj": _band(lambda cost: cost.energy_uj, lambda band: band.value),
    "energy_low_uj": _band(lambda cost: cost.energy_uj, lambda band: band.low),
    "energy_high_uj": _band(lambda cost: cost.energy_uj, lambda band: band.high),
    "bandwidth_utilization": _cost(lambda cost: cost.bandwidth_utilization),
}
AFTER_BUDGETS: Mapping[str, Cell] = {
    "accepted": lambda row: None if row.judged is None else row.judged.accepted,
    "causes": lambda row: [] if row.judged is None else list(row.judged.causes),
    "rejected": lambda row: [] if row.judged is None else list(row.judged.rejected),
    "on_front": lambda row: row.on_front,
    "notes": lambda row: list(row.notes),
}
COLUMNS: tuple[str, ...] = (*BEFORE_BUDGETS, *AFTER_BUDGETS)
LIST_SEPARATOR = "; "


def budget_columns(limits: SweepLimits) -> tuple[str, ...]:
    """Return the names of the columns of the budgets: "violates_64kib"."""
    return tuple(violations(reported_budgets(limits.budgets, limits.active_budget), memory_use(0, 0)))


def record_of_row(row: Row, budgets: Sequence[str]) -> dict[str, Any]:
    """Return the row by column, as JSON values. budgets: the result of budget_columns; null until they are judged."""
    violated = {} if row.judged is None else {item.name: item.violated for item in row.judged.budgets}
    return {
        **{name: value(row) for name, value in BEFORE_BUDGETS.items()},
        **{name: violated.get(name) for name in budgets},
        **{name: value(row) for name, value in AFTER_BUDGETS.items()},
    }


def rows_json(record: SweepRecord, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the JSON document of these rows of the sweep."""
    budgets = budget_columns(record.limits)
    options = dict(record.options)
    provenance = Provenance(
        tool=f"edgetool {__version__}",
        versions={"python": platform.python_version()},
        trust_model_code=bool(options.pop("trust_model_code", False)),
        options=options,
    )
    return {
        "schema": SCHEMA,
        "provenance": plain(provenance),
        "sweep": {
            "name": record.name,
            "model": record.model,
            "strategy": record.strategy,
            "objectives": list(record.objectives),
            "parameters": list(record.parameter_names),
            "targets": [_target(target) for target in record.targets],
            "limits": plain(record.limits),
            "warnings": [{"message": item.message, "variants": list(item.numbers)} for item in sweep_warnings(rows)],
            "variants": [record_of_row(row, budgets) for row in rows],
        },
    }


def rows_csv(record: SweepRecord, rows: Sequence[Row]) -> str:
    """Return the same records as CSV (RFC 4180, but lines end in a newline only): a header, then a line for each row.

    Null is an empty cell, booleans are true and false, and items of a list are joined by "; ". An apostrophe is added
    before a text that a spreadsheet would interpret as a formula.
    """
    budgets = budget_columns(record.limits)
    parameters = [f"param_{name}" for name in record.parameter_names]
    at = COLUMNS.index("parameters")
    after = len(BEFORE_BUDGETS)
    header = [*COLUMNS[:at], *parameters, *COLUMNS[at + 1 : after], *budgets, *COLUMNS[after:]]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        flat = record_of_row(row, budgets)
        flat.update({f"param_{name}": value for name, value in row.variant.parameters})
        writer.writerow([_cell(flat.get(name)) for name in header])
    return file.getvalue()


def _target(target: TargetSpec) -> dict[str, Any]:
    return {
        "label": target.label,
        "name": target.name,
        "own_profile": target.profile is not None,
        "overrides": dict(target.overrides),
    }


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = LIST_SEPARATOR.join(value)
    if not isinstance(value, str):
        return value
    # A file name that is not valid text can contain surrogates, which UTF-8 cannot encode.
    text = value.encode("utf-8", "backslashreplace").decode("utf-8")
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # Python's writer does not quote a "\r" alone
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\n")) else text
