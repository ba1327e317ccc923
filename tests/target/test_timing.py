"""What a profile may say of speed and power: what is read, and that each absurd figure is named with its key."""

from __future__ import annotations

import pytest

from edgetool.errors import TargetError
from edgetool.estimate.memory_speed import speeds_of
from edgetool.target.load import load_target, parse_target
from edgetool.target.types import MemoryRegion, Power, Timing

TIMING = """\
[[timing]]
kernels = "cmsis-nn"
cpi = 1.1
band = [0.9, 1.1]
operator_band = [0.8, 1.3]
status = "calibrated"
basis = "three models on my desk"
"""
GOOD = f"""\
name = "my-board"
core = "cortex-m4"
clock = "80 MHz"

{TIMING}
[power]
active_mw = 30
range_mw = [25, 33.5]
basis = "a meter"

[[region]]
name = "ram"
kind = "sram"
base = 0x20000000
size = "128 KiB"
wait_states = 0
access_bytes = 4

[[region]]
name = "rom"
kind = "flash"
base = 0x08000000
size = "1 MiB"
wait_states = 3
access_bytes = 8
cache = "1 KiB"
stall_cycles_per_byte = 0.25
write_stall_cycles_per_byte = 0.5
"""
DEVICE = 'name = "my-device"\ncore = "x86-64"\nclock = "3 GHz"\nbandwidth = {gbps = 12.5}\n'


def test_stated_values_are_read() -> None:
    target = parse_target(GOOD, where="my.toml")
    timing = Timing("cmsis-nn", 1.1, 0.9, 1.1, 0.8, 1.3, "calibrated", "three models on my desk")
    assert target.timings == (timing,)
    assert target.timing == timing
    assert target.power == Power(30.0, 25.0, 33.5, "a meter")
    ram, rom = target.regions
    assert ram.bytes_per_cycle == 4.0
    assert rom.bytes_per_cycle == 2.0
    assert (rom.cache_bytes, rom.stall_cycles_per_byte, rom.write_stall_cycles_per_byte) == (1024, 0.25, 0.5)


def test_the_cores_timing_holds_where_the_board_has_none() -> None:
    target = parse_target(GOOD, where="my.toml")
    core = load_target("cortex-m4")
    assert target.with_overrides(kernels="reference").timing == core.with_overrides(kernels="reference").timing
    assert parse_target(GOOD.replace(TIMING, ""), where="my.toml").timing == core.timing
    assert core.timing is not None
    assert core.timing.kernels == "cmsis-nn"


def test_native_code_has_a_timing_and_a_stall_of_its_own() -> None:
    own = TIMING.replace('"cmsis-nn"', '"native"').replace("1.1\n", "2.5\nstall_cycles_per_byte = 0.75\n", 1)
    target = parse_target(GOOD.replace(TIMING, f"{TIMING}{own}"), where="my.toml")
    native = target.with_overrides(runtime="native")
    assert (target.timed_kernels, native.timed_kernels) == ("cmsis-nn", "native")
    assert (target.timing, native.timing) == target.timings
    assert (speeds_of(target).constant_stall, speeds_of(native).constant_stall) == (0.25, 0.75)
    without = parse_target(GOOD, where="my.toml")
    assert without.with_overrides(runtime="native").timing == without.timing
    with pytest.raises(TargetError, match="there are two timings for native"):
        parse_target(GOOD.replace(TIMING, f"{own}{own}"), where="my.toml")


def test_a_partly_specified_speed_is_unknown() -> None:
    target = parse_target(GOOD.replace("access_bytes = 8\n", ""), where="my.toml")
    assert target.regions[1].bytes_per_cycle is None
    assert MemoryRegion("x", "flash", 1024, wait_states=1, access_bytes=None).bytes_per_cycle is None


def test_another_clock_rescales_nothing_else() -> None:
    board = parse_target(GOOD, where="my.toml")
    slower = board.with_overrides(clock_hz=10_000_000)
    assert (slower.regions, slower.timings, slower.power) == (board.regions, board.timings, board.power)


def test_a_device_that_is_a_bandwidth() -> None:
    target = parse_target(DEVICE, where="my.toml")
    assert (target.bandwidth_gbps, target.regions, target.timings, target.timing) == (12.5, (), (), None)


