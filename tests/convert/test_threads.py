"""The same numbers on any machine: what a float model says does not depend on how many cores there are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgetool.convert.convert import convert_model
from edgetool.convert.request import ConvertRequest


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two cores to choose from"
)
def test_float_outputs_are_the_same_on_one_core_and_on_two(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((64, 64, 2)), keras.layers.Flatten(), keras.layers.Dense(32)])
    model.save(tmp_path / "wide.keras")
    every = os.sched_getaffinity(0)
    said = []
    try:
        for cores in (set(sorted(every)[:1]), set(sorted(every)[:2])):
            os.sched_setaffinity(0, cores)
            folder = tmp_path / f"on {len(cores)}"
            folder.mkdir()
            request = ConvertRequest(tmp_path / "wide.keras", quantize="float32", samples=40)
            said.append(convert_model(request, workdir=folder).float_outputs[0].tobytes())
    finally:
        os.sched_setaffinity(0, every)
    assert said[0] == said[1]
