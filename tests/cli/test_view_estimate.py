"""What `edgetool estimate` prints, from reports made by hand.

The tables of precision trade-offs and constraints, from what the document holds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
import pytest

from edgetool.cli.estimate import comparison_view, constraint_lines, estimate_view, precision_lines
from edgetool.cli.latency_view import counted, operator_table
from edgetool.cli.output import percent
from edgetool.report.document import Band, EstimateInfo, FindingInfo, MemoryInfo, Report
from tests.cli.estimates import FACTOR, MEASURED, estimate, operator, report

BANDWIDTH_ONLY = {
    "latency_ms": None,
    "energy_uj": None,
    "cycles": None,
    "bandwidth_gbps": None,
    "bandwidth_utilization": None,
    "gmacs_per_s": None,
    "verdict": None,
    "validation": "bandwidth only",
    "basis": "pi is described by its memory bandwidth alone",
}
FULL = estimate(factors=(FACTOR,), measured=MEASURED, interval_ms=1000.0, stream_utilization=0.3)


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def view(made: Report, *, by: str = "time", everything: bool = False) -> list[str]:
    return [click.unstyle(line) for line in estimate_view(made, by=by, everything=everything)]


def text(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())  # wherever it was wrapped


def test_the_answer_comes_first() -> None:
    lines = view(report())
    labels = [line[2:14].strip() for line in lines if line.startswith("  ") and line[2:3].isalpha()]
    assert labels[:5] == ["Inference", "Basis", "Fits", "Slowest", "Limit"]
    head = text(lines[:15])
    for words in (
        "about 300 ms (270 ms to 335 ms), calibrated",
        "arena 97.3 of 640 KiB in sram (15 %), model 325 of 2,048 KiB in flash (16 %)",
        "op 15 CONV_2D",
        "op 14 DEPTHWISE_CONV_2D",
        "compute-bound: 1 % of the memory bandwidth",
        "a faster clock",
        "prune channels",
    ):
        assert words in head


@pytest.mark.parametrize("info", [estimate(), FULL, estimate(**BANDWIDTH_ONLY)], ids=["plain", "full", "bandwidth"])
@pytest.mark.parametrize("everything", [False, True])
def test_it_fits_eighty_columns_of_ascii(info: EstimateInfo, everything: bool) -> None:
    long = replace(info, operators=(*info.operators, operator(31, 5.0, operator="Custom" * 20, macs=10**10)))
    for line in view(report(long), everything=everything):
        assert len(line) <= 80, line
        assert line.isascii()


def test_a_run_elsewhere_shows_no_share_of_the_targets_memory() -> None:
    elsewhere = replace(MEASURED, bandwidth_utilization=None, within_band=None, ratio=None, text="nothing")
    shown = text(view(report(estimate(measured=elsewhere))))
    assert "MB/s, " in shown
    assert "of the memory bandwidth), " not in shown
    assert "of the memory bandwidth), " in text(view(report(estimate(measured=MEASURED))))


def test_it_is_short_unless_everything_is_requested() -> None:
    assert len(view(report())) <= 45
    everything = view(report(), everything=True)
    assert sum("CONV_2D" in line for line in everything) == 31 + 3
    assert "a third piece of advice" in text(everything)
    assert "a third piece of advice" not in text(view(report()))


def test_operators_by_time_and_by_order() -> None:
    def indices(by: str) -> list[int]:
        lines = view(report(), by=by)
        start = next(number for number, line in enumerate(lines) if line.split()[:2] == ["op", "operator"])
        return [int(line.split()[0]) for line in lines[start + 1 : start + 9]]

    assert indices("time") == [15, 14, 16, 13, 17, 12, 18, 11]
    assert indices("order") == list(range(8))
    left = next(line for line in view(report(), by="order") if "-v shows all" in line)
    assert "... and 23 more, 82 % of the time" in left


def test_shares_are_of_all_operators() -> None:
    rows = [operator(0, 30.0), operator(1, 70.0, basis="bytes", runs=3), operator(2, 0.0, subgraph=1)]
    lines = [click.unstyle(line) for line in operator_table(rows, 3)]
    assert lines[1].split()[:5] == ["0", "DEPTHWISE_CONV_2D", "30", "ms", "30"]
    assert "CONV_2D x3" in lines[2]
    assert lines[2].endswith("unmodelled")
    assert lines[3].split()[0] == "1:2"


@pytest.mark.parametrize(
    ("share", "shown"), [(0.0, "0.0 %"), (0.0004, "<0.1 %"), (0.0532, "5.3 %"), (0.0996, "10 %"), (1.234, "123 %")]
)
def test_percent(share: float, shown: str) -> None:
    assert percent(share) == shown


@pytest.mark.parametrize(
    ("number", "shown"), [(999, "999"), (1234, "1.23 k"), (35_123_456, "35.1 M"), (2 * 10**9, "2.00 G")]
)
def test_counted(number: int, shown: str) -> None:
    assert counted(number) == shown


def test_a_measured_run_stands_beside_the_estimate() -> None:
    shown = text(view(report(FULL)))
    assert "Measured 12.3 ms, specified by the user" in shown
    assert "50.0 MB/s (10 % of the memory bandwidth), 200 MMAC/s" in shown
    assert MEASURED.text in shown


def test_interval_and_other_runtimes() -> None:
    shown = text(view(report(FULL)))
    assert "busy 30 % of every 1.0 s" in shown
    assert "X-CUBE-AI: about 0.55x the time (0.4x to 0.73x, 4 measurements), 165 ms" in shown
    assert "Interval" not in text(view(report()))


def test_the_fastest_of_many_runtimes() -> None:
    factors = tuple(replace(FACTOR, runtime=f"runtime {n}", factor=n / 10) for n in (9, 3, 5, 4))
    shown = text(view(report(estimate(factors=factors))))
    assert "Runtimes runtime 3: about 0.3x the time" in shown
    assert "runtime 4: about 0.4x" in shown
    assert "runtime 5" not in shown
    assert "and 2 slower (-v shows all)" in shown
    assert "runtime 9: about 0.9x" in text(view(report(estimate(factors=factors)), everything=True))


def test_a_time_that_is_mostly_of_unmodelled_operators_is_not_called_calibrated() -> None:
    bytes_only = replace(operator(31, 2.0, basis="bytes"), ms=Band(2.0, 2.0, 200.0))
    operators = (operator(0, 100.0), bytes_only)
    known = estimate(latency_ms=Band(102.0, 90.0, 420.0), operators=operators)
    assert "(90 ms to 420 ms), calibrated" in text(view(report(known)))
    unknown = replace(known, latency_ms=Band(102.0, 90.0, 320.0))
    assert "(90 ms to 320 ms), unmodelled" in text(view(report(unknown)))
    assert comparison([report(unknown), report()])[3].split()[-1] == "unmodelled"


def test_energy_with_its_basis() -> None:
    shown = text(view(report()))
    assert "about 12 mJ (10 mJ to 17 mJ); 40 mW (38 mW to 52 mW), measured by" in shown
    assert "Energy" not in text(view(report(estimate(energy_uj=None, energy_basis=None))))


def test_what_is_not_modelled_is_named() -> None:
    assert "CUSTOM x2, FFT: instruction counts are unknown" in text(
        view(report(estimate(not_modelled=("CUSTOM", "FFT", "CUSTOM"))))
    )
    assert "Unmodelled" not in text(view(report()))


def test_a_device_that_is_only_a_bandwidth() -> None:
    shown = text(view(report(estimate(**BANDWIDTH_ONLY), memory=MemoryInfo(None, None, None, None, None))))
    assert "not estimated; memory traffic alone takes 380 ms" in shown
    assert "memory bandwidth 480 MB/s" in shown
    assert "no memory limits are known" in shown
    assert "Limit" not in shown


def test_an_arena_that_is_too_large_is_reported_immediately() -> None:
    lines = view(report(memory=MemoryInfo("sram", 1000, 2**21, False, True)))
    assert "no: the arena is too large" in text(lines[:6])
    assert "in sram (9960 %)" in text(lines)


def comparison(reports: list[Report], *, everything: bool = False) -> list[str]:
    return [click.unstyle(line) for line in comparison_view(reports, by="time", everything=everything)]


def test_targets_side_by_side() -> None:
    finding = FindingInfo("arena-too-large", "error", "the arena needs 99,600 bytes; sram has 1,000", None)
    small = report(name="arduino-nano33ble", memory=MemoryInfo("sram", 1000, 2**20, False, True), findings=(finding,))
    pi = report(estimate(**BANDWIDTH_ONLY), name="raspberry-pi-4", memory=MemoryInfo(None, None, None, None, None))
    lines = comparison([report(), small, pi])
    rows = {line.split()[0]: line.split()[1:] for line in lines[3:6]}
    assert rows["nucleo-l4r5zi"] == "120 300 ms 270-335 ms yes 12 mJ 1.0 % calibrated".split()
    assert rows["arduino-nano33ble"][5] == "no"
    assert rows["raspberry-pi-4"] == ["120", "-", "-", "?", "-", "-", "-"]
    assert "problem: the arena needs 99,600 bytes" in text(lines)
    assert "note: mine: not checked" not in text(lines)  # a note: with -v
    assert all(len(line) <= 80 and line.isascii() for line in lines)


def test_an_interval_and_a_run_are_reported_side_by_side() -> None:
    lines = comparison([report(FULL), report(FULL, name="mine")])
    assert lines[2].split()[-2:] == ["busy", "validation"]
    assert lines[3].split()[-3:] == ["30", "%", "calibrated"]
    assert "busy: the share of each 1.0 s" in text(lines)
    assert "Measured: 12.3 ms, specified by the user." in text(lines)
    assert "BW" not in text(lines)
    assert "Measured" not in text(comparison([report(), report(name="mine")]))


def test_side_by_side_and_everything() -> None:
    lines = comparison([report(), report(name="mine")], everything=True)
    assert sum("Inference" in line for line in lines) == 2
    assert "note: mine: not checked" in text(lines)


def test_a_band_that_shows_nothing_is_left_out() -> None:
    shown = text(view(report(estimate(latency_ms=Band(0.0, 0.0, 0.0), energy_uj=Band(500.0, 500.0, 500.0)))))
    assert "Inference under 1 us, calibrated" in shown
    assert "Energy about 500 uJ; 40 mW" in shown
    assert "Inference under 1 us (under 1 us to 43 us)" in text(view(report(estimate(latency_ms=Band(0, 0, 0.043)))))


def test_cycles_are_reported_with_their_clock() -> None:
    assert "36.0 M cycles at 120 MHz;" in text(view(report()))


def test_a_long_heading_takes_two_lines() -> None:
    long = report(model=replace(report().model, name="person_detection_of_the_front_door_v2_int8.tflite"))
    lines = "\n".join(view(long)).split("\n")
    assert lines[0] == long.model.name
    assert lines[1] == "on NUCLEO-L4R5ZI (cortex-m4, cmsis-nn kernels)"


def row(precision: str, scale: int, *, fits: bool | None = True, stock: bool = True) -> dict[str, Any]:
    return {
        "precision": precision,
        "parameter_bytes": 1024 * scale,
        "arena_bytes": None if fits is None else 2048 * scale,
        "model_bytes": 4096 * scale,
        "bytes_moved": 8192 * scale,
        "fits": fits,
        "stock_tflm": stock,
    }


TRADEOFFS: dict[str, Any] = {
    "own": "int8",
    "as_is": row("int8", 1),
    "rows": [row("float32", 4, fits=False), row("float16", 2, stock=False), row("int8", 1)],
    "recommended": "int8",
    "reason": "the highest that fits",
    "advised": "int8",
    "advice": "the smallest",
    "note": "latency depends on the deployment",
}
SHARE = {"subgraph": 1, "index": 4, "operator": "CONV_2D", "ms": 1.0, "share": 0.5, "bound": "compute"}
CACHE: dict[str, Any] = {
    "cache_bytes": 16384,
    "cached": ["constants", "activations"],
    "working_set_bytes": 20480,
    "largest": SHARE,
    "use": "streams",
    "streaming": [SHARE],
    "streaming_share": 0.5,
}
CONSTRAINTS: dict[str, Any] = {
    "arena": {"region": "sram", "bytes": 65536, "limit_bytes": 655360, "share": 0.1, "margin_bytes": 1, "fits": True},
    "flash": {"region": None, "bytes": 2048, "limit_bytes": None, "share": None, "margin_bytes": None, "fits": None},
    "cache": CACHE,
    "bottleneck": SHARE,
    "activations": {"subgraph": 0, "index": 2, "operator": "ADD", "bytes": 3072},
}


def words(lines: list[str]) -> list[list[str]]:
    assert all(len(click.unstyle(line)) <= 80 for line in lines)
    return [click.unstyle(line).split() for line in lines]


def test_a_row_for_each_precision() -> None:
    lines = words(precision_lines(TRADEOFFS))
    assert lines[1] == "float32 4.00 KiB 8.00 KiB 16.0 KiB 32.0 KiB no yes".split()
    assert lines[2] == "float16 2.00 KiB 4.00 KiB 8.00 KiB 16.0 KiB yes no".split()
    assert lines[3] == "int8 (current) 1.00 KiB 2.00 KiB 4.00 KiB 8.00 KiB yes yes".split()
    assert lines[4] == "Recommended int8: the smallest".split()
    assert lines[5] == "Highest int8: the highest that fits".split()
    assert len(lines) == 6
    assert words(precision_lines(TRADEOFFS, everything=True))[-1] == TRADEOFFS["note"].split()


def test_a_model_of_mixed_precision_is_a_row_of_its_own() -> None:
    mixed = {**TRADEOFFS, "own": None, "as_is": row("mixed", 3, fits=None), "recommended": None}
    lines = words(precision_lines(mixed))
    assert lines[4] == "mixed (current) 3.00 KiB unknown 12.0 KiB 24.0 KiB ? yes".split()
    assert lines[3][0:2] == ["int8", "1.00"]
    assert lines[6][:2] == "Highest none:".split()


def test_needs_against_memories() -> None:
    lines = words(constraint_lines(CONSTRAINTS))
    assert lines[1] == "arena 64.0 KiB 640 KiB sram 10 % yes".split()
    assert lines[2] == "flash 2.00 KiB no limit - - ?".split()
    assert lines[3] == "Peak op 2 ADD alone needs 3.00 KiB for its inputs and outputs".split()
    reported = " ".join(word for line in lines[4:] for word in line)
    assert reported == (
        "Cache 16.0 KiB; 50 % of the time is spent in operators whose constants and activations exceed it (up "
        "to 20.0 KiB, op 1:4 CONV_2D)"
    )


def test_a_cache_that_holds_everything_and_none_at_all() -> None:
    fits = constraint_lines({**CONSTRAINTS, "cache": {**CACHE, "use": "fits", "cached": ["constants"]}})
    assert "16.0 KiB holds the constants of any single operator" in " ".join(fits)
    without = constraint_lines({**CONSTRAINTS, "cache": None, "activations": None})
    assert len(without) == 3


def test_values_that_were_not_computed_are_not_shown() -> None:
    assert precision_lines({}) == []
    assert constraint_lines({}) == []
