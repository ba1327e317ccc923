"""Prepare and loop counts of convolutions: full, depthwise and transposed."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType, Options, OptionValue, Tensor
from edgetool.operators.call import Call, KernelRefusal, Request
from edgetool.operators.cmsis_nn import im2col_loops, product_s8, product_s16
from edgetool.operators.convolution import padded_row_ends
from edgetool.operators.loops import Axis, LoopCounts, Loops, Windows, window_axis
from edgetool.target.platform import Platform
from tests.memory.account_convolutions import conv, depthwise, transposed
from tests.memory.account_net import Net
from tests.operators.builds import BUILDS, DSP, MVE, PLAIN, REFERENCE
from tests.operators.calls import call, prepared, tensor
from tests.operators.runs import FLOAT32, INT8, INT16, run

IMAGE, CONVOLVED = tensor(1, 8, 8, 3, scale=0.5), tensor(1, 8, 8, 5, scale=0.5)
FILTER, BIAS = tensor(5, 3, 3, 3, scale=0.5, scales=5), tensor(5, dtype=DType.INT32, scale=0.25, scales=5)
DEPTHWISE = tensor(1, 5, 5, 3, scale=0.5)
SHAPE = tensor(4, dtype=DType.INT32)

CONV = ("CONV_2D", (IMAGE, FILTER, BIAS), CONVOLVED)
DEPTHWISE_CONV = ("DEPTHWISE_CONV_2D", (IMAGE, DEPTHWISE, BIAS), IMAGE)
TRANSPOSE = ("TRANSPOSE_CONV", (SHAPE, FILTER, IMAGE, BIAS), CONVOLVED)
Given = tuple[str, tuple[Tensor | None, ...], Tensor]


def made(given: Given, build: Platform = REFERENCE, **options: OptionValue) -> Call:
    code, inputs, output = given
    usual: dict[str, OptionValue] = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
    if code != "TRANSPOSE_CONV":
        usual |= {"dilation_w_factor": 1, "dilation_h_factor": 1}
    whole = call(code, inputs, [output], build)
    fields = Options("", tuple((usual | options).items()))
    return replace(whole, operator=replace(whole.operator, options=fields))


def typed(given: Given, *types: DType) -> Given:
    """The same operator with its first tensors of these types."""
    code, inputs, output = given
    changed = [None if one is None else replace(one, dtype=dtype) for one, dtype in zip(inputs, types, strict=False)]
    return code, (*changed, *inputs[len(types) :]), output


def sized(requests: list[Request], kind: str) -> list[int]:
    return [request.size_bytes for request in requests if request.kind == kind]


def temporaries(requests: list[Request]) -> list[int]:
    return [request.tensor for request in requests if request.kind == "temporary tensor"]


def floats(given: Given) -> Given:
    code, inputs, output = given
    plain = [None if one is None else tensor(*one.shape, dtype=DType.FLOAT32) for one in inputs]
    return code, tuple(plain), tensor(*output.shape, dtype=DType.FLOAT32)


def int16(given: Given) -> Given:
    code, inputs, output = given
    image = 2 if code == "TRANSPOSE_CONV" else 0
    changed = [replace(one, dtype=DType.INT16) if one and i == image else one for i, one in enumerate(inputs)]
    return code, tuple(changed), replace(output, dtype=DType.INT16)


def without_bias(given: Given) -> Given:
    return given[0], given[1][:-1], given[2]


def test_the_reference_kernels_request_three_tensors_and_then_all() -> None:
    assert temporaries(prepared(made(CONV))) == [3, 0, 1, 0, 1, 2, 3]
    assert temporaries(prepared(made(DEPTHWISE_CONV))) == [3, 0, 1, 0, 1, 2, 3]
    assert temporaries(prepared(made(TRANSPOSE))) == [4, 2, 1, 2, 1, 3, 4]


def test_cmsis_nn_requests_the_output_last() -> None:
    assert temporaries(prepared(made(CONV, DSP))) == [0, 1, 3, 0, 1, 2, 3]
    assert temporaries(prepared(made(DEPTHWISE_CONV, DSP))) == [0, 1, 3, 0, 1, 2, 3]
    assert temporaries(prepared(made(TRANSPOSE, DSP))) == [4, 2, 1, 2, 1, 3, 4]


@pytest.mark.parametrize("build", [REFERENCE, DSP])
def test_a_bias_that_is_left_out_is_not_requested(build: Platform) -> None:
    assert len(temporaries(prepared(made(without_bias(CONV), build)))) == 6
    assert len(temporaries(prepared(made(without_bias(DEPTHWISE_CONV), build)))) == 6
    assert len(temporaries(prepared(made(without_bias(TRANSPOSE), build)))) == 6
    assert len(temporaries(prepared(made(("CONV_2D", (IMAGE, FILTER, None), CONVOLVED), build)))) == 6


def test_a_transposed_convolution_in_float_requests_three_tensors() -> None:
    assert temporaries(prepared(made(floats(TRANSPOSE)))) == [4, 2, 1]
    assert temporaries(prepared(made(floats(TRANSPOSE), DSP))) == [4, 2, 1]


def test_two_numbers_for_each_channel_of_the_filter() -> None:
    # A depthwise filter has them in its last dimension.
    assert sized(prepared(made(CONV)), "persistent") == [20, 20]
    assert sized(prepared(made(DEPTHWISE_CONV)), "persistent") == [12, 12]
    assert sized(prepared(made(TRANSPOSE)), "persistent") == [20, 20]


def test_the_convolutions_of_cmsis_nn_keep_none_in_float() -> None:
    for operator in (CONV, DEPTHWISE_CONV):
        assert len(sized(prepared(made(floats(operator))), "persistent")) == 2
        assert sized(prepared(made(floats(operator), DSP)), "persistent") == []
    assert sized(prepared(made(floats(TRANSPOSE), DSP)), "persistent") == [20, 20]


def test_reference_convolutions_unpack_filters_of_int4() -> None:
    four = typed(CONV, DType.INT8, DType.INT4)
    assert sized(prepared(made(CONV)), "scratch") == []
    assert sized(prepared(made(four)), "scratch") == [5 * 27]
    assert [request.kind for request in prepared(made(four))][-1] == "scratch"
    requests = prepared(made(typed(DEPTHWISE_CONV, DType.INT8, DType.INT4)))
    # The depthwise kernel asks before it looks at all tensors.
    assert [request.kind for request in requests] == [
        *["temporary tensor"] * 3,
        *["persistent"] * 2,
        "scratch",
        *["temporary tensor"] * 4,
    ]
    assert sized(requests, "scratch") == [75]


def test_im2col_of_cmsis_nn() -> None:
    assert sized(prepared(made(CONV, DSP)), "scratch") == [2 * 28 * 2]
    assert sized(prepared(made(CONV, PLAIN)), "scratch") == [2 * 28 * 2]
    assert sized(prepared(made(CONV, MVE)), "scratch") == [4 * 32]
    assert sized(prepared(made(typed(CONV, DType.INT8, DType.INT4), DSP)), "scratch") == [2 * 28 * 2]
    assert sized(prepared(made(int16(CONV), DSP)), "scratch") == [2 * 27 * 2]
    assert sized(prepared(made(floats(CONV), DSP)), "scratch") == []


def test_groups_count_all_channels_of_the_input() -> None:
    image, weights = tensor(1, 8, 8, 6, scale=0.5), tensor(4, 1, 1, 3, scale=0.5)
    output = tensor(1, 8, 8, 4, scale=0.5)
    assert sized(prepared(made(("CONV_2D", (image, weights), output), DSP)), "scratch") == [2 * 8 * 2]
    whole = tensor(4, 1, 1, 6, scale=0.5)
    assert sized(prepared(made(("CONV_2D", (image, whole), output), DSP)), "scratch") == []


def test_padding_follows_from_the_input() -> None:
    # 1x2 windows over a row of 7 with SAME: nothing in front, one column behind. Over a row of 8 by twos: none.
    image, weights = tensor(1, 1, 7, 4, scale=0.5), tensor(4, 1, 2, 4, scale=0.5)
    same = ("CONV_2D", (image, weights), tensor(1, 1, 7, 4, scale=0.5))
    assert sized(prepared(made(same, MVE)), "scratch") == [4 * 2]
    # 1x5: 2 in front of a row, none with VALID.
    weights = tensor(4, 1, 5, 4, scale=0.5)
    same = ("CONV_2D", (image, weights), tensor(1, 1, 7, 4, scale=0.5))
    valid = ("CONV_2D", (image, weights), tensor(1, 1, 3, 4, scale=0.5))
    assert sized(prepared(made(same, MVE)), "scratch") == [4 * 7]
    assert sized(prepared(made(valid, MVE, padding="VALID")), "scratch") == [4 * 5]


def test_a_convolution_without_options_is_no_1x1_convolution() -> None:
    # TFLM leaves strides and dilations at 0.
    bare = made(("CONV_2D", (IMAGE, tensor(5, 1, 1, 3, scale=0.5)), CONVOLVED), DSP)
    assert sized(prepared(bare), "scratch") == []
    assert sized(prepared(replace(bare, operator=replace(bare.operator, options=None))), "scratch") == [2 * 4 * 2]


def test_depthwise_buffers_of_cmsis_nn() -> None:
    given = made(DEPTHWISE_CONV, DSP)
    assert sized(prepared(given), "scratch") == [3 * 25 * 2]
    assert sized(prepared(replace(given, platform=PLAIN)), "scratch") == []
    assert sized(prepared(replace(given, platform=MVE)), "scratch") == [496 * 25]
    four = made(typed(DEPTHWISE_CONV, DType.INT8, DType.INT4), PLAIN)
    assert sized(prepared(four), "scratch") == [3 * 25 * 2]
    assert sized(prepared(made(int16(DEPTHWISE_CONV), DSP)), "scratch") == []


def test_transposed_convolutions_accumulate_the_whole_output() -> None:
    assert sized(prepared(made(TRANSPOSE)), "scratch") == [4 * 320]
    assert sized(prepared(made(int16(TRANSPOSE))), "scratch") == [8 * 320]
    assert sized(prepared(made(int16(TRANSPOSE), DSP)), "scratch") == [8 * 320]
    assert sized(prepared(made(floats(TRANSPOSE))), "scratch") == []


def test_cmsis_nn_requests_a_reversed_filter_even_if_it_is_empty() -> None:
    assert sized(prepared(made(TRANSPOSE, DSP)), "scratch") == [(7 + 3) * 5 * 3 * 4, 0]
    image, weights = tensor(1, 8, 8, 20, scale=0.5), tensor(5, 3, 3, 20, scale=0.5)
    many = ("TRANSPOSE_CONV", (SHAPE, weights, image, BIAS), CONVOLVED)
    assert sized(prepared(made(many, DSP)), "scratch") == [4 * 180, 5 * 180]
    assert sized(prepared(made(many, MVE)), "scratch") == [4 * 192, 5 * 180]


@pytest.mark.parametrize("build", [REFERENCE, DSP])
def test_a_bias_of_int16_is_widened(build: Platform) -> None:
    code, (shape, weights, image, _), output = int16(TRANSPOSE)
    given = (code, (shape, weights, image, tensor(5, dtype=DType.INT16)), output)
    assert sized(prepared(made(given, build)), "scratch") == [8 * 320, 8 * 5]


HYBRID: Given = ("CONV_2D", (tensor(1, 8, 8, 3, dtype=DType.FLOAT32), FILTER), CONVOLVED)
REFUSED: list[tuple[Given, Platform, str]] = [
    ((HYBRID[0], HYBRID[1], tensor(1, 8, 8, 5, dtype=DType.FLOAT32)), REFERENCE, "float32 with filters of type int8"),
    (HYBRID, REFERENCE, "int8 from float32"),
    (typed(CONV, DType.INT8, DType.INT16), REFERENCE, "int8 with filters of type int16"),
    (("CONV_2D", (IMAGE, tensor(5, 3, 3, 3)), CONVOLVED), REFERENCE, "filter without scales"),
    (("CONV_2D", (tensor(1, 8, 8, 3), FILTER), CONVOLVED), REFERENCE, "scales and zero points for its input"),
    (("CONV_2D", (IMAGE, tensor(5, 3, 3, 3, scale=0.5, scales=3)), CONVOLVED), REFERENCE, "with 3 scales"),
    (("CONV_2D", (IMAGE, tensor(5, 3, 3, 2, scale=0.5)), CONVOLVED), DSP, "divide 3 channels into groups of 2"),
    (("CONV_2D", (IMAGE, FILTER), tensor(2, 8, 8, 5, scale=0.5)), DSP, "a batch of 2 from 1"),
    (("CONV_2D", (IMAGE, FILTER), tensor(8, 8, 5, scale=0.5)), DSP, "4 dimensions, not 3"),
    (("DEPTHWISE_CONV_2D", (IMAGE, DEPTHWISE, None), IMAGE), REFERENCE, "omitted by setting its input index to -1"),
    (("DEPTHWISE_CONV_2D", (IMAGE, DEPTHWISE, None), IMAGE), DSP, "omitted by setting its input index to -1"),
    (typed(DEPTHWISE_CONV, DType.INT8, DType.FLOAT32), REFERENCE, "int8 with filters of type float32"),
    # Per channel along the first dimension, which the filter does not have.
    (
        ("DEPTHWISE_CONV_2D", (IMAGE, tensor(1, 5, 5, 3, scale=0.5, scales=3)), IMAGE),
        REFERENCE,
        "per tensor or per output channel",
    ),
    (without_bias(int16(TRANSPOSE)), DSP, "without a bias in int16"),
    (typed(TRANSPOSE, DType.INT32, DType.FLOAT32), REFERENCE, "int8 with filters of type float32"),
]


@pytest.mark.parametrize(("given", "build", "text"), REFUSED)
def test_refusals(given: Given, build: Platform, text: str) -> None:
    with pytest.raises(KernelRefusal, match=text):
        prepared(made(given, build))


@pytest.mark.parametrize("given", [CONV, DEPTHWISE_CONV])
def test_int16_has_zero_points_of_0_on_cmsis_nn_only(given: Given) -> None:
    code, (image, *rest), output = int16(given)
    assert image is not None
    shifted = tensor(*image.shape, dtype=DType.INT16, scale=0.5, zero_point=3)
    assert prepared(made((code, (shifted, *rest), output)))
    with pytest.raises(KernelRefusal, match="not 3"):
        prepared(made((code, (shifted, *rest), output), DSP))


def test_the_reference_kernels_take_what_cmsis_nn_refuses() -> None:
    grouped = ("CONV_2D", (IMAGE, tensor(5, 3, 3, 2, scale=0.5)), CONVOLVED)
    assert prepared(made(grouped))
    assert prepared(made(without_bias(int16(TRANSPOSE))))
    unclamped = ("TRANSPOSE_CONV", TRANSPOSE[1], replace(CONVOLVED, quantization=None))
    with pytest.raises(KernelRefusal, match="clamp to 0"):
        prepared(made(unclamped, fused_activation_function="RELU"))
    assert prepared(made(unclamped, DSP, fused_activation_function="RELU"))


Shape = tuple[int, int, int, int]
SIZES = st.integers(1, 40)


def convolved(shape: Shape, kernel: tuple[int, int], build: Platform, dtype: DType = INT8, **given: Any) -> LoopCounts:
    net = Net(1)
    x = net.arena(*shape, dtype=dtype)
    channels = given.pop("channels", 6)
    return run(net.model([x], [conv(net, x, channels, kernel, **given)]), build)


def depthwise_convolved(
    shape: Shape, kernel: tuple[int, int], build: Platform, dtype: DType = INT8, **given: Any
) -> LoopCounts:
    net = Net(1)
    x = net.arena(*shape, dtype=dtype)
    return run(net.model([x], [depthwise(net, x, kernel, **given)]), build)


IMAGE_SHAPE, ROW_SHAPE = (1, 8, 8, 4), (1, 1, 20, 4)


@pytest.mark.parametrize(
    ("shape", "kernel", "options", "paths"),
    [
        (IMAGE_SHAPE, (1, 1), {}, ("reference int8", "int8 1x1", "int8 1x1", "int8 1x1")),
        (
            IMAGE_SHAPE,
            (1, 1),
            {"stride": 2},
            ("reference int8", "int8 1x1 strided", "int8 1x1 strided", "int8 1x1 strided"),
        ),
        (IMAGE_SHAPE, (1, 1), {"groups": 2}, ("reference int8", *["int8 grouped windows"] * 3)),
        (IMAGE_SHAPE, (3, 3), {}, ("reference int8", *["int8 windows"] * 3)),
        (IMAGE_SHAPE, (1, 1), {"dilation": 2}, ("reference int8", *["int8 windows"] * 3)),
        (ROW_SHAPE, (1, 3), {}, ("reference int8", "int8 windows", "int8 windows", "int8 1xN")),
        ((1, 1, 20, 3), (1, 3), {}, ("reference int8", *["int8 windows"] * 3)),
        ((1, 1, 3, 4), (1, 9), {}, ("reference int8", *["int8 windows"] * 3)),
        (
            (1, 1, 9, 4),
            (1, 2),
            {"stride": 4, "padding": "VALID"},
            ("reference int8", "int8 windows", "int8 windows", "int8 1xN refused"),
        ),
    ],
)
def test_the_kernel_of_a_convolution(
    shape: Shape, kernel: tuple[int, int], options: dict[str, Any], paths: tuple[str, ...]
) -> None:
    for build, path in zip(BUILDS, paths, strict=True):
        assert convolved(shape, kernel, build, **options).path == path


@pytest.mark.parametrize("dtype", [INT16, FLOAT32])
def test_other_types(dtype: DType) -> None:
    found = [convolved(IMAGE_SHAPE, (3, 3), build, dtype).path for build in BUILDS]
    assert found[0] == f"reference {dtype.name.lower()}"
    assert set(found[1:]) == ({"int16"} if dtype == INT16 else {"reference float32"})


@pytest.mark.parametrize(
    ("shape", "kernel", "options", "paths"),
    [
        (IMAGE_SHAPE, (3, 3), {}, ("int8 3x3", "int8 3x3", "int8 blocks")),
        (IMAGE_SHAPE, (5, 5), {}, ("int8 one by one", "int8 columns", "int8 blocks")),
        (IMAGE_SHAPE, (3, 3), {"dilation": 2}, ("int8 one by one",) * 3),
        (IMAGE_SHAPE, (3, 3), {"multiplier": 4}, ("int8 by 4",) * 3),
        (IMAGE_SHAPE, (3, 3), {"multiplier": 3}, ("int8 one by one",) * 3),
        ((2, 8, 8, 4), (3, 3), {}, ("int8 one by one",) * 3),
        ((1, 8, 8, 1), (3, 3), {"multiplier": 8}, ("int8 by 4", "int8 by 4", "int8 windows turned")),
    ],
)
def test_the_kernel_of_a_depthwise_convolution(
    shape: Shape, kernel: tuple[int, int], options: dict[str, Any], paths: tuple[str, ...]
) -> None:
    assert tuple(depthwise_convolved(shape, kernel, build, **options).path for build in BUILDS[1:]) == paths


def taps_inside(shape: Shape, kernel: tuple[int, int], stride: int, dilation: int) -> int:
    """By hand, for SAME."""
    sides = []
    for size, taps in zip(shape[1:3], kernel, strict=True):
        outputs = ceil(size / stride)
        pad = max((outputs - 1) * stride + (taps - 1) * dilation + 1 - size, 0) // 2
        sides.append([(o * stride - pad + t * dilation, size) for o in range(outputs) for t in range(taps)])
    return sum(0 <= y < height and 0 <= x < width for (y, height), (x, width) in product(*sides))


@given(
    st.tuples(st.just(1), st.integers(3, 9), st.integers(3, 9), st.integers(1, 6)), st.integers(1, 3), st.integers(1, 2)
)
def test_products_stop_at_the_border(shape: Shape, stride: int, dilation: int) -> None:
    inside = taps_inside(shape, (3, 2), stride, dilation)
    given = {"stride": stride, "dilation": dilation}
    assert convolved(shape, (3, 2), REFERENCE, channels=5, **given).loops["product"] == inside * shape[3] * 5
    assert depthwise_convolved(shape, (3, 2), REFERENCE, **given).loops["product"] == inside * shape[3]
    general = depthwise_convolved(shape, (3, 2), DSP, multiplier=3, **given)
    assert general.loops["element"] == inside * shape[3] * 3


TILES = {"2x2": 4, "1x2": 2, "2x1": 2, "1x1": 1, "4x1": 4, "last column": 1}


def multiplied(loops: Loops) -> int:
    """Turns of tiles times the products and elements of each."""
    parts = ((*name.rpartition(" by "), turns) for name, turns in loops.items())
    return sum(turns * TILES[tile] * int(width) for tile, _, width, turns in parts if width.isdigit())


@given(SIZES, SIZES, SIZES)
def test_no_multiplication_is_lost(rows: int, channels: int, depth: int) -> None:
    for build in (PLAIN, DSP):
        assert multiplied(product_s8(rows, channels, depth, build)) == rows * channels * depth
        assert multiplied(product_s16(rows, channels, depth, build)) == rows * channels * depth
    # The last vector is filled.
    assert multiplied(product_s8(rows, channels, depth, MVE)) == rows * channels * ceil(depth / 16) * 16


@given(
    st.builds(window_axis, st.integers(3, 9), st.just(3), st.integers(1, 2), st.integers(1, 2), st.integers(2, 4)),
    st.builds(window_axis, st.integers(3, 9), st.just(2), st.integers(1, 2), st.just(1), st.integers(2, 4)),
    st.integers(1, 9),
)
def test_windows_are_copied_whole(rows: Axis, columns: Axis, channels: int) -> None:
    w = Windows(1, rows, columns, channels, 1, channels)
    loops = im2col_loops(w, 1, DSP)
    wholes = {"copied 64 bytes": 64, "copied 16 bytes": 16, "copied words": 4}
    filled = {"filled 16 bytes": 16, "filled words": 4, "filled bytes": 1, "filled heads": 1}
    assert loops.get("copies", 0) + loops.get("short uneven copies", 0) == w.inside
    assert sum(loops.get(name, 0) * size for name, size in wholes.items()) <= w.inside * channels
    assert sum(loops.get(name, 0) * size for name, size in filled.items()) == (w.taps - w.inside) * channels


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "outputs", "ends"),
    [(20, 3, 1, 20, (1, 1)), (20, 4, 1, 20, (1, 2)), (20, 3, 1, 18, (0, 0)), (21, 4, 2, 9, (0, 1)), (9, 2, 4, 2, None)],
)
def test_ends_of_a_row(size: int, kernel: int, stride: int, outputs: int, ends: tuple[int, int] | None) -> None:
    """The kernel gives up where more than one element behind the last window is left over."""
    assert padded_row_ends(window_axis(size, kernel, stride, 1, outputs)) == ends


@pytest.mark.parametrize(("channels", "path"), [(16, "int8 rows"), (17, "int8 stretched")])
def test_transposed_convolutions(channels: int, path: str) -> None:
    net = Net(1)
    x = net.arena(1, 4, 5, channels)
    model = net.model([x], [transposed(net, x, 3, (3, 3), stride=2)])
    assert run(model, DSP).path == path
    reference = run(model)
    assert reference.path == "reference int8"
    # 8x10 outputs; each of 4x5 inputs reaches 3x3, the last row and column one less.
    assert reference.loops["product"] == (4 * 3 - 1) * (5 * 3 - 1) * channels * 3


def test_tensors_that_are_not_images_have_no_loop_counts() -> None:
    net = Net(1)
    x, weights = net.arena(4, 4, 2), net.noise(3, 1, 1, 2)
    model = net.model([x], [net.op("CONV_2D", [x, weights], 4, 4, 3)])
    with pytest.raises(KernelRefusal, match="4 dimensions"):
        run(model)


def test_four_bit_weights() -> None:
    """Nibbles of odd rows begin in the middle of a byte every other time."""
    net = Net(1)
    x = net.arena(1, 5, 5, 3)
    weights = net.noise(4, 3, 3, 3, dtype=DType.INT4, axis=0)
    model = net.model([x], [conv(net, x, 4, (3, 3), weights=weights)])
    reference = run(model)
    assert reference.path == "reference int8 with int4 weights"
    assert reference.loops["unpacked pair"] == 4 * 27 // 2
    work = run(model, MVE)
    assert work.path == "int4 windows"
    # 25 windows: six times four, and one; 4 channels, of which two begin in the middle; 27 = 16 + 11 elements.
    assert (work.loops["4x1"], work.loops["4x1 odd"], work.loops["4x1 by 16"]) == (24, 12, 24)
    assert (work.loops["1x1"], work.loops["1x1 odd"], work.loops["1x1 rest"]) == (4, 2, 4)


@given(
    st.builds(
        Axis,
        st.integers(0, 12),
        st.integers(0, 5),
        st.integers(1, 4),
        st.integers(0, 4),
        st.integers(0, 9),
        st.integers(0, 6),
    )
)
def test_elements_of_windows_are_those_that_a_walk_finds(axis: Axis) -> None:
    places = [start + tap * axis.dilation for start in axis.starts for tap in range(axis.kernel)]
    assert axis.inside == sum(0 <= place < axis.size for place in places)
    assert axis.before == sum(place < 0 for place in places)
