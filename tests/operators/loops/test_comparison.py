from __future__ import annotations

import pytest

from edgetool.model.types import DType
from edgetool.operators.loops import LoopCounts
from tests.memory.account_net import Net
from tests.operators.loops.runs import BOOL, FLOAT32, INT8, binary, run, unary

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
