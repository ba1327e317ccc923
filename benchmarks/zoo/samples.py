"""Calibration samples that look like what a model's inputs get: images, signals, features, indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# (random numbers, how many, shape of one) -> (N, *shape)
Sampler = Callable[[np.random.Generator, int, tuple[int, ...]], Array]


def features(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """Standardised measurements: normal, independent."""
    return rng.normal(size=(count, *shape)).astype(np.float32)


def signal(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """(time, ..., channels): two sines per channel, noise and a level, within about -1 to 1."""
    length, rest = shape[0], shape[1:]
    time = np.arange(length).reshape(1, length, *(1 for _ in rest))
    waves = np.zeros((count, *shape)) + rng.normal(scale=0.3, size=(count, 1, *rest))
    for strength in (0.6, 0.3):
        frequency = rng.uniform(0.2, 2.0, (count, 1, *rest))
        waves += strength * np.sin(frequency * time + rng.uniform(0, 2 * np.pi, (count, 1, *rest)))
    return (waves + rng.normal(scale=0.05, size=waves.shape)).astype(np.float32)


def image(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """(..., height, width, channels), 0 to 1: areas around a tint that differs from image to image, a little noise."""
    *lead, height, width, channels = shape
    tint = rng.uniform(0.1, 0.9, (count, *(1 for _ in lead), 1, 1, channels))
    contrast = rng.uniform(0.1, 0.5, (count, *(1 for _ in shape)))
    coarse = rng.uniform(-1, 1, (count, *lead, -(-height // 4), -(-width // 4), channels))
    areas = tint + contrast * coarse.repeat(4, -3).repeat(4, -2)[..., :height, :width, :]
    return np.clip(areas + rng.normal(scale=0.05, size=areas.shape), 0, 1).astype(np.float32)


def pixels(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """As `image`, 0 to 255."""
    return np.round(image(rng, count, shape) * 255).astype(np.float32)


def centred(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """As `image`, -1 to 1."""
    return image(rng, count, shape) * 2 - 1


def indices(below: int) -> Sampler:
    """Whole numbers from 0 to below - 1, each equally likely."""

    def draw(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
        return rng.integers(0, below, (count, *shape)).astype(np.int32)

    return draw


def natural(shape: tuple[int, ...]) -> Sampler:
    """What a float input of this shape most likely gets: a row of features, a signal, images."""
    return features if len(shape) < 2 else signal if len(shape) == 2 else image
