"""Energy: the power of a board's setup, found on its other models, times a measured or an estimated time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.latency.counts import Book
from benchmarks.latency.kernels import RUNTIMES
from benchmarks.latency.measured import Row
from benchmarks.latency.runtimes import Share, factors
from benchmarks.latency.spread import Spread, spread

from edgetool.target.load import load_target


@dataclass(frozen=True, slots=True)
class Energy:
    """Relative errors of the energy of a class of rows."""

    title: str
    n: int
    errors: Spread


def milliwatts(row: Row) -> float:
    """The mean power of the measured inference: uJ / ms."""
    assert row.energy_uj is not None
    return row.energy_uj / row.ms


def energy_tests(rows: Iterable[Row], found: Sequence[Share], book: Book) -> list[Energy]:
    """Power of the same setup on its other models; then the profile's own power, with measured and estimated time.

    A setup is a submission: board, supply and firmware. Accelerators and processors without a profile are left out.
    """
    shipped = {(runtime, core): factor for runtime, core, factor, *_ in factors(found)}
    by_row = {item.row: item for item in found}
    known = [row for row in rows if row.energy_uj and row.board and not row.reason.startswith(("an ", "no instr"))]
    setups: dict[str, list[Row]] = defaultdict(list)
    for row in known:
        setups[row.setup].append(row)
    same = [
        median(milliwatts(other) for other in group if other is not row) / milliwatts(row) - 1
        for group in setups.values()
        if len(group) > 1
        for row in group
    ]
    tests = [Energy("power of the same setup on its other models x measured time", len(same), spread(same))]
    profiled = [(row, power.active_mw) for row in known for power in [load_target(row.board).power] if power]
    own = [mw / milliwatts(row) - 1 for row, mw in profiled]
    tests.append(Energy("power of the board's profile x measured time", len(own), spread(own)))
    estimated = [
        mw * ms / row.energy_uj - 1
        for row, mw in profiled
        for ms in [_estimated_ms(row, shipped, by_row, book)]
        if ms and row.energy_uj
    ]
    tests.append(Energy("power of the board's profile x estimated time", len(estimated), spread(estimated)))
    same_estimated = [
        median(milliwatts(other) for other in group if other is not row) * ms / row.energy_uj - 1
        for group in setups.values()
        if len(group) > 1
        for row in group
        for ms in [_estimated_ms(row, shipped, by_row, book)]
        if ms and row.energy_uj
    ]
    tests.append(Energy("power of the same setup x estimated time", len(same_estimated), spread(same_estimated)))
    return tests


def _estimated_ms(
    row: Row, shipped: Mapping[tuple[str, str], float], found: Mapping[Row, Share], book: Book
) -> float | None:
    """The estimate as shipped, times the factor of another runtime; None where there is none."""
    if row.role == "shown":
        return None
    if row.runtime.startswith(RUNTIMES):
        return book.counts(row).estimated / row.mhz / 1e3
    mine = found.get(row)
    factor = None if mine is None else shipped.get((mine.runtime, mine.core))
    return None if mine is None or factor is None else factor * row.ms / mine.factor
