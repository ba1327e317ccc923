"""Models and samples that random ones do not reach: operands of many runs, ends of types, and indices outside."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import inf, nan
from typing import Any

import numpy as np

from edgetool.model.types import DType
from tests.codegen.native.host import Array, Trial, prepare
from tests.memory.account_net import Net

FLOATS = (nan, inf, -inf, 3e9, -3e9, 1e10, -0.5, 0.5, 300.0)
LOWEST, HIGHEST = -(2**31), 2**31 - 1
INTEGERS = (0, -1, LOWEST, HIGHEST, 1, 7)
COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


def defined() -> dict[str, Trial]:
    """Return models with samples of which TFLM defines the results."""
    return {
        "divided planes": _divided_planes(),
        "planes of int16": _planes_of_int16(),
        "planes of floats": _planes_of_floats(),
        "large pool": _large_pool(),
        "quotients": _quotients([(a, b) for a, b in product(INTEGERS, repeat=2) if b != 0 and (a, b) != (LOWEST, -1)]),
        "compared floats": _compared_floats(),
        "product of the lowest numbers": _product_of_lowest(),
        "long vector": _long_vector(),
        "starts outside": _starts_outside(),
        "points outside an axis": _points([(0, 7), (1, -1), (3, 3)]),
        "pixels of int16 from the last to the first": _pixels_in_place((2, 8, 2), DType.INT16),
        "pixels of many vectors in place": _pixels_in_place((40, 48, 40), DType.INT8, vector=True),
        "columns outside": _columns_outside(),
        "scales of more than one half": _large_scales(),
    }


def undefined() -> dict[str, Trial]:
    """Return models with samples of which TFLM's results are undefined: it overflows, aborts, or reads outside."""
    return {
        "quotients that overflow": _quotients([(7, 0), (0, 0), (LOWEST, 0), (LOWEST, -1)]),
        "floats beyond integers": _floats_beyond_integers(),
        "vectors of equal codes": _equal_codes(),
        "vectors of equal codes with Helium": _equal_codes(vector=True),
        "rows outside": _rows_outside(),
        "points outside": _points([(4, 0), (0, -1), (LOWEST, LOWEST), (HIGHEST, HIGHEST)]),
    }


def _trial(
    net: Net,
    inputs: Sequence[int],
    outputs: Sequence[int],
    samples: Sequence[Array] | None = None,
    *,
    vector: bool = False,
) -> Trial:
    net.end_graph(inputs, outputs)
    return prepare(net.whole(), inputs=samples, vector=vector)


def _divided_planes() -> Trial:
    """Divide, multiply and compare int8 that are broadcast along different axes."""
    net = Net()
    a = net.arena(3, 1, 4, scale=0.05, zero_point=-7)
    b = net.arena(1, 2, 1, scale=0.04, zero_point=20)
    outputs = [net.op("DIV", [a, b], 3, 2, 4, scale=0.0123, zero_point=4)]
    outputs.append(net.op("SQUARED_DIFFERENCE", [a, b], 3, 2, 4, scale=0.1, zero_point=-128))
    for fused, scale in product(("NONE", "RELU"), (0.1, 0.003, 0.00001)):
        outputs.append(net.op("MUL", [a, b], 3, 2, 4, scale=scale, zero_point=4, fused_activation_function=fused))
    return _trial(net, [a, b], outputs)


def _planes_of_int16() -> Trial:
    """Multiply int16 that are broadcast along different axes."""
    net = Net()
    a, b = net.arena(3, 1, 4, dtype=DType.INT16), net.arena(1, 2, 1, dtype=DType.INT16)
    return _trial(net, [a, b], [net.op("MUL", [a, b], 3, 2, 4)])


def _planes_of_floats() -> Trial:
    """Compare floats that are broadcast along different axes."""
    net = Net()
    a, b = net.arena(3, 1, 4, dtype=DType.FLOAT32), net.arena(1, 2, 1, dtype=DType.FLOAT32)
    return _trial(net, [a, b], [net.op("LESS", [a, b], 3, 2, 4, dtype=DType.BOOL)])


def _large_pool() -> Trial:
    """Average more codes than can be multiplied by a reciprocal."""
    net = Net()
    x = net.arena(1, 40, 40, 5, zero_point=-3)
    values: dict[str, Any] = {"filter_height": 40, "filter_width": 40, "stride_h": 1, "stride_w": 1}
    y = net.op("AVERAGE_POOL_2D", [x], 1, 1, 1, 5, zero_point=-3, padding="VALID", **values)
    return _trial(net, [x], [y])


def _quotients(pairs: Sequence[tuple[int, int]]) -> Trial:
    net = Net()
    a, b = (net.arena(len(pairs), dtype=DType.INT32) for _ in range(2))
    samples = np.array(pairs, np.int32).T
    return _trial(net, [a, b], [net.op("DIV", [a, b])], [samples[:1], samples[1:]])


def _compared_floats() -> Trial:
    net = Net()
    a, b = (net.arena(len(FLOATS) ** 2, dtype=DType.FLOAT32) for _ in range(2))
    samples = np.array(list(product(FLOATS, repeat=2)), np.float32).T
    outputs = [net.op(code, [a, b], dtype=DType.BOOL) for code in COMPARISONS]
    return _trial(net, [a, b], outputs, [samples[:1], samples[1:]])


