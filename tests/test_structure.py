"""Parsed documents as typed values: every problem with its key, and nothing hostile gets through."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from edgetool.errors import MAX_PROBLEMS, Problem, problems_as_error
from edgetool.structure import MAX_DOCUMENT_PROBLEMS, Object, StructureError, shown, strict_json, structured


@dataclass(frozen=True, slots=True)
class Band:
    low: float
    high: float

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise StructureError(Problem("low", "is greater than high", "swap them"))


class Part(Object):
    size: Annotated[int, Meta(ge=1, le=4)]
    kind: Literal["ram", "flash"] = "ram"


class Document(Object):
    name: Annotated[str, Meta(description="a name")]
    ratio: float = 0.0
    band: Band | None = None
    parts: Annotated[tuple[Part, ...], Meta(max_length=3)] = ()
    mixed: tuple[int | Part, ...] = ()
    pair: tuple[str, int] | None = None
    by_name: Mapping[str, Part] | None = None
    texts: dict[str, str] | None = None
    anything: dict[str, object] | None = None


def problems(document: object) -> list[tuple[str, str, str | None]]:
    with pytest.raises(StructureError) as caught:
        structured(document, Document)
    return [(problem.key, problem.what, problem.fix) for problem in caught.value.problems]


def test_a_document_becomes_a_value() -> None:
    document = {
        "name": "a",
        "ratio": 5,
        "band": {"low": 1, "high": 2, "later": 3},
        "parts": [{"size": 1}, {"size": 4, "kind": "flash"}],
        "mixed": [7, {"size": 2}],
        "pair": ["x", 1],
        "by_name": {"y": {"size": 3}},
        "anything": {"z": [1, {"deep": None}]},
    }
    value = structured(document, Document)
    assert (value.name, value.ratio, value.band) == ("a", 5.0, Band(1.0, 2.0))
    assert value.parts == (Part(1), Part(4, "flash"))
    assert value.mixed == (7, Part(2))
    assert value.pair == ("x", 1)
    assert value.by_name == {"y": Part(3)}
    assert value.anything == document["anything"]


@pytest.mark.parametrize(
    ("changes", "key", "what", "fix"),
    [
        ({"name": 5}, "name", "is 5, not a name", None),
        ({"nam": "b"}, "nam", "is an unknown key", "did you mean 'name'?"),
        ({"qqq": 1}, "qqq", "is an unknown key", "the keys are name, ratio"),
        ({"\ud800": 1}, "'\\ud800'", "is an unknown key", "the keys are"),
        ({"ratio": True}, "ratio", "is true, not a number", None),
        ({"ratio": 10**400}, "ratio", "is a number with many digits, not a number", None),
        ({"ratio": "\ud800"}, "ratio", 'is "\\ud800", not a number', None),
        ({"band": {"low": 1}}, "band.high", "is missing", None),
        ({"band": {"low": 2, "high": 1}}, "band.low", "is greater than high", "swap them"),
        ({"band": {"low": 1, "high": 2, "\ud800": 1}}, "band.'\\ud800'", "is not Unicode text", None),
        ({"parts": {}}, "parts", "is {...}, not a list of at most 3 entries", None),
        ({"parts": [{"size": 1}] * 4}, "parts", "is a list of 4, not a list of at most 3 entries", None),
        ({"parts": [{"size": 1}, {"size": 5}]}, "parts[1].size", "is 5, not an integer from 1 to 4", None),
        ({"parts": [{"size": 2**70}]}, "parts[0].size", "is a number with many digits, not an integer", None),
        (
            {"parts": [{"size": 1, "kind": "flahs"}]},
            "parts[0].kind",
            'is "flahs", not one of ram, flash',
            "did you mean 'flash'?",
        ),
        ({"parts": [{"size": 1, "kind": "\ud800"}]}, "parts[0].kind", "not one of ram, flash", None),
        ({"mixed": [1, 1.5]}, "mixed[1]", "is 1.5, not an integer or an object", None),
        ({"mixed": [1, {"size": 0}]}, "mixed[1].size", "is 0, not an integer from 1 to 4", None),
        ({"pair": ["x"]}, "pair", "is a list of 1, not a list of 2", None),
        ({"pair": ["x", None]}, "pair[1]", "is null, not an integer", None),
        ({"by_name": {"a.b": {"size": 9}}}, "by_name.a.b.size", "is 9, not an integer from 1 to 4", None),
        ({"by_name": {"x" * 500: 1}}, f"by_name.'{'x' * 80}'", "is 1, not an object", None),
        ({"texts": {"a": []}}, "texts.a", "is a list of 0, not a string", None),
        ({"anything": 1}, "anything", "is 1, not an object", None),
    ],
)
def test_a_problem_names_key_reason_and_suggestion(
    changes: dict[str, Any], key: str, what: str, fix: str | None
) -> None:
    ((found_key, found_what, found_fix),) = problems({"name": "a", **changes})
    assert found_key == key
    assert what in found_what
    assert (fix is None) == (found_fix is None)
    assert fix is None or fix in (found_fix or "")


def test_all_problems_are_listed_in_the_order_of_the_type() -> None:
    document = {"x": 1, "parts": [{"size": 0}, {"size": 1}, 3], "texts": {"a": 1, "b": "", "c": 2}}
    assert [key for key, _, _ in problems(document)] == ["name", "parts[0].size", "parts[2]", "texts.a", "texts.c", "x"]


def test_very_many_problems_are_counted() -> None:
    with pytest.raises(StructureError) as caught:
        structured(dict.fromkeys(map(str, range(900)), 1), dict[str, str])
    error = problems_as_error(caught.value.problems, "x.json")
    assert error.where == "x.json: 0"
    assert len(error.details) == MAX_PROBLEMS + 1
    assert error.details[-1] == f"and {899 - MAX_PROBLEMS} more problems"


def test_a_document_of_nothing_but_problems_takes_no_time() -> None:
    with pytest.raises(StructureError) as caught:
        structured([{"x": 1}] * 1_000_000, tuple[Part, ...])
    assert len(caught.value.problems) == MAX_DOCUMENT_PROBLEMS


def test_a_part_of_a_document_has_its_place() -> None:
    with pytest.raises(StructureError, match=r"entries\[3\]\.size is missing"):
        structured({}, Part, "entries[3]")


def test_deep_nesting_is_accepted_only_where_any_value_is() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    structured({"name": "a", "anything": {"deep": deep}}, Document)
    assert problems({"name": "a", "parts": [deep]})[0][:2] == ("parts[0]", "is a list of 1, not an object")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1 is not valid JSON at column 1: Expecting value"),
        ("{\n1", "line 2 is not valid JSON at column 1"),
        ('{"a": 1, "b": 2, "a": 3}', 'has the key "a" twice in one object'),
        ('{"' + "k" * 1000 + '": 1, "' + "k" * 1000 + '": 2}', "kkk..."),
        ("[NaN]", "contains NaN, which is not a valid JSON number"),
        ("[-Infinity]", "contains -Infinity"),
        ("9" * 5000, "contains a number with thousands of digits"),
        ("[" * 100_000, "is nested too deeply"),
        ("[" + "1," * 100, "has more than 100 values"),
    ],
)
def test_json_that_is_not_valid(text: str, said: str) -> None:
    with pytest.raises(StructureError) as caught:
        strict_json(text, max_values=10**6 if len(text) != 201 else 100)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["ram", "", "\ud800", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["size", "kind", "low", "high", "\ud800", "x"]), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["name", *Document.__struct_fields__, "other"]), JSON))
def test_any_document_is_a_value_or_has_problems(document: dict[str, Any]) -> None:
    try:
        value = structured(document, Document)
    except StructureError as error:
        refused = error.problems
    else:
        assert isinstance(value.name, str)
        return
    assert refused
    assert all(problem.key and problem.what for problem in refused)


@given(st.text(max_size=30) | JSON.map(json.dumps))
def test_any_text_is_json_or_refused(text: str) -> None:
    try:
        value = strict_json(text, max_values=10**6)
    except StructureError:
        return
    assert json.loads(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-5, "-5"),
        ("é", '"\\u00e9"'),
        ("x" * 90, '"' + "x" * 36 + "..."),
        ([1, 2], "a list of 2"),
        ({}, "{...}"),
        (10**4000, "a number with many digits"),
        (math.inf, "Infinity"),
    ],
)
def test_a_value_is_shown_short_and_in_ascii(value: object, text: str) -> None:
    assert shown(value) == text
