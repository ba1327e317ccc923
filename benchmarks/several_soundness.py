"""Check whether placements in several memories are the cheapest: random problems, compared with a CP-SAT model.

    python -m benchmarks.several_soundness [--count 2000] [--seed 0]

This needs OR-Tools (the extra cp-sat). Problems have up to 12 buffers with mixed alignments in up to 3 memories; in
some, buffers cannot be in every memory or may overlap, and some are variations of problems without a layout as low as
the peak of live bytes. The reference model states the memory of a buffer as a choice, and the order of each pair of
buffers, and shares no code with the solver. The smallest height in one memory is compared, too. Prints how many
problems have a placement and how its cost and that height were proven, and every disagreement, also with what fits in a
single memory; the exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import replace
from itertools import combinations
from random import Random

from benchmarks.layout_soundness import KNOTS
from ortools.sat.python import cp_model

from edgetool.memory.checker import require_valid_choice, require_valid_lowest
from edgetool.memory.layout.solve import solve
from edgetool.memory.problem import Buffer, LayoutProblem, Lifetime, Memory, Overlap, SeveralProblem
from edgetool.memory.several import NoChoice, solve_lowest, solve_several


def random_problem(seed: int) -> SeveralProblem:
    """Return the problem of a seed."""
    random = Random(seed)
    moments, count = random.randint(2, 10), random.randint(1, 12)
    buffers, alignments = [], (1, 1, 1, 2, 4)
    for index in range(count):
        first = random.randrange(moments)
        last = min(moments - 1, first + random.choice((0, 0, 1, 1, 2, 3, 5)))
        size = random.randint(0, 12)
        buffers.append(_buffer(index, first, last, size, random.choice(alignments)))
    memories = tuple(Memory(f"m{index}", random.randint(6, 30)) for index in range(random.randint(1, 3)))
    if seed % 4 == 0:
        knot = random.choice(KNOTS)
        buffers = [_buffer(index, first, last, size, 1) for index, (first, last, size) in enumerate(knot)]
        live = max(sum(size for first, last, size in knot if first <= t <= last) for t in range(6))
        memories = (Memory("m0", live), *memories[1:])
    costs = tuple(
        tuple(
            None if random.random() < 0.1 else random.randint(0, 3 + 9 * index) * max(1, buffer.size_bytes)
            for index in range(len(memories))
        )
        for buffer in buffers
    )
    overlaps: list[Overlap] = []
    for first, one in enumerate(buffers):
        for second, other in enumerate(buffers):
            if (
                seed % 3 == 0
                and one.lifetime.last == other.lifetime.first > one.lifetime.first
                and random.random() < 0.5
            ):
                pair = (first, second) if random.random() < 0.7 else (second, first)
                overlaps.append(Overlap(*pair, random.randint(0, 6)))
    return SeveralProblem(LayoutProblem(tuple(buffers), tuple(overlaps)), memories, costs)


def _buffer(index: int, first: int, last: int, size: int, alignment: int) -> Buffer:
    return Buffer(0, -1, f"b{index}", size, Lifetime(first, last), alignment=alignment, granule=1)


def reference(problem: SeveralProblem, lowest: int | None = None) -> int | None:
    """Return the cost of the cheapest placement by the reference model, or the smallest height in the memory `lowest`.

    None if no placement fits. Raises RuntimeError if CP-SAT does not decide it.
    """
    model = cp_model.CpModel()
    height = model.new_int_var(0, 0 if lowest is None else problem.memories[lowest].size_bytes, "")
    chosen: list[dict[int, cp_model.IntVar]] = []
    starts: list[cp_model.LinearExpr] = []
    total: list[cp_model.LinearExpr] = []
    highest = max(memory.size_bytes for memory in problem.memories)
    for buffer, costs in zip(problem.buffers.buffers, problem.costs, strict=True):
        choices = {memory: model.new_bool_var("") for memory, cost in enumerate(costs) if cost is not None}
        if not choices:
            return None
        model.add_exactly_one(choices.values())
        start = model.new_int_var(0, highest, "") * buffer.alignment
        for memory, choice in choices.items():
            total.append((costs[memory] or 0) * choice)
            if buffer.size_bytes:
                end = start + buffer.size_bytes
                model.add(end <= problem.memories[memory].size_bytes).only_enforce_if(choice)
                if memory == lowest:
                    model.add(end <= height).only_enforce_if(choice)
        chosen.append(choices)
        starts.append(start)
    distances: dict[tuple[int, int], list[int]] = {}
    for item in problem.buffers.overlaps:
        distances.setdefault((item.first, item.second), []).append(item.min_distance)
    buffers = problem.buffers.buffers
    for first, second in combinations(range(len(buffers)), 2):
        a, b = buffers[first], buffers[second]
        if not a.size_bytes or not b.size_bytes or not a.lifetime.overlaps(b.lifetime):
            continue
        allowed = [starts[first] + a.size_bytes <= starts[second], starts[second] + b.size_bytes <= starts[first]]
        allowed += [starts[first] - starts[second] >= distance for distance in distances.get((first, second), ())]
        allowed += [starts[second] - starts[first] >= distance for distance in distances.get((second, first), ())]
        orders = [model.new_bool_var("") for _ in allowed]
        for condition, order in zip(allowed, orders, strict=True):
            model.add(condition).only_enforce_if(order)
        for memory in chosen[first].keys() & chosen[second].keys():
            model.add_bool_or([*orders, chosen[first][memory].negated(), chosen[second][memory].negated()])
    model.minimize(sum(total) if lowest is None else height)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = 20.0
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.INFEASIBLE):
        raise RuntimeError("the reference model is undecided")
    return round(solver.objective_value) if status == cp_model.OPTIMAL else None


def least_together(problem: SeveralProblem) -> int | None:
    """Return the cost of all buffers in the cheapest single memory that has room for them; None if none has."""
    costs = []
    for index, memory in enumerate(problem.memories):
        own = [costs[index] for costs in problem.costs]
        if None not in own and solve(problem.buffers, capacity=memory.size_bytes).height <= memory.size_bytes:
            costs.append(sum(cost or 0 for cost in own))
    return min(costs, default=None)


def compare(seed: int) -> tuple[str, str | None]:
    """Return how the result of a seed was proven, and a disagreement if there is one."""
    problem = random_problem(seed)
    result, expected = solve_several(problem), reference(problem)
    if isinstance(result, NoChoice):
        agrees = result.proven and expected is None
        return "nothing fits", None if agrees else f"seed {seed}: nothing found, {expected} expected"
    require_valid_choice(problem, result)
    together = least_together(problem)
    if result.cost != expected or not result.optimal:
        return result.proof, f"seed {seed}: cost {result.cost} ({result.proof}), {expected} expected"
    if together is not None and together < result.cost:
        return result.proof, f"seed {seed}: cost {result.cost}, {together} in a single memory"
    return result.proof, None


def compare_height(seed: int) -> tuple[str, str | None]:
    """Return how the smallest height in a memory was proven for a seed, and a disagreement if there is one."""
    problem = random_problem(seed)
    memory = seed % len(problem.memories)
    result, expected = solve_lowest(problem, memory), reference(problem, memory)
    if isinstance(result, NoChoice):
        agrees = result.proven and expected is None
        return "nothing fits", None if agrees else f"seed {seed}: nothing found, a height of {expected} expected"
    require_valid_lowest(problem, result)
    if result.height != expected or result.proof == "none":
        return result.proof, f"seed {seed}: height {result.height} ({result.proof}), {expected} expected"
    limited = _with_size(problem, memory, result.height)
    if result.layout.cost != reference(limited) or not result.layout.optimal:
        return result.proof, f"seed {seed}: cost {result.layout.cost} with height {result.height} is not the least"
    return result.proof, None


def _with_size(problem: SeveralProblem, memory: int, size_bytes: int) -> SeveralProblem:
    memories = list(problem.memories)
    memories[memory] = Memory(memories[memory].name, size_bytes)
    return replace(problem, memories=tuple(memories))


def main() -> int:
    """Print the counts and the disagreements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    disagreements: list[str] = []
    for what, judge in (("cost", compare), ("height", compare_height)):
        proofs: Counter[str] = Counter()
        for seed in range(given.seed, given.seed + given.count):
            proof, disagreement = judge(seed)
            proofs[proof] += 1
            disagreements += [] if disagreement is None else [disagreement]
        counts = ", ".join(f"{count} {name}" for name, count in sorted(proofs.items()))
        print(f"{what} of {given.count} problems: {counts}")
    print(*disagreements or ["no disagreement"], sep="\n")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
