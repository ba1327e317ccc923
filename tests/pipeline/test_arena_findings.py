"""What is said of an arena that no device has."""

from __future__ import annotations

from collections import Counter

import pytest

from edgetool.finding import Finding
from edgetool.memory.planner import plan_memory
from edgetool.model.types import DType, Model
from edgetool.pipeline.analysis import arena_findings, counted
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.graphs import chain, graph, model, operator, tensor

TARGET = load_target("cortex-m7")


def errors(small: Model) -> list[Finding]:
    plan = plan_memory(small, platform_of(TARGET))
    return [finding for finding in arena_findings(plan, TARGET) if finding.level == "error"]


@pytest.mark.parametrize(("size_bytes", "rules"), [(2**20, []), (2**31, ["arena-too-large"])])
def test_an_arena_beyond_tflms_integers_is_an_error(size_bytes: int, rules: list[str]) -> None:
    assert [finding.rule for finding in errors(chain([size_bytes, 16]))] == rules


def test_a_tensor_that_tflm_refuses_is_named() -> None:
    tensors = [tensor(0, 4), tensor(1, 4), tensor(2, 4, dtype=DType.STRING)]
    (finding,) = errors(model(graph(tensors, [operator(0, "RELU", [0], [1])], [0], [1])))
    assert (finding.rule, finding.where) == ("kernel-refuses", "tensor 2")


@pytest.mark.parametrize(
    ("name", "kernels", "derived"),
    [
        ("cortex-m0plus", "cmsis-nn", False),
        ("x86-64", "reference", False),
        ("x86-64", "cmsis-nn", True),
        ("riscv32", "reference", True),
        ("xtensa-lx7", "reference", True),
    ],
)
def test_an_arena_says_when_it_was_not_measured(name: str, kernels: str, derived: bool) -> None:
    target = load_target(name).with_overrides(kernels=kernels)
    plan = plan_memory(chain([16, 16]), platform_of(target))
    assert ("arena-derived" in {finding.rule for finding in arena_findings(plan, target)}) is derived


def test_names_that_a_terminal_would_obey_are_quoted() -> None:
    assert counted(Counter({"GELU": 2, "\x1b[2J": 1})) == "GELU (2x), '\\x1b[2J' (1x)"
