"""Kernels for cores with Helium: on this machine, with its instructions in C, and on an emulated core."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np
import pytest
from benchmarks.kernels.cases import Case
from benchmarks.native import cores

from edgetool.codegen import templates
from edgetool.codegen.native.elementwise import CODES as ALL_CODES
from edgetool.codegen.native.lower import lower, lowering_of
from edgetool.codegen.native.plan import place_buffers
from edgetool.codegen.native.program import Constant
from edgetool.codegen.native.row_plan import in_smaller_sections
from edgetool.execute.cores import MACHINES
from edgetool.model.types import DType, Model
from tests.codegen.boards import BOARDS, build, run
from tests.codegen.c_compilers import FLAGS
from tests.codegen.native.host import Build, Driver, Trial, compare_all, prepare
from tests.codegen.native.test_convolution import depthwise
from tests.codegen.native.test_networks import cases, differences, networks, supported
from tests.codegen.native.test_overlaps import check, detected, trials_of
from tests.codegen.native.test_sums import TWO_STEPS
from tests.codegen.native.test_sums import models as models_of_sums
from tests.memory.account_net import Net

KERNELS = Path(templates.__file__).parent / "native" / "c"
HELIUM = Path(__file__).with_name("helium.c")
LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL", "ADD")
CODES = (*LAYERS, "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "SUM", "LOGISTIC", "SOFTMAX")
TYPES = [(code, "int8") for code in CODES]
QUICK, MANY = 10, 40
BANDS = Build(driver="bands")
APART = [False, pytest.param(True, marks=pytest.mark.slow)]  # whether rows of images stay apart
# Bands of random sizes run all that a kernel can do.
over_builds = pytest.mark.parametrize(
    "build", [pytest.param(Build(), id="whole", marks=pytest.mark.slow), pytest.param(BANDS, id="bands")]
)


def _equal_on_the_core(trials: Mapping[str, Trial], driver: Driver, level: str) -> int:
    """Return how many models that TFLM runs compute the same on an emulated core; all of them must."""
    if missing := MACHINES["cortex-m55"].missing_tools:
        pytest.skip(f"{missing[0]} is not installed")
    subjects = cores.subjects_of(trials)
    assert [item.result for item in cores.run("cortex-m55", driver, level, subjects)] == [cores.EQUAL] * len(subjects)
    return len(subjects)


@over_builds
def test_random_layers_compute_what_tflm_computes(build: Build) -> None:
    drawn = cases(TYPES[: len(LAYERS)], range(300, 300 + QUICK))
    trials = supported(drawn, None, Counter(), vector=True, row_wise=build is BANDS)
    used = Counter(step.kernel for trial in trials.values() for step in trial.program.steps)
    names = ("conv2d", "dense", "batch_matmul")
    assert {name for name in used if "_vector_" in name} >= {f"edgetool_{name}_vector_s8" for name in names}
    assert differences(trials, build) == []


@pytest.mark.slow
@pytest.mark.parametrize("build", [Build(), BANDS], ids=["whole", "bands"])
@pytest.mark.parametrize("code", CODES)
def test_many_random_layers_compute_what_tflm_computes(code: str, build: Build) -> None:
    drawn = cases([(code, "int8")], range(400, 400 + MANY))
    assert differences(supported(drawn, None, Counter(), vector=True, row_wise=build is BANDS), build) == []


@pytest.mark.slow
@pytest.mark.parametrize("build", [Build(), BANDS], ids=["whole", "bands"])
def test_random_networks_compute_what_tflm_computes(build: Build) -> None:
    trials = supported(networks(50_000), MANY, Counter(), vector=True, row_wise=build is BANDS)
    assert differences(trials, build) == []


@pytest.mark.slow
@pytest.mark.parametrize("row_wise", [False, True])
def test_outputs_are_right_at_the_stated_distance(row_wise: bool) -> None:
    trials = trials_of(cases(TYPES, range(500, 500 + QUICK)), vector=True, row_wise=row_wise)
    # Fewer are wrong below than with other kernels: two pixels are read before one is written.
    assert detected(check(trials)) > 0.2


def _convolution(
    groups: int = 1,
    scale: float = 1.0,
    size: int = 4,
    taps: int = 3,
    depth: int = 4,
    filters: int = 2,
    dilation: int = 1,
) -> Model:
    """Return a convolution with `depth` input channels and `filters` output channels in each group."""
    net, channels = Net(), filters * groups
    x = net.arena(1, size, size, groups * depth, dtype=DType.INT8, scale=1 / 16, zero_point=3)
    weights, bias = net.filter(channels, taps, taps, depth, like=x), net.biases(channels, like=x)
    values: dict[str, Any] = {
        "padding": "SAME",
        "stride_h": 1,
        "stride_w": 1,
        "dilation_h_factor": dilation,
        "dilation_w_factor": dilation,
    }
    y = net.op("CONV_2D", [x, weights, bias], 1, size, size, channels, scale=scale, **values)
    net.end_graph([x], [y])
    return net.whole()


def test_many_groups_and_left_shifts_have_the_kernels_of_other_cores() -> None:
    many = _convolution(256, depth=1)
    for model, is_vector in ((_convolution(3), True), (many, False), (_convolution(scale=1e-6), False)):
        (step,) = lower(model, vector=True).steps
        assert ("_vector_" in step.kernel) is is_vector
        assert lower(model).kernels != lower(model, vector=True).kernels or not is_vector


@over_builds
def test_grouped_convolutions_compute_what_tflm_computes(build: Build) -> None:
    shapes = product((1, 2, 5), (1, 3), (2, 3, 17), (2, 5))
    models = [_convolution(groups, size=size, taps=taps, depth=depth) for size, taps, depth, groups in shapes]
    trials = [prepare(model, samples=1, vector=True, row_wise=build is BANDS) for model in models]
    assert {step.kernel for trial in trials for step in trial.program.steps} == {"edgetool_conv2d_vector_s8"}
    assert compare_all(trials, build) == [None] * len(trials)


@over_builds
def test_groups_of_one_output_compute_what_tflm_computes(build: Build) -> None:
    shapes = product((2, 5), (1, 3), (2, 11), (2, 3))
    models = [
        _convolution(groups, size=size, taps=taps, depth=depth, filters=1) for size, taps, depth, groups in shapes
    ]
    trials = [prepare(model, samples=1, vector=True, row_wise=build is BANDS) for model in models]
    (weights,) = {
        constant.data
        for name, constant in trials[0].program.steps[0].op.values
        if name == "weights" and isinstance(constant, Constant)
    }
    # A group has one row of weights, and zeros up to a whole vector.
    assert len(weights) == 2 * 16
    assert compare_all(trials, build) == [None] * len(trials)


@over_builds
def test_groups_of_one_input_channel_are_a_depthwise_convolution(build: Build) -> None:
    shapes = product((2, 5), (1, 3), (2, 9), (1, 3))
    models = [
        _convolution(groups, size=size, taps=taps, depth=1, filters=filters) for size, taps, groups, filters in shapes
    ]
    trials = [prepare(model, samples=1, vector=True, row_wise=build is BANDS) for model in models]
    kernels = {step.kernel for trial in trials for step in trial.program.steps}
    # Several outputs for each input can be those of a group.
    assert {"edgetool_depthwise_vector_s8", "edgetool_depthwise_few_s8", "edgetool_conv2d_vector_s8"} <= kernels
    assert compare_all(trials, build) == [None] * len(trials)


def _multiplied(width: int, taps: int, channels: int, multiplier: int) -> Model:
    """Return a depthwise convolution with several outputs for each input."""
    net, outputs = Net(), channels * multiplier
    x = net.arena(1, 6, width, channels, dtype=DType.INT8, scale=1 / 16, zero_point=3)
    weights, bias = net.filter(1, taps, taps, outputs, like=x, axis=3), net.biases(outputs, like=x)
    values = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    values["depth_multiplier"] = multiplier
    inputs = [x, weights, bias]
    y = net.op("DEPTHWISE_CONV_2D", inputs, 1, 6, width, outputs, padding="SAME", scale=1.0, **values)
    net.end_graph([x], [y])
    return net.whole()


@over_builds
def test_several_outputs_for_each_input_are_those_of_a_group(build: Build) -> None:
    models = [_multiplied(*kind) for kind in ((7, 3, 2, 4), (6, 3, 3, 5), (9, 5, 2, 8), (8, 4, 5, 3))]
    trials = [prepare(model, samples=1, vector=True, row_wise=build is BANDS) for model in models]
    assert {step.kernel for trial in trials for step in trial.program.steps} == {"edgetool_conv2d_vector_s8"}
    assert compare_all(trials, build) == [None] * len(trials)
    # Rows of few outputs are not worth the copies.
    for kind in ((2, 3, 4, 2), (2, 3, 1, 4)):
        (step,) = lower(_multiplied(*kind), vector=True).steps
        assert "_depthwise_" in step.kernel


# Windows of which some, all or none are inside the input; blocks that end with a pixel, and others that do not.
DEPTHWISES = [
    *(
        depthwise(width, strides=(stride, stride), channels=channels, height=5)
        for width, channels, stride in product((3, 6, 11), (4, 8, 12, 16, 20, 24, 40), (1, 2))
    ),
    *(depthwise(width, strides=(3, 3), channels=channels, height=5) for width, channels in product((9, 14), (4, 32))),
    *(depthwise(9, channels=channels, dilation=2, dilation_x=2, height=5) for channels in (8, 16)),
    *(depthwise(7, channels=channels, fused="RELU6", code=-100) for channels in (8, 20)),
    *(
        depthwise(7, strides=(stride, stride), channels=channels, fused="NONE", code=3)
        for channels, stride in product((8, 20), (1, 2))
    ),
]


@over_builds
def test_windows_of_3_by_3_compute_what_tflm_computes(build: Build) -> None:
    trials = [prepare(model, 1, vector=True, lean=True, row_wise=build is BANDS) for model in DEPTHWISES]
    steps = [step for trial in trials for step in trial.program.steps]
    assert {(step.kernel, step.scratch_bytes) for step in steps} == {("edgetool_depthwise_3x3_vector_s8", 0)}
    assert {dict(step.op.values)["is_signed"] for step in steps} == {0, 1}
    assert {cast("int", dict(step.op.values)["lanes"]) % 16 > 0 for step in steps} == {False, True}
    assert compare_all(trials, build) == [None] * len(trials)


@pytest.mark.slow
@pytest.mark.parametrize(("driver", "level"), cores.VARIANTS)
def test_windows_of_3_by_3_compute_on_the_core_what_tflm_computes(driver: Driver, level: str) -> None:
    apart = driver == "bands"
    trials = {str(i): prepare(model, 1, vector=True, lean=True, row_wise=apart) for i, model in enumerate(DEPTHWISES)}
    assert _equal_on_the_core(trials, driver, level) == len(trials)


def _extreme(codes: tuple[int, int]) -> Model:
    """Return a depthwise convolution of 3 by 3 of which two weights after each other have these codes in turn."""
    net = Net()
    x = net.arena(1, 5, 6, 16, dtype=DType.INT8, scale=1 / 16, zero_point=-128)
    data = np.resize(np.array(codes, np.int8), 9).repeat(16)
    weights = net.tensor((1, 3, 3, 16), DType.INT8, data=data.tobytes(), scales=(1 / 128,))
    values: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "depth_multiplier": 1, "padding": "VALID"}
    values |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    y = net.op("DEPTHWISE_CONV_2D", [x, weights, net.biases(16, like=x)], 1, 3, 4, 16, scale=16.0, **values)
    net.end_graph([x], [y])
    return net.whole()


def test_sums_of_two_products_have_16_bits_or_another_kernel() -> None:
    models = [_extreme(codes) for codes in ((127, 127), (-127, -127), (-128, -127), (127, -128), (-128, -128))]
    trials = [prepare(model, 1, vector=True, lean=True) for model in models]
    kernels = [trial.program.steps[0].kernel for trial in trials]
    assert kernels == ["edgetool_depthwise_3x3_vector_s8"] * 4 + ["edgetool_depthwise_vector_s8"]
    assert compare_all(trials) == [None] * len(trials)


def test_windows_of_3_by_3_have_the_kernel_with_the_fewest_instructions() -> None:
    def kernel(model: Model, **values: bool) -> str:
        (step,) = lower(model, vector=True, **values).steps
        return step.kernel.removeprefix("edgetool_depthwise_")

    # Two rows at once have fewer, but rows that stay apart have none, and need no scratch either way.
    assert kernel(depthwise(40, channels=16)) == "vector_s8"
    assert kernel(depthwise(40, channels=16), row_wise=True) == "3x3_vector_s8"
    assert kernel(depthwise(40, channels=16), lean=True) == "3x3_vector_s8"
    assert kernel(depthwise(40, strides=(2, 2), channels=16)) == "3x3_vector_s8"
    # Sums of four channels are there or not.
    assert kernel(depthwise(40, channels=18), row_wise=True) == "vector_s8"
    assert kernel(depthwise(4, strides=(2, 2), channels=18), row_wise=True) == "lanes_s8"


def _valid(
    width: int, taps: tuple[int, int], stride: int, depth: int, channels: int, activation: str = "NONE"
) -> Model:
    """Return a convolution without padding, of 5 rows and without groups."""
    net = Net()
    x = net.arena(1, 5, width, depth, dtype=DType.INT8, scale=1 / 16, zero_point=3)
    weights, bias = net.filter(channels, *taps, depth, like=x), net.biases(channels, like=x)
    values: dict[str, Any] = {"padding": "VALID", "stride_h": stride, "stride_w": stride}
    values |= {"dilation_h_factor": 1, "dilation_w_factor": 1, "fused_activation_function": activation}
    sides = [(side - reach) // stride + 1 for side, reach in zip((5, width), taps, strict=True)]
    y = net.op("CONV_2D", [x, weights, bias], 1, *sides, channels, **values)
    net.end_graph([x], [y])
    return net.whole()


@pytest.mark.slow
@pytest.mark.parametrize("row_wise", APART)
def test_windows_in_the_input_and_single_channels_compute_what_tflm_computes(row_wise: bool) -> None:
    kinds = product((5, 8), ((1, 1), (1, 3), (3, 3)), (1, 2), (5, 40), (1, 2, 5))
    trials = [prepare(_valid(*kind), 1, vector=True, row_wise=row_wise) for kind in kinds]
    direct = {dict(step.op.values)["is_direct"] for trial in trials for step in trial.program.steps}
    assert direct == {0, 1}
    assert compare_all(trials) == [None] * len(trials)


@over_builds
def test_kernels_that_copy_fewer_columns_need_less_scratch_and_compute_the_same(build: Build) -> None:
    convolutions = [_convolution(1, size=47, depth=8, filters=8, dilation=dilation) for dilation in (1, 2)]
    models = [*convolutions, depthwise(47, (5, 5), dilation_x=2, height=5), depthwise(47, (7, 7), height=5)]
    trials = []
    for model in models:
        trial = prepare(model, 1, vector=True, row_wise=build is BANDS)
        first, *narrower = in_smaller_sections(trial.program)
        needs = [program.steps[0].scratch_bytes for program in (first, *narrower)]
        assert len(needs) > 1
        assert needs == sorted(set(needs), reverse=True)
        trials += [replace(trial, program=program, memory=place_buffers(program)) for program in narrower]
    assert compare_all(trials, build) == [None] * len(trials)


def _dense(rows: int, units: int, *, zero_point: int = 0) -> Model:
    net = Net()
    x = net.arena(rows, 20, scale=1 / 16, zero_point=3)
    codes = net.random.randbytes(units * 20)
    weights = net.tensor((units, 20), DType.INT8, data=codes, scales=(1 / 128,), zero_point=zero_point)
    y = net.op("FULLY_CONNECTED", [x, weights, net.biases(units, like=x)], rows, units)
    net.end_graph([x], [y])
    return net.whole()


@pytest.mark.parametrize("row_wise", APART)
@pytest.mark.parametrize("zero_point", [0, -9])
def test_dense_layers_of_few_units_and_of_weights_with_a_zero_point(zero_point: int, row_wise: bool) -> None:
    sizes = [(rows, units) for rows in (1, 2, 3, 4, 5, 7) for units in (1, 2, 3, 6)]
    models = {
        str(size): prepare(_dense(*size, zero_point=zero_point), vector=True, row_wise=row_wise) for size in sizes
    }
    kernels = {kernel for trial in models.values() for kernel in trial.program.kernels}
    has_pixels = not row_wise and not zero_point
    assert kernels == {"edgetool_dense_vector_s8"} | ({"edgetool_conv2d_vector_s8"} if has_pixels else set())
    assert differences(models, Build() if not row_wise else BANDS) == []


def test_rows_of_a_dense_layer_are_one_row_unless_they_are_planned_one_by_one() -> None:
    for row_wise, rows in ((False, 1), (True, 6)):
        (step,) = lower(_dense(6, 5), vector=True, row_wise=row_wise).steps
        assert (step.rows, step.row_bytes * step.rows) == (rows, 30)


def test_products_have_the_kernel_of_other_cores_if_they_must_do_without_scratch() -> None:
    net = Net()
    left, right = net.arena(3, 8), net.arena(8, 5)
    y = net.op("BATCH_MATMUL", [left, right], 3, 5, adj_x=False, adj_y=False)
    net.end_graph([left, right], [y])
    model = net.whole()
    (tuned,), (lean,) = (lower(model, vector=True, lean=lean).steps for lean in (False, True))
    assert (tuned.kernel, tuned.scratch_bytes) == ("edgetool_batch_matmul_vector_s8", 4 * 8 + 40)
    assert (lean.kernel, lean.scratch_bytes) == ("edgetool_batch_matmul_s8", 0)


def _products(random: Random) -> Trial:
    """Return a product of all pairs of codes, with scales and zero points drawn at random."""
    net = Net()
    scales = [2.0 ** random.uniform(-8, 0) for _ in range(2)]
    zeros = [random.choice((-128, 127, 0, random.randint(-128, 127))) for _ in range(3)]
    a, b = (net.arena(1, 65536, scale=scale, zero_point=zero) for scale, zero in zip(scales, zeros[:2], strict=True))
    # Powers of two have products half way between two codes.
    scale = prod(scales) * 2.0 ** (random.randint(1, 14) if random.random() < 0.3 else random.uniform(1, 14))
    activation = random.choice(("NONE", "RELU", "RELU6"))
    y = net.op("MUL", [a, b], 1, 65536, scale=scale, zero_point=zeros[2], fused_activation_function=activation)
    net.end_graph([a, b], [y])
    first, second = (codes.reshape(1, 1, -1).astype(np.int8) for codes in np.meshgrid(ALL_CODES, ALL_CODES))
    return prepare(net.whole(), inputs=[first, second], vector=True)


@pytest.mark.parametrize("count", [2, pytest.param(MANY, marks=pytest.mark.slow)])
def test_products_of_all_codes_are_those_of_tflm(count: int) -> None:
    trials = [_products(Random(number)) for number in range(count)]
    assert {kernel for trial in trials for kernel in trial.program.kernels} == {"edgetool_mul_vector_s8"}
    assert compare_all(trials) == [None] * count


def _product(first: tuple[int, ...], second: tuple[int, ...], factor: float = 64.0) -> Model:
    net = Net()
    a, b = net.arena(*first, scale=0.05, zero_point=-3), net.arena(*second, scale=0.03, zero_point=7)
    shape = tuple(map(max, first, second))
    net.end_graph([a, b], [net.op("MUL", [a, b], *shape, scale=0.0015 * factor, zero_point=5)])
    return net.whole()


@pytest.mark.slow
@pytest.mark.parametrize("row_wise", [False, True])
def test_products_are_broadcast(row_wise: bool) -> None:
    shape = (2, 3, 5, 7)
    others = ((1, 1, 1, 7), (2, 1, 1, 7), (2, 3, 5, 1), (2, 3, 1, 1), (1, 1, 5, 7))
    pairs = [pair for other in others for pair in ((shape, other), (other, shape))] + [((2, 3, 5, 1), (2, 3, 1, 7))]
    trials = {str(pair): prepare(_product(*pair), vector=True, row_wise=row_wise) for pair in pairs}
    assert {kernel for trial in trials.values() for kernel in trial.program.kernels} == {"edgetool_mul_vector_s8"}
    assert differences(trials, BANDS if row_wise else Build()) == []


def test_products_scaled_by_one_half_or_more_have_the_kernel_of_other_cores() -> None:
    kernels = [lower(_product((1, 9), (1, 9), factor), vector=True).kernels for factor in (2.1, 1.9)]
    assert kernels == [("edgetool_mul_vector_s8",), ("edgetool_mul_s8",)]


def test_negative_scales_have_the_kernels_of_other_cores() -> None:
    net = Net()
    x, other = net.arena(1, 9, scale=-0.05), net.arena(1, 9, scale=0.03)
    outputs = [net.op("MUL", [x, other], scale=0.1), net.op("MEAN", [x, net.constant([1])], 1, 1, scale=0.05)]
    net.end_graph([x, other], outputs)
    assert set(lower(net.whole(), vector=True).kernels) == {"edgetool_mul_s8", "edgetool_sum_s8"}


def _pool(code: str, sides: tuple[int, int], taps: tuple[int, int], channels: int, activation: str = "NONE") -> Model:
    """Return pooling with strides of 2 whose windows hang over the border."""
    net = Net()
    x = net.arena(2, *sides, channels, scale=0.05, zero_point=-3)
    values = {"filter_height": taps[0], "filter_width": taps[1], "stride_h": 2, "stride_w": 2}
    shape = [-(-side // 2) for side in sides]
    values |= {"padding": "SAME", "fused_activation_function": activation}
    y = net.op(code, [x], 2, *shape, channels, scale=0.05, zero_point=-3, **values)
    net.end_graph([x], [y])
    return net.whole()


@pytest.mark.parametrize("row_wise", APART)
def test_windows_of_all_sizes_and_numbers_of_channels_compute_what_tflm_computes(row_wise: bool) -> None:
    windows: list[tuple[tuple[int, int], tuple[int, int], int, str]] = [
        ((5, 7), (1, 1), 31, "NONE"),
        ((5, 7), (2, 3), 8, "RELU"),
        ((5, 7), (3, 2), 17, "RELU6"),
        ((5, 7), (5, 7), 3, "NONE"),
        ((2, 300), (2, 290), 1, "NONE"),
    ]
    kinds = [(code, *window) for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D") for window in windows]
    trials = {str(kind): prepare(_pool(*kind), 2, vector=True, row_wise=row_wise) for kind in kinds}
    kernels = {kernel for trial in trials.values() for kernel in trial.program.kernels}
    assert kernels == {"edgetool_average_pool_vector_s8", "edgetool_max_pool_vector_s8"}
    assert differences(trials, BANDS if row_wise else Build()) == []


def test_averages_of_too_many_codes_have_the_kernel_of_other_cores() -> None:
    kernels = [lower(_pool("AVERAGE_POOL_2D", sides, sides, 3), vector=True).kernels for sides in ((32, 64), (1, 2049))]
    assert kernels == [("edgetool_average_pool_vector_s8",), ("edgetool_average_pool_s8",)]


def _reduction(shape: tuple[int, ...], axes: tuple[int, ...], scale: float = 0.05, code: str = "MEAN") -> Model:
    net = Net()
    x = net.arena(*shape, scale=0.05, zero_point=-9)
    kept = tuple(1 if axis in axes else side for axis, side in enumerate(shape))
    y = net.op(code, [x, net.constant(axes, len(axes))], *kept, scale=scale, zero_point=4, keep_dims=True)
    net.end_graph([x], [y])
    return net.whole()


@pytest.mark.parametrize("row_wise", APART)
def test_reductions_of_all_shapes_compute_what_tflm_computes(row_wise: bool) -> None:
    kinds: list[tuple[Any, ...]] = [
        ((2, 3, 5, 19), (1, 2)),
        ((2, 3, 300, 3), (1, 2), 0.004),  # more codes than sums of 16 bits can have
        ((2, 3, 5, 19), (3,)),
        ((2, 3, 5, 2), (3,), 0.01),  # a shift to the left
        ((2, 3, 5, 9), (1, 3)),
        ((1, 3, 5, 7), (0, 1, 2, 3), 0.3, "SUM"),
        ((1, 4, 6, 8), (2,), 0.011, "SUM"),
        ((1, 1, 1, 8), (1, 2)),
    ]
    trials = {str(kind): prepare(_reduction(*kind), 2, vector=True, row_wise=row_wise) for kind in kinds}
    shifts = [
        dict(step.op.values)["shift"]
        for trial in trials.values()
        for step in trial.program.steps
        if "vector" in step.kernel
    ]
    assert min(shifts) < 0 < max(shifts)
    assert differences(trials, BANDS if row_wise else Build()) == []


def test_sums_that_may_wrap_have_the_kernel_of_other_cores() -> None:
    kernels = [lower(_reduction((1, 7), (1,), scale, "SUM"), vector=True).kernels for scale in (1e-6, 1e-9)]
    assert kernels == [("edgetool_sum_vector_s8",), ("edgetool_sum_s8",)]


def test_functions_of_one_code_are_looked_up_in_vectors() -> None:
    net = Net()
    inputs = [net.arena(1, size, scale=0.05, zero_point=-3) for size in (1, 15, 16, 256)]
    net.end_graph(inputs, [net.op("TANH", [x], scale=1 / 128) for x in inputs])
    codes = [np.resize(ALL_CODES, (1, 1, size)).astype(np.int8) for size in (1, 15, 16, 256)]
    trial = prepare(net.whole(), inputs=codes, vector=True)
    assert set(trial.program.kernels) == {"edgetool_lookup_vector"}
    assert compare_all([trial]) == [None]


def _softmax(shape: tuple[int, ...], scale: float, dtype: DType = DType.INT8) -> Model:
    net = Net()
    x = net.arena(*shape, scale=scale, zero_point=-3)
    zero = -128 if dtype is DType.INT8 else 0
    y = net.op("SOFTMAX", [x], *shape, dtype=dtype, scale=2.0**-dtype.bits, zero_point=zero, beta=1.0)
    net.end_graph([x], [y])
    return net.whole()


@pytest.mark.parametrize("row_wise", APART)
def test_softmax_of_all_depths_computes_what_tflm_computes(row_wise: bool) -> None:
    kinds = [((1, 2, 3, depth), scale) for depth in (1, 4, 17, 300) for scale in (0.003, 0.3)]
    trials = {str(kind): prepare(_softmax(*kind), 2, vector=True, row_wise=row_wise) for kind in kinds}
    assert {kernel for trial in trials.values() for kernel in trial.program.kernels} == {"edgetool_softmax_vector_s8"}
    assert differences(trials, BANDS if row_wise else Build()) == []


def test_softmax_to_int16_has_the_kernel_of_other_cores() -> None:
    assert lower(_softmax((1, 5), 0.1, DType.INT16), vector=True).kernels == ("edgetool_softmax_s8",)


def test_other_operators_have_one_lowering() -> None:
    assert lowering_of("LOG_SOFTMAX", vector=True) is lowering_of("LOG_SOFTMAX")
    assert lowering_of("CONV_2D", vector=True) is not lowering_of("CONV_2D")


def test_depthwise_of_one_channel_is_a_convolution() -> None:
    models = (Case("DEPTHWISE_CONV_2D", "int8", number).model() for number in range(60))
    single = [model for model in models if model.main.tensors[model.main.operators[0].inputs[0]].shape[3] == 1]
    kernels = {kernel for model in single for kernel in lower(model, vector=True).kernels}
    assert "edgetool_conv2d_vector_s8" in kernels


def test_the_instructions_of_the_core_do_what_their_definitions_do(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    command = ["cc", "-O1", "-std=c99", *FLAGS, f"-I{KERNELS}", str(HELIUM), "-o", "host"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    expected = subprocess.run([str(tmp_path / "host")], capture_output=True, text=True, check=True, timeout=60).stdout
    (tmp_path / "board.ld").write_text(BOARDS["cortex-m55"].script)
    program = build(tmp_path, "cortex-m55", "board.ld", [str(HELIUM)], "-mfloat-abi=hard", f"-I{KERNELS}")
    done = run("cortex-m55", program)
    assert (done.returncode, done.stdout + done.stderr) == (0, expected)


@pytest.mark.slow
@pytest.mark.parametrize(("driver", "level"), cores.VARIANTS)
def test_random_layers_compute_on_the_core_what_tflm_computes(driver: Driver, level: str) -> None:
    drawn = cases(TYPES, range(600, 600 + MANY // 4))
    trials = supported(drawn, None, Counter(), vector=True, row_wise=driver == "bands")
    assert _equal_on_the_core(trials, driver, level) > len(TYPES)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O2", "-Os"])
def test_sums_of_rows_compute_on_the_core_what_tflm_computes(level: str) -> None:
    trials = {name: prepare(model, vector=True, row_wise=True) for name, model in models_of_sums().items()}
    assert all([step.kernel for step in trial.program.steps] == TWO_STEPS for trial in trials.values())
    assert _equal_on_the_core(trials, "bands", level) == len(trials)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O2", "-Os"])
def test_rests_of_pixels_and_channels_compute_on_the_core_what_tflm_computes(level: str) -> None:
    kinds = product((1, 2, 3, 4, 5), ((1, 1),), (1,), (33, 48), (1, 2, 3, 4, 6, 9), ("NONE", "RELU"))
    trials = {str(kind): prepare(_valid(*kind), vector=True, row_wise=True) for kind in kinds}
    ops = [dict(step.op.values) for trial in trials.values() for step in trial.program.steps]
    # Negative sums are rounded only if outputs can have them.
    assert {(op["is_direct"], op["is_signed"]) for op in ops} == {(1, 0), (1, 1)}
    assert _equal_on_the_core(trials, "bands", level) == len(trials)


@pytest.mark.slow
@pytest.mark.parametrize(("language", "level"), [("c++11", "-O2"), ("c99", "-O2"), ("c99", "-O3"), ("c99", "-Os")])
def test_kernels_compile_without_warnings_for_the_core(tmp_path: Path, language: str, level: str) -> None:
    compiler = "arm-none-eabi-gcc" if language == "c99" else "arm-none-eabi-g++"
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    sources = sorted(map(str, KERNELS.glob("*_vector*.c")))
    options = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", level, f"-std={language}", *FLAGS, f"-I{KERNELS}"]
    done = subprocess.run(
        [compiler, *options, "-c", *sources], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
