"""The planned file, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.kernels.cases import Case

from edgetool.errors import UsageError
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.model.edit import renumbered
from edgetool.model.metadata import decode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import DType
from edgetool.model.writer import write_model
from edgetool.operators.legality import kernel_faults
from edgetool.passes.cleanup import optimize
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.planning import ORDER_SHARE, Deadline, search_findings
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.model.builders import branches_model, conv_model
from tests.passes.runs import Net
from tests.passes.test_dead_channels import first_weights, separable
from tests.passes.test_transpose_conv import decoder as transposed
from tests.pipeline.order_models import tangle


@pytest.mark.parametrize(
    ("target", "written", "warned"), [(None, True, True), (None, False, False), ("cortex-m7", True, False)]
)
def test_a_plan_written_for_no_build_causes_a_warning(
    tmp_path: Path, target: str | None, *, written: bool, warned: bool
) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(write_model(conv_model()))
    output = tmp_path / "planned.tflite" if written else None
    report = plan_model(path, None if target is None else load_target(target), output=output)
    assert ("plan-for-no-build" in [finding.rule for finding in report.findings]) == warned


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    path = tmp_path / "branches.tflite"
    path.write_bytes(write_model(branches_model()))
    return path


def test_the_written_file_runs_its_operators_in_the_reported_order(branches: Path, tmp_path: Path) -> None:
    output, target = tmp_path / "planned.tflite", load_target("cortex-m7")
    report = plan_model(branches, target, output=output)
    assert report.plan is not None
    assert report.arena is not None
    assert report.plan.moved
    written = read_model(output.read_bytes())
    first = branches_model().main.operators
    assert [op.outputs for op in written.main.operators] == [first[index].outputs for index in report.plan.order]
    assert renumbered(written) == written
    assert decode_plan(written)
    again = plan_memory(written, platform_of(target))
    assert again.planner == "file"
    assert again.account is not None
    assert again.account.bytes == report.arena.bytes


def test_operators_are_numbered_as_in_the_input_file(branches: Path) -> None:
    report = plan_model(branches, load_target("cortex-m7"))
    assert report.arena is not None
    operators = branches_model().main.operators
    reported = [entry for entry in report.arena.breakdown if entry.operator is not None]
    assert {entry.operator for entry in reported} == set(range(len(operators)))
    assert all(entry.label == operators[entry.operator].label for entry in reported if entry.operator is not None)


def test_the_original_order_is_kept_on_request(branches: Path) -> None:
    report = plan_model(branches, load_target("cortex-m7"), request=PlanRequest(order="original"))
    assert report.plan is not None
    assert report.plan.order == (0, 1, 2, 3, 4)
    assert report.plan.live_lower_bound_bytes is None
    assert report.provenance.options["order"] == "original"


@pytest.mark.parametrize(
    "request_", [PlanRequest(order="original"), PlanRequest(strategy="tflm"), PlanRequest(sharing="greedy")]
)
def test_options_do_not_apply_to_a_plan_in_the_file(branches: Path, tmp_path: Path, request_: PlanRequest) -> None:
    output, target = tmp_path / "planned.tflite", load_target("cortex-m7")
    plan_model(branches, target, output=output)
    with pytest.raises(UsageError, match="--replan"):
        plan_model(output, target, request=request_)
    assert plan_model(output, target, request=replace(request_, file_plan="replace")).arena is not None


def test_sharing_and_a_layout_exclude_each_other(branches: Path) -> None:
    with pytest.raises(UsageError, match="--sharing"):
        plan_model(branches, None, request=PlanRequest(sharing="greedy", strategy="greedy"))


def test_shared_buffers_are_reported_with_their_tensors(branches: Path, tmp_path: Path) -> None:
    output, target = tmp_path / "planned.tflite", load_target("cortex-m7")
    report = plan_model(branches, target, request=PlanRequest(sharing="dynamic-programming"), output=output)
    assert report.plan is not None
    sharing = report.plan.sharing
    assert sharing is not None
    assert sum(buffer.bytes for buffer in sharing.buffers) == sharing.optimized_bytes < sharing.baseline_bytes
    offsets = {(tensor.subgraph, tensor.index): tensor.offset for tensor in report.plan.tensors}
    assert all(len({offsets[key] for key in buffer.tensors}) == 1 for buffer in sharing.buffers)
    assert decode_plan(read_model(output.read_bytes())) is not None


def test_constants_in_ram_are_laid_out_and_not_written(branches: Path, tmp_path: Path) -> None:
    request_ = PlanRequest(constants_in_ram=True)
    report = plan_model(branches, load_target("cortex-m7"), request=request_)
    assert report.arena is not None
    assert report.arena.bytes is None
    assert "constants-in-ram" in {finding.rule for finding in report.findings}
    with pytest.raises(UsageError, match="in place"):
        plan_model(branches, None, request=request_, output=tmp_path / "out.tflite")
    assert not (tmp_path / "out.tflite").exists()


def test_a_part_of_the_time_is_left_for_the_layout() -> None:
    deadline = Deadline(60)
    effort = deadline.effort()
    began = deadline._start
    deadline._start = began - 60 * ORDER_SHARE - 1
    assert (effort.for_order.stop(), effort.stop()) == (True, False)
    deadline._start = began - 61
    assert effort.stop() is True


@pytest.mark.parametrize("planner", ["edgetool", "runtime", "file"])
def test_a_search_cut_short_is_reported_whichever_planner_is_used(planner: str) -> None:
    deadline = Deadline(1e-9)
    found = plan_memory(branches_model(), effort=deadline.effort())
    assert deadline.timed_out
    chosen = replace(found, planner=planner, order_proof="none")  # type: ignore[arg-type]
    assert bool(search_findings(chosen, deadline, "wait")) == (planner != "file")


def test_a_search_without_time_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "tangle.tflite"
    path.write_bytes(write_model(tangle(60)))
    report = plan_model(path, load_target("cortex-m7"), request=PlanRequest(time_limit=1e-9))
    assert report.plan is not None
    assert report.plan.order_proof == "none"
    reported = {finding.rule: finding.message for finding in report.findings}
    assert "--time-limit" in reported["search-cut-short"]


@pytest.fixture
def decoder(tmp_path: Path) -> Path:
    """A transposed convolution of which CMSIS-NN's kernel computes wrong rows."""
    models = (Case("TRANSPOSE_CONV", "int8", number).model() for number in range(50))
    target = load_target("cortex-m7")
    path = tmp_path / "decoder.tflite"
    path.write_bytes(write_model(next(model for model in models if kernel_faults(model, platform_of(target)))))
    return path


