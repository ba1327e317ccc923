"""The tables beside the profiles: what is read, and that a bad row is named with its file and line."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import TargetError
from edgetool.target.load import list_cores, list_targets, load_core, load_target
from edgetool.target.tables import (
    PLACEMENT_COLUMNS,
    PLACEMENTS,
    load_factors,
    load_instructions,
    load_placement_effects,
    parse_factors,
    parse_instructions,
    parse_placement_effects,
)

GOOD = "operator,path,loop,instructions\nADD,int8,call,120\nADD,int8,element,13.8\nCONV_2D,int8 1x1,mac,0.17\n"
FACTORS = "runtime,core,factor,low,high,rows,basis\nX-CUBE-AI,cortex-m4,0.5,0.4,0.7,4,four rows\n"


def test_a_table_is_read() -> None:
    table = parse_instructions(GOOD, where="t.csv")
    assert table == {("ADD", "int8"): {"call": 120.0, "element": 13.8}, ("CONV_2D", "int8 1x1"): {"mac": 0.17}}
    with pytest.raises(TypeError):
        table["ADD", "int8"]["call"] = 1.0  # type: ignore[index]


@pytest.mark.parametrize("core", [name for name in list_cores() if load_core(name).instructions])
def test_every_timing_has_its_table(core: str) -> None:
    named = load_core(core).instructions
    assert named is not None
    for timing in load_core(core).timings:
        table = load_instructions(named, timing.kernels)
        assert load_instructions(named, timing.kernels) is table
        assert {"CONV_2D", "ADD", "SOFTMAX"} <= {operator for operator, _ in table}


def test_a_core_with_a_timing_names_its_tables() -> None:
    for name in list_cores():
        assert (load_core(name).instructions is None) == (load_core(name).timings == ())


@pytest.mark.parametrize("core", ["cortex-m9", "", "../cores/cortex-m4", "x" * 9999, "\0"])
def test_an_unknown_core_has_no_table(core: str) -> None:
    with pytest.raises(TargetError, match="unknown core"):
        load_instructions(core, "cmsis-nn")


def test_a_core_without_a_table_is_named() -> None:
    with pytest.raises(TargetError, match=r"aarch64\.reference\.csv: there is no table"):
        load_instructions("aarch64", "reference")


BAD = {
    "empty": ("", 1, "the header must be operator,path,loop,instructions"),
    "another header": (GOOD.replace("loop", "loops", 1), 1, "the header must be"),
    "a cell too few": (f"{GOOD}ADD,int8,x\n", 5, "must have 4 cells"),
    "a cell too many": (f"{GOOD}ADD,int8,x,1,2\n", 5, "must have 4 cells"),
    "an empty cell": (f"{GOOD}ADD,,x,1\n", 5, "none of them empty"),
    "a blank line": (f"{GOOD}\n", 5, "must have 4 cells"),
    "spaces": (f"{GOOD}ADD,int8 ,x,1\n", 5, "must have 4 cells"),
    "no number": (f"{GOOD}ADD,int8,x,many\n", 5, "'many' is not a number"),
    "NaN": (f"{GOOD}ADD,int8,x,nan\n", 5, "nan is outside the range"),
    "infinity": (f"{GOOD}ADD,int8,x,inf\n", 5, "inf is outside the range"),
    "negative": (f"{GOOD}ADD,int8,x,-1\n", 5, "-1 is outside the range"),
    "twice": (f"{GOOD}ADD,int8,call,120\n", 5, "ADD, int8, call is listed twice"),
    "an open quote": (f'{GOOD}ADD,int8,"x,1\n', 5, "is not valid CSV"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_row_is_named(case: str) -> None:
    text, line, said = BAD[case]
    with pytest.raises(TargetError) as caught:
        parse_instructions(text, where="t.csv")
    assert caught.value.where == f"t.csv:{line}"
    assert said in caught.value.what
    assert caught.value.exit_code == 2


@given(st.text(alphabet='ADint8,"\n 0.9e-+\r\0', max_size=60))
def test_any_text_is_read_or_refused(rows: str) -> None:
    try:
        table = parse_instructions(f"operator,path,loop,instructions\n{rows}", where="t.csv")
    except TargetError:
        return
    assert all(math.isfinite(value) and value >= 0 for loops in table.values() for value in loops.values())


def test_the_factors_are_of_known_cores_and_reach_the_targets() -> None:
    factors = load_factors()
    assert factors
    for factor in factors:
        assert factor.low <= factor.factor <= factor.high
        assert factor in load_target(factor.core).factors
    for name in list_targets():
        target = load_target(name)
        assert {factor.core for factor in target.factors} <= {target.core.name}
        assert len(target.factors) == sum(factor.core == target.core.name for factor in factors)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cortex-m4", "cortex-m9", "core: unknown core 'cortex-m9'"),
        ("0.5,", "0,", "factor: 0 is outside the range"),
        ("0.5,", "nan,", "factor: nan is outside the range"),
        ("0.5,", "0.9,", "factor is not between low and high"),
        (",4,", ",0,", "rows: 0 is outside the range"),
        (",4,", ",four,", "rows: 'four' is not a number"),
        ("four rows", "", "none of them empty"),
    ],
)
def test_a_bad_factor_is_named(old: str, new: str, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_factors(FACTORS.replace(old, new, 1), where="f.csv")
    assert (caught.value.where, said in caught.value.what) == ("f.csv:2", True), caught.value


def test_a_runtime_has_one_factor_on_a_core() -> None:
    with pytest.raises(TargetError, match=r"f\.csv:3: X-CUBE-AI on cortex-m4 is listed twice"):
        parse_factors(FACTORS + FACTORS.splitlines()[1] + "\n", where="f.csv")


HEADER = ",".join(PLACEMENT_COLUMNS)
ROW = "arena-in-external-ram,STM32F767,cortex-m7,3.8,a model,a document,true"


def test_the_packaged_table_names_chips_cores_and_documents() -> None:
    effects = load_placement_effects()
    assert {effect.placement for effect in effects} == set(PLACEMENTS)
    assert all(effect.core in list_cores() and effect.factor > 1 and effect.document for effect in effects)


def test_a_table_of_placement_effects_is_read() -> None:
    (effect,) = parse_placement_effects(f"{HEADER}\n{ROW}\n", where="t.csv")
    assert (effect.mcu, effect.factor, effect.verified) == ("STM32F767", 3.8, True)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", r"t\.csv:1: the header"),
        (f"{HEADER},more\n", r"t\.csv:1: the header"),
        (f"{HEADER}\n{ROW},more", r"t\.csv:2: a row must have 7 cells"),
        (f"{HEADER}\n{ROW}\n{ROW.replace('a model', '')}", r"t\.csv:3: a row must have 7 cells, none of them empty"),
        (f"{HEADER}\n{ROW.replace('arena-in', 'arena-on')}", "placement: 'arena-on-external-ram'"),
        (f"{HEADER}\n{ROW.replace('3.8', 'nan')}", "factor: 'nan'"),
        (f"{HEADER}\n{ROW.replace('3.8', '0.5')}", "factor: '0.5'"),
        (f"{HEADER}\n{ROW.replace('3.8', 'much')}", "factor: 'much'"),
        (f"{HEADER}\n{ROW.replace('true', 'yes')}", "verified: 'yes'"),
        (f'{HEADER}\n"{ROW}', "is not valid CSV"),
    ],
)
def test_a_broken_table_is_refused_by_line(text: str, reported: str) -> None:
    with pytest.raises(TargetError, match=reported):
        parse_placement_effects(text, where="t.csv")
