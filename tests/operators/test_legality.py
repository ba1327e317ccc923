"""Which operators a runtime does not run: by its profile, and as real TFLM has it."""

from __future__ import annotations

import csv
import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model, Quantization
from edgetool.model.writer import write_model
from edgetool.operators.legality import supports, unsupported_operators
from edgetool.operators.registry import OPERATORS
from edgetool.target.load import load_runtime
from edgetool.target.types import Kernels
from tests.execute.attempts import which_run
from tests.graphs import graph, model, operator, tensor
from tests.memory.account_models import MODELS
from tests.memory.account_net import Net
from tests.operators.one_operator import Variant, variants

RUNTIME = load_runtime("tflm-2026-08")
ROOT = Path(__file__).resolve().parents[2]
KERNELS: Mapping[str, Kernels] = {"cm": "cmsis-nn", "ref": "reference"}
FLOAT32, INT8, INT16, INT32, BOOL = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.BOOL
# Of the operators as our models have them, and of those with another type, so many go to real TFLM.
KEPT_MODELS, CHANGED_MODELS = 80, 100

# What real TFLM runs though its kernel computes nothing that makes sense of these types, or of types in this place.
SENSELESS = {
    "CONV_2D": "takes a bias of any type for its own",
    "DEPTHWISE_CONV_2D": "takes a bias of any type for its own",
    "FULLY_CONNECTED": "takes a bias of any type for its own",
    "GREATER": "takes int16, for which Prepare sets no multiplier",
    "LOGICAL_AND": "takes any type for bool",
    "LOGICAL_OR": "takes any type for bool",
    "TRANSPOSE_CONV": "takes weights and a bias of any type for its own",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "takes biases of any type for its own",
}
# What it refuses for the values that the test gives.
BY_VALUE = {"DIV": "of whole numbers by zero", "RSQRT": "of a negative number"}


def one(code: str, dtype: DType, *, shape: tuple[int, ...] = (1, 4), out: Quantization | None = None) -> Model:
    """A model of one operator with one input and one output of a type."""
    quantized = Quantization((0.5,), (0,), 0) if dtype in (INT8, INT16) else None
    tensors = [tensor(0, *shape, dtype=dtype), tensor(1, *shape, dtype=dtype)]
    tensors = [replace(item, quantization=quantized) for item in tensors]
    tensors[1] = replace(tensors[1], quantization=out or quantized)
    return model(graph(tensors, [operator(0, code, [0], [1])], [0], [1]))


def test_why_an_operator_is_illegal() -> None:
    for made, kind, why in (
        (one("GELU", INT8), "missing", "tflm-2026-08 does not support GELU"),
        (one("EXP", INT8), "type", "EXP supports float32, not int8"),
        (one("RSQRT", INT16), "type", "RSQRT supports float32 and int8, not int16"),
        (one("NEG", INT8), "type", "NEG supports float32, not int8"),
    ):
        (found,) = unsupported_operators(made, RUNTIME)
        assert (found.subgraph, found.operator.index, found.kind, found.why) == (0, 0, kind, why)
        assert not supports(made.main.operators[0], made.main, RUNTIME)
    for made in (one("EXP", FLOAT32), one("NEG", FLOAT32), one("ABS", INT8)):
        assert not unsupported_operators(made, RUNTIME)
        assert supports(made.main.operators[0], made.main, RUNTIME)


def test_scales_that_a_kernel_takes_for_equal() -> None:
    other = Quantization((0.25,), (-128,), 0)
    (found,) = unsupported_operators(one("RELU6", INT8, out=other), RUNTIME)
    assert found.kind == "scales"
    assert "does not check that they are equal" in found.why
    assert not unsupported_operators(one("RELU6", INT8), RUNTIME)
    assert not unsupported_operators(one("RELU", INT8, out=other), RUNTIME)
    (found,) = unsupported_operators(one("TANH", INT8, out=other), RUNTIME)
    assert (found.kind, "0.0078125" in found.why) == ("scales", True)
    assert not unsupported_operators(one("TANH", INT8, out=Quantization((1 / 128,), (0,), 0)), RUNTIME)


def test_limits_apply_to_the_selected_kernels() -> None:
    net = Net(1)
    x = net.arena(1, 2, 3, 4, 5)
    made = net.model([x], [net.op("TRANSPOSE", [x, net.constant([0, 4, 1, 2, 3])], 1, 5, 2, 3, 4)])
    assert not unsupported_operators(made, RUNTIME, kernels="reference")
    (found,) = unsupported_operators(made, RUNTIME, kernels="cmsis-nn")
    assert (found.kind, found.why) == ("limit", "CMSIS-NN's TRANSPOSE supports at most 4 dimensions, not 5")
    assert unsupported_operators(made, RUNTIME) == (found,)
    net = Net(2)
    parts = [net.arena(1, 1) for _ in range(11)]
    (found,) = unsupported_operators(net.model(parts, [net.op("CONCATENATION", parts, 1, 11, axis=1)]), RUNTIME)
    assert (found.kind, found.why) == ("limit", "CONCATENATION supports at most 10 inputs, not 11")


