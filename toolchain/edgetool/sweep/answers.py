"""Whether what a classifier answers tells one sample from another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def gives_one_answer(outputs: Sequence[NDArray[Any]]) -> bool:
    """Whether no output, (N, classes) or (N, 1) with its threshold at 0.5, has samples of different classes.

    Then any model that always gives that class agrees with it, and agreement says nothing.
    """
    rows = [values for values in outputs if values.ndim == 2 and values.shape[1]]
    answers = [values[:, 0] > 0.5 if values.shape[1] == 1 else values.argmax(axis=1) for values in rows]
    return all(len(np.unique(answer)) <= 1 for answer in answers)
