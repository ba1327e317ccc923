"""A piece of work with a name that tells its whole content: who has done it need never do it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

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
