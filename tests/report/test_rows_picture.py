"""Pictures of rows: each shows the bytes that are in memory at each step, whatever the plan and the names."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.streaming.problem import Firing, RowOperator, RowProblem, RowTensor, steps_of
from edgetool.report.rows_picture import in_parts, row_boxes, rows_live, rows_svg
from tests.conftest import examples
from tests.memory.streaming.executor import separate_plan
from tests.memory.streaming.problems import row_problems, schedules

MOST_BYTES = 300_000


def chain(operators: int, rows: int) -> RowProblem:
    """Windows of three rows, one after the other."""
    tensors = [RowTensor(f"t{i}", rows, 16, given=i == 0, kept=i == operators) for i in range(operators + 1)]
    found = [
        RowOperator(
            f"op{i}",
            tuple(
                Firing(
                    tuple(i * rows + r for r in range(max(0, row - 1), min(rows, row + 2))),
                    ((i + 1) * rows + row,),
                    scratch_bytes=8 * (i % 2),
                )
                for row in range(rows)
            ),
        )
        for i in range(operators)
    ]
    return RowProblem(tuple(tensors), tuple(found))


def in_memory(problem: RowProblem, schedule: tuple[int, ...]) -> list[set[int]]:
    """The rows that are in memory at each step: from the step that writes a row to the last one that reads it."""
    rows = [set(firing.reads) | set(firing.writes) for _, firing in steps_of(problem, schedule)]
    kept = {row for i, tensor in enumerate(problem.tensors) if tensor.kept for row in problem.rows_of(i)}
    given_rows = set(problem.given_rows())
    touched: list[set[int]] = []
    for step in range(len(schedule)):
        before = set().union(*rows[: step + 1]) | given_rows
        after = set().union(*rows[step:]) | kept
        touched.append(before & after)
    return touched


@examples(40)
@given(st.data(), row_problems())
def test_boxes_and_counts_are_those_of_the_rows_in_memory(data: st.DataObject, problem: RowProblem) -> None:
    plan = replace(separate_plan(problem), schedule=data.draw(schedules(problem)))
    expected = in_memory(problem, plan.schedule)
    counts, boxes = rows_live(problem, plan), row_boxes(problem, plan)
    for index, tensor in enumerate(problem.tensors):
        for step, rows in enumerate(expected):
            live = rows & set(problem.rows_of(index))
            assert counts[index][step] == len(live)
            drawn = [byte for start, end, low, high in boxes[index] if start <= step < end for byte in range(low, high)]
            places = [plan.offsets[row] + byte for row in live for byte in range(tensor.row_bytes)]
            assert sorted(drawn) == sorted(places)


@given(st.lists(st.integers(0, 9), max_size=50), st.integers(1, 20))
def test_parts_keep_the_largest_values(values: list[int], parts: int) -> None:
    found = in_parts(values, parts)
    assert len(found) == min(parts, len(values))
    assert max(found, default=0) == max(values, default=0)
    if len(values) <= parts:
        assert list(found) == values


def test_a_picture_of_2000_rows_is_small_well_formed_and_has_a_title_for_each_tensor() -> None:
    problem = chain(20, 96)
    assert problem.row_count > 2000
    plan = replace(separate_plan(problem), lower_bound=7)
    text = rows_svg(problem, plan, (0, 10), title="net.tflite")
    assert len(text) < MOST_BYTES
    root = ElementTree.fromstring(text)
    titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert {f"t{i}: 96 rows of 16 B" for i in range(21)} <= set(titles)
    assert any(title.endswith("8 B of scratch") for title in titles)
    assert f"net.tflite: {plan.memory_bytes:,} B; no schedule takes less than 7 B" in text
    assert "prefers-color-scheme:dark" in text
    # In both themes, every tensor has a colour.
    for name in {f".{found}{{fill" for found in re.findall(r'class="row (c\d+)"', text)}:
        assert text.count(name) == 2


def test_hostile_names_stay_text() -> None:
    problem = chain(1, 4)
    evil = "</title><script>\x1b\x00\"'&\ud800"
    tensors = tuple(replace(tensor, name=evil) for tensor in problem.tensors)
    text = rows_svg(replace(problem, tensors=tensors), separate_plan(problem), (0,), title=evil)
    root = ElementTree.fromstring(text.encode("utf-8"))
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    assert "</title><script>??\"'&?: 4 rows of 16 B" in [element.text for element in root.iter() if element.text]


def test_a_model_without_steps_has_a_picture() -> None:
    problem = RowProblem((RowTensor("x", 2, 8, given=True, kept=True),), ())
    assert ElementTree.fromstring(rows_svg(problem, separate_plan(problem), (), title="x")).tag.endswith("svg")
