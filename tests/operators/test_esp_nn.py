"""ESP-NN: scratch sizes against those of its functions, and what its kernels write against what they wrote."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from benchmarks.kernels.cases import Case
from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.model.types import DType, Model, Operator, OptionValue, Quantization, Tensor
from edgetool.operators import esp_nn
from edgetool.operators.call import KernelRefusal
from edgetool.operators.cmsis_nn import Convolution
from edgetool.operators.convolution import window_pads
from edgetool.operators.entry import KernelFault
from edgetool.operators.legality import kernel_faults
from edgetool.operators.registry import OPERATORS
from edgetool.target.load import list_runtimes, load_runtime
from edgetool.target.platform import Platform
from edgetool.target.types import EspNN, EspNNVariant
from tests.graphs import graph, model, operator
from tests.operators.builds import REFERENCE, esp_nn_build
from tests.operators.layers import asked, kept

MEASURED = Path(__file__).parents[2] / "benchmarks" / "kernels" / "measured" / "esp_nn.csv"
VARIANTS: tuple[EspNNVariant, ...] = get_args(EspNNVariant)
OLD, NEW = (1, 1, 2), (1, 2, 3)
FUNCTIONS = ("conv", "depthwise")
VERSIONS = ((1, 0, 0), (1, 1, 0), (1, 1, 2), (1, 2, 0), (1, 2, 1), (1, 2, 2), (1, 2, 3))
FAULTS: list[tuple[str, KernelFault]] = [
    (code, fault) for code, entry in OPERATORS.items() for fault in entry.faults if fault.kernels == ("esp-nn",)
]


@dataclass(frozen=True)
class Row:
    """One measured shape: the bytes that the size function returned and that the kernel wrote, by version."""

    function: str
    variant: EspNNVariant
    convolution: Convolution
    sizes: dict[str, int]
    written: dict[str, int]


@cache
def measured() -> tuple[Row, ...]:
    lines = [line for line in MEASURED.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return tuple(map(read_row, csv.DictReader(lines)))


def read_row(line: dict[str, str]) -> Row:
    fields = ("in_height", "in_width", "in_channels", "out_height", "out_width", "out_channels")
    fields += ("kernel_height", "kernel_width", "stride_height", "stride_width", "pad_height", "pad_width")
    shape = {name: int(line[name]) for name in fields}
    written = {key.removeprefix("written "): int(value) for key, value in line.items() if key[0] == "w" and value}
    variant = next(known for known in VARIANTS if known == line["chip"])
    convolution = Convolution(batch=1, kernel_channels=shape["in_channels"], **shape)
    return Row(
        line["function"],
        variant,
        convolution,
        {key: int(line[key]) for key in line if key[0].isdigit()},
        {version: size for version, size in written.items() if size >= 0},
    )


def build(text: str, variant: EspNNVariant) -> EspNN:
    major, minor, patch = text.partition("-")[0].split(".")
    return EspNN((int(major), int(minor), int(patch)), variant)


def size_of(row: Row, version: str) -> int:
    library = build(version, row.variant)
    if row.function == "softmax":
        return esp_nn.softmax_scratch(row.convolution.in_width, library)
    size = esp_nn.conv_scratch if row.function == "conv" else esp_nn.depthwise_scratch
    return size(row.convolution, library)


def test_every_function_and_chip_was_measured_in_every_version() -> None:
    assert {(row.function, row.variant) for row in measured()} == {*product(("conv", "depthwise", "softmax"), VARIANTS)}
    assert {len(row.sizes) for row in measured()} == {11}
    assert sum(row.function == "depthwise" and row.variant == "esp32s3" for row in measured()) == 300


def test_sizes_are_those_of_the_size_functions() -> None:
    different = [
        (row.function, row.variant, version, row.convolution)
        for row in measured()
        for version, size in row.sizes.items()
        if size_of(row, version) != size
    ]
    assert different == []


def test_depthwise_kernels_write_what_they_wrote() -> None:
    rows = [row for row in measured() if row.function == "depthwise"]
    different = [
        (version, row.convolution)
        for row in rows
        for version, size in row.written.items()
        if esp_nn.depthwise_written(row.convolution, build(version, row.variant)) != size
    ]
    assert different == []
    overrun = {version for row in rows for version, size in row.written.items() if size > row.sizes[version]}
    assert overrun == {"1.1.2", "1.2.0", "1.2.1", "1.2.3"}


def test_convolutions_that_wrote_beyond_their_buffer_are_predicted() -> None:
    overrun = set()
    for row in measured():
        for version, size in row.written.items() if row.function == "conv" else ():
            written = esp_nn.conv_written(row.convolution, build(version, row.variant))
            assert (written > row.sizes[version]) == (size > row.sizes[version])
            if size > row.sizes[version]:
                assert written == size
                overrun.add((row.variant, version))
    assert overrun == {("esp32p4", "1.2.3")}


def int8(*shape: int) -> Tensor:
    return Tensor(-1, "", shape, DType.INT8, None, Quantization((1 / 16,), (0,), 0), False)


def convolution(code: str, image: tuple[int, ...], window: tuple[int, ...], outputs: int, strides: int) -> Model:
    """A model of a convolution with SAME padding: an image (rows, columns, channels) and a window."""
    rows, columns = (-(-side // strides) for side in image[:2])
    weights = (outputs, *window, image[2]) if code == "CONV_2D" else (1, *window, outputs)
    tensors = [int8(1, *image), int8(*weights), int8(1, rows, columns, outputs)]
    options: dict[str, OptionValue] = {
        "padding": "SAME",
        "stride_h": strides,
        "stride_w": strides,
        "dilation_h_factor": 1,
    }
    options |= {"dilation_w_factor": 1, "fused_activation_function": "NONE", "depth_multiplier": 1}
    made = operator(0, code, [0, 1], [2], "Options", **options)
    numbered = [
        Tensor(i, f"t{i}", one.shape, one.dtype, None, one.quantization, False) for i, one in enumerate(tensors)
    ]
    return model(graph(numbered, [made], [0], [2]))


def faults(made: Model, platform: Platform) -> set[str]:
    return {fault.name for _, _, fault in kernel_faults(made, platform)}


@pytest.mark.parametrize("image", [(49, 20, 32), (25, 10, 64)])
def test_the_published_overruns_are_reported(image: tuple[int, int, int]) -> None:
    """Layers of a DS-CNN, published with the correction of the size function."""
    made = convolution("DEPTHWISE_CONV_2D", image, (3, 3), image[2], 2)
    assert faults(made, esp_nn_build(NEW, "esp32s3")) == {"esp-depthwise-scratch"}
    assert faults(made, esp_nn_build(NEW, "generic")) == set()
    assert faults(made, REFERENCE) == set()


def test_the_published_sizes_of_an_overrun() -> None:
    shape = Convolution(1, 49, 20, 32, 25, 10, 32, 3, 3, 1, 2, 2, pad_height=1, pad_width=0)
    library = EspNN(NEW, "esp32s3")
    assert esp_nn.depthwise_scratch(shape, library) == 32_944
    assert esp_nn.depthwise_written(shape, library) == 44_912


def unequal_overruns(channels: int) -> tuple[int, int]:
    """The 3x3 windows with SAME padding on images of 8 to 64 pixels, and how many with unequal pads overrun."""
    count = overruns = 0
    for height, width, stride in product(range(8, 65), range(8, 65), (1, 2)):
        pads = window_pads("SAME", (height, width), (3, 3), (stride, stride), (1, 1))
        outputs = -(-height // stride), -(-width // stride)
        sizes = (height, width, channels, *outputs, channels, 3, 3, 1, stride, stride)
        shape = Convolution(1, *sizes, pad_height=pads[0], pad_width=pads[1])
        library = EspNN(NEW, "esp32s3")
        overruns += pads[0] != pads[1] and depthwise_overruns(shape, library)
        count += 1
    return count, overruns


def conv_overruns(shape: Convolution, library: EspNN) -> bool:
    return esp_nn.conv_written(shape, library) > esp_nn.conv_scratch(shape, library)


def depthwise_overruns(shape: Convolution, library: EspNN) -> bool:
    return esp_nn.depthwise_written(shape, library) > esp_nn.depthwise_scratch(shape, library)


def test_a_quarter_of_the_published_sweep_overruns() -> None:
    assert unequal_overruns(16) == (103_968 // 16, 25_984 // 16)


@pytest.mark.slow
def test_the_overruns_of_the_published_sweep() -> None:
    """The sweep was published by its counts; these sizes and multiples of 16 channels have the same."""
    counts = [unequal_overruns(channels) for channels in range(16, 257, 16)]
    assert (sum(count for count, _ in counts), sum(overruns for _, overruns in counts)) == (103_968, 25_984)


@pytest.mark.parametrize("version", [(1, 2, 1), (1, 2, 2), (1, 2, 3)])
def test_3x3_windows_overrun_if_the_padding_is_unequal_or_a_large_input_is_padded_at_its_end_only(
    version: tuple[int, int, int],
) -> None:
    seen = set()
    for height, width, channels, stride in product((7, 8, 33, 64), (7, 8, 33, 64), (16, 24, 32), (1, 2)):
        pads = window_pads("SAME", (height, width), (3, 3), (stride, stride), (1, 1))
        whole = (height + 2) * (width + 2) * channels
        unequal = pads[0] != pads[1]
        expected = channels % 16 == 0 and (unequal or (pads == (0, 0) and whole > 40 * 1024))
        seen.add((unequal, expected))
        made = convolution("DEPTHWISE_CONV_2D", (height, width, channels), (3, 3), channels, stride)
        assert bool(faults(made, esp_nn_build(version, "esp32s3"))) == expected
    assert seen == {(False, False), (False, True), (True, False), (True, True)}


@pytest.mark.parametrize(("code", "fault"), FAULTS, ids=[fault.name for _, fault in FAULTS])
def test_a_model_on_either_side_of_each_condition(code: str, fault: KernelFault) -> None:
    assert fault.kernels == ("esp-nn",)
    for text, expected in ((fault.wrong, True), (fault.right, False)):
        kind, _, number = text.partition("/")
        made = Case(code, kind, int(number)).model()
        seen = [fault.name in faults(made, esp_nn_build(*each)) for each in product(VERSIONS, VARIANTS)]
        assert any(seen) == expected
        assert fault.name not in faults(made, REFERENCE)


# An image of 8x8x16 and a window of 3x3, in groups of 8 channels; strides of 2 pad only the end of the image.
GROUPED = Convolution(1, 8, 8, 16, 4, 4, 16, 3, 3, 8, 2, 2)
WHOLE = replace(GROUPED, kernel_channels=16)
POINTWISE = replace(
    GROUPED, kernel_height=1, kernel_width=1, stride_height=1, stride_width=1, out_height=8, out_width=8
)


def test_groups_are_ignored_by_old_versions_and_if_tflm_does_not_pass_the_channels_of_the_filter() -> None:
    for variant in VARIANTS:
        assert esp_nn.ignores_groups(GROUPED, EspNN((1, 2, 2), variant))
        assert esp_nn.ignores_groups(GROUPED, EspNN(NEW, variant, filter_channels=False))
        assert not esp_nn.ignores_groups(WHOLE, EspNN((1, 2, 2), variant))
        assert not esp_nn.ignores_groups(GROUPED, EspNN(NEW, variant))
        assert esp_nn.ignores_groups(POINTWISE, EspNN(NEW, variant)) == (variant in ("generic", "esp32p4"))
    padded = replace(GROUPED, pad_height=1, pad_width=1)
    assert [esp_nn.ignores_groups(padded, EspNN(NEW, variant)) for variant in VARIANTS] == [False, False, False, True]


def test_the_end_of_an_image_is_padded_in_new_versions_unless_its_beginning_is_too() -> None:
    def misread(version: tuple[int, int, int], variant: EspNNVariant, c: Convolution = WHOLE) -> bool:
        return esp_nn.misreads_padding(c, EspNN(version, variant))

    assert misread((1, 2, 0), "esp32s3")
    assert not misread((1, 2, 1), "esp32s3")
    assert misread((1, 1, 0), "esp32p4")
    assert not misread((1, 1, 2), "esp32p4")
    assert not misread((1, 0, 2), "esp32p4")  # generic kernels
    uneven = replace(WHOLE, in_height=9, out_height=5, pad_height=1)
    assert misread(NEW, "esp32s3", uneven)
    assert not misread(NEW, "esp32p4", uneven)
    assert not misread(NEW, "esp32s3", replace(uneven, in_channels=3, kernel_channels=3))  # copies whole windows
    assert not esp_nn.misreads_padding(uneven, EspNN(NEW, "esp32s3", filter_channels=False))
    two = replace(WHOLE, kernel_height=2, kernel_width=2, stride_height=1, stride_width=1, out_height=8, out_width=8)
    assert misread(NEW, "esp32p4", two)
    for variant in VARIANTS[:2]:
        assert not any(misread(version, variant, shape) for version in VERSIONS for shape in (WHOLE, uneven, two))


def test_operators_that_esp_nn_lacks_have_the_faults_of_the_reference_kernels() -> None:
    models = (Case("SPACE_TO_BATCH_ND", "int8", number).model() for number in range(40))
    found = [faults(made, REFERENCE) for made in models if faults(made, REFERENCE)]
    assert found == [{"space-to-batch-padding"}] * len(found)
    assert len(found) > 5
    for number in range(40):
        made = Case("SPACE_TO_BATCH_ND", "int8", number).model()
        assert faults(made, esp_nn_build(NEW, "esp32s3")) == faults(made, REFERENCE)


def test_a_softmax_over_more_elements_than_the_second_dimension_overruns() -> None:
    for shape, overruns in (((1, 10), False), ((10, 1), False), ((1, 1, 1, 10), True), ((1, 10, 10), False)):
        made = model(graph([softmax_tensor(0, shape), softmax_tensor(1, shape)], [softmax()], [0], [1]))
        for variant in VARIANTS:
            expected = overruns and variant != "ansi"
            assert faults(made, esp_nn_build(NEW, variant)) == ({"esp-softmax-scratch"} if expected else set())


def softmax_tensor(index: int, shape: tuple[int, ...]) -> Tensor:
    quantization = Quantization((1 / 256,), (-128,), 0) if index else Quantization((1 / 16,), (0,), 0)
    return Tensor(index, f"t{index}", shape, DType.INT8, None, quantization, False)


def softmax() -> Operator:
    return operator(0, "SOFTMAX", [0], [1], "SoftmaxOptions", beta=1.0)


CONV_OPTIONS: dict[str, OptionValue] = {
    "padding": "VALID",
    "stride_h": 3,
    "stride_w": 1,
    "dilation_h_factor": 1,
    "dilation_w_factor": 1,
}


def first_layer(version: tuple[int, int, int], variant: EspNNVariant) -> list[tuple[str, int]]:
    """The scratch of the first layer of a streaming wake word: 5 new rows of 40 features, 32 filters."""
    inputs = [int8(1, 5, 1, 40), int8(32, 5, 1, 40)]
    requests = asked("CONV_2D", inputs, int8(1, 1, 1, 32), esp_nn_build(version, variant), **CONV_OPTIONS)
    return [request for request in kept(requests) if request[0] == "scratch"]


def test_a_convolution_requests_scratch_by_version_and_chip() -> None:
    assert first_layer(OLD, "esp32s3") == [("scratch", 7_840)]
    assert first_layer((1, 2, 1), "esp32s3") == [("scratch", 15_800)]
    assert first_layer(NEW, "esp32s3") == [("scratch", 15_832)]
    assert first_layer(NEW, "esp32p4") == [("scratch", 7_840)]
    assert first_layer((1, 0, 2), "esp32p4") == first_layer(NEW, "generic") == first_layer(NEW, "ansi") == []


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("variant", ["esp32s3", "esp32p4"])
@given(st.lists(st.integers(0, 20), min_size=6, max_size=6), st.integers(0, 2), st.sampled_from(["SAME", "VALID"]))
def test_every_shape_has_a_size_or_is_refused(
    version: tuple[int, int, int], variant: EspNNVariant, sides: list[int], stride: int, padding: str
) -> None:
    height, width, channels, outputs, rows, columns = sides
    options = {**CONV_OPTIONS, "stride_h": stride, "stride_w": stride, "padding": padding, "depth_multiplier": stride}
    for code, weights in (
        ("CONV_2D", int8(outputs, rows, columns, channels)),
        ("DEPTHWISE_CONV_2D", int8(1, rows, columns, channels)),
    ):
        operands = [int8(1, height, width, channels), weights]
        try:
            requests = asked(
                code,
                operands,
                int8(1, height, width, weights.shape[0 if code == "CONV_2D" else 3]),
                esp_nn_build(version, variant),
                **options,
            )
        except KernelRefusal:
            assert 0 in (*sides, stride)
        else:
            assert all(size > 0 for kind, size in kept(requests) if kind == "scratch")


def wake_word() -> Model:
    """A streaming wake word: a convolution of the new rows, and depthwise ones over the past of each channel."""
    shapes: list[tuple[int, ...]] = [(1, 5, 1, 40), (32, 5, 1, 40), (1, 1, 1, 32)]
    shapes += [(1, 23, 1, 64), (1, 23, 1, 64), (1, 1, 1, 64), (64, 1, 1, 64), (1, 1, 1, 64)]
    tensors = [
        Tensor(i, f"t{i}", shape, DType.INT8, None, Quantization((1 / 16,), (0,), 0), False)
        for i, shape in enumerate(shapes)
    ]
    depthwise = {**CONV_OPTIONS, "stride_h": 1, "depth_multiplier": 1, "fused_activation_function": "NONE"}
    operators = [
        operator(0, "CONV_2D", [0, 1], [2], "Options", **CONV_OPTIONS, fused_activation_function="RELU"),
        operator(1, "DEPTHWISE_CONV_2D", [3, 4], [5], "Options", **depthwise),
        operator(2, "CONV_2D", [5, 6], [7], "Options", **{**CONV_OPTIONS, "stride_h": 1}),
    ]
    return model(graph(tensors, operators, [0, 3], [2, 7]))


def arena_bytes(version: tuple[int, int, int], variant: EspNNVariant) -> int:
    return plan_memory(wake_word(), esp_nn_build(version, variant), PlanRequest(file_plan="only")).account.bytes


def test_the_release_of_april_2026_needs_a_larger_arena_for_a_wake_word_on_the_esp32_s3_only() -> None:
    assert arena_bytes((1, 2, 0), "esp32s3") == arena_bytes(OLD, "esp32s3")
    assert arena_bytes((1, 2, 1), "esp32s3") - arena_bytes((1, 2, 0), "esp32s3") == 7_968
    for variant in ("esp32p4", "generic", "ansi"):
        assert arena_bytes((1, 2, 1), variant) == arena_bytes(OLD, variant)


@pytest.mark.parametrize("name", [name for name in list_runtimes() if load_runtime(name).esp_nn is not None])
def test_a_runtime_lists_the_faults_that_its_version_has(name: str) -> None:
    library = load_runtime(name).esp_nn
    assert library is not None
    builds = [EspNN(library.version, variant, library.filter_channels) for variant in VARIANTS]
    shapes = {function: [row.convolution for row in measured() if row.function == function] for function in FUNCTIONS}
    grouped = [replace(shape, kernel_channels=1) for shape in shapes["conv"] if shape.in_channels > 1]
    found = {
        "esp-conv-padding": any(esp_nn.misreads_padding(*each) for each in product(shapes["conv"], builds)),
        "esp-conv-scratch": any(conv_overruns(*each) for each in product(shapes["conv"], builds)),
        "esp-depthwise-scratch": any(depthwise_overruns(*each) for each in product(shapes["depthwise"], builds)),
        "esp-grouped-conv": any(esp_nn.ignores_groups(*each) for each in product(grouped, builds)),
        "esp-softmax-scratch": True,
    }
    assert {*library.faults} - {"esp-dense-per-channel"} == {fault for fault, has in found.items() if has}
