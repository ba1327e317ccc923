"""The child process that runs one job of a sweep; executor.run_job starts it.

A job creates a model (build, prune), runs the float original on the samples (reference), converts a variant and
compares its outputs with that reference (convert), or computes what the variant needs on a target (analyse).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from edgetool import child
from edgetool.child import ProcessLimits
from edgetool.convert.convert import convert_model
from edgetool.convert.quality import OutputComparison, accuracy, compare_outputs
from edgetool.convert.request import NORMALISATION, Conversion, ConvertRequest
from edgetool.errors import ConversionError, InternalError, UsageError
from edgetool.execute.run import DEFAULT_LIMITS
from edgetool.gate.limits import BudgetedMemory, memory_use
from edgetool.memory.planner import PlanRequest
from edgetool.memory.problem import Effort
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.pipeline.analysis import Analysis
from edgetool.pipeline.convert import convert_for, hash_of_path
from edgetool.pipeline.native import native_model, native_report
from edgetool.pipeline.planning import cleaned_up, planned_for, with_stripes, without_faults
from edgetool.pipeline.quality import classifies, run_quantized
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import Source
from edgetool.pipeline.versions import installed_versions
from edgetool.report.document import Accuracy, OutputQuality, QuantizationInfo, Report
from edgetool.report.json import plain
from edgetool.sweep.executor import BLOBS
from edgetool.sweep.jobs import (
    BUILDER_FILE,
    MODEL_BLOB,
    PACKAGES,
    REFERENCE_BLOB,
    TFLITE_BLOB,
    Kind,
    resolved,
    target_sha256,
)
from edgetool.sweep.metrics import Cost, Metrics, Quality
from edgetool.sweep.spec import TargetSpec
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.platform import platform_of
from edgetool.target.types import Target
from edgetool.train.training import BuildRequest, FineTuneRequest, PruneRequest, Trained, build_model, prune_model


def gives_one_class(outputs: Sequence[NDArray[Any]]) -> bool:
    """Return whether each output, (N, classes) or (N, 1) with a threshold of 0.5, gives all samples the same class.

    A model that always gives that class would agree perfectly, so agreement is meaningless then.
    """
    scores = [values for values in outputs if values.ndim == 2 and values.shape[1]]
    classes = [values[:, 0] > 0.5 if values.shape[1] == 1 else values.argmax(axis=1) for values in scores]
    return all(len(np.unique(values)) <= 1 for values in classes)


Array = npt.NDArray[Any]
CHUNK_SAMPLES = 256


@dataclass(frozen=True, slots=True)
class Reference:
    """The outputs of the float original with their names, and the hashes of the inputs with their names.

    outputs: for the calibration (or synthetic) samples, (N, ...) each. evaluated: for the evaluation samples, as many
    arrays, or none without these. float_accuracy: the fraction of correct classes on these, None without them.
    """

    input_names: tuple[str, ...]
    input_hashes: tuple[str, ...]
    output_names: tuple[str, ...]
    outputs: tuple[Array, ...]
    evaluated: tuple[Array, ...] = ()
    evaluated_hashes: tuple[str, ...] = ()
    float_accuracy: float | None = None


def make_reference(conversion: Conversion) -> Reference:
    """Return the reference, from a conversion of the float original.

    Raises ConversionError if an output is not finite, because nothing can be compared with it; CalibrationError if the
    labels do not match the outputs.
    """
    evaluation = conversion.evaluation
    _check_outputs_finite(
        conversion.output_names, conversion.float_outputs, "calibration" if conversion.calibrated else "synthetic"
    )
    if evaluation is not None:
        _check_outputs_finite(conversion.output_names, evaluation.float_outputs, "evaluation")
    return Reference(
        input_names=conversion.input_names,
        input_hashes=tuple(map(_hash, conversion.inputs)),
        output_names=conversion.output_names,
        outputs=conversion.float_outputs,
        evaluated=evaluation.float_outputs if evaluation is not None else (),
        evaluated_hashes=tuple(map(_hash, evaluation.inputs)) if evaluation is not None else (),
        float_accuracy=(
            accuracy(evaluation.float_outputs[evaluation.output], evaluation.labels) if evaluation is not None else None
        ),
    )


def output_positions(conversion: Conversion, reference: Reference) -> tuple[int, ...]:
    """Return the position in the reference of each output of the conversion, whose order can differ.

    Raises InternalError unless both have the same outputs and were computed from the same samples.
    """
    inputs = _positions(conversion.input_names, reference.input_names, "inputs")
    evaluation = conversion.evaluation
    for arrays, hashes in (
        (conversion.inputs, reference.input_hashes),
        (evaluation.inputs if evaluation is not None else (), reference.evaluated_hashes),
    ):
        if list(map(_hash, arrays)) != [hashes[index] for index in inputs if hashes]:
            raise InternalError("the variant and its original were run on different samples", fix="please report this")
    return _positions(conversion.output_names, reference.output_names, "outputs")


def write_reference(reference: Reference, path: Path) -> None:
    """Write the reference as an .npz file."""
    arrays: dict[str, Array] = {
        "input_names": np.array(reference.input_names),
        "input_hashes": np.array(reference.input_hashes),
        "evaluated_hashes": np.array(reference.evaluated_hashes, dtype="U64"),
        "output_names": np.array(reference.output_names),
        "float_accuracy": np.array([] if reference.float_accuracy is None else [reference.float_accuracy]),
        **{f"output_{index}": np.asarray(array) for index, array in enumerate(reference.outputs)},
        **{f"evaluated_{index}": np.asarray(array) for index, array in enumerate(reference.evaluated)},
    }
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_reference(path: Path) -> Reference:
    """Read a file written by write_reference."""
    with np.load(path, allow_pickle=False) as arrays:
        names = tuple(map(str, arrays["output_names"]))
        evaluated = range(len(names)) if len(arrays["evaluated_hashes"]) else ()
        return Reference(
            input_names=tuple(map(str, arrays["input_names"])),
            input_hashes=tuple(map(str, arrays["input_hashes"])),
            output_names=names,
            outputs=tuple(arrays[f"output_{index}"] for index in range(len(names))),
            evaluated=tuple(arrays[f"evaluated_{index}"] for index in evaluated),
            evaluated_hashes=tuple(map(str, arrays["evaluated_hashes"])),
            float_accuracy=next(map(float, arrays["float_accuracy"]), None),
        )


def _positions(names: Sequence[str], original: Sequence[str], what: str) -> tuple[int, ...]:
    """Return the position of each name among the original's; a single one always matches, whatever its name."""
    if len(names) == len(original) == 1:
        return (0,)
    if sorted(names) != sorted(original):
        raise InternalError(
            f"the {what} of the variant are {', '.join(names)}, those of its original {', '.join(original)}",
            fix="please report this and attach the model",
        )
    return tuple(original.index(name) for name in names)


