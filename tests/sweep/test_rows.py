"""The table of a store."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetool.errors import UsageError
from edgetool.gate.limits import parse_budget
from edgetool.report.document import Band
from edgetool.sweep.jobs import Outcome
from edgetool.sweep.metrics import Row
from edgetool.sweep.spec import SweepLimits
from edgetool.sweep.store import Entry, open_store
from edgetool.sweep.table import ELSEWHERE, made_rows, rows
from tests.sweep.made_rows import chain, metrics, outcomes, record, variant, write_store

NO_LIMITS = SweepLimits()


def table(made: dict[Entry, Any], limits: SweepLimits = NO_LIMITS, **options: Any) -> dict[int, Row]:
    results: dict[str, Outcome] = {}
    for entry, found in made.items():
        results |= outcomes(entry, found) if not isinstance(found, dict) else found
    return {row.number: row for row in made_rows(list(made), results, limits, **options)}


def test_a_store_gives_back_what_was_measured_judged_and_marked(tmp_path: Path) -> None:
    limits = SweepLimits(budgets=(parse_budget("16KiB"),), active_budget=parse_budget("18KiB"))
    fast, slow = Band(5.0, 4.0, 6.0), Band(50.0, 40.0, 60.0)
    wanted = {
        chain(1, variant()): metrics(arena_bytes=18_432, latency_ms=slow),
        chain(2, variant(0.5)): metrics(arena_bytes=16_000, latency_ms=fast, quality={"accuracy": 0.8}),
        chain(3, variant(precision="float32")): metrics(arena_bytes=40_000, quality={"sqnr_db": None, "equal": True}),
        chain(4, variant(0.75)): metrics(arena_bytes=16_000, latency_ms=slow, quality={"accuracy": 0.7}),
    }
    results = {key: outcome for entry, made in wanted.items() for key, outcome in outcomes(entry, made).items()}
    write_store(tmp_path / "s.sqlite", record(limits=limits), list(wanted), results)
    with open_store(tmp_path / "s.sqlite") as store:
        found = rows(store)
        assert rows(store, ("latency_ms",))[0].on_front is False
        with pytest.raises(UsageError, match="no axis 'speed'"):
            rows(store, ("speed",))
    assert [row.number for row in found] == [1, 2, 3, 4]
    assert [row.metrics for row in found] == list(wanted.values())
    assert [row.status for row in found] == ["done"] * 4
    assert [row.judged and row.judged.accepted for row in found] == [True, True, False, True]
    assert [row.judged and row.judged.budgets[0].violated for row in found] == [True, False, True, False]
    assert [row.on_front for row in found] == [True, True, False, False]
    assert gc.isenabled()


def test_a_variant_fails_by_the_first_of_its_jobs_that_failed() -> None:
    whole, pruned = chain(1, variant()), chain(2, variant(0.5))
    done = outcomes(whole, metrics())
    failed = {"prune 0.5": Outcome(reason="no layer can be pruned"), "reference": done["reference"]}
    found = table({whole: done, pruned: failed})
    assert (found[1].status, found[1].reason) == ("done", None)
    assert (found[2].status, found[2].reason) == ("failed", "pruning: no layer can be pruned")
    assert found[2].metrics is None
    assert found[2].judged is None
    for kind, key in whole.keys:
        reason = table({whole: {**done, key: Outcome(reason="out of memory")}})[1].reason
        expected = {"reference": "running the original float model", "convert": "converting", "analyse": "analysing"}[
            kind
        ]
        assert reason == f"{expected}: out of memory"


def test_what_is_not_all_there_is_pending_whatever_is_missing() -> None:
    entry = chain(1, variant(0.5))
    whole = outcomes(entry, metrics())
    for _, key in entry.keys:
        row = table({entry: {name: value for name, value in whole.items() if name != key}})[1]
        assert (row.status, row.metrics, row.on_front) == ("pending", None, False)
    assert table({entry: {}})[1].status == "pending"


def test_a_note_says_that_fine_tuning_depends_on_the_machine() -> None:
    whole, pruned, tuned = chain(1, variant()), chain(2, variant(0.5)), chain(3, variant(0.75))
    found = table(
        {
            whole: outcomes(whole, metrics()),
            pruned: outcomes(pruned, metrics(arena_bytes=9000), history=[]),
            tuned: outcomes(tuned, metrics(arena_bytes=8000), history=[0.7, 0.3]),
        }
    )
    assert [number for number, row in found.items() if ELSEWHERE in row.notes] == [3]


def test_notes_tell_of_layers_left_alone_of_jobs_and_of_levels_that_save_nothing() -> None:
    left = [["word", "it is the output"], ["gate", "a custom layer"], ["c", "excluded"], ["d", "excluded"]]
    first, second = chain(1, variant()), chain(2, variant(0.5))
    results = outcomes(first, metrics()) | outcomes(second, metrics(), left_alone=left, notes=["few samples"])
    results["convert 0.0 int8"] = Outcome(
        value={**results["convert 0.0 int8"].value, "notes": ["dense weights have one scale"]}
    )
    found = table({first: results, second: results})
    assert found[1].notes == ("dense weights have one scale",)
    assert found[2].notes == (
        "few samples",
        "4 layers not pruned: word (it is the output), gate (a custom layer), c (excluded) and 1 more",
        "no figure is smaller than at level 0",
    )
    one = table({second: outcomes(second, metrics(), left_alone=left[:1])})
    assert one[2].notes == ("1 layer not pruned: word (it is the output)",)


def changed(path: tuple[str, ...], value: Any) -> dict[str, Outcome]:
    """The outcomes of a variant with one value of the analysis or the conversion replaced, or (...) taken out."""
    entry = chain(1, variant())
    results = outcomes(entry, metrics())
    key = "analyse 0.0 int8 board" if path[0] == "cost" else "convert 0.0 int8"
    whole: dict[str, Any] = dict(results[key].value)
    place = whole
    for name in path[:-1]:
        place = place[name]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return {**results, key: replace(results[key], value=whole)}


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        (("cost",), ..., "cost is missing"),
        (("cost", "macs"), ..., "cost.macs is missing"),
        (("cost", "macs"), "many", "cost.macs is 'many', not an integer"),
        (("cost", "arena_bytes"), True, "cost.arena_bytes is True, not an integer or null"),
        (("cost", "latency_ms", "low"), None, "cost.latency_ms.low is None, not a number"),
        (("cost", "latency_ms", "low"), 21.0, "cost.latency_ms is .*, not a value within its band"),
        (("cost", "errors"), "none", "cost.errors is 'none', not a list"),
        (("cost", "region"), 5, "cost.region is 5, not a string"),
        (("quality", "calibrated"), 1, "quality.calibrated is 1, not true or false"),
        (("quality",), [], r"quality is \[\], not an object"),
        (("notes",), [1], "notes is 1, not a string"),
    ],
)
def test_results_that_cannot_be_read_are_named(path: tuple[str, ...], value: Any, what: str) -> None:
    results = changed(path, value)
    with pytest.raises(UsageError, match=rf"words.sqlite: job (convert|analyse) .*: {what}.*; run the sweep again"):
        made_rows([chain(1, variant())], results, NO_LIMITS, where="words.sqlite")


def test_results_of_a_later_version_are_read() -> None:
    results = changed(("cost", "novelty"), 5)
    (row,) = made_rows([chain(1, variant())], results, NO_LIMITS)
    assert row.metrics == metrics()
    older = changed(("cost", "warnings"), ...)  # a field with a default
    assert made_rows([chain(1, variant())], older, NO_LIMITS)[0].metrics == metrics()
