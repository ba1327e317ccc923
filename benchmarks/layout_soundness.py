"""Check whether layouts that are proven optimal are optimal: random small problems, compared with a separate CP-SAT
model.

    python -m benchmarks.layout_soundness [--count 10000] [--seed 1] [--processes 2]

This needs OR-Tools (the extra cp-sat). Problems have up to 20 buffers, with mixed alignments, pins, aliases and empty
buffers. In the kind "full", all memory is used at all times; "knots" are variations of small problems without a layout
as low as the peak of live bytes; in "overlaps", some pairs of buffers may overlap at a distance. The reference model
states each pair of buffers as a choice, and shares no code with the solver. Prints the number of problems of each kind,
how many are above max-live or proven and how, and every disagreement; the exit status is 1 if there is any.
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
from edgetool.memory.problem import Buffer, Effort, LayoutProblem, Lifetime, Overlap

KINDS = ("knots", "knots", "full", "random", "alignments", "pins", "aliases", "all", "overlaps", "overlaps")
# Problems (first, last, size) whose minimum height is above max-live, and which are minimal: no buffer can be omitted.
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
# One in this number of problems is also solved by the strategy cp-sat, and one at capacities around its minimum.
EVERY = 10
# More than any problem needs.
NODES = 5_000_000
# CP-SAT's deterministic seconds for the reference model. A problem that it cannot decide is counted and replaced.
JUDGE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Block:
    """A buffer, or all buffers of one alias with the index of the first."""

    index: int
    first: int
    last: int
    size: int
    alignment: int
    pin: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one problem: its minimum height, its max-live, the solver's proof, and the errors.

    undecided: the number of preceding problems that were too hard for the reference model.
    """

    kind: str
    best: int
    live: int
    proof: str
    wrong: tuple[str, ...]
    problem: LayoutProblem
    undecided: int


def problem_of(kind: str, random: Random) -> LayoutProblem:
    """Return a random problem, which depends only on `random`."""
    times = SHAPES.get(kind, random.choice((_full, _scattered, _knot)))(random)
    scale = random.choice((1, 1, 16))
    alignment = granule = scale
    mixed = random.random() < 0.3
    buffers = []
    for i, (first, last, size) in enumerate(times):
        if kind in ("alignments", "all") or (kind == "overlaps" and mixed):
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
    if kind in ("pins", "all") or (kind == "overlaps" and random.random() < 0.2):
        problem = _pinned(problem, random)
    return _overlapping(problem, random) if kind == "overlaps" else problem


