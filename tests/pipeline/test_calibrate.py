"""Calibration of files: the written profile loads, says what it was calibrated on, and gives the measured time back.

Profiles as text: what is written loads as it was meant.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import CalibrationError, EdgetoolError, InternalError, OutputError, TargetError, UsageError
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.calibrate import calibrate_target, profile_text
from edgetool.pipeline.estimate import estimate_file
from edgetool.pipeline.targets import resolve_target
from edgetool.target.load import list_boards, load_target, parse_target, validate_target
from edgetool.target.types import Power, Target, Timing
from tests.model.builders import Builder, chain_model, dense_model

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


def test_one_measurement_is_given_back(folder: Path) -> None:
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


def test_several_measurements_tell_the_stall(folder: Path) -> None:
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


def test_measurements_that_hardly_agree_are_told(folder: Path) -> None:
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


def test_a_measured_time_holds_the_wait_for_memories_that_nobody_knows(folder: Path) -> None:
    chain, own = folder / "chain.tflite", folder / "own.toml"
    for name, overrides in (("teensy41", {}), ("stm32f769i-disco", {"arena_region": "sdram"})):
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
def test_a_time_that_is_none_is_refused(folder: Path, ms: float) -> None:
    with pytest.raises(CalibrationError, match=r"chain.tflite.*above 0"):
        calibrate_target(BOARD, [(folder / "chain.tflite", ms)], output=folder / "own.toml")
    assert not (folder / "own.toml").exists()


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_a_time_beyond_physics_is_refused_with_both_figures(folder: Path, factor: float) -> None:
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


def test_an_extension_says_only_what_is_different() -> None:
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


def test_another_core_keeps_what_is_said_of_its_memories() -> None:
    board = load_target("rpi-pico")
    other = load_target("cortex-m33")
    changed = mine(board, core=other.core, factors=other.factors)
    text = profile_text(changed, base=board)
    assert "cold_cycles = 37000" in text
    assert replace(parse_target(text, where=""), sources=()) == replace(changed, sources=())


texts = st.text(st.characters(categories=("L", "N", "P", "S"), include_characters=' "\\'), min_size=1, max_size=60)


@settings(max_examples=60)
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
