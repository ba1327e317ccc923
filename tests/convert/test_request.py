from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgetool.convert.request import ConvertRequest
from edgetool.errors import UsageError

MODEL = Path("model.keras")
DATA = Path("data.npy")


@pytest.mark.parametrize(
    ("quantize", "io", "expected"),
    [
        ("int8", None, "int8"),
        ("int8", "uint8", "uint8"),
        ("int8", "float32", "float32"),
        ("int16x8", None, "int16"),
        ("int16x8", "float32", "float32"),
        ("float32", None, "float32"),
        ("float32", "float32", "float32"),
    ],
)
def test_inputs_and_outputs_have_the_default_type_or_the_requested_one(quantize: Any, io: Any, expected: str) -> None:
    assert ConvertRequest(MODEL, quantize=quantize, io=io).io_type == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quantize": "int4"}, "int4"),
        ({"quantize": "int16x8", "io": "int8"}, "int8 inputs"),
        ({"quantize": "float32", "io": "int8"}, "a float32 model cannot have int8 inputs"),
        ({"quantize": "int8", "io": "int16"}, "an int8 model cannot have int16 inputs"),
        ({"quantize": "float32", "dense_per_tensor": True}, "--dense-per-tensor"),
        ({"samples": 0}, "--samples"),
        ({"samples": 10**9}, "--samples"),
        ({"seed": -1}, "--seed"),
        ({"calibration": DATA, "mean": (1.0,), "scale": (2.0,)}, "are mutually exclusive"),
        ({"calibration": DATA, "std": (0.0,)}, "--std"),
        ({"calibration": DATA, "std": (1.0, -1.0)}, "--std: -1 is not a valid standard deviation"),
        ({"calibration": DATA, "scale": (1.0, 0.0)}, "--scale"),
        ({"calibration": DATA, "mean": ()}, "--mean"),
        ({"calibration": DATA, "offset": (float("nan"),)}, "--offset"),
        ({"mean": (1.0,)}, "--calibration"),
    ],
)
def test_invalid_combinations_are_usage_errors(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        ConvertRequest(MODEL, **options)
    assert caught.value.exit_code == 2


def test_a_scale_may_be_negative() -> None:
    assert ConvertRequest(MODEL, calibration=DATA, scale=(-1.0,)).scale == (-1.0,)
