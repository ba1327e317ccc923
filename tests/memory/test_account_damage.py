"""Every rule on operators and tensors that are not what its kernel wants: it refuses or accounts, and never fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from edgetool.errors import UnsupportedModelError
from edgetool.memory.account import account_model
from edgetool.model.types import DType, Graph, Model, Operator, Quantization, Tensor
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.memory.account_models import MODELS

# Large models repeat what small ones have.
MOST_OPERATORS = 25
BUILDS = [
    platform_of(load_target("cortex-m7").with_overrides(kernels="reference")),
    platform_of(load_target("cortex-m55")),
    platform_of(load_target("cortex-m0plus")),
]
NOT_A_SCALE = Quantization((float("nan"),), (2**40,), 7)


def damaged_operators(operator: Operator) -> Iterator[Operator]:
    yield replace(operator, options=None, custom_options=None)
    yield replace(operator, inputs=())
    yield replace(operator, outputs=())
    yield replace(operator, inputs=operator.inputs * 3, outputs=operator.outputs * 2)
    for position in range(len(operator.inputs)):
        yield replace(operator, inputs=operator.inputs[:position])
        yield replace(operator, inputs=(*operator.inputs[:position], -1, *operator.inputs[position + 1 :]))


def damaged_tensors(tensor: Tensor) -> Iterator[Tensor]:
    for shape in ((), (0,), (-1, -1), (2**31 - 1, 3), (1, 2, 3, 4, 5, 6, 7), tensor.shape[1:], (*tensor.shape, 2)):
        yield replace(tensor, shape=shape)
    for dtype in (DType.FLOAT32, DType.INT8, DType.INT4, DType.INT64, DType.BOOL, DType.STRING, DType.RESOURCE):
        yield replace(tensor, dtype=dtype)
    for quantization in (None, Quantization((), (), 0), Quantization((0.5,) * 3, (1, 2, 3), 1), NOT_A_SCALE):
        yield replace(tensor, quantization=quantization)
    for data in (None, b"\xff", b"\xff" * 64):
        yield replace(tensor, data=data)
    yield replace(tensor, is_variable=not tensor.is_variable)


def damaged(model: Model) -> Iterator[Model]:
    for graph in model.subgraphs:
        for operator in graph.operators:
            for other in damaged_operators(operator):
                yield _with(model, graph, operators=_replaced(graph.operators, operator.index, other))
        for tensor in graph.tensors:
            for changed in damaged_tensors(tensor):
                yield _with(model, graph, tensors=_replaced(graph.tensors, tensor.index, changed))


def _replaced(items: tuple[object, ...], index: int, item: object) -> tuple[object, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _with(model: Model, graph: Graph, **changes: object) -> Model:
    changed = replace(graph, **changes)  # type: ignore[arg-type]
    subgraphs = tuple(changed if other is graph else other for other in model.subgraphs)
    return replace(model, subgraphs=subgraphs)


def _small(model: Model) -> bool:
    return sum(len(graph.operators) for graph in model.subgraphs) <= MOST_OPERATORS


@pytest.mark.parametrize("name", [name for name, make in MODELS.items() if _small(make())])
def test_damage_is_refused_or_accounted_for(name: str) -> None:
    model = MODELS[name]()
    refused = 0
    for index, mutant in enumerate(damaged(model)):
        try:
            account = account_model(mutant, BUILDS[index % len(BUILDS)])
        except UnsupportedModelError:
            continue
        refused += account.is_lower_bound
        assert account.bytes >= 0
    assert refused > 0
