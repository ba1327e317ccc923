"""The gate's part of the document. Field names are the JSON's own: other programs build on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JudgementInfo:
    """One thing that was judged.

    rule: its stable name ("arena", "flash", "max-arena", "max-latency", "active-budget", "operators",
    "arena-known", "accuracy", "growth", "lock", or the rule of a finding). passed is null where it cannot be judged:
    message says why. level: "error" rejects, "warning" and "note" do not. value, limit and over are in `unit` ("B",
    "ms", "%"), null where there are none. causes: the operators and tensors that set the value, the largest first.
    advice: what would lower it.
    """

    rule: str
    passed: bool | None
    level: str
    message: str
    value: float | int | None = None
    limit: float | int | None = None
    over: float | int | None = None
    unit: str | None = None
    causes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeInfo:
    """A figure that differs from the lock file's, and by what: each cause reads "+4,096 B: operator 7 CONV_2D scratch".

    figure: its name in the lock ("arena_bytes", "model_bytes", "latency_ms", ...). allowed: whether it is a figure that
    may not grow and grew by no more than the allowance, or did not grow.
    """

    figure: str
    unit: str
    before: float | int | None
    after: float | int | None
    allowed: bool
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LockInfo:
    """The comparison with the lock file.

    state: "equal", "changed", "missing", "not-in-lock", "other-target" or "updated".
    inputs: what else differs from when the lock was written, a sentence each ("the model file changed", ...).
    """

    state: str
    inputs: tuple[str, ...] = ()
    changes: tuple[ChangeInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class GateInfo:
    """The judgement. path: the model as the user named it, relative to the current directory where it lies below it.

    violations: "violates_64kib" and the like for each tracked budget, whether it is violated, null where that is not
    known.
    """

    passed: bool
    path: str
    judgements: tuple[JudgementInfo, ...]
    violations: dict[str, bool | None]
    lock: LockInfo | None = None
