"""1x1 convolutions in pixel order: the same outputs, other kernels of CMSIS-NN, and the overlap that these permit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import litert_engine, run_model
from edgetool.memory.overlaps import operator_overlaps
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.memory.problem import Effort
from edgetool.memory.striping import plan_stripes
from edgetool.model.edit import renumbered, with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.passes.pixel_order import in_pixel_order, pointwise, with_pixel_order
from edgetool.target.load import load_target
from edgetool.target.platform import Platform, platform_of
from tests.passes.test_stripes import CONV, DEPTHWISE, convolutions


def platform(core: str, kernels: str) -> Platform:
    return platform_of(replace(load_target(core), kernels=kernels))


def mixed() -> Model:
    """1x1 convolutions with strides of 1 and 2, behind a larger and a depthwise one."""
    steps = (CONV, 3, 1, "SAME"), (CONV, 1, 1, "SAME"), (DEPTHWISE, 1, 1, "SAME"), (CONV, 1, 2, "SAME")
    return renumbered(convolutions(*steps, height=9, width=8, channels=6, wider=[1]))


@pytest.mark.slow
def test_the_outputs_stay_the_same() -> None:
    model = mixed()
    assert pointwise(model.main) == {1, 3}
    changed = read_model(write_model(with_pixel_order(model, {1, 3})))
    assert (in_pixel_order(model.main), in_pixel_order(changed.main)) == (set(), {1, 3})
    assert write_model(with_pixel_order(changed, {1, 3}, enabled=False)) == write_model(model)
    inputs = random_inputs(model, 4, 0)
    for engine in ("tflm", litert_engine(model)):
        one, other = (run_model(write_model(item), inputs, engine=engine) for item in (model, changed))
        assert all(np.array_equal(*pair) for pair in zip(one, other, strict=True)), engine


@pytest.mark.parametrize(
    ("core", "kernels", "before"),
    [
        ("cortex-m7", "cmsis-nn", {0, 2}),
        ("cortex-m0plus", "cmsis-nn", {0, 2}),
        ("cortex-m55", "cmsis-nn", {0, 1, 2, 3}),
        ("cortex-m7", "reference", {0, 1, 2, 3}),
    ],
)
def test_outputs_may_then_overlap_inputs(core: str, kernels: str, before: set[int]) -> None:
    build, model = platform(core, kernels), mixed()
    changed = with_pixel_order(model, {1, 3})
    assert set(operator_overlaps(model, build)) == before
    overlaps, reference = (
        operator_overlaps(changed, build),
        operator_overlaps(model, platform("cortex-m7", "reference")),
    )
    assert set(overlaps) == {0, 1, 2, 3}
    assert [overlaps[index] for index in (1, 3)] == [reference[index] for index in (1, 3)]


@pytest.mark.slow
def test_plans_with_overlapping_products_compute_the_same() -> None:
    pytest.importorskip("tflite_micro")
    steps = (DEPTHWISE, 3, 1, "SAME"), (CONV, 1, 1, "SAME"), (DEPTHWISE, 3, 2, "SAME"), (CONV, 1, 1, "SAME")
    model = renumbered(convolutions(*steps, height=24, width=16, channels=8, wider=[1, 3]))
    build, request = platform("cortex-m7", "cmsis-nn"), PlanRequest(file_plan="replace", order="original")
    inputs = random_inputs(model, 4, 0)
    expected = run_model(write_model(model), inputs, engine="tflm")
    base = plan_memory(model, build, request)
    for share in (0.0, 0.3):
        found = plan_stripes(model, base, build, request, Effort(), max_extra_macs=share)
        assert found is not None
        assert bool(found.regions) == bool(share)
        assert in_pixel_order(found.model.main)
        assert found.plan.offsets is not None
        file = write_model(with_metadata(found.model, METADATA_NAME, encode_plan(found.model, found.plan.offsets)))
        again = plan_memory(read_model(file), build, PlanRequest(file_plan="only")).account
        assert again == plan_memory(read_model(file), build).account
        assert again is not None
        assert again.bytes == found.arena_bytes
        assert all(np.array_equal(*pair) for pair in zip(expected, run_model(file, inputs, engine="tflm"), strict=True))