def test_optimize_writes_a_model_without_faults_and_states_its_cost(decoder: Path, tmp_path: Path) -> None:
    output, target = tmp_path / "planned.tflite", load_target("cortex-m7")
    before = plan_model(decoder, target)
    report = plan_model(decoder, target, output=output, optimize=True)
    rules = [finding.rule for finding in report.findings]
    assert "kernel-fault" in [finding.rule for finding in before.findings]
    assert "kernel-fault" not in rules
    messages = [finding.message for finding in report.findings if finding.rule == "fault-avoided"]
    assert messages[0].startswith("TRANSPOSE_CONV was given ")
    assert before.arena is not None
    assert report.arena is not None
    change = f"from {before.arena.bytes:,} to {report.arena.bytes:,} bytes"
    assert messages[-1] == f"the rewrites change the arena {change}"
    assert kernel_faults(read_model(output.read_bytes()), platform_of(target)) == ()


def test_optimize_leaves_models_without_faults_as_they_are(branches: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / name for name in ("plain.tflite", "optimized.tflite")]
    for output, is_optimized in zip(outputs, (False, True), strict=True):
        report = plan_model(branches, load_target("cortex-m7"), output=output, optimize=is_optimized)
        assert "fault-avoided" not in [finding.rule for finding in report.findings]
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_optimize_removes_dead_channels_and_states_what_that_saves(tmp_path: Path) -> None:
    path, output = tmp_path / "dead.tflite", tmp_path / "trimmed.tflite"
    model = separable(first_weights(8, (1, 4)), [-50] * 8, [-20] * 8, "SAME")
    path.write_bytes(write_model(model))
    report = plan_model(path, load_target("cortex-m7"), output=output, optimize=True)
    messages = [finding.message for finding in report.findings if finding.rule == "channels-removed"]
    macs = [36 * (2 * channels + 9 * channels + 3 * channels) for channels in (6, 8)]
    flash = f"{len(write_model(optimize(model)[0])):,} instead of {path.stat().st_size:,} bytes"
    assert len(messages) == 2
    assert messages[0].startswith("4 of 16 channels of 2 operators, on which no output depends, were removed: ")
    assert f"{macs[0]:,} instead of {macs[1]:,} multiply-accumulates, and {flash} of flash" in messages[0]
    assert messages[1].startswith("the rewrites change the arena from ")


