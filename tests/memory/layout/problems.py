"""Random small problems of every kind, MiniMalloc's instances, and layouts found by trying everything."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

from hypothesis import strategies as st

from edgetool.memory.problem import Buffer, LayoutProblem, Lifetime

# (first, last, size): no layout is as low as the most that is alive at once, 7.
KNOT = ((0, 0, 3), (0, 1, 3), (1, 2, 2), (1, 3, 2), (2, 3, 1), (3, 4, 4), (4, 4, 3))


def plain(*rows: tuple[int, int, int]) -> LayoutProblem:
    """Buffers of any offset: (first, last, size)."""
    return LayoutProblem(
        tuple(
            Buffer(0, -1, f"b{i}", size, Lifetime(first, last), alignment=1, granule=1)
            for i, (first, last, size) in enumerate(rows)
        )
    )


def read(path: Path) -> LayoutProblem:
    """An instance of MiniMalloc: half-open lifetimes, any offset."""
    with path.open(encoding="utf-8") as file:
        return plain(*((int(r["lower"]), int(r["upper"]) - 1, int(r["size"])) for r in csv.DictReader(file)))


@st.composite
def mixed_problems(draw: st.DrawFn, most: int = 6, moments: int = 6) -> LayoutProblem:
    """Mixed alignments and granules, pins, aliases, empty buffers; pins may collide."""
    buffers = []
    for index in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, moments))
        last = draw(st.integers(first, moments))
        kind = draw(st.sampled_from(["free", "free", "free", "pinned", "alias"]))
        buffers.append(
            Buffer(
                0,
                index,
                f"t{index}",
                draw(st.integers(0, 20)),
                Lifetime(first, last),
                alignment=draw(st.sampled_from([1, 1, 2, 3, 4, 8])),
                granule=draw(st.sampled_from([1, 1, 4])),
                pinned=24 * draw(st.integers(0, 2)) if kind == "pinned" else None,
                alias=draw(st.sampled_from("xy")) if kind == "alias" else None,
            )
        )
    return LayoutProblem(tuple(buffers))


def minimum_peak(problem: LayoutProblem) -> int | None:
    """Return the lowest peak, by first fit in every order; None if pinned buffers overlap."""
    groups: dict[object, list[Buffer]] = {}
    for i, buffer in enumerate(problem.buffers):
        groups.setdefault(i if buffer.alias is None else buffer.alias, []).append(buffer)
    buffers = []
    for members in groups.values():
        size = max(b.aligned_bytes for b in members)
        times = Lifetime(min(b.lifetime.first for b in members), max(b.lifetime.last for b in members))
        pin = next((b.pinned for b in members if b.pinned is not None), None)
        if size:
            buffers.append((times, size, [b.alignment for b in members], pin))
    pinned = [(pin, pin + size, times) for times, size, _, pin in buffers if pin is not None]
    for (low, high, times), (start, end, others) in itertools.combinations(pinned, 2):
        if times.overlaps(others) and low < end and start < high:
            return None
    free = [buffer for buffer in buffers if buffer[3] is None]
    best = None
    for order in itertools.permutations(free):
        placed = list(pinned)
        for times, size, steps, _ in order:
            rivals = [(low, high) for low, high, others in placed if times.overlaps(others)]
            at = 0
            while any(at % step for step in steps) or any(at < high and low < at + size for low, high in rivals):
                at += 1
            placed.append((at, at + size, times))
        top = max((end for _, end, _ in placed), default=0)
        best = top if best is None else min(best, top)
    return best
