"""Plans of rows in C: outputs, rows that are fed, results of calls, and the sizes of the tables."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgetool.codegen.native.emit import arrays_of
from edgetool.codegen.native.files import row_files
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.program import RowInput
from edgetool.codegen.native.row_tables import BLOCK, CELLS, row_tables, table_bytes
from edgetool.codegen.native.rows import row_problem
from edgetool.errors import InternalError, UnsupportedModelError
from edgetool.execute.cores import BARE
from edgetool.memory.streaming.planner import place_unit, plan_rows
from edgetool.memory.streaming.problem import RowPlan, RowProblem
from edgetool.model.types import Model
from tests.codegen.c_compilers import MATRIX, compile_in
from tests.codegen.native import test_sums
from tests.codegen.native.host import Trial, differences, prepare, with_rows
from tests.codegen.native.models import MODELS, delays, spec_of
from tests.codegen.native.row_plans import row_texts, scattered_plan
from tests.codegen.native.test_networks import cases, networks, supported, supported_types
from tests.memory.account_net import Net

MANY = 30
QUICK_COMPILERS = (("gcc", "c99"), ("g++", "c++11"))
COMPILERS = [
    pytest.param(chosen, id="-".join(chosen), marks=() if chosen in QUICK_COMPILERS else pytest.mark.slow)
    for chosen in MATRIX
    if chosen[1] in ("c99", "c++11", "c++20")
]


def image(height: int = 9, width: int = 5) -> Model:
    """Return a network of an image with skip connections, a concatenation, and a mean over all rows."""
    net = Net(seed=3)
    x = net.arena(1, height, width, 3, zero_point=3)
    y = _conv(net, x, 4, 3, 1)
    z = _conv(net, y, 4, 1, 1)
    z = net.op("ADD", [z, y], scale=1 / 4, zero_point=-2)
    z = _conv(net, z, 6, 3, 2)
    both = net.op("CONCATENATION", [z, z], *net.tensors[z].shape[:3], 12, scale=1 / 4, zero_point=-2, axis=3)
    pooled = net.op("MEAN", [both, net.constant([1, 2])], 1, 12, keep_dims=False, scale=1.0, zero_point=-1)
    net.end_graph([x], [both, pooled])
    return net.whole()


def _conv(net: Net, x: int, channels: int, side: int, stride: int) -> int:
    shape = net.tensors[x].shape
    inputs = [x, net.filter(channels, side, side, shape[3], like=x), net.biases(channels, like=x)]
    sizes = (-(-shape[1] // stride), -(-shape[2] // stride))
    options: dict[str, Any] = {"padding": "SAME", "stride_h": stride, "stride_w": stride}
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    return net.op("CONV_2D", inputs, 1, *sizes, channels, scale=1 / 4, zero_point=-2, **options)


def two_images() -> Model:
    """Return a sum of two images of two batches."""
    net = Net()
    x, y = net.arena(2, 3, 2, 4, zero_point=3), net.arena(2, 3, 2, 4, scale=1 / 9)
    net.end_graph([x, y], [net.op("ADD", [x, y], scale=1 / 5)])
    return net.whole()


def chain(length: int = 260) -> Model:
    """Return a chain of sums with more operators than a byte can number."""
    net = Net()
    x = y = net.arena(1, 2, 1, 2)
    for number in range(length):
        y = net.op("ADD", [y, x], scale=1 / (number + 9), zero_point=number % 5)
    net.end_graph([x], [y])
    return net.whole()


def planned(trial: Trial, fed: tuple[int, ...] = ()) -> Trial:
    """Return a trial with the planner's plan."""
    scattered = with_rows(trial, scattered_plan, fed)
    assert scattered.rows is not None
    found = plan_rows(scattered.rows[0], passes=8)
    return replace(scattered, rows=(found.problem, found.plan))


def plan_of(model: Model, fed: tuple[int, ...] = (), plan: Callable[[RowProblem], RowPlan] = scattered_plan) -> Trial:
    """Return a row-wise trial with a plan."""
    return with_rows(prepare(model, 3, row_wise=True), plan, fed)


def test_planned_rows_compute_what_tflm_computes() -> None:
    trials = {f"scattered {name}": plan_of(make()) for name, make in MODELS.items()}
    trials["scattered image"] = plan_of(image())
    trials["fed image"] = plan_of(image(), (0,))
    trials["planned image"] = planned(plan_of(image()))
    trials["planned fed image"] = planned(plan_of(image()), (0,))
    trials["two images"] = plan_of(two_images())
    trials["two fed images"] = plan_of(two_images(), (0, 1))
    trials["second image fed"] = plan_of(two_images(), (1,))
    trials["fed state"] = plan_of(delays(), (0, 1))
    assert differences(trials | _large_trials()) == []


