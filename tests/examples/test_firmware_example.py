"""examples/firmware: its build converts the models, does nothing twice, fails when one does not fit, and runs.

The native program has the scores of TFLM, and the samples are what the script makes.
"""

from __future__ import annotations

import importlib.util
import re
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
    assert build(folder).count(CONVERTED) == 2
    assert "edgetool convert" not in build(folder)
    if shutil.which("qemu-system-arm"):
        ran = run("cmake", "--build", folder, "--target", "run")
        assert ran.returncode == 0, ran.stdout
        assert "11 tensors in 14000 bytes: none overwrites another that is needed" in ran.stdout
    model.touch()
    assert build(folder).count(CONVERTED) == 1
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


@pytest.mark.slow
def test_native_code_has_the_scores_of_tflm_on_the_core(tmp_path: Path) -> None:
    needs("arm-none-eabi-gcc", "qemu-system-arm")
    ran = run("cmake", "--build", configured(tmp_path), "--target", "run_native")
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.count(CONVERTED) == 1, "walk, which needs TensorFlow, is not built"
    assert "6 of 6 samples have the scores of TFLM" in ran.stdout
    for label in ("silence", "ai", "ia", "ou"):
        assert re.search(rf"^{label}:.* {label} 100 %", ran.stdout, re.MULTILINE)
    figures = re.search(r"arena ([\d]+) bytes, constants (\d+) bytes, stack of an inference (\d+) bytes", ran.stdout)
    assert figures is not None
    arena, constants, stack = map(int, figures.groups())
    header = (tmp_path / "edgetool/spot/keyword_spotting/keyword_spotting.h").read_text(encoding="ascii")
    assert arena < 14_000
    assert constants < MODEL.with_suffix(".tflite").stat().st_size
    (bound,) = re.findall(r"(\d+) bytes   arm-none-eabi-gcc [\d.]+ -Os, cortex-m7", header)
    assert 0 < stack <= int(bound)
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert f"an arena of {arena:,} bytes, {constants:,} bytes of constants" in " ".join(text.split())


def test_the_samples_are_what_the_script_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tflite_micro")
    spec = importlib.util.spec_from_file_location("make_samples", FIRMWARE / "make_samples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "HERE", tmp_path)
    module.main()
    assert (tmp_path / "spot_samples.h").read_bytes() == (FIRMWARE / "spot_samples.h").read_bytes()
