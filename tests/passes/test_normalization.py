"""Normalizations get the form that stays accurate in int8, and compute the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from edgetool.execute.quantize import random_inputs
from edgetool.model.types import Model
from edgetool.passes.float_forms import tidy_float
from edgetool.passes.normalization import normalize_accurately
from tests.passes.cleaned import interface
from tests.passes.layers import FLOAT, Graph
from tests.passes.runs import SAMPLES, codes, litert

EPSILON = 1e-3


def normalized(model: Model, use_l2: bool = True) -> Model:
    """normalize_accurately, and what holds whatever it did."""
    result = normalize_accurately(tidy_float(model), use_l2)
    assert codes(normalize_accurately(result, use_l2)) == codes(result)
    for new, old in ((result.main.inputs, model.main.inputs), (result.main.outputs, model.main.outputs)):
        assert [interface(result.main.tensors[i]) for i in new] == [interface(model.main.tensors[i]) for i in old]
    inputs = random_inputs(model, SAMPLES, seed=0)
    for one, other in zip(litert(model, inputs), litert(result, inputs), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)
    return result


def arithmetic(net: Graph, code: str, first: int, second: int) -> int:
    largest = max(first, second, key=lambda tensor: len(net.shape(tensor)) * 1000 + np.prod(net.shape(tensor)))
    return net.apply(code, [first, second], net.shape(largest), fused_activation_function="NONE")


def statistics(net: Graph, x: int, axes: tuple[int, ...]) -> tuple[int, int]:
    """The mean, and the reciprocal of the standard deviation."""
    mean = net.reduce("MEAN", x, axes, keep_dims=True)
    square = net.apply("SQUARED_DIFFERENCE", [x, mean])
    variance = arithmetic(net, "ADD", net.reduce("MEAN", square, axes, keep_dims=True), net.constant(EPSILON, FLOAT))
    return mean, net.apply("RSQRT", [variance])


def as_keras(net: Graph, x: int, axes: tuple[int, ...]) -> int:
    mean, inverse = statistics(net, x, axes)
    factor = arithmetic(net, "MUL", inverse, net.noise(net.shape(x)[-1]))
    shift = arithmetic(net, "SUB", net.noise(net.shape(x)[-1]), arithmetic(net, "MUL", mean, factor))
    return arithmetic(net, "ADD", arithmetic(net, "MUL", x, factor), shift)


def as_difference(net: Graph, x: int, axes: tuple[int, ...]) -> int:
    mean, inverse = statistics(net, x, axes)
    shift = arithmetic(net, "SUB", net.constant(0.0, FLOAT), arithmetic(net, "MUL", inverse, mean))
    return arithmetic(net, "ADD", arithmetic(net, "MUL", x, inverse), shift)


def centred(net: Graph, x: int, axes: tuple[int, ...]) -> int:
    mean = net.reduce("MEAN", x, axes, keep_dims=True)
    difference = arithmetic(net, "SUB", x, mean)
    square = arithmetic(net, "MUL", difference, difference)
    variance = arithmetic(net, "ADD", net.reduce("MEAN", square, axes, keep_dims=True), net.constant(EPSILON, FLOAT))
    return arithmetic(net, "MUL", difference, net.apply("RSQRT", [variance]))


FORMS = [as_difference, centred]


@pytest.mark.parametrize("form", FORMS)
def test_few_values_are_normalized_without_rounding_in_between(form: Callable[..., int]) -> None:
    net = Graph()
    x = net.input((1, 5, 8), FLOAT)
    expected = ["MEAN", "SUB", "CONCATENATION", "L2_NORMALIZATION", "SLICE", "MUL"]
    assert codes(normalized(net.model([x], [form(net, x, (2,))]))) == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("size", "axes", "use_l2"), [(40, (2,), True), (8, (2,), False), (8, (1,), True)])
def test_the_mean_is_subtracted_first(form: Callable[..., int], size: int, axes: tuple[int, ...], use_l2: bool) -> None:
    net = Graph()
    x = net.input((1, 5, size), FLOAT)
    expected = ["MEAN", "SUB", "MUL", "MEAN", "ADD", "RSQRT", "MUL"]
    assert codes(normalized(net.model([x], [form(net, x, axes)]), use_l2)) == expected


def test_scale_and_shift_come_last() -> None:
    net = Graph()
    x = net.input((1, 5, 40), FLOAT)
    y = as_keras(net, x, (2,))
    assert codes(normalized(net.model([x], [net.dense(y, 3)])))[-4:] == ["MUL", "MUL", "ADD", "FULLY_CONNECTED"]


def test_a_clamp_of_values_that_rarely_occur_stays() -> None:
    net = Graph()
    x = net.input((1, 1, 64), FLOAT)
    clamped = net.apply("MINIMUM", [as_difference(net, x, (2,)), net.constant(7.0, FLOAT)])
    assert "MINIMUM" in codes(normalized(net.model([x], [net.dense(clamped, 3)])))


def test_statistics_of_other_axes_are_no_normalization() -> None:
    net = Graph()
    x = net.input((1, 5, 8), FLOAT)
    mean = net.reduce("MEAN", x, (1,), keep_dims=True)
    square = net.apply("SQUARED_DIFFERENCE", [x, mean])
    inverse = net.apply("RSQRT", [net.reduce("MEAN", square, (2,), keep_dims=True)])
    model = net.model([x], [arithmetic(net, "MUL", arithmetic(net, "SUB", x, mean), inverse)])
    assert normalize_accurately(model, use_l2=True) is model


def test_a_normalization_of_single_values_stays() -> None:
    net = Graph()
    x = net.input((1, 5, 1), FLOAT)
    model = net.model([x], [centred(net, x, (2,))])
    assert normalize_accurately(model, use_l2=True) is model


def test_a_normalization_by_channel_is_a_convolution() -> None:
    net = Graph()
    x = net.input((1, 8, 8, 4), FLOAT)
    y = arithmetic(net, "MUL", arithmetic(net, "SUB", x, net.noise(4)), net.noise(4))
    y = net.apply("ADD", [y, net.noise(4)], fused_activation_function="RELU")
    assert codes(normalized(net.model([x], [y]))) == ["DEPTHWISE_CONV_2D"]


def test_one_factor_for_all_channels_stays() -> None:
    net = Graph()
    x = net.input((1, 8, 8, 4), FLOAT)
    y = arithmetic(net, "ADD", arithmetic(net, "MUL", x, net.constant(0.25, FLOAT)), net.constant(-1.0, FLOAT))
    assert codes(normalized(net.model([x], [y]))) == ["MUL", "ADD"]


def test_convolutions_that_need_more_memory_than_they_save_stay_away() -> None:
    net = Graph()
    x = net.input((1, 2, 2, 64), FLOAT)
    y = arithmetic(net, "ADD", arithmetic(net, "MUL", x, net.noise(64)), net.noise(64))
    assert codes(normalized(net.model([x], [y]))) == ["MUL", "ADD"]
