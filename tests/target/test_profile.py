"""A user's own profile: what it may say, and that every mistake is named with its file and key."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import TargetError
from edgetool.target.load import DEFAULT_RUNTIME, load_core, load_runtime, load_target, parse_target, validate_target
from edgetool.target.profile import read_board, require_abi
from edgetool.target.toml import Section

GOOD = """\
name = "my-board"
core = "cortex-m7"
clock = "480 MHz"

[[region]]
name = "ram"
kind = "sram"
base = 0x24000000
size = "512 KiB"

[[region]]
name = "rom"
kind = "flash"
base = 0x08000000
size = "2 MiB"
"""


def test_a_small_profile() -> None:
    target = parse_target(GOOD, where="my.toml")
    assert (target.name, target.board, target.mcu) == ("my-board", "my-board", None)
    assert (target.core.name, target.kernels) == ("cortex-m7", "cmsis-nn")
    assert (target.clock_hz, target.sram_bytes, target.flash_bytes) == (480_000_000, 512 * 1024, 2 * 2**20)
    assert target.unverified == ()


def test_everything_a_profile_may_say() -> None:
    text = GOOD.replace(
        "\n\n[[region]]",
        '\nclock_source = "data sheet"\nboard = "My board, rev. B"\nmcu = "XYZ1"\nfpu = "sp"\n'
        'kernels = "reference"\nruntime = "tflm-2026-08"\narena_region = "psram"\n\n'
        '[[region]]\nname = "psram"\nkind = "external-ram"\nsize = "8 MiB"\nnote = "slow"\n\n[[region]]',
        1,
    )
    text += '\n[[source]]\ncovers = ["clock", "ram"]\ndocument = "data sheet"\nverified = false\nnote = "draft"\n'
    target = parse_target(text, where="my.toml")
    assert (target.board, target.mcu, target.kernels, target.core.fpu) == (
        "My board, rev. B",
        "XYZ1",
        "reference",
        "sp",
    )
    assert target.arena_region is not None
    assert (target.arena_region.name, target.arena_region.note) == ("psram", "slow")
    assert target.unverified == ("clock", "ram")


def test_a_board_may_name_kernels_that_are_not_modelled() -> None:
    assert parse_target(GOOD, where="my.toml").usual_kernels is None
    named = GOOD.replace("clock", 'usual_kernels = "my-nn"\nclock', 1)
    assert parse_target(named, where="my.toml").usual_kernels == "my-nn"
    inherited = GOOD.replace("cortex-m7", "xtensa-lx7")
    assert parse_target(inherited, where="my.toml").usual_kernels == "esp-nn"
    assert parse_target(named.replace("cortex-m7", "xtensa-lx7"), where="my.toml").usual_kernels == "my-nn"
    chosen = inherited.replace("clock", 'kernels = "reference"\nclock', 1)
    assert parse_target(chosen, where="my.toml").usual_kernels is None
    extended = 'extends = "esp32-c3"\nname = "mine"\n'
    assert parse_target(extended, where="my.toml").usual_kernels == "esp-nn"
    for change in ('core = "cortex-m4"\n', 'kernels = "reference"\n'):
        assert parse_target(extended + change, where="my.toml").usual_kernels is None
    with pytest.raises(TargetError, match=r"my\.toml: usual_kernels"):
        parse_target(named.replace('"my-nn"', "7"), where="my.toml")


def test_a_board_cannot_bring_its_own_abi() -> None:
    with pytest.raises(TargetError, match=r"my\.toml: abi.*unknown key"):
        parse_target(GOOD.replace("clock", 'abi = "x86-64"\nclock', 1), where="my.toml")


def test_an_abi_that_the_runtime_lacks_is_named() -> None:
    core = replace(load_core("cortex-m7"), abi="vax")
    section = Section(tomllib.loads(GOOD), [])
    read_board(section, lambda _: core, load_runtime, DEFAULT_RUNTIME)
    assert [(problem.key, problem.what) for problem in section.problems] == [
        ("core", "cortex-m7 uses the ABI 'vax', which tflm-2026-08 does not support")
    ]
    with pytest.raises(TargetError, match=r"my\.toml: abi: .*'vax'.*it supports arm-eabi, x86-64"):
        require_abi(core, load_runtime(DEFAULT_RUNTIME), where="my.toml: abi")


def test_plain_numbers_are_bytes_and_hertz() -> None:
    text = GOOD.replace('"512 KiB"', "524288").replace('"480 MHz"', "480000000")
    assert parse_target(text, where="my.toml") == parse_target(GOOD, where="my.toml")


def test_extending_a_packaged_board() -> None:
    base = load_target("stm32n6570-dk")
    target = parse_target('extends = "STM32N6570-DK"\nname = "mine"\nclock = "600 MHz"\n', where="mine.toml")
    assert target.name == "mine"
    assert target.clock_hz == 600_000_000
    assert (target.regions, target.core, target.mcu) == (base.regions, base.core, base.mcu)
    assert target.clock_source != base.clock_source
    assert "clock" in base.unverified
    assert "clock" not in {figure for source in target.sources for figure in source.covers}


def test_an_extension_replaces_all_regions() -> None:
    regions = GOOD[GOOD.index("[[region]]") :]
    source = '[[source]]\ncovers = ["ram"]\ndocument = "data sheet"\nverified = true\n'
    target = parse_target(f'extends = "teensy41"\nname = "mine"\n{regions}{source}', where="mine.toml")
    assert [region.name for region in target.regions] == ["ram", "rom"]
    assert target.arena_region_name is None
    covered = {figure for source in target.sources for figure in source.covers}
    assert covered == {"mcu", "clock", "core", "fpu", "ram"}


def change(old: str, new: str, *, count: int = 1) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, count)


TWO_RAMS = GOOD + '[[region]]\nname = "{name}"\nkind = "sram"\nbase = {base}\nsize = "64 KiB"\n'
BAD = {
    "unknown key": (change('clock = "480 MHz"', 'clok = "480 MHz"'), "clok", "did you mean 'clock'?"),
    "unknown region key": (change('base = 0x24000000\nsize = "512', 'adress = 1\nsize = "512'), "region[0].adress", ""),
    "missing name": (change('name = "my-board"\n', ""), "name", "is missing"),
    "missing core": (change('core = "cortex-m7"\n', ""), "core", "is missing"),
    "missing clock": (change('clock = "480 MHz"\n', ""), "clock", "is missing"),
    "missing size": (change('size = "2 MiB"\n', ""), "region[1].size", "is missing"),
    "missing kind": (change('kind = "sram"\n', ""), "region[0].kind", "is missing"),
    "unknown core": (change("cortex-m7", "cortex-m77"), "core", "did you mean 'cortex-m7'?"),
    "unknown runtime": (f'runtime = "tflm-1"\n{GOOD}', "runtime", "tflm-2026-08"),
    "unknown kind": (change('"sram"', '"srm"'), "region[0].kind", "did you mean 'sram'?"),
    "unknown fpu": (f'fpu = "half"\n{GOOD}', "fpu", "none, sp, dp"),
    "unknown kernels": (f'kernels = "esp-nn"\n{GOOD}', "kernels", "cmsis-nn"),
    "wrong unit of clock": (change("480 MHz", "480 MB"), "clock", "480MHz"),
    "wrong unit of size": (change("512 KiB", "512 kHz"), "region[0].size", "64KiB"),
    "ambiguous size": (change("512 KiB", "512K"), "region[0].size", "ambiguous"),
    "clock without unit": (change('"480 MHz"', "480"), "clock", "specify the unit"),
    "size without unit": (change('"512 KiB"', "512"), "region[0].size", "specify the unit"),
    "zero clock": (change("480 MHz", "0 MHz"), "clock", "0"),
    "absurd clock": (change("480 MHz", "480 GHz"), "clock", "outside the range 100 kHz to 10 GHz"),
    "negative size": (change('"512 KiB"', "-1"), "region[0].size", "outside the range 1 KiB to 64 MiB"),
    "zero size": (change('"512 KiB"', '"0"'), "region[0].size", "outside"),
    "absurd size": (change("512 KiB", "512 GiB"), "region[0].size", "outside"),
    "huge size": (change('"512 KiB"', "9" * 300), "region[0].size", "a huge number"),
    "NaN clock": (change('"480 MHz"', "nan"), "clock", "must be a string with a unit"),
    "infinite size": (change('"512 KiB"', "inf"), "region[0].size", "must be a string with a unit"),
    "boolean size": (change('"512 KiB"', "true"), "region[0].size", "must be a string with a unit"),
    "clock is a list": (change('"480 MHz"', '["480 MHz"]'), "clock", "must be a string with a unit"),
    "number as core": (change('"cortex-m7"', "7"), "core", "must be a string, not an integer"),
    "date as name": (change('"my-board"', "2026-01-01"), "name", "must be a string, not a date"),
    "bad name": (change('"my-board"', '"My Board"'), "name", "not a valid name"),
    "name with a newline": (change('"my-board"', '"my\\nboard"'), "name", "printable"),
    "empty text": (f'board = "  "\n{GOOD}', "board", "printable"),
    "bad address": (change("0x24000000", "0x124000000"), "region[0].base", "outside"),
    "region is no table": (GOOD[: GOOD.index("\n[[")] + 'region = ["ram"]\n', "region", "[[region]]"),
    "region is a table": (GOOD.replace("[[region]]", "[region]", 1).split("[[")[0], "region", "must be a list"),
    "duplicate region": (TWO_RAMS.format(name="ram", base=0), "region[2].name", "two regions with the name 'ram'"),
    "overlapping regions": (TWO_RAMS.format(name="x", base=0x2407F000), "region[2].base", "overlap"),
    "no flash": (change('kind = "flash"', 'kind = "itcm"'), "region", "no flash"),
    "no RAM": (change('kind = "sram"', 'kind = "itcm"'), "region", "no RAM"),
    "no regions": (GOOD[: GOOD.index("[[")], "region", "no RAM"),
    "only external RAM": (change('"sram"', '"external-ram"'), "arena_region", "use one of ram"),
    "unknown arena region": (f'arena_region = "rma"\n{GOOD}', "arena_region", "did you mean 'ram'?"),
    "arena in flash": (f'arena_region = "rom"\n{GOOD}', "arena_region", "not one of ram"),
    "source without document": (f'{GOOD}[[source]]\ncovers = ["ram"]\nverified = true\n', "source[0].document", ""),
    "source of nothing": (
        f'{GOOD}[[source]]\ncovers = ["raam"]\ndocument = "d"\nverified = true\n',
        "source[0].covers",
        "did you mean 'ram'?",
    ),
    "verified as text": (
        f'{GOOD}[[source]]\ncovers = ["ram"]\ndocument = "d"\nverified = "yes"\n',
        "source[0].verified",
        "must be a boolean, not a string",
    ),
    "extends an unknown board": (f'extends = "teensy42"\n{GOOD}', "extends", "did you mean 'teensy41'?"),
    "extends a core": (f'extends = "cortex-m7"\n{GOOD}', "extends", "not a packaged board"),
    "extends a number": (f"extends = 1\n{GOOD}", "extends", "not a packaged board"),
    "extends without a name": ('extends = "teensy41"\n', "name", "is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_profile_names_file_and_key(case: str) -> None:
    text, key, said = BAD[case]
    with pytest.raises(TargetError) as caught:
        parse_target(text, where="dir/my.toml")
    assert caught.value.exit_code == 2
    assert caught.value.where is not None
    lines = [f"{caught.value}", *(f"dir/my.toml: {line}" for line in caught.value.details)]
    assert any(line.startswith(f"dir/my.toml: {key}: ") and said in line for line in lines), lines
    findings = validate_target(text, where="dir/my.toml")
    assert any(f.where == f"dir/my.toml: {key}" and f.level == "error" and said in f.message for f in findings)
    assert len(findings) == len(lines)
    assert all(len(line) < 400 for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "name = ",
        "= 1",
        'name = "a"\nname = "b"\n',
        "\x00",
        "a = " + "[" * 5000,
        "a = " + "9" * 5000,
        "a = 0x" + "f" * 5000,
        "[a]\n[a]",
    ],
)
def test_what_is_not_toml_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match=r"my\.toml: is not valid TOML"):
        parse_target(text, where="my.toml")
    (finding,) = validate_target(text, where="my.toml")
    assert (finding.level, finding.where) == ("error", "my.toml")


def test_all_problems_are_reported_at_once() -> None:
    text = 'name = "A"\ncore = "m9"\nclock = 1\nextra = 2\n[[region]]\nname = "r"\nkind = "x"\nsize = "1"\n'
    keys = [finding.where for finding in validate_target(text, where="f") if finding.level == "error"]
    assert {"f: name", "f: core", "f: clock", "f: extra", "f: region[0].kind", "f: region[0].size"} <= set(keys)


def test_validation_notes_what_has_no_verified_source() -> None:
    (finding,) = validate_target(GOOD, where="my.toml")
    assert (finding.rule, finding.level) == ("unverified-profile", "note")
    assert "clock, ram, rom" in finding.message
    sourced = GOOD + '[[source]]\ncovers = ["clock", "ram", "rom"]\ndocument = "data sheet"\nverified = true\n'
    assert validate_target(sourced, where="my.toml") == ()


@pytest.mark.parametrize(
    ("text", "open_figures"),
    [
        (GOOD + '[power]\nactive_mw = 9\nrange_mw = [8, 10]\nbasis = "a meter"\n', "clock, power, ram, rom"),
        ('name = "mine"\ncore = "x86-64"\nclock = "3 GHz"\nbandwidth = {gbps = 9}\n', "clock, bandwidth"),
    ],
)
def test_power_and_bandwidth_need_sources_as_well(text: str, open_figures: str) -> None:
    (finding,) = validate_target(text, where="my.toml")
    assert finding.message == f"no verified source for {open_figures}"


@given(
    st.dictionaries(
        st.sampled_from(["name", "core", "clock", "region", "source", "extends", "fpu", "arena_region", "x", "\n"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["name", "kind", "size", "base", "covers", "verified"]), inner)
            ),
            max_leaves=8,
        ),
    )
)
def test_any_document_is_read_or_refused(document: dict[str, object]) -> None:
    text = "\n".join(f"{_toml(key)} = {_toml(value)}" for key, value in document.items() if value is not None)
    refused = any(finding.level == "error" for finding in validate_target(text, where="f"))
    if refused:
        with pytest.raises(TargetError, match=r"^f: "):
            parse_target(text, where="f")
    else:
        parse_target(text, where="f")


def _toml(value: object) -> str:
    """The value as TOML; None inside lists and tables is left out."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            escaped = "".join(c if c.isascii() and c.isalnum() else f"\\U{ord(c):08X}" for c in value)
            return f'"{escaped}"'
        case list():
            return f"[{', '.join(_toml(item) for item in value if item is not None)}]"
        case dict():
            return f"{{{', '.join(f'{_toml(k)} = {_toml(v)}' for k, v in value.items() if v is not None)}}}"
        case _:
            return str(value)


@pytest.mark.parametrize("extends", ['"teensy42"', '"cortex-m7"', "3"])
def test_a_wrong_base_is_the_only_error(extends: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(f'extends = {extends}\nname = "mine"\nclock = "400 MHz"\n', where="my.toml")
    assert str(caught.value).startswith("my.toml: extends: ")
    assert caught.value.details == ()


def test_another_board_has_another_vendor() -> None:
    head = 'extends = "nucleo-h743zi2"\nname = "mine"\n'
    assert parse_target(head, where="my.toml").vendor == "ST"
    assert parse_target(f'{head}board = "Our node"\n', where="my.toml").vendor is None
    assert parse_target(f'{head}board = "Our node"\nvendor = "We"\n', where="my.toml").vendor == "We"
