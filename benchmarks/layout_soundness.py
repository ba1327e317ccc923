"""Whether proven layouts are the best there are: random small problems, judged by a CP-SAT model of their own.

    python -m benchmarks.layout_soundness [--count 10000] [--seed 1] [--processes 2]

Needs OR-Tools (the extra cp-sat). Problems have up to 20 buffers, with mixed alignments, pins, aliases and empty
buffers among them. In the kind "full" all memory is taken at every moment; "knots" vary small problems of which no
layout is as low as the most that is alive at once. The judge states each pair of buffers as a choice and shares no
code with the solver.
Printed: how many problems of each kind, above max-live, proven and how, and every disagreement; any is an exit of 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import lcm
from random import Random

from ortools.sat.python import cp_model

from edgetool.memory.checker import check_layout
from edgetool.memory.layout.solve import solve
from edgetool.memory.problem import Buffer, Effort, LayoutProblem, Lifetime

KINDS = ("knots", "knots", "full", "random", "alignments", "pins", "aliases", "all")
# Problems (first, last, size) whose best height is above max-live, and none of whose buffers can be left out.
KNOTS = (
    ((0, 0, 3), (0, 1, 3), (1, 2, 2), (1, 3, 2), (2, 3, 1), (3, 4, 4), (4, 4, 3)),
    ((0, 0, 3), (0, 2, 1), (1, 1, 2), (1, 3, 1), (2, 4, 1), (3, 3, 2), (4, 4, 3)),
    ((0, 0, 4), (0, 2, 1), (1, 1, 3), (1, 3, 1), (2, 4, 1), (3, 3, 3), (4, 4, 4)),
    ((0, 0, 2), (0, 1, 4), (1, 2, 1), (1, 3, 1), (2, 3, 1), (2, 3, 1), (3, 4, 3), (4, 4, 3)),
    ((0, 0, 3), (0, 2, 4), (1, 1, 2), (1, 4, 1), (2, 5, 1), (3, 3, 5), (4, 5, 1), (5, 5, 5)),
    ((0, 0, 8), (0, 2, 4), (1, 1, 7), (1, 3, 1), (2, 4, 3), (3, 3, 5), (3, 4, 3), (4, 4, 6)),
    ((0, 0, 2), (0, 1, 6), (0, 2, 1), (0, 3, 1), (1, 4, 1), (2, 2, 5), (2, 3, 2), (3, 4, 6), (4, 4, 3)),
    ((0, 0, 3), (0, 2, 3), (1, 1, 2), (1, 4, 1), (2, 3, 1), (3, 4, 2), (3, 4, 2), (4, 5, 1), (5, 5, 5)),
)
# Of so many problems, one is also given to the strategy cp-sat, and one is solved at the capacities around its best.
EVERY = 10
# More than any of them takes.
NODES = 5_000_000
# CP-SAT's deterministic seconds for the judge. A problem that it cannot decide makes room for another, and is counted.
JUDGE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Piece:
    """What must be placed once: a buffer, or all buffers of one alias."""

    first: int
    last: int
    size: int
    alignment: int
    pin: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One problem: its best height by the judge, its max-live, how the solver proved it, and what is wrong.

    undecided: how many problems before it were too hard for the judge.
    """

    kind: str
    best: int
    live: int
    proof: str
    wrong: tuple[str, ...]
    problem: LayoutProblem
    undecided: int


def problem_of(kind: str, random: Random) -> LayoutProblem:
    """A random problem; `random` decides everything."""
    times = SHAPES.get(kind, random.choice((_full, _scattered, _knot)))(random)
    scale = random.choice((1, 1, 16))
    alignment = granule = scale
    buffers = []
    for i, (first, last, size) in enumerate(times):
        if kind in ("alignments", "all"):
            alignment = random.choice((1, 2, 3, 4, 8)) * scale
            granule = random.choice((1, alignment))
        alias = random.choice((None, None, "a", "b")) if kind in ("aliases", "all") else None
        empty = kind == "all" and random.random() < 0.05
        buffers.append(
            Buffer(
                subgraph=0,
                tensor=i,
                name=f"b{i}",
                size_bytes=0 if empty else size * scale - random.randrange(scale),
                lifetime=Lifetime(first, last),
                alignment=alignment,
                granule=granule,
                alias=alias,
            )
        )
    problem = LayoutProblem(tuple(buffers))
    return _pinned(problem, random) if kind in ("pins", "all") else problem


