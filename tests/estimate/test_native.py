"""Instructions of native code: those of a step are linear in its loop counts, those of an operator its steps' sum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.errors import TargetError
from edgetool.estimate.native import (
    StepWork,
    count_native_operators,
    estimate_native,
    is_estimated,
    require_estimated,
    step_instructions,
)
from edgetool.operators.loops import LoopCounts
from edgetool.operators.registry import operator_costs
from edgetool.target.load import load_target
from edgetool.target.types import Target
from tests.model.builders import residual_model

TABLE = {
    ("edgetool_a", "fast"): {"call": 10.0, "turns": 2.5},
    ("edgetool_a", "slow"): {"call": 20.0, "turns": 4.0, "codes": 3.0},
}


def native(name: str) -> Target:
    """A target with the runtime native."""
    return load_target(name).with_overrides(runtime="native")


def test_instructions_are_linear_in_the_loop_counts() -> None:
    assert step_instructions("edgetool_a", LoopCounts("fast", {"turns": 4, "rows": 7}), TABLE) == 20
    assert step_instructions("edgetool_a", None, TABLE) is None
    assert step_instructions("edgetool_b", LoopCounts("fast", {}), TABLE) is None


def test_the_instructions_of_a_path_that_was_not_counted_are_unknown() -> None:
    assert step_instructions("edgetool_a", LoopCounts("other", {"turns": 1, "rows": 1}), TABLE) is None


def test_operators_without_steps_execute_nothing_and_move_nothing() -> None:
    model, target = residual_model(), native("nucleo-h743zi2")
    counted = count_native_operators(operator_costs(model), (), target)
    assert len(counted) == len(model.main.operators)
    for item in counted:
        assert (item.executed.instructions, item.cost.memory_bytes) == (0, 0)


def test_an_operator_with_an_unknown_step_is_not_modelled() -> None:
    model, target = residual_model(), native("nucleo-h743zi2")
    known = StepWork(0, "edgetool_lookup", LoopCounts("all", {"rows": 1, "elements": 100}))
    (both, *_) = count_native_operators(operator_costs(model), (known, StepWork(0, "edgetool_none", None)), target)
    assert both.executed.instructions is None
    (once, *_) = count_native_operators(operator_costs(model), (known,), target)
    (twice, *_) = count_native_operators(operator_costs(model), (known, known), target)
    assert once.executed.instructions
    assert twice.executed.instructions == 2 * once.executed.instructions


def test_a_measured_timing_is_at_most_extrapolated() -> None:
    model, target = residual_model(), native("nucleo-l4r5zi")
    assert target.timing is not None
    assert target.timing.status == "calibrated"
    steps = [StepWork(0, "edgetool_lookup", LoopCounts("all", {"rows": 1, "elements": 100}))]
    estimate = estimate_native(model, target, count_native_operators(operator_costs(model), steps, target))
    assert estimate.latency_ms is not None
    assert estimate.validation == "extrapolated"
    assert estimate.basis == estimate.latency_ms.basis
    assert "TFLM's kernels" in estimate.basis


def test_a_timing_of_native_code_is_calibrated() -> None:
    model, board = residual_model(), load_target("nucleo-l4r5zi")
    assert board.timing is not None
    own = replace(board.timing, kernels="native", cpi=2.0, basis="measured with native code")
    target = replace(board, timings=(*board.timings, own)).with_overrides(runtime="native")
    steps = [StepWork(0, "edgetool_lookup", LoopCounts("all", {"rows": 1, "elements": 100}))]
    estimate = estimate_native(model, target, count_native_operators(operator_costs(model), steps, target))
    assert (estimate.validation, estimate.basis) == ("calibrated", "measured with native code")


@pytest.mark.parametrize(
    ("name", "estimated"),
    [
        ("rpi-pico", True),
        ("nucleo-f103rb", True),
        ("nucleo-l4r5zi", True),
        ("nucleo-h743zi2", True),
        ("nucleo-u575zi-q", True),
        ("alif-e7-hp", True),
        ("ek-ra8d1", True),
        ("esp32-c3", True),
        ("esp32-s3", False),
        ("rx65n-cloud-kit", False),
        ("desktop", False),
    ],
)
def test_cores_without_counted_instructions_are_refused(name: str, estimated: bool) -> None:
    target = native(name)
    assert is_estimated(target) is estimated
    if not estimated:
        with pytest.raises(TargetError, match="is unknown: its instructions were not counted"):
            require_estimated(target)
