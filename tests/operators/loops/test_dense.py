from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType
from edgetool.operators.cmsis_nn import vector_product_s8, vector_product_s16, vector_product_svdf
from edgetool.operators.loops import LoopCounts, Loops
from edgetool.target.platform import Platform
from tests.memory.account_convolutions import dense
from tests.memory.account_net import Net
from tests.operators.loops.runs import DSP, FLOAT32, INT8, INT16, MVE, PLAIN, REFERENCE, run

BUILDS = (REFERENCE, PLAIN, DSP, MVE)
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
