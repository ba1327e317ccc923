"""The child process that does one job; started by work.do.

Whether what a classifier answers tells one sample from another.

What the float original says to the samples: all variants of it are compared with that.

What a model needs on a target and what it loses against its float original.
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
from edgetool.gate.limits import Of, memory_use
from edgetool.memory.problem import Effort
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.pipeline.convert import convert_for, hash_of_path
from edgetool.pipeline.planning import PlannedModel, planned_for
from edgetool.pipeline.quality import classifies, run_quantized
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import Source
from edgetool.report.document import Accuracy, OutputQuality, QuantizationInfo
from edgetool.report.json import plain
from edgetool.sweep.executor import BLOBS
from edgetool.sweep.jobs import BUILDER_FILE, MODEL_BLOB, PACKAGES, REFERENCE_BLOB, TFLITE_BLOB, Kind
from edgetool.sweep.metrics import Cost, Metrics, Quality
from edgetool.sweep.spec import TargetSpec
from edgetool.sweep.targets import resolved, target_sha256
from edgetool.sweep.versions import installed_versions
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.types import Target
from edgetool.train.training import BuildRequest, FineTuneRequest, PruneRequest, Trained, build_model, prune_model


def gives_one_answer(outputs: Sequence[NDArray[Any]]) -> bool:
    """Whether no output, (N, classes) or (N, 1) with its threshold at 0.5, has samples of different classes.

    Then any model that always gives that class agrees with it, and agreement says nothing.
    """
    rows = [values for values in outputs if values.ndim == 2 and values.shape[1]]
    answers = [values[:, 0] > 0.5 if values.shape[1] == 1 else values.argmax(axis=1) for values in rows]
    return all(len(np.unique(answer)) <= 1 for answer in answers)


Array = npt.NDArray[Any]
CHUNK_SAMPLES = 256


@dataclass(frozen=True, slots=True)
class Reference:
    """The outputs of the float original, by name, and the hashes of the inputs that they are for, by name.

    outputs: for the calibration (or synthetic) samples, (N, ...) each. evaluated: for the evaluation samples, as many
    arrays, or none without them. float_accuracy: the share of right answers to those, None without them.
    """

    input_names: tuple[str, ...]
    input_hashes: tuple[str, ...]
    output_names: tuple[str, ...]
    outputs: tuple[Array, ...]
    evaluated: tuple[Array, ...] = ()
    evaluated_hashes: tuple[str, ...] = ()
    float_accuracy: float | None = None


def reference_of(conversion: Conversion) -> Reference:
    """The reference of a conversion of the original.

    Raises ConversionError when an output is not finite: nothing can be compared with that; CalibrationError when the
    labels do not fit the outputs.
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


