"""Recurrent layers end as something that TFLM runs, and says there what Keras says, one invocation after the other.

The example's keyword spotters, frame by frame on real TFLM: what Keras says to the whole sequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.lowering.recurrent import MAX_STEPS
from edgetool.errors import UnsupportedModelError
from edgetool.memory.lifetimes import recurrent_state
from edgetool.model.reader import read_model
from tests.convert.lowering.lowered import Array, assert_exact, functional, keras, plan, sequential, shaken
from tests.convert.lowering.streams import joined, keras_stream, run_stream, sqnr_db

layers = keras.layers
STEPS = (5, 3)
EXACT = 100.0  # dB of float32 arithmetic


def stream_model(*made: Any, shape: tuple[int, ...] = (1, 3)) -> Any:
    return shaken(keras.Sequential([keras.Input(batch_shape=(1, *shape)), *made]))


def random_samples(model: Any, count: int = 16) -> Array:
    return np.random.default_rng(2).uniform(-1, 1, (count, *model.inputs[0].shape[1:])).astype(np.float32)


def operators(content: bytes) -> Counter[str]:
    return Counter(operator.label for operator in read_model(content).main.operators)


@pytest.mark.slow
@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.GRU(4, reset_after=False, return_sequences=True, go_backwards=True),
        lambda: layers.SimpleRNN(4, activation="relu", use_bias=False),
        lambda: layers.LSTM(4, recurrent_dropout=0.5, dropout=0.5, return_sequences=True),
        lambda: layers.RNN([layers.LSTMCell(3), layers.GRUCell(4)]),
        lambda: layers.Bidirectional(layers.LSTM(3), merge_mode="sum"),
    ],
)
def test_unrolled_is_exact(layer: Callable[[], Any]) -> None:
    assert_exact(sequential(STEPS, layer()))


def test_unrolled_conv_lstm_is_exact() -> None:
    assert_exact(sequential((3, 5, 5, 2), layers.ConvLSTM2D(2, 3, return_sequences=True)))


def test_handed_states_are_exact() -> None:
    def build(given: Any) -> Any:
        sequence, *state = layers.LSTM(4, return_sequences=True, return_state=True)(given)
        return layers.LSTM(4)(sequence, initial_state=state)

    assert_exact(functional(STEPS, build))


class ShiftingCell(keras.layers.Layer):  # type: ignore[name-defined, misc]
    """Gives its input of two steps before: one state is made of the other."""

    state_size = (3, 3)
    output_size = 3

    def get_initial_state(self, batch_size: int | None = None) -> list[Any]:
        return [keras.ops.zeros((batch_size, 3))] * 2

    def call(self, x: Any, states: list[Any], training: bool | None = None) -> tuple[Any, list[Any]]:
        first, second = states
        return x + second, [x, first]


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "io"), [("int8", "uint8"), ("float32", "float32")])
def test_a_state_that_is_made_of_another(scheme: str, io: str, tmp_path: Path) -> None:
    model = stream_model(layers.RNN(ShiftingCell(), stateful=True))
    samples = random_samples(model, 20)
    content, _ = joined(model, [samples], tmp_path, scheme, io=io)
    expected = samples[:, 0] + np.concatenate([np.zeros((2, 3), np.float32), samples[:-2, 0]])
    for engine in ("tflm", "litert-reference"):
        assert sqnr_db(expected, run_stream(content, samples, engine)[1]) > (EXACT if scheme == "float32" else 38)


class HalvingCell(layers.LSTMCell):  # type: ignore[name-defined, misc]
    """What a user makes of Keras's cell."""

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        output, (_, cell) = super().call(inputs, states, training=training)
        return output * 0.5, [output * 0.5, cell]


def test_a_custom_cell_is_not_an_lstm(tmp_path: Path) -> None:
    layer = layers.LSTM(3, name="l")
    layer.cell = HalvingCell(3)
    model = sequential(STEPS, layer)
    with pytest.raises(UnsupportedModelError, match=r"'l' \(LSTM\).*it uses a custom cell"):
        joined(model, [random_samples(model, 4)], tmp_path, rnn="fused")
    assert not joined(model, [random_samples(model, 4)], tmp_path)[1].fused


def test_an_lstm_with_other_functions_is_not_fused(tmp_path: Path) -> None:
    """Whatever it is in the layer that the operator's weights do not tell."""
    model = sequential(STEPS, layers.LSTM(3, name="l"))
    cell = model.layers[0].cell
    own = cell.call
    cell.call = lambda inputs, states, **kwargs: own(inputs * 0.5, states, **kwargs)
    _, opened = joined(model, [random_samples(model, 4)], tmp_path)
    assert not opened.fused
    assert any("'l' (LSTM) was unrolled: its output differs from that of an LSTM by " in note for note in opened.notes)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["int8", "float32"])