def test_optimize_reports_each_pass_and_what_it_left_alone(tmp_path: Path) -> None:
    net = Net()
    x, y = net.input((1, 4), DType.INT8), net.input((1, 4), DType.INT8)
    net.operator("CUSTOM", [x], [y], custom_code="mine")
    path = tmp_path / "custom.tflite"
    path.write_bytes(write_model(net.model([x], [net.reshape(y, (1, 4))])))
    report = plan_model(path, load_target("cortex-m7"), optimize=True)
    messages = [f"{finding.rule}: {finding.message}" for finding in report.findings if finding.level == "note"]
    assert messages[0].startswith("not-cleaned-up: the clean-up left alone: mine (")
    assert messages[1].startswith("operators-removed: RESHAPE has no effect and was removed: ")
    assert messages[2].startswith("operators-removed: the rewrites change the arena from ")


@pytest.mark.parametrize(("image", "is_split"), [((8, 8, 4), True), ((1, 1, 4), False)])
def test_a_pass_that_would_enlarge_the_arena_is_not_used(
    image: tuple[int, int, int], is_split: bool, tmp_path: Path
) -> None:
    """The scratch buffer of a transposed convolution grows with the image, the multipliers of its channels do not."""
    path, output = tmp_path / "decoder.tflite", tmp_path / "planned.tflite"
    path.write_bytes(write_model(transposed(image=image, channels=8)))
    target = load_target("cortex-m7").with_overrides(kernels="reference")
    before = plan_model(path, target)
    after = plan_model(path, target, output=output, optimize=True)
    codes = [operator.code for operator in read_model(output.read_bytes()).main.operators]
    assert codes == (["CONV_2D", "DEPTH_TO_SPACE"] if is_split else ["TRANSPOSE_CONV"])
    assert ("transpose-conv-replaced" in [finding.rule for finding in after.findings]) is is_split
    assert before.arena is not None
    assert after.arena is not None
    assert (after.arena.bytes < before.arena.bytes) is is_split


def test_optimize_replaces_a_plan_in_the_file(decoder: Path, tmp_path: Path) -> None:
    planned, output = tmp_path / "planned.tflite", tmp_path / "optimized.tflite"
    plan_model(decoder, load_target("cortex-m7"), output=planned)
    plan_model(planned, load_target("cortex-m7"), output=output, optimize=True)
    assert kernel_faults(read_model(output.read_bytes()), platform_of(load_target("cortex-m7"))) == ()


def test_optimize_needs_a_target(decoder: Path) -> None:
    with pytest.raises(UsageError, match="--optimize rewrites the model for the kernels of a target"):
        plan_model(decoder, None, optimize=True)
