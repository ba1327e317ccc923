"""Custom operators described in TOML: what the entries say, and what is refused with its key."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgetool.model.types import DType
from edgetool.operators import described as room
from edgetool.operators.call import KernelRefusal, Request, persistent, scratch
from edgetool.operators.described import MAX_BUFFER_BYTES, MAX_LIST, describe_operators
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import operator_costs
from tests.model.builders import Builder
from tests.operators.calls import call, tensor

FULL = """
[[operator]]
name = "MyOp"
resolver_method = "AddMyOp"
macs_per_output = 9
init = [24, 0]
persistent = [128, { input = 0, bytes_per_element = 2 }]
scratch = [{ output = 0, bytes_per_element = 4, plus = 16 }, 512]
temporary_inputs = [0, 1, 0]
temporary_outputs = [0]
"""
CALL = call("CUSTOM", [tensor(2, 3), tensor(5)], [tensor(7, dtype=DType.INT32)])


def described(text: str) -> dict[str, OperatorEntry]:
    entries, problems = describe_operators(tomllib.loads(text))
    assert problems == []
    return entries


def init_bytes(entry: OperatorEntry) -> tuple[int, ...]:
    return tuple(request.size_bytes for request in entry.init(CALL))


def asked(entry: OperatorEntry, made: Any = CALL) -> list[Request]:
    assert entry.prepare is not None
    return list(entry.prepare(made))


def test_every_key_is_in_the_entry() -> None:
    entry = described(FULL)["MyOp"]
    assert (entry.code, entry.resolver_method, init_bytes(entry)) == ("MyOp", "AddMyOp", (24, 0))
    requests = asked(entry)
    assert [request.tensor for request in requests[4:]] == [0, 1, 0, 2]
    assert all(request.kind == "temporary tensor" for request in requests[4:])
    assert requests[:4] == [
        persistent("persistent buffer 0", 128),
        persistent("persistent buffer 1", 2 * 6),
        scratch("buffer 0", 4 * 7 + 16),
        scratch("buffer 1", 512),
    ]


def test_allocations_are_unknown_unless_one_of_their_keys_is_there() -> None:
    unknown = described('[[operator]]\nname = "a"\nmacs_per_output = 1')["a"]
    assert (unknown.prepare, unknown.resolver_method, init_bytes(unknown)) == (None, None, ())
    for key in ("init", "persistent", "scratch", "temporary_inputs", "temporary_outputs"):
        assert asked(described(f'[[operator]]\nname = "a"\n{key} = []')["a"]) == []


def test_a_temporary_tensor_that_the_operator_lacks_takes_nothing() -> None:
    made = call("CUSTOM", [tensor(1), None], [tensor(1)])
    entry = described('[[operator]]\nname = "a"\ntemporary_inputs = [0, 1, 2]\ntemporary_outputs = [1]')["a"]
    assert [request.tensor for request in asked(entry, made)] == [0]


@pytest.mark.parametrize("key", ["persistent", "scratch"])
@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("position", [2, 1023])
def test_a_size_of_a_tensor_that_the_operator_lacks_is_refused(key: str, side: str, position: int) -> None:
    entry = described(f'[[operator]]\nname = "a"\n{key} = [{{ {side} = {position}, bytes_per_element = 1 }}]')["a"]
    with pytest.raises(KernelRefusal, match=f"CUSTOM has no {side} {position}"):
        asked(entry)


def test_a_size_of_an_input_left_out_is_refused() -> None:
    entry = described('[[operator]]\nname = "a"\nscratch = [{ input = 0, bytes_per_element = 1 }]')["a"]
    with pytest.raises(KernelRefusal, match="CUSTOM has no input 0"):
        asked(entry, call("CUSTOM", [None], [tensor(1)]))


@pytest.mark.parametrize(
    ("line", "macs", "known"),
    [
        ("", 0, False),
        ("macs_per_output = 0", 0, True),
        ("macs_per_output = 9", 54, True),
        ("macs_per_output = 0.5", 3, True),
    ],
)
def test_macs_are_those_of_the_elements_of_output_0(line: str, macs: int, known: bool) -> None:
    build = Builder()
    x, y = build.activation([4]), build.activation([2, 3])
    build.operator("CUSTOM", [x], [y], custom_code="MyOp")
    (cost,) = operator_costs(build.model([x], [y]), described(f'[[operator]]\nname = "MyOp"\n{line}'))
    assert (cost.macs, cost.known) == (macs, known)


def test_an_operator_without_outputs_does_no_macs() -> None:
    build = Builder()
    x = build.activation([4])
    build.operator("CUSTOM", [x], [], custom_code="MyOp")
    (cost,) = operator_costs(build.model([x], [x]), described(FULL))
    assert (cost.macs, cost.known) == (0, True)


def test_the_form_in_the_documentation_is_the_form() -> None:
    lines = (room.__doc__ or "").splitlines()
    (entry,) = described("\n".join(line.strip() for line in lines if line.startswith("    "))).values()
    assert (entry.code, entry.resolver_method, init_bytes(entry)) == ("MyOp", "AddMyOp", (24,))
    assert len(asked(entry)) == 6


HEAD = '[[operator]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("text", "key", "what"),
    [
        ("", "operator", "is missing"),
        ("operator = []", "operator", "is missing"),
        ("operator = 3", "operator", "is 3, not at most 1000 [[operator]] tables"),
        ('operator = ["a"]', "operator[0]", 'is "a", not a table'),
        ("[operator]\nname = 'a'", "operator", "is {...}, not at most 1000 [[operator]] tables"),
        (HEAD + "[board]", "board", "unknown key"),
        ("[[operator]]", "operator[0].name", "is missing"),
        ('[[operator]]\nname = ""', "operator[0].name", "printable"),
        ("[[operator]]\nname = 3", "operator[0].name", "is 3, not one line"),
        (HEAD + HEAD, "operator[1].name", "there are two descriptions of 'a'"),
        (HEAD + "scrach = []", "operator[0].scrach", "unknown key"),
        (HEAD + 'resolver_method = "Add MyOp"', "operator[0].resolver_method", "not a C++ method name"),
        (HEAD + 'resolver_method = "Add\\n"', "operator[0].resolver_method", "not a C++ method name"),
        (HEAD + 'resolver_method = "Addé"', "operator[0].resolver_method", "not a C++ method name"),
        (HEAD + "macs_per_output = -1", "operator[0].macs_per_output", "is -1, not a number from 0 to 1e+09"),
        (HEAD + "macs_per_output = nan", "operator[0].macs_per_output", "not a number from 0 to 1e+09"),
        (HEAD + "macs_per_output = inf", "operator[0].macs_per_output", "not a number from 0 to 1e+09"),
        (HEAD + "macs_per_output = true", "operator[0].macs_per_output", "is true, not a number"),
        (HEAD + f"macs_per_output = 0x1{'0' * 400}", "operator[0].macs_per_output", "a number with many digits"),
        (HEAD + "init = 24", "operator[0].init", "is 24, not a list"),
        (HEAD + "init = [1, -1]", "operator[0].init[1]", "is -1, not an integer"),
        (HEAD + "init = [{ output = 0, bytes_per_element = 1 }]", "operator[0].init[0]", "is {...}, not an integer"),
        (
            HEAD + f"persistent = [{MAX_BUFFER_BYTES + 1}]",
            "operator[0].persistent[0]",
            "not an integer from 0 to",
        ),
        (HEAD + f"persistent = {[0] * (MAX_LIST + 1)}", "operator[0].persistent", "at most"),
        (HEAD + "persistent = [true]", "operator[0].persistent[0]", "not an integer from 0 to"),
        (HEAD + "persistent = [1.5]", "operator[0].persistent[0]", "not an integer from 0 to"),
        (HEAD + "scratch = [1, {}]", "operator[0].scratch[1]", "either an input or an output"),
        (HEAD + "scratch = [{ output = 0 }]", "operator[0].scratch[0].bytes_per_element", "is missing"),
        (
            HEAD + "scratch = [{ input = 0, output = 0, bytes_per_element = 1 }]",
            "operator[0].scratch[0]",
            "either an input or an output",
        ),
        (
            HEAD + "scratch = [{ output = -1, bytes_per_element = 1 }]",
            "operator[0].scratch[0].output",
            "is -1, not an integer from 0",
        ),
        (HEAD + "scratch = [{ output = 0, bytes_per_element = 0 }]", "operator[0].scratch[0].bytes_per_element", "0"),
        (
            HEAD + "scratch = [{ output = 0, bytes_per_element = 1, add = 1 }]",
            "operator[0].scratch[0].add",
            "unknown key",
        ),
        (HEAD + f"scratch = {[0] * 13}", "operator[0].scratch", "is a list of 13, not a list of at most 12"),
        (HEAD + "temporary_inputs = [-1]", "operator[0].temporary_inputs[0]", "is -1, not an integer from 0 to 1023"),
        (
            HEAD + "temporary_outputs = ['0']",
            "operator[0].temporary_outputs[0]",
            'is "0", not an integer',
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_key(text: str, key: str, what: str) -> None:
    _, problems = describe_operators(tomllib.loads(text))
    assert problems[0].key == key
    assert what in problems[0].what


def test_all_problems_are_found_at_once() -> None:
    _, problems = describe_operators(tomllib.loads('[[operator]]\ninit = [-1, "a"]\nscratch = [{}]\nx = 1'))
    assert [problem.key for problem in problems] == [
        "operator[0].name",
        "operator[0].init[0]",
        "operator[0].init[1]",
        "operator[0].scratch[0]",
        "operator[0].scratch[0].bytes_per_element",
        "operator[0].x",
    ]


NUMBERS = st.one_of(st.integers(), st.integers(0, 20), st.floats(), st.just(10**400))
VALUES = st.recursive(
    st.one_of(NUMBERS, st.booleans(), st.text(max_size=5), st.dates()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["input", "output", "bytes_per_element", "plus", "x"]), inner, max_size=4),
    ),
    max_leaves=6,
)
KEYS = [
    *("name", "resolver_method", "macs_per_output", "init", "persistent", "scratch"),
    *("temporary_inputs", "temporary_outputs", "other"),
]
TABLES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6)


@given(st.one_of(st.fixed_dictionaries({"operator": st.lists(TABLES, max_size=3)}), st.dictionaries(st.text(), VALUES)))
@example({"operator": [{"name": "a", "macs_per_output": 10**400}]})
def test_odd_values_are_problems_or_entries_that_work(document: dict[str, Any]) -> None:
    entries, problems = describe_operators(document)
    if problems:
        assert all(problem.key and problem.what for problem in problems)
        return
    assert list(entries) == [table["name"] for table in document["operator"]]
    for entry in entries.values():
        assert entry.macs is None or entry.macs(CALL.operator, CALL.graph) >= 0
        try:
            requests = list(entry.prepare(CALL)) if entry.prepare is not None else []
        except KernelRefusal:
            continue
        assert all(request.size_bytes >= 0 for request in requests)


SIZES = st.one_of(
    st.integers(0, 2**20),
    st.builds(
        lambda side, position, each, plus: {side: position, "bytes_per_element": each, "plus": plus},
        st.sampled_from(["input", "output"]),
        st.integers(0, 3),
        st.integers(1, 64),
        st.integers(0, 4096),
    ),
)
POSITIONS = st.lists(st.integers(0, 5), max_size=8)


@given(
    st.lists(st.integers(0, 2**20), max_size=4),
    st.lists(SIZES, max_size=4),
    st.lists(SIZES, max_size=12),
    POSITIONS,
    POSITIONS,
)
def test_what_fits_the_form_is_asked_for_as_it_says(
    init: list[int], persistents: list[Any], scratches: list[Any], inputs: list[int], outputs: list[int]
) -> None:
    table = {
        "name": "a",
        "init": init,
        "persistent": persistents,
        "scratch": scratches,
        "temporary_inputs": inputs,
        "temporary_outputs": outputs,
    }
    entries, problems = describe_operators({"operator": [table]})
    assert problems == []
    elements = {("input", 0): 6, ("input", 1): 5, ("output", 0): 7}

    def size_of(size: Any) -> int | None:
        if isinstance(size, int):
            return size
        side = "input" if "input" in size else "output"
        count = elements.get((side, size[side]))
        return None if count is None else size["bytes_per_element"] * count + size["plus"]

    expected = [("persistent", size_of(size)) for size in persistents] + [("scratch", size_of(s)) for s in scratches]
    entry = entries["a"]
    assert init_bytes(entry) == tuple(init)
    if any(size is None for _, size in expected):
        with pytest.raises(KernelRefusal):
            asked(entry)
        return
    requests = asked(entry)
    tensors = [request.tensor for request in requests if request.kind == "temporary tensor"]
    assert tensors == [*(i for i in inputs if i < 2), *(2 for i in outputs if i == 0)]
    assert [(r.kind, r.size_bytes) for r in requests[: len(expected)]] == expected
