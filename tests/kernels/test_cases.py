"""The generated models of the kernel benchmark: they are the same each time, and files hold all of them."""

from __future__ import annotations

from dataclasses import replace
from struct import pack, unpack

import pytest
from benchmarks.kernels.cases import Case, generators

from edgetool.model.reader import read_model
from edgetool.model.types import Model, Tensor
from edgetool.model.writer import write_model


def test_one_model_of_each_operator_and_type() -> None:
    for operator, kind in generators():
        check(operator, kind, range(1))


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "kind"), generators())
def test_models_of_an_operator_and_type(operator: str, kind: str) -> None:
    check(operator, kind, range(1, 6))


def check(operator: str, kind: str, numbers: range) -> None:
    for number in numbers:
        case = Case(operator, kind, number)
        model = case.model()
        data = write_model(model)
        assert write_model(case.model()) == data
        assert read_model(data) == with_single_precision(model)
        assert operator in {code.code for code in model.operator_codes}


def with_single_precision(model: Model) -> Model:
    """Return the model with the scales as a file holds them."""
    graphs = (replace(graph, tensors=tuple(map(_rounded, graph.tensors))) for graph in model.subgraphs)
    return replace(model, subgraphs=tuple(graphs))


def _rounded(tensor: Tensor) -> Tensor:
    quantization = tensor.quantization
    if quantization is None:
        return tensor
    count = len(quantization.scales)
    scales = unpack(f"<{count}f", pack(f"<{count}f", *quantization.scales))
    return replace(tensor, quantization=replace(quantization, scales=scales))
