from __future__ import annotations

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from tests.operators.prepare.calls import call, prepared, temporaries, tensor

F = tensor(1, 4, dtype=DType.FLOAT32)
Q = tensor(1, 4, scale=1 / 256, zero_point=-128)
W = tensor(1, 4, dtype=DType.INT16, scale=2.0**-15)


@pytest.mark.parametrize("one", [F, Q, W])
@pytest.mark.parametrize(
    ("code", "looked_at"),
    [
        ("ELU", [0, 1]),
        ("HARD_SWISH", [0, 1]),
        ("LEAKY_RELU", [0, 1]),
        ("LOGISTIC", [0, 1]),
        ("RELU", [0, 1]),
        ("RELU6", [0]),
        ("TANH", [0, 0, 1]),
    ],
)
def test_what_an_activation_looks_at(code: str, looked_at: list[int], one: Tensor) -> None:
    assert temporaries(call(code, [one], [one])) == looked_at


def test_prelu_looks_at_its_slopes_before_the_output() -> None:
    assert temporaries(call("PRELU", [F, F], [F])) == [0, 1, 2]


def test_prelu_of_int16_takes_slopes_of_int8() -> None:
    assert temporaries(call("PRELU", [W, Q], [W])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="int8 slopes"):
        prepared(call("PRELU", [W, W], [W]))


@pytest.mark.parametrize("code", ["ELU", "LEAKY_RELU", "LOGISTIC", "TANH"])
def test_one_type_on_both_sides(code: str) -> None:
    with pytest.raises(KernelRefusal, match="float32 together with int8"):
        prepared(call(code, [F], [Q]))


def test_hard_swish_cannot_grow_by_128() -> None:
    # 1/128 of the input's scale by the output's must be below 1.
    assert temporaries(call("HARD_SWISH", [tensor(4, scale=1.0)], [tensor(4, scale=1 / 127)])) == [0, 1]
    with pytest.raises(KernelRefusal, match="1/128"):
        prepared(call("HARD_SWISH", [tensor(4, scale=1.0)], [tensor(4, scale=1 / 128)]))


def test_int8_logistic_starts_at_the_lowest_value() -> None:
    with pytest.raises(KernelRefusal, match="zero point of -128"):
        prepared(call("LOGISTIC", [Q], [tensor(1, 4, scale=1 / 256)]))
    assert temporaries(call("TANH", [Q], [tensor(1, 4, scale=1 / 128)])) == [0, 0, 1]


@pytest.mark.parametrize("code", ["LOGISTIC", "TANH"])
@pytest.mark.parametrize("scale", [2.0**-14, 2.0**-15 * 1.001, None])
def test_int16_results_have_fifteen_bits(code: str, scale: float | None) -> None:
    with pytest.raises(KernelRefusal, match=r"2\^-15"):
        prepared(call(code, [W], [tensor(1, 4, dtype=DType.INT16, scale=scale)]))


@pytest.mark.parametrize("code", ["LOGISTIC", "RELU", "TANH"])
@pytest.mark.parametrize("position", [0, 1])
def test_int16_lies_around_zero(code: str, position: int) -> None:
    pair = [tensor(1, 4, dtype=DType.INT16, scale=2.0**-15, zero_point=int(i == position)) for i in (0, 1)]
    with pytest.raises(KernelRefusal, match="zero points of 0"):
        prepared(call(code, pair[:1], pair[1:]))