def _check_outputs_finite(names: Sequence[str], outputs: Sequence[Any], of: str) -> None:
    for name, array in zip(names, outputs, strict=True):
        for start in range(0, len(array), CHUNK_SAMPLES):
            finite = np.isfinite(array[start : start + CHUNK_SAMPLES]).reshape(-1)
            if not finite.all():
                raise ConversionError(
                    f"the float model's output {name!r} is NaN or infinite on the {of} samples",
                    fix="fix the model, or use samples like those it was trained on",
                )


def _hash(array: Any) -> str:
    """Return a hash of type, shape and values, reading a memory-mapped file in chunks."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    for start in range(0, len(array), CHUNK_SAMPLES):
        digest.update(np.ascontiguousarray(array[start : start + CHUNK_SAMPLES]).tobytes())
    return digest.hexdigest()


MODEL_NAME = "model.tflite"
# Rules whose findings the sweep replaces by its own judgement, which takes the reserves into account.
JUDGED_BY_SWEEP = frozenset(["arena-too-large", "model-too-large", "arena-lower-bound"])


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """arena_bytes: the size to declare, or a lower bound unless exact. model_bytes: the size of the planned file."""

    arena_bytes: int
    model_bytes: int
    exact: bool

    def used(self, *, reserve_bytes: int = 0, reserve_flash_bytes: int = 0) -> dict[BudgetedMemory, int]:
        """Return the used bytes by what a budget can limit: arena, RAM with its reserve, flash with its reserve."""
        return memory_use(
            self.arena_bytes, self.model_bytes, reserve_bytes=reserve_bytes, reserve_flash_bytes=reserve_flash_bytes
        )


def measured_memory(tflite: bytes, target: Target, *, seed: int = 0) -> MemoryUse:
    """Return the memory that a .tflite uses on the target, planned as in `convert`.

    Raises ModelError for a file that is not a model, or that cannot be planned.
    """
    analysis, _ = _described(tflite, target, seed)
    plan = analysis.plan
    assert analysis.fit is not None
    return MemoryUse(
        arena_bytes=plan.account.bytes if plan.account is not None else plan.layout.height,
        model_bytes=analysis.fit.model_bytes,
        exact=plan.account is not None and not plan.account.is_lower_bound,
    )


def measured_cost(
    tflite: bytes,
    target: Target,
    *,
    name: str = MODEL_NAME,
    seed: int = 0,
    optimize: bool = False,
    max_extra_macs: float | None = None,
) -> Cost:
    """Return the cost of a .tflite on the target: the figures that `convert` reports for the file that it writes.

    The planner's effort is limited in steps instead of time, so that the same model and seed give the same figures.
    optimize and max_extra_macs are those of a Variant.

    Raises ModelError for a file that is not a model, or that cannot be planned.
    """
    analysis, document = _described(tflite, target, seed, name=name, optimize=optimize, max_extra_macs=max_extra_macs)
    arena, memory, estimate = document.arena, document.memory, document.estimate
    assert arena is not None
    assert memory is not None
    assert estimate is not None
    assert analysis.fit is not None
    lower_bound = arena.bytes if arena.bytes is not None else arena.layout_bytes
    findings = [(item.level, item.message) for item in document.findings if item.rule not in JUDGED_BY_SWEEP]
    return Cost(
        arena_bytes=None if arena.is_lower_bound else arena.bytes,
        arena_least_bytes=lower_bound,
        arena_proof=arena.proof,
        model_bytes=analysis.fit.model_bytes,
        parameters=document.model.parameters,
        macs=estimate.macs,
        latency_ms=estimate.latency_ms,
        energy_uj=estimate.energy_uj,
        bandwidth_utilization=estimate.bandwidth_utilization,
        region=memory.region,
        sram_bytes=memory.sram_bytes,
        flash_bytes=memory.flash_bytes,
        errors=tuple(message for level, message in findings if level == "error"),
        warnings=tuple(message for level, message in findings if level == "warning"),
    )


def measured_quality(
    conversion: Conversion,
    reference: Reference,
    *,
    scheme: str,
    workdir: Path,
    limits: ProcessLimits = DEFAULT_LIMITS,
) -> tuple[Quality, QuantizationInfo]:
    """Return the quality of a conversion compared with the float original, in total and per output.

    The model runs on LiteRT's reference kernels.

    Raises ConversionError if the model does not run there or an output of it or its original is not finite,
    InternalError if the conversion and the reference have different samples or outputs, CalibrationError if the labels
    do not match the outputs.
    """
    model = read_model(conversion.tflite, name=MODEL_NAME)
    positions = output_positions(conversion, reference)
    outputs = _run(conversion.tflite, model, conversion.inputs, workdir, limits)
    compared = compare_outputs([reference.outputs[index] for index in positions], outputs)
    tensors = [model.main.tensors[index] for index in model.main.outputs]
    names = [model.argument_name(0, tensor.index) or tensor.name for tensor in tensors]
    _check_finite(compared, names)
    evaluation = conversion.evaluation
    labelled = evaluation.output if evaluation is not None else None
    is_classifier = classifies(model.main, labelled)
    agreements = evaluated_agreements = _agreements(compared, is_classifier)
    accuracies = None
    if evaluation is not None and reference.float_accuracy is not None:
        evaluated = _run(conversion.tflite, model, evaluation.inputs, workdir, limits)
        comparisons = compare_outputs([reference.evaluated[index] for index in positions], evaluated)
        _check_finite(comparisons, names)
        evaluated_agreements = _agreements(comparisons, is_classifier)
        original = reference.evaluated[positions[evaluation.output]]
        quantized = accuracy(evaluated[evaluation.output], evaluation.labels, original=original)
        accuracies = Accuracy(float=reference.float_accuracy, quantized=quantized)
    relevant = evaluated_agreements if labelled is None else (evaluated_agreements[labelled],)
    quality = Quality(
        accuracy=accuracies.quantized if accuracies is not None else None,
        float_accuracy=reference.float_accuracy,
        agreement=next((item for item in relevant if item is not None), None),
        sqnr_db=_worst_sqnr_db(compared),
        calibrated=conversion.calibrated,
        samples=conversion.samples,
        equal=all(map(_is_equal, compared)),
    )
    per_output = tuple(
        OutputQuality(name, item.sqnr_db, item.cosine, agreement)
        for name, item, agreement in zip(names, compared, agreements, strict=True)
    )
    return quality, QuantizationInfo(scheme, conversion.calibrated, conversion.samples, per_output, accuracies)


def variant_metrics(
    conversion: Conversion, reference: Reference, target: Target, *, scheme: str, workdir: Path, seed: int = 0
) -> Metrics:
    """Return all metrics of a variant; raises what measured_quality and measured_cost raise."""
    quality, _ = measured_quality(conversion, reference, scheme=scheme, workdir=workdir)
    return Metrics(quality, measured_cost(conversion.tflite, target, seed=seed))


def _described(
    tflite: bytes,
    target: Target,
    seed: int,
    *,
    name: str = MODEL_NAME,
    optimize: bool = False,
    max_extra_macs: float | None = None,
) -> tuple[Analysis, Report]:
    """Plan a .tflite as `convert` does, which rewrites it for the kernels of the target, and describe it."""
    source = Source(name, tflite, read_model(tflite, name=name))
    if optimize:
        source, _ = cleaned_up(source, None if target.runtime.is_native else platform_of(target))
    if target.runtime.is_native:
        native = native_model(source, target.with_overrides(max_extra_macs=max_extra_macs), PlanRequest(seed=seed))
        return native.analysis, native_report(native, report(source, native.analysis, options={}))
    rewritten, _ = without_faults(source, target)
    request, effort = PlanRequest(seed=seed, max_extra_macs=max_extra_macs), Effort(seed=seed)
    striped = with_stripes(rewritten, target, request, effort)
    planned = planned_for(striped.source, target, effort=effort, plan=striped.plan)
    return planned.analysis, report(planned.source, planned.analysis, options={}, findings=planned.unwritten)


def _run(
    tflite: bytes, model: Model, inputs: tuple[Array, ...], workdir: Path, limits: ProcessLimits
) -> tuple[Array, ...]:
    try:
        return run_quantized(tflite, model, inputs, workdir, limits=limits)
    except ConversionError as error:
        raise ConversionError(
            f"the converted model cannot run: {error.what}", where=error.where, fix=error.fix, details=error.details
        ) from error


def _check_finite(compared: tuple[OutputComparison, ...], names: list[str]) -> None:
    """Raise ConversionError if an error is unknown because outputs are not finite."""
    for name, item in zip(names, compared, strict=True):
        if item.max_abs_error is None:
            raise ConversionError(
                "the outputs of the variant or its original are not finite for these samples",
                where=f"output {name!r}",
                fix="look for a layer that overflows or divides by zero, or choose another precision",
            )


def _is_equal(item: OutputComparison) -> bool:
    return item.max_abs_error == 0


def _worst_sqnr_db(compared: tuple[OutputComparison, ...]) -> float | None:
    """Return the lowest SQNR of the outputs that differ; None if no output differs, or one has noise but no signal."""
    differing = [item.sqnr_db for item in compared if not _is_equal(item)]
    defined = [value for value in differing if value is not None]
    return min(defined, default=None) if len(defined) == len(differing) else None


def _agreements(compared: tuple[OutputComparison, ...], classes: tuple[bool, ...]) -> tuple[float | None, ...]:
    """Return the fraction of samples with the same class for each output; None for an output that is not a class."""
    return tuple(item.top1_agreement if is_class else None for item, is_class in zip(compared, classes, strict=True))


@dataclass(frozen=True, slots=True)
class JobContext:
    """What a job's function receives: request, inputs by role, directories for its blobs and for all other files."""

    request: Mapping[str, Any]
    inputs: Mapping[str, Path]
    blobs: Path
    workdir: Path
    limits: ProcessLimits
    progress: child.Progress


