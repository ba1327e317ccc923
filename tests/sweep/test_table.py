"""Tables as data: names, order, JSON values, and CSV that reads back to the same records."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.gate.limits import parse_budget
from edgetool.report.document import Band
from edgetool.report.json import to_json
from edgetool.sweep.judge import judge
from edgetool.sweep.metrics import Cost, Metrics, Quality, Row, Variant
from edgetool.sweep.spec import SweepLimits, TargetSpec
from edgetool.sweep.store import SweepRecord
from edgetool.sweep.table import COLUMNS, budget_columns, record_of_row, rows_csv, rows_json

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
    assert empty == bands | {"reason", "arena_bytes"}


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


@settings(deadline=None, max_examples=60)
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
