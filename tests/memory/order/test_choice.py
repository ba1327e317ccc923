"""What must run before what: tensors that are written twice, variables, resources, control flow, custom operators."""

from __future__ import annotations

from edgetool.memory.lifetimes import layout_problem, timeline
from edgetool.memory.order.evaluate import dependencies
from edgetool.memory.planner import order_problem, state_edges
from edgetool.memory.problem import Buffer
from edgetool.model.types import DType, Model, Operator
from tests.graphs import chain, graph, model, operator, tensor


def test_a_chain_has_only_the_edges_of_its_tensors() -> None:
    made = chain([8, 20, 40])
    times = timeline(made)
    problem = order_problem(made, layout_problem(made, times), times.operators)
    assert problem.sizes == (16, 32, 48)
    assert problem.reads == ((0,), (1,))
    assert problem.writes == ((1,), (2,))
    assert problem.inputs == (0,)
    assert problem.outputs == (2,)
    assert problem.scratch == (0, 0)


def test_scratch_belongs_to_the_operator_that_requests_it() -> None:
    made = chain([8, 8, 8])
    times = timeline(made)
    scratch = (Buffer(0, -1, "scratch", 17, times.operators[0, 1], 1),)
    assert order_problem(made, layout_problem(made, times, scratch=scratch), times.operators).scratch == (0, 32)


def test_constants_and_variables_take_no_room_in_the_head() -> None:
    made = model(
        graph(
            [tensor(0, 16), tensor(1, 16, data=bytes(16)), tensor(2, 16, variable=True), tensor(3, 16)],
            [operator(0, "SVDF", [0, 1, -1, 2], [3])],
            [0],
            [3],
        )
    )
    times = timeline(made)
    assert order_problem(made, layout_problem(made, times), times.operators).sizes == (16, 0, 0, 16)


def test_operators_that_share_a_variable_tensor_keep_their_order() -> None:
    tensors = [tensor(0, 4), tensor(1, 4, variable=True), tensor(2, 4), tensor(3, 4)]
    made = model(graph(tensors, [operator(0, "SVDF", [0, 1], [2]), operator(1, "SVDF", [0, 1], [3])], [0], [2, 3]))
    assert state_edges(made) == ((), (0,))


def test_a_tensor_that_is_written_twice_keeps_readers_between_its_writers() -> None:
    tensors = [tensor(i, 4) for i in range(5)]
    operators = [
        operator(0, "RELU", [0], [1]),
        operator(1, "RELU", [1], [2]),
        operator(2, "RELU", [1], [3]),
        operator(3, "NEG", [0], [1]),
        operator(4, "RELU", [1], [4]),
    ]
    assert state_edges(model(graph(tensors, operators, [0], [2, 3, 4]))) == ((), (0,), (0,), (0, 1, 2), (3,))


def resources(*steps: tuple[str, int]) -> Model:
    """Operators on variables a (handle 0) and b (handle 1): VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE."""
    tensors = [tensor(0, dtype=DType.RESOURCE), tensor(1, dtype=DType.RESOURCE), tensor(2, 4)]
    operators = []
    for place, (code, handle) in enumerate(steps):
        if code == "VAR_HANDLE":
            name = "ab"[handle]
            operators.append(operator(place, code, [], [handle], "VarHandleOptions", container="", shared_name=name))
        elif code == "READ_VARIABLE":
            tensors.append(tensor(len(tensors), 4))
            operators.append(operator(place, code, [handle], [len(tensors) - 1]))
        elif code == "ASSIGN_VARIABLE":
            operators.append(operator(place, code, [handle, 2], []))
        else:
            operators.append(operator(place, code, [], [], "CallOnceOptions", init_subgraph_index=1))
    return model(graph(tensors, operators, [2], []), graph([], [], [], [], 1))


def test_reads_may_change_places_and_an_assignment_may_not() -> None:
    made = resources(
        ("VAR_HANDLE", 0), ("READ_VARIABLE", 0), ("READ_VARIABLE", 0), ("ASSIGN_VARIABLE", 0), ("READ_VARIABLE", 0)
    )
    edges = state_edges(made)
    assert edges[1] == edges[2] == (0,)
    assert edges[3] == (0, 1, 2)
    assert edges[4] == (0, 3)


def test_variables_of_other_names_are_free_of_each_other() -> None:
    made = resources(("VAR_HANDLE", 0), ("VAR_HANDLE", 1), ("ASSIGN_VARIABLE", 0), ("ASSIGN_VARIABLE", 1))
    edges = state_edges(made)
    assert edges[1] == (0,)  # handles are numbered in their order
    assert edges[2] == (0,)
    assert edges[3] == (1,)


def test_a_handle_from_elsewhere_may_be_any_variable() -> None:
    made = resources(("ASSIGN_VARIABLE", 1), ("VAR_HANDLE", 0), ("ASSIGN_VARIABLE", 0), ("READ_VARIABLE", 1))
    edges = state_edges(made)
    assert edges[2] == (0, 1)
    assert set(edges[3]) >= {0, 2}


def test_call_once_comes_before_every_use_and_after_none() -> None:
    made = resources(("VAR_HANDLE", 0), ("CALL_ONCE", 0), ("READ_VARIABLE", 0), ("ASSIGN_VARIABLE", 0))
    edges = state_edges(made)
    assert edges[1] == ()
    assert 1 in edges[2]
    assert 2 in edges[3]


