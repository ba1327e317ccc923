"""Real jobs, each in its processes: what a sweep's parts are together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.convert.request import ConvertRequest
from edgetool.errors import UsageError
from edgetool.pipeline.convert import convert_file
from edgetool.report.json import plain
from edgetool.sweep.executor import do
from edgetool.sweep.jobs import Chains, Content, InputFile, Job, Outcome, Task
from edgetool.sweep.metrics import Variant
from edgetool.sweep.run import snapshot
from edgetool.sweep.spec import Builder, FineTune, Pruning, SweepSpec, TargetSpec
from edgetool.sweep.targets import resolved
from edgetool.sweep.versions import installed_versions

TARGET = TargetSpec("small", "nucleo-l4r5zi", overrides=(("sram_bytes", 65536),))


def done(job: Job, before: Mapping[str, Outcome]) -> Outcome:
    contents = {
        role: Content(item.name, item.sha256, path=item.path)
        if isinstance(item, InputFile)
        else Content(item.blob, "", data=before[item.key].blobs[item.blob])
        for role, item in job.inputs.items()
    }
    outcome = do(Task(job, contents, 300.0))
    assert json.loads(json.dumps(outcome.value, allow_nan=False)) == outcome.value
    return outcome


def test_a_pruned_variant_costs_what_convert_says_of_the_same_model(tiny: Path, tmp_path: Path) -> None:
    spec = SweepSpec(
        "tiny",
        tiny / "tiny.h5",
        None,
        ("int8",),
        (TARGET,),
        Pruning((0.0, 0.5)),
        FineTune(tiny / "training.npz"),
        tiny / "calibration.npz",
        tiny / "evaluation.npz",
    )
    chains = Chains(spec, snapshot(spec, tmp_path / "copies"), installed_versions())
    jobs = {job.kind: job for job in chains.of(Variant((), 0.5, "int8", "small"))}
    outcomes: dict[str, Outcome] = {}
    for job in jobs.values():
        outcomes[job.key] = done(job, outcomes)
        assert outcomes[job.key].reason is None
    pruned, reference, converted, analysed = (outcomes[job.key] for job in jobs.values())
    assert pruned.value["removed"] == {"first": 4, "second": 4}
    assert pruned.value["parameters"] < pruned.value["original_parameters"]
    assert len(pruned.value["history"]) == 1
    assert reference.value["samples"] == converted.value["quality"]["samples"] == 20
    assert converted.value["quality"]["float_accuracy"] == reference.value["float_accuracy"]

    (tmp_path / "model.keras").write_bytes(pruned.blobs["model.keras"])
    request = ConvertRequest(
        tmp_path / "model.keras", calibration=tiny / "calibration.npz", evaluate=tiny / "evaluation.npz"
    )
    told = convert_file(request, resolved(TARGET), output=tmp_path / "out").report
    cost = analysed.value["cost"]
    assert told.arena is not None
    assert told.estimate is not None
    assert told.model.output is not None
    assert told.quantization is not None
    assert told.quantization.accuracy is not None
    assert cost["arena_bytes"] == told.arena.bytes
    assert cost["model_bytes"] == told.model.output.bytes
    assert cost["latency_ms"] == plain(told.estimate.latency_ms)
    assert cost["energy_uj"] == plain(told.estimate.energy_uj)
    assert cost["macs"] == told.estimate.macs
    assert (cost["sram_bytes"], cost["errors"]) == (65536, [])
    # The same file on the same labels; but here it is compared with the original, there with its own pruned self.
    assert converted.value["quality"]["accuracy"] == told.quantization.accuracy.quantized
    ours, theirs = converted.value["quantization"]["outputs"][0], told.quantization.outputs[0]
    assert ours["name"] == theirs.name == "scores"
    assert ours["sqnr_db"] == converted.value["quality"]["sqnr_db"] < (theirs.sqnr_db or 0)


def test_a_builder_is_called_with_the_variants_parameters_beside_its_files(tiny: Path, tmp_path: Path) -> None:
    parameters = (("width", (3, 5)), ("side", (6, 8)))
    builder = Builder(tiny / "model.py", "model", "build", (tiny / "helpers.py",), parameters)
    spec = SweepSpec("built", None, builder, ("int8",), (TARGET,), trust_model_code=True)
    chains = Chains(spec, snapshot(spec, tmp_path / "copies"), installed_versions())
    build, reference, *_ = chains.of(Variant((("width", 5), ("side", 6)), 0.0, "int8", "small"))
    outcome = done(build, {})
    assert (outcome.reason, list(outcome.blobs)) == (None, ["model.keras"])
    assert outcome.value["parameters"] == 5 * 9 + 5 + 5 * 3 + 3
    assert reference.request["built"] is True


@pytest.fixture
def job(tiny: Path, tmp_path: Path) -> Job:
    """An analysis of a file that is none of a model."""
    (tmp_path / "m.h5").write_bytes(b"no model")
    spec = SweepSpec("s", tmp_path / "m.h5", None, ("int8",), (TARGET,))
    chains = Chains(spec, snapshot(spec, tmp_path / "copies"), installed_versions())
    return chains.of(Variant((), 0.0, "int8", "small"))[0]


def test_a_model_that_is_none_is_named_as_the_user_does(job: Job) -> None:
    reason = done(job, {}).reason
    assert reason is not None
    assert reason.startswith("m.h5: ")
    assert "/" not in reason.partition(";")[0]


def test_a_worker_with_other_packages_does_nothing(job: Job) -> None:
    versions = {**job.request["versions"], "keras": "3.0.0"}
    with pytest.raises(UsageError, match=r"this worker has different packages: keras \S+ instead of 3\.0\.0"):
        done(replace(job, request={**job.request, "versions": versions}), {})


def test_a_worker_that_knows_another_target_refuses(job: Job, tiny: Path, tmp_path: Path) -> None:
    spec = SweepSpec("s", tmp_path / "m.h5", None, ("int8",), (TARGET,))
    chains = Chains(spec, snapshot(spec, tmp_path / "again"), installed_versions())
    analyse = chains.of(Variant((), 0.0, "int8", "small"))[-1]
    other = replace(analyse, inputs={}, request={**analyse.request, "target_sha256": "0" * 64})
    with pytest.raises(UsageError, match="target nucleo-l4r5zi here differs from"):
        done(other, {})
