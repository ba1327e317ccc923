from __future__ import annotations

from itertools import product
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType
from edgetool.operators.call import KernelRefusal
from edgetool.operators.cmsis_nn import im2col_loops, product_s8, product_s16
from edgetool.operators.convolution import padded_row_ends
from edgetool.operators.loops import Axis, LoopCounts, Loops, Windows, window_axis
from edgetool.target.platform import Platform
from tests.memory.account_convolutions import conv, depthwise, transposed
from tests.memory.account_net import Net
from tests.operators.loops.runs import DSP, FLOAT32, INT8, INT16, MVE, PLAIN, REFERENCE, run

Shape = tuple[int, int, int, int]
BUILDS = (REFERENCE, PLAIN, DSP, MVE)
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


IMAGE, ROW = (1, 8, 8, 4), (1, 1, 20, 4)


@pytest.mark.parametrize(
    ("shape", "kernel", "options", "paths"),
    [
        (IMAGE, (1, 1), {}, ("reference int8", "int8 1x1", "int8 1x1", "int8 1x1")),
        (
            IMAGE,
            (1, 1),
            {"stride": 2},
            ("reference int8", "int8 1x1 strided", "int8 1x1 strided", "int8 1x1 strided"),
        ),
        (IMAGE, (1, 1), {"groups": 2}, ("reference int8", *["int8 grouped windows"] * 3)),
        (IMAGE, (3, 3), {}, ("reference int8", *["int8 windows"] * 3)),
        (IMAGE, (1, 1), {"dilation": 2}, ("reference int8", *["int8 windows"] * 3)),
        (ROW, (1, 3), {}, ("reference int8", "int8 windows", "int8 windows", "int8 1xN")),
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
    found = [convolved(IMAGE, (3, 3), build, dtype).path for build in BUILDS]
    assert found[0] == f"reference {dtype.name.lower()}"
    assert set(found[1:]) == ({"int16"} if dtype == INT16 else {"reference float32"})


@pytest.mark.parametrize(
    ("shape", "kernel", "options", "paths"),
    [
        (IMAGE, (3, 3), {}, ("int8 3x3", "int8 3x3", "int8 blocks")),
        (IMAGE, (5, 5), {}, ("int8 one by one", "int8 columns", "int8 blocks")),
        (IMAGE, (3, 3), {"dilation": 2}, ("int8 one by one",) * 3),
        (IMAGE, (3, 3), {"multiplier": 4}, ("int8 by 4",) * 3),
        (IMAGE, (3, 3), {"multiplier": 3}, ("int8 one by one",) * 3),
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


def test_no_work_of_what_is_no_image() -> None:
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
