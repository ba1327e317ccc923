"""Layout instances as MiniMalloc's CSV and as graphs in JSON: what is read, what is rejected, and how.

Pins that cannot be, and capacities below what is alive at once.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import FailedCheckError, InvalidModelError, UsageError
from edgetool.memory.checker import check_layout
from edgetool.memory.instances import (
    OPTIONAL,
    REQUIRED,
    GraphObject,
    InstanceFile,
    OperatorObject,
    TensorGraph,
    TensorObject,
    check_capacity,
    check_pins,
    naive_bytes,
    read_instance,
    write_answer,
)
from edgetool.memory.layout.solve import solve
from edgetool.memory.problem import Buffer, Layout, Lifetime

HEADER = "id,lower,upper,size\n"


def test_a_row_is_a_buffer_that_is_live_from_lower_to_before_upper() -> None:
    instance = read_instance(HEADER + "b1,0,3,4\nb2,3,9,0\n")
    assert instance.problem.buffers == (
        Buffer(0, -1, "b1", 4, Lifetime(0, 2), alignment=1, granule=1),
        Buffer(0, -1, "b2", 0, Lifetime(3, 8), alignment=1, granule=1),
    )
    assert instance.describe(1) == "row 3 ('b2')"


def test_columns_stand_in_any_order_and_optional_cells_may_be_empty() -> None:
    text = "size,alias,offset,upper,id,lower,alignment\n8,x,,5,a,-2,\n9,,64,6,b,1,32\n"
    first, second = read_instance(text).problem.buffers
    assert (first.size_bytes, first.lifetime, first.alias, first.pinned, first.alignment) == (
        8,
        Lifetime(-2, 4),
        "x",
        None,
        1,
    )
    assert (second.name, second.alias, second.pinned, second.alignment) == ("b", None, 64, 32)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + HEADER + "a,0,1,2\n",
        HEADER + "a,0,1,2",
        HEADER.replace("\n", "\r\n") + "a,0,1,2\r\n",
        HEADER.replace("\n", "\r") + "a,0,1,2\r",
        "\n" + HEADER + "\n   \n a,0,1,2\n\n".replace(" a", "a"),
        '"id",lower,"upper",size\n"a",0,"1",2\n',
        "id, lower, upper, size\na, 0, 1, 2\n",
    ],
    ids=["byte order mark", "no last newline", "Windows", "old Mac", "blank lines", "quotes", "spaces"],
)
def test_ways_to_write_the_same(text: str) -> None:
    (buffer,) = read_instance(text).problem.buffers
    assert (buffer.name, buffer.lifetime, buffer.size_bytes) == ("a", Lifetime(0, 0), 2)


def test_a_header_alone_is_an_instance_without_buffers() -> None:
    assert read_instance(HEADER).problem.buffers == ()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ["is empty"]),
        (" \n\n", ["is empty"]),
        ("a,0,1,2\n", ["is missing id"]),
        ("id,lower,size\n", ["is missing upper"]),
        ("id,lower,upper,size,hint\n", ["unknown column 'hint'"]),
        ("id,lower,upper,size,id\n", ["column id twice"]),
        (HEADER + "a,0,1\n", ["row 2", "3 cells", "4"]),
        (HEADER + "a,0,1,2,3\n", ["row 2", "5 cells"]),
        (HEADER + "a,0,1,2\nb\n", ["row 3", "1 cell,"]),
        (HEADER + "a,0,1,-2\n", ["row 2", "size '-2'"]),
        (HEADER + "a,0,1,2.0\n", ["row 2", "size '2.0'"]),
        (HEADER + "a,0,1,1e3\n", ["row 2", "'1e3'"]),
        (HEADER + "a,0,1,nan\n", ["row 2", "'nan'"]),
        (HEADER + "a,0,1,True\n", ["row 2", "'True'"]),
        (HEADER + "a,0,1,1_000\n", ["row 2", "'1_000'"]),
        (HEADER + "a,0,1,\u0663\n", ["row 2", "'\\u0663'"]),
        (HEADER + "a,0,1,\n", ["row 2", "size ''"]),
        (HEADER + f"a,0,1,{2**62 + 1}\n", ["row 2", "2**62"]),
        (HEADER + f"a,0,1,{'9' * 5000}\n", ["row 2", "size"]),
        (HEADER + f"a,0,{2**63},1\n", ["row 2", "upper", "2**62"]),
        (HEADER + "a,3,3,1\n", ["row 2", "('a')", "lower is 3, upper is 3"]),
        (HEADER + "a,4,3,1\n", ["row 2", "empty lifetime"]),
        (HEADER + "a,0,1,1\n\nb,0,1,1\na,2,3,1\n", ["row 5", "id 'a' of row 2"]),
        (HEADER + ",0,1,1\n", ["row 2 has no id"]),
        (HEADER + '"a,0,1,1\n', ["row 2", "quotes"]),
        (HEADER + '"a\nb",0,1,1\n', ["row 2", "quote"]),
        (HEADER + '"a"b,0,1,1\n', ["row 2", "quotes"]),
        (HEADER + "a,0,1,\0001\n", ["NUL byte"]),
        (HEADER + "x" * 200_000 + ",0,1,1\n", ["row 2", "not valid CSV"]),
        ("id,lower,upper,size,alignment\na,0,1,1,0\n", ["row 2", "alignment '0'"]),
        ("id,lower,upper,size,alignment\na,0,1,1,8589934592\n", ["row 2", "2**32"]),
        ("id,lower,upper,size,offset\na,0,1,1,-1\n", ["row 2", "offset '-1'"]),
        (HEADER + "\n" * 1_000_001, ["1,000,000 rows"]),
    ],
)
def test_what_is_refused_names_row_and_column(text: str, named: list[str]) -> None:
    with pytest.raises(InvalidModelError) as caught:
        read_instance(text)
    for words in named:
        assert words in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_csv_has_no_constants() -> None:
    with pytest.raises(UsageError, match="constants"):
        read_instance(HEADER, constants_in_ram=True)


def test_the_answer_keeps_columns_rows_and_cells_and_appends_the_offset() -> None:
    instance = read_instance('size,id,lower,upper\n8,"a, ""b""",00,1\n\n9,c,1,2\n')
    assert write_answer(instance, Layout((0, 16), 25, 9, "none")) == (
        'size,id,lower,upper,offset\n8,"a, ""b""",00,1,0\n9,c,1,2,16\n'
    )


