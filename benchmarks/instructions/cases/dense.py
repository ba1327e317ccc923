"""Matrix products of one operator each: every loop of the kernels turned a different number of times."""

from __future__ import annotations

from functools import partial
from math import prod
from random import Random

from benchmarks.instructions.cases import Cases
from benchmarks.instructions.contents import half_zeros
from benchmarks.instructions.shapes import TYPES, drawn
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

# Rows, depth, units.
MATRICES = (
    (1, 4, 3),
    (1, 10, 6),
    (1, 16, 16),
    (1, 33, 2),
    (1, 64, 10),
    (1, 100, 7),
    (1, 128, 32),
    (1, 250, 5),
    (1, 256, 12),
    (1, 400, 4),
    (1, 511, 3),
    (1, 640, 8),
    (1, 777, 2),
    (1, 1000, 6),
    (1, 1960, 4),
    (1, 3, 40),
    (1, 8, 65),
    (1, 20, 1),
    (1, 27, 20),
    (1, 45, 11),
    (1, 1, 9),
    (1, 2, 130),
    (2, 30, 5),
    (3, 7, 14),
    (4, 56, 8),
    (5, 12, 12),
    (8, 19, 3),
    (2, 90, 1),
    (16, 4, 4),
    (1, 14, 50),
    (1, 39, 9),
    (1, 61, 13),
)
DRAWN = 60  # of each kind
MULTIPLICATIONS = range(100, 20_000)  # of a drawn case
# Dimensions in front, depth, units: an output of more than two dimensions.
TENSORS = (
    ((2, 3), 12, 8),
    ((1, 5), 16, 7),
    ((1, 10), 32, 3),
    ((4, 2), 20, 15),
    ((1, 1), 64, 20),
    ((3, 3), 4, 30),
    ((1, 7), 100, 2),
    ((1, 4), 8, 9),
    ((1, 16), 24, 4),
    ((1, 3), 40, 1),
    ((2, 1, 5), 28, 6),
    ((1, 2), 256, 5),
    ((1, 9), 48, 12),
    ((5, 1), 36, 33),
)
# Batches, rows, depth, columns; whether each operand is given turned.
PRODUCTS = (
    (1, 4, 8, 6, False, False),
    (2, 3, 16, 5, False, True),
    (3, 5, 7, 9, True, False),
    (1, 10, 20, 4, True, True),
    (4, 2, 33, 3, False, True),
    (1, 1, 64, 12, False, True),
    (2, 6, 5, 11, False, False),
    (1, 12, 3, 20, True, False),
    (5, 4, 12, 2, False, True),
    (1, 3, 100, 7, False, True),
    (2, 8, 18, 1, True, True),
    (1, 7, 40, 8, False, False),
    (6, 1, 9, 4, False, True),
    (1, 16, 2, 16, False, True),
    (2, 5, 50, 3, True, True),
    (1, 2, 130, 10, False, True),
    (3, 9, 4, 6, False, False),
    (1, 5, 28, 13, False, True),
)


def _dense(
    kind: str,
    rows: tuple[int, ...],
    depth: int,
    units: int,
    *,
    axis: int | None = None,
    bias: bool = True,
    narrow: bool = False,
    rectified: bool = False,
) -> Model:
    """axis: that of the weights' scales, if there are several; narrow: a bias of int32 for int16.

    rectified: a constant input of floats, half of them 0.
    """
    dtype, weights_type = TYPES[kind]
    net = Net(units)
    x = half_zeros(net, *rows, depth) if rectified else net.arena(*rows, depth, dtype=dtype)
    weights = net.noise(units, depth, dtype=weights_type, axis=axis)
    values = net.noise(units, dtype=DType.INT32, scale=1 / 2048 / 128) if narrow else net.biases(units, like=x)
    inputs = [x, weights, values if bias else -1]
    y = net.op("FULLY_CONNECTED", inputs, *rows, units, keep_num_dims=len(rows) > 1)
    return net.model([] if rectified else [x], [y])


def _asymmetric(rows: int, depth: int, units: int, *, bias: bool) -> Model:
    """Weights with a zero point, which the kernel subtracts."""
    net = Net(units)
    x = net.arena(rows, depth)
    data = net.random.randbytes(units * depth)
    weights = net.tensor((units, depth), DType.INT8, data=data, scales=(1 / 128,), zero_point=3)
    inputs = [x, weights, net.biases(units, like=x) if bias else -1]
    return net.model([x], [net.op("FULLY_CONNECTED", inputs, rows, units)])


