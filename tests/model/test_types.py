"""What a model's parts tell of themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.model.types import DType, Quantization, Tensor


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        (None, None),
        (Quantization((), (), 0, (-1.0,), (1.0,)), None),
        (Quantization((0.5,), (3,), 0), (0.5, 3)),
        (Quantization((0.5,), (), 0), (0.5, 0)),
        (Quantization((0.5, 0.25), (0, 0), 0), None),
    ],
    ids=["none", "only a range", "both", "no zero point", "per channel"],
)
def test_one_scale_and_zero_point(quantization: Quantization | None, expected: tuple[float, int] | None) -> None:
    tensor = Tensor(0, "x", (2,), DType.INT8, None, None, False)
    assert replace(tensor, quantization=quantization).per_tensor == expected
    assert quantization is None or quantization.per_channel is (len(quantization.scales) > 1)
