"""Lifetimes of tensors, and recurrent state: variable tensors that are read before they are written."""

from __future__ import annotations

import numpy as np
import pytest

from edgetool.errors import UnsupportedModelError
from edgetool.memory.lifetimes import DEAD, RecurrentState, layout_problem, recurrent_state, timeline
from edgetool.memory.planner import plan_memory
from edgetool.memory.problem import Lifetime
from edgetool.model.types import DType, Graph, Model, Operator, Tensor
from edgetool.operators.call import arena_bytes
from tests.graphs import chain, graph, model, operator, tensor


def test_chain_lives_from_producer_to_consumer() -> None:
    times = timeline(chain([10, 20, 30, 40]))
    assert times.operators == {(0, i): Lifetime(i, i) for i in range(3)}
    assert times.lifetimes == {
        (0, 0): Lifetime(-1, 0),
        (0, 1): Lifetime(0, 1),
        (0, 2): Lifetime(1, 2),
        (0, 3): Lifetime(2, 2),
    }


def test_inputs_live_from_the_start_and_outputs_to_the_end() -> None:
    tensors = [tensor(i, 16) for i in range(5)]
    operators = [operator(0, "RELU", [0], [2]), operator(1, "RELU", [2], [3]), operator(2, "ADD", [3, 1], [4])]
    times = timeline(model(graph(tensors, operators, [0, 1], [2, 4])))
    assert times.lifetimes[0, 1] == Lifetime(-1, 2)
    assert times.lifetimes[0, 1].operators == (0, 2)
    assert times.lifetimes[0, 2] == Lifetime(0, 2)
    assert times.lifetimes[0, 4] == Lifetime(2, 2)


def test_a_tensor_that_is_read_but_never_written_is_live_from_before_the_start() -> None:
    """TFLM leaves its first scope at -1: the inputs, which come at 0, may not lie there."""
    tensors = [tensor(i, 16) for i in range(4)]
    operators = [operator(0, "RELU", [0], [1]), operator(1, "ADD", [1, 2], [3])]
    times = timeline(model(graph(tensors, operators, [0], [3])))
    assert times.lifetimes[0, 2] == Lifetime(-2, 1)
    assert times.lifetimes[0, 0] == Lifetime(-1, 0)


def test_constants_variables_and_empty_tensors_are_not_planned_and_dead_ones_are() -> None:
    tensors = [
        tensor(0, 16),
        tensor(1, 16, data=bytes(16)),
        tensor(2, 16, variable=True),
        tensor(3, 0),
        tensor(4, 16),
        tensor(5, 16),
    ]
    small = model(graph(tensors, [operator(0, "ADD", [0, 1, -1, 2], [4])], [0], [4]))
    problem = layout_problem(small, timeline(small))
    assert [(b.tensor, b.lifetime) for b in problem.buffers] == [
        (0, Lifetime(-1, 0)),
        (4, Lifetime(0, 0)),
        (5, DEAD),
    ]


def test_the_tensor_of_a_variable_handle_is_not_planned() -> None:
    """VAR_HANDLE has its resource's number in its own memory and lets the tensor point there."""
    handle, given = (tensor(index, dtype=DType.RESOURCE) for index in (0, 1))
    made = operator(0, "VAR_HANDLE", [], [0], "VarHandleOptions", container="", shared_name="v")
    problem = layout_problem(small := model(graph([handle, given], [made], [1], [])), timeline(small))
    assert [(b.tensor, b.size_bytes) for b in problem.buffers] == [(1, 4)]


def test_subgraphs_of_control_flow_live_inside_their_operator() -> None:
    """Scopes as TFLM counts them: operator, then one for each subgraph entered and one for each operator in it."""
    main = graph(
        [tensor(0, 1, dtype=DType.BOOL), tensor(1, 8), tensor(2, 8), tensor(3, 8)],
        [
            operator(0, "IF", [0, 1], [2], "IfOptions", then_subgraph_index=1, else_subgraph_index=2),
            operator(1, "RELU", [2], [3]),
        ],
        [0, 1],
        [3],
    )
    branches = [
        graph([tensor(0, 8), tensor(1, 8)], [operator(0, "RELU", [0], [1])], [0], [1], index) for index in (1, 2)
    ]
    times = timeline(model(main, *branches))
    # scope 1: IF, 2: enter 1, 3: its RELU, 4: enter 2, 5: its RELU, 6: RELU; positions are one less
    # IF runs as long as the branches that it enters.
    assert times.operators[0, 0] == Lifetime(0, 4)
    assert times.operators[0, 1] == Lifetime(5, 5)
    assert times.operators[2, 0] == Lifetime(4, 4)
    assert times.lifetimes[1, 0] == Lifetime(1, 2)
    assert times.lifetimes[1, 1] == Lifetime(2, 2)
    assert times.lifetimes[2, 0] == Lifetime(3, 4)
    assert times.lifetimes[0, 1] == Lifetime(-1, 4)
    assert times.lifetimes[0, 2] == Lifetime(0, 5)


