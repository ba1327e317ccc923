"""The document as JSON text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from edgetool.report.document import SCHEMA, Report
from edgetool.report.shared_arena import SharedArenaInfo


def plain(value: Any) -> Any:
    """Dataclasses and tuples as dicts and lists, in field order; members of enumerations by their names."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def document(report: Report) -> dict[str, Any]:
    """The document of one report."""
    return {"schema": SCHEMA, **plain(report)}


def documents(reports: Sequence[Report], shared_arena: SharedArenaInfo | None = None) -> dict[str, Any]:
    """One document for one report, {"schema", "reports"} for several; with "shared_arena" where they share one."""
    if len(reports) == 1 and shared_arena is None:
        return document(reports[0])
    shared = {} if shared_arena is None else {"shared_arena": plain(shared_arena)}
    return {"schema": SCHEMA, "reports": [document(report) for report in reports], **shared}


def to_json(value: dict[str, Any]) -> str:
    """JSON text, two spaces a level, ASCII, ending in a newline. NaN and infinity raise ValueError.

    "##", with which CI runners begin a command wherever it stands in a line, is spelt as JSON allows.
    """
    return json.dumps(value, indent=2, allow_nan=False).replace("##", r"#\u0023") + "\n"
