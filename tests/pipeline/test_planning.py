"""A search under way: deadlines and Ctrl-C.

A plan that is already in the file: replaced when it is asked for, however broken it is.

A model planned for a target, as it is delivered.
"""

from __future__ import annotations

import signal
import struct
import threading
import time
from pathlib import Path

import pytest

from edgetool.convert.request import ConvertRequest
from edgetool.errors import InvalidModelError, UnsupportedModelError, UsageError
from edgetool.memory.planner import PlanRequest
from edgetool.memory.problem import Effort
from edgetool.model.edit import renumbered, with_metadata
from edgetool.model.metadata import METADATA_NAME, decode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline import planning
from edgetool.pipeline.convert import convert_file
from edgetool.pipeline.delivery import conversion_findings
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.planning import Deadline, interruptible, planned_for
from edgetool.pipeline.source import Source
from edgetool.report.document import QuantizationInfo
from edgetool.target.load import load_target
from tests.graphs import chain
from tests.model.builders import branches_model, conv_model


def test_a_deadline_ends_the_search_and_frees_the_nodes() -> None:
    with interruptible(0.05) as deadline:
        effort = deadline.effort(7)
        assert (effort.seed, effort.node_limit) == (7, None)
        assert effort.stop() is False
        time.sleep(0.06)
        assert effort.stop() is True
        assert effort.stop() is True
    assert (deadline.timed_out, deadline.interrupted) == (True, False)


def test_a_part_of_a_search_ends_before_the_whole_and_is_reported() -> None:
    deadline = Deadline(60)
    effort = deadline.effort(7)
    order = effort.for_order
    assert (order.seed, order.node_limit) == (7, None)
    assert (order.stop(), deadline.timed_out) == (False, False)
    deadline._start -= 59
    assert (effort.stop(), deadline.timed_out) == (False, False)
    assert (order.stop(), deadline.timed_out) == (True, True)
    assert effort.stop() is False
    deadline.interrupted = True
    assert effort.stop() is True


def test_without_a_time_limit_the_nodes_are_limited() -> None:
    with interruptible(None) as deadline:
        effort = deadline.effort()
        assert effort.node_limit == Effort().node_limit
        assert effort.stop() is False
        assert effort.for_order is effort


def test_the_first_interrupt_ends_the_search_and_the_second_has_its_usual_effect() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruptible(None) as deadline:
        signal.raise_signal(signal.SIGINT)
        assert deadline.interrupted
        assert deadline.effort().stop() is True
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_search_for_rows_does_not_end_because_the_machine_is_busy() -> None:
    effort = Deadline(0.02).effort()
    time.sleep(0.1)
    assert effort.stop()
    assert not effort.stops_rows()


def test_the_handler_is_put_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), interruptible(1):
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_leave_signals_alone() -> None:
    seen = []

    def work() -> None:
        with interruptible(1) as deadline:
            seen.append((signal.getsignal(signal.SIGINT), deadline.effort().stop()))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]


def test_ticks_come_a_few_times_a_second() -> None:
    ticks: list[float] = []
    with interruptible(1, tick=lambda: ticks.append(time.monotonic())) as deadline:
        while not deadline.effort().stop():
            time.sleep(0.002)
    assert 2 <= len(ticks) <= 6


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), 1e11])
def test_invalid_limits_are_rejected(limit: float) -> None:
    with pytest.raises(UsageError), interruptible(limit):
        pytest.fail("not reached")


PAYLOADS = {
    "nothing": b"",
    "the header alone": struct.pack("<3i", 1, 1, 0),
    "too few": struct.pack("<4i", 1, 1, 1, 0),
    "a wrong count": struct.pack("<103i", 1, 1, 100, *range(100)),
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_replan_replaces_a_plan_of_the_wrong_length(payload: bytes, tmp_path: Path) -> None:
    path, output, target = tmp_path / "wrong.tflite", tmp_path / "right.tflite", load_target("cortex-m7")
    path.write_bytes(write_model(with_metadata(conv_model(), METADATA_NAME, payload)))
    with pytest.raises(InvalidModelError, match="--replan"):
        plan_model(path, target)
    report = plan_model(path, target, request=PlanRequest(file_plan="replace"), output=output)
    assert "plan-replaced" in {finding.rule for finding in report.findings}
    written = read_model(output.read_bytes())
    assert decode_plan(written) is not None or METADATA_NAME not in {entry.name for entry in written.metadata}


MODELS = [branches_model(), chain([32, 32, 32])]


def source_of(model: Model) -> Source:
    blob = write_model(model)
    return Source("model.tflite", blob, read_model(blob))


@pytest.mark.parametrize("target", ["cortex-m7", "cortex-m0plus"])
@pytest.mark.parametrize("model", MODELS)
def test_the_figures_are_those_of_the_file_that_convert_writes(tmp_path: Path, model: Model, target: str) -> None:
    source = source_of(model)
    (tmp_path / "model.tflite").write_bytes(source.blob)
    written = convert_file(ConvertRequest(tmp_path / "model.tflite"), load_target(target), output=tmp_path / "out")
    made = planned_for(source, load_target(target))
    assert made.source.blob == (tmp_path / "out" / "model.tflite").read_bytes()
    assert written.report.arena is not None
    assert made.analysis.plan.account is not None
    assert made.analysis.plan.account.bytes == written.report.arena.bytes
    assert made.unwritten == ()


def test_converted_models_are_renumbered_and_others_are_not() -> None:
    source = source_of(branches_model())
    anew = planned_for(source, load_target("cortex-m7"))
    came = planned_for(source, load_target("cortex-m7"), renumber=False)
    assert anew.source.blob == came.source.blob
    assert came.analysis.plan.moved > 0
    assert anew.analysis.plan.moved == 0
    assert anew.analysis.plan.order == tuple(range(len(source.model.main.operators)))
    assert read_model(anew.source.blob) == anew.source.model == renumbered(came.source.model)
    assert anew.analysis.plan.account == planned_for(anew.source, load_target("cortex-m7")).analysis.plan.account


def test_if_no_plan_can_be_written_the_file_is_unchanged_and_the_reason_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*arguments: object) -> Source:
        raise UnsupportedModelError("a field that nobody knows")

    monkeypatch.setattr(planning, "planned_source", refuse)
    source = source_of(branches_model())
    made = planned_for(source, load_target("cortex-m7"))
    assert made.source is source
    assert made.analysis.plan.offsets is None
    assert [(item.rule, "a field that nobody knows" in item.message) for item in made.unwritten] == [
        ("plan-not-written", True)
    ]


@pytest.mark.parametrize(
    ("scheme", "calibrated", "rules"),
    [
        ("int8", False, ["uncalibrated", "conversion"]),
        ("int16x8", True, ["conversion"]),
        ("float32", False, ["conversion"]),
        ("float16", False, ["conversion"]),
    ],
)
def test_uncalibrated_ranges_are_reported_only_for_schemes_with_ranges(
    scheme: str, calibrated: bool, rules: list[str]
) -> None:
    found = conversion_findings(QuantizationInfo(scheme, calibrated, 100), ("a note",))
    assert [item.rule for item in found] == rules
    assert found[-1].message == "a note"
