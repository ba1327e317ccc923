"""Measured kernels whose outputs overlap inputs, and a sample of them on TFLM's reference kernels."""

from __future__ import annotations

import pytest
from benchmarks.kernels.cases import Case
from benchmarks.kernels.overlaps import MEASURED, on_this_machine, read_tallies, tally_of, trials

from edgetool.operators.registry import OPERATORS
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of

TALLIES = read_tallies(MEASURED)
HOST = platform_of(load_target("x86-64"))


def test_no_kernel_overwrites_what_it_still_reads() -> None:
    assert len(TALLIES) > 200
    assert [tally for tally in TALLIES if tally.equal != tally.overlaps] == []


def test_distances_that_are_too_small_are_detected() -> None:
    """A kernel whose values saturate hides what is overwritten, so that not every model shows it."""
    assert sum(tally.detected for tally in TALLIES) > 0.7 * sum(tally.nearer for tally in TALLIES)
    measured = [tally for tally in TALLIES if tally.nearer >= 20]
    assert len(measured) > 100
    assert [tally for tally in measured if tally.detected < 0.25 * tally.nearer] == []


@pytest.mark.parametrize(
    ("core", "kernels"), [("host", "reference"), ("cortex-m7", "cmsis-nn"), ("cortex-m55", "cmsis-nn")]
)
def test_all_kernels_with_an_order_of_their_own_are_measured(core: str, kernels: str) -> None:
    measured = {tally.operator for tally in TALLIES if (tally.core, tally.kernels) == (core, kernels)}
    own = {
        code
        for code, entry in OPERATORS.items()
        if entry.overlaps and len({entry.overlaps.get(kind) for kind in ("reference", "cmsis-nn", "esp-nn")}) > 1
    }
    assert {code for code in own if kernels in OPERATORS[code].overlaps} <= measured


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("ADD", "int8"),
        ("CONV_2D", "int16"),
        ("DEPTHWISE_CONV_2D", "int8"),
        ("MAX_POOL_2D", "int8"),
        ("PAD", "float32"),
        ("SLICE", "int8"),
        ("STRIDED_SLICE", "int16"),
    ],
)
def test_a_sample_gives_the_measured_results(operator: str, kind: str) -> None:
    pytest.importorskip("tflite_micro")
    cases = [Case(operator, kind, number) for number in range(20 if "SLICE" in operator else 6)]
    tally = tally_of("host", "reference", cases, HOST, on_this_machine)
    assert tally.equal == tally.overlaps >= 5
    assert tally.detected > 0


def test_a_trial_places_tensors_at_exactly_the_distance() -> None:
    case = Case("MUL", "int8", 0)
    (first, *_) = trials(case, case.model(), HOST)
    assert first.apart != first.permitted != first.nearer
