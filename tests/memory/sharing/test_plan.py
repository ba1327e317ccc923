"""Models in shared buffers: plans that TFLM follows, control flow, and variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.memory.checker import check_layout
from edgetool.memory.lifetimes import DEAD, layout_problem, timeline
from edgetool.memory.planner import fixed_offsets
from edgetool.memory.problem import Buffer, Layout, LayoutProblem, Lifetime
from edgetool.memory.sharing.assign import shared_offsets, whole_problem
from edgetool.memory.sharing.types import Algorithm
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.types import DType, Model
from tests.graphs import chain, graph, model, operator, tensor

algorithms = st.sampled_from(["greedy", "dynamic-programming"])


def branches() -> Model:
    """IF with two branches of two operators each, then WHILE, whose condition reads what its body counts."""
    main = graph(
        [tensor(0, 1, dtype=DType.BOOL), tensor(1, 64), tensor(2, 64), tensor(3, 64), tensor(4, 64)],
        [
            operator(0, "IF", [0, 1], [2], "IfOptions", then_subgraph_index=1, else_subgraph_index=2),
            operator(1, "WHILE", [2], [3], "WhileOptions", cond_subgraph_index=3, body_subgraph_index=4),
            operator(2, "RELU", [3], [4]),
        ],
        [0, 1],
        [4],
    )
    steps = [
        graph(
            [tensor(0, 64), tensor(1, 256), tensor(2, 64)],
            [operator(0, "RELU", [0], [1]), operator(1, "RELU", [1], [2])],
            [0],
            [2],
            index,
        )
        for index in (1, 2, 4)
    ]
    condition = graph(
        [tensor(0, 64), tensor(1, 1, dtype=DType.BOOL)], [operator(0, "LESS", [0], [1])], [0], [1], index=3
    )
    return model(main, *steps[:2], condition, steps[2])


@pytest.mark.parametrize("algorithm", ["greedy", "dynamic-programming"])
@pytest.mark.parametrize("small", [chain([64, 128, 64, 128, 16]), branches()], ids=["chain", "control flow"])
def test_buffers_one_after_another_are_a_plan_that_the_file_can_carry(small: Model, algorithm: Algorithm) -> None:
    times = timeline(small)
    problem = layout_problem(small, times)
    shared = shared_offsets(problem, algorithm)
    assert check_layout(problem, Layout(shared.offsets, shared.optimized_bytes, shared.lower_bound, "none"))[1:] == ()
    offsets = {(b.subgraph, b.tensor): at for b, at in zip(problem.buffers, shared.offsets, strict=True)}
    planned = with_metadata(small, METADATA_NAME, encode_plan(small, offsets))
    assert fixed_offsets(planned, times) == offsets
    starts = [sum(shared.sizes[:number]) for number in range(len(shared.sizes))]
    for group, start in zip(shared.groups, starts, strict=True):
        assert {shared.offsets[index] for index in group} == {start}
    assert sum(shared.sizes) == shared.optimized_bytes < shared.baseline_bytes
    assert list(shared.sizes) == sorted(shared.sizes, reverse=True)


def test_subgraphs_are_on_the_time_line_of_their_callers() -> None:
    """Both branches and the body use one buffer for their large tensor; what the caller holds stays untouched."""
    small = branches()
    problem = layout_problem(small, timeline(small))
    shared = shared_offsets(problem)
    large = [b.size_bytes == 256 for b in problem.buffers]
    assert len({at for at, is_large in zip(shared.offsets, large, strict=True) if is_large}) == 1
    place = {(b.subgraph, b.tensor): at for b, at in zip(problem.buffers, shared.offsets, strict=True)}
    assert place[0, 1] not in {place[1, 0], place[1, 1], place[1, 2]}
    assert place[0, 2] not in {place[1, 0], place[1, 1], place[1, 2], place[3, 0], place[3, 1]}


@st.composite
def problems(draw: st.DrawFn) -> LayoutProblem:
    buffers = []
    for index in range(draw(st.integers(0, 12))):
        first = draw(st.integers(-1, 8))
        last = draw(st.integers(first, 10)) if first >= 0 else draw(st.integers(-1, 3))
        scratch = draw(st.integers(0, 4)) == 0
        times = DEAD if draw(st.integers(0, 9)) == 0 else Lifetime(first, last)
        size = draw(st.integers(1, 300))
        buffers.append(
            Buffer(0, -1 if scratch else index, f"t{index}", size, times, operator=first + 1 if scratch else -1)
        )
    return LayoutProblem(tuple(buffers))


@given(problems(), algorithms)
def test_any_problem_is_shared_and_scratch_is_left_to_tflm(problem: LayoutProblem, algorithm: Algorithm) -> None:
    shared = shared_offsets(problem, algorithm)
    assert [at < 0 for at in shared.offsets] == [b.is_scratch for b in problem.buffers]
    tensors = LayoutProblem(tuple(b for b in problem.buffers if not b.is_scratch))
    offsets = tuple(at for at in shared.offsets if at >= 0)
    found = check_layout(tensors, Layout(offsets, shared.optimized_bytes, 0, "none"))
    assert [violation for violation in found if violation.rule != "height"] == []
    assert shared.baseline_bytes == sum(b.aligned_bytes for b in tensors.buffers)
    assert sorted(index for group in shared.groups for index in group) == [
        index for index, b in enumerate(problem.buffers) if not b.is_scratch
    ]


def test_an_alias_is_one_buffer_and_pins_are_rejected() -> None:
    pieces = (
        Buffer(0, 0, "a", 100, Lifetime(0, 1), alias="x"),
        Buffer(0, 1, "b", 40, Lifetime(1, 3), alias="x"),
        Buffer(0, 2, "c", 100, Lifetime(2, 2)),
        Buffer(0, 3, "d", 100, Lifetime(4, 5)),
    )
    shared = shared_offsets(LayoutProblem(pieces))
    assert shared.offsets[0] == shared.offsets[1] != shared.offsets[2]
    assert shared.optimized_bytes == 224
    pinned = (*pieces, Buffer(0, 4, "e", 16, Lifetime(0, 1), pinned=32))
    with pytest.raises(UsageError, match=r"buffer 4 \('e'\): is pinned to offset 32"):
        shared_offsets(LayoutProblem(pinned))


def test_variables_have_memory_that_nothing_shares() -> None:
    tensors = [tensor(0, 64), tensor(1, 64, variable=True), tensor(2, 64), tensor(3, 64), tensor(4, 0, variable=True)]
    operators = [operator(0, "ADD", [0, 1], [2]), operator(1, "RELU", [2], [3])]
    small = model(graph(tensors, operators, [0], [3]))
    problem = whole_problem(small, timeline(small))
    assert [b.tensor for b in problem.buffers] == [0, 1, 2, 3]
    shared = shared_offsets(problem)
    assert (1,) in shared.groups
    assert (0, 3) in shared.groups


def test_each_shared_buffer_begins_where_its_alignment_allows() -> None:
    sized = ((9, 1), (5, 8), (3, 2))
    problem = LayoutProblem(
        tuple(
            Buffer(0, index, f"t{index}", size, Lifetime(0, 1), alignment=alignment, granule=1)
            for index, (size, alignment) in enumerate(sized)
        )
    )
    offsets = shared_offsets(problem).offsets
    top = max(offset + size for offset, (size, _) in zip(offsets, sized, strict=True))
    assert check_layout(problem, Layout(offsets, top, 0, "none")) == ()
