"""How much memory faster kernels of native code may take: the choice, the budget, and what reports state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.errors import TargetError
from edgetool.gate.lock_file import profile_hash
from edgetool.memory.planner import PlanRequest
from edgetool.memory.problem import Effort
from edgetool.model.writer import write_model
from edgetool.pipeline.native import (
    MAX_SLOWDOWN,
    choose,
    instructions_of,
    native_model,
    plan_native,
)
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import KernelChoiceInfo
from edgetool.target.load import load_target
from edgetool.target.types import Target
from tests.codegen.native.test_scratch import ladder

TARGET = load_target("cortex-m7").with_overrides(runtime="native")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "ladder.tflite"
    file.write_bytes(write_model(ladder()))
    return file


def choices(path: Path, target: Target) -> tuple[KernelChoiceInfo, ...]:
    return plan_native(path, target).kernel_choices


def test_choices_take_more_memory_and_fewer_instructions(path: Path) -> None:
    found = choices(path, TARGET)
    assert len(found) > 1
    assert [item.arena_bytes for item in found] == sorted({item.arena_bytes for item in found})
    counts = [item.instructions or 0 for item in found]
    assert counts == sorted(counts, reverse=True)
    assert [item.chosen for item in found].count(True) == 1


def test_by_default_hardly_any_instructions_are_spent_to_save_memory(path: Path) -> None:
    model = native_model(open_tflite(path), TARGET)
    counts = [instructions_of(choice, TARGET) for choice in model.choices]
    chosen = model.choices.index(model.planned)
    assert counts[chosen] <= min(counts) * (1 + MAX_SLOWDOWN)
    assert all(count > min(counts) * (1 + MAX_SLOWDOWN) for count in counts[:chosen])


def test_a_budget_is_kept_and_used(path: Path) -> None:
    every = choices(path, TARGET)
    least = every[0].arena_bytes
    for item in every:
        for budget in (item.arena_bytes - least, item.arena_bytes - least + 1):
            report = plan_native(path, replace(TARGET, scratch_budget_bytes=budget))
            assert report.arena is not None
            assert report.arena.bytes == item.arena_bytes


def test_a_layout_that_is_not_proven_is_searched_again(path: Path) -> None:
    model = native_model(open_tflite(path), TARGET)
    unproven = [
        replace(
            choice, memory=replace(choice.memory, layout=replace(choice.memory.layout, proof="none", lower_bound=0))
        )
        for choice in model.choices
        if choice.rows is None
    ]
    found = choose(tuple(unproven), replace(TARGET, scratch_budget_bytes=0), PlanRequest(), Effort())
    assert found.memory.layout.optimal
    assert found.memory.arena_bytes == unproven[0].memory.arena_bytes


def test_without_a_target_a_typical_core_decides(path: Path) -> None:
    report = plan_native(path, None)
    assert [item.instructions for item in report.kernel_choices] == [None] * len(report.kernel_choices)
    typical = plan_native(path, load_target("cortex-m4").with_overrides(runtime="native"))
    assert report.arena is not None
    assert typical.arena is not None
    assert report.arena.bytes == typical.arena.bytes


def test_the_budget_is_one_of_native_code_and_part_of_what_a_lock_compares() -> None:
    with pytest.raises(TargetError, match="native code"):
        load_target("cortex-m7").with_overrides(scratch_budget_bytes=0)
    limited = TARGET.with_overrides(scratch_budget_bytes=64)
    assert limited.scratch_budget_bytes == 64
    assert profile_hash(limited) != profile_hash(TARGET)
