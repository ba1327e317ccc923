"""edgetool estimate as a user meets it: whole processes."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from tests.cli.program import edgetool, process
from tests.model.builders import chain_model
from tests.pipeline.order_models import tangle

BOARD = ("--target", "nucleo-l4r5zi")


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / "chain.tflite"
    path.write_bytes(write_model(chain_model(30)))
    return path


def test_the_first_screen_answers_the_main_questions(chain: Path) -> None:
    shown = edgetool("estimate", chain, *BOARD, COLUMNS="80", NO_COLOR="")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\x1b" not in shown.stdout  # piped
    lines = shown.stdout.splitlines()
    assert all(len(line) <= 80 and line.isascii() for line in lines)
    first = "\n".join(lines[:20])
    for label in ("Inference", "Basis", "Fits", "Slowest", "Limit", "Suggestion"):
        assert f"\n  {label}" in first
    for heading in ("op  operator", "precision", "memory"):
        assert f"\n  {heading}" in shown.stdout or f"\n  {heading.rjust(len(heading) + 1)}" in shown.stdout
    everything = edgetool("estimate", chain, *BOARD, "-v").stdout
    assert everything.count("CONV_2D") > 30
    assert "-v shows all" in shown.stdout
    assert "-v shows all" not in everything


def test_operators_by_order(chain: Path) -> None:
    def first(by: str) -> list[str]:
        lines = edgetool("estimate", chain, *BOARD, "--by", by).stdout.splitlines()
        start = next(number for number, line in enumerate(lines) if line.split()[:2] == ["op", "operator"])
        return [line.split()[0] for line in lines[start + 1 : start + 4]]

    assert first("order") == ["0", "1", "2"]
    document = json.loads(edgetool("estimate", chain, *BOARD, "--json").stdout)
    ranked = sorted(document["estimate"]["operators"], key=lambda item: -item["ms"]["value"])
    assert first("time") == [str(item["index"]) for item in ranked[:3]]


def test_what_the_user_knows_goes_into_the_document(chain: Path) -> None:
    plain = json.loads(edgetool("estimate", chain, *BOARD, "--json").stdout)["estimate"]
    reported = ("--interval-ms", "100", "--measured-ms", "1.5", "--power-mw", "50", "--clock-scale", "0.5")
    made = json.loads(edgetool("estimate", chain, *BOARD, *reported, "--json").stdout)
    estimate = made["estimate"]
    assert estimate["latency_ms"]["value"] == pytest.approx(2 * plain["latency_ms"]["value"], rel=1e-3)
    assert made["provenance"]["options"]["clock_hz"] == 60_000_000
    assert estimate["measured"]["latency_ms"] == 1.5
    assert estimate["measured"]["gmacs_per_s"] == pytest.approx(estimate["macs"] / 1.5e6)
    assert estimate["stream_utilization"] == pytest.approx(0.015)
    assert estimate["energy_uj"]["value"] == pytest.approx(75.0)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--interval-ms", "--measured-ms", "--power-mw", "--clock-scale"])
@pytest.mark.parametrize("value", ["0", "nan", "-1", "inf", "1e300", "12.3ms"])
def test_a_figure_that_no_device_has_names_its_option(tflite: Path, option: str, value: str) -> None:
    result = edgetool("estimate", tflite, *BOARD, f"{option}={value}")
    assert (result.returncode, result.stdout) == (2, "")
    assert option in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "nan", "1000000"])
def test_an_impossible_number_of_runs_is_rejected(tflite: Path, value: str) -> None:
    result = edgetool("estimate", tflite, *BOARD, f"--benchmark={value}")
    assert (result.returncode, "--benchmark" in result.stderr) == (2, True)


def test_one_run_to_compare_with(tflite: Path) -> None:
    result = edgetool("estimate", tflite, *BOARD, "--measured-ms", "1", "--benchmark", "5")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--measured-ms and --benchmark" in result.stderr


def test_a_benchmark_of_this_machine(tflite: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    shown = edgetool("estimate", tflite, *BOARD, "--benchmark", "20")
    assert (shown.returncode, shown.stderr) == (0, "")
    reported = " ".join(shown.stdout.split())
    assert "LiteRT on this machine, 20 runs" in reported
    assert re.search(r"[KMG]MAC/s", reported)


def test_a_benchmark_without_litert_names_the_extra(tflite: Path, tmp_path: Path) -> None:
    for package in ("ai_edge_litert", "tflite_runtime"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('no LiteRT here')\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    result = process("estimate", tflite, *BOARD, "--benchmark", "5", PYTHONPATH=path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "edgetool[verify]" in result.stderr


def test_several_targets_are_compared(tflite: Path) -> None:
    shown = edgetool("estimate", tflite, "-t", "arduino-nano33ble", "-t", "nucleo-h743zi2", "-t", "raspberry-pi-4")
    assert (shown.returncode, shown.stderr) == (0, "")
    rows = {line.split()[0]: line for line in shown.stdout.splitlines() if line.startswith("  ") and line.split()}
    assert {"arduino-nano33ble", "nucleo-h743zi2", "raspberry-pi-4"} <= rows.keys()
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    assert "Inference" not in shown.stdout
    everything = edgetool("estimate", tflite, *BOARD, "-t", "nucleo-h743zi2", "-v").stdout
    assert everything.count("  Inference ") == 2


def test_csv_tables(tflite: Path, tmp_path: Path) -> None:
    arguments = ("estimate", tflite, *BOARD, "--csv", tmp_path / "out")
    done = edgetool(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)["estimate"]
    with (tmp_path / "out" / "operator_profile.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["operator"] for row in rows] == [item["operator"] for item in document["operators"]]
    assert [float(row["latency_ms"]) for row in rows] == [item["ms"]["value"] for item in document["operators"]]
    with (tmp_path / "out" / "hardware_summary.csv").open(newline="") as file:
        (summary,) = csv.DictReader(file)
    assert float(summary["bandwidth_utilization"]) == document["bandwidth_utilization"]
    again = edgetool(*arguments)
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert edgetool(*arguments, "--force", "-q").stdout == ""
    both = edgetool("estimate", tflite, *BOARD, "-t", "cortex-m7", "--csv", tmp_path / "both", "-q")
    assert (both.returncode, both.stdout, both.stderr) == (0, "", "")
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == ["cortex-m7", "nucleo-l4r5zi"]


def test_an_empty_directory_for_tables_is_refused(tflite: Path, tmp_path: Path) -> None:
    for empty in ("", " "):
        result = edgetool("estimate", tflite, *BOARD, "--csv", empty, cwd=tmp_path)
        assert (result.returncode, result.stdout) == (2, "")
        assert "--csv" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert edgetool("estimate", tflite, *BOARD, "--csv", ".", "-q", cwd=tmp_path).returncode == 0
    assert len(list(tmp_path.iterdir())) == 3


def test_errors_of_the_tables_name_their_option(tflite: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    for place in ("file", "file/below", "/dev/null", "/proc/tables"):
        result = edgetool("estimate", tflite, *BOARD, "--csv", place, cwd=tmp_path)
        assert (result.returncode, result.stdout) == (2, "")
        assert "--csv" in result.stderr
        assert "--output" not in result.stderr


def test_the_search_for_a_plan_has_a_time_limit(tmp_path: Path) -> None:
    path = tmp_path / "tangle.tflite"
    path.write_bytes(write_model(tangle(60)))
    document = json.loads(edgetool("estimate", path, *BOARD, "--time-limit", "0.01", "--json").stdout)
    assert "search-cut-short" in {finding["rule"] for finding in document["findings"]}
    assert document["provenance"]["options"]["plan_time_limit"] == 0.01
    refused = edgetool("estimate", path, *BOARD, "--time-limit", "0")
    assert (refused.returncode, "--time-limit" in refused.stderr) == (2, True)


def test_options_can_be_set_in_the_settings(tflite: Path, tmp_path: Path) -> None:
    (tmp_path / "edgetool.toml").write_text(
        'target = "nucleo-l4r5zi"\n[estimate]\nmeasured-ms = 2.5\nby = "order"\ninterval-ms = 10\n'
    )
    document = json.loads(edgetool("estimate", tflite, "--json", cwd=tmp_path).stdout)
    assert document["estimate"]["measured"]["latency_ms"] == 2.5
    assert document["estimate"]["stream_utilization"] == pytest.approx(0.25)
    (tmp_path / "edgetool.toml").write_text('target = "nucleo-l4r5zi"\n[estimate]\npower-mw = 0\n')
    wrong = edgetool("estimate", tflite, cwd=tmp_path)
    assert (wrong.returncode, "estimate.power-mw" in wrong.stderr) == (2, True)


def test_estimate_starts_without_heavy_libraries(tflite: Path) -> None:
    code = (
        "import sys\nfrom edgetool.cli.main import cli\n"
        f"cli.main(['estimate', {str(tflite)!r}, '-t', 'nucleo-l4r5zi', '-q'], standalone_mode=False)\n"
        "print([n for n in ('tensorflow', 'keras', 'ai_edge_litert', 'h5py', 'numpy') if n in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
