"""Chains of int8 operators as tables: exact to the last code, and the same on LiteRT and TensorFlow Lite Micro."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.bound import lower_bound
from edgetool.memory.lifetimes import layout_problem, timeline
from edgetool.model.types import Model
from edgetool.passes import lookup
from edgetool.passes.legalize import ELEMENTWISE_RULES as ELEMENTWISE_RULES
from edgetool.passes.legalize import legalize
from tests.conftest import examples
from tests.passes.chains import FLOAT, INT8, REAL, TRUTH, Chain, Kind, int8_codes, legal, output
from tests.passes.runs import codes, litert, runtime, tflm

SOURCE: Kind = (INT8, 1 / 16, 20)
TABLE = ["CAST", "ADD", "GATHER"]
# By operator: what it computes of one number, as Python's own mathematics have it.
UNARY: dict[str, Callable[[float], float]] = {
    "ABS": abs,
    "GELU": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "HARD_SWISH": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "LEAKY_RELU": lambda x: x if x >= 0 else 0.2 * x,
    "LOGISTIC": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
    "NEG": lambda x: -x,
    "RELU": lambda x: max(x, 0.0),
    "SIGN": lambda x: math.copysign(1, x) if x else 0.0,
    "SQUARE": lambda x: x * x,
    "TANH": math.tanh,
}
BINARY: dict[str, Callable[[float, float], float]] = {
    "ADD": lambda x, y: x + y,
    "MAXIMUM": max,
    "MINIMUM": min,
    "MUL": lambda x, y: x * y,
    "SQUARED_DIFFERENCE": lambda x, y: (x - y) ** 2,
    "SUB": lambda x, y: x - y,
}
FIELDS = {"GELU": {"approximate": False}, "LEAKY_RELU": {"alpha": float(np.float32(0.2))}}


def rounded(value: float, kind: Kind) -> int:
    """As QUANTIZE rounds: half away from zero."""
    steps = value / kind[1]
    return int(min(max(math.copysign(math.floor(abs(steps) + 0.5), steps) + kind[2], -128), 127))


def expected_codes(function: Callable[[float], float], kind: Kind, source: Kind = SOURCE) -> list[int]:
    return [rounded(function((code - source[2]) * source[1]), kind) for code in range(-128, 128)]


def table_in(model: Model) -> list[int]:
    """The codes of the one table of a model."""
    (gather,) = (operator for operator in model.main.operators if operator.code == "GATHER")
    data = model.main.tensors[gather.inputs[0]].data
    assert data is not None
    return np.frombuffer(data, np.int8).tolist()


kinds = st.builds(lambda power, zero_point: (INT8, 2.0**power, zero_point), st.integers(-8, -2), st.integers(-128, 127))
steps = st.one_of(
    st.sampled_from(sorted(UNARY)).map(lambda code: (code, None)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.integers(-128, 127)),
)


@given(st.lists(st.tuples(steps, kinds), max_size=5), kinds, st.data())
@examples(40)
def test_any_chain_around_an_operator_that_is_lacking_is_one_table(
    chosen: list[tuple[tuple[str, int | None], Kind]], last: Kind, data: st.DataObject
) -> None:
    chosen = [*chosen, (("GELU", None), last)]
    data.draw(st.randoms()).shuffle(chosen)
    chain = Chain([1, 3, 2])
    x = first = chain.made(SOURCE)
    functions: list[Callable[[float], float]] = []
    for (code, second), kind in chosen:
        if second is None:
            x = chain.step(code, [x], kind, **FIELDS.get(code, {}))
            functions.append(UNARY[code])
        else:
            number = (second - 3) * 0.03125
            x = chain.step(code, [x, chain.number(second, (INT8, 0.03125, 3))], kind)
            functions.append(lambda value, code=code, number=number: BINARY[code](value, number))

    def whole(value: float) -> float:
        for function in functions:
            value = function(value)
        return value

    made = legalize(chain.model([first], [x]), runtime(), rules=ELEMENTWISE_RULES).model
    assert codes(made) == TABLE
    differences = np.abs(np.subtract(table_in(made), expected_codes(whole, chosen[-1][1])))
    assert differences.max() <= 1  # where the last bits of two libraries decide between two codes
    assert np.count_nonzero(differences) <= 2


def branches(chain: Chain, x: int) -> list[tuple[int, Callable[[float], float], Kind]]:
    """Activation functions as TensorFlow's converter writes them in int8."""
    small: Kind = (INT8, 1 / 64, -60)
    wide: Kind = (INT8, 1 / 16, -100)
    zero, one = chain.number(4, (INT8, 0.5, 4)), chain.number(127, (INT8, 1 / 255, -128))
    real = chain.step("DEQUANTIZE", [x], REAL)
    negative = chain.step("QUANTIZE", [chain.step("NEG", [real], REAL)], (INT8, 1 / 16, -20))
    grown = chain.step("EXP", [x], wide)
    softplus = chain.step("LOG", [chain.step("ADD", [grown, one], wide)], wide)
    mish = chain.step("MUL", [x, chain.step("TANH", [softplus], (INT8, 1 / 128, 0))], wide)
    half = chain.number(127, (INT8, 1 / 254, 0))
    below = chain.step("SUB", [chain.step("EXP", [x], small), half], small)
    chosen = chain.step("SELECT", [chain.step("GREATER", [x, zero], TRUTH), x, below], SOURCE)
    return [
        (chain.step("GELU", [x], wide, approximate=False), UNARY["GELU"], wide),
        (chain.step("LOG", [x], small), lambda v: math.log(v) if v > 0 else -math.inf, small),
        (chain.step("SQRT", [negative], small), lambda v: math.sqrt(max(-v, 0)), small),
        (chain.step("COS", [x], small), math.cos, small),
        (mish, lambda v: v * math.tanh(math.log1p(math.exp(v))), wide),
        (chosen, lambda v: v if v > 0 else math.exp(v) - 0.5, SOURCE),
        (chain.step("POW", [x, chain.number(127, (INT8, 3 / 127, 0))], wide), lambda v: v**3, wide),
    ]


