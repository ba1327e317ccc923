"""Tables as data: names, order, JSON values, and CSV that reads back to the same records.

The table of a store.

What levels save, and what is said where they do not.

What is warned of in a table.
"""

from __future__ import annotations

import csv
import gc
import io
import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.gate.limits import parse_budget
from edgetool.report.document import Band
from edgetool.report.json import to_json
from edgetool.sweep.jobs import Outcome
from edgetool.sweep.judge import judge
from edgetool.sweep.metrics import Cost, Metrics, Quality, Row, Variant
from edgetool.sweep.spec import SweepLimits, TargetSpec
from edgetool.sweep.store import Entry, SweepRecord, open_store
from edgetool.sweep.table import (
    CHECKED,
    COLUMNS,
    FINE_TUNING_NOTE,
    budget_columns,
    build_rows,
    record_of_row,
    rows,
    rows_csv,
    rows_json,
    saved,
    savings_notes,
    sweep_warnings,
)
from tests.sweep.made_rows import chain, metrics, outcomes, record, row, variant, write_store

LIMITS = SweepLimits(
    budgets=(parse_budget("10MB:flash"), parse_budget("20MB:flash")), active_budget=parse_budget("10MB:flash")
)
RECORD = SweepRecord(
    name="keywords",
    model="model:build",
    parameter_names=("width", "depth"),
    targets=(
        TargetSpec("m4", "cortex-m4", None, (("clock_hz", 80_000_000),)),
        TargetSpec("mine", "mine.toml", 'name = "mine"', ()),
    ),
    limits=LIMITS,
    strategy="grid",
    objectives=("accuracy", "latency_ms"),
    options={"samples": 100, "trust_model_code": True},
)
QUALITY = Quality(0.91, 0.95, 0.93, 31.5, calibrated=True, samples=100)
COST = Cost(
    arena_bytes=20_000,
    arena_least_bytes=20_000,
    arena_proof="exhausted",
    model_bytes=17_700_000,
    parameters=4_400_000,
    macs=10**9,
    latency_ms=Band(20.5, 15.0, 25.0),
    energy_uj=Band(500.0, 400.0, 700.0),
    bandwidth_utilization=0.25,
    region="sram",
    sram_bytes=None,
    flash_bytes=None,
)
METRICS = Metrics(QUALITY, COST)
DONE = Row(
    1,
    Variant((("width", 0.5), ("depth", 3)), 0.25, "int8", "m4"),
    "done",
    metrics=METRICS,
    judged=judge(METRICS, LIMITS),
    on_front=True,
    notes=("a, b", 'c "d"'),
)
PENDING = Row(2, Variant((("width", 1.0), ("depth", 3)), 0.0, "int8", "mine"), "pending")
FAILED = Row(3, Variant((("width", 2.0), ("depth", 3)), 0.0, "int8", "mine"), "failed", reason="killed\nby signal 9")


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_record_has_every_name_in_order() -> None:
    record = record_of_row(DONE, budget_columns(LIMITS))
    assert record == {
        "number": 1,
        "target": "m4",
        "level": 0.25,
        "precision": "int8",
        "optimize": True,
        "max_extra_macs": None,
        "parameters": {"width": 0.5, "depth": 3},
        "status": "done",
        "reason": None,
        "accuracy": 0.91,
        "float_accuracy": 0.95,
        "agreement": 0.93,
        "sqnr_db": 31.5,
        "calibrated": True,
        "arena_bytes": 20_000,
        "arena_least_bytes": 20_000,
        "model_bytes": 17_700_000,
        "model_parameters": 4_400_000,
        "macs": 10**9,
        "latency_ms": 20.5,
        "latency_low_ms": 15.0,
        "latency_high_ms": 25.0,
        "energy_uj": 500.0,
        "energy_low_uj": 400.0,
        "energy_high_uj": 700.0,
        "bandwidth_utilization": 0.25,
        "violates_10mb": True,
        "violates_20mb": False,
        "accepted": False,
        "causes": ["budget"],
        "rejected": list(judge(METRICS, LIMITS).rejected),
        "on_front": True,
        "notes": ["a, b", 'c "d"'],
    }
    assert [name for name in record if not name.startswith("violates_")] == list(COLUMNS)


