"""Reductions of shapes of one to five dimensions along all kinds of axes; extremes and running sums along each axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

INT8, INT16, INT32, FLOAT32, BOOL = DType.INT8, DType.INT16, DType.INT32, DType.FLOAT32, DType.BOOL

# A shape, the axes to reduce, and whether they stay as ones.
REDUCED: tuple[tuple[tuple[int, ...], tuple[int, ...], bool], ...] = (
    ((40,), (0,), False),
    ((7, 30), (1,), True),
    ((30, 7), (0,), False),
    ((12, 9), (0, 1), False),
    ((3, 11, 8), (1,), False),
    ((5, 6, 13), (2,), True),
    ((5, 6, 13), (-1, 0), False),
    ((1, 8, 8, 16), (1, 2), True),
    ((1, 8, 8, 16), (1, 2), False),
    ((1, 5, 5, 64), (2, 1), False),
    ((2, 3, 7, 10), (3,), True),
    ((2, 3, 7, 10), (1, 2, 3), False),
    ((1, 20, 1, 24), (1, 2), True),
    ((4, 4, 4, 4), (0, 1, 2, 3), True),
    ((1, 9, 12, 5), (2,), False),
    ((2, 3, 2, 3, 9), (1, 3), False),
    ((1, 16, 16, 3), (1, 2), True),
    ((1, 30, 20), (1,), False),
    ((2, 4, 9, 7), (1, 2), True),
    ((1, 1, 30, 12), (1, 2), True),
    ((3, 7, 2, 33), (2, 1), True),
)
ALONG: tuple[tuple[tuple[int, ...], int], ...] = (
    ((50,), 0),
    ((1, 10), 1),
    ((1, 300), 1),
    ((12, 17), 0),
    ((12, 17), 1),
    ((1, 6, 9, 4), 3),
    ((1, 6, 9, 4), 1),
    ((3, 40, 5), 1),
    ((25, 3, 7), 2),
    ((8, 2), -1),
)


def reductions(code: str, dtype: DType) -> Model:
    """One reduction of each shape."""
    net = Net(2)
    inputs, outputs = [], []
    for shape, axes, keep in REDUCED:
        x = net.arena(*shape, dtype=dtype)
        inputs.append(x)
        gone = {axis % len(shape) for axis in axes}
        made = [1 if axis in gone else size for axis, size in enumerate(shape) if keep or axis not in gone]
        y = net.arena(*made, dtype=dtype)
        net.give(code, [x, net.constant(axes)], [y], keep_dims=keep)
        outputs.append(y)
    return net.model(inputs, outputs)


def along(code: str, dtype: DType, **options: Any) -> Model:
    """ARG_MAX, ARG_MIN or CUMSUM of each shape."""
    net = Net(3)
    inputs, outputs = [], []
    for shape, axis in ALONG:
        x = net.arena(*shape, dtype=dtype)
        inputs.append(x)
        left = [size for at, size in enumerate(shape) if at != axis % len(shape)]
        # A running sum of int8 takes no output that is coarser than its input.
        y = net.arena(*shape, dtype=dtype) if code == "CUMSUM" else net.arena(*left, dtype=INT32)
        net.give(code, [x, net.constant([axis])], [y], **options)
        outputs.append(y)
    return net.model(inputs, outputs)


CASES: dict[str, Callable[[], Model]] = {
    **{
        f"{code.lower()}-{dtype.name.lower()}": lambda code=code, dtype=dtype: reductions(code, dtype)
        for code, dtypes in {
            "MEAN": (INT8, INT16, FLOAT32),
            "SUM": (INT8, INT16, FLOAT32),
            "REDUCE_MAX": (INT8, FLOAT32),
            "REDUCE_MIN": (INT8, FLOAT32),
            "REDUCE_ALL": (BOOL,),
        }.items()
        for dtype in dtypes
    },
    **{
        f"{code.lower()}-{dtype.name.lower()}": lambda code=code, dtype=dtype: along(code, dtype, output_type="INT32")
        for code in ("ARG_MAX", "ARG_MIN")
        for dtype in (INT8, FLOAT32)
    },
    **{
        f"cumsum-{dtype.name.lower()}-{''.join(ways)}": lambda dtype=dtype, ways=ways: along(
            "CUMSUM", dtype, **dict.fromkeys(ways, True)
        )
        for dtype in (INT8, FLOAT32)
        for ways in ((), ("exclusive",), ("reverse",), ("exclusive", "reverse"))
    },
}
