"""Generate the example: a small keyword model, and the data to calibrate and evaluate it.

The "words" are synthesized: two vowels that glide into each other, with random pitch, speed and loudness, in noise.
The input of the model is what a microcontroller would compute from one second of audio: 49 frames of 10 cepstral
coefficients (MFCC). Everything is seeded.

    python make_model.py    # needs edgetool[convert]; about a minute on two cores
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]

LABELS = ("silence", "unknown", "ai", "ia", "ou", "ue")
KEYWORDS = LABELS[2:]
VOWELS = "aeiou"
# The first three formants of a man's vowels in Hz (Peterson and Barney, 1952).
FORMANTS_HZ = np.array([[730, 1090, 2440], [530, 1840, 2480], [270, 2290, 3010], [570, 840, 2410], [300, 870, 2240]])
FORMANT_WIDTHS_HZ = np.array([90, 130, 180])
SAMPLE_RATE_HZ = 8000
FRAME, HOP = 320, 160  # samples: 40 ms every 20 ms
MEL_BANDS, COEFFICIENTS = 20, 10
# Scales the coefficients to similar magnitudes, so that one int8 scale suits them all.
COEFFICIENT_GAINS = np.array([0.5, 3, 3, 4, 4, 5, 5, 6, 8, 8])
INPUT_SHAPE = (49, 10, 1)
TRAINING, CALIBRATION, EVALUATION = 3000, 100, 300
SEEDS = {"training": 1, "calibration": 2, "evaluation": 3, "weights": 4}


def word(generator: np.random.Generator, vowels: str) -> Array:
    """Return one second of audio (8000,): two vowels, one after the other."""
    length = int(generator.uniform(0.35, 0.75) * SAMPLE_RATE_HZ)
    time = np.arange(length) / length
    turn, slope = generator.uniform(0.35, 0.65), generator.uniform(10, 30)
    share = (1 / (1 + np.exp(-slope * (time - turn))))[:, None]
    first, second = (FORMANTS_HZ[VOWELS.index(vowel)] for vowel in vowels)
    speaker = generator.uniform(0.85, 1.25) * generator.uniform(0.94, 1.06, 3)
    formants = ((1 - share) * first + share * second) * speaker
    pitch = generator.uniform(90, 240) * (1 + generator.uniform(-0.2, 0.2) * time)
    phase = 2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE_HZ
    sound = np.zeros(length)
    for harmonic in range(1, int(SAMPLE_RATE_HZ / 2 / pitch.max())):
        distance = (harmonic * pitch[:, None] - formants) / FORMANT_WIDTHS_HZ
        envelope = (np.array([1.0, 0.6, 0.3]) / (1 + distance**2)).sum(axis=1) + 0.01
        sound += envelope * np.sin(harmonic * phase)
    sound *= np.sin(np.pi * time) ** 0.5 / np.sqrt(np.mean(sound**2))
    start = generator.integers(0, SAMPLE_RATE_HZ - length)
    second_of_sound = np.zeros(SAMPLE_RATE_HZ)
    second_of_sound[start : start + length] = sound
    return second_of_sound


def noise(generator: np.random.Generator) -> Array:
    """Return one second of noise (8000,) between white and brown, with an RMS value of 1."""
    spectrum = np.fft.rfft(generator.standard_normal(SAMPLE_RATE_HZ))
    spectrum *= np.maximum(np.arange(len(spectrum)), 20.0) ** -generator.uniform(0, 1)
    sound = np.fft.irfft(spectrum)
    return sound / np.sqrt(np.mean(sound**2))


def recording(generator: np.random.Generator, label: int) -> Array:
    """Return one second of audio of the given class."""
    loudness = 10 ** generator.uniform(-1.5, 0)
    background = noise(generator)
    if LABELS[label] == "silence":
        return 0.3 * loudness * background
    others = [a + b for a in VOWELS for b in VOWELS if a + b not in KEYWORDS]
    vowels = str(generator.choice(others)) if LABELS[label] == "unknown" else LABELS[label]
    signal_to_noise_db = generator.uniform(-4, 14)
    return loudness * (word(generator, vowels) + 10 ** (-signal_to_noise_db / 20) * background)


def mel_filters() -> Array:
    """Return triangular filters (frequencies, bands) from 60 Hz to half the sample rate."""
    mel = np.linspace(np.log1p(60 / 700), np.log1p(SAMPLE_RATE_HZ / 2 / 700), MEL_BANDS + 2)
    edges = 700 * np.expm1(mel)
    frequency = np.fft.rfftfreq(FRAME, 1 / SAMPLE_RATE_HZ)[:, None]
    rising = (frequency - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequency) / (edges[2:] - edges[1:-1])
    return np.clip(np.minimum(rising, falling), 0, None)


def cepstrum(sound: Array) -> Array:
    """Return the model input (49, 10, 1): the MFCC of one second of audio, with magnitudes of about 1."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, FRAME)[::HOP] * np.hanning(FRAME)
    power = np.abs(np.fft.rfft(frames)) ** 2
    bands = np.log(power @ mel_filters() + 1e-3)
    angle = np.pi / MEL_BANDS * (np.arange(MEL_BANDS)[:, None] + 0.5) * np.arange(COEFFICIENTS)
    return (bands @ np.cos(angle) / MEL_BANDS * COEFFICIENT_GAINS)[..., None]


