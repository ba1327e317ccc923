"""Convolutions of one operator each: every loop of the kernels turned a different number of times."""

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

FLOAT32 = DType.FLOAT32
DRAWN = 60  # of each kind
Drawn = tuple[Image, Pair, int, dict[str, Any]]
PRODUCTS = range(400, 16_000)  # of a drawn case

# Height, width, channels; filter; channels out; then what is not usual.
POINTWISE: tuple[tuple[int, ...], ...] = (
    (4, 4, 8, 8),
    (1, 1, 64, 32),
    (3, 3, 16, 15),
    (5, 5, 3, 16),
    (7, 3, 17, 5),
    (2, 2, 130, 12),
    (1, 1, 256, 40),
    (6, 6, 32, 8),
    (12, 12, 4, 6),
    (5, 3, 40, 24),
    (3, 3, 22, 2),
    (9, 5, 1, 7),
    (1, 3, 47, 31),
    (10, 1, 12, 4),
    (2, 1, 8, 65),
    (3, 2, 64, 48),
    (1, 1, 5, 1),
    (4, 3, 6, 1),
    (5, 5, 24, 10),
    (8, 8, 16, 3),
)
STRIDED: tuple[tuple[int, ...], ...] = (
    (8, 8, 8, 8, 2),
    (7, 9, 16, 6, 2),
    (9, 9, 5, 7, 3),
    (6, 10, 35, 4, 2),
    (5, 5, 64, 17, 2),
    (12, 3, 20, 2, 2),
    (3, 12, 12, 33, 4),
    (16, 16, 3, 4, 5),
    (4, 6, 18, 1, 2),
    (2, 2, 96, 16, 2),
)
WINDOWS: tuple[tuple[Image, Pair, int, dict[str, Any]], ...] = (
    ((8, 8, 3), (3, 3), 8, {"stride": (2, 2)}),
    ((10, 10, 1), (3, 3), 6, {}),
    ((12, 6, 1), (10, 4), 8, {"stride": (2, 2)}),
    ((6, 6, 16), (3, 3), 8, {}),
    ((5, 5, 8), (3, 3), 16, {"padding": "VALID"}),
    ((7, 5, 4), (3, 3), 9, {}),
    ((5, 7, 5), (3, 3), 4, {}),
    ((6, 5, 7), (2, 3), 3, {"padding": "VALID"}),
    ((9, 9, 3), (5, 5), 4, {"stride": (2, 2)}),
    ((4, 4, 32), (3, 3), 6, {}),
    ((4, 3, 18), (3, 3), 5, {}),
    ((8, 8, 2), (3, 3), 12, {"stride": (1, 2)}),
    ((16, 1, 8), (3, 1), 10, {}),
    ((9, 3, 6), (5, 1), 7, {"stride": (2, 1)}),
    ((7, 7, 4), (3, 3), 6, {"dilation": (2, 2)}),
    ((9, 6, 12), (3, 2), 2, {"dilation": (3, 1), "padding": "VALID"}),
    ((11, 11, 3), (7, 7), 5, {"stride": (2, 2)}),
    ((3, 3, 64), (3, 3), 2, {}),
    ((3, 3, 10), (3, 3), 1, {}),
    ((5, 4, 20), (1, 1), 8, {"padding": "SAME", "dilation": (2, 1)}),
    ((4, 5, 24), (2, 2), 13, {}),
    ((6, 6, 9), (1, 3), 6, {}),
    ((3, 8, 33), (3, 1), 4, {}),
    ((13, 13, 1), (5, 5), 3, {"stride": (2, 2), "padding": "VALID"}),
    ((4, 4, 6), (4, 4), 32, {"padding": "VALID"}),
    ((6, 6, 4), (2, 2), 5, {"batch": 3}),
    ((5, 3, 3), (3, 3), 7, {"batch": 2}),
    ((2, 2, 80), (2, 2), 6, {"padding": "VALID"}),
    ((5, 5, 68), (3, 3), 2, {"padding": "VALID"}),
    ((16, 16, 1), (2, 2), 2, {}),
    ((8, 4, 3), (2, 2), 17, {"padding": "VALID", "bias": False}),
    ((10, 10, 2), (1, 1), 4, {"dilation": (1, 2)}),
)
GROUPED: tuple[tuple[Image, Pair, int, dict[str, Any]], ...] = (
    ((6, 6, 8), (3, 3), 8, {"groups": 2}),
    ((5, 5, 6), (3, 3), 9, {"groups": 3}),
    ((4, 6, 16), (1, 1), 8, {"groups": 4}),
    ((4, 4, 10), (2, 2), 6, {"groups": 2, "stride": (2, 2)}),
    ((3, 5, 12), (3, 3), 12, {"groups": 12}),
    ((7, 3, 24), (1, 3), 4, {"groups": 2}),
    ((5, 4, 32), (3, 1), 16, {"groups": 2, "batch": 2}),
    ((8, 8, 4), (3, 3), 20, {"groups": 4, "padding": "VALID"}),
    ((3, 3, 40), (1, 1), 30, {"groups": 5}),
    ((4, 5, 14), (2, 1), 2, {"groups": 2}),
    ((9, 9, 2), (5, 5), 4, {"groups": 2, "stride": (2, 2)}),
    ((2, 3, 64), (2, 2), 6, {"groups": 2}),
    ((5, 5, 15), (3, 3), 5, {"groups": 5}),
    ((6, 4, 9), (2, 2), 21, {"groups": 3}),
    ((4, 4, 20), (3, 3), 10, {"groups": 10, "dilation": (2, 2)}),
    ((4, 4, 130), (3, 3), 4, {"groups": 2}),
    ((3, 5, 96), (2, 2), 6, {"groups": 2}),
    ((5, 4, 160), (1, 3), 4, {"groups": 2, "stride": (2, 1)}),
    ((3, 3, 200), (2, 2), 8, {"groups": 4}),
    ((6, 3, 72), (3, 1), 6, {"groups": 3}),
    ((4, 5, 90), (2, 2), 6, {"groups": 3, "padding": "VALID"}),
    ((3, 3, 128), (3, 3), 2, {"groups": 2}),
    ((7, 2, 34), (3, 2), 4, {"groups": 2}),
    ((5, 5, 57), (3, 3), 6, {"groups": 3, "stride": (2, 2)}),
    ((2, 6, 300), (1, 1), 6, {"groups": 2}),
)
ROWS: tuple[tuple[int, int, int, int, dict[str, Any]], ...] = (
    (20, 8, 3, 8, {}),
    (31, 4, 5, 6, {}),
    (16, 16, 4, 5, {"padding": "VALID"}),
    (40, 4, 8, 4, {"stride": 2}),
    (17, 12, 3, 10, {"stride": 2}),
    (24, 6, 3, 7, {"stride": 2}),
    (12, 32, 5, 3, {}),
    (9, 20, 3, 16, {"padding": "VALID"}),
    (28, 4, 2, 9, {}),
    (15, 40, 1, 6, {"dilation": 1, "stride": 3, "padding": "VALID"}),
    (13, 8, 7, 4, {"batch": 2}),
    (33, 5, 3, 5, {"stride": 4}),
    (10, 24, 9, 2, {}),
    (22, 3, 3, 4, {}),
    (6, 64, 3, 12, {}),
    (4, 8, 9, 3, {}),
)