def test_a_fused_layer_starts_every_sequence_at_zero(scheme: str, tmp_path: Path) -> None:
    """The operator's state would live on; without the graph's own reset the second sequence is already wrong."""
    model = sequential(STEPS, layers.Bidirectional(layers.LSTM(6)), layers.Dense(3))
    samples = random_samples(model)
    content, opened = joined(model, [samples], tmp_path, scheme)
    found = operators(content)
    assert found["UNIDIRECTIONAL_SEQUENCE_LSTM"] == len(opened.fused) == 2
    assert found["TANH"] == found["WHILE"] == 0
    assert not recurrent_state(read_model(content))
    raw, values = run_stream(content, samples)
    assert sqnr_db(keras_stream(model, samples), values) > (EXACT if scheme == "float32" else 33)
    np.testing.assert_array_equal(raw[3:5], run_stream(content, samples[3:5])[0])
    if scheme == "int8":
        assert sqnr_db(values, run_stream(content, samples, "litert-reference")[1]) > 35


@pytest.mark.slow
def test_a_large_cell_state_is_not_clipped(tmp_path: Path) -> None:
    """TensorFlow's own fusion clips at 10."""
    model = stream_model(
        layers.LSTM(3, return_sequences=True, unit_forget_bias=False, bias_initializer="ones"), shape=(40, 2)
    )
    model.set_weights([weights * 0 + (4.0 if weights.ndim == 1 else 0.0) for weights in model.get_weights()])
    samples = random_samples(model, 4)
    content, opened = joined(model, [samples], tmp_path)
    assert opened.fused
    expected = keras_stream(model, samples)
    _, values = run_stream(content, samples)
    assert sqnr_db(expected, values) > 40
    wanted = next(t for t in read_model(content).main.tensors if t.name.endswith("cell_state")).quantization
    assert wanted is not None
    assert wanted.scales[0] * 2**15 > 38  # 40 steps of nearly 1