@pytest.mark.slow
def test_more_operators_than_a_byte_can_state_compute_what_tflm_computes() -> None:
    trials = {"whole": plan_of(chain()), "fed": plan_of(chain(), (0,))}
    assert all(trial.rows is not None and len(trial.rows[0].operators) > 256 for trial in trials.values())
    assert differences(trials) == []


def _large_trials() -> dict[str, Trial]:
    """Return trials whose places are in units of several bytes."""
    trial, fed = plan_of(image(150, 160)), plan_of(image(150, 160), (0,), partial(scattered_plan, seed=1))
    assert place_unit(trial.arena_bytes) > 4
    return {name: replace(item, inputs=_first(item)) for name, item in (("large", trial), ("large fed", fed))}


def _first(trial: Trial) -> tuple[Any, ...]:
    return tuple(array[:2] for array in trial.inputs)


def test_a_unit_lets_16_bits_state_all_places() -> None:
    assert [place_unit(size) for size in (0, 65535, 65536, 131070, 131071)] == [1, 1, 2, 2, 4]


@pytest.mark.slow
def test_rows_of_many_random_networks_compute_what_tflm_computes() -> None:
    trials = {name: _with_any_plan(trial, number) for number, (name, trial) in enumerate(_networks(MANY).items())}
    assert differences(trials) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_rows_of_random_operators_compute_what_tflm_computes(kind: int) -> None:
    drawn = supported(cases(supported_types(), [310 + kind]), None, Counter(), row_wise=True)
    assert differences({name: _with_any_plan(trial, kind) for name, trial in drawn.items()}) == []


def _networks(count: int) -> dict[str, Trial]:
    return supported(networks(60_000), count, Counter(), row_wise=True)


def _with_any_plan(trial: Trial, number: int) -> Trial:
    """Return the trial with one of two plans, with fed rows or without."""
    fed = tuple(range(len(trial.program.graph.inputs))) if number % 2 else ()
    return planned(trial, fed) if number % 4 < 2 else with_rows(trial, scattered_plan, fed)


def write_files(folder: Path, name: str, model: Model, fed: tuple[int, ...] = ()) -> list[str]:
    """Write the files of a model with rows that are fed; return the names of the C files without run.c."""
    return write_texts(folder, row_texts(name, model, fed))


def write_texts(folder: Path, files: dict[str, str]) -> list[str]:
    """Write the files of a model; return the names of the C files without run.c."""
    for file, text in files.items():
        (folder / file).write_text(text, encoding="ascii")
    return sorted(file for file in files if file.endswith(".c") and file != "run.c")


def run_program(folder: Path, sources: list[str], program: str = "program") -> str:
    done = compile_in(folder, "gcc", "c99", *sources, "-o", program)
    assert (done.returncode, done.stderr) == (0, "")
    return subprocess.run([folder / program], capture_output=True, text=True, check=True, timeout=60).stdout


