from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.model.types import DType, Options, OptionValue, Tensor
from edgetool.operators.call import Call, KernelRefusal, Request
from edgetool.target.platform import Platform
from tests.operators.prepare.calls import call, platform, prepared, tensor

REFERENCE = platform()
DSP = platform(cmsis_nn=True)
PLAIN = replace(DSP, dsp=False)
MVE = replace(DSP, mve=True)

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


def test_the_reference_kernels_look_at_three_tensors_and_then_at_all() -> None:
    assert temporaries(prepared(made(CONV))) == [3, 0, 1, 0, 1, 2, 3]
    assert temporaries(prepared(made(DEPTHWISE_CONV))) == [3, 0, 1, 0, 1, 2, 3]
    assert temporaries(prepared(made(TRANSPOSE))) == [4, 2, 1, 2, 1, 3, 4]


def test_cmsis_nn_looks_at_the_output_last() -> None:
    assert temporaries(prepared(made(CONV, DSP))) == [0, 1, 3, 0, 1, 2, 3]
    assert temporaries(prepared(made(DEPTHWISE_CONV, DSP))) == [0, 1, 3, 0, 1, 2, 3]
    assert temporaries(prepared(made(TRANSPOSE, DSP))) == [4, 2, 1, 2, 1, 3, 4]


@pytest.mark.parametrize("build", [REFERENCE, DSP])
def test_a_bias_that_is_left_out_is_not_looked_at(build: Platform) -> None:
    assert len(temporaries(prepared(made(without_bias(CONV), build)))) == 6
    assert len(temporaries(prepared(made(without_bias(DEPTHWISE_CONV), build)))) == 6
    assert len(temporaries(prepared(made(without_bias(TRANSPOSE), build)))) == 6
    assert len(temporaries(prepared(made(("CONV_2D", (IMAGE, FILTER, None), CONVOLVED), build)))) == 6


def test_a_transposed_convolution_in_float_looks_at_three_tensors() -> None:
    assert temporaries(prepared(made(floats(TRANSPOSE)))) == [4, 2, 1]
    assert temporaries(prepared(made(floats(TRANSPOSE), DSP))) == [4, 2, 1]


def test_two_numbers_for_each_channel_of_the_filter() -> None:
    # A depthwise filter has them in its last dimension.
    assert sized(prepared(made(CONV)), "persistent") == [20, 20]
    assert sized(prepared(made(DEPTHWISE_CONV)), "persistent") == [12, 12]
    assert sized(prepared(made(TRANSPOSE)), "persistent") == [20, 20]


def test_the_convolutions_of_cmsis_nn_keep_none_in_float() -> None:
    for given in (CONV, DEPTHWISE_CONV):
        assert len(sized(prepared(made(floats(given))), "persistent")) == 2
        assert sized(prepared(made(floats(given), DSP)), "persistent") == []
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


def test_cmsis_nn_asks_for_a_turned_filter_even_when_it_is_empty() -> None:
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
