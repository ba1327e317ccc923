"""Operators whose constants and tensors lead their kernels astray: the classes of TensorFlow Lite's CVEs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import pack

from edgetool.model.types import DType, Options
from edgetool.model.writer import write_model
from tests.attacks.base import MOST, Attack
from tests.model.builders import Builder


@dataclass(frozen=True, slots=True)
class Input:
    """An int8 activation, or with values a constant of int32."""

    shape: tuple[int, ...]
    values: tuple[int, ...] | None = None


def model_of(
    code: str, inputs: Sequence[Input | None], outputs: Sequence[tuple[int, ...]], given: Options | None = None
) -> bytes:
    """A file with one operator; None leaves an input out."""
    build = Builder()
    indices = [_place(build, operand) for operand in inputs]
    results = [build.activation(shape) for shape in outputs]
    build.operator(code, indices, results, given)
    fed = [index for index in indices if index >= 0 and build.tensors[index].data is None]
    return write_model(build.model(fed, results))


def _place(build: Builder, operand: Input | None) -> int:
    if operand is None:
        return -1
    if operand.values is None:
        return build.activation(operand.shape)
    return build.tensor(operand.shape, DType.INT32, data=pack(f"<{len(operand.values)}i", *operand.values))


def _gather(*indices: int) -> bytes:
    return model_of("GATHER", [Input((3, 2)), Input((len(indices),), indices)], [(len(indices), 2)])


def _gather_nd(*indices: int) -> bytes:
    return model_of("GATHER_ND", [Input((3, 2)), Input((1, len(indices)), indices)], [(1, 2)[: 3 - len(indices)]])


def _lookup(index: int) -> bytes:
    return model_of("EMBEDDING_LOOKUP", [Input((1,), (index,)), Input((3, 2))], [(1, 2)])


def _scatter(row: int, column: int) -> bytes:
    indices, shape = Input((1, 2), (row, column)), Input((2,), (3, 2))
    return model_of("SCATTER_ND", [indices, Input((1,)), shape], [(3, 2)])


def _segments(*segments: int) -> bytes:
    return model_of("SEGMENT_SUM", [Input((3, 2)), Input((3,), segments)], [(2, 2)])


ATTACKS = {
    "cve-2020-15212-negative-segment": Attack(lambda: _segments(-1, 0, 1), "index -1 of SEGMENT_SUM"),
    "cve-2020-15213-enormous-segment": Attack(lambda: _segments(0, 1, MOST), f"index {MOST} of SEGMENT_SUM"),
    "cve-2020-15214-falling-segments": Attack(lambda: _segments(1, 0, 1), "the segments of SEGMENT_SUM fall"),
    "cve-2021-37687-gather-negative": Attack(lambda: _gather(0, -1), "index -1 of GATHER"),
    "cve-2021-37687-gather-oversized": Attack(lambda: _gather(0, 3), "index 3 of GATHER"),
    "cve-2021-37687-gather-nd-negative": Attack(lambda: _gather_nd(-1), "index -1 of GATHER_ND"),
    "cve-2021-37687-gather-nd-column": Attack(lambda: _gather_nd(2, 2), "index 2 of GATHER_ND"),
    "cve-2022-23559-lookup": Attack(lambda: _lookup(MOST), f"index {MOST} of EMBEDDING_LOOKUP"),
    "scatter-outside-the-row": Attack(lambda: _scatter(2, 2), "index 2 of SCATTER_ND"),
    "scatter-outside-the-column": Attack(lambda: _scatter(-1, 0), "index -1 of SCATTER_ND"),
}