def test_results_of_calls_in_the_wrong_order(tmp_path: Path) -> None:
    sources = [file for file in write_files(tmp_path, "sum", two_images(), (0, 1)) if file != "main.c"]
    (tmp_path / "calls.c").write_text(
        """
#include "sum.h"
#include <stdio.h>

static const int8_t row[SUM_INPUT_0_ROW_ELEMENTS] = {1};
static uint32_t fetched;

static const void *fetch(void *user, uint32_t input, uint32_t number)
{
    fetched++;
    return user != NULL && input == 1 && number == 2 ? NULL : row;
}

int main(void)
{
    static sum_memory memory;
    sum_context context = {NULL, 0, {0}};
    printf("%d", sum_begin(&context) == sum_error_order && sum_begin(NULL) == sum_error_null);
    printf("%d", sum_feed_row_0(&context, row) == sum_error_order && sum_rows_left_0(&context) == 0);
    printf("%d", sum_next_input(&context) == SUM_INPUT_COUNT && sum_next_input(NULL) == SUM_INPUT_COUNT);
    printf("%d", sum_invoke_rows(&context, fetch, NULL) == sum_error_order);
    printf("%d", sum_init(&context, &memory, SUM_ARENA_BYTES - 1) == sum_error_memory);
    printf("%d", sum_init(&context, &memory, sizeof memory) == sum_ok);
    /* Before begin, no row is needed. */
    printf("%d", sum_feed_row_0(&context, row) == sum_error_order && sum_next_input(&context) == SUM_INPUT_COUNT);
    printf("%d", sum_begin(&context) == sum_ok && sum_next_input(&context) == 0 && sum_rows_left_1(&context) == 6);
    printf("%d", sum_feed_row_0(NULL, row) == sum_error_null && sum_feed_row_0(&context, NULL) == sum_error_null);
    /* All rows of the first input come first. */
    printf("%d", sum_feed_row_1(&context, row) == sum_error_order);
    for (uint32_t left = SUM_INPUT_0_ROWS; left != 0; left--) {
        printf("%d", sum_rows_left_0(&context) == left && sum_feed_row_0(&context, row) == sum_ok);
    }
    printf("%d", sum_feed_row_0(&context, row) == sum_error_order && sum_next_input(&context) == 1);
    for (uint32_t left = SUM_INPUT_1_ROWS; left != 0; left--) {
        printf("%d", sum_rows_left_1(&context) == left && sum_feed_row_1(&context, row) == sum_ok);
    }
    printf("%d", sum_next_input(&context) == SUM_INPUT_COUNT && sum_rows_left_1(&context) == 0);
    printf("%d", sum_feed_row_1(&context, row) == sum_error_order);
    /* Another inference can begin at any time. */
    printf("%d", sum_begin(&context) == sum_ok && sum_feed_row_0(&context, row) == sum_ok);
    printf("%d", sum_begin(&context) == sum_ok && sum_rows_left_0(&context) == SUM_INPUT_0_ROWS);
    printf("%d", sum_invoke_rows(&context, NULL, NULL) == sum_error_null);
    printf("%d", sum_invoke_rows(&context, fetch, &memory) == sum_error_null && fetched == SUM_INPUT_0_ROWS + 3);
    printf("%d", sum_invoke_rows(&context, fetch, NULL) == sum_ok && fetched == 3 * SUM_INPUT_0_ROWS + 3);
    printf("%d", sum_output_0(&context) != NULL && sum_output_0(NULL) == NULL);
    return 0;
}
"""
    )
    assert run_program(tmp_path, [*sources, "calls.c"]) == "1" * 31


def test_an_input_that_is_not_fed_is_filled_before_begin(tmp_path: Path) -> None:
    write_files(tmp_path, "sum", two_images(), (1,))
    text = (tmp_path / "sum.h").read_text()
    assert "sum_input_0(" in text
    assert "sum_feed_row_1(" in text
    assert "sum_input_1(" not in text
    assert "sum_feed_row_0(" not in text
    assert "sum_invoke(" not in text


@pytest.mark.parametrize("chosen", COMPILERS)
def test_files_compile_without_warnings(tmp_path: Path, chosen: tuple[str, str]) -> None:
    models: dict[str, tuple[Model, tuple[int, ...]]] = {name: (make(), ()) for name, make in MODELS.items()}
    models |= {"image": (image(), (0,)), "second": (two_images(), (1,)), "state": (delays(), (0, 1))}
    for name, (model, fed) in models.items():
        folder = tmp_path / name
        folder.mkdir()
        sources = write_files(folder, name, model, fed)
        hosted = [file for file in sources if "arm" not in chosen[0] or file != "main.c"]
        done = compile_in(folder, *chosen, f"-I{BARE}", "-O1", "-fsyntax-only", "run.c", *hosted)
        assert (done.returncode, done.stderr) == (0, ""), name


def test_main_prints_the_outputs(tmp_path: Path) -> None:
    printed = {}
    for fed in ((), (0,)):
        folder = tmp_path / str(len(fed))
        folder.mkdir()
        printed[fed] = run_program(folder, write_files(folder, "image", image(), fed))
    assert re.findall(r"^image output (\d)\[0\]", printed[()], re.MULTILINE) == ["0", "1"]
    assert len(printed[()].splitlines()) == len(printed[0,].splitlines())


