"""Calibration on what a device printed: models are found by their hashes, and the log is held against the target."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edgetool.codegen.c_names import model_macro
from edgetool.errors import CalibrationError, EdgetoolError, UsageError
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.calibrate import calibrate_target
from edgetool.pipeline.estimate import estimate_file
from edgetool.pipeline.targets import resolve_target
from edgetool.report.calibration import CalibrationReport, DeviceInfo
from edgetool.target.platform import platform_of
from tests.model.builders import chain_model, dense_model, if_model
from tests.pipeline.device_logs import log_of, profile_lines

BOARD = "nucleo-l4r5zi"
CLOCK = 120_000_000


def sha256_of(model: Model) -> str:
    return hashlib.sha256(write_model(model)).hexdigest()


def used_bytes(model: Model, target: str = BOARD) -> int:
    account = plan_memory(model, platform_of(resolve_target(target)), request=PlanRequest(file_plan="only")).account
    assert account is not None
    return account.used_bytes


def device_lines(path: Path, model: Model, /, *, factor: float = 1.2, **figures: Any) -> list[str]:
    """What the board would print if each operator took `factor` times what is estimated."""
    (made,) = estimate_file(path, [resolve_target(BOARD)])
    assert made.estimate is not None
    main = [item for item in made.estimate.operators if item.subgraph == 0]
    ticks = [round(factor * item.ms.value * CLOCK / 1e3) for item in main]
    events = [(item.operator, 0, count, count) for item, count in zip(main, ticks, strict=True)]
    total = (sum(ticks),) * 3
    given = {
        "model": path.stem,
        "sha256": sha256_of(model),
        "events": events,
        "total": total,
        "used": used_bytes(model),
    }
    return profile_lines(**{**given, **figures})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "chain.tflite").write_bytes(write_model(chain_model(6)))
    (tmp_path / "dense.tflite").write_bytes(write_model(dense_model()))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def calibrated(folder: Path, *profiles: Sequence[str], **options: Any) -> CalibrationReport:
    log = folder / "serial.txt"
    log.write_bytes(b"boot\r\n" + log_of(*profiles))
    given: dict[str, Any] = {"target_name": BOARD, "measurements": [], "logs": [log], **options}
    return calibrate_target(**given, output=folder / "own.toml", force=True)


def rules(report: CalibrationReport) -> list[tuple[str, str]]:
    return [(item.rule, item.level) for item in report.findings]


def test_a_log_is_a_measurement_of_the_model_that_it_names(folder: Path) -> None:
    chain = folder / "chain.tflite"
    report = calibrated(folder, device_lines(chain, chain_model(6)))
    (model,) = report.calibration.models
    (before,) = estimate_file(chain, [resolve_target(BOARD)])
    assert before.estimate is not None
    assert before.estimate.latency_ms is not None
    assert (model.name, model.sha256) == ("chain.tflite", sha256_of(chain_model(6)))
    assert model.measured_ms == pytest.approx(1.2 * before.estimate.latency_ms.value, rel=1e-3)
    assert model.device == DeviceInfo(
        log="serial.txt",
        counter="dwt",
        runs=10,
        min_ms=model.measured_ms,
        max_ms=model.measured_ms,
        arena_used_bytes=used_bytes(chain_model(6)),
        account_used_bytes=used_bytes(chain_model(6)),
    )
    assert rules(report) == []
    assert report.provenance.options["logs"] == ["serial.txt"]
    (after,) = estimate_file(chain, [resolve_target(str(folder / "own.toml"))])
    assert after.estimate is not None
    assert [(o.index, o.operator) for o in model.operators] == [(o.index, o.operator) for o in after.estimate.operators]
    for operator, estimate, was in zip(
        model.operators, after.estimate.operators, before.estimate.operators, strict=True
    ):
        assert operator.estimated_ms == pytest.approx(estimate.ms.value)
        assert operator.measured_ms == pytest.approx(1.2 * was.ms.value, abs=1e3 / CLOCK)
        assert operator.ratio == pytest.approx(operator.measured_ms / estimate.ms.value)


def test_logs_and_times_go_together(folder: Path) -> None:
    chain, dense = folder / "chain.tflite", folder / "dense.tflite"
    (made,) = estimate_file(dense, [resolve_target(BOARD)])
    assert made.estimate is not None
    assert made.estimate.latency_ms is not None
    lines = device_lines(chain, chain_model(6))
    report = calibrated(folder, lines, measurements=[(dense, 1.2 * made.estimate.latency_ms.value)])
    assert [(item.name, item.device is None) for item in report.calibration.models] == [
        ("dense.tflite", True),
        ("chain.tflite", False),
    ]
    with pytest.raises(UsageError, match="is the same model as"):
        calibrated(folder, lines, measurements=[(chain, 0.1)])


def test_the_last_of_several_logs_counts(folder: Path) -> None:
    chain = folder / "chain.tflite"
    first, last = folder / "first.txt", folder / "last.txt"
    first.write_bytes(log_of(device_lines(chain, chain_model(6), factor=1.4)))
    last.write_bytes(log_of(device_lines(chain, chain_model(6), factor=1.1)))
    report = calibrate_target(BOARD, [], output=folder / "own.toml", logs=[first, last])
    (model,) = report.calibration.models
    assert model.before_ms is not None
    assert model.measured_ms == pytest.approx(1.1 * model.before_ms, rel=1e-3)
    assert rules(report) == [("log", "note")]


@pytest.mark.parametrize("place", ["chain.tflite", "chain-firmware/chain.tflite", "elsewhere/chain.tflite"])
def test_a_model_is_found_beside_the_log_and_here(folder: Path, place: str) -> None:
    lines = device_lines(folder / "chain.tflite", chain_model(6))
    blob = (folder / "chain.tflite").read_bytes()
    (folder / "chain.tflite").write_bytes(b"of that name, and no model")
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).write_bytes(blob)
    assert calibrated(folder, lines).calibration.models[0].sha256 == sha256_of(chain_model(6))


def test_a_model_may_be_named(folder: Path) -> None:
    lines = device_lines(folder / "chain.tflite", chain_model(6))
    (folder / "chain.tflite").rename(folder / "another name.tflite")
    with pytest.raises(UsageError) as caught:
        calibrated(folder, lines)
    for words in (sha256_of(chain_model(6)), "chain.tflite", "chain-firmware", "serial.txt: line 2"):
        assert words in str(caught.value)
    report = calibrated(folder, lines, models=[folder / "another name.tflite"])
    assert report.calibration.models[0].name == "another name.tflite"
    with pytest.raises(UsageError, match=f"no profile there has its SHA-256, {sha256_of(dense_model())}"):
        calibrated(folder, lines, models=[folder / "another name.tflite", folder / "dense.tflite"])


def test_a_name_in_a_log_is_no_path(folder: Path) -> None:
    lines = device_lines(folder / "chain.tflite", chain_model(6), model="../chain")
    (folder / "elsewhere" / "serial.txt").write_bytes(log_of(lines))
    with pytest.raises(UsageError, match=r"no matching \.\./chain\.tflite was found next to"):
        calibrated(folder, lines, logs=[folder / "elsewhere" / "serial.txt"])


def test_the_clock_is_the_logs_unless_it_is_given(folder: Path) -> None:
    chain = folder / "chain.tflite"
    (model,) = calibrated(folder, device_lines(chain, chain_model(6))).calibration.models
    slow = device_lines(chain, chain_model(6), hz=60_000_000)
    report = calibrated(folder, slow)
    assert rules(report) == [("clock-of-log", "note")]
    assert report.calibration.clock_hz == resolve_target(str(folder / "own.toml")).clock_hz == 60_000_000
    assert report.calibration.models[0].measured_ms == pytest.approx(2 * model.measured_ms)
    # The cycles are what was counted: at the user's clock they take as long as that says.
    report = calibrated(folder, slow, overrides={"clock": 80_000_000})
    assert report.calibration.models[0].measured_ms == pytest.approx(1.5 * model.measured_ms)
    # What a timer counted took as long as it says, whatever the clock of the core.
    timed = device_lines(chain, chain_model(6), source="own", hz=CLOCK, clock_hz=100_000_000)
    assert calibrated(folder, timed).calibration.models[0].measured_ms == pytest.approx(model.measured_ms)
    unknown = device_lines(chain, chain_model(6), hz=0)
    assert calibrated(folder, unknown).calibration.models[0].measured_ms == pytest.approx(model.measured_ms)
    other = device_lines(folder / "dense.tflite", dense_model(), hz=80_000_000)
    with pytest.raises(UsageError, match="the logs were recorded at different clocks: 60 MHz and 80 MHz"):
        calibrated(folder, slow, other)


def test_control_flow_has_no_estimate_of_its_own(tmp_path: Path) -> None:
    model, path = if_model(), tmp_path / "branch.tflite"
    path.write_bytes(write_model(model))
    (made,) = estimate_file(path, [resolve_target(BOARD)])
    assert made.estimate is not None
    assert made.estimate.cycles is not None
    ticks = made.estimate.cycles
    events = [("IF", 0, ticks, ticks), ("ABS", 1, ticks // 2, ticks // 2)]
    report = calibrated(tmp_path, device_lines(path, model, events=events, total=(ticks,) * 3))
    assert rules(report) == [("work-depends-on-data", "warning")]
    (measured,) = report.calibration.models
    (operator,) = measured.operators
    assert (operator.operator, operator.estimated_ms, operator.ratio) == ("IF", None, None)
    assert operator.measured_ms == measured.measured_ms


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"used": 12}, [("arena-differs", "error")]),
        ({"used": 12, "shared": 1}, []),
        ({"runtime": "tflm-2030-01"}, [("runtime-differs", "warning")]),
        ({"core": "unspecified", "kernels": "unspecified", "runtime": "-"}, []),
        ({"varies": 1}, [("operators-not-compared", "note")]),
        ({"dropped": 3}, [("operators-not-compared", "note")]),
        ({"events": [("ADD", 0, 1, 1)]}, [("operators-not-compared", "note")]),
    ],
)
def test_what_is_doubtful_is_told(folder: Path, figures: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    report = calibrated(folder, device_lines(folder / "chain.tflite", chain_model(6), **figures))
    assert rules(report) == expected
    (model,) = report.calibration.models
    assert bool(model.operators) is all(rule != "operators-not-compared" for rule, _ in expected)
    assert model.device is not None
    assert (model.device.account_used_bytes is None) is ("shared" in figures)


def test_runs_that_differ_are_told(folder: Path) -> None:
    lines = device_lines(folder / "chain.tflite", chain_model(6))
    total = int(lines[-4].split("mean=")[1].split()[0])
    lines = device_lines(folder / "chain.tflite", chain_model(6), total=(total, total, total * 6 // 5))
    assert rules(calibrated(folder, lines)) == [("runs-differ", "warning")]


def test_a_macro_to_define_is_called_as_in_the_firmware(folder: Path) -> None:
    path = folder / "eof.tflite"  # EOF is a macro of C
    path.write_bytes((folder / "chain.tflite").read_bytes())
    with pytest.raises(CalibrationError, match=rf"with {model_macro('eof')}_PROFILE_TICKS\(\)"):
        calibrated(folder, device_lines(path, chain_model(6), events=[], total=(0, 0, 0)))


@pytest.mark.parametrize(
    ("kind", "words", "figures"),
    [
        (CalibrationError, "did not advance", {"events": [], "total": (0, 0, 0)}),
        (CalibrationError, "CHAIN_PROFILE_TICKS()", {"events": [], "total": (0, 0, 0)}),
        (CalibrationError, "overflowed 3 times", {"overflows": 3}),
        (CalibrationError, "rate of the counter (tflm) is unknown", {"source": "tflm", "hz": 0, "clock_hz": CLOCK}),
        (UsageError, "built for cortex-m7, but nucleo-l4r5zi has a cortex-m4", {"core": "cortex-m7"}),
        (UsageError, "--kernels reference", {"kernels": "reference"}),
        (UsageError, "nothing|needs 1 to", {"total": (10**12,) * 3}),
    ],
)
def test_what_measures_nothing_is_refused(
    folder: Path, kind: type[EdgetoolError], words: str, figures: dict[str, Any]
) -> None:
    with pytest.raises(kind) as caught:
        calibrated(folder, device_lines(folder / "chain.tflite", chain_model(6), **figures))
    assert any(word in str(caught.value) for word in words.split("|"))
    assert not (folder / "own.toml").exists()
