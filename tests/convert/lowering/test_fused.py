"""The numbers of a fused LSTM: what its samples say of its cell state, and its file without a converter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.convert.lowering.cut_open import CELL_BITS, LARGEST_CELL_BITS, cell_bits, join_lstm, run_lstm
from edgetool.convert.lowering.cuts import LstmCut
from edgetool.memory.lifetimes import carried_state
from edgetool.model.draft import Draft
from edgetool.model.types import DType, Graph, Model, Quantization, Signature, Tensor

FEATURES, UNITS, STEPS = 3, 2, 4


def a_cut(seed: int = 0, *, stateful: bool = False, weight: float = 1.0) -> LstmCut:
    random = np.random.default_rng(seed)
    shapes = ((FEATURES, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,))
    kernel, recurrent, bias = (random.normal(size=shape).astype(np.float32) for shape in shapes)
    return LstmCut("lstm", kernel * np.float32(weight), recurrent * np.float32(weight), bias, stateful, False)


@given(st.floats(0, 2.0**LARGEST_CELL_BITS / 1.26))
def test_the_cell_state_fits_its_scale(largest: float) -> None:
    bits = cell_bits(largest)
    assert bits is not None
    assert largest <= 2.0**bits * (1 - 2.0**-CELL_BITS) or largest == 0
    assert bits == 0 or 2.0 ** (bits - 1) < largest * 1.25 * (1 + 1e-9)


def test_a_cell_state_beyond_the_kernels_has_no_scale() -> None:
    assert cell_bits(2.0**LARGEST_CELL_BITS) is None


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
def test_joined_is_one_operator_between_the_models_own_ends(dtype: DType, stateful: bool) -> None:
    model = join_lstm(cut_model(dtype), a_cut(stateful=stateful), "given", "taken", 1.0)
    codes = [operator.code for operator in model.main.operators]
    assert codes == [*([] if stateful else ["BROADCAST_TO"] * 2), "UNIDIRECTIONAL_SEQUENCE_LSTM"]
    lstm = model.main.operators[-1]
    assert (lstm.inputs[0], lstm.outputs) == (model.main.inputs[0], model.main.outputs)
    assert len(model.main.inputs) == len(model.main.outputs) == 1
    assert [name for name, _ in (*model.signatures[0].inputs, *model.signatures[0].outputs)] == ["x", "y"]
    assert bool(carried_state(model)) == stateful
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