def build(context: JobContext) -> dict[str, Any]:
    """Build a model with the user's function."""
    request = BuildRequest(
        source=context.inputs["builder"],
        function=context.request["function"],
        files=tuple(path for role, path in sorted(context.inputs.items()) if role.startswith(BUILDER_FILE)),
        parameters=dict(context.request["parameters"]),
        seed=context.request["seed"],
    )
    return _trained(
        build_model(request, workdir=context.workdir, limits=context.limits, progress=context.progress), context
    )


def prune(context: JobContext) -> dict[str, Any]:
    """Remove channels of a model, and fine-tune it if requested."""
    options = context.request
    tuning = None
    if options["fine_tune"] is not None:
        training: dict[str, Any] = options["fine_tune"]
        normalisation = {name: _tuple(training[name]) for name in NORMALISATION}
        tuning = FineTuneRequest(data=context.inputs["fine_tune"], **{**training, **normalisation})
    request = PruneRequest(
        path=context.inputs["model"],
        level=options["level"],
        method=options["method"],
        exclude=tuple(options["exclude"]),
        allow_missing=options["built"],  # some layers may exist for some parameters only
        fine_tune=tuning,
        seed=options["seed"],
        trust_model_code=options["trust_model_code"],
    )
    return _trained(
        prune_model(request, workdir=context.workdir, limits=context.limits, progress=context.progress), context
    )


