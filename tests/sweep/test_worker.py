"""Real jobs, each in its processes: what a sweep's parts are together.

When agreement says nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.kernels.cases import Case

from edgetool.child import ProcessLimits
from edgetool.convert.request import Conversion, ConvertRequest, Evaluation
from edgetool.errors import ConversionError, InternalError, InvalidModelError, UsageError
from edgetool.gate.limits import parse_budget
from edgetool.model.reader import read_model
from edgetool.model.types import DType
from edgetool.model.writer import write_model
from edgetool.pipeline.convert import convert_file
from edgetool.pipeline.planning import without_faults
from edgetool.pipeline.quality import classifies, measure_quality, run_quantized
from edgetool.pipeline.source import Source
from edgetool.pipeline.versions import installed_versions
from edgetool.report.document import Band, QuantizationInfo
from edgetool.report.json import plain
from edgetool.sweep.executor import run_job
from edgetool.sweep.front import sqnr_of
from edgetool.sweep.jobs import Content, InputFile, Job, Outcome, PreparedJob, VariantJobs, resolved
from edgetool.sweep.metrics import Quality, Variant
from edgetool.sweep.run import snapshot
from edgetool.sweep.spec import Builder, FineTune, Pruning, SweepSpec, TargetSpec
from edgetool.sweep.worker import (
    Array,
    MemoryUse,
    Reference,
    gives_one_class,
    make_reference,
    measured_cost,
    measured_memory,
    measured_quality,
    output_positions,
    read_reference,
    variant_metrics,
    write_reference,
)
from edgetool.target.load import load_target
from tests import graphs
from tests.passes.test_dead_channels import first_weights, separable
from tests.passes.test_stripes import CONV, DEPTHWISE, convolutions
from tests.pipeline.order_models import branching

TARGET = TargetSpec("small", "nucleo-l4r5zi", overrides=(("sram_bytes", 65536),))


def done(job: Job, before: Mapping[str, Outcome]) -> Outcome:
    contents = {
        role: Content(item.name, item.sha256, path=item.path)
        if isinstance(item, InputFile)
        else Content(item.blob, "", data=before[item.key].blobs[item.blob])
        for role, item in job.inputs.items()
    }
    outcome = run_job(PreparedJob(job, contents, 300.0))
    assert json.loads(json.dumps(outcome.value, allow_nan=False)) == outcome.value
    return outcome


@pytest.mark.slow
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
    chains = VariantJobs(spec, snapshot(spec, tmp_path / "copies"), installed_versions())
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
    reported = convert_file(request, resolved(TARGET), output=tmp_path / "out").report
    cost = analysed.value["cost"]
    assert reported.arena is not None
    assert reported.estimate is not None
    assert reported.model.output is not None
    assert reported.quantization is not None
    assert reported.quantization.accuracy is not None
    assert cost["arena_bytes"] == reported.arena.bytes
    assert cost["model_bytes"] == reported.model.output.bytes
    assert cost["latency_ms"] == plain(reported.estimate.latency_ms)
    assert cost["energy_uj"] == plain(reported.estimate.energy_uj)
    assert cost["macs"] == reported.estimate.macs
    assert (cost["sram_bytes"], cost["errors"]) == (65536, [])
    # The same file on the same labels; but here it is compared with the original, there with its own pruned self.
    assert converted.value["quality"]["accuracy"] == reported.quantization.accuracy.quantized
    ours, theirs = converted.value["quantization"]["outputs"][0], reported.quantization.outputs[0]
    assert ours["name"] == theirs.name == "scores"
    assert ours["sqnr_db"] == converted.value["quality"]["sqnr_db"] < (theirs.sqnr_db or 0)


@pytest.mark.slow
def test_a_builder_is_called_with_the_variants_parameters_beside_its_files(tiny: Path, tmp_path: Path) -> None:
    parameters = (("width", (3, 5)), ("side", (6, 8)))
    builder = Builder(tiny / "model.py", "model", "build", (tiny / "helpers.py",), parameters)
    spec = SweepSpec("built", None, builder, ("int8",), (TARGET,), trust_model_code=True)
    chains = VariantJobs(spec, snapshot(spec, tmp_path / "copies"), installed_versions())
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
    chains = VariantJobs(spec, snapshot(spec, tmp_path / "copies"), installed_versions())
    return chains.of(Variant((), 0.0, "int8", "small"))[0]


@pytest.mark.slow
def test_an_invalid_model_is_named_as_the_user_names_it(job: Job) -> None:
    reason = done(job, {}).reason
    assert reason is not None
    assert reason.startswith("m.h5: ")
    assert "/" not in reason.partition(";")[0]


@pytest.mark.slow
def test_a_worker_with_other_packages_does_nothing(job: Job) -> None:
    versions = {**job.request["versions"], "keras": "3.0.0"}
    with pytest.raises(UsageError, match=r"this worker has different packages: keras \S+ instead of 3\.0\.0"):
        done(replace(job, request={**job.request, "versions": versions}), {})


@pytest.mark.slow
def test_a_worker_that_knows_another_target_refuses(job: Job, tiny: Path, tmp_path: Path) -> None:
    spec = SweepSpec("s", tmp_path / "m.h5", None, ("int8",), (TARGET,))
    chains = VariantJobs(spec, snapshot(spec, tmp_path / "again"), installed_versions())
    analyse = chains.of(Variant((), 0.0, "int8", "small"))[-1]
    other = replace(analyse, inputs={}, request={**analyse.request, "target_sha256": "0" * 64})
    with pytest.raises(UsageError, match="target nucleo-l4r5zi here differs from"):
        done(other, {})


EXAMPLE = Path(__file__).parents[2] / "examples" / "keyword_spotting"
TFLITE = (EXAMPLE / "keyword_spotting.tflite").read_bytes()
BOARD = load_target("nucleo-l4r5zi")


def models() -> list[Any]:
    """Real, reordered by the planner, and with an operator that TFLM lacks."""
    lacking = graphs.model(
        graphs.graph(
            [graphs.tensor(index, 4) for index in range(3)],
            [graphs.operator(0, "SEGMENT_SUM", [0, 1], [2])],
            [0, 1],
            [2],
        )
    )
    return [
        pytest.param(TFLITE, id="keyword-spotting"),
        *(pytest.param(write_model(branching(seed)), id=f"branching-{seed}") for seed in (1, 2)),
        pytest.param(write_model(lacking), id="lacking"),
    ]


def numbers(band: Band | None) -> list[float]:
    return [] if band is None else [band.value, band.low, band.high]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["nucleo-l4r5zi", "cortex-m0plus"])
@pytest.mark.parametrize("tflite", models())
def test_a_cost_is_what_convert_reports(tflite: bytes, target: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(tflite)
    device = load_target(target).with_overrides(sram_bytes=8192, flash_bytes=16384)
    made = convert_file(ConvertRequest(path), device, output=tmp_path / "out")
    reported, cost = made.report, measured_cost(tflite, device)
    assert reported.arena is not None
    assert reported.memory is not None
    assert reported.estimate is not None
    assert reported.model.output is not None
    assert cost.arena_bytes == (None if reported.arena.is_lower_bound else reported.arena.bytes)
    assert cost.arena_least_bytes >= (reported.arena.bytes or reported.arena.layout_bytes)
    assert cost.arena_proof == reported.arena.proof
    assert cost.model_bytes == reported.model.output.bytes == (tmp_path / "out" / "model.tflite").stat().st_size
    assert cost.parameters == reported.model.parameters
    assert (cost.macs, cost.energy_uj is None) == (reported.estimate.macs, reported.estimate.energy_uj is None)
    # Of a .tflite of the user's, operators keep their numbers, and times are summed in that order.
    for ours, theirs in (
        (cost.latency_ms, reported.estimate.latency_ms),
        (cost.energy_uj, reported.estimate.energy_uj),
    ):
        assert numbers(ours) == pytest.approx(numbers(theirs), rel=1e-12)
    assert (cost.bandwidth_utilization or 0) == pytest.approx(reported.estimate.bandwidth_utilization or 0, rel=1e-12)
    assert (cost.region, cost.sram_bytes, cost.flash_bytes) == (reported.memory.region, 8192, 16384)
    # A size that does not fit is judged with the sweep's reserves, and no error of the model's.
    fit = {"arena-too-large", "model-too-large", "arena-lower-bound", "program-not-written"}
    assert list(cost.errors) == [
        item.message for item in reported.findings if item.level == "error" and item.rule not in fit
    ]
    assert bool(cost.errors) == any(operator.code == "SEGMENT_SUM" for operator in read_model(tflite).main.operators)


@pytest.mark.slow
def test_the_cost_of_native_code_is_what_convert_reports(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(TFLITE)
    device = load_target("cortex-m7").with_overrides(runtime="native")
    reported = convert_file(ConvertRequest(tmp_path / "model.tflite"), device, output=tmp_path / "out").report
    cost = measured_cost(TFLITE, device)
    assert reported.arena is not None
    assert reported.estimate is not None
    assert reported.flash is not None
    assert (cost.arena_bytes, cost.model_bytes) == (reported.arena.bytes, reported.flash.model_bytes)
    assert cost.latency_ms == reported.estimate.latency_ms
    assert cost.arena_bytes is not None
    assert cost.arena_bytes < (measured_cost(TFLITE, load_target("cortex-m7")).arena_bytes or 0)
    assert measured_memory(TFLITE, device).model_bytes == cost.model_bytes


@pytest.mark.slow
def test_extra_work_buys_a_smaller_arena() -> None:
    steps = (DEPTHWISE, 3, 1, "SAME"), (CONV, 1, 1, "SAME"), (DEPTHWISE, 3, 2, "SAME"), (CONV, 1, 1, "SAME")
    tflite = write_model(convolutions(*steps, height=48, width=32, channels=8, wider=(1, 3)))
    device = load_target("cortex-m7").with_overrides(kernels="reference")
    costs = [measured_cost(tflite, device, max_extra_macs=percent) for percent in (None, 10.0)]
    assert costs[0].macs < costs[1].macs <= 1.1 * costs[0].macs
    assert (costs[1].arena_bytes or 0) < 0.85 * (costs[0].arena_bytes or 0)
    native = device.with_overrides(runtime="native")
    rows = [measured_cost(tflite, native, max_extra_macs=percent).arena_bytes or 0 for percent in (None, 10.0)]
    assert rows[1] <= rows[0]


def test_an_optimized_model_costs_less() -> None:
    tflite = write_model(separable(first_weights(64, tuple(range(32))), [-50] * 64, [-20] * 64, "SAME"))
    plain, optimized = (measured_cost(tflite, BOARD, optimize=optimize) for optimize in (False, True))
    assert optimized.macs < plain.macs
    assert optimized.model_bytes < plain.model_bytes


def test_costs_do_not_depend_on_the_name_and_are_the_same_again() -> None:
    assert measured_cost(TFLITE, BOARD, name="other.tflite") == measured_cost(TFLITE, BOARD)


def test_the_cost_is_that_of_the_model_without_kernel_faults() -> None:
    faulty = write_model(Case("TRANSPOSE_CONV", "int8", 1).model())
    cost = measured_cost(faulty, load_target("cortex-m7"))
    source = Source("model.tflite", faulty, read_model(faulty))
    rewritten, sentences = without_faults(source, load_target("cortex-m7"))
    assert cost.errors == ()
    assert len(sentences) == 1
    assert cost.model_bytes > len(rewritten.blob) > len(faulty)


def test_memory_is_that_of_the_cost_and_goes_with_budgets() -> None:
    memory, cost = measured_memory(TFLITE, BOARD), measured_cost(TFLITE, BOARD)
    assert memory == MemoryUse(cost.arena_bytes or 0, cost.model_bytes, exact=True)
    used = memory.used(reserve_bytes=100, reserve_flash_bytes=1000)
    assert used == {"arena": memory.arena_bytes, "ram": memory.arena_bytes + 100, "flash": memory.model_bytes + 1000}
    assert {parse_budget(f"1KiB:{of}").of for of in used} == set(used)


def test_no_model_is_refused() -> None:
    with pytest.raises(InvalidModelError):
        measured_cost(b"no model", BOARD)
    with pytest.raises(InvalidModelError):
        measured_memory(TFLITE[:1000], BOARD)


@pytest.fixture(scope="module")
def conversion(tmp_path_factory: pytest.TempPathFactory) -> Conversion:
    """The example as if just converted: its float outputs are its own, a little apart."""
    pytest.importorskip("ai_edge_litert")
    inputs = (np.load(EXAMPLE / "calibration.npz")["mfcc"][:12].astype(np.float32),)
    labelled = np.load(EXAMPLE / "evaluation.npz")
    evaluated = (labelled["x"][:20].astype(np.float32),)
    model, folder = read_model(TFLITE), tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(1)
    ours, said = (run_quantized(TFLITE, model, arrays, folder)[0] for arrays in (inputs, evaluated))
    noise = rng.normal(0, 0.01, ours.shape).astype(np.float32)
    return Conversion(
        tflite=TFLITE,
        calibrated=True,
        samples=12,
        inputs=inputs,
        float_outputs=(ours + noise,),
        input_names=("mfcc",),
        output_names=("word",),
        evaluation=Evaluation(evaluated, labelled["y"][:20], (said[:, ::-1].copy(),), 0),
        versions={},
        notes=(),
    )


@pytest.mark.slow
def test_a_variant_is_compared_with_its_original(conversion: Conversion, tmp_path: Path) -> None:
    assert conversion.evaluation is not None
    reference = make_reference(conversion)
    quality, info = measured_quality(conversion, reference, scheme="int8", workdir=tmp_path)
    model = read_model(TFLITE)
    (ours,) = run_quantized(TFLITE, model, conversion.inputs, tmp_path)
    (said,) = run_quantized(TFLITE, model, conversion.evaluation.inputs, tmp_path)
    original, labels = conversion.float_outputs[0].astype(float), conversion.evaluation.labels
    noise = original - ours.astype(float)
    assert quality.sqnr_db == pytest.approx(10 * np.log10((original**2).sum() / (noise**2).sum()))
    assert quality.accuracy == pytest.approx(np.mean(said.argmax(1) == labels))
    assert quality.float_accuracy == pytest.approx(np.mean(said[:, ::-1].argmax(1) == labels))
    # On the labelled samples: there the original says the opposite.
    assert quality.agreement == pytest.approx(np.mean(said.argmax(1) == said[:, ::-1].argmax(1)))
    assert info.outputs[0].top1_agreement == pytest.approx(np.mean(original.argmax(1) == ours.argmax(1)))
    assert (quality.calibrated, quality.samples, info.scheme) == (True, 12, "int8")
    assert info.accuracy is not None
    assert info.accuracy.quantized == quality.accuracy
    metrics = variant_metrics(conversion, reference, BOARD, scheme="int8", workdir=tmp_path)
    assert (metrics.quality, metrics.cost) == (quality, measured_cost(TFLITE, BOARD))


@pytest.mark.slow
def test_without_labels_agreement_is_that_on_the_samples(conversion: Conversion, tmp_path: Path) -> None:
    alone = replace(conversion, evaluation=None)
    quality, info = measured_quality(alone, make_reference(alone), scheme="int8", workdir=tmp_path)
    assert (quality.accuracy, quality.float_accuracy, info.accuracy) == (None, None, None)
    assert quality.agreement == info.outputs[0].top1_agreement is not None


def test_a_reference_outlives_its_file(conversion: Conversion, tmp_path: Path) -> None:
    for item in (conversion, replace(conversion, evaluation=None)):
        reference = make_reference(item)
        write_reference(reference, tmp_path / "r.npz")
        again = read_reference(tmp_path / "r.npz")
        for name in ("input_names", "input_hashes", "output_names", "evaluated_hashes", "float_accuracy"):
            assert getattr(again, name) == getattr(reference, name), name
        for name in ("outputs", "evaluated"):
            pairs = list(zip(getattr(again, name), getattr(reference, name), strict=True))
            assert all(np.array_equal(one, other) and one.dtype == other.dtype for one, other in pairs)


def test_other_samples_are_never_compared(conversion: Conversion, tmp_path: Path) -> None:
    reference = make_reference(conversion)
    assert conversion.evaluation is not None
    moved = tuple(array + np.float32(1e-6) for array in conversion.inputs)
    fewer = tuple(array[:-1] for array in conversion.inputs)
    labelled = replace(conversion.evaluation, inputs=moved)
    for other in (
        replace(conversion, inputs=moved),
        replace(conversion, inputs=fewer),
        replace(conversion, evaluation=labelled),
        replace(conversion, evaluation=None),
    ):
        with pytest.raises(InternalError, match="different samples"):
            measured_quality(other, reference, scheme="int8", workdir=tmp_path)


def test_outputs_are_found_by_name_in_any_order(conversion: Conversion) -> None:
    first, second = np.zeros((2, 3), np.float32), np.ones((2, 4), np.float32)
    two = replace(conversion, inputs=(first, second), input_names=("a", "b"), output_names=("x", "y"), evaluation=None)
    two = replace(two, float_outputs=(first, second))
    reference = make_reference(two)
    swapped = replace(two, inputs=(second, first), input_names=("b", "a"), output_names=("y", "x"))
    assert output_positions(two, reference) == (0, 1)
    assert output_positions(swapped, reference) == (1, 0)
    with pytest.raises(InternalError, match="different samples"):
        output_positions(replace(swapped, inputs=(first, second)), reference)
    with pytest.raises(InternalError, match="outputs of the variant are x, z, those of its original x, y"):
        output_positions(replace(two, output_names=("x", "z")), reference)


def test_a_single_output_may_be_called_otherwise(conversion: Conversion) -> None:
    renamed = replace(conversion, input_names=("keras_tensor_7",), output_names=("other",))
    assert output_positions(renamed, make_reference(conversion)) == (0,)


def test_a_model_that_crashes_litert_is_reported(
    conversion: Conversion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object, limits: ProcessLimits) -> None:
        raise ConversionError("the process running the model crashed with SIGSEGV")

    monkeypatch.setattr("edgetool.sweep.worker.run_quantized", dies)
    with pytest.raises(ConversionError, match=r"the converted model cannot run: the process .* crashed with SIGSEGV"):
        measured_quality(conversion, make_reference(conversion), scheme="int8", workdir=tmp_path)


def test_equal_outputs_have_no_noise(conversion: Conversion, tmp_path: Path) -> None:
    model = read_model(TFLITE)
    exact = replace(
        conversion, evaluation=None, float_outputs=run_quantized(TFLITE, model, conversion.inputs, tmp_path)
    )
    reference: Reference = make_reference(exact)
    quality, _ = measured_quality(exact, reference, scheme="int8", workdir=tmp_path)
    assert (quality.sqnr_db, quality.equal, quality.agreement) == (None, True, 1.0)


def network(*codes: str, width: int = 3) -> bytes:
    """In float32, an output for each operator, all of the one input."""
    tensors = [graphs.tensor(index, 1, width, dtype=DType.FLOAT32) for index in range(1 + len(codes))]
    operators = [
        replace(graphs.operator(index, code, [0], [index + 1]), opcode_index=sorted(codes).index(code))
        for index, code in enumerate(codes)
    ]
    return write_model(graphs.model(graphs.graph(tensors, operators, [0], range(1, 1 + len(codes)))))


def of_network(tflite: bytes, x: Array, *said: Array, labels: Array | None = None, output: int = 0) -> Conversion:
    """The conversion of a float model that says something else."""
    pytest.importorskip("ai_edge_litert")
    outputs = tuple(np.asarray(array, np.float32) for array in said)
    names = tuple(f"out{index}" for index in range(len(said)))
    evaluation = None if labels is None else Evaluation((x,), labels, outputs, output)
    return Conversion(tflite, True, len(x), (x,), outputs, ("x",), names, evaluation, {}, ())


def measured(made: Conversion, folder: Path) -> tuple[Quality, QuantizationInfo]:
    quality, info = measured_quality(made, make_reference(made), scheme="float32", workdir=folder)
    # What `convert` reports is the same.
    assert measure_quality(made, read_model(made.tflite), scheme="float32", workdir=folder) == (info, ())
    return quality, info


X = np.array([[1, 2, 3], [3, -1, 1], [-2, 5, 4], [1, 0, -1]], np.float32)


@pytest.mark.slow
def test_the_worst_output_counts_and_labels_are_for_theirs(tmp_path: Path) -> None:
    tflite = network("RELU", "NEG")
    labels = np.array([0, 1, 1, 2])  # of the second, right in three: [-1, -2, -3], [-3, 1, -1], [2, -5, -4], [-1, 0, 1]
    other = -X
    other[0] = [-3, -2, -1]
    made = of_network(tflite, X, np.maximum(X, 0) + np.float32(0.01), other, labels=labels, output=1)
    quality, info = measured(made, tmp_path)
    ratios = [item.sqnr_db for item in info.outputs]
    assert quality.sqnr_db == ratios[1] == pytest.approx(10 * np.log10((other**2).sum() / 8))
    assert ratios[0] is not None
    assert ratios[0] > ratios[1] + 10
    assert (quality.accuracy, quality.float_accuracy, quality.agreement) == (0.75, 0.5, 0.75)
    assert not quality.equal


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "sqnr_db", "equal"),
    [
        (np.maximum(X, 0), -X, None, True),
        (np.maximum(X, 0), -X * 10 / 9, 20.0, False),  # one that is equal takes nothing from the other
        (np.zeros_like(X), -X, None, False),  # noise without a signal: no ratio tells how bad it is
        (np.zeros_like(X), -X * 10 / 9, None, False),
    ],
)
def test_equal_is_what_has_no_noise(
    first: Array, second: Array, sqnr_db: float | None, equal: bool, tmp_path: Path
) -> None:
    quality, _ = measured(of_network(network("RELU", "NEG"), X, first, second), tmp_path)
    assert quality.sqnr_db == (None if sqnr_db is None else pytest.approx(sqnr_db, abs=1e-4))
    assert quality.equal is equal
    assert sqnr_of(quality) == (math.inf if equal else quality.sqnr_db)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [None, np.array([0, 1, 1, 0])])
def test_a_variant_that_overflows_is_not_equal(labels: Array | None, tmp_path: Path) -> None:
    made = of_network(network("EXP"), X * 100, np.ones_like(X), labels=labels)
    with pytest.raises(ConversionError, match="not finite for these samples") as caught:
        measured(made, tmp_path)
    assert caught.value.where == "output 't1'"
    if labels is not None:  # on the labelled samples alone
        inputs = (np.zeros_like(X),)
        with pytest.raises(ConversionError, match="not finite for these samples"):
            measured(replace(made, inputs=inputs), tmp_path)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_original_that_is_not_finite_is_refused_by_name(bad: float) -> None:
    said = np.zeros((300, 3), np.float32)
    said[280, 1] = bad
    x = np.zeros((300, 3), np.float32)
    made = of_network(b"", x, np.zeros_like(said), said)
    with pytest.raises(ConversionError, match="output 'out1' is NaN or infinite on the calibration samples"):
        make_reference(made)
    with pytest.raises(ConversionError, match="on the synthetic samples"):
        make_reference(replace(made, calibrated=False))
    labelled = Evaluation((x,), np.zeros(300), made.float_outputs, 0)
    with pytest.raises(ConversionError, match="on the evaluation samples"):
        make_reference(replace(made, float_outputs=(x, x), evaluation=labelled))


SCORES = np.array([[2], [-1], [0.5], [-3]], np.float32)
SIGMOID = np.array([[0.9], [0.2], [0.3], [0.1]])  # the third is another class


def test_one_probability_has_a_class(tmp_path: Path) -> None:
    quality, info = measured(of_network(network("LOGISTIC", width=1), SCORES, SIGMOID), tmp_path)
    assert quality.agreement == info.outputs[0].top1_agreement == 0.75


@pytest.mark.slow
def test_one_number_has_a_class_where_labels_say_so(tmp_path: Path) -> None:
    """-SCORES is [-2, 1, -0.5, 3]."""
    tflite, said = network("NEG", width=1), np.array([[-2], [1], [0.2], [3]])
    quality, info = measured(of_network(tflite, SCORES, said), tmp_path)
    assert (quality.agreement, info.outputs[0].top1_agreement) == (None, None)
    quality, info = measured(of_network(tflite, SCORES, said, labels=np.array([0, 1, 1, 1])), tmp_path)
    assert quality.agreement == info.outputs[0].top1_agreement == 0.75
    assert (quality.accuracy, quality.float_accuracy) == (0.75, 1.0)


@pytest.mark.slow
def test_the_labelled_original_decides_what_is_a_logit(tmp_path: Path) -> None:
    """Of a logit the variant has none below 0 or above 1; the other output is a probability, and agrees in nothing."""
    x, labels = np.array([[0.9], [0.4], [0.3], [0.2]], np.float32), np.array([1, 1, 1, 1])
    none, logits = np.full((4, 1), 0.1, np.float32), np.array([[3.0], [0.4], [0.3], [-0.2]], np.float32)
    made = of_network(network("LOGISTIC", "ABS", width=1), x, none, logits, labels=labels, output=1)
    quality, info = measured(made, tmp_path)
    assert (quality.accuracy, quality.float_accuracy, quality.agreement) == (1.0, 0.75, 0.75)
    assert [item.top1_agreement for item in info.outputs] == [0.0, 0.75]
    # The original may have them in another order.
    swapped = replace(
        made,
        float_outputs=(logits, none),
        output_names=("out1", "out0"),
        evaluation=Evaluation((x,), labels, (logits, none), 0),
    )
    again, _ = measured_quality(made, make_reference(swapped), scheme="float32", workdir=tmp_path)
    assert again == quality


def test_a_sigmoid_is_found_behind_what_changes_type_and_shape() -> None:
    tensors = [graphs.tensor(index, 1, 1) for index in range(4)]

    def of(*codes: str) -> tuple[bool, ...]:
        operators = [graphs.operator(index, code, [index], [index + 1]) for index, code in enumerate(codes)]
        return classifies(graphs.graph(tensors, operators, [0], [len(codes)]))

    assert of("LOGISTIC") == of("LOGISTIC", "DEQUANTIZE") == of("LOGISTIC", "RESHAPE", "QUANTIZE") == (True,)
    assert of("NEG") == of("LOGISTIC", "NEG") == of("QUANTIZE") == of() == (False,)


ONE = np.array([[0.9, 0.1], [0.8, 0.2]])
TWO = np.array([[0.9, 0.1], [0.2, 0.8]])


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([ONE], True),
        ([TWO], False),
        ([ONE, TWO], False),
        ([ONE[:, :1]], True),
        ([np.array([[0.9], [0.2]])], False),
        ([np.zeros((2, 4, 4, 1))], True),
    ],
)
def test_one_answer_is_one_class_for_all_samples(outputs: list[Any], expected: bool) -> None:
    assert gives_one_class(outputs) is expected
