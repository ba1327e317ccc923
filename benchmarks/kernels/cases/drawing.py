"""What the generators share: sizes, scales and constants, drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import exp, log, prod
from random import Random
from struct import pack

from benchmarks.kernels.cases import Generators
from tests.memory.account_net import Net

from edgetool.model.rules import common_shape
from edgetool.model.types import DType, Model

INT4, INT8, INT16, INT32, INT64 = DType.INT4, DType.INT8, DType.INT16, DType.INT32, DType.INT64
UINT8, UINT32 = DType.UINT8, DType.UINT32
FLOAT32, BOOL = DType.FLOAT32, DType.BOOL
TYPES: dict[str, DType] = {
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "int64": INT64,
    "float32": FLOAT32,
    "bool": BOOL,
    "uint8": UINT8,
    "uint32": UINT32,
}
# The types with which operators are tested that accept any type.
ANY = ("bool", "float32", "int8", "int16", "int32", "int64", "uint8")
ELEMENTS = 600  # the most elements of a tensor
Shape = tuple[int, ...]
ACTIVATIONS = ("NONE", "NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def net_of(random: Random) -> Net:
    """Return an empty model whose constants are drawn from the same random numbers."""
    net = Net()
    net.random = random
    return net


def size(random: Random, highest: int, lowest: int = 1) -> int:
    """Return a size between both, small ones as likely as large ones."""
    return round(exp(random.uniform(log(lowest - 0.49), log(highest + 0.49))))


def shape(random: Random, rank: int, elements: int) -> tuple[int, ...]:
    """Return a shape of this rank with at most this number of elements; about one axis in four has the size 1."""
    while True:
        drawn = tuple(1 if random.random() < 0.2 else size(random, max(elements, 1)) for _ in range(rank))
        if prod(drawn) <= elements:
            return drawn


def scale(random: Random) -> float:
    """Return the scale of an activation."""
    return exp(random.uniform(log(0.005), log(0.2)))


def zero_point(random: Random, dtype: DType, fused: str = "NONE") -> int:
    """Return a zero point: 0 for int16, any code for int8 and uint8."""
    if dtype is INT8 and fused != "NONE":  # a clamp at 0 that leaves codes above it
        return random.choice((-128, -128, random.randint(-128, -40)))
    if dtype is UINT8:
        return random.choice((0, 128, 255, random.randint(0, 255)))
    return random.choice((0, -128, 127, random.randint(-128, 127))) if dtype is INT8 else 0


def activation(net: Net, random: Random, dims: Sequence[int], dtype: DType) -> int:
    """Add a tensor in the arena; a quantized type has a random scale and zero point."""
    if dtype not in (INT8, INT16, UINT8):
        return net.arena(*dims, dtype=dtype)
    factor = 1 / 256 if dtype is INT16 else 1
    return net.arena(*dims, dtype=dtype, scale=scale(random) * factor, zero_point=zero_point(random, dtype))


def quantized_like(net: Net, tensor: int, dims: Sequence[int], dtype: DType | None = None) -> int:
    """Add a tensor in the arena with the scale and zero point of another."""
    other = net.tensors[tensor]
    first = None if other.quantization is None else (other.quantization.scales[0], other.quantization.zero_points[0])
    own, zero = first or (None, 0)
    return net.arena(*dims, dtype=dtype or other.dtype, scale=own, zero_point=zero)


def rescaled(net: Net, random: Random, tensor: int, dims: Sequence[int], factor: float = 1) -> int:
    """Add a tensor in the arena of the same type, whose scale is near that of another times the factor."""
    other = net.tensors[tensor]
    if other.quantization is None:
        return net.arena(*dims, dtype=other.dtype)
    own = other.quantization.scales[0] * factor * exp(random.gauss(0, 0.5))
    return net.arena(*dims, dtype=other.dtype, scale=own, zero_point=zero_point(random, other.dtype))


def constant(
    net: Net,
    random: Random,
    dims: Sequence[int],
    dtype: DType,
    *,
    scales: Sequence[float] = (),
    zero: int = 0,
    axis: int = 0,
    lowest: int | None = None,
    highest: int | None = None,
) -> int:
    """Add a constant of random values over the whole range of its type, or between two limits; floats are normal."""
    count = prod(dims)
    if dtype is FLOAT32:
        data = pack(f"<{count}f", *(random.gauss(0, 1) for _ in range(count)))
    elif dtype is INT4:
        data = bytes(random.randrange(256) for _ in range(-(-count // 2)))
    else:
        bits = {BOOL: 1, INT8: 8, UINT8: 8, INT16: 16, INT32: 32, UINT32: 32, INT64: 64}[dtype]
        first, last = (
            (0, (1 << bits) - 1) if dtype in (BOOL, UINT8, UINT32) else (-(1 << bits - 1), (1 << bits - 1) - 1)
        )
        low, high = first if lowest is None else lowest, last if highest is None else highest
        code = {BOOL: "?", INT8: "b", UINT8: "B", INT16: "h", INT32: "i", UINT32: "I", INT64: "q"}[dtype]
        data = pack(f"<{count}{code}", *(random.randint(low, high) for _ in range(count)))
    return net.tensor(dims, dtype, data=data, scales=scales, zero_point=zero, axis=axis)


def filter_of(
    net: Net, random: Random, dims: Sequence[int], dtype: DType, axis: int, *, per_channel: float = 0.8
) -> tuple[int, tuple[float, ...]]:
    """Add a filter, which has a scale for each channel with this probability; return it and its scales."""
    if dtype is FLOAT32:
        return constant(net, random, dims, dtype), ()
    count = dims[axis] if random.random() < per_channel else 1
    scales = tuple(random.uniform(0.5, 1.5) / 128 for _ in range(count))
    lowest = -127 if dtype is INT8 else None
    return constant(net, random, dims, dtype, scales=scales, axis=axis, lowest=lowest), scales


def bias(
    net: Net,
    random: Random,
    units: int,
    source: int,
    scales: Sequence[float],
    weights_type: DType = INT8,
    *,
    wide: float = 0.7,
) -> tuple[int, ...]:
    """Add a bias in most cases: int32, for int16 activations int64 with the probability `wide`; return () for none."""
    kind = random.random()
    if kind < 0.15:
        return () if kind < 0.08 else (-1,)
    tensor = net.tensors[source]
    if tensor.dtype is FLOAT32:
        return (constant(net, random, (units,), FLOAT32),)
    dtype = INT64 if tensor.dtype is INT16 and random.random() < wide else INT32
    quantization = tensor.quantization
    assert quantization is not None
    limit = 2_000_000 if tensor.dtype is INT16 else 1_000 if weights_type is INT4 else 12_000
    own = [quantization.scales[0] * scale for scale in scales]
    return (constant(net, random, (units,), dtype, scales=own, lowest=-limit, highest=limit),)


def output_like(
    net: Net,
    random: Random,
    dims: Sequence[int],
    source: int,
    scales: Sequence[float],
    growth: float,
    weights_type: DType = INT8,
    fused: str = "NONE",
) -> int:
    """Add the output of a sum of products, with a scale at which most results are within the range of the type.

    growth: the standard deviation of the sum, in those of one product.
    """
    tensor = net.tensors[source]
    if tensor.dtype is FLOAT32 or tensor.quantization is None:
        return net.arena(*dims, dtype=tensor.dtype)
    weight_deviation = 4.6 if weights_type is INT4 else 73.0
    source_deviation, result_deviation = (74.0, 50.0) if tensor.dtype is INT8 else (19_000.0, 9_000.0)
    typical = tensor.quantization.scales[0] * max(scales) * source_deviation * weight_deviation * growth
    own = typical / result_deviation * random.choice((1, 1, 1, random.uniform(0.3, 4)))
    return net.arena(*dims, dtype=tensor.dtype, scale=own, zero_point=zero_point(random, tensor.dtype, fused))


def any_shape(random: Random, highest: int = 6, lowest: int = 1, elements: int = ELEMENTS) -> Shape:
    """Return a shape of any rank between both."""
    return shape(random, random.randint(lowest, highest), elements)


def broadcast_shapes(random: Random, count: int, highest: int = 6) -> tuple[list[Shape], Shape]:
    """Return the shapes of operands, which are equal or broadcast to a common shape, and that shape.

    An operand lacks leading axes, or has the size 1 along some axes, or is a single element.
    """
    full = any_shape(random, highest)
    if random.random() < 0.35:
        return [full] * count, full
    shapes = []
    for _ in range(count):
        form = random.random()
        if form < 0.3:
            shapes.append(full)
        elif form < 0.45:
            shapes.append((1,) * random.randint(0, len(full)))
        else:
            left = full[random.choice((0, random.randint(0, len(full)))) :]
            share = random.choice((0.15, 0.5, 0.8))
            shapes.append(tuple(1 if random.random() < share else side for side in left))
    common = common_shape(shapes)
    assert common is not None
    return shapes, common


def operand(net: Net, random: Random, dims: Sequence[int], dtype: DType, share: float = 0.2) -> int:
    """Add an operand: a tensor in the arena, or with this probability a constant; both are quantized at random."""
    if random.random() >= share:
        return activation(net, random, dims, dtype)
    if dtype not in (INT8, INT16, UINT8):
        return constant(net, random, dims, dtype)
    scales = (scale(random) / (256 if dtype is INT16 else 1),)
    return constant(net, random, dims, dtype, scales=scales, zero=zero_point(random, dtype))


def numbers(net: Net, dims: Sequence[int], values: Iterable[float]) -> int:
    """Add a float constant of these numbers."""
    drawn = tuple(values)
    return net.tensor(dims, FLOAT32, data=pack(f"<{len(drawn)}f", *drawn))


def axis_of(random: Random, axis: int, rank: int) -> int:
    """Return the axis, counted from the front or the back."""
    return axis - rank if random.random() < 0.3 else axis


def axis_input(net: Net, random: Random, axis: int) -> int:
    """Add a constant that holds an axis, as a scalar or a vector."""
    return net.scalar(axis) if random.random() < 0.5 else net.constant([axis])


def finished(net: Net) -> Model:
    """Return the model: its inputs are the tensors that no operator writes, its outputs those that none reads."""
    written = [index for operator in net.operators for index in operator.outputs]
    read = [index for operator in net.operators for index in operator.inputs]
    inputs = [tensor.index for tensor in net.tensors if tensor.data is None and tensor.index not in written]
    return net.model(inputs, [index for index in written if index not in read])


def by_type(make: Callable[[str, str, Random], Model], kinds: Mapping[str, Iterable[str]]) -> Generators:
    """Return a generator for each operator and type; the function gets both."""
    return {(code, kind): partial(make, code, kind) for code, names in kinds.items() for kind in names}
