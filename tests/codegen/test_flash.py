"""The flash of emitted firmware with type-specific kernels, as measured by python -m benchmarks.flash."""

from __future__ import annotations

from pathlib import Path

from benchmarks.flash.measure import CORE, KERNELS, MEASURED, Row, read, write
from benchmarks.flash.program import CXX_FLAGS, KERNEL_FLAGS, LINK_FLAGS

from edgetool.execute.cores import MACHINES
from edgetool.pipeline.source import open_tflite
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime, load_target
from tests.pipeline.test_firmware import functions_of

KB = 1024
# Code, constants and initial values without the model.
LIMITS = {
    "kws_ref_model": 72 * KB,
    "vww_96_int8": 72 * KB,
    "pretrainedResnet_quant": 69 * KB,
    "ad01_int8": 40 * KB,
}
CONDITIONS, ROWS = read()
FLASH = {(row.model, row.registrations): row.flash_bytes for row in ROWS}


def test_the_flash_is_within_its_limits() -> None:
    assert {model for model, _ in FLASH} == set(LIMITS)
    assert {model: limit for model, limit in LIMITS.items() if not 0 < FLASH[model, "typed"] <= limit} == {}


def test_kernels_for_int8_save_flash_and_compute_the_same() -> None:
    assert [row for row in ROWS if row.outputs != "equal"] == []
    saved = {model: FLASH[model, "general"] - FLASH[model, "typed"] for model in LIMITS}
    assert saved.pop("ad01_int8") > 4 * KB  # a model of FULLY_CONNECTED only
    assert min(saved.values()) > 27 * KB


def test_it_was_measured_with_the_snapshot_that_the_emitter_describes() -> None:
    runtime = load_runtime(DEFAULT_RUNTIME)
    assert CONDITIONS["tflm"] == runtime.tflm_commit
    assert CONDITIONS["cmsis-nn"] == runtime.cmsis_nn_commit
    assert CONDITIONS["cpu"] == " ".join(MACHINES[CORE].flags)
    assert CONDITIONS["emitted"] == " ".join((*CXX_FLAGS, *KERNEL_FLAGS[KERNELS]))
    assert CONDITIONS["link"] == " ".join(LINK_FLAGS)
    assert load_target(CORE).kernels == "cmsis-nn"


def test_the_functions_are_those_that_are_emitted_now(shared: Path) -> None:
    for row in ROWS:
        source = open_tflite(shared / "data" / "models" / "mlperf" / f"{row.model}.tflite")
        functions = [function for function in functions_of(source.model).values() if function is not None]
        assert source.sha256 == row.sha256
        assert row.functions == ("" if row.registrations == "general" else " ".join(functions))


def test_a_table_is_read_as_it_is_written(tmp_path: Path) -> None:
    row = Row("m", "0" * 64, "typed", "Register_A Register_B", 1, 2, "equal")
    write(tmp_path / "table.csv", {"cpu": "a: b"}, [row])
    assert read(tmp_path / "table.csv") == ({"cpu": "a: b"}, [row])
    assert MEASURED.read_text(encoding="ascii").startswith("# tflm: ")
