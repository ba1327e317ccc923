"""From a graph of named tensors to ranges, and back to a graph of shared buffers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.memory.sharing.assign import assign, memory_used
from edgetool.memory.sharing.graph import (
    NamedOperator,
    SharingGraph,
    SubgraphCall,
    buffer_names,
    compute_ranges,
    renamed,
    with_sizes,
)
from edgetool.memory.sharing.replay import check_replay, share_gradients
from edgetool.memory.sharing.types import Algorithm, LiveRange
from tests.memory.sharing.graphs import dags, loops, training_graph

algorithms = st.sampled_from(["greedy", "dynamic-programming"])


def test_ranges_of_a_chain_with_a_skip() -> None:
    graph = SharingGraph(
        (
            NamedOperator("one", ("x",), ("a",)),
            NamedOperator("two", ("a",), ("b",)),
            NamedOperator("three", ("b", "a"), ("y",)),
        ),
        ("x",),
        ("y",),
    )
    assert compute_ranges(graph) == {
        "x": LiveRange(None, 0),
        "a": LiveRange(0, 2),
        "b": LiveRange(1, 2),
        "y": LiveRange(2, None),
    }
    assert compute_ranges(graph, {"x": 1, "a": 2, "b": 3, "y": 4})["b"] == LiveRange(1, 2, 3)
    assert with_sizes(compute_ranges(graph), {"a": 7})["a"] == LiveRange(0, 2, 7)
    with pytest.raises(UsageError, match="there is no size for b, y"):
        compute_ranges(graph, {"x": 1, "a": 2})


def test_what_is_read_first_came_from_outside_and_what_is_written_last_stays() -> None:
    graph = SharingGraph(
        (
            NamedOperator("read", ("state",), ("a",)),
            NamedOperator("update", ("a", "state"), ("state",)),
            NamedOperator("in place", ("a",), ("a",)),
            NamedOperator("unread", ("a",), ("b",)),
        )
    )
    assert compute_ranges(graph) == {
        "state": LiveRange(None, None),
        "a": LiveRange(0, 3),
        "b": LiveRange(3, None),
    }


STEP = SharingGraph(
    (
        NamedOperator("mul", ("h", "w"), ("t",)),
        NamedOperator("act", ("t",), ("u",)),
        NamedOperator("add", ("u", "count"), ("h",)),
        NamedOperator("inc", ("count",), ("count",)),
    ),
    ("h",),
    ("h",),
)
RECURRENT = SharingGraph(
    (
        NamedOperator("embed", ("x",), ("e",)),
        NamedOperator("start", ("e",), ("h0",)),
        NamedOperator("lstm", ("h0", "w"), ("h0",), (SubgraphCall(STEP, (("h", "h0"), ("w", "w"))),)),
        NamedOperator("head", ("h0",), ("y",)),
    ),
    ("x", "w"),
    ("y",),
)


def test_a_step_graph_lives_inside_its_operator() -> None:
    """embed 0, start 1, lstm 2 to 7, head 8; what the step keeps from one round to the next lives through all of it."""
    assert compute_ranges(RECURRENT) == {
        "x": LiveRange(None, 0),
        "e": LiveRange(0, 1),
        "w": LiveRange(None, 7),
        "h0": LiveRange(1, 8),
        "lstm/0/t": LiveRange(3, 4),
        "lstm/0/u": LiveRange(4, 5),
        "lstm/0/count": LiveRange(2, 7),
        "y": LiveRange(8, None),
    }


def test_a_step_graph_shares_consistently_with_its_caller() -> None:
    sharing = assign(compute_ranges(RECURRENT), initial=[("e", "lstm/0/t")])
    buffers = buffer_names(sharing.groups)
    assert buffers["e"] == buffers["lstm/0/t"]
    assert check_replay(RECURRENT, buffers) == ()
    shared = renamed(RECURRENT, buffers)
    (call,) = shared.operators[2].calls
    mul = call.graph.operators[0]
    assert mul.inputs == (buffers["h0"], buffers["w"]) == shared.operators[2].inputs
    assert mul.outputs == (buffers["e"],) == shared.operators[0].outputs
    assert all(inner == outer for inner, outer in call.bound)
    assert "lstm/0/mul" in check_replay(RECURRENT, {"lstm/0/t": "w"})[0].message


def test_two_operators_may_not_name_their_inner_tensors_alike() -> None:
    inner = SharingGraph((NamedOperator("a", ("x",), ("t",)),))
    caller = NamedOperator("same", ("x",), ("y",), (SubgraphCall(inner, (("x", "x"),)),))
    with pytest.raises(UsageError, match="two tensors would have the name same/0/t"):
        compute_ranges(SharingGraph((caller, caller)))


@pytest.mark.parametrize("algorithm", ["greedy", "dynamic-programming"])
def test_what_a_called_graph_hands_out_outlasts_its_readers_in_there(algorithm: Algorithm) -> None:
    inner = SharingGraph(
        (
            NamedOperator("make", (), ("t",)),
            NamedOperator("use", ("t",), ("u",)),
            NamedOperator("more", ("u",), ("v",)),
            NamedOperator("last", ("v",), ("w",)),
        ),
        (),
        ("t", "w"),
    )
    graph = SharingGraph((NamedOperator("call", ("x",), ("y",), (SubgraphCall(inner),)),), ("x",), ("y",))
    ranges = compute_ranges(graph)
    assert ranges["call/0/t"] == LiveRange(1, 5)
    assert check_replay(graph, buffer_names(assign(ranges, algorithm).groups)) == ()


@pytest.mark.slow
@settings(max_examples=200)
@given(dags() | loops(), algorithms, st.booleans())
def test_shared_graphs_compute_the_same(graph: SharingGraph, algorithm: Algorithm, in_place: bool) -> None:
    sharing = assign(compute_ranges(graph), algorithm, in_place=in_place)
    buffers = buffer_names(sharing.groups)
    assert check_replay(graph, {}, in_place=in_place) == ()
    assert check_replay(graph, buffers, in_place=in_place) == ()
    again = renamed(graph, buffers)
    used = {name for op in again.operators for name in (*op.inputs, *op.outputs)}
    assert used <= set(buffers.values())


def test_buffers_are_named_and_names_do_not_collide() -> None:
    assert buffer_names([("a", "b"), ("c",), ("d", "e")]) == {
        "a": "shared_0",
        "b": "shared_0",
        "c": "c",
        "d": "shared_1",
        "e": "shared_1",
    }
    with pytest.raises(UsageError, match="m0 is already the name of a tensor"):
        buffer_names([("a", "b"), ("m0",)], "m")


@pytest.mark.parametrize("algorithm", ["greedy", "dynamic-programming"])
def test_gradients_share_among_each_other_and_nothing_else_does(algorithm: Algorithm) -> None:
    graph, sizes, gradients = training_graph([64, 128, 128, 32, 10])
    sharing = share_gradients(graph, gradients, sizes, algorithm=algorithm)
    shared = [group for group in sharing.groups if len(group) > 1]
    assert shared
    assert {name for group in shared for name in group} <= set(gradients)
    assert check_replay(graph, buffer_names(sharing.groups)) == ()
    others = sum(size for name, size in sizes.items() if name not in gradients)
    assert sharing.baseline_bytes == sum(sizes.values())
    # Two gradients are alive at once: the widest layers need 512 bytes each. y0's is never read: it stays.
    assert sharing.optimized_bytes == others + 2 * 4 * 128
    assert sharing.lower_bound <= sharing.optimized_bytes


def test_gradients_of_a_prefix_only() -> None:
    graph, sizes, gradients = training_graph([8, 8, 8, 8])
    sharing = share_gradients(graph, gradients, sizes, prefix="z")
    shared = {name for group in sharing.groups if len(group) > 1 for name in group}
    assert shared == {"z0_grad", "z1_grad", "z2_grad"}
    with pytest.raises(UsageError, match="ghost"):
        share_gradients(graph, ["ghost"], sizes)


def test_the_training_graph_shares_all_its_activations_worse_with_greedy_than_with_dynamic_programming() -> None:
    graph, sizes, _ = training_graph([96, 160, 40, 120, 10])
    ranges = compute_ranges(graph, sizes)
    static = [*graph.inputs, *graph.outputs]
    greedy = assign(ranges, "greedy", static=static)
    best = assign(ranges, static=static)
    assert best.optimal
    assert best.lower_bound == best.optimized_bytes < greedy.optimized_bytes < greedy.baseline_bytes
    assert memory_used(ranges, best.groups) == best.optimized_bytes
    assert check_replay(graph, buffer_names(best.groups)) == ()


def test_the_example_of_the_documentation_runs() -> None:
    text = (Path(__file__).parents[3] / "docs" / "sharing.md").read_text(encoding="utf-8")
    example = text.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(example, "sharing.md", "exec"), names)  # noqa: S102
    assert names["buffers"] == {"x": "x", "a": "shared_0", "b": "b", "y": "shared_0"}
