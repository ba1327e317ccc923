"""Runs the steps of kernels that only move bytes in Python: an independent reading of their descriptors."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.program import Constant, RowInput, Step
from edgetool.codegen.native.site import NUMPY_TYPES, Array
from edgetool.model.types import Model

Kernel = Callable[[dict[str, Any], list[Any], int], bytes]


def run(model: Model, inputs: Mapping[int, Array], *, row_wise: bool) -> list[Array]:
    """Return the outputs of a model for these inputs, by index of the tensor."""
    program = lower(model, row_wise=row_wise)
    graph = program.graph
    memory: dict[int, bytearray] = {}
    for place in program.places.values():
        size = graph.tensors[place.root].size_bytes
        memory.setdefault(place.root, bytearray(size) if place.constant is None else bytearray(place.constant.data))
    for index, values in inputs.items():
        memory[program.places[index].root][:] = values.tobytes()

    def start_of(source: int | Constant) -> tuple[bytes, int]:
        if isinstance(source, Constant):
            return source.data, 0
        place = program.places[source]
        return bytes(memory[place.root]), place.offset

    for step in program.steps:
        place = program.places[step.output]
        out = place.offset + step.output_offset
        kernel, op = KERNELS[step.kernel], dict(step.op.values)
        for batch, y in product(range(step.batches), range(step.rows)):
            rows = [row for item in step.inputs for row in _rows(item, *start_of(item.source), batch, y)]
            data = kernel(op, rows, y)
            assert len(data) == step.row_bytes
            memory[place.root][out : out + len(data)] = data
            out += len(data)
    return [_tensor(program.places[index], memory, graph.tensors[index]) for index in graph.outputs]


def steps_of(model: Model, *, row_wise: bool = False) -> tuple[Step, ...]:
    """Return the steps of a model."""
    return lower(model, row_wise=row_wise).steps


def _tensor(place: Any, memory: Mapping[int, bytearray], tensor: Any) -> Array:
    data = bytes(memory[place.root][place.offset : place.offset + tensor.size_bytes])
    return np.frombuffer(data, NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape)


def _rows(item: RowInput, data: bytes, start: int, batch: int, y: int) -> list[bytes | None]:
    start += batch * item.rows * item.row_bytes
    rows = [(y * item.stride - item.pad + tap * item.dilation) // item.divisor for tap in range(item.taps)]
    places = [start + row * item.row_bytes if 0 <= row < item.rows else None for row in rows]
    return [None if place is None else data[place : place + item.row_bytes] for place in places]


def _copy(op: dict[str, Any], rows: list[Any], y: int) -> bytes:
    start, out = op["start"] + y % op["phases"] * op["phase_step"], b""
    for turns in product(*map(range, op["count"])):
        place = (start + sum(turn * step for turn, step in zip(turns, op["step"], strict=True))) % 2**32
        out += _at(rows[0], place, op["run"])
    return out


def _copy_table(op: dict[str, Any], rows: list[Any], _: int) -> bytes:
    words = list(struct.unpack(f"<{len(op['offsets'].data) // 4}I", op["offsets"].data))
    loops = [[words.pop(0) for _ in range(count)] for count in op["count"]]
    assert not words
    return b"".join(_at(rows[0], sum(places), op["run"]) for places in product(*loops))


def _concat(op: dict[str, Any], rows: list[Any], _: int) -> bytes:
    sizes = struct.unpack(f"<{op['inputs']}I", op["bytes"].data)
    return b"".join(
        _at(row, block * size, size)
        for block in range(op["blocks"])
        for row, size in zip(rows, sizes, strict=True)
        if row is not None
    )


def _pad(op: dict[str, Any], rows: list[Any], _: int) -> bytes:
    size: int = op["row_bytes"]
    value = bytes(op["value"]) * size
    if rows[0] is None:
        return value[:size]
    out, place = value[: op["lead"]], 0
    for turns in product(*map(range, op["count"])):
        out, place = out + _at(rows[0], place, op["run"]), place + op["run"]
        ends = [turn + 1 == count for turn, count in zip(turns, op["count"], strict=True)]
        out += value[: sum(op["gap"][axis] for axis in range(4) if all(ends[axis + 1 :]))]
    return (out + value)[:size]


def _gather(op: dict[str, Any], rows: list[Any], _: int) -> bytes:
    table: bytes = rows[0]
    indices = np.frombuffer(rows[1], "<i4").reshape(op["positions"], op["depth"])
    out = b""
    for part in range(op["outer"]):
        for group in indices.tolist():
            place = sum(index * step for index, step in zip(group, op["step"], strict=False))
            out += _at(table, part * op["part"] + min(max(place, 0), op["limit"]), op["run"])
    return out


def _at(row: bytes, place: int, size: int) -> bytes:
    assert 0 <= place <= place + size <= len(row)
    return row[place : place + size]


KERNELS: dict[str, Kernel] = {
    "edgetool_concat": _concat,
    "edgetool_copy": _copy,
    "edgetool_copy_table": _copy_table,
    "edgetool_gather": _gather,
    "edgetool_pad": _pad,
}
