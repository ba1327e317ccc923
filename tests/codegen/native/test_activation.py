"""Activation functions as native kernels: tables of all codes, int16, and lookups of several operators."""

from __future__ import annotations

from math import exp
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgetool.codegen.native.activation import fold_lookups, sigmoid_scale
from edgetool.codegen.native.fixed_functions import (
    exp_on_negative_values,
    inverse_square_root,
    logistic,
    one_minus_x_over_one_plus_x,
    one_over_one_plus_x,
    tanh,
)
from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.program import Constant, StepOverlap
from edgetool.errors import UnsupportedModelError
from edgetool.execute.run import run_model
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from tests.codegen.native.host import differences, prepare
from tests.memory.account_net import Net

CODES = np.arange(-128, 128, dtype=np.int8)
INT8_FUNCTIONS = ("RELU", "RELU6", "LEAKY_RELU", "LOGISTIC", "TANH", "HARD_SWISH", "ELU", "ABS", "RSQRT")
INT16_FUNCTIONS = ("RELU", "RELU6", "LEAKY_RELU", "LOGISTIC", "TANH", "ABS")
SLOPES = (0.1, 0.2, 0.01, -0.3, 1.5, 0.0, 0.5)


def tables_of(program: NativeProgram) -> dict[int, npt.NDArray[np.int8]]:
    """Return the values of each table step by its output, in the order of the codes."""
    tables = {}
    for step in program.steps:
        table = dict(step.op.values).get("table")
        if isinstance(table, Constant):
            tables[step.output] = np.frombuffer(table.data, np.int8)[CODES.view(np.uint8)]
    return tables


def _drawn(random: Random, low: float, high: float) -> float:
    """Return a positive number; half of them have one digit, so that some results are ties."""
    number = 10 ** random.uniform(low, high)
    return float(f"{number:.0e}") if random.random() < 0.5 else float(np.float32(number))


def _layer(net: Net, random: Random, code: str) -> int:
    """Add an operator with random scales and zero points, which its kernel accepts."""
    zero = random.choice((0, -128, 127, random.randint(-128, 127)))
    scale = _drawn(random, -4, 0) if code == "ELU" else _drawn(random, -5, 1)
    result = random.choice((0, -128, 127, random.randint(-128, 127)))
    output = random.choice((scale, scale * _drawn(random, -2, 2)))
    values: dict[str, Any] = {"alpha": random.choice(SLOPES)} if code == "LEAKY_RELU" else {}
    if code == "LOGISTIC":
        output, result = 1 / 256, -128
    elif code == "TANH":
        output, result = 1 / 128, 0
    elif code == "RELU6":
        output, result = scale, zero
    elif code == "HARD_SWISH":
        output = max(output, scale / 100)
    elif code == "RSQRT":
        # Negative numbers are an error.
        zero, output = -128, random.uniform(0.2, 3) / 128 / scale**0.5
    x = net.arena(256, scale=scale, zero_point=zero)
    return net.op(code, [x], scale=float(np.float32(output)), zero_point=result, **values)


def _check_tables(seed: int, count: int) -> None:
    """Check the tables of this many random layers of each function."""
    net, random = Net(), Random(seed)
    outputs = [_layer(net, random, code) for _ in range(count) for code in INT8_FUNCTIONS]
    net.end_graph([operator.inputs[0] for operator in net.operators], outputs)
    model = net.whole()
    blob = write_model(model)
    results = run_model(blob, [CODES[None] for _ in model.main.inputs], engine="tflm")
    # The file has scales of float32.
    tables = tables_of(lower(read_model(blob)))
    for operator, expected in zip(model.main.operators, results, strict=True):
        np.testing.assert_array_equal(tables[operator.outputs[0]], np.asarray(expected).reshape(-1), operator.code)


