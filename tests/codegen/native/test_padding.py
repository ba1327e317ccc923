"""PAD and MIRROR_PAD as native kernels: the runs and gaps of PAD, mirrored ends, and the outputs of TFLM's kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.padding import Side, merged_sides
from edgetool.codegen.native.site import NUMPY_TYPES, Array
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import differences, prepare
from tests.codegen.native.moves import run, steps_of
from tests.memory.account_net import Net


def _pad(
    shape: Sequence[int], amounts: Sequence[tuple[int, int]], *, dtype: DType = DType.INT8, value: int | None = None
) -> Model:
    net = Net()
    x = net.arena(*shape, dtype=dtype, zero_point=-7 if dtype is DType.INT8 else 0)
    inputs = [x, net.constant([number for pair in amounts for number in pair], len(amounts), 2)]
    if value is not None:
        inputs.append(net.constant([value], dtype=dtype))
    y = net.op("PAD" if value is None else "PADV2", inputs, *_padded(shape, amounts), zero_point=-7)
    net.end_graph([x], [y])
    return net.whole()


def _mirror(shape: Sequence[int], amounts: Sequence[tuple[int, int]], mode: str) -> Model:
    net = Net()
    x = net.arena(*shape)
    border = net.constant([number for pair in amounts for number in pair], len(amounts), 2)
    y = net.op("MIRROR_PAD", [x, border], *_padded(shape, amounts), mode=mode)
    net.end_graph([x], [y])
    return net.whole()


def _padded(shape: Sequence[int], amounts: Sequence[tuple[int, int]]) -> list[int]:
    return [before + size + after for size, (before, after) in zip(shape, amounts, strict=True)]


def _numbers(shape: Sequence[int], dtype: DType = DType.INT8) -> Array:
    return (np.arange(np.prod(shape)) % 251 - 125).astype(NUMPY_TYPES[dtype]).reshape(shape)


@pytest.mark.parametrize("row_wise", [False, True])
@pytest.mark.parametrize(
    ("shape", "amounts"),
    [
        ((5,), [(2, 3)]),
        ((3, 4), [(0, 1), (2, 0)]),
        ((2, 3, 4, 5), [(0, 0), (1, 2), (2, 0), (0, 0)]),
        ((2, 3, 4, 5), [(0, 0), (0, 2), (0, 0), (1, 3)]),
        ((2, 3, 4, 5), [(1, 0), (1, 1), (1, 1), (1, 1)]),
        ((2, 1, 3, 2, 2), [(1, 2), (0, 1), (2, 1), (1, 1), (3, 0)]),
    ],
)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.INT32])
def test_padding_surrounds_the_data(
    shape: Sequence[int], amounts: list[tuple[int, int]], dtype: DType, row_wise: bool
) -> None:
    values = _numbers(shape, dtype)
    for value in (None, 99, 0):
        model = _pad(shape, amounts, dtype=dtype, value=value)
        (result,) = run(model, {model.main.inputs[0]: values}, row_wise=row_wise)
        filled = (-7 if dtype is DType.INT8 else 0) if value is None else value
        assert np.array_equal(result, np.pad(values, amounts, constant_values=filled))


def test_rows_of_padding_have_no_input_row() -> None:
    model = _pad((2, 3, 4, 5), [(0, 0), (1, 2), (2, 0), (0, 0)])
    (step,) = steps_of(model, row_wise=True)
    assert (step.rows, step.batches, step.row_bytes) == (6, 2, 30)
    assert (step.inputs[0].rows, step.inputs[0].pad, step.inputs[0].row_bytes) == (3, 1, 20)
    assert (steps_of(model)[0].rows, steps_of(model)[0].batches) == (1, 1)


def test_axes_that_are_padded_as_one_are_merged() -> None:
    sides = [Side(2, 0, 0), Side(3, 1, 2), Side(4, 0, 0), Side(5, 0, 0)]
    assert merged_sides(sides, 2) == [Side(2, 0, 0), Side(3 * 40, 40, 80)]
    assert merged_sides([Side(2, 1, 0), Side(3, 0, 0), Side(4, 1, 1)], 1) == [Side(6, 3, 0), Side(4, 1, 1)]


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
@pytest.mark.parametrize(
    ("shape", "amounts"),
    [((1, 5, 2), [(0, 0), (3, 4), (0, 0)]), ((6,), [(0, 2)]), ((3, 4, 5), [(2, 1), (0, 0), (1, 3)])],
)
def test_borders_are_mirrored(shape: Sequence[int], amounts: list[tuple[int, int]], mode: str) -> None:
    model = _mirror(shape, amounts, mode)
    values = _numbers(shape)
    (result,) = run(model, {model.main.inputs[0]: values}, row_wise=False)
    assert np.array_equal(result, np.pad(values, amounts, mode="reflect" if mode == "REFLECT" else "symmetric"))


def test_a_mirrored_signal_needs_no_table() -> None:
    steps = steps_of(_mirror((1, 500), [(0, 0), (20, 30)], "REFLECT"))
    assert [step.kernel for step in steps] == ["edgetool_copy"] * 3
    assert [(step.output_offset, step.row_bytes) for step in steps] == [(0, 20), (20, 500), (520, 30)]


def test_padding_that_adds_nothing_is_a_view() -> None:
    assert not lower(_pad((3, 4), [(0, 0), (0, 0)])).steps


def test_a_value_that_the_model_computes_is_refused() -> None:
    net = Net()
    x, value = net.arena(3), net.arena(1)
    y = net.op("PADV2", [x, net.constant([1, 1], 1, 2), value], 5)
    net.end_graph([x, value], [y])
    with pytest.raises(UnsupportedModelError, match="input 2 is not constant"):
        lower(net.whole())


@pytest.mark.slow
def test_a_network_with_padding_equals_tflm() -> None:
    net = Net()
    x = net.arena(2, 3, 4, 5, zero_point=-7)
    y = net.op("PAD", [x, net.constant([0, 0, 1, 2, 2, 0, 0, 0], 4, 2)], 2, 6, 6, 5, zero_point=-7)
    y = net.op("PAD", [y, net.constant([1, 0, 0, 1, 1, 1, 2, 1], 4, 2)], 3, 7, 8, 8, zero_point=-7)
    mirrored = net.op(
        "MIRROR_PAD", [y, net.constant([0, 0, 3, 1, 0, 2, 0, 0], 4, 2)], 3, 11, 10, 8, mode="REFLECT", zero_point=-7
    )
    wide = net.arena(7, 3, dtype=DType.INT16)
    value = net.constant([-1234], dtype=DType.INT16, scale=1 / 2048)
    z = net.op("PADV2", [wide, net.constant([2, 1, 1, 3], 2, 2), value], 10, 7)
    net.end_graph([x, wide], [y, mirrored, z])
    assert differences({"padding": prepare(net.whole(), 4)}) == []
