"""Samples for a model: the inputs' shapes and types, checking and converting samples, and synthetic ones.

Synthetic samples are seeded, for models without calibration data: they make a conversion possible, not accurate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgetool.errors import CalibrationError

Array: TypeAlias = NDArray[np.generic]
# The smallest difference between maximum and minimum of a float input from which a scale can be computed.
MIN_RANGE = 1e-9


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A model input: its name, the shape of one sample (without batch) and its numpy type name.

    axes: for samples in the order of the original framework, which of their axes each axis of `shape` is; None if both
    orders are the same. Samples may have either order; if both have the same shape, they are the original's.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    axes: tuple[int, ...] | None = None

    @property
    def original_shape(self) -> tuple[int, ...]:
        """The shape of a sample in the original's order."""
        return self.shape if self.axes is None else tuple(self.shape[self.axes.index(i)] for i in range(len(self.axes)))

    @property
    def shape_text(self) -> str:
        """The shapes that a sample may have."""
        device = _text(self.shape)
        return device if self.axes is None else f"{_text(self.original_shape)} or, with its channels last, {device}"

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Return whether a sample may have this shape."""
        return shape in (self.shape, self.original_shape)

    def in_device_order(self, values: Array) -> Array:
        """Return a sample of an accepted shape with its axes in the order of `shape`."""
        return values if self.axes is None or values.shape != self.original_shape else values.transpose(self.axes)

    @property
    def is_float(self) -> bool:
        """Whether mean/std and scale/offset apply."""
        return np.dtype(self.dtype).kind == "f"


@dataclass(frozen=True, slots=True)
class SampleSet:
    """Raw samples: `get(i)` has one array per input, in the model's order; `where(i)` names the sample.

    notes: for the user, about how they were read.
    """

    count: int
    get: Callable[[int], Sequence[Array]]
    where: Callable[[int], str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Normalisation:
    """value * scale + offset on float inputs; one value, or one per index of the last axis."""

    scale: tuple[float, ...] = (1.0,)
    offset: tuple[float, ...] = (0.0,)

    @classmethod
    def of(
        cls,
        mean: Sequence[float] | None,
        std: Sequence[float] | None,
        scale: Sequence[float] | None,
        offset: Sequence[float] | None,
    ) -> Normalisation | None:
        """Return the normalisation (x - mean) / std or x * scale + offset; None if all are None."""
        if mean is None and std is None and scale is None and offset is None:
            return None
        if mean is None and std is None:
            return cls(tuple(scale or (1.0,)), tuple(offset or (0.0,)))
        means, stds = np.broadcast_arrays(*(np.atleast_1d(part) for part in _same_length(mean, std)))
        return cls(tuple((1.0 / stds).tolist()), tuple((-means / stds).tolist()))

    def apply(self, values: Array, spec: InputSpec) -> NDArray[np.float64]:
        """Return the normalised values in double precision. Raises CalibrationError if the channel counts differ."""
        for numbers in (self.scale, self.offset):
            if len(numbers) > 1 and (not spec.shape or len(numbers) != spec.shape[-1]):
                raise CalibrationError(
                    f"{len(numbers)} values for the channels of input {spec.name!r} of shape {_text(spec.shape)}",
                    where="--mean/--std or --scale/--offset",
                    fix="use one value, or one per index of the last axis",
                )
        scale, offset = (np.array(part if len(part) > 1 else part[0]) for part in (self.scale, self.offset))
        return np.asarray(values.astype(np.float64) * scale + offset)


def _same_length(mean: Sequence[float] | None, std: Sequence[float] | None) -> tuple[Sequence[float], Sequence[float]]:
    means, stds = mean or (0.0,), std or (1.0,)
    if len(means) != len(stds) and 1 not in (len(means), len(stds)):
        raise CalibrationError(
            f"{len(means)} means and {len(stds)} standard deviations", fix="provide the same number of each"
        )
    return means, stds


def prepare_sample(values: Array, spec: InputSpec, normalisation: Normalisation | None, where: str) -> Array:
    """Return a sample in the shape and type of the input. Raises CalibrationError at `where` if it is invalid."""
    if values.dtype.kind not in "fiub":
        raise CalibrationError(f"contains {values.dtype} instead of numbers", where=where, fix="save it as float32")
    if values.shape[:1] == (1,) and spec.accepts(values.shape[1:]):
        values = values[0]
    if not spec.accepts(values.shape):
        raise CalibrationError(
            f"has shape {_text(values.shape)}, but input {spec.name!r} requires {spec.shape_text}",
            where=where,
            fix="save every sample in the input's shape",
        )
    values = spec.in_device_order(values)
    if values.dtype.kind == "f":
        _check_finite(values, where, "contains")
    if spec.is_float:
        if normalisation is not None:
            values = normalisation.apply(values, spec)
        with np.errstate(over="ignore"):
            result = values.astype(spec.dtype)
        if result.dtype.kind == "f":
            _check_finite(result, where, f"does not fit {spec.dtype}: conversion results in")
        return result
    return _as_integers(values, spec, where)


def _as_integers(values: Array, spec: InputSpec, where: str) -> Array:
    """Convert the values to the type of an integer input. Raises CalibrationError if that would change a value."""
    result = values.astype(spec.dtype)
    is_exact = np.array_equal(result.astype(np.float64), values.astype(np.float64))
    if not is_exact:
        raise CalibrationError(
            f"contains values that input {spec.name!r} of type {spec.dtype} cannot represent",
            where=where,
            fix=f"save it as {spec.dtype}",
        )
    return result


def _check_finite(values: Array, where: str, verb: str) -> None:
    finite = np.isfinite(values.astype(np.float64, copy=False))
    if finite.all():
        return
    position = tuple(int(index[0]) for index in np.nonzero(~finite))
    kind = "NaN" if np.isnan(values[position]) else "infinity"
    raise CalibrationError(f"{verb} {kind} at index {_text(position)}", where=where, fix="remove or correct it")


def store(
    samples: SampleSet,
    specs: Sequence[InputSpec],
    normalisation: Normalisation | None,
    files: Sequence[Path],
) -> tuple[Array, ...]:
    """Check and convert all samples into one .npy file per input, and return them memory-mapped, (N, ...) each.

    Only one sample at a time is in memory. Raises CalibrationError naming the sample.
    """
    if samples.count == 0:
        raise CalibrationError("contains no samples", where=samples.where(0), fix="provide at least one")
    stored = [
        np.lib.format.open_memmap(file, mode="w+", dtype=np.dtype(spec.dtype), shape=(samples.count, *spec.shape))
        for file, spec in zip(files, specs, strict=True)
    ]
    for index in range(samples.count):
        for values, spec, target in zip(samples.get(index), specs, stored, strict=True):
            target[index] = prepare_sample(values, spec, normalisation, samples.where(index))
    for array in stored:
        array.flush()
    return tuple(stored)


def check_varied(arrays: Sequence[Array], specs: Sequence[InputSpec], where: str, fix: str) -> None:
    """Raise CalibrationError if a float input hardly varies: its scale would be 0, which no runtime accepts."""
    for array, spec in zip(arrays, specs, strict=True):
        if not spec.is_float or not array.size:
            continue
        low, high = float(array.min()), float(array.max())
        if high - low < MIN_RANGE:
            values = f"is {low:g} in all samples" if low == high else f"varies by less than {MIN_RANGE:g}"
            raise CalibrationError(f"input {spec.name!r} {values}: it has no range to quantize", where=where, fix=fix)


def _text(shape: Sequence[int]) -> str:
    """ "(32, 32, 3)" without numpy's types."""
    return str(tuple(int(size) for size in shape))


FLOAT_RANGE = (-1.0, 1.0)
PIXEL_RANGE = (0.0, 255.0)


@dataclass(frozen=True, slots=True)
class Range:
    """The range of an input's values, inclusive. whole: whether the values are integers."""

    low: float
    high: float
    whole: bool = False


def default_range(spec: InputSpec) -> Range:
    """Return -1 to 1 for floats, all values of 8-bit types, and 0 to 1 for wider integers and bool."""
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return Range(*FLOAT_RANGE)
    if dtype.kind in "iu" and dtype.itemsize == 1:
        return Range(float(np.iinfo(dtype).min), float(np.iinfo(dtype).max), whole=True)
    return Range(0, 1, whole=True)


def synthetic_samples(specs: Sequence[InputSpec], ranges: Sequence[Range], count: int, seed: int) -> SampleSet:
    """Return samples uniform in each input's range. Sample i depends only on seed, i and the input's position."""

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
