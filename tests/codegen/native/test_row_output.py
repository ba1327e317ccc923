"""Outputs that the application takes row by row: what may be taken, memory, results of calls, and TFLM's bits."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.row_plan import smallest_rows
from edgetool.codegen.native.rows import TAKE, row_problem, step_numbers, takeable_outputs
from edgetool.memory.streaming.problem import RowPlan, RowProblem, steps_of
from edgetool.model.types import DType, Model
from tests.codegen.c_compilers import compile_in
from tests.codegen.native.host import Build, Trial, differences, prepare, with_rows
from tests.codegen.native.models import delays
from tests.codegen.native.row_plans import row_texts, scattered_plan
from tests.codegen.native.test_row_tables import run_program, two_images, write_texts
from tests.memory.account_net import Net

SIDE = 16
OPTIONS = {"dilation_h_factor": 1, "dilation_w_factor": 1}


def unet(side: int = SIDE, *, classes: bool = True) -> Model:
    """Return a network that segments an image: two scales, a skip connection, and perhaps classes of the image."""
    net = Net(seed=5)
    x = net.arena(1, side, side, 3, zero_point=3)
    fine = _conv(net, x, 4, 1)
    coarse = _conv(net, _conv(net, fine, 8, 2), 8, 1)
    size = net.constant([side, side])
    large = net.op("RESIZE_NEAREST_NEIGHBOR", [coarse, size], 1, side, side, 8, scale=1 / 4, zero_point=-2)
    both = net.op("CONCATENATION", [fine, large], 1, side, side, 12, scale=1 / 4, zero_point=-2, axis=3)
    outputs = [_conv(net, both, 5, 1)]
    if classes:
        pooled = net.op("MEAN", [coarse, net.constant([1, 2])], 1, 8, keep_dims=False, scale=1 / 4, zero_point=-2)
        inputs = [pooled, net.filter(3, 8, like=pooled), net.biases(3, like=pooled)]
        outputs.append(net.op("FULLY_CONNECTED", inputs, 1, 3, scale=1.0))
    net.end_graph([x], outputs)
    return net.whole()


def _conv(net: Net, x: int, channels: int, stride: int) -> int:
    shape = net.tensors[x].shape
    inputs = [x, net.filter(channels, 3, 3, shape[3], like=x), net.biases(channels, like=x)]
    options: dict[str, Any] = {"padding": "SAME", "stride_h": stride, "stride_w": stride, **OPTIONS}
    sides = [-(-side // stride) for side in shape[1:3]]
    return net.op("CONV_2D", inputs, 1, *sides, channels, scale=1 / 4, zero_point=-2, **options)


def smallest(program: NativeProgram, _: RowProblem, fed: tuple[int, ...] = (), taken: tuple[int, ...] = ()) -> RowPlan:
    graph = program.graph
    inputs, outputs = [graph.inputs[i] for i in fed], [graph.outputs[i] for i in taken]
    return smallest_rows(program, inputs, taken=outputs, passes=10).plan


def trial_of(model: Model, fed: tuple[int, ...], taken: tuple[int, ...], *, scattered: bool = False) -> Trial:
    trial = prepare(model, 3, row_wise=True, lean=True)
    plan = scattered_plan if scattered else partial(smallest, trial.program, fed=fed, taken=taken)
    return with_rows(trial, plan, fed, taken)


@pytest.mark.slow
def test_rows_that_are_taken_are_those_of_tflm() -> None:
    trials = {
        "unet": trial_of(unet(), (), (0, 1)),
        "fed unet": trial_of(unet(), (0,), (0, 1)),
        "classes": trial_of(unet(), (), (1,)),
        "scattered": trial_of(unet(), (0,), (0,), scattered=True),
        "images": trial_of(two_images(), (1,), (0,)),
        "state": trial_of(delays(), (), takeable(delays()), scattered=True),
    }
    assert trials["state"].taken
    assert differences(trials, Build(driver="rows")) == []


def takeable(model: Model) -> tuple[int, ...]:
    """Return the positions of the outputs that can be taken by rows."""
    program = lower(model, row_wise=True)
    return tuple(program.graph.outputs.index(index) for index in takeable_outputs(program))


def test_a_complete_output_need_not_be_in_memory() -> None:
    trial = prepare(unet(32, classes=False), 1, row_wise=True, lean=True)
    graph = trial.program.graph
    (output,) = (graph.tensors[index].size_bytes for index in graph.outputs)
    whole, taken, both = (
        smallest_rows(trial.program, fed, taken=rows, passes=10).plan.memory_bytes
        for fed, rows in (((), ()), ((), graph.outputs), (graph.inputs, graph.outputs))
    )
    assert whole > output
    assert both < output
    assert both < taken < whole


def test_rows_are_taken_as_soon_as_they_are_complete() -> None:
    rows = smallest_rows(lower(unet(), row_wise=True, lean=True), taken=lower(unet()).graph.outputs, passes=1)
    problem = rows.problem
    missing = {row for item in problem.operators for firing in item.firings for row in firing.writes}
    takers = {row: i for i, item in enumerate(problem.operators) for firing in item.firings for row in firing.reads}
    due: list[int] = []
    for number, firing in steps_of(problem, rows.plan.schedule):
        if problem.operators[number].name == TAKE:
            assert [*firing.reads] == due
            due = []
        else:
            assert due == []
            due = [row for row in firing.writes if problem.operators[takers[row]].name == TAKE]
            missing -= {*firing.writes}
    assert due == []
    assert not missing


def test_an_operator_takes_behind_the_last_step_that_writes() -> None:
    program = lower(unet(), row_wise=True)
    problem = row_problem(program, program.graph.inputs, taken=program.graph.outputs)
    takes = [number for number, item in enumerate(problem.operators) if item.name == TAKE]
    numbers = step_numbers(problem)
    assert numbers[0] == -1
    assert [program.steps[numbers[number]].output for number in takes] == list(program.graph.outputs)
    assert not any(tensor.kept for tensor in problem.tensors)


def test_only_outputs_that_are_computed_and_nothing_else_are_taken() -> None:
    net = Net()
    x = net.arena(1, 4, 4, 2)
    y = net.op("ADD", [x, x], scale=1 / 5)
    flat = net.op("RESHAPE", [x, net.constant([1, 32])], 1, 32)
    twice = net.op("ADD", [y, y], scale=1 / 3)
    constant = net.constant([1, 2], dtype=DType.INT32)
    net.end_graph([x], [y, x, flat, twice, twice, constant])
    assert takeable(net.whole()) == (0,)
    alone = Net()
    x = alone.arena(1, 4, 4, 2)
    y = alone.op("ADD", [x, x], scale=1 / 5)
    view = alone.op("RESHAPE", [y, alone.constant([1, 32])], 1, 32, scale=1 / 5)
    alone.end_graph([x], [view])
    assert takeable(alone.whole()) == (0,)


CALLS = """
#include "sum.h"
#include <stdio.h>