def change(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


REGION = '[[region]]\nname = "r"\nkind = "sram"\nsize = "64 KiB"\n'
BAD = {
    "zero cycles per instruction": (change("cpi = 1.1", "cpi = 0"), "timing[0].cpi", "0 is outside the range 1 to 8"),
    "cycles no core reaches": (change("cpi = 1.1", "cpi = 0.5"), "timing[0].cpi", "0.5 is outside the range 1 to 8"),
    "NaN cycles": (change("cpi = 1.1", "cpi = nan"), "timing[0].cpi", "nan is outside the range"),
    "cycles as text": (change("cpi = 1.1", 'cpi = "1.1"'), "timing[0].cpi", "must be a number, not a string"),
    "no cycles": (change("cpi = 1.1\n", ""), "timing[0].cpi", "is missing"),
    "band of one": (change("[0.9, 1.1]", "[0.9]"), "timing[0].band", "must be two numbers"),
    "band of text": (change("[0.9, 1.1]", '["a", 1.1]'), "timing[0].band", "must be two numbers"),
    "band with NaN": (change("[0.9, 1.1]", "[nan, 1.1]"), "timing[0].band", "must be two numbers"),
    "band with a boolean": (change("[0.9, 1.1]", "[true, 1.1]"), "timing[0].band", "must be two numbers"),
    "band upside down": (change("[0.9, 1.1]", "[1.1, 0.9]"), "timing[0].band", "put the smaller number first"),
    "band beside the estimate": (change("[0.9, 1.1]", "[1.05, 1.1]"), "timing[0].band", "does not contain 1"),
    "band of zero": (change("[0.9, 1.1]", "[0, 1.1]"), "timing[0].band", "must be two numbers from 0.05"),
    "no operators' band": (change("operator_band = [0.8, 1.3]\n", ""), "timing[0].operator_band", "is missing"),
    "unknown status": (change('"calibrated"', '"calibrate"'), "timing[0].status", "did you mean 'calibrated'?"),
    "no basis": (change('basis = "three models on my desk"\n', ""), "timing[0].basis", "is missing"),
    "unknown kernels": (change('"cmsis-nn"', '"cmsis"'), "timing[0].kernels", "did you mean 'cmsis-nn'?"),
    "unknown key of a timing": (change("cpi = 1.1", "cpi = 1.1\nipc = 2"), "timing[0].ipc", "unknown key"),
    "two timings": (change(TIMING, TIMING * 2), "timing[1].kernels", "two timings for cmsis-nn"),
    "timing is a table": (change("[[timing]]", "[timing]"), "timing", "must be a list"),
    "power of zero": (change("active_mw = 30", "active_mw = 0"), "power.active_mw", "outside"),
    "negative power": (change("[25, 33.5]", "[-25, 33.5]"), "power.range_mw", "must be two numbers"),
    "power beside its range": (change("active_mw = 30", "active_mw = 40"), "power.active_mw", "outside range_mw"),
    "power without basis": (change('basis = "a meter"\n', ""), "power.basis", "is missing"),
    "power as a number": (change("[power]\nactive_mw", "[powr]\nactive_mw"), "powr", "did you mean 'power'?"),
    "negative wait states": (change("wait_states = 3", "wait_states = -1"), "region[1].wait_states", "outside"),
    "NaN wait states": (
        change("wait_states = 3", "wait_states = nan"),
        "region[1].wait_states",
        "nan is outside the range",
    ),
    "no bytes an access": (
        change("access_bytes = 8", "access_bytes = 0"),
        "region[1].access_bytes",
        "outside the range 1 to 64",
    ),
    "half a byte": (change("access_bytes = 8", "access_bytes = 0.5"), "region[1].access_bytes", "must be an integer"),
    "huge cache": (change('"1 KiB"', '"1 GiB"'), "region[1].cache", "outside"),
    "cache as a word": (change('"1 KiB"', '"yes"'), "region[1].cache", "64KiB"),
    "negative stall": (
        change("\nstall_cycles_per_byte = 0.25", "\nstall_cycles_per_byte = -0.25"),
        "region[1].stall_cycles_per_byte",
        "outside the range 0 to 1000",
    ),
    "infinite stall": (
        change("\nstall_cycles_per_byte = 0.25", "\nstall_cycles_per_byte = inf"),
        "region[1].stall_cycles_per_byte",
        "inf is outside the range",
    ),
    "bandwidth of zero": (DEVICE.replace("12.5", "0"), "bandwidth.gbps", "outside"),
    "negative bandwidth": (DEVICE.replace("12.5", "-1"), "bandwidth.gbps", "outside"),
    "NaN bandwidth": (DEVICE.replace("12.5", "nan"), "bandwidth.gbps", "nan is outside the range"),
    "bandwidth in bits": (DEVICE.replace("gbps = ", "gbits = "), "bandwidth.gbits", "unknown key"),
    "bandwidth as a number": (DEVICE.replace("{gbps = 12.5}", "12.5"), "bandwidth", "must be a table"),
    "bandwidth and regions": (f"{DEVICE}{REGION}", "region", "described by its bandwidth"),
    "bandwidth and a timing": (f"{DEVICE}{TIMING}", "timing", "described by its bandwidth"),
    "source of a speed that is not there": (
        f'{GOOD}[[source]]\ncovers = ["ram.cache"]\ndocument = "d"\nverified = true\n',
        "source[0].covers",
        "'ram.cache' is not a figure",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_an_absurd_figure_is_refused_by_its_key(case: str) -> None:
    text, key, said = BAD[case]
    with pytest.raises(TargetError) as caught:
        parse_target(text, where="my.toml")
    assert caught.value.exit_code == 2
    lines = [f"{caught.value}", *(f"my.toml: {line}" for line in caught.value.details)]
    assert any(line.startswith(f"my.toml: {key}: ") and said in line for line in lines), lines