def blocks_of(problem: LayoutProblem) -> list[Block]:
    """Return the buffers with those of one alias merged, live as long as any of them, and without empty ones."""
    groups: dict[object, list[int]] = {}
    for i, buffer in enumerate(problem.buffers):
        groups.setdefault(buffer.alias or i, []).append(i)
    blocks = []
    for members in groups.values():
        group = [problem.buffers[i] for i in members]
        if any(b.size_bytes for b in group):
            blocks.append(
                Block(
                    index=members[0],
                    first=min(b.lifetime.first for b in group),
                    last=max(b.lifetime.last for b in group),
                    size=max(-(-b.size_bytes // b.granule) * b.granule for b in group),
                    alignment=lcm(*(b.alignment for b in group)),
                    pin=next((b.pinned for b in group if b.pinned is not None), None),
                )
            )
    return blocks


def max_live(blocks: list[Block]) -> int:
    """Return the maximum live bytes."""
    return max((sum(p.size for p in blocks if p.first <= t <= p.last) for t in {p.first for p in blocks}), default=0)


def best_height(problem: LayoutProblem) -> int | None:
    """Return the minimum height by CP-SAT, None if undecided: of two simultaneously live buffers, one is below the
    other, or an overlap permits their distance."""
    blocks = blocks_of(problem)
    most = sum(p.size + p.alignment for p in blocks) + max((p.pin or 0 for p in blocks), default=0)
    model = cp_model.CpModel()
    # What is alive together lies side by side: it follows from the pairs, and spares CP-SAT to find that out.
    top = model.new_int_var(0 if problem.overlaps else max_live(blocks), most, "top")
    offsets = []
    for block in blocks:
        step = model.new_int_var(0, most, "")
        offsets.append(step * block.alignment)
        model.add(step * block.alignment + block.size <= top)
        if block.pin is not None:
            model.add(step * block.alignment == block.pin)
    for i, one in enumerate(blocks):
        for j, other in enumerate(blocks[:i]):
            if one.first <= other.last and other.first <= one.last:
                allowed = [(j, i, one.size), (i, j, other.size)]
                for overlap in problem.overlaps:
                    if (overlap.first, overlap.second) == (one.index, other.index):
                        allowed.append((i, j, overlap.min_distance))
                    if (overlap.first, overlap.second) == (other.index, one.index):
                        allowed.append((j, i, overlap.min_distance))
                choices = [model.new_bool_var("") for _ in allowed]
                model.add_bool_or(choices)
                for choice, (above, below, distance) in zip(choices, allowed, strict=True):
                    model.add(offsets[above] - offsets[below] >= distance).only_enforce_if(choice)
    model.minimize(top)
    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False  # it would permanently replace Python's handler for Ctrl-C
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = JUDGE_SECONDS
    status = solver.solve(model)
    if status in (cp_model.FEASIBLE, cp_model.UNKNOWN):
        return None
    if status != cp_model.OPTIMAL:
        raise RuntimeError(f"the judge says {solver.status_name(status)}: {problem}")
    return int(solver.value(top))


def judge(index: int, seed: int) -> Verdict:
    """Generate a problem, solve it, and compare the result with the reference model."""
    random = Random(f"{seed}/{index}")
    kind = KINDS[index % len(KINDS)]
    undecided = 0
    problem = problem_of(kind, random)
    while (best := best_height(problem)) is None:
        undecided += 1
        problem = problem_of(kind, random)
    blocks = blocks_of(problem)
    live = max_live(blocks)
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
    """Return the errors of CP-SAT's results, and of those at a capacity that fits and one that does not."""
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
    """Return the rules that offsets break, by comparing each pair of buffers according to the definition."""
    found = []
    buffers = [(b, o) for b, o in zip(problem.buffers, offsets, strict=True) if b.size_bytes]
    permitted = {
        frozenset((overlap.first, overlap.second))
        for overlap in problem.overlaps
        if offsets[overlap.first] - offsets[overlap.second] >= overlap.min_distance
    }
    if height != max((o + b.aligned_bytes for b, o in buffers), default=0):
        found.append(f"height {height}")
    for i, (b, offset) in enumerate(buffers):
        if offset < 0 or offset % b.alignment or (b.pinned is not None and b.pinned != offset):
            found.append(f"{b.name} at {offset}")
        for c, other in buffers[:i]:
            same = b.alias is not None and b.alias == c.alias
            meet = offset < other + c.aligned_bytes and other < offset + b.aligned_bytes
            # A buffer's index is its tensor.
            meet = meet and frozenset((b.tensor, c.tensor)) not in permitted
            if (same and offset != other) or (not same and meet and b.lifetime.overlaps(c.lifetime)):
                found.append(f"{c.name} at {other} and {b.name} at {offset}")
    return found


def _scattered(random: Random) -> list[tuple[int, int, int]]:
    """Return first, last and size of buffers at random positions."""
    moments = random.randint(2, 12)
    found = []
    for _ in range(random.randint(1, 12)):
        first = random.randrange(moments)
        found.append((first, min(moments - 1, first + random.randrange(6)), random.randint(1, 9)))
    return found


def _knot(random: Random) -> list[tuple[int, int, int]]:
    """Return a knot with scaled sizes, sometimes mirrored, slightly changed, or among other buffers."""
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
    """Return buffers with the same live bytes at all times: when some end, others of the same total size begin."""
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
    # Sometimes, a buffer is omitted, so that the memory is not completely full.
    if random.random() < 0.3:
        found.remove(random.choice(found))
    random.shuffle(found)
    return found


def _shares(total: int, random: Random) -> list[int]:
    """Split a sum into up to four parts."""
    cuts = sorted(random.sample(range(1, total), min(total - 1, random.randrange(4)))) if total > 1 else []
    return [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]


SHAPES: dict[str, Callable[[Random], list[tuple[int, int, int]]]] = {
    "knots": _knot,
    "full": _full,
    "random": _scattered,
}


def _pinned(problem: LayoutProblem, random: Random) -> LayoutProblem:
    """Return the problem with some buffers pinned to the offsets of a random first-fit layout, or sometimes higher."""
    buffers = list(problem.buffers)
    blocks = blocks_of(problem)
    placed: list[tuple[Block, int]] = []
    lift = random.choice((0, 0, 1, 3)) * lcm(*(p.alignment for p in blocks)) if blocks else 0
    for block in random.sample(blocks, len(blocks)):
        others = [(o, q) for q, o in placed if q.first <= block.last and block.first <= q.last]
        offset = next(
            candidate
            for end in sorted([lift, *(o + q.size for o, q in others)])
            for candidate in [-(-end // block.alignment) * block.alignment]
            if all(candidate + block.size <= o or o + q.size <= candidate for o, q in others)
        )
        placed.append((block, offset))
    for block, offset in random.sample(placed, min(len(placed), random.randint(1, 3))):
        for i, b in enumerate(buffers):
            # Buffers of an alias depend on each other, so they are not pinned individually.
            single = b.alias is None and b.size_bytes > 0
            if single and (b.lifetime.first, b.lifetime.last, b.aligned_bytes) == (block.first, block.last, block.size):
                if any(c.pinned == offset for c in buffers) or offset % b.alignment:
                    continue
                buffers[i] = _at(b, offset)
                break
    return LayoutProblem(tuple(buffers))


def _overlapping(problem: LayoutProblem, random: Random) -> LayoutProblem:
    """Return the problem with overlaps of pairs that are live together, mostly where the first ends or the second
    begins."""
    buffers = problem.buffers
    pairs = [
        (i, j)
        for i, one in enumerate(buffers)
        for j, other in enumerate(buffers)
        if i != j and one.lifetime.overlaps(other.lifetime)
    ]
    pairs = [(i, j) for i, j in pairs if buffers[i].lifetime.last == buffers[j].lifetime.first or random.random() < 0.2]
    overlaps = []
    for i, j in random.sample(pairs, random.randint(0, len(pairs))):
        sizes = buffers[i].size_bytes, buffers[j].size_bytes
        for _ in range(random.choice((1, 1, 2))):
            overlaps.append(Overlap(i, j, random.choice((0, random.randint(-sizes[0], sizes[1] + 2)))))
    return LayoutProblem(buffers, tuple(overlaps))


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
