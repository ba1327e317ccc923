"""How far a sweep has come, and how long it may still take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# How long jobs of each kind take beside each other, until one of the kind has ended: the order of magnitude for small
# models, where loading TensorFlow counts most.
SHARES: Mapping[str, float] = {"build": 5.0, "prune": 6.0, "reference": 8.0, "convert": 8.0, "analyse": 1.0}
# A job that takes longer than others of its kind is taken to need this share of their time still.
OVERTIME = 0.1


@dataclass(frozen=True, slots=True)
class Advance:
    """done, total: jobs (not variants) of the sweep, those of earlier runs included; a job that is left out because one
    that it needs failed counts as done. failed: jobs that failed. running: what runs now, in words. seconds_left: None
    until the first job of this run has ended."""

    done: int
    total: int
    failed: int
    running: tuple[str, ...]
    seconds_left: float | None


def seconds_by_kind(
    ended: Mapping[str, tuple[int, float]], running: Sequence[tuple[str, float]] = ()
) -> dict[str, float] | None:
    """The seconds that a job of each kind takes; None where nothing has ended.

    ended: the number of those that ended well, by kind, and the sum of their seconds: the mean counts. running: kind
    and seconds since each began. A kind of which none has ended takes its share, to the scale of the others, and no
    less than those that run have taken.
    """
    means = {kind: seconds / count for kind, (count, seconds) in ended.items() if count}
    if not means:
        return None
    scale = sum(means.values()) / sum(SHARES[kind] for kind in means)
    so_far = {kind: max(seconds for other, seconds in running if other == kind) for kind, _ in running}
    return {kind: means.get(kind, max(share * scale, so_far.get(kind, 0.0))) for kind, share in SHARES.items()}


def seconds_left(
    each: Mapping[str, float], waiting: Mapping[str, float], running: Sequence[tuple[str, float]], width: int
) -> float:
    """The time until all is done, in seconds: all work shared by those that work side by side, or the longest job
    where that is more.

    each: of seconds_by_kind. waiting: how many of each kind have not begun. running: kind and seconds since each began.
    width: how many run side by side.
    """
    rests = [max(each[kind] - elapsed, OVERTIME * each[kind]) for kind, elapsed in running]
    work = sum(each[kind] * count for kind, count in waiting.items()) + sum(rests)
    longest = max((each[kind] for kind, count in waiting.items() if count > 0), default=0.0)
    return max(work / width, longest, *rests)
