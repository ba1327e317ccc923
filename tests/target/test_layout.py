"""What a runtime's profile may say of structs: every mistake is named with its key."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.target.profile import fields_problem, read_abis, read_runtime, read_structs
from edgetool.target.toml import Problem, Section
from edgetool.target.types import Abi, StructSize, struct_size

PACKAGED = Path(__file__).resolve().parents[2] / "targets" / "runtimes" / "tflm-2026-08.toml"
DOCUMENT = tomllib.loads(PACKAGED.read_text(encoding="utf-8"))
ABI = {"name": "a", "pointer_bytes": 4, "enum_bytes": 1, "i64_alignment": 8, "measured": ["reference"]}


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
        ("abi", None, "abi", "is missing"),
        ("abi", {}, "abi", "must be a list"),
        ("abi.0.pointer_bytes", 2, "abi[0].pointer_bytes", "2 is outside the range 4 to 8"),
        ("abi.0.pointer_bytes", 6, "abi[0].pointer_bytes", "6 is not one of 4, 8"),
        ("abi.0.enum_bytes", True, "abi[0].enum_bytes", "must be an integer, not a boolean"),
        ("abi.0.i64_alignment", None, "abi[0].i64_alignment", "is missing"),
        ("abi.0.measured", ["guessed"], "abi[0].measured", "'guessed' is not one of cmsis-nn, reference"),
        ("abi.0.bits", 32, "abi[0].bits", "unknown key"),
        ("abi.1.name", "arm-eabi", "abi[1].name", "there are two ABIs with the name 'arm-eabi'"),
        ("abi.1.replaced.MicroAllocator", "Mine", "abi[1].replaced.MicroAllocator", "there is no struct 'Mine'"),
        ("abi.1.replaced.Mine", "MicroAllocator", "abi[1].replaced.Mine", "there is no struct 'Mine'"),
        ("abi.1.replaced", [], "abi[1].replaced", "must be a table"),
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
