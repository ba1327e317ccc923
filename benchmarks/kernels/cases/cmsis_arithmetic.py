"""ADD, MUL, MAXIMUM and MINIMUM: equal shapes, scalars and broadcasts of every rank, with activations."""

from __future__ import annotations

from functools import partial
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    ACTIVATIONS,
    INT8,
    INT16,
    TYPES,
    activation,
    constant,
    net_of,
    quantized_like,
    shape,
    zero_point,
)

from edgetool.model.types import Model


def _pair(random: Random) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of both inputs and of the output."""
    result = shape(random, random.choice((0, 1, 2, 3, 4, 4, 5)), 500)
    form = random.random()
    if form < 0.4:
        return result, result, result
    other: tuple[int, ...] = ()
    if form > 0.55 and result:
        other = tuple(1 if random.random() < 0.5 else side for side in result)[random.randrange(len(result)) :]
    first, second = result, other
    if form > 0.85 and len(result) > 1:  # both are broadcast
        at = random.randrange(len(result))
        first = tuple(1 if index == at else side for index, side in enumerate(result))
        second = tuple(side if index == at else random.choice((1, side)) for index, side in enumerate(result))
        result = tuple(max(sides) for sides in zip(first, second, strict=True))
    return (first, second, result) if random.random() < 0.7 else (second, first, result)


def _binary(code: str, kind: str, random: Random) -> Model:
    dtype = TYPES[kind]
    first, second, result = _pair(random)
    net = net_of(random)
    a = activation(net, random, first, dtype)
    same = code in ("MAXIMUM", "MINIMUM")
    b = quantized_like(net, a, second) if same else activation(net, random, second, dtype)
    inputs = [a, b]
    if random.random() < 0.25:
        old = net.tensors[b].quantization
        b = constant(
            net,
            random,
            second,
            dtype,
            scales=() if old is None else old.scales,
            zero=0 if old is None else old.zero_points[0],
            **({} if dtype in (INT8, INT16) else {"lowest": -1000, "highest": 1000}),
        )
        inputs = [a]
    if same:
        y = quantized_like(net, a, result)
    elif dtype in (INT8, INT16):
        scales = [net.tensors[index].quantization.scales[0] for index in (a, b)]  # type: ignore[union-attr]
        own = sum(scales) * random.uniform(0.5, 1.2)
        if code == "MUL":
            own = scales[0] * scales[1] * (128 if dtype is INT8 else 32768) * random.choice((1, 0.3, 2))
        y = net.arena(*result, dtype=dtype, scale=own, zero_point=zero_point(random, dtype))
    else:
        y = net.arena(*result, dtype=dtype)
    if same:
        net.give(code, [a, b], [y])
    else:
        net.give(code, [a, b], [y], fused_activation_function=random.choice(ACTIVATIONS))
    return net.model(inputs, [y])


GENERATORS: Generators = {
    **{(code, kind): partial(_binary, code, kind) for code in ("ADD", "MUL") for kind in ("int8", "int16", "float32")},
    **{(code, "int32"): partial(_binary, code, "int32") for code in ("ADD", "MUL")},
    **{
        (code, kind): partial(_binary, code, kind)
        for code in ("MAXIMUM", "MINIMUM")
        for kind in ("int8", "int16", "int32", "int64", "float32")
    },
}