def rounded_safely(function: Callable[[float], float], kind: Kind) -> list[int]:
    return expected_codes(lambda v: min(max(function(v), -1e30), 1e30), kind)


def test_tables_run_and_are_exact() -> None:
    chain = Chain([1, 16, 16])
    x = chain.made(SOURCE)
    expected = branches(chain, x)
    model = legal(chain.model([x], [result for result, _, _ in expected])).model
    assert set(codes(model)) <= {*TABLE, "SPLIT_V", "CONCATENATION"}
    given = (int8_codes().reshape(1, 1, 16, 16),)
    on_tflm, on_litert = tflm(model, given), litert(model, given)
    for (_, function, kind), micro, lite in zip(expected, on_tflm, on_litert, strict=True):
        assert micro.reshape(-1).tolist() == rounded_safely(function, kind)
        assert np.array_equal(micro, lite)


@pytest.mark.parametrize("shape", [[], [1], [1, 1, 1, 5], [7, 3], [2, 1, 3, 4, 2]], ids=str)
def test_any_shape(shape: list[int]) -> None:
    chain = Chain(shape)
    x = chain.made(SOURCE)
    model = legal(chain.model([x], [chain.step("EXP", [x], (INT8, 0.5, -128))])).model
    given = (np.random.default_rng(0).integers(-128, 128, (2, *shape)).astype(np.int8),)
    table = np.asarray(expected_codes(math.exp, (INT8, 0.5, -128)))
    (made,) = tflm(model, given)
    assert np.array_equal(made, table[given[0].astype(np.int64) + 128])
    assert np.array_equal(made, litert(model, given)[0])


def test_elu_keeps_its_own_kernel() -> None:
    """TensorFlow Lite Micro has it in int8; the converter writes it in float32, between two conversions."""
    chain = Chain([1, 256])
    source: Kind = (INT8, float(np.float32(0.0473)), -3)
    kind: Kind = (INT8, float(np.float32(0.0531)), -108)
    x = chain.made(source)
    real = chain.step("ELU", [chain.step("DEQUANTIZE", [x], REAL)], REAL)
    model = legal(chain.model([x], [chain.step("QUANTIZE", [real], kind)])).model
    assert codes(model) == ["ELU"]
    (made,) = tflm(model, (int8_codes().reshape(1, 1, 256),))
    assert made.reshape(-1).tolist() == expected_codes(lambda v: math.expm1(v) if v < 0 else v, kind, source)


def test_long_chains_of_legal_operators_become_tables_and_short_ones_stay() -> None:
    chain = Chain([1, 16])
    x = chain.made(SOURCE)
    gate = chain.step("LOGISTIC", [x], (INT8, 1 / 256, -128))
    silu = chain.step("MUL", [x, gate], SOURCE)
    assert codes(legal(chain.model([x], [silu])).model) == ["LOGISTIC", "MUL"]
    result = chain.step("ABS", [silu], SOURCE)
    done = legal(chain.model([x], [result]))
    assert codes(done.model) == TABLE
    assert table_in(done.model) == expected_codes(lambda v: abs(v / (1 + math.exp(-v))), SOURCE)
    assert done.sentences({})[0].startswith(
        "ABS was merged with the preceding operators into one 256-entry lookup table"
    )


