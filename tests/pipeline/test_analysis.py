"""What is said of an arena that no device has.

Findings on operators that the runtime has, but not as the model uses them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from edgetool.finding import Finding
from edgetool.memory.planner import plan_memory
from edgetool.model.types import DType, Model, Quantization
from edgetool.model.writer import write_model
from edgetool.pipeline.analysis import analyse, arena_findings, format_counts
from edgetool.pipeline.source import Source
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.graphs import chain, graph, model, operator, tensor
from tests.memory.account_net import Net

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


def test_names_with_terminal_control_sequences_are_escaped() -> None:
    assert format_counts(Counter({"GELU": 2, "\x1b[2J": 1})) == "GELU (2x), '\\x1b[2J' (1x)"


def findings(model: Model, target: str = "cortex-m4") -> dict[str, str]:
    """The messages of errors by rule."""
    made = analyse(Source("x.tflite", write_model(model), model), load_target(target), with_estimate=False)
    return {item.rule: item.message for item in made.findings if item.level == "error"}


@pytest.mark.parametrize("code", ["EXP", "NEG"])  # refused in Prepare, and in Invoke
def test_a_type_that_a_kernel_does_not_take(code: str) -> None:
    net = Net(1)
    x = net.arena(1, 4)
    y = net.op(code, [net.op(code, [net.op("RELU", [x])])])
    assert findings(net.model([x], [y])) == {
        "operator-type-not-in-runtime": f"in tflm-2026-08, {code} supports float32, not int8: the device will reject "
        "the model (operators 1, 2)"
    }


def test_many_operators_are_counted() -> None:
    net = Net(2)
    x = y = net.arena(1, 4)
    for _ in range(9):
        y = net.op("EXP", [y])
    assert findings(net.model([x], [y]))["operator-type-not-in-runtime"].endswith(
        "(operators 0, 1, 2, 3, 4, 5 and 3 more)"
    )


def test_scales_that_a_kernel_ignores() -> None:
    net = Net(3)
    x = net.arena(1, 4)
    made = net.model([x], [net.op("RELU6", [x], scale=1 / 40, zero_point=-128)])
    assert "outputs will be wrong" in findings(made)["operator-scales-in-runtime"]
    graph = made.main
    same = tuple(replace(tensor, quantization=Quantization((0.1,), (0,), 0)) for tensor in graph.tensors)
    assert not findings(replace(made, subgraphs=(replace(graph, tensors=same),)))


def test_a_limit_that_only_invoke_meets_and_one_that_the_account_knows() -> None:
    net = Net(4)
    x = net.arena(1, 2, 3, 4, 5)
    made = net.model([x], [net.op("TRANSPOSE", [x, net.constant([0, 4, 1, 2, 3])], 1, 5, 2, 3, 4)])
    assert list(findings(made)) == ["operator-limit-in-runtime"]
    net = Net(5)
    x = net.arena(1, 2, 2, 2, 2, 2, dtype=DType.FLOAT32)
    made = net.model([x], [net.op("TRANSPOSE", [x, net.constant([0, 5, 1, 2, 3, 4])])])
    assert list(findings(made)) == ["kernel-refuses"]
