"""Other runtimes: one factor per runtime, version and core on the estimate for TFLM with CMSIS-NN."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.latency.counts import Book
from benchmarks.latency.measured import Row
from benchmarks.latency.spread import Spread, quantile, spread

from edgetool.target.load import load_target

# How a submission names a runtime, and how the table of factors does; a group in the pattern is the version.
NAMES = (
    (r"X-CUBE-AI v?(\d+\.\d+)", "X-CUBE-AI {}"),
    (r"STEdgeAI", ""),
    (r"Bosch.*version (\d+\.\d+(?:\.\d+)?)", "HALE {}"),
    (r"HALE (\d+\.\d+(?:\.\d+)?)", "HALE {}"),
    (r"Plumerai Inference Engine (\d{4}\.\d+)", "Plumerai {}"),
    (r"Plumerai Inference Engine", "Plumerai 2022"),
    (r"ONNC", "ONNC 2023"),
    (r"TinyEngine", "TinyEngine 2022"),
    (r"TFLM \+ ESP-NN", "ESP-NN"),
)
# Above it the arena spans more than one memory of the STM32H747, and times rise.
LARGE_ARENA_KIB = 512
FEW = 4  # as many rows or fewer: their range is the band


@dataclass(frozen=True, slots=True)
class Share:
    """A row of another runtime: its cycles over those estimated for TFLM with CMSIS-NN, and per multiply-accumulate."""

    row: Row
    runtime: str
    core: str
    factor: float
    per_mac: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Each family of models predicted with the factor, and the constant per multiply-accumulate, of all others."""

    title: str
    n: int
    estimate: Spread
    macs: Spread
    errors: tuple[tuple[Row, float], ...]


def runtime_name(words: str) -> str:
    """The runtime and version as the table of factors has them; "" for one that it leaves out."""
    for pattern, name in NAMES:
        found = re.match(pattern, words)
        if found:
            return name.format(*found.groups())
    return ""


def shares(rows: Iterable[Row], book: Book) -> list[Share]:
    """Every counted row of another runtime."""
    found = []
    for row in rows:
        runtime = runtime_name(row.runtime)
        if row.role == "shown" or not runtime or not row.board or row.dtype != "int8":
            continue
        counts = book.counts(row)
        if not counts.instructions:  # nothing of it is counted for this core
            continue
        core = load_target(row.board).core.name
        found.append(Share(row, runtime, core, row.cycles / counts.estimated, row.cycles / counts.macs))
    return found


def left_out(found: Sequence[Share], title: str, *, most_kib: float = 1e9) -> LeftOut:
    """Leave one family out, per runtime, version and core of ST's model zoo; most_kib: the largest arena."""
    groups: dict[tuple[str, str], list[Share]] = defaultdict(list)
    for item in found:
        if item.row.family and item.row.arena_kib <= most_kib:
            groups[item.runtime, item.core].append(item)
    errors: list[tuple[Row, float]] = []
    by_macs: list[float] = []
    for group in groups.values():
        for item in group:
            others = [other for other in group if other.row.family != item.row.family]
            if others:
                errors.append((item.row, median(other.factor for other in others) / item.factor - 1))
                by_macs.append(median(other.per_mac for other in others) / item.per_mac - 1)
    return LeftOut(title, len(errors), spread([error for _, error in errors]), spread(by_macs), tuple(errors))


def factors(found: Sequence[Share]) -> list[tuple[str, str, float, float, float, int, str]]:
    """Runtime, core, factor, low, high, rows, basis: of rows that are not kept back as tests (those of rows.csv)."""
    groups: dict[tuple[str, str], list[Share]] = defaultdict(list)
    for item in found:
        if not _kept_back(item.row):
            groups[item.runtime, item.core].append(item)
    table = []
    for (runtime, core), group in sorted(groups.items()):
        values = [item.factor for item in group]
        few = len(values) <= FEW
        low, high = (min(values), max(values)) if few else (quantile(values, 0.1), quantile(values, 0.9))
        boards = ", ".join(sorted({item.row.board for item in group}))
        sources = " and ".join(
            name
            for name, some in (
                ("MLPerf Tiny", any(not item.row.family and "mlcommons" in item.row.source for item in group)),
                ("ST's model zoo", any(item.row.family for item in group)),
                ("README of ESP-NN", any("espressif" in item.row.source for item in group)),
                ("TinyEngine's README", any("tinyengine" in item.row.source for item in group)),
            )
            if some
        )
        covered = "full range of the results" if few else "range that covers 80 % of the results"
        basis = f"{sources}: {boards}; {covered}"
        table.append((runtime, core, *(round(value, 3) for value in (median(values), low, high)), len(group), basis))
    return table  # type: ignore[return-value]  # three rounded numbers between names and count


def factors_csv(found: Sequence[Share]) -> str:
    """The text of targets/factors.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["runtime", "core", "factor", "low", "high", "rows", "basis"])
    for runtime, core, factor, low, high, rows, basis in factors(found):
        writer.writerow([runtime, core, f"{factor:g}", f"{low:g}", f"{high:g}", rows, basis])
    return text.getvalue()


def kept_back(found: Sequence[Share]) -> list[tuple[Share, float]]:
    """Rows on boards that no factor was made of, with the error of the factor of their runtime, version and core."""
    table = {(runtime, core): factor for runtime, core, factor, *_ in factors(found)}
    return [
        (item, table[item.runtime, item.core] / item.factor - 1)
        for item in found
        if _kept_back(item.row) and (item.runtime, item.core) in table
    ]


def _kept_back(row: Row) -> bool:
    return row.setup == row.board and not row.family
