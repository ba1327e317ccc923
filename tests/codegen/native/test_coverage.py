"""Models reach the branches of the kernels, and the rarest of these models compute what TFLM computes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.native import coverage
from benchmarks.native.stack import KERNELS

from tests.codegen.native import rare
from tests.codegen.native.host import Build, differences, run_group

BUILDS = [Build(), Build(driver="bands")]
# What no model reaches of a file, in percent of its branches, if it is more than the goal leaves.
OPEN: dict[str, float] = {
    "edgetool_batch_matmul_s8.c": 9.6,
    "edgetool_dense_s8.c": 5.9,  # more than 16 units of more than 32,767 codes, which test_dense.py has
    "edgetool_dense_vector_s8.c": 6.3,
    "edgetool_depthwise_3x3_s8.c": 5.4,  # outputs inside pixels of the input, which test_convolution.py has
    "edgetool_depthwise_vector_s8.c": 6.0,
    "edgetool_pool.h": 12.5,  # every window has a row inside the image, so that two loops never reach the other end
    "edgetool_rows.c": 9.6,  # tables of many operators and of moving scratch, which test_row_tables.py has
}


# Registers of Arm cores, which no build for this machine accesses.
FOR_TARGETS = {"edgetool_transfer.h"}


def _has_code(path: Path) -> bool:
    """Return whether a file defines functions, and not only includes another one; those of a header are static."""
    text = path.read_text(encoding="ascii")
    if path.name in FOR_TARGETS:
        return False
    return "{" in text if path.suffix == ".c" else re.search(r"^static .*\(", text, re.MULTILINE) is not None


def test_models_reach_the_branches_of_every_kernel() -> None:
    """The record is written by python -m benchmarks.native coverage --into."""
    covered = coverage.read()
    assert set(covered) == {path.name for path in KERNELS.iterdir() if _has_code(path)}
    missed = {name: 100 * (1 - kernel.share) for name, kernel in covered.items() if kernel.share < coverage.GOAL}
    assert missed.keys() == OPEN.keys()
    assert {name for name, percent in missed.items() if percent > OPEN[name]} == set()
    assert sum(kernel.total for kernel in covered.values()) > 600


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS, ids=["run", "bands"])
def test_rare_models_compute_what_tflm_computes(build: Build) -> None:
    assert differences(rare.defined(), build) == []


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS, ids=["run", "bands"])
def test_results_that_tflm_does_not_define_are_those_of_safe_accesses(build: Build, tmp_path: Path) -> None:
    """The sanitizers find nothing, and no output depends on what the arena contained before."""
    trials = rare.undefined()
    results = dict(zip(trials, run_group(list(trials.values()), tmp_path, 0, build), strict=True))
    assert {name: result for name, result in results.items() if isinstance(result, str)} == {}
