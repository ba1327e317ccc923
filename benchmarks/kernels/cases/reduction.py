"""Reductions along all kinds of axes, ARG_MAX and ARG_MIN, and running sums."""

from __future__ import annotations

from math import prod
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    FLOAT32,
    INT32,
    TYPES,
    activation,
    any_shape,
    axis_input,
    axis_of,
    by_type,
    finished,
    net_of,
    quantized_like,
    rescaled,
    shape,
)

from edgetool.model.types import Model

MAX_FLOAT_MEAN_AXES = 4  # with more axes, MEAN of floats writes beyond the end of MeanParams (types.h)


def _reduction(code: str, kind: str, random: Random) -> Model:
    """Reductions along some axes in any order, rarely with a repetition; MEAN often along both sides of an image."""
    net, dtype = net_of(random), TYPES[kind]
    image = code in ("MEAN", "SUM") and random.random() < 0.35
    dims = shape(random, 4, 600) if image else any_shape(random)
    axes = [1, 2] if image else random.sample(range(len(dims)), random.randint(1, len(dims)))
    if code == "MEAN" and dtype is FLOAT32:
        axes = axes[:MAX_FLOAT_MEAN_AXES]
    random.shuffle(axes)
    keep = random.random() < (0.7 if image else 0.5)
    made = [1 if axis in axes else side for axis, side in enumerate(dims) if keep or axis not in axes]
    if len(axes) < MAX_FLOAT_MEAN_AXES and random.random() < 0.08:
        axes.append(random.choice(axes))
    given = axes if image and random.random() < 0.7 else [axis_of(random, axis, len(dims)) for axis in axes]
    x = activation(net, random, dims, dtype)
    if code in ("MEAN", "SUM") and random.random() < 0.75:
        count = prod(dims) // prod(made)
        factor = random.choice((1, count**-0.5)) if code == "MEAN" else random.choice((count, count**0.5))
        y = rescaled(net, random, x, made, factor)
    else:
        y = quantized_like(net, x, made)
    axis = axis_input(net, random, given[0]) if len(given) == 1 else net.constant(given)
    net.give(code, [x, axis], [y], keep_dims=keep)
    return finished(net)


def _extreme(code: str, kind: str, random: Random) -> Model:
    """ARG_MAX and ARG_MIN."""
    net, dims = net_of(random), any_shape(random)
    axis = random.randrange(len(dims))
    x = activation(net, random, dims, TYPES[kind])
    y = net.arena(*dims[:axis], *dims[axis + 1 :], dtype=INT32)
    net.give(code, [x, axis_input(net, random, axis_of(random, axis, len(dims)))], [y], output_type="INT32")
    return finished(net)


def _running_sum(code: str, kind: str, random: Random) -> Model:
    """CUMSUM forwards and backwards, with each element or without."""
    net, dtype, dims = net_of(random), TYPES[kind], any_shape(random)
    axis = axis_of(random, random.randrange(len(dims)), len(dims))
    x = activation(net, random, dims, dtype)
    y = rescaled(net, random, x, dims, random.choice((dims[axis], dims[axis] ** 0.5)))
    exclusive, reverse = (random.random() < 0.5 for _ in range(2))
    net.give(code, [x, axis_input(net, random, axis)], [y], exclusive=exclusive, reverse=reverse)
    return finished(net)


GENERATORS: Generators = {
    **by_type(
        _reduction,
        {
            "MEAN": ("float32", "int8", "int16"),
            "REDUCE_ALL": ("bool",),
            "REDUCE_MAX": ("float32", "int8"),
            "REDUCE_MIN": ("float32", "int8"),
            "SUM": ("float32", "int8", "int16"),
        },
    ),
    **by_type(_extreme, dict.fromkeys(("ARG_MAX", "ARG_MIN"), ("float32", "int8"))),
    **by_type(_running_sum, {"CUMSUM": ("float32", "int8")}),
}
