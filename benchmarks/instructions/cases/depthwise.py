"""Depthwise convolutions of one operator each: every loop turned a different number of times."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from random import Random
from typing import Any

from benchmarks.instructions.cases import Cases
from benchmarks.instructions.contents import half_zeros
from benchmarks.instructions.shapes import TYPES, Image, Pair, drawn, named, options_named, outputs
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

DRAWN = 50  # of each kind
PRODUCTS = range(200, 16_000)  # of a drawn case
FLOAT32 = DType.FLOAT32
Drawn = tuple[Image, Pair, dict[str, Any]]

# Height, width, channels; filter; then what is not usual.
DEPTHWISE: tuple[tuple[Image, Pair, dict[str, Any]], ...] = (
    ((8, 8, 8), (3, 3), {}),
    ((9, 9, 16), (3, 3), {"stride": (2, 2)}),
    ((5, 5, 6), (3, 3), {}),
    ((7, 4, 3), (3, 3), {"padding": "VALID"}),
    ((4, 9, 21), (3, 3), {"stride": (2, 1)}),
    ((3, 3, 64), (3, 3), {}),
    ((1, 8, 12), (3, 3), {}),
    ((12, 12, 4), (3, 3), {"stride": (2, 2)}),
    ((6, 6, 1), (3, 3), {}),
    ((10, 3, 9), (3, 3), {}),
    ((2, 2, 40), (3, 3), {}),
    ((3, 12, 2), (3, 3), {}),
    ((6, 6, 7), (3, 3), {"stride": (3, 3)}),
    ((4, 4, 130), (3, 3), {}),
    ((3, 5, 11), (3, 3), {"padding": "VALID"}),
    ((8, 8, 8), (5, 5), {}),
    ((6, 7, 5), (5, 5), {"stride": (2, 2)}),
    ((12, 5, 8), (10, 4), {"padding": "VALID"}),
    ((9, 9, 4), (7, 7), {}),
    ((1, 20, 12), (1, 5), {}),
    ((20, 1, 8), (5, 1), {}),
    ((5, 5, 18), (2, 2), {}),
    ((7, 7, 6), (2, 2), {"stride": (2, 2), "padding": "VALID"}),
    ((6, 4, 32), (3, 1), {}),
    ((4, 6, 33), (1, 3), {}),
    ((3, 3, 126), (2, 3), {}),
    ((4, 3, 140), (1, 2), {}),
    ((8, 8, 10), (4, 4), {}),
    ((5, 3, 16), (5, 3), {"padding": "VALID"}),
    ((6, 6, 12), (1, 1), {}),
    ((5, 5, 3), (4, 2), {}),
    ((1, 31, 4), (1, 9), {}),
    ((4, 4, 24), (6, 6), {}),
    ((7, 5, 2), (5, 2), {}),
    ((3, 3, 65), (2, 2), {"padding": "VALID"}),
)
DEPTHWISE_GENERAL: tuple[tuple[Image, Pair, dict[str, Any]], ...] = (
    ((8, 8, 1), (3, 3), {"multiplier": 8}),
    ((6, 6, 3), (3, 3), {"multiplier": 4}),
    ((10, 5, 1), (10, 4), {"multiplier": 8, "stride": (2, 2)}),
    ((5, 5, 2), (2, 2), {"multiplier": 12, "padding": "VALID"}),
    ((4, 7, 6), (3, 1), {"multiplier": 4}),
    ((9, 4, 1), (5, 5), {"multiplier": 4}),
    ((3, 3, 9), (3, 3), {"multiplier": 8}),
    ((12, 12, 1), (1, 3), {"multiplier": 16, "stride": (3, 3)}),
    ((4, 4, 5), (1, 1), {"multiplier": 4}),
    ((7, 7, 2), (4, 4), {"multiplier": 4, "stride": (2, 2)}),
    ((8, 3, 2), (3, 3), {"multiplier": 20}),
    ((5, 6, 4), (5, 2), {"multiplier": 8}),
    ((8, 8, 1), (3, 3), {"multiplier": 3}),
    ((5, 5, 4), (3, 3), {"multiplier": 2}),
    ((6, 6, 8), (3, 3), {"batch": 2}),
    ((7, 7, 5), (3, 3), {"dilation": (2, 2)}),
    ((9, 5, 12), (3, 2), {"dilation": (3, 1), "padding": "VALID"}),
    ((4, 9, 7), (1, 4), {"dilation": (1, 2)}),
    ((10, 4, 1), (4, 3), {"multiplier": 6}),
    ((3, 3, 20), (2, 2), {"multiplier": 2}),
    ((6, 4, 3), (5, 5), {"batch": 3}),
    ((5, 5, 9), (1, 1), {"multiplier": 3}),
    ((4, 4, 30), (3, 3), {"batch": 2, "stride": (2, 2)}),
    ((12, 12, 2), (3, 3), {"multiplier": 5, "stride": (2, 2)}),
    ((8, 6, 1), (5, 1), {"multiplier": 2}),
    ((11, 3, 4), (3, 3), {"multiplier": 4, "dilation": (2, 1)}),
    ((16, 9, 1), (2, 7), {"multiplier": 10, "stride": (2, 3)}),
    ((7, 2, 16), (6, 2), {"batch": 4}),
)


def _depthwise(
    kind: str,
    image: Image,
    kernel: Pair,
    *,
    multiplier: int = 1,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: str = "SAME",
    batch: int = 1,
    bias: bool = True,
    rectified: bool = False,
) -> Model:
    """rectified: a constant input of floats, half of them 0."""
    dtype, weights_type = TYPES[kind]
    height, width, depth = image
    net = Net(depth)
    shape = (batch, height, width, depth)
    x = half_zeros(net, *shape) if rectified else net.arena(*shape, dtype=dtype)
    channels = depth * multiplier
    axis = None if dtype == FLOAT32 else 3
    inputs = [x, net.noise(1, *kernel, channels, dtype=weights_type, axis=axis)]
    if bias:
        inputs.append(net.biases(channels, like=x))
    size = [outputs(*given, padding) for given in zip(image, kernel, stride, dilation, strict=False)]
    y = net.op(
        "DEPTHWISE_CONV_2D",
        inputs,
        batch,
        *size,
        channels,
        stride_h=stride[0],
        stride_w=stride[1],
        padding=padding,
        dilation_h_factor=dilation[0],
        dilation_w_factor=dilation[1],
        depth_multiplier=multiplier,
        fused_activation_function="RELU",
    )
    return net.model([] if rectified else [x], [y])


def _draw(random: Random, kind: str) -> Drawn:
    while True:
        image, kernel, given = DRAWS[kind](random)
        stride, dilation = given.get("stride", (1, 1)), given.get("dilation", (1, 1))
        sides = zip(image, kernel, stride, dilation, strict=False)
        size = [outputs(*side, given.get("padding", "SAME")) for side in sides]
        products = prod(size) * prod(kernel) * image[2] * given.get("multiplier", 1) * given.get("batch", 1)
        if min(size) > 0 and products in PRODUCTS:
            return image, kernel, given | ({"bias": False} if random.random() < 0.1 else {})


def _drawn_small(random: Random) -> Drawn:
    given: dict[str, Any] = {"padding": random.choice(("SAME", "SAME", "VALID"))}
    if random.random() < 0.4:
        given["stride"] = random.choice(((2, 2), (1, 2), (2, 1), (3, 3)))
    return (drawn(random, 16), drawn(random, 16), drawn(random, 100)), (3, 3), given


def _drawn_large(random: Random) -> Drawn:
    kernel = random.choice(((5, 5), (2, 2), (4, 4), (1, 3), (3, 1), (7, 7), (5, 2), (3, 4), (10, 4), (1, 9), (6, 1)))
    image, _, given = _drawn_small(random)
    return image, kernel, given


def _drawn_inside(random: Random) -> Drawn:
    """Large windows without padding."""
    image, kernel, given = _drawn_large(random)
    return image, kernel, given | {"padding": "VALID"}


def _drawn_fours(random: Random) -> Drawn:
    image, kernel, given = random.choice((_drawn_small, _drawn_large))(random)
    return (*image[:2], drawn(random, 8)), kernel, given | {"multiplier": 4 * drawn(random, 6)}


def _drawn_general(random: Random) -> Drawn:
    """Several images, dilation, or a multiplier that is no multiple of 4."""
    image, kernel, given = random.choice((_drawn_small, _drawn_large))(random)
    which = random.randrange(4)
    if which == 0:
        given["batch"] = drawn(random, 4, 2)
    elif which == 1:
        given["multiplier"] = random.choice((2, 3, 5, 6, 7))
    elif "stride" not in given:
        given["dilation"] = random.choice(((2, 2), (1, 2), (3, 1)))
        given["multiplier"] = random.choice((1, 1, 2, 4))
    return image, kernel, given


def _drawn_even(random: Random) -> Drawn:
    """An even number of channels: two int4 weights of a byte side by side, or a byte begun in its middle."""
    image, kernel, given = random.choice((_drawn_small, _drawn_large))(random)
    multiplier = random.choice((1, 1, 2, 3, 5, 7))
    given |= {"multiplier": multiplier, "batch": 2 if multiplier == 1 else 1}
    return (*image[:2], 2 * drawn(random, 8)), kernel, given


def _drawn_single(random: Random) -> Drawn:
    """One channel into several, which MVE runs as a convolution."""
    image, kernel, given = random.choice((_drawn_small, _drawn_large))(random)
    given["multiplier"] = drawn(random, 24, 2)
    return (*image[:2], 1), kernel, given


def _drawn_point(random: Random) -> Drawn:
    """The same of windows of one element."""
    stride = random.choice(((1, 1), (1, 1), (2, 2), (1, 2), (3, 1)))
    given = {"multiplier": drawn(random, 40, 2), "stride": stride, "padding": "VALID"}
    return (drawn(random, 16), drawn(random, 16), 1), (1, 1), given


def _drawn_line(random: Random) -> Drawn:
    """The same along a row."""
    given = {"multiplier": drawn(random, 24, 2), "stride": (1, 4), "padding": random.choice(("SAME", "VALID"))}
    return (1, drawn(random, 80, 8), 1), (1, drawn(random, 12, 2)), given


DRAWS: dict[str, Callable[[Random], Drawn]] = {
    "small": _drawn_small,
    "large": _drawn_large,
    "inside": _drawn_inside,
    "fours": _drawn_fours,
    "general": _drawn_general,
    "even": _drawn_even,
    "single": _drawn_single,
    "point": _drawn_point,
    "line": _drawn_line,
}


def _cases() -> Cases:
    random = Random("depthwise")
    drawn_shapes = [_draw(random, kind) for kind in DRAWS for _ in range(DRAWN)]
    shapes = (*DEPTHWISE, *DEPTHWISE_GENERAL, *drawn_shapes)
    table: Cases = {
        named(types, image, kernel, *options_named(given)): partial(_depthwise, types, image, kernel, **given)
        for types in TYPES
        for image, kernel, given in shapes
    }
    for image, kernel, given in shapes[::6]:
        name = named("rectified", image, kernel, *options_named(given))
        table[name] = partial(_depthwise, "float32", image, kernel, rectified=True, **given)
    return table


CASES = _cases()
