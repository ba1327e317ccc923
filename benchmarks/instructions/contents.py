"""Constants with contents like those of a network: what the rules expect where instructions depend on values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from statistics import NormalDist
from struct import pack

from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

SCALES = {DType.INT8: 1 / 16, DType.UINT8: 1 / 16, DType.INT16: 1 / 2048}
RANGES = {DType.INT8: (-128, 127), DType.UINT8: (0, 255), DType.INT16: (-(2**15), 2**15 - 1)}
INTEGERS = {DType.INT8: "b", DType.UINT8: "B", DType.INT16: "h"}
CODES = {DType.UINT32: "I", DType.INT64: "q", DType.INT32: "i", DType.BOOL: "?"}
FLOAT_DEVIATION = 1.0
WHOLE = 1000  # the largest of plain integers


def values(
    net: Net,
    *shape: int,
    dtype: DType = DType.INT8,
    scale: float | None = None,
    zero_point: int = 0,
    signed: bool = True,
) -> int:
    """A constant of seeded noise: quantized types and floats normal around zero, others even; no integer is zero.

    Quantized ones have a standard deviation of a sixth of their type's range. They are not negative where that is
    asked for, nor with the lowest zero point.
    """
    count = prod(shape)
    if dtype == DType.FLOAT32:
        return numbers(net, shape, normal(net, count, FLOAT_DEVIATION))
    if dtype not in RANGES:
        return net.tensor(shape, dtype, data=pack(f"<{count}{CODES[dtype]}", *_plain(net, dtype, count)))
    lowest, largest = RANGES[dtype]
    drawn = normal(net, count, (largest - lowest + 1) / 6)
    kept = [zero_point + round(value if signed and zero_point != lowest else abs(value)) for value in drawn]
    data = pack(
        f"<{count}{INTEGERS[dtype]}",
        *(min(max(value, lowest), largest) for value in kept),
    )
    return net.tensor(
        shape, dtype, data=data, scales=[SCALES[dtype] if scale is None else scale], zero_point=zero_point
    )


def _plain(net: Net, dtype: DType, count: int) -> list[int]:
    if dtype == DType.BOOL:
        return [net.random.randrange(2) for _ in range(count)]
    signs = (1,) if dtype == DType.UINT32 else (1, -1)
    return [net.random.choice(signs) * net.random.randrange(1, WHOLE) for _ in range(count)]


def numbers(net: Net, shape: Sequence[int], drawn: Sequence[float]) -> int:
    """A float constant of these numbers."""
    return net.tensor(shape, DType.FLOAT32, data=pack(f"<{len(drawn)}f", *drawn))


def normal(net: Net, count: int, deviation: float) -> list[float]:
    """As many numbers, evenly taken from a normal distribution around zero, in any order."""
    whole = NormalDist(0, deviation)
    drawn = [whole.inv_cdf((place + net.random.uniform(0.01, 0.99)) / count) for place in range(count)]
    net.random.shuffle(drawn)
    return drawn


def half_zeros(net: Net, *shape: int) -> int:
    """A float constant like what a RELU makes."""
    return numbers(net, shape, [max(0.0, number) for number in normal(net, prod(shape), FLOAT_DEVIATION)])


def positive(net: Net, *shape: int) -> int:
    """A float constant of numbers above zero."""
    return numbers(net, shape, [abs(number) + 1e-3 for number in normal(net, prod(shape), FLOAT_DEVIATION)])


def whole_numbers(
    net: Net, shape: Sequence[int], dtype: DType, lowest: int, largest: int, zero_point: int = 0, scale: float = 0.0
) -> int:
    """A constant of even noise within bounds; quantized when a scale is given."""
    count = prod(shape)
    data = pack(f"<{count}{INTEGERS[dtype]}", *(net.random.randint(lowest, largest) for _ in range(count)))
    return net.tensor(shape, dtype, data=data, scales=[scale] if scale else (), zero_point=zero_point)


def by_type(
    make: Callable[[str, DType], Model], types: Mapping[str, Sequence[DType]], ending: str = ""
) -> dict[str, Callable[[], Model]]:
    """A case for each operator and type, by name."""
    return {
        "-".join(filter(None, (code.lower(), dtype.name.lower(), ending))): partial(make, code, dtype)
        for code, dtypes in types.items()
        for dtype in dtypes
    }
