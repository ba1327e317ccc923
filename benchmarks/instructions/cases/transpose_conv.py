"""Transposed convolutions of one operator each: every loop turned a different number of times."""

from __future__ import annotations

from functools import partial
from math import prod
from random import Random
from typing import Any

from benchmarks.instructions.cases import Cases
from benchmarks.instructions.contents import half_zeros
from benchmarks.instructions.shapes import TYPES, Image, Pair, drawn, named, options_named
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

DRAWN = 80
PRODUCTS = range(200, 16_000)  # of a drawn case
FLOAT32 = DType.FLOAT32
Drawn = tuple[Image, Pair, int, dict[str, Any]]

# Height, width, channels; filter; channels out; then what is not usual. More than 16 channels go another way.
TRANSPOSED: tuple[tuple[Image, Pair, int, dict[str, Any]], ...] = (
    ((4, 4, 8), (3, 3), 4, {"stride": (2, 2)}),
    ((3, 5, 3), (2, 2), 7, {"stride": (2, 2)}),
    ((5, 5, 4), (3, 3), 3, {}),
    ((2, 6, 10), (4, 4), 2, {"stride": (2, 2)}),
    ((6, 3, 16), (1, 3), 5, {"stride": (1, 2)}),
    ((3, 3, 5), (3, 3), 8, {"stride": (3, 3)}),
    ((4, 7, 1), (5, 5), 4, {"stride": (2, 2)}),
    ((7, 1, 12), (3, 1), 6, {"stride": (2, 1)}),
    ((2, 2, 14), (3, 3), 9, {"padding": "VALID", "stride": (2, 2)}),
    ((5, 4, 6), (2, 3), 1, {"padding": "VALID"}),
    ((3, 6, 9), (4, 2), 12, {"stride": (2, 2), "batch": 2}),
    ((8, 8, 2), (2, 2), 2, {"stride": (2, 2)}),
    ((3, 3, 32), (3, 3), 4, {"stride": (3, 3)}),
    ((1, 9, 7), (1, 4), 10, {"stride": (1, 2)}),
    ((3, 3, 20), (3, 3), 4, {"stride": (2, 2)}),
    ((4, 3, 24), (2, 2), 3, {"stride": (2, 2)}),
    ((5, 4, 17), (3, 3), 5, {}),
    ((2, 5, 32), (4, 4), 2, {"stride": (2, 2)}),
    ((6, 2, 36), (1, 3), 8, {"stride": (1, 2)}),
    ((3, 2, 18), (3, 3), 9, {"padding": "VALID", "stride": (2, 2)}),
    ((4, 4, 28), (2, 3), 1, {"padding": "VALID"}),
    ((2, 4, 40), (2, 2), 6, {"stride": (2, 2), "batch": 2}),
    ((1, 7, 21), (1, 4), 4, {"stride": (1, 2)}),
    ((5, 1, 48), (5, 1), 3, {"stride": (2, 1)}),
    ((2, 3, 64), (3, 3), 2, {}),
    ((6, 6, 17), (2, 2), 2, {"stride": (2, 1)}),
    ((3, 4, 23), (1, 1), 7, {}),
    ((2, 2, 30), (3, 2), 11, {"stride": (1, 1)}),
)


def _transposed(
    kind: str,
    image: Image,
    kernel: Pair,
    channels: int,
    *,
    stride: Pair = (1, 1),
    padding: str = "SAME",
    batch: int = 1,
    rectified: bool = False,
) -> Model:
    """rectified: a constant input of floats, half of them 0."""
    dtype, weights_type = TYPES[kind]
    height, width, depth = image
    net = Net(channels)
    given = (batch, height, width, depth)
    x = half_zeros(net, *given) if rectified else net.arena(*given, dtype=dtype)
    size = [
        side * step if padding == "SAME" else (side - 1) * step + taps
        for side, taps, step in zip(image, kernel, stride, strict=False)
    ]
    shape = (batch, *size, channels)
    axis = None if dtype == FLOAT32 else 0
    weights = net.noise(channels, *kernel, depth, dtype=weights_type, axis=axis)
    inputs = [net.constant(shape), weights, x, net.biases(channels, like=x)]
    y = net.op("TRANSPOSE_CONV", inputs, *shape, dtype=dtype, padding=padding, stride_h=stride[0], stride_w=stride[1])
    return net.model([] if rectified else [x], [y])


def _draw(random: Random, fewest: int) -> Drawn:
    while True:
        image = drawn(random, 8), drawn(random, 8), drawn(random, 3 * fewest + 16, fewest)
        kernel = random.choice(((3, 3), (2, 2), (4, 4), (1, 3), (3, 1), (5, 5), (2, 3), (1, 4)))
        given: dict[str, Any] = {"padding": random.choice(("SAME", "SAME", "VALID"))}
        if random.random() < 0.7:
            given["stride"] = random.choice(((2, 2), (2, 2), (1, 2), (2, 1), (3, 3)))
        if random.random() < 0.1:
            given["batch"] = 2
        channels = drawn(random, 24)
        if prod(image) * prod(kernel) * channels * given.get("batch", 1) in PRODUCTS:
            return image, kernel, channels, given


def _cases() -> Cases:
    random = Random("transposed")
    shapes = (*TRANSPOSED, *(_draw(random, fewest) for fewest in (1, 17, 17) for _ in range(DRAWN)))
    table: Cases = {
        named(types, image, kernel, channels, *options_named(given)): partial(
            _transposed, types, image, kernel, channels, **given
        )
        for types in ("int8", "int16", "float32")
        for image, kernel, channels, given in shapes
    }
    for image, kernel, channels, given in shapes[::4]:
        name = named("rectified", image, kernel, channels, *options_named(given))
        table[name] = partial(_transposed, "float32", image, kernel, channels, rectified=True, **given)
    return table


CASES = _cases()
