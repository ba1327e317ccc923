"""Functions of single elements.

Graph inputs are normal numbers of either sign. Functions with other domains or other points of interest get constants.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import exp, prod
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    INT16,
    TYPES,
    activation,
    any_shape,
    by_type,
    finished,
    net_of,
    numbers,
    quantized_like,
    rescaled,
    scale,
    zero_point,
)

from edgetool.model.types import Model


def _positive(random: Random) -> float:
    """Return a number above zero of any magnitude, rarely zero."""
    return 0.0 if random.random() < 0.01 else exp(random.gauss(0, 6))


def _with_halves(random: Random) -> float:
    """Return a whole number or a half, of either sign, or a number too large for a fraction."""
    return random.choice((random.randint(-20, 20) / 2, random.gauss(0, 1e3), random.gauss(0, 1e10)))


def _wide(deviation: float) -> Callable[[Random], float]:
    return lambda random: random.gauss(0, deviation)


# The constants of each function, and how many of the models have one.
CONSTANTS: dict[str, tuple[Callable[[Random], float], float]] = {
    "ABS": (_wide(1e10), 0.2),
    "CEIL": (_with_halves, 0.6),
    "COS": (_wide(100), 0.5),
    "EXP": (_wide(40), 0.5),
    "FLOOR": (_with_halves, 0.6),
    "LOG": (_positive, 1),
    "NEG": (_wide(1e10), 0.2),
    "ROUND": (_with_halves, 0.6),
    "RSQRT": (_positive, 1),
    "SIN": (_wide(100), 0.5),
    "SQRT": (_positive, 1),
    "SQUARE": (_wide(1e10), 0.2),
}


def _floats(code: str, random: Random) -> Model:
    net, dims = net_of(random), any_shape(random, lowest=0)
    draw, share = CONSTANTS[code]
    if random.random() < share:
        x = numbers(net, dims, (draw(random) for _ in range(prod(dims))))
    else:
        x = net.arena(*dims, dtype=TYPES["float32"])
    net.give(code, [x], [net.arena(*dims, dtype=TYPES["float32"])])
    return finished(net)


def _abs(code: str, kind: str, random: Random) -> Model:
    """ABS of quantized numbers, rescaled or not, and of int16 without quantization."""
    net, dtype, dims = net_of(random), TYPES[kind], any_shape(random, lowest=0)
    form = random.random()
    if dtype is INT16 and form < 0.3:
        x, y = net.tensor(dims, dtype), net.tensor(dims, dtype)
    else:
        x = activation(net, random, dims, dtype)
        y = quantized_like(net, x, dims) if form < 0.6 else rescaled(net, random, x, dims)
    net.give(code, [x], [y])
    return finished(net)


def _inverse_root(code: str, kind: str, random: Random) -> Model:
    """RSQRT of int8: with the lowest zero point, no number is negative."""
    net, dtype, dims = net_of(random), TYPES[kind], any_shape(random, lowest=0)
    own = scale(random)
    x = net.arena(*dims, dtype=dtype, scale=own, zero_point=-128)
    made = (own * 128) ** -0.5 / random.uniform(20, 120)
    net.give(code, [x], [net.arena(*dims, dtype=dtype, scale=made, zero_point=zero_point(random, dtype))])
    return finished(net)


GENERATORS: Generators = {
    **{(code, "float32"): partial(_floats, code) for code in CONSTANTS},
    **by_type(_abs, {"ABS": ("int8", "int16")}),
    **by_type(_inverse_root, {"RSQRT": ("int8",)}),
}
