"""Operators with a state, of one operator each: every loop of the kernels turned a different number of times."""

from __future__ import annotations

from functools import partial
from random import Random

from benchmarks.instructions.cases import Cases
from benchmarks.instructions.shapes import drawn
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

INT8, INT16, INT32, FLOAT32 = DType.INT8, DType.INT16, DType.INT32, DType.FLOAT32

DRAWN = 50  # of each kind

# Batch, depth, units, rank, memory.
FILTERS = (
    (1, 10, 6, 2, 5),
    (1, 16, 8, 1, 8),
    (2, 12, 5, 2, 4),
    (1, 40, 12, 2, 10),
    (1, 7, 3, 4, 16),
    (1, 33, 20, 1, 3),
    (3, 9, 4, 1, 7),
    (1, 64, 7, 3, 6),
    (1, 20, 32, 1, 12),
    (2, 30, 2, 5, 9),
    (1, 5, 11, 2, 30),
    (1, 100, 4, 1, 2),
    (1, 24, 16, 2, 8),
    (4, 6, 6, 1, 11),
    (1, 50, 9, 1, 21),
    (1, 13, 1, 8, 14),
    (1, 128, 6, 2, 5),
    (2, 18, 13, 1, 6),
)
# Batch, steps, depth, units; whether time comes first.
SEQUENCES = (
    (1, 3, 4, 8, False),
    (2, 2, 6, 5, True),
    (1, 5, 12, 6, False),
    (1, 1, 20, 16, False),
    (3, 1, 7, 9, True),
    (1, 2, 32, 3, False),
    (2, 3, 5, 4, False),
    (1, 8, 3, 7, False),
    (1, 2, 10, 20, False),
    (1, 1, 33, 11, True),
    (4, 2, 8, 2, True),
    (1, 4, 1, 12, False),
    (1, 1, 9, 31, False),
    (2, 1, 16, 13, False),
    (1, 6, 15, 1, False),
    (1, 2, 40, 10, True),
    (1, 1, 64, 4, False),
    (3, 2, 2, 6, True),
)


def _svdf(dtype: DType, inner: DType, batch: int, depth: int, units: int, rank: int, memory: int) -> Model:
    net = Net(units)
    x = net.arena(batch, depth, dtype=dtype)
    filters, float32 = units * rank, dtype == FLOAT32
    inputs = [
        x,
        net.filter(filters, depth, like=x, axis=None),
        net.noise(filters, memory, dtype=inner, scale=1 / 4096),
        net.noise(units, dtype=FLOAT32 if float32 else INT32, scale=1 / 4096 / SCALES[inner]),
        net.arena(batch, memory * filters, dtype=inner, is_variable=True),
    ]
    y = net.op("SVDF", inputs, batch, units, rank=rank, fused_activation_function="RELU")
    return net.model([x], [y])


SCALES = {INT8: 16, INT16: 2048, FLOAT32: 1}  # one over the state's


def _lstm(dtype: DType, batch: int, steps: int, depth: int, units: int, major: bool) -> Model:
    net = Net(units)
    x = net.arena(*((steps, batch) if major else (batch, steps)), depth, dtype=dtype, scale=1 / 128)
    bias = {INT8: INT32, INT16: DType.INT64, FLOAT32: FLOAT32}[dtype]
    scale = 1 / 128 if dtype == INT8 else 1 / 32768
    inputs = [
        x,
        *(net.filter(units, depth, like=x, axis=None) for _ in range(4)),
        *(net.filter(units, units, like=x, axis=None) for _ in range(4)),
        *[-1] * 3,
        *(net.noise(units, dtype=bias, scale=1 / 16384) for _ in range(4)),
        *[-1] * 2,
        net.arena(batch, units, dtype=dtype, scale=scale, is_variable=True),
        net.arena(batch, units, dtype=FLOAT32 if dtype == FLOAT32 else INT16, scale=1 / 4096, is_variable=True),
        *[-1] * 4,
    ]
    y = net.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        *net.tensors[x].shape[:2],
        units,
        scale=None if dtype == FLOAT32 else scale,
        fused_activation_function="TANH",
        time_major=major,
        cell_clip=10.0,
        proj_clip=0.0,
    )
    return net.model([x], [y])


def _drawn_filters(random: Random) -> tuple[int, int, int, int, int]:
    rank = 1 if random.random() < 0.5 else drawn(random, 6, 2)
    return drawn(random, 4), drawn(random, 100), drawn(random, 30), rank, drawn(random, 24, 2)


def _drawn_sequence(random: Random) -> tuple[int, int, int, int, bool]:
    return drawn(random, 3), drawn(random, 5), drawn(random, 60), drawn(random, 30), random.random() < 0.3


def _cases() -> Cases:
    table: Cases = {}
    random = Random("recurrent")
    filters = (*FILTERS, *(_drawn_filters(random) for _ in range(DRAWN)))
    sequences = (*SEQUENCES, *(_drawn_sequence(random) for _ in range(DRAWN)))
    for sizes in filters:
        words = "-".join(map(str, sizes))
        table[f"svdf-float32-{words}"] = partial(_svdf, FLOAT32, FLOAT32, *sizes)
        for inner in (INT8, INT16):
            table[f"svdf-int8-{inner.name.lower()}-{words}"] = partial(_svdf, INT8, inner, *sizes)
    for *lengths, major in sequences:
        words = "-".join(map(str, lengths)) + ("-time-major" if major else "")
        for dtype in (INT8, INT16, FLOAT32):
            table[f"lstm-{dtype.name.lower()}-{words}"] = partial(_lstm, dtype, *lengths, major)
    return table


CASES = _cases()
