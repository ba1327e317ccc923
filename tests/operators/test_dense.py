"""Prepare and loop counts of FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.operators.cmsis_nn import vector_product_s8, vector_product_s16, vector_product_svdf
from edgetool.operators.loops import LoopCounts, Loops
from edgetool.target.platform import Platform
from tests.memory.account_convolutions import dense
from tests.memory.account_net import Net
from tests.operators.builds import BUILDS, DSP, MVE, PLAIN, REFERENCE, X86_64
from tests.operators.calls import tensor
from tests.operators.layers import asked, constant, kept, looked_at
from tests.operators.runs import FLOAT32, INT8, INT16, run

X, Y = tensor(1, 8, scale=0.5), tensor(1, 3, scale=0.5)
WEIGHTS, CHANNELS = constant(tensor(3, 8, scale=0.25)), constant(tensor(3, 8, scale=0.25, scales=3))
BIAS = constant(tensor(3, dtype=DType.INT32, scale=0.125))
IMAGE, IMAGE_OUT = tensor(1, 2, 8, scale=0.5), tensor(1, 2, 3, scale=0.5)
X16, Y16 = (tensor(1, n, scale=0.5, dtype=DType.INT16) for n in (8, 3))
BIAS64 = constant(tensor(3, dtype=DType.INT64, scale=0.125))
FLOATS = [tensor(1, 8, dtype=DType.FLOAT32), constant(tensor(3, 8, dtype=DType.FLOAT32))]
INT4 = constant(tensor(3, 8, scale=0.25, dtype=DType.INT4))


@pytest.mark.parametrize("build", BUILDS)
def test_fully_connected_requests_each_tensor_once(build: Platform) -> None:
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
    for build in BUILDS:
        assert kept(asked("FULLY_CONNECTED", [FLOATS[0], scaled], tensor(1, 3, dtype=DType.FLOAT32), build)) == []


@pytest.mark.parametrize("build", BUILDS)
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
    assert kept(asked("BATCH_MATMUL", [a, b], ab, X86_64))[0] == (
        "persistent",
        24,
    )  # TfLiteEvalTensor with long pointers


def test_batch_matmul_broadcasts_batches() -> None:
    flat = tensor(3, 5, scale=0.5)
    assert kept(asked("BATCH_MATMUL", [A, flat], AB, adj_y=True)) == [("persistent", 28), DIMS]


@pytest.mark.parametrize("build", BUILDS)
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


SIZES = st.integers(1, 700)


def layer(build: Platform, *shape: int, dtype: DType = INT8, axis: int | None = None, units: int = 7) -> LoopCounts:
    net = Net(1)
    x = net.arena(*shape, dtype=dtype)
    return run(net.model([x], [dense(net, x, units, axis=axis, keep=len(shape) > 2)]), build)


@pytest.mark.parametrize(
    ("shape", "dtype", "axis", "paths"),
    [
        ((2, 9), INT8, None, ("reference int8", "int8", "int8", "int8")),
        ((2, 9), INT8, 0, ("reference int8 per channel", *["int8 per channel"] * 3)),
        ((2, 3, 12), INT8, None, ("reference int8", *["int8 1x1"] * 3)),
        ((2, 3, 9), INT8, None, ("reference int8", *["int8"] * 3)),
        ((2, 9), INT16, None, ("reference int16", *["int16"] * 3)),
        ((2, 9), FLOAT32, None, ("reference float32",) * 4),
    ],
)
def test_the_kernel_of_a_dense_layer(
    shape: tuple[int, ...], dtype: DType, axis: int | None, paths: tuple[str, ...]
) -> None:
    assert tuple(layer(build, *shape, dtype=dtype, axis=axis).path for build in BUILDS) == paths


def test_a_product_for_each_weight_and_row() -> None:
    assert layer(REFERENCE, 3, 11, units=5).loops["product"] == 3 * 11 * 5


def test_sums_of_moving_weights_are_made_by_vectors() -> None:
    net = Net(1)
    x, weights = net.arena(2, 20), net.arena(6, 20, scale=1 / 128)
    model = net.model([x, weights], [net.op("FULLY_CONNECTED", [x, weights, -1], 2, 6)])
    work = run(model, MVE)
    assert work.path == "int8 with moving weights"
    assert (work.loops["sum of 5 units by 16"], work.loops["sum of last unit by 16"]) == (2, 2)
    assert run(model, DSP).path == "int8"


def multiplied(loops: Loops) -> int:
    """Turns times the units and elements of each."""
    total = 0
    for name, turns in loops.items():
        group, _, width = name.rpartition(" by ")
        if width.isdigit():
            total += turns * int(width) * (int(group.split()[0]) if group[0].isdigit() else 1)
    return total


@given(SIZES, SIZES, st.sampled_from([PLAIN, DSP]), st.booleans())
def test_no_multiplication_is_lost(units: int, depth: int, build: Platform, unrolled: bool) -> None:
    for loops in (
        vector_product_s8(units, depth, build, unrolled=unrolled),
        vector_product_s16(units, depth, build),
        vector_product_svdf(units, depth, build),
    ):
        assert multiplied(loops) == units * depth


@given(SIZES, SIZES)
def test_vectors_are_filled(units: int, depth: int) -> None:
    assert multiplied(vector_product_s8(units, depth, MVE)) == units * ceil(depth / 16) * 16


@pytest.mark.parametrize("dtype", [INT8, INT16, FLOAT32])
@pytest.mark.parametrize("build", [REFERENCE, DSP])
def test_turned_operands(dtype: DType, build: Platform) -> None:
    """The kernel wants the right operand turned, and the left one as it is."""
    made = {}
    for turned in (False, True):
        net = Net(1)
        a = net.arena(2, *((4, 3) if turned else (3, 4)), dtype=dtype)
        b = net.arena(2, *((5, 4) if turned else (4, 5)), dtype=dtype)
        y = net.op("BATCH_MATMUL", [a, b], 2, 3, 5, adj_x=turned, adj_y=turned)
        made[turned] = run(net.model([a, b], [y]), build).loops
    assert (made[False]["turned right"], made[False]["turned element"], made[False]["turned row"]) == (1, 40, 10)
    assert (made[True]["turned left"], made[True]["turned element"], made[True]["turned row"]) == (1, 24, 6)
