"""The account of shared arenas against real TFLM on emulated Cortex-M7, M4 and M55.

shared_arena_measured.csv: models allocated one after the other by one MicroAllocator (tflite-micro 90b983c2), the
bytes that arena_used_bytes() gave then, and the smallest arena, of multiples of 16, in which all of them allocated and
each gave the outputs that it gives alone, twice in turn. "own" models are those of account_models.py.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

from edgetool.memory.account import Tenant, account_shared
from edgetool.memory.planner import plan_memory
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.targets import resolve_named
from edgetool.target.platform import platform_of
from tests.memory.account_models import MODELS

MEASURED = Path(__file__).parent / "shared_arena_measured.csv"


def rows(origin: str) -> list[dict[str, str]]:
    with MEASURED.open(encoding="ascii", newline="") as file:
        return [row for row in csv.DictReader(file) if row["origin"] == origin]


@cache
def model_of(path: Path | None, name: str) -> Model:
    return read_model(write_model(MODELS[name]()) if path is None else (path / f"{name}.tflite").read_bytes())


def check(row: dict[str, str], path: Path | None) -> None:
    platform = platform_of(resolve_named(row["core"], kernels=row["kernels"]))
    tenants = []
    for name in row["models"].split(" + "):
        model = model_of(path, name)
        tenants.append(Tenant(model, plan_memory(model, platform, wanted="as in file").offsets))
    account = account_shared(tenants, platform)
    assert not account.is_lower_bound
    figures = (account.used_bytes, account.head_bytes, account.bytes)
    assert figures == tuple(int(row[key]) for key in ("used_bytes", "head_bytes", "smallest_arena_bytes"))


def test_there_are_enough() -> None:
    own, real = rows("own"), rows("real")
    assert len(own) >= 60
    assert len(real) >= 40
    assert sum(row["models"].count(" + ") == 2 for row in own + real) >= 20


@pytest.mark.parametrize("row", rows("own"), ids=lambda row: f"{row['core']}-{row['kernels']}-{row['models']}")
def test_models_of_our_own(row: dict[str, str]) -> None:
    check(row, None)


@pytest.mark.parametrize("row", rows("real"), ids=lambda row: f"{row['core']}-{row['kernels']}-{row['models']}")
def test_real_models(row: dict[str, str], shared: Path) -> None:
    check(row, shared / "data" / "models")