@pytest.mark.parametrize("row", [PENDING, FAILED], ids=["pending", "failed"])
def test_what_is_not_known_is_null(row: Row) -> None:
    record = record_of_row(row, budget_columns(LIMITS))
    known = {
        "number",
        "target",
        "level",
        "precision",
        "optimize",
        "parameters",
        "status",
        "on_front",
        "causes",
        "rejected",
        "notes",
    }
    known |= {"reason"} if row.reason else set()
    assert {name for name, value in record.items() if value is not None} == known
    assert list(record) == list(record_of_row(DONE, budget_columns(LIMITS)))


def test_figures_that_a_target_has_not_are_null() -> None:
    metrics = Metrics(QUALITY, replace(COST, latency_ms=None, energy_uj=None, arena_bytes=None))
    record = record_of_row(replace(DONE, metrics=metrics), ())
    empty = {name for name, value in record.items() if value is None}
    bands = {f"latency_{end}ms" for end in ("", "low_", "high_")} | {f"energy_{end}uj" for end in ("", "low_", "high_")}
    assert empty == bands | {"reason", "arena_bytes", "max_extra_macs"}


def test_the_document() -> None:
    document = rows_json(RECORD, [DONE, PENDING, FAILED])
    assert document["schema"] == "edgetool/1"
    assert list(document["provenance"]) == ["tool", "versions", "options", "trust_model_code"]
    assert document["provenance"]["trust_model_code"] is True
    assert document["provenance"]["options"] == {"samples": 100}
    sweep = document["sweep"]
    assert [variant["number"] for variant in sweep["variants"]] == [1, 2, 3]
    assert sweep["targets"] == [
        {"label": "m4", "name": "cortex-m4", "own_profile": False, "overrides": {"clock_hz": 80_000_000}},
        {"label": "mine", "name": "mine.toml", "own_profile": True, "overrides": {}},
    ]
    assert sweep["limits"]["active_budget"] == {"text": "10MB", "bytes": 10**7, "of": "flash"}
    assert json.loads(to_json(document)) == document
    assert RECORD.options == {"samples": 100, "trust_model_code": True}


def test_csv_has_the_same_columns_and_values() -> None:
    text = rows_csv(RECORD, [DONE, PENDING, FAILED])
    assert "\r" not in text
    rows = read(text)
    expected = list(record_of_row(DONE, budget_columns(LIMITS)))
    at = expected.index("parameters")
    assert list(rows[0]) == [*expected[:at], "param_width", "param_depth", *expected[at + 1 :]]
    assert rows[0]["param_width"] == "0.5"
    assert (rows[0]["violates_10mb"], rows[0]["violates_20mb"], rows[0]["accepted"]) == ("true", "false", "false")
    assert (rows[0]["reason"], rows[0]["notes"]) == ("", 'a, b; c "d"')
    assert rows[2]["reason"] == "killed\nby signal 9"
    assert rows[1]["accepted"] == ""
    assert len(rows) == 3


def test_without_rows_there_is_a_header() -> None:
    assert rows_csv(RECORD, []).count("\n") == 1
    assert rows_json(RECORD, [])["sweep"]["variants"] == []


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\n=1"])
def test_no_text_is_a_formula(text: str) -> None:
    variant = Variant((("width", text), ("depth", -1)), 0.0, "int8", text)
    row = read(rows_csv(RECORD, [Row(1, variant, "failed", reason=text, notes=(text, text))]))[0]
    assert row["target"] == row["param_width"] == row["reason"] == f"'{text}"
    assert row["param_depth"] == "-1"
    assert row["notes"] == f"'{text}; {text}"
    assert rows_json(RECORD, [Row(1, variant, "pending")])["sweep"]["variants"][0]["parameters"]["width"] == text