STATEFUL: dict[str, tuple[Callable[[], Any], float, int]] = {
    "lstm": (lambda: stream_model(layers.LSTM(6, stateful=True), layers.Dense(3)), 33, 18),
    "two": (
        lambda: stream_model(
            layers.GRU(4, stateful=True, return_sequences=True), layers.SimpleRNN(3, stateful=True), shape=(2, 3)
        ),
        20,
        7,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEFUL)
def test_a_state_persists_between_invocations(name: str, tmp_path: Path) -> None:
    build, least_db, state_bytes = STATEFUL[name]
    model = build()
    samples = random_samples(model, 50)
    content, opened = joined(model, [samples], tmp_path)
    assert any("keeps its state" in note for note in opened.notes)
    expected = keras_stream(model, samples)
    raw, values = run_stream(content, samples)
    assert sqnr_db(expected, values) > least_db
    without_past = run_stream(content, samples[10:12])[1]
    assert sqnr_db(expected[10:12], without_past) < sqnr_db(expected[10:12], values[10:12]) - 5
    assert recurrent_state(read_model(content)).tensor_bytes == state_bytes
    if name == "two":
        assert np.abs(raw.astype(int) - run_stream(content, samples, "litert-reference")[0]).max() <= 8


@pytest.mark.slow
def test_stacked_layers_are_fused(tmp_path: Path) -> None:
    """What one operator gives goes straight to the next; the backward outputs are turned before they are joined."""
    first = layers.Bidirectional(layers.LSTM(5, return_sequences=True))
    model = sequential(STEPS, first, layers.LSTM(6, return_sequences=True), layers.LSTM(4), layers.Dense(3))
    samples = random_samples(model, 12)
    content, opened = joined(model, [samples], tmp_path)
    assert operators(content)["UNIDIRECTIONAL_SEQUENCE_LSTM"] == len(opened.fused) == 4
    assert sqnr_db(keras_stream(model, samples), run_stream(content, samples)[1]) > 35


@pytest.mark.slow
def test_states_of_16_bits(tmp_path: Path) -> None:
    """The converter writes one bias for all steps, in the scale of the first: 24 dB."""
    model = stream_model(layers.GRU(4, stateful=True), shape=STEPS)
    samples = random_samples(model)
    content, _ = joined(model, [samples], tmp_path, "int16x8")
    assert sqnr_db(keras_stream(model, samples), run_stream(content, samples)[1]) > 38


@pytest.mark.slow
def test_a_loop_stays_one_in_float(tmp_path: Path) -> None:
    model = sequential((20, 3), layers.GRU(4))
    samples = random_samples(model, 3)
    content, _ = joined(model, [samples], tmp_path, "float32")
    assert operators(content)["WHILE"] == 1
    assert sqnr_db(keras_stream(model, samples), run_stream(content, samples)[1]) > EXACT


def test_unrolling_on_request(tmp_path: Path) -> None:
    model = sequential(STEPS, layers.LSTM(3))
    content, opened = joined(model, [random_samples(model, 4)], tmp_path, rnn="unrolled")
    assert not opened.fused
    assert operators(content)["UNIDIRECTIONAL_SEQUENCE_LSTM"] == 0


@pytest.mark.parametrize(
    ("model", "rnn", "says"),
    [
        (lambda: sequential(STEPS, layers.GRU(3, name="g")), "fused", r"'g' \(GRU\).*only LSTM"),
        (lambda: sequential(STEPS, layers.LSTM(3, activation="relu", name="l")), "fused", r"'l' \(LSTM\).*relu"),
        (
            lambda: stream_model(layers.Bidirectional(layers.LSTM(3, stateful=True), name="b"), shape=STEPS),
            "auto",
            r"'b' \(Bidirectional\).*state",
        ),
        (
            lambda: shaken(
                keras.Sequential([keras.Input(batch_shape=(4, 1, 3)), layers.GRU(3, stateful=True, name="s")])
            ),
            "auto",
            r"'s' \(GRU\).*batch of 4",
        ),
    ],
)
def test_refusals_name_the_layer(model: Callable[[], Any], rnn: str, says: str, tmp_path: Path) -> None:
    made = model()
    with pytest.raises(UnsupportedModelError, match=says):
        joined(made, [random_samples(made, 4)], tmp_path, rnn=rnn)


def test_a_masked_layer_is_no_single_operator(tmp_path: Path) -> None:
    model = functional(STEPS, lambda given: layers.LSTM(3, name="l")(layers.Masking()(given)))
    with pytest.raises(
        UnsupportedModelError, match=r"'l' \(LSTM\) cannot be converted to one operator: its sequence is masked"
    ):
        joined(model, [random_samples(model, 4)], tmp_path, rnn="fused")


def test_a_sequence_too_long_to_unroll() -> None:
    model = sequential((MAX_STEPS + 1, 1), layers.SimpleRNN(1, name="long"))
    with plan(model).active(), pytest.raises(UnsupportedModelError, match=rf"'long'.*{MAX_STEPS + 1} copies"):
        model(np.zeros((1, MAX_STEPS + 1, 1), np.float32))


EXAMPLE = Path(__file__).parents[3] / "examples" / "streaming"
FRAMES = 240
CALIBRATION = 120
# Hidden state, and for the LSTM the cell's 16-bit state, of 16 units.
STATE_BYTES = {"gru": 16, "lstm": 48}


@pytest.mark.slow
@pytest.mark.parametrize("cell", STATE_BYTES)
def test_frame_by_frame_is_the_whole_sequence(cell: str, tmp_path: Path) -> None:
    spotter = keras.models.load_model(EXAMPLE / f"streaming_{cell}.keras", compile=False)
    calibration = np.load(EXAMPLE / "calibration.npz")["frame"][:CALIBRATION]
    stream = np.load(EXAMPLE / "stream.npz")
    frames, classes = stream["frame"][:FRAMES], stream["classes"][:FRAMES]

    given = keras.Input((FRAMES, frames.shape[2]))
    recurrent = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}[cell](16, return_sequences=True)
    whole = keras.Model(given, keras.layers.Dense(4, activation="softmax")(recurrent(given)))
    whole.set_weights([weights.numpy() for weights in spotter.trainable_variables])
    expected = np.asarray(whole(frames.reshape(1, FRAMES, -1)))[0]

    content, opened = joined(spotter, [calibration], tmp_path)
    assert bool(opened.fused) == (cell == "lstm")
    assert recurrent_state(read_model(content)).tensor_bytes == STATE_BYTES[cell]
    _, found = run_stream(content, frames)
    assert sqnr_db(expected, found) > 28
    agreement = np.mean(np.argmax(found, axis=1) == np.argmax(expected, axis=1))
    assert agreement > 0.99
    assert np.mean(np.argmax(found, axis=1) == classes) > 0.9
