"""The breakdown explains every byte: its parts sum to the figures that they explain."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.memory.account import ArenaAccount, account_model
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.pipeline.reporting import breakdown
from edgetool.report.document import BreakdownEntry
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.conftest import model_files, over_models
from tests.memory.test_planner import compiled
from tests.model.builders import conv_model, if_model

TARGETS = ("cortex-m0plus", "cortex-m7", "cortex-m55", "x86-64")


def check(model: Model, account: ArenaAccount) -> None:
    entries = breakdown(model, account)

    def total(part: str) -> list[BreakdownEntry]:
        return [entry for entry in entries if entry.part == part]

    assert sum(entry.bytes for entry in total("tail")) == account.tail_bytes
    assert sum(entry.bytes for entry in total("head")) == account.head_bytes
    assert max(entry.bytes for entry in total("transient")) == account.bytes
    assert all(entry.bytes >= 0 for entry in entries)
    for entry in entries:
        if entry.operator is not None:
            assert entry.label == model.subgraphs[entry.subgraph or 0].operators[entry.operator].label


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", [conv_model(), if_model()], ids=["conv", "if"])
def test_parts_sum_to_the_figures(model: Model, target: str) -> None:
    check(model, account_model(model, platform_of(load_target(target))))


def test_bytes_that_tensors_share_count_once() -> None:
    # Compiled operators lay their operands over each other: 64 bytes at 0, 128 at 0, 16 at 112.
    model, platform = compiled(0, 0, 112), platform_of(load_target("cortex-m55"))
    account = account_model(model, platform, offsets={(0, 0): 0, (0, 1): 0, (0, 2): 112})
    check(model, account)
    head = [(entry.where, entry.bytes) for entry in breakdown(model, account) if entry.part == "head"]
    over = "overlapping the above"
    assert head == [("tensor 1: t1", 128), (f"{over}: tensor 0: t0", 0), (f"{over}: tensor 2: t2", 0)]
    apart = account_model(model, platform, offsets={(0, 0): 96, (0, 1): 0, (0, 2): 192})
    assert [entry.bytes for entry in breakdown(model, apart) if entry.part == "head"] == [128, 32, 16, 32]


@over_models(model_files())
def test_parts_sum_to_the_figures_of_real_files(path: Path) -> None:
    model = read_model(path.read_bytes())
    check(model, account_model(model, platform_of(load_target("cortex-m7"))))
