"""The jobs of a sweep.

A job is a step that computes the results of one or more variants. Its key is a hash of everything that determines its
outcome, so that a job whose outcome is stored never runs again. VariantJobs creates the jobs of a variant; JobQueue
tracks which jobs are done and which can start.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal

from edgetool.convert.request import NORMALISATION
from edgetool.errors import InternalError
from edgetool.report.json import figures_of, plain
from edgetool.sweep.metrics import PRECISIONS, Variant
from edgetool.sweep.spec import FineTune, SweepSpec, TargetSpec
from edgetool.target.load import load_target, parse_target
from edgetool.target.types import Target

# build: create a model with the user's function. prune: remove channels, and fine-tune. reference: run the original
# float model on the samples. convert: create a .tflite and measure its loss. analyse: plan and estimate it on a target.
Kind = Literal["build", "prune", "reference", "convert", "analyse"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file or directory of the user: its name (the suffix determines the format), SHA-256, and a copy that does not
    change."""

    name: str
    sha256: str
    path: Path


@dataclass(frozen=True, slots=True)
class JobOutput:
    """A blob that another job writes."""

    key: str
    blob: str


@dataclass(frozen=True, slots=True)
class Job:
    """key: SHA-256 of kind, request, inputs and versions, in hex. request: JSON. inputs: by role ("model",
    "calibration", ...), files of the user or outputs of other jobs, which must be done first."""

    key: str
    kind: Kind
    request: Mapping[str, Any]
    inputs: Mapping[str, InputFile | JobOutput]

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the jobs whose outputs this one reads."""
        return tuple(item.key for item in self.inputs.values() if isinstance(item, JobOutput))


@dataclass(frozen=True, slots=True)
class Content:
    """An input in the form that the process that runs the job receives: a path (a file or directory), or bytes."""

    name: str
    sha256: str
    path: Path | None = None
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A job with its inputs, ready to run anywhere.

    seconds: its time limit. folder: where its working directory is created; None is the system's location for
    temporary files.
    """

    job: Job
    contents: Mapping[str, Content]
    seconds: float
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job: value is JSON, blobs are by name. If the job failed, reason is set, and both are empty."""

    value: Mapping[str, Any] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    reason: str | None = None
    seconds: float = 0.0


MODEL_BLOB, REFERENCE_BLOB, TFLITE_BLOB = "model.keras", "reference.npz", "model.tflite"
BUILDER_FILE = "builder_file:"

# The packages whose versions can change the outcome of a kind of job.
PACKAGES: Mapping[Kind, tuple[str, ...]] = {
    "build": ("edgetool", "tensorflow", "keras", "numpy"),
    "prune": ("edgetool", "tensorflow", "keras", "numpy"),
    "reference": ("edgetool", "tensorflow", "keras", "numpy", "pillow"),
    "convert": ("edgetool", "tensorflow", "keras", "numpy", "ai-edge-litert", "pillow"),
    "analyse": ("edgetool", "numpy", "ortools"),
}

Inputs = Mapping[str, InputFile | JobOutput]


class VariantJobs:
    """Creates the jobs of the variants of a sweep. Variants share jobs: equal keys are the same job.

    Args:
        inputs: the user's files by role, as `snapshot` returns them.
        versions: the versions of the packages, by name.

    Raises TargetError for an invalid target.
    """

    def __init__(self, spec: SweepSpec, inputs: Mapping[str, InputFile], versions: Mapping[str, str]) -> None:
        self._spec = spec
        self._inputs = inputs
        self._versions = versions
        self._targets = {target.label: (target, target_sha256(resolved(target))) for target in spec.targets}

    def of(self, variant: Variant) -> tuple[Job, ...]:
        """Return the variant's jobs, each after those that it needs; the last one is its analysis on the target."""
        jobs: list[Job] = []
        original: InputFile | JobOutput
        if self._spec.builder is not None:
            jobs.append(self._build(variant))
            original = JobOutput(jobs[-1].key, MODEL_BLOB)
        else:
            original = self._inputs["model"]
        model = original
        if variant.level > 0:
            jobs.append(self._prune(original, variant.level))
            model = JobOutput(jobs[-1].key, MODEL_BLOB)
        reference = self._reference(original)
        convert = self._convert(model, reference, variant.precision)
        return (*jobs, reference, convert, self._analyse(convert, variant))

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

    def _prune(self, original: InputFile | JobOutput, level: float) -> Job:
        spec, fine_tune = self._spec, self._spec.fine_tune
        request = {
            "level": float(level),
            "method": spec.pruning.method,
            "exclude": sorted(set(spec.pruning.exclude)),
            "fine_tune": None if fine_tune is None else {**_fine_tune_request(fine_tune), **self._normalisation()},
            "seed": spec.seed if fine_tune is not None else 0,  # nothing but fine-tuning is random
            **self._trust(),
        }
        return self._job("prune", request, {"model": original, **self._present("fine_tune")})

    def _reference(self, original: InputFile | JobOutput) -> Job:
        return self._job("reference", self._samples(), {"model": original, **self._present("calibration", "evaluate")})

    def _convert(self, model: InputFile | JobOutput, reference: Job, precision: str) -> Job:
        scheme = PRECISIONS[precision]
        request = {"quantize": scheme.quantize, "dense_per_tensor": scheme.dense_per_tensor, **self._samples()}
        inputs = {
            "model": model,
            "reference": JobOutput(reference.key, REFERENCE_BLOB),
            **self._present("calibration", "evaluate"),
        }
        return self._job("convert", request, inputs)

    def _analyse(self, convert: Job, variant: Variant) -> Job:
        target, sha256 = self._targets[variant.target]
        request: dict[str, Any] = {"target_sha256": sha256, "seed": self._spec.seed}
        # Results stored before these existed remain valid.
        if not variant.optimize:
            request["optimize"] = False
        if variant.max_extra_macs is not None:
            request["max_extra_macs"] = variant.max_extra_macs
        # A process finds the target by the user's name for it; the hash identifies its content.
        return self._job(
            "analyse", request, {"model": JobOutput(convert.key, TFLITE_BLOB)}, target=_target_request(target)
        )

    def _job(self, kind: Kind, request: Mapping[str, Any], inputs: Inputs, **not_in_key: Any) -> Job:
        names = PACKAGES[kind]
        versions = {name: self._versions[name] for name in names if name in self._versions}
        keyed = {**request, "versions": versions}
        content = {"kind": kind, "request": keyed, "inputs": _inputs_for_key(inputs)}
        key = hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()
        return Job(key, kind, {**keyed, **not_in_key}, inputs)

    def _present(self, *roles: str) -> dict[str, InputFile | JobOutput]:
        return {role: self._inputs[role] for role in roles if role in self._inputs}

    def _trust(self) -> dict[str, bool]:
        """Return whether code is trusted; and whether a builder creates the models, only some of which data may fit."""
        return {"trust_model_code": self._spec.trust_model_code, "built": self._spec.builder is not None}

    def _samples(self) -> dict[str, Any]:
        """Return what determines the samples besides files; without calibration data, this includes the seed."""
        spec = self._spec
        has_data = "calibration" in self._inputs or "evaluate" in self._inputs
        synthetic = {"samples": spec.samples, "seed": spec.seed} if "calibration" not in self._inputs else {}
        return {**synthetic, **(self._normalisation() if has_data else {}), **self._trust()}

    def _normalisation(self) -> dict[str, list[float] | None]:
        values = {name: getattr(self._spec, name) for name in NORMALISATION}
        return {name: None if value is None else [float(item) for item in value] for name, value in values.items()}