def dataset(seed: int, count: int) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.uint8]]:
    """Return inputs x (count, 49, 10, 1) and classes y (count,); the classes alternate."""
    generator = np.random.default_rng(seed)
    labels = (np.arange(count) % len(LABELS)).astype(np.uint8)
    x = np.stack([cepstrum(recording(generator, int(label))) for label in labels])
    return x.astype(np.float16), labels


def build() -> Any:
    """Return a depthwise separable network like the keyword models of the "Hello Edge" paper, one size smaller."""
    from keras import Sequential, layers

    def block(*convolution: Any) -> list[Any]:
        return [*convolution, layers.BatchNormalization(), layers.ReLU()]

    return Sequential(
        [
            layers.Input(INPUT_SHAPE, name="mfcc"),
            *block(layers.Conv2D(48, (10, 4), strides=2, padding="same", use_bias=False)),
            *block(layers.DepthwiseConv2D(3, padding="same", use_bias=False)),
            *block(layers.Conv2D(48, 1, use_bias=False)),
            *block(layers.DepthwiseConv2D(3, padding="same", use_bias=False)),
            *block(layers.Conv2D(48, 1, use_bias=False)),
            *block(layers.DepthwiseConv2D(3, padding="same", use_bias=False)),
            *block(layers.Conv2D(64, 1, use_bias=False)),
            layers.AveragePooling2D((25, 5)),
            layers.Flatten(),
            layers.Dense(len(LABELS), activation="softmax", name="word"),
        ],
        name="keyword_spotting",
    )


def main() -> None:
    """Write the three files next to this one."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import keras
    import tensorflow as tf

    folder = Path(__file__).resolve().parent
    x, y = dataset(SEEDS["training"], TRAINING)
    calibration, _ = dataset(SEEDS["calibration"], CALIBRATION)
    evaluation = dataset(SEEDS["evaluation"], EVALUATION)

    keras.utils.set_random_seed(SEEDS["weights"])
    tf.config.experimental.enable_op_determinism()
    model = build()
    epochs, batch = 12, 50
    rate = keras.optimizers.schedules.CosineDecay(3e-3, epochs * TRAINING // batch)
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x.astype(np.float32), y, epochs=epochs, batch_size=batch, verbose=2)
    loss, accuracy = model.evaluate(evaluation[0].astype(np.float32), evaluation[1], verbose=0)
    print(f"{model.count_params()} parameters, evaluation: loss {loss:.3f}, accuracy {accuracy:.1%}")

    model.save(folder / "keyword_spotting.h5", include_optimizer=False)
    np.savez_compressed(folder / "calibration.npz", mfcc=calibration)
    np.savez_compressed(folder / "evaluation.npz", x=evaluation[0], y=evaluation[1])


if __name__ == "__main__":
    main()
