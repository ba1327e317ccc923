"""The main job, end to end: Keras files to firmware files, held against both runtimes and the C compiler."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import run_model
from edgetool.model.reader import read_model

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("needs the extra 'convert'", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "keyword_spotting"
REAL = ["ad01.h5", "pretrainedResnet.h5", "vww_96.h5"]


def convert(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgetool", "convert", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env=dict(os.environ, **environment),
    )


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    output = tmp_path_factory.mktemp("with a space") / "out"
    result = convert(
        EXAMPLE / "keyword_spotting.h5", "--target", "nucleo-l4r5zi", "--calibration", EXAMPLE / "calibration.npz",
        "--evaluate", EXAMPLE / "evaluation.npz", "-o", output,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return output, result.stdout


def report_of(output: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(next(output.glob("*.json")).read_text())
    return report


def test_all_files_appear_and_the_report_says_what_they_are(example: tuple[Path, str]) -> None:
    output, stdout = example
    names = {path.name for path in output.iterdir()}
    ends = (".tflite", ".h", ".json", "_model.c", "_model.h", "_ops.h", "_runner.h", "_runner.cc")
    assert names == {"main.cc", *(f"keyword_spotting{end}" for end in ends)}
    report = report_of(output)
    assert report["quantization"]["calibrated"] is True
    assert report["quantization"]["outputs"][0]["sqnr_db"] > 15
    assert report["quantization"]["outputs"][0]["top1_agreement"] > 0.9
    assert report["quantization"]["accuracy"]["quantized"] > 0.9
    assert report["model"]["output"]["bytes"] == (output / "keyword_spotting.tflite").stat().st_size
    assert report["arena"]["is_lower_bound"] is False
    assert report["arena"]["used_bytes"] <= report["arena"]["bytes"] <= report["arena"]["stock_bytes"]
    assert (report["memory"]["arena_fits"], report["memory"]["model_fits"]) == (True, True)
    assert f"_ARENA_BYTES {report['arena']['bytes']}\n" in (output / "keyword_spotting.h").read_text()
    for word in ("Fits", "Arena", "Model", "Inference", "Accuracy", "Wrote"):
        assert word in stdout
    assert all(len(line) <= 100 for line in stdout.splitlines())


def test_the_model_carries_the_layout_and_gives_the_same_results_with_it(example: tuple[Path, str]) -> None:
    pytest.importorskip("tflite_micro", reason="needs the extra 'verify'")
    output, _ = example
    planned = (output / "keyword_spotting.tflite").read_bytes()
    model = read_model(planned)
    assert "OfflineMemoryAllocation" in {entry.name for entry in model.metadata}
    unplanned_dir = output.parent / "unplanned"
    arguments = ("--target", "nucleo-l4r5zi", "--no-offline-plan", "-o", unplanned_dir)
    assert (
        convert(EXAMPLE / "keyword_spotting.h5", *arguments, "--calibration", EXAMPLE / "calibration.npz").returncode
        == 0
    )
    unplanned = (unplanned_dir / "keyword_spotting.tflite").read_bytes()
    assert "OfflineMemoryAllocation" not in {entry.name for entry in read_model(unplanned).metadata}
    inputs = random_inputs(model, 100, seed=7)
    for engine in ("litert-reference", "tflm"):
        with_plan = run_model(planned, inputs, engine=engine)  # type: ignore[arg-type]
        without = run_model(unplanned, inputs, engine=engine)  # type: ignore[arg-type]
        assert all(np.array_equal(a, b) for a, b in zip(with_plan, without, strict=True))


@pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("g++") is None, reason="needs gcc and g++")
def test_header_and_data_compile_and_stop_compiling_below_the_limit(example: tuple[Path, str]) -> None:
    output, _ = example
    flags = (
        "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual -Wmissing-declarations"
    )
    for compiler, standard in (("gcc", "c99"), ("gcc", "c11"), ("g++", "c++11"), ("g++", "c++20")):
        for name in ("keyword_spotting.h", "keyword_spotting_model.c"):
            kind = "c++" if compiler == "g++" else "c"
            command = [
                compiler,
                f"-std={standard}",
                *flags.split(),
                "-Werror",
                "-x",
                kind,
                "-fsyntax-only",
                output / name,
            ]
            result = subprocess.run(command, capture_output=True, text=True)
            assert result.returncode == 0, result.stderr
    least = report_of(output)["arena"]["bytes"]
    for limit, fits in ((least, True), (least - 16, False)):
        define = f"-DKEYWORD_SPOTTING_SRAM_LIMIT_BYTES={limit}"
        command = ["gcc", "-std=c99", define, "-fsyntax-only", "-x", "c", str(output / "keyword_spotting.h")]
        assert (subprocess.run(command, capture_output=True).returncode == 0) is fits


def test_without_calibration_everything_says_so_loudly(tmp_path: Path) -> None:
    result = convert(
        EXAMPLE / "keyword_spotting.h5", "--target", "cortex-m4", "-o", tmp_path / "out", "--samples", "10"
    )
    assert result.returncode == 0, result.stderr
    assert "UNCALIBRATED" in result.stdout
    assert report_of(tmp_path / "out")["quantization"]["calibrated"] is False
    assert "uncalibrated" in {finding["rule"] for finding in report_of(tmp_path / "out")["findings"]}
    header = (tmp_path / "out" / "keyword_spotting.h").read_text()
    assert "#define KEYWORD_SPOTTING_UNCALIBRATED 1" in header
    again = convert(EXAMPLE / "keyword_spotting.h5", "--target", "cortex-m4", "-o", tmp_path / "2", "--samples", "10")
    assert again.returncode == 0
    for path in (tmp_path / "out").iterdir():
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes(), path.name


@pytest.mark.parametrize("name", REAL)
def test_real_files_convert_and_run_in_both_runtimes(shared: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("tflite_micro", reason="needs the extra 'verify'")
    result = convert(shared / "data" / "models" / "mlperf" / name, "--target", "cortex-m7", "-o", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    tflite = next((tmp_path / "out").glob("*.tflite")).read_bytes()
    model = read_model(tflite)
    main = model.main
    assert [main.tensors[i].dtype.name for i in (*main.inputs, *main.outputs)] == ["INT8", "INT8"]
    assert not {op.code for op in main.operators} & {"SHAPE", "STRIDED_SLICE", "PACK", "QUANTIZE", "DEQUANTIZE"}
    inputs = random_inputs(model, 100, seed=1)
    litert = run_model(tflite, inputs, engine="litert-reference")
    tflm = run_model(tflite, inputs, engine="tflm")
    difference = max(int(np.abs(a.astype(int) - b.astype(int)).max()) for a, b in zip(litert, tflm, strict=True))
    print(f"{name}: largest difference {difference}")
    assert difference <= 16


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for children in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_leaves_nothing(tmp_path: Path, number: int) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "edgetool", "convert", str(EXAMPLE / "keyword_spotting.h5"), "-t", "cortex-m7"]
    process = subprocess.Popen(
        [*command, "-o", str(tmp_path / "out")],
        env=dict(os.environ, TMPDIR=str(temporary)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not children_in(temporary):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(number)
    time.sleep(0.005)
    process.send_signal(number)  # an impatient user, while the first is being obeyed
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, "")
    assert len(stderr.strip().splitlines()) == 1
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "out").exists()
    assert not children_in(temporary)


def children_in(folder: Path) -> list[str]:
    """The processes that were started on a directory inside the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in line and "worker" in line:
            found.append(line)
    return found
