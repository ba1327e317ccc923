""""""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.model.types import DType, Graph, Model, Operator, Tensor
from edgetool.operators.call import Call, KernelRefusal
from edgetool.operators.loops import LoopCounts
from edgetool.operators.registry import loop_counts_of
from tests.graphs import graph, model, operator, tensor
from tests.memory.account_net import Net
from tests.operators.asked import Asked, asked_of
from tests.operators.builds import REFERENCE
from tests.operators.calls import HOST
from tests.operators.runs import BOOL, FLOAT32, INT32


def _called(inputs: int, outputs: int, index: int) -> Graph:
    tensors = [tensor(position, 4) for position in range(inputs + outputs)]
    return graph(tensors, [], range(inputs), range(inputs, inputs + outputs), index=index)


def _caller(operator: Operator, condition: Tensor | None = None, *called: Graph) -> Model:
    tensors = [tensor(position, 4) for position in range(8)]
    if condition is not None:
        tensors[0] = condition
    return model(graph(tensors, [operator], [0], [7]), *called)


def _if(condition: Tensor, then: Graph, other: int = 2) -> Asked:
    made = operator(0, "IF", [0, 1], [2], "IfOptions", then_subgraph_index=1, else_subgraph_index=other)
    return asked_of(_caller(made, condition, then, _called(3, 3, 2)), made, 0)


def test_if_requests_its_condition_and_does_not_check_the_second_branch() -> None:
    assert _if(tensor(0, 1, dtype=DType.BOOL), _called(1, 1, 1)) == ["t0"]
    assert _if(tensor(0, dtype=DType.BOOL), _called(1, 1, 1)) == ["t0"]


