"""The child process that does one job; started by work.do."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetool import child
from edgetool.child import Limits
from edgetool.convert.convert import convert_model
from edgetool.convert.request import NORMALISATION, ConvertRequest
from edgetool.errors import UsageError
from edgetool.pipeline.conversion import convert_for
from edgetool.pipeline.convert import hash_of_path
from edgetool.report.json import plain
from edgetool.sweep.answers import gives_one_answer
from edgetool.sweep.chain import BUILDER_FILE, MODEL_BLOB, PACKAGES, REFERENCE_BLOB, TFLITE_BLOB
from edgetool.sweep.job import Kind
from edgetool.sweep.measure import measured_cost, measured_quality
from edgetool.sweep.reference import read_reference, reference_of, write_reference
from edgetool.sweep.spec import TargetSpec
from edgetool.sweep.targets import resolved, target_sha256
from edgetool.sweep.versions import installed_versions
from edgetool.sweep.work import BLOBS
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.train.training import BuildRequest, FineTuneRequest, PruneRequest, Trained, build_model, prune_model


@dataclass(frozen=True, slots=True)
class Work:
    """A job as the child sees it: what is asked, the inputs by role, where blobs go and where anything else may."""

    request: Mapping[str, Any]
    inputs: Mapping[str, Path]
    blobs: Path
    workdir: Path
    limits: Limits
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
            limits=Limits(seconds=request["seconds"]),
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
