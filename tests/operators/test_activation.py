""""""

from __future__ import annotations

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from tests.memory.account_net import Net
from tests.operators.calls import call, prepared, temporaries, tensor
from tests.operators.runs import FLOAT32, INT8, INT16, run, unary

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
def test_the_tensors_that_an_activation_requests(code: str, looked_at: list[int], one: Tensor) -> None:
    assert temporaries(call(code, [one], [one])) == looked_at


def test_prelu_requests_its_slopes_before_the_output() -> None:
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


@pytest.mark.parametrize("code", ["LOGISTIC", "TANH"])
def test_int8_is_calculated_as_far_as_it_is_not_saturated(code: str) -> None:
    fine = unary(code, 1000, scale=1 / 128)
    assert (fine.path, fine.loops["calculated"], fine.loops["negative"]) == ("int8", 1000, 500)
    # a scale of 0.2 saturates 60 steps from zero: 1.4 standard deviations
    assert 820 < unary(code, 1000, scale=0.2).loops["calculated"] < 850
    wide = unary(code, 1000, dtype=INT16, scale=1 / 2048).loops["calculated"]
    assert wide < unary(code, 1000, dtype=INT16, scale=1 / 4096).loops["calculated"]
    assert "calculated" not in unary(code, 1000, dtype=FLOAT32).loops


@pytest.mark.parametrize(
    ("scale", "widened", "narrowed"), [(0.1, 60, 0), (0.009, 0, 0), (0.004, 0, 60), (0.0118, 60, 0), (0.0058, 0, 60)]
)
def test_hard_swish_shifts_int8_by_its_scale(scale: float, widened: int, narrowed: int) -> None:
    loops = unary("HARD_SWISH", 60, scale=scale).loops
    assert (loops.get("widened", 0), loops.get("narrowed", 0)) == (widened, narrowed)
    assert loops.get("unsaturated", 0) <= widened


@pytest.mark.parametrize(("code", "dtype"), [("RELU", INT8), ("LEAKY_RELU", INT16), ("RELU6", FLOAT32)])
def test_half_of_the_numbers_take_the_branch_below_zero(code: str, dtype: DType) -> None:
    assert unary(code, 4, 10, dtype=dtype).loops["negative"] == 20


def test_relu6_of_int8_is_done_sooner_above_six() -> None:
    assert unary("RELU6", 100, scale=1 / 128).loops["up to six"] == 100
    assert unary("RELU6", 100, scale=0.2).loops["up to six"] < unary("RELU6", 100, scale=0.1).loops["up to six"]
    assert unary("RELU6", 100, scale=0.2, zero_point=-128).loops["up to six"] < 60


def test_prelu_of_floats_has_four_loops_and_of_integers_the_broadcast() -> None:
    def work(dtype: DType) -> tuple[str, dict[str, int]]:
        net = Net(1)
        x, slopes = net.arena(2, 3, 4, 5, dtype=dtype), net.arena(1, 1, 5, dtype=dtype)
        found = run(net.model([x, slopes], [net.op("PRELU", [x, slopes])]))
        return found.path, dict(found.loops)

    path, loops = work(FLOAT32)
    assert (path, loops["plane"], loops["row"], loops["element"]) == ("float32", 6, 24, 120)
    path, loops = work(INT8)
    assert (path, loops["row of both"], loops["element of both"]) == ("int8 broadcast", 24, 120)


def test_elu_of_int8_is_a_table() -> None:
    assert "negative" not in unary("ELU", 10).loops
    assert unary("ELU", 10, dtype=FLOAT32).loops["negative"] == 5