def test_a_reason_that_is_no_text_can_be_written() -> None:
    text = rows_csv(RECORD, [replace(FAILED, reason="\udcff.h5 is missing")])
    assert "\\udcff.h5 is missing" in text
    text.encode("utf-8")


PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.text("ab=-\r\n\t,;\"' ", max_size=8)


@settings(max_examples=60)
@given(
    width=st.floats(allow_nan=False, allow_infinity=False),
    depth=st.integers(-(2**53), 2**53) | PLAIN | st.booleans(),
    reason=PLAIN,
    latency=st.floats(1e-6, 1e9),
)
def test_csv_reads_back(width: float, depth: Any, reason: str, latency: float) -> None:
    metrics = Metrics(QUALITY, replace(COST, latency_ms=Band(latency, latency / 2, latency * 2)))
    variant = Variant((("width", width), ("depth", depth)), 0.5, "int8", "m4")
    row = read(rows_csv(RECORD, [Row(7, variant, "done", reason=reason, metrics=metrics)]))[0]
    assert math.isclose(float(row["param_width"]), width, rel_tol=0)
    assert float(row["latency_ms"]) == latency
    assert row["reason"] in written(reason)
    assert row["param_depth"] in written(str(depth).lower() if isinstance(depth, bool) else str(depth))


def written(text: str) -> tuple[str, str]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return lines, f"'{lines}"


NO_LIMITS = SweepLimits()


def table(made: dict[Entry, Any], limits: SweepLimits = NO_LIMITS, **options: Any) -> dict[int, Row]:
    results: dict[str, Outcome] = {}
    for entry, found in made.items():
        results |= outcomes(entry, found) if not isinstance(found, dict) else found
    return {row.number: row for row in build_rows(list(made), results, limits, **options)}


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


def test_a_variant_with_missing_results_is_pending() -> None:
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
    assert [number for number, row in found.items() if FINE_TUNING_NOTE in row.notes] == [3]


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
        (("cost", "macs"), "many", 'cost.macs is "many", not an integer'),
        (("cost", "arena_bytes"), True, "cost.arena_bytes is true, not an integer"),
        (("cost", "latency_ms", "low"), None, "cost.latency_ms.low is null, not a number"),
        (("cost", "latency_ms", "low"), 21.0, "cost.latency_ms has a value outside its band"),
        (("cost", "errors"), "none", 'cost.errors is "none", not a list'),
        (("cost", "region"), 5, "cost.region is 5, not a string"),
        (("quality", "calibrated"), 1, "quality.calibrated is 1, not true or false"),
        (("quality",), [], "quality is a list of 0, not an object"),
        (("notes",), [1], r"notes\[0\] is 1, not a string"),
    ],
)
def test_results_that_cannot_be_read_are_named(path: tuple[str, ...], value: Any, what: str) -> None:
    results = changed(path, value)
    with pytest.raises(UsageError, match=rf"words.sqlite: job (convert|analyse) .*: {what}.*; run the sweep again"):
        build_rows([chain(1, variant())], results, NO_LIMITS, where="words.sqlite")


def test_results_of_a_later_version_are_read() -> None:
    results = changed(("cost", "novelty"), 5)
    (row,) = build_rows([chain(1, variant())], results, NO_LIMITS)
    assert row.metrics == metrics()
    older = changed(("cost", "warnings"), ...)  # a field with a default
    assert build_rows([chain(1, variant())], older, NO_LIMITS)[0].metrics == metrics()


FIGURES = {"model_parameters": "parameters", "macs": "macs", "model_bytes": "model_bytes", "arena_bytes": "arena_bytes"}


def leveled(number: int, level: float, *sizes: int, **of: str) -> Row:
    return row(number, variant(level, **of), **dict(zip(FIGURES.values(), sizes, strict=True)))


def test_levels_that_save_something_are_not_reported() -> None:
    rows = [leveled(1, 0, 9, 9, 9, 18_688), leveled(2, 0.5, 8, 9, 9, 18_688), leveled(3, 0.75, 8, 9, 9, 18_672)]
    assert savings_notes(rows) == {}


