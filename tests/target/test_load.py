"""Boards that extend others: what is taken over, what is not, and that circles end.

What the command line sets over a profile.

Every packaged profile loads, is complete, and says where its figures come from.
"""

from __future__ import annotations

import csv
import re
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetool.errors import Problem, TargetError
from edgetool.target.load import (
    DEFAULT_RUNTIME,
    extend_profile,
    list_boards,
    list_cores,
    list_runtimes,
    list_targets,
    load_core,
    load_runtime,
    load_target,
    parse_target,
)
from edgetool.target.platform import platform_of
from edgetool.target.profile import CORE_FIGURES, ESP_NN_VARIANTS, RUNTIME_FIGURES, region_figures
from edgetool.target.types import EspNN, EspNNLibrary, Runtime, Target

HEAD = 'extends = "nucleo-l4r5zi"\nname = "mine"\n'
FLASH = '[[region]]\nname = "flash"\nstall_cycles_per_byte = 0.6\n'


def merged(own: dict[str, Any], boards: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], list[Problem]]:
    """The whole profile, and what was wrong."""
    problems: list[Problem] = []
    return extend_profile(own, boards.get, problems, lambda name: f"not {name}"), problems


def test_a_region_without_a_kind_amends_the_bases() -> None:
    base, target = load_target("nucleo-l4r5zi"), parse_target(HEAD + FLASH, where="my.toml")
    assert [region.name for region in target.regions] == [region.name for region in base.regions]
    assert target.regions[0] == base.regions[0]
    assert target.regions[1].stall_cycles_per_byte == 0.6
    assert target.regions[1].size_bytes == base.regions[1].size_bytes
    covered = {figure for source in target.sources for figure in source.covers}
    assert "flash.stall_cycles_per_byte" not in covered
    assert {"flash", "flash.wait_states", "sram", "clock"} <= covered


def test_an_amended_size_loses_its_source_but_not_its_speeds() -> None:
    target = parse_target(f'{HEAD}[[region]]\nname = "flash"\nsize = "1 MiB"\n', where="my.toml")
    covered = {figure for source in target.sources for figure in source.covers}
    assert target.flash_bytes == 2**20
    assert "flash" not in covered
    assert "flash.wait_states" in covered