def reference(context: JobContext) -> dict[str, Any]:
    """Run the float original on the samples, and compute its accuracy."""
    request = _conversion_request(context, quantize="float32", compare=True)
    conversion = convert_model(request, workdir=context.workdir, progress=context.progress)
    outputs = make_reference(conversion)
    write_reference(outputs, context.blobs / REFERENCE_BLOB)
    return {
        "float_accuracy": outputs.float_accuracy,
        "samples": conversion.samples,
        "input_names": list(outputs.input_names),
        "versions": conversion.versions,
    }


def convert(context: JobContext) -> dict[str, Any]:
    """Convert to one precision, and compare with the original; "original" in the value is the input file."""
    scheme = context.request["quantize"]
    dense_per_tensor = context.request["dense_per_tensor"]
    # The analysis cleans up the model, if the variant is to be.
    request = _conversion_request(
        context, quantize=scheme, dense_per_tensor=dense_per_tensor, compare=False, optimize=False
    )
    runtime = load_runtime(DEFAULT_RUNTIME)  # the variants of all targets share it
    conversion = convert_for(
        request, runtime, name=TFLITE_BLOB, workdir=context.workdir, progress=context.progress
    ).conversion
    context.progress("comparing with the original float model")
    original = read_reference(context.inputs["reference"])
    quality, quantization = measured_quality(
        conversion, original, scheme=scheme, workdir=context.workdir, limits=context.limits
    )
    notes = list(conversion.notes)
    if quality.accuracy is None and quality.agreement is not None:
        outputs = original.evaluated or original.outputs
        if gives_one_class(outputs):
            quality = replace(quality, agreement=None)
            notes.append(
                "agreement is not reported: the original float model gives the same answer for all "
                f"{len(outputs[0])} samples"
            )
    (context.blobs / TFLITE_BLOB).write_bytes(conversion.tflite)
    sha256, size_bytes = hash_of_path(request.path)
    return {
        "original": {"sha256": sha256, "bytes": size_bytes},
        "quality": plain(quality),
        "quantization": plain(quantization),
        "input_names": list(conversion.input_names),
        "notes": notes,
        "versions": conversion.versions,
    }


