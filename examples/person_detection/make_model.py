"""Generate the example: a small person detector, and the data to calibrate and evaluate it.

The pictures are synthetic: a room or a street of grey shapes, with objects that stand, hang and lie in it. Every second
picture also shows a person of random size, position, pose and brightness. Sensor noise is added. The pixel values are
0 to 255, as a camera produces them, and the model uses them without scaling. Everything is seeded.

    python make_model.py    # needs edgetool[convert]; 70 seconds of CPU time on two cores
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]

LABELS = ("no person", "person")
SIDE = 96
INPUT_SHAPE = (SIDE, SIDE, 1)
# Number of grey levels that the sensor distinguishes; a small number also keeps the files small.
SHADES = 16
TRAINING, CALIBRATION, EVALUATION = 8000, 50, 160
SEEDS = {"training": 1, "calibration": 2, "evaluation": 3, "weights": 4}
# Channels and stride of each depthwise separable block: the widths of MobileNet v1 with alpha 1/4, but downsampled from
# the first block on and only six blocks, because training spends most of its time on large feature maps.
BLOCKS = ((16, 2), (32, 2), (64, 1), (64, 2), (128, 1), (128, 1))
ROWS, COLUMNS = (axis.astype(np.float32) for axis in np.ogrid[0:SIDE, 0:SIDE])


class Picture:
    """Grey values (96, 96) from 0 to 1. Shapes are drawn on it; later shapes cover earlier ones."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.random = generator
        self.pixels = self._background()

    def _background(self) -> Array:
        """Return a wall and a floor, with light from one side."""
        random = self.random
        wall, floor = random.uniform(0.1, 0.9, 2)
        horizon = random.uniform(0.45, 1.05) * SIDE
        light = random.uniform(-0.25, 0.25, 2)
        pixels = np.where(horizon > ROWS, wall, floor)
        return pixels + light[0] * (ROWS / SIDE - 0.5) + light[1] * (COLUMNS / SIDE - 0.5)

    def paint(self, inside: npt.NDArray[np.bool_], shade: float) -> None:
        """Fill a shape with a shade that becomes brighter to the right."""
        np.copyto(self.pixels, shade + 0.1 * (COLUMNS / SIDE - 0.5), where=inside)

    def box(self, top: float, left: float, height: float, width: float, shade: float) -> None:
        """Draw an upright rectangle."""
        self.paint((top <= ROWS) & (top + height > ROWS) & (left <= COLUMNS) & (left + width > COLUMNS), shade)

    def ellipse(self, row: float, column: float, height: float, width: float, shade: float) -> None:
        """Draw an upright ellipse with the given half axes."""
        self.paint(((ROWS - row) / height) ** 2 + ((COLUMNS - column) / width) ** 2 < 1, shade)

    def limb(self, start: tuple[float, float], end: tuple[float, float], width: float, shade: float) -> None:
        """Draw a line with round ends from one (row, column) to another, with the given half width."""
        (row, column), (down, right) = start, (end[0] - start[0], end[1] - start[1])
        along = ((ROWS - row) * down + (COLUMNS - column) * right) / max(down**2 + right**2, 1e-9)
        along = np.clip(along, 0, 1)
        self.paint((ROWS - row - along * down) ** 2 + (COLUMNS - column - along * right) ** 2 < width**2, shade)


def thing(picture: Picture) -> None:
    """Draw an object: a box, a ball, a pole, a lamp, a tree, or a table."""
    random = picture.random
    row, column = random.uniform(0.1, 0.9, 2) * SIDE
    size, shade = random.uniform(0.06, 0.3) * SIDE, random.uniform(0, 1)
    kind = random.integers(6)
    if kind == 0:
        picture.box(row, column, size * random.uniform(0.5, 2), size * random.uniform(0.5, 2), shade)
    elif kind == 1:
        picture.ellipse(row, column, size / 2, size / 2 * random.uniform(0.7, 1.4), shade)
    elif kind == 2:
        picture.limb((row, column), (row + 3 * size, column + random.uniform(-8, 8)), random.uniform(1, 5), shade)
    elif kind == 3:
        picture.limb((row, column), (row + 2.5 * size, column), 1.5, random.uniform(0, 1))
        picture.ellipse(row, column, size / 3, size / 3, shade)
    elif kind == 4:
        picture.limb((row, column), (row + 2 * size, column), size / 8, random.uniform(0, 0.5))
        picture.ellipse(row, column, size, size * random.uniform(0.5, 0.9), shade)
    else:
        picture.box(row, column, size / 5, 2 * size, shade)
        for leg in (0.1, 1.9):
            picture.limb((row, column + leg * size), (row + 1.2 * size, column + leg * size), size / 14, shade)


