"""edgetool targets: what is listed, shown and refused, as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from edgetool.cli.targets import target_table, target_view
from edgetool.errors import TargetError
from edgetool.pipeline.targets import describe, selected_targets
from edgetool.target.load import list_boards, list_cores, list_targets, load_target
from tests.cli.program import edgetool

PROFILE = """\
name = "my-board"
core = "cortex-m7"
clock = "480 MHz"
[[region]]
name = "ram"
kind = "sram"
size = "512 KiB"
[[region]]
name = "rom"
kind = "flash"
size = "2 MiB"
"""


def names(*arguments: str) -> list[str]:
    """What `targets list` prints in its first column, without header and legend."""
    done = edgetool("targets", "list", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    table = done.stdout.partition("\n\n")[0]
    return [line.split()[0] for line in table.splitlines()[1:]]


def test_all_are_listed_boards_first() -> None:
    assert names() == [*sorted(list_boards()), *sorted(list_cores())]


@pytest.mark.parametrize("spelling", ["cortex-m0plus", "cortex-m0+", "Cortex-M0+"])
def test_a_core_has_several_spellings(spelling: str) -> None:
    assert [target.name for target in selected_targets(core=spelling)] == [
        name for name in (*sorted(list_boards()), "cortex-m0plus") if load_target(name).core.name == "cortex-m0plus"
    ]


def test_lists_are_filtered_by_core_and_memory() -> None:
    found = names("--core", "cortex-m4", "--min-sram", "512KiB", "--min-flash", "2MiB")
    assert "nucleo-l4r5zi" in found
    assert "cortex-m4" not in found  # its memory is not known
    assert all(load_target(name).core.name == "cortex-m4" for name in found)
    assert all((load_target(name).sram_bytes or 0) >= 512 * 1024 for name in found)
    assert all((load_target(name).flash_bytes or 0) >= 2 * 2**20 for name in found)
    assert set(found) < set(names("--core", "cortex-m4"))


def test_an_empty_result_is_reported() -> None:
    done = edgetool("targets", "list", "--core", "cortex-m0plus", "--min-sram", "1GiB")
    assert (done.returncode, done.stdout) == (0, "no target matches; 'edgetool targets list' shows all\n")
    assert json.loads(edgetool("targets", "list", "--min-sram", "1GiB", "--json").stdout)["targets"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--core", "cortex-m77"), "did you mean 'cortex-m7'?"),
        (("--min-sram", "64K"), "ambiguous"),
        (("--min-flash", "lots"), "64KiB"),
    ],
)
def test_a_wrong_filter_is_refused(arguments: tuple[str, ...], said: str) -> None:
    done = edgetool("targets", "list", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_table_fits_a_terminal_and_shows_how_well_each_time_is_known() -> None:
    lines = [click.unstyle(line) for line in target_table(selected_targets())]
    assert max(map(len, lines)) <= 80
    assert {line.split()[0] for line in lines[1 : lines.index("")]} == set(list_targets())
    text = " ".join(" ".join(lines[lines.index("") :]).split())
    status = {
        name: word
        for word in ("calibrated", "extrapolated", "unvalidated", "bandwidth", "none")
        for name in text.partition(f" {word} (")[2].partition("): ")[2].split(" (")[0].replace(",", "").split()
    }
    assert set(status.values()) == {"calibrated", "extrapolated", "unvalidated", "bandwidth", "none"}
    assert "core): all others unvalidated" in text
    assert (status["nucleo-l4r5zi"], status["nucleo-f103rb"], status["desktop"], status["aarch64"]) == (
        "calibrated",
        "unvalidated",
        "bandwidth",
        "none",
    )


def test_the_table_shows_vendor_and_mcu() -> None:
    lines = [click.unstyle(line) for line in target_table(selected_targets())]
    assert lines[0].split() == ["name", "vendor", "MCU", "core", "MHz", "SRAM", "flash"]
    rows = {line.split()[0]: line.split() for line in lines[1 : lines.index("")]}
    assert rows["nucleo-h743zi2"] == ["nucleo-h743zi2", "ST", "STM32H743ZI", "m7", "480", "512", "2048"]
    assert rows["cortex-m4"] == ["cortex-m4", "-", "-", "m4", "120", "-", "-"]
    assert rows["rpi-pico"][1:4] == ["Raspberry", "Pi", "RP2040"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("stm32h743", ["nucleo-h743zi2"]),
        ("NORDIC", ["nrf52840-dk", "nrf5340-dk", "nrf54l15-dk"]),
        ("pico", ["rpi-pico", "rpi-pico2"]),
        ("Teensy 4.1", ["teensy41"]),
        ("lx7", ["esp32-s3", "xtensa-lx7"]),
    ],
)
def test_a_text_selects_by_any_name(text: str, found: list[str]) -> None:
    assert names(text) == found


def test_a_text_and_filters_are_combined() -> None:
    assert names("st", "--core", "cortex-m7", "--min-sram", "600KiB") == ["nucleo-h7a3zi-q"]
    assert names("arduino", "--min-flash", "4MiB") == ["arduino-rp2040-connect"]


@pytest.mark.parametrize("text", ["", "--", "\x1b", "_-_"])
def test_a_text_without_letters_is_refused(text: str) -> None:
    done = edgetool("targets", "list", "--", text)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no letter or digit" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_target_is_found_by_the_name_on_its_box(tflite: Path, tmp_path: Path) -> None:
    (tmp_path / "edgetool.toml").write_text('target = "Raspberry Pi Pico"\n', encoding="utf-8")
    for arguments, name in (((), "rpi-pico"), (("-t", "STM32H743"), "nucleo-h743zi2"), (("-t", "m4"), "cortex-m4")):
        done = edgetool("estimate", tflite, "--json", *arguments, cwd=tmp_path)
        assert json.loads(done.stdout)["target"]["name"] == name
    assert json.loads(edgetool("targets", "show", "H743", "--json").stdout)["target"]["vendor"] == "ST"


@pytest.mark.parametrize("name", list_targets())
def test_every_view_fits_a_terminal(name: str) -> None:
    target = load_target(name)
    lines = [click.unstyle(line) for line in target_view(target)]
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert target.core.name in text
    for timing in target.timings:
        assert f"{timing.status}: {timing.cpi:g} cycles per instruction" in text
    assert ("NOT CHECKED" in text) == any(not source.verified for source in (*target.sources, *target.core.sources))


def test_a_view_says_speed_power_and_what_was_not_checked() -> None:
    text = " ".join(edgetool("targets", "show", "nucleo-l4r5zi").stdout.split())
    assert "calibrated:" in text
    assert "Power" in text and "mW" in text  # noqa: PT018
    assert "instructions counted on cortex-m4" in text
    assert "NOT CHECKED flash.access_bytes" in text
    assert "as a substitute for this core" in " ".join(edgetool("targets", "show", "esp32").stdout.split())


def test_a_view_names_other_runtimes_speeds() -> None:
    text = " ".join(edgetool("targets", "show", "cortex-m4").stdout.split())
    for factor in load_target("cortex-m4").factors:
        assert f"{factor.runtime} {factor.factor:g} {factor.low:g} to {factor.high:g} {factor.rows}" in text
    assert "other runtime" not in edgetool("targets", "show", "cortex-m3").stdout


def test_a_device_with_only_a_bandwidth_is_shown() -> None:
    text = " ".join(edgetool("targets", "show", "jetson-nano").stdout.split())
    assert "25.6 GB/s; nothing else is known about the speed of this device" in text
    assert "Timing" not in text


def test_the_document_of_a_target() -> None:
    shown = json.loads(edgetool("targets", "show", "nucleo-l4r5zi", "--json").stdout)["target"]
    target = load_target("nucleo-l4r5zi")
    assert target.timing is not None
    assert shown == json.loads(json.dumps(describe(target)))
    assert shown["timing"]["cpi"] == target.timing.cpi
    assert [region["bytes_per_cycle"] for region in shown["regions"]] == [r.bytes_per_cycle for r in target.regions]
    listed = json.loads(edgetool("targets", "list", "--core", "cortex-m7", "--json").stdout)
    assert [item["name"] for item in listed["targets"]] == [t.name for t in selected_targets(core="cortex-m7")]


def test_a_valid_profile_is_reported_with_its_unverified_figures(tmp_path: Path) -> None:
    path = tmp_path / "my board.toml"
    path.write_text(PROFILE, encoding="utf-8")
    done = edgetool("targets", "validate", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{path}: valid, my-board (cortex-m7); no verified source for clock, ram, rom\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        (PROFILE[PROFILE.index("[[") :], "", "region"),
        ('"480 MHz"', '"0 MHz"', "clock"),
        ('clock = "480 MHz"\n', "", "clock"),
        ('"cortex-m7"', '"cortex-m9000"', "core"),
        ('core = "cortex-m7"', 'core = "cortex-m7"\nisa = "vax"', "isa"),
        ('"512 KiB"', '"-1 KiB"', "region[0].size"),
        ('"512 KiB"', "nan", "region[0].size"),
        ('kind = "flash"', 'kind = "flash"\nwait_states = nan', "region[1].wait_states"),
        ("[[region]]", '[[timing]]\nkernels = "cmsis-nn"\ncpi = 1e9\n[[region]]', "timing[0].cpi"),
        ("[[region]]", "[power]\nactive_mw = -5\n[[region]]", "power.active_mw"),
    ],
)
def test_a_bad_profile_is_refused_with_its_field(tmp_path: Path, old: str, new: str, key: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(PROFILE.replace(old, new, 1), encoding="utf-8")
    done = edgetool("targets", "validate", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{key}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_core_is_a_target_error() -> None:
    with pytest.raises(TargetError):
        selected_targets(core="")