@pytest.mark.parametrize(
    ("region", "said"),
    [
        (FLASH.replace('"flash"', '"flsh"'), "no region 'flsh', and a new region needs a kind; did you mean 'flash'?"),
        (
            FLASH.replace('"flash"', '"xyz"'),
            "no region 'xyz', and a new region needs a kind; its regions are sram, flash",
        ),
        (FLASH + FLASH, "region[1].name: modifies 'flash' twice"),
        ('[[region]]\nsize = "1 MiB"\n', "region[0].name: is missing"),
        ("[[region]]\nname = 7\n", "region[0].name: must be a string"),
    ],
)
def test_an_amendment_names_one_region_of_the_base(region: str, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(HEAD + region, where="my.toml")
    assert said in str(caught.value)
    assert caught.value.details == ()


def test_a_users_extension_keeps_the_boards_timing_until_it_is_another_board() -> None:
    base = load_target("nucleo-l4r5zi")
    assert parse_target(HEAD, where="my.toml").timings == base.timings
    assert parse_target(HEAD, where="my.toml").power == base.power
    other = parse_target(f'{HEAD}board = "my own"\n', where="my.toml")
    assert (other.timings, other.power) == ((), None)
    assert other.timing == base.core.timings[0]
    assert "power" not in {figure for source in other.sources for figure in source.covers}


def test_another_core_drops_what_was_the_cores() -> None:
    base = load_target("rpi-pico")
    target = parse_target('extends = "rpi-pico"\nname = "mine"\ncore = "cortex-m7"\n', where="my.toml")
    assert (target.core.name, target.timings, target.power, target.mcu) == ("cortex-m7", (), None, None)
    flash, before = target.flash_region, base.flash_region
    assert flash is not None
    assert before is not None
    assert (before.stall_cycles_per_byte, before.cold_cycles) == (24, 37000)
    assert (flash.stall_cycles_per_byte, flash.cold_cycles) == (None, None)
    assert (flash.size_bytes, flash.cache_bytes) == (before.size_bytes, before.cache_bytes)
    own = '[[region]]\nname = "qspi-flash"\nstall_cycles_per_byte = 3\n'
    target = parse_target(f'extends = "rpi-pico"\nname = "mine"\ncore = "cortex-m7"\n{own}', where="my.toml")
    assert target.flash_region is not None
    assert target.flash_region.stall_cycles_per_byte == 3


@pytest.mark.parametrize(
    ("key", "timing", "power"),
    [
        ('clock = "40 MHz"', True, False),
        ('clock = "120 MHz"', True, True),
        ('mcu = "STM32L4S5ZI"', False, False),
        ('mcu = "STM32L4R5ZI"', True, True),
        ('core = "cortex-m4"', True, True),
        ('core = "cortex-m33"', False, False),
    ],
)
def test_measured_values_apply_only_to_the_board_they_were_measured_on(key: str, timing: bool, power: bool) -> None:
    base, target = load_target("nucleo-l4r5zi"), parse_target(f"{HEAD}{key}\n", where="my.toml")
    assert (target.timings == base.timings, target.power == base.power) == (timing, power)
    given = parse_target(
        f'{HEAD}{key}\n[power]\nactive_mw = 20\nrange_mw = [19, 21]\nbasis = "a meter"\n', where="my.toml"
    )
    assert given.power is not None
    assert given.power.active_mw == 20


def test_a_chain_takes_over_from_the_end() -> None:
    boards: dict[str, dict[str, Any]] = {
        "a": {"name": "a", "extends": "b", "clock": 2},
        "b": {"name": "b", "extends": "c", "mcu": "B"},
        "c": {"name": "c", "mcu": "C", "core": "x", "clock": 1, "clock_source": "c"},
    }
    whole, problems = merged({"name": "own", "extends": "a"}, boards)
    assert problems == []
    assert whole == {"name": "own", "mcu": "B", "core": "x", "clock": 2, "source": []}


@pytest.mark.parametrize(
    ("boards", "said"),
    [
        ({"a": {"name": "a", "extends": "a"}}, "a extends a"),
        ({"a": {"name": "a", "extends": "b"}, "b": {"name": "b", "extends": "a"}}, "a extends b extends a"),
    ],
)
def test_a_circle_is_refused(boards: dict[str, dict[str, Any]], said: str) -> None:
    _, problems = merged({"name": "own", "extends": "a"}, boards)
    assert [problem.key for problem in problems] == ["extends"]
    assert said in problems[0].what


@pytest.mark.parametrize("name", ["nothing", 7, None, ["a"]])
def test_an_unpackaged_base_is_rejected(name: object) -> None:
    whole, problems = merged({"name": "own", "extends": name}, {})
    assert whole == {"name": "own"}
    assert [problem.key for problem in problems] == ["extends"]


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


VERSION = EspNNLibrary((1, 2, 1), "6e2e716", "2026-04-08", ("esp-grouped-conv",), (("CONV_2D", "OpDataConv i32"),))


def linking_esp_nn(name: str) -> Runtime:
    runtime = load_runtime("tflm-2026-08")
    return replace(runtime, name=name, esp_nn=VERSION) if name.startswith("esp") else load_runtime(name)


def test_a_runtime_that_links_esp_nn_runs_its_kernels_on_its_chips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetool.target.load.load_runtime", linking_esp_nn)
    for name, variant in (
        ("esp32", "generic"),
        ("esp32-s3", "esp32s3"),
        ("esp32-c3", "generic"),
        ("esp32-p4", "esp32p4"),
    ):
        target = load_target(name).with_overrides(runtime="esp-tflm")
        assert (target.kernels, target.usual_kernels) == ("esp-nn", None)
        build = platform_of(target)
        assert build.esp_nn == EspNN((1, 2, 1), next(known for known in ESP_NN_VARIANTS if known == variant))
        assert "esp-grouped-conv" in build.faults
        assert build.op_data["CONV_2D"].size_bytes == build.size_of("OpDataConv") + 4
        reference = target.with_overrides(kernels="reference")
        assert platform_of(reference).esp_nn is None
        assert "esp-grouped-conv" not in platform_of(reference).faults
        assert target.with_overrides(runtime="native").kernels == "reference"
        upstream = target.with_overrides(runtime="tflm-2026-08")
        assert (upstream.kernels, upstream.usual_kernels) == ("reference", "esp-nn")
    assert load_target("nucleo-l4r5zi").with_overrides(runtime="esp-tflm").kernels == "cmsis-nn"


def test_esp_nn_needs_a_runtime_that_links_it() -> None:
    with pytest.raises(TargetError, match="tflm-2026-08 does not contain ESP-NN; use a runtime that links it"):
        load_target("esp32-s3").with_overrides(kernels="esp-nn")
    with pytest.raises(
        TargetError, match="ESP-NN has no kernels for riscv32; set esp_nn in the profile to one of ansi"
    ):
        load_target("riscv32").with_overrides(kernels="esp-nn")


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
        ({"kernels": "esp-nn"}, "ESP-NN has no kernels for nucleo-h743zi2"),
        ({"kernels": "esp"}, "use cmsis-nn or esp-nn or reference"),
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


def test_a_user_who_chooses_kernels_gets_no_note_on_the_usual_ones() -> None:
    target = load_target("esp32")
    assert target.with_overrides(sram_bytes=2**17).usual_kernels == "esp-nn"
    chosen = target.with_overrides(kernels="reference")
    assert (chosen.kernels, chosen.usual_kernels) == ("reference", None)


DATA = Path(__file__).resolve().parents[2] / "targets"
CODE = Path(__file__).resolve().parents[2] / "toolchain" / "edgetool"
ARM_CORES = ["cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m85"]
OTHER_CORES = ["riscv32", "rxv2", "x86-64", "xtensa-lx6", "xtensa-lx7"]
# Devices that are described by their memory bandwidth alone.
BANDWIDTHS = {"raspberry-pi-4": 4.3, "jetson-nano": 25.6, "desktop": 50.0}
MEMORY_BOARDS = [name for name in list_boards() if name not in BANDWIDTHS]


def test_the_lists_are_the_files() -> None:
    assert list(list_cores()) == ["aarch64", *ARM_CORES, *OTHER_CORES]
    assert set(list_boards()) == {path.stem for path in (DATA / "boards").glob("*.toml")}
    assert set(list_runtimes()) == {path.stem for path in (DATA / "runtimes").glob("*.toml")}
    assert list_targets() == (*list_cores(), *list_boards())
    assert len(set(list_targets())) == len(list_targets())
    assert len(list_boards()) >= 45


@pytest.mark.parametrize("name", list_cores())
def test_a_core_has_a_clock_and_no_limits(name: str) -> None:
    target = load_target(name)
    assert (target.name, target.core.name, target.board) == (name, name, None)
    assert target.clock_hz == target.core.default_clock_hz > 1_000_000
    assert target.core.clock_source
    assert (target.arena_region, target.sram_bytes, target.flash_bytes) == (None, None, None)
    assert target.kernels == target.core.default_kernels == ("cmsis-nn" if name in ARM_CORES else "reference")
    assert target.core.abi in {abi.name for abi in target.runtime.abis}
    assert (target.core.abi == "arm-eabi") == (name in ARM_CORES)
    assert target.core.bus_bytes * 8 >= target.core.word_bits
    assert all(len(timing.basis) > 40 for timing in target.core.timings)
    assert {timing.kernels for timing in target.core.timings} == (
        {"cmsis-nn", "reference"} if name in ARM_CORES else set() if name == "aarch64" else {"reference"}
    )
    assert "calibrated" not in {timing.status for timing in target.core.timings}  # a board is calibrated, not a core


@pytest.mark.parametrize("name", list_cores())
def test_a_core_sources_each_figure(name: str) -> None:
    covered = {figure for source in load_core(name).sources for figure in source.covers}
    assert covered == set(CORE_FIGURES)


@pytest.mark.parametrize("name", MEMORY_BOARDS)
def test_a_board_is_whole(name: str) -> None:
    target = load_target(name)
    assert target.name == name
    assert target.board
    assert target.mcu
    region = target.arena_region
    assert region is not None
    assert region.kind == "sram"
    assert target.sram_bytes == region.size_bytes == max(r.size_bytes for r in target.regions if r.kind == "sram")
    assert target.flash_bytes is not None
    assert target.flash_bytes >= 2**17
    assert target.runtime.name == DEFAULT_RUNTIME
    assert all(r.base_address is not None for r in target.regions if not r.kind.startswith("external"))
    assert target.bandwidth_gbps is None
    assert target.timing is not None


@pytest.mark.parametrize("name", BANDWIDTHS)
def test_a_device_may_be_a_bandwidth(name: str) -> None:
    target = load_target(name)
    assert target.bandwidth_gbps == BANDWIDTHS[name]
    assert (target.regions, target.timing, target.sram_bytes, target.flash_bytes) == ((), None, None, None)


def figures(target: Target) -> set[str]:
    """What sources must speak for."""
    given = {"power": target.power, "bandwidth": target.bandwidth_gbps}
    regions = {figure for region in target.regions for figure in region_figures(region)}
    return {"core", "mcu", "clock", *(name for name, value in given.items() if value is not None), *regions}


@pytest.mark.parametrize("name", list_boards())
def test_a_board_sources_each_figure(name: str) -> None:
    target = load_target(name)
    covered = {figure for source in target.sources for figure in source.covers}
    assert covered - {"fpu"} == figures(target)
    assert "fpu" in covered or "\nfpu = " not in (DATA / "boards" / f"{name}.toml").read_text(encoding="utf-8")
    unverified = {figure for source in target.sources if not source.verified for figure in source.covers}
    assert set(target.unverified) <= unverified
    assert all(source.document for source in target.sources)
    for timing in (*target.timings, *target.core.timings):
        assert len(timing.basis) > 40


def test_every_region_size_was_checked() -> None:
    unchecked = {
        (name, region.name)
        for name in list_boards()
        for region in load_target(name).regions
        if region.name in load_target(name).unverified
    }
    assert unchecked == {("corstone-300", "ddr")}


def test_the_published_boards_are_here(shared: Path) -> None:
    with (shared / "data" / "latency" / "boards.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 42
    for row in rows:
        target = load_target(row["target"])
        assert target.name == row["target"]
        assert target.clock_hz == int(row["mhz"]) * 1_000_000


def test_only_measured_targets_are_calibrated() -> None:
    calibrated = {name for name in list_boards() if any(t.status == "calibrated" for t in load_target(name).timings)}
    assert {"nucleo-l4r5zi", "nrf5340-dk", "rpi-pico"} <= calibrated
    assert not calibrated & {"nucleo-f446re", "teensy41", "alif-e7-hp", "corstone-300", *BANDWIDTHS}


def test_a_board_that_extends_another_is_not_calibrated_by_it() -> None:
    for name in list_boards():
        document = tomllib.loads((DATA / "boards" / f"{name}.toml").read_text(encoding="utf-8"))
        if "extends" in document and "timing" not in document:
            assert load_target(name).timings == (), name
    base, board = load_target("rpi-pico"), load_target("arduino-rp2040-connect")
    assert (board.core, board.clock_hz, board.arena_region) == (base.core, base.clock_hz, base.arena_region)
    assert board.flash_bytes == 16 * 2**20


@pytest.mark.slow
@pytest.mark.parametrize("name", list_boards())
def test_the_code_contains_no_figures_of_boards(name: str) -> None:
    quoted = re.compile(f"""["']{re.escape(name)}["']""")
    named = {path.name for path in CODE.rglob("*.py") if quoted.search(path.read_text(encoding="utf-8"))}
    assert named <= {"load.py", "init.py"}, named  # other spellings of a name


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*.toml")), ids=lambda path: path.stem)
def test_a_profile_file_is_named_after_its_target_and_carries_no_address(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert tomllib.loads(text)["name"] == path.stem
    assert not re.search(r"https?://|recalled|TODO", text)
    assert max(len(line) for line in text.splitlines() if "basis" not in line) <= 220


@pytest.mark.parametrize(
    ("name", "region", "size_kib", "flash_kib", "clock_mhz"),
    [
        ("nucleo-l4r5zi", "sram", 640, 2048, 120),
        ("nucleo-h743zi2", "axi-sram", 512, 2048, 480),
        ("nucleo-h7a3zi-q", "axi-sram", 1024, 2048, 280),
        ("disco-f746ng", "sram", 320, 1024, 216),
        ("stm32f401", "sram", 96, 512, 84),
        ("arduino-nano33ble", "sram", 256, 1024, 64),
        ("rpi-pico", "sram", 256, 2048, 125),
        ("rpi-pico2", "sram", 512, 4096, 150),
        ("ek-ra8d1", "sram", 896, 2016, 480),
        ("esp32-c3", "dram", 320, 4096, 160),
        ("esp32-s3", "dram", 333.75, 8192, 240),
        ("esp32", "dram", 176.5, 4096, 240),
        ("teensy41", "ocram", 512, 7936, 600),
    ],
)
def test_known_boards(name: str, region: str, size_kib: float, flash_kib: int, clock_mhz: int) -> None:
    target = load_target(name)
    assert target.arena_region is not None
    assert (target.arena_region.name, target.sram_bytes) == (region, size_kib * 1024)
    assert (target.flash_bytes, target.clock_hz) == (flash_kib * 1024, clock_mhz * 1_000_000)


@pytest.mark.parametrize(
    ("name", "isa", "dsp", "mve", "fpu"),
    [
        ("riscv32", "rv32imc", False, False, "none"),
        ("xtensa-lx6", "xtensa-lx6", False, False, "sp"),
        ("xtensa-lx7", "xtensa-lx7", False, False, "sp"),
        ("cortex-m0plus", "armv6-m", False, False, "none"),
        ("cortex-m3", "armv7-m", False, False, "none"),
        ("cortex-m4", "armv7e-m", True, False, "sp"),
        ("cortex-m7", "armv7e-m", True, False, "dp"),
        ("cortex-m33", "armv8-m.main", True, False, "sp"),
        ("cortex-m55", "armv8.1-m.main", True, True, "dp"),
        ("cortex-m85", "armv8.1-m.main", True, True, "dp"),
    ],
)
def test_known_cores(name: str, isa: str, dsp: bool, mve: bool, fpu: str) -> None:
    core = load_core(name)
    assert (core.isa, core.dsp, core.mve, core.fpu, core.word_bits) == (isa, dsp, mve, fpu, 32)


def test_cycles_per_instruction_are_possible() -> None:
    for name in list_targets():
        target = load_target(name)
        least, most = target.core.cpi_limits
        for timing in (*target.timings, *target.core.timings):
            assert least <= timing.cpi <= most
            assert timing.operator_low <= timing.low <= 1 <= timing.high <= timing.operator_high


def test_a_core_that_issues_one_instruction_takes_a_cycle_for_it() -> None:
    single = {"cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m33"}
    assert {name for name in ARM_CORES if load_core(name).cpi_limits[0] == 1.0} == single


def test_the_host_is_a_core() -> None:
    core = load_core("x86-64")
    assert (core.isa, core.abi, core.word_bits, core.default_kernels) == ("x86-64", "x86-64", 64, "reference")
    assert (core.dsp, core.mve) == (False, False)


def test_kernels_that_are_not_modelled_are_named() -> None:
    named = {name: usual for name in list_targets() if (usual := load_target(name).usual_kernels)}
    assert named == dict.fromkeys(["xtensa-lx6", "xtensa-lx7", "esp32", "esp32-c3", "esp32-p4", "esp32-s3"], "esp-nn")
    assert all(load_target(name).kernels == "reference" for name in named)


def test_a_board_states_the_fpu_of_its_chip() -> None:
    assert load_target("disco-f746ng").core.fpu == "sp"
    assert load_target("nucleo-f767zi").core.fpu == "dp"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CORTEX-M7", "cortex-m7"),
        ("cortex-m0+", "cortex-m0plus"),
        ("Cortex-M0+", "cortex-m0plus"),
        ("cortex_m4", "cortex-m4"),
        ("NUCLEO-H743ZI2", "nucleo-h743zi2"),
        ("nucleo-f401re", "stm32f401"),
        ("esp32-devkitc", "esp32"),
    ],
)
def test_other_spellings(name: str, meant: str) -> None:
    assert load_target(name) == load_target(meant)


@pytest.mark.parametrize(
    ("name", "guess"),
    [("cortex-m77", "cortex-m7"), ("nucleo-l4r5z1", "nucleo-l4r5zi"), ("Raspbery Pi Pico", "rpi-pico")],
)
def test_an_unknown_name_gets_a_guess(name: str, guess: str) -> None:
    with pytest.raises(TargetError) as caught:
        load_target(name)
    assert name in caught.value.what
    assert f"did you mean '{guess}'" in str(caught.value)
    assert "edgetool targets list" in str(caught.value)


@pytest.mark.parametrize("name", ["", "..", "../boards/rpi-pico", "/etc/passwd", "rpi-pico.toml", "\0", "x" * 9999])
def test_a_name_never_reaches_the_file_system(name: str) -> None:
    with pytest.raises(TargetError) as caught:
        load_target(name)
    assert caught.value.exit_code == 2
    assert len(str(caught.value)) < 400


def test_the_runtime() -> None:
    runtime = load_runtime(DEFAULT_RUNTIME)
    assert runtime.tflm_commit.startswith("90b983c2")
    assert runtime.tflm_date == "2026-08-20"
    assert runtime.cmsis_nn_commit.startswith("4ab83cc3")
    assert {"CONV_2D", "FULLY_CONNECTED", "UNIDIRECTIONAL_SEQUENCE_LSTM"} <= set(runtime.operators)
    assert not {"GELU", "TILE", "SELECT", "CUSTOM"} & set(runtime.operators)
    assert len(runtime.operators) == len(set(runtime.operators)) == 100
    assert runtime.resolver_method("CONV_2D") == "AddConv2D"
    assert runtime.resolver_method("CUMSUM") == "AddCumSum"
    assert runtime.resolver_method("GELU") is None
    assert runtime.resolver_method("CUSTOM", "SignalWindow") == "AddWindow"
    assert runtime.resolver_method("CUSTOM", "Mine") is None
    assert runtime.resolver_method("CUSTOM") is None
    assert runtime.limit("CONCATENATION", "inputs") == 10
    assert runtime.limit("CONCATENATION", "dimensions") is None
    assert {f for s in runtime.sources for f in s.covers} == {*RUNTIME_FIGURES} - {"esp_nn", "linked_by"}
    with pytest.raises(TargetError, match=r"unknown runtime 'tflm-1999'.*tflm-2026-08"):
        load_runtime("tflm-1999")


def test_resolver_methods_have_the_names_of_their_operators() -> None:
    for code, method in load_runtime(DEFAULT_RUNTIME).resolver:
        assert method.lower() == "add" + code.replace("_", "").lower()


def test_loading_is_cheap() -> None:
    load_target("nucleo-h743zi2")
    start = time.process_time()
    for _ in range(20):
        load_target("nucleo-h743zi2")
    assert (time.process_time() - start) / 20 < 0.010


def test_every_board_that_is_made_by_somebody_names_its_vendor() -> None:
    without = [name for name in list_boards() if load_target(name).vendor is None]
    assert without == ["desktop"]
    for name in list_boards():
        assert len(load_target(name).vendor or "") <= 14
    assert load_target("nrf52840-dk").vendor == "Nordic"  # although it extends a board of Arduino


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Raspberry Pi Pico", "rpi-pico"),  # also part of "Raspberry Pi Pico 2"
        ("raspberry_pi_pico_2", "rpi-pico2"),
        ("STM32H743", "nucleo-h743zi2"),
        ("stm32-h743zi", "nucleo-h743zi2"),
        ("NUCLEO H743ZI2", "nucleo-h743zi2"),
        ("portenta", "arduino-portenta-h7"),
        ("Teensy 4.1", "teensy41"),
        ("i.MX RT1062", "teensy41"),
        ("esp32", "esp32"),  # an exact name, although others contain it
        ("ESP32 S3", "esp32-s3"),
        ("m4", "cortex-m4"),  # not ek-ra6m4
        ("M0+", "cortex-m0plus"),
        ("cortex m33", "cortex-m33"),
        ("NUCLEO F401RE", "stm32f401"),
    ],
)
def test_a_target_is_found_by_any_name(name: str, meant: str) -> None:
    assert load_target(name).name == meant


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("pico", ["rpi-pico", "rpi-pico2"]),
        ("RP2040", ["rpi-pico", "arduino-rp2040-connect"]),
        ("STM32H747", ["arduino-giga-r1", "arduino-nicla-vision", "arduino-portenta-h7", "stm32h747i-disco"]),
        ("xtensa", ["xtensa-lx6", "xtensa-lx7"]),
        ("nucleo", ["nucleo-f103rb", " more"]),
    ],
)
def test_an_ambiguous_name_lists_its_candidates(name: str, candidates: list[str]) -> None:
    with pytest.raises(TargetError, match="ambiguous") as caught:
        load_target(name)
    assert all(candidate in caught.value.what for candidate in candidates)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("name", list_targets())
def test_the_name_of_a_profile_always_wins(name: str) -> None:
    assert load_target(name).name == name
    assert load_target(name.upper().replace("-", " ")).name == name


@pytest.mark.parametrize("name", ["m", "\x1b[31m", "\u202e", "日本", "-" * 10**6, "h743" + "x" * 10**6])
def test_hostile_names_are_unknown(name: str) -> None:
    with pytest.raises(TargetError, match="unknown target") as caught:
        load_target(name)
    assert len(str(caught.value)) < 600
