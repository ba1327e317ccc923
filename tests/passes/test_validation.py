"""Damaged models: nothing of theirs makes a rewrite fail, and what is done to them can be written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from edgetool.errors import ModelError
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.passes.legalize import STRUCTURE_RULES, legalize
from tests.model.mutants import mutants
from tests.passes.runs import Net, runtime
from tests.passes.test_folding import flatten
from tests.passes.test_legalize import CASES, tile, upsampling
from tests.passes.test_selection import one_hot, top_k

MUTANTS = 12
DAMAGED: dict[str, Callable[[], Model]] = {
    **{name: build for name, (build, _) in CASES.items() if not name.endswith(("int8", "floats"))},
    "top k": lambda: top_k([2, 6], 2, DType.INT8),
    "one hot": lambda: one_hot(-1, [2, 3, 5], DType.FLOAT32, 1, 0),
    "flattened": flatten,
}


@pytest.mark.parametrize("build", DAMAGED.values(), ids=DAMAGED)
def test_damaged_models_are_rewritten_or_left(build: Callable[[], Model]) -> None:
    for blob in mutants(write_model(build()), MUTANTS, seed=1):
        try:
            model = read_model(blob, name="mutant")
        except ModelError:
            continue
        result = legalize(model, runtime(), rules=STRUCTURE_RULES).model
        scales = [t.quantization.scales for g in result.subgraphs for t in g.tensors if t.quantization is not None]
        if not model.unknown_fields and not any(math.isnan(scale) for own in scales for scale in own):
            assert read_model(write_model(result), name="legal") == result


def with_tensor(model: Model, index: int, **changes: object) -> Model:
    tensors = list(model.main.tensors)
    tensors[index] = replace(tensors[index], **changes)  # type: ignore[arg-type]
    return replace(model, subgraphs=(replace(model.main, tensors=tuple(tensors)),))


def with_operator(model: Model, **changes: object) -> Model:
    operators = (replace(model.main.operators[0], **changes), *model.main.operators[1:])  # type: ignore[arg-type]
    return replace(model, subgraphs=(replace(model.main, operators=operators),))


def joined_along(axis: int) -> Model:
    net = Net()
    inputs = [net.input([1, 2], DType.INT8) for _ in range(12)]
    made = net.add_operator("CONCATENATION", inputs, [1, 24], table="ConcatenationOptions", axis=axis)
    return net.model(inputs, made)


CONTRADICTIONS: dict[str, Callable[[], Model]] = {
    "no second input": lambda: with_operator(tile([1, 6], [5, 1], DType.INT8), inputs=(0,)),
    "an input left out": lambda: with_operator(tile([1, 6], [5, 1], DType.INT8), inputs=(0, -1)),
    "another type": lambda: with_tensor(tile([1, 6], [5, 1], DType.INT8), 2, dtype=DType.FLOAT32),
    "another shape": lambda: with_tensor(tile([1, 6], [5, 1], DType.INT8), 2, shape=(5, 7)),
    "another rank": lambda: with_tensor(tile([1, 6], [5, 1], DType.INT8), 0, shape=(6,)),
    "no such axis": lambda: joined_along(2),
    "no options": lambda: with_operator(joined_along(1), options=None),
    "more than there is": lambda: top_k([2, 3], 4, DType.INT8),
}


@pytest.mark.parametrize("build", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_contradictory_operators_are_left_to_the_runtimes(build: Callable[[], Model]) -> None:
    model = build()
    assert legalize(model, runtime(), rules=STRUCTURE_RULES).model is model


def test_an_upsampling_whose_end_contradicts_itself() -> None:
    model = upsampling(DType.INT8)
    last = model.main.outputs[0]
    damaged = with_tensor(model, last, shape=(1, 8, 15, 4))
    codes = [operator.code for operator in legalize(damaged, runtime(), rules=STRUCTURE_RULES).model.main.operators]
    assert "RESIZE_NEAREST_NEIGHBOR" not in codes