def test_a_root_that_may_be_negative_does_not_stop_the_device() -> None:
    """TensorFlow Lite Micro's own RSQRT fails in Invoke there. The nearest number with a root has its say."""
    chain = Chain([1, 256])
    x, positive = chain.made(SOURCE), chain.made((INT8, 1 / 16, -128))
    kind: Kind = (INT8, 1 / 32, -128)
    outputs = [chain.step("RSQRT", [one], kind) for one in (x, positive)]
    model = legal(chain.model([x, positive], outputs)).model
    assert codes(model).count("RSQRT") == 1
    given = (int8_codes().reshape(1, 1, 256),) * 2
    roots = expected_codes(lambda v: 1 / math.sqrt(v) if v > 0 else 1e9, kind)
    assert tflm(model, given)[0].reshape(-1).tolist() == roots


def test_what_others_read_stays() -> None:
    chain = Chain([1, 4])
    x = chain.made(SOURCE)
    square = chain.step("MUL", [x, x], (INT8, 1, -128))
    root = chain.step("SQRT", [square], SOURCE)
    result = chain.step("SUB", [root, x], SOURCE)
    model = legal(chain.model([x], [square, result])).model
    assert codes(model) == ["MUL", *TABLE, "SUB"]


def test_operators_of_two_tensors_or_of_several_scales_are_no_chain() -> None:
    chain = Chain([1, 4])
    x, y = chain.made(SOURCE), chain.made(SOURCE)
    many = chain.tensor([4], INT8, data=b"\x01\x02\x03\x04", scales=(0.5,))
    outputs = [chain.step("MUL", [chain.step("ABS", [chain.step("ADD", [x, y], SOURCE)], SOURCE), many], SOURCE)]
    model = chain.model([x, y], outputs)
    assert legalize(model, runtime(), rules=ELEMENTWISE_RULES).applied == ()


def head_bound(model: Model) -> int:
    return lower_bound(layout_problem(model, timeline(model)))


def activation_of(size: int, elsewhere: int) -> Model:
    """GELU of `size` bytes, and an operator that holds twice `elsewhere` bytes."""
    chain = Chain([1, size // 16, 16])
    x = chain.made(SOURCE)
    start = chain.step("ABS", [x], SOURCE)
    result = chain.step("ABS", [chain.step("GELU", [start], SOURCE, approximate=False)], SOURCE)
    chain.shape = (1, elsewhere)
    other = chain.made(SOURCE)
    return chain.model([x, other], [result, chain.step("ABS", [other], SOURCE)])


def parts_in(model: Model) -> int:
    return codes(model).count("GATHER")


def test_a_split_reduces_the_arena() -> None:
    small, large = (legalize(activation_of(size, 16), runtime(), rules=ELEMENTWISE_RULES).model for size in (64, 8192))
    assert parts_in(small) == 1  # more would take more of the tail than they spare of the head
    assert 4 <= parts_in(large) <= lookup.MAX_PARTS
    assert head_bound(large) <= 2.5 * 8192 + 64


def test_no_split_if_the_arena_is_large_anyway() -> None:
    model = legalize(activation_of(1024, 8192), runtime(), rules=ELEMENTWISE_RULES).model
    assert parts_in(model) == 1
    assert FLOAT not in {tensor.dtype for tensor in model.main.tensors}


@pytest.mark.parametrize("shape", [[1, 400], [13, 40], [1, 3, 300]], ids=str)
def test_a_split_gives_the_same_results(shape: list[int]) -> None:
    chain = Chain(shape)
    x = chain.made(SOURCE)
    kind: Kind = (INT8, 0.5, -128)
    model = legal(chain.model([x], [chain.step("EXP", [x], kind)])).model
    assert codes(model)[0] == "SPLIT_V"
    given = (np.random.default_rng(0).integers(-128, 128, (1, *shape)).astype(np.int8),)
    table = np.asarray(expected_codes(math.exp, kind))
    (made,) = tflm(model, given)
    assert np.array_equal(made, table[given[0].astype(np.int64) + 128])
    assert np.array_equal(made, litert(model, given)[0])
    assert output(model).shape == tuple(shape)
