"""Every packaged profile loads, is complete, and says where its figures come from."""

from __future__ import annotations

import csv
import re
import time
import tomllib
from pathlib import Path

import pytest

from edgetool.errors import TargetError
from edgetool.target.load import (
    DEFAULT_RUNTIME,
    list_boards,
    list_cores,
    list_runtimes,
    list_targets,
    load_core,
    load_runtime,
    load_target,
)
from edgetool.target.profile import CORE_FIGURES, RUNTIME_FIGURES, region_figures
from edgetool.target.types import Target

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


def test_what_was_measured_is_calibrated_and_else_is_not() -> None:
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


@pytest.mark.parametrize("name", list_boards())
def test_no_figure_of_a_board_stands_in_code(name: str) -> None:
    quoted = re.compile(f"""["']{re.escape(name)}["']""")
    named = {path.name for path in CODE.rglob("*.py") if quoted.search(path.read_text(encoding="utf-8"))}
    assert named <= {"load.py", "project.py"}, named  # other spellings of a name


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.toml")), ids=lambda path: path.stem)
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


def test_a_board_tells_its_chips_fpu() -> None:
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
    assert {f for s in runtime.sources for f in s.covers} == set(RUNTIME_FIGURES)
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
