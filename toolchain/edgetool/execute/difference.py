"""Compare two runs of the same samples: the first difference in bits, and the largest distance."""

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
    """The first difference between two runs: the sample, the output and the element in it, and both values."""

    sample: int
    output: int
    element: tuple[int, ...]
    values: tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Distance:
    """The distance between two arrays: the number of elements, of differing ones, and the largest difference.

    The unit is one step of the integers (lsb), or absolute for floats. largest is None if a difference is infinite, or
    NaN in one array only.
    """

    unit: Unit
    largest: float | None
    differing: int
    elements: int


def first_difference(one: Sequence[Array], other: Sequence[Array]) -> FirstDifference | None:
    """Return the first element whose bits differ in outputs of (N, ...) each; None if there is none.

    Bits are compared, not values: 0.0 and -0.0 differ, a NaN equals itself. Raises ValueError if shapes or dtypes
    differ.
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
    """Return the distance between two arrays of the same shape and dtype; NaN in the same place is no difference."""
    if one.dtype.kind != "f":
        apart = np.abs(one.astype(object) - other.astype(object)) if one.dtype.kind in "iu" else one != other
        return Distance("lsb", float(apart.max(initial=0)), int(np.count_nonzero(apart)), one.size)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        apart = np.abs(one[~same].astype(np.float64) - other[~same].astype(np.float64))
    largest = float(apart.max(initial=0))
    return Distance("absolute", largest if np.isfinite(largest) else None, apart.size, one.size)


def _bytes(array: Array) -> npt.NDArray[np.uint8]:
    """Return the array's bytes, (*shape, bytes of an element)."""
    return np.ascontiguousarray(array).reshape(array.shape).view(np.uint8).reshape(*array.shape, array.itemsize)
