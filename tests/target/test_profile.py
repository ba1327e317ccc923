"""A user's own profile: what it may say, and that every mistake is named with its file and key.

What a runtime's profile may say of structs: every mistake is named with its key.
"""

from __future__ import annotations

import copy
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import Problem, TargetError
from edgetool.target.load import DEFAULT_RUNTIME, load_core, load_runtime, load_target, parse_target, validate_target
from edgetool.target.profile import fields_problem, read_abis, read_board, read_runtime, read_structs, require_abi
from edgetool.target.toml import Section
from edgetool.target.types import Abi, EspNNLibrary, StructSize, struct_size

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
    "unknown runtime": (f'runtime = "tflm-2025-6"\n{GOOD}', "runtime", "did you mean 'tflm-2025-06'?"),
    "unknown kind": (change('"sram"', '"srm"'), "region[0].kind", "did you mean 'sram'?"),
    "unknown fpu": (f'fpu = "half"\n{GOOD}', "fpu", "none, sp, dp"),
    "unknown kernels": (f'kernels = "esp"\n{GOOD}', "kernels", "cmsis-nn"),
    "kernels of other chips": (f'kernels = "esp-nn"\n{GOOD}', "kernels", "set esp_nn in the profile to one of ansi"),
    "kernels of other runtimes": (
        f'kernels = "esp-nn"\nesp_nn = "generic"\n{GOOD}',
        "kernels",
        "tflm-2026-08 does not contain ESP-NN",
    ),
    "unknown chip of ESP-NN": (f'esp_nn = "esp32"\n{GOOD}', "esp_nn", "esp32s3"),
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


PACKAGED = Path(__file__).resolve().parents[2] / "targets" / "runtimes" / "tflm-2026-08.toml"
DOCUMENT = tomllib.loads(PACKAGED.read_text(encoding="utf-8"))
ABI = {"name": "a", "pointer_bytes": 4, "enum_bytes": 1, "i64_alignment": 8, "measured": ["reference"]}


ESP_NN = {
    "version": "1.2.0~1",
    "commit": "b859e50",
    "date": "2026-04-06",
    "filter_channels": False,
    "op_data": {"CONV_2D": "OpDataConv i32"},
}


def test_a_runtime_names_its_version_of_esp_nn() -> None:
    section = Section({**copy.deepcopy(DOCUMENT), "esp_nn": {**ESP_NN, "faults": ["esp-grouped-conv"]}}, [])
    library = read_runtime(section).esp_nn
    assert section.problems == []
    op_data = (("CONV_2D", "OpDataConv i32"),)
    assert library == EspNNLibrary(
        (1, 2, 0), "b859e50", "2026-04-06", ("esp-grouped-conv",), op_data, filter_channels=False
    )


def problems(path: str, value: Any) -> list[Problem]:
    """What is wrong with the packaged runtime when the value at a dotted path is another; None removes it."""
    document = copy.deepcopy(DOCUMENT)
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    table: Any = document
    for parent in parents:
        table = table[parent]
    if value is None:
        del table[last]
    else:
        table[last] = value
    section = Section(document, [])
    read_runtime(section)
    return section.problems


def test_the_packaged_runtime_is_right() -> None:
    assert problems("description", "another") == []


