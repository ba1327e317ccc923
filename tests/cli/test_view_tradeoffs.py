"""The tables of precision trade-offs and constraints, from what the document holds."""

from __future__ import annotations

from typing import Any

import click
import pytest

from edgetool.cli.estimate import constraint_lines, precision_lines


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


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


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


def test_what_was_not_computed_is_not_shown() -> None:
    assert precision_lines({}) == []
    assert constraint_lines({}) == []
