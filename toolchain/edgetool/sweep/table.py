"""A sweep's variants as data: one flat record each, as JSON and as CSV. Other programs build on the names."""

from __future__ import annotations

import csv
import io
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgetool import __version__
from edgetool.report.document import SCHEMA, Band, Provenance
from edgetool.report.json import plain
from edgetool.sweep.cautions import cautions
from edgetool.sweep.judge import tracked, violations
from edgetool.sweep.metrics import Cost, Quality, Row
from edgetool.sweep.record import SweepRecord
from edgetool.sweep.spec import SweepLimits, TargetSpec

Cell = Callable[[Row], Any]


def _quality(value: Callable[[Quality], Any]) -> Cell:
    return lambda row: None if row.metrics is None else value(row.metrics.quality)


def _cost(value: Callable[[Cost], Any]) -> Cell:
    return lambda row: None if row.metrics is None else value(row.metrics.cost)


def _band(band: Callable[[Cost], Band | None], end: Callable[[Band], float]) -> Cell:
    def value(cost: Cost) -> float | None:
        found = band(cost)
        return None if found is None else end(found)

    return _cost(value)


# Column -> its value, None where it is not known; the records' keys, in their order. The budgets' columns
# (violates_64kib) follow BEFORE_BUDGETS, and "parameters" is a table of its own: in CSV, a column param_NAME each.
BEFORE_BUDGETS: Mapping[str, Cell] = {
    "number": lambda row: row.number,
    "target": lambda row: row.variant.target,
    "level": lambda row: row.variant.level,
    "precision": lambda row: row.variant.precision,
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
    """The columns of the budgets: "violates_64kib"."""
    return tuple(violations(tracked(limits), {"arena": 0, "ram": 0, "flash": 0}))


def record_of_row(row: Row, budgets: Sequence[str]) -> dict[str, Any]:
    """The row by column, as JSON values. budgets: the columns of budget_columns; null where nothing is known yet."""
    violated = {} if row.judged is None else {item.name: item.violated for item in row.judged.budgets}
    return {
        **{name: value(row) for name, value in BEFORE_BUDGETS.items()},
        **{name: violated.get(name) for name in budgets},
        **{name: value(row) for name, value in AFTER_BUDGETS.items()},
    }


def rows_json(record: SweepRecord, rows: Sequence[Row]) -> dict[str, Any]:
    """The document of these rows of the sweep."""
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
            "warnings": [{"message": item.message, "variants": list(item.numbers)} for item in cautions(rows)],
            "variants": [record_of_row(row, budgets) for row in rows],
        },
    }


def rows_csv(record: SweepRecord, rows: Sequence[Row]) -> str:
    """The same records as CSV (RFC 4180, lines ending in a newline alone): a header, then a line for each row.

    Empty is null, booleans are true and false, a list is joined by "; ". A text that a spreadsheet would take for a
    formula begins with an apostrophe.
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
    # Of a file's name that is no text, what can be written.
    text = value.encode("utf-8", "backslashreplace").decode("utf-8")
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # Python's writer does not quote the one without the other
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\n")) else text
