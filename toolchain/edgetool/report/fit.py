"""The document of `edgetool fit`: one model against every packaged board. Field names are the JSON's own."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any

from edgetool.report.document import SCHEMA, Band, JudgementInfo, ModelInfo, Provenance, TargetInfo
from edgetool.report.json import plain


@dataclass(frozen=True, slots=True)
class BoardFit:
    """A model on a board. A value that is not known is null.

    fits: whether `edgetool check` passes on the board with the same limits and without a lock file. reasons: a phrase
    for each reason why it does not; failed: the failed judgements. sram_share and flash_share: arena and model relative
    to the memories minus --reserve and --reserve-flash; null if nothing remains. usual_kernels: the kernels that the
    board usually uses, if they are others; then arena and latency are for the target's `kernels`. code_bytes: the flash
    of the code that the firmware links. place: for a board whose memories are too small for the arena only as a whole,
    what to pass to --place, so that it fits in several.
    """

    target: TargetInfo
    vendor: str | None
    mcu: str | None
    clock_hz: int
    fits: bool
    reasons: tuple[str, ...]
    failed: tuple[JudgementInfo, ...]
    arena_bytes: int | None
    arena_is_lower_bound: bool
    region: str | None
    sram_bytes: int | None
    sram_share: float | None
    flash_bytes: int | None
    flash_share: float | None
    latency_ms: Band | None
    validation: str | None
    usual_kernels: str | None
    code_bytes: Band | None = None
    place: str | None = None


@dataclass(frozen=True, slots=True)
class FitInfo:
    """The boards, those that fit first; `sort` is the order within each part.

    judged and fitting count all selected boards; boards contains the requested rows. smallest: the fitting board with
    the smallest SRAM, then the smallest flash. left_out: devices for which only the memory bandwidth is described.
    """

    judged: int
    fitting: int
    smallest: str | None
    sort: str
    left_out: tuple[str, ...]
    boards: tuple[BoardFit, ...]


@dataclass(frozen=True, slots=True)
class FitReport:
    """The whole document."""

    provenance: Provenance
    model: ModelInfo
    fit: FitInfo


COLUMNS = (
    *("target", "board", "vendor", "mcu", "core", "clock_hz", "kernels", "runtime", "fits", "reasons"),
    *("arena_bytes", "arena_is_lower_bound", "region", "sram_bytes", "sram_share"),
    *("model_bytes", "flash_bytes", "flash_share"),
    *("latency_ms", "latency_low_ms", "latency_high_ms", "validation", "usual_kernels"),
)
LIST_SEPARATOR = "; "


def fit_document(report: FitReport) -> dict[str, Any]:
    """Return the report as a JSON value."""
    return {"schema": SCHEMA, **plain(report)}


def fit_csv(report: FitReport) -> str:
    """Return the boards as CSV (RFC 4180, lines ending in a newline): COLUMNS, then a line for each board.

    An empty cell is null, booleans are true and false, reasons are joined by "; ". Text that a spreadsheet would take
    for a formula begins with an apostrophe.
    """
    lines = _Lines()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in report.fit.boards:
        band = row.latency_ms
        values = {
            **plain(row),
            **plain(row.target),
            "target": row.target.name,
            "model_bytes": report.model.bytes,
            "latency_ms": None if band is None else band.value,
            "latency_low_ms": None if band is None else band.low,
            "latency_high_ms": None if band is None else band.high,
        }
        writer.writerow([_cell(values[column]) for column in COLUMNS])
    return "".join(lines)


class _Lines(list[str]):
    write = list.append


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = LIST_SEPARATOR.join(value) if isinstance(value, list) else value
    if not isinstance(text, str):
        return text
    text = " ".join(text.encode("utf-8", "backslashreplace").decode("utf-8").splitlines())
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text
