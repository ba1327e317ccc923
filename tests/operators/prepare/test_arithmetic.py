from __future__ import annotations

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal, Request, persistent, scratch
from tests.operators.prepare.calls import CORTEX_M, HOST, call, platform, prepared, temporaries, tensor

BINARY = ("ADD", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MUL", "SQUARED_DIFFERENCE", "SUB")
Q = tensor(1, 4, scale=0.5)
F = tensor(1, 4, dtype=DType.FLOAT32)


@pytest.mark.parametrize("code", BINARY)
@pytest.mark.parametrize("cmsis_nn", [False, True])
@pytest.mark.parametrize("one", [Q, F])
def test_a_binary_kernel_looks_once_at_each_tensor(code: str, cmsis_nn: bool, one: Tensor) -> None:
    assert temporaries(call(code, [one, one], [one], platform(cmsis_nn=cmsis_nn))) == [0, 1, 2]


@pytest.mark.parametrize("code", ["MAXIMUM", "MINIMUM"])
def test_maximum_and_minimum_have_no_prepare(code: str) -> None:
    wrong = tensor(3, dtype=DType.STRING)
    assert prepared(call(code, [wrong, Q], [F])) == []


@pytest.mark.parametrize("code", BINARY)
def test_an_operand_cannot_be_left_out(code: str) -> None:
    with pytest.raises(KernelRefusal, match="no input 1"):
        prepared(call(code, [Q, None], [Q]))


@pytest.mark.parametrize("code", ["FLOOR_DIV", "FLOOR_MOD", "MUL", "SQUARED_DIFFERENCE"])
def test_kernels_that_count_their_inputs_refuse_a_third(code: str) -> None:
    with pytest.raises(KernelRefusal, match="2 inputs and 1 outputs, not 3 and 1"):
        prepared(call(code, [F, F, F], [F]))


@pytest.mark.parametrize("code", ["DIV", "FLOOR_DIV", "FLOOR_MOD", "MUL", "SQUARED_DIFFERENCE"])
def test_operands_of_two_types_are_refused(code: str) -> None:
    with pytest.raises(KernelRefusal, match="float32 together with int8"):
        prepared(call(code, [F, Q], [F]))


def test_only_the_add_of_cmsis_nn_checks_types() -> None:
    # The reference kernel looks at the output's type alone, and finds float32.
    mixed = [F, Q]
    assert temporaries(call("ADD", mixed, [F])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="float32 together with int8"):
        prepared(call("ADD", mixed, [F], platform(cmsis_nn=True)))
    wide = tensor(4, dtype=DType.INT64)
    assert temporaries(call("ADD", [wide, wide], [wide])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="int64"):
        prepared(call("ADD", [wide, wide], [wide], platform(cmsis_nn=True)))


def test_only_the_add_of_cmsis_nn_needs_int16_around_zero() -> None:
    shifted = tensor(4, dtype=DType.INT16, scale=0.5, zero_point=3)
    assert temporaries(call("ADD", [shifted, shifted], [shifted])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="zero points of 0"):
        prepared(call("ADD", [shifted, shifted], [shifted], platform(cmsis_nn=True)))


@pytest.mark.parametrize("code", ["MUL", "SQUARED_DIFFERENCE"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_int16_around_another_zero_is_refused(code: str, position: int) -> None:
    tensors = [tensor(4, dtype=DType.INT16, scale=0.5, zero_point=int(i == position)) for i in range(3)]
    with pytest.raises(KernelRefusal, match="zero points of 0"):
        prepared(call(code, tensors[:2], tensors[2:]))


@pytest.mark.parametrize("code", ["ADD", "DIV", "SUB"])
def test_int32_is_no_quantized_type(code: str) -> None:
    plain, quantized = tensor(4, dtype=DType.INT32), tensor(4, dtype=DType.INT32, scale=0.5)
    assert temporaries(call(code, [plain, plain], [plain])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="only without quantization"):
        prepared(call(code, [plain, quantized], [plain]))


def test_sub_alone_looks_at_the_quantization_of_an_int32_output() -> None:
    plain, quantized = tensor(4, dtype=DType.INT32), tensor(4, dtype=DType.INT32, scale=0.5)
    assert temporaries(call("ADD", [plain, plain], [quantized])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="only without quantization"):
        prepared(call("SUB", [plain, plain], [quantized]))


@pytest.mark.parametrize("code", ["ADD", "SUB"])
@pytest.mark.parametrize(("dtype", "shift"), [(DType.INT8, 20), (DType.INT16, 15)])
def test_the_output_scale_of_a_sum_is_bounded_below(code: str, dtype: DType, shift: int) -> None:
    # The multiplier 2 * 0.5 / (2^shift * scale) is 1 at 2^-shift, and must be less.
    one = tensor(4, dtype=dtype, scale=0.5)
    assert temporaries(call(code, [one, one], [tensor(4, dtype=dtype, scale=1.001 * 2.0**-shift)])) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="too small"):
        prepared(call(code, [one, one], [tensor(4, dtype=dtype, scale=2.0**-shift)]))


@pytest.mark.parametrize("code", ["ADD", "SUB", "SQUARED_DIFFERENCE"])
def test_int8_without_a_scale_is_refused(code: str) -> None:
    with pytest.raises(KernelRefusal, match="positive input scales"):
        prepared(call(code, [Q, tensor(1, 4)], [Q]))


@pytest.mark.parametrize("code", ["ADD", "DIV", "MUL", "SUB"])
def test_a_clamp_that_no_32_bits_hold_is_refused(code: str) -> None:
    one, fine = tensor(4, scale=1e-9), tensor(4, scale=1e-8)
    assert temporaries(call(code, [fine, fine], [fine], activation="RELU6")) == [0, 1, 2]
    assert temporaries(call(code, [one, one], [one], activation="RELU")) == [0, 1, 2]
    with pytest.raises(KernelRefusal, match="clamp to 6"):
        prepared(call(code, [one, one], [one], activation="RELU6"))


def test_squared_difference_refuses_an_int8_zero_point_beyond_its_type() -> None:
    with pytest.raises(KernelRefusal, match="from -128 to 127"):
        prepared(call("SQUARED_DIFFERENCE", [Q, Q], [tensor(1, 4, scale=0.5, zero_point=128)]))


def test_add_n_keeps_pointers_in_scratch() -> None:
    for abi in (CORTEX_M, HOST):
        requests = prepared(call("ADD_N", [F, F, F], [F], platform(abi)))
        assert [request.tensor for request in requests[:-1]] == [0, 3, 1, 2]  # the output before further inputs
        assert requests[-1] == scratch("pointers to the inputs", 3 * abi.pointer_bytes)


def test_add_n_of_int8_keeps_its_parameters_too() -> None:
    kept: list[Request] = [r for r in prepared(call("ADD_N", [Q, Q], [Q])) if r.kind != "temporary tensor"]
    assert kept == [persistent("parameters", 40), scratch("pointers to the inputs", 8)]


@pytest.mark.parametrize(
    ("inputs", "output", "why"),
    [
        ([F], F, "two or more inputs"),
        ([F, F], Q, "float32 together with int8"),
        ([F, tensor(4, 1, dtype=DType.FLOAT32)], F, "same shape and type"),
        ([Q, tensor(1, 4, scale=0.25)], Q, "scale"),
        ([Q, tensor(1, 4, scale=0.5, zero_point=1)], Q, "same scale and zero point"),
        ([tensor(4, dtype=DType.INT32)] * 2, tensor(4, dtype=DType.INT32), "float32 and int8, not int32"),
    ],
)
def test_add_n_refuses(inputs: list[Tensor], output: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        prepared(call("ADD_N", inputs, [output]))
