"""Any instance: its answer reads back as the same instance, every buffer pinned soundly."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import InvalidModelError
from edgetool.memory.checker import check_layout
from edgetool.memory.instances.read import check_pins, read_instance, write_answer
from edgetool.memory.instances.types import Instance
from edgetool.memory.layout.solve import solve

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


def assert_comes_back_pinned(instance: Instance, *, constants_in_ram: bool = False) -> None:
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
