"""Convolutions as native kernels: descriptors, rows, refusals, and the outputs of TFLM's reference kernels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
from benchmarks.kernels.cases import Case

from edgetool.codegen.native.convolution import TILED_SHIFT, DepthwiseTiling, fits_pairs, paired_weights
from edgetool.codegen.native.fixed_point import DOUBLE_ROUNDING, SIGN, WIDE
from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.plan import NativeMemory, memory_of, native_problem
from edgetool.codegen.native.products import first_multiple
from edgetool.codegen.native.program import Constant, RowInput, Step
from edgetool.codegen.native.row_plan import in_smaller_sections
from edgetool.errors import UnsupportedModelError
from edgetool.memory.problem import Layout
from edgetool.memory.streaming.problem import NO_SCRATCH
from edgetool.model.types import DType, Model
from edgetool.operators.overlap import Window
from tests.codegen.native.host import Build, compare_all, differences, prepare, with_rows
from tests.codegen.native.row_plans import scattered_plan
from tests.codegen.native.test_overlaps import Pair, place_pair
from tests.memory.account_net import Net

TILED, LEAN = "edgetool_conv2d_tiled_s8", "edgetool_conv2d_lean_s8"
DSP = ("-DEDGETOOL_DSP=1",)
# The driver of bands runs all that a kernel can do; the quick tests use the instructions that most cores have.
over_builds = pytest.mark.parametrize(
    ("driver", "flags"),
    [
        ("bands", DSP),
        pytest.param("bands", (), marks=pytest.mark.slow),
        pytest.param("run", (), marks=pytest.mark.slow),
    ],
)
over_flags = pytest.mark.parametrize("flags", [DSP, pytest.param((), marks=pytest.mark.slow)])


def _network(dtype: DType) -> Model:
    """Return a network with every kind of convolution: strides, dilations, groups, multipliers, a PAD in front."""
    net = Net()
    scale = 1 / 16 if dtype is DType.INT8 else 1 / 2048
    x = net.arena(2, 9, 8, 3, dtype=dtype, scale=scale, zero_point=5 if dtype is DType.INT8 else 0)
    y = _conv(net, x, (8, 3, 3, 3), (2, 5, 4, 8), stride_h=2, stride_w=2, fused_activation_function="RELU")
    y = _conv(net, y, (12, 2, 2, 2), (2, 5, 4, 12), dilation_h_factor=2)
    weights, bias = net.filter(1, 3, 3, 24, like=y, axis=3), net.biases(24, like=y)
    values: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "depth_multiplier": 2, "dilation_w_factor": 2}
    y = net.op("DEPTHWISE_CONV_2D", [y, weights, bias], 2, 5, 4, 24, padding="SAME", scale=4 * scale, **values)
    weights, bias = net.filter(6, 3, 2, 24, like=y), net.biases(6, like=y)
    shape = net.constant((2, 10, 11, 6))
    values = {"padding": "SAME", "stride_h": 2, "stride_w": 3}
    y = net.op("TRANSPOSE_CONV", [shape, weights, y, bias], 2, 10, 11, 6, dtype=dtype, scale=16 * scale, **values)
    if dtype is DType.INT8:
        padded = net.op("PAD", [y, net.constant((0, 0, 1, 2, 3, 0, 0, 0), 4, 2)], 2, 13, 14, 6, scale=16 * scale)
        weights = net.filter(1, 4, 3, 6, like=y, axis=3)
        values = {"stride_h": 1, "stride_w": 1, "depth_multiplier": 1, "padding": "VALID"}
        y = net.op("DEPTHWISE_CONV_2D", [padded, weights], 2, 10, 12, 6, scale=32 * scale, **values)
    y = _conv(net, y, (9, 1, 1, 6), (*net.tensors[y].shape[:3], 9))
    net.end_graph([x], [y])
    return net.whole()


def _conv(net: Net, x: int, weights: tuple[int, ...], shape: tuple[int, ...], **values: Any) -> int:
    inputs = [x, net.filter(*weights, like=x), net.biases(weights[0], like=x)]
    quantization = net.tensors[x].quantization
    assert quantization is not None
    options: dict[str, Any] = {
        "padding": "SAME",
        "stride_h": 1,
        "stride_w": 1,
        "dilation_h_factor": 1,
        "dilation_w_factor": 1,
    }
    return net.op("CONV_2D", inputs, *shape, scale=4 * quantization.scales[0], **{**options, **values})


def _steps(model: Model, **values: bool) -> list[Step]:
    return list(lower(model, **values).steps)


def _fields(step: Step) -> dict[str, Any]:
    return dict(step.op.values)


def _with_tensor(model: Model, index: int, **values: Any) -> Model:
    graph = model.main
    tensors = list(graph.tensors)
    tensors[index] = replace(tensors[index], **values)
    return replace(model, subgraphs=(replace(graph, tensors=tuple(tensors)), *model.subgraphs[1:]))


@pytest.mark.slow
def test_networks_of_convolutions_compute_what_tflm_computes() -> None:
    assert differences({str(dtype): prepare(_network(dtype), 4) for dtype in (DType.INT8, DType.INT16)}) == []


def depthwise(
    width: int,
    taps: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    *,
    channels: int = 8,
    dilation: int = 1,
    dilation_x: int = 1,
    padding: str = "SAME",
    multiplier: int = 1,
    height: int = 11,
    fused: str = "RELU",
    scale: float = 1.0,
    code: int = -128,
) -> Model:
    """Return a depthwise convolution. dilation: of rows. dilation_x: of columns. code: the output's zero point."""
    net = Net()
    outputs_each = channels * multiplier
    x = net.arena(2, height, width, channels, scale=1 / 16, zero_point=-5)
    weights, bias = net.filter(1, *taps, outputs_each, like=x, axis=3), net.biases(outputs_each, like=x)
    reaches = (taps[0] - 1) * dilation, (taps[1] - 1) * dilation_x
    outputs = [
        -(-(side if padding == "SAME" else side - reach) // stride)
        for side, reach, stride in zip((height, width), reaches, strides, strict=True)
    ]
    values: dict[str, Any] = {"stride_h": strides[0], "stride_w": strides[1], "dilation_w_factor": dilation_x}
    values |= {"dilation_h_factor": dilation, "padding": padding, "depth_multiplier": multiplier}
    values |= {"fused_activation_function": fused}
    y = net.op(
        "DEPTHWISE_CONV_2D", [x, weights, bias], 2, *outputs, outputs_each, scale=scale, zero_point=code, **values
    )
    net.end_graph([x], [y])
    return net.whole()


LISTED, FEW = "edgetool_depthwise_s8", "edgetool_depthwise_few_s8"


def depthwises() -> list[Model]:
    """Return layers of all kinds that the kernel with planes has: of 3 x 3 taps and others, with bands of all sizes."""
    square = [
        depthwise(width, strides=(stride, stride), channels=channels, padding=padding)
        for width, stride, channels, padding in product((9, 12, 131), (1, 2), (8, 5), ("SAME", "VALID"))
    ]
    others = [
        depthwise(width, taps, strides, channels=channels)
        for width, taps, strides, channels in product(
            (9, 70), ((5, 5), (4, 3), (7, 7), (1, 4)), ((1, 1), (2, 2), (1, 2), (3, 1)), (4, 7)
        )
    ]
    return [*square, *others, depthwise(9, dilation=2), depthwise(9, (3, 5), (2, 1), dilation=2, padding="VALID")]


@pytest.mark.slow
@over_builds
def test_depthwise_convolutions_with_planes_compute_what_tflm_computes(
    flags: tuple[str, ...], driver: Literal["run", "bands"]
) -> None:
    trials = [prepare(model, samples=2) for model in depthwises()]
    steps = [step for trial in trials for step in trial.program.steps]
    tiled = [step for step in steps if step.kernel == "edgetool_depthwise_tiled_s8"]
    others = {step.kernel for step in steps if step not in tiled}
    assert others == {LISTED, FEW, "edgetool_depthwise_3x3_s8"}
    assert {(step.band > 1, _fields(step)["is_3x3"]) for step in tiled} >= {(True, 1), (True, 0), (False, 0)}
    assert compare_all(trials, Build(driver=driver, flags=flags)) == [None] * len(trials)


# The activation, scale and zero point of outputs: a range that ends below 127, one that starts at 3, one that is whole
# but has codes on both sides of its zero point, and one with scales above one half.
RANGES = (("RELU6", 1.0, -100), ("RELU", 1.0, 3), ("NONE", 1.0, 3), ("NONE", 0.0005, 3))


def narrow_depthwises() -> list[Model]:
    """Return layers with other ranges of outputs, for all that four channels of the lean kernel and others can be."""
    kinds: list[dict[str, Any]] = [
        {"width": 9},
        {"width": 10, "channels": 5},
        {"width": 9, "taps": (5, 4)},
        {"width": 4, "taps": (2, 2), "channels": 7},
        {"width": 3, "channels": 2, "multiplier": 4},
        {"width": 5, "taps": (2, 1), "strides": (2, 1), "channels": 3, "multiplier": 3},
        {"width": 1, "channels": 9, "height": 1},
    ]
    return [
        depthwise(**values, fused=fused, scale=scale, code=code)
        for values, (fused, scale, code) in product(kinds, RANGES)
    ]


@over_builds
def test_depthwise_convolutions_of_any_range_compute_what_tflm_computes(
    flags: tuple[str, ...], driver: Literal["run", "bands"]
) -> None:
    trials = [prepare(model, samples=2, dsp=bool(flags)) for model in narrow_depthwises()]
    fields = [(step.kernel, _fields(step)) for trial in trials for step in trial.program.steps]
    for lean in (LISTED, FEW):
        assert {values["shift"] for kernel, values in fields if kernel == lean} > {DOUBLE_ROUNDING, SIGN}
    others = {kernel for kernel, values in fields if values["high"] < 127} - {LISTED, FEW}
    assert others >= ({"edgetool_depthwise_tiled_s8"} if flags else {"edgetool_depthwise_3x3_s8"})
    assert compare_all(trials, Build(driver=driver, flags=flags)) == [None] * len(trials)


@pytest.mark.parametrize(
    ("values", "dsp", "kernel"),
    [
        ({"width": 3, "channels": 1, "multiplier": 4}, True, FEW),
        ({"width": 3, "channels": 1, "multiplier": 4}, False, FEW),
        ({"width": 96, "height": 96, "strides": (2, 2), "channels": 1, "multiplier": 8}, True, TILED),
        ({"width": 96, "height": 96, "strides": (2, 2), "channels": 1, "multiplier": 8}, False, TILED),
        ({"width": 40, "channels": 2}, False, FEW),
        ({"width": 40, "channels": 2}, True, "edgetool_depthwise_tiled_s8"),
        ({"width": 3, "channels": 6, "strides": (3, 3)}, True, FEW),
        ({"width": 40, "channels": 66, "padding": "VALID"}, False, LISTED),
    ],
)
def test_few_channels_and_many_taps_outside_have_a_kernel_of_their_own(
    values: dict[str, Any], dsp: bool, kernel: str
) -> None:
    (step,) = _steps(depthwise(**values), dsp=dsp)
    assert step.kernel == kernel


@pytest.mark.slow
@pytest.mark.parametrize(("driver", "dsp"), [("bands", True), ("run", False)])
def test_taps_inside_the_input_are_all_that_few_channels_need(driver: Literal["run", "bands"], dsp: bool) -> None:
    sizes = product(
        (1, 2, 5), (1, 4), ((3, 3), (1, 2), (5, 4)), ((1, 1), (2, 3)), ((1, 3), (2, 1), (5, 1), (3, 4)), (1, 2)
    )
    models = [
        depthwise(width, taps, strides, channels=channels, multiplier=multiplier, height=height, dilation=dilation)
        for width, height, taps, strides, (channels, multiplier), dilation in sizes
    ]
    trials = [prepare(model, samples=1, dsp=dsp) for model in models]
    trials = [trial for trial in trials if trial.program.kernels == (FEW,)]
    assert len(trials) > 100
    assert compare_all(trials, Build(driver=driver)) == [None] * len(trials)


def test_depthwise_convolutions_have_planes_where_they_have_fewer_instructions() -> None:
    def kernel(*values: Any, dsp: bool = True, **others: Any) -> str:
        (step,) = _steps(depthwise(*values, **others), dsp=dsp)
        return step.kernel.removeprefix("edgetool_depthwise_")

    assert kernel(9) == kernel(9, (5, 5)) == "tiled_s8"
    assert kernel(9, dsp=False) == kernel(9, strides=(2, 2)) == kernel(2, height=2) == "3x3_s8"
    assert (kernel(9, channels=5), kernel(9, channels=5, dsp=False)) == ("tiled_s8", "few_s8")
    assert kernel(40, (5, 5), dsp=False, padding="VALID") == kernel(40, (1, 3), channels=40, multiplier=4) == "s8"
    assert kernel(9, (1, 3)) == kernel(1, (5, 1)) == "s8"


@pytest.mark.parametrize("flags", [(), DSP])
def test_windows_of_3_x_3_need_no_scratch_and_may_be_in_place(flags: tuple[str, ...]) -> None:
    models = [
        depthwise(width, strides=(stride, stride), channels=channels, padding=padding)
        for width, stride, padding in ((2, 1, "SAME"), (3, 2, "SAME"), (7, 1, "SAME"), (8, 2, "SAME"), (6, 1, "VALID"))
        for channels in (4, 7)
    ]
    trials = [
        prepare(model, 2, lean=True, place=partial(_further, by=by)) for model, by in product(models, (0, 1, 4, 6, 9))
    ]
    steps = [step for trial in trials for step in trial.program.steps]
    assert {(step.kernel, step.scratch_bytes) for step in steps} == {("edgetool_depthwise_3x3_s8", 0)}
    assert compare_all(trials, Build(flags=flags)) == [None] * len(trials)


@over_flags
def test_two_pixels_in_few_channels_are_computed_in_place(flags: tuple[str, ...]) -> None:
    models = []
    for width, depth, channels, stride in product((4, 7), (6, 8), (1, 2, 3, 5, 7), (1, 2)):
        net = Net()
        x = net.arena(1, 1, width * stride, depth, scale=1 / 16, zero_point=5)
        y = _conv(net, x, (channels, 1, 1, depth), (1, 1, width, channels), stride_w=stride)
        net.end_graph([x], [y])
        models.append(net.whole())
    trials = [prepare(model, 2, lean=True) for model in models]
    assert {step.kernel for trial in trials for step in trial.program.steps} == {LEAN}
    assert compare_all(trials, Build(flags=flags)) == [None] * len(trials)


def test_pixels_at_the_same_step_are_one_row_unless_rows_stay_apart() -> None:
    net = Net()
    x = net.arena(2, 6, 8, 4, scale=1 / 16)
    y = _conv(net, x, (16, 1, 1, 4), (2, 6, 4, 16), stride_w=2)
    net.end_graph([x], [y])
    for row_wise, rows in ((False, (1, 1, 48, 96, 2)), (True, (2, 6, 4, 8, 2))):
        (step,) = lower(net.whole(), row_wise=row_wise).steps
        fields = _fields(step)
        sizes = [fields[name] for name in ("output_width", "input_width", "stride_x")]
        assert (step.batches, step.rows, *sizes) == rows


def test_the_dilation_of_a_single_tap_is_none() -> None:
    net = Net()
    x = net.arena(1, 5, 6, 4, scale=1 / 16)
    y = _conv(net, x, (8, 3, 1, 4), (1, 5, 6, 8), dilation_w_factor=2, dilation_h_factor=2)
    net.end_graph([x], [y])
    (step,) = lower(net.whole()).steps
    assert (_fields(step)["dilation_x"], step.inputs[0].dilation) == (1, 2)


def layers_in_lanes() -> list[Model]:
    """Return layers for which channels are the lanes of vectors on cores with Helium."""
    kinds = ((2, (2, 2), 3), (2, (3, 3), 9), (3, (1, 2), 20), (1, (5, 5), 8), (4, (1, 1), 17))
    models = [depthwise(width, taps, channels=channels) for width, taps, channels in kinds]
    return [*models, depthwise(9, (5, 5), (1, 9), channels=12, fused="NONE", code=3, padding="VALID")]


@pytest.mark.parametrize("driver", ["run", "bands"])
def test_narrow_layers_have_channels_in_the_lanes_of_vectors(driver: Literal["run", "bands"]) -> None:
    trials = [prepare(model, 1, vector=True, row_wise=driver == "bands") for model in layers_in_lanes()]
    assert {step.kernel for trial in trials for step in trial.program.steps} == {"edgetool_depthwise_lanes_s8"}
    assert compare_all(trials, Build(driver=driver)) == [None] * len(trials)


def _further(program: NativeProgram, by: int) -> NativeMemory:
    """Return a layout with the output some bytes further in front of the input than it has to be."""
    problem = native_problem(program)
    (overlap,) = problem.overlaps
    start = 64 + max(0, overlap.min_distance)
    offsets = [0] * len(problem.buffers)
    offsets[overlap.first], offsets[overlap.second] = start + by, start - overlap.min_distance
    height = max(offset + buffer.size_bytes for offset, buffer in zip(offsets, problem.buffers, strict=True))
    return memory_of(program, problem, Layout(tuple(offsets), height, 0, "none"))


def test_smaller_sections_need_less_memory_and_compute_the_same() -> None:
    kinds = ((12, (3, 3), (1, 1), 8), (9, (5, 5), (1, 1), 8), (10, (7, 7), (2, 2), 8), (7, (4, 4), (2, 1), 8))
    # Rows of the last model are so large that a call computes one row, fewer than a group.
    kinds = (*kinds, (9, (5, 5), (1, 1), 400))
    trials, bands, groups, tiles = {}, [], [], []
    for width, taps, strides, channels in kinds:
        trial = prepare(depthwise(width, taps, strides, channels=channels), 1)
        programs = in_smaller_sections(trial.program)
        needs = []
        for program in programs:
            # The output is where the input begins to be free.
            memory = place_pair(program, Pair(0, below=False))
            trials[f"{taps}, {channels}, {len(needs)}"] = replace(trial, program=program, memory=memory)
            needs.append(memory.arena_bytes)
        bands.append([program.steps[0].band for program in programs])
        groups.append([_fields(program.steps[0])["groups"] for program in programs])
        tiles.append([_fields(program.steps[0])["tile"] for program in programs])
        assert needs == sorted(needs, reverse=True)
        assert len(set(needs)) == len(needs)
    # With strides of one row, groups are two rows.
    assert bands == [[11, 6, 4, 2, 2, 2], [6, 4, 2, 2, 2], [3, 2, 2], [6, 3, 2, 2], [1, 1, 1]]
    assert groups == [[6, 3, 2, 1, 1, 1], [3, 2, 1, 1, 1], [3, 2, 2], [6, 3, 2, 2], [1, 1, 1]]
    assert tiles == [[12, 12, 12, 12, 6, 4], [9, 9, 9, 6, 4], [5, 5, 4], [7, 7, 7, 4], [9, 6, 4]]
    assert differences(trials) == []


def test_smaller_sections_of_single_rows_have_a_group() -> None:
    program = lower(depthwise(14, (4, 4), channels=384))
    assert program.steps[0].band == 1
    smaller = [dict(item.steps[0].op.values) for item in in_smaller_sections(program)]
    assert [(fields["groups"], fields["tile"]) for fields in smaller] == [(1, 14), (1, 8), (1, 4)]


def _convolution(
    size: tuple[int, int, int, int, int, int], channels: tuple[int, int], scale: float, fused: str, groups: int = 1
) -> Model:
    """Return a convolution of (height, width, taps y, taps x, stride, dilation) and (input, output) channels."""
    height, width, taps_y, taps_x, stride, dilation = size
    net = Net()
    x = net.arena(2, height, width, channels[0], scale=1 / 16, zero_point=-5)
    shape = (2, -(-height // stride), -(-width // stride), channels[1])
    weights, bias = (
        net.filter(channels[1], taps_y, taps_x, channels[0] // groups, like=x),
        net.biases(channels[1], like=x),
    )
    values: dict[str, Any] = {"stride_h": stride, "stride_w": stride, "padding": "SAME"}
    values |= {"dilation_h_factor": dilation, "dilation_w_factor": dilation, "fused_activation_function": fused}
    y = net.op("CONV_2D", [x, weights, bias], *shape, scale=scale, zero_point=3 if fused == "NONE" else -128, **values)
    net.end_graph([x], [y])
    return net.whole()


SIZES = [(5, 9, 1, 1, 1, 1), (9, 11, 3, 3, 2, 1), (4, 14, 3, 3, 1, 1), (11, 10, 10, 4, 2, 1), (9, 9, 3, 3, 1, 2)]
FORMS = [(1.0, "NONE"), (1.0, "RELU"), (0.04, "RELU6"), (1 / 1024, "NONE")]


def convolutions() -> list[Model]:
    """Return layers of all sizes, numbers of channels and forms of scales that the kernel with scratch has."""
    return [
        _convolution(size, channels, scale, fused)
        for size, channels, (scale, fused) in product(SIZES, ((1, 2), (3, 5), (8, 6), (16, 1)), FORMS)
    ]


@pytest.mark.parametrize(("driver", "every"), [("run", 12), pytest.param("bands", 1, marks=pytest.mark.slow)])
def test_kernels_for_all_shapes_compute_what_tflm_computes(driver: Literal["run", "bands"], every: int) -> None:
    models = [*depthwises(), *convolutions()][::every]
    trials = [prepare(model, samples=1, row_wise=driver == "bands", plain=True) for model in models]
    kernels = {step.kernel for trial in trials for step in trial.program.steps}
    assert kernels == {"edgetool_conv2d_s8", "edgetool_depthwise_s8"}
    assert compare_all(trials, Build(driver=driver)) == [None] * len(trials)


@pytest.mark.slow
@over_builds
@pytest.mark.parametrize("lean", [False, True])
def test_convolutions_of_every_form_compute_what_tflm_computes(
    flags: tuple[str, ...], lean: bool, driver: Literal["run", "bands"]
) -> None:
    trials = [prepare(model, samples=1, row_wise=driver == "bands", lean=lean) for model in convolutions()]
    steps = [step for trial in trials for step in trial.program.steps]
    assert {step.kernel for step in steps} == {LEAN, *([] if lean else [TILED])}
    assert {_fields(step)["shift"] for step in steps} == {TILED_SHIFT, SIGN, DOUBLE_ROUNDING}
    assert {_fields(step)["high"] < 127 for step in steps} == {False, True}
    assert compare_all(trials, Build(driver=driver, flags=flags)) == [None] * len(trials)


def convolutions_of_many_products() -> list[Model]:
    """Return convolutions whose rows have kernels for two pixels at once."""
    kinds: list[tuple[tuple[int, int, int, int, int, int], tuple[int, int], int]] = [
        ((2, 5, 1, 1, 1, 1), (36, 64), 1),
        ((3, 6, 3, 3, 1, 1), (5, 48), 1),
        ((4, 7, 3, 3, 2, 1), (8, 32), 1),
        ((3, 5, 3, 3, 1, 2), (8, 128), 2),
        ((3, 4, 3, 3, 1, 1), (10, 96), 2),
    ]
    return [
        _convolution(size, channels, scale, fused, groups)
        for (size, channels, groups), (scale, fused) in product(kinds, (FORMS[0], FORMS[2], FORMS[3]))
    ]


@over_flags
def test_rows_of_many_products_have_two_pixels_at_once(flags: tuple[str, ...]) -> None:
    models = convolutions_of_many_products()
    trials = [prepare(model, samples=1, row_wise=True) for model in models]
    steps = [step for trial in trials for step in trial.program.steps]
    two = [step for step in steps if _fields(step).get("pixels") == 2]
    assert {_fields(step)["shift"] for step in two} == {TILED_SHIFT, SIGN}
    taps = [-(-step.inputs[0].taps * _fields(step)["taps_x"] * _fields(step)["depth"] // 4) for step in two]
    assert all(step.scratch_bytes >= 16 * count for step, count in zip(two, taps, strict=True))
    # Rows at any address: half of them are not at multiples of 4.
    apart = [
        prepare(model, 1, row_wise=True, place=partial(_further, by=by)) for model, by in product(models[:3], (1, 4))
    ]
    assert compare_all([*trials, *apart], Build(driver="bands", flags=flags)) == [None] * (len(trials) + len(apart))


@over_flags
def test_calls_without_scratch_compute_one_pixel_at_once(flags: tuple[str, ...]) -> None:
    trials = []
    for model in convolutions_of_many_products():
        trial = prepare(model, samples=1, row_wise=True)
        steps = tuple(
            replace(step, bare=frozenset(range(0, step.rows, 2))) if step.can_be_bare else step
            for step in trial.program.steps
        )
        if steps != trial.program.steps:
            trials.append(with_rows(replace(trial, program=replace(trial.program, steps=steps)), scattered_plan))
    assert len(trials) > 2
    for trial in trials:
        assert trial.rows is not None
        assert {offset == NO_SCRATCH for offsets in trial.rows[1].scratch for offset in offsets} == {False, True}
    assert compare_all(trials, Build(driver="rows", flags=flags)) == [None] * len(trials)


@over_builds
def test_grouped_convolutions_compute_what_tflm_computes(
    flags: tuple[str, ...], driver: Literal["run", "bands"]
) -> None:
    models = [
        _convolution(size, (groups * depth, groups * filters), scale, fused, groups)
        for size, (groups, depth, filters), (scale, fused) in product(
            SIZES, ((2, 4, 8), (3, 5, 1), (4, 1, 5)), (FORMS[1], FORMS[3])
        )
    ]
    trials = [prepare(model, samples=1, row_wise=driver == "bands") for model in models]
    kernels = {step.kernel for trial in trials for step in trial.program.steps}
    assert kernels == ({TILED} if driver == "run" else {TILED, LEAN})
    assert compare_all(trials, Build(driver=driver, flags=flags)) == [None] * len(trials)


@over_flags
def test_groups_of_one_input_have_the_kernels_of_depthwise_convolutions(flags: tuple[str, ...]) -> None:
    models = [
        _convolution(size, (3, 3 * multiplier), scale, fused, 3)
        for size, multiplier, (scale, fused) in product(SIZES[1:4], (1, 2, 3, 4, 8), (FORMS[1], FORMS[3]))
    ]
    trials = [prepare(model, samples=1, dsp=bool(flags)) for model in models]
    assert all("depthwise" in step.kernel for trial in trials for step in trial.program.steps)
    assert compare_all(trials, Build(flags=flags)) == [None] * len(trials)
    # Outputs of an input that are not in fours are slow.
    for multiplier in (5, 9):
        (step,) = _steps(_convolution((8, 8, 1, 1, 1, 1), (3, 3 * multiplier), 1.0, "NONE", 3))
        assert step.kernel == TILED


@over_flags
def test_a_single_channel_of_pointwise_convolutions_is_that_of_tflm(flags: tuple[str, ...]) -> None:
    models = [
        _convolution((3, 7, 1, 1, stride, 1), (depth, 1), scale, fused)
        for depth, stride, (scale, fused) in product((3, 4, 6, 11), (1, 2), FORMS)
    ]
    trials = [prepare(model, samples=1, dsp=bool(flags), lean=True) for model in models]
    assert {step.kernel for trial in trials for step in trial.program.steps} == {LEAN}
    assert compare_all(trials, Build(flags=flags)) == [None] * len(trials)


@pytest.mark.parametrize("driver", ["run", "bands"])
def test_pixels_compute_what_tflm_computes_with_scratch_and_without(driver: Literal["run", "bands"]) -> None:
    shapes = [((5, 7, 3, 3, 1, 1), (3, 9)), ((5, 7, 3, 4, 1, 1), (4, 9)), ((9, 7, 4, 3, 1, 2), (5, 12))]
    models = [_convolution(size, channels, 1.0, "NONE") for size, channels in shapes]
    trials = [prepare(model, samples=1, row_wise=driver == "bands", lean=True) for model in models]
    steps = [step for trial in trials for step in trial.program.steps]
    assert {step.kernel for step in steps} == {LEAN}
    assert [step.scratch_bytes for step in steps] == [0, 8 * 12 + 4, 60]
    assert compare_all(trials, Build(driver=driver)) == [None] * len(trials)


def test_few_pixels_and_few_channels_are_computed_without_groups_of_pixels() -> None:
    def kernel(width: int, channels: int, filters: int, *, row_wise: bool = True, groups: int = 1) -> str:
        model = _convolution((8, width, 1, 1, 1, 1), (channels, filters), 1.0, "NONE", groups)
        return _steps(model, row_wise=row_wise)[0].kernel

    assert [kernel(width, 8, 8) for width in range(1, 9)] == [LEAN] * 3 + [TILED] + [LEAN] * 2 + [TILED] * 2
    assert kernel(3, 8, 8, row_wise=False) == TILED
    # Channels that do not fill blocks are slow: only one or two pixels are faster one by one.
    assert [kernel(width, 8, 7) for width in range(1, 9)] == [LEAN] * 2 + [TILED] * 6
    assert [kernel(3, 8, filters) for filters in (9, 12, 24)] == [LEAN, TILED, LEAN]
    assert [kernel(8, 12, filters) for filters in (1, 2, 3)] == [LEAN, LEAN, TILED]
    # Two pixels of groups are, too, with few such channels.
    assert [kernel(2, 8, 4 * filters, groups=4) for filters in (3, 7, 8, 15)] == [LEAN, TILED, LEAN, LEAN]


def test_calls_have_as_many_rows_as_fill_groups_of_pixels_best() -> None:
    def grouped(size: tuple[int, int], groups: int, channels: tuple[int, int]) -> tuple[str, int]:
        model = _convolution((*size, 1, 1, 1, 1), (groups * channels[0], groups * channels[1]), 1.0, "NONE", groups)
        (step,) = _steps(model)
        return step.kernel, step.band

    # Nine pixels are two groups and one, 15 are four groups, of which one lacks a pixel, and 28 are seven.
    assert grouped((3, 3), 5, (8, 6)) == (TILED, 3)
    assert grouped((3, 5), 5, (8, 6)) == (TILED, 3)
    assert grouped((8, 7), 5, (8, 6)) == (TILED, 4)
    assert grouped((6, 8), 5, (8, 6)) == (TILED, 1)


def test_pairs_of_weights_are_numbers_of_16_bits_with_sums_of_24_bits() -> None:
    weights, starts = np.array([[-1, 3], [-128, 5]], np.int8), np.zeros(2, np.int64)
    assert not fits_pairs(weights, starts)
    assert fits_pairs(weights[::-1], starts)
    weights = np.array([[1, 3], [127, 6]], np.int8)
    assert fits_pairs(weights, np.array([2**30, 2**23 - 1 - 127 * 133]))
    assert not fits_pairs(weights, np.array([0, 2**23 - 127 * 133]))
    assert paired_weights(weights, np.full((2, 3), 2**23), 1) is None


def test_blocks_have_eight_channels_and_then_pairs() -> None:
    flat = np.arange(11 * 5).reshape(11, 5).astype(np.int8)
    numbers = np.arange(11 * 3).reshape(11, 3) - 7
    data = paired_weights(flat, numbers, 1)
    assert data is not None
    words, channel = np.frombuffer(data, "<i4"), 0
    for size in (8, 2, 2):
        starts, both = words[:size].astype(np.int64), words[size : 3 * size].view("<i2").astype(int)
        ends, words = words[3 * size : 5 * size].reshape(-1, 2), words[5 * size :]
        for pair, (first, second) in enumerate(
            zip(range(channel, channel + size, 2), range(channel + 1, 13, 2), strict=False)
        ):
            # [tap / 4][pair / 2][tap % 2][pair % 2][tap / 2 % 2], of a last pair without pairs.
            parts = both.reshape(2, -1, 2, min(2, size // 2), 2)[:, pair // 2, :, pair % 2]
            taps = parts.swapaxes(1, 2).reshape(-1)[:5]
            low = taps.astype(np.int8)
            assert low.tolist() == flat[first].tolist()
            assert starts[2 * pair] == numbers[first, 0]
            assert ends[2 * pair].tolist() == numbers[first, 1:].tolist()
            if second < 11:
                assert ((taps - low) // 256).tolist() == flat[second].tolist()
                assert starts[2 * pair + 1] == numbers[first, 0] + 256 * numbers[second, 0]
        channel += size
    assert len(words) == 0


def test_more_groups_than_a_descriptor_can_have_get_the_lean_kernel() -> None:
    (step,) = _steps(_convolution(SIZES[0], (512, 256), 1.0, "NONE", 256))
    assert step.kernel == "edgetool_conv2d_s8"


@pytest.mark.parametrize("vector", [False, True])
def test_convolutions_have_no_taps_that_are_never_inside_the_input(vector: bool) -> None:
    (step,) = _steps(_convolution((2, 3, 7, 9, 1, 1), (4, 4), 1.0, "NONE"), vector=vector)
    assert [_fields(step)[name] for name in ("taps_y", "taps_x", "pad_x")] == [3, 5, 2]
    assert (step.inputs[0].taps, step.inputs[0].pad) == (3, 1)


@over_flags
def test_single_outputs_of_many_inputs_have_the_kernel_for_all_shapes(flags: tuple[str, ...]) -> None:
    models = [
        _convolution(size, channels, scale, "NONE")
        for size, channels, scale in product(
            ((9, 7, 3, 3, 2, 1), (3, 4, 5, 5, 1, 1)), ((11, 1), (18, 1)), (1.0, 1 / 1024)
        )
    ]
    trials = [prepare(model, samples=1, dsp=bool(flags)) for model in models]
    assert {trial.program.kernels for trial in trials} == {("edgetool_conv2d_s8",)}
    assert compare_all(trials, Build(flags=flags)) == [None] * len(trials)


@pytest.mark.parametrize("factor", [0, 1, 7, 12, 50, 63, 97, 100])
def test_the_first_multiple_within_an_interval(factor: int) -> None:
    for modulus, low, width in product((101, 128), range(0, 101, 3), (0, 1, 5, 40)):
        high = min(low + width, modulus - 1)
        expected = next((count for count in range(modulus) if low <= count * factor % modulus <= high), None)
        assert first_multiple(factor % modulus, modulus, low, high) == expected


def test_a_pad_in_front_becomes_the_padding_of_the_convolution() -> None:
    steps = _steps(_network(DType.INT8))
    assert [step.kernel for step in steps].count(FEW) == 2
    padded = steps[-2]
    assert (padded.inputs[0].rows, padded.inputs[0].pad, padded.inputs[0].taps) == (10, 1, 4)
    assert (_fields(padded)["pad_x"], _fields(padded)["input_width"]) == (3, 11)


def test_pixels_of_a_pointwise_convolution_are_one_row_unless_rows_stay_apart() -> None:
    (whole, *_), (rows, *_) = (list(reversed(_steps(_network(DType.INT8), row_wise=value))) for value in (False, True))
    assert (whole.rows, whole.batches, whole.row_bytes) == (1, 1, 2 * 10 * 12 * 9)
    assert (rows.rows, rows.batches, rows.row_bytes) == (10, 2, 12 * 9)
    assert [overlap.descending for overlap in whole.overlaps] == [False, True]
    assert [overlap.descending for overlap in rows.overlaps] == [False]


def test_int4_weights_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetool.codegen.native.convolution.fits_pairs", lambda *_: False)
    number = next(n for n in range(20) if _filter_elements(Case("CONV_2D", "int8-int4", n).model()) % 2)
    model = Case("CONV_2D", "int8-int4", number).model()
    weights = model.main.tensors[model.main.operators[0].inputs[1]]
    assert weights.data is not None
    nibbles = [nibble for byte in weights.data for nibble in (byte & 15, byte >> 4)][: weights.element_count]
    constant = _fields(_steps(model, lean=True)[0])["weights"]
    assert isinstance(constant, Constant)
    codes = np.frombuffer(constant.data, np.int8)[: weights.element_count]
    assert list(codes) == [nibble - 16 * (nibble > 7) for nibble in nibbles]


def _filter_elements(model: Model) -> int:
    return model.main.tensors[model.main.operators[0].inputs[1]].element_count


def _rows_of(row: RowInput, y: int) -> list[int]:
    """Return the rows that an output row needs, without those outside."""
    places = [(y * row.stride - row.pad + tap * row.dilation) // row.divisor for tap in range(row.taps)]
    return [place for place in places if 0 <= place < row.rows]


@pytest.mark.parametrize("number", range(30))
def test_a_transposed_convolution_has_every_row_that_reaches_an_output_row(number: int) -> None:
    model = Case("TRANSPOSE_CONV", "int8", number).model()
    (step,) = _steps(model)
    fields = _fields(step)
    taps, stride, pad = (fields[name] for name in ("taps_y", "stride_y", "pad_y"))
    row = step.inputs[0]
    assert row.taps == -(-taps // stride)
    for y in range(step.rows):
        reaching = [r for r in range(row.rows) if 0 <= y + pad - r * stride < taps]
        assert set(reaching) <= set(_rows_of(row, y))


def test_a_bias_of_32_bits_makes_the_sums_of_int16_convolutions_narrow() -> None:
    models = [Case("CONV_2D", "int16", number).model() for number in range(40)]
    seen = set()
    for model in models:
        operator = model.main.operators[0]
        index = operator.inputs[2] if len(operator.inputs) > 2 else -1
        bias = None if index < 0 else model.main.tensors[index].dtype
        shift = _fields(_steps(model)[0])["shift"]
        assert (shift == WIDE) == (bias is not DType.INT32)
        seen.add(bias)
    assert seen == {None, DType.INT32, DType.INT64}


@pytest.mark.parametrize("code", ["CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"])
def test_float32_is_refused(code: str) -> None:
    with pytest.raises(UnsupportedModelError, match="FLOAT32 with weights of FLOAT32 is not supported"):
        lower(Case(code, "float32", 0).model())


def _single() -> Model:
    net = Net()
    x = net.arena(1, 4, 4, 3)
    y = _conv(net, x, (8, 3, 3, 3), (1, 4, 4, 8))
    net.end_graph([x], [y])
    return net.whole()


def test_weights_that_the_model_computes_are_refused() -> None:
    model = _single()
    with pytest.raises(UnsupportedModelError, match="input 1 is not constant"):
        lower(_with_tensor(model, model.main.operators[0].inputs[1], data=None))


def test_sums_beyond_32_bits_are_refused() -> None:
    model = _single()
    bias = np.full(8, 2**31 - 1, "<i4").tobytes()
    with pytest.raises(UnsupportedModelError, match="its sums may exceed 32 bits"):
        lower(_with_tensor(model, model.main.operators[0].inputs[2], data=bias))


def test_a_bias_of_another_size_is_refused() -> None:
    model = _single()
    index = model.main.operators[0].inputs[2]
    with pytest.raises(UnsupportedModelError, match="not one number for each channel"):
        lower(_with_tensor(model, index, data=bytes(16), shape=(4,)))


def _wide(code: str, height: int, width: int) -> Model:
    """Return a convolution of an image of this size: pointwise, or with taps along rows or the only column."""
    net = Net(seed=2)
    x = net.arena(1, height, width, 1 if code == "CONV_2D" else 2, zero_point=3)
    if code == "CONV_2D":
        return net.model([x], [_conv(net, x, (3, 1, 1, 1), (1, height, width, 3))])
    values: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "depth_multiplier": 1, "padding": "SAME"}
    taps = (1, 5) if width > 1 else (9, 1)
    y = net.op(code, [x, net.filter(1, *taps, 2, like=x, axis=3)], 1, height, width, 2, scale=64.0, **values)
    return net.model([x], [y])


LEAST_WIDE = 2**16
WIDTHS = {
    ("CONV_2D", 1, LEAST_WIDE - 1): ("tiled", 1),
    ("CONV_2D", 255, 257): ("tiled", 1),
    ("CONV_2D", 256, 256): ("tiled", 256),
    ("CONV_2D", 1, LEAST_WIDE): ("", 1),
    ("DEPTHWISE_CONV_2D", 1, LEAST_WIDE - 1): ("tiled", 1),
    ("DEPTHWISE_CONV_2D", 1, LEAST_WIDE): ("few", 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("vector", [False, True])
def test_images_that_are_too_wide_for_a_tuned_kernel_have_another_one(vector: bool) -> None:
    trials = {}
    for (code, height, width), (kind, rows) in WIDTHS.items():
        trial = prepare(_wide(code, height, width), 1, vector=vector)
        (step,) = trial.program.steps
        name = "conv2d" if code == "CONV_2D" else "depthwise"
        variant = f"{'vector' if vector and kind == 'tiled' else kind}_" if kind else ""
        assert (step.kernel, step.rows) == (f"edgetool_{name}_{variant}s8", rows)
        trials[f"{code} {height} x {width}"] = trial
    assert differences(trials) == []


def test_a_tall_image_of_one_column_is_not_a_row_that_is_too_wide() -> None:
    for height, rows, kind in ((LEAST_WIDE - 1, 1, "vector"), (LEAST_WIDE, LEAST_WIDE, "lanes")):
        (step,) = lower(_wide("DEPTHWISE_CONV_2D", height, 1), vector=True).steps
        assert (step.kernel, step.rows) == (f"edgetool_depthwise_{kind}_s8", rows)


@pytest.mark.parametrize(
    ("taps_y", "taps_x", "fits"), [(8, 40, True), (8, 53, False), (9, 3, False), (300, 300, False)]
)
def test_the_taps_of_a_layer_with_planes_are_few(taps_y: int, taps_x: int, fits: bool) -> None:
    window = Window(1, 9, 400, 4, 9, 400, 4, taps_y=taps_y, taps_x=taps_x, stride_y=2)
    assert (DepthwiseTiling.of(window, row_wise=False, is_3x3=False) is not None) is fits
