"""Native code executes fewer instructions than TFLM: what was counted, and one model as it is counted today."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from benchmarks.native import speed

from edgetool.execute.cores import MACHINES

MODELS = {
    *("kws_ref_model", "vww_96_int8", "pretrainedResnet_quant", "ad01_int8"),
    *("person_detect", "tinyengine_vww", "mobilenet_v2_035_96"),
}
# The largest geometric mean of the ratios by core, and the largest ratio: of TFLM with CMSIS-NN, or on RISC-V with its
# reference kernels.
LIMITS = {
    "cortex-m0plus": (0.60, 0.75),
    "cortex-m3": (0.60, 0.75),
    "cortex-m4": (0.39, 0.58),
    "cortex-m7": (0.39, 0.58),
    "cortex-m55": (0.45, 0.63),
    "riscv32": (0.35, 0.40),
}
# The same for the smallest plans of rows, compared with the fastest ones of tensors; the mean with 10 % more memory.
ROW_LIMITS = {"cortex-m4": (1.05, 1.20, 1.03), "cortex-m7": (1.05, 1.20, 1.03), "cortex-m55": (1.08, 1.20, 1.05)}
KWS = "data/models/mlperf/kws_ref_model.tflite"


def test_native_code_executes_a_fraction_of_the_instructions_of_tflm() -> None:
    found = speed.read_models()
    assert {(item.model, item.core) for item in found} == {(model, core) for model in MODELS for core in LIMITS}
    tflm = speed.tflm_counts()
    assert all(tflm[item.sha256, item.core] == (item.kernels, item.tflm) for item in found)
    for core, (mean, largest) in speed.summary(found).items():
        assert (mean <= LIMITS[core][0], largest <= LIMITS[core][1]) == (True, True), (core, mean, largest)


def test_operators_are_counted_by_rows_per_call() -> None:
    found = speed.read_operators()
    for core in LIMITS.keys() - {"riscv32"}:
        rows = [item for item in found if item.core == core]
        assert {item.rows for item in rows} == set(speed.BANDS)
        whole = [item.ratio for item in rows if item.rows == speed.ALL]
        assert speed.geometric_mean(whole) <= 0.65, core
        assert max(whole) <= 1, core


def test_the_smallest_plans_of_rows_take_little_more_time_than_tensors() -> None:
    found = speed.read_row_speeds()
    for core, (mean, largest, roomier) in ROW_LIMITS.items():
        plans: dict[str, list[speed.RowSpeed]] = {}
        for item in found:
            if item.core == core:
                plans.setdefault(item.sha256, []).append(item)
        smallest = [min(items, key=lambda item: item.arena_bytes) for items in plans.values()]
        ratios = [item.ratio for item in smallest if item.by_rows]
        assert len(ratios) >= len(MODELS) - 1, core
        assert (speed.geometric_mean(ratios) <= mean, max(ratios) <= largest) == (True, True), core
        limits = [1.1 * item.arena_bytes for item in smallest]
        fastest = [
            min(item.ratio for item in items if item.arena_bytes <= limit)
            for items, limit in zip(plans.values(), limits, strict=True)
        ]
        assert speed.geometric_mean(fastest) <= roomier, core
        # The last plan has whole tensors and the fastest kernels.
        assert all(items[-1].ratio == 1 and not items[-1].by_rows for items in plans.values())


@pytest.mark.slow
@pytest.mark.parametrize("core", ["cortex-m7", "cortex-m55"])
def test_the_count_is_that_of_today(core: str, shared: Path) -> None:
    if missing := MACHINES[core].missing_tools:
        pytest.skip(f"{missing[0]} is not installed")
    path = shared / KWS
    (counted,) = speed.model_speeds([path], [core])
    assert counted.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    (recorded,) = [item for item in speed.read_models() if (item.sha256, item.core) == (counted.sha256, core)]
    # Another version of the compiler counts a little differently.
    assert counted.native == pytest.approx(recorded.native, rel=0.03)
