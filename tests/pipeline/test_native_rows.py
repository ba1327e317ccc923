"""Plans of rows for native code: what is unknown, what fits a board, targets that share plans, and the outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from benchmarks.kernels.cases import Case
from benchmarks.kernels.random_network import random_network

from edgetool.codegen.native.lower import Stream, lower
from edgetool.errors import TargetError
from edgetool.memory.planner import PlanRequest
from edgetool.memory.problem import Effort
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline import native_rows, native_stream
from edgetool.pipeline.analysis import Analysis
from edgetool.pipeline.native import SharedNative, choose, instructions_of, native_model, verify_native
from edgetool.pipeline.native_rows import known_sum, operator_instructions, preferences
from edgetool.pipeline.native_stream import LEAST_WINDOWS, stream_samples
from edgetool.pipeline.source import Source, open_tflite
from edgetool.target.load import load_target
from edgetool.target.types import Target
from tests.codegen.native.host import differences, with_stream
from tests.codegen.native.stream_models import spotter, tcn
from tests.codegen.native.test_scratch import ladder
from tests.model.builders import branches_model, residual_model

M4 = load_target("cortex-m4").with_overrides(runtime="native")
SMALLEST = replace(M4, scratch_budget_bytes=0)
FED = replace(SMALLEST, row_input=True)
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


def test_verify_runs_rows(tmp_path: Path) -> None:
    verify_rows(tmp_path, ladder(), FED)


@pytest.mark.slow
@pytest.mark.parametrize("target", [SMALLEST, FED], ids=["whole inputs", "row input"])
@pytest.mark.parametrize("model", [residual_model(), branches_model()], ids=["residual", "branches"])
def test_verify_runs_rows_of_more_models(tmp_path: Path, model: Model, target: Target) -> None:
    verify_rows(tmp_path, model, target)


@pytest.mark.slow
@pytest.mark.parametrize("model", [spotter(), tcn()], ids=["spotter", "tcn"])
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
def test_verify_runs_streams(tmp_path: Path, model: Model, core: str) -> None:
    verify_rows(tmp_path, model, load_target(core).with_overrides(runtime="native", incremental=2))


@pytest.mark.slow
@pytest.mark.parametrize("model", [spotter(), tcn()], ids=["spotter", "tcn"])
def test_each_choice_of_a_stream_computes_what_tflm_computes(tmp_path: Path, model: Model) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(write_model(model))
    choices = native_model(open_tflite(path), STREAM).choices
    assert len(choices) > 1
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
