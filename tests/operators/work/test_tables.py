"""The shipped tables: what the fit makes of the counts, for every operator that TFLM registers."""

from __future__ import annotations

import pytest
from benchmarks.instructions.cases import rooms
from benchmarks.instructions.fit import fit_build, points, predicted
from benchmarks.instructions.measured import BUILDS

from edgetool.operators.registry import CUSTOM_OPERATORS, OPERATORS
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.tables import load_instructions
from edgetool.target.types import Kernels

RUNTIME = load_runtime(DEFAULT_RUNTIME)
REGISTERED = (*RUNTIME.operators, *RUNTIME.custom_operators)


@pytest.mark.parametrize(("core", "kernels"), BUILDS)
def test_the_tables_are_what_the_fit_makes_of_the_counts(core: str, kernels: Kernels) -> None:
    """Equal figures for every counted operator; the coefficients themselves may differ with the solver's version."""
    shipped, fitted = load_instructions(core, kernels), fit_build(core, kernels)
    assert set(shipped) == set(fitted)
    for room in rooms():
        for key, counted in points(room, core, kernels).items():
            for point in counted:
                expected = predicted(point.loops, fitted[key])
                assert predicted(point.loops, shipped[key]) == pytest.approx(expected, rel=2e-3), (key, point.case)


@pytest.mark.parametrize(("core", "kernels"), BUILDS)
def test_every_registered_operator_was_counted_on_every_build(core: str, kernels: Kernels) -> None:
    counted = {operator for operator, _ in load_instructions(core, kernels)}
    assert sorted(set(REGISTERED) - counted) == []


def test_every_registered_operator_has_a_rule() -> None:
    known = {**OPERATORS, **CUSTOM_OPERATORS}
    assert [code for code in REGISTERED if known[code].loops is None] == []


@pytest.mark.parametrize(("core", "kernels"), BUILDS)
def test_the_rules_fit_the_counts(core: str, kernels: Kernels) -> None:
    """Nine of ten counted operators within 2 %, and half within 0.5 %."""
    table = load_instructions(core, kernels)
    errors = sorted(
        abs(predicted(point.loops, table[key]) / point.instructions - 1)
        for room in rooms()
        for key, counted in points(room, core, kernels).items()
        for point in counted
    )
    assert len(errors) > 10_000
    assert errors[len(errors) // 2] < 0.005
    assert errors[len(errors) * 9 // 10] < 0.02