def test_a_subgraph_that_calls_itself_is_refused() -> None:
    loop = operator(0, "WHILE", [0], [0], "WhileOptions", cond_subgraph_index=0, body_subgraph_index=0)
    with pytest.raises(UnsupportedModelError, match="calls itself"):
        timeline(model(graph([tensor(0, 4)], [loop], [0], [0])))


def test_subgraphs_that_fan_out_without_end_are_refused() -> None:
    graphs = []
    for index in range(40):
        following = index + 1 if index < 39 else None
        call = (
            operator(0, "IF", [0], [0], "IfOptions", then_subgraph_index=following, else_subgraph_index=following)
            if following
            else operator(0, "RELU", [0], [0])
        )
        graphs.append(graph([tensor(0, 4)], [call], [0], [0], index))
    with pytest.raises(UnsupportedModelError, match="more than"):
        timeline(model(*graphs))


@pytest.mark.parametrize(
    ("dtype", "expected"), [(DType.INT4, 10), (DType.RESOURCE, 40), (DType.FLOAT32, 40), (DType.INT8, 10)]
)
def test_arena_element_sizes_are_tflms(dtype: DType, expected: int) -> None:
    assert arena_bytes(tensor(0, 10, dtype=dtype)) == expected


def test_plan_of_a_chain_alternates_and_meets_the_bound() -> None:
    plan = plan_memory(chain([64, 128, 64, 128]))
    assert plan.layout.height == 192
    assert plan.layout.optimal
    assert plan.order == (0, 1, 2)


def test_the_first_operator_may_write_over_an_input_that_nothing_reads() -> None:
    tensors = [tensor(0, 1024), tensor(1, 4096), tensor(2, 1024)]
    plan = plan_memory(model(graph(tensors, [operator(0, "ABS", [0], [2])], [0, 1], [2])))
    assert plan.timeline.lifetimes[0, 1] == Lifetime(-1, -1)
    assert plan.timeline.lifetimes[0, 1].operators == (-1, -1)
    assert plan.layout.height == 1024 + 4096


def test_a_deep_chain_of_calls_is_refused() -> None:
    graphs = []
    for index in range(200):
        call = operator(0, "IF", [0], [0], "IfOptions", then_subgraph_index=index + 1, else_subgraph_index=index + 1)
        graphs.append(graph([tensor(0, 4)], [call if index < 199 else operator(0, "RELU", [0], [0])], [0], [0], index))
    with pytest.raises(UnsupportedModelError, match="deep"):
        timeline(model(*graphs))


def test_wide_subgraphs_count_too() -> None:
    graphs = []
    for index in range(14):
        last = index == 13
        tensors = [tensor(i, 4) for i in range(2000 if last else 1)]
        following = {"then_subgraph_index": index + 1, "else_subgraph_index": index + 1}
        call = operator(0, "RELU", [0], [0]) if last else operator(0, "IF", [0], [0], "IfOptions", **following)
        graphs.append(graph(tensors, [call], range(len(tensors)), [0], index))
    with pytest.raises(UnsupportedModelError, match="more than"):
        timeline(model(*graphs))


def state_tensor(index: int, name: str, units: int, *, variable: bool) -> Tensor:
    return Tensor(index, name, (1, units), DType.INT16, None, None, variable)


def state_model(*operators: tuple[tuple[int, ...], tuple[int, ...]]) -> Model:
    tensors = (
        state_tensor(0, "input", 4, variable=False),
        state_tensor(1, "kept", 4, variable=True),
        state_tensor(2, "scratch", 3, variable=True),
        state_tensor(3, "output", 4, variable=False),
    )
    made = tuple(Operator(i, "ADD", 1, inputs, outputs, None) for i, (inputs, outputs) in enumerate(operators))
    return Model(3, "", (), (Graph(0, "main", tensors, made, (0,), (3,)),), ())


def test_a_variable_that_is_read_first_is_recurrent() -> None:
    found = recurrent_state(state_model(((0, 1), (3,)), ((3,), (1,))))
    assert found == RecurrentState((("kept", 8),), 0)
    assert found.tensor_bytes == 4 * np.dtype(np.int16).itemsize
    assert found


def test_a_variable_that_the_model_sets_itself_is_not_recurrent() -> None:
    assert not recurrent_state(state_model(((0,), (2,)), ((0, 2), (3,)), ((3,), (2,))))


def test_an_operator_that_reads_and_writes_a_variable_has_recurrent_state() -> None:
    assert recurrent_state(state_model(((0, 2), (2, 3)))).tensors == (("scratch", 6),)


def test_a_variable_that_nothing_reads_is_not_recurrent() -> None:
    assert not recurrent_state(state_model(((0,), (3,)), ((3,), (1,))))