def test_the_answer_fills_the_offset_column_where_it_stands() -> None:
    instance = read_instance("id,offset,lower,upper,size\na,,0,1,8\nb,5,0,1,8\n")
    assert write_answer(instance, Layout((13, 5), 21, 16, "none")) == (
        "id,offset,lower,upper,size\na,13,0,1,8\nb,5,0,1,8\n"
    )


@pytest.mark.slow
def test_a_hundred_thousand_rows_are_read_in_about_a_second() -> None:
    text = HEADER + "".join(f"{i},{i},{i + 5},{i % 977}\n" for i in range(100_000))
    started = time.process_time()
    assert len(read_instance(text).problem.buffers) == 100_000
    assert time.process_time() - started < 3  # CPU seconds; 0.8 on an idle machine


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(
    lambda name: name.strip()
)
ALIGNMENTS = st.sampled_from([1, 1, 4, 6, 16])


@st.composite
def tables(draw: st.DrawFn) -> str:
    names = draw(st.lists(NAMES, max_size=8, unique=True))
    rows = []
    for name in names:
        lower = draw(st.integers(-3, 9))
        cells = (lower, lower + draw(st.integers(1, 5)), draw(st.integers(0, 40)), draw(ALIGNMENTS))
        quoted = name.replace('"', '""')
        rows.append(f'"{quoted}",{",".join(map(str, cells))},{draw(st.sampled_from(["", "", "", "p"]))}\n')
    return "id,lower,upper,size,alignment,alias\n" + "".join(rows)


@st.composite
def graphs(draw: st.DrawFn) -> str:
    count = draw(st.integers(1, 7))
    tensors: list[dict[str, Any]] = [{"name": f"t{i}", "size": draw(st.integers(0, 40))} for i in range(count)]
    constants = draw(st.sets(st.integers(0, count - 1), max_size=2))
    for i in constants:
        tensors[i]["constant"] = True
    operators = []
    written: set[int] = set()
    for _ in range(draw(st.integers(0, 5))):
        free = [i for i in range(count) if i not in written | constants]
        outputs = draw(st.lists(st.sampled_from(free), unique=True, max_size=2)) if free else []
        written.update(outputs)
        operators.append({"inputs": draw(st.lists(st.integers(0, count - 1), max_size=3)), "outputs": outputs})
    return json.dumps({"tensors": tensors, "operators": operators, "alignment": draw(ALIGNMENTS)})


def assert_comes_back_pinned(instance: InstanceFile, *, constants_in_ram: bool = False) -> None:
    layout = solve(instance.problem)
    assert check_layout(instance.problem, layout) == ()
    again = read_instance(write_answer(instance, layout), constants_in_ram=constants_in_ram)
    check_pins(again)
    assert tuple(buffer.pinned for buffer in again.problem.buffers) == layout.offsets
    unpinned = tuple(replace(buffer, pinned=None) for buffer in again.problem.buffers)
    assert unpinned == instance.problem.buffers
    assert write_answer(again, layout) == write_answer(instance, layout)


