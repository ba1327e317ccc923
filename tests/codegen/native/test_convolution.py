"""Convolutions as native kernels: descriptors, rows, refusals, and the outputs of TFLM's reference kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.kernels.cases import Case

from edgetool.codegen.native.fixed_point import WIDE
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.program import Constant, RowInput, Step
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import differences, prepare
from tests.memory.account_net import Net


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


def test_a_pad_in_front_becomes_the_padding_of_the_convolution() -> None:
    steps = _steps(_network(DType.INT8))
    assert [step.kernel for step in steps].count("edgetool_depthwise_s8") == 2
    padded = steps[-2]
    assert (padded.inputs[0].rows, padded.inputs[0].pad, padded.inputs[0].taps) == (10, 1, 4)
    assert (_fields(padded)["pad_x"], _fields(padded)["input_width"]) == (3, 11)


def test_pixels_of_a_pointwise_convolution_are_one_row_unless_rows_stay_apart() -> None:
    (whole, *_), (rows, *_) = (list(reversed(_steps(_network(DType.INT8), row_wise=value))) for value in (False, True))
    assert (whole.rows, whole.batches, whole.row_bytes) == (1, 1, 2 * 10 * 12 * 9)
    assert (rows.rows, rows.batches, rows.row_bytes) == (10, 2, 12 * 9)
    assert [overlap.descending for overlap in whole.overlaps] == [False, True]
    assert [overlap.descending for overlap in rows.overlaps] == [False]


def test_int4_weights_are_unpacked() -> None:
    number = next(n for n in range(20) if _filter_elements(Case("CONV_2D", "int8-int4", n).model()) % 2)
    model = Case("CONV_2D", "int8-int4", number).model()
    weights = model.main.tensors[model.main.operators[0].inputs[1]]
    assert weights.data is not None
    nibbles = [nibble for byte in weights.data for nibble in (byte & 15, byte >> 4)][: weights.element_count]
    constant = _fields(_steps(model)[0])["weights"]
    assert isinstance(constant, Constant)
    assert list(np.frombuffer(constant.data, np.int8)) == [nibble - 16 * (nibble > 7) for nibble in nibbles]


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
