"""States that are made of one another, in files without a converter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.convert.lowering.cut_open import carry_states
from edgetool.execute.run import run_model
from edgetool.model.draft import Draft
from edgetool.model.types import DType, Graph, Model, Signature, Tensor
from edgetool.model.writer import write_model

STATES = 3
INPUT, OUTPUT = 0, STATES + 1
WIDTH = 2


def carried(made_of: list[int], order: list[int], view: Sequence[int]) -> Model:
    """output = input + the last state; state i becomes what tensor made_of[i] holds: 0 is the input, k + 1 state k.

    order: in which the states are written. view: what they are made of comes through a RESHAPE to that shape.
    """
    shape = (1, WIDTH)
    names = ("x", *(f"given_{i}" for i in range(STATES)), "y")
    tensors = tuple(Tensor(i, name, shape, DType.FLOAT32, None, None, False) for i, name in enumerate(names))
    draft = Draft(Model(3, "", (), (Graph(0, "main", tensors, (), tuple(range(OUTPUT)), (OUTPUT,)),), (None,)))
    draft.operators.append(draft.make("ADD", [INPUT, STATES], [OUTPUT]))
    ends = list(made_of)
    for source in dict.fromkeys(made_of) if view else ():
        sizes = draft.constant(f"sizes_{source}", np.array(view, np.int32))
        made = draft.tensor(f"view_{source}", view, DType.FLOAT32)
        draft.operators.append(draft.make("RESHAPE", [source, sizes], [made], new_shape=view))
        ends = [made if end == source else end for end in ends]
    draft.outputs = [OUTPUT, *dict.fromkeys(ends)]
    taken = [draft.tensors[end].name for end in ends]
    model = draft.finish()
    place = {tensor.name: tensor.index for tensor in model.main.tensors}
    inputs = tuple((name, place[name]) for name in ("x", *(f"given_{i}" for i in range(STATES))))
    outputs = (("y", place["y"]), *((f"taken_{i}", place[name]) for i, name in enumerate(taken)))
    pairs = tuple((f"state_{i}", f"given_{i}", f"taken_{i}") for i in order)
    return carry_states(replace(model, signatures=(Signature("serving_default", 0, inputs, outputs),)), pairs)


def after_one_invocation(model: Model, start: list[float], x: float) -> list[float | None]:
    """The states afterwards, by the definition of the operators, where a RESHAPE shares its input's memory.

    None for a state that nothing reads.
    """
    names = {tensor.name: tensor.index for tensor in model.main.tensors}
    held = {names[f"state_{i}"]: value for i, value in enumerate(start) if f"state_{i}" in names}
    held |= dict.fromkeys(model.main.inputs, x)
    memory = {tensor.index: tensor.index for tensor in model.main.tensors}
    for operator in model.main.operators:
        source, result = operator.inputs[0], operator.outputs[0]
        if operator.code == "RESHAPE":
            memory[result] = memory[source]
        elif operator.code == "BROADCAST_TO":
            held[memory[result]] = held[memory[source]]
    return [held[names[f"state_{i}"]] if f"state_{i}" in names else None for i in range(STATES)]


@given(
    st.lists(st.integers(0, STATES), min_size=STATES, max_size=STATES),
    st.permutations(range(STATES)),
    st.sampled_from([(), (1, WIDTH), (1, WIDTH, 1, 1, 1, 1), (1, 1, WIDTH)]),
)
def test_each_state_is_made_of_what_the_others_were(made_of: list[int], order: list[int], view: Sequence[int]) -> None:
    start = [10.0, 20.0, 30.0]
    found = after_one_invocation(carried(made_of, order, view), start, 1.0)
    expected = [1.0 if source == INPUT else start[source - 1] for source in made_of]
    assert found[-1] == expected[-1]
    assert all(one in (None, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_a_delay_line(order: list[int]) -> None:
    content = write_model(carried([0, 1, 2], order, ()))
    samples = np.arange(1, 7, dtype=np.float32).reshape(6, 1, 1) * np.ones((1, 1, WIDTH), np.float32)
    for engine in ("tflm", "litert-reference"):
        (found,) = run_model(content, [samples], engine=engine)
        assert found[:, 0, 0].tolist() == [1, 2, 3, 4 + 1, 5 + 2, 6 + 3]
