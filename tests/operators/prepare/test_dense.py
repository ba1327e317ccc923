from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.target.platform import Platform
from tests.operators.prepare.calls import tensor
from tests.operators.prepare.layers import (
    CORTEX_M,
    DSP,
    HOST,
    MVE,
    PLAIN,
    REFERENCE,
    asked,
    constant,
    kept,
    looked_at,
)

X, Y = tensor(1, 8, scale=0.5), tensor(1, 3, scale=0.5)
WEIGHTS, CHANNELS = constant(tensor(3, 8, scale=0.25)), constant(tensor(3, 8, scale=0.25, scales=3))
BIAS = constant(tensor(3, dtype=DType.INT32, scale=0.125))
IMAGE, IMAGE_OUT = tensor(1, 2, 8, scale=0.5), tensor(1, 2, 3, scale=0.5)
X16, Y16 = (tensor(1, n, scale=0.5, dtype=DType.INT16) for n in (8, 3))
BIAS64 = constant(tensor(3, dtype=DType.INT64, scale=0.125))
FLOATS = [tensor(1, 8, dtype=DType.FLOAT32), constant(tensor(3, 8, dtype=DType.FLOAT32))]
INT4 = constant(tensor(3, 8, scale=0.25, dtype=DType.INT4))


@pytest.mark.parametrize("build", CORTEX_M)
def test_fully_connected_looks_at_each_tensor_once(build: Platform) -> None:
    assert looked_at(asked("FULLY_CONNECTED", [X, WEIGHTS, BIAS], Y, build)) == [0, 1, 2, 3]
    assert looked_at(asked("FULLY_CONNECTED", [X, WEIGHTS, None], Y, build)) == [0, 1, 2]  # t2 is the output


@pytest.mark.parametrize("build", [REFERENCE, PLAIN, DSP])
def test_fully_connected_per_tensor_keeps_nothing(build: Platform) -> None:
    assert kept(asked("FULLY_CONNECTED", [X, WEIGHTS, BIAS], Y, build)) == []


@pytest.mark.parametrize("build", [REFERENCE, PLAIN, DSP])
def test_fully_connected_per_channel_keeps_a_multiplier_and_a_shift_for_each_output(build: Platform) -> None:
    assert kept(asked("FULLY_CONNECTED", [X, CHANNELS, BIAS], Y, build)) == [("persistent", 12)] * 2


def test_scales_without_zero_points_are_no_quantization() -> None:
    quantization = CHANNELS.quantization
    assert quantization is not None
    bare = replace(CHANNELS, quantization=replace(quantization, zero_points=()))
    assert kept(asked("FULLY_CONNECTED", [X, bare], Y)) == []


def test_fully_connected_on_mve_keeps_sums_of_constant_weights() -> None:
    assert kept(asked("FULLY_CONNECTED", [X, CHANNELS, BIAS], Y, MVE)) == [("persistent", 12)] * 3
    assert kept(asked("FULLY_CONNECTED", [X, WEIGHTS], Y, MVE)) == [("persistent", 12)]


@pytest.mark.parametrize(
    "inputs", [[X, replace(WEIGHTS, data=None), BIAS], [X, WEIGHTS, replace(BIAS, data=None)]], ids=["weights", "bias"]
)
def test_fully_connected_on_mve_sums_in_scratch_what_changes(inputs: list[Tensor]) -> None:
    assert kept(asked("FULLY_CONNECTED", inputs, Y, MVE)) == [("scratch", 12)]


@pytest.mark.parametrize("build", [PLAIN, DSP, MVE])
def test_more_than_two_dimensions_run_as_a_1x1_convolution(build: Platform) -> None:
    # A multiplier and a shift for each of 3 outputs; per-channel ones are there already.
    assert kept(asked("FULLY_CONNECTED", [IMAGE, WEIGHTS, BIAS], IMAGE_OUT, build)) == [("scratch", 24)]
    assert kept(asked("FULLY_CONNECTED", [IMAGE, CHANNELS, BIAS], IMAGE_OUT, build)) == [("persistent", 12)] * 2


