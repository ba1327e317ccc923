from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.loops import MAX_RUNS, iterations, subgraph_runs
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model
from tests.memory.account_net import Net

INT32, INT64, FLOAT32, BOOL = DType.INT32, DType.INT64, DType.FLOAT32, DType.BOOL


def enter(net: Net, start: int | None, others: int = 1, *, condition: int = 1, body: int = 2) -> None:
    """A subgraph with a WHILE: its counter starts at a constant, or at what the subgraph is given."""
    given = [net.arena(4, dtype=FLOAT32) for _ in range(others)]
    counter = net.arena(1, dtype=INT32) if start is None else net.constant([start])
    outputs = [net.arena(1, dtype=INT32), *(net.arena(4, dtype=FLOAT32) for _ in given)]
    net.give("WHILE", [counter, *given], outputs, cond_subgraph_index=condition, body_subgraph_index=body)
    net.end_graph([*([counter] if start is None else []), *given], outputs[-1:] if others else outputs)


def until(net: Net, comparison: str, limit: int, *, swapped: bool = False) -> None:
    """A condition on the first of two tensors."""
    counter, x = net.arena(1, dtype=INT32), net.arena(4, dtype=FLOAT32)
    sides = [counter, net.constant([limit])]
    net.end_graph([counter, x], [net.op(comparison, sides[::-1] if swapped else sides, 1, dtype=BOOL)])


def step(net: Net, by: int, **options: str) -> None:
    """A body that adds to the first of two tensors."""
    counter, x = net.arena(1, dtype=INT32), net.arena(4, dtype=FLOAT32)
    net.end_graph([counter, x], [net.op("ADD", [net.constant([by]), counter], 1, dtype=INT32, **options), x])


def loop(start: int | None, comparison: str, limit: int, by: int, *, swapped: bool = False) -> Model:
    net = Net(1)
    enter(net, start)
    until(net, comparison, limit, swapped=swapped)
    step(net, by)
    return net.whole()


def counted(start: int, comparison: str, limit: int, by: int, *, swapped: bool) -> int | None:
    """The iterations of the loop, one by one; None for one without an end."""
    holds = {
        "LESS": int.__lt__, "LESS_EQUAL": int.__le__, "GREATER": int.__gt__, "GREATER_EQUAL": int.__ge__
    }[comparison]  # fmt: skip
    number = 0
    while holds(limit, start) if swapped else holds(start, limit):
        start, number = start + by, number + 1
        if number > 1000:
            return None
    return number


@given(
    start=st.integers(-20, 20),
    comparison=st.sampled_from(["LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"]),
    limit=st.integers(-20, 20),
    by=st.integers(-4, 4),
    swapped=st.booleans(),
)
def test_loops_run_as_often_as_their_counter_specifies(
    start: int, comparison: str, limit: int, by: int, swapped: bool
) -> None:
    model = loop(start, comparison, limit, by, swapped=swapped)
    number = counted(start, comparison, limit, by, swapped=swapped)
    assert iterations(model, model.main, model.main.operators[0]) == number
    assert subgraph_runs(model) == (1, None if number is None else number + 1, number)


def test_two_comparisons_must_hold() -> None:
    net = Net(1)
    counters, outputs = [net.constant([0]), net.constant([5])], [net.arena(1, dtype=INT32) for _ in range(2)]
    net.give("WHILE", counters, outputs, cond_subgraph_index=1, body_subgraph_index=2)
    net.end_graph([], outputs)
    given = [net.arena(1, dtype=INT32) for _ in range(2)]
    less = [
        net.op("LESS", [one, net.constant([limit])], 1, dtype=BOOL) for one, limit in zip(given, (9, 11), strict=True)
    ]
    net.end_graph(given, [net.op("LOGICAL_AND", less, 1, dtype=BOOL)])
    given = [net.arena(1, dtype=INT32) for _ in range(2)]
    net.end_graph(given, [net.op("ADD", [one, net.constant([2])], 1, dtype=INT32) for one in given])
    assert subgraph_runs(net.whole()) == (1, 4, 3)  # 5, 7, 9 before 0, 2, 4, 6, 8


def test_the_limit_may_be_handed_on() -> None:
    net = Net(1)
    start, limit = net.constant([0], dtype=INT64), net.constant([6], dtype=INT64)
    outputs = [net.arena(1, dtype=INT64) for _ in range(2)]
    net.give("WHILE", [start, limit], outputs, cond_subgraph_index=1, body_subgraph_index=2)
    net.end_graph([], outputs)
    given = [net.arena(1, dtype=INT64) for _ in range(2)]
    net.end_graph(given, [net.op("LESS", given, 1, dtype=BOOL)])
    given = [net.arena(1, dtype=INT64) for _ in range(2)]
    net.end_graph(given, [net.op("ADD", [given[0], net.constant([1], dtype=INT64)], 1), given[1]])
    assert subgraph_runs(net.whole()) == (1, 7, 6)


def test_the_start_must_be_in_the_file() -> None:
    assert subgraph_runs(loop(None, "LESS", 5, 1)) == (1, None, None)


def test_the_counter_must_grow_by_what_is_in_the_file() -> None:
    net = Net(1)
    enter(net, 0)
    until(net, "LESS", 5)
    step(net, 1, fused_activation_function="RELU")
    assert subgraph_runs(net.whole()) == (1, None, None)
    net = Net(1)
    enter(net, 0)
    until(net, "LESS", 5)
    counter, x = net.arena(1, dtype=INT32), net.arena(4, dtype=FLOAT32)
    net.end_graph([counter, x], [net.op("MUL", [counter, net.constant([2])], 1, dtype=INT32), x])
    assert subgraph_runs(net.whole()) == (1, None, None)


