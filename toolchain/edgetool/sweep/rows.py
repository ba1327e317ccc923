"""The table of a sweep: every variant with what its jobs gave, judged, the front marked."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from edgetool.sweep.front import front
from edgetool.sweep.job import Outcome
from edgetool.sweep.judge import judge
from edgetool.sweep.metrics import Metrics, Quality, Row
from edgetool.sweep.savings import savings_notes
from edgetool.sweep.spec import SweepLimits
from edgetool.sweep.store import Entry, Store
from edgetool.sweep.stored import read_cost, read_left_alone, read_notes, read_quality

# What a job is called where it failed.
DOING = {
    "build": "building",
    "prune": "pruning",
    "reference": "running the original float model",
    "convert": "converting",
    "analyse": "analysing",
}
# The jobs that tell something of the variants that they are of.
NOTING = ("build", "prune", "convert")
NAMED = 3
# oneDNN, which multiplies matrices for TensorFlow, has code for each instruction set, and sums up in other orders.
ELSEWHERE = (
    "fine-tuning depends on the processor's instruction set: on another machine, accuracies may differ by a few "
    "percentage points"
)

FIGURES = frozenset(["convert", "analyse"])  # the jobs whose results are a variant's figures


def rows(store: Store, axes: Sequence[str] | None = None, *, notes: bool = True) -> tuple[Row, ...]:
    """The variants of the store's sweep by number, judged by its limits, with the front of the axes marked.

    axes: of front.AXES, by default those of front.default_axes for each target. notes: whether they are made. Raises
    UsageError for an unknown axis, and for results that this version cannot read.
    """
    with _collector_paused():
        with store.at_once():
            limits, entries, outcomes = store.sweep().limits, store.entries(), store.outcomes()
        return made_rows(entries, outcomes, limits, axes, notes=notes, where=str(store.path))


def made_rows(
    entries: Sequence[Entry],
    outcomes: Mapping[str, Outcome],
    limits: SweepLimits,
    axes: Sequence[str] | None = None,
    *,
    notes: bool = True,
    where: str = "the store",
) -> tuple[Row, ...]:
    """The same of variants and of the outcomes of their jobs. where: what is named where a result cannot be read."""
    table = _Outcomes(outcomes, where)
    found = [_row(entry, table, limits, notes=notes) for entry in entries]
    said = savings_notes(found) if notes else {}
    marked = front(found, axes)
    return tuple(
        replace(row, on_front=row.number in marked, notes=(*row.notes, *said.get(row.number, ())))
        if row.number in marked or row.number in said
        else row
        for row in found
    )


class _Outcomes:
    """Outcomes as types; of those that many variants share each is read once."""

    def __init__(self, outcomes: Mapping[str, Outcome], where: str) -> None:
        self.outcomes = outcomes
        self.where = where
        self._qualities: dict[str, Quality] = {}
        self._notes: dict[str, tuple[str, ...]] = {}

    def place(self, key: str) -> str:
        return f"{self.where}: job {key[:12]}"

    def metrics(self, keys: Mapping[str, str]) -> Metrics:
        convert, analyse = keys["convert"], keys["analyse"]
        quality = self._qualities.get(convert)
        if quality is None:
            quality = read_quality(self.outcomes[convert].value, self.place(convert))
            self._qualities[convert] = quality
        return Metrics(quality, read_cost(self.outcomes[analyse].value, self.place(analyse)))

    def notes(self, key: str) -> tuple[str, ...]:
        notes = self._notes.get(key)
        if notes is None:
            value, place = self.outcomes[key].value, self.place(key)
            notes = (*read_notes(value, place), *_left_alone(read_left_alone(value, place)))
            if value.get("history"):  # of the losses of training
                notes += (ELSEWHERE,)
            self._notes[key] = notes
        return notes


def _row(entry: Entry, table: _Outcomes, limits: SweepLimits, *, notes: bool) -> Row:
    number, variant = entry.number, entry.variant
    missing = not FIGURES.issubset(kind for kind, _ in entry.keys)
    said: tuple[str, ...] = ()
    for kind, key in entry.keys:
        outcome = table.outcomes.get(key)
        if outcome is None:
            missing = True
        elif outcome.reason is not None:
            return Row(number, variant, "failed", reason=f"{DOING.get(kind, kind)}: {outcome.reason}")
        elif notes and kind in NOTING:
            said += table.notes(key)
    if missing:
        return Row(number, variant, "pending", notes=said)
    metrics = table.metrics(dict(entry.keys))
    return Row(number, variant, "done", metrics=metrics, judged=judge(metrics, limits), notes=said)


def _left_alone(layers: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    if not layers:
        return ()
    named = ", ".join(f"{layer} ({reason})" for layer, reason in layers[:NAMED])
    more = f" and {len(layers) - NAMED} more" if len(layers) > NAMED else ""
    return (f"{len(layers)} layer{'s' * (len(layers) != 1)} not pruned: {named}{more}",)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Of hundreds of thousands of new objects none is garbage: to look for it takes as long as to make them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
