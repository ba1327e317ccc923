"""Texts of sweep.toml for tests, and how they are read or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgetool.errors import SettingsError
from edgetool.sweep.spec import SweepSpec, read_spec

BOARD = """
name = "my-board"
extends = "nucleo-l4r5zi"
clock = "60MHz"
clock_source = "measured"
"""
LEAST = 'model = "m.h5"\ntargets = ["cortex-m4"]\n'
WHOLE = """
name = "keywords"
model = "m.h5"
precisions = ["float32", "int8-dense-per-tensor"]
targets = ["cortex-m0+", {name = "sub/my-board.toml", clock = "80MHz", sram = "128KiB", kernels = "reference"}]
calibration = "sub"
evaluate = "e.npz"
mean = 127.5
std = [1, 2.5]
samples = 50
seed = 7
strategy = "search"
memory_budgets = ["64KiB", {size = "256KiB", of = "flash"}, 65536]
active_memory_budget = "64KiB:ram"
reserve = "16KiB"
reserve_flash = 1024
max_latency = "50ms"
max_energy = "1.2mJ"
min_accuracy = "90%"
max_accuracy_loss = "2%"
job_timeout = "30min"
[pruning]
levels = [0.5, 0, 0.25]
method = "batch-norm"
exclude = ["word", "head_*"]
[fine_tune]
data = "t.npz"
epochs = 3
learning_rate = 0.01
batch_size = 8
loss = "mse"
[search]
trials = 12
batch = 3
objectives = ["sqnr_db", "arena_bytes"]
"""
BUILT = 'builder = "build:make"\ntargets = ["cortex-m4"]\n[parameters]\nwidth = [0.5, 1]\nname = ["a"]\nflag = [true]\n'


def read(folder: Path, text: str, **options: Any) -> SweepSpec:
    path = folder / "sweep.toml"
    path.write_text(text, encoding="utf-8")
    return read_spec(path, **options)


def refused(folder: Path, text: str) -> list[tuple[str, str, str | None]]:
    """(key, what is wrong, what to do), the first problem of each key."""
    with pytest.raises(SettingsError) as caught:
        read(folder, text, trust_model_code=True)
    error = caught.value
    where, _, key = str(error.where).partition(": ")
    assert where == str(folder / "sweep.toml")
    assert "Traceback" not in str(error)
    return [(key, error.what, error.fix), *((line.partition(": ")[0], line, None) for line in error.details)]
