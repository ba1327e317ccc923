"""Operators whose constants and tensors lead their kernels astray: the classes of TensorFlow Lite's CVEs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from struct import pack

from edgetool.model.schema import UNIONS
from edgetool.model.types import DType, Options
from edgetool.model.writer import write_model
from tests.attacks.base import Attack
from tests.attacks.places import MOST
from tests.model.builders import Builder, options


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
    (operator,) = build.operators
    late = operator.options is not None and operator.options.table in UNIONS["BuiltinOptions2"]
    build.operators[0] = replace(operator, options_in_2=late)
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


def _same_tensor() -> bytes:
    """An ADD that writes what it reads."""
    build = Builder()
    x, y = build.activation((1, 4)), build.activation((1, 4))
    build.operator("ADD", [x, y], [x])
    return write_model(build.model([x, y], [x]))


def _conv(**changes: int) -> bytes:
    """A CONV_2D of 3x3 with the options changed."""
    given = options("Conv2DOptions", **{"stride_w": 1, "stride_h": 1, **changes})
    return model_of("CONV_2D", [Input((1, 4, 4, 2)), Input((2, 3, 3, 2)), None], [(1, 4, 4, 2)], given)


ATTACKS = {
    "cve-2020-15212-negative-segment": Attack(lambda: _segments(-1, 0, 1), "index -1 of SEGMENT_SUM"),
    "cve-2020-15213-enormous-segment": Attack(lambda: _segments(0, 1, MOST), f"index {MOST} of SEGMENT_SUM"),
    "cve-2020-15214-falling-segments": Attack(
        lambda: _segments(1, 0, 1), "the segment IDs of SEGMENT_SUM are not in ascending order"
    ),
    "cve-2021-37687-gather-negative": Attack(lambda: _gather(0, -1), "index -1 of GATHER"),
    "cve-2021-37687-gather-oversized": Attack(lambda: _gather(0, 3), "index 3 of GATHER"),
    "cve-2021-37687-gather-nd-negative": Attack(lambda: _gather_nd(-1), "index -1 of GATHER_ND"),
    "cve-2021-37687-gather-nd-column": Attack(lambda: _gather_nd(2, 2), "index 2 of GATHER_ND"),
    "cve-2022-23559-lookup": Attack(lambda: _lookup(MOST), f"index {MOST} of EMBEDDING_LOOKUP"),
    "scatter-outside-the-row": Attack(lambda: _scatter(2, 2), "index 2 of SCATTER_ND"),
    "scatter-outside-the-column": Attack(lambda: _scatter(-1, 0), "index -1 of SCATTER_ND"),
}

# Those that only the rules of operators refuse.
BY_RULES = {
    "cve-2020-15207-negative-axis": Attack(
        lambda: model_of("MEAN", [Input((1, 4, 4, 2)), Input((1,), (-100,))], [(1, 4, 2)]), "axis -100"
    ),
    "cve-2020-15207-oversized-axis": Attack(
        lambda: model_of("ARG_MAX", [Input((3, 2)), Input((1,), (MOST,))], [(3,)]), f"axis {MOST}"
    ),
    "cve-2020-15208-shapes-apart": Attack(
        lambda: model_of("ADD", [Input((1, 4, 4, 2)), Input((1, 3, 4, 2))], [(1, 4, 4, 2)]), "incompatible shapes"
    ),
    "cve-2020-15210-input-is-output": Attack(_same_tensor, "writes tensor 0, which it also reads"),
    "cve-2020-15211-input-left-out": Attack(
        lambda: model_of("ADD", [Input((1, 4)), None], [(1, 4)]), "ADD lacks its required input 1"
    ),
    "cve-2020-15211-weights-left-out": Attack(
        lambda: model_of("FULLY_CONNECTED", [Input((1, 4)), None, Input((2,), (0, 0))], [(1, 2)]),
        "lacks its required input 1",
    ),
    "cve-2020-15211-no-inputs": Attack(lambda: model_of("CONV_2D", [], [(1, 4, 4, 2)]), "CONV_2D has 0 inputs"),
    "cve-2021-29585-stride-zero": Attack(lambda: _conv(stride_w=0), "stride_w 0"),
    "cve-2021-29595-block-zero": Attack(
        lambda: model_of("DEPTH_TO_SPACE", [Input((1, 2, 2, 4))], [(1, 4, 4, 1)]), "block_size 0"
    ),
    "cve-2021-29599-splits-zero": Attack(
        lambda: model_of("SPLIT", [Input((), (0,)), Input((4, 2))], [(4, 2)]), "num_splits 0"
    ),
    "cve-2022-23557-filter-without-size": Attack(
        lambda: model_of("CONV_2D", [Input((1, 4, 4, 0)), Input((2, 3, 3, 0)), None], [(1, 2, 2, 2)]), "CONV_2D"
    ),
    "stride-beyond-16-bits": Attack(lambda: _conv(stride_h=2**16 + 1), "stride_h 65537"),
    "axis-of-a-gather": Attack(
        lambda: model_of("GATHER", [Input((3, 2)), Input((1,), (1,))], [(1, 2)], options("GatherOptions", axis=77)),
        "uses axis 77",
    ),
    "axis-of-a-gather-negative": Attack(
        lambda: model_of("GATHER", [Input((3, 2)), Input((1,), (1,))], [(1, 2)], options("GatherOptions", axis=-3)),
        "uses axis -3",
    ),
    "permutation-outside": Attack(
        lambda: model_of("TRANSPOSE", [Input((3, 2)), Input((2,), (0, 7))], [(2, 3)]), "axis 7"
    ),
}
