"""Rows of TFLM and microTVM with CMSIS-NN: how well the estimate predicts them, calibrated and not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.latency.counts import Book, Counts
from benchmarks.latency.measured import Row
from benchmarks.latency.spread import Spread, spread

from edgetool.target.load import load_target

RUNTIMES = ("TFLM + CMSIS-NN", "microTVM + CMSIS-NN", "ExecuTorch + CMSIS-NN")
# The model on which a board is calibrated before its others are predicted.
FIRST = "kws"
# The least share of its model's time from which a measured operator counts: below, it is mostly the interpreter.
SMALLEST = 0.003
# Boards whose rows of whole models a core's figures are found with, and the models of them that are.
FITTED = {
    "nucleo-l4r5zi": ("ad", "ic", "kws", "vww"),
    "nrf5340-dk": ("ad", "ic", "kws", "vww"),
    "ek-ra8d1": ("ic", "kws"),
    "nucleo-h743zi2": ("mcunet-vww1",),
}
# Boards whose float32 rows say how much longer an instruction of a float32 operator takes.
FITTED_FLOAT = ("nucleo-l4r5zi",)


@dataclass(frozen=True, slots=True)
class Prediction:
    """One measured model or operator: what the estimate says, and what multiply-accumulates times a constant say."""

    row: Row
    counts: Counts
    cycles: float
    by_macs: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.cycles / self.row.cycles - 1

    @property
    def macs_error(self) -> float:
        """The same of the constant per multiply-accumulate."""
        return self.by_macs / self.row.cycles - 1


@dataclass(frozen=True, slots=True)
class Test:
    """A line of a table: what was fitted on which rows, and how others came out."""

    title: str
    core: str
    fitted: tuple[Row, ...]
    predictions: tuple[Prediction, ...]

    @property
    def board(self) -> str:
        """The profile that it tests."""
        return self.predictions[0].row.board

    @property
    def estimate(self) -> Spread:
        return spread([item.error for item in self.predictions])

    @property
    def macs(self) -> Spread:
        return spread([item.macs_error for item in self.predictions])


def fitted(row: Row) -> bool:
    """Whether a core's figures are found with the row: by its board and model, or because it says so."""
    if row.role == "calibration":
        return True
    if row.dtype == "float32":
        return row.board in FITTED_FLOAT
    return row.operator is None and row.dtype == "int8" and row.model in FITTED.get(row.board, ())


def kernel_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows of these runtimes that count; submissions of the same measurement are one, by their median."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row.role != "shown" and row.board and row.runtime.startswith(RUNTIMES):
            groups[row.board, row.runtime, row.model, row.dtype, str(row.operator)].append(row)
    return [replace(same[0], ms=median(row.ms for row in same)) for same in groups.values()]


def calibrated_tests(rows: Sequence[Row], book: Book) -> list[Test]:
    """Each board and runtime calibrated on one model, keyword spotting; its other models predicted."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.operator is None:
            groups[row.board, row.runtime, row.dtype].append(row)
    tests = []
    for (board, runtime, dtype), group in groups.items():
        first = next((row for row in group if row.model == FIRST), None)
        others = [row for row in group if row is not first]
        if first is None or not others:
            continue
        base = book.counts(first)
        cpi, per_mac = base.cpi(first.cycles), first.cycles / base.macs
        found = tuple(
            Prediction(row, counts, counts.cycles(cpi), per_mac * counts.macs)
            for row in others
            for counts in [book.counts(row)]
        )
        tests.append(Test(f"{board}, {runtime}, {dtype}", _core(board), (first,), found))
    return tests


def shipped_tests(rows: Sequence[Row], book: Book) -> list[Test]:
    """The profiles as they are shipped, by core: the rows that its figures were found with, then all others."""
    groups: dict[tuple[str, bool, str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.operator is None:
            groups[_core(row.board), not fitted(row), row.board, row.runtime, row.dtype].append(row)
    per_mac = {
        (core, is_float): median(row.cycles / book.counts(row).macs for row in own)
        for core, is_float in {(core, dtype == "float32") for core, *_, dtype in groups}
        for own in [[row for row in rows if fitted(row) and _kind(row) == (core, is_float)]]
        if own
    }
    tests = []
    for (core, tested, board, runtime, dtype), group in sorted(groups.items()):
        constant = per_mac.get((core, dtype == "float32"))
        if constant is not None:
            found = tuple(
                Prediction(row, counts, counts.estimated, constant * counts.macs)
                for row in group
                for counts in [book.counts(row)]
            )
            tests.append(Test(f"{board}, {runtime}, {dtype}", core, () if tested else tuple(group), found))
    return tests


def operator_tests(rows: Sequence[Row], book: Book) -> list[Test]:
    """Operators measured one by one, by the shipped profile of their board; the smallest are left out.

    An operator counts from SMALLEST on.
    """
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.operator is not None:
            groups[row.board, row.runtime].append(row)
    tests = []
    for (board, runtime), group in groups.items():
        total = sum(row.ms for row in group)
        large = [row for row in group if row.ms >= SMALLEST * total and book.counts(row).macs]
        own = tuple(row for row in large if fitted(row))
        base = own or tuple(row for row in rows if row.board == board and fitted(row))
        per_mac = median(row.cycles / book.counts(row).macs for row in base if book.counts(row).macs)
        found = tuple(
            Prediction(row, counts, counts.estimated, per_mac * counts.macs)
            for row in large
            for counts in [book.counts(row)]
        )
        tests.append(Test(f"{board}, {runtime}, {group[0].model} by operator", _core(board), own, found))
    return tests


def _kind(row: Row) -> tuple[str, bool]:
    return _core(row.board), row.dtype == "float32"


def _core(board: str) -> str:
    return load_target(board).core.name
