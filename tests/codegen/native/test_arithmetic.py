"""Arithmetic, comparisons and selections as native kernels."""

from __future__ import annotations

from itertools import product
from random import Random
from struct import pack, unpack
from typing import Any

import numpy as np
import pytest

from edgetool.codegen.native.arithmetic import Addition, addition_line
from edgetool.codegen.native.elementwise import CODES, loops_of
from edgetool.codegen.native.fixed_point import quantize_multiplier
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.program import Constant, RowInput, Step, StepOverlap
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import Trial, differences, prepare
from tests.memory.account_net import Net

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


def _walk(numbers: tuple[int, ...], operands: int) -> list[tuple[int, ...]]:
    """Return the elements of all operands for each output element, as kernels go through a row."""
    loops, run = numbers[:2]
    steps, rest = numbers[2 : 2 + operands], numbers[2 + operands :]
    turns, at, elements = [0] * loops, [0] * operands, []
    while True:
        elements += [
            tuple((start + i * step) % 2**32 for start, step in zip(at, steps, strict=True)) for i in range(run)
        ]
        for loop in range(loops):
            count, *advances = rest[loop * (1 + operands) : (loop + 1) * (1 + operands)]
            at = [start + advance for start, advance in zip(at, advances, strict=True)]
            turns[loop] += 1
            if turns[loop] < count:
                break
            turns[loop] = 0
        else:
            return elements


def test_loops_visit_the_elements_that_are_broadcast() -> None:
    shape = (2, 3, 1, 4, 2)
    for kept in product((True, False), repeat=4):
        first = tuple(side if keep else 1 for side, keep in zip(shape, (*kept, True), strict=True))
        second = tuple(1 if keep else side for side, keep in zip(shape, (*kept, False), strict=True))
        shapes = [first, second, shape]
        constant = loops_of(shape, shapes)
        places = [
            np.broadcast_to(np.arange(np.prod(sides)).reshape(sides), shape).reshape(-1).tolist() for sides in shapes
        ]
        numbers = unpack(f"<{len(constant.data) // 4}I", constant.data)
        assert _walk(numbers, 3) == list(zip(*places, strict=True))


def test_equal_shapes_and_channels_have_few_loops() -> None:
    def loops(*shapes: tuple[int, ...]) -> tuple[int, ...]:
        data = loops_of(shapes[0], shapes).data
        return unpack(f"<{len(data) // 4}I", data)

    assert loops((2, 3, 4, 5), (2, 3, 4, 5)) == (0, 120, 1, 1)
    assert loops((2, 3, 4, 5), (1, 1, 1, 1)) == (0, 120, 1, 0)
    assert loops((2, 3, 4, 5), (1, 1, 1, 5)) == (1, 5, 1, 1, 24, 5, 0)
    assert loops((1, 1), (1, 1)) == (0, 1, 0, 0)


def _binary(code: str, first: tuple[int, ...], second: tuple[int, ...]) -> Model:
    net = Net()
    a = net.arena(*first, scale=0.05, zero_point=3)
    b = net.arena(*second, scale=0.03, zero_point=-8)
    shape = np.broadcast_shapes(first, second)
    net.end_graph([a, b], [net.op(code, [a, b], *shape, scale=0.07, zero_point=1)])
    return net.whole()


def _only(model: Model, *, row_wise: bool = False) -> Step:
    (step,) = lower(model, row_wise=row_wise).steps
    return step


def test_rows_of_images() -> None:
    def inputs(second: tuple[int, ...]) -> tuple[RowInput, ...]:
        step = _only(_binary("MUL", (2, 5, 3, 4), second), row_wise=True)
        assert (step.rows, step.batches, step.row_bytes) == (5, 2, 12)
        return step.inputs

    row = RowInput(0, 12, rows=5)
    assert inputs((2, 5, 3, 4)) == (row, RowInput(1, 12, rows=5))
    assert inputs((2, 1, 1, 4)) == (row, RowInput(1, 4, stride=0))
    assert inputs((4,)) == (row, RowInput(1, 0, stride=0))
    # One image for two batches: the tensor is one row.
    step = _only(_binary("MUL", (2, 5, 3, 4), (1, 5, 3, 4)), row_wise=True)
    assert (step.rows, step.batches, step.row_bytes) == (1, 1, 120)


def test_only_operands_of_the_same_shape_overlap_the_output() -> None:
    assert _only(_binary("ADD", (2, 3), (2, 3))).overlaps == (StepOverlap(0, 0), StepOverlap(1, 0))
    assert _only(_binary("ADD", (2, 3), (3,))).overlaps == (StepOverlap(0, 0),)
    assert _only(_binary("ADD", (2, 1), (1, 3))).overlaps == ()


def test_functions_of_one_code_are_tables() -> None:
    net = Net()
    x = net.arena(1, 3, scale=0.05, zero_point=3)
    one = net.constant([40], 1, dtype=DType.INT8, scale=0.05)
    outputs = [net.op("MUL", [x, x], scale=1.0), net.op("SUB", [one, x], 1, 3, scale=0.1)]
    net.end_graph([x], outputs)
    square, difference = lower(net.whole()).steps
    for step, values in (
        (square, [round((0.05 * (code - 3)) ** 2) for code in range(-128, 128)]),
        (difference, [(2 - 0.05 * (code - 3)) / 0.1 for code in range(-128, 128)]),
    ):
        assert step.kernel == "edgetool_lookup"
        table = dict(step.op.values)["table"]
        assert isinstance(table, Constant)
        codes = np.frombuffer(table.data, np.int8)[CODES.astype(np.uint8)]
        np.testing.assert_allclose(codes, np.clip(values, -128, 127), atol=0.51)