def _convolution(
    kind: str,
    image: Image,
    kernel: Pair,
    channels: int,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: str = "SAME",
    groups: int = 1,
    batch: int = 1,
    bias: bool = True,
    narrow: bool = False,
    rectified: bool = False,
) -> Model:
    """narrow: a bias of int32 for int16; rectified: a constant input of floats, half of them 0."""
    dtype, weights_type = TYPES[kind]
    height, width, depth = image
    net = Net(channels)
    shape = (batch, height, width, depth)
    x = half_zeros(net, *shape) if rectified else net.arena(*shape, dtype=dtype)
    axis = None if dtype == FLOAT32 else 0
    inputs = [x, net.noise(channels, *kernel, depth // groups, dtype=weights_type, axis=axis)]
    if narrow:
        inputs.append(net.noise(channels, dtype=DType.INT32, scale=1 / 2048 / 128))
    elif bias:
        inputs.append(net.biases(channels, like=x))
    size = [outputs(*given, padding) for given in zip(image, kernel, stride, dilation, strict=False)]
    y = net.op(
        "CONV_2D",
        inputs,
        batch,
        *size,
        channels,
        stride_h=stride[0],
        stride_w=stride[1],
        padding=padding,
        dilation_h_factor=dilation[0],
        dilation_w_factor=dilation[1],
        fused_activation_function="RELU",
    )
    return net.model([] if rectified else [x], [y])


def _draw(random: Random, kind: str) -> Drawn:
    """A shape of a kind with as many products as wanted."""
    while True:
        image, kernel, channels, given = DRAWS[kind](random)
        groups, batch = given.get("groups", 1), given.get("batch", 1)
        stride, dilation = given.get("stride", (1, 1)), given.get("dilation", (1, 1))
        padding = given.get("padding", "SAME")
        size = [outputs(*sides, padding) for sides in zip(image, kernel, stride, dilation, strict=False)]
        products = batch * prod(size) * prod(kernel) * image[2] // groups * channels
        if min(size) > 0 and products in PRODUCTS:
            return image, kernel, channels, given | ({"bias": False} if random.random() < 0.1 else {})


def _drawn_pointwise(random: Random) -> Drawn:
    image = drawn(random, 12), drawn(random, 12), drawn(random, 200)
    return image, (1, 1), drawn(random, 100), {"batch": 2} if random.random() < 0.1 else {}


def _drawn_strided(random: Random) -> Drawn:
    image = drawn(random, 20, 2), drawn(random, 20, 2), drawn(random, 150)
    stride = random.choice(((2, 2), (2, 2), (1, 2), (2, 1), (3, 3)))
    return image, (1, 1), drawn(random, 80), {"stride": stride, "padding": "VALID"}


def _drawn_windows(random: Random) -> Drawn:
    image = drawn(random, 14, 2), drawn(random, 14, 2), drawn(random, 48)
    kernel = random.choice(((3, 3), (3, 3), (5, 5), (2, 2), (1, 3), (3, 1), (4, 3), (7, 7), (1, 5), (2, 4)))
    given: dict[str, Any] = {"padding": random.choice(("SAME", "VALID"))}
    if random.random() < 0.4:
        given["stride"] = random.choice(((2, 2), (2, 1), (1, 2), (3, 2)))
    elif random.random() < 0.2:
        given["dilation"] = random.choice(((2, 2), (1, 2), (3, 1)))
    if random.random() < 0.1:
        given["batch"] = 2
    return image, kernel, drawn(random, 40), given


def _drawn_odd(random: Random) -> Drawn:
    """Windows of an odd number of elements, whose int4 weights share bytes with the next."""
    image, _, channels, given = _drawn_windows(random)
    kernel = random.choice(((3, 3), (1, 3), (5, 5), (3, 1), (1, 5)))
    return (*image[:2], 2 * drawn(random, 16) - 1), kernel, channels, given


def _drawn_groups(random: Random) -> Drawn:
    groups = drawn(random, 12, 2)
    image, kernel, _, given = _drawn_windows(random)
    return (*image[:2], groups * drawn(random, 16)), kernel, groups * drawn(random, 10), given | {"groups": groups}


def _drawn_row(random: Random) -> Drawn:
    """Mostly such that CMSIS-NN has a kernel of its own for it: strides times channels a multiple of 4."""
    stride = random.choice((1, 1, 1, 2, 2, 3))
    depth = drawn(random, 40) * (4 if stride % 2 else 2)
    padding = random.choice(("SAME", "SAME", "VALID"))
    image, kernel = (1, drawn(random, 40, 4), depth), (1, random.choice((2, 3, 3, 4, 5, 7, 9)))
    return image, kernel, drawn(random, 40), {"stride": (1, stride), "padding": padding}


DRAWS: dict[str, Callable[[Random], Drawn]] = {
    "pointwise": _drawn_pointwise,
    "strided": _drawn_strided,
    "windows": _drawn_windows,
    "odd": _drawn_odd,
    "grouped": _drawn_groups,
    "row": _drawn_row,
}


def _listed() -> dict[str, list[Drawn]]:
    usual: dict[str, Any] = {"padding": "VALID"}
    rows = [
        (
            (1, width, c),
            (1, k),
            n,
            {name: (1, value) if name in ("stride", "dilation") else value for name, value in row.items()},
        )
        for width, c, k, n, row in ROWS
    ]
    return {
        "pointwise": [((h, w, c), (1, 1), n, {}) for h, w, c, n in POINTWISE],
        "strided": [((h, w, c), (1, 1), n, usual | {"stride": (s, s)}) for h, w, c, n, s in STRIDED],
        "windows": list(WINDOWS),
        "odd": [],
        "grouped": list(GROUPED),
        "row": rows,
    }


def _cases() -> Cases:
    table: Cases = {}
    for kind, shapes in _listed().items():
        random = Random(kind)
        shapes += [_draw(random, kind) for _ in range(DRAWN)]
        for types in TYPES if kind != "grouped" else ("int8", "float32"):
            for image, kernel, channels, given in shapes:
                name = named(kind, types, image, kernel, channels, *options_named(given))
                table[name] = partial(_convolution, types, image, kernel, channels, **given)
        for image, kernel, channels, given in shapes if kind == "windows" else ():
            name = named(kind, "int16-narrow", image, kernel, channels, *options_named(given))
            table[name] = partial(_convolution, "int16", image, kernel, channels, narrow=True, **given)
            name = named(kind, "rectified", image, kernel, channels, *options_named(given))
            table[name] = partial(_convolution, "float32", image, kernel, channels, rectified=True, **given)
    return table


CASES = _cases()
