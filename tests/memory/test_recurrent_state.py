"""Recurrent state: variable tensors that are read before they are written."""

from __future__ import annotations

import numpy as np

from edgetool.memory.lifetimes import RecurrentState, recurrent_state
from edgetool.model.types import DType, Graph, Model, Operator, Tensor


def tensor(index: int, name: str, units: int, *, variable: bool) -> Tensor:
    return Tensor(index, name, (1, units), DType.INT16, None, None, variable)


def model(*operators: tuple[tuple[int, ...], tuple[int, ...]]) -> Model:
    tensors = (
        tensor(0, "input", 4, variable=False),
        tensor(1, "kept", 4, variable=True),
        tensor(2, "scratch", 3, variable=True),
        tensor(3, "output", 4, variable=False),
    )
    made = tuple(Operator(i, "ADD", 1, inputs, outputs, None) for i, (inputs, outputs) in enumerate(operators))
    return Model(3, "", (), (Graph(0, "main", tensors, made, (0,), (3,)),), ())


def test_a_variable_that_is_read_first_is_recurrent() -> None:
    found = recurrent_state(model(((0, 1), (3,)), ((3,), (1,))))
    assert found == RecurrentState((("kept", 8),), 0)
    assert found.tensor_bytes == 4 * np.dtype(np.int16).itemsize
    assert found


def test_what_the_model_sets_itself_is_not() -> None:
    assert not recurrent_state(model(((0,), (2,)), ((0, 2), (3,)), ((3,), (2,))))


def test_an_operator_that_reads_and_writes_carries() -> None:
    assert recurrent_state(model(((0, 2), (2, 3)))).tensors == (("scratch", 6),)


def test_a_variable_that_nothing_reads_is_none() -> None:
    assert not recurrent_state(model(((0,), (3,)), ((3,), (1,))))