def test_a_condition_that_is_no_comparison_is_not_known() -> None:
    net = Net(1)
    enter(net, 0)
    counter, x = net.arena(1, dtype=INT32), net.arena(4, dtype=FLOAT32)
    net.end_graph([counter, x], [net.op("NOT_EQUAL", [counter, net.constant([5])], 1, dtype=BOOL)])
    step(net, 1)
    assert subgraph_runs(net.whole()) == (1, None, None)


def test_loops_in_loops_multiply() -> None:
    net = Net(1)
    enter(net, 0)
    until(net, "LESS", 3)
    counter, x = net.arena(1, dtype=INT32), net.arena(4, dtype=FLOAT32)
    inner = [net.arena(1, dtype=INT32), net.arena(4, dtype=FLOAT32)]
    net.give("WHILE", [net.constant([10]), x], inner, cond_subgraph_index=3, body_subgraph_index=4)
    net.end_graph([counter, x], [net.op("ADD", [counter, net.constant([1])], 1, dtype=INT32), inner[1]])
    until(net, "GREATER", 0)
    step(net, -5)
    assert subgraph_runs(net.whole()) == (1, 4, 3, 3 * 3, 3 * 2)


def test_the_body_of_a_loop_without_iterations_does_not_run() -> None:
    net = Net(1)
    enter(net, 5)
    until(net, "LESS", 3)
    counter, x = net.arena(1, dtype=INT32), net.arena(4, dtype=FLOAT32)
    inner = [net.arena(1, dtype=INT32), net.arena(4, dtype=FLOAT32)]
    net.give("WHILE", [counter, x], inner, cond_subgraph_index=3, body_subgraph_index=4)
    net.end_graph([counter, x], [net.op("ADD", [counter, net.constant([1])], 1, dtype=INT32), inner[1]])
    until(net, "LESS", 9)
    step(net, 1)
    assert subgraph_runs(net.whole()) == (1, 1, 0, 0, 0)


@pytest.mark.parametrize(("branches", "runs"), [((1, 2), (1, 1, 1)), ((1, 1), (1, 1, 0))])
def test_both_branches_count(branches: tuple[int, int], runs: tuple[int, ...]) -> None:
    net = Net(1)
    flag, x, y = net.arena(1, dtype=BOOL), net.arena(4), net.arena(4)
    net.give("IF", [flag, x], [y], then_subgraph_index=branches[0], else_subgraph_index=branches[1])
    net.end_graph([flag, x], [y])
    for _ in range(2):
        z = net.arena(4)
        net.end_graph([z], [net.op("ABS", [z])])
    assert subgraph_runs(net.whole()) == runs


def test_a_long_row_of_subgraphs_and_of_conditions() -> None:
    net = Net(1)
    for index in range(1, 3000):
        flag, x, y = net.arena(1, dtype=BOOL), net.arena(4), net.arena(4)
        net.give("IF", [flag, x], [y], then_subgraph_index=index, else_subgraph_index=index)
        net.end_graph([flag, x], [y])
    net.end_graph([], [])
    assert subgraph_runs(net.whole()) == (1,) * 3000
    net = Net(1)
    enter(net, 0)
    counter, x = net.arena(1, dtype=INT32), net.arena(4, dtype=FLOAT32)
    condition = net.op("LESS", [counter, net.constant([7])], 1, dtype=BOOL)
    for _ in range(200):
        condition = net.op("LOGICAL_AND", [condition, condition], 1, dtype=BOOL)
    net.end_graph([counter, x], [condition])
    step(net, 1)
    assert subgraph_runs(net.whole()) == (1, 8, 7)


def test_runs_are_not_counted_without_end() -> None:
    """Subgraphs that each call the next twice: a thousand of them would pass every floating-point number."""
    net = Net(1)
    for index in range(1, 1100):
        flag, x, y = net.arena(1, dtype=BOOL), net.arena(4), net.arena(4)
        for _ in range(2):
            net.give("IF", [flag, x], [y], then_subgraph_index=index, else_subgraph_index=index)
        net.end_graph([flag, x], [y])
    net.end_graph([], [])
    runs = subgraph_runs(net.whole())
    assert runs[:50] == tuple(2**index if 2**index <= MAX_RUNS else None for index in range(50))
    assert runs[-1] is None


def test_what_runs_once_has_run() -> None:
    net = Net(1)
    x = net.arena(4)
    net.give("CALL_ONCE", [], [], init_subgraph_index=1)
    net.end_graph([x], [x])
    net.end_graph([], [])
    assert subgraph_runs(net.whole()) == (1, 0)


def test_subgraphs_that_call_each_other_have_no_end() -> None:
    net = Net(1)
    for other in (1, 0):
        flag, x, y = net.arena(1, dtype=BOOL), net.arena(4), net.arena(4)
        net.give("IF", [flag, x], [y], then_subgraph_index=other, else_subgraph_index=other)
        net.end_graph([flag, x], [y])
    assert subgraph_runs(net.whole()) == (None, None)


def test_a_recurrent_layer_of_keras(shared: Path) -> None:
    path = shared / "data" / "models" / "made" / "lstm_fused_float.tflite"
    assert subgraph_runs(read_model(path.read_bytes())) == (1, 9, 8)
