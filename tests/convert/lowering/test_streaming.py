"""The example's keyword spotters, frame by frame on real TFLM: what Keras says to the whole sequence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetool.memory.lifetimes import carried_state
from edgetool.model.reader import read_model
from tests.convert.lowering.lowered import keras
from tests.convert.lowering.streams import joined, run_stream, sqnr_db

EXAMPLE = Path(__file__).parents[3] / "examples" / "streaming"
FRAMES = 240
CALIBRATION = 120
# Hidden state, and for the LSTM the cell's 16-bit state, of 16 units.
STATE_BYTES = {"gru": 16, "lstm": 48}


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
    assert carried_state(read_model(content)).tensor_bytes == STATE_BYTES[cell]
    _, found = run_stream(content, frames)
    assert sqnr_db(expected, found) > 28
    agreement = np.mean(np.argmax(found, axis=1) == np.argmax(expected, axis=1))
    assert agreement > 0.99
    assert np.mean(np.argmax(found, axis=1) == classes) > 0.9
