"""For any split into bands, with input rows at unrelated addresses, kernels compute what they compute at once.

The driver bands.c replaces edgetool_run. It gives kernels blocks of exactly the size of each row, band and scratch, so
that the address sanitizer reports any access outside them.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.codegen.native.host import Build
from tests.codegen.native.test_networks import cases, differences, networks, supported, supported_types

BANDS = Build(driver="bands")
QUICK, MANY = 20, 200
CASES = 10


@pytest.mark.parametrize("row_wise", [pytest.param(False, marks=pytest.mark.slow), True])
def test_bands_of_random_networks_compute_what_tflm_computes(row_wise: bool) -> None:
    trials = supported(networks(20_000), QUICK, Counter(), row_wise=row_wise)
    assert differences(trials, BANDS) == []


@pytest.mark.slow
@pytest.mark.parametrize("row_wise", [False, True])
def test_bands_of_many_random_networks_compute_what_tflm_computes(row_wise: bool) -> None:
    trials = supported(networks(30_000), MANY, Counter(), row_wise=row_wise)
    assert differences(trials, BANDS) == []


@pytest.mark.slow
@pytest.mark.parametrize("row_wise", [False, True])
def test_bands_of_random_operators_compute_what_tflm_computes(row_wise: bool) -> None:
    drawn = Random(1).sample(supported_types(), QUICK)
    trials = supported(cases(drawn, [100]), None, Counter(), row_wise=row_wise)
    assert differences(trials, BANDS) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("row_wise", [False, True])
def test_bands_of_many_random_operators_compute_what_tflm_computes(row_wise: bool, part: int) -> None:
    drawn = cases(supported_types(), range(100 + part, 100 + CASES, 5))
    assert differences(supported(drawn, None, Counter(), row_wise=row_wise), BANDS) == []


@pytest.mark.slow
def test_bands_have_many_rows_to_split() -> None:
    trials = supported(networks(20_000), QUICK, Counter(), row_wise=True)
    steps = [step for trial in trials.values() for step in trial.program.steps]
    assert sum(step.rows > 1 for step in steps) > len(steps) / 4
