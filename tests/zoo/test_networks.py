"""The networks people train, in the files they keep them in, to real TFLM."""

from __future__ import annotations

import pytest
from benchmarks.zoo.catalog import cheap

from tests.zoo.conftest import Tried
from tests.zoo.judged import check
from tests.zoo.test_layers import GROUPS

NAMES = [entry.name for entry in cheap() if entry.group not in GROUPS]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_network_runs_on_tflm(name: str, tried: Tried) -> None:
    check(tried(name))
