"""The document as JSON text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from edgetool.report.document import SCHEMA, Report


def plain(value: Any) -> Any:
    """Dataclasses and tuples as dicts and lists, in field order."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def document(report: Report) -> dict[str, Any]:
    """The document of one report."""
    return {"schema": SCHEMA, **plain(report)}


def documents(reports: Sequence[Report]) -> dict[str, Any]:
    """One document for one report, {"schema", "reports"} for several."""
    if len(reports) == 1:
        return document(reports[0])
    return {"schema": SCHEMA, "reports": [document(report) for report in reports]}


def to_json(value: dict[str, Any]) -> str:
    """JSON text, two spaces a level, ASCII, ending in a newline. NaN and infinity raise ValueError."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"