def outputs_for(conversion: Conversion, reference: Reference) -> tuple[int, ...]:
    """The position in the reference of each output of the conversion, which may have them in another order.

    Raises InternalError unless both have the same outputs and were made from the same samples.
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
    """Write it as an .npz."""
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
    """What write_reference wrote."""
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
    """Where each of the names is in the original's; a single one is the same, whatever it is called."""
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
    """The hash of type, shape and values; a part of a mapped file at a time."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    for start in range(0, len(array), CHUNK_SAMPLES):
        digest.update(np.ascontiguousarray(array[start : start + CHUNK_SAMPLES]).tobytes())
    return digest.hexdigest()


MODEL_NAME = "model.tflite"
# Errors that are judged by the sweep itself, which knows the reserves.
JUDGED = frozenset(["arena-too-large", "model-too-large", "arena-lower-bound"])


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """arena_bytes: what to declare; where it is not exact, what it is not below. model_bytes: of the planned file."""

    arena_bytes: int
    model_bytes: int
    exact: bool

    def used(self, *, reserve_bytes: int = 0, reserve_flash_bytes: int = 0) -> dict[Of, int]:
        """By what budgets are of: the arena, RAM with its reserve, flash with its reserve."""
        return memory_use(
            self.arena_bytes, self.model_bytes, reserve_bytes=reserve_bytes, reserve_flash_bytes=reserve_flash_bytes
        )


def measured_memory(tflite: bytes, target: Target, *, seed: int = 0) -> MemoryUse:
    """The memory that a .tflite takes on the target, planned as `convert` does.

    Raises ModelError for a file that is no model, or none that can be planned.
    """
    made = _planned(tflite, target, seed)
    plan = made.analysis.plan
    return MemoryUse(
        arena_bytes=plan.account.bytes if plan.account is not None else plan.layout.height,
        model_bytes=len(made.source.blob),
        exact=plan.account is not None and not plan.account.is_lower_bound,
    )


def measured_cost(tflite: bytes, target: Target, *, name: str = MODEL_NAME, seed: int = 0) -> Cost:
    """What a .tflite costs on the target: the figures that `convert` reports of the file that it writes for it.

    The search for a plan ends after so many steps, whatever the time: the same model and seed give the same figures.
    Raises ModelError for a file that is no model, or none that can be planned.
    """
    made = _planned(tflite, target, seed, name=name)
    told = report(made.source, made.analysis, options={}, findings=made.unwritten)
    arena, memory, estimate = told.arena, told.memory, told.estimate
    assert arena is not None
    assert memory is not None
    assert estimate is not None
    least = arena.bytes if arena.bytes is not None else arena.layout_bytes
    findings = [(item.level, item.message) for item in told.findings if item.rule not in JUDGED]
    return Cost(
        arena_bytes=None if arena.is_lower_bound else arena.bytes,
        arena_least_bytes=least,
        arena_proof=arena.proof,
        model_bytes=len(made.source.blob),
        parameters=told.model.parameters,
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
    """What a conversion loses against the float original, run on LiteRT's reference kernels; the same per output.

    Raises ConversionError when the model does not run there, or what it or its original says is not finite,
    InternalError when the conversion and the reference are not of the same samples and outputs, CalibrationError when
    the labels do not fit the outputs.
    """
    model = read_model(conversion.tflite, name=MODEL_NAME)
    positions = outputs_for(conversion, reference)
    outputs = _run(conversion.tflite, model, conversion.inputs, workdir, limits)
    compared = compare_outputs([reference.outputs[index] for index in positions], outputs)
    tensors = [model.main.tensors[index] for index in model.main.outputs]
    names = [model.argument_name(0, tensor.index) or tensor.name for tensor in tensors]
    _check_finite(compared, names)
    evaluation = conversion.evaluation
    labelled = evaluation.output if evaluation is not None else None
    may = classifies(model.main, labelled)
    agreements = answered = _agreements(compared, may)
    accuracies = None
    if evaluation is not None and reference.float_accuracy is not None:
        evaluated = _run(conversion.tflite, model, evaluation.inputs, workdir, limits)
        answers = compare_outputs([reference.evaluated[index] for index in positions], evaluated)
        _check_finite(answers, names)
        answered = _agreements(answers, may)
        original = reference.evaluated[positions[evaluation.output]]
        right = accuracy(evaluated[evaluation.output], evaluation.labels, original=original)
        accuracies = Accuracy(float=reference.float_accuracy, quantized=right)
    answering = answered if labelled is None else (answered[labelled],)
    quality = Quality(
        accuracy=accuracies.quantized if accuracies is not None else None,
        float_accuracy=reference.float_accuracy,
        agreement=next((item for item in answering if item is not None), None),
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
    """Everything that is measured of a variant: measured_quality and measured_cost, and what they raise."""
    quality, _ = measured_quality(conversion, reference, scheme=scheme, workdir=workdir)
    return Metrics(quality, measured_cost(conversion.tflite, target, seed=seed))


def _planned(tflite: bytes, target: Target, seed: int, *, name: str = MODEL_NAME) -> PlannedModel:
    return planned_for(Source(name, tflite, read_model(tflite, name=name)), target, effort=Effort(seed=seed))


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
    """Nothing is known of how far such outputs are off: not equal, and not a little."""
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
    """Of the outputs that differ; None where none does, or where one has noise and no signal."""
    differing = [item.sqnr_db for item in compared if not _is_equal(item)]
    known = [value for value in differing if value is not None]
    return min(known, default=None) if len(known) == len(differing) else None


def _agreements(compared: tuple[OutputComparison, ...], classes: tuple[bool, ...]) -> tuple[float | None, ...]:
    """The share of samples with the same class, per output that can give classes."""
    return tuple(item.top1_agreement if may else None for item, may in zip(compared, classes, strict=True))


@dataclass(frozen=True, slots=True)
class Work:
    """A job as the child sees it: what is asked, the inputs by role, where blobs go and where anything else may."""

    request: Mapping[str, Any]
    inputs: Mapping[str, Path]
    blobs: Path
    workdir: Path
    limits: ProcessLimits
    progress: child.Progress


def build(work: Work) -> dict[str, Any]:
    """The user's function makes a model."""
    request = BuildRequest(
        source=work.inputs["builder"],
        function=work.request["function"],
        files=tuple(path for role, path in sorted(work.inputs.items()) if role.startswith(BUILDER_FILE)),
        parameters=dict(work.request["parameters"]),
        seed=work.request["seed"],
    )
    return _trained(build_model(request, workdir=work.workdir, limits=work.limits, progress=work.progress), work)


def prune(work: Work) -> dict[str, Any]:
    """Channels of a model are removed, and it is trained again where that is asked for."""
    asked = work.request
    tuning = None
    if asked["fine_tune"] is not None:
        given: dict[str, Any] = asked["fine_tune"]
        normalisation = {name: _tuple(given[name]) for name in NORMALISATION}
        tuning = FineTuneRequest(data=work.inputs["fine_tune"], **{**given, **normalisation})
    request = PruneRequest(
        path=work.inputs["model"],
        level=asked["level"],
        method=asked["method"],
        exclude=tuple(asked["exclude"]),
        may_lack=asked["built"],  # not each set of parameters makes each layer
        fine_tune=tuning,
        seed=asked["seed"],
        trust_model_code=asked["trust_model_code"],
    )
    return _trained(prune_model(request, workdir=work.workdir, limits=work.limits, progress=work.progress), work)