def test_each_figure_that_grows_is_reported_with_the_level_before() -> None:
    rows = [
        leveled(1, 0.5, 8, 8, 29_624, 18_704),
        leveled(2, 0.25, 9, 9, 29_600, 18_688),
        leveled(3, 0, 9, 9, 29_700, 18_688),
    ]
    assert savings_notes(rows) == {
        1: (
            "the model grew from 29,600 B to 29,624 B compared to level 0.25",
            "the arena grew from 18,688 B to 18,704 B compared to level 0.25",
        )
    }


def test_a_level_that_changes_nothing_is_reported() -> None:
    rows = [leveled(1, 0, 9, 9, 9, 9), leveled(2, 0.05, 9, 9, 9, 9)]
    assert savings_notes(rows) == {2: ("no figure is smaller than at level 0",)}


def test_other_models_precisions_and_targets_are_not_compared() -> None:
    rows = [
        leveled(1, 0, 1, 1, 1, 1),
        leveled(2, 0.5, 9, 9, 9, 9, precision="float32"),
        leveled(3, 0.5, 9, 9, 9, 9, target="other"),
        leveled(4, 0.5, 9, 9, 9, 9, width="2"),
        Row(5, variant(0.5), "failed", reason="why"),
    ]
    assert savings_notes(rows) == {}
    assert saved(rows) == {}


def test_an_arena_that_is_not_known_is_not_compared() -> None:
    rows = [row(1, arena_bytes=None), row(2, variant(0.5), parameters=11_000, arena_bytes=99_999)]
    assert savings_notes(rows) == {}
    assert "arena_bytes" not in saved(rows)[2]


def test_shares_are_of_level_0() -> None:
    half = Band(10.0, 8.0, 12.0)
    rows = [
        row(1),
        row(2, variant(0.25), arena_bytes=18_704 // 2, latency_ms=half, energy_uj=None),
        row(3, variant(0.5), arena_bytes=2 * 18_704, parameters=5_500),
    ]
    shares = saved(rows)
    assert shares[2] == {
        "model_parameters": 0, "macs": 0, "model_bytes": 0, "arena_bytes": pytest.approx(0.5),
        "latency_ms": pytest.approx(0.5),
    }  # fmt: skip
    assert shares[3]["arena_bytes"] == pytest.approx(-1)
    assert shares[3]["model_parameters"] == pytest.approx(0.75)
    assert saved(rows[1:]) == {}


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_row_has_a_note_exactly_if_it_saves_nothing(sizes: list[tuple[int, ...]], rng: object) -> None:
    rows = [leveled(number + 1, number / 10, *size) for number, size in enumerate(sizes)]
    expected = {
        number + 2
        for number, (before, after) in enumerate(pairwise(sizes))
        if any(b > a for a, b in zip(before, after, strict=True)) or before == after
    }
    shuffled = list(rows)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    notes = savings_notes(shuffled)
    assert set(notes) == expected
    assert all(len(found) <= len(CHECKED) for found in notes.values())


def test_an_uncalibrated_quantization_is_reported_once_with_all_variants() -> None:
    synthetic = {"calibrated": False, "samples": 100}
    found = sweep_warnings(
        [
            row(1, quality={**synthetic, "accuracy": None}),
            row(2, quality={**synthetic, "accuracy": None}),
            row(3, quality=synthetic),
            row(4, variant(precision="float32"), quality=synthetic),
            row(5, quality={"calibrated": True}),
        ]
    )
    assert [item.numbers for item in found] == [(1, 2), (3,)]
    assert "100 synthetic samples, so the accuracy on real data is unknown" in found[0].message
    assert "is unknown" not in found[1].message


def test_agreement_does_not_compare_sets_of_parameters() -> None:
    wide = Variant((("width", 1.0),), 0.0, "int8", "board")
    found = sweep_warnings([row(1, wide, quality={"accuracy": None}), row(2, wide), row(3, quality={"accuracy": None})])
    assert [item.numbers for item in found] == [(1,)]
    assert "same parameters" in found[0].message
