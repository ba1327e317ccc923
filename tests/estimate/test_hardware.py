from __future__ import annotations

import csv
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.estimate.hardware import (
    HardwareSummary,
    OperatorRow,
    estimated_summary,
    hardware_summary,
    hardware_summary_csv,
    hardware_totals,
    hardware_totals_csv,
    operator_profile,
    operator_profile_csv,
)
from tests.estimate.figures import estimate, operator

WHOLE = estimate(
    [operator(0, ms=3.0), operator(1, "SOFTMAX", ms=1.0, macs=0, parameter_bytes=0, footprint_bytes=600)], gbps=0.01
)
COUNTS = st.integers(0, 10**12)


def cells(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_a_profile_has_a_row_per_operator() -> None:
    rows = operator_profile(WHOLE)
    assert rows[0] == OperatorRow("CONV_2D", 3.0, 1.0, 1000, 400, 600)
    assert rows[1] == OperatorRow("SOFTMAX", 1.0, 0.6, 0, 0, 600)
    text = operator_profile_csv(rows)
    assert text.splitlines()[0] == "operator,latency_ms,memory_kb,macs,parameter_bytes,activation_bytes"
    assert cells(text)[1]["operator"] == "SOFTMAX"
    assert float(cells(text)[0]["memory_kb"]) == 1.0


def test_totals_are_sums_but_for_the_memory() -> None:
    totals = hardware_totals(WHOLE)
    assert (totals.operators, totals.latency_ms, totals.memory_kb) == (2, 4.0, 1.0)
    assert (totals.parameter_bytes, totals.activation_bytes) == (400, 1200)
    (row,) = cells(hardware_totals_csv(totals))
    assert (row["estimated_total_bytes"], row["estimated_total_macs"]) == ("1600", "1000")


def test_a_summary_of_plain_figures() -> None:
    figures = [{"macs": 3_000_000, "parameter_bytes": 500_000, "activation_bytes": 500_000}] * 2
    found = hardware_summary(figures, measured_latency_ms=10.0, configured_bandwidth_gbps=0.4)
    assert (found.estimated_total_bytes, found.estimated_total_macs) == (2_000_000, 6_000_000)
    assert found.achieved_bandwidth_gbps == pytest.approx(0.2)
    assert found.bandwidth_utilization == pytest.approx(0.5)
    assert found.achieved_gmacs == pytest.approx(0.6)
    assert hardware_summary_csv(found).splitlines()[0] == (
        "estimated_total_bytes,estimated_total_macs,achieved_bandwidth_gbps,configured_memory_bandwidth_gbps,"
        "bandwidth_utilization,achieved_gmacs"
    )


def test_a_summary_of_an_estimate() -> None:
    rows, whole = operator_profile(WHOLE), WHOLE
    assert hardware_summary(whole, 4.0, 0.01) == hardware_summary(rows, 4.0, 0.01) == estimated_summary(whole)
    assert estimated_summary(whole, 8.0) == hardware_summary(rows, 8.0, 0.01)


def test_without_a_time_the_achieved_cells_are_empty() -> None:
    found = estimated_summary(estimate([operator()], latency_ms=None))
    assert found == HardwareSummary(1000, 1000, None, 0.1, None, None)
    (row,) = cells(hardware_summary_csv(found))
    assert row["achieved_bandwidth_gbps"] == row["bandwidth_utilization"] == row["achieved_gmacs"] == ""


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), None, "10"])
@pytest.mark.parametrize("name", ["measured_latency_ms", "configured_bandwidth_gbps"])
def test_impossible_arguments_are_refused_by_name(name: str, value: Any) -> None:
    figures: dict[str, Any] = {"measured_latency_ms": 1.0, "configured_bandwidth_gbps": 1.0, name: value}
    with pytest.raises(UsageError, match=name):
        hardware_summary(WHOLE, **figures)


@pytest.mark.parametrize(
    ("figures", "named"),
    [
        ({"macs": 1, "parameter_bytes": 1}, r"operators\[1\]: is missing activation_bytes"),
        ({"macs": -1, "parameter_bytes": 1, "activation_bytes": 1}, r"operators\[1\].macs"),
        ({"macs": 1, "parameter_bytes": float("nan"), "activation_bytes": 1}, r"operators\[1\].parameter_bytes"),
        ({"macs": 1, "parameter_bytes": 1, "activation_bytes": 1, "latency_ms": -2}, r"operators\[1\].latency_ms"),
        (7, r"operators\[1\]: must be a row"),
    ],
)
def test_impossible_operators_are_refused_by_place(figures: Any, named: str) -> None:
    right = OperatorRow("ADD", 1.0, 1.0, 1, 1, 1)
    with pytest.raises(UsageError, match=named):
        hardware_totals([right, figures])


def test_a_name_cannot_break_the_table() -> None:
    name = 'a,"b"\nc'
    (row,) = csv.DictReader(operator_profile_csv([OperatorRow(name, 1.0, 1.0, 1, 1, 1)]).splitlines(keepends=True))
    assert row["operator"] == name


@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS), max_size=6), st.floats(1e-3, 1e6))
def test_totals_do_not_depend_on_how_operators_are_grouped(counts: list[tuple[int, int, int]], time: float) -> None:
    rows = [dict(zip(("macs", "parameter_bytes", "activation_bytes"), count, strict=True)) for count in counts]
    one = {name: sum(row[name] for row in rows) for name in ("macs", "parameter_bytes", "activation_bytes")}
    assert hardware_summary(rows, time, 1.0) == hardware_summary([one], time, 1.0)