@pytest.mark.parametrize("fed", [(), (0,)])
def test_the_size_of_tables_is_that_of_their_symbols(tmp_path: Path, fed: tuple[int, ...]) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    write_files(tmp_path, "image", image(), fed)
    done = compile_in(tmp_path, "arm-none-eabi-gcc", "c99", "-fno-toplevel-reorder", "-c", "image.c", "-o", "image.o")
    assert (done.returncode, done.stderr) == (0, "")
    symbols = subprocess.run(
        ["arm-none-eabi-nm", "-S", "image.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    sizes = {words[3]: int(words[1], 16) for line in symbols.splitlines() if len(words := line.split()) == 4}
    tables = {name: size for name, size in sizes.items() if re.fullmatch(r"image_(?!op_)[a-z]+", name)}
    tables = {name: size for name, size in tables.items() if name.removeprefix("image_") in TABLES}
    program = lower(image(), row_wise=True)
    problem = row_problem(program, [program.graph.inputs[position] for position in fed])
    assert sum(tables.values()) == table_bytes(program, problem, scattered_plan(problem))


TABLES = "kernels steps accesses walks cells places index constants blocks turns tables".split()


def test_many_cells_with_few_places_have_bytes() -> None:
    program = lower(test_sums.pool((1, 200, 4, 8), (200, 4), (1, 1)), row_wise=True)
    problem = row_problem(program, program.graph.inputs)
    plan = scattered_plan(problem)
    apart = table_bytes(program, problem, plan)
    # Rows are fed and added in turn, in two places.
    feed, sums = problem.tensors[0], problem.first_row(1)
    offsets = [*(32 * (row % 2) for row in range(feed.rows)), *(offset + 64 for offset in range(0, 32 * 2, 32))]
    assert sums == feed.rows
    shared = replace(plan, offsets=tuple(offsets[: problem.row_count]))
    together = table_bytes(program, problem, shared)
    assert apart - together == 2 * 200 - 200 - 2 * 2
    text = row_tables("name", program, problem, shared, arrays_of("name", program)).text
    assert "name_index[200] = {\n    0, 1, 0, 1," in text


@pytest.mark.parametrize("copies", [1, 300])
def test_blocks_of_turns_are_the_schedule(copies: int) -> None:
    program = lower(image(), row_wise=True)
    problem = row_problem(program)
    plan = scattered_plan(problem)
    # With copies of its operators, numbers need two bytes.
    many = replace(problem, operators=problem.operators * copies)
    schedule = tuple(turn + i % 4 * len(problem.operators) * (copies // 4) for i in range(9) for turn in plan.schedule)
    tables = row_tables(
        "name",
        program,
        many,
        replace(plan, schedule=schedule, scratch=plan.scratch * copies),
        arrays_of("name", program),
    )
    blocks, turns = (
        [int(number) for number in re.findall(r"\d+", re.findall(rf"name_{what}\[\d+\] = {{([^}}]*)", tables.text)[0])]
        for what in ("blocks", "turns")
    )
    size = 2 if copies > 1 else 1
    numbers = [
        int.from_bytes(turns[i : i + size], "little")
        for i in (size * (blocks[at // BLOCK] + at % BLOCK) for at in range(tables.firings))
    ]
    assert tuple(numbers) == schedule
    assert len(turns) < size * len(schedule)


def test_equal_sequences_of_places_are_stored_once() -> None:
    program = lower(image(), row_wise=True)
    problem = row_problem(program)
    plan = scattered_plan(problem)
    first, second, *_ = (
        problem.rows_of(index) for index, item in enumerate(problem.tensors) if item.group == 1 < item.rows
    )
    offsets = list(plan.offsets)
    offsets[second.start : second.stop] = offsets[first.start : first.stop]
    equal = replace(plan, offsets=tuple(offsets))
    saved = table_bytes(program, problem, plan) - table_bytes(program, problem, equal)
    assert len(first) == len(second)
    assert saved in (2 * len(first), 2 * len(first) + CELLS)


def test_rows_that_must_follow_each_other_are_checked() -> None:
    program = lower(image(), row_wise=True)
    problem = row_problem(program)
    plan = scattered_plan(problem)
    output = next(index for index, item in enumerate(problem.tensors) if item.kept and item.rows > 1)
    offsets = list(plan.offsets)
    first, *_, last = problem.rows_of(output)
    offsets[first], offsets[last] = offsets[last], offsets[first]
    files = partial(row_files, spec_of("image", image(), plan.memory_bytes), program, problem)
    with pytest.raises(InternalError, match="must follow each other"):
        files(replace(plan, offsets=tuple(offsets)))


def test_offsets_that_are_not_multiples_of_the_unit_are_an_error() -> None:
    program = lower(image(), row_wise=True)
    problem = row_problem(program)
    plan = scattered_plan(problem)
    moved = replace(plan, offsets=tuple(offset + 1 for offset in plan.offsets), memory_bytes=2**16)
    with pytest.raises(InternalError, match="is not a multiple of 2"):
        table_bytes(program, problem, moved)


def test_numbers_that_the_tables_cannot_state_are_refused() -> None:
    program = lower(two_images(), row_wise=True)
    (step,) = program.steps
    many = replace(program, steps=(replace(step, inputs=(RowInput(0, row_bytes=8, rows=3),) * 256),))
    problem = row_problem(program)
    with pytest.raises(UnsupportedModelError, match=r"no room for its inputs \(256\)"):
        table_bytes(many, problem, scattered_plan(problem))
