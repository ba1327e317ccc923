"""The jobs of a variant, and the keys that tell their whole content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from edgetool.convert.request import NORMALISATION
from edgetool.errors import InternalError
from edgetool.report.json import plain
from edgetool.sweep.job import InputFile, Job, Kind, Made
from edgetool.sweep.spec import FineTune, SweepSpec, TargetSpec
from edgetool.sweep.targets import resolved, target_sha256
from edgetool.sweep.variant import PRECISIONS, Variant

MODEL_BLOB, REFERENCE_BLOB, TFLITE_BLOB = "model.keras", "reference.npz", "model.tflite"
BUILDER_FILE = "builder_file:"

# The packages whose versions can change what a kind of job gives.
PACKAGES: Mapping[Kind, tuple[str, ...]] = {
    "build": ("edgetool", "tensorflow", "keras", "numpy"),
    "prune": ("edgetool", "tensorflow", "keras", "numpy"),
    "reference": ("edgetool", "tensorflow", "keras", "numpy", "pillow"),
    "convert": ("edgetool", "tensorflow", "keras", "numpy", "ai-edge-litert", "pillow"),
    "analyse": ("edgetool", "numpy", "ortools"),
}

Inputs = Mapping[str, InputFile | Made]


class Chains:
    """The jobs that any variant of a sweep takes.

    inputs: the user's files by role, as snapshot gives them. versions: of the packages, by name. Variants share what
    they have in common: equal keys are the same job. Raises TargetError for a target that is not valid.
    """

    def __init__(self, spec: SweepSpec, inputs: Mapping[str, InputFile], versions: Mapping[str, str]) -> None:
        self._spec = spec
        self._inputs = inputs
        self._versions = versions
        self._targets = {target.label: (target, target_sha256(resolved(target))) for target in spec.targets}

    def of(self, variant: Variant) -> tuple[Job, ...]:
        """The variant's jobs, each after those that it needs; the last one is its analysis on the target."""
        jobs: list[Job] = []
        original: InputFile | Made
        if self._spec.builder is not None:
            jobs.append(self._build(variant))
            original = Made(jobs[-1].key, MODEL_BLOB)
        else:
            original = self._inputs["model"]
        model = original
        if variant.level > 0:
            jobs.append(self._prune(original, variant.level))
            model = Made(jobs[-1].key, MODEL_BLOB)
        reference = self._reference(original)
        convert = self._convert(model, reference, variant.precision)
        return (*jobs, reference, convert, self._analyse(convert, variant.target))

    def _build(self, variant: Variant) -> Job:
        builder = self._spec.builder
        if builder is None:
            raise InternalError("a sweep over a model file has no build job")
        inputs = {role: file for role, file in self._inputs.items() if _of_builder(role)}
        request = {
            "module": builder.module,
            "function": builder.function,
            "parameters": dict(variant.parameters),
            "seed": self._spec.seed,
        }
        return self._job("build", request, inputs)

    def _prune(self, original: InputFile | Made, level: float) -> Job:
        spec, fine_tune = self._spec, self._spec.fine_tune
        request = {
            "level": float(level),
            "method": spec.pruning.method,
            "exclude": sorted(set(spec.pruning.exclude)),
            "fine_tune": None if fine_tune is None else {**_training(fine_tune), **self._normalisation()},
            "seed": spec.seed if fine_tune is not None else 0,  # nothing else in it is random
            **self._trust(),
        }
        return self._job("prune", request, {"model": original, **self._given("fine_tune")})

    def _reference(self, original: InputFile | Made) -> Job:
        return self._job("reference", self._samples(), {"model": original, **self._given("calibration", "evaluate")})

    def _convert(self, model: InputFile | Made, reference: Job, precision: str) -> Job:
        wanted = PRECISIONS[precision]
        request = {"quantize": wanted.quantize, "dense_per_tensor": wanted.dense_per_tensor, **self._samples()}
        inputs = {
            "model": model,
            "reference": Made(reference.key, REFERENCE_BLOB),
            **self._given("calibration", "evaluate"),
        }
        return self._job("convert", request, inputs)

    def _analyse(self, convert: Job, label: str) -> Job:
        target, sha256 = self._targets[label]
        request = {"target_sha256": sha256, "seed": self._spec.seed}
        # How the user names the target is how a process finds it; the hash tells what it then is.
        return self._job("analyse", request, {"model": Made(convert.key, TFLITE_BLOB)}, target=_named(target))

    def _job(self, kind: Kind, request: Mapping[str, Any], inputs: Inputs, **untold: Any) -> Job:
        """The job; what is untold goes along with its request, and is not in its key."""
        names = PACKAGES[kind]
        versions = {name: self._versions[name] for name in names if name in self._versions}
        told = {**request, "versions": versions}
        content = {"kind": kind, "request": told, "inputs": _told(inputs)}
        key = hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()
        return Job(key, kind, {**told, **untold}, inputs)

    def _given(self, *roles: str) -> dict[str, InputFile | Made]:
        return {role: self._inputs[role] for role in roles if role in self._inputs}

    def _trust(self) -> dict[str, bool]:
        """built: whether the model is the user's builder's, so that data may not fit one variant and fit another."""
        return {"trust_model_code": self._spec.trust_model_code, "built": self._spec.builder is not None}

    def _samples(self) -> dict[str, Any]:
        """What decides the samples beside their files; without calibration data they are made from the seed."""
        spec = self._spec
        has_data = "calibration" in self._inputs or "evaluate" in self._inputs
        synthetic = {"samples": spec.samples, "seed": spec.seed} if "calibration" not in self._inputs else {}
        return {**synthetic, **(self._normalisation() if has_data else {}), **self._trust()}

    def _normalisation(self) -> dict[str, list[float] | None]:
        values = {name: getattr(self._spec, name) for name in NORMALISATION}
        return {name: None if value is None else [float(item) for item in value] for name, value in values.items()}


def _training(fine_tune: FineTune) -> dict[str, Any]:
    return {
        "epochs": fine_tune.epochs,
        "learning_rate": float(fine_tune.learning_rate),
        "batch_size": fine_tune.batch_size,
        "loss": fine_tune.loss,
    }


def _named(target: TargetSpec) -> dict[str, Any]:
    return {"name": target.name, "profile": target.profile, "overrides": plain(dict(target.overrides))}


def _of_builder(role: str) -> bool:
    return role == "builder" or role.startswith(BUILDER_FILE)


def _told(inputs: Inputs) -> dict[str, Any]:
    """The inputs as a key has them: the user's files by content and format, wherever they are."""
    return {
        role: {"key": item.key, "blob": item.blob}
        if isinstance(item, Made)
        else {"sha256": item.sha256, "suffix": PurePath(item.name).suffix.lower()}
        for role, item in inputs.items()
    }