def test_tables_are_those_of_tflm() -> None:
    _check_tables(0, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_many_tables_are_those_of_tflm(seed: int) -> None:
    _check_tables(seed, 40)


def test_fixed_functions_are_close_to_the_real_ones() -> None:
    numbers = np.linspace(-(2**31), 2**31 - 1, 4001).astype(np.int64)
    real = numbers * 2.0**-27
    one = 2.0**31
    np.testing.assert_allclose(logistic(numbers, 4) / one, 1 / (1 + np.exp(-real)), atol=1e-6)
    np.testing.assert_allclose(tanh(numbers, 4) / one, np.tanh(real), atol=1e-6)
    negative = numbers[numbers <= 0]
    np.testing.assert_allclose(exp_on_negative_values(negative, 4) / one, np.exp(negative * 2.0**-27), atol=1e-6)
    np.testing.assert_allclose(exp_on_negative_values(negative, 6) / one, np.exp(negative * 2.0**-25), atol=1e-6)
    fractions = np.linspace(0, 2**31 - 1, 999).astype(np.int64)
    x = fractions / one
    np.testing.assert_allclose(one_over_one_plus_x(fractions) / one, 1 / (1 + x), atol=1e-6)
    np.testing.assert_allclose(one_minus_x_over_one_plus_x(fractions) / one, (1 - x) / (1 + x), atol=1e-6)
    for value in (1, 2, 3, 17, 255, 1 << 20, 2**31 - 1):
        multiplier, shift = inverse_square_root(value)
        assert multiplier * 2.0 ** (shift - 31) == pytest.approx(value**-0.5, rel=1e-3)


def test_sigmoid_scales() -> None:
    assert sigmoid_scale(2.0**-12, is_tanh=False) == (3, 0)
    assert sigmoid_scale(2.0**-11, is_tanh=True) == (6, 0)
    assert sigmoid_scale(2.0**-11, is_tanh=False)[1] > 0
    multiplier, shift = sigmoid_scale(0.0003, is_tanh=False)
    assert 2**14 - 1 < multiplier < 2**15
    assert multiplier / 2.0**shift == pytest.approx(0.0003 * 3 * 4096, rel=1e-4)


def test_elu_rounds_as_in_float32() -> None:
    net = Net()
    x = net.arena(256, scale=0.03, zero_point=3)
    net.end_graph([x], [net.op("ELU", [x], scale=0.0217, zero_point=-5)])
    (table,) = tables_of(lower(net.whole())).values()
    real = [0.03 * (code - 3) for code in range(-128, 128)]
    expected = [max(-128, min(127, round((exp(r) - 1 if r < 0 else r) / 0.0217) - 5)) for r in real]
    np.testing.assert_array_equal(table, expected)


def test_functions_that_tflm_lacks_are_refused() -> None:
    for code in ("NEG", "SQUARE", "SQRT", "EXP", "LOG"):
        net = Net()
        x = net.arena(4)
        net.end_graph([x], [net.op(code, [x])])
        with pytest.raises(UnsupportedModelError, match="INT8 is not supported"):
            lower(net.whole())


def test_functions_are_computed_in_place() -> None:
    net = Net()
    x = net.arena(2, 3, 4, 5)
    net.end_graph([x], [net.op("RELU", [x], zero_point=-3)])
    model = net.whole()
    (step,) = lower(model).steps
    assert (step.rows, step.batches, step.overlaps) == (1, 1, (StepOverlap(0, 0),))
    (step,) = lower(model, row_wise=True).steps
    assert (step.rows, step.batches, step.row_bytes, step.overlaps) == (3, 2, 20, (StepOverlap(0, 0),))


def _lookup(net: Net, x: int, table: int, shift: int) -> int:
    code = net.op("CAST", [x], dtype=DType.INT32)
    index = net.op("ADD", [code, shift], dtype=DType.INT32)
    shape = net.tensors[x].shape
    return net.op("GATHER", [table, index], *shape, dtype=DType.INT8, scale=1 / 16, axis=0)


def _table_of(net: Net, seed: int) -> int:
    return net.constant(Random(seed).choices(range(-128, 128), k=256), 256, dtype=DType.INT8, scale=1 / 16)


def _split_lookup(axis: int, joined: int, seeds: tuple[int, int] = (1, 1)) -> Model:
    net = Net()
    x = net.arena(2, 4, 3)
    shift = net.scalar(128)
    sides = ((1, 3), (2, 2), (1, 2))[axis]
    shapes = [tuple(side if k == axis else size for k, size in enumerate((2, 4, 3))) for side in sides]
    if axis == 0:
        shapes = [(1, 4, 3), (1, 4, 3)]
        sides = (1, 1)
    parts = [net.arena(*shape) for shape in shapes]
    net.give("SPLIT_V", [x, net.constant(sides, 2), net.scalar(axis)], parts, num_splits=2)
    results = [_lookup(net, part, _table_of(net, seed), shift) for part, seed in zip(parts, seeds, strict=True)]
    y = net.op("CONCATENATION", results, 2, 4, 3, scale=1 / 16, axis=joined)
    net.end_graph([x], [y])
    return net.whole()


def test_lookups_are_folded() -> None:
    net = Net()
    x = net.arena(2, 5, 3, 4)
    y = _lookup(net, x, _table_of(net, 1), net.scalar(128))
    net.end_graph([x], [y])
    model = net.whole()
    (step,) = lower(model).steps
    assert (step.kernel, step.inputs[0].source, step.output) == ("edgetool_lookup", x, y)
    np.testing.assert_array_equal(tables_of(lower(model))[y], np.frombuffer(model.main.tensors[1].data or b"", np.int8))


def test_parts_of_a_lookup_are_folded() -> None:
    for axis in (0, 1, 2):
        for joined in (axis, axis - 3):
            assert [step.kernel for step in lower(_split_lookup(axis, joined)).steps] == ["edgetool_lookup"]


def test_other_lookups_are_not_folded() -> None:
    parts = fold_lookups(_split_lookup(1, 1, (1, 2)).main)
    assert len(parts.by_operator) == 2
    for number in (127, 128):
        net = Net()
        x = net.arena(6)
        code = net.op("CAST", [x], dtype=DType.INT32)
        index = net.op("ADD", [code, net.scalar(number)], dtype=DType.INT32)
        y = net.op("GATHER", [_table_of(net, 1), index], 6, dtype=DType.INT8, axis=0)
        # The index has another reader: it is an output.
        net.end_graph([x], [y, index] if number == 128 else [y])
        assert not fold_lookups(net.whole().main).by_operator


def _functions(kind: DType) -> Model:
    """Return a network of every function that a type has."""
    net = Net()
    small = kind is DType.INT8
    x = net.arena(2, 3, 5, 4, dtype=kind, scale=0.05 if small else 0.0003, zero_point=7 if small else 0)
    outputs = []
    for code in INT8_FUNCTIONS[:-1] if small else INT16_FUNCTIONS:
        scale, zero = {
            "LOGISTIC": (1 / 256 if small else 2.0**-15, -128 if small else 0),
            "TANH": (1 / 128 if small else 2.0**-15, 0),
        }.get(code, (0.04 if small else 0.0002, -9 if small else 0))
        if code == "RELU6":
            scale, zero = (0.05, 7) if small else (0.0003, 0)
        values: dict[str, Any] = {"alpha": -0.3} if code == "LEAKY_RELU" else {}
        outputs.append(net.op(code, [x], scale=scale, zero_point=zero, **values))
    slopes = net.constant([-128, 127, 3, 0], 1, 1, 4, dtype=DType.INT8, scale=0.01)
    one = net.constant([77], 1, 1, 1, dtype=DType.INT8, scale=0.01)
    for alpha in (slopes, one):
        outputs.append(net.op("PRELU", [x, alpha], scale=0.04 if small else 0.0002, zero_point=-9 if small else 0))
    outputs.append(_lookup(net, x, _table_of(net, 1), net.scalar(128)) if small else x)
    net.end_graph([x], [index for index in outputs if index != x])
    return net.whole()


@pytest.mark.slow
def test_functions_equal_tflm() -> None:
    assert differences({str(kind): prepare(_functions(kind)) for kind in (DType.INT8, DType.INT16)}) == []


@pytest.mark.parametrize("code", ["LOGISTIC", "TANH"])
def test_a_scale_by_which_tflm_cannot_shift_is_refused(code: str) -> None:
    net = Net()
    x = net.arena(4, scale=1e12)
    net.end_graph([x], [net.op(code, [x])])
    with pytest.raises(UnsupportedModelError, match="shift by the scale of its input is undefined"):
        lower(net.whole())
