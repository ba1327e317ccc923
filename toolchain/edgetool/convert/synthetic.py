"""Seeded samples for a model without calibration data: they make conversion possible, not accurate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgetool.convert.samples import InputSpec, SampleSet

FLOAT_RANGE = (-1.0, 1.0)
PIXEL_RANGE = (0.0, 255.0)


@dataclass(frozen=True, slots=True)
class Range:
    """Where an input's values lie: low to high, both inclusive; whole numbers only for indices."""

    low: float
    high: float
    whole: bool = False


def default_range(spec: InputSpec) -> Range:
    """-1 to 1 for floats, all values of 8-bit types, 0 and 1 for wider integers and bool."""
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return Range(*FLOAT_RANGE)
    if dtype.kind in "iu" and dtype.itemsize == 1:
        return Range(float(np.iinfo(dtype).min), float(np.iinfo(dtype).max), whole=True)
    return Range(0, 1, whole=True)


def synthetic_samples(specs: Sequence[InputSpec], ranges: Sequence[Range], count: int, seed: int) -> SampleSet:
    """`count` samples, uniform in each input's range. Sample i depends on seed, i and the input's position only."""

    def get(index: int) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
        arrays = []
        for position, (spec, limits) in enumerate(zip(specs, ranges, strict=True)):
            rng = np.random.Generator(np.random.PCG64((seed, index, position)))
            if limits.whole:
                values = rng.integers(int(limits.low), int(limits.high), size=spec.shape, endpoint=True)
                arrays.append(np.asarray(values).astype(spec.dtype))
            else:
                arrays.append(np.asarray(rng.uniform(limits.low, limits.high, size=spec.shape)).astype(spec.dtype))
        return arrays

    return SampleSet(count, get, lambda index: f"synthetic sample {index}")