def test_what_prepare_refuses_is_a_limit() -> None:
    net = Net(3)
    x = net.arena(1, 2, 3, 4, 5)
    numbers = [net.constant(values) for values in ([0] * 5, [1, 2, 3, 4, 5], [1] * 5)]
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    (found,) = unsupported_operators(net.model([x], [net.op("STRIDED_SLICE", [x, *numbers], **masks)]), RUNTIME)
    assert found.kind == "limit"
    assert "4" in found.why


def test_a_custom_operator_is_legal_when_it_is_described() -> None:
    made = one("CUSTOM", INT8)
    own = replace(made.main.operators[0], custom_code="mine")
    made = replace(made, subgraphs=(replace(made.main, operators=(own,)),))
    assert [item.kind for item in unsupported_operators(made, RUNTIME)] == ["missing"]
    assert not unsupported_operators(made, RUNTIME, {"mine": OPERATORS["ADD"]})


@pytest.mark.parametrize("kernels", ["reference", "cmsis-nn"])
def test_our_models_of_every_operator_are_legal(kernels: Kernels) -> None:
    left = {
        (name, item.operator.code, item.kind)
        for name, make in MODELS.items()
        for item in unsupported_operators(make(), RUNTIME, kernels=kernels)
    }
    # One rescales a hyperbolic tangent as TFLM does not, one is of a type that TFLM refuses, one is newer than the
    # snapshot.
    assert left == {
        ("activations-int8", "TANH", "scales"),
        ("quantized_functions", "RSQRT", "type"),
        ("keywords", "CUSTOM", "missing"),
    }


def test_no_false_alarm_for_the_examples() -> None:
    files = sorted((ROOT / "examples").rglob("*.tflite"))
    assert files
    for path in files:
        assert not unsupported_operators(read_model(path.read_bytes()), RUNTIME), path.name


def test_all_models_that_tflm_was_measured_on_are_as_it_found_them(shared: Path) -> None:
    table = shared / "data" / "arena" / "measured.csv"
    files = {path.stem: path for path in (shared / "data" / "models").rglob("*.tflite")}
    with table.open(encoding="utf-8") as file:
        rows = {(row["model"], row["kernels"]): row["status"] for row in csv.DictReader(file)}
    for (name, kernels), status in rows.items():
        found = unsupported_operators(read_model(files[name].read_bytes()), RUNTIME, kernels=KERNELS[kernels])
        if name == "op_relu6":  # it runs, and gives other values than its scales say
            assert [item.kind for item in found] == ["scales"]
        else:
            assert (status == "ok") == (not found), (name, kernels)


def _sample() -> list[Variant]:
    made = list(variants())
    chance = random.Random(5)
    kept = [item for item in made if not item.changed]
    changed = [item for item in made if item.changed]
    return [*chance.sample(kept, KEPT_MODELS), *chance.sample(changed, CHANGED_MODELS)]


@pytest.mark.slow
def test_legal_is_what_real_tflm_runs(tmp_path: Path) -> None:
    """Operators in the types of our models and in others: real TFLM runs what is legal, and refuses what is not."""
    pytest.importorskip("tflite_micro")
    if not hasattr(os, "fork"):
        pytest.skip("trying many models needs fork()")
    chosen = _sample()
    ran = which_run([write_model(item.model) for item in chosen], tmp_path)
    wrong = []
    for item, runs in zip(chosen, ran, strict=True):
        found = unsupported_operators(item.model, RUNTIME, kernels="reference")
        code = item.model.main.operators[0].code
        excused = (code in BY_VALUE and not runs) or (code in SENSELESS and runs and item.changed)
        if runs == bool(found) and not excused:
            wrong.append((item.name, item.changed, runs, found[0].why if found else ""))
    assert not wrong
    assert sum(ran) > len(chosen) // 3
    assert len(ran) - sum(ran) > 30


def test_operators_with_too_few_operands_are_reported_or_accepted() -> None:
    """Whatever a file has in place of what an operator takes: a reason, never an error."""
    kinds = [tensor(i, 1, 4, dtype=dtype) for i, dtype in enumerate((FLOAT32, INT8, INT32, BOOL))]
    refused = 0
    for code in {*RUNTIME.operators, *OPERATORS} - {"CUSTOM"}:
        for inputs in ((), (0,), (1,), (2, 3), (-1, 0), (1, -1, 1)):
            for outputs in ((), (1,), (0, 3)):
                made = model(graph(kinds, [operator(0, code, inputs, outputs)], [0], [1]))
                refused += bool(unsupported_operators(made, RUNTIME))
    assert refused > 0
    (found,) = unsupported_operators(model(graph(kinds, [operator(0, "ADD", [], [1])], [0], [1])), RUNTIME)
    assert "missing input" in found.why