@pytest.mark.parametrize(
    ("condition", "then", "other", "reason"),
    [
        (tensor(0, 1), _called(1, 1, 1), 2, "bool, not int8"),
        (tensor(0, 2, dtype=DType.BOOL), _called(1, 1, 1), 2, "one condition, not 2"),
        (tensor(0, 1, dtype=DType.BOOL), _called(2, 1, 1), 2, "wrong number of inputs: 2, not 1"),
        (tensor(0, 1, dtype=DType.BOOL), _called(1, 2, 1), 2, "wrong number of outputs: 2, not 1"),
        (tensor(0, 1, dtype=DType.BOOL), _called(1, 1, 1), 3, "calls subgraph 3, but the model has only 3"),
    ],
)
def test_operands_that_if_rejects(condition: Tensor, then: Graph, other: int, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        _if(condition, then, other)


def _while(condition: Graph, body: Graph) -> Asked:
    made = operator(0, "WHILE", [0, 1], [2, 3], "WhileOptions", cond_subgraph_index=1, body_subgraph_index=2)
    return asked_of(_caller(made, None, condition, body), made, 0)


def test_while_requests_nothing() -> None:
    assert _while(_called(2, 1, 1), _called(2, 2, 2)) == []


@pytest.mark.parametrize(
    ("condition", "body"),
    [
        (_called(1, 1, 1), _called(2, 2, 2)),
        (_called(2, 1, 1), _called(1, 2, 2)),
        (_called(2, 1, 1), _called(2, 1, 2)),
    ],
)
def test_while_passes_all_its_tensors_on(condition: Graph, body: Graph) -> None:
    with pytest.raises(KernelRefusal, match="different number of inputs or outputs"):
        _while(condition, body)


def test_the_condition_of_while_must_have_an_output() -> None:
    with pytest.raises(KernelRefusal, match="that has no outputs"):
        _while(_called(2, 0, 1), _called(2, 2, 2))


def test_call_once() -> None:
    made = operator(0, "CALL_ONCE", [], [], "CallOnceOptions", init_subgraph_index=1)
    assert asked_of(_caller(made, None, _called(0, 0, 1)), made, 0) == []
    with pytest.raises(KernelRefusal, match="calls subgraph 1, but the model has only 1"):
        asked_of(_caller(made), made, 0)


def _handle(index: int, output: int, name: str, container: str | None = "") -> Operator:
    return operator(index, "VAR_HANDLE", [], [output], "VarHandleOptions", container=container, shared_name=name)


def _assign(index: int, handle: int, value: int) -> Operator:
    return operator(index, "ASSIGN_VARIABLE", [handle, value], [], "AssignVariableOptions")


HANDLES = [tensor(index, 1, dtype=DType.RESOURCE) for index in range(3)]
VALUES = [tensor(3, 10), tensor(4, 7, dtype=DType.FLOAT32)]


def _assigned(*operators: Operator, later: tuple[Operator, ...] = ()) -> list[Asked]:
    """What each ASSIGN_VARIABLE asks for, in the order of Prepare."""
    graphs = [graph([*HANDLES, *VALUES], made, [], [], index=i) for i, made in enumerate((operators, later))]
    whole = model(*graphs)
    return [
        asked_of(whole, made, subgraph.index)
        for subgraph in graphs
        for made in subgraph.operators
        if made.code == "ASSIGN_VARIABLE"
    ]


def test_the_first_assignment_allocates_the_variable() -> None:
    first, second, third = _assigned(
        _handle(0, 0, "a"), _handle(1, 1, "b"), _assign(2, 0, 3), _assign(3, 1, 4), _assign(4, 0, 3)
    )
    assert first == ["t3", ("persistent", 10)]
    assert second == ["t4", ("persistent", 28)]
    assert third == ["t3"]


def test_two_handles_of_one_name_are_one_variable() -> None:
    assert _assigned(_handle(0, 0, "a"), _handle(1, 1, "a"), _assign(2, 1, 3), _assign(3, 0, 3))[1] == ["t3"]
    other = _assigned(_handle(0, 0, "a", "x"), _handle(1, 1, "a", "y"), _assign(2, 1, 3), _assign(3, 0, 3))
    assert other[1] == ["t3", ("persistent", 10)]


def test_a_handle_without_a_container_finds_the_name_in_any() -> None:
    made = _assigned(_handle(0, 0, "a", "x"), _handle(1, 1, "a", None), _assign(2, 1, 3), _assign(3, 0, 3))
    assert made[1] == ["t3"]


def test_subgraphs_are_prepared_in_order_and_share_variables() -> None:
    first, second = _assigned(_handle(0, 0, "a"), _assign(1, 0, 3), later=(_handle(0, 1, "a"), _assign(1, 1, 3)))
    assert first == ["t3", ("persistent", 10)]
    assert second == ["t3"]


def test_a_handle_from_another_subgraph_is_not_known_yet() -> None:
    assert _assigned(_handle(0, 0, "a"), later=(_assign(0, 0, 3),)) == [["t3"]]


def test_an_assignment_before_its_handle_does_not_know_it() -> None:
    assert _assigned(_assign(0, 0, 3), _handle(1, 0, "a"), _assign(2, 0, 3)) == [["t3"], ["t3", ("persistent", 10)]]


def test_a_constant_number_stands_for_a_variable() -> None:
    number = tensor(0, 1, dtype=DType.INT32, data=b"\1\0\0\0")
    tensors = [number, *HANDLES[1:], *VALUES]
    made = _assign(2, 0, 3)
    both = graph(tensors, [_handle(0, 1, "a"), _handle(1, 2, "b"), made], [], [])
    assert asked_of(model(both), made, 0) == ["t3", ("persistent", 10)]
    one = graph(tensors, [_handle(0, 1, "a"), made], [], [])
    with pytest.raises(KernelRefusal, match="variable 1, but there are only 1"):
        asked_of(model(one), made, 0)


@pytest.mark.parametrize(
    ("dtype", "size_bytes"), [(DType.INT4, 10), (DType.INT16, 20), (DType.INT64, 80), (DType.BOOL, 10)]
)
def test_a_variable_needs_as_many_bytes_as_its_value_in_the_arena(dtype: DType, size_bytes: int) -> None:
    made = _assign(1, 0, 3)
    whole = graph([*HANDLES, tensor(3, 10, dtype=dtype)], [_handle(0, 0, "a"), made], [], [])
    assert asked_of(model(whole), made, 0, abi=HOST) == ["t3", ("persistent", size_bytes)]


def test_assign_variable_takes_handles_only() -> None:
    made = _assign(1, 3, 4)
    whole = graph([*HANDLES, *VALUES], [_handle(0, 0, "a"), made], [], [])
    with pytest.raises(KernelRefusal, match="resource, int32, not int8"):
        asked_of(model(whole), made, 0)


def test_reading_and_naming_a_variable() -> None:
    read, name = operator(1, "READ_VARIABLE", [0], [3]), _handle(0, 0, "a")
    whole = model(graph([*HANDLES, *VALUES], [name, read], [], []))
    assert asked_of(whole, name, 0) == []
    assert asked_of(whole, read, 0) == ["t0"]


def test_what_copies_a_variable_is_as_large_as_it() -> None:
    """The first value gives it its bytes, in whatever subgraph; TFLM copies so many into any tensor."""
    name, read = _handle(0, 0, "a"), operator(1, "READ_VARIABLE", [0], [4])
    assigning = graph([*HANDLES, *VALUES], [name, _assign(1, 0, 3)], [], [], index=1)
    whole = model(graph([*HANDLES, *VALUES], [name, read], [], []), assigning)
    with pytest.raises(KernelRefusal, match="copies 10 bytes between a variable and a tensor of 28 bytes"):
        asked_of(whole, read, 0)
    smaller = replace(VALUES[1], shape=(10,), dtype=DType.INT8)
    same = model(graph([*HANDLES, VALUES[0], smaller], [name, read], [], []), assigning)
    assert asked_of(same, read, 0) == ["t0"]
    with pytest.raises(KernelRefusal, match="copies 10 bytes between a variable and a tensor of 28 bytes"):
        _assigned(_handle(0, 0, "a"), _assign(1, 0, 3), _assign(2, 0, 4))


def work_at(model: Model, subgraph: int, index: int) -> LoopCounts:
    graph = model.subgraphs[subgraph]
    work = loop_counts_of(Call(model, graph, graph.operators[index], REFERENCE, {}))
    assert work is not None
    return work


def loop(limit: int | None) -> Model:
    """A counter and a row of five floats, which the body changes in two operators."""
    net = Net(1)
    start = net.constant([0]) if limit is not None else net.arena(1, dtype=INT32)
    x = net.arena(1, 5, dtype=FLOAT32)
    outputs = [net.arena(1, dtype=INT32), net.arena(1, 5, dtype=FLOAT32)]
    net.give("WHILE", [start, x], outputs, cond_subgraph_index=1, body_subgraph_index=2)
    net.end_graph([x] if limit is not None else [start, x], outputs)
    given = [net.arena(1, dtype=INT32), net.arena(1, 5, dtype=FLOAT32)]
    net.end_graph(given, [net.op("LESS", [given[0], net.constant([limit or 1])], dtype=BOOL)])
    given = [net.arena(1, dtype=INT32), net.arena(1, 5, dtype=FLOAT32)]
    made = [net.op("ADD", [given[0], net.constant([1])]), net.op("ABS", [net.op("NEG", [given[1]])])]
    net.end_graph(given, made)
    return net.whole()


def test_a_loop_hands_everything_to_its_subgraphs_and_back() -> None:
    loops = work_at(loop(3), 0, 0).loops
    # two tensors: to the condition and the outputs once, and each turn to the body, from it, and to the condition
    assert (loops["turn"], loops["tensor"], loops["copies"]) == (3, 2 * 11, 2 * 11)
    assert (loops["copied words"], loops["copied 16 bytes"]) == (2 * 11, 11)
    assert (loops["subgraph"], loops["nested operator"]) == (4 + 3, 4 * 1 + 3 * 3)


def test_a_loop_without_a_known_end_counts_as_one_turn() -> None:
    assert work_at(loop(None), 0, 0) == work_at(loop(1), 0, 0)


def test_a_branch_hands_over_all_but_the_condition() -> None:
    net = Net(1)
    flag, x, y = net.arena(1, dtype=BOOL), net.arena(1, 5, dtype=FLOAT32), net.arena(1, 5, dtype=FLOAT32)
    net.give("IF", [flag, x], [y], then_subgraph_index=1, else_subgraph_index=2)
    net.end_graph([flag, x], [y])
    for number in (1, 3):
        z = given = net.arena(1, 5, dtype=FLOAT32)
        for _ in range(number):
            z = net.op("ABS", [z])
        net.end_graph([given], [z])
    loops = work_at(net.whole(), 0, 0).loops
    assert (loops["tensor"], loops["axis"], loops["copies"]) == (2, 4, 2)
    assert (loops["subgraph"], loops["nested operator"]) == (1, 3)


def test_variables_are_copied() -> None:
    net = Net(1)
    handle = net.arena(dtype=INT32)
    x, y = net.arena(2, 5, dtype=FLOAT32), net.arena(2, 5, dtype=FLOAT32)
    net.give("VAR_HANDLE", [], [handle], container="", shared_name="v")
    net.give("ASSIGN_VARIABLE", [handle, x], [])
    net.give("READ_VARIABLE", [handle], [y])
    model = net.model([x], [y])
    assert work_at(model, 0, 0) == LoopCounts("handle", {})
    for index in (1, 2):
        loops = work_at(model, 0, index).loops
        assert (loops["axis"], loops["copied 16 bytes"], loops["copied words"]) == (2, 2, 2)


def test_what_runs_once_has_run() -> None:
    net = Net(1)
    x = net.arena(1)
    net.give("CALL_ONCE", [], [], init_subgraph_index=1)
    net.end_graph([x], [x])
    net.end_graph([], [])
    assert work_at(net.whole(), 0, 0) == LoopCounts("again", {})
