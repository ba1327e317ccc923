"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR as native kernels: input rows, refusals, and the outputs of TFLM."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.resize import fixed_scale, nearest, nearest_ratio
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import differences, prepare
from tests.codegen.native.moves import run, steps_of
from tests.memory.account_net import Net

MODES: list[dict[str, Any]] = [{}, {"align_corners": True}, {"half_pixel_centers": True}]


def _model(
    code: str, size: tuple[int, int], result: tuple[int, int], *, dtype: DType = DType.INT8, **values: Any
) -> Model:
    net = Net()
    x = net.arena(2, *size, 3, dtype=dtype)
    y = net.op(code, [x, net.constant(list(result))], 2, *result, 3, **values)
    net.end_graph([x], [y])
    return net.whole()


@pytest.mark.parametrize(("align", "half"), [(False, False), (True, False), (False, True)])
def test_nearest_rows_are_a_ratio_of_integers(align: bool, half: bool) -> None:
    different = 0
    for size, result in product(range(1, 40), range(1, 40)):
        rows = nearest(size, result, align=align, half=half)
        stride, pad, divisor = nearest_ratio(size, result, align=align, half=half)
        assert rows.min() >= 0
        assert rows.max() < size
        different += not np.array_equal(rows, (np.arange(result) * stride - pad) // divisor)
    # Rounding of float32 products.
    assert different < 0.05 * 39 * 39


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_images_are_resized_to_the_nearest_pixels(mode: dict[str, Any]) -> None:
    for size, result in (((4, 5), (8, 10)), ((6, 6), (3, 2)), ((5, 7), (8, 3)), ((1, 1), (4, 3))):
        model = _model("RESIZE_NEAREST_NEIGHBOR", size, result, dtype=DType.INT16, **mode)
        values = np.arange(2 * size[0] * size[1] * 3).astype(np.int16).reshape(2, *size, 3)
        align, half = mode.get("align_corners", False), mode.get("half_pixel_centers", False)
        rows, columns = (nearest(*sides, align=align, half=half) for sides in zip(size, result, strict=True))
        for row_wise in (False, True):
            (output,) = run(model, {model.main.inputs[0]: values}, row_wise=row_wise)
            assert np.array_equal(output, values[:, rows][:, :, columns])


def test_an_enlarged_image_reads_each_row_several_times() -> None:
    (step,) = steps_of(_model("RESIZE_NEAREST_NEIGHBOR", (4, 5), (8, 10)), row_wise=True)
    assert (step.rows, step.batches) == (8, 2)
    row = step.inputs[0]
    assert (row.stride, row.pad, row.divisor, row.rows) == (1, 0, 2, 4)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_bilinear_rows_are_those_between_which_outputs_lie(mode: dict[str, Any]) -> None:
    align, half = mode.get("align_corners", False), mode.get("half_pixel_centers", False)
    for size, result in ((4, 8), (9, 3), (5, 8), (1, 4)):
        (step,) = steps_of(_model("RESIZE_BILINEAR", (size, 2), (result, 2), **mode))
        (row,) = step.inputs
        scale, offset = fixed_scale(size, result, align=align, half=half)
        for y in range(result):
            place = y * scale + offset
            taps = [(y * row.stride - row.pad + tap * row.dilation) // row.divisor for tap in range(row.taps)]
            inside = [min(max(tap, 0), size - 1) for tap in taps]
            assert inside[0] == max(int(place / 1024), 0)
            assert place % 1024 == 0 or inside[1] == min(int((place + 1023) / 1024), size - 1)


def test_what_tflm_reads_outside_is_refused() -> None:
    # The scale 1024 / 1500 is rounded up to 1, so that the last rows are below the only one.
    with pytest.raises(UnsupportedModelError, match="reads outside its input"):
        lower(_model("RESIZE_BILINEAR", (1, 2), (1500, 2)))


def test_bilinear_floats_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="FLOAT32 is not supported"):
        lower(_model("RESIZE_BILINEAR", (2, 2), (4, 4), dtype=DType.FLOAT32))


@pytest.mark.slow
def test_a_network_of_resized_images_equals_tflm() -> None:
    net = Net()
    x = net.arena(2, 5, 6, 3)
    outputs = []
    for code, mode in product(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), MODES):
        for size in ((10, 12), (3, 4), (8, 1)):
            outputs.append(net.op(code, [x, net.constant(list(size))], 2, *size, 3, **mode))
    net.end_graph([x], outputs)
    assert differences({"images": prepare(net.whole(), 4)}) == []