@pytest.mark.parametrize(
    ("path", "value", "key", "what"),
    [
        (
            "structs.TfLiteNode",
            "pointer*6 int",
            "structs.TfLiteNode",
            "'int' is neither a scalar nor a previously defined struct",
        ),
        ("structs.TfLiteNode", "pointer*0", "structs.TfLiteNode", "'pointer*0' must have a count"),
        ("structs.TfLiteNode", "pointer*", "structs.TfLiteNode", "'pointer*' must have a count"),
        ("structs.TfLiteNode", "pointer*1*2", "structs.TfLiteNode", "must have a count"),
        ("structs.TfLiteNode", "pointer*99999999999", "structs.TfLiteNode", "must have a count from 1 to 65536"),
        ("structs.TfLiteNode", "pointer*²", "structs.TfLiteNode", "must have a count"),
        ("structs.TfLiteNode", "TfLiteNode", "structs.TfLiteNode", "neither a scalar nor a previously defined struct"),
        ("structs.TfLiteNode", 7, "structs.TfLiteNode", "must be a string, not an integer"),
        ("structs.i32", "i8", "structs.i32", "is not a valid name of a struct"),
        ("structs.a b", "i8", "structs.a b", "is not a valid name of a struct"),
        ("structs", "i32", "structs", "must be a table, not a string"),
        ("structs", None, "structs", "is missing"),
        ("options.CONV_2D", "TfLiteConvParam", "options.CONV_2D", "neither a scalar nor a previously defined struct"),
        ("options.CONV_3D", "i32", "options.CONV_3D", "is not an operator of this runtime"),
        ("options.ADD", True, "options.ADD", "must be a string, not a boolean"),
        ("options", None, "options", "is missing"),
        ("op_data.reference.ADDD", "i32", "op_data.reference.ADDD", "is not an operator of this runtime"),
        (
            "op_data.cmsis-nn.ADD",
            "i33",
            "op_data.cmsis-nn.ADD",
            "'i33' is neither a scalar nor a previously defined struct",
        ),
        ("op_data.esp-nn", {}, "op_data.esp-nn", "unknown key"),
        ("op_data", None, "op_data", "is missing"),
        ("registration.0.operator", "ADDD", "registration[0].operator", "'ADDD' is not in [resolver]"),
        ("registration.0.operator", "SignalDelay", "registration[0].operator", "'SignalDelay' is not in [resolver]"),
        ("registration.0.kernels", "esp", "registration[0].kernels", "'esp' is not one of cmsis-nn, esp-nn, reference"),
        ("registration.0.types", "int8", "registration[0].types", "must have exactly one '>'"),
        ("registration.0.types", None, "registration[0].types", "is missing"),
        (
            "registration.1.types",
            "int8 = > =",
            "registration[1].types",
            "another registration of ADD has the same types",
        ),
        ("registration.0.function", "Add()", "registration[0].function", "must be the name of a function"),
        ("registration.0.header", '"add.h"', "registration[0].header", "must be the path of a header in TFLM"),
        ("registration.0.type", "int8", "registration[0].type", "unknown key"),
        ("abi", None, "abi", "is missing"),
        ("abi", {}, "abi", "must be a list"),
        ("abi.0.pointer_bytes", 2, "abi[0].pointer_bytes", "2 is outside the range 4 to 8"),
        ("abi.0.pointer_bytes", 6, "abi[0].pointer_bytes", "6 is not one of 4, 8"),
        ("abi.0.enum_bytes", True, "abi[0].enum_bytes", "must be an integer, not a boolean"),
        ("abi.0.i64_alignment", None, "abi[0].i64_alignment", "is missing"),
        ("abi.0.measured", ["guessed"], "abi[0].measured", "'guessed' is not one of cmsis-nn, esp-nn"),
        ("abi.0.bits", 32, "abi[0].bits", "unknown key"),
        ("abi.1.name", "arm-eabi", "abi[1].name", "there are two ABIs with the name 'arm-eabi'"),
        ("abi.1.replaced.MicroAllocator", "Mine", "abi[1].replaced.MicroAllocator", "there is no struct 'Mine'"),
        ("abi.1.replaced.Mine", "MicroAllocator", "abi[1].replaced.Mine", "there is no struct 'Mine'"),
        ("abi.1.replaced", [], "abi[1].replaced", "must be a table"),
        ("esp_nn", {"commit": "1", "op_data": {}}, "esp_nn.version", "is missing"),
        ("esp_nn", {**ESP_NN, "version": "1.3.0"}, "esp_nn.version", "is not a version whose scratch sizes are known"),
        ("esp_nn", {**ESP_NN, "version": "newest"}, "esp_nn.version", "is not a version whose scratch sizes are known"),
        ("esp_nn", {**ESP_NN, "filter_channels": 1}, "esp_nn.filter_channels", "must be a boolean, not an integer"),
        ("esp_nn", {**ESP_NN, "chip": "esp32"}, "esp_nn.chip", "unknown key"),
        ("esp_nn", {**ESP_NN, "op_data": {"CONV": "i32"}}, "esp_nn.op_data.CONV", "is not an operator of this runtime"),
    ],
)
def test_each_mistake_is_named(path: str, value: Any, key: str, what: str) -> None:
    found = problems(path, value)
    assert any(problem.key == key and what in problem.what for problem in found), found


def test_a_guess_is_offered() -> None:
    assert problems("options.CONV_2D", "TfLiteConvParam")[0].fix == "did you mean 'TfLiteConvParams'?"
    assert problems("options.CONV_3D", "")[0].fix == "did you mean 'CONV_2D'?"


def test_a_struct_uses_only_earlier_ones() -> None:
    section = Section({"structs": {"A": "B", "B": "i32", "C": "B*2 A"}}, [])
    assert read_structs(section, "structs") == (("B", "i32"),)
    assert [problem.key for problem in section.problems] == ["structs.A", "structs.C"]


FIELDS = st.text(st.sampled_from("i8 32*4pointerenumboolAB\t\n\0é-"), max_size=30)


@given(FIELDS)
def test_what_is_accepted_can_be_computed(fields: str) -> None:
    if fields_problem(fields, ["AB"]) is None:
        assert struct_size(fields, Abi("a", 4, 1, 8, "derived"), {"AB": StructSize(12, 4)}).size_bytes >= 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, st.sampled_from(["structs", "options", "op_data", "abi", "op_data.reference", "abi.1.replaced", "abi.0"]))
def test_no_value_crashes_the_reader(value: Any, path: str) -> None:
    for problem in problems(path, value):
        assert problem.key
        assert len(problem.what) < 400


@given(st.dictionaries(st.sampled_from([*ABI, "replaced", "x"]), JSON))
def test_no_abi_crashes_the_reader(entry: dict[str, Any]) -> None:
    section = Section({"abi": [{**ABI, **entry}]}, [])
    assert len(read_abis(section, {"A": ""})) == 1
