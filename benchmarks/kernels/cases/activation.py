"""Activation functions as operators of their own: all ranks, scales on both sides of each kernel's branches."""

from __future__ import annotations

from math import prod
from random import Random

from benchmarks.kernels.cases import Generators
from benchmarks.kernels.cases.drawing import (
    FLOAT32,
    INT8,
    INT16,
    TYPES,
    Shape,
    activation,
    any_shape,
    by_type,
    finished,
    net_of,
    numbers,
    operand,
    quantized_like,
    rescaled,
    scale,
    zero_point,
)
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

# The scale and zero point that LOGISTIC and TANH write.
FIXED = {
    ("LOGISTIC", INT8): (1 / 256, -128),
    ("LOGISTIC", INT16): (2**-15, 0),
    ("TANH", INT8): (1 / 128, 0),
    ("TANH", INT16): (2**-15, 0),
}


def _input(net: Net, random: Random, dims: Shape, dtype: DType) -> int:
    """Add the input; floats are sometimes a constant of numbers beyond the bounds of RELU6 and HARD_SWISH."""
    if dtype is FLOAT32 and random.random() < 0.4:
        return numbers(net, dims, (random.gauss(0, 6) for _ in range(prod(dims))))
    return activation(net, random, dims, dtype)


def _rescaling(code: str, kind: str, random: Random) -> Model:
    """ELU, LEAKY_RELU and RELU, which rescale their input."""
    net, dtype, dims = net_of(random), TYPES[kind], any_shape(random, lowest=0)
    x = _input(net, random, dims, dtype)
    y = quantized_like(net, x, dims) if random.random() < 0.25 else rescaled(net, random, x, dims)
    options = {"alpha": random.randint(0, 3072) / 2048} if code == "LEAKY_RELU" else {}
    net.give(code, [x], [y], **options)
    return finished(net)


def _relu6(code: str, kind: str, random: Random) -> Model:
    """RELU6, whose output is quantized like its input."""
    net, dtype, dims = net_of(random), TYPES[kind], any_shape(random, lowest=0)
    x = _input(net, random, dims, dtype)
    net.give(code, [x], [quantized_like(net, x, dims)])
    return finished(net)


def _sigmoid(code: str, kind: str, random: Random) -> Model:
    """LOGISTIC and TANH; for an int16 input whose scale is a power of two, the kernels only shift."""
    net, dtype, dims = net_of(random), TYPES[kind], any_shape(random, lowest=0)
    if dtype is INT16 and random.random() < 0.5:
        x = net.arena(*dims, dtype=dtype, scale=2.0 ** -random.randint(9, 15))
    elif dtype is INT8 and random.random() < 0.3:
        x = net.arena(*dims, dtype=dtype, scale=2.0 ** -random.randint(3, 8), zero_point=zero_point(random, dtype))
    else:
        x = _input(net, random, dims, dtype)
    own, zero = FIXED.get((code, dtype), (None, 0))
    net.give(code, [x], [net.arena(*dims, dtype=dtype, scale=own, zero_point=zero)])
    return finished(net)


def _hard_swish(code: str, kind: str, random: Random) -> Model:
    """HARD_SWISH; inputs of coarser scales than 3/256 are shifted left, others right."""
    net, dtype, dims = net_of(random), TYPES[kind], any_shape(random, lowest=0)
    if dtype is FLOAT32:
        x, y = _input(net, random, dims, dtype), net.arena(*dims, dtype=dtype)
    else:
        own = random.choice((scale(random), scale(random) / 10, 3 / 256))
        x = net.arena(*dims, dtype=dtype, scale=own, zero_point=zero_point(random, dtype))
        made = own * random.choice((1, random.uniform(0.05, 1.5)))
        y = net.arena(*dims, dtype=dtype, scale=made, zero_point=zero_point(random, dtype))
    net.give(code, [x], [y])
    return finished(net)


def _prelu(code: str, kind: str, random: Random) -> Model:
    """PRELU with slopes that broadcast in all ways; those of int16 are int8."""
    net, dtype = net_of(random), TYPES[kind]
    dims = any_shape(random, 4 if dtype is FLOAT32 else 6)
    slopes = dims[random.choice((0, random.randint(0, len(dims)))) :]
    share = random.choice((0.0, 0.3, 0.7, 1.0))
    slopes = tuple(1 if random.random() < share else side for side in slopes)
    x = _input(net, random, dims, dtype)
    alpha = operand(net, random, slopes, INT8 if dtype is INT16 else dtype, share=0.7)
    net.give(code, [x, alpha], [rescaled(net, random, x, dims)])
    return finished(net)


GENERATORS: Generators = {
    **by_type(
        _rescaling,
        {
            "ELU": ("float32", "int8"),
            "LEAKY_RELU": ("float32", "int8", "int16"),
            "RELU": ("float32", "int8", "int16"),
        },
    ),
    **by_type(_relu6, {"RELU6": ("float32", "int8", "int16")}),
    **by_type(_sigmoid, {"LOGISTIC": ("float32", "int8", "int16"), "TANH": ("float32", "int8", "int16")}),
    **by_type(_hard_swish, {"HARD_SWISH": ("float32", "int8")}),
    **by_type(_prelu, {"PRELU": ("float32", "int8", "int16")}),
}
