"""Graphs as JSON: lifetimes, orders, and what is refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import InvalidModelError
from edgetool.memory.instances import InstanceFile, TensorGraph, read_instance, write_answer
from edgetool.memory.problem import Layout

TENSORS = [
    {"name": "x", "size": 16},
    {"name": "w", "size": 4, "constant": True},
    {"name": "y", "size": 8},
    {"name": "z", "size": 2},
]
OPERATORS = [
    {"name": "first", "inputs": ["x", "w"], "outputs": ["y"]},
    {"name": "second", "inputs": ["y", "w"], "outputs": ["z"]},
]
GRAPH: dict[str, Any] = {"tensors": TENSORS, "operators": OPERATORS}


def read(document: object, *, constants_in_ram: bool = False) -> InstanceFile:
    return read_instance(json.dumps(document), constants_in_ram=constants_in_ram)


def lives(instance: InstanceFile) -> dict[str, tuple[int, int]]:
    return {b.name: (b.lifetime.first, b.lifetime.last) for b in instance.problem.buffers}


def changed(**keys: Any) -> dict[str, Any]:
    return {**GRAPH, **keys}


def test_inputs_live_from_before_the_first_operator_and_outputs_to_the_end() -> None:
    assert lives(read(GRAPH)) == {"x": (-1, 0), "y": (0, 1), "z": (1, 1)}
    assert lives(read(changed(inputs=["x"], outputs=["x", "y"]))) == {"x": (-1, 1), "y": (0, 1), "z": (1, 1)}


def test_each_use_of_a_constant_in_ram_is_a_buffer_of_its_own() -> None:
    instance = read(GRAPH, constants_in_ram=True)
    assert lives(instance) == {
        "x": (-1, 0),
        "w at first": (0, 0),
        "w at second": (1, 1),
        "y": (0, 1),
        "z": (1, 1),
    }
    assert [buffer.tensor for buffer in instance.problem.buffers] == [0, 1, 1, 2, 3]


def test_an_unused_tensor_needs_no_memory_and_an_unread_input_a_moment() -> None:
    document = changed(tensors=[*TENSORS, {"name": "unused", "size": 9}, {"name": "spare", "size": 9}])
    document["inputs"] = ["x", "spare"]
    assert lives(read(document)) == {"x": (-1, 0), "y": (0, 1), "z": (1, 1), "spare": (-1, -1)}


def test_tensors_as_an_object_and_references_by_index() -> None:
    document = {
        "tensors": {"x": 16, "w": {"size": 4, "constant": True}, "y": 8, "z": {"size": 2, "alignment": 8}},
        "operators": [{"inputs": [0, 1], "outputs": [2]}, {"inputs": [2, "w"], "outputs": ["z"]}],
        "alignment": 4,
    }
    instance = read(document)
    assert lives(instance) == lives(read(GRAPH))
    assert [buffer.alignment for buffer in instance.problem.buffers] == [4, 4, 8]
    assert {buffer.granule for buffer in instance.problem.buffers} == {1}


def test_operators_in_any_order_run_when_they_can() -> None:
    instance = read(changed(operators=OPERATORS[::-1]))
    assert isinstance(instance.source, TensorGraph)
    assert [operator.name for operator in instance.source.operators] == ["first", "second"]
    assert lives(instance) == lives(read(GRAPH))


def test_the_order_of_the_list_is_kept_where_it_can_be() -> None:
    names = ["a", "b", "c", "d"]
    operators = [
        {"name": "late", "inputs": ["c"], "outputs": ["d"]},
        {"name": "one", "inputs": [], "outputs": ["a"]},
        {"name": "two", "inputs": [], "outputs": ["b"]},
        {"name": "three", "inputs": ["a"], "outputs": ["c"]},
    ]
    document = {"tensors": dict.fromkeys(names, 1), "operators": operators}
    graph = read(document).source
    assert isinstance(graph, TensorGraph)
    assert [operator.name for operator in graph.operators] == ["one", "two", "three", "late"]
    graph = read({**document, "order": ["two", 1, "three", 0]}).source
    assert isinstance(graph, TensorGraph)
    assert [operator.name for operator in graph.operators] == ["two", "one", "three", "late"]


def test_the_answer_is_the_document_with_offsets() -> None:
    instance = read(GRAPH, constants_in_ram=True)
    answer = json.loads(write_answer(instance, Layout((0, 16, 24, 32, 0), 40, 28, "none")))
    assert [tensor["offset"] for tensor in answer["tensors"]] == [0, [16, 24], 32, 0]
    assert {**answer, "tensors": TENSORS} == GRAPH
    again = read(answer, constants_in_ram=True)
    assert [buffer.pinned for buffer in again.problem.buffers] == [0, 16, 24, 32, 0]
    assert [buffer.pinned for buffer in read(answer).problem.buffers] == [0, 32, 0]


def test_one_offset_of_a_constant_serves_all_its_uses() -> None:
    tensors = [TENSORS[0], {**TENSORS[1], "offset": 48}, *TENSORS[2:]]
    instance = read(changed(tensors=tensors), constants_in_ram=True)
    assert [buffer.pinned for buffer in instance.problem.buffers] == [None, 48, 48, None, None]


def tensor(index: int, **keys: Any) -> dict[str, Any]:
    return changed(tensors=[{**entry, **keys} if i == index else entry for i, entry in enumerate(TENSORS)])


def operator(index: int, **keys: Any) -> dict[str, Any]:
    return changed(operators=[{**entry, **keys} if i == index else entry for i, entry in enumerate(OPERATORS)])


REFUSED: list[tuple[object, list[str]]] = [
    ([], ["is a list of 0, not an object"]),
    ({}, ["tensors is missing"]),
    ({"tensors": []}, ["operators is missing"]),
    (changed(nodes=[]), ["nodes is an unknown key"]),
    (changed(tensors=3), ["tensors is 3, not a list"]),
    (changed(operators={}), ["operators is {...}, not a list"]),
    (changed(alignment=0), ["alignment is 0"]),
    (tensor(1, dtype="int8"), ["tensors[1].dtype is an unknown key", "the keys are size, name"]),
    (tensor(1, name="x"), ["tensors 0 and 1", "'x'"]),
    (tensor(1, name=""), ['tensors[1].name is ""']),
    (tensor(1, name=7), ["tensors[1].name is 7"]),
    (changed(tensors=[{"name": "x"}]), ["tensors[0].size is missing"]),
    (tensor(2, size=-1), ["tensors[2].size is", "-1"]),
    (tensor(2, size=1.0), ["tensors[2].size is", "1.0"]),
    (tensor(2, size=True), ["tensors[2].size is", "true"]),
    (tensor(2, size="8"), ["tensors[2].size is", '"8"']),
    (tensor(2, size=None), ["tensors[2].size is", "null"]),
    (tensor(2, size=2**62 + 1), ["tensors[2].size is", "2**62"]),
    (tensor(2, size=10**400), ["tensors[2].size is", "many digits"]),
    (tensor(2, alignment=0), ["tensors[2].alignment is 0"]),
    (tensor(2, offset=-4), ["tensors[2].offset is -4"]),
    (tensor(2, offset=[4]), ["tensor 2 ('y')", "offset is a list"]),
    (tensor(2, constant=1), ["tensors[2].constant is 1"]),
    (tensor(2, alias=1), ["tensors[2].alias is 1"]),
    (operator(0, type="CONV"), ["operators[0].type is an unknown key"]),
    (operator(0, name=""), ['operators[0].name is ""']),
    (operator(0, name="second"), ["operators 0 and 1", "'second'"]),
    (operator(0, inputs=["q"]), ["operator 0 ('first'): inputs", "no tensor 'q'"]),
    (operator(0, inputs=[4]), ["operator 0 ('first')", "no tensor 4"]),
    (operator(0, inputs=[-1]), ["no tensor -1"]),
    (operator(0, inputs=[True]), ["operators[0].inputs[0] is true"]),
    (operator(0, inputs=[[]]), ["operators[0].inputs[0] is a list"]),
    (operator(0, inputs="x"), ['operators[0].inputs is "x", not a list']),
    (operator(0, outputs=["y", "y"]), ["operator 0 ('first')", "'y' is listed twice"]),
    (operator(1, outputs=["y"], inputs=[]), ["tensor 2 ('y')", "operator 0 ('first')", "operator 1 ('second')"]),
    (operator(1, outputs=["w"]), ["tensor 1 ('w') is constant", "operator 1 ('second')"]),
    (changed(inputs=["x", "y"]), ["tensor 2 ('y')", "as an input", "operator 0 ('first')"]),
    (changed(inputs=["w"]), ["tensor 1 ('w') is both constant and an input"]),
    (changed(inputs=[]), ["tensor 0 ('x')", "operator 0 ('first')", "never written"]),
    (changed(inputs=["x", "x"]), ["inputs", "twice"]),
    (operator(1, outputs=[]) | {"outputs": ["z"]}, ["tensor 3 ('z') is an output, but never written"]),
    (changed(order=["first"]), ["the order does not include operator 1 ('second')"]),
    (changed(order=["first", "first"]), ["order", "twice"]),
    (changed(order=["first", "third"]), ["no operator 'third'"]),
    (changed(order=["second", "first"]), ["operator 1 ('second') reads tensor 2 ('y') before operator 0 ('first')"]),
    (operator(0, inputs=["z"]), ["cycle", "operator 0 ('first') -> operator 1 ('second') -> operator 0 ('first')"]),
    (operator(0, inputs=["y"]), ["cycle", "operator 0 ('first') -> operator 0 ('first')"]),
]


@pytest.mark.parametrize(("document", "named"), REFUSED)
def test_what_is_refused_names_tensor_and_operator(document: object, named: list[str]) -> None:
    with pytest.raises(InvalidModelError) as caught:
        read(document)
    for words in named:
        assert words in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1"),
        ('{"tensors": [],\n "operators": [}', "line 2"),
        ('{"tensors": [], "tensors": [], "operators": []}', '"tensors" twice'),
        ('{"tensors": {"a": 1, "a": 1}, "operators": []}', '"a" twice'),
        ('{"tensors": {"a": {"name": "b", "size": 1}}, "operators": []}', "two names"),
        ('{"tensors": {"a": NaN}, "operators": []}', "NaN"),
        ('{"tensors": {"a": -Infinity}, "operators": []}', "Infinity"),
        ('{"tensors": {"a": 1e999}, "operators": []}', "tensors.a is Infinity"),
        ('{"tensors": {"a": ' + "9" * 5000 + '}, "operators": []}', "digits"),
        ('{"tensors": ' + "[" * 200_000, "nested too deeply"),
        ('{"tensors": ' + '{"a":' * 200_000, "nested too deeply"),
        ('{"tensors": [' + "[]," * 8_000_000, "more than 16,000,000 values"),
        ("[1]", "not an object"),
        ('{"tensors": [], "operators": []} {}', "line 1"),
    ],
)
def test_hostile_json_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidModelError, match=words.replace("(", r"\(").replace(")", r"\)")):
        read_instance(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["x", "y", "first", "", "\ud800", "\0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "size", "inputs", "outputs", "alias", "offset", "constant"]), inner)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["tensors", "operators", "inputs", "outputs", "order", "alignment"]), JSON)
def test_any_value_anywhere_is_read_or_refused(key: str, value: object) -> None:
    with contextlib.suppress(InvalidModelError):
        instance = read(changed(**{key: value}))
        assert all(buffer.size_bytes >= 0 for buffer in instance.problem.buffers)


@given(st.text(max_size=60) | st.text(alphabet='id,lower"\n 0123-\0', max_size=40).map("id,lower,upper,size\n".__add__))
def test_any_text_is_an_instance_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidModelError):
        assert read_instance(text).problem is not None


def test_a_constant_needs_an_offset_for_each_use() -> None:
    with pytest.raises(InvalidModelError, match="3 offsets for 2 uses"):
        read(tensor(1, offset=[0, 4, 8]), constants_in_ram=True)


def test_a_long_cycle_is_shortened() -> None:
    count = 5000
    document = {
        "tensors": {f"t{i}": 1 for i in range(count)},
        "operators": [{"inputs": [i], "outputs": [(i + 1) % count]} for i in range(count)],
    }
    with pytest.raises(InvalidModelError, match=r"operator 0 -> operator 1 -> .*\(5,000 in all\)"):
        read(document)
