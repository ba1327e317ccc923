"""Distances of tensors with views: arrays against one moment after the other; which overlaps count as such."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.overlaps import operator_overlaps, overlapping_tensors
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.memory.views import _Cell, _CellDistances, _distance, _Range
from edgetool.model.views import with_views
from edgetool.passes.stripes import Region, stripe
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.passes.test_stripes import CONV, DEPTHWISE, convolutions

CELLS = st.builds(
    lambda start, size, first, length: _Cell(_Range(start, start + size), first, first + length),
    *(st.integers(0, 40), st.integers(1, 20), st.integers(-2, 9), st.integers(0, 4)),
)


@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=5))
def test_arrays_find_the_distances_of_all_moments(buffers: list[list[_Cell]]) -> None:
    distances = _CellDistances(dict(enumerate(buffers)))
    for position, above in enumerate(buffers):
        found = distances.above(position)
        for other, below in enumerate(buffers):
            assert found.get(other, -(2**31)) == _distance(above, below, ())


def test_only_outputs_over_inputs_are_overlaps() -> None:
    made = convolutions((DEPTHWISE, 3, 1, "SAME"), (CONV, 1, 1, "SAME"), height=24, width=16, channels=8)
    striped = stripe(made, [Region(0, 1, 6)])
    model = with_views(striped.model, striped.views)
    platform = platform_of(load_target("x86-64"))
    plan = plan_memory(model, platform, PlanRequest(file_plan="replace"))
    pairs = {frozenset((item.input, item.output)) for item in overlapping_tensors(plan.problem, plan.layout.offsets)}
    parents = {view.tensor: view.parent for view in striped.views}
    permitted = {
        frozenset((parents.get(source, source), parents.get(output, output)))
        for operator in model.main.operators
        for item in operator_overlaps(model, platform).get(operator.index, ())
        for source, output in [(operator.inputs[item.input], operator.outputs[0])]
    }
    assert pairs
    assert pairs <= permitted
    # Stripes of one tensor lie over each other as well, at different times.
    places = [buffer.tensor for buffer in plan.problem.buffers]
    assert {frozenset((places[item.first], places[item.second])) for item in plan.problem.overlaps} - permitted
