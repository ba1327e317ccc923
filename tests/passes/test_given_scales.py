"""Operators that only move elements get the scale of their other side, and compute the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgetool.execute.quantize import random_inputs
from edgetool.model.types import DType, Model, Quantization
from edgetool.passes.given_scales import spread_scales
from tests.passes.layers import FLOAT, Graph
from tests.passes.runs import SAMPLES, codes, litert

SCALE = Quantization((0.05,), (3,), 0)
PAIR = ["QUANTIZE", "DEQUANTIZE"]


def converted(net: Graph, x: int, scale: Quantization = SCALE) -> int:
    """QUANTIZE and DEQUANTIZE."""
    (quantized,) = net.add_operator("QUANTIZE", [x], net.shape(x), dtype=DType.INT8)
    net.tensors[quantized] = replace(net.tensors[quantized], quantization=scale)
    return net.add_operator("DEQUANTIZE", [quantized], net.shape(x), dtype=FLOAT)[0]


def spread(model: Model) -> Model:
    """spread_scales, and what holds whatever it did."""
    result = spread_scales(model)
    assert spread_scales(result) is result
    inputs = random_inputs(model, SAMPLES, seed=0)
    for one, other in zip(litert(model, inputs), litert(result, inputs), strict=True):
        np.testing.assert_array_equal(other, one)
    return result


def moved(net: Graph, x: int, code: str) -> int:
    if code == "PAD":
        return net.pad(x, (0, 0), (1, 2), (0, 1))
    return net.transpose(x, (0, 2, 1)) if code == "TRANSPOSE" else net.reshape(x, (1, 12))


@pytest.mark.parametrize("code", ["PAD", "RESHAPE", "TRANSPOSE"])
def test_a_scale_before_an_operator_holds_after_it(code: str) -> None:
    net = Graph()
    x = net.input((1, 4, 3), FLOAT)
    model = spread(net.model([x], [net.apply("ABS", [moved(net, converted(net, x), code)])]))
    assert codes(model) == [*PAIR, code, *PAIR, "ABS"]
    assert [one.quantization for one in model.main.tensors if one.dtype is DType.INT8] == [SCALE, SCALE]


@pytest.mark.parametrize("code", ["PAD", "RESHAPE", "TRANSPOSE"])
def test_a_scale_after_an_operator_holds_before_it(code: str) -> None:
    net = Graph()
    x = net.input((1, 4, 3), FLOAT)
    model = spread(net.model([x], [converted(net, moved(net, net.apply("ABS", [x]), code))]))
    assert codes(model) == ["ABS", *PAIR, code, *PAIR]


def test_two_given_scales_and_a_model_without_stay() -> None:
    net = Graph()
    x = net.input((1, 4, 3), FLOAT)
    y = converted(net, moved(net, converted(net, x), "RESHAPE"), replace(SCALE, scales=(0.07,)))
    model = net.model([x], [y])
    assert spread_scales(model) is model
    net = Graph()
    x = net.input((1, 4, 3), FLOAT)
    plain = net.model([x], [moved(net, net.apply("ABS", [x]), "PAD")])
    assert spread_scales(plain) is plain