def pieces_of(problem: LayoutProblem) -> list[Piece]:
    """What the judge places: buffers of one alias as one, alive as long as any of them; what is empty is left out."""
    groups: dict[object, list[Buffer]] = {}
    for i, buffer in enumerate(problem.buffers):
        groups.setdefault(buffer.alias or i, []).append(buffer)
    pieces = []
    for group in groups.values():
        if any(b.size_bytes for b in group):
            pieces.append(
                Piece(
                    first=min(b.lifetime.first for b in group),
                    last=max(b.lifetime.last for b in group),
                    size=max(-(-b.size_bytes // b.granule) * b.granule for b in group),
                    alignment=lcm(*(b.alignment for b in group)),
                    pin=next((b.pinned for b in group if b.pinned is not None), None),
                )
            )
    return pieces


def max_live(pieces: list[Piece]) -> int:
    """The most bytes alive at once."""
    return max((sum(p.size for p in pieces if p.first <= t <= p.last) for t in {p.first for p in pieces}), default=0)


def best_height(problem: LayoutProblem) -> int | None:
    """The least height, by CP-SAT: for each two that are alive at once, one lies below the other; None: undecided."""
    pieces = pieces_of(problem)
    most = sum(p.size + p.alignment for p in pieces) + max((p.pin or 0 for p in pieces), default=0)
    model = cp_model.CpModel()
    # What is alive together lies side by side: it follows from the pairs, and spares CP-SAT to find that out.
    top = model.new_int_var(max_live(pieces), most, "top")
    offsets = []
    for piece in pieces:
        step = model.new_int_var(0, most, "")
        offsets.append(step * piece.alignment)
        model.add(step * piece.alignment + piece.size <= top)
        if piece.pin is not None:
            model.add(step * piece.alignment == piece.pin)
    for i, one in enumerate(pieces):
        for j, other in enumerate(pieces[:i]):
            if one.first <= other.last and other.first <= one.last:
                below = model.new_bool_var("")
                model.add(offsets[i] + one.size <= offsets[j]).only_enforce_if(below)
                model.add(offsets[j] + other.size <= offsets[i]).only_enforce_if(~below)
    model.minimize(top)
    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False  # it would take Ctrl-C from Python for good
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = JUDGE_SECONDS
    status = solver.solve(model)
    if status in (cp_model.FEASIBLE, cp_model.UNKNOWN):
        return None
    if status != cp_model.OPTIMAL:
        raise RuntimeError(f"the judge says {solver.status_name(status)}: {problem}")
    return int(solver.value(top))


def judge(index: int, seed: int) -> Verdict:
    """Make a problem, solve it, and hold it against the judge."""
    random = Random(f"{seed}/{index}")
    kind = KINDS[index % len(KINDS)]
    undecided = 0
    problem = problem_of(kind, random)
    while (best := best_height(problem)) is None:
        undecided += 1
        problem = problem_of(kind, random)
    pieces = pieces_of(problem)
    live = max_live(pieces)
    layout = solve(problem, Effort(seed=index, node_limit=NODES))
    wrong = [f"checker: {violation.message}" for violation in check_layout(problem, layout)]
    wrong += [f"offsets: {text}" for text in _conflicts(problem, layout.offsets, layout.height)]
    if layout.lower_bound > best:
        wrong.append(f"the bound is {layout.lower_bound}, the best {best}")
    if layout.proof == "none":
        wrong.append(f"not proven: {layout.lower_bound} to {layout.height}, the best is {best}")
    elif layout.height != best:
        wrong.append(f"proven ({layout.proof}) at {layout.height}, the best is {best}")
    if index // len(KINDS) % EVERY == 0:
        wrong += _other_ways(problem, best)
    return Verdict(kind, best, live, layout.proof, tuple(wrong), problem, undecided)


def _other_ways(problem: LayoutProblem, best: int) -> list[str]:
    """What is wrong with the answers of CP-SAT, and with those at a capacity that fits and one that does not."""
    wrong = []
    layout = solve(problem, Effort(node_limit=NODES), strategy="cp-sat")
    if (layout.height, layout.lower_bound) != (best, best):
        wrong.append(f"strategy cp-sat: {layout.lower_bound} to {layout.height}, the best is {best}")
    for capacity in (best, best - 1):
        layout = solve(problem, capacity=capacity)
        if layout.height != best or layout.lower_bound > best or _conflicts(problem, layout.offsets, layout.height):
            wrong.append(f"capacity {capacity}: {layout.lower_bound} to {layout.height}, the best is {best}")
    return wrong


def _conflicts(problem: LayoutProblem, offsets: tuple[int, ...], height: int) -> list[str]:
    """The rules that offsets break, read off the definition of a buffer pair by pair."""
    found = []
    buffers = [(b, o) for b, o in zip(problem.buffers, offsets, strict=True) if b.size_bytes]
    if height != max((o + b.aligned_bytes for b, o in buffers), default=0):
        found.append(f"height {height}")
    for i, (b, offset) in enumerate(buffers):
        if offset < 0 or offset % b.alignment or (b.pinned is not None and b.pinned != offset):
            found.append(f"{b.name} at {offset}")
        for c, other in buffers[:i]:
            same = b.alias is not None and b.alias == c.alias
            meet = offset < other + c.aligned_bytes and other < offset + b.aligned_bytes
            if (same and offset != other) or (not same and meet and b.lifetime.overlaps(c.lifetime)):
                found.append(f"{c.name} at {other} and {b.name} at {offset}")
    return found


def _scattered(random: Random) -> list[tuple[int, int, int]]:
    """First, last and size of buffers anywhere."""
    moments = random.randint(2, 12)
    found = []
    for _ in range(random.randint(1, 12)):
        first = random.randrange(moments)
        found.append((first, min(moments - 1, first + random.randrange(6)), random.randint(1, 9)))
    return found


def _knot(random: Random) -> list[tuple[int, int, int]]:
    """A knot with its sizes scaled sometimes mirrored, a little changed, or among others."""
    scale = random.randint(1, 4)
    found = [(first, last, size * scale) for first, last, size in random.choice(KNOTS)]
    end = max(last for _, last, _ in found)
    if random.random() < 0.5:
        found = [(end - last, end - first, size) for first, last, size in found]
    for _ in range(random.choice((0, 0, 1, 2))):
        i = random.randrange(len(found))
        first, last, size = found[i]
        found[i] = (first, last, max(1, size + random.choice((-1, 1))))
    for _ in range(random.choice((0, 0, 1, 3, 5))):
        first = random.randrange(end + 1)
        found.append((first, random.randint(first, end), random.randint(1, 4)))
    random.shuffle(found)
    return found


def _full(random: Random) -> list[tuple[int, int, int]]:
    """Buffers of which the same sum is alive at every moment: as some end, others begin that take as much."""
    capacity = random.randint(6, 14)
    alive = [(0, size) for size in _shares(capacity, random)]
    found: list[tuple[int, int, int]] = []
    moment = 0
    count = random.randint(8, 20)
    while len(found) + len(alive) < count:
        moment += 1
        ending = random.sample(alive, min(len(alive), random.choice((1, 2, 2, 3))))
        for one in ending:
            alive.remove(one)
            found.append((one[0], moment - 1, one[1]))
        alive += [(moment, size) for size in _shares(sum(size for _, size in ending), random)]
    found += [(first, moment, size) for first, size in alive]
    # Not quite full, now and then: what is left out leaves room.
    if random.random() < 0.3:
        found.remove(random.choice(found))
    random.shuffle(found)
    return found


def _shares(total: int, random: Random) -> list[int]:
    """A sum in up to four parts."""
    cuts = sorted(random.sample(range(1, total), min(total - 1, random.randrange(4)))) if total > 1 else []
    return [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]


SHAPES: dict[str, Callable[[Random], list[tuple[int, int, int]]]] = {
    "knots": _knot,
    "full": _full,
    "random": _scattered,
}


def _pinned(problem: LayoutProblem, random: Random) -> LayoutProblem:
    """Some of the buffers pinned, where a layout of first fit in random order has them, now and then further up."""
    buffers = list(problem.buffers)
    pieces = pieces_of(problem)
    placed: list[tuple[Piece, int]] = []
    lift = random.choice((0, 0, 1, 3)) * lcm(*(p.alignment for p in pieces)) if pieces else 0
    for piece in random.sample(pieces, len(pieces)):
        others = [(o, q) for q, o in placed if q.first <= piece.last and piece.first <= q.last]
        offset = next(
            candidate
            for end in sorted([lift, *(o + q.size for o, q in others)])
            for candidate in [-(-end // piece.alignment) * piece.alignment]
            if all(candidate + piece.size <= o or o + q.size <= candidate for o, q in others)
        )
        placed.append((piece, offset))
    for piece, offset in random.sample(placed, min(len(placed), random.randint(1, 3))):
        for i, b in enumerate(buffers):
            # Aliases are too intertwined to pin by piece.
            single = b.alias is None and b.size_bytes > 0
            if single and (b.lifetime.first, b.lifetime.last, b.aligned_bytes) == (piece.first, piece.last, piece.size):
                if any(c.pinned == offset for c in buffers) or offset % b.alignment:
                    continue
                buffers[i] = _at(b, offset)
                break
    return LayoutProblem(tuple(buffers))


def _at(b: Buffer, offset: int) -> Buffer:
    return Buffer(
        b.subgraph, b.tensor, b.name, b.size_bytes, b.lifetime, b.operator, b.alignment, b.granule, offset, b.alias
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    started = time.perf_counter()
    problems: Counter[str] = Counter()
    above: Counter[str] = Counter()
    proofs: Counter[str] = Counter()
    wrong = undecided = 0
    with multiprocessing.Pool(arguments.processes) as pool:
        work = partial(judge, seed=arguments.seed)
        for index, verdict in enumerate(pool.imap(work, range(arguments.count), chunksize=20)):
            problems[verdict.kind] += 1
            above[verdict.kind] += verdict.best > verdict.live
            proofs[verdict.proof] += 1
            undecided += verdict.undecided
            if verdict.wrong:
                wrong += 1
                print(f"{index} ({verdict.kind}): {'; '.join(verdict.wrong)}", verdict.problem, sep="\n", flush=True)
    print(f"{'kind':<12} {'problems':>9} {'above max-live':>15}")
    for kind in problems:
        print(f"{kind:<12} {problems[kind]:>9,} {above[kind]:>15,}")
    print(f"{'all':<12} {problems.total():>9,} {above.total():>15,}")
    print("proofs: " + ", ".join(f"{proof} {count:,}" for proof, count in proofs.most_common()))
    print(f"{undecided} more were too hard for the judge; {wrong} disagreements, {time.perf_counter() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