def _fine_tune_request(fine_tune: FineTune) -> dict[str, Any]:
    return {
        "epochs": fine_tune.epochs,
        "learning_rate": float(fine_tune.learning_rate),
        "batch_size": fine_tune.batch_size,
        "loss": fine_tune.loss,
    }


def _target_request(target: TargetSpec) -> dict[str, Any]:
    return {"name": target.name, "profile": target.profile, "overrides": plain(dict(target.overrides))}


def _of_builder(role: str) -> bool:
    return role == "builder" or role.startswith(BUILDER_FILE)


def _inputs_for_key(inputs: Inputs) -> dict[str, Any]:
    """Return the inputs as part of the key: the user's files by content and format, regardless of their paths."""
    return {
        role: {"key": item.key, "blob": item.blob}
        if isinstance(item, JobOutput)
        else {"sha256": item.sha256, "suffix": PurePath(item.name).suffix.lower()}
        for role, item in inputs.items()
    }


# waiting: not started. skipped: a job that it needs failed, or is skipped itself.
State = Literal["waiting", "running", "done", "failed", "skipped"]


class JobQueue:
    """The jobs of a sweep, each key once: dependencies first, and among those that can start the one added first.

    reused is the number of jobs with a stored outcome; states, kinds and waiting_kinds are the numbers of jobs in each
    state, of each kind, and of each kind that wait.

    Args:
        stored: the outcomes of earlier runs, by key; their jobs do not run again.
    """

    def __init__(self, stored: Mapping[str, Outcome]) -> None:
        self.reused = 0
        self.states: Counter[State] = Counter()
        self.kinds: Counter[str] = Counter()
        self.waiting_kinds: Counter[str] = Counter()
        self._stored = stored
        self._jobs: dict[str, Job] = {}
        self._state: dict[str, State] = {}
        self._positions: dict[str, int] = {}
        self._unmet: dict[str, set[str]] = {}
        self._dependents: dict[str, list[str]] = {}
        self._ready: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def is_finished(self) -> bool:
        """Whether no job waits and none runs."""
        return self.states["waiting"] == self.states["running"] == 0

    def add(self, jobs: Iterable[Job]) -> None:
        """Add jobs, each after those that it needs; those that are in the queue already are ignored."""
        for job in jobs:
            if job.key not in self._jobs:
                self._positions[job.key] = len(self._jobs)
                self._jobs[job.key] = job
                self.kinds[job.kind] += 1
                self._enter(job)

    def job(self, key: str) -> Job:
        """Return the job with that key."""
        return self._jobs[key]

    def take(self) -> Job | None:
        """Return the next job, which now counts as running; None if no job can start yet."""
        if not self._ready:
            return None
        _, key = heapq.heappop(self._ready)
        self._move(key, "running")
        return self._jobs[key]

    def finish(self, key: str, outcome: Outcome) -> None:
        """Mark a running job as done or failed: the jobs that need it can start, or are skipped."""
        failed = outcome.reason is not None
        self._move(key, "failed" if failed else "done")
        for dependent in self._dependents.pop(key, ()):
            if failed:
                self._skip(dependent)
            else:
                self._unmet[dependent].discard(key)
                self._offer(dependent)

    def _enter(self, job: Job) -> None:
        stored = self._stored.get(job.key)
        if stored is not None:
            self.reused += 1
            self._move(job.key, "done" if stored.reason is None else "failed")
            return
        states = {need: self._state[need] for need in job.needs}
        if any(state in ("failed", "skipped") for state in states.values()):
            self._move(job.key, "skipped")
            return
        self._move(job.key, "waiting")
        self._unmet[job.key] = {need for need, state in states.items() if state != "done"}
        for need in self._unmet[job.key]:
            self._dependents.setdefault(need, []).append(job.key)
        self._offer(job.key)

    def _offer(self, key: str) -> None:
        if self._state[key] == "waiting" and not self._unmet[key]:
            heapq.heappush(self._ready, (self._positions[key], key))

    def _skip(self, key: str) -> None:
        if self._state[key] == "waiting":
            self._move(key, "skipped")
            for dependent in self._dependents.pop(key, ()):
                self._skip(dependent)

    def _move(self, key: str, state: State) -> None:
        before = self._state.get(key)
        if before is not None:
            self.states[before] -= 1
        self._state[key] = state
        self.states[state] += 1
        self.waiting_kinds[self._jobs[key].kind] += (state == "waiting") - (before == "waiting")


def resolved(spec: TargetSpec) -> Target:
    """Return the target with its overrides. Raises TargetError naming file and key."""
    target = load_target(spec.name) if spec.profile is None else parse_target(spec.profile, where=spec.name)
    overrides: dict[str, Any] = dict(spec.overrides)
    return target.with_overrides(**overrides)


def target_sha256(target: Target) -> str:
    """Return a hash of the target's content, which is the same whatever name the user gives to the target.

    The vendor, which has no effect on results, is omitted, as are absent fields that targets did not always have:
    results stored before these fields existed remain valid.
    """
    figures = {key: value for key, value in figures_of(target).items() if key != "vendor"}
    return hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()
