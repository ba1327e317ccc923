"""The smallest arena in which a model works on real TFLM, found by trying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.errors import ConversionError, UnsupportedModelError
from edgetool.execute.run import run_model, run_tflm

STEP = 16


def smallest_arena(model: bytes, inputs: Sequence[npt.NDArray[Any]]) -> int:
    """The smallest multiple of 16 in which AllocateTensors and Invoke work and the outputs are right."""
    reference = run_tflm(model, inputs)

    def works(size: int) -> bool:
        try:
            outputs = run_model(model, inputs, engine="tflm", arena_bytes=size)
        except (UnsupportedModelError, ConversionError):
            return False
        return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(reference.outputs, outputs, strict=True))

    return smallest_that_works(reference.allocation.total, works)


def smallest_that_works(used_bytes: int, works: Callable[[int], bool]) -> int:
    """The smallest multiple of 16 that works.

    TFLM never does with less than it has taken in the end, so the search starts there: steps that double until one
    works, bisection, and a walk down as long as less works too.
    """
    high = -(-used_bytes // STEP) * STEP
    low, step = high - STEP, STEP
    while not works(high):
        low, high, step = high, high + step, 2 * step
    while high - low > STEP:
        middle = (low + high) // (2 * STEP) * STEP
        low, high = (low, middle) if works(middle) else (middle, high)
    while high > STEP and works(high - STEP):
        high -= STEP
    return high
