"""What the command line sets over a profile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.errors import TargetError
from edgetool.target.load import load_target


def test_no_override_changes_nothing() -> None:
    target = load_target("nucleo-h743zi2")
    assert target.with_overrides() == target


def test_a_bare_core_gains_memories() -> None:
    target = load_target("cortex-m4").with_overrides(sram_bytes=65536, flash_bytes=2**20, clock_hz=80_000_000)
    assert (target.sram_bytes, target.flash_bytes, target.clock_hz) == (65536, 2**20, 80_000_000)
    assert target.arena_region is not None
    assert (target.arena_region.name, target.arena_region.kind) == ("sram", "sram")
    assert target.clock_source == "specified by the user"


def test_a_boards_arena_region_is_resized_even_below_its_siblings() -> None:
    target = load_target("nucleo-h743zi2").with_overrides(sram_bytes=65536)
    assert target.arena_region is not None
    assert (target.arena_region.name, target.sram_bytes) == ("axi-sram", 65536)
    assert len(target.regions) == len(load_target("nucleo-h743zi2").regions)


def test_another_arena_region_and_its_size() -> None:
    board = load_target("nucleo-h743zi2")
    assert board.with_overrides(arena_region="dtcm").sram_bytes == 128 * 1024
    both = board.with_overrides(arena_region="dtcm", sram_bytes=100_000)
    assert [r.size_bytes for r in both.regions if r.name in ("dtcm", "axi-sram")] == [512 * 1024, 100_000]
    assert load_target("disco-f746ng").with_overrides(arena_region="sdram").sram_bytes == 8 * 2**20


def test_no_timing_was_measured_with_the_arena_in_another_kind_of_memory() -> None:
    board = load_target("ek-ra8d1")
    assert board.is_calibrated
    outside = next(region.name for region in board.regions if region.kind == "external-ram")
    for name, calibrated in (("sram", True), (outside, False)):
        assert board.with_overrides(arena_region=name).is_calibrated == calibrated


def test_flash_of_a_board_without_its_own() -> None:
    pico = load_target("rpi-pico").with_overrides(flash_bytes=16 * 2**20)
    assert pico.flash_region is not None
    assert (pico.flash_region.name, pico.flash_bytes) == ("qspi-flash", 16 * 2**20)


def test_what_the_user_gives_is_no_longer_unverified() -> None:
    board = load_target("stm32n6570-dk")
    assert "clock" in board.unverified
    assert "clock" not in board.with_overrides(clock_hz=600_000_000).unverified


def test_kernels_and_runtime() -> None:
    target = load_target("cortex-m7").with_overrides(kernels="reference", runtime="TFLM-2026-08")
    assert (target.kernels, target.runtime.name) == ("reference", "tflm-2026-08")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ({"sram_bytes": 0}, "0 bytes of sram"),
        ({"sram_bytes": -1}, "outside the range 1 B to 4 GiB"),
        ({"flash_bytes": 2**40}, "outside the range 1 B to 4 GiB"),
        ({"clock_hz": 0}, "specify the unit"),
        ({"clock_hz": 480}, "480 Hz is outside the range 100 kHz to 10 GHz"),
        ({"arena_region": "dtmc"}, "did you mean 'dtcm'?"),
        ({"arena_region": "zzz"}, "use one of axi-sram, dtcm"),
        ({"arena_region": "flash"}, "the arena cannot be placed in flash"),
        ({"arena_region": "itcm"}, "the arena cannot be placed in itcm"),
        ({"kernels": "esp-nn"}, "use cmsis-nn or reference"),
        ({"runtime": "tflm"}, "unknown runtime 'tflm'"),
    ],
)
def test_impossible_overrides(override: dict[str, int | str], said: str) -> None:
    with pytest.raises(TargetError) as caught:
        load_target("nucleo-h743zi2").with_overrides(**override)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_bare_core_has_no_region_to_name() -> None:
    with pytest.raises(TargetError, match="has no memory regions"):
        load_target("cortex-m7").with_overrides(arena_region="dtcm")


def test_another_runtime_must_know_the_abi(monkeypatch: pytest.MonkeyPatch) -> None:
    target = load_target("cortex-m4")
    assert target.with_overrides(runtime="tflm-2026-08") == target
    poorer = replace(target.runtime, name="poorer", abis=target.runtime.abis[1:])
    monkeypatch.setattr("edgetool.target.load.load_runtime", lambda _: poorer)
    with pytest.raises(TargetError, match=r"cortex-m4: runtime: .*'arm-eabi', which poorer does not support"):
        target.with_overrides(runtime="poorer")


def test_who_chooses_kernels_is_not_told_the_usual_ones() -> None:
    target = load_target("esp32")
    assert target.with_overrides(sram_bytes=2**17).usual_kernels == "esp-nn"
    chosen = target.with_overrides(kernels="reference")
    assert (chosen.kernels, chosen.usual_kernels) == ("reference", None)
