"""States that are made of one another, in files without a converter.

The numbers of a fused LSTM: what its samples say of its cell state, and its file without a converter.

A shared bias in the scale of each of its readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.convert.lowering.cut_open import (
    CELL_BITS,
    MAX_CELL_BITS,
    add_state_variables,
    cell_bits,
    join_lstm,
    requantize_biases,
    run_lstm,
)
from edgetool.convert.lowering.cuts import LstmCut
from edgetool.execute.run import run_model
from edgetool.memory.lifetimes import recurrent_state
from edgetool.model.draft import Draft
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Graph, Model, Quantization, Signature, Tensor
from edgetool.model.writer import write_model

STATES = 3
INPUT, OUTPUT = 0, STATES + 1
WIDTH = 2


def separate_states(made_of: list[int], order: list[int], view: Sequence[int]) -> Model:
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
    return add_state_variables(replace(model, signatures=(Signature("serving_default", 0, inputs, outputs),)), pairs)


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
def test_each_new_state_depends_on_the_old_states(made_of: list[int], order: list[int], view: Sequence[int]) -> None:
    start = [10.0, 20.0, 30.0]
    found = after_one_invocation(separate_states(made_of, order, view), start, 1.0)
    expected = [1.0 if source == INPUT else start[source - 1] for source in made_of]
    assert found[-1] == expected[-1]
    assert all(one in (None, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_a_delay_line(order: list[int]) -> None:
    content = write_model(separate_states([0, 1, 2], order, ()))
    samples = np.arange(1, 7, dtype=np.float32).reshape(6, 1, 1) * np.ones((1, 1, WIDTH), np.float32)
    for engine in ("tflm", "litert-reference"):
        (found,) = run_model(content, [samples], engine=engine)
        assert found[:, 0, 0].tolist() == [1, 2, 3, 4 + 1, 5 + 2, 6 + 3]


FEATURES, UNITS, STEPS = 3, 2, 4


def a_cut(seed: int = 0, *, stateful: bool = False, weight: float = 1.0) -> LstmCut:
    random = np.random.default_rng(seed)
    shapes = ((FEATURES, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,))
    kernel, recurrent, bias = (random.normal(size=shape).astype(np.float32) for shape in shapes)
    return LstmCut("lstm", kernel * np.float32(weight), recurrent * np.float32(weight), bias, stateful, False)


@given(st.floats(0, 2.0**MAX_CELL_BITS / 1.26))
def test_the_cell_state_fits_its_scale(largest: float) -> None:
    bits = cell_bits(largest)
    assert bits is not None
    assert largest <= 2.0**bits * (1 - 2.0**-CELL_BITS) or largest == 0
    assert bits == 0 or 2.0 ** (bits - 1) < largest * 1.25 * (1 + 1e-9)


def test_a_cell_state_beyond_the_kernels_has_no_scale() -> None:
    assert cell_bits(2.0**MAX_CELL_BITS) is None


def one_by_one(cut: LstmCut, sequence: np.ndarray) -> tuple[np.ndarray, float]:  # type: ignore[type-arg]
    """The definition, number by number."""
    hidden, cell, outputs, largest = [0.0] * UNITS, [0.0] * UNITS, [], 0.0
    for values in sequence.astype(float):
        gates = [
            sum(values[f] * float(cut.kernel[f, g]) for f in range(FEATURES))
            + sum(hidden[u] * float(cut.recurrent[u, g]) for u in range(UNITS))
            + float(cut.bias[g])
            for g in range(4 * UNITS)
        ]
        sigmoid = [1 / (1 + np.exp(-gate)) for gate in gates]
        for u in range(UNITS):
            cell[u] = sigmoid[UNITS + u] * cell[u] + sigmoid[u] * np.tanh(gates[2 * UNITS + u])
        hidden = [sigmoid[3 * UNITS + u] * np.tanh(cell[u]) for u in range(UNITS)]
        outputs.append(hidden)
        largest = max(largest, *(abs(value) for value in cell))
    return np.array(outputs), largest


@pytest.mark.parametrize("stateful", [False, True])
def test_it_runs_as_the_definition_says(stateful: bool) -> None:
    cut = a_cut(stateful=stateful)
    sequences = np.random.default_rng(1).normal(size=(3, STEPS, FEATURES)).astype(np.float32)
    outputs, largest = run_lstm(cut, sequences)
    whole = [sequences.reshape(-1, FEATURES)] if stateful else list(sequences)
    expected = [one_by_one(cut, sequence) for sequence in whole]
    np.testing.assert_allclose(
        outputs.reshape(-1, UNITS), np.concatenate([rows for rows, _ in expected]), rtol=1e-4, atol=1e-6
    )
    assert largest == pytest.approx(max(peak for _, peak in expected), rel=1e-4)


def cut_model(dtype: DType) -> Model:
    """input -> flat end, and flat end -> output, by RESHAPE as the converter leaves them."""
    scale = Quantization((0.02,), (0,), 0) if dtype is DType.INT8 else None
    shapes = ((1, STEPS, FEATURES), (1, STEPS * FEATURES), (1, STEPS * UNITS), (1, STEPS, UNITS))
    tensors = tuple(Tensor(i, f"t{i}", shape, dtype, None, scale, False) for i, shape in enumerate(shapes))
    signature = Signature("serving_default", 0, (("x", 0), ("given", 2)), (("taken", 1), ("y", 3)))
    graph = Graph(0, "main", tensors, (), (0, 2), (1, 3))
    draft = Draft(Model(3, "", (), (graph,), (None,), signatures=(signature,)))
    for source, result in ((0, 1), (2, 3)):
        sizes = draft.constant(f"shape{source}", np.array(shapes[result], np.int32))
        draft.operators.append(draft.make("RESHAPE", [source, sizes], [result], new_shape=shapes[result]))
    return draft.finish()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT32])
@pytest.mark.parametrize("stateful", [False, True])
def test_joining_inserts_one_operator_between_the_inputs_and_outputs_of_the_model(dtype: DType, stateful: bool) -> None:
    model = join_lstm(cut_model(dtype), a_cut(stateful=stateful), "given", "taken", 1.0)
    codes = [operator.code for operator in model.main.operators]
    assert codes == [*([] if stateful else ["BROADCAST_TO"] * 2), "UNIDIRECTIONAL_SEQUENCE_LSTM"]
    lstm = model.main.operators[-1]
    assert (lstm.inputs[0], lstm.outputs) == (model.main.inputs[0], model.main.outputs)
    assert len(model.main.inputs) == len(model.main.outputs) == 1
    assert [name for name, _ in (*model.signatures[0].inputs, *model.signatures[0].outputs)] == ["x", "y"]
    assert bool(recurrent_state(model)) == stateful
    assert lstm.options is not None
    assert lstm.options["cell_clip"] == 0.0


def test_a_bias_keeps_its_value_beside_weights_of_nearly_zero() -> None:
    cut = a_cut(weight=1e-12)
    model = join_lstm(cut_model(DType.INT8), cut, "given", "taken", 1.0)
    tensors, lstm = model.main.tensors, model.main.operators[-1]
    for gate, index in enumerate(lstm.inputs[12:16]):
        bias = tensors[index]
        assert bias.quantization is not None
        stored = np.frombuffer(bias.data or b"", "<i4") * bias.quantization.scales[0]
        np.testing.assert_allclose(stored, cut.bias[gate * UNITS : (gate + 1) * UNITS], rtol=1e-4)


WEIGHT = 0.5


def test_each_reader_gets_the_bias_in_its_own_scale() -> None:
    scales = (0.25, 0.125, 0.5)
    tensors = tuple(
        Tensor(i, f"t{i}", (1, 2), DType.INT16, None, Quantization((scale,), (0,), 0), False)
        for i, scale in enumerate(scales)
    )
    draft = Draft(Model(3, "", (), (Graph(0, "main", tensors, (), (0,), (2,)),), (None,)))
    weights = draft.constant("weights", np.eye(2, dtype=np.int8), Quantization((WEIGHT,), (0,), 0))
    bias = draft.constant("bias", np.array([8, -3], np.int64), Quantization((scales[0] * WEIGHT,), (0,), 0))
    for source in (0, 1):
        draft.operators.append(draft.make("FULLY_CONNECTED", [source, weights, bias], [source + 1]))
    model = requantize_biases(draft.finish())
    for operator, factor in zip(model.main.operators, (1, 2), strict=True):
        data = model.main.tensors[operator.inputs[2]].data
        np.testing.assert_array_equal(np.frombuffer(data or b"", "<i8"), np.array([8, -3]) * factor)
    assert requantize_biases(model) is model
    assert read_model(write_model(model)) == model
