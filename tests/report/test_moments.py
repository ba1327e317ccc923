"""Moments: the time of each operator, and the bytes in use, counted one by one by the tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.codegen.native.rows import FEED
from edgetool.memory.lifetimes import timeline
from edgetool.memory.problem import aligned
from edgetool.memory.streaming.problem import RowProblem, steps_of
from edgetool.model.edit import in_order
from edgetool.model.types import Model
from edgetool.pipeline.viewers import moments_of
from edgetool.report.moments import Block, Moments, arena_bytes, bytes_in_use, operator_macs, row_moments
from edgetool.target.types import Target
from tests.conftest import examples
from tests.memory import account_structures
from tests.memory.streaming.executor import separate_plan
from tests.memory.streaming.problems import row_problems, schedules
from tests.model.builders import Builder, branches_model, chain_model, conv_model, residual_model
from tests.report.described import M4, NATIVE, ROWS, described
from tests.report.test_json import REPORT
from tests.report.test_rows_picture import in_memory

STRUCTURES = (account_structures.branches, account_structures.loop, account_structures.variables)


@st.composite
def moments(draw: st.DrawFn) -> Moments:
    """Blocks anywhere, at any time, that may overlap."""
    count = draw(st.integers(1, 5))
    blocks = []
    for _ in range(draw(st.integers(0, 6))):
        first, end = sorted(draw(st.tuples(st.integers(0, count), st.integers(0, count))))
        size = draw(st.integers(0, 9))
        blocks.append(Block("tensor", "t", 0, 0, draw(st.integers(0, 20)), size, size, first, end))
    return Moments(tuple(range(count + 1)), True, (), tuple(blocks))


@examples(200)
@given(moments())
def test_bytes_in_use_are_those_of_all_blocks_counted_once(item: Moments) -> None:
    expected = tuple(
        len(
            {
                address
                for block in item.blocks
                if block.first <= moment < block.end
                for address in range(block.offset, block.offset + block.reserved_bytes)
            }
        )
        for moment in range(item.count)
    )
    assert bytes_in_use(item) == expected


@pytest.mark.parametrize("make", [residual_model, branches_model, *STRUCTURES])
def test_the_plan_of_the_report_is_in_use_operator_by_operator(make: Callable[[], Model]) -> None:
    item = described(make())
    plan = item.report.plan
    assert plan is not None
    assert plan.peak is not None
    moments = moments_of(item)
    ordered = in_order(item.source.model, plan.order)
    spans = timeline(ordered).operators
    assert moments.count == 1 + max(span.last for span in spans.values())
    for key, span in spans.items():
        runs = [run for run in moments.runs if (run.subgraph, run.operator) == key]
        assert (min(run.first for run in runs), max(run.end for run in runs) - 1) == (span.first, span.last)
        assert [run.of for run in runs] == [len(runs)] * len(runs)
    in_use = bytes_in_use(moments)
    assert max(in_use) == in_use[max(plan.peak.position, 0)] == plan.peak.bytes
    assert max(arena_bytes(moments).values()) == plan.peak.bytes
    assert {(b.kind, b.index, b.subgraph, b.offset, b.bytes) for b in moments.blocks} == {
        (kind, buffer.index, buffer.subgraph, buffer.offset, buffer.bytes)
        for kind, buffers in (("tensor", plan.tensors), ("scratch", plan.scratch))
        for buffer in buffers
    }


def with_view() -> Model:
    """A convolution, and a view of its output, which native code computes in no time."""
    build = Builder()
    x = build.activation([1, 8, 8, 3])
    return build.model([x], [build.flatten(build.conv(x, 8, stride=2))])


@pytest.mark.parametrize(
    ("make", "target"),
    [(residual_model, M4), (with_view, NATIVE), (conv_model, ROWS), *((make, M4) for make in STRUCTURES)],
)
def test_times_add_up_to_the_latency(make: Callable[[], Model], target: Target) -> None:
    item = described(make(), target)
    assert item.report.estimate is not None
    assert item.report.estimate.latency_ms is not None
    moments = moments_of(item)
    assert moments.estimated
    assert all(first < second for first, second in pairwise(moments.starts))
    assert abs(moments.starts[-1] - item.report.estimate.latency_ms.value * 1e6) <= moments.count


@pytest.mark.parametrize("make", STRUCTURES)
def test_an_operator_contains_those_that_it_calls(make: Callable[[], Model]) -> None:
    item = described(make())
    runs = moments_of(item).runs
    for outer, inner in pairwise(runs):
        assert inner.first >= outer.end or inner.end <= outer.end
    spent = Counter[tuple[int, int]]()
    starts = moments_of(item).starts
    for run in runs:
        spent[run.subgraph, run.operator] += starts[run.first + 1] - starts[run.first]
    assert item.report.estimate is not None
    for info in item.report.estimate.operators:
        assert abs(spent[info.subgraph, info.index] - info.ms.value * 1e6) <= len(runs)


def test_without_an_estimate_each_call_takes_a_microsecond() -> None:
    item = described(account_structures.loop(), None)
    moments = moments_of(item)
    assert not moments.estimated
    assert moments.starts[-1] == 1000 * len(moments.runs)
    estimate = described(account_structures.loop()).report.estimate
    assert estimate is not None
    macs = {(info.subgraph, info.index): info.macs for info in estimate.operators}
    assert any(macs.values())
    assert operator_macs(item.report, item.source.model) == macs


@examples(60)
@given(st.data(), row_problems())
def test_moments_of_rows_are_the_steps_of_the_schedule(data: st.DataObject, problem: RowProblem) -> None:
    plan = replace(separate_plan(problem), schedule=data.draw(schedules(problem)))
    model = chain_model(len(problem.operators))
    operators = [-1 if item.name == FEED else number for number, item in enumerate(problem.operators)]
    moments = row_moments(REPORT, model, problem, plan, operators)
    assert moments.count == len(plan.schedule)
    steps = [(run.operator, step) for run in moments.runs for step in range(run.first, run.end)]
    assert steps == [(operators[number], step) for step, number in enumerate(plan.schedule)]
    calls = Counter[int]()
    for run in moments.runs:
        calls[run.operator] += run.calls
    assert all(calls[run.operator] == run.of for run in moments.runs)
    sizes = problem.row_sizes()
    assert bytes_in_use(moments) == tuple(
        sum(sizes[row] for row in rows) + aligned(firing.scratch_bytes, 4)
        for rows, (_, firing) in zip(in_memory(problem, plan.schedule), steps_of(problem, plan.schedule), strict=True)
    )


def test_rows_take_the_memory_of_their_plan() -> None:
    item = described(conv_model(), ROWS)
    assert item.report.rows is not None
    moments = moments_of(item)
    assert moments.count == item.report.rows.steps
    assert max(bytes_in_use(moments)) <= item.report.rows.memory_bytes
    assert max(block.offset + block.bytes for block in moments.blocks) == item.report.rows.memory_bytes


def test_a_model_without_operators_has_no_moments() -> None:
    build = Builder()
    x = build.activation([1, 16])
    moments = moments_of(described(build.model([x], [x])))
    assert (moments.starts, moments.runs) == ((0,), ())
    assert [(block.first, block.end) for block in moments.blocks] == [(0, 0)]
    assert bytes_in_use(moments) == ()
