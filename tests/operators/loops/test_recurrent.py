from __future__ import annotations

import pytest

from edgetool.model.types import DType
from tests.memory.account_convolutions import lstm, svdf
from tests.memory.account_net import Net
from tests.operators.loops.runs import DSP, FLOAT32, INT8, INT16, MVE, REFERENCE, run


@pytest.mark.parametrize(("rank", "suffix"), [(2, ""), (1, ", rank 1")])
def test_filters(rank: int, suffix: str) -> None:
    net = Net(1)
    x = net.arena(2, 10)
    model = net.model([x], [svdf(net, x, rank=rank, units=3, memory=5)])
    filters = 3 * rank
    reference, work = run(model), run(model, DSP)
    assert (reference.path, work.path) == ("reference int8, int16 state", f"int8, int16 state{suffix}")
    assert reference.loops["product"] == 2 * filters * 10
    assert reference.loops["state product"] == 2 * filters * 5
    assert (work.loops["filter by 2"], work.loops["filter by 1"]) == (2 * filters * 2, 2 * filters)
    assert run(model, MVE).loops["filter by 1"] == 2 * filters * 5


@pytest.mark.parametrize("dtype", [INT8, INT16, FLOAT32])
@pytest.mark.parametrize("major", [False, True])
def test_steps_of_a_sequence(dtype: DType, major: bool) -> None:
    """Batches of 2, 5 steps, 3 inputs, 6 units: all batches in one step where time comes first."""
    work = run(lstm(dtype, time_major=major), REFERENCE)
    assert work.path == f"reference {dtype.name.lower()}"
    assert work.loops["step"] == (5 if major else 10)
    first = 2 * 6 * 6
    assert work.loops["product of zeros"] == 4 * first
    assert work.loops["product"] == 4 * (2 * 5 * 6 * (3 + 6) - first)


def test_the_first_step_has_no_hidden_state() -> None:
    work = run(lstm(INT16, time_major=False), DSP)
    assert work.path == "int16"
    assert (work.loops["step"], work.loops["hidden step"]) == (10, 8)
    # Three pairs of units: 3 inputs one by one in 10 steps; 6 states as a quad and two more in 8.
    assert work.loops["2 units by 1"] == 4 * 3 * (10 * 3 + 8 * 2)
    assert work.loops["2 units by 4"] == 4 * 3 * 8
    assert run(lstm(INT16, time_major=True), DSP).loops["hidden step"] == 4
