"""How two runs of the same samples differ: to the bit, or by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Unit = Literal["lsb", "absolute"]


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two runs part: the first sample, and in it the first output and element; both values there."""

    sample: int
    output: int
    element: tuple[int, ...]
    values: tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Distance:
    """How far two arrays are apart: the elements that differ, of how many, and the largest difference.

    The unit is the integers' own step (lsb), or the number itself for floats. largest is None where a difference is
    no number (infinite, or NaN in one array alone).
    """

    unit: Unit
    largest: float | None
    differing: int
    elements: int


def first_difference(one: Sequence[Array], other: Sequence[Array]) -> FirstDifference | None:
    """The first element whose bits differ in outputs of (N, ...) each; None when there is none.

    Bits, not values: 0.0 and -0.0 differ, a NaN equals itself. Raises ValueError when shapes or dtypes differ.
    """
    found: FirstDifference | None = None
    for output, (a, b) in enumerate(zip(one, other, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(f"output {output} is {a.dtype} {a.shape} and {b.dtype} {b.shape}")
        unequal = np.argwhere((_bytes(a) != _bytes(b)).any(axis=-1))
        if len(unequal) and (found is None or unequal[0][0] < found.sample):
            index = tuple(int(i) for i in unequal[0])
            found = FirstDifference(index[0], output, index[1:], (a[index].item(), b[index].item()))
    return found


def distance(one: Array, other: Array) -> Distance:
    """How far two arrays of one shape and dtype are apart; NaN in the same place is no difference."""
    if one.dtype.kind != "f":
        apart = np.abs(one.astype(object) - other.astype(object)) if one.dtype.kind in "iu" else one != other
        return Distance("lsb", float(apart.max(initial=0)), int(np.count_nonzero(apart)), one.size)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        apart = np.abs(one[~same].astype(np.float64) - other[~same].astype(np.float64))
    largest = float(apart.max(initial=0))
    return Distance("absolute", largest if np.isfinite(largest) else None, apart.size, one.size)


def _bytes(array: Array) -> npt.NDArray[np.uint8]:
    """The array's bytes, (*shape, bytes of an element)."""
    return np.ascontiguousarray(array).reshape(array.shape).view(np.uint8).reshape(*array.shape, array.itemsize)