def test_lines_equal_additions_of_all_codes() -> None:
    random, found = Random(3), 0
    for _ in range(12):
        scales = [random.uniform(0.01, 0.1) for _ in range(3)]
        twice = 2 * max(scales[:2])
        real = (scales[0] / twice, scales[1] / twice, twice / (2**20 * scales[2]))
        a, b, c = (quantize_multiplier(item) for item in real)
        zeros = (random.randint(-128, 127), random.randint(-128, 127), random.randint(-128, 127))
        addition = Addition((a, b, c), zeros, 20, random.random() < 0.5, -128, random.choice((127, 60)))
        line = addition_line(addition)
        if line is None:
            continue
        found += 1
        sums = CODES[:, None] * line.slopes[0] + CODES * line.slopes[1] + line.intercept
        assert np.abs(sums).max() < 2**31
        codes = np.clip(sums >> line.shift, addition.low, addition.high)
        np.testing.assert_array_equal(codes, addition.of(CODES[:, None], CODES))
    assert found > 6


def test_arithmetic_of_constants_is_folded() -> None:
    net = Net()
    a, b = net.constant([5, -7, 2**31 - 1]), net.constant([3])
    y = net.op("MUL", [a, b], fused_activation_function="RELU")
    z = net.op("SUB", [y, b])
    net.end_graph([], [z])
    program = lower(net.whole())
    assert program.steps == ()
    assert unpack("<3i", program.graph.tensors[z].data or b"") == (12, -3, 2**31 - 6)


def test_undefined_results_are_refused() -> None:
    net = Net()
    a, b = net.arena(4, scale=1.0), net.arena(4, scale=1.0)
    net.end_graph([a, b], [net.op("DIV", [a, b], scale=1.0)])
    with pytest.raises(UnsupportedModelError, match="undefined"):
        lower(net.whole())
    net = Net()
    a, b = net.arena(4, dtype=DType.FLOAT32), net.arena(4, dtype=DType.FLOAT32)
    net.end_graph([a, b], [net.op("ADD", [a, b])])
    with pytest.raises(UnsupportedModelError, match="FLOAT32 is not supported"):
        lower(net.whole())


def _network(dtype: DType) -> Model:
    """Return operators on operands of many shapes."""
    net = Net()
    small = dtype is DType.INT8
    scale = 0.05 if small else 0.0003
    zeros = (3, -8) if small else (0, 0)
    x = net.arena(2, 3, 5, 4, dtype=dtype, scale=scale, zero_point=zeros[0])
    others = [
        net.arena(*shape, dtype=dtype, scale=0.7 * scale, zero_point=zeros[1])
        for shape in ((2, 3, 5, 4), (1, 1, 1, 4), (2, 1, 1, 4), (3, 1, 4))
    ]
    outputs = []
    for code, other in product(("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM"), others):
        wide = 30 if small else 9000
        factor = {"MUL": scale * wide, "SQUARED_DIFFERENCE": scale * wide, "MAXIMUM": 1.0, "MINIMUM": 1.0}.get(
            code, 1.3
        )
        values: dict[str, Any] = (
            {"fused_activation_function": "RELU6"} if code in ("ADD", "MUL") and other == others[2] else {}
        )
        outputs.append(net.op(code, [x, other], scale=scale * factor, zero_point=zeros[0], **values))
    if small:
        outputs += [
            net.op(code, [x, others[k]], dtype=DType.BOOL) for k, code in enumerate((*COMPARISONS[:3], "EQUAL"))
        ]
        outputs.append(net.op("SELECT_V2", [outputs[-1], x, others[0]], dtype=dtype, scale=scale, zero_point=zeros[0]))
        outputs.append(net.op("ADD_N", [x, x, x], scale=2.6 * scale, zero_point=zeros[0]))
    net.end_graph([x, *others], outputs)
    return net.whole()


def _integers() -> Trial:
    net = Net()
    a, b = net.arena(3, 4, dtype=DType.INT32), net.arena(3, 4, dtype=DType.INT32)
    divisors = net.tensor((4,), DType.INT32, data=pack("<4i", 7, -3, 1, 2**31 - 1))
    codes = ("SUB", "MUL", "MAXIMUM", "MINIMUM", "EQUAL", "LESS_EQUAL")
    outputs = [net.op(code, [a, b], dtype=DType.BOOL if code in COMPARISONS else DType.INT32) for code in codes]
    outputs.append(net.op("DIV", [a, divisors], fused_activation_function="RELU_N1_TO_1"))
    net.end_graph([a, b], outputs)
    random = np.random.default_rng(0)
    return prepare(net.whole(), inputs=[random.integers(-(2**30), 2**30, (5, 3, 4), np.int32) for _ in range(2)])


def _all_quotients() -> Trial:
    net = Net()
    a = net.arena(1, 65536, scale=0.05, zero_point=-7)
    b = net.arena(1, 65536, scale=0.04, zero_point=20)
    net.end_graph([a, b], [net.op("DIV", [a, b], scale=scale, zero_point=4) for scale in (0.0123, 0.0004)])
    first, second = (codes.reshape(1, 1, -1).astype(np.int8) for codes in np.meshgrid(CODES, CODES))
    return prepare(net.whole(), inputs=[first, second])


@pytest.mark.slow
def test_arithmetic_equals_tflm() -> None:
    trials = {str(dtype): prepare(_network(dtype)) for dtype in (DType.INT8, DType.INT16)}
    trials |= {"int32": _integers(), "quotients of all codes": _all_quotients()}
    assert differences(trials) == []
