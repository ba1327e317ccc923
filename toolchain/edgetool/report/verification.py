"""The document's section `verify`: what was run, what was judged, and what it showed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """One of the two files that were run, as bytes; one that edgetool derived has the name of its source."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class SampleInfo:
    """The samples of the run, in the order in which they were invoked: random ones, then those of the file."""

    random: int
    seed: int
    from_file: int


@dataclass(frozen=True, slots=True)
class DifferenceInfo:
    """The first element that differs. Null stands for a value that JSON has not (NaN, infinity)."""

    sample: int
    output: str
    element: tuple[int, ...]
    original: int | float | None
    planned: int | float | None


@dataclass(frozen=True, slots=True)
class CheckInfo:
    """A check: passed is null where it could not be made; the message says why, or what was seen."""

    check: str
    passed: bool | None
    message: str
    difference: DifferenceInfo | None = None


@dataclass(frozen=True, slots=True)
class HostArena:
    """The planned file's arena on the machine that ran it, not on the device: predicted, and as TFLM told it.

    Null is what is not known. predicted_bytes is the smallest arena, the others what AllocateTensors takes of it.
    """

    abi: str
    is_lower_bound: bool
    predicted_bytes: int
    predicted_used_bytes: int
    predicted_head_bytes: int
    predicted_tail_bytes: int
    used_bytes: int | None
    head_bytes: int | None
    tail_bytes: int | None


@dataclass(frozen=True, slots=True)
class OutputDistance:
    """How far one output of another runtime is from TFLM's: unit is lsb for integers, absolute for floats.

    max_difference is null where a difference is no number.
    """

    output: str
    unit: str
    max_difference: float | None
    differing: int
    elements: int


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """The original on another runtime, which is not judged. not_run says why it did not run there."""

    runtime: str
    not_run: str | None
    outputs: tuple[OutputDistance, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifyInfo:
    """The original against the planned file on TFLM. planner: whose plan was run: file, edgetool or runtime."""

    passed: bool
    original: VerifiedFile
    planned: VerifiedFile
    planner: str
    samples: SampleInfo
    checks: tuple[CheckInfo, ...]
    arena: HostArena
    runtimes: tuple[RuntimeInfo, ...]
