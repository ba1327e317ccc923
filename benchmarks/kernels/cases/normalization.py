"""Normalization along the last axis, without SOFTMAX."""

from __future__ import annotations

from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    INT8,
    TYPES,
    Shape,
    any_shape,
    by_type,
    finished,
    net_of,
    scale,
    shape,
    zero_point,
)

from edgetool.model.types import Model


def _rows(random: Random, highest: int) -> Shape:
    """Return a shape; the last axis is long, short or 1."""
    dims = any_shape(random, highest)
    return (*shape(random, len(dims) - 1, 20), random.randint(1, 30)) if random.random() < 0.4 else dims


def _log_softmax(code: str, kind: str, random: Random) -> Model:
    """LOG_SOFTMAX; with a coarse scale, most numbers are far below their row's largest."""
    net, dtype, dims = net_of(random), TYPES[kind], _rows(random, 6)
    if dtype is INT8:
        own = scale(random) * random.choice((1, 5))
        x = net.arena(*dims, dtype=dtype, scale=own, zero_point=zero_point(random, dtype))
        y = net.arena(*dims, dtype=dtype, scale=16 / 256, zero_point=127)
    else:
        x, y = net.arena(*dims, dtype=dtype), net.arena(*dims, dtype=dtype)
    net.give(code, [x], [y])
    return finished(net)


def _l2_normalization(code: str, kind: str, random: Random) -> Model:
    net, dtype, dims = net_of(random), TYPES[kind], _rows(random, 4)
    own, made = (scale(random), 1 / 128) if dtype is INT8 else (None, None)
    x = net.arena(*dims, dtype=dtype, scale=own, zero_point=zero_point(random, dtype))
    net.give(code, [x], [net.arena(*dims, dtype=dtype, scale=made)])
    return finished(net)


GENERATORS: Generators = {
    **by_type(_log_softmax, {"LOG_SOFTMAX": ("float32", "int8")}),
    **by_type(_l2_normalization, {"L2_NORMALIZATION": ("float32", "int8")}),
}