@given(tables())
def test_a_table_and_its_answer(text: str) -> None:
    assert_comes_back_pinned(read_instance(text))


@given(graphs(), st.booleans())
def test_a_graph_and_its_answer(text: str, constants_in_ram: bool) -> None:
    try:
        instance = read_instance(text, constants_in_ram=constants_in_ram)
    except InvalidModelError as error:
        if "cycle" not in error.what:  # the only thing that may be wrong with these graphs
            raise
        return
    assert_comes_back_pinned(instance, constants_in_ram=constants_in_ram)


@given(st.text(max_size=200) | tables().map(lambda text: text[: len(text) * 2 // 3]) | graphs().map(lambda t: t[:-3]))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        instance = read_instance(text)
    except InvalidModelError:
        return  # any other error fails
    names = [buffer.name for buffer in instance.problem.buffers]
    assert len(set(names)) == len(names)


TEXT = (Path(__file__).parents[2] / "docs" / "layout-format.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(csv|json|python)\n(.*?)```", TEXT, re.DOTALL)


def test_every_kind_of_example_is_there() -> None:
    assert {kind for kind, _ in BLOCKS} == {"csv", "json", "python"}


@pytest.mark.parametrize("block", [text for kind, text in BLOCKS if kind != "python"])
def test_the_examples_are_instances(block: str) -> None:
    instance = read_instance(block)
    check_pins(instance)
    assert instance.problem.buffers


@pytest.mark.parametrize("block", [text for kind, text in BLOCKS if kind == "python"])
def test_the_program_runs(block: str) -> None:
    result = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "30 True" in result.stdout


GRAPH_KEYS = [key for kind in (GraphObject, TensorObject, OperatorObject) for key in kind.__struct_fields__]


@pytest.mark.parametrize("key", [*REQUIRED, *OPTIONAL, *GRAPH_KEYS])
def test_every_column_and_key_is_explained(key: str) -> None:
    assert re.search(rf'`"?{key}"?`|"{key}"', TEXT)


# A network of two dense layers whose weights are loaded before use: bytes, and the offsets that were published for it
# as optimal, at a height of 692,352.
PUBLISHED = {
    "input": (784, 0),
    "input int8": (784, 21632),
    "conv weights": (288, 21632),
    "conv bias": (32, 21632),
    "conv output": (21632, 0),
    "pooled": (5408, 21632),
    "reshaped": (5408, 0),
    "dense weights": (692224, 0),
    "dense bias": (128, 0),
    "dense output": (128, 692224),
    "class weights": (1280, 0),
    "class bias": (12, 0),
    "class output": (12, 1280),
    "float output": (12, 0),
}
STEPS = {
    "quantize": (["input"], "input int8"),
    "conv": (["input int8", "conv weights", "conv bias"], "conv output"),
    "pool": (["conv output"], "pooled"),
    "reshape": (["pooled"], "reshaped"),
    "dense": (["reshaped", "dense weights", "dense bias"], "dense output"),
    "classify": (["dense output", "class weights", "class bias"], "class output"),
    "dequantize": (["class output"], "float output"),
}


def published(*, pinned: bool) -> str:
    tensors: dict[str, dict[str, object]] = {}
    for name, (size, offset) in PUBLISHED.items():
        constant = name.endswith(("weights", "bias"))
        tensors[name] = {"size": size, "constant": constant, **({"offset": offset} if pinned else {})}
    operators = [{"name": name, "inputs": inputs, "outputs": [output]} for name, (inputs, output) in STEPS.items()]
    return json.dumps({"tensors": tensors, "operators": operators, "alignment": 4})


def test_the_published_plan_has_seven_collisions() -> None:
    instance = read_instance(published(pinned=True), constants_in_ram=True)
    with pytest.raises(InvalidModelError) as caught:
        check_pins(instance)
    assert "7 conflicts between pinned offsets" in caught.value.what
    pairs = [
        ("input int8", "conv weights", "conv"),
        ("input int8", "conv bias", "conv"),
        ("conv weights", "conv bias", "conv"),
        ("reshaped", "dense weights", "dense"),
        ("reshaped", "dense bias", "dense"),
        ("dense weights", "dense bias", "dense"),
        ("class weights", "class bias", "classify"),
    ]
    assert len(caught.value.details) == len(pairs)
    for one, other, operator in pairs:
        (line,) = [text for text in caught.value.details if f"({one!r})" in text and f"({other!r})" in text]
        assert line.endswith(f"({operator!r})")


def test_our_layout_of_the_same_network_is_proven() -> None:
    instance = read_instance(published(pinned=False), constants_in_ram=True)
    assert naive_bytes(instance.problem) == 728132
    layout = solve(instance.problem)
    assert (layout.height, layout.lower_bound, layout.optimal) == (697888, 697888, True)


HEADER_WITH_PINS = "id,lower,upper,size,alignment,offset,alias\n"


def test_collisions_name_both_rows_and_the_moment() -> None:
    instance = read_instance(HEADER_WITH_PINS + "a,0,4,10,,0,\nb,3,6,10,,9,\nc,4,5,9,,0,\nd,5,6,5,,19,\n")
    with pytest.raises(InvalidModelError) as caught:
        check_pins(instance)
    assert caught.value.details == ()
    assert caught.value.what == "row 2 ('a') and row 3 ('b') overlap (bytes 0 to 10 and 9 to 19) at time 3"


@pytest.mark.parametrize(
    ("rows", "capacity", "words"),
    [
        ("a,0,4,10,16,8,\n", None, "row 2 ('a') is at 8, which is not a multiple of its alignment 16"),
        ("a,0,4,10,,8,\n", 17, "row 2 ('a') is pinned to end at 18, above the capacity of 17"),
        (
            "a,0,4,10,,0,x\nb,9,10,10,,8,x\n",
            None,
            "row 2 ('a') and row 3 ('b') share the alias 'x', but are pinned to 0 and 8",
        ),
        (
            "a,0,2,5,,0,x\nb,4,6,9,,,x\nc,3,4,1,,8,\n",
            None,
            "row 2 ('a') and 1 more with the same alias and row 4 ('c') overlap",
        ),
        (f"a,0,2,{2**62},,,\nb,0,2,{2**62},,,\n", None, "the sizes add up to 2**63 bytes or more"),
    ],
)
def test_other_impossible_pins(rows: str, capacity: int | None, words: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        check_pins(read_instance(HEADER_WITH_PINS + rows), capacity)
    assert words in caught.value.what


@pytest.mark.parametrize(
    "rows",
    [
        "a,0,4,10,,0,\nb,0,4,10,,10,\n",
        "a,0,4,10,,0,\nb,4,9,10,,0,\n",
        "a,0,4,10,,0,\nb,0,4,0,,5,\n",
        "a,0,4,10,,0,\nb,0,4,0,,500,\n",
        "a,0,4,10,,,\nb,0,4,10,,0,\n",
        "a,0,4,10,,0,x\nb,2,6,12,,0,x\n",
        "a,0,4,10,,0,x\nb,2,6,12,,,x\nc,2,6,12,,12,\n",
    ],
    ids=["side by side", "one after the other", "empty", "empty and far", "one is free", "alias", "beside an alias"],
)
def test_valid_pins(rows: str) -> None:
    check_pins(read_instance(HEADER_WITH_PINS + rows), 24)


def test_a_capacity_below_the_live_bytes_names_moment_and_buffers() -> None:
    rows = "".join(f"b{i},{i},20,{10 + i},,,\n" for i in range(12))
    instance = read_instance(HEADER_WITH_PINS + rows + "gone,0,11,1000,,,\nfree,11,12,0,,,\n")
    check_capacity(instance, 1165)
    with pytest.raises(FailedCheckError) as caught:
        check_capacity(instance, 1164)
    assert "1,165 B are live at time 10" in caught.value.what
    assert caught.value.details[:2] == ("1,000 B  row 14 ('gone')", "20 B  row 12 ('b10')")
    assert caught.value.details[-1] == "46 B  in 4 more"
    with pytest.raises(FailedCheckError, match="1,165"):
        check_capacity(instance, 0)


def test_an_alias_counts_once() -> None:
    instance = read_instance(HEADER_WITH_PINS + "a,0,2,10,,,x\nb,1,4,12,,,x\n")
    assert naive_bytes(instance.problem) == 12
    check_capacity(instance, 12)


def test_the_moment_of_a_graph_is_an_operator() -> None:
    with pytest.raises(FailedCheckError, match=r"697,888 B are live at operator 4 \('dense'\)"):
        check_capacity(read_instance(published(pinned=False), constants_in_ram=True), 692352)


def test_a_long_list_of_collisions_is_cut_with_a_message() -> None:
    rows = "".join(f"b{i},0,2,4,,0,\n" for i in range(5000))
    with pytest.raises(InvalidModelError, match="thousands of conflicts between pinned offsets") as caught:
        check_pins(read_instance(HEADER_WITH_PINS + rows))
    assert len(caught.value.details) == 10_001
    assert caught.value.details[-1] == "and 1 more" or "more than these 10,000 pairs" in caught.value.details[-1]


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
