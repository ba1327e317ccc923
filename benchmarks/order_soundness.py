"""Compare the order search with brute force over all orders, on random graphs of at most ten operators.

    python benchmarks/order_soundness.py [COUNT] [FIRST SEED]

Every order is checked and measured from the definition; every bound is compared with the true minimum peak, every proof
must be correct, and no problem this small may remain unproven. Prints a summary; the exit status is 1 if there is any
disagreement.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.memory.order.brute_force import minimum_peak, random_problem

from edgetool.memory.order.evaluate import check_order, peak
from edgetool.memory.order.network import network_of
from edgetool.memory.order.solve import BASELINES, solve_order
from edgetool.memory.problem import Effort

OPERATORS = 10


def disagreements(seed: int, seen: Counter[str]) -> list[str]:
    """Return the errors in the results for one graph; `seen` counts its properties."""
    problem = random_problem(random.Random(seed), OPERATORS)
    minimum = minimum_peak(problem)
    found = solve_order(problem, Effort())
    wrong = []
    check_order(problem, found.order)
    if peak(problem, found.order) != found.peak_bytes:
        wrong.append(f"the peak is {peak(problem, found.order)}, not {found.peak_bytes}")
    if found.lower_bound > minimum:
        wrong.append(f"the bound {found.lower_bound} is above the minimum peak {minimum}")
    if found.peak_bytes != minimum or not found.optimal:
        wrong.append(f"the peak is {found.peak_bytes} ({found.proof}), the minimum {minimum}")
    for name in BASELINES:
        other = solve_order(problem, Effort(), strategy=name)
        check_order(problem, other.order)
        if not other.lower_bound <= minimum <= other.peak_bytes or (other.optimal and other.peak_bytes > minimum):
            wrong.append(f"{name}: {other.lower_bound} to {other.peak_bytes} ({other.proof}), the minimum is {minimum}")
    seen[found.proof] += 1
    original = BASELINES["original"](network_of(problem))
    seen["better than the original order"] += found.order != original
    seen["graphs"] += 1
    return [f"seed {seed}: {each}" for each in wrong]


def main() -> int:
    count, first = [int(each) for each in (*sys.argv[1:3], *("2000", "0")[len(sys.argv) - 1 :])][:2]
    seen: Counter[str] = Counter()
    wrong = [line for seed in range(first, first + count) for line in disagreements(seed, seen)]
    print("\n".join([*wrong, *(f"{name}: {number}" for name, number in sorted(seen.items()))]))
    print(f"disagreements: {len(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
