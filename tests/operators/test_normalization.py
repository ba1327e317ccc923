"""Prepare and loop counts of SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.target.platform import Platform
from tests.memory.account_net import Net
from tests.operators.builds import BUILDS, DSP, MVE, REFERENCE, X86_64
from tests.operators.calls import tensor
from tests.operators.layers import asked, kept, looked_at
from tests.operators.runs import FLOAT32, INT8, INT16, run, unary

X, Y = tensor(1, 4, scale=0.5), tensor(1, 4, scale=1 / 256, zero_point=-128)
X16, Y16 = (tensor(1, 4, dtype=DType.INT16, scale=scale) for scale in (0.5, 1 / 32768))
WIDE = tensor(1, 4, dtype=DType.INT16, scale=1 / 65536, zero_point=-32768)
FLOAT = tensor(1, 4, dtype=DType.FLOAT32)
LOG = tensor(1, 4, scale=1 / 16, zero_point=127)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("source", "result"), [(X, Y), (X, WIDE), (FLOAT, FLOAT)])
def test_softmax_requests_each_tensor_once_and_keeps_nothing(build: Platform, source: Tensor, result: Tensor) -> None:
    requests = asked("SOFTMAX", [source], result, build, beta=1.0)
    assert (looked_at(requests), kept(requests)) == ([0, 1], [])


@pytest.mark.parametrize("build", BUILDS)
def test_softmax_of_int16_keeps_two_tables(build: Platform) -> None:
    # 512 steps and their end, of two bytes each.
    assert kept(asked("SOFTMAX", [X16], Y16, build, beta=1.0)) == [("persistent", 1026)] * 2


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(
    ("source", "result", "why"),
    [
        (X, tensor(1, 4, scale=1 / 128, zero_point=-128), "the scale 0.00390625 with the zero point -128"),
        (X, tensor(1, 4, scale=1 / 256, zero_point=0), "the zero point -128"),
        (X, Y16, "the zero point -32768"),
        (X16, Y, "int8 from int16"),
        (X16, tensor(1, 4, dtype=DType.INT16, scale=1 / 32700), "the zero point 0"),
        (tensor(1, 4, dtype=DType.INT16, scale=0.5, zero_point=1), Y16, "zero points of 0"),
        (X, FLOAT, "float32 from int8"),
        (tensor(dtype=DType.FLOAT32), tensor(dtype=DType.FLOAT32), "does not support a scalar"),
        (tensor(1, 4, scale=2**-26), Y, "does not support an input scale"),
    ],
)
def test_softmax_refuses(build: Platform, source: Tensor, result: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        asked("SOFTMAX", [source], result, build, beta=1.0)


def test_softmax_of_int16_takes_a_scale_within_a_thousandth() -> None:
    near = tensor(1, 4, dtype=DType.INT16, scale=1.0009 / 32768)
    assert kept(asked("SOFTMAX", [X16], near, beta=1.0)) == [("persistent", 1026)] * 2


def test_softmax_of_int8_without_options_has_a_beta_of_0() -> None:
    with pytest.raises(KernelRefusal, match="beta of 0"):
        asked("SOFTMAX", [X], Y)


def test_log_softmax_keeps_parameters_for_int8_only() -> None:
    assert kept(asked("LOG_SOFTMAX", [X], LOG)) == [("persistent", 28)]
    assert kept(asked("LOG_SOFTMAX", [X], LOG, X86_64)) == [("persistent", 40)]  # two sizes of 8 bytes, aligned
    assert kept(asked("LOG_SOFTMAX", [FLOAT], FLOAT)) == []


@pytest.mark.parametrize(
    ("source", "result", "why"),
    [(X, Y, "the zero point 127"), (X, tensor(4, scale=1 / 16, zero_point=127), "shape"), (X, FLOAT, "together")],
)
def test_log_softmax_refuses(source: Tensor, result: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        asked("LOG_SOFTMAX", [source], result)


def test_l2_normalization_requests_each_tensor_once_and_keeps_nothing() -> None:
    requests = asked("L2_NORMALIZATION", [X], Y)
    assert (looked_at(requests), kept(requests)) == ([0, 1], [])


@pytest.mark.parametrize(
    ("source", "activation", "why"),
    [
        (X16, "NONE", "int16"),
        (tensor(1, 1, 1, 1, 4, scale=0.5), "NONE", "0 to 4 dimensions"),
        (X, "RELU", "does not support the fused activation"),
    ],
)
def test_l2_normalization_refuses(source: Tensor, activation: str, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        asked("L2_NORMALIZATION", [source], replace(source), REFERENCE, fused_activation_function=activation)


@pytest.mark.parametrize(
    ("source", "target", "platform", "path"),
    [
        (FLOAT32, FLOAT32, REFERENCE, "float32"),
        (FLOAT32, FLOAT32, MVE, "float32"),
        (INT8, INT8, REFERENCE, "int8"),
        (INT8, INT8, MVE, "int8 CMSIS-NN"),
        (INT8, INT16, DSP, "int8 to int16 CMSIS-NN"),
        (INT16, INT16, DSP, "int16 CMSIS-NN"),
    ],
)
def test_softmax_goes_through_rows(source: DType, target: DType, platform: Platform, path: str) -> None:
    net = Net(1)
    x = net.arena(2, 3, 7, dtype=source)
    work = run(net.model([x], [net.op("SOFTMAX", [x], dtype=target, beta=1.0)]), platform)
    assert work.path == path
    assert (work.loops["row"], work.loops["element"]) == (6, 42)


@pytest.mark.parametrize("code", ["SOFTMAX", "LOG_SOFTMAX"])
def test_int8_far_below_its_rows_largest_has_no_exponential(code: str) -> None:
    values = {"beta": 1.0} if code == "SOFTMAX" else {}
    assert unary(code, 5, 40, scale=1 / 64, **values).loops["exponential"] == 200
    some = unary(code, 5, 40, scale=0.2, **values).loops["exponential"]
    assert 5 <= unary(code, 5, 40, scale=0.9, **values).loops["exponential"] < some < 200
    assert unary(code, 5, 40, dtype=FLOAT32, **values).loops["exponential"] == 195  # not for the largest itself


def test_a_larger_beta_has_the_effect_of_a_larger_scale() -> None:
    one = unary("SOFTMAX", 5, 40, scale=0.2, beta=2.0)
    assert one.loops == unary("SOFTMAX", 5, 40, scale=0.4, beta=1.0).loops


@pytest.mark.parametrize(("scale", "beta", "shifted"), [(1 / 2048, 1.0, 0), (0.0001, 1.0, 200), (0.0001, 2.0, 0)])
def test_fine_int16_are_shifted_right_to_the_table(scale: float, beta: float, shifted: int) -> None:
    work = unary("SOFTMAX", 5, 40, dtype=INT16, platform=DSP, scale=scale, beta=beta)
    assert work.loops["shifted right"] == shifted


@pytest.mark.parametrize("dtype", [FLOAT32, INT8])
def test_lengths_are_of_rows(dtype: DType) -> None:
    work = unary("L2_NORMALIZATION", 4, 8, 3, dtype=dtype)
    assert (work.path, work.loops["row"], work.loops["element"]) == (dtype.name.lower(), 32, 96)