static int8_t rows[SUM_OUTPUT_0_ROWS * SUM_OUTPUT_0_ROW_ELEMENTS];
static uint32_t taken;

static const void *fetch(void *user, uint32_t input, uint32_t row)
{
    static const int8_t values[2][SUM_INPUT_0_ROW_ELEMENTS] = {{1, 2}, {3, 4}};
    (void)user;
    (void)row;
    return values[input];
}

static void take(void *user, uint32_t output, uint32_t row, const void *elements)
{
    taken += user != NULL && output == 0 && row == taken && ((const int8_t *)elements)[0] == rows[0];
}

int main(void)
{
    static sum_memory memory;
    sum_context context = {NULL, 0, {0}};
    const int8_t *a = (const int8_t *)fetch(NULL, 0, 0), *b = (const int8_t *)fetch(NULL, 1, 0);
    printf("%d", sum_take_row_0(&context, rows) == sum_error_order && sum_rows_to_take_0(&context) == 0);
    printf("%d", sum_next_output(&context) == SUM_OUTPUT_COUNT && sum_next_output(NULL) == SUM_OUTPUT_COUNT);
    printf("%d", sum_init(&context, &memory, sizeof memory) == sum_ok);
    /* Before begin, there is no row. */
    printf("%d", sum_take_row_0(&context, rows) == sum_error_order && sum_next_output(&context) == SUM_OUTPUT_COUNT);
    printf("%d", sum_begin(&context) == sum_ok && sum_rows_to_take_0(&context) == SUM_OUTPUT_0_ROWS);
    /* It is the turn of the inputs. */
    printf("%d", sum_next_output(&context) == SUM_OUTPUT_COUNT && sum_take_row_0(&context, rows) == sum_error_order);
    for (uint32_t i = 0; i < SUM_OUTPUT_0_ROWS; i++) {
        printf("%d", sum_feed_row_0(&context, a) == sum_ok && sum_feed_row_1(&context, b) == sum_ok);
        /* It is the turn of the output. */
        printf("%d", sum_next_input(&context) == SUM_INPUT_COUNT && sum_feed_row_0(&context, a) == sum_error_order);
        printf("%d", sum_take_row_0(NULL, rows) == sum_error_null && sum_take_row_0(&context, NULL) == sum_error_null);
        printf("%d", sum_next_output(&context) == 0 && sum_rows_to_take_0(&context) == SUM_OUTPUT_0_ROWS - i);
        printf("%d", sum_take_row_0(&context, rows + i * SUM_OUTPUT_0_ROW_ELEMENTS) == sum_ok);
    }
    /* All rows have been taken. */
    printf("%d", sum_take_row_0(&context, rows) == sum_error_order && sum_rows_to_take_0(&context) == 0);
    /* An inference that is started again takes all rows. */
    printf("%d", sum_begin(&context) == sum_ok && sum_feed_row_0(&context, a) == sum_ok);
    printf("%d", sum_begin(&context) == sum_ok && sum_rows_to_take_0(&context) == SUM_OUTPUT_0_ROWS);
    printf("%d", sum_invoke_rows(&context, NULL, take, NULL) == sum_error_null);
    printf("%d", sum_invoke_rows(&context, fetch, NULL, NULL) == sum_error_null);
    printf("%d", sum_invoke_rows(NULL, fetch, take, NULL) == sum_error_null && taken == 0);
    printf("%d", sum_invoke_rows(&context, fetch, take, &memory) == sum_ok && taken == SUM_OUTPUT_0_ROWS);
    printf("%s", sum_result_text(sum_error_order));
    return 0;
}
"""


def test_results_of_calls_in_the_wrong_order(tmp_path: Path) -> None:
    trial = trial_of(two_images(), (0, 1), (0,))
    assert trial.rows is not None
    problem, plan = trial.rows
    texts = row_texts("sum", two_images(), (0, 1), (0,), plan=lambda _: plan)
    sources = write_texts(tmp_path, texts)
    (tmp_path / "calls.c").write_text(CALLS)
    rows = next(tensor.rows for tensor in problem.tensors if tensor.tensor in trial.program.graph.outputs)
    printed = run_program(tmp_path, [*(file for file in sources if file != "main.c"), "calls.c"])
    ones, text = re.fullmatch(r"([01]*)(.*)", printed, re.DOTALL).groups()  # type: ignore[union-attr]
    assert ones == "1" * (13 + 5 * rows)
    assert text == "init or begin must be called first, or it is the turn of another input or output, or of none"


def test_an_output_that_is_taken_has_no_pointer(tmp_path: Path) -> None:
    text = row_texts("net", unet(), (), (0,))["net.h"]
    for call in ("net_take_row_0(", "net_output_1(", "net_begin(", "net_input_0(", "net_output_0_dequantize("):
        assert call in text
    for call in ("net_output_0(", "net_take_row_1(", "net_feed_row_0(", "net_next_input(", "net_invoke("):
        assert call not in text


@pytest.mark.parametrize(("chosen", "fed"), [(("gcc", "c99"), ()), (("g++", "c++11"), (0,))], ids=["c", "fed-c++"])
def test_files_compile_without_warnings(tmp_path: Path, chosen: tuple[str, str], fed: tuple[int, ...]) -> None:
    sources = write_texts(tmp_path, row_texts("net", unet(), fed, (0, 1)))
    done = compile_in(tmp_path, *chosen, "-fsyntax-only", *sources)
    assert (done.returncode, done.stderr) == (0, "")


def test_main_prints_the_rows(tmp_path: Path) -> None:
    printed = run_program(tmp_path, write_texts(tmp_path, row_texts("net", unet(), (0,), (0, 1))))
    rows = re.findall(r"^net output (\d) row (\d+): \d+$", printed, re.MULTILINE)
    assert len(printed.splitlines()) == len(rows)
    assert sorted(rows) == sorted([("1", "0"), *(("0", str(row)) for row in range(SIDE))])
