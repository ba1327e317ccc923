"""Plans of rows for native code: what is unknown, what fits a board, targets that share plans, and the outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from benchmarks.kernels.cases import Case
from benchmarks.kernels.random_network import random_network

from edgetool.codegen.native.lower import Stream, lower
from edgetool.codegen.native.rows import takeable_outputs
from edgetool.errors import FailedCheckError, TargetError, UsageError
from edgetool.memory.planner import PlanRequest
from edgetool.memory.problem import Effort
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline import native_rows, native_stream
from edgetool.pipeline.analysis import Analysis
from edgetool.pipeline.compare import compare_models
from edgetool.pipeline.native import NativeModel, SharedNative, choose, instructions_of, native_model, plan_native
from edgetool.pipeline.native_emit import emit_native
from edgetool.pipeline.native_rows import known_sum, model_macs, operator_instructions, preferences, rows_info
from edgetool.pipeline.native_stream import LEAST_WINDOWS, stream_samples
from edgetool.pipeline.native_verify import verify_native
from edgetool.pipeline.source import Source, open_tflite
from edgetool.report.document import KernelChoiceInfo, OutputInfo, RowSegment, RowsInfo, RowTensorInfo
from edgetool.report.json import documents, plain, read_reports
from edgetool.target.load import load_target
from edgetool.target.types import Target
from tests.codegen.native.host import differences, with_stream
from tests.codegen.native.stream_models import spotter, tcn
from tests.codegen.native.test_recompute import expansion
from tests.codegen.native.test_scratch import ladder
from tests.memory.account_net import Net
from tests.model.builders import branches_model, residual_model
from tests.pipeline.checks import check
from tests.pipeline.reports import QUALITY, whole_report, write_reports

M4 = load_target("cortex-m4").with_overrides(runtime="native")
SMALLEST = replace(M4, scratch_budget_bytes=0)
FED = replace(SMALLEST, row_input=True)
TAKEN = replace(FED, row_output=True)
STREAM = replace(M4, incremental=2)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("models") / "ladder.tflite"
    path.write_bytes(write_model(ladder()))
    return open_tflite(path)


def test_a_sum_with_an_unknown_number_is_unknown() -> None:
    assert known_sum([1, 0, 2]) == 3
    assert known_sum([1, None]) is None
    assert known_sum([]) is None


def test_kernels_with_unknown_instructions_are_chosen_by_how_tuned_they_are() -> None:
    small, rows, whole = preferences([{0: 9, 1: 5}, {0: 7, 1: None}, {0: 8, 1: 4}])
    assert (small[0], rows[0], whole[0]) == (9, 7, 8)
    assert small[1] > rows[1] > whole[1]


def test_operators_without_counted_kernels_are_unknown(source: Source) -> None:
    program = lower(source.model)
    known = operator_instructions(program, M4)
    assert all(known.values())
    steps = tuple(replace(step, kernel="edgetool_not_counted_s8") for step in program.steps[:1])
    changed = operator_instructions(replace(program, steps=(*steps, *program.steps[1:])), M4)
    first = program.steps[0].operator
    assert changed == {**known, first: None}


def test_a_choice_with_unknown_instructions_is_still_offered(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_rows, "operator_instructions", lambda program, _: {0: None})
    model = native_model(source, SMALLEST)
    assert model.planned.rows is not None
    arenas = [choice.memory.arena_bytes for choice in model.choices]
    assert arenas == sorted(arenas)


def test_the_fastest_plan_that_fits_the_board_is_chosen(source: Source) -> None:
    choices = native_model(source, M4).choices
    assert choices[0].rows is not None
    assert len(choices) > 1
    for number, choice in enumerate(choices):
        board = replace(M4, scratch_budget_bytes=2**20).with_overrides(sram_bytes=choice.memory.arena_bytes)
        chosen = choose(choices, board, PlanRequest(), Effort())
        counts = [instructions_of(item, M4) for item in choices[: number + 1]]
        assert instructions_of(chosen, M4) == min(count for count in counts if count is not None)
        assert chosen.memory.arena_bytes <= choice.memory.arena_bytes
    too_small = M4.with_overrides(sram_bytes=choices[0].memory.arena_bytes - 1)
    assert choose(choices, too_small, PlanRequest(), Effort()) is choices[0]


def test_of_plans_with_the_same_memory_the_fastest_is_offered(source: Source) -> None:
    choice, *_ = native_rows.row_choices(
        source.model, lower(source.model), [range(len(source.model.main.operators))], SMALLEST, None, {}
    )
    assert native_rows._front([(9, choice), (7, choice)]) == (choice,)


@pytest.mark.slow
def test_targets_that_share_plans_have_those_that_each_has_alone(source: Source) -> None:
    least = native_model(source, SMALLEST).planned.memory.arena_bytes
    targets = [M4, SMALLEST, FED, M4.with_overrides(sram_bytes=least)]
    targets += [load_target(name).with_overrides(runtime="native") for name in ("cortex-m0plus", "cortex-m55")]
    shared = SharedNative(source)
    for target in targets:
        alone = native_model(source, target).analysis
        assert _figures(shared.on(target)) == _figures(alone)
    assert shared.on(FED).plan.account != shared.on(SMALLEST).plan.account


def test_of_large_networks_one_order_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    model = branches_model()
    beside, after = (0, 1, 2, 3, 4), (0, 2, 1, 3, 4)

    def orders_of_plans(*orders: tuple[int, ...]) -> set[tuple[int, ...]]:
        choices = native_rows.row_choices(model, lower(model), orders, SMALLEST, None, {})
        return {tuple(dict.fromkeys(step.operator for step in item.program.steps)) for item in choices}

    assert orders_of_plans(after, beside) == {after}
    monkeypatch.setattr(native_rows, "ORDER_FIRINGS", 0)
    assert orders_of_plans(after, beside) == {beside}
    assert orders_of_plans(beside, after) == {after}


def test_operators_that_take_turns_read_no_more_weights_than_allowed(source: Source) -> None:
    sweeps = []
    for most in (None, 0):
        rows = native_model(source, replace(FED, max_weights_per_row_bytes=most)).planned.rows
        assert rows is not None
        sweeps.append(rows_info(rows).weights_per_row_bytes)
    assert sweeps[0] > sweeps[1] == 0


def test_the_cache_of_external_flash_limits_the_weights_per_row() -> None:
    cached = load_target("rpi-pico")
    assert cached.flash_region is not None
    assert cached.most_weights_per_row == cached.flash_region.cache_bytes > 0
    assert replace(cached, max_weights_per_row_bytes=0).most_weights_per_row == 0
    assert load_target("nucleo-l4r5zi").most_weights_per_row is None
    assert M4.most_weights_per_row is None


@pytest.mark.slow
def test_streams_share_nothing_with_whole_windows(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(write_model(spotter()))
    source = open_tflite(path)
    shared = SharedNative(source)
    targets = (M4, STREAM, replace(STREAM, incremental=4))
    figures = [_figures(shared.on(target)) for target in targets]
    assert figures == [_figures(native_model(source, target).analysis) for target in targets]
    assert len(set(figures)) == 3


def _figures(analysis: Analysis) -> tuple[object, ...]:
    account, estimate = analysis.plan.account, analysis.estimate
    assert account is not None
    return account.bytes, None if estimate is None else estimate.latency_ms


@pytest.mark.parametrize(
    "model",
    [Case("SQUEEZE", "bool", 1).model(), random_network(Random("rowcmd56"))],
    ids=["no steps", "operators in one step"],
)
def test_models_whose_programs_differ_in_their_steps(tmp_path: Path, model: Model) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(write_model(model))
    assert native_model(open_tflite(path), FED).planned.rows is not None


@pytest.mark.slow
def test_outputs_that_are_views_of_tensors_are_taken_by_rows(tmp_path: Path) -> None:
    net = Net()
    x = net.arena(1, 6, 2, 4)
    y = net.op("ADD", [x, x], scale=1 / 5)
    halves = [net.arena(1, 3, 2, 4, scale=1 / 5) for _ in range(2)]
    net.give("SPLIT", [net.scalar(1), y], halves, num_splits=2)
    model = net.model([x], halves)
    assert len(takeable_outputs(lower(model))) < len(halves)
    path = tmp_path / "net.tflite"
    path.write_bytes(write_model(model))
    rows = native_model(open_tflite(path), TAKEN).planned.rows
    assert rows is not None
    assert rows.taken == tuple(model.main.outputs)


@pytest.mark.slow
def test_verify_runs_rows(tmp_path: Path) -> None:
    verify_rows(tmp_path, ladder(), TAKEN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "target"),
    [(residual_model(), SMALLEST), (branches_model(), FED), (branches_model(), TAKEN)],
    ids=["whole inputs", "row input", "row output"],
)
def test_verify_runs_rows_of_more_models(tmp_path: Path, model: Model, target: Target) -> None:
    verify_rows(tmp_path, model, target)


@pytest.mark.slow
@pytest.mark.parametrize("model", [spotter(), tcn()], ids=["spotter", "tcn"])
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
def test_verify_runs_streams(tmp_path: Path, model: Model, core: str) -> None:
    verify_rows(tmp_path, model, load_target(core).with_overrides(runtime="native", incremental=2))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "least"), [(spotter(), 2), (tcn(), 1)], ids=["spotter", "tcn"])
def test_each_choice_of_a_stream_computes_what_tflm_computes(tmp_path: Path, model: Model, least: int) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(write_model(model))
    choices = native_model(open_tflite(path), STREAM).choices
    assert len(choices) >= least
    trial = with_stream(model, 2, 70)
    trials = {}
    for number, choice in enumerate(choices):
        assert choice.rows is not None
        rows = (choice.rows.problem, choice.rows.plan)
        trials[f"choice {number}"] = replace(trial, program=choice.program, memory=choice.memory, rows=rows)
    assert differences(trials) == []


def test_a_hop_has_rows() -> None:
    with pytest.raises(TargetError, match="--incremental 0 is no number of rows"):
        M4.with_overrides(incremental=0)


@pytest.mark.parametrize(
    ("option", "more"), [("row-output", {"row_output": True}), ("max-extra-macs", {"max_extra_macs": 5})]
)
def test_options_that_streams_do_not_support(option: str, more: dict[str, Any]) -> None:
    message = f"--incremental and --{option} cannot be combined"
    with pytest.raises(TargetError, match=message):
        M4.with_overrides(incremental=2, **more)
    with pytest.raises(TargetError, match=message):
        STREAM.with_overrides(**more)


def test_a_stream_is_not_shrunk(source: Source) -> None:
    with pytest.raises(UsageError, match="--incremental and --shrink cannot be combined"):
        planned_on(source, STREAM, shrink=True)


def test_a_stream_of_samples_has_windows_that_end_with_each_hop() -> None:
    stream = Stream(3, 7, 2, {}, {0: 10}, 10, 100)
    samples = np.arange(4 * 7 * 2).reshape(4, 1, 7, 2)
    found = stream_samples(samples, stream)
    assert found.hops.reshape(-1).tolist() == list(range(27 * 2))
    assert found.hops.shape == (9, 3, 2)
    # The first window is full after three hops, of which it has no longer the first two rows.
    assert found.windows.shape == (7, 1, 7, 2)
    for number, window in enumerate(found.windows):
        end = 2 * 3 * (number + 3)
        assert window.reshape(-1).tolist() == list(range(end - 14, end))


def test_a_long_stream_is_cut_off() -> None:
    stream = Stream(1, 10, 2, {}, {0: 10}, 10, native_stream.TFLM_MACS)
    found = stream_samples(np.zeros((9, 1, 10, 2), np.int8), stream)
    assert len(found.windows) == LEAST_WINDOWS * 10
    assert len(found.hops) == LEAST_WINDOWS * 10 + 9


def verify_rows(folder: Path, model: Model, target: Target) -> None:
    pytest.importorskip("tflite_micro")
    path = folder / "net.tflite"
    path.write_bytes(write_model(model))
    planned = native_model(open_tflite(path), target).planned
    assert planned.rows is not None or target is SMALLEST
    report = verify_native(path, target, samples=3)
    assert report.verify is not None
    assert [check.passed for check in report.verify.checks[:2]] == [True, True], report.verify.checks
    assert report.verify.checks[2].passed is not False
    assert f"{planned.memory.arena_bytes:,} bytes" in report.verify.checks[0].message


# Sections that state less than any plan takes, those of another model, and those that no version of edgetool writes.
FOREIGN = RowsInfo(4, 4, 1, 0, ("image",), (RowSegment((0, 99, -1), 5, -5),), (RowTensorInfo("x", 99, 0, 0, 10**9),))
DAMAGED = [3, [], {}, "rows", {"memory_bytes": 4}, {**plain(FOREIGN), "tensors": [1]}]
DAMAGED += [{**plain(FOREIGN), "memory_bytes": value} for value in ("4", None, 1e99)]


def test_a_plan_in_a_report_is_not_trusted(source: Source, tmp_path: Path) -> None:
    board = load_target("nucleo-f446re").with_overrides(runtime="native", scratch_budget_bytes=0)
    path, beside = tmp_path / "net.tflite", tmp_path / "net.json"
    path.write_bytes(source.blob)
    # As the report of the conversion that made the model.
    own = plan_native(path, board)
    own = replace(own, model=replace(own.model, output=OutputInfo(source.sha256, len(source.blob))))
    own = replace(own, quantization=QUALITY)
    choice = KernelChoiceInfo(4, 0, 1, chosen=True, rows=True)
    foreign = replace(own, rows=FOREIGN, kernel_choices=(choice,), plan=None)
    results = []
    for number, report in enumerate((own, foreign)):
        write_reports(beside, report)
        checked = check(path, targets=(board,), reports=(beside,)).reports[0]
        assert checked.quantization == QUALITY
        emitted = emit_native(path, board, output=tmp_path / str(number), name="net")
        compared = compare_models(path, beside, board.name, overrides={"runtime": "native", "scratch_budget": 0})
        results.append(
            (
                (checked.arena, checked.rows, checked.kernel_choices, checked.check),
                {file.name: file.read_bytes() for file in emitted.files},
                compared.compare,
            )
        )
    assert results[0] == results[1]
    assert results[0][0][1] == own.rows


@pytest.mark.parametrize("rows", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_plan_in_a_report_is_refused(rows: object) -> None:
    value = documents([whole_report()])
    read_reports({**value, "rows": plain(FOREIGN)})
    with pytest.raises(UsageError, match="rows"):
        read_reports({**value, "rows": rows})


@pytest.fixture(scope="module")
def expansions(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("models") / "expansions.tflite"
    path.write_bytes(write_model(expansion((8, 8), 4, 24, sums=True)))
    return open_tflite(path)


def planned_on(source: Source, target: Target, *, shrink: bool = False) -> NativeModel:
    return native_model(source, target, PlanRequest(shrink=shrink))


def test_extra_multiply_accumulates_save_memory_within_their_budget(expansions: Source) -> None:
    plain = planned_on(expansions, FED)
    sizes = []
    for percent in (0.0, 20.0, 400.0):
        model = planned_on(expansions, FED.with_overrides(max_extra_macs=percent))
        assert model.planned.rows is not None
        info = rows_info(model.planned.rows)
        assert info.extra_macs_percent <= percent
        assert info.extra_macs_percent == pytest.approx(100 * info.extra_macs / model_macs(expansions.model))
        # The bound is that of rows without recomputation.
        assert info.lower_bound_bytes == plain.planned.memory.layout.lower_bound
        sizes.append(model.planned.memory.arena_bytes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] <= plain.planned.memory.arena_bytes
    assert sizes[-1] < plain.planned.memory.layout.lower_bound


def test_what_is_computed_again_is_estimated(expansions: Source) -> None:
    plain, again = (planned_on(expansions, item) for item in (FED, FED.with_overrides(max_extra_macs=400)))
    counts = [instructions_of(item.planned, M4) for item in (plain, again)]
    assert counts[0] is not None
    assert counts[1] is not None
    assert counts[0] < counts[1]
    # Plans without recomputation remain choices.
    arenas = [choice.memory.arena_bytes for choice in again.choices]
    assert arenas == sorted(arenas)
    assert plain.planned.memory.arena_bytes in arenas


@pytest.mark.slow
def test_budgets_of_targets_that_share_plans_stay_apart(expansions: Source) -> None:
    shared = SharedNative(expansions)
    for target in (FED, FED.with_overrides(max_extra_macs=400), FED):
        assert _figures(shared.on(target)) == _figures(planned_on(expansions, target).analysis)


@pytest.mark.parametrize("percent", [-1.0, 401.0, float("nan")])
def test_budgets_that_are_no_percentages(percent: float) -> None:
    with pytest.raises(TargetError, match="outside the range 0 to 400"):
        M4.with_overrides(max_extra_macs=percent)


def test_tflm_computes_nothing_again() -> None:
    with pytest.raises(TargetError, match="--max-extra-macs applies to native code"):
        load_target("cortex-m4").with_overrides(max_extra_macs=5)


@pytest.mark.slow
def test_shrinking_stops_where_the_model_fits(expansions: Source) -> None:
    target = M4.with_overrides(row_input=True)
    least = planned_on(expansions, FED.with_overrides(max_extra_macs=400)).planned.memory.arena_bytes
    plain = planned_on(expansions, FED).planned.memory.arena_bytes
    found = []
    for sram in (2**20, plain, least):
        model = planned_on(expansions, target.with_overrides(sram_bytes=sram), shrink=True)
        assert model.planned.memory.arena_bytes <= sram
        [finding] = model.findings
        assert f"of {sram:,} bytes" in finding.message
        assert model.planned.rows is not None
        found.append(model.planned.rows.extra_macs)
        assert ("extra multiply-accumulates" in finding.message) == (found[-1] > 0)
    assert found[:2] == [0, 0]
    assert found[2] > 0
    with pytest.raises(FailedCheckError, match=f"the smallest arena takes {least:,} bytes with"):
        planned_on(expansions, target.with_overrides(sram_bytes=least - 4), shrink=True)
    # The user's budget is the limit.
    with pytest.raises(FailedCheckError, match="the smallest arena takes"):
        planned_on(expansions, target.with_overrides(sram_bytes=least, max_extra_macs=0), shrink=True)


def test_shrinking_needs_a_size(expansions: Source) -> None:
    with pytest.raises(UsageError, match="none is known"):
        planned_on(expansions, M4, shrink=True)


@pytest.mark.slow
def test_verify_runs_what_is_computed_again(tmp_path: Path) -> None:
    verify_rows(tmp_path, expansion((6, 6), 4, 24, sums=True), FED.with_overrides(max_extra_macs=400))
