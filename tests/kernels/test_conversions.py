"""The converted Keras models of the kernel benchmark: what was measured, and what TFLM computes on this machine."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from benchmarks.kernels.conversions import MEASURED, NETWORKS, converted

from edgetool.execute.quantize import random_inputs
from edgetool.operators.legality import kernel_faults
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.in_process import no_children
from tests.passes.runs import differ, tflm

TARGETS = ("cortex-m7", "cortex-m55")


def test_every_converted_model_was_measured_and_is_right() -> None:
    with MEASURED.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert {(row["model"], row["target"]) for row in rows} == {
        (name, target) for name in NETWORKS for target in TARGETS
    }
    assert {row["after"] for row in rows} == {"equal"}
    assert all(row["before"] == "equal" for row in rows if not row["rewrites"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transpose-4x4", "unet", "grouped-int16"])
def test_a_converted_model_computes_the_same_without_faults(name: str, tmp_path: Path) -> None:
    pytest.importorskip("keras", reason="needs the extra 'convert'")
    target = load_target("cortex-m7")
    with no_children():
        item = converted(name, NETWORKS[name], target, tmp_path)
    model = item.planned.model
    assert kernel_faults(item.original.model, platform_of(target))
    assert kernel_faults(model, platform_of(target)) == ()
    inputs = random_inputs(model, 3, seed=0)
    assert differ(tflm(model, inputs), tflm(item.original.model, inputs)) == 0
