"""When agreement says nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgetool.sweep.worker import gives_one_answer

ONE = np.array([[0.9, 0.1], [0.8, 0.2]])
TWO = np.array([[0.9, 0.1], [0.2, 0.8]])


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([ONE], True),
        ([TWO], False),
        ([ONE, TWO], False),
        ([ONE[:, :1]], True),
        ([np.array([[0.9], [0.2]])], False),
        ([np.zeros((2, 4, 4, 1))], True),
    ],
)
def test_one_answer_is_one_class_for_all_samples(outputs: list[Any], expected: bool) -> None:
    assert gives_one_answer(outputs) is expected
