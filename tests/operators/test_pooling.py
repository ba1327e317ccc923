"""Prepare and loop counts of pooling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.operators.loops import LoopCounts
from edgetool.target.platform import Platform
from tests.memory.account_net import Net
from tests.operators.builds import BUILDS, DSP, MVE, PLAIN, REFERENCE
from tests.operators.calls import tensor
from tests.operators.layers import asked, kept, looked_at
from tests.operators.runs import FLOAT32, INT8, INT16, run

IMAGE, POOLED = tensor(2, 8, 8, 3, scale=0.5), tensor(2, 4, 4, 3, scale=0.5)
FLOAT_IMAGE, FLOAT_POOLED = (replace(one, dtype=DType.FLOAT32, quantization=None) for one in (IMAGE, POOLED))
WINDOW = {"padding": "VALID", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}


@pytest.mark.parametrize("build", BUILDS)
def test_maximum_requests_each_tensor_once_and_keeps_nothing(build: Platform) -> None:
    requests = asked("MAX_POOL_2D", [IMAGE], POOLED, build)
    assert (looked_at(requests), kept(requests)) == ([0, 1], [])


def test_average_of_cmsis_nn_requests_tensors_twice() -> None:
    assert looked_at(asked("AVERAGE_POOL_2D", [IMAGE], POOLED)) == [0, 1]
    for build in (PLAIN, DSP, MVE):
        assert looked_at(asked("AVERAGE_POOL_2D", [FLOAT_IMAGE], FLOAT_POOLED, build)) == [0, 1, 0, 1]


@pytest.mark.parametrize("kind", [DType.INT8, DType.INT16])
def test_average_accumulates_in_scratch_with_the_dsp_extension_only(kind: DType) -> None:
    image, pooled = (replace(one, dtype=kind) for one in (IMAGE, POOLED))
    assert kept(asked("AVERAGE_POOL_2D", [image], pooled, DSP)) == [("scratch", 12)]  # an int32 for each channel
    for build in (REFERENCE, PLAIN, MVE):
        assert kept(asked("AVERAGE_POOL_2D", [image], pooled, build)) == []


def test_average_of_floats_needs_no_scratch() -> None:
    assert kept(asked("AVERAGE_POOL_2D", [FLOAT_IMAGE], FLOAT_POOLED, DSP)) == []


@pytest.mark.parametrize("code", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize(
    ("output", "why"),
    [
        (tensor(2, 4, 4, 3, scale=0.25), "quantized like the input"),
        (tensor(2, 4, 4, 3, scale=0.5, zero_point=1), "quantized like the input"),
    ],
)
def test_pooling_refuses_to_rescale(code: str, output: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        asked(code, [IMAGE], output)


def test_pooling_takes_a_scale_within_a_millionth() -> None:
    assert asked("MAX_POOL_2D", [IMAGE], tensor(2, 4, 4, 3, scale=0.5 + 2**-20))  # 0.95e-6
    with pytest.raises(KernelRefusal, match="quantized like the input"):
        asked("MAX_POOL_2D", [IMAGE], tensor(2, 4, 4, 3, scale=0.5 + 2**-19))  # 1.9e-6


@pytest.mark.parametrize("code", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_pooling_refuses_uint8(code: str) -> None:
    with pytest.raises(KernelRefusal, match="not uint8"):
        asked(code, [replace(IMAGE, dtype=DType.UINT8)], replace(POOLED, dtype=DType.UINT8))


def test_l2_pooling_requests_the_output_first_and_copies_its_dimensions() -> None:
    requests = asked("L2_POOL_2D", [FLOAT_IMAGE], FLOAT_POOLED, **WINDOW)
    assert (looked_at(requests), kept(requests)) == ([1, 0], [("persistent", 20)])  # a TfLiteIntArray of 4


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"stride_w": 0}, "cannot produce an output"),
        ({"filter_height": 9}, "cannot produce an output"),
    ],
)
def test_l2_pooling_refuses_an_empty_output(changed: dict[str, str | int], why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        asked("L2_POOL_2D", [FLOAT_IMAGE], FLOAT_POOLED, **{**WINDOW, **changed})


def test_l2_pooling_refuses_what_is_quantized() -> None:
    with pytest.raises(KernelRefusal, match="float32, not int8"):
        asked("L2_POOL_2D", [IMAGE], POOLED, **WINDOW)


SIDES = st.integers(1, 9)


def pool(
    code: str,
    shape: tuple[int, int, int, int],
    window: tuple[int, int],
    stride: tuple[int, int],
    padding: str,
    *,
    dtype: DType = INT8,
    platform: Platform = REFERENCE,
) -> LoopCounts:
    net = Net(1)
    x = net.arena(*shape, dtype=dtype)
    made = [
        -(-(size - (of - 1 if padding == "VALID" else 0)) // by)
        for size, of, by in zip(shape[1:3], window, stride, strict=True)
    ]
    values: dict[str, Any] = dict(
        zip(("filter_height", "filter_width", "stride_h", "stride_w"), (*window, *stride), strict=True)
    )
    y = net.op(code, [x], shape[0], *made, shape[3], padding=padding, **values)
    return run(net.model([x], [y]), platform)


def walked(shape: tuple[int, int, int, int], window: tuple[int, int], stride: tuple[int, int]) -> tuple[int, int]:
    """The rows and pixels under all windows of a pooling with the padding SAME, one by one."""
    batches, height, width, _ = shape
    rows = pixels = 0
    made = [-(-size // by) for size, by in zip((height, width), stride, strict=True)]
    before = [
        max((number - 1) * by + of - size, 0) // 2
        for number, by, of, size in zip(made, stride, window, (height, width), strict=True)
    ]
    for y in range(made[0]):
        for x in range(made[1]):
            for row in range(window[0]):
                if 0 <= y * stride[0] - before[0] + row < height:
                    rows += 1
                    pixels += sum(0 <= x * stride[1] - before[1] + column < width for column in range(window[1]))
    return batches * rows, batches * pixels


@given(
    shape=st.tuples(st.integers(1, 2), SIDES, SIDES, st.integers(1, 6)),
    window=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_windows_are_clipped_at_the_borders(
    shape: tuple[int, int, int, int], window: tuple[int, int], stride: tuple[int, int]
) -> None:
    rows, pixels = walked(shape, window, stride)
    loops = pool("MAX_POOL_2D", shape, window, stride, "SAME", dtype=FLOAT32).loops
    assert (loops["window row"], loops["window element"]) == (rows * shape[3], pixels * shape[3])
    loops = pool("AVERAGE_POOL_2D", shape, window, stride, "SAME", platform=DSP).loops
    assert (loops["window row"], loops["window place"]) == (rows, pixels)


@pytest.mark.parametrize("code", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize(
    ("dtype", "platform", "path"),
    [
        (INT8, REFERENCE, "int8"),
        (INT16, REFERENCE, "int16"),
        (FLOAT32, DSP, "float32"),
        (FLOAT32, MVE, "float32"),
        (INT8, DSP, "int8 CMSIS-NN"),
        (INT16, MVE, "int16 CMSIS-NN"),
    ],
)
def test_cmsis_nn_pools_integers(code: str, dtype: DType, platform: Platform, path: str) -> None:
    assert pool(code, (1, 4, 4, 3), (2, 2), (2, 2), "VALID", dtype=dtype, platform=platform).path == path


def test_l2_has_no_code_of_cmsis_nn() -> None:
    assert pool("L2_POOL_2D", (1, 4, 4, 3), (2, 2), (2, 2), "VALID", dtype=FLOAT32, platform=MVE).path == "float32"


def test_vectors_hold_sixteen_bytes_of_channels() -> None:
    for dtype, vectors in ((INT8, 3), (INT16, 5)):
        loops = pool("AVERAGE_POOL_2D", (1, 4, 4, 36), (2, 2), (2, 2), "VALID", dtype=dtype, platform=MVE).loops
        assert (loops["vector"], loops["window vector"]) == (4 * vectors, 16 * vectors)
    loops = pool("MAX_POOL_2D", (2, 4, 4, 36), (2, 2), (2, 2), "VALID", platform=MVE).loops
    assert loops["clamped vector"] == 2 * 9  # of 144 bytes each
    assert loops["copied vector"] == 2 * 4 * 3
    loops = pool("MAX_POOL_2D", (1, 4, 4, 36), (2, 2), (2, 2), "VALID", dtype=INT16, platform=MVE).loops
    assert (loops["copies"], "copied vector" in loops) == (4, False)


def test_without_extensions_the_average_of_int8_walks_through_the_whole_window() -> None:
    loops = pool("AVERAGE_POOL_2D", (1, 3, 3, 2), (3, 3), (1, 1), "SAME", platform=PLAIN).loops
    assert (loops["whole window element"], loops["window element"]) == (9 * 9 * 2, 49 * 2)
    loops = pool("AVERAGE_POOL_2D", (1, 3, 3, 2), (3, 3), (1, 1), "SAME", dtype=INT16, platform=PLAIN).loops
    assert "whole window element" not in loops


def test_the_maximum_copies_the_first_pixel_and_compares_the_others() -> None:
    loops = pool("MAX_POOL_2D", (1, 4, 4, 7), (2, 2), (2, 2), "VALID", platform=DSP).loops
    assert (loops["compared word"], loops["compared element"]) == (12 * 1, 12 * 3)
    assert (loops["clamped word"], loops["clamped element"]) == (7, 0)
    assert loops.get("copies", 0) + loops.get("short uneven copies", 0) == 4
    loops = pool("MAX_POOL_2D", (1, 4, 4, 3), (2, 2), (2, 2), "VALID", dtype=INT16, platform=DSP).loops
    assert (loops["compared word"], loops["compared element"]) == (12, 12)


def test_other_tensors_than_images_are_refused() -> None:
    net = Net(1)
    x, y = net.arena(4, 4, 3), net.arena(2, 2, 3)
    net.give("MAX_POOL_2D", [x], [y], padding="VALID", filter_height=2, filter_width=2, stride_h=2, stride_w=2)
    with pytest.raises(KernelRefusal, match="4 dimensions"):
        run(net.model([x], [y]))


def test_floats_are_divided_longer_by_other_numbers_than_powers_of_two() -> None:
    loops = pool("AVERAGE_POOL_2D", (1, 3, 3, 5), (2, 2), (1, 1), "SAME", dtype=FLOAT32).loops
    assert loops["long division"] == 0  # by 4, 2 and 1
    loops = pool("AVERAGE_POOL_2D", (1, 3, 3, 5), (3, 3), (1, 1), "SAME", dtype=FLOAT32).loops
    assert loops["long division"] == 5 * 5  # by 9 and 6, but for the corners by 4
    assert pool("AVERAGE_POOL_2D", (1, 3, 3, 5), (3, 3), (1, 1), "SAME").loops["long division"] == 0