def _product_of_lowest() -> Trial:
    """Multiply -2^31 by a multiplier of -2^31, that of a real number a little above -2^16."""
    net = Net()
    x = net.arena(4, dtype=DType.INT16, scale=1 + 2.0**-17)
    slopes = net.tensor((4,), DType.INT8, data=bytes([1, 1, 2, 255]), scales=(-(2.0**16 - 2.0**-1),))
    y = net.op("PRELU", [x, slopes], scale=1.0)
    return _trial(net, [x], [y], [np.array([[-(2**15), -1, -(2**14), -(2**15)]], np.int16)])


def _long_vector() -> Trial:
    """Normalize a vector whose sum of squares exceeds 2^29."""
    net = Net()
    x = net.arena(1, 9000, zero_point=127)
    return _trial(net, [x], [net.op("L2_NORMALIZATION", [x], scale=2.0**-7)])


def _starts_outside() -> Trial:
    net = Net()
    x, update, starts = net.arena(4, 5), net.arena(2, 2), net.arena(2, dtype=DType.INT32)
    y = net.op("DYNAMIC_UPDATE_SLICE", [x, update, starts], 4, 5)
    pairs = np.array(list(product(INTEGERS, repeat=2)), np.int32)
    codes = np.random.default_rng(0).integers(-128, 128, (len(pairs), 24)).astype(np.int8)
    samples = [codes[:, :20].reshape(-1, 4, 5), codes[:, 20:].reshape(-1, 2, 2), pairs]
    return _trial(net, [x, update, starts], [y], samples)


def _points(points: Sequence[tuple[int, int]]) -> Trial:
    """Look up points of a table of 4 by 5 codes."""
    net = Net()
    x, where = net.noise(4, 5, scale=1 / 16), net.arena(len(points), 2, dtype=DType.INT32)
    return _trial(net, [where], [net.op("GATHER_ND", [x, where], len(points))], [np.array([points], np.int32)])


def _rows_outside() -> Trial:
    net = Net()
    x, where = net.noise(4, 5, scale=1 / 16), net.arena(len(INTEGERS), dtype=DType.INT32)
    outputs = [
        net.op("GATHER", [x, where], 4, 6, axis=1, batch_dims=0),
        net.op("EMBEDDING_LOOKUP", [where, x], 6, 5, dtype=DType.INT8),
    ]
    return _trial(net, [where], outputs, [np.array([INTEGERS], np.int32)])


def _floats_beyond_integers() -> Trial:
    net = Net()
    x = net.arena(len(FLOATS), dtype=DType.FLOAT32)
    outputs = [net.op("CAST", [x], dtype=dtype) for dtype in (DType.INT8, DType.INT16, DType.INT32)]
    outputs += [net.op("QUANTIZE", [x], dtype=dtype, scale=1 / 16) for dtype in (DType.INT8, DType.INT16)]
    return _trial(net, [x], outputs, [np.array([FLOATS], np.float32)])


def _equal_codes(*, vector: bool = False) -> Trial:
    """Normalize a vector whose exponentials are a sum of 2^28 or more, for which TFLM shifts by more than 31 bits."""
    net = Net()
    x = net.arena(1, 600)
    y = net.op("SOFTMAX", [x], scale=2.0**-8, zero_point=-128, beta=1.0)
    return _trial(net, [x], [y], [np.zeros((1, 1, 600), np.int8)], vector=vector)


def _pixels_in_place(channels: Sequence[int], dtype: DType, *, vector: bool = False) -> Trial:
    """Convolve pixels with their outputs in the same memory, once in each direction."""
    net = Net(seed=1)
    x = net.arena(1, 3, 5, channels[0], dtype=dtype)
    y = x
    for inputs, outputs in pairwise(channels):
        weights = net.filter(outputs, 1, 1, inputs, like=y)
        y = net.op("CONV_2D", [y, weights], 1, 3, 5, outputs, padding="SAME", stride_w=1, stride_h=1)
    trial = _trial(net, [x], [y], vector=vector)
    assert set(trial.memory.fields) == {1}, "the second convolution descends"
    return trial


def _columns_outside() -> Trial:
    """Convolve columns that are farther apart than the image is wide, so that none of a window may be in it."""
    net = Net(seed=1)
    x = net.arena(1, 2, 2, 3, zero_point=5)
    weights = net.filter(4, 1, 4, 3, like=x)
    values: dict[str, Any] = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "dilation_w_factor": 3}
    return _trial(net, [x], [net.op("CONV_2D", [x, weights], 1, 2, 2, 4, **values)], vector=True)


def _large_scales() -> Trial:
    """Scale sums by 3 / 4, without a shift to the right."""
    net = Net(seed=1)
    x = net.arena(1, 1, 4, 3, scale=1 / 16)
    weights = net.tensor((2, 1, 1, 3), DType.INT8, data=bytes([1, 255, 2, 0, 1, 254]), scales=(1 / 4,))
    values: dict[str, Any] = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "fused_activation_function": "RELU"}
    y = net.op("CONV_2D", [x, weights], 1, 1, 4, 2, scale=1 / 48, zero_point=-128, **values)
    return _trial(net, [x], [y], vector=True)