def _moving(rows: int, depth: int, units: int, *, bias: bool, zero_point: int = 0) -> Model:
    """Weights that are an input of the model."""
    net = Net(units)
    x, weights = net.arena(rows, depth), net.arena(units, depth, scale=1 / 128, zero_point=zero_point)
    inputs = [x, weights, net.biases(units, like=x) if bias else -1]
    return net.model([x, weights], [net.op("FULLY_CONNECTED", inputs, rows, units)])


def _product(
    kind: str, batches: int, rows: int, depth: int, columns: int, left: bool, right: bool, *, zero_point: int = 0
) -> Model:
    dtype = TYPES[kind][0]
    net = Net(columns)
    a = net.arena(batches, *((depth, rows) if left else (rows, depth)), dtype=dtype)
    shape = (columns, depth) if right else (depth, columns)
    b = net.arena(batches, *shape, dtype=dtype, zero_point=zero_point)
    return net.model([a, b], [net.op("BATCH_MATMUL", [a, b], batches, rows, columns, adj_x=left, adj_y=right)])


def _drawn_sizes(random: Random, *highest: int) -> tuple[int, ...]:
    while True:
        sizes = tuple(drawn(random, size) for size in highest)
        if prod(sizes) in MULTIPLICATIONS:
            return sizes


def _drawn_matrices(random: Random) -> list[tuple[int, int, int]]:
    """A row mostly."""
    return [_three(_drawn_sizes(random, 1 if random.random() < 0.6 else 16, 1200, 150)) for _ in range(DRAWN)]


def _three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    first, second, third = sizes
    return first, second, third


def _cases() -> Cases:
    table: Cases = {}
    random = Random("dense")
    matrices = [*MATRICES, *_drawn_matrices(random)]
    tensors = [*TENSORS]
    for _ in range(DRAWN):
        *front, quarter, units = _drawn_sizes(random, 4, 8, 100, 60)
        tensors.append((tuple(front), 4 * quarter, units))
    products = [*PRODUCTS]
    for _ in range(DRAWN):
        batches, rows, depth, columns = _drawn_sizes(random, 5, 16, 150, 40)
        products.append((batches, rows, depth, columns, random.random() < 0.3, random.random() < 0.6))
    for kind in TYPES:
        for rows, depth, units in matrices:
            name = f"{kind}-{rows}-{depth}x{units}"
            table[f"matrix-{name}"] = partial(_dense, kind, (rows,), depth, units)
        for rows, depth, units in matrices[::3]:
            name = f"{kind}-{rows}-{depth}x{units}"
            table[f"unbiased-{name}"] = partial(_dense, kind, (rows,), depth, units, bias=False)
        for front, depth, units in tensors if kind in ("int8", "float32") else ():
            bias = random.random() < 0.8
            name = f"{kind}-{'x'.join(map(str, front))}-{depth}x{units}" + ("" if bias else "-unbiased")
            table[f"tensor-{name}"] = partial(_dense, kind, front, depth, units, bias=bias)
        for product in products if kind != "int4" else ():
            *sizes, left, right = product
            turned = "left" * left + "right" * right or "as-is"
            name = f"{'x'.join(map(str, sizes))}-{turned}"
            table[f"product-{kind}-{name}"] = partial(_product, kind, *product)
            if kind == "int8":
                table[f"asymmetric-product-{name}"] = partial(_product, kind, *product, zero_point=5)
    for rows, depth, units in matrices[::2]:
        table[f"rectified-{rows}-{depth}x{units}"] = partial(_dense, "float32", (rows,), depth, units, rectified=True)
    for rows, depth, units in _drawn_matrices(random):
        bias = random.random() < 0.7
        name = f"{rows}-{depth}x{units}" + ("" if bias else "-unbiased")
        for kind in ("int8", "int16"):
            table[f"per-channel-{kind}-{name}"] = partial(_dense, kind, (rows,), depth, units, axis=0, bias=bias)
        table[f"asymmetric-{name}"] = partial(_asymmetric, rows, depth, units, bias=bias)
        table[f"moving-{name}"] = partial(_moving, rows, depth, units, bias=bias)
        table[f"asymmetric-moving-{name}"] = partial(_moving, rows, depth, units, bias=bias, zero_point=3)
        table[f"narrow-{name}"] = partial(_dense, "int16", (rows,), depth, units, narrow=True)
        table[f"per-channel-narrow-{name}"] = partial(_dense, "int16", (rows,), depth, units, axis=0, narrow=True)
    return table


CASES = _cases()