def analyse(context: JobContext) -> dict[str, Any]:
    """Compute the cost of a .tflite on a target."""
    spec = context.request["target"]
    target = resolved(TargetSpec("", spec["name"], spec["profile"], tuple(spec["overrides"].items())))
    if target_sha256(target) != context.request["target_sha256"]:
        raise UsageError(
            f"target {target.name} here differs from the one in the process that started the sweep",
            fix="install the same version of edgetool everywhere",
        )
    context.progress("planning")
    cost = measured_cost(
        context.inputs["model"].read_bytes(),
        target,
        seed=context.request["seed"],
        optimize=context.request.get("optimize", True),
        max_extra_macs=context.request.get("max_extra_macs"),
    )
    return {"cost": plain(cost)}


KINDS: Mapping[Kind, Callable[[JobContext], dict[str, Any]]] = {
    "build": build,
    "prune": prune,
    "reference": reference,
    "convert": convert,
    "analyse": analyse,
}


def serve_job(request: dict[str, Any], workdir: Path, progress: child.Progress) -> dict[str, Any]:
    """Run the job, which writes its blobs to the directory BLOBS in `workdir`."""
    check_versions(request["kind"], request["request"]["versions"], installed_versions())
    scratch = workdir / "work"
    for folder in (scratch, workdir / BLOBS):
        folder.mkdir()
    return KINDS[request["kind"]](
        JobContext(
            request=request["request"],
            inputs={role: Path(path) for role, path in request["inputs"].items()},
            blobs=workdir / BLOBS,
            workdir=scratch,
            limits=ProcessLimits(seconds=request["seconds"]),
            progress=progress,
        )
    )


