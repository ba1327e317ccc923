"""The jobs that a sweep is made of: what a variant takes, which of it is done, and which may begin.

A piece of work with a name that tells its whole content: who has done it need never do it again.

The jobs of a variant, and the keys that tell their whole content.

Which jobs of a sweep are done, and which may begin.
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
from edgetool.report.json import plain
from edgetool.sweep.metrics import PRECISIONS, Variant
from edgetool.sweep.spec import FineTune, SweepSpec, TargetSpec
from edgetool.sweep.targets import resolved, target_sha256

# build: the user's function makes a model. prune: channels are removed, and it is trained again. reference: what the
# float original says to the samples. convert: a .tflite and what it loses. analyse: what that needs on a target.
Kind = Literal["build", "prune", "reference", "convert", "analyse"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file or directory of the user's: its name (the suffix tells the format), SHA-256 and an unchanging copy."""

    name: str
    sha256: str
    path: Path


@dataclass(frozen=True, slots=True)
class Made:
    """A blob that another job makes."""

    key: str
    blob: str


@dataclass(frozen=True, slots=True)
class Job:
    """key: SHA-256 over kind, request, inputs and versions, in hex. request: JSON. inputs: by role ("model",
    "calibration", ...), files of the user's or blobs of other jobs, which must be done first."""

    key: str
    kind: Kind
    request: Mapping[str, Any]
    inputs: Mapping[str, InputFile | Made]

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the jobs whose blobs this one takes."""
        return tuple(item.key for item in self.inputs.values() if isinstance(item, Made))


@dataclass(frozen=True, slots=True)
class Content:
    """An input as it is handed to the process that does the job: a path (a file or directory), or bytes."""

    name: str
    sha256: str
    path: Path | None = None
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A job with all its inputs at hand, ready to run anywhere.

    seconds: the most that it may take. folder: where directories for it are made; None is the system's own place.
    """

    job: Job
    contents: Mapping[str, Content]
    seconds: float
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job gave: value is JSON, blobs by name. Where it failed, reason says why, and there are none."""

    value: Mapping[str, Any] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    reason: str | None = None
    seconds: float = 0.0


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


# waiting: not begun. left out: a job that it needs failed, or is left out itself.
State = Literal["waiting", "running", "done", "failed", "left out"]


class Agenda:
    """The jobs of a sweep, each key once: dependencies first, and among those that may begin the one added first.

    known: the outcomes of earlier runs; their jobs are not begun again. reused: how many of the jobs they cover.
    states, kinds, waiting_kinds: how many jobs are in each state, of each kind, and of each kind waiting.
    """

    def __init__(self, known: Mapping[str, Outcome]) -> None:
        self.reused = 0
        self.states: Counter[State] = Counter()
        self.kinds: Counter[str] = Counter()
        self.waiting_kinds: Counter[str] = Counter()
        self._known = known
        self._jobs: dict[str, Job] = {}
        self._state: dict[str, State] = {}
        self._places: dict[str, int] = {}
        self._open: dict[str, set[str]] = {}
        self._dependents: dict[str, list[str]] = {}
        self._ready: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def is_finished(self) -> bool:
        """Nothing waits and nothing runs."""
        return self.states["waiting"] == self.states["running"] == 0

    def add(self, jobs: Iterable[Job]) -> None:
        """Take them up, each after those that it needs; those that are here already are passed over."""
        for job in jobs:
            if job.key not in self._jobs:
                self._places[job.key] = len(self._jobs)
                self._jobs[job.key] = job
                self.kinds[job.kind] += 1
                self._enter(job)

    def job(self, key: str) -> Job:
        """The job of that key."""
        return self._jobs[key]

    def take(self) -> Job | None:
        """The next job, which runs from now on; None where none may begin yet."""
        if not self._ready:
            return None
        _, key = heapq.heappop(self._ready)
        self._move(key, "running")
        return self._jobs[key]

    def end(self, key: str, outcome: Outcome) -> None:
        """A job that ran has ended: those that need it may begin, or are left out."""
        failed = outcome.reason is not None
        self._move(key, "failed" if failed else "done")
        for dependent in self._dependents.pop(key, ()):
            if failed:
                self._leave_out(dependent)
            else:
                self._open[dependent].discard(key)
                self._offer(dependent)

    def _enter(self, job: Job) -> None:
        known = self._known.get(job.key)
        if known is not None:
            self.reused += 1
            self._move(job.key, "done" if known.reason is None else "failed")
            return
        states = {need: self._state[need] for need in job.needs}
        if any(state in ("failed", "left out") for state in states.values()):
            self._move(job.key, "left out")
            return
        self._move(job.key, "waiting")
        self._open[job.key] = {need for need, state in states.items() if state != "done"}
        for need in self._open[job.key]:
            self._dependents.setdefault(need, []).append(job.key)
        self._offer(job.key)

    def _offer(self, key: str) -> None:
        if self._state[key] == "waiting" and not self._open[key]:
            heapq.heappush(self._ready, (self._places[key], key))

    def _leave_out(self, key: str) -> None:
        if self._state[key] == "waiting":
            self._move(key, "left out")
            for dependent in self._dependents.pop(key, ()):
                self._leave_out(dependent)

    def _move(self, key: str, state: State) -> None:
        before = self._state.get(key)
        if before is not None:
            self.states[before] -= 1
        self._state[key] = state
        self.states[state] += 1
        self.waiting_kinds[self._jobs[key].kind] += (state == "waiting") - (before == "waiting")
