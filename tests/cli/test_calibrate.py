"""edgetool calibrate as a user meets it, and its view."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest

from edgetool.cli.calibrate import calibrate_view
from edgetool.report.calibration import (
    CalibratedTiming,
    CalibrationInfo,
    CalibrationReport,
    DeviceInfo,
    MeasuredModel,
    MeasuredOperator,
)
from edgetool.report.document import FindingInfo, Provenance, TargetInfo
from tests.cli.program import edgetool
from tests.pipeline.device_logs import log_of, profile_lines

BOARD = ("--target", "nucleo-l4r5zi")


@pytest.fixture
def folder(tflite: Path, tmp_path: Path) -> Path:
    (tmp_path / "a=b.tflite").write_bytes(tflite.read_bytes())
    return tmp_path


def test_from_a_measurement_to_estimates_that_agree(folder: Path) -> None:
    arguments = ("calibrate", *BOARD, "--measured", "a=b.tflite=350us", "-o", "my-board.toml")
    shown = edgetool(*arguments, cwd=folder, COLUMNS="80")
    assert shown.returncode == 0, shown.stderr
    assert "wrote my-board.toml" in shown.stderr
    assert all(len(line) <= 80 and line.isascii() for line in shown.stdout.splitlines())
    reported = " ".join(shown.stdout.split())
    for words in ("nucleo-l4r5zi calibrated on 1 measurement", "CPI", "was", "--target my-board.toml", "350.0 us"):
        assert words in reported
    assert edgetool("targets", "validate", "my-board.toml", cwd=folder).returncode == 0
    document = json.loads(edgetool("estimate", "a=b.tflite", "-t", "my-board.toml", "--json", cwd=folder).stdout)
    assert document["estimate"]["latency_ms"]["value"] == pytest.approx(0.35, rel=1e-3)
    assert document["estimate"]["validation"] == "calibrated"
    assert "a=b.tflite 0.35 ms" in document["estimate"]["basis"]
    again = edgetool(*arguments, cwd=folder)
    assert (again.returncode, again.stdout, "--force" in again.stderr) == (2, "", True)
    forced = edgetool(*arguments, "--force", "-q", "--name", "other", cwd=folder)
    assert (forced.returncode, forced.stdout, forced.stderr) == (0, "", "")
    assert 'name = "other"' in (folder / "my-board.toml").read_text()


def test_the_document(folder: Path) -> None:
    arguments = ("calibrate", *BOARD, "--clock", "80MHz", "--measured", "a=b.tflite=0.5ms", "-o", "own.toml", "--json")
    done = edgetool(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "edgetool/1"
    assert document["provenance"]["options"]["clock_hz"] == 80_000_000
    found = document["calibration"]
    assert (found["profile"], found["extends"], found["kernels"]) == ("own", "nucleo-l4r5zi", "cmsis-nn")
    assert found["cpi_limits"][0] <= found["after"]["cpi"] <= found["cpi_limits"][1]
    (model,) = found["models"]
    assert (model["name"], model["measured_ms"]) == ("a=b.tflite", 0.5)
    assert model["after_ms"] == pytest.approx(0.5, rel=1e-3)
    assert str(folder) not in done.stdout


def test_from_a_log_to_a_profile(folder: Path) -> None:
    path = folder / "a=b.tflite"
    model = json.loads(edgetool("inspect", path, "--json").stdout)
    sha256, codes = model["model"]["sha256"], [item["operator"] for item in model["subgraphs"][0]["operators"]]
    ticks = 42_000 // len(codes)  # 350 us
    events = [(code, 0, ticks, ticks) for code in codes]
    (folder / "serial.txt").write_bytes(b"boot\n" + log_of(profile_lines(model="net", sha256=sha256, events=events)))
    arguments = ("calibrate", *BOARD, "--log", "serial.txt", "-o", "own.toml", "--force")
    lost = edgetool(*arguments, cwd=folder)
    assert (lost.returncode, lost.stdout) == (2, "")
    assert sha256 in lost.stderr
    assert "net.tflite" in lost.stderr
    shown = edgetool(*arguments, "a=b.tflite", cwd=folder, COLUMNS="80")
    assert shown.returncode == 0, shown.stderr
    reported = " ".join(shown.stdout.split())
    for words in (
        "calibrated on 1 measurement",
        "10 runs",
        "timed by dwt",
        "5,000 bytes used, but edgetool predicts",
        "measured",
    ):
        assert words in reported, words
    assert "the device uses 5,000 bytes of the arena" in reported  # the test's log says so
    (folder / "a=b.tflite").rename(folder / "net.tflite")
    document = json.loads(edgetool(*arguments, "--json", cwd=folder).stdout)
    (found,) = document["calibration"]["models"]
    assert found["device"]["arena_used_bytes"] == 5000
    assert [item["operator"] for item in found["operators"]] == codes
    assert document["findings"][0]["rule"] == "arena-differs"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a=b.tflite", "--measured", "a=b.tflite=1ms"), "without a log"),
        (("--log", "none.txt"), "none.txt: cannot be read"),
        (("--log", "a=b.tflite"), "contains no line"),
    ],
)
def test_invalid_logs_are_rejected(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    result = edgetool("calibrate", *BOARD, *arguments, "-o", "own.toml", cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not (folder / "own.toml").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--measured", "a=b.tflite=0ms"), "above 0"),
        (("--measured", "a=b.tflite=nanms"), "--measured"),
        (("--measured", "a=b.tflite=12"), "a time with a unit"),
        (("--measured", "a=b.tflite"), "--measured"),
        (("--measured", "a=b.tflite=350s"), "needs 1 to"),
        (("--measured", "a=b.tflite=1us"), "needs 1 to"),
        (("--measured", "a=b.tflite=350us", "--measured", "a=b.tflite=340us"), "same model"),
        (("--measured", "a=b.tflite=350us", "--name", "Not A Name"), "--name"),
        (("--measured", "none.tflite=350us"), "none.tflite"),
        ((), "--measured"),
    ],
)
def test_impossible_values_are_reported_in_one_line(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    result = edgetool("calibrate", *BOARD, *arguments, "-o", "own.toml", cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not (folder / "own.toml").exists()


@pytest.mark.parametrize("target", ["raspberry-pi-4", "cortex-m4", "nucleo-l4r5zj"])
def test_targets_that_cannot_be_calibrated(folder: Path, target: str) -> None:
    result = edgetool("calibrate", "-t", target, "--measured", "a=b.tflite=350us", "-o", "own.toml", cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert target in result.stderr


BEFORE = CalibratedTiming(1.54, 0.45, (0.85, 1.2), (0.7, 1.4), "calibrated", "others")
AFTER = CalibratedTiming(1.5295, 0.5239, (0.9, 1.1), (0.7, 1.4), "calibrated", "measured on this board: kws 99.8 ms")
INFO = CalibrationInfo(
    profile="mine",
    extends="nucleo-l4r5zi",
    kernels="cmsis-nn",
    clock_hz=120_000_000,
    cpi_limits=(1.0, 8.0),
    region="flash",
    before=BEFORE,
    after=AFTER,
    models=(
        MeasuredModel("kws.tflite", "0" * 64, 99.8, 98.28, 97.62, -0.0218),
        MeasuredModel("other " * 30 + ".tflite", "1" * 64, 0.35, None, 0.358, 0.024),
    ),
)


def view(info: CalibrationInfo, written: str = "x/mine.toml") -> list[str]:
    target = TargetInfo("nucleo-l4r5zi", "cortex-m4", "L4R5ZI", "tflm-2026-08", "cmsis-nn")
    lines = calibrate_view(CalibrationReport(Provenance("edgetool", {}, {}, False), target, info), Path(written))
    return [click.unstyle(line) for line in lines]


def test_the_view_shows_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = view(INFO)
    assert all(len(line) <= 80 for line in lines)
    reported = " ".join(" ".join(lines).split())
    for words in (
        "calibrated on 2 measurements",
        "1.53 (was 1.54) cycles per instruction (possible range: 1 to 8)",
        "0.524 (was 0.450) cycles per byte of constants in flash",
        "0.9 to 1.1 (was 0.85 to 1.2) times the estimate for a model",
        "0.7 to 1.4 times the estimate for an operator",
        "kws.tflite",
        "99.80 ms 98.28 ms 97.62 ms -2.2 %",
        "350.0 us - 358.0 us +2.4 %",
        "edgetool estimate MODEL --target x/mine.toml",
    ):
        assert words in reported, words


def test_the_view_of_native_code_names_the_runtime() -> None:
    assert view(INFO)[-1].endswith("--target x/mine.toml")
    assert view(replace(INFO, kernels="native"))[-1].endswith("--target x/mine.toml --runtime native")


def test_the_view_of_a_target_without_a_timing_before() -> None:
    reported = " ".join(" ".join(view(replace(INFO, before=None, region=None))).split())
    assert "was" not in reported
    assert "Stall" not in reported
    assert "1.53 cycles per instruction" in reported


@pytest.mark.parametrize(
    ("written", "argument"), [("x/mine", "x/mine"), ("mine", "./mine"), ("my board.toml", "'my board.toml'")]
)
def test_the_view_shows_a_target_that_the_command_line_accepts(written: str, argument: str) -> None:
    assert view(INFO, written)[-1].endswith(f"--target {argument}")


def test_no_deviation_is_shown_without_a_sign() -> None:
    models = (replace(INFO.models[0], residual=-3.1e-5),)
    assert any(line.endswith("+0.0 %") for line in view(replace(INFO, models=models)))


def test_the_view_shows_doubtful_measurements() -> None:
    finding = FindingInfo("measurements-disagree", "warning", "the measurements hardly agree", "kws.tflite")
    target = TargetInfo("nucleo-l4r5zi", "cortex-m4", "L4R5ZI", "tflm-2026-08", "cmsis-nn")
    report = CalibrationReport(Provenance("edgetool", {}, {}, False), target, INFO, (finding,))
    reported = click.unstyle(" ".join(" ".join(calibrate_view(report, Path("mine.toml"))).split()))
    assert "kws.tflite: the measurements hardly agree" in reported


DEVICE = DeviceInfo("serial.txt", "dwt", 10, 99.7, 99.9, 18676, 18676)
OPERATORS = (
    MeasuredOperator(0, "CONV_2D", 60.0, 40.0, 1.5),
    MeasuredOperator(1, "WHILE", 30.0, None, None),
    *(MeasuredOperator(index, "ADD", 1.0 + index / 100, 1.0, 1.0 + index / 100) for index in range(2, 8)),
)


def test_the_view_shows_the_operators_with_the_largest_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    info = replace(INFO, models=(replace(INFO.models[0], device=DEVICE, operators=OPERATORS), INFO.models[1]))
    lines = view(info)
    reported = " ".join(" ".join(lines).split())
    assert "kws.tflite: 10 runs, 99.70 ms to 99.90 ms, timed by dwt" in reported
    assert "18,676 bytes used, as edgetool predicts" in reported
    assert [line.split()[0] for line in lines if "CONV_2D" in line or "ADD" in line] == ["0", "7", "6", "5", "4"]
    assert "0 CONV_2D 60.0 ms 40.0 ms 1.50" in reported
    assert "and 3 more with smaller deviations (-v shows all)" in reported
    target = TargetInfo("nucleo-l4r5zi", "cortex-m4", "L4R5ZI", "tflm-2026-08", "cmsis-nn")
    report = CalibrationReport(Provenance("edgetool", {}, {}, False), target, info)
    every = " ".join(" ".join(calibrate_view(report, Path("own.toml"), every_operator=True)).split())
    assert "1 WHILE 30.0 ms - -" in every
    assert "more with smaller deviations" not in every


@pytest.mark.parametrize(
    ("account", "words"),
    [(None, "not compared: edgetool has no exact figure"), (18000, "but edgetool predicts 18,000")],
)
def test_the_view_compares_the_arena(account: int | None, words: str) -> None:
    device = replace(DEVICE, account_used_bytes=account)
    assert words in " ".join(" ".join(view(replace(INFO, models=(replace(INFO.models[0], device=device),)))).split())
