"""Train two small word spotters on sequences, and save them as models that take one frame at a time.

usage: python make_model.py [directory]

Both recognize three "words" in the 10 bands of a spectrogram: a rising tone, a falling tone, and a tone that sounds
twice. The words differ only over time, so the models need state. The layers are trained on whole sequences. The saved
models, streaming_gru.keras and streaming_lstm.keras, have the same weights, but stateful layers and sequences of a
single frame. calibration.npz holds the frames of one stream in order, and stream.npz another stream with the class of
each frame (0: no word).
"""

from __future__ import annotations

import sys
from pathlib import Path

import keras
import numpy as np
from keras import layers

BANDS, WORDS, UNITS = 10, 4, 16
WORD_FRAMES, SEQUENCE_FRAMES = 12, 48
TRAINING_SEQUENCES, EPOCHS = 800, 12
CALIBRATION_FRAMES, STREAM_FRAMES = 480, 480


def word(kind: int, random: np.random.Generator) -> np.ndarray:
    """Return the frames of one word, (WORD_FRAMES, BANDS)."""
    time = np.linspace(0, 1, WORD_FRAMES)
    low, high = random.uniform(0, 2), random.uniform(7, 9)
    path = {1: low + (high - low) * time, 2: high - (high - low) * time, 3: np.full(WORD_FRAMES, (low + high) / 2)}[
        kind
    ]
    loudness = random.uniform(0.7, 1.3) * np.where((kind == 3) & (np.abs(time - 0.5) < 0.2), 0.0, 1.0)
    return loudness[:, None] * np.exp(-((np.arange(BANDS) - path[:, None]) ** 2) / 2)


def stream(frames: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return noise with words, (frames, BANDS), and the class of each frame: that of a word from its last third on."""
    values = random.normal(0, 0.08, (frames, BANDS))
    classes = np.zeros(frames, np.int32)
    start = int(random.integers(2, 14))
    while start + WORD_FRAMES + 4 < frames:
        kind = int(random.integers(1, WORDS))
        values[start : start + WORD_FRAMES] += word(kind, random)
        classes[start + 2 * WORD_FRAMES // 3 : start + WORD_FRAMES + 2] = kind
        start += WORD_FRAMES + int(random.integers(6, 20))
    return values.astype(np.float32), classes


def spotter(cell: str, frames: int, *, stateful: bool) -> keras.Model:
    """Return a recurrent layer with a decision for each frame; a stateful one keeps its state between calls."""
    given = keras.Input(batch_shape=(1 if stateful else None, frames, BANDS), name="frame")
    layer = {"gru": layers.GRU, "lstm": layers.LSTM}[cell]
    hidden = layer(UNITS, return_sequences=not stateful, stateful=stateful, name=cell)(given)
    return keras.Model(given, layers.Dense(WORDS, activation="softmax", name="word")(hidden))


def main() -> None:
    """Write the files to a directory."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    random = np.random.default_rng(1)
    sequences = [stream(SEQUENCE_FRAMES, random) for _ in range(TRAINING_SEQUENCES)]
    x, y = np.stack([values for values, _ in sequences]), np.stack([classes for _, classes in sequences])
    test, classes = stream(STREAM_FRAMES, random)
    for cell in ("gru", "lstm"):
        keras.utils.set_random_seed(1)
        whole = spotter(cell, SEQUENCE_FRAMES, stateful=False)
        whole.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
        whole.fit(x, y, batch_size=64, epochs=EPOCHS, verbose=0)
        frame_by_frame = spotter(cell, 1, stateful=True)
        frame_by_frame.set_weights(whole.get_weights())
        found = np.argmax([frame_by_frame(frame[None, None])[0] for frame in test], axis=1)
        print(f"{cell}: {np.mean(found == classes):.1%} of the frames of a new stream")
        spotter_file = directory / f"streaming_{cell}.keras"
        frame_by_frame.layers[1].reset_state()
        frame_by_frame.save(spotter_file)
    frames, _ = stream(CALIBRATION_FRAMES, random)
    np.savez_compressed(directory / "calibration.npz", frame=frames[:, None].round(3))
    np.savez_compressed(directory / "stream.npz", frame=test[:, None].round(3), classes=classes)


if __name__ == "__main__":
    main()
