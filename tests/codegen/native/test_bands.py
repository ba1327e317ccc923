"""For any split into bands, with input rows at unrelated addresses, kernels compute what they compute at once.

The driver bands.c replaces edgetool_run. It gives kernels blocks of exactly the size of each row, band and scratch, so
that the address sanitizer reports any access outside them.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.codegen.native.host import Build, differences
from tests.codegen.native.test_networks import cases, networks, supported, supported_types

BANDS = Build(driver="bands")
QUICK, MANY = 10, 30
# Numbers of the models of each operator, by whether their rows stay apart.
CASES = {False: (100,), True: (101,)}


def test_bands_of_random_networks_compute_what_tflm_computes() -> None:
    trials = supported(networks(20_000), QUICK, Counter(), row_wise=True)
    steps = [step for trial in trials.values() for step in trial.program.steps]
    assert sum(step.rows > 1 for step in steps) > len(steps) / 4, "few steps can be split"
    assert differences(trials, BANDS) == []


@pytest.mark.slow
@pytest.mark.parametrize("row_wise", [False, True])
def test_bands_of_many_random_networks_compute_what_tflm_computes(row_wise: bool) -> None:
    trials = supported(networks(30_000 + row_wise * 1_000), MANY, Counter(), row_wise=row_wise)
    assert differences(trials, BANDS) == []


@pytest.mark.slow
@pytest.mark.parametrize("row_wise", CASES)
def test_bands_of_random_operators_compute_what_tflm_computes(row_wise: bool) -> None:
    drawn = cases(supported_types(), CASES[row_wise])
    assert differences(supported(drawn, None, Counter(), row_wise=row_wise), BANDS) == []
