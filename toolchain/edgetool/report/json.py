"""Conversion of reports to JSON text and back, which checks every value against the type of its field.

Unknown keys are ignored, and a field with a default may be absent, so that later versions of edgetool can add fields.
Any other deviation from the types is rejected with its key.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from edgetool.errors import UsageError
from edgetool.report.document import SCHEMA, Band, FindingInfo, Report, SharedArenaInfo
from edgetool.structure import StructureError, joined, shown, strict_json, structured
from edgetool.target.types import Core, Runtime, Target, Timing

# Most values of a document, which are their own JSON value.
_SCALARS = frozenset({type(None), bool, int, float, str})


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """Return the names of a dataclass's fields; None for another type."""
    return tuple(item.name for item in fields(kind)) if is_dataclass(kind) else None


def plain(value: Any) -> Any:
    """Return dataclasses as dicts in field order, tuples as lists, and members of enumerations as their names."""
    if type(value) in _SCALARS:
        return value
    names = _field_names(value.__class__)
    if names is not None:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


# Fields that targets did not always have: those without one have the same hash as before.
LATER_FIELDS = frozenset(
    {
        (Core, "esp_nn_variant"),
        (Runtime, "esp_nn"),
        (Target, "esp_nn_variant"),
        (Target, "runtime_tree"),
        (Target, "code_options"),
        (Target, "model_region_name"),
        (Target, "scratch_budget_bytes"),
        (Target, "row_input"),
        (Target, "row_output"),
        (Target, "max_extra_macs"),
        (Target, "max_weights_per_row_bytes"),
        (Target, "incremental"),
        (Timing, "stall_cycles_per_byte"),
    }
)


def figures_of(value: Any) -> Any:
    """Return a target as plain() does, for hashes, without absent fields that targets did not always have."""
    if type(value) in _SCALARS:
        return value
    names = _field_names(value.__class__)
    if names is None:
        return [figures_of(item) for item in value] if isinstance(value, list | tuple) else plain(value)
    figures = {name: getattr(value, name) for name in names}
    # 0 is a value: a budget of 0 differs from none.
    absent = {name for name, item in figures.items() if item is None or item is False}
    later = {name for name in absent if (type(value), name) in LATER_FIELDS}
    return {name: figures_of(item) for name, item in figures.items() if name not in later}


def document(report: Report) -> dict[str, Any]:
    """Return the document of one report as a JSON value."""
    return {"schema": SCHEMA, **plain(report)}


def documents(reports: Sequence[Report], shared_arena: SharedArenaInfo | None = None) -> dict[str, Any]:
    """Return the document of one report, or {"schema", "reports"} for several.

    Reports that share an arena also have "shared_arena".
    """
    if len(reports) == 1 and shared_arena is None:
        return document(reports[0])
    shared = {} if shared_arena is None else {"shared_arena": plain(shared_arena)}
    return {"schema": SCHEMA, "reports": [document(report) for report in reports], **shared}


def to_json(value: dict[str, Any], indent: int | None = 2) -> str:
    """Return JSON text in ASCII that ends in a newline: indented, or in one line without spaces if indent is None.

    "##", with which CI runners begin a command anywhere in a line, is escaped. Raises ValueError for NaN and infinity.
    """
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, allow_nan=False, separators=separators)
    return text.replace("##", r"#\u0023") + "\n"


USE_UNMODIFIED = "use an unmodified document that 'edgetool plan --json' or a similar command wrote"
LEVELS = ("error", "warning", "note")
# The largest realistic number: sizes, counts and times are far below.
MAX_NUMBER = 2**63
MAX_VALUES = 4_000_000
# Documents of commands that report on something other than a model on a target, by the key that only they have.
OTHER_COMMANDS = {
    "calibration": "calibrate",
    "compare": "compare",
    "instance": "layout",
    "subgraphs": "inspect",
    "targets": "targets",
}
SIZES = ("bytes", "macs", "parameters", "operators", "tensors", "instructions", "cycles")


def parse_reports(text: str) -> tuple[Report, ...]:
    """Return the reports of a document, in its order: one report, or those of its "reports".

    Raises UsageError, without a `where`, for text that is not JSON (such as NaN or duplicate keys), and for a document
    that edgetool did not write or that was changed.
    """
    try:
        document = strict_json(text, max_values=MAX_VALUES)
    except StructureError as error:
        raise UsageError(str(error.problems[0]), fix=USE_UNMODIFIED) from None
    try:
        return read_reports(document)
    except RecursionError:
        raise UsageError("is nested too deeply", fix=USE_UNMODIFIED) from None


def read_reports(document: object) -> tuple[Report, ...]:
    """Return the reports of a document, given as JSON values. Raises UsageError."""
    if not isinstance(document, dict):
        raise UsageError("is not an edgetool document", fix=USE_UNMODIFIED)
    schema = document.get("schema")
    if schema != SCHEMA:
        what = f"has the schema {shown(schema)}" if "schema" in document else 'has no "schema"'
        raise UsageError(f"{what}; this version of edgetool reads {shown(SCHEMA)}", fix=USE_UNMODIFIED)
    for key, command in OTHER_COMMANDS.items():
        if key in document:
            raise UsageError(f"was written by 'edgetool {command}' and contains no report", fix=USE_UNMODIFIED)
    if "reports" not in document:
        return (_report(document, ""),)
    reports = document["reports"]
    if not isinstance(reports, list) or not reports:
        raise _wrong("reports", reports, "a list of documents")
    return tuple(_report(item, f"reports[{place}]") for place, item in enumerate(reports))


def _report(document: object, key: str) -> Report:
    try:
        report = structured(document, Report, key)
    except StructureError as error:
        raise UsageError(str(error.problems[0]), fix=USE_UNMODIFIED) from None
    _check(report, key)
    return report


def _check(value: object, key: str) -> None:
    """Check what types do not express: no negative sizes, bands around their value, known levels, realistic numbers."""
    if is_dataclass(value):
        for item in fields(value):
            place, inner = joined(key, item.name), getattr(value, item.name)
            if isinstance(inner, int) and inner < 0 and item.name.endswith(SIZES):
                raise _wrong(place, inner, "0 or more")
            _check(inner, place)
        if isinstance(value, Band) and not 0 <= value.low <= value.value <= value.high:
            raise UsageError(f"{key} has a value outside its band", fix=USE_UNMODIFIED)
        if isinstance(value, FindingInfo) and value.level not in LEVELS:
            raise _wrong(f"{key}.level", value.level, f"one of {', '.join(LEVELS)}")
    elif isinstance(value, dict):
        for name, inner in value.items():
            _check(inner, joined(key, name))
    elif isinstance(value, tuple | list):
        for position, inner in enumerate(value):
            _check(inner, f"{key}[{position}]")
    elif isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:  # 1e999, infinity, is not realistic
        raise _wrong(key, value, "a realistic number")


def _wrong(key: str, value: object, expected: str) -> UsageError:
    return UsageError(f"{key} is {shown(value)}, not {expected}", fix=USE_UNMODIFIED)
