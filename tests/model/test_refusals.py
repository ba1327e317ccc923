"""What LiteRT's reference interpreter refuses, the reader refuses or has a reason to take."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

MUTANTS = 800
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_what_litert_refuses_is_refused_or_has_a_reason() -> None:
    for name in ("ai_edge_litert", "tflite_micro"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name} (the extra 'verify')")
    if not hasattr(os, "fork"):
        pytest.skip("the children that LiteRT runs in need fork()")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.refusals", str(MUTANTS), "7"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    total = next(line for line in done.stdout.splitlines() if line.startswith("| all |"))
    refused, reader, check, taken, run_by_tflm = (
        int(number.replace(",", "")) for number in re.findall(r"[\d,]+", total)
    )
    assert refused == reader + check + taken
    assert reader > 0.9 * refused > 0.4 * MUTANTS
    assert run_by_tflm > 0.9 * taken
