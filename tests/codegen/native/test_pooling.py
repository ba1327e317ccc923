"""Pooling as native kernels: windows, refusals, and the outputs of TFLM's reference kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from benchmarks.kernels.cases import Case

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.program import Step
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import differences, prepare
from tests.memory.account_net import Net

CODES = ("AVERAGE_POOL_2D", "MAX_POOL_2D")


def _pool(net: Net, code: str, x: int, shape: tuple[int, ...], window: tuple[int, ...], **values: Any) -> int:
    """Add a pooling operator. window: height and width, and the strides along both."""
    names = ("filter_height", "filter_width", "stride_h", "stride_w")
    options = {"padding": "VALID", **dict(zip(names, window, strict=True)), **values}
    zero_point = 3 if net.tensors[x].dtype is DType.INT8 else 0
    return net.op(code, [x], *shape, zero_point=zero_point, **options)


def _network(dtype: DType) -> Model:
    """Return a network of both operators: padding on both sides, gaps between windows, activations, whole images."""
    net = Net()
    x = net.arena(2, 9, 7, 3, dtype=dtype, zero_point=3 if dtype is DType.INT8 else 0)
    outputs = []
    for code in CODES:
        outputs.append(_pool(net, code, x, (2, 9, 7, 3), (3, 2, 1, 1), padding="SAME"))
        outputs.append(_pool(net, code, x, (2, 3, 2, 3), (2, 3, 3, 4), fused_activation_function="RELU6"))
        y = _pool(net, code, x, (2, 5, 4, 3), (4, 5, 2, 2), padding="SAME", fused_activation_function="RELU")
        outputs.append(_pool(net, code, y, (2, 1, 1, 3), (5, 4, 1, 1)))
    net.end_graph([x], outputs)
    return net.whole()


def _single(shape: tuple[int, ...], result: tuple[int, ...], window: tuple[int, ...], **values: Any) -> Model:
    net = Net()
    x = net.arena(*shape, zero_point=3)
    y = _pool(net, "AVERAGE_POOL_2D", x, result, window, **values)
    net.end_graph([x], [y])
    return net.whole()


def _step(model: Model, **values: bool) -> tuple[Step, dict[str, object]]:
    (step,) = lower(model, **values).steps
    return step, dict(step.op.values)


@pytest.mark.slow
def test_networks_of_pooling_compute_what_tflm_computes() -> None:
    assert differences({str(dtype): prepare(_network(dtype), 4) for dtype in (DType.INT8, DType.INT16)}) == []


@pytest.mark.parametrize(
    ("window", "padding"), [((7, 5, 1, 1), "VALID"), ((7, 5, 9, 9), "SAME"), ((15, 12, 7, 5), "SAME")]
)
def test_a_window_over_a_whole_image_is_one_row(window: tuple[int, ...], padding: str) -> None:
    model = _single((2, 7, 5, 4), (2, 1, 1, 4), window, padding=padding)
    step, fields = _step(model)
    assert (step.batches, step.rows, step.inputs[0].rows, step.inputs[0].taps) == (2, 1, 1, 1)
    assert (fields["input_width"], fields["taps_x"], fields["taps_y"], fields["pad_x"]) == (35, 35, 1, 0)
    step, fields = _step(model, row_wise=True)
    assert (step.batches, step.rows, step.inputs[0].rows, step.inputs[0].taps) == (2, 1, 7, window[0])
    assert (fields["input_width"], fields["taps_x"]) == (5, window[1])


def test_an_only_window_that_misses_pixels_keeps_its_rows() -> None:
    step, fields = _step(_single((1, 7, 5, 4), (1, 1, 1, 4), (6, 4, 2, 2)))
    assert (step.inputs[0].taps, fields["taps_x"], fields["input_width"]) == (6, 4, 5)


@pytest.mark.parametrize("code", CODES)
def test_float32_is_refused(code: str) -> None:
    with pytest.raises(UnsupportedModelError, match="FLOAT32 is not supported"):
        lower(Case(code, "float32", 0).model())


def test_an_output_of_another_shape_than_the_windows_is_refused() -> None:
    model = _single((1, 7, 5, 4), (1, 4, 4, 4), (2, 2, 2, 2))
    with pytest.raises(UnsupportedModelError, match=r"the shape \(1, 4, 4, 4\), not \(1, 3, 2, 4\)"):
        lower(model)


def test_a_window_without_pixels_is_refused() -> None:
    model = _single((1, 4, 4, 1), (1, 4, 4, 1), (1, 1, 1, 1))
    operator = model.main.operators[0]
    assert operator.options is not None
    fields = tuple((name, 0 if name == "stride_h" else value) for name, value in dict(operator.options.fields).items())
    broken = replace(operator, options=replace(operator.options, fields=fields))
    with pytest.raises(UnsupportedModelError, match="its window or its stride is 0"):
        lower(replace(model, subgraphs=(replace(model.main, operators=(broken,)),)))


def test_sums_beyond_32_bits_are_refused() -> None:
    model = _single((1, 4, 4, 1), (1, 1, 1, 1), (65535, 65535, 4, 4), padding="SAME")
    with pytest.raises(UnsupportedModelError, match="65535 x 65535 pixels"):
        lower(model)
