"""The tables: as text for a terminal and as the markdown of docs/accuracy.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.latency.counts import Book
from benchmarks.latency.kernels import FITTED, Test, calibrated_tests, kernel_rows, operator_tests, shipped_tests
from benchmarks.latency.measured import Row, rows
from benchmarks.latency.memories import PREDICTED_FROM, Held, held_out, summaries
from benchmarks.latency.power import Energy, energy_tests
from benchmarks.latency.runtimes import LARGE_ARENA_KIB, LeftOut, Share, factors, kept_back, left_out, shares
from benchmarks.latency.spread import Spread, spread


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that was compared."""

    calibrated: tuple[Test, ...]
    shipped: tuple[Test, ...]
    operators: tuple[Test, ...]
    shares: tuple[Share, ...]
    zoo: tuple[LeftOut, ...]
    kept_back: tuple[tuple[Share, float], ...]
    memories: tuple[Held, ...]
    energy: tuple[Energy, ...]
    uncounted: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, what it says, the columns and their cells."""

    title: str
    text: str
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]


def compare(data: Path) -> Results:
    """Hold every row of the data against the estimates."""
    book, all_rows = Book(data), rows(data)
    kernels, found = kernel_rows(all_rows), shares(all_rows, book)
    reasons = Counter(row.reason for row in all_rows if row.role == "shown")
    return Results(
        calibrated=tuple(calibrated_tests(kernels, book)),
        shipped=tuple(shipped_tests(kernels, book)),
        operators=tuple(operator_tests(kernels, book)),
        shares=tuple(found),
        zoo=(
            left_out(found, "all arenas"),
            left_out(found, f"arenas up to {LARGE_ARENA_KIB} KiB", most_kib=LARGE_ARENA_KIB),
        ),
        kept_back=tuple(kept_back(found)),
        memories=tuple(held_out(all_rows, found, book)),
        energy=tuple(energy_tests(all_rows, found, book)),
        uncounted=tuple(reasons.most_common()),
    )


def other_boards(results: Results) -> list[Test]:
    """The shipped profiles of boards not used for fitting: only others of their core were measured."""
    return [test for test in results.shipped if test.board not in FITTED and not old(test)]


def submitted(results: Results) -> list[Test]:
    """Boards calibrated on one model whose rows are results of MLPerf Tiny."""
    return [test for test in results.calibrated if "mlcommons" in test.predictions[0].row.source]


def old(test: Test) -> bool:
    """Whether its kernels are those of 2020: shown, and not counted."""
    return "(2020" in test.title


FEW_NAMED = 8  # as many rows of a group or fewer are named
ERRORS = ("n", "median", "p90", "max", "MACs x constant: median", "p90", "max")


def tables(results: Results) -> list[Table]:
    """What the page shows, in its order."""
    return [
        Table(
            "Calibrated on one model of a board",
            "As in `edgetool calibrate`, one measured time of the keyword spotting model determines the cycles per"
            " instruction; the board's other models are then predicted.",
            ("board, runtime, type", "core", "tested on", *ERRORS),
            (
                *(_test(test) for test in results.calibrated),
                _all("models submitted to MLPerf Tiny", submitted(results)),
                _all("all rows", results.calibrated),
            ),
        ),
        Table(
            "The shipped profiles",
            "Rows marked * were used to fit the core's values; all others are tests.",
            ("board, runtime, type", "core", "tested on", *ERRORS),
            (
                *(_test(test, "*" if test.fitted else "") for test in results.shipped if not old(test)),
                _all("boards not used for fitting", other_boards(results)),
            ),
        ),
        Table(
            "Kernels from 2020",
            "The same profiles compared with older kernels; CMSIS-NN has since been rewritten. These rows are shown but"
            " not counted.",
            ("board, runtime, type", "core", "tested on", *ERRORS),
            tuple(_test(test) for test in results.shipped if old(test)),
        ),
        Table(
            "Single operators",
            "Operators with multiply-accumulates that take at least 0.3 % of their model's time. An asterisk (*) has"
            " the same meaning as above.",
            ("board, runtime, model", "core", "tested on", *ERRORS),
            tuple(_test(test, "*" if test.fitted else "") for test in results.operators),
        ),
        Table(
            "X-CUBE-AI on ST's model zoo",
            "The estimate is scaled by one factor per core and version; each family of models is predicted from the"
            " others.",
            ("rows", *ERRORS),
            tuple((item.title, *_errors(item.estimate, item.macs)) for item in results.zoo),
        ),
        Table(
            "Factors of other runtimes",
            "Time relative to the estimate for TFLM with CMSIS-NN (on Espressif's chips, for TFLM with its reference"
            " kernels). The factors are in `targets/factors.csv`.",
            ("runtime", "core", "factor", "low", "high", "rows"),
            tuple(
                (name, core, f"{factor:.2f}", f"{low:.2f}", f"{high:.2f}", str(n))
                for name, core, factor, low, high, n, _ in factors(results.shares)
            ),
        ),
        Table(
            "Factors on boards not used to derive them",
            "The factor of a runtime, version and core, applied to a board whose rows were not used to derive it.",
            ("board", "runtime", "tested on", "n", "median", "p90", "max"),
            tuple(_kept(results.kept_back)),
        ),
        Table(
            "External memories",
            "Rows with the arena in SDRAM or PSRAM, or with constants in serial flash. Each is predicted without the"
            " rows of its board, or, in the first and third line, of its build or family. *inside*: rows within the"
            " printed band; *band*: half of its width, relative to the estimate.",
            ("rows", "predicted from", "tested on", "inside", "median error", "median band"),
            tuple(_memories(results.memories)),
        ),
        Table(
            "Energy",
            "A setup is one submission: a board, its power supply and its firmware.",
            ("calculation", "n", "median", "p90", "max"),
            tuple((item.title, *_spread(item.errors)) for item in results.energy),
        ),
        Table(
            "Rows shown but not counted",
            "",
            ("reason", "rows"),
            tuple((reason[:1].upper() + reason[1:], str(n)) for reason, n in results.uncounted),
        ),
    ]


def _test(test: Test, mark: str = "") -> tuple[str, ...]:
    names = [_name(item.row, item.error) for item in test.predictions]
    tested = ", ".join(names) if len(names) <= 12 else f"{len(names)} rows"
    return (test.title + mark, test.core, tested, *_errors(test.estimate, test.macs))


def _name(row: Row, error: float) -> str:
    operator = "" if row.operator is None else f"#{row.operator}"
    return f"{row.model}{operator} {100 * error:+.0f} %"


def _all(title: str, tests: Iterable[Test]) -> tuple[str, ...]:
    predictions = [item for test in tests for item in test.predictions]
    ours, macs = spread([p.error for p in predictions]), spread([p.macs_error for p in predictions])
    return (title, "", "", *_errors(ours, macs))


def _kept(found: Sequence[tuple[Share, float]]) -> Iterable[tuple[str, ...]]:
    for board, runtime in dict.fromkeys((item.row.board, item.runtime) for item, _ in found):
        mine = [(item.row, error) for item, error in found if (item.row.board, item.runtime) == (board, runtime)]
        names = ", ".join(_name(row, error) for row, error in mine)
        yield (board, runtime, names, *_spread(spread([error for _, error in mine])))


def _memories(found: Sequence[Held]) -> Iterable[tuple[str, ...]]:
    for item in summaries(found):
        mine = [each for each in found if each.group == item.group]
        names = ", ".join(f"{each.row.board} {_name(each.row, each.error)}" for each in mine)
        tested = names if 0 < len(mine) <= FEW_NAMED else f"{item.n} rows"
        yield (
            item.group,
            PREDICTED_FROM.get(item.group, ""),
            tested.replace("latency/zoo/", "").replace("_int8.tflite", ""),
            f"{item.inside} of {item.n}",
            f"{100 * item.error:.0f} %",
            f"±{100 * item.half_width:.0f} %",
        )


def _errors(ours: Spread, macs: Spread) -> tuple[str, ...]:
    return (*_spread(ours), *_spread(macs)[1:])


def _spread(item: Spread) -> tuple[str, ...]:
    return (str(item.n), *(f"{100 * value:.1f} %" for value in (item.median, item.p90, item.largest)))


def markdown(found: Sequence[Table]) -> str:
    """The tables as a page's sections."""
    parts = []
    for table in found:
        lines = [f"### {table.title}", ""]
        if table.text:
            lines += [table.text, ""]
        lines.append("| " + " | ".join(table.header) + " |")
        lines.append("|" + "|".join([" --- "] * len(table.header)) + "|")
        lines += ["| " + " | ".join(cell or " " for cell in row) + " |" for row in table.cells]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def text(found: Sequence[Table]) -> str:
    """The tables in columns; the one of tested rows below its line."""
    parts = []
    for table in found:
        wide = table.header.index("tested on") if "tested on" in table.header else -1
        header = tuple(name for i, name in enumerate(table.header) if i != wide)
        narrow = [tuple(cell for i, cell in enumerate(row) if i != wide) for row in table.cells]
        widths = [max(len(row[i]) for row in (header, *narrow)) for i in range(len(header))]
        lines = [table.title, *([f"  {table.text}"] if table.text else []), ""]
        for row, whole in zip([header, *narrow], [None, *table.cells], strict=True):
            lines.append("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
            if whole is not None and wide >= 0 and whole[wide]:
                lines.append(f"      {whole[wide]}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
