from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.model.types import DType, Graph, Model, Operator, Tensor
from edgetool.operators.call import KernelRefusal
from tests.graphs import graph, model, operator, tensor
from tests.operators.prepare.asked import Asked, asked_of
from tests.operators.prepare.calls import HOST


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


def test_if_looks_at_its_condition_and_does_not_ask_the_second_branch() -> None:
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
def test_what_if_does_not_take(condition: Tensor, then: Graph, other: int, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        _if(condition, then, other)


def _while(condition: Graph, body: Graph) -> Asked:
    made = operator(0, "WHILE", [0, 1], [2, 3], "WhileOptions", cond_subgraph_index=1, body_subgraph_index=2)
    return asked_of(_caller(made, None, condition, body), made, 0)


def test_while_asks_for_nothing() -> None:
    assert _while(_called(2, 1, 1), _called(2, 2, 2)) == []


@pytest.mark.parametrize(
    ("condition", "body"),
    [
        (_called(1, 1, 1), _called(2, 2, 2)),
        (_called(2, 1, 1), _called(1, 2, 2)),
        (_called(2, 1, 1), _called(2, 1, 2)),
    ],
)
def test_while_hands_on_as_many_tensors_as_it_has(condition: Graph, body: Graph) -> None:
    with pytest.raises(KernelRefusal, match="different number of inputs or outputs"):
        _while(condition, body)


def test_while_needs_an_answer_of_its_condition() -> None:
    with pytest.raises(KernelRefusal, match="that has no outputs"):
        _while(_called(2, 0, 1), _called(2, 2, 2))


def test_call_once() -> None:
    made = operator(0, "CALL_ONCE", [], [], "CallOnceOptions", init_subgraph_index=1)
    assert asked_of(_caller(made, None, _called(0, 0, 1)), made, 0) == []
    with pytest.raises(KernelRefusal, match="calls subgraph 1, but the model has only 1"):
        asked_of(_caller(made), made, 0)
    given = operator(0, "CALL_ONCE", [0], [], "CallOnceOptions", init_subgraph_index=1)
    with pytest.raises(KernelRefusal, match="0 inputs and 0 outputs"):
        asked_of(_caller(given, None, _called(0, 0, 1)), given, 0)


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
def test_a_variable_takes_the_bytes_that_its_value_takes_in_the_arena(dtype: DType, size_bytes: int) -> None:
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
