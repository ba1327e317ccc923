"""Prepare and loop counts of comparisons, logic and SELECT_V2."""

from __future__ import annotations

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.operators.loops import LoopCounts
from tests.memory.account_net import Net
from tests.operators.calls import call, prepared, temporaries, tensor
from tests.operators.runs import BOOL, FLOAT32, INT8, binary, run, unary

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
BOOLEANS = tensor(1, 4, dtype=DType.BOOL)
F = tensor(1, 4, dtype=DType.FLOAT32)


@pytest.mark.parametrize("code", COMPARISONS)
def test_a_comparison_requests_its_inputs_only(code: str) -> None:
    assert temporaries(call(code, [F, F], [BOOLEANS])) == [0, 1]


@pytest.mark.parametrize("code", COMPARISONS)
@pytest.mark.parametrize("scale", [1.0, 2.0, None])
def test_int8_is_compared_with_scales_below_one_only(code: str, scale: float | None) -> None:
    fine, other = tensor(1, 4, scale=0.9), tensor(1, 4, scale=scale)
    assert temporaries(call(code, [fine, fine], [BOOLEANS])) == [0, 1]
    for pair in ([fine, other], [other, fine]):
        with pytest.raises(KernelRefusal, match="between 0 and 1"):
            prepared(call(code, pair, [BOOLEANS]))


def test_int16_is_compared_whatever_its_scale() -> None:
    wide = tensor(1, 4, dtype=DType.INT16, scale=2.0)
    assert temporaries(call("GREATER", [wide, wide], [BOOLEANS])) == [0, 1]


@pytest.mark.parametrize("code", ["LOGICAL_AND", "LOGICAL_OR"])
def test_binary_logic_has_no_prepare(code: str) -> None:
    assert prepared(call(code, [BOOLEANS, BOOLEANS], [BOOLEANS])) == []


def test_logical_not_requests_both_sides() -> None:
    assert temporaries(call("LOGICAL_NOT", [BOOLEANS], [BOOLEANS])) == [0, 1]
    with pytest.raises(KernelRefusal, match="bool together with float32"):
        prepared(call("LOGICAL_NOT", [BOOLEANS], [F]))


@pytest.mark.parametrize(
    ("shapes", "output"),
    [
        ([(2, 3), (2, 3), (2, 3)], (2, 3)),
        ([(2, 1), (3,), (2, 3)], (2, 3)),
        ([(), (3,), ()], (3,)),
        ([(1,), (), (1, 1)], (1, 1, 1)),  # single elements keep the file's shape
        ([(0,), (1,), (1,)], (0,)),
    ],
)
def test_select_requests_four_tensors(shapes: list[tuple[int, ...]], output: tuple[int, ...]) -> None:
    condition, first, second = shapes
    inputs = [tensor(*condition, dtype=DType.BOOL), tensor(*first), tensor(*second)]
    assert temporaries(call("SELECT_V2", inputs, [tensor(*output)])) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("inputs", "output", "why"),
    [
        ([F, F, F], F, "condition of type bool, not float32"),
        ([BOOLEANS, F, tensor(1, 4)], F, "between float32 and int8"),
        ([BOOLEANS, F], F, "no input 2"),
        ([BOOLEANS, tensor(3), tensor(1)], tensor(1, 4), "cannot broadcast"),
        ([BOOLEANS, tensor(4), tensor(1)], tensor(4), "the file specifies"),
        ([tensor(4, dtype=DType.BOOL), tensor(1), tensor(1)], tensor(5), "the file specifies"),
    ],
)
def test_select_refuses(inputs: list[Tensor], output: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        prepared(call("SELECT_V2", [*inputs], [output]))


Shape = tuple[int, ...]


def choice(condition: Shape, first: Shape, second: Shape, result: Shape, dtype: DType = INT8) -> LoopCounts:
    net = Net(1)
    inputs = [net.arena(*condition, dtype=BOOL), net.arena(*first, dtype=dtype), net.arena(*second, dtype=dtype)]
    return run(net.model(inputs, [net.op("SELECT_V2", inputs, *result, dtype=dtype)]))


@pytest.mark.parametrize("code", ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"])
def test_a_comparison_of_int8_rounds_both_operands(code: str) -> None:
    work = binary(code, (4, 5), (4, 5), dtype=INT8)
    assert (work.path, work.loops["element"], work.loops["negative"]) == ("int8", 20, 20)
    assert "negative" not in binary(code, (4, 5), (4, 5), dtype=FLOAT32).loops


def test_logic_is_of_booleans() -> None:
    assert binary("LOGICAL_AND", (3, 5), (5,), (3, 5), dtype=BOOL).path == "bool broadcast"
    assert unary("LOGICAL_NOT", 3, 5, dtype=BOOL).loops["element"] == 15


def test_a_choice_among_equal_shapes_is_one_loop() -> None:
    loops = {"own dimension": 8, "short dimension": 8, "element": 15}
    assert choice((3, 5), (3, 5), (3, 5), (3, 5)) == LoopCounts("int8", loops)
    assert choice((1,), (), (1, 1), (1, 1)).path == "int8"


@pytest.mark.parametrize(
    ("first", "second", "kind"), [((3, 5), (3, 5), "both"), ((3, 5), (3, 1), "one"), ((3, 1), (3, 1), "none")]
)
def test_a_condition_for_each_element_is_a_loop_over_what_is_there(first: Shape, second: Shape, kind: str) -> None:
    work = choice((3, 5), first, second, (3, 5), FLOAT32) if kind != "both" else choice((5,), first, second, (3, 5))
    assert work.loops[f"element of {kind}"] == 15


def test_a_condition_for_each_row_copies_or_fills_rows() -> None:
    copies = choice((10, 1), (10, 64), (10, 64), (10, 64))
    assert not any(name.startswith("element") for name in copies.loops)
    assert copies.loops["row"] == 10
    fills = choice((10, 1), (10, 64), (10, 1), (10, 64), FLOAT32)
    assert fills.loops["filled element"] == 5 * 64
    assert copies.loops.items() != choice((10, 1), (10, 64), (10, 1), (10, 64)).loops.items()