def person(picture: Picture) -> None:
    """Draw a standing or walking figure: legs, trunk, arms and head."""
    random = picture.random
    height = random.uniform(0.6, 0.95) * SIDE
    top = random.uniform(0, SIDE - height)
    column = random.uniform(0.2, 0.8) * SIDE
    skin, shirt, trousers = random.uniform(0, 1, 3)
    stout = random.uniform(0.8, 1.3)
    neck, hip, foot = top + 0.16 * height, top + 0.5 * height, top + height
    lean = random.uniform(-0.05, 0.05) * height
    shoulder = (neck + 0.05 * height, column + lean)
    stride = random.uniform(0.02, 0.2) * height
    for side in (-1, 1):
        knee = (hip + 0.25 * height, column + side * stride * random.uniform(0.3, 0.9))
        picture.limb((hip, column + side * 0.04 * height), knee, 0.05 * height * stout, trousers)
        picture.limb(knee, (foot - 0.04 * height, column + side * stride), 0.04 * height * stout, trousers)
    picture.limb(shoulder, (hip, column), 0.095 * height * stout, shirt)
    for side in (-1, 1):
        reach = random.uniform(-0.3, 1.2)
        arm = (shoulder[0], shoulder[1] + side * 0.09 * height * stout)
        elbow = (arm[0] + 0.16 * height * np.cos(reach), arm[1] + side * 0.16 * height * np.sin(reach))
        bent = reach + random.uniform(-0.4, 1.2)
        hand = (elbow[0] + 0.15 * height * np.cos(bent), elbow[1] + side * 0.15 * height * np.sin(bent))
        picture.limb(arm, elbow, 0.032 * height * stout, shirt)
        picture.limb(elbow, hand, 0.028 * height * stout, skin)
    picture.ellipse(top + 0.08 * height, column + 1.2 * lean, 0.085 * height, 0.065 * height, skin)


def photograph(generator: np.random.Generator, label: int) -> npt.NDArray[np.uint8]:
    """Return a picture (96, 96, 1) of the given class."""
    picture = Picture(generator)
    for _ in range(generator.integers(2, 5)):
        thing(picture)
    if LABELS[label] == "person":
        person(picture)
    for _ in range(generator.integers(0, 2)):
        thing(picture)
    exposed = picture.pixels * generator.uniform(0.6, 1.1) + generator.uniform(-0.05, 0.05)
    exposed += generator.normal(0, generator.uniform(0.002, 0.02), exposed.shape)
    shades = np.round(np.clip(exposed, 0, 1) * (SHADES - 1))
    return np.round(shades * (255 / (SHADES - 1))).astype(np.uint8)[..., None]


def dataset(seed: int, count: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return inputs x (count, 96, 96, 1) and classes y (count,); the classes alternate."""
    generator = np.random.default_rng(seed)
    labels = (np.arange(count) % len(LABELS)).astype(np.uint8)
    return np.stack([photograph(generator, int(label)) for label in labels]), labels


def build(width: int = 1) -> Any:
    """Return the network, with the number of channels scaled by `width`.

    Its first layer is followed by a normalization, so it takes pixels from 0 to 255 as well as any others.
    """
    from keras import Sequential, layers

    def block(*convolution: Any) -> list[Any]:
        return [*convolution, layers.BatchNormalization(momentum=0.9), layers.ReLU()]

    stack = block(layers.Conv2D(8 * width, 3, strides=2, padding="same", use_bias=False))
    for channels, stride in BLOCKS:
        stack += block(layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False))
        stack += block(layers.Conv2D(channels * width, 1, use_bias=False))
    return Sequential(
        [
            layers.Input(INPUT_SHAPE, name="image"),
            *stack,
            layers.AveragePooling2D((6, 6)),
            layers.Flatten(),
            layers.Dense(len(LABELS), activation="softmax", name="class"),
        ],
        name="person_detection",
    )


def main() -> None:
    """Write the three files next to this one."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
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
    x, y = np.concatenate([x, x[:, :, ::-1]]), np.concatenate([y, y])  # a picture in the mirror is one, too
    epochs, batch = 3, 100
    rate = keras.optimizers.schedules.CosineDecay(8e-3, epochs * len(x) // batch)
    model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, epochs=epochs, batch_size=batch, verbose=2)
    loss, accuracy = model.evaluate(evaluation[0].astype(np.float32), evaluation[1], verbose=0)
    print(f"{model.count_params()} parameters, evaluation: loss {loss:.3f}, accuracy {accuracy:.1%}")

    model.save(folder / "person_detection.h5", include_optimizer=False)
    np.savez_compressed(folder / "calibration.npz", image=calibration)
    np.savez_compressed(folder / "evaluation.npz", x=evaluation[0], y=evaluation[1])


if __name__ == "__main__":
    main()