def check_versions(kind: Kind, expected: Mapping[str, str], installed: Mapping[str, str]) -> None:
    """Raise UsageError unless the installed packages are exactly those in the job's key, so that results never mix."""
    differences = [
        f"{name} {installed.get(name, '(not installed)')} instead of {expected.get(name, 'none')}"
        for name in PACKAGES[kind]
        if installed.get(name) != expected.get(name)
    ]
    if differences:
        raise UsageError(
            f"this worker has different packages: {', '.join(differences)}",
            fix="install the same packages wherever the sweep's jobs run",
        )


def _conversion_request(context: JobContext, **changes: Any) -> ConvertRequest:
    request = context.request
    options: dict[str, Any] = {name: _tuple(request[name]) for name in NORMALISATION if name in request}
    options |= {name: request[name] for name in ("samples", "seed") if name in request}
    return ConvertRequest(
        path=context.inputs["model"],
        calibration=context.inputs.get("calibration"),
        evaluate=context.inputs.get("evaluate"),
        trust_model_code=request["trust_model_code"],
        limits=context.limits,
        **options,
        **changes,
    )


def _trained(trained: Trained, context: JobContext) -> dict[str, Any]:
    shutil.move(trained.path, context.blobs / MODEL_BLOB)
    return {
        "parameters": trained.parameters,
        "original_parameters": trained.original_parameters,
        "removed": dict(trained.removed),
        "left_alone": plain(trained.left_alone),
        "notes": list(trained.notes),
        "history": list(trained.history),
    }


def _tuple(value: list[float] | None) -> tuple[float, ...] | None:
    return None if value is None else tuple(value)


if __name__ == "__main__":
    child.serve(serve_job)