def test_a_depth_that_is_no_multiple_of_4_does_not() -> None:
    odd = [tensor(1, 2, 6, scale=0.5), constant(tensor(3, 6, scale=0.25))]
    assert kept(asked("FULLY_CONNECTED", odd, IMAGE_OUT, DSP)) == []
    assert kept(asked("FULLY_CONNECTED", odd, IMAGE_OUT, MVE)) == [("persistent", 12)]


def test_int4_weights_are_unpacked_by_the_reference_kernel_only() -> None:
    assert kept(asked("FULLY_CONNECTED", [X, INT4, BIAS], Y)) == [("scratch", 24)]  # a byte for each of 3 x 8
    for build in (PLAIN, DSP, MVE):
        assert kept(asked("FULLY_CONNECTED", [X, INT4, BIAS], Y, build)) == []


def test_int16_per_channel_is_refused_by_cmsis_nn_only() -> None:
    assert kept(asked("FULLY_CONNECTED", [X16, CHANNELS, BIAS64], Y16)) == [("persistent", 12)] * 2
    for build in (PLAIN, DSP, MVE):
        with pytest.raises(KernelRefusal, match="int16 with weights quantized per channel"):
            asked("FULLY_CONNECTED", [X16, CHANNELS, BIAS64], Y16, build)


def test_float_keeps_nothing_even_with_scales() -> None:
    scaled = replace(FLOATS[1], quantization=CHANNELS.quantization)
    for build in CORTEX_M:
        assert kept(asked("FULLY_CONNECTED", [FLOATS[0], scaled], tensor(1, 3, dtype=DType.FLOAT32), build)) == []


