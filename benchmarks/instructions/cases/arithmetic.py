"""Functions of two numbers or more: all types, one loop, and broadcasts of each kind."""

from __future__ import annotations

from benchmarks.instructions.cases import Cases
from benchmarks.instructions.contents import by_type, values
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

FLOAT32, INT8, INT16, INT32, INT64 = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.INT64
Shape = tuple[int, ...]

# One shape of both operands.
FLAT: tuple[Shape, ...] = ((7,), (1, 16), (3, 33), (5, 9, 21), (2, 7, 6, 11), (1, 1, 40, 39), (2, 1, 3, 5, 8), (850,))
# Shapes of the operands and of the result: the first or the second stands still in the innermost loop, or none.
BROADCAST: tuple[tuple[Shape, Shape, Shape], ...] = (
    ((40,), (), (40,)),
    ((), (2, 300), (2, 300)),
    ((1, 30, 20), (1,), (1, 30, 20)),
    ((4, 4, 5, 9), (1, 1, 1, 1), (4, 4, 5, 9)),
    ((1, 8, 8, 8), (8,), (1, 8, 8, 8)),
    ((4, 6, 33), (1, 1, 33), (4, 6, 33)),
    ((2, 3, 5, 7), (2, 3, 5, 1), (2, 3, 5, 7)),
    ((2, 3, 25, 1), (2, 3, 25, 6), (2, 3, 25, 6)),
    ((2, 9, 13), (2, 1, 13), (2, 9, 13)),
    ((5, 1, 17), (5, 6, 17), (5, 6, 17)),
    ((3, 1, 5, 4), (1, 6, 1, 4), (3, 6, 5, 4)),
    ((2, 7, 1, 9), (2, 1, 8, 1), (2, 7, 8, 9)),
    ((2, 1, 3, 4, 5), (1, 6, 1, 4, 1), (2, 6, 3, 4, 5)),
    ((1, 2, 1, 3, 1, 4), (3, 1, 2, 1, 5, 1), (3, 2, 2, 3, 5, 4)),
    ((1, 64), (64,), (1, 64)),
    ((3, 1, 11, 20), (3, 5, 11, 20), (3, 5, 11, 20)),
    ((6, 1), (6, 50), (6, 50)),
    ((20, 31), (20, 1), (20, 31)),
    ((2, 12, 3), (12, 1), (2, 12, 3)),
    ((3, 70), (1, 70), (3, 70)),
    ((16,), (), (16,)),
    ((), (1, 15), (1, 15)),
    ((1, 8, 8, 8), (), (1, 8, 8, 8)),
    ((), (5,), (5,)),
    ((2, 1, 1, 3), (1, 1), (2, 1, 1, 3)),
    ((1,), (1, 3, 9), (1, 3, 9)),
    ((1, 1, 11), (11,), (1, 1, 11)),
    ((700,), (1,), (700,)),
    ((1,), (900,), (900,)),
    ((3, 4), (4,), (3, 4)),
    ((2, 1), (2, 5), (2, 5)),
    ((9,), (1,), (9,)),
    ((1, 1), (8, 3), (8, 3)),
    ((4, 7), (1, 7), (4, 7)),
    ((3, 8), (), (3, 8)),
)
LOWEST = -128
# Zero points of int8 operands: of both signs, or with the lowest none negative; other quantized types likewise.
ZERO_POINTS = ((0, 0), (-128, 0), (-128, -128), (5, -9))

# Scales of int8 of both operands and of the result; int16 has a finer one.
SCALES = ((0.03, 0.021, 0.034), (0.0117, 0.024, 0.027), (1 / 16, 1 / 16, 1 / 16), (0.017, 0.009, 0.0143))
FINER = 1 / 128

TYPES: dict[str, tuple[DType, ...]] = {
    "ADD": (FLOAT32, INT8, INT16, INT32),
    "SUB": (FLOAT32, INT8, INT16, INT32),
    "MUL": (FLOAT32, INT8, INT16, INT32),
    "DIV": (FLOAT32, INT8, INT32),
    "MAXIMUM": (FLOAT32, INT8, INT16, INT32, INT64),
    "MINIMUM": (FLOAT32, INT8, INT16, INT32, INT64),
    "SQUARED_DIFFERENCE": (FLOAT32, INT8, INT16, INT32),
    "FLOOR_DIV": (FLOAT32,),
    "FLOOR_MOD": (FLOAT32,),
}
MAX_DIMENSIONS = {"MAXIMUM": 4, "MINIMUM": 4}  # with CMSIS-NN, of any type


def scales(dtype: DType, turn: int) -> tuple[float, ...]:
    """Of both operands and of the result, in turn."""
    finer = FINER if dtype == INT16 else 1.0
    return tuple(scale * finer for scale in SCALES[turn % len(SCALES)])


def operands(net: Net, dtype: DType, turn: int, first: Shape, second: Shape) -> list[int]:
    """Two constants of these shapes; zero points and scales change from turn to turn."""
    zero_points = ZERO_POINTS[turn // 2 % len(ZERO_POINTS)]
    return [
        values(
            net,
            *shape,
            dtype=dtype,
            scale=scale,
            zero_point=zero_point if dtype == INT8 else 0,
            signed=zero_point > LOWEST,
        )
        for shape, scale, zero_point in zip((first, second), scales(dtype, turn), zero_points, strict=False)
    ]


def result_scale(dtype: DType, turn: int) -> float | None:
    """That of the result; None for a type that has none."""
    return scales(dtype, turn)[2] if dtype in (INT8, INT16) else None


def flat(code: str, dtype: DType) -> Model:
    """Equal shapes."""
    net = Net(len(code))
    results = []
    for turn, shape in enumerate(FLAT):
        if len(shape) > MAX_DIMENSIONS.get(code, 6):
            continue
        own = operands(net, dtype, turn, shape, shape)
        results.append(net.op(code, own, scale=result_scale(dtype, turn)))
    return net.model([net.arena(1)], results)


def broadcast(code: str, dtype: DType) -> Model:
    """Shapes that broadcast."""
    net = Net(len(code) + 1)
    results = []
    for turn, (first, second, shape) in enumerate(BROADCAST):
        if len(shape) > MAX_DIMENSIONS.get(code, 6):
            continue
        own = operands(net, dtype, turn, first, second)
        results.append(net.op(code, own, *shape, scale=result_scale(dtype, turn)))
    return net.model([net.arena(1)], results)


def sums(dtype: DType) -> Model:
    """ADD_N of two inputs to nine."""
    net = Net(3)
    results = []
    for turn, shape in enumerate(FLAT):
        addends = [values(net, *shape, dtype=dtype, scale=0.03) for _ in range(2 + (turn * 3) % 8)]
        results.append(net.op("ADD_N", addends))
    return net.model([net.arena(1)], results)


CASES: Cases = {
    **by_type(flat, TYPES, "flat"),
    **by_type(broadcast, TYPES, "broadcast"),
    **by_type(lambda _, dtype: sums(dtype), {"ADD_N": (FLOAT32, INT8)}),
}