def reference(work: Work) -> dict[str, Any]:
    """What the float original says to the samples, and how often it is right."""
    request = _conversion_request(work, quantize="float32", compare=True)
    conversion = convert_model(request, workdir=work.workdir, progress=work.progress)
    made = reference_of(conversion)
    write_reference(made, work.blobs / REFERENCE_BLOB)
    return {
        "float_accuracy": made.float_accuracy,
        "samples": conversion.samples,
        "input_names": list(made.input_names),
        "versions": conversion.versions,
    }


def convert(work: Work) -> dict[str, Any]:
    """The .tflite of one precision, and what it loses against the original; "original" in the value is the file."""
    scheme = work.request["quantize"]
    dense_per_tensor = work.request["dense_per_tensor"]
    request = _conversion_request(work, quantize=scheme, dense_per_tensor=dense_per_tensor, compare=False)
    runtime = load_runtime(DEFAULT_RUNTIME)  # the variants of all targets share it
    conversion = convert_for(
        request, runtime, name=TFLITE_BLOB, workdir=work.workdir, progress=work.progress
    ).conversion
    work.progress("comparing with the original float model")
    original = read_reference(work.inputs["reference"])
    quality, quantization = measured_quality(
        conversion, original, scheme=scheme, workdir=work.workdir, limits=work.limits
    )
    notes = list(conversion.notes)
    if quality.accuracy is None and quality.agreement is not None:
        said = original.evaluated or original.outputs
        if gives_one_answer(said):
            quality = replace(quality, agreement=None)
            notes.append(
                "agreement is not reported: the original float model gives the same answer for all "
                f"{len(said[0])} samples"
            )
    (work.blobs / TFLITE_BLOB).write_bytes(conversion.tflite)
    sha256, size_bytes = hash_of_path(request.path)
    return {
        "original": {"sha256": sha256, "bytes": size_bytes},
        "quality": plain(quality),
        "quantization": plain(quantization),
        "input_names": list(conversion.input_names),
        "notes": notes,
        "versions": conversion.versions,
    }


def analyse(work: Work) -> dict[str, Any]:
    """What a .tflite costs on a target."""
    named = work.request["target"]
    target = resolved(TargetSpec("", named["name"], named["profile"], tuple(named["overrides"].items())))
    if target_sha256(target) != work.request["target_sha256"]:
        raise UsageError(
            f"target {target.name} here differs from the one in the process that started the sweep",
            fix="install the same version of edgetool everywhere",
        )
    work.progress("planning")
    cost = measured_cost(work.inputs["model"].read_bytes(), target, seed=work.request["seed"])
    return {"cost": plain(cost)}


KINDS: Mapping[Kind, Callable[[Work], dict[str, Any]]] = {
    "build": build,
    "prune": prune,
    "reference": reference,
    "convert": convert,
    "analyse": analyse,
}


def serve_job(request: dict[str, Any], workdir: Path, progress: child.Progress) -> dict[str, Any]:
    """Do the job; its blobs are left in the folder BLOBS of `workdir`."""
    check_versions(request["kind"], request["request"]["versions"], installed_versions())
    own = workdir / "work"
    for folder in (own, workdir / BLOBS):
        folder.mkdir()
    return KINDS[request["kind"]](
        Work(
            request=request["request"],
            inputs={role: Path(path) for role, path in request["inputs"].items()},
            blobs=workdir / BLOBS,
            workdir=own,
            limits=ProcessLimits(seconds=request["seconds"]),
            progress=progress,
        )
    )


def check_versions(kind: Kind, wanted: Mapping[str, str], installed: Mapping[str, str]) -> None:
    """Raise UsageError unless this process has the packages that the job's key speaks of, and lacks those that it does
    not: results never mix."""
    other = [
        f"{name} {installed.get(name, '(not installed)')} instead of {wanted.get(name, 'none')}"
        for name in PACKAGES[kind]
        if installed.get(name) != wanted.get(name)
    ]
    if other:
        raise UsageError(
            f"this worker has different packages: {', '.join(other)}",
            fix="install the same packages wherever the sweep's jobs run",
        )


def _conversion_request(work: Work, **options: Any) -> ConvertRequest:
    asked = work.request
    given: dict[str, Any] = {name: _tuple(asked[name]) for name in NORMALISATION if name in asked}
    given |= {name: asked[name] for name in ("samples", "seed") if name in asked}
    return ConvertRequest(
        path=work.inputs["model"],
        calibration=work.inputs.get("calibration"),
        evaluate=work.inputs.get("evaluate"),
        trust_model_code=asked["trust_model_code"],
        limits=work.limits,
        **given,
        **options,
    )


def _trained(made: Trained, work: Work) -> dict[str, Any]:
    shutil.move(made.path, work.blobs / MODEL_BLOB)
    return {
        "parameters": made.parameters,
        "original_parameters": made.original_parameters,
        "removed": dict(made.removed),
        "left_alone": plain(made.left_alone),
        "notes": list(made.notes),
        "history": list(made.history),
    }


def _tuple(value: list[float] | None) -> tuple[float, ...] | None:
    return None if value is None else tuple(value)


if __name__ == "__main__":
    child.serve(serve_job)
