"""The CSV files of an estimate."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.errors import InternalError, OutputError
from edgetool.pipeline.estimate import NAMES, estimate_tables, write_tables
from edgetool.report.document import Report
from tests.cli.estimates import MEASURED, estimate, operator, report


def rows_of(report: Report, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(estimate_tables(report)[name].decode())))


def test_the_profile_has_a_row_per_operator_in_order() -> None:
    rows = rows_of(report(), "operator_profile.csv")
    assert list(rows[0]) == ["operator", "latency_ms", "memory_kb", "macs", "parameter_bytes", "activation_bytes"]
    assert len(rows) == 31
    assert rows[15] == {
        "operator": "CONV_2D",
        "latency_ms": "20",
        "memory_kb": "35.0",
        "macs": "1500000",
        "parameter_bytes": "15000",
        "activation_bytes": "20000",
    }


def test_totals_and_summary() -> None:
    (totals,) = rows_of(report(), "hardware_totals.csv")
    assert int(totals["estimated_total_macs"]) == 100_000 * sum(range(31))
    assert int(totals["estimated_total_bytes"]) == 31 * 20_000 + 1000 * sum(range(31))
    (summary,) = rows_of(report(), "hardware_summary.csv")
    assert {key: float(value) for key, value in summary.items()} == {
        "estimated_total_bytes": 1_430_136,
        "estimated_total_macs": 7_489_664,
        "achieved_bandwidth_gbps": 0.004767,
        "configured_memory_bandwidth_gbps": 0.48,
        "bandwidth_utilization": 0.00993,
        "achieved_gmacs": 0.02497,
    }


def test_a_measured_run_takes_the_place_of_the_estimate_in_the_summary() -> None:
    (summary,) = rows_of(report(estimate(measured=MEASURED)), "hardware_summary.csv")
    assert float(summary["achieved_bandwidth_gbps"]) == MEASURED.bandwidth_gbps
    assert float(summary["bandwidth_utilization"]) == MEASURED.bandwidth_utilization
    assert float(summary["achieved_gmacs"]) == MEASURED.gmacs_per_s


def test_names_with_commas_and_lines_stay_one_cell() -> None:
    odd = 'my "op",\nand more'
    (row,) = rows_of(report(estimate(operators=(operator(0, 1.0, operator=odd),))), "operator_profile.csv")
    assert row["operator"] == odd


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\n=1"])
def test_a_name_that_a_spreadsheet_would_calculate_is_text(name: str) -> None:
    (row,) = rows_of(report(estimate(operators=(operator(0, 1.0, operator=name),))), "operator_profile.csv")
    assert row["operator"] == "'" + name


def test_a_carriage_return_does_not_end_the_row() -> None:
    (row,) = rows_of(report(estimate(operators=(operator(0, 1.0, operator="a\r=1"),))), "operator_profile.csv")
    assert row["operator"] == "a\\r=1"


def test_one_target_is_written_into_the_folder_and_several_into_folders(tmp_path: Path) -> None:
    written = write_tables([report()], tmp_path / "one")
    assert written == tuple(tmp_path / "one" / name for name in NAMES)
    reports = [report(), report(name="mine"), report(), report(name="nucleo-l4r5zi-2")]
    write_tables(reports, tmp_path / "several")
    folders = sorted(path.name for path in (tmp_path / "several").iterdir())
    assert folders == ["mine", "nucleo-l4r5zi", "nucleo-l4r5zi-2", "nucleo-l4r5zi-2-2"]
    for folder in folders:
        assert sorted(path.name for path in (tmp_path / "several" / folder).iterdir()) == sorted(NAMES)


def test_nothing_is_written_where_one_file_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / NAMES[2]).write_text("precious")
    with pytest.raises(OutputError, match="--force to replace it, or choose another --csv"):
        write_tables([report(), report(name="mine")], tmp_path)
    assert [path.name for path in tmp_path.rglob("*.csv")] == [NAMES[2]]
    write_tables([report(), report(name="mine")], tmp_path, force=True)
    assert len(list(tmp_path.rglob("*.csv"))) == 6
    assert (tmp_path / "mine" / NAMES[2]).read_text() != "precious"


def test_a_report_without_an_estimate_has_no_tables() -> None:
    with pytest.raises(InternalError, match="no tables"):
        estimate_tables(replace(report(), estimate=None))