def test_an_if_is_a_writer_of_all_that_its_branches_touch() -> None:
    main = graph(
        [tensor(0, 1, dtype=DType.BOOL), tensor(1, dtype=DType.RESOURCE), tensor(2, 4), tensor(3, 4)],
        [
            operator(0, "VAR_HANDLE", [], [1], "VarHandleOptions", container="", shared_name="a"),
            operator(1, "READ_VARIABLE", [1], [2]),
            operator(2, "IF", [0], [], "IfOptions", then_subgraph_index=1, else_subgraph_index=2),
            operator(3, "READ_VARIABLE", [1], [3]),
        ],
        [0],
        [2, 3],
    )
    then = graph(
        [tensor(0, dtype=DType.RESOURCE), tensor(1, 4, data=bytes(4))],
        [
            operator(0, "VAR_HANDLE", [], [0], "VarHandleOptions", container="", shared_name="a"),
            operator(1, "ASSIGN_VARIABLE", [0, 1], []),
        ],
        [],
        [],
        1,
    )
    edges = state_edges(model(main, then, graph([], [], [], [], 2)))
    assert 1 in edges[2]
    assert 2 in edges[3]


def test_variable_tensors_within_subgraphs_keep_their_callers_in_order() -> None:
    options = {"then_subgraph_index": 1, "else_subgraph_index": 1}
    main = graph(
        [tensor(0, 1, dtype=DType.BOOL)],
        [operator(0, "IF", [0], [], "IfOptions", **options), operator(1, "IF", [0], [], "IfOptions", **options)],
        [0],
        [],
    )
    inner = graph([tensor(0, 4, variable=True)], [operator(0, "RELU", [0], [])], [], [], 1)
    assert state_edges(model(main, inner)) == ((), (0,))
    plain = graph([tensor(0, 4, data=bytes(4))], [operator(0, "RELU", [0], [])], [], [], 1)
    assert state_edges(model(main, plain)) == ((), ())


def custom(index: int, code: str, inputs: list[int], outputs: list[int]) -> Operator:
    return Operator(index, "CUSTOM", 1, tuple(inputs), tuple(outputs), None, custom_code=code)


def test_nothing_passes_an_operator_that_may_end_the_run() -> None:
    tensors = [tensor(0, 4), tensor(1, 4), tensor(2, 4, variable=True), tensor(3, 4), tensor(4, 4)]
    operators = [
        operator(0, "RELU", [0], [1]),
        custom(1, "CIRCULAR_BUFFER", [0], [2]),
        operator(2, "RELU", [0], [3]),
        operator(3, "RELU", [0], [4]),
    ]
    made = model(graph(tensors, operators, [0], [1, 2, 3, 4]))
    assert state_edges(made) == ((), (0,), (1,), (1,))


def test_an_operator_whose_subgraph_may_end_the_run_ends_it_as_well() -> None:
    options = {"then_subgraph_index": 1, "else_subgraph_index": 1}
    main = graph(
        [tensor(0, 1, dtype=DType.BOOL), tensor(1, 4), tensor(2, 4)],
        [operator(0, "RELU", [0], [1]), operator(1, "IF", [0], [], "IfOptions", **options)],
        [0],
        [1],
    )
    delayed = graph([tensor(0, 4), tensor(1, 4, variable=True)], [custom(0, "CIRCULAR_BUFFER", [0], [1])], [0], [], 1)
    assert state_edges(model(main, delayed)) == ((), (0,))
    assert state_edges(model(main, graph([tensor(0, 4)], [], [0], [], 1))) == ((), ())


def test_custom_operators_within_a_subgraph_keep_their_callers_in_order() -> None:
    options = {"then_subgraph_index": 1, "else_subgraph_index": 1}
    callers = [operator(0, "IF", [0], [], "IfOptions", **options), operator(1, "IF", [0], [], "IfOptions", **options)]
    inner = graph([tensor(0, 4), tensor(1, 4)], [custom(0, "SignalDelay", [0], [1])], [0], [1], 1)
    assert state_edges(model(graph([tensor(0, 1, dtype=DType.BOOL)], callers, [0], []), inner)) == ((), (0,))


def test_a_variable_may_be_read_before_it_is_written() -> None:
    tensors = [tensor(0, 4), tensor(1, 4, variable=True), tensor(2, 4), tensor(3, 4)]
    operators = [
        operator(0, "RELU", [1], [2]),
        custom(1, "CIRCULAR_BUFFER", [0], [1]),
        operator(2, "ADD", [1, 2], [3]),
    ]
    made = model(graph(tensors, operators, [0], [3]))
    times = timeline(made)
    assert dependencies(order_problem(made, layout_problem(made, times), times.operators)) == (
        frozenset(),
        frozenset([0]),
        frozenset([0, 1]),
    )


def test_a_long_chain_of_subgraphs_is_visited_once() -> None:
    depth = 60
    call = [
        [operator(0, "CALL_ONCE", [], [], "CallOnceOptions", init_subgraph_index=at + 1)] if at < depth else []
        for at in range(depth + 1)
    ]
    assert state_edges(model(*(graph([], operators, [], [], at) for at, operators in enumerate(call)))) == ((),)


def test_control_flow_needs_what_its_subgraphs_hold_as_scratch() -> None:
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    main = graph(
        [tensor(0, 1, dtype=DType.BOOL), tensor(1, 16), tensor(2, 16)],
        [operator(0, "IF", [0, 1], [2], "IfOptions", **options)],
        [0, 1],
        [2],
    )
    branches = [
        graph([tensor(0, 16), tensor(1, size), tensor(2, 16)], chain_of_two(), [0], [2], index)
        for index, size in ((1, 160), (2, 48))
    ]
    made = model(main, *branches)
    times = timeline(made)
    problem = order_problem(made, layout_problem(made, times), times.operators)
    # The larger branch: two tensors of it at a time.
    assert problem.scratch == (176,)


def chain_of_two() -> list[Operator]:
    return [operator(0, "RELU", [0], [1]), operator(1, "RELU", [1], [2])]
