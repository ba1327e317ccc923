"""Calibration of files: the written profile loads, says what it was calibrated on, and gives the measured time back.

Profiles as text: what is written loads as it was meant.

Calibration on what a device printed: models are found by their hashes, and the log is held against the target.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.codegen.c_names import model_macro
from edgetool.errors import CalibrationError, EdgetoolError, InternalError, OutputError, TargetError, UsageError
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.calibrate import calibrate_target, profile_text
from edgetool.pipeline.estimate import estimate_file
from edgetool.pipeline.native import native_model
from edgetool.pipeline.source import open_tflite
from edgetool.pipeline.targets import resolve_target
from edgetool.report.calibration import CalibrationReport, DeviceInfo
from edgetool.target.load import list_boards, load_target, parse_target, validate_target
from edgetool.target.platform import platform_of
from edgetool.target.types import Power, Target, Timing
from tests.conftest import examples
from tests.model.builders import Builder, chain_model, dense_model, if_model
from tests.pipeline.device_logs import log_of, profile_lines

BOARD = "nucleo-l4r5zi"


def wide_model() -> Model:
    """Most of its time waits for weights."""
    build = Builder(seed=5)
    x = build.activation([1, 400])
    return build.model([x], [build.dense(x, 64)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "chain.tflite").write_bytes(write_model(chain_model(6)))
    (tmp_path / "dense.tflite").write_bytes(write_model(dense_model()))
    (tmp_path / "wide.tflite").write_bytes(write_model(wide_model()))
    return tmp_path


def estimated_ms(path: Path, target: str, **overrides: Any) -> float:
    (made,) = estimate_file(path, [resolve_target(target).with_overrides(**overrides)])
    assert made.estimate is not None
    assert made.estimate.latency_ms is not None
    return made.estimate.latency_ms.value


def test_one_measurement_is_reproduced(folder: Path) -> None:
    before = estimated_ms(folder / "chain.tflite", BOARD)
    own = folder / "my-board.toml"
    report = calibrate_target(BOARD, [(folder / "chain.tflite", 1.2 * before)], output=own)
    found = report.calibration
    assert estimated_ms(folder / "chain.tflite", str(own)) == pytest.approx(1.2 * before, rel=1e-3)
    (measured,) = found.models
    assert measured.before_ms == pytest.approx(before)
    assert measured.after_ms == pytest.approx(measured.measured_ms, rel=1e-3)
    assert abs(measured.residual) < 1e-3
    assert found.before is not None
    assert found.before.cpi < found.after.cpi < 1.3 * found.before.cpi
    assert found.after.stall_cycles_per_byte == found.before.stall_cycles_per_byte
    assert (found.profile, found.extends, found.after.status) == ("my-board", BOARD, "calibrated")


def test_the_profile_says_what_it_was_calibrated_on(folder: Path) -> None:
    own = folder / "Mein Board.toml"
    calibrate_target(BOARD, [(folder / "chain.tflite", 0.12), (folder / "dense.tflite", 0.018)], output=own)
    text = own.read_text()
    table = tomllib.loads(text)
    assert (table["name"], table["extends"]) == ("mein-board", BOARD)
    (timing,) = table["timing"]
    assert timing["status"] == "calibrated"
    assert "chain.tflite 0.12 ms, dense.tflite " in timing["basis"]
    assert "# Measured: chain.tflite 0.12 ms" in text
    low, high = timing["band"]
    assert low < 1 < high
    loaded = resolve_target(str(own))
    assert loaded.board == load_target(BOARD).board
    assert loaded.regions[0] == load_target(BOARD).regions[0]


def test_several_measurements_determine_the_stall(folder: Path) -> None:
    slow = 'name = "slow"\nextends = "nucleo-l4r5zi"\n[[region]]\nname = "flash"\nstall_cycles_per_byte = 3.0\n'
    (folder / "slow.toml").write_text(slow)
    times = [(path, estimated_ms(path, str(folder / "slow.toml"))) for path in sorted(folder.glob("*.tflite"))]
    own = folder / "own.toml"
    found = calibrate_target(BOARD, times, output=own).calibration
    assert found.before is not None
    assert found.before.stall_cycles_per_byte is not None
    assert found.after.stall_cycles_per_byte is not None
    assert found.after.stall_cycles_per_byte > found.before.stall_cycles_per_byte
    before = max(abs(model.before_ms / model.measured_ms - 1) for model in found.models if model.before_ms)
    assert max(abs(model.residual) for model in found.models) < before / 3
    flash = resolve_target(str(own)).flash_region
    assert flash is not None
    assert flash.stall_cycles_per_byte == found.after.stall_cycles_per_byte
    assert "flash.stall_cycles_per_byte" not in resolve_target(str(own)).unverified


def test_calibrating_the_calibrated_profile_changes_nothing(folder: Path) -> None:
    paths = sorted(folder.glob("*.tflite"))
    times = [
        (path, factor * estimated_ms(path, "rpi-pico")) for path, factor in zip(paths, (1.1, 0.9, 0.8), strict=True)
    ]
    first = calibrate_target("rpi-pico", times, output=folder / "one.toml").calibration
    second = calibrate_target(str(folder / "one.toml"), times, output=folder / "two.toml").calibration
    assert first.after.stall_cycles_per_byte != load_target("rpi-pico").regions[2].stall_cycles_per_byte
    assert second.after.cpi == pytest.approx(first.after.cpi, rel=1e-6)
    assert second.after.stall_cycles_per_byte == pytest.approx(first.after.stall_cycles_per_byte, rel=1e-6)
    assert second.after.band == first.after.band


def test_measurements_that_hardly_agree_are_reported(folder: Path) -> None:
    chain, long = folder / "chain.tflite", folder / "long.tflite"
    long.write_bytes(write_model(chain_model(9)))
    times = [(chain, 1.7 * estimated_ms(chain, BOARD)), (long, estimated_ms(long, BOARD))]
    report = calibrate_target(BOARD, times, output=folder / "own.toml")
    assert [(item.rule, item.level) for item in report.findings] == [("measurements-disagree", "warning")]
    for path, ms in times:
        (made,) = estimate_file(path, [resolve_target(str(folder / "own.toml"))])
        assert made.estimate is not None
        assert made.estimate.latency_ms is not None
        assert made.estimate.latency_ms.low <= ms <= made.estimate.latency_ms.high
    with pytest.raises(CalibrationError, match="contradicts the other measurement"):
        calibrate_target(BOARD, [(chain, 5 * times[0][1] / 1.7), times[1]], output=folder / "other.toml")
    assert not (folder / "other.toml").exists()


def test_power_at_another_clock_was_not_measured(folder: Path) -> None:
    chain = folder / "chain.tflite"
    for clock, power in ((80_000_000, None), (120_000_000, load_target(BOARD).power)):
        own = folder / f"{clock}.toml"
        calibrate_target(BOARD, [(chain, 0.12)], output=own, overrides={"clock": clock})
        assert resolve_target(str(own)).power == power


def test_a_users_own_profile_can_be_calibrated_again(folder: Path) -> None:
    chain = folder / "chain.tflite"
    calibrate_target(BOARD, [(chain, 0.12)], output=folder / "one.toml", overrides={"clock": 80_000_000})
    report = calibrate_target(str(folder / "one.toml"), [(chain, 0.2)], output=folder / "two.toml", name="second")
    assert report.calibration.extends is None
    with pytest.raises(OutputError, match="would overwrite the input"):
        calibrate_target(str(folder / "one.toml"), [(chain, 0.2)], output=folder / "one.toml", force=True)
    two = resolve_target(str(folder / "two.toml"))
    assert (two.name, two.clock_hz, two.mcu) == ("second", 80_000_000, load_target(BOARD).mcu)
    assert estimated_ms(chain, str(folder / "two.toml")) == pytest.approx(0.2, rel=1e-3)


def test_a_measured_time_includes_the_unknown_wait_for_memories(folder: Path) -> None:
    chain, own = folder / "chain.tflite", folder / "own.toml"
    for name, overrides in (("teensy41", {}), ("gd32h759i", {"arena_region": "sdram"})):
        before = resolve_target(name).with_overrides(**overrides)
        (made,) = estimate_file(chain, [before])
        assert made.estimate is not None
        assert made.estimate.validation == "unvalidated"
        calibrate_target(name, [(chain, estimated_ms(chain, name))], output=own, overrides=overrides, force=True)
        (made,) = estimate_file(chain, [resolve_target(str(own))])
        assert made.estimate is not None
        assert made.estimate.latency_ms is not None
        assert made.estimate.validation == "calibrated"
        assert "off-chip" not in made.estimate.basis
        latency, target = made.estimate.latency_ms, resolve_target(str(own))
        cold_ms = target.core.cold_cycles * len(made.estimate.operators) / target.clock_hz * 1e3
        assert latency.high == pytest.approx(1.15 * latency.value + cold_ms, rel=1e-3)
        external = [item for item in made.findings if "external" in item.rule]
        assert external
        assert all(item.level == "note" and "include this waiting time" in item.message for item in external)


def test_the_command_lines_overrides_become_part_of_the_profile(folder: Path) -> None:
    chain, own = folder / "chain.tflite", folder / "own.toml"
    overrides = {"clock": 60_000_000, "kernels": "reference", "sram": 100_000}
    calibrate_target(BOARD, [(chain, 0.6)], output=own, overrides=overrides)
    loaded = resolve_target(str(own))
    assert (loaded.clock_hz, loaded.kernels, loaded.sram_bytes) == (60_000_000, "reference", 100_000)
    assert estimated_ms(chain, str(own)) == pytest.approx(0.6, rel=1e-3)


def test_a_bare_core_needs_memories(folder: Path) -> None:
    chain, own = folder / "chain.tflite", folder / "own.toml"
    with pytest.raises(TargetError, match="--sram and --flash"):
        calibrate_target("cortex-m4", [(chain, 0.12)], output=own)
    report = calibrate_target("cortex-m4", [(chain, 0.12)], output=own, overrides={"sram": 2**18, "flash": 2**20})
    assert report.calibration.extends is None
    loaded = resolve_target(str(own))
    assert (loaded.core.name, loaded.sram_bytes, loaded.flash_bytes) == ("cortex-m4", 2**18, 2**20)
    assert report.calibration.after.stall_cycles_per_byte is None  # nothing is known of that flash
    assert estimated_ms(chain, str(own)) == pytest.approx(0.12, rel=1e-3)


def test_many_long_names_still_make_a_profile(folder: Path) -> None:
    times = []
    for number in range(8):
        path = folder / f"{'long' * 20}\n{number}.tflite"
        path.write_bytes(write_model(chain_model(number + 3)))
        times.append((path, estimated_ms(path, BOARD)))
    calibrate_target(BOARD, times, output=folder / "own.toml")
    assert resolve_target(str(folder / "own.toml")).timing is not None


@pytest.mark.parametrize("ms", [0.0, float("nan"), float("inf"), -1.0])
def test_an_invalid_time_is_rejected(folder: Path, ms: float) -> None:
    with pytest.raises(CalibrationError, match=r"chain.tflite.*above 0"):
        calibrate_target(BOARD, [(folder / "chain.tflite", ms)], output=folder / "own.toml")
    assert not (folder / "own.toml").exists()


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_an_impossible_time_is_rejected_with_both_figures(folder: Path, factor: float) -> None:
    ms = factor * estimated_ms(folder / "chain.tflite", BOARD)
    with pytest.raises(CalibrationError) as caught:
        calibrate_target(BOARD, [(folder / "chain.tflite", ms)], output=folder / "own.toml")
    reported = str(caught.value)
    low, high = load_target(BOARD).core.cpi_limits
    assert f"needs {low:g} to {high:g}" in reported
    assert "chain.tflite" in reported
    for cause in ("clock", "unit"):
        assert cause in reported
    if factor > 1:
        for cause in ("-O0", "reference", "external"):
            assert cause in reported


def test_what_cannot_be_calibrated_or_written_is_refused(folder: Path) -> None:
    chain, own = folder / "chain.tflite", folder / "own.toml"
    copy = folder / "copy.tflite"
    copy.write_bytes(chain.read_bytes())
    (folder / "there.toml").write_text("precious")
    refused: list[tuple[type[EdgetoolError], str, dict[str, Any]]] = [
        (TargetError, "only by its memory bandwidth", {"target_name": "raspberry-pi-4"}),
        (TargetError, "unknown target", {"target_name": "nucleo-l4r5zj"}),
        (UsageError, "same model", {"measurements": [(chain, 0.12), (copy, 0.13)]}),
        (UsageError, "--name", {"name": "My Board"}),
        (OutputError, "--force", {"output": folder / "there.toml"}),
        (OutputError, "would overwrite the input", {"output": chain, "force": True}),
        (OutputError, "not a directory", {"output": chain / "own.toml"}),
        (OutputError, "does not exist", {"output": folder / "none" / "own.toml"}),
        (UsageError, "cannot be read", {"measurements": [(folder / "none.tflite", 0.12)]}),
        (CalibrationError, "no measurements to calibrate with", {"measurements": []}),
    ]
    for kind, words, changed in refused:
        given: dict[str, Any] = {"target_name": BOARD, "measurements": [(chain, 0.12)], "output": own, **changed}
        with pytest.raises(kind, match=words):
            calibrate_target(**given)
    assert not own.exists()
    assert (folder / "there.toml").read_text() == "precious"
    calibrate_target(BOARD, [(chain, 0.12)], output=folder / "there.toml", force=True)
    assert resolve_target(str(folder / "there.toml")).timing is not None


TIMING = Timing("cmsis-nn", 1.25, 0.9, 1.1, 0.8, 1.3, "calibrated", "three models of ours")


def mine(target: Target, **changes: object) -> Target:
    return replace(target, name="mine", **changes)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize("name", list_boards())
def test_every_board_is_written_in_both_ways(name: str) -> None:
    board = load_target(name)
    for base in (board, None):
        text = profile_text(mine(board), base=base)
        read = parse_target(text, where="mine.toml")
        assert replace(read, name=board.name, sources=()) == replace(board, sources=())
        assert not [finding for finding in validate_target(text, where="mine.toml") if finding.level == "error"]


@pytest.mark.parametrize("line_bytes", [0, 64])
def test_the_data_cache_of_a_chip_is_not_that_of_its_core(line_bytes: int) -> None:
    board = load_target("nucleo-h743zi2")
    chip = mine(board, core=replace(board.core, data_cache_line_bytes=line_bytes))
    assert f"data_cache_line = {line_bytes}" in profile_text(chip, base=board)


def test_an_extension_contains_only_differences() -> None:
    board = load_target("nucleo-l4r5zi")
    text = profile_text(mine(board, timings=(TIMING,)), base=board, comments=["by hand", "twice\nover"])
    assert text.startswith("# by hand\n# twice?over\n")
    table = tomllib.loads(text)
    assert table.keys() == {"name", "extends", "timing"}
    assert table["extends"] == "nucleo-l4r5zi"
    assert table["timing"][0]["operator_band"] == [0.8, 1.3]


def test_overrides_of_the_command_line_are_kept() -> None:
    board = load_target("nucleo-l4r5zi")
    changed = board.with_overrides(clock_hz=80_000_000, sram_bytes=100_000, kernels="reference")
    flash = board.flash_region
    assert flash is not None
    regions = tuple(
        replace(item, stall_cycles_per_byte=0.7) if item.name == flash.name else item for item in changed.regions
    )
    changed = mine(changed, regions=regions, timings=(TIMING,), power=Power(40.0, 38.5, 52.0, "a meter"))
    table = tomllib.loads(profile_text(changed, base=board))
    assert (table["clock"], table["kernels"], table["power"]["active_mw"]) == ("80 MHz", "reference", 40.0)
    amended = {item.pop("name"): item for item in table["region"]}
    assert amended[flash.name] == {"stall_cycles_per_byte": 0.7}
    arena = board.arena_region
    assert arena is not None
    assert amended[arena.name] == {"size": "100000 B", "note": "size specified by the user"}


@pytest.mark.parametrize("changes", [{"clock_hz": 80_000_000}, {"mcu": "another"}, {"board": "my own"}])
def test_what_the_base_loses_by_a_change_is_written(changes: dict[str, object]) -> None:
    board = load_target("nucleo-l4r5zi")
    changed = mine(board, **changes)
    read = parse_target(profile_text(changed, base=board), where="")
    assert (read.power, read.timings) == (board.power, board.timings)
    bare = replace(changed, power=None)
    assert parse_target(profile_text(bare, base=board), where="").power is None


def test_another_core_keeps_the_description_of_its_memories() -> None:
    board = load_target("rpi-pico")
    other = load_target("cortex-m33")
    changed = mine(board, core=other.core, factors=other.factors)
    text = profile_text(changed, base=board)
    assert "cold_cycles = 37000" in text
    assert replace(parse_target(text, where=""), sources=()) == replace(changed, sources=())


texts = st.text(st.characters(categories=("L", "N", "P", "S"), include_characters=' "\\'), min_size=1, max_size=60)


@examples(60)
@given(basis=texts.filter(str.strip), cpi=st.floats(1.0, 8.0), low=st.floats(0.05, 1.0), high=st.floats(1.0, 20.0))
def test_numbers_and_texts_come_back_as_they_were(basis: str, cpi: float, low: float, high: float) -> None:
    board = load_target("nucleo-l4r5zi")
    timing = Timing("cmsis-nn", cpi, low, high, low, high, "calibrated", basis)
    assert parse_target(profile_text(mine(board, timings=(timing,)), base=board), where="").timings == (timing,)


def test_regions_that_are_not_the_bases_are_all_written() -> None:
    board = load_target("nucleo-l4r5zi")
    regions = (replace(board.regions[0], name="other"), *board.regions[1:])
    read = parse_target(profile_text(mine(board, regions=regions), base=board), where="")
    assert read.regions == regions


def test_a_profile_that_would_not_load_as_meant_is_not_written() -> None:
    board = load_target("nucleo-l4r5zi")
    assert board.power is not None  # and no key takes it away
    with pytest.raises(InternalError, match="does not load back as intended"):
        profile_text(mine(board, power=None), base=board)


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
def models_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def test_a_log_is_a_measurement_of_the_model_that_it_names(models_folder: Path) -> None:
    chain = models_folder / "chain.tflite"
    report = calibrated(models_folder, device_lines(chain, chain_model(6)))
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
    (after,) = estimate_file(chain, [resolve_target(str(models_folder / "own.toml"))])
    assert after.estimate is not None
    assert [(o.index, o.operator) for o in model.operators] == [(o.index, o.operator) for o in after.estimate.operators]
    for operator, estimate, was in zip(
        model.operators, after.estimate.operators, before.estimate.operators, strict=True
    ):
        assert operator.estimated_ms == pytest.approx(estimate.ms.value)
        assert operator.measured_ms == pytest.approx(1.2 * was.ms.value, abs=1e3 / CLOCK)
        assert operator.ratio == pytest.approx(operator.measured_ms / estimate.ms.value)


def test_logs_and_times_go_together(models_folder: Path) -> None:
    chain, dense = models_folder / "chain.tflite", models_folder / "dense.tflite"
    (made,) = estimate_file(dense, [resolve_target(BOARD)])
    assert made.estimate is not None
    assert made.estimate.latency_ms is not None
    lines = device_lines(chain, chain_model(6))
    report = calibrated(models_folder, lines, measurements=[(dense, 1.2 * made.estimate.latency_ms.value)])
    assert [(item.name, item.device is None) for item in report.calibration.models] == [
        ("dense.tflite", True),
        ("chain.tflite", False),
    ]
    with pytest.raises(UsageError, match="is the same model as"):
        calibrated(models_folder, lines, measurements=[(chain, 0.1)])


def test_the_last_of_several_logs_counts(models_folder: Path) -> None:
    chain = models_folder / "chain.tflite"
    first, last = models_folder / "first.txt", models_folder / "last.txt"
    first.write_bytes(log_of(device_lines(chain, chain_model(6), factor=1.4)))
    last.write_bytes(log_of(device_lines(chain, chain_model(6), factor=1.1)))
    report = calibrate_target(BOARD, [], output=models_folder / "own.toml", logs=[first, last])
    (model,) = report.calibration.models
    assert model.before_ms is not None
    assert model.measured_ms == pytest.approx(1.1 * model.before_ms, rel=1e-3)
    assert rules(report) == [("log", "note")]


@pytest.mark.parametrize("place", ["chain.tflite", "chain-firmware/chain.tflite", "elsewhere/chain.tflite"])
def test_a_model_is_found_beside_the_log_and_here(models_folder: Path, place: str) -> None:
    lines = device_lines(models_folder / "chain.tflite", chain_model(6))
    blob = (models_folder / "chain.tflite").read_bytes()
    (models_folder / "chain.tflite").write_bytes(b"of that name, and no model")
    (models_folder / place).parent.mkdir(exist_ok=True)
    (models_folder / place).write_bytes(blob)
    assert calibrated(models_folder, lines).calibration.models[0].sha256 == sha256_of(chain_model(6))


def test_a_model_may_be_named(models_folder: Path) -> None:
    lines = device_lines(models_folder / "chain.tflite", chain_model(6))
    (models_folder / "chain.tflite").rename(models_folder / "another name.tflite")
    with pytest.raises(UsageError) as caught:
        calibrated(models_folder, lines)
    for words in (sha256_of(chain_model(6)), "chain.tflite", "chain-firmware", "serial.txt: line 2"):
        assert words in str(caught.value)
    report = calibrated(models_folder, lines, models=[models_folder / "another name.tflite"])
    assert report.calibration.models[0].name == "another name.tflite"
    with pytest.raises(UsageError, match=f"no profile there has its SHA-256, {sha256_of(dense_model())}"):
        calibrated(models_folder, lines, models=[models_folder / "another name.tflite", models_folder / "dense.tflite"])


def test_a_name_in_a_log_is_not_a_path(models_folder: Path) -> None:
    lines = device_lines(models_folder / "chain.tflite", chain_model(6), model="../chain")
    (models_folder / "elsewhere" / "serial.txt").write_bytes(log_of(lines))
    with pytest.raises(UsageError, match=r"no matching \.\./chain\.tflite was found next to"):
        calibrated(models_folder, lines, logs=[models_folder / "elsewhere" / "serial.txt"])


def test_the_clock_is_the_logs_unless_it_is_given(models_folder: Path) -> None:
    chain = models_folder / "chain.tflite"
    (model,) = calibrated(models_folder, device_lines(chain, chain_model(6))).calibration.models
    slow = device_lines(chain, chain_model(6), hz=60_000_000)
    report = calibrated(models_folder, slow)
    assert rules(report) == [("clock-of-log", "note")]
    assert report.calibration.clock_hz == resolve_target(str(models_folder / "own.toml")).clock_hz == 60_000_000
    assert report.calibration.models[0].measured_ms == pytest.approx(2 * model.measured_ms)
    # The cycles are what was counted: at the user's clock they take as long as that says.
    report = calibrated(models_folder, slow, overrides={"clock": 80_000_000})
    assert report.calibration.models[0].measured_ms == pytest.approx(1.5 * model.measured_ms)
    # What a timer counted took as long as it says, whatever the clock of the core.
    timed = device_lines(chain, chain_model(6), source="own", hz=CLOCK, clock_hz=100_000_000)
    assert calibrated(models_folder, timed).calibration.models[0].measured_ms == pytest.approx(model.measured_ms)
    unknown = device_lines(chain, chain_model(6), hz=0)
    assert calibrated(models_folder, unknown).calibration.models[0].measured_ms == pytest.approx(model.measured_ms)
    other = device_lines(models_folder / "dense.tflite", dense_model(), hz=80_000_000)
    with pytest.raises(UsageError, match="the logs were recorded at different clocks: 60 MHz and 80 MHz"):
        calibrated(models_folder, slow, other)


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
def test_doubtful_runs_are_reported(
    models_folder: Path, figures: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    report = calibrated(models_folder, device_lines(models_folder / "chain.tflite", chain_model(6), **figures))
    assert rules(report) == expected
    (model,) = report.calibration.models
    assert bool(model.operators) is all(rule != "operators-not-compared" for rule, _ in expected)
    assert model.device is not None
    assert (model.device.account_used_bytes is None) is ("shared" in figures)


def test_runs_that_differ_are_reported(models_folder: Path) -> None:
    lines = device_lines(models_folder / "chain.tflite", chain_model(6))
    total = int(lines[-4].split("mean=")[1].split()[0])
    lines = device_lines(models_folder / "chain.tflite", chain_model(6), total=(total, total, total * 6 // 5))
    assert rules(calibrated(models_folder, lines)) == [("runs-differ", "warning")]


def test_a_macro_to_define_is_called_as_in_the_firmware(models_folder: Path) -> None:
    path = models_folder / "eof.tflite"  # EOF is a macro of C
    path.write_bytes((models_folder / "chain.tflite").read_bytes())
    with pytest.raises(CalibrationError, match=rf"with {model_macro('eof')}_PROFILE_TICKS\(\)"):
        calibrated(models_folder, device_lines(path, chain_model(6), events=[], total=(0, 0, 0)))


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
def test_an_empty_measurement_is_rejected(
    models_folder: Path, kind: type[EdgetoolError], words: str, figures: dict[str, Any]
) -> None:
    with pytest.raises(kind) as caught:
        calibrated(models_folder, device_lines(models_folder / "chain.tflite", chain_model(6), **figures))
    assert any(word in str(caught.value) for word in words.split("|"))
    assert not (models_folder / "own.toml").exists()


def native_lines(path: Path, /, *, factor: float = 1.2, **figures: Any) -> list[str]:
    """What the board would print if each operator of native code took `factor` times what is estimated."""
    target = resolve_target(BOARD).with_overrides(runtime="native")
    (made,) = estimate_file(path, [target])
    assert made.estimate is not None
    ticks = [round(factor * item.ms.value * CLOCK / 1e3) for item in made.estimate.operators if item.subgraph == 0]
    names = [item.operator for item in made.estimate.operators if item.subgraph == 0]
    source = open_tflite(path)
    given = {
        "model": path.stem,
        "sha256": source.sha256,
        "kernels": "native",
        "runtime": "native",
        "events": [(name, 0, count, count) for name, count in zip(names, ticks, strict=True)],
        "total": (sum(ticks),) * 3,
        "used": native_model(source, target).planned.memory.arena_bytes,
    }
    return profile_lines(**{**given, **figures})


NATIVE: dict[str, Any] = {"overrides": {"runtime": "native"}}


def test_native_code_is_calibrated_beside_tflm(models_folder: Path) -> None:
    chain, own = models_folder / "chain.tflite", str(models_folder / "own.toml")
    tflm, native = estimated_ms(chain, BOARD), estimated_ms(chain, BOARD, runtime="native")
    report = calibrated(models_folder, native_lines(chain), **NATIVE)
    assert rules(report) == []
    (model,) = report.calibration.models
    assert (report.calibration.kernels, report.calibration.after.status) == ("native", "calibrated")
    assert report.target.runtime == "native"
    assert model.before_ms == pytest.approx(native)
    assert model.measured_ms == pytest.approx(1.2 * native, rel=1e-3)
    assert model.after_ms == pytest.approx(model.measured_ms, rel=1e-6)
    assert model.device is not None
    assert model.device.arena_used_bytes == model.device.account_used_bytes
    assert [item.operator for item in model.operators] == [item.label for item in chain_model(6).main.operators]
    assert all(item.ratio == pytest.approx(1, rel=0.05) for item in model.operators if item.estimated_ms)
    # The profile still is one of TFLM, with its timing unchanged.
    target, before = resolve_target(own), load_target(BOARD)
    assert (target.runtime, target.kernels, target.timing) == (before.runtime, before.kernels, before.timing)
    assert [timing.kernels for timing in target.timings] == ["native", *(item.kernels for item in before.timings)]
    assert target.regions == before.regions
    assert estimated_ms(chain, own) == pytest.approx(tflm)
    assert estimated_ms(chain, own, runtime="native") == pytest.approx(1.2 * native, rel=1e-3)
    (made,) = estimate_file(chain, [target.with_overrides(runtime="native")])
    assert made.estimate is not None
    assert made.estimate.validation == "calibrated"


def test_both_runtimes_are_calibrated_one_after_the_other(models_folder: Path) -> None:
    chain, own = models_folder / "chain.tflite", models_folder / "own.toml"
    native = native_lines(chain)
    calibrated(models_folder, native, **NATIVE)
    first = resolve_target(str(own)).timings
    before = own.rename(models_folder / "before.toml")
    calibrated(models_folder, native, target_name=str(before), **NATIVE)
    assert resolve_target(str(own)).timings == first
    calibrated(models_folder, device_lines(chain, chain_model(6)), target_name=str(before))
    second = resolve_target(str(own)).timings
    assert {timing.kernels: timing for timing in second}["native"] == first[0]
    assert estimated_ms(chain, str(own)) == pytest.approx(1.2 * estimated_ms(chain, BOARD), rel=1e-3)


def test_a_time_of_native_code_that_the_user_measured(models_folder: Path) -> None:
    dense = models_folder / "dense.tflite"
    ms = 1.5 * estimated_ms(dense, BOARD, runtime="native")
    options: dict[str, Any] = {"overrides": {"runtime": "native", "clock": 80_000_000}}
    report = calibrate_target(BOARD, [(dense, ms)], output=models_folder / "own.toml", **options)
    assert report.calibration.models[0].after_ms == pytest.approx(ms)
    target = resolve_target(str(models_folder / "own.toml"))
    assert (target.clock_hz, target.runtime) == (80_000_000, load_target(BOARD).runtime)
    assert estimated_ms(dense, str(models_folder / "own.toml"), runtime="native") == pytest.approx(ms)


@pytest.mark.parametrize(
    ("native", "options", "words"),
    [
        (True, {}, "runs native code, .*; add --runtime native"),
        (False, NATIVE, "runs TFLM, .*; omit --runtime native"),
    ],
)
def test_the_runtimes_are_not_mixed_up(models_folder: Path, native: bool, options: dict[str, Any], words: str) -> None:
    chain = models_folder / "chain.tflite"
    lines = native_lines(chain) if native else device_lines(chain, chain_model(6))
    with pytest.raises(UsageError, match=words):
        calibrated(models_folder, lines, **options)
    assert not (models_folder / "own.toml").exists()


def test_doubtful_runs_of_native_code(models_folder: Path) -> None:
    chain = models_folder / "chain.tflite"
    report = calibrated(models_folder, native_lines(chain, used=12), **NATIVE)
    assert rules(report) == [("arena-differs", "error")]
    with pytest.raises(UsageError, match="generated without a target"):
        calibrated(models_folder, native_lines(chain, core="unspecified"), **NATIVE)


def test_cores_without_counts_of_native_code_are_refused(models_folder: Path) -> None:
    measured = [(models_folder / "chain.tflite", 1.0)]
    with pytest.raises(TargetError, match="the time of native code on xtensa-lx7 is unknown"):
        calibrate_target("esp32-s3", measured, output=models_folder / "own.toml", **NATIVE)
