"""examples/firmware: its build converts the Keras model, does nothing twice, fails when it does not fit, and runs."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cmake.projects import PROGRAM, build, failed_build, needs, run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIRMWARE = EXAMPLES / "firmware"
MODEL = EXAMPLES / "keyword_spotting" / "keyword_spotting.h5"
CONVERTED = "edgetool convert: keyword_spotting for cortex-m7"


def configured(folder: Path, *arguments: str) -> Path:
    done = run("cmake", "-S", FIRMWARE, "-B", folder, f"-DEDGETOOL_EXECUTABLE={PROGRAM}", *arguments)
    assert done.returncode == 0, done.stdout
    return folder


@pytest.mark.slow
def test_the_build_converts_what_changed_and_the_plan_holds(tmp_path: Path) -> None:
    needs("arm-none-eabi-gcc")
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("needs the extra 'convert'")
    model = tmp_path / "model.h5"
    shutil.copy(MODEL, model)
    folder = configured(tmp_path / "build", f"-DMODEL={model}")
    assert CONVERTED in build(folder)
    assert "edgetool" not in build(folder)
    if shutil.which("qemu-system-arm"):
        ran = run("cmake", "--build", folder, "--target", "run")
        assert ran.returncode == 0, ran.stdout
        assert "11 tensors in 14000 bytes: none overwrites another" in ran.stdout
    model.touch()
    assert CONVERTED in build(folder)
    configured(folder, "-DSRAM=8KiB")
    assert "edgetool: error: model.h5: cortex-m7: the arena needs 18,688 bytes; sram has 8,192" in failed_build(folder)


@pytest.mark.slow
def test_a_tflite_builds_without_tensorflow(tmp_path: Path) -> None:
    needs("arm-none-eabi-gcc")
    folder = configured(tmp_path / "build", f"-DMODEL={MODEL.with_suffix('.tflite')}", "-DCALIBRATION=")
    assert CONVERTED in build(folder)
    size = subprocess.run(["arm-none-eabi-size", folder / "walk.elf"], capture_output=True, text=True, check=True)
    text, _, bss = (int(number) for number in size.stdout.splitlines()[1].split()[:3])
    assert text > 29_000, "the model is in flash"
    assert bss >= 14_000, "the arena is in RAM"
