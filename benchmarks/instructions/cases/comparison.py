"""Comparisons, logic and choice: all types, one loop, and broadcasts of each kind."""

from __future__ import annotations

from benchmarks.instructions.cases import Cases
from benchmarks.instructions.cases.arithmetic import BROADCAST, FLAT, operands
from benchmarks.instructions.contents import by_type, values
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

FLOAT32, INT8, INT16, INT32, INT64, BOOL = (
    DType.FLOAT32,
    DType.INT8,
    DType.INT16,
    DType.INT32,
    DType.INT64,
    DType.BOOL,
)
ORDERED = (FLOAT32, INT8, INT32, INT64)
TYPES: dict[str, tuple[DType, ...]] = {
    "EQUAL": (BOOL, *ORDERED),
    "NOT_EQUAL": (BOOL, *ORDERED),
    "GREATER": ORDERED,
    "GREATER_EQUAL": ORDERED,
    "LESS": ORDERED,
    "LESS_EQUAL": ORDERED,
    "LOGICAL_AND": (BOOL,),
    "LOGICAL_OR": (BOOL,),
}
# Condition, both sources and the result of a choice.
Shape = tuple[int, ...]
CHOICES: tuple[tuple[Shape, Shape, Shape, Shape], ...] = (
    ((50,), (50,), (), (50,)),
    ((4, 30), (), (4, 30), (4, 30)),
    ((3, 40), (), (), (3, 40)),
    ((2, 5, 13), (2, 5, 13), (2, 5, 1), (2, 5, 13)),
    ((2, 5, 13), (13,), (2, 5, 13), (2, 5, 13)),
    ((1, 30, 1), (1, 30, 17), (1, 30, 17), (1, 30, 17)),
    ((60, 1), (60, 32), (60, 32), (60, 32)),
    ((40, 1), (40, 9), (1, 9), (40, 9)),
    ((40, 1), (40, 21), (40, 1), (40, 21)),
    ((70, 1), (70, 1), (70, 6), (70, 6)),
    ((24, 1), (1, 1), (24, 1), (24, 1)),
    ((3, 1, 5, 4), (1, 6, 1, 4), (3, 6, 5, 4), (3, 6, 5, 4)),
    ((3, 6, 1, 1), (1, 6, 5, 4), (3, 1, 5, 4), (3, 6, 5, 4)),
    ((2, 1, 3, 4, 5), (2, 6, 3, 4, 5), (1, 6, 1, 4, 1), (2, 6, 3, 4, 5)),
    ((90, 1), (90, 100), (90, 100), (90, 100)),
)


def flat(code: str, dtype: DType) -> Model:
    """Equal shapes."""
    net = Net(len(code))
    results = []
    for turn, shape in enumerate(FLAT):
        results.append(net.op(code, operands(net, dtype, turn, shape, shape), dtype=BOOL))
    return net.model([net.arena(1)], results)


def broadcast(code: str, dtype: DType) -> Model:
    """Shapes that broadcast."""
    net = Net(len(code) + 1)
    results = []
    for turn, (first, second, shape) in enumerate(BROADCAST):
        results.append(net.op(code, operands(net, dtype, turn, first, second), *shape, dtype=BOOL))
    return net.model([net.arena(1)], results)


def negations() -> Model:
    """LOGICAL_NOT."""
    net = Net(1)
    results = [net.op("LOGICAL_NOT", [values(net, *shape, dtype=BOOL)]) for shape in FLAT]
    return net.model([net.arena(1)], results)


def choices(dtype: DType) -> Model:
    """SELECT_V2 of equal shapes, and of all kinds of broadcast."""
    net = Net(2)
    results = []
    for condition, first, second, shape in (*((own,) * 4 for own in FLAT), *CHOICES):
        sources = [values(net, *own, dtype=dtype) for own in (first, second)]
        results.append(net.op("SELECT_V2", [values(net, *condition, dtype=BOOL), *sources], *shape, dtype=dtype))
    return net.model([net.arena(1)], results)


CASES: Cases = {
    **by_type(flat, TYPES, "flat"),
    **by_type(broadcast, TYPES, "broadcast"),
    "logical_not": negations,
    **by_type(lambda _, dtype: choices(dtype), {"SELECT_V2": (FLOAT32, INT8, INT16)}),
}