@pytest.mark.parametrize("build", CORTEX_M)
@pytest.mark.parametrize(
    ("inputs", "output", "why"),
    [
        ([X, WEIGHTS], Y16, "int8 together with int16"),
        ([FLOATS[0], WEIGHTS], tensor(1, 3, dtype=DType.FLOAT32), "float32 with weights of int8"),
        ([X16, INT4], Y16, "int16 with weights of int4"),
        ([X, replace(INT4, quantization=CHANNELS.quantization)], Y, "int4 quantized per channel"),
        ([X, constant(tensor(4, 8, scale=0.25, scales=3))], Y, "3 scales for weights"),
        ([X, WEIGHTS, replace(BIAS, quantization=X.quantization)], Y, "bias scale to be the product"),
        ([X, replace(WEIGHTS, quantization=tensor(1, scale=-0.25).quantization)], Y, "-0.125 as the product of scales"),
        ([X], Y, "no input 1"),
    ],
)
def test_fully_connected_refuses(build: Platform, inputs: list[Tensor], output: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        asked("FULLY_CONNECTED", inputs, output, build)


def test_uint8_passes_the_reference_kernel_and_not_cmsis_nn() -> None:
    inputs = [replace(X, dtype=DType.UINT8), replace(WEIGHTS, dtype=DType.UINT8)]
    assert kept(asked("FULLY_CONNECTED", inputs, replace(Y, dtype=DType.UINT8))) == []
    with pytest.raises(KernelRefusal, match="uint8"):
        asked("FULLY_CONNECTED", inputs, replace(Y, dtype=DType.UINT8), DSP)


def test_cmsis_nn_takes_symmetric_int16_only() -> None:
    off = tensor(1, 8, scale=0.5, zero_point=1, dtype=DType.INT16)
    assert kept(asked("FULLY_CONNECTED", [off, WEIGHTS], Y16)) == []
    with pytest.raises(KernelRefusal, match="zero points of 0"):
        asked("FULLY_CONNECTED", [off, WEIGHTS], Y16, DSP)


A, B, AB = tensor(2, 4, 5, scale=0.5), tensor(2, 5, 3, scale=0.5), tensor(2, 4, 3, scale=0.5)
B_TRANSPOSED, A_TRANSPOSED = tensor(2, 3, 5, scale=0.5), tensor(2, 5, 4, scale=0.5)
DIMS = ("persistent", 16)  # a TfLiteIntArray of 3


def test_batch_matmul_transposes_its_right_operand_unless_the_model_did() -> None:
    # Parameters of 28 bytes; a TfLiteEvalTensor of 12, dimensions and 30 elements; the output's dimensions.
    copy = [("persistent", 12), DIMS, ("persistent", 30)]
    assert kept(asked("BATCH_MATMUL", [A, B], AB)) == [("persistent", 28), *copy, DIMS]
    assert kept(asked("BATCH_MATMUL", [A, B_TRANSPOSED], AB, adj_y=True)) == [("persistent", 28), DIMS]


def test_batch_matmul_transposes_its_left_operand_on_demand() -> None:
    copy = [("persistent", 12), DIMS, ("persistent", 40)]
    assert kept(asked("BATCH_MATMUL", [A_TRANSPOSED, B_TRANSPOSED], AB, adj_x=True, adj_y=True)) == [
        *(("persistent", 28), *copy, DIMS)
    ]


def test_batch_matmul_of_cmsis_nn_takes_its_parameters_last_and_sums_on_mve() -> None:
    expected = [DIMS, ("persistent", 28)]
    assert kept(asked("BATCH_MATMUL", [A, B_TRANSPOSED], AB, DSP, adj_y=True)) == expected
    assert kept(asked("BATCH_MATMUL", [A, B_TRANSPOSED], AB, MVE, adj_y=True)) == [*expected, ("scratch", 12)]


def test_batch_matmul_of_floats_has_no_parameters_and_copies_of_four_bytes() -> None:
    a, b, ab = (replace(one, dtype=DType.FLOAT32, quantization=None) for one in (A, B, AB))
    assert kept(asked("BATCH_MATMUL", [a, b], ab)) == [("persistent", 12), DIMS, ("persistent", 120), DIMS]
    assert kept(asked("BATCH_MATMUL", [a, b], ab, HOST))[0] == ("persistent", 24)  # TfLiteEvalTensor with long pointers


def test_batch_matmul_broadcasts_batches() -> None:
    flat = tensor(3, 5, scale=0.5)
    assert kept(asked("BATCH_MATMUL", [A, flat], AB, adj_y=True)) == [("persistent", 28), DIMS]


@pytest.mark.parametrize("build", CORTEX_M)
@pytest.mark.parametrize(
    ("inputs", "output", "why"),
    [
        ([A, replace(B, dtype=DType.INT16)], AB, "int8 together with int16"),
        ([A, B], replace(AB, dtype=DType.FLOAT32), "int8 together with float32"),
        ([A, tensor(5, scale=0.5)], AB, "input 1 with 2 to"),
        ([A, A], AB, "cannot multiply"),
        ([A, tensor(3, 5, 3, scale=0.5)], AB, "cannot multiply"),
        ([A, B], tensor(2, 4, 4, scale=0.5), "produces an output of shape"),
        ([A, B], tensor(8, 3, scale=0.5), "output with 2 dimensions"),
    ],
)
def test_batch_matmul_refuses(build: Platform, inputs: list[Tensor], output: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        asked("BATCH_MATMUL", inputs, output, build)


def test_five_dimensions_are_too_many_for_cmsis_nn() -> None:
    a, b, ab = (tensor(1, 1, *one.shape, scale=0.5) for one in (A, B, AB))
    assert kept(asked("BATCH_MATMUL", [a, b], ab))[-1] == ("persistent", 24)
    with pytest.raises(KernelRefusal, match="2 to 4 dimensions"):
        asked("BATCH_MATMUL", [a, b], ab, DSP)
