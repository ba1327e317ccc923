from __future__ import annotations

from edgetool.model.types import Model
from edgetool.operators.call import Call
from edgetool.operators.loops import Work
from edgetool.operators.registry import work_of
from tests.memory.account_net import Net
from tests.operators.work.runs import BOOL, FLOAT32, INT32, REFERENCE


def work_at(model: Model, subgraph: int, index: int) -> Work:
    graph = model.subgraphs[subgraph]
    work = work_of(Call(model, graph, graph.operators[index], REFERENCE, {}))
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
    assert work_at(model, 0, 0) == Work("handle", {})
    for index in (1, 2):
        loops = work_at(model, 0, index).loops
        assert (loops["axis"], loops["copied 16 bytes"], loops["copied words"]) == (2, 2, 2)


def test_what_runs_once_has_run() -> None:
    net = Net(1)
    x = net.arena(1)
    net.give("CALL_ONCE", [], [], init_subgraph_index=1)
    net.end_graph([x], [x])
    net.end_graph([], [])
    assert work_at(net.whole(), 0, 0) == Work("again", {})
